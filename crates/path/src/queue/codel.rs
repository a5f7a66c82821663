//! Controlled delay (RFC 8289).

use paceline_units::limits::MAX_RTT_NS;
use paceline_units::{Duration, Instant, Site, parameters};

use super::discipline::{Discipline, Fifo, Sink, Waiting};
use crate::packet::{DropCause, Packet, QueueLimit};

parameters! {
    /// Controlled delay (RFC 8289): drops or marks at the head while packets have waited longer than
    /// the target for an interval.
    ///
    /// The RFC's pseudocode has no marks (section 1 and RFC 8290 section 5.2.6 allow them). This
    /// does as Linux does: a mark counts as a drop, and the packet is forwarded.
    pub struct Codel {
        /// How long packets may wait (`TARGET`).
        target: Nanos(1, MAX_RTT_NS) = Duration::from_millis(5);
        /// How long they may exceed that (`INTERVAL`).
        interval: Nanos(1, MAX_RTT_NS) = Duration::from_millis(100);
        /// Whether ECN-capable packets are marked instead of dropped.
        ecn: Flag = true;
    }
}

/// CoDel's state of a queue (section 5.2).
#[derive(Clone, Debug)]
pub(super) struct CodelState {
    /// When the sojourn time will have been above the target for an interval; none while it is
    /// below.
    first_above: Option<Instant>,
    drop_next: Instant,
    /// Drops since the dropping state was entered.
    count: u32,
    /// The value of `count` at the last entry.
    last_count: u32,
    dropping: bool,
    /// The largest packet: a backlog of at most one packet is no standing queue (`MAXPACKET`).
    max_packet: u64,
    /// Uses Linux's estimate of 1 / sqrt(count) instead of the root, to replay what Linux did.
    #[cfg(test)]
    pub(super) estimate: Option<super::linux_tests::InverseRoot>,
}

impl CodelState {
    pub(super) fn new(max_packet: u64) -> Self {
        Self {
            max_packet,
            first_above: None,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
            dropping: false,
            #[cfg(test)]
            estimate: None,
        }
    }

    fn set_count(&mut self, count: u32) {
        self.count = count;
        #[cfg(test)]
        if let Some(estimate) = &mut self.estimate {
            estimate.follow(count);
        }
    }

    /// Section 5.6: the time between drops shrinks with the square root of their number.
    fn control_law(&self, codel: &Codel, from: Instant) -> Instant {
        #[cfg(test)]
        if let Some(estimate) = self.estimate {
            return from + estimate.share(codel.interval);
        }
        let interval = codel.interval.as_nanos() as f64 / f64::from(self.count).sqrt();
        from + Duration::from_nanos(interval as u64)
    }

    /// Section 5.5: the next packet that is not dropped. `beside` bytes wait in other queues and
    /// count towards the backlog.
    pub(super) fn dequeue<P: Packet>(
        &mut self,
        codel: &Codel,
        queue: &mut Fifo<P>,
        beside: u64,
        now: Instant,
        sink: &mut Sink<'_, P>,
    ) -> Option<P> {
        let (mut head, mut ok_to_drop) = self.take(codel, queue, beside, now);
        if self.dropping {
            // The sojourn time is below the target: leave the dropping state.
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                let mut packet = head?.packet;
                self.set_count(self.count.saturating_add(1));
                if codel.ecn && sink.mark(&mut packet) {
                    self.drop_next = self.control_law(codel, self.drop_next);
                    return Some(packet);
                }
                sink.drop(now, packet, DropCause::Early);
                (head, ok_to_drop) = self.take(codel, queue, beside, now);
                match ok_to_drop {
                    true => self.drop_next = self.control_law(codel, self.drop_next),
                    false => self.dropping = false,
                }
            }
        } else if ok_to_drop {
            let mut packet = head?.packet;
            let marked = codel.ecn && sink.mark(&mut packet);
            if marked {
                head = Some(Waiting { packet, since: now });
            } else {
                sink.drop(now, packet, DropCause::Early);
                (head, _) = self.take(codel, queue, beside, now);
            }
            self.dropping = true;
            // Start at the rate that controlled the queue last time, if that was recent.
            let delta = self.count.saturating_sub(self.last_count);
            let recent = now.since(self.drop_next) < codel.interval * 16;
            self.set_count(if delta > 1 && recent { delta } else { 1 });
            self.drop_next = self.control_law(codel, now);
            self.last_count = self.count;
        }
        head.map(|head| head.packet)
    }

    /// Section 5.6, `dodequeue`: the head, and whether the queue has been bad for long enough to
    /// drop it.
    fn take<P: Packet>(
        &mut self,
        codel: &Codel,
        queue: &mut Fifo<P>,
        beside: u64,
        now: Instant,
    ) -> (Option<Waiting<P>>, bool) {
        let Some(head) = queue.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let sojourn = now.since(head.since);
        if sojourn < codel.target || queue.bytes() + beside <= self.max_packet {
            self.first_above = None;
            return (Some(head), false);
        }
        let first_above = *self.first_above.get_or_insert(now + codel.interval);
        (Some(head), now >= first_above)
    }
}

/// One queue with CoDel.
pub(crate) struct CodelQueue<P> {
    codel: Codel,
    pub(super) state: CodelState,
    pub(super) fifo: Fifo<P>,
}

impl<P: Packet> Discipline<P> for CodelQueue<P> {
    type Options = Codel;

    fn new(codel: Codel, site: &Site, _: u64) -> Self {
        Self {
            codel,
            state: CodelState::new(site.mtu.get()),
            fifo: Fifo::new(),
        }
    }

    /// Section 5.4.
    fn enqueue(
        &mut self,
        now: Instant,
        packet: P,
        _: Option<QueueLimit>,
        _: &mut Sink<'_, P>,
    ) -> Result<(), DropCause> {
        self.fifo.push(now, packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Instant, sink: &mut Sink<'_, P>) -> Option<P> {
        self.state
            .dequeue(&self.codel, &mut self.fifo, 0, now, sink)
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> u64 {
        self.fifo.packets()
    }

    fn remove(&mut self, _: u64, pick: impl FnOnce(&Fifo<P>) -> Option<usize>) -> Option<P> {
        self.fifo.take(pick)
    }
}

#[cfg(test)]
mod tests {
    use super::super::discipline::testing::{Discarded, Probe, SITE};
    use super::*;

    fn us(n: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(n)
    }

    fn ms(n: u64) -> Instant {
        us(n * 1000)
    }

    fn codel(ecn: bool) -> CodelQueue<Probe> {
        let codel = Codel {
            ecn,
            ..Codel::default()
        };
        CodelQueue::new(codel, &SITE, 1)
    }

    /// A thousand packets at time zero.
    fn standing(ecn: bool, capable: u8) -> CodelQueue<Probe> {
        let mut queue = codel(ecn);
        for number in 0..1000 {
            let probe = Probe {
                ecn: capable,
                ..Probe::new(number, 1500)
            };
            queue.fifo.push(Instant::ZERO, probe);
        }
        queue
    }

    #[test]
    fn the_control_law_goes_with_the_square_root() {
        let codel = codel(false).codel;
        // 100 ms / sqrt(2) = 70.710678..., / sqrt(3) = 57.735026...
        let gaps = [1, 2, 3, 4].map(|count| {
            let mut state = CodelState::new(1500);
            state.set_count(count);
            state.control_law(&codel, ms(0)).since(ms(0)).as_nanos()
        });
        assert_eq!(gaps, [100_000_000, 70_710_678, 57_735_026, 50_000_000]);
    }

    /// By hand, one packet each millisecond from 1 ms on: the packet dequeued at 5 ms is the first
    /// with a sojourn time of 5 ms, so the first drop may come 100 ms later, at 105 ms. Then at 205
    /// ms, and from there 70.71 and 57.74 ms apart: at 275.71 and 333.45 ms, that is at the
    /// dequeues of 276 and 334 ms.
    #[test]
    fn a_standing_queue_is_dropped_from_by_the_control_law() {
        let (mut queue, mut discarded) = (standing(false, 0), Discarded::new());
        for at in 1..=380 {
            let packet = queue.dequeue(ms(at), &mut discarded.sink());
            assert!(packet.is_some());
        }
        let times: Vec<u64> = discarded
            .dropped
            .iter()
            .map(|(at, ..)| at.as_nanos() / 1_000_000)
            .collect();
        assert_eq!(times, [105, 205, 276, 334]);
        // At the head: the n-th dequeue takes number n - 1, and one more for each drop before it.
        assert_eq!(discarded.numbers(), [104, 205, 277, 336]);
        assert_eq!(queue.state.count, 4);
    }

    #[test]
    fn several_drops_that_are_due_come_at_once() {
        let (mut queue, mut discarded) = (standing(false, 0), Discarded::new());
        for at in [5, 105] {
            queue.dequeue(ms(at), &mut discarded.sink());
        }
        // Due at 205, 275.7, 333.4, 383.4 and 428.2 ms.
        let packet = queue.dequeue(ms(430), &mut discarded.sink()).unwrap();
        assert_eq!(discarded.numbers(), [1, 3, 4, 5, 6, 7]);
        assert_eq!(packet.number, 8);
        assert_eq!(queue.state.count, 6);
    }

    #[test]
    fn with_ecn_it_marks_and_goes_on() {
        let (mut queue, mut discarded) = (standing(true, 1), Discarded::new());
        let mut marked = Vec::new();
        for at in 1..=380 {
            let packet = queue.dequeue(ms(at), &mut discarded.sink()).unwrap();
            if packet.marked {
                marked.push(at);
            }
        }
        assert_eq!(marked, [105, 205, 276, 334]);
        assert!(discarded.dropped.is_empty());
        // Packets that cannot be marked are dropped, and without the option nothing is marked.
        let (mut queue, mut discarded) = (standing(true, 0), Discarded::new());
        let (mut plain, mut other) = (standing(false, 1), Discarded::new());
        for at in 1..=380 {
            queue.dequeue(ms(at), &mut discarded.sink());
            plain.dequeue(ms(at), &mut other.sink());
        }
        assert_eq!(discarded.numbers(), [104, 205, 277, 336]);
        assert_eq!(other.numbers(), [104, 205, 277, 336]);
    }

    #[test]
    fn a_dip_below_the_target_starts_the_interval_anew() {
        let (mut queue, mut discarded) = (codel(false), Discarded::new());
        // Three packets always remain in the queue; all dequeued packets but one waited 6 ms.
        for at in 0..200_u64 {
            let since = if at == 60 {
                ms(at)
            } else {
                ms(at.saturating_sub(6))
            };
            queue.fifo = Fifo::new();
            for number in 0..3 {
                queue.fifo.push(since, Probe::new(number, 1500));
            }
            queue.dequeue(ms(at), &mut discarded.sink());
        }
        // Above from 61 ms on: the first drop may come at 161 ms, not at 105.
        assert_eq!(
            discarded
                .dropped
                .iter()
                .map(|(at, ..)| *at)
                .collect::<Vec<_>>(),
            [ms(161)]
        );
    }

    /// One packet leaves and one arrives every 10 ms, so that the head has waited at least 10 ms
    /// for a whole second. With one packet of the largest size behind it none is dropped; with two,
    /// the tenth above the target is, 100 ms after the first.
    #[test]
    fn one_packet_behind_is_no_standing_queue() {
        for (standing, drops) in [(1, false), (2, true)] {
            let (mut queue, mut discarded) = (codel(false), Discarded::new());
            (0..standing).for_each(|n| queue.fifo.push(ms(0), Probe::new(n, 1500)));
            for at in 1..=100 {
                queue.fifo.push(ms(at * 10), Probe::new(99, 1500));
                queue.dequeue(ms(at * 10), &mut discarded.sink());
                if discarded.dropped.len() == 1 {
                    assert_eq!(discarded.dropped[0].0, ms(110));
                    break;
                }
            }
            assert_eq!(discarded.dropped.len() == 1, drops, "{standing}");
        }
    }

    /// At its eighth drop, at 507 ms, it leaves the dropping state. If it returns soon, it starts
    /// at the number of drops since the last entry, 8 - 1 = 7; if it returns much later, at 1.
    /// After three drops that number is 2; after two the difference is one, so it starts at 1
    /// again.
    #[test]
    fn a_soon_return_begins_at_the_old_rate() {
        for (drops, later, count) in [(8, 200, 7), (8, 5000, 1), (3, 200, 2), (2, 200, 1)] {
            let (mut queue, mut discarded) = (standing(false, 0), Discarded::new());
            let mut at = 1;
            while queue.state.count < drops {
                queue.dequeue(ms(at), &mut discarded.sink());
                at += 1;
            }
            queue.fifo = Fifo::new();
            assert_eq!(queue.dequeue(ms(at), &mut discarded.sink()), None);
            assert!(!queue.state.dropping);
            let (from, before) = (at + later, discarded.dropped.len());
            (0..300).for_each(|n| queue.fifo.push(ms(from), Probe::new(n, 1500)));
            let mut at = from;
            while discarded.dropped.len() == before {
                at += 1;
                queue.dequeue(ms(at), &mut discarded.sink());
            }
            assert_eq!(at, from + 105);
            assert_eq!(queue.state.count, count);
        }
    }
}
