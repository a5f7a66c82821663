//! The events of CUBIC's traces.

use paceline_congestion::linux::cubic::{Detect, Parameters};
use paceline_units::Duration;

use crate::pairs::Pairs;

/// The kinds of event, each at `jiffies`.
#[derive(Clone, Copy, Debug)]
pub struct CubicInput {
    pub(crate) jiffies: u32,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Kind {
    /// `i`: the connection is established.
    Init {
        parameters: Parameters,
        cwnd: u32,
        una: u32,
        nxt: u32,
    },
    /// `a`: `pkts_acked()`; a negative RTT means none.
    Acked {
        una: u32,
        nxt: u32,
        rate: u64,
        rtt: i32,
    },
    /// `g`: `cong_avoid()`.
    Grow { acked: u32, limited: bool },
    /// `h`: a reduction begins, with `ssthresh()`.
    Reduce,
    /// `s`: the stack sets the window.
    Stack { cwnd: u32, ssthresh: u32, cnt: u32 },
    /// `l`: `set_state(TCP_CA_Loss)`.
    Loss { nxt: u32 },
    /// `u`: `undo_cwnd()`.
    Undo,
    /// `x`: sending starts with nothing in flight.
    TxStart { lsndtime: u32 },
}

impl CubicInput {
    /// Parses the event of a line, if its letter names one.
    pub(crate) fn read(letter: &str, pairs: &mut Pairs<'_>) -> Result<Option<Self>, String> {
        if !matches!(letter, "i" | "a" | "g" | "h" | "s" | "l" | "u" | "x") {
            return Ok(None);
        }
        let jiffies = pairs.get("j")?;
        let kind = match letter {
            "i" => Kind::Init {
                parameters: parameters(pairs)?,
                cwnd: pairs.get("cwnd")?,
                una: pairs.get("una")?,
                nxt: pairs.get("nxt")?,
            },
            "a" => Kind::Acked {
                una: pairs.get("una")?,
                nxt: pairs.get("nxt")?,
                rate: pairs.get("rate")?,
                rtt: pairs.get("rtt")?,
            },
            "g" => Kind::Grow {
                acked: pairs.get("acked")?,
                limited: pairs.flag("cwl")?,
            },
            "h" => Kind::Reduce,
            "s" => Kind::Stack {
                cwnd: pairs.get("cwnd")?,
                ssthresh: pairs.get("ssthresh")?,
                cnt: pairs.get("cnt")?,
            },
            "l" => Kind::Loss {
                nxt: pairs.get("nxt")?,
            },
            "u" => Kind::Undo,
            _ => Kind::TxStart {
                lsndtime: pairs.get("lsnd")?,
            },
        };
        Ok(Some(Self { jiffies, kind }))
    }
}

fn parameters(pairs: &mut Pairs<'_>) -> Result<Parameters, String> {
    Ok(Parameters {
        hz: pairs.get("hz")?,
        pacing: pairs.flag("paced")?,
        hystart: pairs.flag("hystart")?,
        hystart_detect: match pairs.get("detect")? {
            1 => Detect::Train,
            2 => Detect::Delay,
            3 => Detect::Both,
            other => return Err(format!("detect={other} is none of 1, 2 and 3")),
        },
        hystart_low_window: pairs.get("low")?,
        hystart_ack_delta: Duration::from_micros(pairs.get("delta")?),
        fast_convergence: pairs.flag("fast")?,
        beta: pairs.get("beta")?,
        bic_scale: pairs.get("scale")?,
        tcp_friendliness: pairs.flag("friendly")?,
        initial_ssthresh: pairs.get("issthresh")?,
        ecn: false,
    })
}
