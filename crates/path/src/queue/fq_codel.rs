//! Fair queues with controlled delay (RFC 8290).

use std::collections::VecDeque;

use paceline_units::limits::{MAX_MTU, MAX_RTT_NS, MIN_MTU};
use paceline_units::{Bytes, Instant, Rng, Site, parameters};

use super::codel::{Codel, CodelState};
use super::discipline::{Discipline, Fifo, Sink};
use crate::packet::{DropCause, Packet, QueueLimit};

parameters! {
    /// Fair queues, each with CoDel (RFC 8290). On overflow, the longest queue drops.
    pub struct FqCodel {
        /// How long packets may wait (`TARGET`).
        target: Nanos(1, MAX_RTT_NS) = Codel::default().target;
        /// How long they may exceed that (`INTERVAL`).
        interval: Nanos(1, MAX_RTT_NS) = Codel::default().interval;
        /// Whether ECN-capable packets are marked instead of dropped.
        ecn: Flag = Codel::default().ecn;
        /// Number of queues over which flows are hashed.
        flows: Count(1, 65_536) = 1024;
        /// Bytes that a queue may send per round.
        quantum: Bytes(MIN_MTU.get(), MAX_MTU.get()) = Bytes::new(1514);
        /// Whether CoDel compares the backlog of all queues with one packet, as Linux does. Otherwise
        /// it compares that of its own queue (section 4.2).
        total_backlog: Flag = false;
    }
}

/// The maximum number of packets that one overflow drops (section 4.1).
const DROP_BATCH: u64 = 64;

struct FlowQueue<P> {
    fifo: Fifo<P>,
    codel: CodelState,
    /// Remaining credit of its turn; below zero if its last packet was larger.
    credit: i64,
    /// Whether it is in one of the lists.
    listed: bool,
}

impl FqCodel {
    /// Memory of the empty queues, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        u64::from(self.flows) * size_of::<FlowQueue<()>>() as u64
    }
}

/// The queues, and whose turn it is.
pub(crate) struct FqCodelQueue<P> {
    /// CoDel of each queue.
    codel: Codel,
    total_backlog: bool,
    /// The quantum: bytes that a queue may send per round (section 5.2.4).
    quantum: u32,
    /// Section 5.2.5; a seeded hash spreads flows over them (section 4.1).
    queues: Vec<FlowQueue<P>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    /// Makes the hash different for each seed.
    perturbation: u64,
    bytes: u64,
    packets: u64,
}

impl<P: Packet> Discipline<P> for FqCodelQueue<P> {
    type Options = FqCodel;

    const MAKES_ROOM: bool = true;

    fn new(options: FqCodel, site: &Site, seed: u64) -> Self {
        let queue = |_| FlowQueue {
            fifo: Fifo::new(),
            codel: CodelState::new(site.mtu.get()),
            credit: 0,
            listed: false,
        };
        Self {
            codel: Codel {
                target: options.target,
                interval: options.interval,
                ecn: options.ecn,
            },
            total_backlog: options.total_backlog,
            quantum: u32::try_from(options.quantum.get()).unwrap_or(u32::MAX),
            queues: (0..options.flows.max(1)).map(queue).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            perturbation: Rng::new(seed).next_u64(),
            bytes: 0,
            packets: 0,
        }
    }

    /// Section 4.1: to the queue of its flow, which becomes a new queue if it was empty.
    fn enqueue(
        &mut self,
        now: Instant,
        packet: P,
        limit: Option<QueueLimit>,
        sink: &mut Sink<'_, P>,
    ) -> Result<(), DropCause> {
        let index = self.place(packet.flow());
        self.bytes += u64::from(packet.size());
        self.packets += 1;
        let queue = &mut self.queues[index];
        queue.fifo.push(now, packet);
        if !queue.listed {
            queue.listed = true;
            queue.credit = i64::from(self.quantum);
            self.new.push_back(index);
        }
        // One batch is enough where the limit is in packets, as in the RFC; where it is in bytes,
        // half of the packets may be smaller than the arriving one.
        while self.packets > 0 && self.exceeds(limit) {
            self.overflow(now, sink);
        }
        Ok(())
    }

    /// Section 4.2: deficit round robin, new queues before old ones.
    fn dequeue(&mut self, now: Instant, sink: &mut Sink<'_, P>) -> Option<P> {
        loop {
            let (index, is_new) = match (self.new.front(), self.old.front()) {
                (Some(index), _) => (*index, true),
                (None, Some(index)) => (*index, false),
                (None, None) => return None,
            };
            let queue = &mut self.queues[index];
            let list = if is_new { &mut self.new } else { &mut self.old };
            if queue.credit <= 0 {
                queue.credit += i64::from(self.quantum.max(1));
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let (bytes, packets) = (queue.fifo.bytes(), queue.fifo.packets());
            let beside = match self.total_backlog {
                true => self.bytes - bytes,
                false => 0,
            };
            let codel = &self.codel;
            let packet = queue
                .codel
                .dequeue(codel, &mut queue.fifo, beside, now, sink);
            self.bytes -= bytes - queue.fifo.bytes();
            self.packets -= packets - queue.fifo.packets();
            match packet {
                Some(packet) => {
                    queue.credit -= i64::from(packet.size());
                    return Some(packet);
                }
                // Emptied: a new queue moves to the end of the old ones, so that it cannot become
                // new again ahead of them; an old queue leaves the list.
                None => {
                    list.pop_front();
                    queue.listed = is_new;
                    if is_new {
                        self.old.push_back(index);
                    }
                }
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn remove(&mut self, flow: u64, pick: impl FnOnce(&Fifo<P>) -> Option<usize>) -> Option<P> {
        let index = self.place(flow);
        let packet = self.queues[index].fifo.take(pick)?;
        self.bytes -= u64::from(packet.size());
        self.packets -= 1;
        Some(packet)
    }
}

impl<P: Packet> FqCodelQueue<P> {
    /// The queue of a flow.
    fn place(&self, flow: u64) -> usize {
        let hash = Rng::new(flow ^ self.perturbation).next_u64();
        (hash % self.queues.len() as u64) as usize
    }

    #[cfg(test)]
    pub(super) fn estimate(&mut self, root: super::linux_tests::InverseRoot) {
        let states = self.queues.iter_mut().map(|queue| &mut queue.codel);
        states.for_each(|codel| codel.estimate = Some(root));
    }

    fn exceeds(&self, limit: Option<QueueLimit>) -> bool {
        match limit {
            None => false,
            Some(QueueLimit::Packets(limit)) => self.packets > limit,
            Some(QueueLimit::Bytes(limit)) => self.bytes > limit,
        }
    }

    /// Section 4.1: drops half of the packets of the queue with the most bytes, from its head, at
    /// most one batch. (Linux drops half of the bytes, and adds the drops to the queue's CoDel
    /// count.)
    fn overflow(&mut self, now: Instant, sink: &mut Sink<'_, P>) {
        let longest = self
            .queues
            .iter_mut()
            .max_by_key(|queue| queue.fifo.bytes());
        let Some(queue) = longest else {
            return;
        };
        for _ in 0..queue.fifo.packets().div_ceil(2).min(DROP_BATCH) {
            let Some(head) = queue.fifo.pop() else {
                break;
            };
            self.bytes -= u64::from(head.packet.size());
            self.packets -= 1;
            sink.drop(now, head.packet, DropCause::Queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::discipline::testing::{Discarded, Probe, SITE};
    use super::*;
    use paceline_units::Duration;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    fn fq_of(quantum: u64, seed: u64) -> FqCodelQueue<Probe> {
        let options = FqCodel {
            ecn: false,
            quantum: Bytes::new(quantum),
            ..FqCodel::default()
        };
        FqCodelQueue::new(options, &SITE, seed)
    }

    fn fq(quantum: u64) -> FqCodelQueue<Probe> {
        fq_of(quantum, 1)
    }

    fn offer(
        queue: &mut FqCodelQueue<Probe>,
        discarded: &mut Discarded,
        at: u64,
        flow: u64,
        sizes: &[u32],
    ) {
        for (number, size) in (0..).zip(sizes) {
            let probe = Probe {
                flow,
                ..Probe::new(flow as u32 * 100 + number, *size)
            };
            let limit = Some(QueueLimit::Packets(20));
            queue
                .enqueue(ms(at), probe, limit, &mut discarded.sink())
                .unwrap();
        }
    }

    fn served(queue: &mut FqCodelQueue<Probe>, discarded: &mut Discarded, at: u64) -> Vec<u32> {
        std::iter::from_fn(|| queue.dequeue(ms(at), &mut discarded.sink()))
            .map(|probe| probe.number)
            .collect()
    }

    /// By hand, a quantum of 1500: flow 1 sends 1000 (500 left) and 1000 (-500), then flow 2 its
    /// 300, 300 (900 left) and is empty; as a new queue it moves to the old ones. Flow 1, old with
    /// 1000, sends 1000, 1000 (-1000 + 1500), and so on.
    #[test]
    fn turns_go_by_bytes() {
        let (mut queue, mut discarded) = (fq(1500), Discarded::new());
        offer(&mut queue, &mut discarded, 0, 1, &[1000; 5]);
        offer(&mut queue, &mut discarded, 0, 2, &[300; 2]);
        offer(&mut queue, &mut discarded, 0, 3, &[1500; 2]);
        let order = served(&mut queue, &mut discarded, 0);
        // Flow 3 has no credit left after its 1500 and becomes old, behind 1 and 2.
        assert_eq!(order, [100, 101, 200, 201, 300, 102, 301, 103, 104]);
        assert_eq!((queue.bytes(), queue.packets()), (0, 0));
        assert!(discarded.dropped.is_empty());
    }

    #[test]
    fn what_is_new_goes_first_but_not_twice() {
        let (mut queue, mut discarded) = (fq(1500), Discarded::new());
        offer(&mut queue, &mut discarded, 0, 1, &[700; 6]);
        let mut take = |queue: &mut FqCodelQueue<Probe>, count: usize| -> Vec<u32> {
            (0..count)
                .map(|_| queue.dequeue(ms(0), &mut discarded.sink()).unwrap().number)
                .collect()
        };
        // 2100 of 1500: flow 1 becomes old.
        assert_eq!(take(&mut queue, 3), [100, 101, 102]);
        let mut other = Discarded::new();
        offer(&mut queue, &mut other, 0, 2, &[100]);
        // A sparse flow overtakes old queues ...
        assert_eq!(take(&mut queue, 2), [200, 103]);
        // ... but becomes old itself once it was found empty: flow 1 still has credit.
        offer(&mut queue, &mut other, 0, 2, &[100, 100]);
        assert_eq!(take(&mut queue, 4), [104, 200, 201, 105]);
    }

    #[test]
    fn each_flow_has_its_own_codel() {
        let (mut queue, mut discarded) = (fq(1500), Discarded::new());
        for at in 0..200 {
            // Flow 2 offers as much as it is served; flow 1 twice that.
            for flow in [1, 1, 2] {
                let limit = Some(QueueLimit::Packets(1000));
                let probe = Probe {
                    flow,
                    ..Probe::new(flow as u32, 1500)
                };
                queue
                    .enqueue(ms(at), probe, limit, &mut discarded.sink())
                    .unwrap();
            }
            for _ in 0..2 {
                queue.dequeue(ms(at), &mut discarded.sink());
            }
        }
        // Flow 1's sojourn time passes 5 ms about 10 ms into the run, and stays above.
        assert!(!discarded.dropped.is_empty());
        assert!(discarded.numbers().iter().all(|flow| *flow == 1));
        assert!(discarded.dropped[0].0 > ms(105) && discarded.dropped[0].0 < ms(120));
    }

    /// By hand: flow 2's only packet waits 10 ms each time, above the target from 10 ms on, so an
    /// interval is over at 110 ms. Of flow 1, `others` packets wait beside it.
    #[test]
    fn the_total_backlog_is_that_of_all_queues() {
        for (total_backlog, others, expected) in [
            (false, 2, vec![]),
            (true, 1, vec![]),
            (true, 2, vec![(ms(110), 200)]),
        ] {
            let options = FqCodel {
                ecn: false,
                quantum: Bytes::new(1500),
                total_backlog,
                ..FqCodel::default()
            };
            let (mut queue, mut discarded) =
                (FqCodelQueue::new(options, &SITE, 1), Discarded::new());
            offer(&mut queue, &mut discarded, 0, 2, &[1500]);
            offer(&mut queue, &mut discarded, 0, 1, &vec![1500; others]);
            for turn in 1..=11 {
                for flow in [2, 1] {
                    queue.dequeue(ms(turn * 10), &mut discarded.sink());
                    offer(&mut queue, &mut discarded, turn * 10, flow, &[1500]);
                }
            }
            let dropped = discarded.dropped.iter();
            let dropped: Vec<_> = dropped
                .map(|(at, packet, _)| (*at, packet.number))
                .collect();
            assert_eq!(dropped, expected, "{total_backlog}, {others}");
        }
    }

    #[test]
    fn an_overflow_takes_half_of_the_longest_queue_from_its_head() {
        let (mut queue, mut discarded) = (fq(1500), Discarded::new());
        offer(&mut queue, &mut discarded, 0, 1, &[1000; 12]);
        offer(&mut queue, &mut discarded, 0, 2, &[1000; 8]);
        assert!(discarded.dropped.is_empty());
        // The 21st: 12 packets of flow 1 wait; six are dropped, and six fewer are beyond the limit.
        offer(&mut queue, &mut discarded, 0, 3, &[40]);
        assert_eq!(discarded.numbers(), [100, 101, 102, 103, 104, 105]);
        assert_eq!(discarded.counters.dropped_queue.packets, 6);
        assert_eq!(queue.packets(), 15);
        let rest = served(&mut queue, &mut discarded, 0);
        assert_eq!(rest.len(), 15);
        assert!(rest.contains(&300) && rest.contains(&106));
    }

    /// By hand: flow 1 has 5 packets and 5540 bytes, flow 2 has 15 and 3000. The 21st is of flow 2,
    /// but half of flow 1's packets are dropped: 3, and not half of its bytes, which would be 2.
    #[test]
    fn the_longest_has_the_most_bytes_and_loses_half_of_its_packets() {
        let (mut queue, mut discarded) = (fq(1500), Discarded::new());
        offer(
            &mut queue,
            &mut discarded,
            0,
            1,
            &[1500, 1500, 1500, 1000, 40],
        );
        offer(&mut queue, &mut discarded, 0, 2, &[200; 15]);
        assert!(discarded.dropped.is_empty());
        offer(&mut queue, &mut discarded, 0, 2, &[200]);
        assert_eq!(discarded.numbers(), [100, 101, 102]);
        assert_eq!((queue.packets(), queue.bytes()), (18, 1040 + 16 * 200));
    }

    /// By hand: 4 x 40 + 1400 bytes wait of 1600 allowed, and 100 more arrive: half of the packets,
    /// 3 of 6, free 120 bytes, which is enough. Then 1400 arrive: 2940 bytes; dropping 2 of 4
    /// packets, 1440 bytes, is enough.
    #[test]
    fn a_limit_in_bytes_holds_however_small_the_packets_at_the_head() {
        let (mut queue, mut discarded) = (fq(1500), Discarded::new());
        let limit = Some(QueueLimit::Bytes(1600));
        for (number, size) in (0..).zip([40, 40, 40, 40, 1400, 100, 1400]) {
            queue
                .enqueue(
                    ms(0),
                    Probe::new(number, size),
                    limit,
                    &mut discarded.sink(),
                )
                .unwrap();
            assert!(queue.bytes() <= 1600, "{number}: {}", queue.bytes());
        }
        assert_eq!(discarded.numbers(), [0, 1, 2, 3, 4]);
        // Twenty of 40 bytes and one of 800, 520 too many: 11 of the 21 are dropped, 440 bytes, and
        // then 5 of the 10 left.
        let (mut queue, mut discarded) = (fq(1500), Discarded::new());
        let limit = Some(QueueLimit::Bytes(1080));
        for number in 0..20 {
            queue
                .enqueue(ms(0), Probe::new(number, 40), limit, &mut discarded.sink())
                .unwrap();
        }
        let large = Probe::new(20, 800);
        queue
            .enqueue(ms(0), large, limit, &mut discarded.sink())
            .unwrap();
        assert_eq!(discarded.dropped.len(), 11 + 5);
        assert_eq!((queue.packets(), queue.bytes()), (5, 4 * 40 + 800));
    }

    #[test]
    fn another_seed_spreads_flows_otherwise() {
        let place = |seed: u64, flow: u64| {
            let mut queue = fq_of(1500, seed);
            let probe = Probe {
                flow,
                ..Probe::new(0, 100)
            };
            let mut discarded = Discarded::new();
            queue
                .enqueue(ms(0), probe, None, &mut discarded.sink())
                .unwrap();
            queue.new[0]
        };
        let places = |seed| (0..50).map(|flow| place(seed, flow)).collect::<Vec<_>>();
        assert_eq!(places(1), places(1));
        assert_ne!(places(1), places(2));
        // 50 flows over 1024 queues collide 1.2 times on average.
        let mut distinct = places(1);
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > 44, "{}", distinct.len());
    }
}
