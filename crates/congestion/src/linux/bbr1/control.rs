//! Pacing, volumes and the window.
//!
//! It follows `tcp_bbr.c` of mainline Linux line by line, and [`bbr23`](crate::linux::bbr23) follows
//! the files of v2 and v3. Where lines here and there are equal, they are equal in Linux.

use super::{Core, Mode};
use crate::CaState;
use crate::linux::arithmetic::FixedPoint;
use crate::linux::arithmetic::{
    BBR_UNIT, MAX_BURST, MIN_TSO_RATE, UNSET, bdp, burst, bytes_per_sec, initial_bw,
    packets_in_net_at_edt,
};
use crate::linux::socket::{RateSample, Socket, in_recovery};

/// The default initial window of Linux (`TCP_INIT_CWND`).
const TCP_INIT_CWND: u32 = 10;

impl Core {
    // --- Pacing ---

    pub(super) fn pacing_rate(&self, sk: &Socket, bw: u32, gain: FixedPoint) -> u64 {
        bytes_per_sec(bw, sk.mss, gain, self.parameters.pacing_margin_percent)
    }

    pub(super) fn init_pacing_rate_from_rtt(&mut self, sk: &mut Socket) {
        self.has_seen_rtt |= sk.srtt != 0;
        let bw = initial_bw(sk.cwnd, sk.srtt);
        sk.pacing_rate = self.pacing_rate(sk, bw, self.parameters.high_gain);
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

    pub(super) fn tso_segs_goal(&self, sk: &Socket) -> u32 {
        let least = if sk.pacing_rate < MIN_TSO_RATE { 1 } else { 2 };
        let bytes = burst(sk.pacing_rate).min(MAX_BURST) as u32;
        bytes.checked_div(sk.mss).unwrap_or(0).max(least).min(127)
    }

    // --- Volumes ---

    pub(super) fn bdp(&self, bw: u32, gain: FixedPoint) -> u32 {
        if self.min_rtt_us == UNSET {
            return TCP_INIT_CWND;
        }
        bdp(bw, self.min_rtt_us, gain)
    }

    pub(super) fn quantization_budget(&self, sk: &Socket, cwnd: u32) -> u32 {
        let even = cwnd.wrapping_add(3 * self.tso_segs_goal(sk) + 1) & !1;
        let probing = self.mode == Mode::ProbeBw && self.cycle_idx == 0;
        even.wrapping_add(if probing { 2 } else { 0 })
    }

    pub(super) fn inflight(&self, sk: &Socket, bw: u32, gain: FixedPoint) -> u32 {
        self.quantization_budget(sk, self.bdp(bw, gain))
    }

    /// Packets in flight in PROBE_RTT.
    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        match self.probe_rtt_cwnd_gain {
            0 => self.parameters.cwnd_min_target,
            gain => self
                .bdp(self.bw(), gain)
                .max(self.parameters.cwnd_min_target),
        }
    }

    pub(super) fn packets_in_net_at_edt(&self, sk: &Socket, inflight_now: u32) -> u32 {
        let burst = if self.pacing_gain > BBR_UNIT {
            self.tso_segs_goal(sk)
        } else {
            0
        };
        packets_in_net_at_edt(self.bw(), inflight_now, burst, sk.now, sk.wstamp_ns)
    }

    // --- Window ---

    pub(super) fn save_cwnd(&mut self, sk: &Socket) {
        self.prior_cwnd = if !in_recovery(self.prev_ca_state) && self.mode != Mode::ProbeRtt {
            sk.cwnd
        } else {
            self.prior_cwnd.max(sk.cwnd)
        };
    }

    /// The window in and just after recovery. Returns whether packet conservation decides it: in
    /// the first round, as many packets are sent as are delivered.
    pub(super) fn cwnd_to_recover_or_restore(
        &mut self,
        sk: &Socket,
        rs: &RateSample,
    ) -> (u32, bool) {
        let (prev, state) = (self.prev_ca_state, sk.ca_state);
        let mut cwnd = sk.cwnd;
        if rs.losses > 0 {
            cwnd = (cwnd.wrapping_sub(rs.losses) as i32).max(1) as u32;
        }
        let conserving = sk.packets_in_flight.wrapping_add(rs.acked_sacked);
        if state == CaState::Recovery && prev != CaState::Recovery {
            self.packet_conservation = true;
            self.next_rtt_delivered = sk.delivered;
            cwnd = conserving;
        } else if in_recovery(prev) && !in_recovery(state) {
            cwnd = cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.prev_ca_state = state;
        if self.packet_conservation {
            return (cwnd.max(conserving), true);
        }
        (cwnd, false)
    }

    pub(super) fn set_cwnd(&mut self, sk: &mut Socket, rs: &RateSample, bw: u32) {
        if rs.acked_sacked > 0 {
            let (mut cwnd, conserved) = self.cwnd_to_recover_or_restore(sk, rs);
            if !conserved {
                let mut target = self.bdp(bw, self.cwnd_gain);
                if self.full_bw_reached {
                    target = target.wrapping_add(
                        self.aggregation
                            .cwnd_bonus(self.bw(), self.parameters.extra_acked_gain),
                    );
                }
                let target = self.quantization_budget(sk, target);
                let grown = cwnd.wrapping_add(rs.acked_sacked);
                if self.full_bw_reached {
                    cwnd = grown.min(target);
                } else if cwnd < target || sk.delivered < TCP_INIT_CWND {
                    cwnd = grown;
                }
                cwnd = cwnd.max(self.parameters.cwnd_min_target);
            }
            sk.cwnd = cwnd;
        }
        if self.mode == Mode::ProbeRtt {
            sk.cwnd = sk.cwnd.min(self.probe_rtt_cwnd());
        }
    }
}
