//! Messages of the isolated process to its parent.

use std::io::{self, Read, Write};

use paceline_record::FlowTotals;
use paceline_tcp::Observations;
use paceline_units::Instant;
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

/// The outcome of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Its rows and totals.
    pub observations: Observations,
    /// The engine's measurements of itself.
    pub measured: Measured,
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
