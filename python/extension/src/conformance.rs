//! Replays golden traces of Linux's BBR and CUBIC, and compares Linux's recovery with ours.

use std::io;
use std::path::{Path, PathBuf};

use paceline_conformance::recovery::{self, judge};
use paceline_conformance::{Case, Replay, trace_id, traces};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Replays the traces below `folder` (`v1`, `v2`, `v3`, `cubic`) for whose id `wanted` returns true:
/// `id`, `suite`, `controller`, `verdict`, `evidence` each. Signals are checked between traces.
#[pyfunction]
pub fn golden_traces<'py>(
    py: Python<'py>,
    folder: PathBuf,
    wanted: &Bound<'py, PyAny>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let traces = py.detach(|| traces(&folder));
    let traces = traces.map_err(|error| named(&folder, &error))?;
    let mut rows = Vec::new();
    for (version, file) in traces {
        py.check_signals()?;
        if wanted.call1((trace_id(version, &file),))?.is_truthy()? {
            let case = py.detach(|| Case::from(&Replay::of(version, file)));
            rows.push(row(py, &case)?);
        }
    }
    Ok(rows)
}

/// Plays every script of `folder` to our sender, against the trace next to it.
#[pyfunction]
pub fn recovery_scripts(py: Python<'_>, folder: PathBuf) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let cases = py.detach(|| recovery::cases(&folder));
    let cases = cases.map_err(|error| named(&folder, &error))?;
    cases.iter().map(|case| row(py, case)).collect()
}

/// Plays the scripts of `folder` whose cases are among `ids` (all, if there are none) to this
/// machine's kernel and to our sender. Returns a row each, with the kernel's `trace` as the name of
/// its file and the text there, or none.
/// `step(id)` is called after each script that the kernel has played.
#[pyfunction]
pub fn recovery_live(
    py: Python<'_>,
    folder: PathBuf,
    ids: Vec<String>,
    step: Py<PyAny>,
) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let step = |name: &str| {
        // An exception in it does not end the play.
        let _ = Python::attach(|py| step.call1(py, (name,)).map(drop));
    };
    let played = py.detach(|| -> io::Result<Vec<_>> {
        let mut scripts = recovery::scripts(&folder)?;
        scripts.retain(|script| ids.is_empty() || ids.contains(&script.id()));
        let traces = crate::engine::record_recovery(&scripts, &step);
        let judged = scripts
            .iter()
            .zip(traces)
            .map(|(script, trace)| match trace {
                Ok(trace) => {
                    let file = script.traces();
                    let file = file.file_name().unwrap_or_default().to_string_lossy();
                    let text = format!("[{}]\n{}", script.name, trace.write());
                    (judge(script, &trace), Some((file.into_owned(), text)))
                }
                Err(why) => (script.failed(why), None),
            });
        Ok(judged.collect())
    });
    let played = played.map_err(|error| named(&folder, &error))?;
    played
        .iter()
        .map(|(case, trace)| {
            let dict = row(py, case)?;
            dict.set_item("trace", trace)?;
            Ok(dict)
        })
        .collect()
}

fn named(folder: &Path, error: &io::Error) -> PyErr {
    PyOSError::new_err(format!("{}: {error}", folder.display()))
}

fn row<'py>(py: Python<'py>, case: &Case) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("id", &case.id)?;
    dict.set_item("suite", case.suite)?;
    dict.set_item("controller", case.controller)?;
    dict.set_item("verdict", case.verdict)?;
    dict.set_item("evidence", &case.evidence)?;
    Ok(dict)
}
