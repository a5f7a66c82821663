//! The user's programs at both ends of a scenario's path.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use paceline_experiment::{Guests, Progress, Watch};
use paceline_record::Recorder;
use pyo3::prelude::*;

use crate::engine::{self, Engine};
use crate::error;
use crate::interruptible::interruptible;
use crate::run::Run;
use crate::scenario;

/// Runs a client, and a server if one is given (a command for the shell), at the ends of a
/// scenario's path until the client ends: returns the record and the client's exit status. Unless
/// `flows`, the scenario's flows are left out. With `up`, the client's data also crosses a path:
/// that of the scenario with these overrides.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub fn shell(
    py: Python<'_>,
    text: &str,
    file: PathBuf,
    overrides: Vec<(String, String)>,
    seed: Option<u64>,
    client: Vec<OsString>,
    server: Option<OsString>,
    flows: bool,
    up: Option<Vec<(String, String)>>,
) -> PyResult<(Run, i32)> {
    let none = Guests::none();
    let read = |overrides: &[(String, String)]| {
        let parsed = scenario::parse(text, &file, overrides, Engine::Emulator, &none, true);
        let backend = engine::backend(Engine::Emulator);
        parsed
            .and_then(|it| backend.available(&it).map(|()| it))
            .map_err(|error| error::run(py, &error))
    };
    let mut scenario = read(&overrides)?;
    let up = up.map(|up| read(&[overrides, up].concat())).transpose()?;
    if !flows {
        scenario.flows.clear();
    }
    let seed = seed.unwrap_or(scenario.run.seed);
    let programs = engine::Programs { client, server, up };
    let ran = interruptible(py, move |stop| {
        let mut on_progress = |_: &Progress, _: Option<&Recorder>| match stop.load(Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let mut watch = Watch::new(u64::MAX, &mut on_progress);
        engine::shell(&scenario, seed, &programs, &mut watch)
    })?;
    let (run, code) = ran.map_err(|error| error::run(py, &error))?;
    Ok((Run::new(run), code))
}
