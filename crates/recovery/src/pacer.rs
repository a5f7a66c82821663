//! The pacer (draft-ietf-ccwg-bbr-06 section 5.6.2).

use paceline_units::{Bytes, Duration, Instant, Rate};

/// Releases bursts of up to a send quantum.
///
/// A burst may begin when the previous one has been paid for at the pacing rate; it continues while
/// the time is the same and the quantum is not used up. A burst cut short by the window costs only
/// what it sent, not a whole quantum. A late release earns no credit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    burst_start: Instant,
    burst_bytes: u64,
    /// When the next burst may begin.
    release: Instant,
}

impl Pacer {
    /// The lowest rate: with a rate of zero, sending would never end.
    const SLOWEST: Rate = Rate::from_bps(8_000);

    /// Whether `len` bytes may be sent now, in bursts of `quantum`.
    pub fn allows(&self, now: Instant, len: u32, quantum: Bytes) -> bool {
        now >= self.release
            || (now == self.burst_start
                && self.burst_bytes.saturating_add(u64::from(len)) <= quantum.get())
    }

    /// `len` bytes are sent now.
    #[inline]
    pub fn on_send(&mut self, now: Instant, len: u32, rate: Option<Rate>) {
        let Some(rate) = rate.filter(|rate| !rate.is_infinite()) else {
            self.release = now;
            self.burst_bytes = 0;
            return;
        };
        if now != self.burst_start || now >= self.release {
            self.burst_start = now;
            self.burst_bytes = 0;
        }
        self.burst_bytes = self.burst_bytes.saturating_add(u64::from(len));
        let cost = rate
            .max(Self::SLOWEST)
            .time_for(Bytes::new(self.burst_bytes));
        // Data sent out of turn (a probe) also uses pacing credit.
        let until_release = if self.burst_bytes == u64::from(len) {
            self.release.since(now)
        } else {
            Duration::ZERO
        };
        self.release = now + cost.max(until_release);
    }

    /// The bytes of the burst that a segment sent now continues.
    #[inline]
    pub(crate) fn begun(&self, now: Instant) -> u64 {
        match now != self.burst_start || now >= self.release {
            true => 0,
            false => self.burst_bytes,
        }
    }

    /// [`Self::on_send`] of the rest of a burst, which then has `bytes`, at a finite `rate`;
    /// `single`: of one segment.
    #[inline]
    pub(crate) fn on_burst(&mut self, now: Instant, bytes: u64, single: bool, rate: Option<Rate>) {
        if single || rate.is_none() {
            let len = bytes - if single { self.begun(now) } else { 0 };
            return self.on_send(now, len as u32, rate);
        }
        // Only a burst's first segment pays what others owe.
        let rate = rate.unwrap_or(Rate::INFINITE).max(Self::SLOWEST);
        self.burst_start = now;
        self.burst_bytes = bytes;
        self.release = now + rate.time_for(Bytes::new(bytes));
    }

    /// When the next burst may begin.
    pub fn release(&self) -> Instant {
        self.release
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Option<Rate> = Some(Rate::from_bps(8_000_000)); // 1 byte a microsecond
    const QUANTUM: Bytes = Bytes::new(3000);

    const fn us(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn a_burst_is_a_quantum_and_is_paid_for_at_the_rate() {
        let mut pacer = Pacer::default();
        for _ in 0..3 {
            assert!(pacer.allows(us(10), 1000, QUANTUM));
            pacer.on_send(us(10), 1000, RATE);
        }
        assert!(!pacer.allows(us(10), 1000, QUANTUM));
        assert_eq!(pacer.release(), us(3010));
        assert!(!pacer.allows(us(3009), 1000, QUANTUM));
        assert!(pacer.allows(us(3010), 1000, QUANTUM));
    }

    #[test]
    fn a_burst_cut_short_costs_what_it_sent() {
        let mut pacer = Pacer::default();
        pacer.on_send(us(0), 1000, RATE);
        assert_eq!(pacer.release(), us(1000));
        assert!(!pacer.allows(us(500), 1000, QUANTUM));
    }

    #[test]
    fn a_late_release_earns_no_credit() {
        let mut pacer = Pacer::default();
        pacer.on_send(us(0), 1000, RATE);
        pacer.on_send(us(9000), 1000, RATE);
        assert_eq!(pacer.release(), us(10_000));
    }

    #[test]
    fn one_segment_goes_however_small_the_quantum() {
        let mut pacer = Pacer::default();
        assert!(pacer.allows(us(5), 1000, Bytes::new(1)));
        pacer.on_send(us(5), 1000, RATE);
        assert!(!pacer.allows(us(5), 1000, Bytes::new(1)));
        assert!(pacer.allows(us(1005), 1000, Bytes::new(1)));
    }

    #[test]
    fn a_burst_at_once_costs_what_its_segments_do() {
        for (rate, count, debt) in (0..60).map(|n| (n % 3, 1 + n / 3 % 4, n / 12)) {
            let rate = [None, RATE, Some(Rate::ZERO)][rate as usize];
            let mut each = Pacer::default();
            // A probe before it leaves a debt, or the burst has begun already.
            each.on_send(us(9), 1000, RATE);
            each.on_send(us(if debt > 2 { 1009 } else { 10 }), 500 * debt, RATE);
            let mut once = each;
            let (now, begun) = (us(1009), once.begun(us(1009)));
            (0..count).for_each(|_| each.on_send(now, 700, rate));
            once.on_burst(now, begun + 700 * u64::from(count), count == 1, rate);
            assert_eq!(format!("{each:?}"), format!("{once:?}"));
        }
    }

    #[test]
    fn no_rate_and_an_infinite_rate_do_not_pace_and_zero_ends() {
        for rate in [None, Some(Rate::INFINITE)] {
            let mut pacer = Pacer::default();
            pacer.on_send(us(1), 1000, rate);
            assert!(pacer.allows(us(1), 1000, Bytes::new(1)));
        }
        let mut pacer = Pacer::default();
        pacer.on_send(us(0), 1000, Some(Rate::ZERO));
        assert_eq!(pacer.release(), us(1_000_000));
    }
}
