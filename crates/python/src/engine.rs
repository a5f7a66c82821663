//! The engines: the simulator, and the emulator and the virtual machine where available.

use std::ops::ControlFlow;
use std::path::Path;

use paceline_experiment::{Choice, Estimate, Guests, Memory};
use paceline_record::{Recorder, Run, in_words};
use paceline_scenario::{Diagnostic, Scenario};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error;
use crate::follow::Follower;

pub use emulator::{doctor, record_recovery, shell};
pub use paceline_scenario::Engine;

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub passed_ns: u64,
    pub packets: u64,
    pub events: u64,
    pub memory: Memory,
}

/// Why there is no run.
pub enum Failure {
    /// The errors in the scenario, for this engine.
    Scenario(Vec<Diagnostic>),
    /// What this machine lacks, and a possible fix.
    Unavailable(String, Option<String>),
    /// It stopped early.
    Stopped(String),
    /// A guest stopped it, or an end of another transport: the error, and the record up to that time.
    Guest(String, Box<Run>),
    /// It would exceed its memory limit: the largest part, and how to reduce it.
    TooLarge(String, String),
}

impl Failure {
    /// As an exception.
    pub fn raise(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Scenario(diagnostics) => error::scenario(py, diagnostics),
            Self::Unavailable(what, hint) => error::unavailable(py, what, hint.as_deref()),
            Self::Stopped(message) | Self::Guest(message, _) => error::run(py, message),
            Self::TooLarge(what, hint) => error::too_large(py, what, hint),
        }
    }

    /// In words.
    pub fn message(&self) -> String {
        match self {
            Self::Scenario(diagnostics) => {
                let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
                lines.join("\n")
            }
            Self::Unavailable(what, _) => what.clone(),
            Self::Stopped(message) | Self::Guest(message, _) => message.clone(),
            Self::TooLarge(what, hint) => format!("{what}; {hint}"),
        }
    }

    /// A run that would exceed its `share` of the memory.
    pub fn too_large(what: &str, memory: &Memory, share: u64) -> Self {
        let (part, all) = (memory.largest(), in_words(memory.total()));
        let (share, most) = (in_words(share), in_words(part.bytes));
        let name = part.name;
        Self::TooLarge(
            format!("{what} {all} of memory, {most} of it for `{name}`, and may take {share}"),
            format!("choose {}, or raise --memory", part.hint),
        )
    }
}

/// An engine by the name of its backend.
pub fn named(backend: &str) -> PyResult<Engine> {
    match backend {
        "sim" => Ok(Engine::Simulator),
        "emu" => Ok(Engine::Emulator),
        "vm" => Ok(Engine::Vm),
        _ => Err(PyValueError::new_err(format!(
            "no backend is called {backend:?}; there are \"sim\", \"emu\" and \"vm\""
        ))),
    }
}

/// All errors in a scenario beyond its own text.
pub fn check(engine: Engine, scenario: &Scenario, guests: &Guests) -> Vec<Diagnostic> {
    match engine {
        Engine::Simulator => paceline_simulator::check_with(scenario, guests),
        Engine::Emulator => emulator::check(scenario, guests),
        Engine::Vm => vm::check(scenario),
    }
}

/// Requirements of a scenario that the machine lacks.
pub fn available(engine: Engine, scenario: &Scenario) -> Result<(), Failure> {
    match engine {
        Engine::Simulator => Ok(()),
        Engine::Emulator => emulator::available(scenario),
        Engine::Vm => vm::available(scenario),
    }
}

/// The memory that a run of a scenario will need.
pub fn estimate(engine: Engine, scenario: &Scenario, guests: &Guests) -> Result<Estimate, Failure> {
    // The kernel reports less of its controllers' state than ours do.
    let choices = match engine {
        Engine::Simulator => {
            paceline_experiment::choices(scenario, guests).map_err(Failure::Scenario)?
        }
        Engine::Emulator | Engine::Vm => Vec::new(),
    };
    let fields: Vec<_> = choices.iter().map(Choice::fields).collect();
    paceline_experiment::estimate(scenario, &fields).map_err(Failure::Scenario)
}

/// Runs a scenario, which may use `share` bytes of memory. The simulator writes its rows to `stream`
/// while it runs; the others have none before their end.
pub fn run(
    engine: Engine,
    scenario: &Scenario,
    guests: &Guests,
    seed: u64,
    share: u64,
    stream: Option<&Path>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Run, Progress), Failure> {
    let mut beyond = None;
    let mut watched = |so_far: Progress| {
        if so_far.memory.total() > share {
            beyond = Some(so_far);
            return ControlFlow::Break(());
        }
        progress(so_far)
    };
    let ended = match engine {
        Engine::Simulator => simulate(scenario, guests, seed, stream, &mut watched),
        Engine::Emulator => emulator::run(scenario, guests, seed, &mut watched),
        Engine::Vm => vm::run(scenario, seed, &mut watched),
    };
    match beyond {
        None => ended,
        Some(Progress {
            passed_ns, memory, ..
        }) => {
            let what = format!("after {} s the run takes", passed_ns as f64 / 1e9);
            Err(Failure::too_large(&what, &memory, share))
        }
    }
}

fn simulate(
    scenario: &Scenario,
    guests: &Guests,
    seed: u64,
    stream: Option<&Path>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Run, Progress), Failure> {
    use paceline_simulator::{RunError, Stacks};
    let seen = |progress: &paceline_simulator::Progress| Progress {
        passed_ns: progress.simulated.as_nanos(),
        packets: progress.packets,
        events: progress.events,
        memory: progress.memory,
    };
    let stacks = Stacks::none();
    let mut follower = Follower::new(stream);
    let mut watch = |so_far: &paceline_simulator::Progress, record: &Recorder| {
        follower.follow(record, so_far.simulated);
        progress(seen(so_far))
    };
    match paceline_simulator::run_watched(scenario, seed, guests, &stacks, &mut watch) {
        Ok((run, last)) => Ok((run, seen(&last))),
        Err(RunError::Scenario(diagnostics)) => Err(Failure::Scenario(diagnostics)),
        Err(RunError::Guest { what, run, .. }) => Err(Failure::Guest(what, run)),
        Err(error) => {
            let message = error.to_string();
            match error {
                RunError::Endpoint { run: Some(run), .. } => Err(Failure::Guest(message, run)),
                _ => Err(Failure::Stopped(message)),
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod emulator {
    use std::ffi::OsString;
    use std::ops::ControlFlow;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use paceline_emulator::{RunError, Unavailable};
    use paceline_experiment::Guests;
    use paceline_record::Run;
    use paceline_scenario::Scenario;

    use super::{Failure, Progress};

    pub use paceline_emulator::{check, record_recovery};

    pub fn doctor(quick: bool, step: &mut dyn FnMut(&str)) -> String {
        let mut report = paceline_emulator::doctor(quick, step);
        if let Some(checks) = report["checks"].as_array_mut() {
            checks.push(paceline_vm::doctor());
        }
        report.to_string()
    }

    impl From<Unavailable> for Failure {
        fn from(error: Unavailable) -> Self {
            Self::Unavailable(error.what, error.hint)
        }
    }

    pub fn available(scenario: &Scenario) -> Result<(), Failure> {
        Ok(paceline_emulator::available(scenario)?)
    }

    pub fn run(
        scenario: &Scenario,
        guests: &Guests,
        seed: u64,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(Run, Progress), Failure> {
        let seen = |progress: &paceline_emulator::Progress| Progress {
            passed_ns: progress.passed.as_nanos(),
            packets: progress.packets,
            events: 0,
            memory: progress.memory,
        };
        let ran =
            paceline_emulator::run(scenario, guests, seed, &mut |so_far| progress(seen(so_far)));
        let (run, last) = ran.map_err(failure)?;
        Ok((run, seen(&last)))
    }

    fn failure(error: RunError) -> Failure {
        match error {
            RunError::Scenario(diagnostics) => Failure::Scenario(diagnostics),
            RunError::Unavailable(error) => error.into(),
            error => Failure::Stopped(error.to_string()),
        }
    }

    pub fn shell(
        scenario: &Scenario,
        seed: u64,
        client: Vec<OsString>,
        server: Option<OsString>,
        up: Option<Scenario>,
        stop: &AtomicBool,
    ) -> Result<(Run, i32), Failure> {
        let programs = paceline_emulator::Programs { client, server, up };
        let mut go_on = |_: &_| match stop.load(Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        paceline_emulator::shell(scenario, seed, &programs, &mut go_on).map_err(failure)
    }
}

#[cfg(target_os = "linux")]
pub mod vm {
    use std::ops::ControlFlow;
    use std::path::PathBuf;

    use paceline_emulator::Progress as Seen;
    use paceline_record::Run;
    use paceline_scenario::Scenario;
    use paceline_vm::{Failed, Prepare, RunError};

    use super::{Failure, Progress};

    pub use paceline_vm::check;

    impl From<Failed> for Failure {
        fn from(error: Failed) -> Self {
            match error {
                Failed::Unavailable(missing) => missing.into(),
                other => Self::Stopped(other.to_string()),
            }
        }
    }

    impl From<RunError> for Failure {
        fn from(error: RunError) -> Self {
            match error {
                RunError::Scenario(diagnostics) => Self::Scenario(diagnostics),
                RunError::Unavailable(missing) => missing.into(),
                other => Self::Stopped(other.to_string()),
            }
        }
    }

    pub fn available(scenario: &Scenario) -> Result<(), Failure> {
        Ok(paceline_vm::available(scenario)?)
    }

    pub fn run(
        scenario: &Scenario,
        seed: u64,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(Run, Progress), Failure> {
        let seen = |progress: &Seen| Progress {
            passed_ns: progress.passed.as_nanos(),
            packets: progress.packets,
            events: 0,
            memory: progress.memory,
        };
        let (run, last) = paceline_vm::run(scenario, seed, &mut |so_far| progress(seen(so_far)))?;
        Ok((run, seen(&last)))
    }

    /// The calls of the first flow's controller: see `paceline_vm::Traced`.
    pub fn trace(
        scenario: &Scenario,
        seed: u64,
        step: &mut dyn FnMut() -> bool,
    ) -> Result<(String, String, u32, Vec<u8>), Failure> {
        let mut progress = |_: &Seen| match step() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let traced = paceline_vm::trace(scenario, seed, &mut progress)?;
        Ok((
            traced.kernel,
            traced.controller,
            traced.receiver,
            traced.calls,
        ))
    }

    /// The existing snapshots, as JSON.
    pub fn images() -> Result<String, Failure> {
        let images = paceline_vm::images()?;
        Ok(serde_json::to_string(&images).unwrap_or_default())
    }

    /// Creates one; returns it as JSON.
    pub fn prepare(
        kernel: Option<PathBuf>,
        modules: Option<PathBuf>,
        step: &mut dyn FnMut(&str) -> bool,
    ) -> Result<String, Failure> {
        let image = paceline_vm::prepare(&Prepare { kernel, modules }, step)?;
        Ok(serde_json::to_string(&image).unwrap_or_default())
    }

    /// Deletes the one with that hash; returns whether it existed.
    pub fn remove(hash: &str) -> Result<bool, Failure> {
        let images = paceline_vm::images()?;
        match images.iter().find(|image| image.hash == hash) {
            Some(image) => Ok(paceline_vm::remove(image).map(|()| true)?),
            None => Ok(false),
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub mod vm {
    use std::ops::ControlFlow;
    use std::path::PathBuf;

    use paceline_record::Run;
    use paceline_scenario::{Diagnostic, Scenario};

    use super::{Failure, Progress};

    fn lacking<T>() -> Result<T, Failure> {
        let hint = "run the scenario in the simulator".to_owned();
        let what = "a virtual machine needs Linux on x86-64".to_owned();
        Err(Failure::Unavailable(what, Some(hint)))
    }

    pub fn check(_: &Scenario) -> Vec<Diagnostic> {
        Vec::new()
    }

    pub fn available(_: &Scenario) -> Result<(), Failure> {
        lacking()
    }

    pub fn run(
        _: &Scenario,
        _: u64,
        _: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(Run, Progress), Failure> {
        lacking()
    }

    pub fn trace(
        _: &Scenario,
        _: u64,
        _: &mut dyn FnMut() -> bool,
    ) -> Result<(String, String, u32, Vec<u8>), Failure> {
        lacking()
    }

    pub fn images() -> Result<String, Failure> {
        Ok("[]".to_owned())
    }

    pub fn prepare(
        _: Option<PathBuf>,
        _: Option<PathBuf>,
        _: &mut dyn FnMut(&str) -> bool,
    ) -> Result<String, Failure> {
        lacking()
    }

    pub fn remove(_: &str) -> Result<bool, Failure> {
        Ok(false)
    }
}

#[cfg(not(target_os = "linux"))]
mod emulator {
    use std::ffi::OsString;
    use std::ops::ControlFlow;
    use std::sync::atomic::AtomicBool;

    use paceline_conformance::recovery::{Played as Script, Trace};
    use paceline_experiment::Guests;
    use paceline_record::Run;
    use paceline_scenario::{Diagnostic, Scenario};

    use super::{Failure, Progress};

    pub fn doctor(_: bool, _: &mut dyn FnMut(&str)) -> String {
        let check = r#"{"name":"system","state":"missing","found":"not Linux","fix":null}"#;
        format!(r#"{{"kernel":"","controllers":[],"able":false,"checks":[{check}]}}"#)
    }

    pub fn record_recovery(
        scripts: &[Script],
        _: &(dyn Fn(&str) + Sync),
    ) -> Vec<Result<Trace, String>> {
        let lacking = Err("it is played to Linux".to_owned());
        vec![lacking; scripts.len()]
    }

    pub fn check(_: &Scenario, _: &Guests) -> Vec<Diagnostic> {
        Vec::new()
    }

    pub fn available(_: &Scenario) -> Result<(), Failure> {
        let hint = "run the scenario in the simulator".to_owned();
        Err(Failure::Unavailable(
            "the emulator needs Linux".to_owned(),
            Some(hint),
        ))
    }

    pub fn run(
        scenario: &Scenario,
        _: &Guests,
        _: u64,
        _: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(Run, Progress), Failure> {
        available(scenario)?;
        Err(Failure::Stopped("the emulator needs Linux".to_owned()))
    }

    pub fn shell(
        scenario: &Scenario,
        _: u64,
        _: Vec<OsString>,
        _: Option<OsString>,
        _: Option<Scenario>,
        _: &AtomicBool,
    ) -> Result<(Run, i32), Failure> {
        available(scenario)?;
        Err(Failure::Stopped("the emulator needs Linux".to_owned()))
    }
}
