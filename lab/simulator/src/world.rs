//! One world in virtual time: flows, a bottleneck, the return paths, and the next event.

mod ahead;
mod exchange;

use paceline_experiment::{
    Change, Choice, Fault, LinkChange, Memory, Plan, Progress, Unbalanced, audit, seed_of,
};
use paceline_path::Link;
use paceline_record::{RecordMemory, Recorder, Run};
use paceline_recovery::{Acknowledgment, PlainAck, SackBlocks, Segment};
use paceline_scenario::LinkKey;
use paceline_units::{Duration, Field, Gain, Instant, Rate};

use crate::agenda::Agenda;
use crate::carried::Carried;
use crate::flow::{Flow, Snapshot, Stage, each_flow, offer};
use crate::foreign::{Defect, Side, Stack, Stacks};
use crate::halt::Halt;
use crate::host::Host;
use crate::journal::Journal;
use crate::lanes::{Head, Lanes, Reply};
use crate::packet::{Load, Packet};
use crate::schedule::Schedule;
use crate::sources::{Source, Sources};

/// The random stream of the first flow's hosts; the others' streams have lower numbers.
const HOST_STREAM: u64 = u64::MAX - 2;

/// What a world counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub events: u64,
    /// Data packets offered to the bottleneck.
    pub packets: u64,
}

/// Everything that moves.
pub(crate) struct World {
    pub now: Instant,
    pub tally: Tally,
    /// Length of the run.
    total: Duration,
    memory: Memory,
    /// Times that somebody asked for the progress.
    looks: u64,
    flows: Vec<Flow>,
    /// The path's own link, then the others, then the return directions.
    links: Vec<Link<Packet>>,
    /// The return direction of the path's own.
    back: Option<usize>,
    lanes: Lanes,
    /// The replies on links, by flow, if there are any.
    replies: Vec<Carried<Reply>>,
    journal: Journal,
    schedule: Schedule,
    agenda: Agenda,
    sources: Sources,
    /// The flows with hosts, by host number.
    hosted: Vec<usize>,
    seed: u64,
    /// Work that may be done before the caller is asked: each event, each packet sent or served
    /// again, and each row of the samples counts as one.
    allowance: i64,
    /// Number of events at this instant so far.
    at_once: u64,
    /// The flow of another transport that cannot continue, and why.
    defect: Option<(u32, Defect)>,
}

/// The sender takes a reply; false if it is no acknowledgment, or the connection has ended.
#[inline(always)]
fn acknowledge(now: Instant, journal: &mut Journal, flow: &mut Flow, head: &Head<'_>) -> bool {
    match (head, &mut flow.stage) {
        (Head::Plain(ack), Stage::Open(sender)) => {
            if journal.packets() {
                journal.acknowledged(now, flow.id, &ack.with(SackBlocks::default()));
            }
            sender.on_plain_ack(now, ack);
            flow.returned(now, ack.sent);
        }
        (Head::Other(Reply::Ack(ack)), Stage::Open(sender)) => {
            journal.acknowledged(now, flow.id, ack);
            sender.on_ack(now, ack);
            flow.returned(now, ack.sent);
        }
        _ => return false,
    }
    true
}

impl World {
    /// The number of events at one instant beyond which something must be wrong.
    const MOST_AT_ONCE: u64 = 100_000_000;

    /// A world at time zero; `choices` are the controllers, flow by flow. Guest controllers report
    /// errors to `fault`.
    pub fn new(plan: Plan<'_>, choices: Vec<Choice>, stacks: &Stacks, fault: &Fault) -> Self {
        let (scenario, seed) = (plan.scenario, plan.seed);
        let memory = Memory {
            fixed: plan.fixed_memory(),
            ..Memory::default()
        };
        let mut links: Vec<Link<Packet>> = plan.build_links();
        let replies_cross = plan.flows.iter().any(|flow| !flow.back.is_empty());
        if !stacks.0.is_empty() || replies_cross {
            // Datagrams of other transports, and replies, are released when they are lost.
            links.iter_mut().for_each(Link::tell_drops);
        }
        let copied = |change: &Change| {
            matches!(
                change,
                Change::Link(_, LinkChange::Key(LinkKey::Duplicate(_)))
            )
        };
        let copies = plan
            .links
            .iter()
            .any(|link| link.link.duplicate > Gain::default())
            || plan.script.changes().any(copied);
        let with_replies = plan.flows.iter().filter(|_| replies_cross);
        let replies = with_replies.map(|_| Carried::new(copies)).collect();
        let stack_of: Vec<Option<Stack>> = each_flow(scenario)
            .map(|group| Some(stacks.0.get(&group)?.clone().over(copies)))
            .collect();
        // The state of our controllers inside another transport is not visible.
        let fields: Vec<Vec<Field>> = (choices.iter().zip(&stack_of))
            .map(|(choice, stack)| match choice {
                Choice::Ours(_) if stack.is_some() => Vec::new(),
                choice => choice.fields(),
            })
            .collect();
        let mut hosted = Vec::new();
        let mut flows = Vec::with_capacity(plan.flows.len());
        let parts = plan.flows.into_iter().zip(choices).zip(stack_of);
        for (index, ((plan, choice), stack)) in parts.enumerate() {
            let host = plan.group.host.clone().map(|section| {
                hosted.push(index);
                let seed = seed_of(seed, HOST_STREAM - index as u64);
                Box::new(Host::new(hosted.len() - 1, section, seed))
            });
            flows.push(Flow::new(
                index as u32,
                plan,
                choice,
                host,
                stack,
                fault.clone(),
            ));
        }
        if !scenario.run.record.packets {
            ahead::enable(&plan.script, &mut flows, &mut links);
        }
        let path = &scenario.path;
        let lanes = Lanes::new(plan.ways, path.rtt);
        let schedule = Schedule::new(plan.script);
        let sources = Sources {
            links: links.len(),
            lanes: lanes.len(),
            flows: flows.len(),
            hosts: hosted.len(),
        };
        let mut agenda = Agenda::new(sources.ends_from(), sources.count());
        agenda.set(Sources::SCRIPT, schedule.next());
        agenda.set(sources.sampler(), Instant::ZERO);
        for (index, flow) in flows.iter().enumerate() {
            agenda.set(sources.sender(index), flow.next_timer());
        }
        Self {
            now: Instant::ZERO,
            tally: Tally::default(),
            total: scenario.run.duration,
            memory,
            looks: 0,
            journal: Journal::new(plan.info, &fields, &scenario.run.record),
            flows,
            links,
            back: scenario.return_number(0),
            lanes,
            replies,
            schedule,
            agenda,
            sources,
            hosted,
            seed,
            allowance: 0,
            at_once: 0,
            defect: None,
        }
    }

    /// Runs until `end` or for about this much `work`; true when `end` is reached.
    pub fn run(&mut self, end: Instant, work: i64) -> Result<bool, Halt> {
        self.allowance = work;
        let mut at_once = self.at_once;
        while self.allowance > 0 {
            let (due, number) = self.agenda.next();
            if due > end {
                self.now = end;
                return Ok(true);
            }
            at_once = if due > self.now { 0 } else { at_once + 1 };
            if at_once > Self::MOST_AT_ONCE {
                return Err(Halt::Stuck);
            }
            self.now = due;
            self.tally.events += 1;
            self.allowance -= 1;
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
        self.at_once = at_once;
        match &self.defect {
            Some((flow, defect)) => Err(Halt::Defective(*flow, defect.clone())),
            None => Ok(false),
        }
    }

    /// A flow of our transport, by its number.
    pub fn flow(&self, index: usize) -> Option<&Flow> {
        self.flows.get(index)
    }

    /// Applies a decision that a flow's controller made without an event, and sends what it allows.
    pub fn decided(&mut self, index: usize) {
        if let Some(Stage::Open(sender)) = self.flows.get_mut(index).map(|flow| &mut flow.stage) {
            sender.decided();
            self.transmit(index);
        }
    }

    /// The progress of the run, whose stacks have written `qlog` bytes.
    pub fn progress(&mut self, qlog: u64) -> Progress {
        // Rows are counted each time; packets in flight only so often that looking at all flows
        // costs almost nothing.
        let parts = self.flows.len() + self.links.len() + self.lanes.len();
        let seldom = 1 + parts as u64 / 16;
        if self.looks.is_multiple_of(seldom) {
            let flows = self.flows.iter().map(Flow::memory);
            let links = self.links.iter().map(Link::memory);
            let replies = self.replies.iter().map(Carried::memory).sum::<usize>();
            let replies = self.lanes.memory() + replies;
            let bytes = flows.chain(links).sum::<usize>() + replies;
            self.memory.in_flight = bytes as u64;
        }
        self.looks += 1;
        self.memory.record = RecordMemory {
            qlog,
            ..self.journal.memory()
        };
        Progress {
            passed: self.now.since(Instant::ZERO),
            total: self.total,
            packets: self.tally.packets,
            events: self.tally.events,
            memory: self.memory,
        }
    }

    /// The record so far.
    pub fn recorder(&self) -> &Recorder {
        self.journal.recorder()
    }

    /// A link's head reaches its far end: the next link, or the receiver.
    fn link_arrives(&mut self, number: usize) {
        if let Some(packet) = self.links[number].arrive(self.now) {
            match self.flows[packet.flow as usize].plan.after(number) {
                None => self.deliver(&packet),
                Some(next) => self.pass_on(next, &packet),
            }
        }
        self.link_due(number);
    }

    /// A packet on its way is offered to the next link.
    #[inline]
    fn pass_on(&mut self, link: usize, packet: &Packet) {
        let verdict = self.links[link].enqueue(self.now, *packet);
        self.forwarded(packet, verdict);
        self.joined(link);
    }

    /// A packet reaches the receiver's NIC, unless it is a reply.
    // Always inlined: a call costs every packet more than its work.
    #[inline(always)]
    fn deliver(&mut self, packet: &Packet) {
        let index = packet.flow as usize;
        if let Some(host) = &mut self.flows[index].host
            && !matches!(packet.load, Load::Reply { .. })
        {
            host.receive(self.now, *packet);
            let (number, next) = (host.number, host.next_receive());
            self.agenda.set(self.sources.ingress(number), next);
            return;
        }
        if let Load::Segment(segment) = &packet.load
            && let Some(ack) = self.flows[index].take_next(self.now, segment)
        {
            self.journal.delivered(self.now, packet.flow, segment);
            return self.answer(index, ack);
        }
        self.deliver_any(packet);
    }

    /// The receiver has taken the next segment in sequence.
    #[inline(always)]
    fn answer(&mut self, index: usize, ack: Option<PlainAck>) {
        match ack {
            Some(ack) => self.send_plain(index, &ack),
            None => self.arm_receiver(index),
        }
    }

    /// A packet reaches the end of its way: any segment, a SYN, a datagram, or a reply.
    #[inline(never)]
    fn deliver_any(&mut self, packet: &Packet) {
        let index = packet.flow as usize;
        let Load::Segment(segment) = &packet.load else {
            return self.taken(packet);
        };
        if let Some(ack) = self.flows[index].before(self.now, segment) {
            self.send_reply(index, Reply::Ack(ack));
        }
        if let Some(ack) = self.take(index, segment, self.now) {
            self.send_reply(index, Reply::Ack(ack));
        }
    }

    /// The receiver's TCP processes a segment that reached its NIC at `nic`.
    // Always inlined: a call would copy the reply once more.
    #[inline(always)]
    fn take(&mut self, index: usize, segment: &Segment, nic: Instant) -> Option<Acknowledgment> {
        let flow = &mut self.flows[index];
        self.journal.delivered(self.now, flow.id, segment);
        let reply = flow.take(self.now, segment, nic);
        self.arm_receiver(index);
        reply
    }

    /// As for a sender, a timer that moved later or was stopped remains until it fires.
    #[inline(always)]
    fn arm_receiver(&mut self, index: usize) {
        if let Some(timer) = self.flows[index].receiver.next_timer() {
            let source = self.sources.receiver(index);
            if timer < self.agenda.due(source) {
                self.agenda.set(source, timer);
            }
        }
    }

    /// A packet has reached the sender's NIC.
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
            self.pass_on(first, &packet);
        }
    }

    /// Packets reach the receiver's TCP, in a batch or one by one.
    fn ingress_due(&mut self, index: usize) {
        self.answer_due(index);
        let mut last: Option<Acknowledgment> = None;
        while let Some(host) = &mut self.flows[index].host {
            let merges = host.merges();
            let Some(received) = host.received(self.now) else {
                let (number, next) = (host.number, host.next_receive());
                self.agenda.set(self.sources.ingress(number), next);
                break;
            };
            let Load::Segment(segment) = &received.packet.load else {
                self.taken(&received.packet);
                continue;
            };
            let earlier = self.flows[index].before(self.now, segment);
            let reply = self.take(index, segment, received.nic);
            for ack in [earlier, reply].into_iter().flatten() {
                // A batch is acknowledged once, unless there is more to report than the cumulative
                // point.
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
        if matches!(flow.stage, Stage::Foreign(_)) {
            self.wake(index, Side::Receiver);
            return self.send_datagrams(index, Side::Receiver);
        }
        let reply = flow.on_receiver_timer(self.now);
        let timer = flow.receiver.next_timer().unwrap_or(Instant::MAX);
        self.agenda.set(self.sources.receiver(index), timer);
        match reply {
            Some(ack) if flow.shown.is_some() => self.insert_reply(index, Reply::Ack(ack)),
            Some(ack) => self.send_reply(index, Reply::Ack(ack)),
            None => {}
        }
    }

    /// A flow's receiver replies.
    fn send_reply(&mut self, index: usize, reply: Reply) {
        match self.flows[index].plan.back.is_empty() {
            true => self.end_reply(index, reply, false),
            false => self.send_back(index, &reply),
        }
    }

    /// The same for a plain acknowledgment; there are no hosts.
    #[inline(always)]
    fn send_plain(&mut self, index: usize, ack: &PlainAck) {
        let flow = &self.flows[index];
        if !flow.plan.back.is_empty() {
            return self.send_back(index, &Reply::Ack(ack.with(SackBlocks::default())));
        }
        let number = flow.plan.lane;
        if let Some(next) = self.lanes.send_plain(self.now, number, flow.id, ack) {
            self.agenda.set(self.sources.lane(number), next);
        }
    }

    /// A reply begins its lane, after links or without.
    #[inline(always)]
    fn end_reply(&mut self, index: usize, reply: Reply, crossed: bool) {
        let flow = &mut self.flows[index];
        let (number, host) = (flow.plan.lane, flow.host.as_deref_mut());
        let next = self
            .lanes
            .send(self.now, number, flow.id, host, reply, crossed);
        if let Some(next) = next {
            self.agenda.set(self.sources.lane(number), next);
        }
    }

    fn reply_arrives(&mut self, number: usize) {
        let Some((flow, head)) = self.lanes.head(number) else {
            return;
        };
        let index = flow as usize;
        let known = acknowledge(self.now, &mut self.journal, &mut self.flows[index], &head);
        let other = match head {
            _ if known => None,
            Head::Plain(ack) => Some(Reply::Ack(ack.with(SackBlocks::default()))),
            Head::Other(reply) => Some(*reply),
        };
        let next = self.lanes.arrived(number);
        self.agenda.set(self.sources.lane(number), next);
        if let Some(other) = other {
            self.replied(index, &other);
        }
        self.transmit(index);
    }

    /// The handshake is complete.
    fn establish(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        if flow.open(self.now, self.seed) {
            let phase = flow.snapshot.phase;
            self.journal.established(self.now, flow.id, phase);
            self.entered(index, phase);
        }
    }

    /// A sender's timer, its application, its start or its stop.
    fn sender_due(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        // Timers only move later between calls, so the agenda may be early.
        let timer = flow.next_timer();
        if timer > self.now {
            return self.agenda.set(self.sources.sender(index), timer);
        }
        if flow.plan.stop.is_some_and(|stop| stop <= self.now) {
            self.catch_up_flow(index);
            let flow = &mut self.flows[index];
            self.journal.stopped(self.now, flow);
            flow.close();
            self.agenda.set(self.sources.sender(index), Instant::MAX);
            return;
        }
        match &mut flow.stage {
            Stage::Waiting => {
                self.journal.started(self.now, flow.id);
                if !flow.start_foreign(self.now, self.seed) {
                    let syn = flow.start(self.now);
                    self.send_syn(index, syn);
                }
            }
            Stage::Opening { tries, .. } => {
                let tries = *tries + 1;
                let syn = flow.syn(self.now, tries);
                self.send_syn(index, syn);
            }
            Stage::Open(sender) => {
                let application = flow.application.next_wakeup();
                let is_due = |timer: Option<Instant>| timer.is_some_and(|timer| timer <= self.now);
                if !is_due(application) || is_due(sender.next_timer()) {
                    sender.on_timer(self.now);
                }
                self.send(index);
                let timer = self.flows[index].next_timer();
                let source = self.sources.sender(index);
                return self.agenda.set(source, timer.max(self.now));
            }
            Stage::Foreign(_) => self.wake(index, Side::Sender),
            Stage::Closed(_) => {}
        }
        self.agenda.set(self.sources.sender(index), Instant::MAX);
        self.transmit(index);
    }

    fn send_syn(&mut self, index: usize, syn: Packet) {
        let flow = &mut self.flows[index];
        let link = &mut self.links[flow.plan.route[0]];
        offer(self.now, flow.host.as_deref_mut(), link, syn);
        self.offered(index);
    }

    /// Lets a sender send as much as it may, and records its changes.
    fn transmit(&mut self, index: usize) {
        match self.flows[index].stage {
            Stage::Open(_) => {
                self.send(index);
                self.reschedule(index);
            }
            _ => self.transmit_other(index),
        }
    }

    /// The same for an open flow of ours, without changing its timer.
    fn send(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        flow.write(self.now);
        let (id, header, first) = (flow.id, flow.plan.header, flow.plan.route[0]);
        let Stage::Open(sender) = &mut flow.stage else {
            return;
        };
        let link = &mut self.links[first];
        let mut sent = 0;
        while let Some(burst) = sender.poll_burst(self.now) {
            for segment in burst {
                sent += 1;
                let packet = Packet {
                    flow: id,
                    size: header + segment.len,
                    load: Load::Segment(segment),
                };
                let host = flow.host.as_deref_mut();
                let verdict = offer(self.now, host, link, packet);
                self.journal.sent(self.now, id, &segment, verdict);
            }
        }
        let snapshot = sender.take_news().then(|| Snapshot::of(sender));
        debug_assert!(snapshot.is_some() || Snapshot::of(sender) == flow.snapshot);
        let changed = snapshot.filter(|after| *after != flow.snapshot);
        let done = sender.is_finished();
        if sent > 0 {
            self.tally.packets += sent;
            self.allowance -= sent as i64;
            self.offered(index);
        }
        if let Some(after) = changed {
            self.observe(index, after);
        }
        if done {
            self.catch_up_flow(index);
            let flow = &mut self.flows[index];
            flow.finished = Some(flow.last_delivery);
            self.journal.finished(self.now, flow);
            flow.close();
        }
    }

    /// A flow has offered packets: the first hop has something to do.
    #[inline(always)]
    fn offered(&mut self, index: usize) {
        let flow = &self.flows[index];
        match &flow.host {
            Some(host) => {
                let (number, next) = (host.number, host.next_release());
                self.agenda.set(self.sources.egress(number), next);
            }
            None => {
                let first = flow.plan.route[0];
                self.joined(first);
            }
        }
    }

    /// A link has been offered packets.
    #[inline(always)]
    fn joined(&mut self, link: usize) {
        if self.links[link].tells_ahead() {
            return self.run_ahead(link);
        }
        let due = self.agenda.due(self.sources.link(link));
        // A packet that joins others does not arrive before them.
        let joins = due < Instant::MAX && self.links[link].is_plain();
        debug_assert!(!joins || self.links[link].next_arrival() == Some(due));
        if !joins {
            self.link_due(link);
        }
    }

    #[inline(always)]
    fn link_due(&mut self, number: usize) {
        if self.links[number].tells_drops() {
            self.take_drops(number);
        }
        let next = self.links[number].next_arrival().unwrap_or(Instant::MAX);
        self.agenda.set(self.sources.link(number), next);
    }

    #[cold]
    fn take_drops(&mut self, number: usize) {
        while let Some((at, packet, cause)) = self.links[number].next_drop() {
            self.journal.dropped(at, &packet);
            self.gone(at, &packet, cause);
        }
    }

    /// A timer that moved later stays where it is until it fires: that is cheaper than to follow
    /// each ACK.
    // Always inlined: a call costs every packet more than its work.
    #[inline(always)]
    fn reschedule(&mut self, index: usize) {
        let source = self.sources.sender(index);
        let timer = self.flows[index].next_timer();
        if timer < self.agenda.due(source) {
            self.agenda.set(source, timer.max(self.now));
        }
    }

    /// Records changes of a sender's state, and schedules the events that wait for them.
    #[inline(never)]
    fn observe(&mut self, index: usize, after: Snapshot) {
        self.catch_up_flow(index);
        let flow = &mut self.flows[index];
        let before = std::mem::replace(&mut flow.snapshot, after);
        self.journal.changed(self.now, flow, &before);
        if before.phase != after.phase {
            self.entered(index, after.phase);
        }
    }

    fn entered(&mut self, index: usize, phase: &'static str) {
        self.schedule.entered(self.now, index, phase);
        self.agenda.set(Sources::SCRIPT, self.schedule.next());
    }

    fn follow_script(&mut self) {
        while let Some(change) = self.schedule.pop(self.now) {
            self.apply(&change);
        }
        self.agenda.set(Sources::SCRIPT, self.schedule.next());
    }

    fn apply(&mut self, change: &Change) {
        let rate = match change {
            Change::Link(number, _) => self.links[*number].rate(),
            _ => Rate::ZERO,
        };
        self.journal.scripted(self.now, change, rate);
        match *change {
            Change::Link(number, change) => {
                self.allowance -= self.links[number].held() as i64;
                change.apply(self.now, &mut self.links[number]);
                self.link_due(number);
            }
            Change::Rtt(rtt) => {
                let delays = self.lanes.set_rtt(rtt);
                let back = self.back.map(|number| (number, delays.back));
                for (number, delay) in std::iter::once((0, delays.link)).chain(back) {
                    self.allowance -= self.links[number].held() as i64;
                    self.links[number].set_delay(self.now, delay);
                    self.link_due(number);
                }
            }
            Change::App(flow, _) => {
                change.steer(self.now, &mut self.flows[flow].application);
                self.transmit(flow);
            }
        }
    }

    fn sample(&mut self) {
        self.allowance -= (self.flows.len() + self.links.len()) as i64;
        self.catch_up_all();
        self.journal.sample(self.now, &self.flows, &mut self.links);
        let next = self.now + self.journal.interval();
        self.agenda.set(self.sources.sampler(), next);
    }

    /// The record up to now, marked incomplete for this reason.
    pub fn stop(mut self, why: &str) -> Result<Run, Unbalanced> {
        self.journal.stop(self.now, why);
        self.finish()
    }

    /// The record, with a last row at the very end, if the packet counts of every link balance.
    pub fn finish(mut self) -> Result<Run, Unbalanced> {
        self.catch_up_all();
        audit(&self.recorder().info().links, &self.links)?;
        if self.agenda.due(self.sources.sampler()) != self.now + self.journal.interval() {
            self.journal.sample(self.now, &self.flows, &mut self.links);
        }
        Ok(self.journal.finish(&self.flows))
    }
}
