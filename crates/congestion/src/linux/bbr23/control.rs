//! The outputs of the model: pacing rate, burst and window.

use super::{Core, Mode, Phase, Prr};
use crate::linux::arithmetic::FixedPoint;
use crate::linux::arithmetic::{
    BBR_UNIT, MAX_BURST, MIN_TSO_RATE, UNSET, bdp, burst, burst_for_rtt, bytes_per_sec, initial_bw,
    packets_in_net_at_edt, scaled,
};
use crate::linux::socket::in_recovery;
use crate::linux::{RateSample, Socket};

impl<const V: u8> Core<V> {
    fn pacing_rate(&self, sk: &Socket, bw: u32, gain: FixedPoint) -> u64 {
        bytes_per_sec(bw, sk.mss, gain, self.parameters.pacing_margin_percent).max(1)
    }

    pub(super) fn init_pacing_rate_from_rtt(&mut self, sk: &mut Socket) {
        self.has_seen_rtt |= sk.srtt != 0;
        let bw = initial_bw(sk.cwnd, sk.srtt);
        sk.pacing_rate = self.pacing_rate(sk, bw, self.parameters.startup_pacing_gain);
    }

    pub(super) fn set_pacing_rate(&mut self, sk: &mut Socket, bw: u32, gain: FixedPoint) {
        let rate = self.pacing_rate(sk, bw, gain);
        if !self.has_seen_rtt && sk.srtt != 0 {
            self.init_pacing_rate_from_rtt(sk);
        }
        if self.full_bw_reached || rate > sk.pacing_rate {
            sk.pacing_rate = rate;
        }
    }

    pub(super) fn update_gains(&mut self) {
        let p = &self.parameters;
        (self.pacing_gain, self.cwnd_gain) = match (self.mode, self.cycle_idx) {
            (Mode::Startup, _) => (p.startup_pacing_gain, p.startup_cwnd_gain),
            (Mode::Drain, _) => (p.drain_gain, p.startup_cwnd_gain),
            (Mode::ProbeBw, Phase::Up) => (p.probe_up_gain, p.cwnd_gain + p.bw_probe_cwnd_gain),
            (Mode::ProbeBw, Phase::Down) => (p.probe_down_gain, p.cwnd_gain),
            (Mode::ProbeBw, Phase::Cruise | Phase::Refill) => (BBR_UNIT, p.cwnd_gain),
            (Mode::ProbeRtt, _) => (BBR_UNIT, BBR_UNIT),
        };
    }

    /// Packets in a burst: 1 ms of pacing, and more if the RTT is short.
    pub(super) fn tso_segs_goal(&self, sk: &Socket) -> u32 {
        let bytes = burst(sk.pacing_rate).wrapping_add(burst_for_rtt(self.min_rtt_us));
        let segs = (bytes as u32).min(MAX_BURST as u32).checked_div(sk.mss);
        let least = if !Self::V3 && sk.pacing_rate < MIN_TSO_RATE {
            1
        } else {
            2
        };
        segs.unwrap_or(0).max(least)
    }

    fn bdp(&self, bw: u32, gain: FixedPoint) -> u32 {
        if self.min_rtt_us == UNSET {
            return self.init_cwnd;
        }
        bdp(bw, self.min_rtt_us, gain)
    }

    fn quantization_budget(&self, sk: &Socket, cwnd: u32) -> u32 {
        let cwnd = cwnd
            .max(3 * self.tso_segs_goal(sk))
            .max(self.parameters.cwnd_min_target);
        cwnd.wrapping_add(if self.is_up() { 2 } else { 0 })
    }

    pub(super) fn inflight(&self, sk: &Socket, bw: u32, gain: FixedPoint) -> u32 {
        self.quantization_budget(sk, self.bdp(bw, gain))
    }

    pub(super) fn target_inflight(&self, sk: &Socket) -> u32 {
        self.inflight(sk, self.bw(), BBR_UNIT).min(sk.cwnd)
    }

    pub(super) fn packets_in_net_at_edt(&self, sk: &Socket, inflight_now: u32) -> u32 {
        let burst = if self.pacing_gain > BBR_UNIT {
            self.tso_segs_goal(sk)
        } else {
            0
        };
        packets_in_net_at_edt(self.bw(), inflight_now, burst, sk.now, sk.wstamp_ns)
    }

    pub(super) fn save_cwnd(&mut self, sk: &Socket) {
        self.prior_cwnd = if !in_recovery(self.prev_ca_state) && self.mode != Mode::ProbeRtt {
            sk.cwnd
        } else {
            self.prior_cwnd.max(sk.cwnd)
        };
    }

    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        let p = &self.parameters;
        self.bdp(self.bw(), p.probe_rtt_cwnd_gain)
            .max(p.cwnd_min_target)
    }

    pub(super) fn set_cwnd(&mut self, sk: &mut Socket, acked: u32, bw: u32) {
        if acked > 0 {
            let bonus = self
                .aggregation
                .cwnd_bonus(self.bw(), self.parameters.extra_acked_gain);
            let target = self.bdp(bw, self.cwnd_gain).wrapping_add(bonus);
            let target = self.quantization_budget(sk, target);
            let grown = sk.cwnd.wrapping_add(acked);
            // The fast path is open when the window has reached its target.
            self.try_fast_path = false;
            if self.full_bw_reached {
                self.try_fast_path = grown >= target;
                sk.cwnd = grown.min(target);
            } else if sk.cwnd < target || sk.cwnd < 2 * self.init_cwnd {
                sk.cwnd = grown;
            } else {
                self.try_fast_path = true;
            }
            sk.cwnd = sk.cwnd.max(self.parameters.cwnd_min_target);
        }
        if self.mode == Mode::ProbeRtt {
            sk.cwnd = sk.cwnd.min(self.probe_rtt_cwnd());
        }
    }

    pub(super) fn inflight_with_headroom(&self) -> u32 {
        if self.inflight_hi == UNSET {
            return UNSET;
        }
        let headroom = scaled(self.inflight_hi, self.parameters.inflight_headroom).max(1);
        let left = self.inflight_hi.wrapping_sub(headroom) as i32;
        left.max(self.parameters.cwnd_min_target as i32) as u32
    }

    pub(super) fn bound_cwnd_for_inflight_model(&self, sk: &mut Socket) {
        let cap = match self.mode {
            Mode::ProbeBw if self.is_cruising() => self.inflight_with_headroom(),
            Mode::ProbeBw => self.inflight_hi,
            Mode::ProbeRtt => self.inflight_with_headroom(),
            Mode::Startup | Mode::Drain => UNSET,
        };
        let cap = cap
            .min(self.inflight_lo)
            .max(self.parameters.cwnd_min_target);
        sk.cwnd = sk.cwnd.min(cap);
    }

    /// Fast recovery begins: only the fast retransmit may leave before the next ACK.
    pub(super) fn begin_prr(&mut self, sk: &mut Socket) {
        if self.parameters.prr_bound && self.prr.is_none() {
            self.prr = Some(Prr {
                delivered: sk.delivered,
                sent: sent(sk),
            });
            sk.cwnd = sk.cwnd.min(sk.packets_in_flight.saturating_add(1));
        }
    }

    /// A loss does not allow sending: only an ACK does.
    pub(super) fn close_window_for_loss(&self, sk: &mut Socket, lost: u32) {
        if self.prr.is_some() {
            sk.cwnd = sk.cwnd.saturating_sub(lost).max(1);
        }
    }

    /// RFC 9937 section 6.2, with the model's window in place of ssthresh: the data in flight grows
    /// at most by what was delivered and has not been replaced, or by this ACK's delivery, and by
    /// one packet more if nothing is lost on it (SafeACK).
    pub(super) fn bound_cwnd_for_delivery(&mut self, sk: &mut Socket, rs: &RateSample) {
        let Some(prr) = self.prr else {
            return;
        };
        let delivered = sk.delivered.wrapping_sub(prr.delivered);
        let out = sent(sk).wrapping_sub(prr.sent);
        let safe = u32::from(rs.acked_sacked > 0 && rs.losses == 0);
        let limit = (delivered.saturating_sub(out))
            .max(rs.acked_sacked)
            .saturating_add(safe);
        let bound = sk.packets_in_flight.saturating_add(limit).max(1);
        if bound < sk.cwnd {
            sk.cwnd = bound;
            self.try_fast_path = false;
        }
    }
}

/// Packets sent so far.
fn sent(sk: &Socket) -> u32 {
    sk.delivered
        .wrapping_add(sk.lost)
        .wrapping_add(sk.packets_in_flight)
}
