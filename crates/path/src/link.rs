use std::collections::VecDeque;

use paceline_units::{Bytes, Duration, Gain, Instant, Rate, Rng};

use crate::aqm::{Found, Signal, Watch, transmissions};
use crate::impair::{Chance, Late, Policer, next_slot};
use crate::service::Server;
use crate::{Aqm, Counters, Policing, Service};

/// What a link needs to know of a packet.
pub trait Packet {
    /// Bytes on the wire.
    fn size(&self) -> u32;

    /// Marks it as having experienced congestion; false if it is not ECN-capable.
    fn mark(&mut self) -> bool {
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
    /// Seed of what is drawn; each kind of draw has its own stream.
    pub seed: u64,
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
    /// It arrives so much later than in its turn.
    hold: Duration,
}

/// The next packets accepted are held.
#[derive(Clone, Copy, Debug)]
struct Hold {
    packets: u64,
    delay: Duration,
}

/// A link: queue, server and propagation in one FIFO.
///
/// Departures are computed when a packet comes rather than scheduled, so a
/// packet costs its user one event: the arrival at the far end. A packet that
/// is held or copied costs one more: it goes through the FIFO in its turn, and
/// waits beside it for what is left.
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
    loss: Chance,
    duplicate: Chance,
    reorder: Chance,
    reorder_delay: Duration,
    jitter: Duration,
    jitter_rng: Rng,
    /// What departs waits for the next multiple of this.
    slot: Duration,
    policer: Option<Policer>,
    aqm: Option<Watch>,
    seed: u64,
    scripted_drops: u64,
    scripted_holds: VecDeque<Hold>,
    late: Late<P>,
    counters: Counters,
    peak: u64,
}

/// Streams of a link's seed beside that of loss.
const DUPLICATE_STREAM: u64 = 0x6475_706c_6963_6174;
const REORDER_STREAM: u64 = 0x7265_6f72_6465_7269;
const AQM_STREAM: u64 = 0x6171_6d00_6171_6d00;
const JITTER_STREAM: u64 = 0x6a69_7474_6572_696e;

impl<P: Packet + Clone> Link<P> {
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
            loss: Chance::new(config.loss, config.seed),
            duplicate: Chance::new(Gain::default(), config.seed ^ DUPLICATE_STREAM),
            reorder: Chance::new(Gain::default(), config.seed ^ REORDER_STREAM),
            reorder_delay: Duration::ZERO,
            jitter: Duration::ZERO,
            jitter_rng: Rng::new(config.seed ^ JITTER_STREAM),
            slot: Duration::ZERO,
            policer: None,
            aqm: None,
            seed: config.seed,
            scripted_drops: 0,
            scripted_holds: VecDeque::new(),
            late: Late::new(),
            counters: Counters::default(),
            peak: 0,
        }
    }

    /// Offers a packet.
    pub fn enqueue(&mut self, now: Instant, mut packet: P) -> Verdict {
        self.advance(now);
        let size = packet.size();
        self.counters.offered.add(size);
        if self.scripted_drops > 0 {
            self.scripted_drops -= 1;
            self.counters.dropped_scripted.add(size);
            return Verdict::Dropped(DropCause::Scripted);
        }
        if let Some(policer) = &mut self.policer
            && !policer.passes(now, size)
        {
            self.counters.dropped_policer.add(size);
            return Verdict::Dropped(DropCause::Policer);
        }
        let idle = self.departed == self.entries.len();
        let signal = self.signal(now, idle, size);
        if !idle && !self.fits(size) {
            self.counters.dropped_queue.add(size);
            return Verdict::Dropped(DropCause::Queue);
        }
        if signal != Signal::None {
            let marked = signal != Signal::Drop && packet.mark();
            if marked {
                self.counters.marked.add(size);
            } else if signal != Signal::Mark {
                self.counters.dropped_early.add(size);
                return Verdict::Dropped(DropCause::Early);
            }
        }
        let start = if idle { now } else { self.busy_until };
        let departure = self.server.depart(start, size, idle);
        if idle && departure == Instant::MAX {
            self.stalled = Some(self.server.remaining(now, departure, size));
        }
        let lost = self.loss.strikes();
        let hold = self.hold();
        let arrival = self.arrival_of(departure);
        self.busy_until = departure;
        self.entries.push_back(Entry {
            packet,
            departure,
            arrival,
            lost,
            hold,
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

    /// When the next packet reaches the far end; none while nothing moves. A packet
    /// lost or held on the way counts: [`Self::arrive`] discards it or keeps it then.
    pub fn next_arrival(&self) -> Option<Instant> {
        let head = self
            .entries
            .front()
            .map(|entry| entry.arrival)
            .filter(|&arrival| arrival < Instant::MAX);
        match self.late.next() {
            None => head,
            Some(late) => Some(head.map_or(late, |head| head.min(late))),
        }
    }

    /// Takes the next packet that has reached the far end by `now`.
    pub fn arrive(&mut self, now: Instant) -> Option<P> {
        while let Some(next) = self.next_arrival().filter(|&next| next <= now) {
            if let Some(packet) = self.late.take(next) {
                return Some(self.deliver(packet));
            }
            self.advance(now);
            let entry = self.entries.pop_front()?;
            self.departed -= 1;
            let size = entry.packet.size();
            if entry.lost {
                self.counters.held.remove(size);
                self.counters.dropped_random.add(size);
                continue;
            }
            if self.duplicate.strikes() {
                self.counters.duplicated.add(size);
                self.counters.held.add(size);
                self.late.put(entry.arrival, entry.packet.clone());
            }
            if entry.hold > Duration::ZERO {
                self.late.put(entry.arrival + entry.hold, entry.packet);
                continue;
            }
            return Some(self.deliver(entry.packet));
        }
        None
    }

    fn deliver(&mut self, packet: P) -> P {
        self.counters.held.remove(packet.size());
        self.counters.delivered.add(packet.size());
        packet
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
        self.delay = delay;
        self.plan_arrivals(now);
    }

    /// Delays what departs from now on by up to `jitter` more, uniformly. Order is kept.
    pub fn set_jitter(&mut self, now: Instant, jitter: Duration) {
        self.jitter = jitter;
        self.plan_arrivals(now);
    }

    /// What departs from now on waits for the next multiple of `slot`, and leaves
    /// with all that did so; zero ends it.
    pub fn set_aggregation(&mut self, now: Instant, slot: Duration) {
        self.slot = slot;
        self.plan_arrivals(now);
    }

    /// Plans anew when those arrive that have not departed.
    fn plan_arrivals(&mut self, now: Instant) {
        self.advance(now);
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
        self.loss.probability = loss;
    }

    /// Changes the probability that a packet arrives twice. The copy comes up
    /// behind the transmission and takes none of the capacity.
    pub fn set_duplicate(&mut self, probability: Gain) {
        self.duplicate.probability = probability;
    }

    /// Changes the probability that a packet arrives `delay` later than in its
    /// turn, with those behind it not waiting.
    pub fn set_reorder(&mut self, probability: Gain, delay: Duration) {
        self.reorder.probability = probability;
        self.reorder_delay = delay;
    }

    /// Polices what is offered from now on, beginning with a full bucket.
    pub fn set_policer(&mut self, now: Instant, policing: Option<Policing>) {
        self.policer = policing.map(|policing| Policer::new(policing, now));
    }

    /// Lets the queue signal congestion before it is full.
    pub fn set_aqm(&mut self, aqm: Option<Aqm>) {
        self.aqm = aqm.map(|aqm| Watch::new(aqm, self.seed ^ AQM_STREAM));
    }

    /// The next `count` packets accepted arrive `delay` later than in their turn, in
    /// their order; those behind them do not wait. Follows upon a hold under way.
    pub fn hold_next(&mut self, count: u64, delay: Duration) {
        if count > 0 {
            let packets = count;
            self.scripted_holds.push_back(Hold { packets, delay });
        }
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

    /// What the queue says to a packet that comes.
    fn signal(&mut self, now: Instant, idle: bool, size: u32) -> Signal {
        let Some(aqm) = &mut self.aqm else {
            return Signal::None;
        };
        let in_service = self.entries.get(self.departed);
        let in_service = in_service.map_or(0, |entry| u64::from(entry.packet.size()));
        let each = self.server.rate().time_for(Bytes::new(u64::from(size)));
        aqm.judge(Found {
            size,
            bytes: self.backlog - in_service,
            packets: ((self.entries.len() - self.departed) as u64).saturating_sub(1),
            sojourn: match idle {
                true => Duration::ZERO,
                false => self.busy_until.since(now),
            },
            idle: idle.then(|| transmissions(self.busy_until, now, each)),
        })
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
        let mut arrival = departure + self.delay;
        if self.slot > Duration::ZERO {
            arrival = next_slot(departure, self.slot) + self.delay;
        }
        if self.jitter > Duration::ZERO {
            // Both ends included.
            let bound = self.jitter.as_nanos().saturating_add(1);
            arrival += Duration::from_nanos(self.jitter_rng.below(bound));
        }
        self.last_arrival = arrival.max(self.last_arrival);
        self.last_arrival
    }

    /// How long the next packet is held on the way.
    fn hold(&mut self) -> Duration {
        let mut scripted = Duration::ZERO;
        if let Some(hold) = self.scripted_holds.front_mut() {
            scripted = hold.delay;
            hold.packets -= 1;
            if hold.packets == 0 {
                self.scripted_holds.pop_front();
            }
        }
        match self.reorder.strikes() {
            true => scripted + self.reorder_delay,
            false => scripted,
        }
    }
}

#[cfg(test)]
mod tests;
