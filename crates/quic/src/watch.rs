//! What is seen of a controller of a stack's own: what the stack tells it is all that is known of what is in flight.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What was seen of a controller, for both sides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(Arc<Mutex<Seen>>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub in_flight: u64,
    pub acknowledged: u64,
    pub latest_rtt: Option<Duration>,
    pub min_rtt: Option<Duration>,
    pub app_limited: bool,
    /// Packets, where they are told one by one.
    pub sent: u64,
    pub lost: u64,
}

impl Watch {
    pub fn seen(&self) -> Seen {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn update(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
