//! What the isolated process tells its parent.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::busy::RateError;
use crate::fidelity::Histogram;

/// A message.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// How far the run has come.
    Progress {
        /// Nanoseconds of the run.
        passed: u64,
        /// Data packets offered to the path.
        packets: u64,
    },
    /// The run has ended.
    Outcome(Box<Outcome>),
    /// This machine refuses what the run needs.
    Unavailable {
        /// What was tried, and the kernel's reason.
        what: String,
        /// What may help.
        hint: Option<String>,
    },
    /// Something that should not fail did.
    Failed(String),
}

/// All that was seen of a run. Times are nanoseconds of the run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    pub samples: Vec<Sample>,
    pub queues: Vec<Queue>,
    pub events: Vec<Event>,
    pub packets: Vec<Packet>,
    pub flows: Vec<Flow>,
    pub measured: Measured,
    pub packets_offered: u64,
}

/// A flow at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub t: u64,
    pub flow: u32,
    pub cwnd: u64,
    pub in_flight: u64,
    pub pacing: Option<u64>,
    pub delivery: u64,
    pub rtt: Option<u64>,
    pub srtt: Option<u64>,
    pub min_rtt: Option<u64>,
    pub goodput: u64,
    pub delivered: u64,
    pub sent: u64,
    pub lost: u64,
    pub retransmitted: u64,
    pub phase: u8,
    pub ca_state: u8,
    pub app_limited: bool,
    pub ssthresh: Option<u64>,
    pub reordering: u32,
    pub bbr: Option<Bbr>,
}

/// What the kernel's BBR says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bbr {
    /// Bits per second.
    pub bw: u64,
    /// Nanoseconds.
    pub min_rtt: u64,
    /// In 256ths.
    pub pacing_gain: u32,
    /// In 256ths.
    pub cwnd_gain: u32,
}

/// A link at one time.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Queue {
    pub t: u64,
    pub link: u32,
    pub backlog: u64,
    pub packets: u64,
    pub delay: u64,
    pub peak: u64,
    pub rate: u64,
    pub capacity: u64,
    pub delivered: u64,
    pub dropped: u64,
    pub offered: u64,
    pub marked: u64,
}

/// Something that happened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Event {
    pub t: u64,
    pub flow: Option<u32>,
    pub kind: String,
    pub from: String,
    pub detail: String,
}

/// A packet at one time; `kind` is an index of [`PACKET_KINDS`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Packet {
    pub t: u64,
    pub flow: u32,
    pub kind: u8,
    pub seq: u64,
    pub len: u32,
    pub window: u64,
}

/// A flow over the whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Flow {
    pub flow: u32,
    pub goodput: u64,
    pub sent: u64,
    pub retransmitted: u64,
    pub lost: u64,
    pub spurious: u64,
    pub rto_count: u64,
    pub finished: Option<u64>,
    /// Least RTT that the kernel measured.
    pub min_rtt: Option<u64>,
    /// Nanoseconds in which the receiver's window, or the sender's buffer, was the limit.
    pub window_limited: u64,
    pub buffer_limited: u64,
    /// Why it did not connect, or broke off.
    pub error: Option<String>,
}

/// What the emulator measured of itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// How much later than planned packets left the path.
    pub lateness: Histogram,
    /// How much later than sent packets came to it.
    pub ingest: Histogram,
    /// How long receivers took to answer a second packet.
    pub answers: Histogram,
    /// How long the path stood still because it could not run.
    pub stalls: Histogram,
    /// The same in all, in nanoseconds.
    pub stalled: u64,
    /// How late samples were taken.
    pub sampling: Histogram,
    /// How far the busy path was from its rate.
    pub rate: Option<RateError>,
    pub emulator_cpu: u64,
    pub hosts_cpu: u64,
    pub wall: u64,
    /// CPU time that all processes of the machine used meanwhile, in all its cores.
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
    // Grows as bytes come: a length from a dying process allocates nothing.
    let mut bytes = Vec::new();
    from.take(u64::from_ne_bytes(length))
        .read_to_end(&mut bytes)?;
    postcard::from_bytes(&bytes)
        .map(Some)
        .map_err(io::Error::other)
}
