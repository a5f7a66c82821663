//! The capabilities of this machine.

use pyo3::prelude::*;

/// The emulator's findings about this machine, as JSON. `step(text)` is called with each check that
/// starts.
#[pyfunction]
pub fn doctor(py: Python<'_>, quick: bool, step: Py<PyAny>) -> PyResult<String> {
    let mut result = Ok(());
    let report = py.detach(|| {
        crate::engine::doctor(quick, &mut |what| {
            Python::attach(|py| {
                let sent = py
                    .check_signals()
                    .and_then(|()| step.call1(py, (what,)).map(drop));
                if result.is_ok() {
                    result = sent;
                }
            });
        })
    });
    result.map(|()| report)
}
