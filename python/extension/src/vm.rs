//! Snapshots of kernels, for runs in virtual time.

use std::ops::ControlFlow;
use std::path::PathBuf;

use paceline_experiment::{Guests, Progress, Watch};
use paceline_record::Recorder;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::engine::{self, Engine, Prepare};
use crate::error;
use crate::scenario::parse;

/// The snapshots of this user, as JSON: [{`kernel`, `hash`, `qemu`, `modules`, `size_bytes`}]. The
/// one prepared last, which runs use, comes first.
#[pyfunction]
pub fn vm_images(py: Python<'_>) -> PyResult<String> {
    let images = engine::images().map_err(|error| error::run(py, &error))?;
    Ok(serde_json::to_string(&images).unwrap_or_default())
}

/// Creates a snapshot of a kernel, or of the newest in /boot; returns it as JSON. `step(text)` is
/// called with each step.
#[pyfunction]
#[pyo3(signature = (kernel, modules, step))]
pub fn vm_prepare(
    py: Python<'_>,
    kernel: Option<PathBuf>,
    modules: Option<PathBuf>,
    step: Py<PyAny>,
) -> PyResult<String> {
    let mut signalled = Ok(());
    let made = py.detach(|| {
        engine::prepare(&Prepare { kernel, modules }, &mut |what| {
            signalled = Python::attach(|py| {
                py.check_signals()?;
                step.call1(py, (what,)).map(drop)
            });
            signalled.is_ok()
        })
    });
    signalled?;
    let image = made.map_err(|error| error::run(py, &error))?;
    Ok(serde_json::to_string(&image).unwrap_or_default())
}

/// Deletes the snapshot with that hash; returns whether it existed.
#[pyfunction]
pub fn vm_remove(py: Python<'_>, sha256: &str) -> PyResult<bool> {
    engine::remove(sha256).map_err(|error| error::run(py, &error))
}

/// The calls of a kernel's controller.
type Calls<'py> = (String, String, u32, Bound<'py, PyBytes>);

/// Runs a scenario and records the calls of its first flow's controller. Returns the kernel's
/// release, the controller's name there, the address of the flow's receiver, and the calls of all
/// flows (`struct call` of `linux/kernel/stock.h`).
#[pyfunction]
#[pyo3(signature = (text, file, seed = None))]
pub fn vm_trace<'py>(
    py: Python<'py>,
    text: &str,
    file: PathBuf,
    seed: Option<u64>,
) -> PyResult<Calls<'py>> {
    let scenario = parse(text, &file, &[], Engine::Vm, &Guests::default(), true)
        .map_err(|error| error::run(py, &error))?;
    let seed = seed.unwrap_or(scenario.run.seed);
    let mut signalled = Ok(());
    let traced = py.detach(|| {
        let mut on_progress = |_: &Progress, _: Option<&Recorder>| {
            signalled = Python::attach(|py| py.check_signals());
            match signalled {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        };
        engine::trace(&scenario, seed, &mut Watch::new(u64::MAX, &mut on_progress))
    });
    signalled?;
    let traced = traced.map_err(|error| error::run(py, &error))?;
    let calls = PyBytes::new(py, &traced.calls);
    Ok((traced.kernel, traced.controller, traced.receiver, calls))
}
