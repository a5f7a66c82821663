//! Captures of TCP: each direction of a connection that carried data is a flow, reconstructed from
//! its packets as tcptrace does.
//!
//! A capture is read twice: first to find the connections, then for their rows.

mod copies;
mod file;
mod follow;
mod sizes;

use std::collections::HashMap;

use paceline_record::{EventKind, EventRow, PacketKind, PacketRow, Run, SampleRow};
use paceline_units::{Bytes, Duration, Instant};
use serde_json::json;

use crate::build::{Build, FlowSummary, PACKETS, counted, interval};
use crate::error::CaptureError;
use crate::frame::{End, Frame};
use crate::source::{Format, Source};
use crate::tcp::Tcp;
use file::Read;
use follow::{Connection, Data, Side, Vantage};

/// The maximum number of tracked connections; packets of further ones are only counted.
const CONNECTIONS: usize = 100_000;
/// Maximum number of flows in the record; the largest are kept.
const FLOWS: usize = 500;
/// A direction that carries less than one part in this many of the other consists of requests or
/// acknowledgments of a program.
const SMALL: u64 = 100;

/// The connections of a capture, in the order of their first packet.
#[derive(Default)]
struct Connections {
    all: Vec<Connection>,
    places: HashMap<(End, End), usize>,
    /// When the first packet was captured, since 1970.
    epoch: Option<u64>,
    latest: Instant,
    backwards: u64,
    datagrams: u64,
    fragments: u64,
    short: u64,
    other: u64,
    beyond: u64,
}

/// A segment: its connection, the side that sent it, and the identification of its packet.
struct Segment {
    place: usize,
    from: usize,
    tcp: Tcp,
    id: Option<u16>,
}

impl Connections {
    /// The time of a frame since the first; time does not run backwards.
    fn time(&mut self, nanos: u64) -> Instant {
        let epoch = *self.epoch.get_or_insert(nanos);
        let at = Instant::from_nanos(nanos.saturating_sub(epoch));
        self.backwards += u64::from(at < self.latest);
        self.latest = self.latest.max(at);
        self.latest
    }

    /// How often packets do not follow each other as they are sent.
    fn oddities(&self) -> u64 {
        let sides = self.all.iter().flat_map(|one| &one.sides);
        sides.map(Side::oddities).sum()
    }

    /// The connection of a packet, and its content; `known` are the same connections, of which
    /// everything has passed.
    fn segment(&mut self, packet: Frame, known: Option<&Self>) -> Option<Segment> {
        let (from, to, tcp, id) = match packet {
            Frame::Segment(from, to, tcp, id) => (from, to, tcp, id),
            other => {
                let count = match other {
                    Frame::Datagram => &mut self.datagrams,
                    Frame::Fragment => &mut self.fragments,
                    Frame::Short => &mut self.short,
                    _ => &mut self.other,
                };
                *count += 1;
                return None;
            }
        };
        let key = if from <= to { (from, to) } else { (to, from) };
        let place = match self.places.get(&key).copied() {
            Some(place)
                if !self
                    .all
                    .get(place)
                    .is_some_and(|connection| connection.is_over(from, &tcp)) =>
            {
                place
            }
            _ if self.all.len() >= CONNECTIONS => {
                self.beyond += 1;
                return None;
            }
            _ => {
                let known = known.and_then(|known| known.all.get(self.all.len()));
                self.all.push(Connection::new(from, to, known));
                self.places.insert(key, self.all.len() - 1);
                self.all.len() - 1
            }
        };
        let from = usize::from(self.all.get(place)?.ends[0] != from);
        Some(Segment {
            place,
            from,
            tcp,
            id,
        })
    }
}

/// A direction of a connection that is a flow of the record.
struct Chosen {
    connection: usize,
    side: usize,
    start: Instant,
    end: Instant,
    vantage: Vantage,
}

/// Reads a capture.
pub fn read(source: &Source<'_>) -> Result<Run, CaptureError> {
    let (mut survey, mut stats) = follow_all(source, false)?;
    let mut disordered = survey.backwards;
    if disordered > 0 {
        source.check()?;
        // Queues write packets late, and clocks are set: the order in which packets fit together.
        let sorted = follow_all(source, true)?;
        if sorted.0.oddities() <= survey.oddities() {
            (survey, stats) = sorted;
        } else {
            disordered = 0;
        }
    }
    source.check()?;
    let (chosen, small) = choose(&survey);
    if chosen.is_empty() {
        return Err(CaptureError::empty(nothing(&survey, &stats)));
    }
    let summaries: Vec<FlowSummary> = chosen.iter().map(|flow| flow.summary(&survey)).collect();
    let active = chosen.iter().map(|flow| flow.end.since(flow.start));
    let interval = interval(active);
    let duration = survey.latest.since(Instant::ZERO);
    let duration = duration.max(Duration::from_millis(1));
    let mut build = Build::new(source, Format::Pcap, &summaries, duration, interval);
    let with_packets = stats.frames <= PACKETS;
    build.notes = notes(&survey, &stats, small, disordered);
    build.notes.extend(of_flows(&survey, &chosen));
    if !with_packets {
        build.notes.push(format!(
            "the table of packets is left out: {} are too many",
            stats.frames
        ));
    }
    let mut rows = Rows::new(build, &chosen, with_packets);
    let mut follow = Connections::default();
    file::packets(source, disordered > 0, |nanos, packet| {
        let now = follow.time(nanos);
        if !rows
            .build
            .sample_until(now, |flow, after| row(&chosen, &follow, flow, after))
        {
            return false;
        }
        if let Some(segment) = follow.segment(packet, Some(&survey))
            && let Some(connection) = follow.all.get_mut(segment.place)
        {
            let data = connection.on_segment(now, segment.from, &segment.tcp, segment.id);
            rows.on_segment(now, &segment, &data, connection);
        }
        true
    })?;
    source.check()?;
    let mut build = rows.build;
    build.sample_until(survey.latest + interval, |flow, after| {
        row(&chosen, &follow, flow, after)
    });
    let flows = chosen.iter();
    let waited = flows
        .filter(|flow| flow.vantage == Vantage::Between)
        .filter_map(|flow| Some(follow.all.get(flow.connection)?.sides[flow.side].waited));
    build.notes.extend(counted(&[(
        "echoes of timestamps that may have waited for data, left out of RTTs",
        waited.sum(),
    )]));
    if let Some(cut) = &stats.cut {
        build.cut(survey.latest, cut);
    }
    let epoch = json!(survey.epoch.unwrap_or(0));
    Ok(build.finish(&summaries, Some(("captured_ns", epoch))))
}

/// Follows every connection of a capture to its end.
fn follow_all(source: &Source<'_>, sorted: bool) -> Result<(Connections, Read), CaptureError> {
    let mut survey = Connections::default();
    let stats = file::packets(source, sorted, |nanos, packet| {
        let now = survey.time(nanos);
        if let Some(segment) = survey.segment(packet, None)
            && let Some(connection) = survey.all.get_mut(segment.place)
        {
            connection.on_segment(now, segment.from, &segment.tcp, segment.id);
        }
        true
    })?;
    let sides = survey.all.iter_mut().flat_map(|one| &mut one.sides);
    sides.for_each(Side::settle);
    Ok((survey, stats))
}

/// The directions that are flows, in the order of their starts; and how many are left out because
/// they carried too little.
fn choose(survey: &Connections) -> (Vec<Chosen>, usize) {
    let mut small = 0;
    let mut chosen = Vec::new();
    for (place, connection) in survey.all.iter().enumerate() {
        for side in 0..2 {
            let [this, other] = [&connection.sides[side], &connection.sides[1 - side]];
            if this.carried() == 0 {
                continue;
            }
            if this.carried() < other.carried() / SMALL {
                small += 1;
                continue;
            }
            let (Some(start), Some(end)) = (this.first, this.last) else {
                continue;
            };
            chosen.push(Chosen {
                connection: place,
                side,
                start,
                end,
                vantage: this.vantage(),
            });
        }
    }
    let carried = |flow: &Chosen| {
        let connection = survey.all.get(flow.connection);
        connection.map_or(0, |one| one.sides[flow.side].carried())
    };
    if chosen.len() > FLOWS {
        chosen.sort_by_key(|flow| std::cmp::Reverse(carried(flow)));
        small += chosen.len() - FLOWS;
        chosen.truncate(FLOWS);
    }
    chosen.sort_by_key(|flow| (flow.start, flow.connection, flow.side));
    (chosen, small)
}

impl Chosen {
    fn summary(&self, survey: &Connections) -> FlowSummary {
        let Some(connection) = survey.all.get(self.connection) else {
            return FlowSummary::default();
        };
        let side = &connection.sides[self.side];
        let [from, to] = [self.side, 1 - self.side].map(|end| connection.ends[end]);
        let name = |(address, port): End| match address {
            std::net::IpAddr::V4(address) => format!("{address}:{port}"),
            std::net::IpAddr::V6(address) => format!("[{address}]:{port}"),
        };
        FlowSummary {
            label: format!("{} to {}", name(from), name(to)),
            cc: None,
            start: self.start,
            last: self.end,
            finished: side.finished,
            base_rtt: connection
                .handshake
                .into_iter()
                .chain(side.least_rtt())
                .min(),
            mss: side.full(),
            goodput: side.goodput(),
            counters: vec![
                ("sent_packets", side.packets.sent),
                ("retransmitted_packets", side.packets.again),
            ],
        }
    }
}

/// Why a capture gives no flow.
fn nothing(survey: &Connections, stats: &Read) -> String {
    if stats.frames == 0 {
        return "the capture has no packet".to_owned();
    }
    if stats.timeless == stats.frames {
        return format!(
            "the capture has {} simple packet blocks, which have no time: capture again with enhanced packet blocks",
            stats.frames
        );
    }
    if stats.foreign == stats.frames {
        return "the capture is of a kind of link that is not read".to_owned();
    }
    let udp = match survey.datagrams {
        0 => String::new(),
        count => format!("; {count} are UDP, of which only a qlog tells more"),
    };
    format!("none of {} packets is of TCP with data{udp}", stats.frames)
}

/// Data that the record lacks or shows differently.
fn notes(survey: &Connections, stats: &Read, small: usize, disordered: u64) -> Vec<String> {
    let sides = || survey.all.iter().flat_map(|connection| &connection.sides);
    let unseen = survey.all.iter().map(Connection::unseen).sum();
    let copies = sides().map(|side| side.copies.count).sum();
    let reordered = sides().map(|side| side.reordered).sum();
    let late = survey.all.iter().filter(|connection| !connection.opened);
    let late = late.count() as u64;
    let counts = [
        ("acknowledged bytes that are not in the capture", unseen),
        ("packets that the capture says it dropped", stats.missed),
        (
            "packets captured more than once, of which the first counts",
            copies,
        ),
        ("packets out of order", reordered),
        (
            "connections open before the capture began, whose bytes count from there",
            late,
        ),
        (
            "directions left out because they carried little",
            small as u64,
        ),
        ("UDP packets", survey.datagrams),
        ("fragments", survey.fragments),
        ("packets cut within their headers", survey.short),
        ("packets of neither TCP nor UDP", survey.other),
        ("simple packet blocks, which have no time", stats.timeless),
        (
            "packets of interfaces that the file does not describe",
            stats.nowhere,
        ),
        (
            "packets of connections beyond the first 100,000",
            survey.beyond,
        ),
        (
            "packets that were not in order of time in the file, and were sorted",
            disordered,
        ),
        (
            "packets earlier than the one before, taken as if at its time",
            survey.backwards,
        ),
    ];
    let mut notes = counted(&counts);
    notes.push("a packet counts as lost when it is sent again".to_owned());
    notes
}

/// What differs in some flows of the record.
fn of_flows(survey: &Connections, chosen: &[Chosen]) -> Vec<String> {
    let sides = || {
        let all = chosen.iter();
        all.filter_map(|flow| Some((flow, &survey.all.get(flow.connection)?.sides[flow.side])))
    };
    let merged = |sized: bool| {
        let of = sides().filter(|(_, side)| side.is_sized() == sized);
        of.map(|(_, side)| side.packets.merged).sum()
    };
    let silent = sides().filter(|(_, side)| !side.is_answered()).count();
    let far = sides().filter(|(flow, _)| flow.vantage == Vantage::Receiver);
    counted(&[
        (
            "segments that offload merged, counted as packets of the size that the SYNs announce",
            merged(true),
        ),
        (
            "segments that offload merged, counted as packets of the size that fits most of them, without a SYN",
            merged(false),
        ),
        (
            "flows without acknowledgments in the capture, whose goodput is the bytes seen",
            silent as u64,
        ),
        (
            "flows captured at their receiver, it seems, without timestamps: only a handshake tells their RTT",
            far.count() as u64,
        ),
    ])
}

/// Converts packets into rows of a record.
struct Rows<'a> {
    build: Build<'a>,
    /// The flow of each direction of a connection.
    flows: HashMap<(usize, usize), u32>,
    with_packets: bool,
}

impl<'a> Rows<'a> {
    fn new(build: Build<'a>, chosen: &[Chosen], with_packets: bool) -> Self {
        let flows = (0..).zip(chosen);
        Self {
            flows: flows
                .map(|(number, flow)| ((flow.connection, flow.side), number))
                .collect(),
            build,
            with_packets,
        }
    }

    fn on_segment(
        &mut self,
        now: Instant,
        segment: &Segment,
        data: &Data,
        connection: &Connection,
    ) {
        let Segment {
            place, from, tcp, ..
        } = segment;
        let own = self.flows.get(&(*place, *from)).copied();
        let other = self.flows.get(&(*place, 1 - from)).copied();
        if let Some(flow) = own.filter(|_| self.with_packets) {
            let end = |start: u64| start + u64::from(tcp.len);
            let parts = match data {
                Data::Copy => return,
                Data::None => &[],
                Data::New(start) => &[(*start, end(*start), false)][..],
                Data::Again(start) => &[(*start, end(*start), true)][..],
                Data::Mixed(parts) => parts,
            };
            for (from, to, again) in parts {
                let kind = match again {
                    true => PacketKind::Retransmit,
                    false => PacketKind::Send,
                };
                let row = PacketRow::new(now, flow, kind, *from, to - from);
                self.build.packet(row);
            }
        }
        if *data == Data::Copy {
            return;
        }
        if let Some(flow) = other {
            let side = &connection.sides[1 - from];
            if self.with_packets && !tcp.syn {
                for row in side.tracker.ack_rows(now, flow, tcp) {
                    self.build.packet(row);
                }
            }
            if side.finished == Some(now) {
                self.build
                    .event(EventRow::new(now, Some(flow), EventKind::Finish));
            }
        }
        if tcp.rst {
            for flow in own.into_iter().chain(other) {
                let mut row = EventRow::new(now, Some(flow), EventKind::Error);
                row.detail = "RST".into();
                self.build.event(row);
            }
        }
    }
}

/// The known state of a flow, with an RTT that was measured after a time.
fn row(chosen: &[Chosen], follow: &Connections, flow: usize, after: Option<Instant>) -> SampleRow {
    let side = chosen.get(flow).and_then(|flow| {
        let connection = follow.all.get(flow.connection)?;
        Some((&connection.sides[flow.side], flow.vantage))
    });
    let Some((side, vantage)) = side else {
        return SampleRow::default();
    };
    SampleRow {
        in_flight_bytes: Bytes::new(side.tracker.in_flight()),
        rtt_ns: side.rtt(vantage, after),
        min_rtt_ns: side.least(vantage),
        goodput_bytes: Bytes::new(side.goodput()),
        delivered_bytes: Bytes::new(side.delivered()),
        sent_packets: side.packets.sent,
        lost_packets: side.packets.again,
        retransmitted_packets: side.packets.again,
        ..SampleRow::default()
    }
}
