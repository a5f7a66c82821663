//! One world in virtual time: flows, a bottleneck, the ways back, and what happens next.

use std::collections::VecDeque;

use paceline_congestion::Config;
use paceline_path::{Link, Verdict, next_slot};
use paceline_record::Run;
use paceline_recovery::{Acknowledgment, Receiver, Segment, Sender};
use paceline_units::{Duration, Instant};

use crate::agenda::Agenda;
use crate::flow::{Flow, Packet, Seen, Stage};
use crate::host::Host;
use crate::journal::Journal;
use crate::script::Script;
use paceline_experiment::{Change, seed_of};

/// What comes back to a sender.
enum Reply {
    SynAck,
    Ack(Acknowledgment),
}

impl Reply {
    fn ack(&mut self) -> Option<&mut Acknowledgment> {
        match self {
            Self::SynAck => None,
            Self::Ack(ack) => Some(ack),
        }
    }
}

/// The way back of all flows with the same delay: uncongested, in order.
pub(crate) struct Lane {
    pub delay: Duration,
    /// Whether the data of its flows goes beside the path's own link.
    beside: bool,
    last_arrival: Instant,
    queue: VecDeque<(Instant, u32, Reply)>,
}

impl Lane {
    pub fn new(delay: Duration, beside: bool) -> Self {
        Self {
            delay,
            beside,
            last_arrival: Instant::ZERO,
            queue: VecDeque::new(),
        }
    }

    fn next_arrival(&self) -> Instant {
        self.queue.front().map_or(Instant::MAX, |entry| entry.0)
    }
}

/// The ways back of all flows.
pub(crate) struct Ways {
    pub lanes: Vec<Lane>,
    /// The path's base RTT, for changes of it.
    pub rtt: Duration,
    /// Replies set out at multiples of this.
    pub slot: Duration,
}

/// Who may be due: the numbers order simultaneous events. What the scenario
/// changes comes first, the sampler sees the state after everything else.
struct Sources {
    links: usize,
    lanes: usize,
    flows: usize,
    hosts: usize,
}

#[derive(Clone, Copy)]
enum Source {
    Script,
    Link(usize),
    Lane(usize),
    Sender(usize),
    Receiver(usize),
    /// The NIC of a flow's sender, by the number of its host.
    Egress(usize),
    /// The stack of its receiver, likewise.
    Ingress(usize),
    Sampler,
}

impl Sources {
    const SCRIPT: usize = 0;
    const LINKS: usize = 1;

    fn link(&self, link: usize) -> usize {
        Self::LINKS + link
    }

    fn count(&self) -> usize {
        self.sampler() + 1
    }

    fn lane(&self, lane: usize) -> usize {
        self.lanes_from() + lane
    }

    fn sender(&self, flow: usize) -> usize {
        self.ends_from() + 2 * flow
    }

    fn receiver(&self, flow: usize) -> usize {
        self.sender(flow) + 1
    }

    fn egress(&self, host: usize) -> usize {
        self.hosts_from() + 2 * host
    }

    fn ingress(&self, host: usize) -> usize {
        self.egress(host) + 1
    }

    fn sampler(&self) -> usize {
        self.hosts_from() + 2 * self.hosts
    }

    fn lanes_from(&self) -> usize {
        Self::LINKS + self.links
    }

    fn ends_from(&self) -> usize {
        self.lanes_from() + self.lanes
    }

    fn hosts_from(&self) -> usize {
        self.ends_from() + 2 * self.flows
    }

    fn of(&self, number: usize) -> Source {
        let (lanes, ends, hosts) = (self.lanes_from(), self.ends_from(), self.hosts_from());
        if number == Self::SCRIPT {
            Source::Script
        } else if number < lanes {
            Source::Link(number - Self::LINKS)
        } else if number < ends {
            Source::Lane(number - lanes)
        } else if number >= self.sampler() {
            Source::Sampler
        } else if number >= hosts {
            let end = number - hosts;
            if end.is_multiple_of(2) {
                Source::Egress(end / 2)
            } else {
                Source::Ingress(end / 2)
            }
        } else {
            let end = number - ends;
            if end.is_multiple_of(2) {
                Source::Sender(end / 2)
            } else {
                Source::Receiver(end / 2)
            }
        }
    }
}

/// How far a world has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub events: u64,
    /// Data packets offered to the bottleneck.
    pub packets: u64,
}

/// Everything that moves.
pub(crate) struct World {
    pub now: Instant,
    pub flows: Vec<Flow>,
    /// The path's own link, then the others.
    pub links: Vec<Link<Packet>>,
    pub journal: Journal,
    pub tally: Tally,
    ways: Ways,
    script: Script,
    agenda: Agenda,
    sources: Sources,
    /// The flows that have hosts, by the numbers of these.
    hosted: Vec<usize>,
    seed: u64,
}

/// Why a world stopped before its end.
#[derive(Debug)]
pub(crate) struct Stuck;

impl World {
    /// Events at one instant beyond which something must be wrong.
    const MOST_AT_ONCE: u64 = 100_000_000;

    pub fn new(
        flows: Vec<Flow>,
        links: Vec<Link<Packet>>,
        ways: Ways,
        script: Script,
        journal: Journal,
        seed: u64,
    ) -> Self {
        let sources = Sources {
            links: links.len(),
            lanes: ways.lanes.len(),
            flows: flows.len(),
            hosts: flows.iter().filter(|flow| flow.host.is_some()).count(),
        };
        let hosted = (0..flows.len()).filter(|index| flows[*index].host.is_some());
        let hosted = hosted.collect();
        let mut agenda = Agenda::new(sources.ends_from(), sources.count());
        agenda.set(Sources::SCRIPT, script.next());
        agenda.set(sources.sampler(), Instant::ZERO);
        for (index, flow) in flows.iter().enumerate() {
            agenda.set(sources.sender(index), flow.next_timer());
        }
        Self {
            now: Instant::ZERO,
            flows,
            links,
            journal,
            tally: Tally::default(),
            ways,
            script,
            agenda,
            sources,
            hosted,
            seed,
        }
    }

    /// Runs until `end` or for about `events` more events; true when `end` is reached.
    pub fn run(&mut self, end: Instant, events: u64) -> Result<bool, Stuck> {
        let pause = self.tally.events.saturating_add(events);
        let mut at_once = 0;
        while self.tally.events < pause {
            let (due, number) = self.agenda.next();
            if due > end {
                self.now = end;
                return Ok(true);
            }
            at_once = if due > self.now { 0 } else { at_once + 1 };
            if at_once > Self::MOST_AT_ONCE {
                return Err(Stuck);
            }
            self.now = due;
            self.tally.events += 1;
            match self.sources.of(number) {
                Source::Script => self.follow_script(),
                Source::Link(link) => self.link_arrives(link),
                Source::Lane(lane) => self.reply_arrives(lane),
                Source::Sender(flow) => self.sender_due(flow),
                Source::Receiver(flow) => self.receiver_due(flow),
                Source::Egress(host) => self.egress_due(self.hosted[host]),
                Source::Ingress(host) => self.ingress_due(self.hosted[host]),
                Source::Sampler => self.sample(),
            }
        }
        Ok(false)
    }

    /// A link's head reaches its far end: the next link, or the receiver.
    fn link_arrives(&mut self, number: usize) {
        if let Some(packet) = self.links[number].arrive(self.now) {
            match self.flows[packet.flow as usize].plan.after(number) {
                None => self.deliver(&packet),
                Some(next) => {
                    let verdict = self.links[next].enqueue(self.now, packet);
                    self.journal.forwarded(self.now, &packet, verdict);
                    self.link_due(next);
                }
            }
        }
        self.link_due(number);
    }

    /// The receiver's NIC has a packet.
    fn deliver(&mut self, packet: &Packet) {
        let index = packet.flow as usize;
        if let Some(host) = &mut self.flows[index].host {
            host.receive(self.now, *packet);
            let (number, next) = (host.number, host.next_receive());
            self.agenda.set(self.sources.ingress(number), next);
            return;
        }
        let Some(segment) = &packet.segment else {
            self.send_reply(index, Reply::SynAck);
            return;
        };
        if let Some(ack) = self.before(index, segment) {
            self.send_reply(index, Reply::Ack(ack));
        }
        if let Some(ack) = self.take(index, segment, self.now) {
            self.send_reply(index, Reply::Ack(ack));
        }
    }

    /// What the receiver's TCP says before it takes a segment.
    fn before(&mut self, index: usize, segment: &Segment) -> Option<Acknowledgment> {
        let flow = &mut self.flows[index];
        let mut ack = flow.receiver.before_segment(self.now, segment)?;
        if let Some(host) = &mut flow.host {
            host.acknowledge(self.now, &mut ack);
        }
        Some(ack)
    }

    /// The receiver's TCP takes a segment that its NIC had at `nic`.
    fn take(&mut self, index: usize, segment: &Segment, nic: Instant) -> Option<Acknowledgment> {
        let flow = &mut self.flows[index];
        self.journal.delivered(self.now, flow.id, segment);
        let before = flow.receiver.delivered();
        let waiting = flow.host.is_some() && flow.receiver.next_timer().is_some();
        let mut reply = flow.receiver.on_segment(self.now, segment);
        if let Some(host) = &mut flow.host {
            host.taken(nic, waiting);
            if let Some(ack) = &mut reply {
                host.acknowledge(self.now, ack);
            }
        }
        if flow.receiver.delivered() > before {
            flow.last_delivery = self.now;
        }
        let timer = flow.receiver.next_timer().unwrap_or(Instant::MAX);
        self.agenda.set(self.sources.receiver(index), timer);
        reply
    }

    /// A packet has come down to the sender's NIC.
    fn egress_due(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let first = flow.plan.route[0];
        let Some(host) = &mut flow.host else {
            return;
        };
        let packet = host.released(self.now);
        let (number, next) = (host.number, host.next_release());
        self.agenda.set(self.sources.egress(number), next);
        if let Some(packet) = packet {
            let verdict = self.links[first].enqueue(self.now, packet);
            self.journal.forwarded(self.now, &packet, verdict);
            self.link_due(first);
        }
    }

    /// Packets come up to the receiver's TCP, in a batch or one by one.
    fn ingress_due(&mut self, index: usize) {
        let mut last: Option<Acknowledgment> = None;
        while let Some(host) = &mut self.flows[index].host {
            let merges = host.merges();
            let Some(received) = host.received(self.now) else {
                let (number, next) = (host.number, host.next_receive());
                self.agenda.set(self.sources.ingress(number), next);
                break;
            };
            let Some(segment) = &received.packet.segment else {
                self.send_reply(index, Reply::SynAck);
                continue;
            };
            let earlier = self.before(index, segment);
            let reply = self.take(index, segment, received.nic);
            for ack in [earlier, reply].into_iter().flatten() {
                // A batch is acknowledged once, unless there is more to say than how far it goes.
                let before = last.replace(ack);
                let plain = |ack: &Acknowledgment| ack.blocks.is_empty();
                let needed = |before: &Acknowledgment| {
                    !(merges && plain(before) && plain(&ack) && before.ece == ack.ece)
                };
                if let Some(before) = before.filter(needed) {
                    self.send_reply(index, Reply::Ack(before));
                }
            }
        }
        if let Some(ack) = last {
            self.send_reply(index, Reply::Ack(ack));
        }
    }

    fn receiver_due(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let mut reply = flow.receiver.on_timer(self.now);
        let timer = flow.receiver.next_timer().unwrap_or(Instant::MAX);
        self.agenda.set(self.sources.receiver(index), timer);
        if let (Some(ack), Some(host)) = (&mut reply, &mut flow.host) {
            host.acknowledge(self.now, ack);
        }
        if let Some(ack) = reply {
            self.send_reply(index, Reply::Ack(ack));
        }
    }

    fn send_reply(&mut self, index: usize, mut reply: Reply) {
        let flow = &mut self.flows[index];
        let number = flow.plan.lane;
        let lane = &mut self.ways.lanes[number];
        let mut host = flow.host.as_mut();
        let release = match &mut host {
            Some(host) => host.hold(self.now, reply.ack()),
            None => self.now,
        };
        let nic = next_slot(release, self.ways.slot) + lane.delay;
        lane.last_arrival = match &mut host {
            Some(host) => host.hand_up(nic, lane.last_arrival, reply.ack()),
            None => lane.last_arrival.max(nic),
        };
        lane.queue
            .push_back((lane.last_arrival, index as u32, reply));
        if lane.queue.len() == 1 {
            self.agenda
                .set(self.sources.lane(number), lane.last_arrival);
        }
    }

    fn reply_arrives(&mut self, number: usize) {
        let lane = &mut self.ways.lanes[number];
        let Some((_, flow, reply)) = lane.queue.pop_front() else {
            return;
        };
        self.agenda
            .set(self.sources.lane(number), lane.next_arrival());
        let index = flow as usize;
        match &reply {
            Reply::SynAck => self.establish(index),
            Reply::Ack(ack) => {
                let Stage::Open(sender) = &mut self.flows[index].stage else {
                    return;
                };
                self.journal.acknowledged(self.now, flow, ack);
                sender.on_ack(self.now, ack);
            }
        }
        self.transmit(index);
    }

    /// The handshake is complete.
    fn establish(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let Stage::Opening { sent, tries } = flow.stage else {
            return;
        };
        // Karn: a repeated SYN measures nothing.
        let rtt = (tries == 1).then(|| self.now.since(sent));
        let config = Config {
            mss: flow.plan.sender.mss,
            initial_window: flow.plan.sender.initial_window,
            seed: seed_of(self.seed, index as u64),
            now: self.now,
            srtt: rtt,
        };
        let controller = flow.plan.controller.build(&config);
        let mut sender_config = flow.plan.sender;
        if tries > 1 {
            // RFC 6298 5.7: the SYN's timeout showed that one second is too short.
            sender_config.initial_rto = sender_config.initial_rto.max(Duration::from_secs(3));
        }
        let sender = Sender::new(sender_config, controller, self.now, rtt);
        flow.seen = Seen::of(&sender);
        let phase = flow.seen.phase;
        self.journal.established(self.now, flow.id, phase);
        flow.stage = Stage::Open(Box::new(sender));
        self.entered(index, phase);
    }

    /// A sender's timer, its application, its start or its stop.
    fn sender_due(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        // Timers only move later between calls, so the agenda may be early.
        let timer = flow.next_timer();
        if timer > self.now {
            self.agenda.set(self.sources.sender(index), timer);
            return;
        }
        if flow.plan.stop.is_some_and(|stop| stop <= self.now) {
            self.journal.stopped(self.now, flow);
            flow.close();
            self.agenda.set(self.sources.sender(index), Instant::MAX);
            return;
        }
        match &mut flow.stage {
            Stage::Waiting => {
                self.journal.started(self.now, flow.id);
                flow.receiver = Receiver::new(flow.plan.receiver);
                self.send_syn(index, 1);
            }
            Stage::Opening { tries, .. } => {
                let tries = *tries + 1;
                self.send_syn(index, tries);
            }
            Stage::Open(sender) => {
                if sender.next_timer().is_some_and(|timer| timer <= self.now) {
                    sender.on_timer(self.now);
                }
            }
            Stage::Closed(_) => {}
        }
        self.agenda.set(self.sources.sender(index), Instant::MAX);
        self.transmit(index);
    }

    fn send_syn(&mut self, index: usize, tries: u32) {
        let flow = &mut self.flows[index];
        flow.stage = Stage::Opening {
            sent: self.now,
            tries,
        };
        let packet = Packet {
            flow: flow.id,
            size: flow.plan.header,
            segment: None,
        };
        let first = flow.plan.route[0];
        offer(
            self.now,
            flow.host.as_deref_mut(),
            &mut self.links[first],
            packet,
        );
        self.offered(index);
    }

    /// Lets a sender send what it may, and notes what has changed with it.
    fn transmit(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        flow.write(self.now);
        let (id, header, first) = (flow.id, flow.plan.header, flow.plan.route[0]);
        let Stage::Open(sender) = &mut flow.stage else {
            self.reschedule(index);
            return;
        };
        let mut sent = false;
        while let Some(segment) = sender.poll_transmit(self.now) {
            sent = true;
            self.tally.packets += 1;
            let packet = Packet {
                flow: id,
                size: header + segment.len,
                segment: Some(segment),
            };
            let host = flow.host.as_deref_mut();
            let verdict = offer(self.now, host, &mut self.links[first], packet);
            self.journal.sent(self.now, id, &segment, verdict);
        }
        let seen = Seen::of(sender);
        let done = sender.is_finished();
        if sent {
            self.offered(index);
        }
        self.observe(index, seen);
        if done {
            let flow = &mut self.flows[index];
            flow.finished = Some(flow.last_delivery);
            self.journal.finished(self.now, flow);
            flow.close();
        }
        self.reschedule(index);
    }

    /// A flow has offered packets: the first to see them has something to do.
    fn offered(&mut self, index: usize) {
        let flow = &self.flows[index];
        match &flow.host {
            Some(host) => {
                let (number, next) = (host.number, host.next_release());
                self.agenda.set(self.sources.egress(number), next);
            }
            None => self.link_due(flow.plan.route[0]),
        }
    }

    fn link_due(&mut self, number: usize) {
        while let Some((at, packet)) = self.links[number].next_drop() {
            self.journal.dropped(at, &packet);
        }
        let next = self.links[number].next_arrival().unwrap_or(Instant::MAX);
        self.agenda.set(self.sources.link(number), next);
    }

    /// A timer that moved later stays where it is until it fires: cheaper than to follow each ACK.
    fn reschedule(&mut self, index: usize) {
        let source = self.sources.sender(index);
        let timer = self.flows[index].next_timer();
        if timer < self.agenda.due(source) {
            self.agenda.set(source, timer.max(self.now));
        }
    }

    /// Notes changes of a sender's state, and wakes the events that wait for them.
    fn observe(&mut self, index: usize, seen: Seen) {
        let flow = &mut self.flows[index];
        let before = std::mem::replace(&mut flow.seen, seen);
        // Names are literals: the same address means the same name.
        let same_phase = std::ptr::eq(before.phase, seen.phase) || before.phase == seen.phase;
        if same_phase
            && before.ca_state == seen.ca_state
            && before.rto_count == seen.rto_count
            && before.undo_count == seen.undo_count
            && before.round_count == seen.round_count
        {
            return;
        }
        self.journal.changed(self.now, flow, &before);
        if !same_phase {
            self.entered(index, seen.phase);
        }
    }

    fn entered(&mut self, index: usize, phase: &'static str) {
        self.script.entered(self.now, index, phase);
        self.agenda.set(Sources::SCRIPT, self.script.next());
    }

    fn follow_script(&mut self) {
        while let Some(change) = self.script.pop(self.now) {
            self.apply(&change);
        }
        self.agenda.set(Sources::SCRIPT, self.script.next());
    }

    fn apply(&mut self, change: &Change) {
        self.journal.scripted(self.now, change, &self.links);
        match *change {
            Change::Link(number, change) => {
                change.apply(self.now, &mut self.links[number]);
                self.link_due(number);
            }
            Change::Rtt(rtt) => self.set_rtt(rtt),
            Change::AckAggregation(slot) => self.ways.slot = slot,
            Change::Pause(flow) => {
                self.flows[flow].application.pause(self.now);
                self.transmit(flow);
            }
            Change::Resume(flow) => {
                self.flows[flow].application.resume(self.now);
                self.transmit(flow);
            }
            Change::Workload(flow, workload) => {
                self.flows[flow]
                    .application
                    .set_workload(self.now, workload);
                self.transmit(flow);
            }
        }
    }

    /// Half of a change goes to the path's link, half to the ways back, or all to these where
    /// the data does not cross that link.
    fn set_rtt(&mut self, rtt: Duration) {
        let (old_there, new_there) = (self.ways.rtt / 2, rtt / 2);
        let (old_back, new_back) = (self.ways.rtt - old_there, rtt - new_there);
        let there = self.links[0].delay() + new_there - old_there;
        self.links[0].set_delay(self.now, there);
        self.link_due(0);
        for lane in &mut self.ways.lanes {
            lane.delay = match lane.beside {
                false => lane.delay + new_back - old_back,
                true => lane.delay + rtt - self.ways.rtt,
            };
        }
        self.ways.rtt = rtt;
    }

    fn sample(&mut self) {
        self.journal.sample(self.now, &self.flows, &mut self.links);
        let next = self.now + self.journal.interval();
        self.agenda.set(self.sources.sampler(), next);
    }

    /// The record, with a last row at the very end.
    pub fn finish(mut self) -> Run {
        if self.agenda.due(self.sources.sampler()) != self.now + self.journal.interval() {
            self.journal.sample(self.now, &self.flows, &mut self.links);
        }
        self.journal.finish(&self.flows)
    }
}

/// A packet leaves its sender: for the first link, or for the host before it.
fn offer(
    now: Instant,
    host: Option<&mut Host>,
    link: &mut Link<Packet>,
    packet: Packet,
) -> Verdict {
    match host {
        Some(host) => {
            host.release(now, packet);
            Verdict::Queued
        }
        None => link.enqueue(now, packet),
    }
}
