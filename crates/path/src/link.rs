use std::collections::VecDeque;

use paceline_units::{Bytes, Duration, Gain, Instant, Rate, Rng};

use crate::service::Server;
use crate::{Counters, Service};

/// What a link needs to know of a packet.
pub trait Packet {
    /// Bytes on the wire.
    fn size(&self) -> u32;
}

/// How much may wait for transmission. The packet in transmission does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// In bytes on the wire.
    Bytes(u64),
    /// In packets.
    Packets(u64),
}

/// A link and its queue.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// How fast it sends.
    pub service: Service,
    /// Propagation delay.
    pub delay: Duration,
    /// Drop-tail limit.
    pub limit: QueueLimit,
    /// Probability that a transmitted packet is lost on the way, independently of others.
    pub loss: Gain,
    /// Seed of the random loss.
    pub seed: u64,
}

/// Why a packet did not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// The queue was full.
    Queue,
    /// Lost at random on the way.
    Random,
    /// The scenario asked for it.
    Scripted,
}

/// What became of an offered packet. A packet lost on the way is known at once,
/// though it uses the link first.
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
    /// [`Duration::MAX`] while the link stands still.
    pub delay: Duration,
}

struct Entry<P> {
    packet: P,
    departure: Instant,
    arrival: Instant,
    lost: bool,
}

/// A link: queue, server and propagation in one FIFO.
///
/// Departures are computed when a packet comes rather than scheduled, so a
/// packet costs its user one event: the arrival at the far end.
pub struct Link<P> {
    /// What has departed and is on its way, then what waits.
    entries: VecDeque<Entry<P>>,
    /// How many at the front have departed, as far as time is known to have passed.
    departed: usize,
    /// Bytes of those that have not.
    backlog: u64,
    server: Server,
    /// Departure of the last packet accepted.
    busy_until: Instant,
    /// Work left on the head while the rate is zero.
    stalled: Option<u128>,
    last_arrival: Instant,
    delay: Duration,
    limit: QueueLimit,
    loss: Gain,
    scripted_drops: u64,
    rng: Rng,
    counters: Counters,
    peak: u64,
}

impl<P: Packet> Link<P> {
    /// An idle link.
    pub fn new(config: LinkConfig) -> Self {
        Self {
            entries: VecDeque::new(),
            departed: 0,
            backlog: 0,
            server: Server::new(config.service),
            busy_until: Instant::ZERO,
            stalled: None,
            last_arrival: Instant::ZERO,
            delay: config.delay,
            limit: config.limit,
            loss: config.loss,
            scripted_drops: 0,
            rng: Rng::new(config.seed),
            counters: Counters::default(),
            peak: 0,
        }
    }

    /// Offers a packet.
    pub fn enqueue(&mut self, now: Instant, packet: P) -> Verdict {
        self.advance(now);
        let size = packet.size();
        self.counters.offered.add(size);
        if self.scripted_drops > 0 {
            self.scripted_drops -= 1;
            self.counters.dropped_scripted.add(size);
            return Verdict::Dropped(DropCause::Scripted);
        }
        let idle = self.departed == self.entries.len();
        if !idle && !self.fits(size) {
            self.counters.dropped_queue.add(size);
            return Verdict::Dropped(DropCause::Queue);
        }
        let start = if idle { now } else { self.busy_until };
        let departure = self.server.depart(start, size, idle);
        if idle && departure == Instant::MAX {
            self.stalled = Some(self.server.remaining(now, departure, size));
        }
        let lost = self.loss > Gain::from_millionths(0)
            && self.rng.below(u64::from(Gain::SCALE)) < u64::from(self.loss.millionths());
        let arrival = self.arrival_of(departure);
        self.busy_until = departure;
        self.entries.push_back(Entry {
            packet,
            departure,
            arrival,
            lost,
        });
        self.counters.held.add(size);
        self.backlog += u64::from(size);
        self.peak = self.peak.max(self.backlog);
        if lost {
            Verdict::Dropped(DropCause::Random)
        } else {
            Verdict::Queued
        }
    }

    /// When the packet at the head reaches the far end; none while nothing moves.
    /// A packet lost on the way counts: [`Self::arrive`] discards it then.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.entries
            .front()
            .map(|entry| entry.arrival)
            .filter(|&arrival| arrival < Instant::MAX)
    }

    /// Takes the next packet that has reached the far end by `now`.
    pub fn arrive(&mut self, now: Instant) -> Option<P> {
        while self.next_arrival().is_some_and(|arrival| arrival <= now) {
            self.advance(now);
            let entry = self.entries.pop_front()?;
            self.departed -= 1;
            let size = entry.packet.size();
            self.counters.held.remove(size);
            if entry.lost {
                self.counters.dropped_random.add(size);
                continue;
            }
            self.counters.delivered.add(size);
            return Some(entry.packet);
        }
        None
    }

    /// Changes the rate; what waits is served at the new one. Ends a trace.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.advance(now);
        let head_work = self.entries.get(self.departed).map(|head| {
            self.stalled.take().unwrap_or_else(|| {
                self.server
                    .remaining(now, head.departure, head.packet.size())
            })
        });
        self.server = Server::fixed(rate, self.server.capacity(now), now);
        let Some(work) = head_work else {
            return;
        };
        // What had been promised to those that wait no longer holds.
        self.last_arrival = match self.departed.checked_sub(1) {
            Some(last) => self.entries[last].arrival,
            None => Instant::ZERO,
        };
        let mut departure = self.server.resume(now, work);
        if departure == Instant::MAX {
            self.stalled = Some(work);
        }
        for index in self.departed..self.entries.len() {
            if index > self.departed {
                let size = self.entries[index].packet.size();
                departure = if departure == Instant::MAX {
                    Instant::MAX
                } else {
                    self.server.depart(departure, size, false)
                };
            }
            let arrival = self.arrival_of(departure);
            let entry = &mut self.entries[index];
            entry.departure = departure;
            entry.arrival = arrival;
        }
        self.busy_until = departure;
    }

    /// Changes the propagation delay of what departs from now on. Order is kept:
    /// after a cut, packets arrive together with the last one of the longer way.
    pub fn set_delay(&mut self, now: Instant, delay: Duration) {
        self.advance(now);
        self.delay = delay;
        self.last_arrival = match self.departed.checked_sub(1) {
            Some(last) => self.entries[last].arrival,
            None => Instant::ZERO,
        };
        for index in self.departed..self.entries.len() {
            let arrival = self.arrival_of(self.entries[index].departure);
            self.entries[index].arrival = arrival;
        }
    }

    /// Changes the probability of random loss.
    pub fn set_loss(&mut self, loss: Gain) {
        self.loss = loss;
    }

    /// Drops the next `count` packets offered.
    pub fn drop_next(&mut self, count: u64) {
        self.scripted_drops = self.scripted_drops.saturating_add(count);
    }

    /// The rate now; a trace's mean.
    pub fn rate(&self) -> Rate {
        self.server.rate()
    }

    /// The propagation delay of what departs now.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// Bytes on the wire that the link could have carried up to `now`.
    pub fn capacity(&self, now: Instant) -> Bytes {
        self.server.capacity(now)
    }

    /// What waits at `now`.
    pub fn backlog(&mut self, now: Instant) -> Backlog {
        self.advance(now);
        let packets = (self.entries.len() - self.departed) as u64;
        Backlog {
            bytes: Bytes::new(self.backlog),
            packets,
            delay: match packets {
                0 => Duration::ZERO,
                _ if self.busy_until == Instant::MAX => Duration::MAX,
                _ => self.busy_until.since(now),
            },
        }
    }

    /// The greatest backlog since the last call.
    pub fn take_peak(&mut self, now: Instant) -> Bytes {
        self.advance(now);
        Bytes::new(core::mem::replace(&mut self.peak, self.backlog))
    }

    /// Where every packet went.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Moves past the departures up to `now`.
    fn advance(&mut self, now: Instant) {
        while let Some(entry) = self.entries.get(self.departed) {
            if entry.departure > now {
                break;
            }
            self.backlog -= u64::from(entry.packet.size());
            self.departed += 1;
        }
    }

    /// Whether one more packet may wait behind the one in transmission.
    fn fits(&self, size: u32) -> bool {
        match self.limit {
            QueueLimit::Packets(limit) => {
                ((self.entries.len() - self.departed) as u64).saturating_sub(1) < limit
            }
            QueueLimit::Bytes(limit) => {
                let in_service = self
                    .entries
                    .get(self.departed)
                    .map_or(0, |entry| u64::from(entry.packet.size()));
                self.backlog - in_service + u64::from(size) <= limit
            }
        }
    }

    /// Arrival of what departs at `departure`, never before an earlier packet's.
    fn arrival_of(&mut self, departure: Instant) -> Instant {
        if departure == Instant::MAX {
            return Instant::MAX;
        }
        self.last_arrival = (departure + self.delay).max(self.last_arrival);
        self.last_arrival
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CapacityTrace;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Sized(u32, u32);

    impl Packet for Sized {
        fn size(&self) -> u32 {
            self.0
        }
    }

    fn us(n: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(n)
    }

    fn link(service: Service, limit: QueueLimit) -> Link<Sized> {
        Link::new(LinkConfig {
            service,
            delay: Duration::from_millis(20),
            limit,
            loss: Gain::default(),
            seed: 1,
        })
    }

    /// 1500 B at 50 Mbit/s take 240 us.
    fn fifty(limit: QueueLimit) -> Link<Sized> {
        link(Service::Fixed(Rate::from_bps(50_000_000)), limit)
    }

    fn arrivals(link: &mut Link<Sized>) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some(at) = link.next_arrival() {
            if link.arrive(at).is_some() {
                times.push(at.as_nanos() / 1000);
            }
        }
        times
    }

    #[test]
    fn serves_in_turn_and_delays() {
        let mut link = fifty(QueueLimit::Packets(10));
        for n in 0..3 {
            assert_eq!(link.enqueue(us(0), Sized(1500, n)), Verdict::Queued);
        }
        let backlog = link.backlog(us(100));
        assert_eq!((backlog.packets, backlog.bytes.get()), (3, 4500));
        assert_eq!(backlog.delay, Duration::from_micros(620));
        assert_eq!(arrivals(&mut link), [20_240, 20_480, 20_720]);
        assert!(link.counters().balanced());
    }

    #[test]
    fn the_limit_counts_what_waits() {
        // One in transmission, two may wait.
        let mut link = fifty(QueueLimit::Packets(2));
        let verdicts: Vec<bool> = (0..5)
            .map(|n| link.enqueue(us(0), Sized(1500, n)) == Verdict::Queued)
            .collect();
        assert_eq!(verdicts, [true, true, true, false, false]);
        assert_eq!(link.counters().dropped_queue.packets, 2);
        // After one departure there is room again.
        assert_eq!(link.enqueue(us(240), Sized(1500, 9)), Verdict::Queued);

        let mut bytes = fifty(QueueLimit::Bytes(2999));
        let verdicts: Vec<bool> = (0..4)
            .map(|n| bytes.enqueue(us(0), Sized(1500, n)) == Verdict::Queued)
            .collect();
        assert_eq!(verdicts, [true, true, false, false]);
        assert_eq!(bytes.enqueue(us(0), Sized(1499, 9)), Verdict::Queued);
    }

    #[test]
    fn the_rate_holds_exactly_over_many_packets() {
        // 1500 B at 7 Mbit/s are 1 714 285.714... ns; 7000 of them are 12 s.
        let mut link = link(
            Service::Fixed(Rate::from_bps(7_000_000)),
            QueueLimit::Packets(u64::MAX),
        );
        for n in 0..7000 {
            link.enqueue(us(0), Sized(1500, n));
        }
        assert_eq!(arrivals(&mut link).last(), Some(&12_020_000));
    }

    #[test]
    fn a_new_rate_serves_what_waits() {
        let mut link = fifty(QueueLimit::Packets(10));
        for n in 0..3 {
            link.enqueue(us(0), Sized(1500, n));
        }
        // Half of the first is sent; the rest goes ten times slower.
        link.set_rate(us(120), Rate::from_bps(5_000_000));
        assert_eq!(arrivals(&mut link), [21_320, 23_720, 26_120]);
    }

    #[test]
    fn a_stopped_link_keeps_its_packets_and_resumes() {
        let mut link = fifty(QueueLimit::Packets(10));
        link.enqueue(us(0), Sized(1500, 0));
        link.set_rate(us(120), Rate::ZERO);
        link.enqueue(us(200), Sized(1500, 1));
        assert_eq!(link.next_arrival(), None);
        assert_eq!(link.backlog(us(300)).delay, Duration::MAX);
        // A second stop must not forget the half already sent.
        link.set_rate(us(400), Rate::ZERO);
        link.set_rate(us(1000), Rate::from_bps(50_000_000));
        assert_eq!(arrivals(&mut link), [21_120, 21_360]);
        // Stopped while idle.
        link.set_rate(us(50_000), Rate::ZERO);
        link.enqueue(us(50_000), Sized(1500, 2));
        link.set_rate(us(51_000), Rate::from_bps(50_000_000));
        assert_eq!(arrivals(&mut link), [71_240]);
        assert!(link.counters().balanced());
    }

    #[test]
    fn a_shorter_delay_keeps_order() {
        let mut link = fifty(QueueLimit::Packets(10));
        link.enqueue(us(0), Sized(1500, 0));
        link.enqueue(us(0), Sized(1500, 1));
        link.set_delay(us(300), Duration::from_millis(1));
        // The first left with 20 ms to go; the second would arrive before it.
        assert_eq!(arrivals(&mut link), [20_240, 20_240]);
    }

    #[test]
    fn a_trace_gives_its_opportunities() {
        let trace = CapacityTrace::parse("1\n2\n2\n10\n").unwrap();
        let mut link = link(Service::Trace(trace), QueueLimit::Packets(100));
        for n in 0..5 {
            link.enqueue(us(0), Sized(1500, n));
        }
        // Arrival is 20 ms later; the fifth uses the next round's first.
        assert_eq!(
            arrivals(&mut link),
            [21_000, 22_000, 22_000, 30_000, 31_000]
        );
        // Opportunities that pass unused are gone; two small packets share one.
        link.enqueue(us(41_500), Sized(700, 5));
        link.enqueue(us(41_500), Sized(700, 6));
        link.enqueue(us(41_500), Sized(700, 7));
        assert_eq!(arrivals(&mut link), [62_000, 62_000, 62_000]);
        assert_eq!(link.capacity(us(10_500)).get(), 4 * 1500);
    }

    #[test]
    fn scripted_and_random_loss_are_counted() {
        let mut link = fifty(QueueLimit::Packets(2000));
        link.drop_next(2);
        link.set_loss(Gain::from_millionths(100_000));
        for n in 0..1000 {
            link.enqueue(us(0), Sized(1500, n));
        }
        let delivered = arrivals(&mut link).len() as u64;
        let counters = link.counters();
        assert_eq!(counters.dropped_scripted.packets, 2);
        assert_eq!(counters.dropped_random.packets + delivered, 998);
        // 10 % of 998, within five standard deviations.
        assert!((52..148).contains(&counters.dropped_random.packets));
        assert!(counters.balanced());
    }

    proptest! {
        #[test]
        fn conserves_and_orders_whatever_happens(
            steps in prop::collection::vec((0u64..5000, 0u8..12, 40u32..3000), 1..300),
            packets in any::<bool>(), limit in 0u64..30,
        ) {
            let limit = if packets { QueueLimit::Packets(limit) } else { QueueLimit::Bytes(limit * 1000) };
            let mut link = fifty(limit);
            let mut now = Instant::ZERO;
            let mut next = 0;
            let mut seen = Vec::new();
            for (gap, what, size) in steps {
                let until = now + Duration::from_micros(gap);
                while let Some(at) = link.next_arrival().filter(|&at| at <= until) {
                    prop_assert!(at >= now, "an arrival in the past");
                    now = at;
                    seen.extend(link.arrive(at).map(|p| p.1));
                }
                now = until;
                match what {
                    0 => link.set_rate(now, Rate::ZERO),
                    1 => link.set_rate(now, Rate::from_bps(u64::from(size) * 10_000)),
                    2 => link.set_delay(now, Duration::from_micros(u64::from(size))),
                    3 => link.drop_next(1),
                    _ => { link.enqueue(now, Sized(size, next)); next += 1; }
                }
                prop_assert!(link.counters().balanced());
                let held: u64 = link.entries.iter().map(|e| u64::from(e.packet.size())).sum();
                prop_assert_eq!(link.counters().held.bytes.get(), held);
                let waiting: u64 = link.entries.iter().filter(|e| e.departure > now)
                    .map(|e| u64::from(e.packet.size())).sum();
                prop_assert_eq!(link.backlog(now).bytes.get(), waiting);
                prop_assert!(link.entries.iter().is_sorted_by_key(|e| (e.departure, e.arrival)));
            }
            link.set_rate(now, Rate::from_bps(1_000_000));
            while let Some(at) = link.next_arrival() {
                seen.extend(link.arrive(at).map(|p| p.1));
            }
            prop_assert!(seen.is_sorted());
            prop_assert_eq!(link.counters().held.packets, 0);
            prop_assert!(link.counters().balanced());
        }
    }
}
