//! Packets as links see them, and their fates.

use paceline_units::{Bytes, Duration, Site, Size};

/// What a link needs to know of a packet.
pub trait Packet {
    /// Bytes on the wire.
    fn size(&self) -> u32;

    /// Marks it as having experienced congestion; false if it is not ECN-capable.
    fn mark(&mut self) -> bool {
        false
    }

    /// What fair queues tell flows apart by.
    fn flow(&self) -> u64 {
        0
    }

    /// Whether it asks for the L4S service: ECT(1), or CE already (RFC 9331 section 5.1).
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
    /// The limit that a size means at a link.
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
    /// It found no tokens.
    Policer,
    /// The queue signalled congestion.
    Early,
    /// The queue was full.
    Queue,
    /// Lost at random on the way.
    Random,
    /// The scenario asked for it.
    Scripted,
}

/// The fate of an offered packet. A packet lost on the way is known at once,
/// though it uses the link first; but a queue that decides as it takes packets out
/// may still drop what it holds (see [`Link::next_drop`](crate::Link::next_drop)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It will arrive.
    Queued,
    /// It will not.
    Dropped(DropCause),
}

/// What waits at a link, the packet in transmission included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Packets.
    pub packets: u64,
    /// Time until a packet that comes now would begin its transmission;
    /// [`Duration::MAX`] while the link stands still. Where the queue is no FIFO, the
    /// time that all that waits takes.
    pub delay: Duration,
}
