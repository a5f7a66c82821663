//! `min_rtt` and the ProbeRTT state that renews it (5.3.4, 5.5.7); restart from idle (5.4).

use paceline_units::{Bytes, Duration, Gain, Instant, Rate};

use super::{AckPhase, Bbr3, State};
use crate::{Ack, Sent};

const THREE_QUARTERS: Gain = Gain::from_millionths(750_000);

impl Bbr3 {
    /// `UpdateMinRTT` (5.3.4.3).
    pub(super) fn update_min_rtt(&mut self, ack: &Ack) {
        // Before the pipe was full no probe ends, and none is to be waited for.
        let waits = self.parameters.probe_rtt_waits
            && self.full_bw_reached
            && self.ack_phase != AckPhase::Init;
        self.probe_rtt_expired =
            ack.now > self.probe_rtt_min_stamp + self.parameters.probe_rtt_interval && !waits;
        if let Some(rtt) = ack.rtt
            && (rtt < self.probe_rtt_min_delay || self.probe_rtt_expired)
        {
            self.probe_rtt_min_delay = rtt;
            self.probe_rtt_min_stamp = ack.now;
        }
        // The lowest RTT since a ProbeRTT that drained includes that ProbeRTT's.
        let may_rise = !self.parameters.min_rtt_if_drained
            || (self.probe_rtt_drained && !self.probe_rtt_expired);
        let min_rtt_expired =
            ack.now > self.min_rtt_stamp + self.parameters.min_rtt_filter && may_rise;
        self.prior_min_rtt = self.min_rtt;
        if self.probe_rtt_min_delay < self.min_rtt || min_rtt_expired {
            self.min_rtt = self.probe_rtt_min_delay;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    /// `CheckProbeRTT` (5.3.4.3).
    pub(super) fn check_probe_rtt(&mut self, ack: &Ack) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            // Before the state changes: the window to return to is this one (divergence 18).
            self.save_cwnd();
            self.enter_probe_rtt(ack);
            self.probe_rtt_done_stamp = Instant::MAX;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        self.continue_probe_rtt(ack);
        if ack.sample.delivered > Bytes::ZERO {
            self.idle_restart = false;
        }
    }

    pub(super) fn continue_probe_rtt(&mut self, ack: &Ack) {
        self.marks_app_limited = self.state == State::ProbeRtt;
        if self.marks_app_limited {
            self.handle_probe_rtt(ack);
        }
    }

    fn enter_probe_rtt(&mut self, ack: &Ack) {
        self.note_path_before_probe_rtt(ack);
        self.state = State::ProbeRtt;
        self.pacing_gain = Gain::ONE;
        self.cwnd_gain = self.parameters.probe_rtt_cwnd_gain;
    }

    /// What the options of ProbeRTT need to know of the path before its window shrinks.
    fn note_path_before_probe_rtt(&mut self, ack: &Ack) {
        let options = &self.parameters;
        let latest = options.probe_rtt_latest_bw && self.bw_latest > Rate::ZERO;
        let bw = if latest {
            self.bw.min(self.bw_latest)
        } else {
            self.bw
        };
        let prior = options.probe_rtt_prior_min_rtt && self.prior_min_rtt < Duration::MAX;
        let rtt = if prior {
            self.prior_min_rtt
        } else {
            self.min_rtt
        };
        self.probe_rtt_cap = if latest || prior {
            bw.volume_in(rtt) * options.probe_rtt_cwnd_gain
        } else {
            Bytes::INFINITE
        };
        self.probe_rtt_prior_bw = self.bw_latest;
        // An application-limited flow leaves no queue, and its rate need not fall.
        self.probe_rtt_drained = ack.sample.app_limited;
    }

    /// `HandleProbeRTT` (5.3.4.3). The transport marks the connection
    /// application-limited for as long as the state lasts.
    fn handle_probe_rtt(&mut self, ack: &Ack) {
        if self.probe_rtt_done_stamp == Instant::MAX {
            if ack.in_flight <= self.probe_rtt_cwnd() {
                // Wait for at least ProbeRTTDuration and one round to elapse.
                self.probe_rtt_done_stamp = ack.now + self.parameters.probe_rtt_duration;
                self.probe_rtt_round_done = false;
                self.probe_rtt_delivered = ack.delivered;
                self.start_round();
            }
            return;
        }
        if self.round_start {
            self.probe_rtt_round_done = true;
        }
        if self.probe_rtt_round_done {
            // By ACKs alone: a sample's interval contains the silence in which the window shrank.
            let since = self.probe_rtt_done_stamp - self.parameters.probe_rtt_duration;
            let delivered = ack.delivered - self.probe_rtt_delivered;
            let bound = (self.probe_rtt_prior_bw * THREE_QUARTERS).volume_in(ack.now.since(since));
            self.probe_rtt_drained |= delivered <= bound;
            self.check_probe_rtt_done(ack.now);
        }
    }

    /// `CheckProbeRTTDone` (5.3.4.3).
    fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt_done_stamp != Instant::MAX && now > self.probe_rtt_done_stamp {
            // Schedule the next ProbeRTT.
            self.probe_rtt_min_stamp = now;
            self.restore_cwnd();
            self.exit_probe_rtt(now);
        }
    }

    /// `ExitProbeRTT` (5.3.4.4).
    fn exit_probe_rtt(&mut self, now: Instant) {
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_probe_bw_down(now);
            self.start_probe_bw_cruise();
        } else {
            self.enter_startup();
        }
    }

    /// `HandleRestartFromIdle` (5.4.1). The byte count of the aggregation interval restarts with it
    /// (divergence 8).
    pub(super) fn handle_restart_from_idle(&mut self, sent: &Sent) {
        if sent.in_flight > Bytes::ZERO || !sent.app_limited {
            return;
        }
        self.idle_restart = true;
        self.extra_acked_interval_start = sent.now;
        self.extra_acked_delivered = Bytes::ZERO;
        if self.state.is_probe_bw() {
            self.set_pacing_rate(Gain::ONE);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(sent.now);
        }
    }
}
