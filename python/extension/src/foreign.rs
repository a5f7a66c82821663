//! Recordings of other programs and of the kernel, as runs.

use std::collections::HashMap;
use std::path::PathBuf;

use paceline_capture::{CaptureError, Ending, Format, Kernel};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::error;
use crate::interruptible::interruptible;
use crate::run::Run;

/// Reads a file of another program as a run that uses at most `memory` bytes; without a format, it
/// is detected from the beginning of the file.
#[pyfunction]
pub fn capture(py: Python<'_>, file: PathBuf, form: Option<&str>, memory: u64) -> PyResult<Run> {
    let known = |name: &str| {
        let known = Format::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| PyValueError::new_err(format!("no format {name}")))
    };
    let format = form.map(known).transpose()?;
    let read = interruptible(py, move |stop| {
        paceline_capture::read(&file, format, memory, stop)
    })?;
    read.map(Run::new).map_err(|failed| raise(py, failed))
}

/// The name of the format detected from the beginning of a file; none if it is not known.
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

/// Builds a record from the events of BBRv3 in the running kernel.
#[pyclass(module = "paceline._paceline")]
pub struct KernelRecord {
    inner: Option<Kernel>,
}

#[pymethods]
impl KernelRecord {
    /// `layout` gives the offset and size of each field in an entry of `size` bytes.
    #[new]
    #[pyo3(signature = (layout, size, begin, port, memory))]
    fn new(
        py: Python<'_>,
        layout: HashMap<String, (usize, usize)>,
        size: usize,
        begin: u64,
        port: Option<u16>,
        memory: u64,
    ) -> PyResult<Self> {
        let inner = Kernel::new(&layout, size, begin, port, memory);
        let inner = inner.map_err(|failed| raise(py, failed))?;
        Ok(Self { inner: Some(inner) })
    }

    /// Takes entries, one after the other; false when there is no room for more.
    fn take(&mut self, py: Python<'_>, entries: &[u8]) -> bool {
        let inner = &mut self.inner;
        py.detach(|| inner.as_mut().is_some_and(|kernel| kernel.take(entries)))
    }

    /// The run; may be called once.
    #[pyo3(signature = (name, at, missed, kernel, incomplete))]
    fn finish(
        &mut self,
        py: Python<'_>,
        name: String,
        at: u64,
        missed: u64,
        kernel: String,
        incomplete: Option<String>,
    ) -> PyResult<Run> {
        let taken = self.inner.take();
        let taken = taken.ok_or_else(|| PyValueError::new_err("it is finished"))?;
        let ending = Ending {
            name,
            at,
            missed,
            kernel,
            incomplete,
        };
        let run = py.detach(|| taken.finish(&ending));
        run.map(Run::new).map_err(|failed| raise(py, failed))
    }
}
