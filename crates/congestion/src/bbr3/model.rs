//! The network path model (5.5): rounds, bandwidth, aggregation.

use paceline_units::{Bytes, Duration, Gain, Instant, Rate};

use super::Bbr3;
use crate::Ack;

impl Bbr3 {
    /// `UpdateRound` (5.5.1).
    fn update_round(&mut self, ack: &Ack) {
        self.round_start = ack.sample.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round();
            self.round_count = self.round_count.saturating_add(1);
            self.rounds_since_probe_up = self.rounds_since_probe_up.saturating_add(1);
            self.end_round_of_marks();
        }
    }

    /// `StartRound` (5.5.1).
    pub(super) fn start_round(&mut self) {
        self.next_round_delivered = self.delivered;
    }

    /// `UpdateMaxBw` (5.5.5): an application-limited sample counts if it is higher.
    fn update_max_bw(&mut self, ack: &Ack, rate: Rate) {
        self.update_round(ack);
        if rate > Rate::ZERO && (rate >= self.max_bw || !ack.sample.app_limited) {
            self.max_bw_filter[1] = self.max_bw_filter[1].max(rate);
            self.max_bw = self.max_bw_filter[0].max(self.max_bw_filter[1]);
            self.max_bw_sampled |= !ack.sample.app_limited;
        }
    }

    /// `AdvanceMaxBwFilter` (5.5.6). Advancing the window takes effect at once, and a cycle without
    /// a sample does not empty it (divergence 14).
    pub(super) fn advance_max_bw_filter(&mut self, now: Instant) {
        self.max_bw_stamp = now;
        self.max_bw_sampled = false;
        self.cycle_count = self.cycle_count.wrapping_add(1);
        if self.max_bw_filter[1] > Rate::ZERO {
            self.max_bw_filter = [self.max_bw_filter[1], Rate::ZERO];
            self.max_bw = self.max_bw_filter[0];
        }
    }

    /// `UpdateLatestDeliverySignals` (5.5.10.3).
    pub(super) fn update_latest_delivery_signals(&mut self, ack: &Ack, rate: Rate) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(rate);
        self.inflight_latest = self.inflight_latest.max(ack.sample.delivered);
        if ack.sample.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = ack.delivered;
            self.loss_round_start = true;
        }
    }

    /// `AdvanceLatestDeliverySignals` (5.5.10.3).
    pub(super) fn advance_latest_delivery_signals(&mut self, ack: &Ack, rate: Rate) {
        if self.loss_round_start {
            self.bw_latest = rate;
            self.inflight_latest = ack.sample.delivered;
        }
    }

    /// `ResetCongestionSignals` (5.5.10.3).
    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.marks.in_loss_round = false;
        self.bw_latest = Rate::ZERO;
        self.inflight_latest = Bytes::ZERO;
    }

    /// `UpdateCongestionSignals` (5.5.10.3): once per round trip, respond to loss.
    pub(super) fn update_congestion_signals(&mut self, ack: &Ack, rate: Rate) {
        self.update_max_bw(ack, rate);
        if !self.loss_round_start {
            return;
        }
        let marked = self.marked_inflight();
        // AdaptLowerBoundsFromCongestion
        if !self.state.is_probing() && self.is_loss_in_round {
            self.init_lower_bounds();
            self.loss_lower_bounds();
        }
        self.inflight_shortterm = self.inflight_shortterm.min(marked);
        self.is_loss_in_round = false;
    }

    /// `InitLowerBounds` (5.5.10.3).
    fn init_lower_bounds(&mut self) {
        if self.bw_shortterm.is_infinite() {
            self.bw_shortterm = self.max_bw;
        }
        if self.inflight_shortterm.is_infinite() {
            self.inflight_shortterm = self.cwnd;
        }
    }

    /// `LossLowerBounds` (5.5.10.3). A bound of zero would never rise again.
    fn loss_lower_bounds(&mut self) {
        let beta = self.parameters.beta;
        self.bw_shortterm = self
            .bw_latest
            .max(self.bw_shortterm * beta)
            .max(Rate::from_bps(1));
        self.inflight_shortterm = self.inflight_latest.max(self.inflight_shortterm * beta);
    }

    /// `ResetShortTermModel` (5.5.10.3).
    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = Rate::INFINITE;
        self.inflight_shortterm = Bytes::INFINITE;
    }

    /// `BoundBWForModel` (5.5.10.3).
    pub(super) fn bound_bw_for_model(&mut self) {
        self.bw = self.max_bw.min(self.bw_shortterm);
    }

    /// `UpdateACKAggregation` (5.5.9).
    pub(super) fn update_ack_aggregation(&mut self, ack: &Ack) {
        let interval = ack.now.since(self.extra_acked_interval_start);
        let mut expected = self.bw.volume_in(interval);
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = Bytes::ZERO;
            self.extra_acked_interval_start = ack.now;
            expected = Bytes::ZERO;
        }
        self.extra_acked_delivered += ack.newly_acked;
        let extra = (self.extra_acked_delivered - expected).min(self.cwnd);
        let window = if self.full_bw_reached {
            self.parameters.extra_acked_filter_rounds
        } else {
            1 // in Startup, just remember one round
        };
        self.extra_acked = Bytes::new(self.extra_acked_filter.update(
            self.round_count,
            window,
            extra.get(),
        ));
    }

    /// `BDPMultiple` (5.6.4.2): the initial window while no RTT is known, whatever the gain.
    pub(super) fn bdp_multiple(&self, bw: Rate, gain: Gain) -> Bytes {
        match self.min_rtt {
            Duration::MAX => self.initial_window,
            _ => self.bdp(bw) * gain,
        }
    }

    /// `BBR.bdp` at rate `bw`.
    pub(super) fn bdp(&self, bw: Rate) -> Bytes {
        match self.min_rtt {
            Duration::MAX => self.initial_window,
            min_rtt => bw.volume_in(min_rtt),
        }
    }
}
