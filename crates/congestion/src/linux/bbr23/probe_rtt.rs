//! The two windows of the minimum RTT, and PROBE_RTT.

use super::{AckPhase, Core, Mode};
use crate::linux::arithmetic::before;
use crate::linux::{Random, RateSample, Socket};

impl<const V: u8> Core<V> {
    pub(super) fn update_min_rtt(
        &mut self,
        sk: &mut Socket,
        rs: &RateSample,
        random: &mut Random<'_>,
    ) {
        let now = sk.jiffies();
        let p = &self.parameters;
        let (dip, win) = (p.probe_rtt_mode, p.min_rtt_win);
        let expiry = self.probe_rtt_min_stamp.wrapping_add(p.probe_rtt_win);
        let probe_rtt_expired = before(expiry, now);
        let known = i64::from(self.probe_rtt_min_us);
        let lower = if Self::V3 {
            rs.rtt_us < known
        } else {
            rs.rtt_us <= known
        };
        if rs.rtt_us >= 0 && (lower || (probe_rtt_expired && !rs.is_ack_delayed)) {
            self.probe_rtt_min_us = rs.rtt_us as u32;
            self.probe_rtt_min_stamp = now;
        }
        let min_rtt_expired = before(self.min_rtt_stamp.wrapping_add(win), now);
        if self.probe_rtt_min_us <= self.min_rtt_us || min_rtt_expired {
            self.min_rtt_us = self.probe_rtt_min_us;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }

        if dip > 0 && probe_rtt_expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(sk);
            self.probe_rtt_done_stamp = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.next_rtt_delivered = sk.delivered;
        }
        if self.mode == Mode::ProbeRtt {
            sk.app_limited = sk.delivered.wrapping_add(sk.packets_in_flight).max(1);
            if self.probe_rtt_done_stamp.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(sk, random);
                }
            } else if sk.packets_in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt_done_stamp = Some(now.wrapping_add(dip));
                self.probe_rtt_round_done = false;
                self.next_rtt_delivered = sk.delivered;
            }
        }
        if rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, sk: &mut Socket, random: &mut Random<'_>) {
        let now = sk.jiffies();
        if self
            .probe_rtt_done_stamp
            .is_none_or(|done| !before(done, now))
        {
            return;
        }
        self.probe_rtt_min_stamp = now;
        sk.cwnd = sk.cwnd.max(self.prior_cwnd);
        self.reset_lower_bounds();
        if self.full_bw_reached {
            self.mode = Mode::ProbeBw;
            // The wait for the next probe restarts; in flight is already low enough to cruise.
            self.start_bw_probe_down(sk, random);
            self.start_bw_probe_cruise();
        } else {
            self.mode = Mode::Startup;
        }
    }
}
