//! Converts the guest's log to a record.

use std::collections::VecDeque;

use paceline_capture::{Tcp, Tracker};
use paceline_experiment::{Change, LinkChange, Plan, change_rows};
use paceline_record::{EventKind, EventRow, PacketKind, PacketRow, QueueRow};
use paceline_scenario::LinkSection;
use paceline_tcp::packet::{Kind, classify, is_marked};
use paceline_tcp::settings::{counter, is_bbr};
use paceline_tcp::{Flow, Observations, Rows, decode};
use paceline_units::{AckFilter, Bytes, Instant, Rate};

use crate::script::is_up;
use crate::wire::{IDLE_ROUND, QUERIES, Record, Report};

/// The results of a run.
#[derive(Debug, Default)]
pub struct Results {
    pub outcome: Observations,
    /// How busy the guest's processor was: over the run, and in the busiest second.
    pub busy: f64,
    pub busiest: f64,
    /// A command of the script that failed: its place, the system's error number.
    pub failed_command: Option<(u64, i32)>,
}

/// A flow as reported in its log records.
#[derive(Default)]
struct FlowState {
    /// Its sender is on the receivers' host.
    up: bool,
    rows: Rows,
    tracker: Tracker,
    goodput: u64,
    finished: Option<Instant>,
    error: Option<String>,
    acks: Acks,
}

/// The ACKs of a flow on its way back, which keeps their order.
#[derive(Default)]
struct Acks {
    /// Whether a link with an ACK filter is on it.
    filtered: bool,
    /// The IP identification of each that neither arrived nor is known to be gone, and whether it
    /// can only be lost.
    on_way: VecDeque<(u16, bool)>,
    /// As in [`Flow::acks`].
    counts: [u64; 3],
}

impl Acks {
    /// A packet of the receiver at the capture of that number.
    fn on_packet(&mut self, capture: u16, at_sender: bool, packet: &[u8]) {
        let number = packet.get(4..).and_then(|rest| rest.first_chunk());
        let number = number.map_or(0, |number| u16::from_be_bytes(*number));
        let place = self.on_way.iter().position(|(other, _)| *other == number);
        match (capture, place) {
            (BETWEEN, place) => {
                if let Some((_, lost)) = place.and_then(|place| self.on_way.get_mut(place)) {
                    *lost = true;
                }
            }
            (_, Some(place)) if at_sender => {
                for (_, lost) in self.on_way.drain(..=place).take(place) {
                    self.counts[if lost { 1 } else { 2 }] += 1;
                }
            }
            // A second copy.
            (_, None) if at_sender => {}
            _ => {
                self.counts[0] += 1;
                self.on_way.push_back((number, !self.filtered));
            }
        }
    }
}

/// The capture between the queues and the losses.
const BETWEEN: u16 = 2;

/// The counters of a queueing discipline (gnet_stats of linux/gen_stats.h).
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    bytes: u64,
    packets: u64,
    waiting: u64,
    backlog: u64,
    drops: u64,
    marks: u64,
}

/// Reads the whole log.
pub fn read(plan: &Plan<'_>, mut log: &[u8]) -> Results {
    let mut results = Results::default();
    let filters = |link| plan.scenario.link_keys(link).ack_filter != AckFilter::Off;
    let state = |flow| FlowState {
        up: is_up(flow),
        acks: Acks {
            filtered: flow.back.iter().any(|link| filters(*link)),
            ..Acks::default()
        },
        ..FlowState::default()
    };
    let mut flows: Vec<FlowState> = plan.flows.iter().map(state).collect();
    let mut counts = [Counters::default(); QUERIES];
    let mut idle = Idle::default();
    let mut queues = Queues::new(plan);
    let mut probes = None;
    while let Some(record) = Record::take(&mut log) {
        let at = Instant::from_nanos(record.at);
        let number = u32::from(record.number);
        let mut event = |kind| {
            let row = EventRow::new(at, Some(number), kind);
            results.outcome.events.push(row)
        };
        let flow = flows.get_mut(usize::from(record.number));
        match (Report::of(record.kind), flow) {
            (Some(Report::Start), _) => event(EventKind::Start),
            (Some(Report::Established), _) => event(EventKind::Established),
            (Some(Report::Stop), _) => event(EventKind::Stop),
            (Some(Report::Finish), Some(flow)) => {
                event(EventKind::Finish);
                flow.finished = Some(at);
            }
            (Some(Report::Broken), Some(flow)) => {
                let error = std::io::Error::from_raw_os_error(code(record.body));
                let row = EventRow::new(at, Some(number), EventKind::Error);
                let row = row.between("", error.to_string());
                results.outcome.events.push(row);
                flow.error = Some(error.to_string());
            }
            (Some(Report::Sample), Some(flow)) => {
                sample(plan, &record, flow, &mut results.outcome);
            }
            (Some(Report::Reply), _) => {
                let link = usize::from(record.number) / QUERIES;
                let place = usize::from(record.number) % QUERIES;
                counts[place] = counters(record.body);
                // A row of each link, once the last is there.
                if place + 1 == QUERIES {
                    let row = queues.row(at, link, &counts);
                    if link == 0 {
                        results.outcome.packets_offered = row.offered_packets;
                    }
                    results.outcome.queues.push(row);
                }
            }
            (Some(Report::Packet), _) => {
                let shows = plan.scenario.run.record.packets;
                let rows = shows.then_some(&mut results.outcome.packets);
                packet(&record, &mut flows, rows);
            }
            (Some(Report::CommandFailed), _) => {
                results.failed_command = Some((record.at, code(record.body)))
            }
            (Some(Report::Idle), _) => idle.at(record.at, long(record.body, 0)),
            (Some(Report::Counters), _) => {
                let table = String::from_utf8_lossy(record.body);
                let here = counter(&table, "TcpExt:", "TCPLossProbes");
                probes = probes.map_or(here, |others: u64| Some(others + here?));
            }
            _ => {}
        }
    }
    results.outcome.tlp_count = probes;
    results.outcome.events.extend(queues.events);
    results.outcome.events.sort_by_key(|event| event.t_ns);
    results.outcome.packets.sort_by_key(|packet| packet.t_ns);
    (results.busy, results.busiest) = idle.busy();
    let flow = |(number, state): (u32, FlowState)| Flow {
        totals: state
            .rows
            .totals(number, Bytes::new(state.goodput), state.finished),
        acks: Some(state.acks.counts),
        error: state.error,
        ..Flow::default()
    };
    results.outcome.flows = (0..).zip(flows).map(flow).collect();
    results
}

fn sample(plan: &Plan<'_>, record: &Record<'_>, state: &mut FlowState, outcome: &mut Observations) {
    let Some(flow) = plan.flows.get(usize::from(record.number)) else {
        return;
    };
    let lengths = [8, 10].map(|at| usize::from(half(record.body, at)));
    let rest = record.body.get(12..).unwrap_or_default();
    let Some((info, rest)) = rest.split_at_checked(lengths[0]) else {
        return;
    };
    let own = rest.get(..lengths[1]).unwrap_or_default();
    let (mut sample, counts) = decode(info, own, is_bbr(flow), flow.mss);
    state.goodput = long(record.body, 0);
    sample.row.t_ns = Instant::from_nanos(record.at);
    sample.row.flow = u32::from(record.number);
    sample.row.goodput_bytes = Bytes::new(state.goodput);
    sample.row.rtt_ns = state.tracker.rtt();
    outcome.events.extend(state.rows.next(&mut sample, counts));
    outcome.samples.push(sample);
}

/// A captured packet: it gives RTT samples, and has rows if packets are recorded.
fn packet(record: &Record<'_>, flows: &mut [FlowState], rows: Option<&mut Vec<PacketRow>>) {
    const ETHERNET: usize = 14;
    let at = Instant::from_nanos(record.at);
    let bytes = record.body.get(ETHERNET..).unwrap_or_default();
    let read = |from_sender| match classify(bytes, from_sender) {
        Kind::Tcp(flow) => Some((flow, Tcp::read(bytes)?)),
        Kind::Udp(_) | Kind::Probe(_) | Kind::Other => None,
    };
    let mut none = Vec::new();
    let rows = rows.unwrap_or(&mut none);
    let (down, packet) = match read(true) {
        Some(packet) => (true, Some(packet)),
        None => (false, read(false)),
    };
    let Some((number, tcp)) = packet else { return };
    let Some(state) = flows.get_mut(number as usize) else {
        return;
    };
    let at_sender = (record.number == 0) != state.up;
    if down == state.up {
        state.acks.on_packet(record.number, at_sender, bytes);
    }
    if record.number == BETWEEN {
        return;
    }
    if down != state.up {
        let kind = match at_sender {
            true => match state.tracker.on_data(at, &tcp) {
                0 => PacketKind::Send,
                _ => PacketKind::Retransmit,
            },
            false => PacketKind::Deliver,
        };
        if tcp.len > 0 {
            let start = state.tracker.start_of(&tcp);
            let row = |kind| PacketRow::new(at, number, kind, start, tcp.len.into());
            rows.push(row(kind));
            if kind == PacketKind::Deliver && is_marked(bytes) {
                rows.push(row(PacketKind::Mark));
            }
        }
    } else if at_sender {
        state.tracker.on_ack(at, &tcp);
        if !tcp.syn {
            rows.extend(state.tracker.ack_rows(at, number, &tcp));
        }
    }
}

fn half(body: &[u8], at: usize) -> u16 {
    let bytes = body.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn word(body: &[u8], at: usize) -> u32 {
    let bytes = body.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn long(body: &[u8], at: usize) -> u64 {
    let bytes = body.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn code(body: &[u8]) -> i32 {
    word(body, 0) as i32
}

/// The attributes of a message, each with its name.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(half(bytes, 0));
        let (name, value) = (half(bytes, 2), bytes.get(4..length)?);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        // The highest bit marks a nested attribute.
        Some((name & 0x7fff, value))
    })
}

/// The answer of a queueing discipline (RTM_NEWQDISC).
fn counters(message: &[u8]) -> Counters {
    const HEAD: usize = 16 + 20;
    const KIND: u16 = 1;
    const STATS2: u16 = 7;
    const BASIC: u16 = 1;
    const QUEUE: u16 = 3;
    const APP: u16 = 4;
    const PACKETS64: u16 = 8;
    let mut counters = Counters::default();
    let parts = || attributes(message.get(HEAD..).unwrap_or_default());
    let kind = parts()
        .find(|(name, _)| *name == KIND)
        .map(|(_, kind)| kind);
    // The position of the number of marks in the private statistics of each (linux/pkt_sched.h).
    let marks = match kind {
        Some(b"codel\0") => Some(24),
        Some(b"fq_codel\0") => Some(12),
        Some(b"pie\0") => Some(36),
        _ => None,
    };
    let stats = parts().filter(|(name, _)| *name == STATS2);
    for (name, value) in stats.flat_map(|(_, stats)| attributes(stats)) {
        match name {
            BASIC => {
                counters.bytes = long(value, 0);
                counters.packets = counters.packets.max(word(value, 8).into());
            }
            PACKETS64 => counters.packets = long(value, 0),
            QUEUE => {
                counters.waiting = word(value, 0).into();
                counters.backlog = word(value, 4).into();
                counters.drops = word(value, 8).into();
            }
            APP => counters.marks = marks.map_or(0, |at| word(value, at).into()),
            _ => {}
        }
    }
    counters
}

/// The rows of the bottleneck's directions.
struct Queues<'a> {
    changes: std::iter::Peekable<std::slice::Iter<'a, (Instant, Change)>>,
    links: Vec<Served>,
    events: Vec<EventRow>,
}

/// What a direction could have carried.
struct Served {
    rate: Rate,
    since: Instant,
    capacity: Bytes,
}

impl Served {
    fn until(&mut self, at: Instant) {
        self.capacity += self.rate.volume_in(at.since(self.since));
        self.since = at;
    }
}

impl<'a> Queues<'a> {
    fn new(plan: &'a Plan<'a>) -> Self {
        let served = |link: &LinkSection| Served {
            rate: link.rate,
            since: Instant::ZERO,
            capacity: Bytes::ZERO,
        };
        Self {
            changes: plan.script.timed.iter().peekable(),
            links: plan.links.iter().map(served).collect(),
            events: Vec::new(),
        }
    }

    fn row(&mut self, at: Instant, number: usize, counts: &[Counters; QUERIES]) -> QueueRow {
        while let Some((time, change)) = self.changes.next_if(|(time, _)| *time <= at) {
            let link = match change {
                Change::Link(number, _) => self.links.get_mut(*number),
                _ => self.links.first_mut(),
            };
            let Some(link) = link else { continue };
            link.until(*time);
            self.events.extend(change_rows(*time, change, link.rate));
            if let Change::Link(_, LinkChange::Rate(change)) = change {
                link.rate = change.apply(link.rate);
            }
        }
        self.links.iter_mut().for_each(|link| link.until(at));
        let served = self.links.get(number);
        let rate = served.map_or(Rate::ZERO, |link| link.rate);
        let [server, queue, way] = *counts;
        let backlog = Bytes::new(server.backlog);
        QueueRow {
            t_ns: at,
            link: number as u32,
            backlog_bytes: backlog,
            backlog_packets: server.waiting,
            delay_ns: Some(rate.time_for(backlog)),
            // The kernel does not record it: the values at the samples are used.
            peak_bytes: backlog,
            rate_bps: Some(rate).filter(|rate| !rate.is_infinite()),
            capacity_bytes: served.map_or(Bytes::ZERO, |link| link.capacity),
            delivered_bytes: Bytes::new(server.bytes),
            dropped_packets: queue.drops + way.drops,
            offered_packets: server.packets + queue.drops + server.waiting,
            marked_packets: queue.marks,
        }
    }
}

/// How busy the guest's processor was, from the rounds of its idle loop.
#[derive(Default)]
struct Idle {
    /// Times and rounds, at each sample.
    rounds_at: Vec<(u64, u64)>,
}

impl Idle {
    fn at(&mut self, time: u64, rounds: u64) {
        self.rounds_at.push((time, rounds));
    }

    /// Over the whole run, and in the busiest second.
    fn busy(&self) -> (f64, f64) {
        const SECOND: u64 = 1_000_000_000;
        let between = |from: (u64, u64), to: (u64, u64)| {
            let (time, rounds) = (to.0 - from.0, to.1.saturating_sub(from.1));
            1.0 - (rounds * IDLE_ROUND) as f64 / time.max(1) as f64
        };
        let (Some(first), Some(last)) = (self.rounds_at.first(), self.rounds_at.last()) else {
            return (0.0, 0.0);
        };
        let mut busiest: f64 = 0.0;
        let mut from = *first;
        for now in &self.rounds_at {
            if now.0 - from.0 >= SECOND {
                busiest = busiest.max(between(from, *now));
                from = *now;
            }
        }
        let all = between(*first, *last);
        (all, busiest.max(all))
    }
}

#[cfg(test)]
mod tests {
    use paceline_tcp::netlink;

    use super::*;

    fn attribute(name: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        netlink::attribute(&mut bytes, name, value);
        bytes
    }

    #[test]
    fn counters_of_codel() {
        let words = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        let basic = attribute(1, &[&9000_u64.to_le_bytes()[..], &words(&[6, 0])].concat());
        let queue = attribute(3, &words(&[2, 3000, 5, 0, 0]));
        let own = attribute(4, &words(&[1500, 1, 1, 0, 0, 0, 7, 0, 0]));
        let stats = attribute(7, &[basic, queue, own].concat());
        let message = [vec![0; 36], attribute(1, b"codel\0"), stats].concat();
        let parsed = counters(&message);
        assert_eq!((parsed.bytes, parsed.packets), (9000, 6));
        assert_eq!(
            (parsed.waiting, parsed.backlog, parsed.drops, parsed.marks),
            (2, 3000, 5, 7)
        );
        for length in 0..message.len() {
            let _ = counters(&message[..length]);
        }
    }

    #[test]
    fn a_record_of_the_guest_has_each_flows_totals() {
        let text = r#"
            schema = 1
            run.duration = "4 s"
            path.rate = "20 Mbit/s"
            path.rtt = "40 ms"
            path.queue = { kind = "droptail", size = "1 bdp" }
            [[flows]]
            cc = "cubic"
            app = { size = "1 MB" }
        "#;
        let scenario = paceline_experiment::parse(text, "test", &[]).unwrap();
        let plan = Plan::resolve(&scenario, 1, "vm").unwrap();
        let record = |report, at| Record {
            kind: report as u16,
            number: 0,
            at,
            body: &[],
        };
        let log: Vec<u8> = [
            record(Report::Start, 0),
            record(Report::Finish, 2_000_000_000),
        ]
        .iter()
        .flat_map(Record::head)
        .collect();
        let results = read(&plan, &log);
        let run = paceline_tcp::record(plan.info, &plan.flows, results.outcome, Vec::new());
        assert_eq!(run.metric("rto_count"), Some(0.0));
        let metrics = &run.flows()[0].metrics;
        let took = metrics.iter().find(|metric| metric.name == "completion_ns");
        assert_eq!(took.unwrap().value, Some(2e9));
    }

    #[test]
    fn an_ack_that_a_later_one_overtakes_is_lost_or_filtered() {
        let packet = |number: u8| [0x45, 0, 0, 52, 0xff, number];
        let counts = |filtered, packets: &[(u16, u8)]| {
            let mut acks = Acks {
                filtered,
                ..Acks::default()
            };
            for (capture, number) in packets {
                acks.on_packet(*capture, *capture == 0, &packet(*number));
            }
            acks.counts
        };
        // The second and the third do not arrive; the last may be on its way; the first has a copy.
        let sent = [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)];
        let arrived = [(0, 1), (0, 1), (0, 4)];
        assert_eq!(counts(false, &[&sent[..], &arrived].concat()), [5, 2, 0]);
        assert_eq!(counts(true, &[&sent[..], &arrived].concat()), [5, 0, 2]);
        // The third came out of the queue.
        let between = [(BETWEEN, 1), (BETWEEN, 3), (BETWEEN, 4)];
        let all = [&sent[..], &between, &arrived].concat();
        assert_eq!(counts(true, &all), [5, 1, 1]);
    }

    #[test]
    fn a_processor_is_as_busy_as_its_idle_loop_is_not() {
        let mut idle = Idle::default();
        // Two seconds, idle for three quarters and for one quarter of them.
        for (time, rounds) in [
            (0, 0),
            (1_000_000_000, 1_464_843),
            (2_000_000_000, 1_953_124),
        ] {
            idle.at(time, rounds);
        }
        let (all, busiest) = idle.busy();
        assert!(
            (all - 0.5).abs() < 1e-5 && (busiest - 0.75).abs() < 1e-5,
            "{all} {busiest}"
        );
    }
}
