//! Queues that decide at dequeue: the interface of each, and the code they share.

use std::collections::VecDeque;

use paceline_units::options::Parameters;
use paceline_units::{Instant, Site};

use crate::Counters;
use crate::packet::{DropCause, Packet, QueueLimit};

/// A queue that the link asks for its next packet each time it becomes free.
pub(crate) trait Discipline<P: Packet>: Sized {
    /// The options that a scenario may set.
    type Options: Parameters;

    /// Whether it drops other packets to make room for one that does not fit.
    const MAKES_ROOM: bool = false;

    /// An empty queue.
    fn new(options: Self::Options, site: &Site, seed: u64) -> Self;

    /// Accepts a packet that fits, or says why not.
    fn enqueue(
        &mut self,
        now: Instant,
        packet: P,
        limit: Option<QueueLimit>,
        sink: &mut Sink<'_, P>,
    ) -> Result<(), DropCause>;

    /// The next packet to transmit; `sink` receives the packets dropped before it.
    fn dequeue(&mut self, now: Instant, sink: &mut Sink<'_, P>) -> Option<P>;

    /// Bytes waiting.
    fn bytes(&self) -> u64;

    /// Packets waiting.
    fn packets(&self) -> u64;

    /// Takes out the packet that `pick` finds among those that wait with a packet of `flow`.
    fn remove(&mut self, flow: u64, pick: impl FnOnce(&Fifo<P>) -> Option<usize>) -> Option<P>;

    /// The bytes that must be free for a packet of `size` bytes.
    fn space_for(&self, size: u32) -> u64 {
        u64::from(size)
    }

    /// The arriving packet did not fit.
    fn on_overflow(&mut self) {}
}

/// A packet that was dropped after it had been accepted: when, and why.
pub(crate) type DroppedPacket<P> = (Instant, P, DropCause);

/// Receives the packets that a queue marks or drops.
pub(crate) struct Sink<'l, P> {
    pub(crate) counters: &'l mut Counters,
    /// The dropped packets with their times, if the caller wants them.
    pub(crate) dropped: Option<&'l mut VecDeque<DroppedPacket<P>>>,
}

impl<P: Packet> Sink<'_, P> {
    /// Marks a packet; false if it is not ECN-capable.
    pub(crate) fn mark(&mut self, packet: &mut P) -> bool {
        let marked = packet.mark();
        if marked {
            self.counters.marked.add(packet.size());
        }
        marked
    }

    /// Drops a packet that the queue held: early, or for lack of space.
    pub(crate) fn drop(&mut self, now: Instant, packet: P, cause: DropCause) {
        let size = packet.size();
        match cause {
            DropCause::Queue => self.counters.dropped_queue.add(size),
            DropCause::Filtered => self.counters.dropped_filtered.add(size),
            _ => self.counters.dropped_early.add(size),
        }
        if let Some(dropped) = &mut self.dropped {
            dropped.push_back((now, packet, cause));
        }
    }
}

/// A packet and its arrival time.
pub(crate) struct Waiting<P> {
    pub(crate) packet: P,
    pub(crate) since: Instant,
}

/// First in, first out, with arrival times.
pub(crate) struct Fifo<P> {
    waiting: VecDeque<Waiting<P>>,
    bytes: u64,
}

impl<P: Packet> Fifo<P> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(crate) fn push(&mut self, now: Instant, packet: P) {
        self.bytes += u64::from(packet.size());
        self.waiting.push_back(Waiting { packet, since: now });
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting<P>> {
        let head = self.waiting.pop_front()?;
        self.bytes -= u64::from(head.packet.size());
        Some(head)
    }

    /// Arrival time of the head.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.waiting.front().map(|head| head.since)
    }

    /// The packets in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &P> {
        self.waiting.iter().map(|waiting| &waiting.packet)
    }

    /// Takes out the packet that `pick` finds.
    pub(crate) fn take(&mut self, pick: impl FnOnce(&Self) -> Option<usize>) -> Option<P> {
        let packet = self.waiting.remove(pick(self)?)?.packet;
        self.bytes -= u64::from(packet.size());
        Some(packet)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn packets(&self) -> u64 {
        self.waiting.len() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Packets, and a sink for dropped ones.

    use super::*;
    use paceline_units::{Bytes, Duration, Rate};

    /// 50 Mbit/s, 40 ms, full packets of 1500 bytes.
    pub(crate) const SITE: Site = Site {
        rate: Rate::from_bps(50_000_000),
        rtt: Duration::from_millis(40),
        mtu: Bytes::new(1500),
    };

    /// Its number, size, flow, and ECN: none, classic, L4S.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Probe {
        pub(crate) number: u32,
        pub(crate) size: u32,
        pub(crate) flow: u64,
        pub(crate) ecn: u8,
        pub(crate) marked: bool,
    }

    impl Probe {
        pub(crate) fn new(number: u32, size: u32) -> Self {
            Self {
                number,
                size,
                flow: 0,
                ecn: 0,
                marked: false,
            }
        }
    }

    impl Packet for Probe {
        fn size(&self) -> u32 {
            self.size
        }

        fn mark(&mut self) -> bool {
            self.marked = self.ecn > 0;
            self.marked
        }

        fn flow(&self) -> u64 {
            self.flow
        }

        fn is_l4s(&self) -> bool {
            self.ecn == 2
        }
    }

    /// Counters, and the dropped packets.
    pub(crate) struct Discarded {
        pub(crate) counters: Counters,
        pub(crate) dropped: VecDeque<DroppedPacket<Probe>>,
    }

    impl Discarded {
        pub(crate) fn new() -> Self {
            Self {
                counters: Counters::default(),
                dropped: VecDeque::new(),
            }
        }

        pub(crate) fn sink(&mut self) -> Sink<'_, Probe> {
            Sink {
                counters: &mut self.counters,
                dropped: Some(&mut self.dropped),
            }
        }

        pub(crate) fn numbers(&self) -> Vec<u32> {
            self.dropped
                .iter()
                .map(|(_, probe, _)| probe.number)
                .collect()
        }
    }
}
