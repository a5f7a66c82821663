//! Products that may need 128 bits.

/// `a * b / c` without overflow, rounded down, saturating at `u64::MAX`.
///
/// Uses 64-bit arithmetic when the product fits, which is the common case.
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    if c == 0 {
        return u64::MAX;
    }
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX),
    }
}
