//! Shadows of algorithms beside a recorded flow.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use paceline_conformance::shadow::{Check, Kind, Moment, Recording, Row, follow, judge, later};
use paceline_congestion::options::{OptionKind, OptionValue};
use paceline_congestion::{controllers, recipe};
use paceline_units::{Duration, Gain};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::table::Table;

/// A flow's packets as its sender saw them, ready to be judged.
#[pyclass(frozen, module = "paceline._paceline")]
pub struct Packets {
    recording: Recording,
    handshake: Option<u64>,
}

#[pymethods]
impl Packets {
    /// Columns of rows in the order of time: nanoseconds, kind (0 sent, 1 cumulative ACK, 2 range
    /// acknowledged), first byte, bytes; the payload of a full packet, and the round trip of the
    /// handshake in nanoseconds.
    #[new]
    #[pyo3(signature = (at, kind, seq, length, mss, handshake = None))]
    fn new(
        py: Python<'_>,
        at: PyBuffer<u64>,
        kind: PyBuffer<u8>,
        seq: PyBuffer<u64>,
        length: PyBuffer<u64>,
        mss: u32,
        handshake: Option<u64>,
    ) -> PyResult<Self> {
        let (at, kind) = (at.to_vec(py)?, kind.to_vec(py)?);
        let (seq, length) = (seq.to_vec(py)?, length.to_vec(py)?);
        let columns = at.into_iter().zip(kind).zip(seq).zip(length);
        let rows = columns.map(|(((at, kind), seq), len)| Row {
            at,
            kind: match kind {
                0 => Kind::Sent,
                1 => Kind::Ack,
                _ => Kind::Sack,
            },
            seq,
            len,
        });
        let recording = py.detach(|| Recording::new(rows, mss));
        Ok(Self {
            recording,
            handshake,
        })
    }

    /// The shortest round trip of data sent once, in nanoseconds, if there is one.
    #[getter]
    fn min_rtt_ns(&self) -> Option<u64> {
        (self.recording.min_rtt < u64::MAX).then_some(self.recording.min_rtt)
    }

    /// The same flow with each ACK so many nanoseconds later.
    fn shifted(&self, py: Python<'_>, by_ns: i64) -> Self {
        Self {
            recording: py.detach(|| self.recording.shifted(by_ns)),
            handshake: self.handshake.map(|rtt| later(rtt, by_ns)),
        }
    }

    /// Judges it by the shadow of a controller, with an option at a value (times in seconds) if
    /// that is given: the share of time as allowed, and the checks.
    fn judge<'py>(
        &self,
        py: Python<'py>,
        controller: &str,
        option: Option<(String, f64)>,
        thorough: bool,
    ) -> PyResult<(f64, Vec<Bound<'py, PyDict>>)> {
        let unknown =
            || PyValueError::new_err(format!("{controller} has no such option: {option:?}"));
        let options = match &option {
            Some((name, value)) => vec![value_of(controller, name, *value).ok_or_else(unknown)?],
            None => Vec::new(),
        };
        let recipe = recipe(controller, &options).map_err(|_| unknown())?;
        // What the shadow did is dropped here: that of seven at once would fill the memory.
        let (likeness, checks) = py.detach(|| {
            let judgement = judge(&self.recording, &recipe, self.handshake, thorough);
            (judgement.likeness, judgement.checks)
        });
        let checks = checks.iter().map(|check| row(py, check));
        Ok((likeness, checks.collect::<PyResult<_>>()?))
    }

    /// What the shadow of a controller allowed after each ACK, and what the flow did.
    fn moments(&self, py: Python<'_>, controller: &str) -> PyResult<Table> {
        let recipe = recipe(controller, &[]);
        let recipe = recipe.map_err(|error| PyValueError::new_err(format!("{error:?}")))?;
        let followed = py.detach(|| follow(&self.recording, &recipe, self.handshake));
        let moments = &followed.moments;
        let integer = |of: fn(&Moment) -> u64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(
                moments.iter().map(|m| of(m) as i64),
            ))
        };
        let pace = moments
            .iter()
            .map(|moment| moment.pace.map(|pace| 8.0 * pace));
        let phases = moments.iter().map(|moment| moment.phase);
        let columns: [(&str, ArrayRef); 6] = [
            ("t_ns", integer(|moment| moment.at)),
            ("pace_bps", Arc::new(Float64Array::from_iter(pace))),
            ("window_bytes", integer(|moment| moment.window)),
            ("in_flight_bytes", integer(|moment| moment.in_flight)),
            ("sent_bytes", integer(|moment| moment.sent)),
            ("phase", Arc::new(StringArray::from_iter_values(phases))),
        ];
        let batch = RecordBatch::try_from_iter(columns);
        let batch = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Table::new(batch))
    }
}

/// An option's value from a number.
fn value_of(controller: &str, name: &str, value: f64) -> Option<(&'static str, OptionValue)> {
    let spec = controllers().iter().find(|spec| spec.name == controller)?;
    let option = spec.options().find(|option| option.name == name)?;
    let gain = || Gain::from_millionths((value * f64::from(Gain::SCALE)).round() as u32);
    let value = match option.kind {
        OptionKind::Gain(..) => OptionValue::Gain(gain()),
        OptionKind::Share | OptionKind::ShareAboveZero => OptionValue::Share(gain()),
        OptionKind::Count(..) => OptionValue::Count(value.round() as u64),
        OptionKind::Duration(..) => {
            OptionValue::Duration(Duration::from_micros((value * 1e6).round() as u64))
        }
        _ => return None,
    };
    Some((option.name, value))
}

fn row<'py>(py: Python<'py>, check: &Check) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let bound = |value: f64| value.is_finite().then_some(value);
    dict.set_item("id", check.id)?;
    dict.set_item("section", check.section)?;
    dict.set_item("requires", check.requires)?;
    dict.set_item("verdict", check.verdict.word())?;
    dict.set_item("measured", check.measured)?;
    dict.set_item("least", bound(check.bounds.0))?;
    dict.set_item("most", bound(check.bounds.1))?;
    dict.set_item("unit", check.unit)?;
    dict.set_item("count", check.count)?;
    dict.set_item("t_ns", check.at)?;
    dict.set_item("why", check.why)?;
    Ok(dict)
}
