use core::ops::{Mul, Sub};

use crate::wide::mul_div;
use crate::{Bytes, Duration, Gain};

/// A data rate in bits per second. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// No rate.
    pub const ZERO: Self = Self(0);
    /// A bound that is not set (the drafts' `Infinity`).
    pub const INFINITE: Self = Self(u64::MAX);

    /// Bit-nanoseconds in a byte-second: the factor from bytes per nanosecond to bits per second.
    const BITS_NANOS: u64 = 8 * Duration::NANOS_PER_SEC;

    /// A rate in bits per second.
    pub const fn from_bps(bits_per_second: u64) -> Self {
        Self(bits_per_second)
    }

    /// The rate in bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Whether this is [`Self::INFINITE`].
    pub const fn is_infinite(self) -> bool {
        self.0 == u64::MAX
    }

    /// `volume / time`, rounded down; infinite when no time has passed.
    #[inline]
    pub fn from_delivery(volume: Bytes, time: Duration) -> Self {
        Self(mul_div(volume.get(), Self::BITS_NANOS, time.as_nanos()))
    }

    /// The volume that passes in `time`, rounded down.
    #[inline]
    pub fn volume_in(self, time: Duration) -> Bytes {
        // The constant divisor matters: it compiles to a multiplication.
        Bytes::new(match self.0.checked_mul(time.as_nanos()) {
            Some(product) => product / Self::BITS_NANOS,
            None => mul_div(self.0, time.as_nanos(), Self::BITS_NANOS),
        })
    }

    /// The time that `volume` takes, rounded up so that a link never exceeds its rate;
    /// [`Duration::MAX`] when the rate is zero.
    #[inline]
    pub fn time_for(self, volume: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        Duration::from_nanos(match volume.get().checked_mul(Self::BITS_NANOS) {
            Some(product) => product.div_ceil(self.0),
            None => mul_div(volume.get(), Self::BITS_NANOS, self.0).saturating_add(1),
        })
    }
}

/// An infinite rate stays infinite under any gain.
impl Mul<Gain> for Rate {
    type Output = Self;
    #[inline]
    fn mul(self, gain: Gain) -> Self {
        if self.is_infinite() {
            return self;
        }
        Self(gain.scale(self.0))
    }
}

impl Sub for Rate {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_at_fifty_megabit() {
        let rate = Rate::from_bps(50_000_000);
        assert_eq!(rate.time_for(Bytes::new(1500)), Duration::from_micros(240));
        assert_eq!(
            rate.volume_in(Duration::from_millis(40)),
            Bytes::new(250_000)
        );
        assert_eq!(
            Rate::from_delivery(Bytes::new(250_000), Duration::from_millis(40)),
            rate
        );
    }

    #[test]
    fn extremes_do_not_overflow() {
        let fast = Rate::from_bps(400_000_000_000);
        assert_eq!(
            fast.volume_in(Duration::from_secs(100)),
            Bytes::new(5_000_000_000_000)
        );
        assert_eq!(
            Rate::from_delivery(Bytes::new(5_000_000_000_000), Duration::from_secs(100)),
            fast
        );
        assert_eq!(Rate::ZERO.time_for(Bytes::new(1)), Duration::MAX);
        assert_eq!(
            Rate::from_delivery(Bytes::new(1), Duration::ZERO),
            Rate::INFINITE
        );
        assert_eq!(
            fast.time_for(Bytes::INFINITE).as_nanos(),
            368_934_881_474_191_033
        );
    }
}
