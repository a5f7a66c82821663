//! Golden traces of Linux's BBR and CUBIC, replayed.

use std::path::PathBuf;

use paceline_conformance::{Case, Replay, traces};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Replays every trace below `folder` (`v1`, `v2`, `v3`, `cubic`): `id`, `suite`, `controller`,
/// `verdict`, `evidence` each. Signals are heard between one and the next.
#[pyfunction]
pub fn golden_traces(py: Python<'_>, folder: PathBuf) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let traces = py
        .detach(|| traces(&folder))
        .map_err(|error| PyOSError::new_err(format!("{}: {error}", folder.display())))?;
    let replayed = traces.into_iter().map(|(version, file)| {
        py.check_signals()?;
        let case = py.detach(|| Case::from(&Replay::of(version, file)));
        let dict = PyDict::new(py);
        dict.set_item("id", &case.id)?;
        dict.set_item("suite", case.suite)?;
        dict.set_item("controller", case.controller)?;
        dict.set_item("verdict", case.verdict)?;
        dict.set_item("evidence", &case.evidence)?;
        Ok(dict)
    });
    replayed.collect()
}
