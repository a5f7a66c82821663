//! What this machine can do.

use pyo3::prelude::*;

/// What the emulator finds here, as JSON. `step(text)` is called with each check that starts.
#[pyfunction]
pub fn doctor(py: Python<'_>, quick: bool, step: Py<PyAny>) -> PyResult<String> {
    let mut result = Ok(());
    let report = py.detach(|| {
        crate::engine::doctor(quick, &mut |what| {
            Python::attach(|py| {
                let told = py
                    .check_signals()
                    .and_then(|()| step.call1(py, (what,)).map(drop));
                if result.is_ok() {
                    result = told;
                }
            });
        })
    });
    result.map(|()| report)
}
