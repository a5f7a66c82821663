//! The interface between Linux's stack and its congestion control.

use super::arithmetic::FixedPoint;
use crate::{CaState, Cue, Described};

/// The fields of Linux's socket that BBR reads and writes.
///
/// Counts are in packets and wrap at 2^32.
#[derive(Clone, Copy, Debug, Default)]
pub struct Socket {
    /// The time, in microseconds (`tcp_mstamp`).
    pub now: u64,
    /// The kernel's clock in milliseconds, if it is coarser than the time (`tcp_jiffies32`).
    pub jiffies: Option<u32>,
    /// When the pacer releases the next packet, in nanoseconds (`tcp_wstamp_ns`).
    pub wstamp_ns: u64,
    /// Time of the latest delivery, in microseconds (`delivered_mstamp`).
    pub delivered_mstamp: u64,
    /// Pacing rate in bytes per second (`sk_pacing_rate`); BBR sets it.
    pub pacing_rate: u64,
    /// Bytes in a packet (`mss_cache`).
    pub mss: u32,
    /// Congestion window (`snd_cwnd`); BBR and the stack set it.
    pub cwnd: u32,
    /// Packets delivered (`delivered`).
    pub delivered: u32,
    /// Packets delivered with CE (`delivered_ce`).
    pub delivered_ce: u32,
    /// Packets declared lost (`lost`).
    pub lost: u32,
    /// Packets in flight (`tcp_packets_in_flight`).
    pub packets_in_flight: u32,
    /// The application-limited mark, 0 if there is none (`app_limited`); BBR sets it in PROBE_RTT.
    pub app_limited: u32,
    /// Smoothed RTT in microseconds, 0 before the first sample.
    pub srtt: u32,
    /// The stack's minimum RTT in microseconds, `u32::MAX` before the first sample.
    pub min_rtt: u32,
    /// Whether the window limited the data in flight (`is_cwnd_limited`).
    pub is_cwnd_limited: bool,
    /// Recovery state (`icsk_ca_state`).
    pub ca_state: CaState,
    /// Whether ECN was negotiated and the route marks at a shallow threshold
    /// (`TCP_ECN_OK` and `TCP_ECN_LOW`).
    pub ecn_low: bool,
    /// Whether the data that a tail-loss probe repeats was application-limited.
    pub tlp_orig_data_app_limited: bool,
}

impl Socket {
    /// The time in jiffies, at 1000 a second.
    pub(super) fn jiffies(&self) -> u32 {
        self.jiffies.unwrap_or((self.now / 1_000) as u32)
    }
}

/// Whether the stack is in recovery (`>= TCP_CA_Recovery`).
pub(super) fn in_recovery(state: CaState) -> bool {
    matches!(state, CaState::Recovery | CaState::Loss)
}

/// Linux's `struct rate_sample`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Interval in microseconds; -1 when there is no valid sample.
    pub interval_us: i64,
    /// RTT of the newest packet in microseconds; -1 when there is none.
    pub rtt_us: i64,
    /// Packets delivered over the interval; -1 when there is no sample.
    pub delivered: i32,
    /// Packets delivered with CE over the interval.
    pub delivered_ce: i32,
    /// Packets lost since the newest delivered one was sent.
    pub lost: i32,
    /// `delivered` when that packet was sent.
    pub prior_delivered: u32,
    /// Packets newly acknowledged, cumulatively or selectively.
    pub acked_sacked: u32,
    /// Packets newly declared lost on this ACK.
    pub losses: u32,
    /// Packets in flight when the newest delivered one was sent.
    pub tx_in_flight: u32,
    /// Packets in flight before this ACK.
    pub prior_in_flight: u32,
    /// Whether the sample is application-limited.
    pub is_app_limited: bool,
    /// Whether the ACK carries ECE.
    pub is_ece: bool,
    /// Whether a delayed-ACK timer may have held it back.
    pub is_ack_delayed: bool,
    /// Whether it acknowledges a tail-loss probe.
    pub is_acking_tlp_retrans_seq: bool,
}

/// A packet, or a burst sent as one, that was marked lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct LostPacket {
    /// Packets in it (`tcp_skb_pcount`).
    pub pcount: u32,
    /// Packets in flight when it was sent (`tx.in_flight`).
    pub tx_in_flight: u32,
    /// `lost` when it was sent (`tx.lost`).
    pub tx_lost: u32,
    /// Whether it was sent while application-limited.
    pub is_app_limited: bool,
}

/// A source of random draws: given `n`, a number below it (`get_random_u32_below`).
pub type Random<'a> = dyn FnMut(u32) -> u32 + 'a;

/// A value of an algorithm's state, in Linux's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Packets; `u32::MAX` is unset.
    Packets(u32),
    /// Packets per microsecond `<< 24`; `u32::MAX` is unset.
    Bandwidth(u32),
    /// Bytes per second.
    BytesPerSec(u64),
    /// Microseconds; `u32::MAX` is unset.
    Micros(u32),
    /// 256ths.
    Gain(FixedPoint),
    /// A count.
    Count(u32),
    /// A flag.
    Flag(bool),
}

impl Field {
    /// The bare number.
    pub fn raw(self) -> u64 {
        match self {
            Self::BytesPerSec(value) => value,
            Self::Packets(value)
            | Self::Bandwidth(value)
            | Self::Micros(value)
            | Self::Gain(value)
            | Self::Count(value) => u64::from(value),
            Self::Flag(value) => u64::from(value),
        }
    }
}

/// Linux's `struct tcp_congestion_ops`, as implemented by BBR.
pub trait Algorithm: Described + Sized {
    /// `init`: the connection is established.
    fn new(sk: &mut Socket, parameters: Self::Parameters) -> Self;

    /// `cong_control`: an ACK was processed.
    fn cong_control(&mut self, sk: &mut Socket, rs: &RateSample, random: &mut Random<'_>);

    /// `skb_marked_lost`: a packet was marked lost.
    fn skb_marked_lost(&mut self, _sk: &mut Socket, _skb: &LostPacket, _random: &mut Random<'_>) {}

    /// `ssthresh`: the stack is about to enter recovery.
    fn ssthresh(&mut self, sk: &Socket);

    /// `set_state`: the recovery state changes to `state`; the window already has the stack's change.
    fn set_state(&mut self, sk: &mut Socket, state: CaState, random: &mut Random<'_>);

    /// `undo_cwnd`: the recovery was spurious. Returns the window to restore.
    fn undo_cwnd(&mut self, sk: &Socket) -> u32;

    /// `cwnd_event(CA_EVENT_TX_START)`: sending starts with nothing in flight.
    fn tx_start(&mut self, sk: &mut Socket, random: &mut Random<'_>);

    /// `cwnd_event(CA_EVENT_TLP_RECOVERY)`: a tail-loss probe repaired a loss.
    fn tlp_recovery(&mut self, _sk: &Socket, _random: &mut Random<'_>) {}

    /// See [`Controller::follow`](crate::Controller::follow).
    fn follow(&mut self, _sk: &Socket, _cue: Cue) {}

    /// Packets in a burst (`tso_segs`).
    fn tso_segs(&self, sk: &Socket) -> u32;

    /// Whether the pacing rate applies now; if not, only the ACK clock releases packets.
    fn is_paced(&self) -> bool {
        true
    }

    /// Whether it wants its packets ECN-capable, given its parameters.
    fn wants_ecn(&self) -> bool {
        false
    }

    /// The state, by Linux's name.
    fn phase(&self) -> &'static str;

    /// Rounds so far, if it counts them.
    fn round_count(&self) -> u32 {
        0
    }

    /// Names the values of [`visit`](Self::visit), in the same order; `state!` writes both.
    fn visit_fields(visit: &mut dyn FnMut(paceline_units::Field));

    /// Every field that a golden trace shows, in its order, by Linux's names.
    fn visit(&self, sk: &Socket, visit: &mut (impl FnMut(&'static str, Field) + ?Sized));
}
