//! What the path saw in a run.

use paceline_units::Duration;

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
    /// How long receivers took to answer a second packet.
    pub answers: Histogram,
    /// How long the path stood still, each time and in all.
    pub stalls: Histogram,
    pub stalled: Duration,
    pub offered: u64,
}
