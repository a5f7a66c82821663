//! Queues that decide as a packet is taken out: what they share, and the choice among them.

use std::collections::VecDeque;

use paceline_units::Instant;

use super::Aqm;
use super::codel::CodelQueue;
use super::dualpi2::DualPi2Queue;
use super::fq_codel::FqCodelQueue;
use super::pie::PieQueue;
use crate::Counters;
use crate::link::{DropCause, Packet, QueueLimit};

/// A queue that the link asks for its next packet each time it becomes free.
pub(crate) enum Discipline<P> {
    Codel(CodelQueue<P>),
    FqCodel(Box<FqCodelQueue<P>>),
    Pie(PieQueue<P>),
    DualPi2(DualPi2Queue<P>),
}

impl<P: Packet> Discipline<P> {
    /// None for what judges packets as they come.
    pub(crate) fn new(aqm: Aqm, seed: u64) -> Option<Self> {
        match aqm {
            Aqm::Step(_) | Aqm::Red(_) => None,
            Aqm::Codel(codel) => Some(Self::Codel(CodelQueue::new(codel))),
            Aqm::FqCodel(fq) => Some(Self::FqCodel(Box::new(FqCodelQueue::new(fq, seed)))),
            Aqm::Pie(pie) => Some(Self::Pie(PieQueue::new(pie, seed))),
            Aqm::DualPi2(dual) => Some(Self::DualPi2(DualPi2Queue::new(dual))),
        }
    }

    /// Takes a packet in, or says why not. Others may have to go for it. No `limit` holds for
    /// what will not have to wait.
    pub(crate) fn enqueue(
        &mut self,
        now: Instant,
        packet: P,
        limit: Option<QueueLimit>,
        fate: &mut Fate<'_, P>,
    ) -> Result<(), DropCause> {
        // Fair queues drop at the head of the longest instead of what comes.
        if !matches!(self, Self::FqCodel(_)) && !self.fits(packet.size(), limit) {
            if let Self::Pie(queue) = self {
                queue.overflow();
            }
            return Err(DropCause::Queue);
        }
        match self {
            Self::Codel(queue) => queue.enqueue(now, packet),
            Self::FqCodel(queue) => queue.enqueue(now, packet, limit, fate),
            Self::Pie(queue) => return queue.enqueue(now, packet, fate),
            Self::DualPi2(queue) => queue.enqueue(now, packet),
        }
        Ok(())
    }

    /// The next packet to transmit; what is dropped instead is told to `fate`.
    pub(crate) fn dequeue(&mut self, now: Instant, fate: &mut Fate<'_, P>) -> Option<P> {
        match self {
            Self::Codel(queue) => queue.dequeue(now, fate),
            Self::FqCodel(queue) => queue.dequeue(now, fate),
            Self::Pie(queue) => queue.dequeue(now),
            Self::DualPi2(queue) => queue.dequeue(now, fate),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Codel(queue) => queue.fifo.bytes(),
            Self::FqCodel(queue) => queue.bytes(),
            Self::Pie(queue) => queue.fifo.bytes(),
            Self::DualPi2(queue) => queue.bytes(),
        }
    }

    pub(crate) fn packets(&self) -> u64 {
        match self {
            Self::Codel(queue) => queue.fifo.packets(),
            Self::FqCodel(queue) => queue.packets(),
            Self::Pie(queue) => queue.fifo.packets(),
            Self::DualPi2(queue) => queue.packets(),
        }
    }

    /// Whether one more packet may wait.
    fn fits(&self, size: u32, limit: Option<QueueLimit>) -> bool {
        let size = match self {
            // RFC 9332 appendix A.1: space for the largest, lest the small ones fare better.
            Self::DualPi2(queue) => queue.largest().max(u64::from(size)),
            _ => u64::from(size),
        };
        match limit {
            None => true,
            Some(QueueLimit::Packets(limit)) => self.packets() < limit,
            Some(QueueLimit::Bytes(limit)) => self.bytes() + size <= limit,
        }
    }
}

/// Where those packets go that a queue does not pass on as they came.
pub(crate) struct Fate<'l, P> {
    pub(crate) counters: &'l mut Counters,
    /// What was dropped and when, if anybody wants to know.
    pub(crate) told: Option<&'l mut VecDeque<(Instant, P)>>,
}

impl<P: Packet> Fate<'_, P> {
    /// Marks a packet; false if it is not ECN-capable.
    pub(crate) fn mark(&mut self, packet: &mut P) -> bool {
        let marked = packet.mark();
        if marked {
            self.counters.marked.add(packet.size());
        }
        marked
    }

    /// Drops a packet that the queue held: early, or for want of space.
    pub(crate) fn drop(&mut self, now: Instant, packet: P, cause: DropCause) {
        let size = packet.size();
        self.counters.held.remove(size);
        match cause {
            DropCause::Queue => self.counters.dropped_queue.add(size),
            _ => self.counters.dropped_early.add(size),
        }
        if let Some(told) = &mut self.told {
            told.push_back((now, packet));
        }
    }
}

/// A packet and when it came.
pub(crate) struct Waiting<P> {
    pub(crate) packet: P,
    pub(crate) since: Instant,
}

/// First in, first out, with the time at which each came.
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

    /// When the head came.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.waiting.front().map(|head| head.since)
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
    //! Packets and a place for those that are dropped.

    use super::*;

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

    /// Counters that hold plenty, and what was dropped.
    pub(crate) struct Grave {
        pub(crate) counters: Counters,
        pub(crate) dropped: VecDeque<(Instant, Probe)>,
    }

    impl Grave {
        pub(crate) fn new() -> Self {
            let mut counters = Counters::default();
            (0..10_000).for_each(|_| counters.held.add(u32::MAX));
            Self {
                counters,
                dropped: VecDeque::new(),
            }
        }

        pub(crate) fn fate(&mut self) -> Fate<'_, Probe> {
            Fate {
                counters: &mut self.counters,
                told: Some(&mut self.dropped),
            }
        }

        pub(crate) fn numbers(&self) -> Vec<u32> {
            self.dropped.iter().map(|(_, probe)| probe.number).collect()
        }
    }
}
