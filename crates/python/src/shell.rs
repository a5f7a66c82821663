//! The user's programs at both ends of a scenario's path.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

use crate::engine::{self, Engine};
use crate::heard::heard;
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
    let none = paceline_experiment::Guests::none();
    let read = |overrides: &[(String, String)]| {
        let parsed = scenario::parse(text, &file, overrides, Engine::Emulator, &none, true);
        parsed
            .and_then(|it| engine::available(Engine::Emulator, &it).map(|()| it))
            .map_err(|failure| failure.raise(py))
    };
    let mut scenario = read(&overrides)?;
    let up = up.map(|up| read(&[overrides, up].concat())).transpose()?;
    if !flows {
        scenario.flows.clear();
    }
    let seed = seed.unwrap_or(scenario.run.seed);
    let ran = heard(py, move |stop| {
        engine::shell(&scenario, seed, client, server, up, stop)
    })?;
    let (run, code) = ran.map_err(|failure| failure.raise(py))?;
    Ok((Run::new(run), code))
}
