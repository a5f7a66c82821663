//! A scenario in virtual time.
//!
//! Deterministic: the same scenario and seed give the same record on every
//! machine. Time is integer nanoseconds, ties are broken by the order of the
//! sources of events, and every random draw comes from the run's seed.
//!
//! The next event comes from a small fixed set of sources ([`check`] and [`run`] are the whole
//! interface): each link shows only its head, each return path too, and each flow has one timer.

mod agenda;
mod agent;
mod carried;
mod episode;
mod flow;
mod foreign;
mod halt;
mod host;
mod journal;
mod lanes;
mod named;
mod packet;
#[cfg(feature = "quic")]
mod quic;
#[cfg(not(feature = "quic"))]
#[path = "no_quic.rs"]
mod quic;
mod run;
mod schedule;
mod sources;
pub mod startup;
mod world;

use paceline_recovery::SenderStats;

pub use agent::{Decision, Feedback};
pub use episode::{Episode, Steered};
pub use foreign::{Setup, Stack, Stacks};
pub use run::{Simulator, check, run, run_with};

/// The counters of each flow: the name of a column of `flows`, and its meaning.
pub const COUNTERS: &[(&str, &str)] = SenderStats::COUNTERS;
pub use paceline_experiment::ACK_COUNTERS;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
