/// A dimensionless factor in millionths: `Gain::from_millionths(900_000)` is 0.9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gain(u32);

impl Gain {
    /// Millionths in one.
    pub const SCALE: u32 = 1_000_000;
    /// A factor of 1.
    pub const ONE: Self = Self(Self::SCALE);

    /// The gain `millionths / 1 000 000`.
    pub const fn from_millionths(millionths: u32) -> Self {
        Self(millionths)
    }

    /// The gain in millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// The gain `n / 256`, Linux's `BBR_UNIT`, to the nearest millionth.
    pub fn from_256ths(n: u32) -> Self {
        let millionths = (u64::from(n) * u64::from(Self::SCALE) + 128) / 256;
        Self(u32::try_from(millionths).unwrap_or(u32::MAX))
    }

    /// The gain `n / 256`, rounded down: a bound that the text of [`in_256ths`](Self::in_256ths)
    /// reaches.
    pub const fn floor_256ths(n: u32) -> Self {
        Self((n as u64 * Self::SCALE as u64 / 256) as u32)
    }

    /// The gain in 256ths, to the nearest.
    pub fn in_256ths(self) -> u32 {
        let scale = u64::from(Self::SCALE);
        ((u64::from(self.0) * 256 + scale / 2) / scale) as u32
    }

    /// `value * self`, rounded down.
    #[inline]
    pub fn scale(self, value: u64) -> u64 {
        // The constant divisor matters: it compiles to a multiplication.
        match value.checked_mul(u64::from(self.0)) {
            Some(product) => product / u64::from(Self::SCALE),
            None => crate::wide::mul_div(value, u64::from(self.0), u64::from(Self::SCALE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Gain;

    #[test]
    fn scales_exactly_and_saturates() {
        assert_eq!(Gain::from_millionths(900_000).scale(1000), 900);
        assert_eq!(Gain::from_millionths(2_772_589).scale(1_000_000), 2_772_589);
        assert_eq!(Gain::ONE.scale(u64::MAX), u64::MAX);
        assert_eq!(Gain::from_millionths(2_000_000).scale(u64::MAX), u64::MAX);
        assert_eq!(Gain::from_millionths(500_000).scale(u64::MAX), u64::MAX / 2);
    }

    #[test]
    fn every_256th_survives_as_a_gain() {
        for n in 0..=4096 {
            assert_eq!(Gain::from_256ths(n).in_256ths(), n);
            assert_eq!(Gain::floor_256ths(n).in_256ths(), n);
        }
    }
}
