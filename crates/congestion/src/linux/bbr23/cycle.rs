//! The state machine from DRAIN on, and the long-term upper bound that probing moves.

use super::{AckPhase, Core, Mode, Phase};
use crate::CaState;
use crate::linux::arithmetic::{BBR_SCALE, BBR_UNIT, UNSET, elapsed, scaled};
use crate::linux::{Random, RateSample, Socket};

impl<const V: u8> Core<V> {
    pub(super) fn check_drain(&mut self, sk: &Socket, random: &mut Random<'_>) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            self.reset_congestion_signals();
        }
        if self.mode == Mode::Drain
            && self.packets_in_net_at_edt(sk, sk.packets_in_flight)
                <= self.inflight(sk, self.max_bw(), BBR_UNIT)
        {
            self.mode = Mode::ProbeBw;
            self.start_bw_probe_down(sk, random);
        }
    }

    pub(super) fn update_cycle_phase(
        &mut self,
        sk: &Socket,
        rs: &RateSample,
        random: &mut Random<'_>,
    ) {
        if !self.full_bw_reached
            || self.adapt_upper_bounds(sk, rs, random)
            || self.mode != Mode::ProbeBw
        {
            return;
        }
        match self.cycle_idx {
            Phase::Cruise => {
                self.check_time_to_probe_bw(sk);
            }
            Phase::Refill => {
                if self.round_start {
                    self.bw_probe_samples = true;
                    self.start_bw_probe_up(sk);
                }
            }
            Phase::Up => {
                if self.is_bw_probe_done(sk, rs) {
                    self.prev_probe_too_high = false;
                    self.start_bw_probe_down(sk, random);
                }
            }
            Phase::Down => {
                if !self.check_time_to_probe_bw(sk) && self.is_time_to_cruise(sk, rs) {
                    self.start_bw_probe_cruise();
                }
            }
        }
    }

    /// Whether UP must end (too much loss or CE ends it elsewhere).
    fn is_bw_probe_done(&mut self, sk: &Socket, rs: &RateSample) -> bool {
        let inflight = self.packets_in_net_at_edt(sk, rs.prior_in_flight);
        if self.prev_probe_too_high && inflight >= self.inflight_hi {
            self.stopped_risky_probe = true;
            return true;
        }
        if !Self::V3 {
            // max_bw needs more in flight than inflight_hi may allow, and this ends the probe
            // before that can be discovered.
            let gain = self.parameters.bw_probe_pif_gain;
            return self.has_elapsed_in_phase(sk, self.min_rtt_us)
                && inflight >= self.inflight(sk, self.max_bw(), gain);
        }
        if sk.is_cwnd_limited && sk.cwnd >= self.inflight_hi {
            // inflight_hi limits the growth: a plateau would mean nothing.
            self.reset_full_bw();
            self.full_bw = self.sample_bw;
            return false;
        }
        self.full_bw_now
    }

    fn has_elapsed_in_phase(&self, sk: &Socket, interval_us: u32) -> bool {
        elapsed(
            sk.now,
            self.cycle_mstamp.wrapping_add(u64::from(interval_us)),
        ) > 0
    }

    fn is_reno_coexistence_probe_time(&self, sk: &Socket) -> bool {
        let rounds = self
            .target_inflight(sk)
            .min(self.parameters.bw_probe_max_rounds);
        self.rounds_since_probe >= rounds
    }

    fn check_time_to_probe_bw(&mut self, sk: &Socket) -> bool {
        let reprobe_gain = self.parameters.ecn_reprobe_gain;
        if reprobe_gain > 0
            && self.ecn_eligible
            && self.ecn_in_cycle
            && !self.loss_in_cycle
            && sk.ca_state == CaState::Open
        {
            // Linux means a cycle whose marks have ceased, but asks only whether it had one. The
            // first round grows by about this much. The logarithm of 0 is -1, in a field of 5 bits.
            let volume = scaled(self.inflight_hi, reprobe_gain);
            self.start_bw_probe_refill(sk, volume.checked_ilog2().unwrap_or(31));
            return true;
        }
        let is_time = self.has_elapsed_in_phase(sk, self.probe_wait_us)
            || self.is_reno_coexistence_probe_time(sk);
        if is_time {
            self.start_bw_probe_refill(sk, 0);
        }
        is_time
    }

    fn is_time_to_cruise(&self, sk: &Socket, rs: &RateSample) -> bool {
        let inflight = self.packets_in_net_at_edt(sk, rs.prior_in_flight);
        inflight <= self.inflight_with_headroom()
            && inflight <= self.inflight(sk, self.max_bw(), BBR_UNIT)
    }

    // --- Phases ---

    fn set_cycle_idx(&mut self, phase: Phase) {
        self.cycle_idx = phase;
        self.try_fast_path = false;
    }

    fn start_bw_probe_refill(&mut self, sk: &Socket, bw_probe_up_rounds: u32) {
        self.reset_lower_bounds();
        self.bw_probe_up_rounds = bw_probe_up_rounds;
        self.bw_probe_up_acks = 0;
        self.stopped_risky_probe = false;
        self.ack_phase = AckPhase::Refilling;
        self.next_rtt_delivered = sk.delivered;
        self.set_cycle_idx(Phase::Refill);
    }

    fn start_bw_probe_up(&mut self, sk: &Socket) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.next_rtt_delivered = sk.delivered;
        self.cycle_mstamp = sk.now;
        if Self::V3 {
            self.reset_full_bw();
            self.full_bw = self.sample_bw;
        }
        self.set_cycle_idx(Phase::Up);
        self.raise_inflight_hi_slope(sk);
    }

    pub(super) fn start_bw_probe_down(&mut self, sk: &Socket, random: &mut Random<'_>) {
        self.reset_congestion_signals();
        self.bw_probe_up_cnt = UNSET;
        self.rounds_since_probe = random(self.parameters.bw_probe_rand_rounds);
        self.probe_wait_us = self
            .parameters
            .bw_probe_base
            .wrapping_add(random(self.parameters.bw_probe_rand));
        self.cycle_mstamp = sk.now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.next_rtt_delivered = sk.delivered;
        self.set_cycle_idx(Phase::Down);
    }

    pub(super) fn start_bw_probe_cruise(&mut self) {
        if self.inflight_lo != UNSET {
            self.inflight_lo = self.inflight_lo.min(self.inflight_hi);
        }
        self.set_cycle_idx(Phase::Cruise);
    }

    // --- The upper bound ---

    /// Moves inflight_hi according to the result of probing. Returns whether a change of phase was
    /// decided.
    fn adapt_upper_bounds(
        &mut self,
        sk: &Socket,
        rs: &RateSample,
        random: &mut Random<'_>,
    ) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.bw_probe_samples = false;
            self.ack_phase = AckPhase::Init;
            if self.mode == Mode::ProbeBw {
                if !rs.is_app_limited {
                    self.advance_max_bw_filter();
                }
                // inflight_hi was reached without problems: continue from there.
                if self.stopped_risky_probe && !self.prev_probe_too_high {
                    self.start_bw_probe_refill(sk, 0);
                    return true;
                }
            }
        }
        if self.is_inflight_too_high(rs) {
            if self.bw_probe_samples {
                self.handle_inflight_too_high(sk, rs, random);
            }
        } else if self.inflight_hi != UNSET {
            self.inflight_hi = self.inflight_hi.max(rs.tx_in_flight);
            if self.is_up() {
                self.probe_inflight_hi_upward(sk, rs);
            }
        }
        false
    }

    fn advance_max_bw_filter(&mut self) {
        if self.bw_hi[1] != 0 {
            self.bw_hi = [self.bw_hi[1], 0];
        }
    }

    fn raise_inflight_hi_slope(&mut self, sk: &Socket) {
        let growth = 1u32 << self.bw_probe_up_rounds.min(31);
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.bw_probe_up_cnt = (sk.cwnd / growth).max(1);
    }

    fn probe_inflight_hi_upward(&mut self, sk: &Socket, rs: &RateSample) {
        if !sk.is_cwnd_limited || sk.cwnd < self.inflight_hi {
            if !Self::V3 {
                self.bw_probe_up_acks = 0;
            }
            return;
        }
        self.bw_probe_up_acks = self.bw_probe_up_acks.wrapping_add(rs.acked_sacked);
        if self.bw_probe_up_acks >= self.bw_probe_up_cnt {
            let step = self.bw_probe_up_cnt.max(1);
            self.inflight_hi = self.inflight_hi.wrapping_add(self.bw_probe_up_acks / step);
            self.bw_probe_up_acks %= step;
            if Self::V3 {
                self.try_fast_path = false;
            }
        }
        if self.round_start {
            self.raise_inflight_hi_slope(sk);
        }
    }

    /// Whether the loss or CE in a sample says that too much was in flight.
    pub(super) fn is_inflight_too_high(&self, rs: &RateSample) -> bool {
        let p = &self.parameters;
        if rs.lost > 0 && rs.tx_in_flight > 0 {
            let allowed = scaled(rs.tx_in_flight, p.loss_thresh);
            if rs.lost.unsigned_abs() > allowed {
                return true;
            }
        }
        if rs.delivered_ce > 0 && rs.delivered > 0 && self.ecn_eligible && p.ecn_thresh > 0 {
            let allowed = scaled(rs.delivered.unsigned_abs(), p.ecn_thresh);
            let marked = rs.delivered_ce.unsigned_abs();
            return if Self::V3 {
                marked > allowed
            } else {
                marked >= allowed
            };
        }
        false
    }

    /// The data in flight when the loss rate passed the threshold, somewhere within the last lost
    /// burst of `pcount` packets.
    pub(super) fn inflight_hi_from_lost_skb(&self, rs: &RateSample, pcount: u32) -> u32 {
        let inflight_prev = rs.tx_in_flight.wrapping_sub(pcount) as i32;
        let lost_prev = (rs.lost as u32).wrapping_sub(pcount) as i32;
        let (Ok(inflight_prev), Ok(lost_prev)) =
            (u64::try_from(inflight_prev), u64::try_from(lost_prev))
        else {
            return UNSET;
        };
        let thresh = u64::from(self.parameters.loss_thresh);
        let unit = u64::from(BBR_UNIT);
        let loss_budget = (inflight_prev * thresh + unit - 1) >> BBR_SCALE;
        let lost_prefix = (loss_budget.saturating_sub(lost_prev) << BBR_SCALE)
            .checked_div(unit - thresh)
            .unwrap_or(0);
        (inflight_prev + lost_prefix) as u32
    }

    /// Cuts inflight_hi, once per probe, and ends the probe.
    pub(super) fn handle_inflight_too_high(
        &mut self,
        sk: &Socket,
        rs: &RateSample,
        random: &mut Random<'_>,
    ) {
        self.prev_probe_too_high = true;
        self.bw_probe_samples = false;
        if !rs.is_app_limited {
            let kept = scaled(self.target_inflight(sk), BBR_UNIT - self.parameters.beta);
            self.inflight_hi = rs.tx_in_flight.max(kept);
        }
        if self.is_up() {
            self.start_bw_probe_down(sk, random);
        }
    }
}
