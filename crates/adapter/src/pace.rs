//! A controller's pacing requests to the sender of its packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use paceline_congestion::Controller;
use paceline_units::Rate;

/// The rate and burst size at which a controller wants its packets to leave, for the code that
/// sends them.
#[derive(Clone, Debug, Default)]
pub struct Pace(Arc<Outputs>);

/// Zero before the first.
#[derive(Debug, Default)]
struct Outputs {
    bits_per_second: AtomicU64,
    quantum: AtomicU64,
}

impl Pace {
    /// The rate, in bits of UDP payload; none if the controller leaves sending to the ACK clock.
    pub fn rate(&self) -> Option<Rate> {
        match self.0.bits_per_second.load(Relaxed) {
            0 => None,
            rate => Some(Rate::from_bps(rate)),
        }
    }

    /// The maximum size of one burst in bytes.
    pub fn quantum(&self) -> u64 {
        self.0.quantum.load(Relaxed)
    }

    /// Updates it from the current state of `controller`.
    pub fn set(&self, controller: &impl Controller) {
        // With a rate of zero, sending would never end; the minimum is one bit per second.
        let rate = controller.pacing_rate().map_or(0, |rate| rate.bps().max(1));
        self.0.bits_per_second.store(rate, Relaxed);
        let quantum = controller.send_quantum().get();
        self.0.quantum.store(quantum, Relaxed);
    }
}
