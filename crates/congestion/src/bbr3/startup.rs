//! Startup and its two exits (5.3.1), Drain (5.3.2).

use paceline_units::{Gain, Rate};

use super::{Bbr3, State, UndoState};
use crate::Ack;

impl Bbr3 {
    /// `EnterStartup` (5.3.1.1).
    pub(super) fn enter_startup(&mut self) {
        self.state = State::Startup;
        self.pacing_gain = self.parameters.startup_pacing_gain;
        self.cwnd_gain = self.parameters.startup_cwnd_gain;
    }

    /// `ResetFullBW` (5.3.1.2).
    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = Rate::ZERO;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// `CheckFullBWReached` (5.3.1.2). A sample without a rate says nothing about growth
    /// (divergence 13).
    pub(super) fn check_full_bw_reached(&mut self, ack: &Ack, rate: Rate) {
        if self.full_bw_now || !self.round_start || ack.sample.app_limited || rate == Rate::ZERO {
            return;
        }
        if rate >= self.full_bw * self.parameters.full_bw_growth {
            self.reset_full_bw();
            self.full_bw = rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= self.parameters.full_bw_rounds;
        if self.full_bw_now {
            self.full_bw_reached = true;
        }
    }

    /// `CheckStartupDone` (5.3.1.1).
    pub(super) fn check_startup_done(&mut self, ack: &Ack) {
        self.check_startup_high_loss(ack);
        if self.state == State::Startup && self.full_bw_reached {
            self.enter_drain();
        }
    }

    /// `CheckStartupHighLoss` (5.3.1.3), at the end of each loss round. The round began with the
    /// first loss, so a full round has passed in recovery, and the newest sample's losses over its
    /// data in flight are the round's loss rate (divergence 11). Without selective acknowledgments
    /// any loss within fast recovery is high.
    fn check_startup_high_loss(&mut self, ack: &Ack) {
        let again = core::mem::take(&mut self.is_loss_in_fast_recovery);
        let high = if self.has_selective_acks {
            self.has_high_loss_round(ack)
        } else {
            again
        };
        if self.full_bw_reached || !high {
            return;
        }
        self.undo_state = UndoState::Startup;
        self.full_bw_now = true; // divergence 23
        self.full_bw_reached = true;
        self.inflight_longterm = self.bdp(self.bw).max(self.inflight_latest);
    }

    fn has_high_loss_round(&mut self, ack: &Ack) -> bool {
        if !self.loss_round_start {
            return false;
        }
        let ranges = core::mem::take(&mut self.loss_ranges_in_round);
        self.in_fast_recovery
            && ranges >= self.parameters.startup_full_loss_count
            && self.is_inflight_too_high(ack.sample.lost, ack.sample.tx_in_flight)
    }

    /// `EnterDrain` (5.3.2).
    pub(super) fn enter_drain(&mut self) {
        self.state = State::Drain;
        self.pacing_gain = self.parameters.drain_pacing_gain;
        self.cwnd_gain = self.parameters.cwnd_gain;
        self.drain_start_round = self.round_count;
    }

    /// `CheckDrainDone` (5.3.2).
    pub(super) fn check_drain_done(&mut self, ack: &Ack) {
        let last_round = self
            .drain_start_round
            .saturating_add(self.parameters.max_drain_rounds);
        if self.state == State::Drain
            && (ack.in_flight <= self.inflight(self.bw, Gain::ONE) || self.round_count > last_round)
        {
            // EnterProbeBW (5.3.3.9)
            self.start_probe_bw_down(ack.now);
        }
    }
}
