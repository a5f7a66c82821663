//! BBRv1's long-term bandwidth estimator: detects a token-bucket policer by two consecutive
//! intervals of high loss at the same rate.

use super::Socket;
use super::arithmetic::{BBR_SCALE, BBR_UNIT, BW_UNIT, bytes_per_sec};

/// Minimum rounds in an interval (`bbr_lt_intvl_min_rtts`); the maximum is four times that.
const INTERVAL_MIN_RTTS: u32 = 4;
/// Loss in an interval that suggests a policer, in 256ths (`bbr_lt_loss_thresh`).
const LOSS_THRESH: u32 = 50;
/// Rates that differ by no more than this, in 256ths, agree (`bbr_lt_bw_ratio`).
const BW_RATIO: u32 = BBR_UNIT / 8;
/// Rates that differ by no more than this in bytes per second agree (`bbr_lt_bw_diff`).
const BW_DIFF: u64 = 4_000 / 8;
/// Rounds for which the policed rate is kept (`bbr_lt_bw_max_rtts`).
const MAX_RTTS: u32 = 48;
/// The percentage that Linux subtracts from any rate in bytes per second.
const MARGIN: u32 = 1;

/// The detector's state (`lt_*`).
#[derive(Clone, Copy, Debug)]
pub struct PolicerDetector {
    bw: u32,
    last_delivered: u32,
    last_lost: u32,
    last_stamp_ms: u32,
    rtt_cnt: u32,
    is_sampling: bool,
    use_bw: bool,
}

impl PolicerDetector {
    pub fn new(sk: &Socket) -> Self {
        Self {
            bw: 0,
            last_delivered: sk.delivered,
            last_lost: sk.lost,
            last_stamp_ms: millis(sk.delivered_mstamp),
            rtt_cnt: 0,
            is_sampling: false,
            use_bw: false,
        }
    }

    /// The policed rate, while a policer is assumed.
    pub fn bw(&self) -> Option<u32> {
        self.use_bw.then_some(self.bw)
    }

    /// The rate of the last interval, or the policed rate.
    pub fn lt_bw(&self) -> u32 {
        self.bw
    }

    /// Rounds in this interval, or rounds for which the policed rate has been in use.
    pub fn rtt_cnt(&self) -> u32 {
        self.rtt_cnt
    }

    /// Resets everything.
    pub fn reset(&mut self, sk: &Socket) {
        *self = Self::new(sk);
    }

    /// Counts a round at the policed rate. Resets, and returns true, when it has been in use long
    /// enough.
    pub fn has_served(&mut self, sk: &Socket) -> bool {
        self.rtt_cnt += 1;
        let served = self.rtt_cnt >= MAX_RTTS;
        if served {
            self.reset(sk);
        }
        served
    }

    /// Processes an ACK (or a timeout). Returns whether a policer has just been detected.
    pub fn sample(
        &mut self,
        sk: &Socket,
        loss: bool,
        app_limited: bool,
        round_start: bool,
    ) -> bool {
        // The first loss shows that the bucket is empty.
        if !self.is_sampling {
            if !loss {
                return false;
            }
            self.start_interval(sk);
            self.is_sampling = true;
        }
        if app_limited {
            self.reset(sk);
            return false;
        }
        if round_start {
            self.rtt_cnt += 1;
        }
        if self.rtt_cnt < INTERVAL_MIN_RTTS {
            return false;
        }
        if self.rtt_cnt > 4 * INTERVAL_MIN_RTTS {
            self.reset(sk);
            return false;
        }
        // It must end as it began: with an empty bucket.
        if !loss {
            return false;
        }
        let lost = sk.lost.wrapping_sub(self.last_lost);
        let delivered = sk.delivered.wrapping_sub(self.last_delivered);
        if delivered == 0 || (lost << BBR_SCALE) < LOSS_THRESH.wrapping_mul(delivered) {
            return false;
        }
        let span = millis(sk.delivered_mstamp).wrapping_sub(self.last_stamp_ms);
        if (span as i32) < 1 {
            return false;
        }
        if span >= u32::MAX / 1_000 {
            self.reset(sk);
            return false;
        }
        let bw = u64::from(delivered) * BW_UNIT / u64::from(span * 1_000);
        self.end_interval(sk, bw as u32)
    }

    fn start_interval(&mut self, sk: &Socket) {
        let Self {
            bw,
            is_sampling,
            use_bw,
            ..
        } = *self;
        *self = Self {
            bw,
            is_sampling,
            use_bw,
            ..Self::new(sk)
        };
    }

    fn end_interval(&mut self, sk: &Socket, bw: u32) -> bool {
        if self.bw > 0 {
            let diff = (bw.wrapping_sub(self.bw) as i32).unsigned_abs();
            if diff.wrapping_mul(BBR_UNIT) <= BW_RATIO.wrapping_mul(self.bw)
                || bytes_per_sec(diff, sk.mss, BBR_UNIT, MARGIN) <= BW_DIFF
            {
                self.bw = bw.wrapping_add(self.bw) >> 1;
                self.use_bw = true;
                self.rtt_cnt = 0;
                return true;
            }
        }
        self.bw = bw;
        self.start_interval(sk);
        false
    }
}

fn millis(micros: u64) -> u32 {
    (micros / 1_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 100 ms with `rate` packets delivered and a quarter of that lost in each.
    fn police(
        policer: &mut PolicerDetector,
        sk: &mut Socket,
        rate: u32,
        rounds: u32,
    ) -> Option<u32> {
        (0..rounds).find(|_| {
            sk.now += 100_000;
            sk.delivered_mstamp = sk.now;
            sk.delivered += rate;
            sk.lost += rate / 4;
            policer.sample(sk, true, false, true)
        })
    }

    #[test]
    fn two_intervals_that_agree_show_a_policer() {
        let mut sk = Socket {
            mss: 1448,
            ..Socket::default()
        };
        let mut policer = PolicerDetector::new(&sk);
        assert!(police(&mut policer, &mut sk, 100, 20).is_some());
        // 100 packets in 100 ms.
        let bw = (BW_UNIT / 1_000) as u32;
        let estimate = policer.bw().unwrap_or(0);
        assert!(estimate.abs_diff(bw) < bw / 2, "{estimate} of {bw}");
        let mut rounds = 1;
        while !policer.has_served(&sk) {
            rounds += 1;
        }
        assert_eq!((rounds, policer.bw()), (48, None));
    }

    #[test]
    fn rates_that_differ_or_little_loss_do_not() {
        let mut sk = Socket {
            mss: 1448,
            ..Socket::default()
        };
        let mut policer = PolicerDetector::new(&sk);
        for step in 1..10 {
            assert_eq!(
                police(&mut policer, &mut sk, 100 * step * step, 3),
                None,
                "{step}"
            );
        }
        let mut policer = PolicerDetector::new(&sk);
        for _ in 0..60 {
            sk.now += 100_000;
            sk.delivered_mstamp = sk.now;
            sk.delivered += 100;
            sk.lost += 10;
            assert!(!policer.sample(&sk, true, false, true));
        }
    }
}
