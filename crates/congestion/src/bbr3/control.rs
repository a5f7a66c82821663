//! The control parameters (5.6): pacing rate, send quantum, congestion window.

use paceline_units::{Bytes, Duration, Gain, Rate};

use super::{Bbr3, State};
use crate::Ack;

impl Bbr3 {
    /// `InitPacingRate` (5.6.2); before the first RTT sample, 1 ms.
    pub(super) fn init_pacing_rate(&mut self, srtt: Option<Duration>) {
        let rtt = srtt.unwrap_or(Duration::from_millis(1));
        let nominal = Rate::from_delivery(self.initial_window, rtt.max(Duration::from_nanos(1)));
        self.pacing_rate = (nominal * self.parameters.startup_pacing_gain).max(Rate::from_bps(1));
        self.has_seen_rtt = srtt.is_some();
        self.set_send_quantum();
    }

    /// `SetPacingRateWithGain` (5.6.2). A rate is never zero.
    pub(super) fn set_pacing_rate(&mut self, gain: Gain) {
        let margin =
            Gain::from_millionths(Gain::SCALE - self.parameters.pacing_margin.millionths());
        let rate = self.bw * gain * margin;
        let applies = self.full_bw_reached || rate > self.pacing_rate;
        if rate > Rate::ZERO && applies && rate != self.pacing_rate {
            self.pacing_rate = rate;
            self.set_send_quantum();
        }
    }

    /// `SetSendQuantum` (5.6.3).
    pub(super) fn set_send_quantum(&mut self) {
        self.send_quantum = self
            .pacing_rate
            .volume_in(Duration::from_millis(1))
            .min(Bytes::new(64 * 1024))
            .max(self.smss() * 2);
    }

    /// `UpdateOffloadBudget` for TCP (5.5.8.1): a quantum in the qdisc, one in
    /// the segmentation engine, one unacknowledged at the receiver.
    pub(super) fn offload_budget(&self) -> Bytes {
        self.send_quantum * 3
    }

    /// `QuantizationBudget` (5.6.4.2).
    fn quantization_budget(&self, inflight_cap: Bytes) -> Bytes {
        let cap = inflight_cap
            .max(self.offload_budget())
            .max(self.min_pipe_cwnd());
        if self.state == State::Up {
            cap + self.smss() * 2
        } else {
            cap
        }
    }

    /// `Inflight` (5.6.4.2).
    pub(super) fn inflight(&self, bw: Rate, gain: Gain) -> Bytes {
        self.quantization_budget(self.bdp_multiple(bw, gain))
    }

    /// `UpdateMaxInflight` (5.6.4.2).
    pub(super) fn max_inflight(&self) -> Bytes {
        self.quantization_budget(self.bdp_multiple(self.bw, self.cwnd_gain) + self.extra_acked)
    }

    /// `ProbeRTTCwnd` (5.6.4.5). The floor keeps it reachable.
    pub(super) fn probe_rtt_cwnd(&self) -> Bytes {
        self.bdp_multiple(self.bw, self.parameters.probe_rtt_cwnd_gain)
            .min(self.probe_rtt_cap)
            .max(self.min_pipe_cwnd())
    }

    /// `SetCwnd` (5.6.4.6).
    pub(super) fn set_cwnd(&mut self, ack: &Ack) {
        let max_inflight = self.max_inflight();
        if self.full_bw_reached {
            self.cwnd = (self.cwnd + ack.newly_acked).min(max_inflight);
        } else if self.cwnd < max_inflight || ack.delivered < self.initial_window {
            self.cwnd += ack.newly_acked;
        }
        self.cwnd = self.cwnd.max(self.min_pipe_cwnd());
        // BoundCwndForProbeRTT (5.6.4.5)
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd_for_model();
    }

    /// `BoundCwndForModel` (5.6.4.7).
    pub(super) fn bound_cwnd_for_model(&mut self) {
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::Startup | State::Drain => Bytes::INFINITE,
        };
        let cap = cap.min(self.inflight_shortterm).max(self.min_pipe_cwnd());
        self.cwnd = self.cwnd.min(cap);
    }
}
