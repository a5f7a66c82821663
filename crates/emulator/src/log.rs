//! What the path saw in a run.

use paceline_record::{EventRow, PacketRow, QueueRow};
use paceline_units::Duration;

use crate::histogram::Histogram;
use crate::message::Sample;

/// What the path saw in a run.
#[derive(Default)]
pub struct Log {
    pub queues: Vec<QueueRow>,
    pub events: Vec<EventRow>,
    pub packets: Vec<PacketRow>,
    /// Rows of programs' conversations.
    pub programs: Vec<Sample>,
    pub lateness: Histogram,
    pub ingest: Histogram,
    /// How long receivers took to answer a second packet.
    pub answers: Histogram,
    /// How long the path stood still, each time and in all.
    pub stalls: Histogram,
    pub stalled: Duration,
    pub offered: u64,
}
