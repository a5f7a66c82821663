//! Quantities as people write them: read here once for both languages.

use paceline_units::{Bytes, Duration, ParseError, Rate};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Reads a `rate` (in bit/s), a `time` (in nanoseconds) or a `volume` (in bytes) with its unit, as a
/// scenario has it. `ValueError` says what would be right.
#[pyfunction]
pub fn parse_quantity(kind: &str, text: &str) -> PyResult<u64> {
    let wrong = |example: &str, error: &ParseError| {
        let units: Vec<&str> = error.units().collect();
        let units = units.join(", ");
        PyValueError::new_err(format!(
            "a {kind} has a number and a unit ({units}), such as \"{example}\", not {text:?}"
        ))
    };
    match kind {
        "rate" => (text.parse().map(Rate::bps)).map_err(|error| wrong("50 Mbit/s", &error)),
        "time" => (text.parse().map(Duration::as_nanos)).map_err(|error| wrong("0.5 s", &error)),
        "volume" => (text.parse().map(Bytes::get)).map_err(|error| wrong("4 GB", &error)),
        _ => Err(PyValueError::new_err(format!("no quantity is a {kind:?}"))),
    }
}
