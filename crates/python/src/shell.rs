//! Programs of the user's at both ends of a scenario's path.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

use crate::engine::{self, Engine};
use crate::heard::heard;
use crate::run::Run;
use crate::scenario;

/// Runs a client, and a server if one is given (a line for the shell), at the ends of a scenario's path until the client
/// ends: the record and the client's exit status. Unless `flows`, the scenario's flows are left out.
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
) -> PyResult<(Run, i32)> {
    let none = paceline_experiment::Guests::none();
    let parsed = scenario::parse(text, &file, &overrides, Engine::Emulator, &none, true);
    let mut scenario = parsed.map_err(|failure| failure.raise(py))?;
    if !flows {
        scenario.flows.clear();
    }
    let seed = seed.unwrap_or(scenario.run.seed);
    let ran = heard(py, move |stop| {
        engine::shell(&scenario, seed, client, server, stop)
    })?;
    let (run, code) = ran.map_err(|failure| failure.raise(py))?;
    Ok((Run::new(run), code))
}
