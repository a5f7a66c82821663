//! The start-up gain simulator and the derivation of the gains.

use paceline_simulator::startup as gains;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The first `rounds` rows for a pacing gain: `growth`, `t`, `round`, `cwnd`, `pif`, `bw`.
#[pyfunction]
pub fn startup(py: Python<'_>, gain: f64, rounds: u32) -> PyResult<Vec<Bound<'_, PyDict>>> {
    py.detach(|| gains::simulate(gain, rounds))
        .iter()
        .map(|row| {
            let dict = PyDict::new(py);
            dict.set_item("growth", row.growth)?;
            dict.set_item("t", row.t)?;
            dict.set_item("round", row.round)?;
            dict.set_item("cwnd", row.cwnd)?;
            dict.set_item("pif", row.pif)?;
            dict.set_item("bw", row.bw)?;
            Ok(dict)
        })
        .collect()
}

/// The minimum gain, to within `tolerance`, that doubles the estimate in each of rounds 10 to 15.
#[pyfunction]
pub fn least_doubling_gain(py: Python<'_>, tolerance: f64) -> f64 {
    py.detach(|| gains::least_doubling_gain(tolerance))
}

/// The gains that follow from doubling each round trip: `pacing_gain`, `cwnd_gain`, `drain_gain`.
#[pyfunction]
pub fn startup_derivation(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let gains = py.detach(gains::derive);
    let dict = PyDict::new(py);
    dict.set_item("pacing_gain", gains.pacing_gain)?;
    dict.set_item("cwnd_gain", gains.cwnd_gain)?;
    dict.set_item("drain_gain", gains.drain_gain)?;
    Ok(dict)
}
