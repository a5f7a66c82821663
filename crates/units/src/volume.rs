use core::iter::Sum;
use core::ops::{Add, AddAssign, Mul, Sub, SubAssign};

use crate::Gain;

/// A volume of data in bytes. Arithmetic saturates; a difference is never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// No data.
    pub const ZERO: Self = Self(0);
    /// A bound that is not set (the drafts' `Infinity`).
    pub const INFINITE: Self = Self(u64::MAX);

    /// A volume of `bytes`.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether this is [`Self::INFINITE`].
    pub const fn is_infinite(self) -> bool {
        self.0 == u64::MAX
    }

    /// How many whole packets of `size` bytes this holds; 0 when `size` is 0.
    pub const fn packets(self, size: u64) -> u64 {
        match self.0.checked_div(size) {
            Some(packets) => packets,
            None => 0,
        }
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    #[inline]
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

/// An infinite volume stays infinite under any gain.
impl Mul<Gain> for Bytes {
    type Output = Self;
    #[inline]
    fn mul(self, gain: Gain) -> Self {
        if self.is_infinite() {
            return self;
        }
        Self(gain.scale(self.0))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}
