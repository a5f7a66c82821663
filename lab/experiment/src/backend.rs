//! An engine that runs scenarios, how far a run has come, and why there is no record of one.

use std::fmt::Display;
use std::io;
use std::ops::ControlFlow;

use paceline_record::{Recorder, Run, in_words};
use paceline_scenario::{Diagnostic, Scenario};
use paceline_units::Duration;

use crate::audit::Unbalanced;
use crate::guest::Guests;
use crate::memory::Memory;

/// An engine.
pub trait Backend {
    /// All errors in a scenario, which may name `guests`, beyond its own text.
    fn check(&self, scenario: &Scenario, guests: &Guests) -> Vec<Diagnostic>;

    /// Checks that this machine has everything that a scenario needs, as far as that is known
    /// without a trial run.
    ///
    /// # Errors
    /// The missing requirements.
    fn available(&self, _scenario: &Scenario) -> Result<(), RunError> {
        Ok(())
    }

    /// Runs a scenario, which may name `guests`, with `seed` to its end. `watch` is asked at least a
    /// few times a second.
    ///
    /// # Errors
    /// See [`RunError`].
    fn run(
        &self,
        scenario: &Scenario,
        guests: &Guests,
        seed: u64,
        watch: &mut Watch<'_>,
    ) -> Result<(Run, Progress), RunError>;
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time of the run that has passed.
    pub passed: Duration,
    /// Time of the whole run.
    pub total: Duration,
    /// Data packets offered to the path so far.
    pub packets: u64,
    /// Events that the simulator has handled so far.
    pub events: u64,
    /// Memory of the run.
    pub memory: Memory,
}

/// Receives the state of a run: its progress, and the record so far if the engine has it before the
/// end.
type OnProgress<'a> = dyn FnMut(&Progress, Option<&Recorder>) -> ControlFlow<()> + 'a;

/// Who follows a run, and may stop it.
pub struct Watch<'a> {
    limit: u64,
    on_progress: Option<&'a mut OnProgress<'a>>,
}

impl<'a> Watch<'a> {
    /// A run that may take `limit` bytes of memory, and that `on_progress` may stop.
    pub fn new(limit: u64, on_progress: &'a mut OnProgress<'a>) -> Self {
        let on_progress = Some(on_progress);
        Self { limit, on_progress }
    }

    /// A run that goes on to its end.
    pub fn none() -> Self {
        Self {
            limit: u64::MAX,
            on_progress: None,
        }
    }

    /// Checks that a run may take its memory.
    ///
    /// # Errors
    /// [`RunError::TooLarge`].
    pub fn within(&self, at: &Progress) -> Result<(), RunError> {
        match at.memory.total() > self.limit {
            true => Err(RunError::TooLarge {
                at: Box::new(*at),
                limit: self.limit,
            }),
            false => Ok(()),
        }
    }

    /// Checks whether the run goes on.
    ///
    /// # Errors
    /// It takes too much memory, or the caller stops it.
    pub fn check(&mut self, at: &Progress, record: Option<&Recorder>) -> Result<(), RunError> {
        self.within(at)?;
        let on_progress = self.on_progress.as_mut();
        match on_progress.map(|on_progress| on_progress(at, record)) {
            Some(ControlFlow::Break(())) => Err(RunError::Interrupted),
            _ => Ok(()),
        }
    }
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

/// Why there is no record, or no complete one.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario asks for something that does not exist, or that the engine cannot do.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Scenario(Vec<Diagnostic>),
    /// This machine lacks something that the run needs.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// It takes more memory than it may.
    #[error(
        "after {} s the run takes {} of memory, {} of it for `{}`, and may take {}",
        .at.passed.as_secs_f64(),
        in_words(.at.memory.total()),
        in_words(.at.memory.largest().bytes),
        .at.memory.largest().name,
        in_words(*.limit)
    )]
    TooLarge {
        /// How far it had come.
        at: Box<Progress>,
        /// Bytes that it may take.
        limit: u64,
    },
    /// A guest, or an end of another transport, cannot continue.
    #[error("{what}")]
    Broken {
        /// Its error.
        what: String,
        /// The record up to that time, marked incomplete.
        run: Box<Run>,
    },
    /// Something that should not fail did.
    #[error("{0}")]
    Failed(String),
}

impl RunError {
    /// The failure of `what`, by the system's error.
    pub fn io(what: impl Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Failed(format!("{what}: {error}"))
    }
}

impl From<Unbalanced> for RunError {
    fn from(error: Unbalanced) -> Self {
        Self::Failed(error.to_string())
    }
}
