//! What other programs recorded, as runs.

use std::path::PathBuf;

use paceline_capture::{CaptureError, Format};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::error;
use crate::heard::heard;
use crate::run::Run;

/// Reads a file of another program as a run that takes no more than `memory` bytes; without a format, of the one that
/// its beginning says.
#[pyfunction]
pub fn capture(py: Python<'_>, file: PathBuf, form: Option<&str>, memory: u64) -> PyResult<Run> {
    let known = |name: &str| {
        let found = Format::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| PyValueError::new_err(format!("no format {name}")))
    };
    let format = form.map(known).transpose()?;
    let read = heard(py, move |stop| {
        paceline_capture::read(&file, format, memory, stop)
    })?;
    read.map(Run::new).map_err(|failed| raise(py, failed))
}

/// The name of the format that a file's beginning says; none of one that is not known.
#[pyfunction]
pub fn capture_format(py: Python<'_>, file: PathBuf) -> PyResult<Option<&'static str>> {
    match py.detach(|| paceline_capture::format(&file)) {
        Ok(format) => Ok(Some(format.name())),
        Err(CaptureError::Io(failed)) if failed.raw_os_error().is_some() => {
            Err(raise(py, CaptureError::Io(failed)))
        }
        Err(_) => Ok(None),
    }
}

fn raise(py: Python<'_>, failed: CaptureError) -> PyErr {
    match failed {
        CaptureError::Io(source) if source.raw_os_error().is_some() => {
            PyOSError::new_err((source.raw_os_error(), source.to_string()))
        }
        other => error::capture(py, &other.to_string()),
    }
}
