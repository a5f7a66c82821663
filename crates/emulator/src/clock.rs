//! The clock of a run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use paceline_units::{Duration, Instant};

use crate::sys;

/// How long the path may not run and still go on by the clock.
pub const STALL: Duration = Duration::from_micros(500);

/// Time since the run began, less the time in which the path stood still.
///
/// A machine that does not run the path for some milliseconds (its hypervisor took the processor, the kernel
/// was busy) would let all that came due meanwhile go at once: a burst of data or ACKs that no link
/// makes, and that overflows queues. The path's time stands still instead, and the run says how long.
#[derive(Debug)]
pub struct Clock {
    /// The run's beginning by the machine's clock, moved on by what the path stood still.
    zero: AtomicU64,
    /// The latest time that [`Self::read`] gave.
    latest: AtomicU64,
}

impl Clock {
    /// A run begins at `zero` of the machine's clock.
    pub fn new(zero: Instant) -> Self {
        Self {
            zero: AtomicU64::new(zero.as_nanos()),
            latest: AtomicU64::new(0),
        }
    }

    /// Now, for the path.
    pub fn now(&self) -> Instant {
        self.of(sys::now())
    }

    /// Whether the run has begun; until then it is time zero.
    pub fn has_begun(&self) -> bool {
        sys::now() >= self.machine(Instant::ZERO)
    }

    /// The run's time at `at` of the machine's.
    pub fn of(&self, at: Instant) -> Instant {
        Instant::from_nanos(at.as_nanos().saturating_sub(self.zero.load(Relaxed)))
    }

    /// When it is `at` by the machine's clock.
    pub fn machine(&self, at: Instant) -> Instant {
        Instant::from_nanos(at.as_nanos().saturating_add(self.zero.load(Relaxed)))
    }

    /// Now, for all others: never before what they were told, while the path goes back to where it stopped.
    pub fn read(&self) -> Instant {
        let now = self.now().as_nanos();
        Instant::from_nanos(now.max(self.latest.fetch_max(now, Relaxed)))
    }

    /// The path stood still for this time.
    pub fn stand_still(&self, time: Duration) {
        self.zero.fetch_add(time.as_nanos(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_the_path_stood_still_does_not_count() {
        let (start, hour) = (sys::now(), Duration::from_secs(3600));
        let clock = Clock::new(start);
        let later = start + hour;
        assert_eq!(clock.of(later), Instant::ZERO + hour);
        clock.stand_still(Duration::from_secs(600));
        assert_eq!(clock.of(later), Instant::ZERO + Duration::from_secs(3000));
        assert_eq!(clock.machine(clock.of(later)), later);
        // Before its beginning it is not negative.
        assert_eq!(clock.of(start), Instant::ZERO);
    }

    #[test]
    fn time_zero_before_the_beginning_is_not_the_beginning() {
        let clock = Clock::new(sys::now() + Duration::from_secs(3600));
        assert_eq!(clock.read(), Instant::ZERO);
        assert!(!clock.has_begun());
        assert!(Clock::new(sys::now()).has_begun());
    }

    #[test]
    fn those_who_read_it_never_see_it_go_back() {
        let clock = Clock::new(Instant::ZERO);
        let before = clock.read();
        clock.stand_still(Duration::from_secs(60));
        assert!(clock.now() < before);
        assert_eq!(clock.read(), before);
    }
}
