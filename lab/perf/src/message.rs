//! Messages between client and server: lines of JSON on the connection's first stream.

use paceline_endpoint::Stats;
use paceline_units::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

/// Rows of a sender that are reported together.
pub(crate) const ROWS: usize = 50;

/// A client's request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub secret: String,
    /// The sender's controller.
    pub cc: String,
    /// Whether the server sends.
    pub reverse: bool,
    pub streams: u32,
    pub time_ns: Option<u64>,
    pub bytes: Option<u64>,
    /// Time between two rows.
    pub interval_ns: u64,
}

/// A client's message after the request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientMessage {
    /// It sends no more, or has received everything.
    Done,
}

/// A server's message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerMessage {
    /// The test begins now.
    Started,
    /// Bytes received, from the row `first` on.
    Got { first: u64, bytes: Vec<u64> },
    /// Rows of the server as the sender.
    Rows(Vec<Row>),
    /// The test is over.
    End {
        /// Bytes that it has received.
        received: u64,
        /// How long it sent.
        time_ns: u64,
        /// When all of its data was acknowledged.
        finished_ns: Option<u64>,
        /// The test ends early: a code and the reason.
        failed: Option<(u32, String)>,
    },
}

/// A sender's state at one time since the test began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub t: u64,
    pub cwnd: Option<u64>,
    pub flight: u64,
    pub pacing: Option<u64>,
    pub delivery: Option<u64>,
    pub rtt: Option<u64>,
    pub srtt: Option<u64>,
    pub min: Option<u64>,
    pub acked: u64,
    pub sent: u64,
    pub lost: u64,
    pub phase: String,
    pub limited: bool,
}

impl Row {
    pub fn new(t: Duration, stats: &Stats) -> Self {
        Self {
            t: t.as_nanos(),
            cwnd: stats.cwnd.map(Bytes::get),
            flight: stats.in_flight.get(),
            pacing: stats.pacing_rate.map(Rate::bps),
            delivery: stats.delivery_rate.map(Rate::bps),
            rtt: stats.latest_rtt.map(Duration::as_nanos),
            srtt: stats.srtt.map(Duration::as_nanos),
            min: stats.min_rtt.map(Duration::as_nanos),
            acked: stats.acknowledged.get(),
            sent: stats.sent_packets,
            lost: stats.lost_packets,
            phase: stats.phase.to_owned(),
            limited: stats.app_limited,
        }
    }
}
