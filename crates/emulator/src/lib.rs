//! A scenario in real time.
//!
//! Real sockets and the kernel's own TCP, through the links of [`paceline_path`] run in real time
//! between two TUN devices. All of it lives in one child process, in network namespaces that only
//! its descriptors hold: when it ends, however it ends, nothing is left.

#![cfg(target_os = "linux")]

mod busy;
mod child;
mod clock;
mod doctor;
mod fidelity;
mod host;
mod log;
mod message;
mod namespace;
mod netlink;
mod network;
mod packet;
mod plan;
mod process;
mod record;
mod sample;
mod sys;
mod tracker;
mod tun;

use std::ops::ControlFlow;
use std::os::fd::AsFd;

use paceline_record::Run;
use paceline_scenario::{Diagnostic, Scenario};
use paceline_units::Duration;

use message::{Message, Outcome};
use plan::Plan;
use sys::Ready;

pub use doctor::doctor;
pub use plan::{MAX_RATE, MIN_INTERVAL, check, controllers};

/// Whether this machine has what a scenario needs; what only a try can tell is not told.
///
/// # Errors
/// What it lacks.
pub fn available(scenario: &Scenario) -> Result<(), Unavailable> {
    plan::available(scenario, &controllers())
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time of the run that has passed.
    pub passed: Duration,
    /// Time of the whole run.
    pub total: Duration,
    /// Data packets offered to the path so far.
    pub packets: u64,
}

/// What this machine lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Unavailable {
    /// What there is not.
    pub what: String,
    /// What may mend it.
    pub hint: Option<String>,
}

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario asks for what the emulator cannot do.
    #[error("the scenario cannot be emulated")]
    Scenario(Vec<Diagnostic>),
    /// This machine lacks what the run needs.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The progress callback asked to stop.
    #[error("interrupted at {} s", .0.passed.as_secs_f64())]
    Interrupted(Progress),
    /// Something that should not fail did.
    #[error("the emulator failed: {0}")]
    Failed(String),
}

/// How often the callback is asked at least.
const PERIOD: Duration = Duration::from_millis(50);

/// Runs a scenario with `seed` to its end, in its own time. `progress` is called some times a
/// second; it may stop the run. What is beyond the bounds of the run's emulation is in the record.
///
/// # Errors
/// See [`RunError`].
pub fn run(
    scenario: &Scenario,
    seed: u64,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<(Run, Progress), RunError> {
    let plan = plan::resolve(scenario, seed).map_err(RunError::Scenario)?;
    available(scenario)?;
    let (outcome, last) = emulate(scenario, &plan, seed, progress)?;
    let report = fidelity::report(scenario, &plan, &outcome);
    let run = record::run(scenario, &plan, seed, &outcome);
    Ok((run.with_emulation(report), last))
}

fn failed(what: &str) -> impl FnOnce(std::io::Error) -> RunError {
    move |error| RunError::Failed(format!("{what}: {error}"))
}

fn emulate(
    scenario: &Scenario,
    plan: &Plan,
    seed: u64,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<(Outcome, Progress), RunError> {
    let parent = std::process::id().cast_signed();
    let (_child, mut ours) =
        process::start(|theirs| child::main(scenario, plan, seed, theirs, parent))
            .map_err(failed("start a process"))?;
    let mut so_far = Progress {
        total: scenario.run.duration,
        ..Progress::default()
    };
    loop {
        if progress(&so_far).is_break() {
            return Err(RunError::Interrupted(so_far));
        }
        let ready = sys::poll([(ours.as_fd(), Ready::Read)], Some(PERIOD));
        if ready.map_err(failed("wait for the emulator"))? != [true] {
            continue;
        }
        match message::read(&mut ours).map_err(failed("hear from the emulator"))? {
            Some(Message::Progress { passed, packets }) => {
                so_far.passed = Duration::from_nanos(passed).min(so_far.total);
                so_far.packets = packets;
            }
            Some(Message::Outcome(outcome)) => {
                so_far.passed = so_far.total;
                so_far.packets = outcome.packets_offered;
                return Ok((*outcome, so_far));
            }
            Some(Message::Unavailable { what, hint }) => {
                return Err(Unavailable { what, hint }.into());
            }
            Some(Message::Failed(what)) => return Err(RunError::Failed(what)),
            None => return Err(RunError::Failed("its process has died".into())),
        }
    }
}
