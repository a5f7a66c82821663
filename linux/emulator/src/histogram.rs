//! A histogram of times.

use paceline_units::Duration;
use serde::{Deserialize, Serialize};

/// Times, counted in bins no wider than 1 % of their value. The maximum is kept exactly.
pub struct Histogram {
    bins: hdrhistogram::Histogram<u64>,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        // An hour is the longest time with its own bin: counting allocates nothing.
        let hour = Duration::from_secs(3600).as_nanos();
        Self {
            bins: hdrhistogram::Histogram::new_with_max(hour, 2).expect("bounds that are in order"),
            max: Duration::ZERO,
        }
    }
}

impl Histogram {
    /// Counts a time.
    pub fn add(&mut self, time: Duration) {
        self.bins.saturating_record(time.as_nanos());
        self.max = self.max.max(time);
    }

    /// Their summary.
    pub fn times(&self) -> Times {
        let max = self.max.as_nanos();
        let bound =
            |share| (!self.bins.is_empty()).then(|| self.bins.value_at_quantile(share).min(max));
        Times {
            count: self.bins.len(),
            p50: bound(0.5),
            p99: bound(0.99),
            max,
        }
    }
}

/// The summary of many times, in nanoseconds: their number, the median and the 99th percentile (to
/// 1 %), and the maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    pub count: u64,
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    pub max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_hundred_times() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.times(), Times::default());
        for n in 1..=100 {
            histogram.add(Duration::from_nanos(n));
        }
        let expected = Times {
            count: 100,
            p50: Some(50),
            p99: Some(99),
            max: 100,
        };
        assert_eq!(histogram.times(), expected);
        histogram.add(Duration::from_secs(1));
        assert_eq!(histogram.times().max, 1_000_000_000);
        // Longer than the bins reach.
        histogram.add(Duration::from_secs(86_400));
        assert_eq!(histogram.times().count, 102);
        assert_eq!(histogram.times().max, 86_400_000_000_000);
    }

    #[test]
    fn no_share_is_beyond_the_greatest() {
        let mut histogram = Histogram::default();
        histogram.add(Duration::from_nanos(301_000_001));
        let times = histogram.times();
        assert_eq!((times.p50, times.max), (Some(301_000_001), 301_000_001));
    }
}
