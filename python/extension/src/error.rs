//! Errors, raised as the classes of `paceline.errors`.

use paceline_experiment::{Progress, RunError};
use paceline_record::RecordError;
use paceline_scenario::Diagnostic;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Creates an instance of a class of `paceline.errors`.
fn raise<'py>(py: Python<'py>, class: &str, argument: impl IntoPyObject<'py>) -> PyErr {
    let made = PyModule::import(py, "paceline.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((argument,)));
    match made {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

fn as_dict<'py>(py: Python<'py>, diagnostic: &Diagnostic) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("kind", diagnostic.kind.as_str())?;
    dict.set_item("message", &diagnostic.message)?;
    dict.set_item("file", &diagnostic.file)?;
    dict.set_item("line", diagnostic.line)?;
    dict.set_item("column", diagnostic.column)?;
    dict.set_item("key", &diagnostic.key)?;
    dict.set_item("hint", &diagnostic.hint)?;
    dict.set_item("rendered", diagnostic.to_string())?;
    Ok(dict)
}

/// `ScenarioError`, with all errors in the scenario.
pub fn scenario(py: Python<'_>, diagnostics: &[Diagnostic]) -> PyErr {
    let dicts: PyResult<Vec<_>> = diagnostics.iter().map(|d| as_dict(py, d)).collect();
    match dicts.and_then(|dicts| PyList::new(py, dicts)) {
        Ok(list) => raise(py, "ScenarioError", list),
        Err(error) => error,
    }
}

/// `ScenarioError`, `UnavailableError`, `MemoryLimitError` or `RunError`: why there is no record.
pub fn run(py: Python<'_>, error: &RunError) -> PyErr {
    match error {
        RunError::Scenario(diagnostics) => scenario(py, diagnostics),
        RunError::Unavailable(missing) => {
            let argument = vec![Some(&*missing.what), missing.hint.as_deref()];
            raise(py, "UnavailableError", argument)
        }
        RunError::TooLarge { at, .. } => too_large(py, &error.to_string(), &smaller(at)),
        _ => raise(py, "RunError", error.to_string()),
    }
}

/// Why there is no record, and what helps, as a text.
pub fn message(error: &RunError) -> String {
    match error {
        RunError::TooLarge { at, .. } => format!("{error}; {}", smaller(at)),
        _ => error.to_string(),
    }
}

/// How a run takes less memory, or may take more.
fn smaller(at: &Progress) -> String {
    format!("choose {}, or raise --memory", at.memory.largest().hint)
}

/// `MemoryLimitError`: a run exceeds its memory limit.
fn too_large(py: Python<'_>, what: &str, hint: &str) -> PyErr {
    raise(py, "MemoryLimitError", vec![Some(what), Some(hint)])
}

/// `CaptureError`: a file of another program cannot be read as a record.
pub fn capture(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "CaptureError", message)
}

/// `OSError`, `MemoryLimitError` or `NotARunError`: a folder could not be written or read.
pub fn record(py: Python<'_>, error: &RecordError) -> PyErr {
    match error {
        RecordError::Io { path, source } => match source.raw_os_error() {
            Some(code) => PyOSError::new_err((code, source.to_string(), path.clone())),
            None => PyOSError::new_err(error.to_string()),
        },
        RecordError::TooLarge { .. } => {
            let hint = "raise --memory, or read it where more is free";
            too_large(py, &error.to_string(), hint)
        }
        _ => raise(py, "NotARunError", error.to_string()),
    }
}
