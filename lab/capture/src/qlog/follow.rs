//! A connection, followed by the events of one of its ends.

use std::collections::BTreeMap;

use paceline_record::SampleRow;
use paceline_units::{Bytes, Duration, Instant, Rate};
use serde_json::Value;

use crate::build::FlowSummary;
use crate::qlog::events::{Event, number_of};
use crate::ranges::Ranges;
use crate::source::list;

/// The factor by which a time is too small if it is taken for seconds but is in milliseconds.
const SECONDS: u64 = 1000;
/// Maximum number of ranges of an acknowledgment that are processed.
const ACK_RANGES: usize = 4096;

/// The effect of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Did {
    /// Data was sent: the length of its payload, and its offset.
    Sent { at: u64, len: u64, again: bool },
    /// A packet with data was acknowledged.
    Acked { at: u64, len: u64 },
    /// Data arrived.
    Received { at: u64, len: u64 },
    /// The controller changed its state.
    State { from: String, to: String },
}

/// A packet that was sent and not yet acknowledged.
#[derive(Clone, Debug)]
struct Sent {
    when: Instant,
    size: u64,
    /// The offset of its payload in sending order, and its length.
    at: u64,
    len: u64,
    frames: Vec<(u64, u64, u64)>,
    /// Whether it has data, or its content is not known.
    of_data: bool,
    lost: bool,
}

/// The basis for counting goodput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Stream data, each byte once.
    #[default]
    Frames,
    /// Whole packets: no frame describes their content.
    Packets,
    /// Whole packets that are neither lost nor in flight: nothing says which were acknowledged.
    InFlight,
}

/// The data that one end sends, or receives.
#[derive(Clone, Debug, Default)]
struct Direction {
    packets: u64,
    bytes: u64,
    /// Bytes of stream data, each once.
    payload: u64,
    largest: u64,
    first: Option<Instant>,
    last: Option<Instant>,
    streams: BTreeMap<u64, Ranges>,
    /// Bytes of DATAGRAM frames.
    datagrams: u64,
}

impl Direction {
    fn add(&mut self, frames: &[(u64, u64, u64)]) -> u64 {
        frames
            .iter()
            .map(|(id, offset, length)| self.streams.entry(*id).or_default().add(*offset, *length))
            .sum()
    }

    fn touch(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        self.last = Some(now);
    }
}

/// A connection.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    waiting: BTreeMap<(u8, u64), Sent>,
    /// Delivered data of this end.
    sent: Direction,
    received: Direction,
    /// Bytes of stream data that were sent for the first time.
    highest: BTreeMap<u64, Ranges>,
    retransmitted: u64,
    lost: u64,
    acked_bytes: u64,
    in_flight: u64,
    packets_sent: u64,
    lost_bytes: u64,
    has_frames: bool,
    has_acks: bool,
    /// The maximum that was neither lost nor in flight.
    cleared: u64,
    /// When this end first sent, and how long it then waited for the other.
    first_sent: Option<Instant>,
    answered: Option<Duration>,
    least_rtt: Option<Duration>,
    /// The factor for times in metrics.
    scale: u64,
    pub has_metrics: bool,
    pub counting: Counting,
    reported_in_flight: Option<u64>,
    cwnd: Option<u64>,
    pacing: Option<u64>,
    rtt: Option<Duration>,
    /// When an RTT was measured last.
    measured: Option<Instant>,
    srtt: Option<Duration>,
    min_rtt: Option<Duration>,
    state: String,
    app_limited: bool,
}

impl Connection {
    /// An empty connection that counts in the way that another was found to need.
    pub fn like(other: &Self) -> Self {
        Self {
            counting: other.counting,
            scale: other.scale,
            ..Self::default()
        }
    }

    /// Bytes of DATAGRAM frames, in both directions.
    pub fn datagrams(&self) -> u64 {
        self.sent.datagrams + self.received.datagrams
    }

    /// Whether RTTs are in seconds although times are not: quinn writes them like that.
    pub fn is_in_seconds(&self) -> bool {
        self.scale > 1
    }

    /// Decides the basis of goodput once everything is known.
    pub fn settle(&mut self) {
        self.counting = match (self.has_frames, self.has_acks) {
            (true, _) => Counting::Frames,
            (false, false) if self.reported_in_flight.is_some() => Counting::InFlight,
            (false, _) => Counting::Packets,
        };
        if let (Some(answered), Some(rtt)) = (self.answered, self.least_rtt) {
            let (answered, rtt) = (answered.as_nanos(), rtt.as_nanos().saturating_mul(SECONDS));
            if answered / 3 < rtt && rtt / 3 < answered {
                self.scale = SECONDS;
                self.min_rtt = self.min_rtt.map(|rtt| rtt * SECONDS);
            }
        }
    }

    /// Bytes carried in one direction.
    pub fn carried(&self, sent: bool) -> u64 {
        let direction = if sent { &self.sent } else { &self.received };
        match (self.counting, sent) {
            (Counting::Frames, _) => direction.payload,
            (Counting::Packets, true) => self.acked_bytes,
            (Counting::InFlight, true) => self.cleared,
            (_, false) => direction.bytes,
        }
    }

    /// Whether it sent packets, and nothing says that any arrived.
    pub fn is_unanswered(&self) -> bool {
        self.packets_sent > 0 && !self.has_acks
    }

    /// The time span in which a direction was used.
    pub fn active(&self, sent: bool) -> Option<(Instant, Instant)> {
        let direction = if sent { &self.sent } else { &self.received };
        direction.first.zip(direction.last)
    }

    pub fn summary(&self, sent: bool) -> FlowSummary {
        let direction = if sent { &self.sent } else { &self.received };
        let counters = match sent {
            true => vec![
                ("sent_packets", self.packets_sent),
                ("retransmitted_packets", self.retransmitted),
                ("lost_packets", self.lost),
            ],
            false => vec![("sent_packets", direction.packets)],
        };
        FlowSummary {
            base_rtt: self.min_rtt,
            mss: u32::try_from(direction.largest).unwrap_or(u32::MAX),
            goodput: self.carried(sent),
            counters,
            ..FlowSummary::default()
        }
    }

    /// Its state, with an RTT if one was measured after a time.
    pub fn row(&self, sent: bool, after: Option<Instant>) -> SampleRow {
        let delivered = Bytes::new(self.carried(sent));
        let row = SampleRow {
            goodput_bytes: delivered,
            delivered_bytes: delivered,
            ..SampleRow::default()
        };
        if !sent {
            return SampleRow {
                sent_packets: self.received.packets,
                ..row
            };
        }
        let measured = after.is_none_or(|after| self.measured.is_some_and(|at| at > after));
        SampleRow {
            cwnd_bytes: self.cwnd.map(Bytes::new),
            in_flight_bytes: Bytes::new(self.reported_in_flight.unwrap_or(self.in_flight)),
            pacing_bps: self.pacing.map(Rate::from_bps),
            rtt_ns: self.rtt.filter(|_| measured),
            srtt_ns: self.srtt,
            min_rtt_ns: self.min_rtt,
            sent_packets: self.packets_sent,
            lost_packets: self.lost,
            retransmitted_packets: self.retransmitted,
            phase: self.state.clone().into(),
            app_limited: self.app_limited,
            ..row
        }
    }

    /// Processes an event; `unit` is the unit of times in metrics, in nanoseconds.
    pub fn on_event(&mut self, now: Instant, unit: f64, event: &Event) -> Vec<Did> {
        let data = &event.data;
        match event.name.as_str() {
            "packet_sent" => self.on_sent(now, data),
            "packet_received" => self.on_received(now, data),
            "packets_acked" => {
                let space = space(text(data, "packet_number_space"));
                let numbers = list(data, "packet_numbers");
                let numbers = numbers.iter().filter_map(|number| whole(Some(number)));
                let numbers: Vec<u64> = numbers.take(ACK_RANGES).collect();
                let acked = numbers
                    .into_iter()
                    .flat_map(|n| self.acknowledge(now, space, n, n));
                acked.collect()
            }
            "packet_lost" => {
                self.on_lost(data);
                Vec::new()
            }
            // mvfst's number of ranges.
            "packets_lost" | "loss" => {
                self.lost += whole(data.get("lost_packets")).unwrap_or(0);
                Vec::new()
            }
            "metrics_updated"
            | "recovery_metrics_updated"
            | "metric_update"
            | "congestion_metric_update" => self.on_metrics(now, unit, data),
            "congestion_state_updated" => {
                let to = text(data, "new").to_owned();
                let from = text(data, "old").to_owned();
                self.on_state(Some(from), to)
            }
            "pacing_metric_update" | "pacing_rate_updated" => {
                self.pacing = whole(data.get("pacing_rate")).or(self.pacing);
                Vec::new()
            }
            "app_limited_update" => {
                self.app_limited = match data.get("app_limited") {
                    Some(Value::Bool(limited)) => *limited,
                    Some(Value::String(word)) => word == "app_limited" || word == "app limited",
                    _ => self.app_limited,
                };
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn on_sent(&mut self, now: Instant, data: &Value) -> Vec<Did> {
        let Some(number) = number(data) else {
            return Vec::new();
        };
        self.first_sent.get_or_insert(now);
        let (size, frames) = (size(data), data_frames(data, &mut self.sent.datagrams));
        let len = frames.iter().map(|(_, _, length)| *length).sum();
        self.has_frames |= len > 0;
        let mut new = 0;
        for (id, offset, length) in &frames {
            new += self.highest.entry(*id).or_default().add(*offset, *length);
        }
        let again = len > 0 && new == 0;
        let of_data = len > 0 || list(data, "frames").is_empty();
        let at = self.sent.bytes;
        if of_data {
            self.sent.touch(now);
            self.packets_sent += 1;
            self.retransmitted += u64::from(again);
            self.sent.bytes += if len > 0 { len } else { size };
            self.sent.largest = self.sent.largest.max(if len > 0 { len } else { size });
        }
        let elicits = list(data, "frames").is_empty()
            || list(data, "frames").iter().any(|frame| {
                !["ack", "padding", "connection_close"]
                    .iter()
                    .any(|kind| is(frame, kind))
            });
        if elicits {
            self.in_flight += size;
        }
        let sent = Sent {
            when: now,
            size: if elicits { size } else { 0 },
            at,
            len,
            frames,
            of_data,
            lost: false,
        };
        // The rest need not be acknowledged.
        if elicits || of_data {
            self.waiting
                .insert((space(packet_type(data)), number), sent);
        }
        match of_data {
            true => vec![Did::Sent {
                at,
                len: if len > 0 { len } else { size },
                again,
            }],
            false => Vec::new(),
        }
    }

    fn on_received(&mut self, now: Instant, data: &Value) -> Vec<Did> {
        if let (Some(first), None) = (self.first_sent, self.answered) {
            self.answered = Some(now.since(first));
        }
        let frames = data_frames(data, &mut self.received.datagrams);
        let len = frames.iter().map(|(_, _, length)| *length).sum();
        let size = size(data);
        self.has_frames |= len > 0;
        let mut did = Vec::new();
        let nothing_named = list(data, "frames").is_empty();
        if len > 0 || nothing_named {
            self.received.touch(now);
            self.received.packets += 1;
            let length = if len > 0 { len } else { size };
            did.push(Did::Received {
                at: self.received.bytes,
                len: length,
            });
            self.received.bytes += length;
            self.received.largest = self.received.largest.max(length);
            let new = self.received.add(&frames);
            self.received.payload += new;
        }
        let space = space(packet_type(data));
        for frame in list(data, "frames") {
            if !is(frame, "ack") {
                continue;
            }
            for range in list(frame, "acked_ranges").iter().take(ACK_RANGES) {
                let bounds = range.as_array().map_or(&[][..], Vec::as_slice);
                let first = whole(bounds.first());
                let Some(first) = first.or_else(|| whole(Some(range))) else {
                    continue;
                };
                let last = whole(bounds.get(1)).unwrap_or(first);
                did.extend(self.acknowledge(now, space, first.min(last), first.max(last)));
            }
        }
        did
    }

    /// The packets with these numbers have arrived.
    fn acknowledge(&mut self, now: Instant, space: u8, first: u64, last: u64) -> Vec<Did> {
        self.has_acks = true;
        let numbers = self.waiting.range((space, first)..=(space, last));
        let numbers: Vec<_> = numbers.map(|(key, _)| *key).collect();
        let mut did = Vec::new();
        let largest = numbers.last().copied();
        for key in numbers {
            let Some(sent) = self.waiting.remove(&key) else {
                continue;
            };
            if !sent.lost {
                self.in_flight = self.in_flight.saturating_sub(sent.size);
            }
            if Some(key) == largest && sent.size > 0 {
                // Metrics that do not change are not repeated.
                self.measured = Some(now);
                if !self.has_metrics {
                    let rtt = now.since(sent.when);
                    self.rtt = Some(rtt);
                    self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
                }
            }
            self.acked_bytes += sent.size;
            self.sent.payload += self.sent.add(&sent.frames);
            if sent.of_data {
                self.sent.last = self.sent.last.map(|_| now);
            }
            if sent.len > 0 {
                did.push(Did::Acked {
                    at: sent.at,
                    len: sent.len,
                });
            }
        }
        did
    }

    fn on_lost(&mut self, data: &Value) {
        let number = number(data).or_else(|| whole(data.get("packet_nr")));
        let kind = packet_type(data);
        let kind = match kind.is_empty() {
            true => text(data, "type"),
            false => kind,
        };
        let Some(number) = number else {
            self.lost += 1;
            return;
        };
        if let Some(sent) = self.waiting.get_mut(&(space(kind), number))
            && !std::mem::replace(&mut sent.lost, true)
        {
            self.in_flight = self.in_flight.saturating_sub(sent.size);
            self.lost_bytes += sent.size;
        }
        self.lost += 1;
    }

    fn on_metrics(&mut self, now: Instant, unit: f64, data: &Value) -> Vec<Did> {
        let scale = self.scale.max(1);
        let time = |keys: &[&str]| {
            let value = keys.iter().find_map(|key| number_of(data.get(*key)))?;
            let nanos = value * unit;
            // Nine hours; stacks write the maximum number for none.
            let known = nanos > 0.0 && nanos < 3.2e13;
            known.then(|| Duration::from_nanos(nanos.round() as u64) * scale)
        };
        let amount = |keys: &[&str]| keys.iter().find_map(|key| whole(data.get(*key)));
        // Stacks write "no limit" as their maximum number.
        let finite = |value: Option<u64>| value.filter(|value| *value < u64::from(u32::MAX) * 1024);
        if !self.has_metrics {
            self.has_metrics = true;
            (self.rtt, self.min_rtt) = (None, None);
        }
        let latest = time(&["latest_rtt"]);
        self.least_rtt = self.least_rtt.into_iter().chain(latest).min();
        if latest.is_some() {
            (self.rtt, self.measured) = (latest, Some(now));
        }
        self.srtt = time(&["smoothed_rtt", "srtt"]).or(self.srtt);
        self.min_rtt = time(&["min_rtt", "mrtt"]).or(self.min_rtt);
        let window = amount(&["congestion_window", "cwnd", "current_cwnd"]);
        self.cwnd = finite(window).or(self.cwnd);
        self.pacing = amount(&["pacing_rate"]).or(self.pacing);
        self.reported_in_flight = amount(&["bytes_in_flight"]).or(self.reported_in_flight);
        let known = self.lost_bytes + self.reported_in_flight.unwrap_or(self.sent.bytes);
        let cleared = self.sent.bytes.saturating_sub(known);
        if cleared > self.cleared {
            self.cleared = cleared;
            if !self.has_acks {
                self.sent.last = self.sent.last.map(|_| now);
            }
        }
        match text(data, "state") {
            "" => Vec::new(),
            state => self.on_state(None, state.to_owned()),
        }
    }

    fn on_state(&mut self, from: Option<String>, to: String) -> Vec<Did> {
        let to: String = to.chars().filter(|c| !c.is_control()).take(60).collect();
        let before = std::mem::replace(&mut self.state, to.clone());
        if before == to {
            return Vec::new();
        }
        let from = from.unwrap_or(before);
        let from = from.chars().filter(|c| !c.is_control()).take(60).collect();
        vec![Did::State { from, to }]
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A count: neither negative nor absurdly large.
fn whole(value: Option<&Value>) -> Option<u64> {
    let exact = value?.as_u64();
    exact
        .or_else(|| {
            number_of(value)
                .filter(|number| *number >= 0.0)
                .map(|number| number as u64)
        })
        .filter(|number| *number < 1 << 62)
}

fn number(data: &Value) -> Option<u64> {
    let header = data.get("header").unwrap_or(data);
    whole(header.get("packet_number"))
}

/// Bytes of a packet on the wire, from whichever field has them.
fn size(data: &Value) -> u64 {
    let within = |key: &str, of: &str| whole(data.get(key)?.get(of));
    within("raw", "length")
        .or_else(|| within("header", "packet_size"))
        .or_else(|| whole(data.get("packet_size")))
        .or_else(|| within("header", "length"))
        .or_else(|| within("raw", "payload_length"))
        .unwrap_or(0)
        .min(1 << 24)
}

fn packet_type(data: &Value) -> &str {
    let within = data
        .get("header")
        .map_or("", |header| text(header, "packet_type"));
    match within.is_empty() {
        true => text(data, "packet_type"),
        false => within,
    }
}

/// The packet-number space of a packet (RFC 9000 section 12.3), by its type or the space's name.
fn space(kind: &str) -> u8 {
    match kind {
        "initial" | "Initial" | "INITIAL" => 0,
        "handshake" | "Handshake" | "HANDSHAKE" => 1,
        _ => 2,
    }
}

/// Whether a frame is of a type, in any spelling.
fn is(frame: &Value, kind: &str) -> bool {
    text(frame, "frame_type").eq_ignore_ascii_case(kind)
}

/// Whether a frame is an unreliable datagram, of which some stacks know only the number (RFC 9221
/// section 4).
fn is_datagram(frame: &Value) -> bool {
    let numbers = ["frame_type_value", "raw_frame_type", "frame_type_bytes"];
    let number = numbers.iter().find_map(|key| whole(frame.get(*key)));
    is(frame, "datagram") || is(frame, "unknown") && matches!(number, Some(0x30 | 0x31))
}

/// The stream that DATAGRAM frames count as: numbers of streams have 62 bits.
const DATAGRAMS: u64 = u64::MAX;

/// The data of a packet: stream, offset, length. Datagrams have no offset: they count on.
fn data_frames(data: &Value, datagrams: &mut u64) -> Vec<(u64, u64, u64)> {
    let frames = list(data, "frames").iter();
    frames
        .filter_map(|frame| {
            let raw = |key: &str| whole(frame.get("raw")?.get(key));
            let length = whole(frame.get("length"))
                .or_else(|| raw("payload_length"))
                .or_else(|| raw("length"));
            let length = length.map(|length| length.min(1 << 24));
            if is_datagram(frame) {
                let at = *datagrams;
                *datagrams += length?;
                return Some((DATAGRAMS, at, length?));
            }
            let id = whole(frame.get("stream_id")).or_else(|| whole(frame.get("id")));
            let offset = whole(frame.get("offset")).unwrap_or(0);
            is(frame, "stream").then_some((id.unwrap_or(0), offset, length?))
        })
        .collect()
}
