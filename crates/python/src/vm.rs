//! Snapshots of kernels, for runs in virtual time.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::engine::vm;

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
