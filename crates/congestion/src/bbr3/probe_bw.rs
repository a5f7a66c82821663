//! The ProbeBW cycle (5.3.3): DOWN, CRUISE, REFILL, UP, with both precautions.

use paceline_units::{Bytes, Duration, Gain, Instant, Rate};

use super::{AckPhase, Bbr3, State};
use crate::Ack;

impl Bbr3 {
    /// `StartProbeBW_DOWN`. Each state sets its gains (divergence 2).
    pub(super) fn start_probe_bw_down(&mut self, now: Instant) {
        if self.parameters.advance_on_down {
            self.advance_max_bw_filter(now);
        }
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = Bytes::INFINITE;
        self.pick_probe_wait();
        self.cycle_stamp = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = State::Down;
        self.pacing_gain = self.parameters.probe_down_pacing_gain;
        self.cwnd_gain = self.parameters.cwnd_gain;
    }

    /// `StartProbeBW_CRUISE`.
    pub(super) fn start_probe_bw_cruise(&mut self) {
        self.state = State::Cruise;
        self.pacing_gain = self.parameters.probe_cruise_pacing_gain;
        self.cwnd_gain = self.parameters.cwnd_gain;
    }

    /// `StartProbeBW_REFILL`.
    pub(super) fn start_probe_bw_refill(&mut self) {
        self.reset_short_term_model();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = Bytes::ZERO;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
        self.pacing_gain = self.parameters.probe_refill_pacing_gain;
        self.cwnd_gain = self.parameters.cwnd_gain;
    }

    /// `StartProbeBW_UP`.
    fn start_probe_bw_up(&mut self, rate: Rate) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.reset_full_bw();
        self.full_bw = rate;
        self.state = State::Up;
        self.pacing_gain = self.parameters.probe_up_pacing_gain;
        self.cwnd_gain = self.parameters.probe_up_cwnd_gain;
        self.raise_inflight_longterm_slope();
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_probe_bw_cycle_phase(&mut self, ack: &Ack, rate: Rate) {
        if !self.full_bw_reached {
            return;
        }
        let after = self.parameters.advance_after;
        if after > Duration::ZERO && self.max_bw_sampled && ack.now > self.max_bw_stamp + after {
            self.advance_max_bw_filter(ack.now);
        }
        if self.adapt_long_term_model(ack) {
            return;
        }
        if self.state == State::Up {
            if self.is_time_to_go_down(ack, rate) {
                self.prev_probe_too_high = false; // no high loss (yet)
                self.start_probe_bw_down(ack.now);
            }
            return;
        }
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe_bw(ack.now) => {
                self.start_probe_bw_refill();
            }
            State::Down if self.is_time_to_cruise(ack.in_flight) => self.start_probe_bw_cruise(),
            State::Refill if self.round_start => {
                // After one round of REFILL, start UP.
                self.is_bw_probe_sample = true;
                self.start_probe_bw_up(rate);
            }
            _ => {}
        }
    }

    /// `AdaptLongTermModel`: true if it has decided a transition.
    fn adapt_long_term_model(&mut self, ack: &Ack) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            // Starting to get bandwidth probing samples.
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            // End of samples from the bandwidth probing phase.
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            let advances = !self.parameters.advance_on_down && !ack.sample.app_limited;
            if self.state.is_probe_bw() && advances {
                self.advance_max_bw_filter(ack.now);
            }
            // Precautionary probing, acceleration (5.3.3.6): the brief probe went well.
            if self.state.is_probe_bw()
                && self.prev_probe_precautionary
                && !self.prev_probe_too_high
            {
                self.start_probe_bw_refill();
                return true;
            }
        }
        let marked = self.has_high_marks(ack);
        if marked {
            self.end_marked_probe(ack);
        }
        let safe = !marked && !self.is_inflight_too_high(ack.sample.lost, ack.sample.tx_in_flight);
        if safe && !self.inflight_longterm.is_infinite() {
            self.inflight_longterm = self.inflight_longterm.max(ack.sample.tx_in_flight);
            if self.state == State::Up {
                self.probe_inflight_longterm_upward(ack);
            }
        }
        false
    }

    /// `ProbeInflightLongtermUpward`.
    fn probe_inflight_longterm_upward(&mut self, ack: &Ack) {
        if !ack.cwnd_limited || self.cwnd < self.inflight_longterm {
            return; // not fully using inflight_longterm, so don't grow it
        }
        self.bw_probe_up_acked += ack.newly_acked;
        if self.bw_probe_up_acked >= self.probe_up_acked_per_inc {
            let per_inc = self.probe_up_acked_per_inc.get().max(1);
            let delta = self.bw_probe_up_acked.get() / per_inc;
            self.bw_probe_up_acked -= Bytes::new(delta * per_inc);
            self.inflight_longterm += self.smss() * delta;
        }
        if self.round_start {
            self.raise_inflight_longterm_slope();
        }
    }

    /// `RaiseInflightLongtermSlope`: growth doubles each round.
    fn raise_inflight_longterm_slope(&mut self) {
        let growth_this_round = 1u64 << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc =
            Bytes::new(self.cwnd.get() / growth_this_round).max(self.smss());
    }

    /// `PickProbeWait` (5.3.3.8.3).
    fn pick_probe_wait(&mut self) {
        self.rounds_since_probe_up = self.rng.below(2) as u32;
        let random = self.parameters.probe_wait_random.as_nanos();
        self.bw_probe_wait =
            self.parameters.probe_wait + Duration::from_nanos(self.rng.below(random));
    }

    /// `IsTimeToProbeBW` (5.3.3.8.3).
    fn is_time_to_probe_bw(&self, now: Instant) -> bool {
        now > self.cycle_stamp + self.bw_probe_wait || self.is_reno_coexistence_probe_time()
    }

    /// `IsRenoCoexistenceProbeTime`: rounds are compared with packets (divergence 5). At least one:
    /// with a BDP below one packet, DOWN would end at its first ACK, before its samples have ended
    /// and the bandwidth filter has advanced.
    pub(super) fn is_reno_coexistence_probe_time(&self) -> bool {
        let reno_rounds = self.target_inflight().packets(u64::from(self.mss));
        u64::from(self.rounds_since_probe_up)
            >= reno_rounds.clamp(1, u64::from(self.parameters.reno_rounds).max(1))
    }

    /// `TargetInflight` (5.3.3.8.3): the estimated BDP, unless congestion cut the window.
    pub(super) fn target_inflight(&self) -> Bytes {
        self.bdp(self.bw).min(self.cwnd)
    }

    /// `IsTimeToCruise`.
    fn is_time_to_cruise(&self, in_flight: Bytes) -> bool {
        in_flight <= self.inflight_with_headroom()
            && in_flight <= self.inflight(self.max_bw, Gain::ONE)
    }

    /// `IsTimeToGoDown`.
    fn is_time_to_go_down(&mut self, ack: &Ack, rate: Rate) -> bool {
        // Precautionary probing, deceleration (5.3.3.6).
        if self.prev_probe_too_high && ack.in_flight >= self.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if ack.cwnd_limited && self.cwnd >= self.inflight_longterm {
            // Bandwidth is limited by inflight_longterm: the plateau is not the path's.
            self.reset_full_bw();
            self.full_bw = rate;
            return false;
        }
        self.full_bw_now
    }

    /// `InflightWithHeadroom`: leaves room in the bottleneck for others.
    pub(super) fn inflight_with_headroom(&self) -> Bytes {
        if self.inflight_longterm.is_infinite() {
            return Bytes::INFINITE;
        }
        let headroom = (self.inflight_longterm * self.parameters.headroom).max(self.smss());
        (self.inflight_longterm - headroom).max(self.min_pipe_cwnd())
    }
}
