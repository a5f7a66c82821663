//! How far an emulated run was from what was asked for.

use paceline_units::Duration;
use serde::{Deserialize, Serialize};

/// Times, counted in bins no wider than 1/32 of what they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

/// Bins of each doubling.
const STEPS: u64 = 32;

impl Histogram {
    /// An empty one that will not allocate.
    pub fn new() -> Self {
        Self {
            counts: vec![0; bin(u64::MAX) + 1],
            total: 0,
            max: 0,
        }
    }

    /// Counts a time.
    pub fn add(&mut self, time: Duration) {
        if let Some(count) = self.counts.get_mut(bin(time.as_nanos())) {
            *count += 1;
        }
        self.total += 1;
        self.max = self.max.max(time.as_nanos());
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The greatest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The least bound that no less than `share` of the times keep to; none of nothing.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(Duration::from_nanos(upper(found).min(self.max)))
    }
}

/// The bin of a time: exact below [`STEPS`], then that many to each doubling.
fn bin(nanos: u64) -> usize {
    let steps = STEPS.ilog2();
    if nanos < STEPS {
        return nanos as usize;
    }
    let doublings = nanos.ilog2() - steps;
    let within = (nanos >> doublings) - STEPS;
    (STEPS + u64::from(doublings) * STEPS + within) as usize
}

/// The greatest time in a bin.
fn upper(bin: usize) -> u64 {
    let bin = bin as u64;
    if bin < STEPS {
        return bin;
    }
    let (doublings, within) = ((bin - STEPS) / STEPS, (bin - STEPS) % STEPS);
    let next = u128::from(STEPS + within + 1) << doublings;
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_in_order_and_hold_what_they_say() {
        let mut before = None;
        for nanos in (0..5000).chain([1 << 40, u64::MAX - 1, u64::MAX]) {
            let bin = bin(nanos);
            assert!(before.is_none_or(|before| before <= bin));
            before = Some(bin);
            assert!(upper(bin) >= nanos, "{nanos}");
            assert!(upper(bin) - nanos <= nanos / STEPS, "{nanos}");
            assert!(bin == 0 || upper(bin - 1) < nanos);
        }
    }

    #[test]
    fn percentiles_of_a_hundred_times() {
        let mut times = Histogram::new();
        assert_eq!(times.percentile(0.5), None);
        for n in 1..=100 {
            times.add(Duration::from_nanos(n));
        }
        assert_eq!(times.percentile(0.1), Some(Duration::from_nanos(10)));
        // 50 and 51, 98 to 99 share a bin.
        assert_eq!(times.percentile(0.5), Some(Duration::from_nanos(51)));
        assert_eq!(times.percentile(1.0), Some(Duration::from_nanos(100)));
        assert_eq!(
            (times.count(), times.max()),
            (100, Duration::from_nanos(100))
        );
    }
}
