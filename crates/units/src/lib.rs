//! Volumes, rates, gains and times; options and plain values that all crates share.
//!
//! Integers throughout, so that every platform computes the same digits: time in nanoseconds,
//! volume in bytes, rate in bits per second, gain in millionths (so that the decimal constants of
//! RFCs and drafts are exact). Arithmetic saturates instead of wrapping or panicking: the numbers
//! come from outside, and stopping at the bound is better than passing it.

#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;

mod comparison;
mod display;
mod frequency;
mod gain;
pub mod limits;
mod link;
pub mod options;
mod parse;
mod rate;
mod rng;
#[cfg(feature = "schema")]
pub mod schema;
#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "alloc")]
pub mod shown;
mod size;
mod time;
mod transport;
mod value;
mod volume;
mod wide;

pub use comparison::Comparison;
pub use frequency::Frequency;
pub use gain::Gain;
pub use link::{AckFilter, BurstLoss, Hold, Loss, Policer, Reorder};
pub use parse::{ParseError, ParseErrorKind, steps};
pub use rate::Rate;
pub use rng::Rng;
pub use size::{Site, Size};
pub use time::{Duration, Instant};
pub use transport::{Acks, App, Crypto, Direction, Ecn, EcnFeedback, Recovery, StackName};
pub use value::{Field, Quantity, Setting, Value, Visitor};
pub use volume::Bytes;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
