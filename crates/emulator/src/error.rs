//! The progress of runs, and why there is no record of one.

use paceline_experiment::Memory;
use paceline_scenario::Diagnostic;
use paceline_units::Duration;

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time of the run that has passed.
    pub passed: Duration,
    /// Time of the whole run.
    pub total: Duration,
    /// Data packets offered to the path so far.
    pub packets: u64,
    /// Memory of its record.
    pub memory: Memory,
}

/// Something that this machine lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Unavailable {
    /// What is missing.
    pub what: String,
    /// A possible fix.
    pub hint: Option<String>,
}

impl Unavailable {
    /// What is missing, and a possible fix.
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hint: Some(hint.into()),
        }
    }
}

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario asks for something that the emulator cannot do.
    #[error("the scenario cannot be emulated")]
    Scenario(Vec<Diagnostic>),
    /// This machine lacks something that the run needs.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The progress callback asked to stop.
    #[error("interrupted at {} s", .0.passed.as_secs_f64())]
    Interrupted(Progress),
    /// Something that should not fail did.
    #[error("the emulator failed: {0}")]
    Failed(String),
}
