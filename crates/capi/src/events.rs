//! Converts events between C's form and Rust's, both ways.

use paceline_congestion::{
    Ack, CaState, Config, Ecn, Lost, Outputs, PacketState, RateSample, RecoveryWindow, Sent,
    Signals,
};
use paceline_endpoint::Stats;
use paceline_units::{Bytes, Duration, Instant, Rate};

use crate::stack::paceline_stats;
use crate::types::*;

/// A value of ours that is plain data of the type `C` at the boundary.
pub(crate) trait Plain<C> {
    /// The value of this plain data, which may be anything.
    fn of(plain: C) -> Self;
    /// The plain data of this value.
    fn plain(self) -> C;
}

/// What is plain already.
impl<C> Plain<C> for C {
    fn of(plain: C) -> Self {
        plain
    }

    fn plain(self) -> C {
        self
    }
}

/// Absent is [`PACELINE_NONE`].
impl<T: Plain<u64>> Plain<u64> for Option<T> {
    fn of(plain: u64) -> Self {
        (plain != PACELINE_NONE).then(|| T::of(plain))
    }

    fn plain(self) -> u64 {
        self.map_or(PACELINE_NONE, T::plain)
    }
}

/// Implements [`Plain`] by a function for each direction.
macro_rules! plain {
    ($($ours:ident as $c:ident: $of:expr, $plain:expr;)*) => {$(
        impl Plain<$c> for $ours {
            fn of(plain: $c) -> Self {
                ($of)(plain)
            }

            fn plain(self) -> $c {
                ($plain)(self)
            }
        }
    )*};
}

plain! {
    Bytes as u64: Self::new, Self::get;
    Duration as u64: Self::from_nanos, Self::as_nanos;
    Instant as u64: Self::from_nanos, Self::as_nanos;
    Rate as u64: Self::from_bps, Self::bps;
    bool as u8: |flag| flag != 0, u8::from;
    CaState as u32: state, |state| state as u32;
    Ecn as u32: ecn, codepoint;
    PacketState as paceline_packet: |packet| Self::from(&packet), |packet: Self| (&packet).into();
    RateSample as paceline_sample: |sample| Self::from(&sample), |sample: Self| (&sample).into();
}

/// The recovery state of a number; an unknown number is `Open`.
fn state(number: u32) -> CaState {
    match number {
        PACELINE_CA_DISORDER => CaState::Disorder,
        PACELINE_CA_CWR => CaState::Cwr,
        PACELINE_CA_RECOVERY => CaState::Recovery,
        PACELINE_CA_LOSS => CaState::Loss,
        _ => CaState::Open,
    }
}

/// Converts a type of ours and its twin in C both ways, by the fields that correspond. `but` sets those that only ours
/// has, and then those that only the twin has.
macro_rules! twins {
    ($($ours:ident = $c:ident {
        $($field:ident = $c_field:ident,)*
    } $(but { $($only:ident: $value:expr)? } { $($c_only:ident: $c_value:expr)? })?;)*) => {$(
        impl From<&$c> for $ours {
            fn from(c: &$c) -> Self {
                Self {
                    $($field: Plain::of(c.$c_field),)*
                    $($($only: $value,)?)?
                }
            }
        }

        impl From<&$ours> for $c {
            fn from(ours: &$ours) -> Self {
                Self {
                    $($c_field: ours.$field.plain(),)*
                    $($($c_only: $c_value,)?)?
                }
            }
        }
    )*};
}

twins! {
    PacketState = paceline_packet {
        delivered = delivered_bytes,
        delivered_ce = delivered_ce_bytes,
        lost = lost_bytes,
        tx_in_flight = tx_in_flight_bytes,
        delivered_time = delivered_time_ns,
        first_send_time = first_send_time_ns,
        send_time = send_time_ns,
        size = size_bytes,
        app_limited = app_limited,
    } but {} { reserved: [0; 3] };

    Sent = paceline_sent {
        now = now_ns,
        size = size_bytes,
        in_flight = in_flight_bytes,
        app_limited = app_limited,
    } but {} { reserved: [0; 3] };

    Lost = paceline_lost {
        now = now_ns,
        packet = packet,
        lost = lost_bytes,
        delivered = delivered_bytes,
        in_flight = in_flight_bytes,
        starts_range = starts_range,
        retransmission = retransmission,
    } but {} { reserved: [0; 6] };

    RateSample = paceline_sample {
        has_data = has_data,
        delivered = delivered_bytes,
        delivered_ce = delivered_ce_bytes,
        prior_delivered = prior_delivered_bytes,
        interval = interval_ns,
        tx_in_flight = tx_in_flight_bytes,
        lost = lost_bytes,
        app_limited = app_limited,
    } but {} { reserved: [0; 6] };

    Ack = paceline_ack {
        now = now_ns,
        sample = sample,
        newly_acked = newly_acked_bytes,
        newly_lost = newly_lost_bytes,
        newly_marked = newly_marked_bytes,
        prior_in_flight = prior_in_flight_bytes,
        in_flight = in_flight_bytes,
        delivered = delivered_bytes,
        lost = lost_bytes,
        sent = sent_bytes,
        rtt = rtt_ns,
        srtt = srtt_ns,
        min_rtt = min_rtt_ns,
        cwnd_limited = cwnd_limited,
        ca_state = ca_state,
        una_advanced = una_advanced,
        delayed = delayed,
        one_way_delay = one_way_delay_ns,
        network_rtt = network_rtt_ns,
        receiver_delay = receiver_delay_ns,
        ece = ece,
    };

    Stats = paceline_stats {
        cwnd = cwnd_bytes,
        in_flight = in_flight_bytes,
        pacing_rate = pacing_rate_bps,
        delivery_rate = delivery_rate_bps,
        latest_rtt = latest_rtt_ns,
        srtt = srtt_ns,
        min_rtt = min_rtt_ns,
        acknowledged = acknowledged_bytes,
        sent_packets = sent_packets,
        lost_packets = lost_packets,
        retransmitted_packets = retransmitted_packets,
        app_limited = app_limited,
        bandwidth = bandwidth_bps,
    } but { phase: "" } { reserved: [0; 7] };
}

impl From<&paceline_config> for Config {
    fn from(c: &paceline_config) -> Self {
        Self {
            mss: c.mss_bytes,
            initial_window: Plain::of(c.initial_window_bytes),
            seed: c.seed,
            now: Plain::of(c.now_ns),
            srtt: Plain::of(c.srtt_ns),
            has_selective_acks: Plain::of(c.has_selective_acks),
        }
    }
}

impl paceline_config {
    /// The configuration of a controller made by a transport with these signals.
    pub fn of(config: &Config, signals: Signals) -> Self {
        Self {
            mss_bytes: config.mss,
            has_selective_acks: config.has_selective_acks.plain(),
            reserved: [0; 3],
            initial_window_bytes: config.initial_window.plain(),
            seed: config.seed,
            now_ns: config.now.plain(),
            srtt_ns: config.srtt.plain(),
            signals: signals.bits(),
        }
    }
}

impl From<&Outputs> for paceline_outputs {
    fn from(r: &Outputs) -> Self {
        Self {
            cwnd_bytes: r.cwnd.plain(),
            pacing_rate_bps: r.pacing_rate.plain(),
            send_quantum_bytes: r.send_quantum.plain(),
            ssthresh_bytes: r.ssthresh.plain(),
            round_count: r.round_count,
            ecn: r.ecn.plain(),
            uses_prr: (r.recovery_window == RecoveryWindow::Prr).plain(),
            marks_app_limited: r.marks_app_limited.plain(),
            pacer_below: r.pacer_below.plain(),
            has_ssthresh: r.ssthresh.is_some().plain(),
        }
    }
}

/// The number of a codepoint.
pub fn codepoint(ecn: Ecn) -> u32 {
    match ecn {
        Ecn::NotEct => PACELINE_NOT_ECT,
        Ecn::Ect0 => PACELINE_ECT0,
        Ecn::Ect1 => PACELINE_ECT1,
        Ecn::Ce => PACELINE_CE,
    }
}

/// The codepoint of a number; an unknown number is not ECN-capable.
pub fn ecn(number: u32) -> Ecn {
    match number {
        PACELINE_ECT0 => Ecn::Ect0,
        PACELINE_ECT1 => Ecn::Ect1,
        PACELINE_CE => Ecn::Ce,
        _ => Ecn::NotEct,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each has its own bit, in the order in which they are shown, and the constant of its name.
    #[test]
    fn signals_have_the_bits_of_their_constants() {
        let constants = [
            ("losses_first", PACELINE_SIGNAL_LOSSES_FIRST),
            ("loss_per_packet", PACELINE_SIGNAL_LOSS_PER_PACKET),
            ("marks", PACELINE_SIGNAL_MARKS),
            ("mark_counts", PACELINE_SIGNAL_MARK_COUNTS),
            ("ect1", PACELINE_SIGNAL_ECT1),
            ("spurious_loss", PACELINE_SIGNAL_SPURIOUS_LOSS),
            ("pacing", PACELINE_SIGNAL_PACING),
            ("one_way_delay", PACELINE_SIGNAL_ONE_WAY_DELAY),
            ("receiver_delay", PACELINE_SIGNAL_RECEIVER_DELAY),
            ("app_limited_at_send", PACELINE_SIGNAL_APP_LIMITED_AT_SEND),
        ];
        let mut shown = Vec::new();
        Signals::ALL.visit(&mut |name, _, _| shown.push((name, 1 << shown.len())));
        assert_eq!(shown, constants);
        assert_eq!(Signals::from_bits(Signals::ALL.bits()), Signals::ALL);
        assert_eq!(Signals::NONE.bits(), 0);
        for bit in 0..64 {
            let sum = 1 << bit;
            assert_eq!(Signals::from_bits(sum).bits(), sum & Signals::ALL.bits());
        }
        let one = Signals {
            ect1: true,
            ..Signals::NONE
        };
        assert_eq!(one.bits(), PACELINE_SIGNAL_ECT1);
    }
}
