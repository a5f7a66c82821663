mod changes;

use std::collections::VecDeque;

use paceline_units::{AckFilter, Bytes, Duration, Gain, Hold, Instant, Loss, Rate, Rng};

use crate::ack_filter::{Header, Thinning, redundant};
use crate::impair::{Chance, Grants, Late, LossState, TokenBucket};
use crate::packet::{Backlog, Counters, DropCause, Packet, QueueLimit, Verdict};
use crate::queue::{AnyDiscipline, AnyEarly, Arrival, DroppedPacket, Signal, Sink, transmissions};
use crate::service::{Server, Service};

/// A link and its queue.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// How fast it sends.
    pub service: Service,
    /// Propagation delay.
    pub delay: Duration,
    /// Drop-tail limit.
    pub limit: QueueLimit,
    /// Seed of the random draws; each kind of draw has its own stream.
    pub seed: u64,
}

struct Entry<P> {
    packet: P,
    departure: Instant,
    arrival: Instant,
    lost: bool,
    /// Extra delay of a reordered packet.
    hold: Duration,
}

/// A link: queue, server and propagation in one FIFO.
///
/// Departures are computed when a packet is enqueued instead of being scheduled, so a packet costs
/// the caller one event: its arrival at the far end. A packet that is held or copied costs one
/// more: it passes through the FIFO in order, and then waits outside it for the remaining delay.
/// If nothing can change a packet's arrival any more, [`Link::tell_ahead`] saves that event as well.
///
/// Packets of a queue that decides at dequeue wait in that queue, and enter the FIFO one at a time
/// as the server becomes free. That is not an event either: nothing depends on it until the next
/// packet is enqueued or arrives, and then the link catches up with the times at which it was due.
pub struct Link<P> {
    /// Packets that have departed and are on their way, followed by those waiting.
    entries: VecDeque<Entry<P>>,
    /// Number of packets at the front that have departed by the latest known time.
    departed: usize,
    /// Whether [`Self::next_ahead`] reports arrivals, and the number of packets at the front that it
    /// has reported.
    tells_ahead: bool,
    told_ahead: usize,
    /// Earliest time of the next departure.
    departs_from: Instant,
    /// Bytes of the packets that have not departed.
    backlog: u64,
    server: Server,
    /// Departure of the last packet accepted.
    busy_until: Instant,
    /// Remaining work on the head while the rate is zero.
    stalled: Option<u128>,
    last_arrival: Instant,
    delay: Duration,
    limit: QueueLimit,
    loss: LossState,
    duplicate: Chance,
    reorder: Chance,
    reorder_delay: Duration,
    jitter: Duration,
    jitter_rng: Rng,
    grants: Grants,
    policer: Option<TokenBucket>,
    /// Which ACKs do not reach the queue.
    thinning: Thinning,
    /// Which ACKs in the queue an arriving one replaces.
    ack_filter: AckFilter,
    early: Option<AnyEarly>,
    /// The packets waiting for the server, if the queue is more than a FIFO.
    discipline: Option<AnyDiscipline<P>>,
    /// The packets that such a queue has dropped, if the caller asks for them.
    dropped: Option<VecDeque<DroppedPacket<P>>>,
    seed: u64,
    scripted_drops: u64,
    scripted_holds: VecDeque<Hold>,
    late: Late<P>,
    /// Whether packets wait in a FIFO and arrive in order unless the FIFO is full: no impairment
    /// that needs a look at each packet is set (see [`Self::settle`]).
    is_plain: bool,
    counters: Counters,
    peak: u64,
}

/// Streams of a link's seed, in addition to that of loss.
const DUPLICATE_STREAM: u64 = 0x6475_706c_6963_6174;
const REORDER_STREAM: u64 = 0x7265_6f72_6465_7269;
const JITTER_STREAM: u64 = 0x6a69_7474_6572_696e;

impl<P: Packet + Clone> Link<P> {
    /// An idle link.
    pub fn new(config: LinkConfig) -> Self {
        let mut link = Self {
            entries: VecDeque::new(),
            departed: 0,
            tells_ahead: false,
            told_ahead: 0,
            departs_from: Instant::MAX,
            backlog: 0,
            server: Server::new(config.service),
            busy_until: Instant::ZERO,
            stalled: None,
            last_arrival: Instant::ZERO,
            delay: config.delay,
            limit: config.limit,
            loss: LossState::new(Loss::NONE, config.seed),
            duplicate: Chance::new(Gain::default(), config.seed ^ DUPLICATE_STREAM),
            reorder: Chance::new(Gain::default(), config.seed ^ REORDER_STREAM),
            reorder_delay: Duration::ZERO,
            jitter: Duration::ZERO,
            jitter_rng: Rng::new(config.seed ^ JITTER_STREAM),
            grants: Grants::default(),
            policer: None,
            thinning: Thinning::default(),
            ack_filter: AckFilter::Off,
            early: None,
            discipline: None,
            dropped: None,
            seed: config.seed,
            scripted_drops: 0,
            scripted_holds: VecDeque::new(),
            late: Late::new(),
            is_plain: false,
            counters: Counters::default(),
            peak: 0,
        };
        link.settle();
        link
    }

    /// Decides whether packets need more than the FIFO. Called after every change of the
    /// impairments.
    fn settle(&mut self) {
        let unharmed = self.loss.is_none() && self.duplicate.is_none() && self.reorder.is_none();
        let unscripted = self.scripted_drops == 0 && self.scripted_holds.is_empty();
        let steady = self.jitter == Duration::ZERO && self.grants.is_none();
        let fifo = self.discipline.is_none() && self.policer.is_none() && self.thinning.every <= 1;
        self.is_plain = unharmed && unscripted && steady && fifo;
    }

    /// Offers a packet.
    // Always inlined, as is the next one: a call costs a packet one more copy.
    #[inline(always)]
    pub fn enqueue(&mut self, now: Instant, packet: P) -> Verdict {
        self.enqueue_read(now, packet, |_| None)
    }

    /// Offers a packet. `header` reads the TCP header of it and of packets that wait, for the ACK
    /// filter.
    #[inline(always)]
    pub fn enqueue_read(
        &mut self,
        now: Instant,
        mut packet: P,
        header: impl Fn(&P) -> Option<Header>,
    ) -> Verdict {
        self.advance(now);
        let size = packet.size();
        self.counters.offered.add(size);
        if !self.is_plain {
            if let Some(cause) = self.refuses(now, &packet, &header) {
                return Verdict::Dropped(cause);
            }
            if self.discipline.is_some() {
                return self.hand_over(now, packet, header);
            }
        }
        let idle = self.departed == self.entries.len();
        let signal = self.signal(now, idle, size, 0, 0);
        if !idle && !self.fits(size, 0, 0) {
            self.counters.dropped_queue.add(size);
            return Verdict::Dropped(DropCause::Queue);
        }
        if signal != Signal::None && self.signalled(signal, &mut packet) {
            return Verdict::Dropped(DropCause::Early);
        }
        let start = if idle { now } else { self.busy_until };
        if self.transmit(packet, start, idle) {
            Verdict::Dropped(DropCause::Random)
        } else {
            Verdict::Queued
        }
    }

    /// Carries out a signal. Whether it drops the packet.
    #[inline(always)]
    fn signalled(&mut self, signal: Signal, packet: &mut P) -> bool {
        let size = packet.size();
        if signal != Signal::Drop && packet.mark() {
            self.counters.marked.add(size);
        } else if signal != Signal::Mark {
            self.counters.dropped_early.add(size);
            return true;
        }
        false
    }

    /// Why a packet does not reach the queue, if it does not.
    #[inline(never)]
    fn refuses(
        &mut self,
        now: Instant,
        packet: &P,
        header: impl Fn(&P) -> Option<Header>,
    ) -> Option<DropCause> {
        let size = packet.size();
        if self.thinning.every > 1
            && header(packet).is_some_and(|new| self.thinning.withholds(&new))
        {
            self.counters.dropped_filtered.add(size);
            return Some(DropCause::Filtered);
        }
        if self.scripted_drops > 0 {
            self.scripted_drops -= 1;
            self.counters.dropped_scripted.add(size);
            self.settle();
            return Some(DropCause::Scripted);
        }
        let policer = self.policer.as_mut()?;
        if policer.passes(now, size) {
            return None;
        }
        self.counters.dropped_policer.add(size);
        Some(DropCause::Policer)
    }

    /// Gives a packet to a queue that is not a FIFO, and dequeues one if the server is idle.
    #[inline(never)]
    fn hand_over(
        &mut self,
        now: Instant,
        mut packet: P,
        header: impl Fn(&P) -> Option<Header>,
    ) -> Verdict {
        let (size, flow) = (packet.size(), packet.flow());
        let idle = self.busy_until <= now;
        let filters = self.ack_filter != AckFilter::Off;
        let new = if filters { header(&packet) } else { None };
        if let Some(AnyDiscipline::Fifo(fifo)) = &self.discipline {
            let (packets, bytes) = (fifo.packets(), fifo.bytes());
            let signal = self.signal(now, idle, size, packets, bytes);
            // An ACK that goes makes room for this one.
            let gone = new.and_then(|new| self.redundant(flow, &new, &header, 0));
            let room = gone.map_or(0, |(_, size)| u64::from(size));
            if !idle && !self.fits(size, packets - u64::from(room > 0), bytes - room) {
                self.counters.dropped_queue.add(size);
                return Verdict::Dropped(DropCause::Queue);
            }
            if signal != Signal::None && self.signalled(signal, &mut packet) {
                return Verdict::Dropped(DropCause::Early);
            }
            if let Some((place, _)) = gone {
                self.filter(now, flow, place);
            }
        }
        let Some(discipline) = &mut self.discipline else {
            return Verdict::Dropped(DropCause::Queue);
        };
        let limit = (!idle).then_some(self.limit);
        let mut sink = Sink {
            counters: &mut self.counters,
            dropped: self.dropped.as_mut(),
        };
        if let Err(cause) = discipline.enqueue(now, packet, limit, &mut sink) {
            match cause {
                DropCause::Queue => self.counters.dropped_queue.add(size),
                _ => self.counters.dropped_early.add(size),
            }
            return Verdict::Dropped(cause);
        }
        // These queues decide on the new packet themselves, and it is the last one now.
        if let Some(new) = new
            && !matches!(self.discipline, Some(AnyDiscipline::Fifo(_)))
            && let Some((place, _)) = self.redundant(flow, &new, &header, 1)
        {
            self.filter(now, flow, place);
        }
        if idle {
            self.serve(now, true);
        }
        self.peak = self.peak.max(self.backlog + self.waiting());
        Verdict::Queued
    }

    /// The ACK that a `new` one makes redundant, of those that wait before the last few: its place
    /// and its size.
    fn redundant(
        &mut self,
        flow: u64,
        new: &Header,
        header: impl Fn(&P) -> Option<Header>,
        last: usize,
    ) -> Option<(usize, u32)> {
        let aggressive = self.ack_filter == AckFilter::CakeAggressive;
        let mut oldest = None;
        self.discipline.as_mut()?.remove(flow, |queue| {
            let before = (queue.packets() as usize).saturating_sub(last);
            let place = redundant(queue.iter().map(header).take(before), new, aggressive)?;
            oldest = queue.iter().nth(place).map(|packet| (place, packet.size()));
            None
        });
        oldest
    }

    /// Takes away the ACK at this place.
    fn filter(&mut self, now: Instant, flow: u64, place: usize) {
        let Some(discipline) = &mut self.discipline else {
            return;
        };
        let gone = discipline.remove(flow, |_| Some(place));
        let mut sink = Sink {
            counters: &mut self.counters,
            dropped: self.dropped.as_mut(),
        };
        if let Some(gone) = gone {
            sink.drop(now, gone, DropCause::Filtered);
        }
    }

    /// The server is free at `at`: the queue gives it the next packet.
    fn serve(&mut self, at: Instant, idle: bool) {
        let Some(discipline) = &mut self.discipline else {
            return;
        };
        let mut sink = Sink {
            counters: &mut self.counters,
            dropped: self.dropped.as_mut(),
        };
        if let Some(packet) = discipline.dequeue(at, &mut sink) {
            let copy = self.dropped.is_some().then(|| packet.clone());
            if self.transmit(packet, at, idle)
                && let (Some(dropped), Some(copy)) = (&mut self.dropped, copy)
            {
                dropped.push_back((at, copy, DropCause::Random));
            }
        }
    }

    /// Plans the departure and the arrival of a packet whose transmission begins at `start`.
    /// Returns true if it will be lost on the way.
    // Always inlined, as are the next two: a call costs more than most of their work.
    #[inline(always)]
    fn transmit(&mut self, packet: P, start: Instant, idle: bool) -> bool {
        let size = packet.size();
        // Within one nanosecond the link is not idle: it would begin each packet too early.
        let rested = idle && start > self.busy_until;
        let departure = self.server.depart(start, size, rested);
        if idle && departure == Instant::MAX {
            self.stalled = Some(self.server.remaining(start, departure, size));
        }
        let (lost, hold) = match self.is_plain {
            true => (false, Duration::ZERO),
            false => (self.loss.strikes(), self.hold()),
        };
        let arrival = self.arrival_of(departure);
        self.busy_until = departure;
        if self.departed == self.entries.len() {
            self.departs_from = departure;
        }
        self.entries.push_back(Entry {
            packet,
            departure,
            arrival,
            lost,
            hold,
        });
        self.backlog += u64::from(size);
        self.peak = self.peak.max(self.backlog);
        lost
    }

    /// Bytes that the server has not yet transmitted.
    fn waiting(&self) -> u64 {
        self.discipline.as_ref().map_or(0, AnyDiscipline::bytes)
    }

    /// When the next packet reaches the far end; none while nothing moves. A packet lost or held on
    /// the way counts: [`Self::arrive`] discards or keeps it at that time. If drops are reported,
    /// also the time at which the queue may next drop.
    #[inline]
    pub fn next_arrival(&self) -> Option<Instant> {
        let next = self.next_out();
        match &self.discipline {
            Some(queue) if self.tells_drops() && queue.packets() > 0 => {
                let decision = Some(self.busy_until).filter(|&at| at < Instant::MAX);
                next.into_iter().chain(decision).min()
            }
            _ => next,
        }
    }

    /// Whether a packet that joins others leaves [`Self::next_arrival`] unchanged. A packet held on
    /// the way may be overtaken.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.is_plain && self.late.next().is_none()
    }

    fn next_out(&self) -> Option<Instant> {
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
    #[inline]
    pub fn arrive(&mut self, now: Instant) -> Option<P> {
        if !self.is_plain() {
            return self.arrive_asked(now);
        }
        let head = self.entries.front().filter(|head| head.arrival <= now)?;
        // Packets that arrived before the link was plain may still be lost or held.
        if head.lost || head.hold > Duration::ZERO {
            return self.arrive_asked(now);
        }
        let entry = self.pop()?;
        Some(self.deliver(entry.packet))
    }

    /// Reports arrivals ahead from now on, if the link can: nothing overtakes, is held or copied, or
    /// waits for a decision. Its caller does not change it any more.
    pub fn tell_ahead(&mut self) -> bool {
        let in_order = self.duplicate.is_none() && self.reorder.is_none();
        let unheld = self.scripted_holds.is_empty() && self.held() == 0;
        let moves = self.server.rate() > Rate::ZERO && self.discipline.is_none();
        self.tells_ahead = in_order && unheld && moves;
        self.tells_ahead
    }

    /// Whether [`Self::next_ahead`] reports arrivals, which then are no events.
    #[inline]
    pub fn tells_ahead(&self) -> bool {
        self.tells_ahead
    }

    /// The next packet of those accepted that will arrive, and when; each once.
    #[inline]
    pub fn next_ahead(&mut self) -> Option<(Instant, &mut P)> {
        while self.entries.get(self.told_ahead)?.lost {
            self.told_ahead += 1;
        }
        self.told_ahead += 1;
        let entry = self.entries.get_mut(self.told_ahead - 1)?;
        Some((entry.arrival, &mut entry.packet))
    }

    /// Changes the packet that was reported last.
    #[inline]
    pub fn last_ahead(&mut self) -> Option<&mut P> {
        let last = self.entries.get_mut(self.told_ahead.checked_sub(1)?)?;
        Some(&mut last.packet)
    }

    /// Whether one more packet needs more memory, unless [`Self::take_ahead`] removes some.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.entries.len() == self.entries.capacity()
    }

    /// Removes the packets reported ahead that have arrived by `now`.
    pub fn take_ahead(&mut self, now: Instant, mut each: impl FnMut(&P)) {
        self.advance(now);
        let mut taken = 0;
        for entry in self.entries.iter().take_while(|entry| entry.arrival <= now) {
            taken += 1;
            let size = entry.packet.size();
            if entry.lost {
                self.counters.dropped_random.add(size);
            } else {
                self.counters.delivered.add(size);
                each(&entry.packet);
            }
        }
        // They have departed.
        self.departed -= taken;
        self.told_ahead -= taken;
        self.entries.drain(..taken);
    }

    /// Removes the head of the FIFO. A packet that arrives has departed, whether or not that was
    /// recorded.
    fn pop(&mut self) -> Option<Entry<P>> {
        let entry = self.entries.pop_front()?;
        match self.departed.checked_sub(1) {
            Some(departed) => self.departed = departed,
            None => {
                self.backlog -= u64::from(entry.packet.size());
                self.grants.on_departure(entry.departure);
            }
        }
        Some(entry)
    }

    /// [`Self::arrive`] where a packet may be lost, held or copied on the way.
    fn arrive_asked(&mut self, now: Instant) -> Option<P> {
        if self.dropped.is_some() {
            self.advance(now);
        }
        while let Some(next) = self.next_out().filter(|&next| next <= now) {
            if let Some(packet) = self.late.take(next) {
                return Some(self.deliver(packet));
            }
            if self.discipline.is_some() {
                self.advance(now);
            }
            let entry = self.pop()?;
            let size = entry.packet.size();
            if entry.lost {
                self.counters.dropped_random.add(size);
                continue;
            }
            if self.duplicate.strikes() {
                self.counters.duplicated.add(size);
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
        self.counters.delivered.add(packet.size());
        packet
    }

    /// Discards the plan for the packets that have not departed.
    fn discard_plan(&mut self) {
        self.last_arrival = match self.departed.checked_sub(1) {
            Some(last) => self.entries[last].arrival,
            None => Instant::ZERO,
        };
        self.grants.discard_plan();
    }

    /// Recomputes the arrival times of packets that have not departed.
    fn plan_arrivals(&mut self) {
        self.discard_plan();
        for index in self.departed..self.entries.len() {
            let arrival = self.arrival_of(self.entries[index].departure);
            self.entries[index].arrival = arrival;
        }
    }

    /// Keeps packets that the queue drops, or that are lost, after they were accepted, for
    /// [`Self::next_drop`].
    pub fn tell_drops(&mut self) {
        self.dropped.get_or_insert_default();
    }

    /// Whether there may be such packets, and the link keeps them.
    #[inline]
    pub fn tells_drops(&self) -> bool {
        self.dropped.is_some() && self.discipline.is_some()
    }

    /// The next packet that was dropped or lost after it had been accepted, when, and why. Only
    /// queues that are more than a FIFO have such packets.
    pub fn next_drop(&mut self) -> Option<(Instant, P, DropCause)> {
        self.dropped.as_mut()?.pop_front()
    }

    /// The current rate; of a trace, the mean.
    pub fn rate(&self) -> Rate {
        self.server.rate()
    }

    /// The propagation delay of packets that depart now.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// Bytes on the wire that the link could have carried up to `now`.
    pub fn capacity(&self, now: Instant) -> Bytes {
        self.server.capacity(now)
    }

    /// The backlog at `now`.
    pub fn backlog(&mut self, now: Instant) -> Backlog {
        self.advance(now);
        let queue = self.discipline.as_ref();
        let waiting = self.waiting();
        let packets =
            (self.entries.len() - self.departed) as u64 + queue.map_or(0, AnyDiscipline::packets);
        Backlog {
            bytes: Bytes::new(self.backlog + waiting),
            packets,
            delay: match packets {
                0 => Duration::ZERO,
                _ if self.busy_until == Instant::MAX => Duration::MAX,
                _ => self.server.drained(self.busy_until, waiting).since(now),
            },
        }
    }

    /// Packets accepted and not yet delivered, including those that are lost on the way.
    pub fn held(&self) -> usize {
        let waiting = self.discipline.as_ref().map_or(0, AnyDiscipline::packets);
        self.entries.len() + self.late.len() + waiting as usize
    }

    /// Conservation: each packet that was offered or copied was delivered or dropped, or is held.
    /// If none is held, their bytes balance too.
    pub fn is_balanced(&self) -> bool {
        let counters = &self.counters;
        let came = counters.offered.plus(counters.duplicated);
        let went = counters.delivered.plus(counters.dropped());
        let held = self.held() as u64;
        came.packets == went.packets + held && (held > 0 || came.bytes == went.bytes)
    }

    /// Memory used by the packets in the link, in bytes.
    pub fn memory(&self) -> usize {
        // Late packets and those in a queue each store a time as well, and nothing else.
        let others = self.held() - self.entries.len();
        self.entries.capacity() * size_of::<Entry<P>>() + others * size_of::<(Instant, u64, P)>()
    }

    /// The maximum backlog since the last call.
    pub fn take_peak(&mut self, now: Instant) -> Bytes {
        self.advance(now);
        let backlog = self.backlog + self.waiting();
        Bytes::new(core::mem::replace(&mut self.peak, backlog))
    }

    /// What happened to every packet.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Advances past the departures up to `now`. The server takes waiting packets.
    #[inline(always)]
    fn advance(&mut self, now: Instant) {
        if !self.is_plain {
            self.serve_until(now);
        }
        if self.departs_from <= now {
            self.depart(now);
        }
    }

    /// The server takes waiting packets from a queue that is not a FIFO.
    fn serve_until(&mut self, now: Instant) {
        while let Some(queue) = &self.discipline
            && self.busy_until <= now
            && queue.packets() > 0
        {
            self.serve(self.busy_until, false);
        }
    }

    /// Counts the departures up to `now`.
    #[inline(never)]
    fn depart(&mut self, now: Instant) {
        self.departs_from = Instant::MAX;
        while let Some(entry) = self.entries.get(self.departed) {
            if entry.departure > now {
                self.departs_from = entry.departure;
                break;
            }
            self.backlog -= u64::from(entry.packet.size());
            self.departed += 1;
            self.grants.on_departure(entry.departure);
        }
    }

    /// The queue's decision about an arriving packet. Others, of `packets` and `bytes`, wait in a
    /// queue of their own.
    #[inline(always)]
    fn signal(&mut self, now: Instant, idle: bool, size: u32, packets: u64, bytes: u64) -> Signal {
        match self.early {
            None => Signal::None,
            Some(_) => self.early_signal(now, idle, size, (packets, bytes)),
        }
    }

    // Always inlined, too: where nothing waits beside the FIFO, the numbers are zero.
    #[inline(always)]
    fn early_signal(
        &mut self,
        now: Instant,
        idle: bool,
        size: u32,
        (packets, bytes): (u64, u64),
    ) -> Signal {
        let Some(early) = &mut self.early else {
            return Signal::None;
        };
        let in_service = self.entries.get(self.departed);
        let in_service = in_service.map_or(0, |entry| u64::from(entry.packet.size()));
        let rate = self.server.rate();
        let each = || rate.time_for(Bytes::new(u64::from(size)));
        early.judge(Arrival {
            size,
            bytes: self.backlog - in_service + bytes,
            packets: ((self.entries.len() - self.departed) as u64).saturating_sub(1) + packets,
            sojourn: match idle {
                true => Duration::ZERO,
                false if bytes == 0 => self.busy_until.since(now),
                false => self.server.drained(self.busy_until, bytes).since(now),
            },
            idle: idle.then(|| transmissions(self.busy_until, now, each())),
        })
    }

    /// Whether one more packet may wait behind the one in transmission and those others.
    #[inline(always)]
    fn fits(&self, size: u32, packets: u64, bytes: u64) -> bool {
        match self.limit {
            QueueLimit::Packets(limit) => {
                ((self.entries.len() - self.departed) as u64).saturating_sub(1) + packets < limit
            }
            QueueLimit::Bytes(limit) => {
                let in_service = self
                    .entries
                    .get(self.departed)
                    .map_or(0, |entry| u64::from(entry.packet.size()));
                self.backlog - in_service + bytes + u64::from(size) <= limit
            }
        }
    }

    /// Arrival time of a packet that departs at `departure`, never before an earlier packet's.
    #[inline(always)]
    fn arrival_of(&mut self, departure: Instant) -> Instant {
        if departure == Instant::MAX {
            return Instant::MAX;
        }
        let mut leaves = departure;
        if !self.is_plain && !self.grants.is_none() {
            leaves = self.grants.plan(departure);
        }
        let mut arrival = leaves + self.delay;
        if !self.is_plain && self.jitter > Duration::ZERO {
            // Both ends included.
            let bound = self.jitter.as_nanos().saturating_add(1);
            arrival += Duration::from_nanos(self.jitter_rng.below(bound));
        }
        self.last_arrival = arrival.max(self.last_arrival);
        self.last_arrival
    }

    /// How long the next packet is held on the way.
    #[inline(never)]
    fn hold(&mut self) -> Duration {
        let mut scripted = Duration::ZERO;
        if let Some(hold) = self.scripted_holds.front_mut() {
            scripted = hold.delay;
            hold.packets -= 1;
            if hold.packets == 0 {
                self.scripted_holds.pop_front();
                self.settle();
            }
        }
        match self.reorder.strikes() {
            true => scripted + self.reorder_delay,
            false => scripted,
        }
    }
}

#[cfg(test)]
mod aqm_tests;
#[cfg(test)]
mod tests;
