//! Linux's integer cube root (`cubic_root`).

/// `64 * cbrt(x)` for `x` in 0..64, as Linux tabulates it.
const TABLE: [u8; 64] = [
    0, 54, 54, 54, 118, 118, 118, 118, 123, 129, 134, 138, 143, 147, 151, 156, 157, 161, 164, 168,
    170, 173, 176, 179, 181, 185, 187, 190, 192, 194, 197, 199, 200, 202, 204, 206, 209, 211, 213,
    215, 217, 219, 221, 222, 224, 225, 227, 229, 231, 232, 234, 236, 237, 239, 240, 242, 244, 245,
    246, 248, 250, 251, 252, 254,
];

/// The cube root of `a`: from the table up to 63, otherwise the root of its leading bits and one
/// step of Newton's method. The error is up to a few per cent.
pub fn cubic_root(a: u64) -> u32 {
    let root = |of: u64| u32::from(TABLE.get(of as usize).copied().unwrap_or(u8::MAX));
    let bits = u64::BITS - a.leading_zeros();
    if bits < 7 {
        return (root(a) + 35) >> 6;
    }
    // A third of the bits, as 84 / 256: shifted right by three times as many, `a` is below 64.
    let third = ((bits * 84) >> 8) - 1;
    let x = ((root(a >> (third * 3)) + 10) << third) >> 6;
    let quotient = a / (u64::from(x) * u64::from(x - 1));
    // 341 / 1024 approximates a third.
    (2 * x).wrapping_add(quotient as u32).wrapping_mul(341) >> 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_argument_leaves_the_table_or_divides_by_zero() {
        for bits in 0..64 {
            for near in 0..64 {
                let a = (1u64 << bits).wrapping_add(near << bits.max(6) >> 6);
                let (root, exact) = (f64::from(cubic_root(a)), (a as f64).cbrt());
                assert!((root - exact).abs() <= 1.0 + 0.06 * exact, "{a}: {root}");
            }
        }
        assert_eq!(cubic_root(0), 0);
        assert!(cubic_root(u64::MAX) > 2_600_000);
    }

    #[test]
    fn its_error_is_the_kernels() {
        let kernels = [
            (12, 2),
            (2995, 14),
            (7238, 19),
            (3083179, 145),
            (423970969, 751),
            (739817748266, 9038),
            (2192837341696, 12990),
            (7611496451756, 19660),
            (60544478073054, 39249),
            (283049379720072315, 656731),
            (510783391524340581, 799523),
            (3117051916381377794, 1460314),
        ];
        for (a, root) in kernels {
            assert_eq!(cubic_root(a), root, "{a}");
        }
        let small: std::string::String =
            (0..64).map(|a| std::format!("{}", cubic_root(a))).collect();
        assert_eq!(
            small,
            "0111222222222222333333333333333333333333334444444444444444444444"
        );
    }
}
