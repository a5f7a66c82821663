//! Volumes, rates, gains and times.
//!
//! Integers throughout, so that every platform computes the same digits: time
//! in nanoseconds, volume in bytes, rate in bits per second, gain in
//! millionths (so that the decimal constants of RFCs and drafts are exact).
//! Arithmetic saturates instead of wrapping or panicking: the numbers come
//! from outside, and a bound that is reached is better than one that is passed.

#![no_std]

#[cfg(feature = "schema")]
extern crate alloc;

mod display;
mod gain;
mod parse;
mod rate;
mod rng;
#[cfg(feature = "serde")]
mod serde;
mod time;
mod value;
mod volume;

pub use gain::Gain;
pub use parse::{ParseError, ParseErrorKind};
pub use rate::Rate;
pub use rng::Rng;
pub use time::{Duration, Instant};
pub use value::Value;
pub use volume::Bytes;

/// `a * b / c` without overflow, rounded down, saturating at `u64::MAX`.
///
/// Stays in 64 bits when the product fits, which is the common case.
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    if c == 0 {
        return u64::MAX;
    }
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX),
    }
}
