//! Snapshots of kernels, for runs in virtual time.

use std::path::PathBuf;

use paceline_experiment::Guests;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::engine::{Engine, vm};
use crate::scenario::parse;

/// The snapshots of this user, as JSON: [{`kernel`, `hash`, `qemu`, `modules`, `size_bytes`}]. The
/// one prepared last, which runs use, comes first.
#[pyfunction]
pub fn vm_images(py: Python<'_>) -> PyResult<String> {
    vm::images().map_err(|failure| failure.raise(py))
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
    let mut heard = Ok(());
    let made = py.detach(|| {
        vm::prepare(kernel, modules, &mut |what| {
            heard = Python::attach(|py| {
                py.check_signals()?;
                step.call1(py, (what,)).map(drop)
            });
            heard.is_ok()
        })
    });
    heard?;
    made.map_err(|failure| failure.raise(py))
}

/// Deletes the snapshot with that hash; returns whether it existed.
#[pyfunction]
pub fn vm_remove(py: Python<'_>, sha256: &str) -> PyResult<bool> {
    vm::remove(sha256).map_err(|failure| failure.raise(py))
}

/// The calls of a kernel's controller.
type Calls<'py> = (String, String, u32, Bound<'py, PyBytes>);

/// Runs a scenario and records the calls of its first flow's controller. Returns the kernel's
/// release, the controller's name there, the address of the flow's receiver, and the calls of all
/// flows (`struct call` of `kernel/stock.h`).
#[pyfunction]
#[pyo3(signature = (text, file, seed = None))]
pub fn vm_trace<'py>(
    py: Python<'py>,
    text: &str,
    file: PathBuf,
    seed: Option<u64>,
) -> PyResult<Calls<'py>> {
    let scenario = parse(text, &file, &[], Engine::Vm, &Guests::default(), true)
        .map_err(|failure| failure.raise(py))?;
    let seed = seed.unwrap_or(scenario.run.seed);
    let mut heard = Ok(());
    let traced = py.detach(|| {
        vm::trace(&scenario, seed, &mut || {
            heard = Python::attach(|py| py.check_signals());
            heard.is_ok()
        })
    });
    heard?;
    let (kernel, controller, receiver, calls) = traced.map_err(|failure| failure.raise(py))?;
    Ok((kernel, controller, receiver, PyBytes::new(py, &calls)))
}
