//! Quantities as people write and read them: one parser and one formatter for both languages.

use paceline_units::shown::{self, Scale};
use paceline_units::{Bytes, Duration, ParseError, Rate};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Parses a `rate` (to bit/s), a `time` (to nanoseconds) or a `volume` (to bytes) with its unit, as
/// in a scenario. `ValueError` says what would be correct.
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

/// The unit that suits a quantity called `name` with values near `about`, and its size in base
/// units.
#[pyfunction]
pub fn scale(name: &str, about: f64) -> (&'static str, f64) {
    let Scale { unit, size } = Scale::of(name, about);
    (unit, size)
}

/// Writes a number of base units in a unit of `size`, with four significant digits.
#[pyfunction]
pub fn number(value: Option<f64>, size: f64) -> String {
    Scale { unit: "", size }.number(value)
}

/// Formats a number with its unit, which is the end of its name.
#[pyfunction]
pub fn quantity(name: &str, value: Option<f64>) -> String {
    shown::quantity(name, value)
}

/// A name without its unit, in words.
#[pyfunction]
pub fn plain(name: &str) -> String {
    shown::plain(name)
}

/// The known name nearest to a mistyped one, if one is near.
#[pyfunction]
pub fn nearest(name: &str, known: Vec<String>) -> Option<String> {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    paceline_scenario::nearest(name, &known).map(str::to_owned)
}
