use std::sync::Arc;

use paceline_units::{Bytes, Duration, Instant, Rate};

/// Why a capacity trace was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line is not a whole number of milliseconds.
    #[error("line {line}: `{found}` is not a whole number of milliseconds")]
    NotANumber {
        /// Counted from 1.
        line: usize,
        /// The text of the line, cut to a few characters.
        found: String,
    },
    /// Time runs backwards.
    #[error("line {line}: {found} ms comes after {before} ms; delivery times must not decrease")]
    Backwards {
        /// Counted from 1.
        line: usize,
        /// The time on this line.
        found: u64,
        /// The time on the previous line.
        before: u64,
    },
    /// Later than a trace may be.
    #[error("line {line}: {found} ms is beyond the limit of {limit} ms")]
    TooLong {
        /// Counted from 1.
        line: usize,
        /// The time on this line.
        found: u64,
        /// The maximum time allowed.
        limit: u64,
    },
    /// The trace is empty.
    #[error("the trace holds no delivery opportunity")]
    Empty,
    /// All opportunities at time zero: it cannot be repeated.
    #[error("the trace ends at 0 ms: it needs a last delivery time above zero to be repeated")]
    NoPeriod,
}

/// Delivery opportunities of a recorded link, in mahimahi's format: one line per opportunity, its
/// time in milliseconds, up to [`CapacityTrace::OPPORTUNITY`] bytes each. After its last line the
/// trace starts again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityTrace {
    /// Milliseconds, not decreasing; the last is the period.
    times: Arc<[u64]>,
}

impl CapacityTrace {
    /// Bytes that one opportunity carries: a full Ethernet payload.
    pub const OPPORTUNITY: u64 = 1500;

    /// The longest period accepted: 30 days.
    const LIMIT_MS: u64 = 30 * 24 * 3600 * 1000;

    /// Reads a trace. Blank lines and lines that start with `#` are skipped.
    ///
    /// # Errors
    /// A [`TraceError`] with the line that is wrong.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut times = Vec::new();
        let mut before = 0;
        for (index, raw) in text.lines().enumerate() {
            let line = index + 1;
            let word = raw.trim();
            if word.is_empty() || word.starts_with('#') {
                continue;
            }
            let found: u64 = word.parse().map_err(|_| TraceError::NotANumber {
                line,
                found: word.chars().take(20).collect(),
            })?;
            if found < before {
                return Err(TraceError::Backwards {
                    line,
                    found,
                    before,
                });
            }
            if found > Self::LIMIT_MS {
                return Err(TraceError::TooLong {
                    line,
                    found,
                    limit: Self::LIMIT_MS,
                });
            }
            before = found;
            times.push(found);
        }
        match times.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoPeriod),
            Some(_) => Ok(Self {
                times: times.into(),
            }),
        }
    }

    /// The time after which the trace starts again.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.times.last().copied().unwrap_or(1))
    }

    /// Number of opportunities in one period.
    pub fn opportunities(&self) -> usize {
        self.times.len()
    }

    /// The mean rate over one period.
    pub fn mean_rate(&self) -> Rate {
        Rate::from_delivery(
            Bytes::new(self.times.len() as u64 * Self::OPPORTUNITY),
            self.period(),
        )
    }

    /// The time of the `index`-th opportunity, over all repetitions.
    pub(crate) fn time_of(&self, index: u64) -> Instant {
        let length = self.times.len() as u64;
        let within = self.times[(index % length) as usize];
        Instant::ZERO + self.period() * (index / length) + Duration::from_millis(within)
    }

    /// The number of opportunities strictly before `t`, that is the index of the first at or after
    /// it.
    pub(crate) fn count_before(&self, t: Instant) -> u64 {
        let period = self.period().as_nanos();
        let length = self.times.len() as u64;
        // An opportunity at the very end of one period is also the start of the
        // next: at t = k * period those at the end of period k - 1 are not yet past.
        let rounds = t.as_nanos() / period;
        let within = t.as_nanos() % period;
        if within == 0 {
            let Some(last_round) = rounds.checked_sub(1) else {
                return 0;
            };
            let at_end = self.times.partition_point(|&ms| ms * 1_000_000 < period) as u64;
            return last_round * length + at_end;
        }
        let passed = self.times.partition_point(|&ms| ms * 1_000_000 < within) as u64;
        rounds * length + passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    #[test]
    fn reads_the_format_and_repeats() {
        let trace = CapacityTrace::parse("# a comment\n0\n5\n5\n\n10\n").unwrap();
        assert_eq!(trace.period(), Duration::from_millis(10));
        // 4 x 1500 B in 10 ms.
        assert_eq!(trace.mean_rate(), Rate::from_bps(4_800_000));
        let times: Vec<u64> = (0..8)
            .map(|i| trace.time_of(i).as_nanos() / 1_000_000)
            .collect();
        assert_eq!(times, [0, 5, 5, 10, 10, 15, 15, 20]);
    }

    #[test]
    fn counts_opportunities_before_a_time() {
        let trace = CapacityTrace::parse("0\n5\n5\n10\n").unwrap();
        let counts: Vec<u64> = [0, 1, 5, 6, 10, 11, 15, 16, 20]
            .iter()
            .map(|&t| trace.count_before(ms(t)))
            .collect();
        assert_eq!(counts, [0, 1, 1, 3, 3, 5, 5, 7, 7]);
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let error = |text| CapacityTrace::parse(text).unwrap_err();
        assert!(matches!(
            error("1\nx2\n"),
            TraceError::NotANumber { line: 2, .. }
        ));
        assert!(matches!(
            error("-1\n"),
            TraceError::NotANumber { line: 1, .. }
        ));
        assert!(matches!(
            error("7\n6\n"),
            TraceError::Backwards {
                line: 2,
                found: 6,
                before: 7
            }
        ));
        assert!(matches!(
            error("99999999999\n"),
            TraceError::TooLong { line: 1, .. }
        ));
        assert_eq!(error("\n# nothing\n"), TraceError::Empty);
        assert_eq!(error("0\n0\n"), TraceError::NoPeriod);
    }
}
