//! s2n-quic's time as ours.

use paceline_adapter::Plan;
use paceline_units::{Duration, Instant};
use s2n_quic_core::time::Timestamp;

/// Counts from the first time that it is given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock(Option<Timestamp>);

impl Clock {
    /// `time` as ours.
    pub fn at(&mut self, time: Timestamp) -> Instant {
        let base = *self.0.get_or_insert(time);
        // s2n-quic 1.91's saturating difference of equal times is a microsecond.
        let since = if time > base {
            (time - base).as_nanos()
        } else {
            0
        };
        Plan::ORIGIN + Duration::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// `time` as s2n-quic's; none before the first, and none that s2n-quic cannot hold.
    pub fn back(&self, time: Instant) -> Option<Timestamp> {
        let since = time.since(Plan::ORIGIN).as_nanos();
        self.0?.checked_add(std::time::Duration::from_nanos(since))
    }
}
