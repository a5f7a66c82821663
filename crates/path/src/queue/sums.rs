//! Repeated addition of the same amount, such as to a controller's probability between two packets.

use std::ops::Range;

/// `value` after `step` has been added up to `count` times, each sum rounded, and the number of
/// additions made: the first sum outside `range` (which is not negative) ends it. The result equals
/// that of a loop bit for bit, in a number of steps that does not grow with `count`.
///
/// Between two powers of two, floats are evenly spaced. There each sum advances by the same number
/// of floats. Only the first may differ, if it is halfway between two floats and the even one is
/// taken.
pub(super) fn add_repeatedly(value: f64, step: f64, range: &Range<f64>, count: u64) -> (f64, u64) {
    let (mut value, mut left) = (value, count);
    while left > 0 && range.contains(&value) {
        let first = value + step;
        if first == value {
            return (value, count);
        }
        left -= 1;
        if left == 0 || !range.contains(&first) {
            return (first, count - left);
        }
        let second = first + step;
        left -= 1;
        (value, left) = move_evenly([value, first, second], range, left);
    }
    (value, count - left)
}

/// Where the sums that follow these three end as long as they stay between their powers of two and
/// in the range, and how many of `left` remain then.
fn move_evenly(sums: [f64; 3], range: &Range<f64>, left: u64) -> (f64, u64) {
    const MANTISSA: i64 = (1 << (f64::MANTISSA_DIGITS - 1)) - 1;
    // Positive floats sort in the order of their bits.
    let place = |value: f64| value.to_bits() as i64;
    let [zeroth, first, second] = sums.map(place);
    let bottom = second & !MANTISSA;
    if zeroth & !MANTISSA != bottom || first & !MANTISSA != bottom {
        return (sums[2], left);
    }
    let stride = second - first;
    // At the lower power of two itself, a sum may have been rounded from below, where floats are
    // closer together.
    let room = match stride {
        0 => 0,
        1.. => (bottom + MANTISSA).min(place(range.end) - 1) - second,
        _ => second - (bottom + 1).max(place(range.start)),
    };
    let moves = (room / stride.abs().max(1)).clamp(0, i64::try_from(left).unwrap_or(i64::MAX));
    let value = f64::from_bits((second + stride * moves) as u64);
    (value, left - moves as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn looped(value: f64, step: f64, range: &Range<f64>, count: u64) -> (f64, u64) {
        let (mut value, mut done) = (value, 0);
        while done < count && range.contains(&value) {
            value += step;
            done += 1;
        }
        (value, done)
    }

    fn compare(value: f64, step: f64, range: Range<f64>, count: u64) {
        let (arrival, done) = add_repeatedly(value, step, &range, count);
        let (wanted, times) = looped(value, step, &range, count);
        assert_eq!(
            (arrival.to_bits(), done),
            (wanted.to_bits(), times),
            "{value:e} + {count} x {step:e} in {range:?}: {arrival:e}, not {wanted:e}"
        );
    }

    #[test]
    fn sums_that_fall_half_way_go_to_the_even_one() {
        let ulp = f64::EPSILON;
        // The last falls to 1, and from there by less than one float of the spacing above it.
        for halves in [-7.0, -5.0, -3.0, -1.0, 1.0, 3.0, 5.0, 7.0, -2.8] {
            let near = 1.0 + 100.0 * ulp;
            for start in [
                1.25,
                1.25 + ulp,
                1.25 + 2.0 * ulp,
                1.0 + ulp,
                near,
                2.0 - ulp,
            ] {
                compare(start, halves * ulp / 2.0, 0.0..4.0, 1_000);
            }
        }
        // It never advances, or always by one float.
        assert_eq!(
            add_repeatedly(1.5, ulp / 4.0, &(0.0..4.0), u64::MAX),
            (1.5, u64::MAX)
        );
        let (value, done) = add_repeatedly(1.5, ulp, &(0.0..2.0), u64::MAX);
        assert_eq!((value, done), (2.0, 1 << 51));
    }

    #[test]
    fn subnormal_numbers_are_no_exception() {
        let least = f64::from_bits(1);
        compare(0.0, least, 0.0..1.0, 10_000);
        compare(f64::MIN_POSITIVE, -3.0 * least, 0.0..1.0, 10_000);
        compare(10_000.0 * least, -3.0 * least, 0.0..1.0, 10_000);
    }

    proptest! {
        #[test]
        fn sums_are_those_of_a_loop(
            value in 0.0..1.0_f64, exponent in -60..0_i32, mantissa in 1.0..2.0_f64, short in any::<bool>(),
            falls in any::<bool>(), from in 0.0..0.5_f64, count in 0..5_000_u64, small in 0..40_i32,
        ) {
            // With few digits, sums fall halfway.
            let mantissa = if short { (mantissa * 8.0).round() / 8.0 } else { mantissa };
            let size = mantissa * 2.0_f64.powi(exponent);
            let step = if falls { -size } else { size };
            let value = if short { (value * 64.0).round() / 64.0 } else { value } * 2.0_f64.powi(-small);
            compare(value, step, from..1.0, count);
            compare(value, step, 0.0..1.0, count);
        }
    }
}
