//! The cubic function of RFC 9438 section 4.2, in integers.
//!
//! Internally, time is in units of 2^-20 s, slightly less than a microsecond.

use paceline_units::{Bytes, Duration, Gain};

/// Fractional bits of a time.
const TIME: u32 = 20;
/// Fractional bits of the coefficient.
const COEFFICIENT: u32 = 24;
/// The maximum distance from K that is represented: 2^34 units, four and a half hours.
const MAX_OFFSET: u64 = 1 << 34;
/// The maximum fall below `W_max` for which K is computed: 128 TiB.
const MAX_FALL: u64 = 1 << 47;

/// `C` for segments of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Curve {
    /// `C` times the segment size in millionths of a byte per cubic second.
    c_millionths: u64,
    /// The same in bytes, with [`COEFFICIENT`] fractional bits.
    c: u64,
}

impl Curve {
    pub(super) fn new(c: Gain, mss: Bytes) -> Self {
        let c_millionths = mss.get().saturating_mul(c.millionths().into()).max(1);
        let c = (u128::from(c_millionths) << COEFFICIENT) / u128::from(Gain::SCALE);
        Self {
            c_millionths,
            c: u64::try_from(c).unwrap_or(u64::MAX),
        }
    }

    /// Equation 2: `K = cubic_root((W_max - cwnd_epoch) / C)`, rounded down.
    pub(super) fn k(&self, w_max: Bytes, cwnd_epoch: Bytes) -> Duration {
        let fall = (w_max - cwnd_epoch).get().min(MAX_FALL);
        // 47 + 20 + 60 bits.
        let scaled = (u128::from(fall) * u128::from(Gain::SCALE)) << (3 * TIME);
        from_units(cubic_root(scaled / u128::from(self.c_millionths)))
    }

    /// Equation 1: `W_cubic(t) = C * (t - K)^3 + W_max`, never below zero.
    pub(super) fn w_cubic(&self, t: Duration, k: Duration, w_max: Bytes) -> Bytes {
        let offset = to_units(if t > k { t - k } else { k - t }).min(MAX_OFFSET);
        let offset = u128::from(offset);
        // 102 bits, of which 62 with 20 fractional ones are kept.
        let cube = (offset * offset * offset) >> (2 * TIME);
        let distance = (cube * u128::from(self.c)) >> (TIME + COEFFICIENT);
        let distance = Bytes::new(u64::try_from(distance).unwrap_or(u64::MAX));
        if t > k {
            w_max + distance
        } else {
            w_max - distance
        }
    }
}

/// A span in units of 2^-20 s, rounded down, by a multiplication.
fn to_units(span: Duration) -> u64 {
    // 2^(64 + 20) units in 10^9 ns, rounded up.
    const PER_NANO: u128 = (1 << (64 + TIME)) / Duration::NANOS_PER_SEC as u128 + 1;
    ((u128::from(span.as_nanos()) * PER_NANO) >> 64) as u64
}

/// The shortest time span that has `units` of 2^-20 s.
fn from_units(units: u64) -> Duration {
    let nanos = (u128::from(units) * u128::from(Duration::NANOS_PER_SEC)).div_ceil(1 << TIME);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The largest integer whose cube is at most `value`, bit by bit.
fn cubic_root(value: u128) -> u64 {
    // The cube of 2^43 does not fit.
    let mut root: u128 = 0;
    for bit in (0..43).rev() {
        let next = root | 1 << bit;
        if next.checked_pow(3).is_some_and(|cube| cube <= value) {
            root = next;
        }
    }
    root as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MSS: u64 = 1000;

    fn curve() -> Curve {
        Curve::new(Gain::from_millionths(400_000), Bytes::new(MSS))
    }

    fn segments(count: u64) -> Bytes {
        Bytes::new(count * MSS)
    }

    #[test]
    fn k_of_a_hundred_segments() {
        // (100 - 70) / 0.4 = 75, whose cubic root is 4.217163327 s.
        let k = curve().k(segments(100), segments(70));
        let error = k.as_nanos().abs_diff(4_217_163_327);
        assert!(error <= 1_000, "{k:?}");
        assert_eq!(curve().k(segments(70), segments(100)), Duration::ZERO);
        // 0.4 * 5^3 = 50 segments: an exact root stays exact.
        assert_eq!(
            curve().k(segments(150), segments(100)),
            Duration::from_secs(5)
        );
    }

    #[test]
    fn w_cubic_by_hand() {
        let at = |nanos| {
            let k = Duration::from_secs(5);
            let w = curve().w_cubic(Duration::from_nanos(nanos), k, segments(150));
            w.get()
        };
        // 0.4 * (t - 5)^3 + 150 segments.
        assert_eq!(at(0), 100_000);
        assert_eq!(at(3_000_000_000), 146_800);
        assert_eq!(at(5_000_000_000), 150_000);
        assert_eq!(at(7_000_000_000), 153_200);
        assert_eq!(at(15_000_000_000), 550_000);
        // Half a second is a power of two: 0.05 segments.
        assert_eq!(at(5_500_000_000), 150_050);
        // 0.4 * 0.1^3 = 0.0004 segments is 0.4 bytes.
        assert_eq!(at(5_100_000_000), 150_000);
    }

    #[test]
    fn w_cubic_is_bounded() {
        let w_max = Bytes::new(1 << 40);
        let w = |t, k| curve().w_cubic(t, k, w_max);
        assert_eq!(w(Duration::ZERO, Duration::MAX), Bytes::ZERO);
        assert!(w(Duration::MAX, Duration::ZERO) > w_max);
        let coarse = Curve::new(Gain::from_millionths(u32::MAX), Bytes::INFINITE);
        assert!(
            coarse
                .w_cubic(Duration::MAX, Duration::ZERO, w_max)
                .is_infinite()
        );
        // The cubic root of 2^47 * 10^6 / 2^64 = 7.63 is 1.97.
        let k = coarse.k(Bytes::INFINITE, Bytes::ZERO);
        assert_eq!(k.as_nanos() / 10_000_000, 196);
    }

    proptest! {
        #[test]
        fn cubic_root_is_the_floor(value in any::<u128>(), shift in 0u32..128) {
            let value = value >> shift;
            let root = u128::from(cubic_root(value));
            prop_assert!(root.pow(3) <= value || root == 0);
            prop_assert!((root + 1).checked_pow(3).is_none_or(|cube| cube > value));
        }

        #[test]
        fn cubic_root_of_cubes(root in 0u64..6_000_000_000_000) {
            let cube = u128::from(root).pow(3);
            prop_assert_eq!(cubic_root(cube), root);
            prop_assert_eq!(cubic_root(cube + 1), root.max(1));
        }

        #[test]
        fn time_units_round_down(nanos in any::<u64>()) {
            let exact = (u128::from(nanos) << TIME) / u128::from(Duration::NANOS_PER_SEC);
            let units = u128::from(to_units(Duration::from_nanos(nanos)));
            prop_assert!(units.abs_diff(exact) <= 1);
        }

        /// At K the curve is at W_max, at 0 it is at the window at the start of the epoch.
        #[test]
        fn the_curve_starts_at_the_epoch(
            mss in 100u64..10_000,
            w_max in 1u64..1 << 44,
            left in 0u64..1 << 20,
        ) {
            let curve = Curve::new(Gain::from_millionths(400_000), Bytes::new(mss));
            let w_max = Bytes::new(w_max);
            let cwnd = Bytes::new(((u128::from(w_max.get()) * u128::from(left)) >> 20) as u64);
            let k = curve.k(w_max, cwnd);
            prop_assert_eq!(curve.w_cubic(k, k, w_max), w_max);
            // One unit of K shifts the start by 3 C K^2 / 2^20.
            let slope = (3.0 * 0.4 * mss as f64 * k.as_secs_f64().powi(2) / 1e6) as u64;
            let start = curve.w_cubic(Duration::ZERO, k, w_max);
            let rounding = (w_max.get() >> 20) / 16;
            prop_assert!(
                start.get().abs_diff(cwnd.get()) <= 2 * slope + rounding + 2,
                "{:?} for {:?}", start, cwnd
            );
        }
    }
}
