//! The clock of a run.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use paceline_units::{Duration, Instant};

use crate::sys;

/// The maximum pause of the path after which it still continues by the clock.
pub const STALL: Duration = Duration::from_micros(500);

/// Time since the run began, excluding the time in which the path stood still.
///
/// If the machine does not run the path for some milliseconds (its hypervisor took the processor,
/// the kernel was busy), everything that came due meanwhile would leave at once: a burst of data or
/// ACKs that no link makes, and that overflows queues. The path's time stands still instead, and
/// the run reports for how long. Time stands still for all threads, whether or not the path has
/// noticed: otherwise a packet that a host sent during the pause would seem to have crossed the
/// path in less than its delay.
#[derive(Debug)]
pub struct Clock {
    /// The run's start by the machine's clock, moved forward by the time that the path stood still.
    zero: AtomicU64,
    /// The time at which the clock stops until the path runs again.
    limit: AtomicU64,
}

impl Clock {
    /// A run begins at `zero` of the machine's clock.
    pub fn new(zero: Instant) -> Self {
        Self {
            zero: AtomicU64::new(zero.as_nanos()),
            limit: AtomicU64::new(STALL.as_nanos()),
        }
    }

    /// Now.
    pub fn now(&self) -> Instant {
        // In this order: an updated limit comes with the updated zero.
        let limit = self.limit.load(Acquire);
        let zero = self.zero.load(Relaxed);
        Instant::from_nanos(sys::now().as_nanos().saturating_sub(zero).min(limit))
    }

    /// The path runs, which it planned to do by `planned`. Returns the current time, and how long
    /// it could not run if that is longer than [`STALL`]. The clock continues from there.
    pub fn read(&self, planned: Instant) -> (Instant, Option<Duration>) {
        loop {
            let now = self.of(sys::now());
            let late = now.since(planned);
            if late > STALL {
                self.zero.fetch_add((late - STALL).as_nanos(), Relaxed);
                self.expect(planned + STALL);
                return (planned + STALL, Some(late));
            }
            self.expect(now);
            // Otherwise others may have read later times before the limit was this one.
            if self.of(sys::now()).since(now) <= STALL {
                return (now, None);
            }
        }
    }

    /// The path will run again by `planned`.
    pub fn expect(&self, planned: Instant) {
        let limit = planned.as_nanos().saturating_add(STALL.as_nanos());
        self.limit.store(limit, Release);
    }

    /// Whether the run has begun; until then it is time zero.
    pub fn has_begun(&self) -> bool {
        sys::now() >= self.machine(Instant::ZERO)
    }

    /// The run's time at the machine's time `at`.
    pub fn of(&self, at: Instant) -> Instant {
        Instant::from_nanos(at.as_nanos().saturating_sub(self.zero.load(Relaxed)))
    }

    /// The machine's time when the run's time is `at`.
    pub fn machine(&self, at: Instant) -> Instant {
        Instant::from_nanos(at.as_nanos().saturating_add(self.zero.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Much longer than [`STALL`], and shorter than the machine has been up: its clock began then.
    const PAUSE: Duration = Duration::from_secs(1);

    #[test]
    fn time_in_which_the_path_stood_still_does_not_count() {
        let start = sys::now();
        let clock = Clock::new(start - PAUSE);
        assert_eq!(clock.of(start), Instant::ZERO + PAUSE);
        let (now, late) = clock.read(Instant::ZERO);
        assert_eq!(now, Instant::ZERO + STALL);
        assert!(late.is_some_and(|late| late >= PAUSE));
        assert!(clock.of(start) <= now);
        assert_eq!(clock.machine(clock.of(start + PAUSE)), start + PAUSE);
        // Before its beginning it is not negative.
        assert_eq!(clock.of(start - PAUSE), Instant::ZERO);
    }

    #[test]
    fn a_path_that_is_late_by_little_goes_on_by_the_clock() {
        let clock = Clock::new(sys::now() - PAUSE);
        // A busy machine is late by more at times.
        let is_little = (0..10_000).any(|_| {
            let before = clock.of(sys::now());
            let (now, late) = clock.read(before);
            assert!(now >= before);
            late.is_none()
        });
        assert!(is_little);
        let planned = clock.of(sys::now()) + PAUSE * 3600;
        let (now, late) = clock.read(planned);
        assert!(now < planned && late.is_none());
    }

    #[test]
    fn time_zero_before_the_beginning_is_not_the_beginning() {
        let clock = Clock::new(sys::now() + PAUSE);
        assert_eq!(clock.now(), Instant::ZERO);
        assert!(!clock.has_begun());
        assert!(Clock::new(sys::now()).has_begun());
    }

    /// A packet sent while the path does not run is sent no later than the path then processes it.
    #[test]
    fn time_stands_still_for_all_until_the_path_looks_again_and_never_goes_back() {
        let clock = Clock::new(sys::now());
        let mut latest = Instant::ZERO;
        for planned in [0, 1, 5, 5, 30].map(|ms| Instant::ZERO + Duration::from_millis(ms)) {
            let planned = latest.max(planned);
            clock.expect(planned);
            // The path does not run for long.
            clock.zero.fetch_sub(PAUSE.as_nanos(), Relaxed);
            assert_eq!(clock.now(), planned + STALL);
            let (now, late) = clock.read(planned);
            assert_eq!(now, planned + STALL);
            assert!(late.is_some_and(|late| late > PAUSE / 2));
            assert!(clock.now() >= now);
            latest = now;
        }
    }
}
