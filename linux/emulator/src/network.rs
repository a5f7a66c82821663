//! The path in real time: packets from one device to the other, through the scenario's links.

mod programs;
mod rows;
mod script;
mod talks;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

use paceline_capture::{Tcp, Tracker};
use paceline_experiment::{Change, Plan, Unbalanced, audit};
use paceline_path::{DropCause, Header, Link, Verdict};
use paceline_record::PacketKind;
use paceline_tcp::packet::{self, Kind};
use paceline_units::{Duration, Instant};
use rustix::event::{PollFd, PollFlags};

use self::talks::Talks;
use crate::busy::{Busy, RateError};
use crate::host::Shared;
use crate::log::Log;
use crate::sys;
use crate::tun::Tun;

/// A packet on its way.
#[derive(Clone)]
pub struct Frame {
    flow: u32,
    /// Its number among the datagrams of its flow; none for TCP, whose packets have a position in
    /// the stream.
    number: Option<u64>,
    /// Whether its flow's receiver sent it, and links bring it back.
    reply: bool,
    bytes: Box<[u8]>,
}

impl paceline_path::Packet for Frame {
    fn size(&self) -> u32 {
        self.bytes.len() as u32
    }

    fn mark(&mut self) -> bool {
        packet::mark(&mut self.bytes)
    }

    fn flow(&self) -> u64 {
        u64::from(self.flow)
    }

    fn is_l4s(&self) -> bool {
        packet::is_l4s(&self.bytes)
    }
}

/// A return path: uncongested, in order.
struct Lane {
    delay: Duration,
    last: Instant,
    queue: VecDeque<(Instant, Frame)>,
}

/// Data delivered to a receiver and not acknowledged yet.
#[derive(Clone, Copy, Debug, Default)]
struct Unacked {
    packets: u32,
    /// When it got the second packet, which has to be acknowledged at once (RFC 9293 3.8.6.3).
    since: Option<Instant>,
}

impl Unacked {
    fn on_data(&mut self, now: Instant) {
        self.packets += 1;
        if self.packets == 2 {
            self.since = Some(now);
        }
    }

    /// The time until the acknowledgment.
    fn on_ack(&mut self, now: Instant) -> Option<Duration> {
        std::mem::take(self).since.map(|since| now.since(since))
    }
}

/// The path of a run.
pub struct Network<'a> {
    plan: &'a Plan<'a>,
    senders: &'a Tun,
    receivers: &'a Tun,
    /// Where programs' servers are, unless they are at the host of senders.
    gate: Option<&'a Tun>,
    hosts: &'a Shared<'a>,
    links: Vec<Link<Frame>>,
    /// When each link was last offered a packet: time does not run backwards there.
    offered: Vec<Instant>,
    lanes: Vec<Lane>,
    trackers: Vec<Tracker>,
    unacked: Vec<Unacked>,
    /// When receivers want to be called although nothing arrives.
    wakes: Vec<Instant>,
    /// Number of datagrams that each flow has sent.
    datagrams: Vec<u64>,
    script: std::iter::Peekable<std::slice::Iter<'a, (Instant, Change)>>,
    interval: Duration,
    end: Instant,
    /// When it last ran.
    latest: Instant,
    next_sample: Instant,
    /// The path's own link.
    busy: Busy,
    /// The links of programs.
    talks: Option<Talks>,
    /// The observations.
    pub log: Log,
}

/// Number of rows for which room is reserved.
const ROWS: usize = 1 << 20;

/// The maximum number of packets taken from a device before others have their turn.
const BATCH: usize = 32;

impl<'a> Network<'a> {
    /// The path of a run, at its start.
    pub fn new(
        plan: &'a Plan<'a>,
        (senders, receivers): (&'a Tun, &'a Tun),
        hosts: &'a Shared<'a>,
    ) -> Self {
        let mut links = plan.build_links();
        if plan.flows.iter().any(|flow| !flow.back.is_empty()) {
            // Each ACK that does not come back is counted.
            links.iter_mut().for_each(Link::tell_drops);
        }
        let path = &plan.scenario.path;
        let lane = |delay| Lane {
            delay,
            last: Instant::ZERO,
            queue: VecDeque::new(),
        };
        let lanes = plan.ways.delays(path.rtt).lanes;
        let interval = plan.info.sample_interval;
        let rows = plan.info.duration.as_nanos() / interval.as_nanos().max(1) + 2;
        let rows = usize::try_from(rows).unwrap_or(0) * links.len();
        // A session of programs may end long before its limit.
        let rows = rows.min(ROWS);
        Self {
            plan,
            senders,
            receivers,
            gate: None,
            hosts,
            offered: vec![Instant::ZERO; links.len()],
            links,
            lanes: lanes.into_iter().map(lane).collect(),
            trackers: plan.flows.iter().map(|_| Tracker::default()).collect(),
            unacked: plan.flows.iter().map(|_| Unacked::default()).collect(),
            wakes: vec![Instant::MAX; plan.flows.len()],
            datagrams: vec![0; plan.flows.len()],
            script: plan.script.timed.iter().peekable(),
            interval,
            end: Instant::ZERO + plan.info.duration,
            latest: Instant::ZERO,
            next_sample: Instant::ZERO,
            busy: Busy::default(),
            talks: None,
            log: Log {
                queues: Vec::with_capacity(rows),
                acks: vec![[0; 3]; plan.flows.len()],
                ..Log::default()
            },
        }
    }

    /// Runs to the scenario's end, or until `tick`, which is called at each sample, says that the
    /// run is over. Returns when it ended.
    pub fn run(&mut self, mut tick: impl FnMut(Instant, u64) -> bool) -> io::Result<Instant> {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        loop {
            self.follow_script();
            self.release()?;
            self.take(&mut buffer)?;
            let now = self.now();
            self.wake_receivers(now);
            if now >= self.next_sample.min(self.end) {
                self.sample(now.min(self.end));
                // How late the kernel may have been in passing packets on.
                for flow in 0..self.plan.flows.len() {
                    self.receive(now, flow);
                }
                if tick(now, self.log.offered) {
                    self.end = self.end.min(now);
                }
                self.next_sample = Instant::ZERO
                    + self.interval * (now.as_nanos() / self.interval.as_nanos().max(1) + 1);
            }
            if now >= self.end {
                return Ok(self.end);
            }
            let next = self.next_due().min(self.next_sample).min(self.end);
            let now = self.now();
            if next > now {
                let (wait, poll) = (next.since(now), |tun| PollFd::new(tun, PollFlags::IN));
                let (senders, receivers) = (self.senders, self.receivers);
                self.hosts.clock.expect(next);
                match self.gate {
                    None => sys::poll([senders, receivers].map(poll), wait).map(drop)?,
                    Some(gate) => {
                        sys::poll([senders, receivers, gate].map(poll), wait).map(drop)?
                    }
                }
                self.update_time(next);
            }
        }
    }

    fn now(&mut self) -> Instant {
        self.update_time(self.latest)
    }

    /// The time, after a sleep until `planned` at most. After a time in which the path could not
    /// run, it continues from where it stopped.
    fn update_time(&mut self, planned: Instant) -> Instant {
        let clock = self.hosts.clock;
        let (now, stall) = clock.read(self.latest.max(planned));
        if let Some(stall) = stall {
            self.log.stalls.add(stall);
            self.log.stalled += stall;
        }
        self.latest = now;
        now
    }

    /// The next time at which something is due that no packet announces.
    fn next_due(&mut self) -> Instant {
        let script = self.script.peek().map_or(Instant::MAX, |(at, _)| *at);
        let links = self.links.iter().filter_map(Link::next_arrival);
        let lanes = self.lanes.iter();
        let lanes = lanes.filter_map(|lane| lane.queue.front().map(|entry| entry.0));
        let wakes = self.wakes.iter().copied();
        links.chain(lanes).chain(wakes).fold(script, Instant::min)
    }

    /// A receiver processes the packets handed to it.
    fn receive(&mut self, now: Instant, flow: usize) {
        let next = self.hosts.receive(now, flow);
        if let Some(wake) = self.wakes.get_mut(flow) {
            *wake = next;
        }
    }

    fn wake_receivers(&mut self, now: Instant) {
        for flow in 0..self.wakes.len() {
            if self.wakes.get(flow).is_some_and(|wake| *wake <= now) {
                self.receive(now, flow);
            }
        }
    }

    /// Passes on what is due: the earliest first, so that each link is offered packets in their
    /// order, each at the time planned for it instead of the time of this call.
    fn release(&mut self) -> io::Result<()> {
        let now = self.now();
        loop {
            let links = self.links.iter().enumerate();
            let links = links.filter_map(|(number, link)| Some((link.next_arrival()?, number)));
            let Some((due, number)) = links.min().filter(|(due, _)| *due <= now) else {
                break;
            };
            let frame = self.links.get_mut(number).and_then(|link| link.arrive(due));
            if number == 0 {
                self.released();
            }
            self.emit_drops(number);
            let Some(frame) = frame else {
                continue;
            };
            let talks = self.talks.as_ref();
            if talks.is_some_and(|talks| talks.owns(frame.flow)) {
                self.deliver_program(due, &frame)?;
                continue;
            }
            let flow = self.plan.flows.get(frame.flow as usize);
            let next = flow.and_then(|flow| match frame.reply {
                true => flow.back_after(number),
                false => flow.after(number),
            });
            match next {
                Some(next) => self.offer(due, next, frame),
                None if frame.reply => self.begin_lane(due, frame),
                None => self.deliver(due, &frame)?,
            }
        }
        for number in 0..self.lanes.len() {
            let due = |lane: &mut Lane| {
                lane.queue.front().filter(|(due, _)| *due <= now)?;
                lane.queue.pop_front()
            };
            while let Some((due, frame)) = self.lanes.get_mut(number).and_then(due) {
                self.acknowledge(due, &frame)?;
            }
        }
        Ok(())
    }

    /// Data reaches its receiver.
    fn deliver(&mut self, due: Instant, frame: &Frame) -> io::Result<()> {
        let now = self.now();
        self.late(now.since(due));
        let flow = frame.flow as usize;
        let is_segment = Tcp::read(&frame.bytes).is_some_and(|tcp| tcp.len > 0);
        if let (true, Some(unacked)) = (is_segment, self.unacked.get_mut(flow)) {
            unacked.on_data(now);
        }
        if is_segment || frame.number.is_some() {
            self.record_delivery(now, frame);
        }
        write(self.receivers, &frame.bytes)?;
        self.receive(now, flow);
        Ok(())
    }

    /// An ACK reaches its sender.
    fn acknowledge(&mut self, due: Instant, frame: &Frame) -> io::Result<()> {
        let now = self.now();
        self.late(now.since(due));
        let flow = frame.flow as usize;
        if let (Some(tcp), Some(tracker)) = (Tcp::read(&frame.bytes), self.trackers.get_mut(flow)) {
            tracker.on_ack(now, &tcp);
            if let (Some(rtt), Some(connection)) = (tracker.rtt(), self.hosts.connections.get(flow))
            {
                connection.rtt.store(rtt.as_nanos(), Relaxed);
            }
            self.record_ack(now, frame.flow, &tcp);
        }
        write(self.senders, &frame.bytes)
    }

    /// A packet has arrived from the path's own link, or would have but for a loss on the way: it
    /// left the link one propagation delay ago.
    fn released(&mut self) {
        let now = self.now();
        if let Some(link) = self.links.first() {
            let counters = link.counters();
            let gone = counters.delivered.bytes + counters.dropped_random.bytes;
            let total = (gone - counters.duplicated.bytes).get();
            let capacity = |at| link.capacity(at);
            self.busy.left(now, link.delay(), total, capacity);
        }
    }

    /// Whether the packet counts of every link balance.
    pub fn audit(&self) -> Result<(), Unbalanced> {
        audit(&self.plan.info.links, &self.links)
    }

    /// The error of the rate of the path's own link while it was busy.
    pub fn rate_error(&self) -> Option<RateError> {
        self.busy.error()
    }

    fn late(&mut self, lateness: Duration) {
        self.log.lateness.add(lateness);
    }

    /// Takes the packets that the hosts have sent.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.drain(self.senders, buffer, |path, now, bytes| {
            if !path.take_program(now, true, bytes) {
                match packet::classify(bytes, true) {
                    Kind::Tcp(flow) | Kind::Udp(flow) => path.take_data(now, flow, bytes),
                    Kind::Probe(sent) => path.probed(now, sent),
                    Kind::Other => {}
                }
            }
        })?;
        if let Some(gate) = self.gate {
            self.drain(gate, buffer, |path, now, bytes| {
                path.take_program(now, true, bytes);
            })?;
        }
        self.drain(self.receivers, buffer, |path, now, bytes| {
            if !path.take_program(now, false, bytes) {
                match packet::classify(bytes, false) {
                    Kind::Tcp(flow) | Kind::Udp(flow) => path.take_ack(now, flow, bytes),
                    Kind::Probe(sent) => path.probed(now, sent),
                    Kind::Other => {}
                }
            }
        })
    }

    /// Takes the packets of a device, up to a batch.
    fn drain(
        &mut self,
        device: &Tun,
        buffer: &mut [u8],
        mut each: impl FnMut(&mut Self, Instant, &[u8]),
    ) -> io::Result<()> {
        for _ in 0..BATCH {
            let Some(length) = device.read(buffer)? else {
                break;
            };
            let now = self.now();
            each(self, now, buffer.get(..length).unwrap_or_default());
        }
        Ok(())
    }

    fn probed(&mut self, now: Instant, sent: u64) {
        let sent = self.hosts.clock.of(Instant::from_nanos(sent));
        self.log.ingest.add(now.since(sent));
    }

    fn take_data(&mut self, now: Instant, flow: u32, bytes: &[u8]) {
        let Some(plan) = self.plan.flows.get(flow as usize) else {
            return;
        };
        let Some(first) = plan.route.first().copied() else {
            return;
        };
        self.log.offered += 1;
        let index = flow as usize;
        let mut number = None;
        if let (Some(tcp), Some(tracker)) = (Tcp::read(bytes), self.trackers.get_mut(index)) {
            let again = tracker.on_data(now, &tcp) > 0;
            self.record_data(now, flow, &tcp, again);
        } else if let Some(sent) = self.datagrams.get_mut(index) {
            number = Some(*sent);
            *sent += 1;
        }
        let frame = Frame {
            flow,
            number,
            reply: false,
            bytes: bytes.into(),
        };
        if number.is_some() {
            self.record(now, PacketKind::Send, &frame);
        }
        self.offer(now, first, frame);
    }

    /// A link is offered a packet.
    fn offer(&mut self, now: Instant, number: usize, frame: Frame) {
        let copy = (self.records_packets() || frame.reply).then(|| frame.clone());
        let payload = || (frame.flow, packet::payload(&frame.bytes));
        let program = self.talks.is_some().then(payload);
        let (Some(link), Some(last)) = (self.links.get_mut(number), self.offered.get_mut(number))
        else {
            return;
        };
        let now = now.max(*last);
        *last = now;
        let idle = number == 0 && link.backlog(now).packets == 0;
        let before = carried(link);
        // Both directions of a flow never share a link.
        let header = |frame: &Frame| Header::read(&frame.bytes, frame.flow.into());
        let verdict = link.enqueue_read(now, frame, header);
        if idle && carried(link) > before {
            self.busy.begin(now, before);
        }
        if let Verdict::Dropped(cause) = verdict {
            self.dropped(now, program, copy.as_ref(), cause);
        }
        self.emit_drops(number);
    }

    /// Packets that a queue dropped after accepting them.
    fn emit_drops(&mut self, number: usize) {
        while let Some((at, frame, cause)) = self.links.get_mut(number).and_then(Link::next_drop) {
            let program = Some((frame.flow, packet::payload(&frame.bytes)));
            self.dropped(at, program, Some(&frame), cause);
        }
    }

    /// The path drops a packet: `program` is its flow, and its payload.
    fn dropped(
        &mut self,
        at: Instant,
        program: Option<(u32, u64)>,
        frame: Option<&Frame>,
        cause: DropCause,
    ) {
        if let (Some(talks), Some((flow, 1..))) = (&mut self.talks, program) {
            talks.dropped(flow);
        }
        match frame {
            Some(frame) if frame.reply => {
                let (count, kind) = match cause {
                    DropCause::Filtered => (2, PacketKind::AckFilter),
                    _ => (1, PacketKind::AckDrop),
                };
                if let Some(acks) = self.log.acks.get_mut(frame.flow as usize) {
                    acks[count] += 1;
                }
                self.record_ack_loss(at, kind, frame);
            }
            Some(frame) => self.record(at, PacketKind::Drop, frame),
            None => {}
        }
    }

    /// An ACK enters its return path.
    fn take_ack(&mut self, now: Instant, flow: u32, bytes: &[u8]) {
        let unacked = self.unacked.get_mut(flow as usize);
        if let Some(time) = unacked.and_then(|unacked| unacked.on_ack(now)) {
            self.log.answers.add(time);
        }
        let frame = Frame {
            flow,
            number: None,
            reply: true,
            bytes: bytes.into(),
        };
        let plan = self.plan.flows.get(flow as usize);
        let Some(first) = plan.and_then(|plan| plan.back.first()) else {
            return self.begin_lane(now, frame);
        };
        if let Some(acks) = self.log.acks.get_mut(flow as usize) {
            acks[0] += 1;
        }
        self.offer(now, *first, frame);
    }

    /// The rest of an ACK's way.
    fn begin_lane(&mut self, now: Instant, frame: Frame) {
        let lane = self.plan.flows.get(frame.flow as usize);
        let lane = lane.map(|flow| flow.lane);
        if let Some(lane) = lane.and_then(|lane| self.lanes.get_mut(lane)) {
            lane.last = (now + lane.delay).max(lane.last);
            lane.queue.push_back((lane.last, frame));
        }
    }
}

/// Wire bytes that a link has carried, or will have carried when its present packets have left,
/// including lost ones.
fn carried(link: &Link<Frame>) -> u64 {
    let counters = link.counters();
    let refused = counters.dropped().bytes - counters.dropped_random.bytes;
    (counters.offered.bytes - refused).get()
}

/// Passes a packet to a host. A packet that the host cannot accept at the moment (ENOBUFS, EAGAIN)
/// is lost there, as with a real NIC.
fn write(device: &Tun, bytes: &[u8]) -> io::Result<()> {
    match device.write(bytes) {
        Err(error) if is_passing(&error) => Ok(()),
        result => result,
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_packet_is_answered_at_once() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut unacked = Unacked::default();
        unacked.on_data(at(1));
        // A first packet may wait for the delayed ACK.
        assert_eq!(unacked.on_ack(at(30)), None);
        for ms in [31, 33, 34] {
            unacked.on_data(at(ms));
        }
        assert_eq!(unacked.on_ack(at(38)), Some(Duration::from_millis(5)));
        assert_eq!(unacked.on_ack(at(39)), None);
    }
}
