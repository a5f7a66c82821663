//! The response to loss (5.5.10.2), recovery (5.6.4.4), and undo (5.5.11).

use paceline_units::{Bytes, Gain, Instant};

use super::{Bbr3, State, UndoState};
use crate::Lost;

impl Bbr3 {
    /// `IsInflightTooHigh` (5.5.10.2).
    pub(super) fn is_inflight_too_high(&self, lost: Bytes, tx_in_flight: Bytes) -> bool {
        lost > tx_in_flight * self.parameters.loss_threshold
            || (lost > Bytes::ZERO && !self.has_selective_acks)
    }

    /// `NoteLoss` (5.5.10.2).
    fn note_loss(&mut self, loss: &Lost) {
        self.save_state_upon_loss();
        if !self.is_loss_in_round {
            self.loss_round_delivered = loss.delivered;
            self.loss_ranges_in_round = 0;
        }
        self.is_loss_in_round = true;
        if loss.starts_range {
            self.loss_ranges_in_round = self.loss_ranges_in_round.saturating_add(1);
        }
    }

    /// `HandleLostPacket` (5.5.10.2). The sample is the packet's own: the ACK's sample must survive
    /// for the following steps (divergence 4).
    pub(super) fn handle_lost_packet(&mut self, loss: &Lost) {
        self.delivered = loss.delivered;
        self.is_loss_in_fast_recovery |= self.in_fast_recovery;
        self.note_loss(loss);
        if !self.is_bw_probe_sample {
            return; // not a packet sent while probing bandwidth
        }
        let lost = loss.lost_since_send();
        if self.is_inflight_too_high(lost, loss.packet.tx_in_flight) {
            let inflight = self.inflight_at_loss(loss, lost);
            if self.state == State::Up {
                self.undo_state = UndoState::Up;
            }
            self.handle_inflight_too_high(loss.now, loss.packet.app_limited, inflight);
        }
    }

    /// `InflightAtLoss` (5.5.10.2): at which prefix of the packet losses crossed
    /// the threshold. A prefix is never negative.
    pub(super) fn inflight_at_loss(&self, loss: &Lost, lost: Bytes) -> Bytes {
        let size = Bytes::new(u64::from(loss.packet.size));
        let inflight_prev = loss.packet.tx_in_flight - size;
        let lost_prev = lost - size;
        let threshold = self.parameters.loss_threshold;
        let excess = inflight_prev * threshold - lost_prev;
        let rest = Gain::SCALE - threshold.millionths();
        let prefix = u128::from(excess.get()) * u128::from(Gain::SCALE) / u128::from(rest.max(1));
        inflight_prev + Bytes::new(u64::try_from(prefix).unwrap_or(u64::MAX))
    }

    /// `HandleInflightTooHigh` (5.5.10.2).
    pub(super) fn handle_inflight_too_high(
        &mut self,
        now: Instant,
        app_limited: bool,
        inflight: Bytes,
    ) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false; // only react once per bandwidth probe
        if !app_limited {
            self.inflight_longterm = inflight.max(self.target_inflight() * self.parameters.beta);
        }
        if self.state == State::Up {
            self.start_probe_bw_down(now);
        }
    }

    /// `SaveCwnd` (5.6.4.4).
    pub(super) fn save_cwnd(&mut self) {
        self.prior_cwnd = if !self.in_recovery && self.state != State::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    /// `RestoreCwnd` (5.6.4.4).
    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// `SaveStateUponLoss` (5.5.11.1), once per episode: a later save would store bounds that this
    /// same episode has cut (divergence 1).
    fn save_state_upon_loss(&mut self) {
        if self.is_episode_saved {
            return;
        }
        self.is_episode_saved = true;
        self.save_cwnd();
        self.undo_state = UndoState::None;
        self.undo_bw_shortterm = self.bw_shortterm;
        self.undo_inflight_shortterm = self.inflight_shortterm;
        self.undo_inflight_longterm = self.inflight_longterm;
    }

    /// `OnEnterFastRecovery` (5.6.4.4).
    pub(super) fn enter_fast_recovery(&mut self) {
        self.save_state_upon_loss();
        self.in_fast_recovery = true;
        self.in_recovery = true;
    }

    /// `OnEnterRTO` (5.6.4.4): room for one packet (divergence 7).
    pub(super) fn enter_rto(&mut self, in_flight: Bytes) {
        self.save_cwnd();
        self.save_state_upon_loss();
        self.in_fast_recovery = false;
        self.in_recovery = true;
        self.cwnd = in_flight + self.smss();
    }

    /// The end of either kind of recovery (5.6.4.4).
    pub(super) fn exit_recovery(&mut self) {
        self.in_fast_recovery = false;
        self.in_recovery = false;
        self.is_episode_saved = false;
        self.restore_cwnd();
    }

    /// `HandleSpuriousLossDetection` (5.5.11.2).
    pub(super) fn handle_spurious_loss(&mut self) {
        self.restore_cwnd();
        self.is_loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(self.undo_bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo_inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo_inflight_longterm);
        match self.undo_state {
            UndoState::Startup if self.state != State::Startup => {
                self.full_bw_reached = false;
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            UndoState::Up if self.state != State::Up && self.state != State::ProbeRtt => {
                self.start_probe_bw_refill();
            }
            _ => {}
        }
        self.undo_state = UndoState::None;
    }
}
