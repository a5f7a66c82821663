//! Round-trip time and retransmission timeout (RFC 6298).

use paceline_units::{Duration, Instant};

/// The estimator of RFC 6298, with the floor where Linux has it: under the variance term, so that
/// the timeout is never closer than the floor to the smoothed RTT. (With a floor under the whole
/// timeout, as in the RFC's 2.4, a steady RTT just below the floor times out at the first queue.)
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    srtt: Option<Duration>,
    rttvar: Duration,
    latest: Option<Duration>,
    min: Option<Duration>,
    /// The timeout without back-off.
    base: Duration,
    backoff: u32,
    floor: Duration,
    ceiling: Duration,
    kernel: Deviation,
}

/// Linux's measure of the RTT's variation (`tcp_rtt_estimator`): RTTVAR is the maximum of a round
/// trip, and falls only once a round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Deviation {
    /// Four mean deviations.
    mdev: Duration,
    /// Their maximum in this round trip, at least the floor.
    mdev_max: Duration,
    /// What the timeout adds to SRTT.
    rttvar: Duration,
    /// The round trip ends when data above this is acknowledged.
    rtt_seq: u64,
}

impl Deviation {
    /// The first measurement.
    fn begin(rtt: Duration, floor: Duration, nxt: u64) -> Self {
        let rttvar = (rtt * 2).max(floor);
        Self {
            mdev: rtt * 2,
            mdev_max: rttvar,
            rttvar,
            rtt_seq: nxt,
        }
    }

    fn update(&mut self, srtt: Duration, rtt: Duration, floor: Duration, una: u64, nxt: u64) {
        let mean = self.mdev / 4;
        let error = (srtt - rtt).max(rtt - srtt);
        // A falling RTT does not raise the timeout as fast: a gain of 1/32 instead of 1/4.
        self.mdev = match error > mean {
            true if rtt < srtt => self.mdev + (error - mean) / 8,
            _ => self.mdev + error - mean,
        };
        self.mdev_max = self.mdev_max.max(self.mdev);
        self.rttvar = self.rttvar.max(self.mdev_max);
        if una > self.rtt_seq {
            self.rttvar = self.rttvar - (self.rttvar - self.mdev_max) / 4;
            self.rtt_seq = nxt;
            self.mdev_max = floor;
        }
    }
}

impl RttEstimator {
    pub(crate) fn new(initial: Duration, floor: Duration, ceiling: Duration) -> Self {
        Self {
            srtt: None,
            rttvar: Duration::ZERO,
            latest: None,
            min: None,
            base: initial.min(ceiling),
            backoff: 0,
            floor,
            ceiling,
            kernel: Deviation::default(),
        }
    }

    /// Samples from one acknowledgment, of transmissions that were not ambiguous (Karn's algorithm,
    /// section 3): `rtt` of the earliest, `latest` of the most recently sent. The timeout has to
    /// cover the former; the latter is nearer to the path's RTT.
    #[inline]
    pub(crate) fn on_sample(&mut self, rtt: Duration, latest: Duration) {
        self.latest = Some(latest);
        self.min = Some(self.min.map_or(latest, |min| min.min(latest)));
        let srtt = match self.srtt {
            // 2.2: the first measurement.
            None => {
                self.rttvar = rtt / 2;
                rtt
            }
            // 2.3: RTTVAR before SRTT.
            Some(srtt) => {
                let error = (srtt - rtt).max(rtt - srtt);
                self.rttvar = self.rttvar - self.rttvar / 4 + error / 4;
                srtt - srtt / 8 + rtt / 8
            }
        };
        self.srtt = Some(srtt);
        self.base = (srtt + (self.rttvar * 4).max(self.floor)).min(self.ceiling);
        self.backoff = 0;
    }

    /// The same, with Linux's measure of the variation. `una` and `nxt` bound the data in flight.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_sample_as_linux(
        &mut self,
        rtt: Duration,
        latest: Duration,
        una: u64,
        nxt: u64,
    ) {
        match self.srtt {
            None => self.kernel = Deviation::begin(rtt, self.floor, nxt),
            Some(before) => self.kernel.update(before, rtt, self.floor, una, nxt),
        }
        self.on_sample(rtt, latest);
        let srtt = self.srtt.unwrap_or(rtt);
        self.base = (srtt + self.kernel.rttvar).min(self.ceiling);
    }

    /// 5.5: the timer expired.
    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// The timeout, including back-off.
    #[inline]
    pub(crate) fn rto(&self) -> Duration {
        // A shift of 32 reaches any reasonable ceiling.
        (self.base * (1_u64 << self.backoff.min(32))).min(self.ceiling)
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    pub(crate) fn latest(&self) -> Option<Duration> {
        self.latest
    }

    pub(crate) fn min(&self) -> Option<Duration> {
        self.min
    }

    #[inline]
    pub(crate) fn expiry(&self, now: Instant) -> Instant {
        now + self.rto()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn follows_the_rfc_by_hand() {
        let mut rtt = RttEstimator::new(ms(1000), ms(1), ms(120_000));
        assert_eq!(rtt.rto(), ms(1000));
        // SRTT 100, RTTVAR 50: RTO 100 + 200.
        rtt.on_sample(ms(100), ms(100));
        assert_eq!(
            (rtt.srtt, rtt.rttvar, rtt.rto()),
            (Some(ms(100)), ms(50), ms(300))
        );
        // RTTVAR 3/4 * 50 + 1/4 * 40 = 47.5, SRTT 7/8 * 100 + 1/8 * 140 = 105, RTO 295.
        rtt.on_sample(ms(140), ms(140));
        assert_eq!(rtt.rttvar, Duration::from_micros(47_500));
        assert_eq!((rtt.srtt, rtt.rto()), (Some(ms(105)), ms(295)));
        // RTTVAR 35.625 + 1/4 * 5 = 36.875, SRTT 91.875 + 12.5 = 104.375, RTO 251.875.
        rtt.on_sample(ms(100), ms(100));
        assert_eq!(rtt.rto(), Duration::from_micros(251_875));
        assert_eq!((rtt.min(), rtt.latest()), (Some(ms(100)), Some(ms(100))));
    }

    #[test]
    fn the_kernel_s_variation_by_hand() {
        let mut rtt = RttEstimator::new(ms(1000), ms(20), ms(120_000));
        // SRTT 100, four deviations 200: RTO 300.
        rtt.on_sample_as_linux(ms(100), ms(100), 0, 10);
        assert_eq!(rtt.rto(), ms(300));
        // SRTT 105; 200 + 40 - 50 = 190, but the maximum of the round trip is 200.
        rtt.on_sample_as_linux(ms(140), ms(140), 5, 20);
        assert_eq!(rtt.rto(), ms(305));
        // The end of the round trip. SRTT 104.375; 190 + 5 - 47.5 = 147.5, the maximum is 200.
        rtt.on_sample_as_linux(ms(100), ms(100), 11, 30);
        assert_eq!(rtt.rto(), Duration::from_micros(304_375));
        // The next: SRTT 101.328125; the error of 24.375 is below a deviation of 36.875, so
        // 147.5 + 24.375 - 36.875 = 135; the timeout's part falls by a quarter of 200 - 135.
        rtt.on_sample_as_linux(ms(80), ms(80), 31, 40);
        assert_eq!(rtt.rto(), Duration::from_nanos(101_328_125 + 183_750_000));
        // An RTT that falls by more than a deviation, by 57.578 more: SRTT 89.912..; 135 + 57.578 / 8
        // = 142.197, and 183.75 stays until the round trip ends.
        rtt.on_sample_as_linux(ms(10), ms(10), 35, 50);
        assert_eq!(rtt.rto(), Duration::from_nanos(89_912_110 + 183_750_000));
        assert_eq!(rtt.kernel.mdev, Duration::from_nanos(142_197_265));
    }

    #[test]
    fn the_floor_stands_above_the_smoothed_rtt() {
        let mut rtt = RttEstimator::new(ms(1000), ms(200), ms(120_000));
        for _ in 0..100 {
            rtt.on_sample(ms(180), ms(180));
        }
        assert_eq!(rtt.rto(), ms(380));
    }

    #[test]
    fn backs_off_to_the_ceiling_until_a_sample() {
        let mut rtt = RttEstimator::new(ms(1000), ms(200), ms(60_000));
        let mut timeouts = Vec::new();
        for _ in 0..8 {
            timeouts.push(rtt.rto());
            rtt.back_off();
        }
        let expected = [1, 2, 4, 8, 16, 32, 60, 60].map(Duration::from_secs);
        assert_eq!(timeouts, expected);
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), ms(60_000));
        rtt.on_sample(ms(100), ms(100));
        assert_eq!(rtt.rto(), ms(300));
    }
}
