//! The parts of a scenario that are the same for every engine.
//!
//! Virtual and real time run the same experiment: a [`Plan`] contains the links, return paths and
//! flows, when flows start, what they send, the changes during the run, and how all this appears in
//! the record. Names and files are resolved here; errors in them are reported with their place in
//! the scenario.

mod audit;
mod backend;
mod bridge;
mod change;
mod check;
mod controllers;
mod flows;
mod guest;
mod memory;
mod network;
mod plan;
mod rows;
mod script;
mod sender;
mod stack;
mod ways;

pub use audit::{Unbalanced, audit};
pub use backend::{Backend, Progress, RunError, Unavailable, Watch};
pub use bridge::{AckEvent, Arguments, Bridge, Decisions, Instance, Method};
pub use change::{Change, LinkChange};
pub use check::{check, list, looked_at, nearest, service};
pub use controllers::{choices, parameters, stack_choices};
pub use flows::FlowPlan;
pub use guest::{
    BANDWIDTH, Choice, Fault, FlowController, Guest, GuestController, GuestEnd, GuestEndConfig,
    GuestError, GuestFlow, GuestStack, Guests, Options, Prepared, guest_field, guest_quantum,
    guest_trial, interned, used,
};
pub use memory::{Memory, Part, QLOG_ENTRY};
pub use network::{link_seed, rate, seed_of};
pub use plan::Plan;
pub use rows::{ACK_COUNTERS, change_rows, end_counters, end_row, queue_row};
pub use script::{Script, Trigger};
pub use sender::sender_config;
pub use stack::brought;
#[cfg(feature = "quic")]
pub use stack::end_config;
pub use ways::{Delays, Lane, Ways};

use paceline_scenario::{Diagnostic, Scenario, Vocabulary};
use paceline_units::options::Named;

/// The names that a scenario may choose from.
static VOCABULARY: Vocabulary = Vocabulary {
    queues: paceline_path::QUEUES,
    early_signals: paceline_path::EARLY_SIGNALS,
};

/// Reads a scenario; see [`Scenario::parse`].
///
/// # Errors
/// All errors that could be detected, in the order of the file.
pub fn parse(
    text: &str,
    file_name: &str,
    overrides: &[(String, String)],
) -> Result<Scenario, Vec<Diagnostic>> {
    Scenario::parse(text, file_name, overrides, &VOCABULARY)
}

/// The queueing disciplines that a scenario may choose from; the first is the default.
pub fn queues() -> &'static [Named] {
    VOCABULARY.queues
}

/// The JSON Schema of scenarios, for editors, with a final newline.
pub fn schema_json() -> String {
    paceline_scenario::schema_json(&VOCABULARY)
}

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
