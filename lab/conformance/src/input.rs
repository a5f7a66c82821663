//! The events of a trace.

mod cubic;
mod window;

use paceline_congestion::CaState;
use paceline_congestion::linux::{LostPacket, RateSample};
use strum::IntoStaticStr;

use crate::pairs::Pairs;
pub use cubic::CubicInput;
pub(crate) use cubic::Kind;
pub use window::WindowInput;

/// Jiffies a second of BBR's clock.
pub(crate) const JIFFIES: u32 = 1000;

/// The kinds of event.
#[derive(Clone, Copy, Debug, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[expect(
    missing_docs,
    reason = "the fields are those of Linux's socket of the same names"
)]
pub enum Input {
    /// `I`: the connection is established.
    Init {
        cwnd: u32,
        mss: u32,
        srtt: u32,
        min_rtt: u32,
        ecn_flags: u32,
        delivered: u32,
        hz: u32,
    },
    /// `A`: an ACK was processed.
    Ack {
        socket: AckSocket,
        sample: RateSample,
    },
    /// `L`: a packet was marked lost.
    Lost {
        delivered: u32,
        lost: u32,
        cwnd: u32,
        packet: LostPacket,
    },
    /// `H`: `ssthresh()`.
    Ssthresh,
    /// `C`: the recovery state changes; `cwnd` has the stack's change.
    #[strum(serialize = "castate")]
    SetState { state: CaState, cwnd: u32 },
    /// `U`: `undo_cwnd()`.
    Undo,
    /// `X`: sending starts after idle.
    TxStart { app_limited: u32 },
    /// `T`: a tail-loss probe repaired a loss.
    Tlp { delivered: u32, app_limited: bool },
    /// A lower-case letter: an event of CUBIC.
    Cubic(CubicInput),
    /// Another lower-case letter: an event of Reno or DCTCP.
    Window(WindowInput),
}

impl Input {
    /// Its name, as in a state line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cubic(input) => (&input.kind).into(),
            Self::Window(input) => input.into(),
            input => input.into(),
        }
    }

    /// Parses the event of a line.
    pub(crate) fn read(pairs: &mut Pairs<'_>) -> Result<Self, String> {
        Ok(match pairs.letter {
            "I" => Self::Init {
                cwnd: pairs.get("cwnd")?,
                mss: pairs.get("mss")?,
                srtt: pairs.get("srtt")?,
                min_rtt: pairs.get("minrtt")?,
                ecn_flags: pairs.get("ecn_flags")?,
                delivered: pairs.find("d")?.unwrap_or(0),
                hz: hz(pairs)?,
            },
            "A" => Self::Ack {
                socket: ack_socket(pairs)?,
                sample: rate_sample(pairs)?,
            },
            "L" => Self::Lost {
                delivered: pairs.get("d")?,
                lost: pairs.get("lost")?,
                cwnd: pairs.get("cwnd")?,
                packet: LostPacket {
                    pcount: pairs.get("pcount")?,
                    tx_in_flight: pairs.get("txif")?,
                    tx_lost: pairs.get("txlost")?,
                    is_app_limited: pairs.flag("app")?,
                },
            },
            "H" => Self::Ssthresh,
            "C" => Self::SetState {
                state: pairs.ca_state()?,
                cwnd: pairs.get("cwnd")?,
            },
            "U" => Self::Undo,
            "X" => Self::TxStart {
                app_limited: pairs.get("apl")?,
            },
            "T" => Self::Tlp {
                delivered: pairs.get("d")?,
                app_limited: pairs.flag("apl")?,
            },
            letter => {
                if let Some(input) = CubicInput::read(letter, pairs)? {
                    Self::Cubic(input)
                } else if let Some(input) = WindowInput::read(letter, pairs)? {
                    Self::Window(input)
                } else {
                    return Err(format!("no event begins with {letter:?}"));
                }
            }
        })
    }
}

/// Jiffies a second: a divisor of 1000, which the algorithm's own clock has.
fn hz(pairs: &mut Pairs<'_>) -> Result<u32, String> {
    match pairs.find("hz")? {
        None => Ok(JIFFIES),
        Some(hz) if JIFFIES.is_multiple_of(hz) => Ok(hz),
        Some(hz) => Err(format!("hz={hz} does not divide {JIFFIES}")),
    }
}

/// The socket's fields in an `A` line.
#[derive(Clone, Copy, Debug)]
#[expect(
    missing_docs,
    reason = "the fields are those of Linux's socket of the same names"
)]
pub struct AckSocket {
    pub delivered: u32,
    pub delivered_ce: u32,
    pub delivered_mstamp: u64,
    pub lost: u32,
    pub packets_in_flight: u32,
    pub is_cwnd_limited: bool,
    pub ca_state: CaState,
    pub wstamp_ns: u64,
    pub srtt: u32,
    pub min_rtt: u32,
    pub app_limited: u32,
}

fn ack_socket(pairs: &mut Pairs<'_>) -> Result<AckSocket, String> {
    let [delivered, delivered_ce] = [pairs.get("d")?, pairs.get("dce")?];
    let delivered_mstamp = pairs.get("dmst")?;
    let lost = pairs.get("lost")?;
    let mut packets = |key| pairs.get::<u32>(key);
    let (out, lost_out) = (packets("pout")?, packets("lout")?);
    let (sacked, retrans) = (packets("sout")?, packets("rout")?);
    Ok(AckSocket {
        delivered,
        delivered_ce,
        delivered_mstamp,
        lost,
        packets_in_flight: out
            .wrapping_sub(lost_out)
            .wrapping_sub(sacked)
            .wrapping_add(retrans),
        is_cwnd_limited: pairs.flag("cwl")?,
        ca_state: pairs.ca_state()?,
        wstamp_ns: pairs.get("wst")?,
        srtt: pairs.get("srtt")?,
        min_rtt: pairs.get("mrtt")?,
        app_limited: pairs.get("apl")?,
    })
}

fn rate_sample(pairs: &mut Pairs<'_>) -> Result<RateSample, String> {
    Ok(RateSample {
        delivered: pairs.get("rs.del")?,
        interval_us: pairs.get("rs.int")?,
        prior_delivered: pairs.get("rs.pdel")?,
        rtt_us: pairs.get("rs.rtt")?,
        acked_sacked: pairs.get("rs.acked")?,
        losses: pairs.get("rs.losses")?,
        lost: pairs.get("rs.lost")?,
        tx_in_flight: pairs.get("rs.txif")?,
        prior_in_flight: pairs.get("rs.pif")?,
        delivered_ce: pairs.get("rs.dce")?,
        is_app_limited: pairs.flag("rs.app")?,
        is_ece: pairs.flag("rs.ece")?,
        is_ack_delayed: pairs.flag("rs.ackdel")?,
        is_acking_tlp_retrans_seq: pairs.flag("rs.tlp")?,
    })
}
