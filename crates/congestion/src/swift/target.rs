//! Flow scaling (section 3.5): the more flows there are, the smaller their windows and the longer
//! the queue that they need, by `1 / sqrt(cwnd)`.

use paceline_units::{Bytes, Duration, Gain};

use super::parameters::Parameters;
use super::{BITS, ONE};

/// `max(0, min(alpha / sqrt(cwnd) + beta, range))`, where `alpha` and `beta` are such that it is
/// `range` at the minimum window and 0 at the maximum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowScaling {
    /// Nanoseconds, for a window of one.
    pub(super) alpha: u64,
    /// The amount that `beta` subtracts.
    pub(super) offset: u64,
    range: u64,
}

/// `sqrt(window)` in packets with [`BITS`] of fraction.
fn root(window: u64) -> u64 {
    let wide = (u128::from(window) << BITS).isqrt();
    u64::try_from(wide).unwrap_or(u64::MAX).max(1)
}

/// `nanos / sqrt(window)`.
fn over_root(nanos: u64, window: u64) -> u64 {
    let scaled = (u128::from(nanos) << BITS) / u128::from(root(window));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn window(packets: Gain) -> u64 {
    packets.scale(ONE)
}

impl FlowScaling {
    pub(crate) fn new(p: &Parameters) -> Self {
        let range = p.fs_range.as_nanos();
        let (min, max) = (root(window(p.fs_min_cwnd)), root(window(p.fs_max_cwnd)));
        // 1 / sqrt(min) - 1 / sqrt(max), with twice the fraction to keep its digits.
        let inverse = |root: u64| (1u128 << (3 * BITS)) / u128::from(root);
        let span = inverse(min).saturating_sub(inverse(max)).max(1);
        let alpha = (u128::from(range) << (2 * BITS)) / span;
        let alpha = u64::try_from(alpha).unwrap_or(u64::MAX);
        Self {
            alpha,
            offset: over_root(alpha, window(p.fs_max_cwnd)),
            range,
        }
    }

    /// For a flow with `flight` bytes in the network, in packets of `mss`.
    pub(crate) fn for_flight(&self, flight: Bytes, mss: u32) -> Duration {
        if self.range == 0 {
            return Duration::ZERO;
        }
        let window = (u128::from(flight.get()) << BITS) / u128::from(mss.max(1));
        self.extra(u64::try_from(window).unwrap_or(u64::MAX))
    }

    pub(super) fn extra(&self, cwnd: u64) -> Duration {
        let extra = over_root(self.alpha, cwnd).saturating_sub(self.offset);
        Duration::from_nanos(extra.min(self.range))
    }
}
