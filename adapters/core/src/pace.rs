//! What a controller asks of whoever sends its packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use paceline_congestion::Controller;
use paceline_units::Rate;

/// At what rate and in what bursts a controller wants its packets to leave, for whoever sends them.
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

    /// The most bytes that one burst may hold.
    pub fn quantum(&self) -> u64 {
        self.0.quantum.load(Relaxed)
    }

    /// Tells what `controller` wants now.
    pub fn set(&self, controller: &impl Controller) {
        // A rate of zero would never end; the slowest is a bit a second.
        let rate = controller.pacing_rate().map_or(0, |rate| rate.bps().max(1));
        self.0.bits_per_second.store(rate, Relaxed);
        let quantum = controller.send_quantum().get();
        self.0.quantum.store(quantum, Relaxed);
    }
}
