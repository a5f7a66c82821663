//! Packets as links see them, and what happens to them.

use paceline_units::{Bytes, Duration, Site, Size};

/// The properties of a packet that a link needs.
pub trait Packet {
    /// Bytes on the wire.
    fn size(&self) -> u32;

    /// Marks it as having experienced congestion; returns false if it is not ECN-capable.
    fn mark(&mut self) -> bool {
        false
    }

    /// The key by which fair queues separate flows.
    fn flow(&self) -> u64 {
        0
    }

    /// Whether it asks for the L4S service: ECT(1), or already CE (RFC 9331 section 5.1).
    fn is_l4s(&self) -> bool {
        false
    }
}

/// How much may wait for transmission. The packet in transmission does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// In bytes on the wire.
    Bytes(u64),
    /// In packets.
    Packets(u64),
}

impl QueueLimit {
    /// The limit that a configured size means at a given link.
    pub fn new(size: Size, site: &Site) -> Self {
        match size {
            Size::Packets(packets) => Self::Packets(packets),
            size => Self::Bytes(size.to_bytes(site).get()),
        }
    }
}

/// Why a packet did not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// The policer had no tokens for it.
    Policer,
    /// The queue signalled congestion.
    Early,
    /// The queue was full.
    Queue,
    /// Lost at random on the way.
    Random,
    /// The scenario asked for it.
    Scripted,
    /// An ACK that others made redundant, or that the link thins out.
    Filtered,
}

/// The fate of an offered packet. Loss on the way is known at once, although the packet uses the
/// link first. A queue that decides at dequeue may still drop a packet it has accepted (see
/// [`Link::next_drop`](crate::Link::next_drop)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It will arrive.
    Queued,
    /// It will not arrive.
    Dropped(DropCause),
}

/// The backlog of a link, including the packet in transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Packets.
    pub packets: u64,
    /// Time until a packet that arrives now would begin its transmission; [`Duration::MAX`] while
    /// the link is stopped. If the queue is not a FIFO, the transmission time of the whole backlog.
    pub delay: Duration,
}

/// Packets and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of packets.
    pub packets: u64,
    /// Total size.
    pub bytes: Bytes,
}

impl Tally {
    /// Counts one packet of `size` bytes.
    pub(crate) fn add(&mut self, size: u32) {
        self.packets += 1;
        self.bytes += Bytes::new(u64::from(size));
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// Where every packet offered to a link went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Offered to the link.
    pub offered: Tally,
    /// Delivered at the far end.
    pub delivered: Tally,
    /// Copies made on the way, in addition to the packets offered.
    pub duplicated: Tally,
    /// Refused by the policer.
    pub dropped_policer: Tally,
    /// Dropped by the queue before it was full.
    pub dropped_early: Tally,
    /// Refused by a full queue.
    pub dropped_queue: Tally,
    /// Lost at random after transmission.
    pub dropped_random: Tally,
    /// Lost because the scenario said so.
    pub dropped_scripted: Tally,
    /// ACKs that a filter took away.
    pub dropped_filtered: Tally,
    /// Marked by the queue. The other counters include these packets.
    pub marked: Tally,
}

impl Counters {
    /// All packets lost, whatever the cause.
    pub fn dropped(&self) -> Tally {
        self.dropped_policer
            .plus(self.dropped_early)
            .plus(self.dropped_queue)
            .plus(self.dropped_random)
            .plus(self.dropped_scripted)
            .plus(self.dropped_filtered)
    }
}
