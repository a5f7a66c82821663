//! The path's signals in ACKs, losses and CE marks: bandwidth, short-term lower bounds,
//! aggregation, and when STARTUP has filled the pipe.

use super::Core;
use crate::CaState;
use crate::linux::arithmetic::{BBR_SCALE, BBR_UNIT, BW_UNIT, UNSET, before, scaled};
use crate::linux::{RateSample, Socket};

/// Rounds in a slot of the aggregation filter (`bbr_extra_acked_win_rtts`).
const EXTRA_ACKED_WIN_RTTS: u8 = 5;

impl<const V: u8> Core<V> {
    pub(super) fn calculate_bw_sample(&mut self, rs: &RateSample) {
        self.sample_bw = 0;
        if rs.interval_us > 0 && rs.delivered >= 0 {
            let volume = u64::from(rs.delivered.unsigned_abs()) * BW_UNIT;
            self.sample_bw = volume.div_ceil(rs.interval_us.unsigned_abs()) as u32;
        }
    }

    fn raise_latest(&mut self, rs: &RateSample) {
        self.bw_latest = self.bw_latest.max(self.sample_bw);
        self.inflight_latest = self.inflight_latest.max(rs.delivered as u32);
    }

    fn start_loss_round(&mut self, sk: &Socket, rs: &RateSample) {
        if !before(rs.prior_delivered, self.loss_round_delivered) {
            self.loss_round_delivered = sk.delivered;
            self.loss_round_start = true;
        }
    }

    /// The rate and volume delivered in this round (v3: before the fast path is considered).
    pub(super) fn update_latest_delivery_signals(&mut self, sk: &Socket, rs: &RateSample) {
        self.loss_round_start = false;
        if is_valid(rs) {
            self.raise_latest(rs);
            self.start_loss_round(sk, rs);
        }
    }

    pub(super) fn advance_latest_delivery_signals(&mut self, rs: &RateSample) {
        self.bw_latest = self.sample_bw;
        self.inflight_latest = rs.delivered as u32;
    }

    pub(super) fn update_congestion_signals(&mut self, sk: &Socket, rs: &RateSample) {
        if !Self::V3 {
            self.loss_round_start = false;
        }
        if !is_valid(rs) {
            return;
        }
        if !rs.is_app_limited || self.sample_bw >= self.max_bw() {
            self.bw_hi[1] = self.bw_hi[1].max(self.sample_bw);
        }
        self.loss_in_round |= rs.losses > 0;
        if !Self::V3 {
            self.raise_latest(rs);
            self.start_loss_round(sk, rs);
        }
        if !self.loss_round_start {
            return;
        }
        self.adapt_lower_bounds(sk);
        self.loss_in_round = false;
        self.ecn_in_round = false;
        if !Self::V3 {
            self.advance_latest_delivery_signals(rs);
        }
    }

    fn adapt_lower_bounds(&mut self, sk: &Socket) {
        if self.is_probing_bandwidth() {
            return;
        }
        let p = &self.parameters;
        let (beta, ecn_factor) = (p.beta, p.ecn_factor);
        let mut ecn_inflight_lo = UNSET;
        if self.ecn_in_round && self.ecn_eligible && ecn_factor > 0 {
            if self.inflight_lo == UNSET {
                self.inflight_lo = sk.cwnd;
            }
            let keep = BBR_UNIT - scaled(self.ecn_alpha, ecn_factor).min(BBR_UNIT);
            ecn_inflight_lo = scaled(self.inflight_lo, keep);
        }
        if self.loss_in_round {
            if self.bw_lo == UNSET {
                self.bw_lo = self.max_bw();
            }
            if self.inflight_lo == UNSET {
                self.inflight_lo = sk.cwnd;
            }
            let keep = BBR_UNIT - beta;
            self.bw_lo = self.bw_latest.max(scaled(self.bw_lo, keep));
            self.inflight_lo = self.inflight_latest.max(scaled(self.inflight_lo, keep));
        }
        self.inflight_lo = self.inflight_lo.min(ecn_inflight_lo);
        if Self::V3 {
            self.bw_lo = self.bw_lo.max(1);
        }
    }

    pub(super) fn reset_lower_bounds(&mut self) {
        self.bw_lo = UNSET;
        self.inflight_lo = UNSET;
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss_in_round = false;
        self.ecn_in_round = false;
        self.loss_in_cycle = false;
        self.ecn_in_cycle = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    /// Marks this round as one with loss, and lets a full round pass from its first loss.
    pub(super) fn note_loss(&mut self, sk: &Socket) {
        if !self.loss_in_round {
            self.loss_round_delivered = sk.delivered;
        }
        self.loss_in_round = true;
        self.loss_in_cycle = true;
    }

    pub(super) fn update_ack_aggregation(&mut self, sk: &Socket, rs: &RateSample) {
        if self.parameters.extra_acked_gain == 0 {
            return;
        }
        let rounds = if self.full_bw_reached {
            EXTRA_ACKED_WIN_RTTS
        } else {
            1
        };
        let bw = self.bw();
        self.aggregation
            .update(sk, rs, bw, self.round_start, rounds);
    }

    // --- ECN ---

    /// Once per round: the marked fraction, averaged over rounds.
    pub(super) fn update_ecn_alpha(&mut self, sk: &Socket) {
        let p = &self.parameters;
        let (gain, ecn_factor, max_rtt) = (p.ecn_alpha_gain, p.ecn_factor, p.ecn_max_rtt);
        let enabled = if Self::V3 { sk.ecn_low } else { p.ecn };
        let delivered = sk.delivered.wrapping_sub(self.alpha_last_delivered);
        let delivered_ce = sk.delivered_ce.wrapping_sub(self.alpha_last_delivered_ce);
        let countable = delivered != 0 && delivered as i32 >= 0 && delivered_ce as i32 >= 0;
        // v2 keeps the average whether or not it will use it, v3 only if it will.
        if !Self::V3 && (ecn_factor == 0 || !countable) {
            return;
        }
        self.ecn_eligible |=
            enabled && ecn_factor > 0 && (self.min_rtt_us <= max_rtt || max_rtt == 0);
        if Self::V3 && (!self.ecn_eligible || !countable) {
            return;
        }
        let ce_ratio = (u64::from(delivered_ce) << BBR_SCALE) / u64::from(delivered);
        let old = u64::from(scaled(self.ecn_alpha, BBR_UNIT - gain));
        let alpha = old + (u64::from(gain).wrapping_mul(ce_ratio) >> BBR_SCALE);
        self.ecn_alpha = (alpha as u32).min(BBR_UNIT);
        self.alpha_last_delivered = sk.delivered;
        self.alpha_last_delivered_ce = sk.delivered_ce;
        self.check_ecn_too_high_in_startup(sk, ce_ratio as u32);
    }

    fn check_ecn_too_high_in_startup(&mut self, sk: &Socket, ce_ratio: u32) {
        let p = &self.parameters;
        if self.full_bw_reached || !self.ecn_eligible || p.full_ecn_cnt == 0 || p.ecn_thresh == 0 {
            return;
        }
        self.startup_ecn_rounds = if ce_ratio >= p.ecn_thresh {
            self.startup_ecn_rounds + 1
        } else {
            0
        };
        if self.startup_ecn_rounds >= p.full_ecn_cnt {
            self.handle_queue_too_high_in_startup(sk);
        }
    }

    // --- When STARTUP has filled the pipe ---

    fn handle_queue_too_high_in_startup(&mut self, sk: &Socket) {
        self.full_bw_reached = true;
        let bdp = self.inflight(sk, self.max_bw(), BBR_UNIT);
        self.inflight_hi = if Self::V3 {
            bdp.max(self.inflight_latest)
        } else {
            bdp
        };
    }

    pub(super) fn check_loss_too_high_in_startup(&mut self, sk: &Socket, rs: &RateSample) {
        if self.full_bw_reached {
            return;
        }
        if rs.losses > 0 {
            self.loss_events_in_round = (self.loss_events_in_round + 1).min(15);
        }
        let enough = self.parameters.full_loss_cnt;
        if enough > 0
            && self.loss_round_start
            && sk.ca_state == CaState::Recovery
            && self.loss_events_in_round >= enough
            && self.is_inflight_too_high(rs)
        {
            self.handle_queue_too_high_in_startup(sk);
            return;
        }
        if self.loss_round_start {
            self.loss_events_in_round = 0;
        }
    }

    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0;
        self.full_bw_cnt = 0;
        self.full_bw_now = false;
    }

    /// v3 looks for a plateau of samples at any time, v2 for one of max_bw in STARTUP.
    pub(super) fn check_full_bw_reached(&mut self, rs: &RateSample) {
        let (done, bw) = if Self::V3 {
            (self.full_bw_now, self.sample_bw)
        } else {
            (self.full_bw_reached || !self.round_start, self.max_bw())
        };
        if done || rs.is_app_limited {
            return;
        }
        if bw >= scaled(self.full_bw, self.parameters.full_bw_thresh) {
            self.reset_full_bw();
            self.full_bw = bw;
            return;
        }
        if !self.round_start {
            return;
        }
        self.full_bw_cnt += 1;
        self.full_bw_now = self.full_bw_cnt >= self.parameters.full_bw_cnt;
        self.full_bw_reached |= self.full_bw_now;
    }
}

/// Whether the sample says anything about the path.
fn is_valid(rs: &RateSample) -> bool {
    rs.interval_us > 0 && rs.acked_sacked > 0
}
