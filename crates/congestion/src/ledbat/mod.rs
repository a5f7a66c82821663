//! Less-than-best-effort transports that keep the queue small: LEDBAT (RFC 6817) and LEDBAT++
//! (draft-irtf-iccrg-ledbat-plus-plus).
//!
//! Sections of the draft are those of its version -01; later versions keep their text.

mod classic;
mod delay;
mod fine;
mod parameters;
mod plus_plus;
#[cfg(test)]
mod tests;

pub use crate::slowdown::Slowdown;
pub use classic::{Ledbat, Parameters};
pub use parameters::{
    DecreasePace, GainTarget, LossInSlowdown, PlusPlusParameters, RampEnd, RampGain, TargetRule,
};
pub use plus_plus::LedbatPlusPlus;
