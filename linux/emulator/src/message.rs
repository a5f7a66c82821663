//! Messages of the isolated process to its parent.

use std::io::{self, Read, Write};

use paceline_record::{EventRow, FlowTotals, PacketRow, QueueRow, SampleRow};
use paceline_units::{Bytes, Duration, Instant, Rate};
use serde::{Deserialize, Serialize};

use crate::busy::RateError;
use crate::conversation::Conversation;
use crate::histogram::Times;

/// A message.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// The progress of the run.
    Progress {
        /// Nanoseconds of the run.
        passed: u64,
        /// Data packets offered to the path.
        packets: u64,
    },
    /// The run has ended.
    Outcome(Box<Outcome>),
    /// This machine refuses something that the run needs.
    Unavailable {
        /// The attempted operation, and the kernel's reason.
        what: String,
        /// A hint.
        hint: Option<String>,
    },
    /// Something that should not fail did.
    Failed(String),
}

/// All observations of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Rows of flows.
    pub samples: Vec<Sample>,
    /// Rows of links.
    pub queues: Vec<QueueRow>,
    /// Events, in order.
    pub events: Vec<EventRow>,
    /// Packets, if they are recorded.
    pub packets: Vec<PacketRow>,
    /// Each flow over the whole run.
    pub flows: Vec<Flow>,
    /// The engine's measurements of itself.
    pub measured: Measured,
    /// Data packets offered to the path.
    pub packets_offered: u64,
    /// When it ended.
    pub ended: Instant,
    /// The conversations of programs, one per direction.
    pub talks: Vec<Talk>,
    /// The exit status of the client.
    pub exit: Option<i32>,
    /// The qlogs that the stacks of the flows wrote.
    pub qlogs: Vec<(u32, Vec<u8>)>,
}

/// One direction of a conversation of programs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Talk {
    /// Its usual name.
    pub label: String,
    /// Its congestion control, by the kernel's name, or the protocol if that is unknown.
    pub cc: String,
    /// Its conversation; none for all that are not distinguished.
    pub of: Option<Conversation>,
    /// Whether it goes from the client to the server.
    pub up: bool,
    /// When its first packet was sent.
    pub start: Instant,
    /// When the last of its payload left the path.
    pub stop: Option<Instant>,
    /// Its totals.
    pub totals: FlowTotals,
}

/// A flow at one time, with its controller's displayed state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Its row.
    pub row: SampleRow,
    /// Its controller's displayed state.
    pub own: Own,
}

/// The kernel's state of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Own {
    /// One with a threshold, infinite before it is set.
    Window(Bytes),
    /// BBR.
    Bbr(Bbr),
    /// One of a guest's transport, which tells the bandwidth that it assumes.
    Bandwidth(Rate),
    /// One on another stack, with no more state than in the row.
    Hidden,
}

impl Default for Own {
    fn default() -> Self {
        Self::Window(Bytes::INFINITE)
    }
}

/// The state of the kernel's BBR; gains in units of 1/256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bbr {
    pub bw: Rate,
    pub min_rtt: Duration,
    pub pacing_gain: u32,
    pub cwnd_gain: u32,
}

/// A flow over the whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Flow {
    /// Its totals.
    pub totals: FlowTotals,
    /// Minimum RTT that the kernel measured.
    pub min_rtt: Option<Duration>,
    /// Nanoseconds in which the receiver's window was the limit.
    pub window_limited: u64,
    /// Nanoseconds in which the sender's buffer was the limit.
    pub buffer_limited: u64,
    /// Its ACKs offered to links, those that they lost, and those that they filtered. None in an
    /// engine that does not count them.
    pub acks: Option<[u64; 3]>,
    /// Why it did not connect, or broke off.
    pub error: Option<String>,
}

/// The emulator's measurements of itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// How much later than planned packets left the path.
    pub lateness: Times,
    /// How much later than sent packets entered it.
    pub ingest: Times,
    /// How long receivers took to acknowledge a second packet.
    pub answers: Times,
    /// How long the path stood still because it could not run.
    pub stalls: Times,
    /// The same in total, in nanoseconds.
    pub stalled: u64,
    /// How late samples were taken.
    pub sampling: Times,
    /// The error of the busy path's rate.
    pub rate: Option<RateError>,
    pub emulator_cpu: u64,
    pub hosts_cpu: u64,
    pub wall: u64,
    /// CPU time of all processes of the machine during the run, over all its cores.
    pub machine_cpu: u64,
    pub cores: u64,
    pub device_drops: u64,
    /// Tail loss probes of all flows.
    pub tlp_count: Option<u64>,
    pub real_time: bool,
    pub locked: bool,
    pub user_namespace: bool,
}

/// Writes a message.
pub fn write(to: &mut impl Write, message: &Message) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    to.write_all(&(bytes.len() as u64).to_ne_bytes())?;
    to.write_all(&bytes)
}

/// Reads a message; none at the end.
pub fn read(from: &mut impl Read) -> io::Result<Option<Message>> {
    let mut length = [0; 8];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    // Grows as bytes arrive: a length from a dying process allocates nothing.
    let mut bytes = Vec::new();
    from.take(u64::from_ne_bytes(length))
        .read_to_end(&mut bytes)?;
    postcard::from_bytes(&bytes)
        .map(Some)
        .map_err(io::Error::other)
}
