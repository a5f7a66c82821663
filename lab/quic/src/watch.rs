//! Observations of a stack's own controller. The calls that it receives from the stack are the only
//! source for the data in flight.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The observations of a controller, shared by both sides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(Arc<Mutex<Snapshot>>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Snapshot {
    pub in_flight: u64,
    pub acknowledged: u64,
    pub latest_rtt: Option<Duration>,
    pub min_rtt: Option<Duration>,
    pub app_limited: bool,
    /// Packet counts, if the stack reports packets one by one.
    pub sent: u64,
    pub lost: u64,
}

impl Watch {
    pub fn snapshot(&self) -> Snapshot {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
