//! Captures of packets.

use paceline_recovery::Block;
use paceline_recovery::capture::{Capture, Clock, Flow, Packet, Times};
use paceline_units::{Duration, Instant, ParseError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A packet as Python passes it; times are in nanoseconds.
#[derive(FromPyObject)]
struct Row {
    t: u64,
    flow: u32,
    sent: bool,
    syn: bool,
    fin: bool,
    seq: u64,
    ack: u64,
    length: u32,
    window: u64,
    sacks: Vec<(u64, u64)>,
    /// Departure time, echoed departure time, and how long the echoed segment was held.
    times: Option<(u64, u64, Option<u64>)>,
    comment: String,
}

impl From<Row> for Packet {
    fn from(row: Row) -> Self {
        let blocks = row.sacks.into_iter();
        Self {
            t: Instant::from_nanos(row.t),
            flow: row.flow,
            sent: row.sent,
            syn: row.syn,
            fin: row.fin,
            seq: row.seq,
            ack: row.ack,
            len: row.length,
            window: row.window,
            blocks: blocks.map(|(start, end)| Block { start, end }).collect(),
            times: row.times.map(|(departed, echoed, held)| Times {
                departed: Instant::from_nanos(departed),
                echoed: Instant::from_nanos(echoed),
                held: held.map(Duration::from_nanos),
            }),
            comment: row.comment,
        }
    }
}

/// A flow: bytes of its headers, its segment size, its receiver's largest window, and, if
/// timestamps are known, whether they are ETS and the maximum ACK delay.
#[derive(FromPyObject)]
pub struct Shown(usize, u16, u64, Option<(bool, String)>);

impl TryFrom<Shown> for Flow {
    type Error = ParseError;

    fn try_from(Shown(header, mss, window, clock): Shown) -> Result<Self, ParseError> {
        let clock = clock.map(|(ets, delay)| {
            Ok(Clock {
                ets,
                max_ack_delay: delay.parse()?,
                ..Clock::default()
            })
        });
        let clock = clock.transpose()?;
        Ok(Self {
            header,
            mss,
            window,
            clock,
        })
    }
}

/// Packets in their order as pcapng, described by `about`.
#[pyfunction]
pub fn pcapng<'py>(
    py: Python<'py>,
    about: &str,
    flows: Vec<Shown>,
    packets: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let flows: Result<_, _> = flows.into_iter().map(Flow::try_from).collect();
    let flows = flows.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let application = concat!("paceline ", env!("CARGO_PKG_VERSION"));
    let mut capture = Capture::new(flows, about, application);
    for packet in packets.try_iter()? {
        capture.push(&packet?.extract::<Row>()?.into());
    }
    Ok(PyBytes::new(py, &capture.into_octets()))
}
