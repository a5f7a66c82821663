//! Measurements at even intervals.

use paceline_units::{Duration, Instant};

/// The maximum number of rows in a test, to bound their memory.
pub(crate) const MOST: u64 = 400_000;

/// Takes a measurement at every multiple of an interval since a test began.
pub(crate) struct Meter<T> {
    start: Instant,
    interval: Duration,
    rows: Vec<T>,
}

impl<T> Meter<T> {
    pub fn new(start: Instant, interval: Duration) -> Self {
        Self {
            start,
            interval,
            rows: Vec::new(),
        }
    }

    /// When the next is due; never once all rows are used.
    pub fn due(&self) -> Instant {
        match self.rows.len() as u64 {
            MOST.. => Instant::MAX,
            taken => self.start + self.interval * taken,
        }
    }

    /// Takes the measurements that are due, each with its due time.
    pub fn take(&mut self, now: Instant, value: impl Fn(Duration) -> T) {
        while self.due() <= now {
            self.rows.push(value(self.due().since(self.start)));
        }
    }

    pub fn rows(&self) -> &[T] {
        &self.rows
    }
}

/// The time between two rows of a test of this length: some 30 000 rows, and at least 10 ms.
pub(crate) fn interval(time: Option<Duration>) -> Duration {
    let least = Duration::from_millis(10);
    let even = time.map_or(least * 5, |time| {
        Duration::from_millis(time.as_nanos() / 30_000 / 1_000_000)
    });
    even.clamp(least, Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_turn_takes_all_rows_of_before() {
        let start = Instant::from_nanos(5);
        let mut meter = Meter::new(start, Duration::from_millis(10));
        meter.take(start, |t| t.as_nanos());
        meter.take(start + Duration::from_millis(25), |t| t.as_nanos());
        assert_eq!(meter.rows(), [0, 10_000_000, 20_000_000]);
        assert_eq!(meter.due(), start + Duration::from_millis(30));
    }

    #[test]
    fn long_tests_have_rows_further_apart() {
        let of = |seconds| interval(Some(Duration::from_secs(seconds))).as_nanos() / 1_000_000;
        assert_eq!([of(1), of(300), of(3600), of(86_400)], [10, 10, 120, 1000]);
    }
}
