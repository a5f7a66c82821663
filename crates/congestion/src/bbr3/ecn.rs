//! Responses to ECN marks. The draft defines none (3.7); these are options.

use paceline_units::{Bytes, Gain};

use super::parameters::EcnResponse;
use super::{Bbr3, State};
use crate::Ack;

/// The marks of a round, and their average.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// The marked share of the data, averaged over rounds (`ecn_alpha`).
    alpha: Gain,
    /// What was delivered and what was marked in this round.
    delivered: Bytes,
    marked: Bytes,
    /// Anything was marked in this loss round (`ecn_in_round`).
    pub(super) in_loss_round: bool,
    /// Rounds in a row in Startup of which at least half was marked.
    startup_rounds: u8,
}

/// `bbr_full_ecn_cnt`.
const STARTUP_ROUNDS: u8 = 2;

impl Default for Marks {
    fn default() -> Self {
        Self {
            alpha: Gain::ONE,
            delivered: Bytes::ZERO,
            marked: Bytes::ZERO,
            in_loss_round: false,
            startup_rounds: 0,
        }
    }
}

impl Bbr3 {
    /// An acknowledgment's marks, before its sample.
    pub(super) fn note_marks(&mut self, ack: &Ack) {
        self.marks.delivered += ack.newly_acked;
        self.marks.marked += ack.marked();
        if !ack.is_marked() {
            return;
        }
        self.marks.in_loss_round = true;
        if self.parameters.ecn == EcnResponse::Loss {
            // A mark is never spurious: nothing is saved for an undo.
            if !self.is_loss_in_round {
                self.loss_round_delivered = ack.delivered;
                self.loss_ranges_in_round = 0;
            }
            self.is_loss_in_round = true;
        }
    }

    /// Once per round: the average of the marked share (Linux's `bbr_update_ecn_alpha`), and the end
    /// of Startup if half of the data is marked in two rounds.
    pub(super) fn end_round_of_marks(&mut self) {
        if self.parameters.ecn != EcnResponse::Alpha || self.marks.delivered == Bytes::ZERO {
            return;
        }
        let (marked, delivered) = (self.marks.marked.get(), self.marks.delivered.get());
        let scale = u64::from(Gain::SCALE);
        let share = (marked.saturating_mul(scale) / delivered).min(scale) as u32;
        let alpha = self.marks.alpha.millionths();
        self.marks.alpha = Gain::from_millionths(alpha - alpha / 16 + share / 16);
        (self.marks.marked, self.marks.delivered) = (Bytes::ZERO, Bytes::ZERO);
        if self.full_bw_reached {
            return;
        }
        let high = share >= Gain::SCALE / 2;
        self.marks.startup_rounds = if high {
            self.marks.startup_rounds.saturating_add(1)
        } else {
            0
        };
        if self.marks.startup_rounds >= STARTUP_ROUNDS {
            self.full_bw_now = true;
            self.full_bw_reached = true;
            self.inflight_longterm = self.bdp(self.bw).max(self.inflight_latest);
        }
    }

    /// Whether an acknowledgment's marks say that too much was in flight: any, or in Linux
    /// more than half of its sample.
    pub(super) fn has_high_marks(&self, ack: &Ack) -> bool {
        match self.parameters.ecn {
            EcnResponse::None => false,
            EcnResponse::Alpha => ack.sample.delivered_ce * 2 > ack.sample.delivered,
            EcnResponse::Loss => ack.is_marked(),
        }
    }

    /// Once per loss round outside of probes: the bound on the data in flight that the marks ask
    /// for, a third of alpha below the present one; the bound on the rate stays.
    pub(super) fn marked_inflight(&mut self) -> Bytes {
        let marked = core::mem::take(&mut self.marks.in_loss_round);
        if self.parameters.ecn != EcnResponse::Alpha || !marked || self.state.is_probing() {
            return Bytes::INFINITE;
        }
        let present = if self.inflight_shortterm.is_infinite() {
            self.cwnd
        } else {
            self.inflight_shortterm
        };
        present * Gain::from_millionths(Gain::SCALE - self.marks.alpha.millionths() / 3)
    }

    /// Ends a probe for bandwidth whose marks are too high.
    pub(super) fn end_marked_probe(&mut self, ack: &Ack) {
        if self.is_bw_probe_sample {
            debug_assert!(self.state != State::Startup);
            let sample = &ack.sample;
            self.handle_inflight_too_high(ack.now, sample.app_limited, sample.tx_in_flight);
        }
    }
}
