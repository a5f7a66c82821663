//! Converts events between C's form and Rust's, both ways.

use paceline_congestion::{
    Ack, CaState, Config, Ecn, Lost, Outputs, PacketState, RateSample, RecoveryWindow, Sent,
    Signals,
};
use paceline_units::{Bytes, Duration, Instant, Rate};

use crate::types::*;

fn span(nanos: u64) -> Option<Duration> {
    (nanos != PACELINE_NONE).then(|| Duration::from_nanos(nanos))
}

fn nanos(span: Option<Duration>) -> u64 {
    span.map_or(PACELINE_NONE, Duration::as_nanos)
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

impl From<&paceline_packet> for PacketState {
    fn from(c: &paceline_packet) -> Self {
        Self {
            delivered: Bytes::new(c.delivered_bytes),
            delivered_ce: Bytes::new(c.delivered_ce_bytes),
            lost: Bytes::new(c.lost_bytes),
            tx_in_flight: Bytes::new(c.tx_in_flight_bytes),
            delivered_time: Instant::from_nanos(c.delivered_time_ns),
            first_send_time: Instant::from_nanos(c.first_send_time_ns),
            send_time: Instant::from_nanos(c.send_time_ns),
            size: c.size_bytes,
            app_limited: c.app_limited != 0,
        }
    }
}

impl From<&PacketState> for paceline_packet {
    fn from(r: &PacketState) -> Self {
        Self {
            delivered_bytes: r.delivered.get(),
            delivered_ce_bytes: r.delivered_ce.get(),
            lost_bytes: r.lost.get(),
            tx_in_flight_bytes: r.tx_in_flight.get(),
            delivered_time_ns: r.delivered_time.as_nanos(),
            first_send_time_ns: r.first_send_time.as_nanos(),
            send_time_ns: r.send_time.as_nanos(),
            size_bytes: r.size,
            app_limited: r.app_limited.into(),
            reserved: [0; 3],
        }
    }
}

impl From<&paceline_config> for Config {
    fn from(c: &paceline_config) -> Self {
        Self {
            mss: c.mss_bytes,
            initial_window: Bytes::new(c.initial_window_bytes),
            seed: c.seed,
            now: Instant::from_nanos(c.now_ns),
            srtt: span(c.srtt_ns),
            has_selective_acks: c.has_selective_acks != 0,
        }
    }
}

impl From<&paceline_sent> for Sent {
    fn from(c: &paceline_sent) -> Self {
        Self {
            now: Instant::from_nanos(c.now_ns),
            size: c.size_bytes,
            in_flight: Bytes::new(c.in_flight_bytes),
            app_limited: c.app_limited != 0,
        }
    }
}

impl From<&Sent> for paceline_sent {
    fn from(r: &Sent) -> Self {
        Self {
            now_ns: r.now.as_nanos(),
            size_bytes: r.size,
            in_flight_bytes: r.in_flight.get(),
            app_limited: r.app_limited.into(),
            reserved: [0; 3],
        }
    }
}

impl From<&paceline_lost> for Lost {
    fn from(c: &paceline_lost) -> Self {
        Self {
            now: Instant::from_nanos(c.now_ns),
            packet: (&c.packet).into(),
            lost: Bytes::new(c.lost_bytes),
            delivered: Bytes::new(c.delivered_bytes),
            in_flight: Bytes::new(c.in_flight_bytes),
            starts_range: c.starts_range != 0,
            retransmission: c.retransmission != 0,
        }
    }
}

impl From<&Lost> for paceline_lost {
    fn from(r: &Lost) -> Self {
        Self {
            now_ns: r.now.as_nanos(),
            packet: (&r.packet).into(),
            lost_bytes: r.lost.get(),
            delivered_bytes: r.delivered.get(),
            in_flight_bytes: r.in_flight.get(),
            starts_range: r.starts_range.into(),
            retransmission: r.retransmission.into(),
            reserved: [0; 6],
        }
    }
}

impl From<&paceline_sample> for RateSample {
    fn from(c: &paceline_sample) -> Self {
        Self {
            has_data: c.has_data != 0,
            delivered: Bytes::new(c.delivered_bytes),
            delivered_ce: Bytes::new(c.delivered_ce_bytes),
            prior_delivered: Bytes::new(c.prior_delivered_bytes),
            interval: Duration::from_nanos(c.interval_ns),
            tx_in_flight: Bytes::new(c.tx_in_flight_bytes),
            lost: Bytes::new(c.lost_bytes),
            app_limited: c.app_limited != 0,
        }
    }
}

impl From<&RateSample> for paceline_sample {
    fn from(r: &RateSample) -> Self {
        Self {
            has_data: r.has_data.into(),
            delivered_bytes: r.delivered.get(),
            delivered_ce_bytes: r.delivered_ce.get(),
            prior_delivered_bytes: r.prior_delivered.get(),
            interval_ns: r.interval.as_nanos(),
            tx_in_flight_bytes: r.tx_in_flight.get(),
            lost_bytes: r.lost.get(),
            app_limited: r.app_limited.into(),
            reserved: [0; 6],
        }
    }
}

impl From<&paceline_ack> for Ack {
    fn from(c: &paceline_ack) -> Self {
        Self {
            now: Instant::from_nanos(c.now_ns),
            sample: (&c.sample).into(),
            newly_acked: Bytes::new(c.newly_acked_bytes),
            newly_lost: Bytes::new(c.newly_lost_bytes),
            newly_marked: (c.newly_marked_bytes != PACELINE_NONE)
                .then(|| Bytes::new(c.newly_marked_bytes)),
            prior_in_flight: Bytes::new(c.prior_in_flight_bytes),
            in_flight: Bytes::new(c.in_flight_bytes),
            delivered: Bytes::new(c.delivered_bytes),
            lost: Bytes::new(c.lost_bytes),
            sent: Bytes::new(c.sent_bytes),
            rtt: span(c.rtt_ns),
            srtt: Duration::from_nanos(c.srtt_ns),
            min_rtt: Duration::from_nanos(c.min_rtt_ns),
            cwnd_limited: c.cwnd_limited != 0,
            ca_state: state(c.ca_state),
            una_advanced: c.una_advanced != 0,
            delayed: c.delayed != 0,
            one_way_delay: span(c.one_way_delay_ns),
            network_rtt: span(c.network_rtt_ns),
            receiver_delay: span(c.receiver_delay_ns),
            ece: c.ece != 0,
        }
    }
}

impl From<&Ack> for paceline_ack {
    fn from(r: &Ack) -> Self {
        Self {
            now_ns: r.now.as_nanos(),
            sample: (&r.sample).into(),
            newly_acked_bytes: r.newly_acked.get(),
            newly_lost_bytes: r.newly_lost.get(),
            newly_marked_bytes: r.newly_marked.map_or(PACELINE_NONE, Bytes::get),
            prior_in_flight_bytes: r.prior_in_flight.get(),
            in_flight_bytes: r.in_flight.get(),
            delivered_bytes: r.delivered.get(),
            lost_bytes: r.lost.get(),
            sent_bytes: r.sent.get(),
            rtt_ns: nanos(r.rtt),
            srtt_ns: r.srtt.as_nanos(),
            min_rtt_ns: r.min_rtt.as_nanos(),
            cwnd_limited: r.cwnd_limited.into(),
            ca_state: r.ca_state as u32,
            una_advanced: r.una_advanced.into(),
            delayed: r.delayed.into(),
            one_way_delay_ns: nanos(r.one_way_delay),
            network_rtt_ns: nanos(r.network_rtt),
            receiver_delay_ns: nanos(r.receiver_delay),
            ece: r.ece.into(),
        }
    }
}

/// The signals of a sum of them.
pub(crate) fn signals(sum: u64) -> Signals {
    Signals {
        losses_first: sum & PACELINE_SIGNAL_LOSSES_FIRST != 0,
        loss_per_packet: sum & PACELINE_SIGNAL_LOSS_PER_PACKET != 0,
        marks: sum & PACELINE_SIGNAL_MARKS != 0,
        mark_counts: sum & PACELINE_SIGNAL_MARK_COUNTS != 0,
        ect1: sum & PACELINE_SIGNAL_ECT1 != 0,
        spurious_loss: sum & PACELINE_SIGNAL_SPURIOUS_LOSS != 0,
        pacing: sum & PACELINE_SIGNAL_PACING != 0,
        one_way_delay: sum & PACELINE_SIGNAL_ONE_WAY_DELAY != 0,
        receiver_delay: sum & PACELINE_SIGNAL_RECEIVER_DELAY != 0,
        app_limited_at_send: sum & PACELINE_SIGNAL_APP_LIMITED_AT_SEND != 0,
    }
}

/// The sum of signals.
fn sum(signals: Signals) -> u64 {
    let mut sum = 0;
    let mut bit = 1;
    signals.visit(&mut |_, _, given| {
        if given {
            sum |= bit;
        }
        bit <<= 1;
    });
    sum
}

impl paceline_config {
    /// The configuration of a controller made by a transport with these signals.
    pub fn of(config: &Config, signals: Signals) -> Self {
        Self {
            mss_bytes: config.mss,
            has_selective_acks: config.has_selective_acks.into(),
            reserved: [0; 3],
            initial_window_bytes: config.initial_window.get(),
            seed: config.seed,
            now_ns: config.now.as_nanos(),
            srtt_ns: nanos(config.srtt),
            signals: sum(signals),
        }
    }
}

impl From<&Outputs> for paceline_outputs {
    fn from(r: &Outputs) -> Self {
        Self {
            cwnd_bytes: r.cwnd.get(),
            pacing_rate_bps: r.pacing_rate.map_or(PACELINE_NONE, Rate::bps),
            send_quantum_bytes: r.send_quantum.get(),
            ssthresh_bytes: r.ssthresh.map_or(PACELINE_NONE, Bytes::get),
            round_count: r.round_count,
            ecn: codepoint(r.ecn),
            uses_prr: (r.recovery_window == RecoveryWindow::Prr).into(),
            marks_app_limited: r.marks_app_limited.into(),
            pacer_below: r.pacer_below.into(),
            has_ssthresh: r.ssthresh.is_some().into(),
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

    /// Each has its own bit, in the order in which they are shown.
    #[test]
    fn signals_come_back_from_their_sum() {
        assert_eq!(signals(sum(Signals::ALL)), Signals::ALL);
        assert_eq!(sum(Signals::NONE), 0);
        let one = Signals {
            ect1: true,
            ..Signals::NONE
        };
        assert_eq!((sum(one), signals(sum(one))), (PACELINE_SIGNAL_ECT1, one));
        for bit in 0..64 {
            assert_eq!(sum(signals(1 << bit)), (1 << bit) & sum(Signals::ALL));
        }
    }
}
