//! Times, counted as they are seen.

use paceline_units::Duration;
use serde::{Deserialize, Serialize};

/// Times, counted in bins no wider than 1 % of what they hold.
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        // An hour, the longest that is told apart, and all below it: counting allocates nothing.
        let hour = Duration::from_secs(3600).as_nanos();
        Self(hdrhistogram::Histogram::new_with_max(hour, 2).expect("bounds that are in order"))
    }
}

impl Histogram {
    /// Counts a time.
    pub fn add(&mut self, time: Duration) {
        self.0.saturating_record(time.as_nanos());
    }

    /// What they come to.
    pub fn times(&self) -> Times {
        let bound = |share| (!self.0.is_empty()).then(|| self.0.value_at_quantile(share));
        Times {
            count: self.0.len(),
            p50: bound(0.5),
            p99: bound(0.99),
            max: self.0.max(),
        }
    }
}

/// What many times come to: how many there are and, in nanoseconds and to 1 %, what half and 99 % of
/// them keep to, and the greatest.
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
        let mut seen = Histogram::default();
        assert_eq!(seen.times(), Times::default());
        for n in 1..=100 {
            seen.add(Duration::from_nanos(n));
        }
        let expected = Times {
            count: 100,
            p50: Some(50),
            p99: Some(99),
            max: 100,
        };
        assert_eq!(seen.times(), expected);
        seen.add(Duration::from_secs(1));
        assert!((1_000_000_000..1_010_000_000).contains(&seen.times().max));
        // Beyond what is told apart.
        seen.add(Duration::from_secs(86_400));
        assert_eq!(seen.times().count, 102);
    }
}
