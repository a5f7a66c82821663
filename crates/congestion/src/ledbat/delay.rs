//! The two lists of delays that RFC 6817 section 2.4.2 keeps.

use paceline_units::{Duration, Instant};

/// The maximum number of intervals in the history, and the default (section 2.5).
pub(super) const MAX_HISTORY: u32 = 10;
/// The maximum number of samples in the filter.
pub(super) const MAX_FILTER: u32 = 10;

/// `base_delays`: the minimum delay of each of the last intervals, minutes in the RFC. An interval
/// without a sample holds [`Duration::MAX`].
#[derive(Clone, Debug)]
pub(super) struct BaseHistory {
    minima: [Duration; MAX_HISTORY as usize],
    len: u64,
    interval: Duration,
    /// Number of the interval of the newest sample, from time zero.
    newest: u64,
    least: Duration,
}

impl BaseHistory {
    pub(super) fn new(len: u32, interval: Duration) -> Self {
        Self {
            minima: [Duration::MAX; MAX_HISTORY as usize],
            len: u64::from(len.clamp(1, MAX_HISTORY)),
            interval,
            newest: 0,
            least: Duration::MAX,
        }
    }

    /// `update_base_delay`.
    pub(super) fn on_sample(&mut self, now: Instant, delay: Duration) {
        let interval = now.as_nanos() / self.interval.as_nanos().max(1);
        if interval > self.newest {
            for skipped in 0..(interval - self.newest).min(self.len) {
                *self.slot(interval - skipped) = Duration::MAX;
            }
            self.newest = interval;
            self.least = self.minima.iter().copied().fold(Duration::MAX, Ord::min);
        }
        let slot = self.slot(self.newest);
        *slot = delay.min(*slot);
        self.least = self.least.min(delay);
    }

    fn slot(&mut self, interval: u64) -> &mut Duration {
        &mut self.minima[(interval % self.len) as usize]
    }

    /// The base delay, once there is a sample.
    pub(super) fn least(&self) -> Option<Duration> {
        (self.least != Duration::MAX).then_some(self.least)
    }
}

/// `current_delays` with the minimum as `FILTER()`: the last samples, none older than a round trip
/// (section 2.5).
#[derive(Clone, Debug)]
pub(super) struct CurrentFilter {
    samples: [(Instant, Duration); MAX_FILTER as usize],
    len: usize,
    count: usize,
}

impl CurrentFilter {
    pub(super) fn new(len: u32) -> Self {
        Self {
            samples: [(Instant::ZERO, Duration::MAX); MAX_FILTER as usize],
            len: len.clamp(1, MAX_FILTER) as usize,
            count: 0,
        }
    }

    /// `update_current_delay`.
    pub(super) fn on_sample(&mut self, now: Instant, delay: Duration) {
        self.samples.copy_within(0..self.len - 1, 1);
        self.samples[0] = (now, delay);
        self.count = (self.count + 1).min(self.len);
    }

    /// The current delay: the minimum of the samples that are no older than `age`, and of the
    /// newest in any case.
    pub(super) fn least(&self, now: Instant, age: Duration) -> Option<Duration> {
        let (newest, older) = self.samples[..self.count].split_first()?;
        let recent = older.iter().take_while(|(at, _)| now.since(*at) <= age);
        Some(recent.fold(newest.1, |least, (_, delay)| least.min(*delay)))
    }
}
