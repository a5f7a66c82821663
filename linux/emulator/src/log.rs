//! The path's observations in a run.

use paceline_record::{EventRow, PacketRow, QueueRow};
use paceline_tcp::Sample;
use paceline_units::Duration;

use crate::histogram::Histogram;

/// The path's observations in a run.
#[derive(Default)]
pub struct Log {
    pub queues: Vec<QueueRow>,
    pub events: Vec<EventRow>,
    pub packets: Vec<PacketRow>,
    /// Rows of programs' conversations.
    pub programs: Vec<Sample>,
    pub lateness: Histogram,
    pub ingest: Histogram,
    /// How long receivers took to acknowledge a second packet.
    pub answers: Histogram,
    /// How long the path stood still, each time and in total.
    pub stalls: Histogram,
    pub stalled: Duration,
    pub offered: u64,
    /// Of each flow, the ACKs offered to links, those that they lost, and those that they filtered.
    pub acks: Vec<[u64; 3]>,
}
