//! What the path saw in a run.

use crate::fidelity::Histogram;
use crate::message::{Event, Packet as PacketRow, Queue};

/// What the path saw in a run.
#[derive(Default)]
pub struct Log {
    pub queues: Vec<Queue>,
    pub events: Vec<Event>,
    pub packets: Vec<PacketRow>,
    pub lateness: Histogram,
    pub ingest: Histogram,
    pub offered: u64,
}
