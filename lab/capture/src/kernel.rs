//! Turns the events that BBRv3 in the running kernel reports into a record.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;

use paceline_record::{EventKind, EventRow, Run, SampleRow};
use paceline_units::{Bytes, Duration, Field, Gain, Instant, Quantity, Rate, Value};
use serde_json::json;

use crate::build::{Build, FlowSummary, INTERVAL};
use crate::error::CaptureError;
use crate::source::Source;

/// The backend named in the record.
const NAME: &str = "kernel";
/// The controller, by the name used in simulated flows.
const CC: &str = "bbr3-linux";
/// A bound that is not set, an RTT that is not known.
const UNSET: u64 = u32::MAX as u64;
/// Packets per microsecond, in 2^-24.
const BW_SCALE: u32 = 24;
/// The part of the memory of rows that is used by waiting rows, in addition to the record made of
/// them.
const SHARE: u64 = 4;

const STATES: [&str; 4] = ["STARTUP", "DRAIN", "PROBE_BW", "PROBE_RTT"];
const PHASES: [&str; 4] = [
    "PROBE_BW_UP",
    "PROBE_BW_DOWN",
    "PROBE_BW_CRUISE",
    "PROBE_BW_REFILL",
];
const CA_STATES: [&str; 5] = ["Open", "Disorder", "CWR", "Recovery", "Loss"];

/// Declares the fields that are read from an entry, by their names in the controller's own text.
macro_rules! entry {
    ($($field:ident = $name:literal,)*) => {
        /// The fields that are read from an entry.
        #[derive(Clone, Copy, Debug, Default)]
        struct Entry { $($field: u64,)* }

        /// Their location: offset and size in bytes.
        #[derive(Clone, Copy, Debug, Default)]
        struct Places { $($field: (usize, usize),)* }

        impl Places {
            fn find(layout: &HashMap<String, (usize, usize)>) -> Result<Self, CaptureError> {
                let place = |name: &str| {
                    let offset = layout.get(name).copied();
                    offset.ok_or_else(|| CaptureError::damaged(format!("its entries have no {name}")))
                };
                Ok(Self { $($field: place($name)?,)* })
            }

            fn read(&self, entry: &[u8]) -> Entry {
                Entry { $($field: number(entry, self.$field),)* }
            }
        }
    };
}

entry! {
    at = "t_ns",
    bytes_acked = "bytes_acked",
    event = "event",
    number = "number",
    sent = "sent",
    retransmitted = "retransmitted",
    local_port = "local_port",
    remote_port = "remote_port",
    pacing_rate = "connection.pacing_rate",
    smss = "connection.smss",
    cwnd = "connection.cwnd",
    delivered = "connection.delivered",
    lost = "connection.lost",
    in_flight = "connection.inflight",
    app_limited = "connection.app_limited",
    srtt_us = "connection.srtt_us",
    min_rtt_us = "connection.min_rtt_us",
    recovery = "connection.recovery",
    rtt_us = "sample.rtt_us",
    sample_bw = "bbr.sample_bw",
    state = "bbr.state",
    phase = "bbr.phase",
    bbr_min_rtt_us = "bbr.min_rtt_us",
    pacing_gain = "bbr.pacing_gain",
    cwnd_gain = "bbr.cwnd_gain",
    max_bw_before = "bbr.max_bw[0]",
    max_bw_now = "bbr.max_bw[1]",
    bw_shortterm = "bbr.bw_shortterm",
    inflight_shortterm = "bbr.inflight_shortterm",
    inflight_longterm = "bbr.inflight_longterm",
}

/// A little-endian number of the kernel; nothing if the entry is too short.
fn number(entry: &[u8], (at, size): (usize, usize)) -> u64 {
    let bytes = entry.get(at..at.saturating_add(size.min(8)));
    let bytes = bytes.unwrap_or_default().iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The kinds of event, by the program's numbers.
const START: u64 = 0;
const END: u64 = 2;

impl Entry {
    fn bytes(&self, packets: u64) -> Bytes {
        match packets {
            UNSET => Bytes::INFINITE,
            packets => Bytes::new(packets.saturating_mul(self.smss)),
        }
    }

    fn rate(&self, bandwidth: u64) -> Rate {
        let bits = (u128::from(bandwidth) * u128::from(self.smss)).saturating_mul(8_000_000);
        match bandwidth {
            UNSET => Rate::INFINITE,
            _ => Rate::from_bps(u64::try_from(bits >> BW_SCALE).unwrap_or(u64::MAX)),
        }
    }

    /// Of the previous and of this cycle of bandwidth probes.
    fn max_bw(&self) -> u64 {
        self.max_bw_before.max(self.max_bw_now)
    }

    fn phase(&self) -> &'static str {
        let state = STATES.get(self.state as usize).copied().unwrap_or("");
        match state {
            "PROBE_BW" => PHASES.get(self.phase as usize).copied().unwrap_or(state),
            state => state,
        }
    }

    fn ca_state(&self) -> &'static str {
        CA_STATES.get(self.recovery as usize).copied().unwrap_or("")
    }

    /// A row of `samples` that excludes the time before `first`.
    fn row(&self, first: &Self) -> SampleRow {
        let since = |now: u64, then: u64| u64::from((now as u32).wrapping_sub(then as u32));
        let micros = |us: u64| (us > 0 && us < UNSET).then(|| Duration::from_micros(us));
        SampleRow {
            cwnd_bytes: Some(self.bytes(self.cwnd)),
            in_flight_bytes: self.bytes(self.in_flight),
            pacing_bps: Some(Rate::from_bps(self.pacing_rate.saturating_mul(8))),
            delivery_bps: Some(self.rate(self.sample_bw)).filter(|_| self.sample_bw > 0),
            rtt_ns: micros(self.rtt_us),
            srtt_ns: micros(self.srtt_us),
            min_rtt_ns: micros(self.min_rtt_us),
            goodput_bytes: Bytes::new(self.bytes_acked.saturating_sub(first.bytes_acked)),
            delivered_bytes: self.bytes(since(self.delivered, first.delivered)),
            sent_packets: since(self.sent, first.sent),
            lost_packets: since(self.lost, first.lost),
            retransmitted_packets: since(self.retransmitted, first.retransmitted),
            phase: self.phase().into(),
            ca_state: self.ca_state().into(),
            app_limited: self.app_limited > 0,
            ..SampleRow::default()
        }
    }
}

type Shown = (&'static str, Quantity, fn(&Entry) -> Value);

/// The controller's displayed state, by the draft's names.
const FIELDS: [Shown; 8] = [
    ("pacing_gain", Quantity::Gain, |e| gain(e.pacing_gain)),
    ("cwnd_gain", Quantity::Gain, |e| gain(e.cwnd_gain)),
    ("bw", Quantity::Rate, |e| {
        Value::Rate(e.rate(e.max_bw().min(e.bw_shortterm)))
    }),
    ("max_bw", Quantity::Rate, |e| {
        Value::Rate(e.rate(e.max_bw()))
    }),
    ("min_rtt", Quantity::Duration, |e| {
        Value::Duration(match e.bbr_min_rtt_us {
            UNSET => Duration::MAX,
            us => Duration::from_micros(us),
        })
    }),
    ("bw_shortterm", Quantity::Rate, |e| {
        Value::Rate(e.rate(e.bw_shortterm))
    }),
    ("inflight_shortterm", Quantity::Bytes, |e| {
        Value::Bytes(e.bytes(e.inflight_shortterm))
    }),
    ("inflight_longterm", Quantity::Bytes, |e| {
        Value::Bytes(e.bytes(e.inflight_longterm))
    }),
];

/// 256ths of the kernel.
fn gain(gain: u64) -> Value {
    let millionths = gain.saturating_mul(u64::from(Gain::SCALE)) / 256;
    let millionths = u32::try_from(millionths).unwrap_or(u32::MAX);
    Value::Gain(Gain::from_millionths(millionths))
}

/// A connection so far.
#[derive(Debug)]
struct Flow {
    label: String,
    /// Whether it began during the recording.
    is_new: bool,
    first: Entry,
    last: Entry,
    rto_count: u64,
    recovery_count: u64,
    ended: bool,
}

/// A record under construction: takes the entries as they arrive, and keeps the last of each
/// interval.
#[derive(Debug)]
pub struct Kernel {
    places: Places,
    remote: (usize, usize),
    family: (usize, usize),
    size: usize,
    port: Option<u16>,
    memory: u64,
    begin: u64,
    flows: BTreeMap<u64, Flow>,
    /// The entries that become rows, in order of time for each flow.
    kept: Vec<Entry>,
    events: Vec<(u64, EventRow)>,
    entries: u64,
    full: Option<u64>,
}

/// The data known at the end.
#[derive(Debug, Default)]
pub struct Ending {
    /// The record's name.
    pub name: String,
    /// The time of the recording, in the kernel's nanoseconds.
    pub at: u64,
    /// Number of events that found the buffer full.
    pub missed: u64,
    /// The release of the kernel.
    pub kernel: String,
    /// Why it ended early.
    pub incomplete: Option<String>,
}

impl Kernel {
    /// Starts a recording at a time of the kernel's, in nanoseconds, of all connections or of those
    /// with a port at either end. `layout` gives the offset and size of each field in an entry of
    /// `size` bytes.
    ///
    /// # Errors
    /// If a field is missing: the program is of another version.
    pub fn new(
        layout: &HashMap<String, (usize, usize)>,
        size: usize,
        begin: u64,
        port: Option<u16>,
        memory: u64,
    ) -> Result<Self, CaptureError> {
        let place = |name: &str| layout.get(name).copied().unwrap_or_default();
        Ok(Self {
            places: Places::find(layout)?,
            remote: place("remote"),
            family: place("family"),
            size: size.max(1),
            port,
            memory,
            begin,
            flows: BTreeMap::new(),
            kept: Vec::new(),
            events: Vec::new(),
            entries: 0,
            full: None,
        })
    }

    /// Takes entries, one after the other; false when there is no room for more.
    pub fn take(&mut self, entries: &[u8]) -> bool {
        for bytes in entries.chunks_exact(self.size) {
            if self.full.is_some() {
                return false;
            }
            let mut entry = self.places.read(bytes);
            let ports = [entry.local_port, entry.remote_port];
            if self.port.is_some_and(|port| !ports.contains(&port.into())) {
                continue;
            }
            entry.at = entry.at.saturating_sub(self.begin);
            self.entries += 1;
            self.add(entry, bytes);
        }
        true
    }

    fn add(&mut self, entry: Entry, bytes: &[u8]) {
        let flow = self.flows.entry(entry.number).or_insert_with(|| Flow {
            label: label(&entry, bytes, self.remote, self.family),
            is_new: entry.event == START,
            first: entry,
            last: entry,
            rto_count: 0,
            recovery_count: 0,
            ended: false,
        });
        let before = std::mem::replace(&mut flow.last, entry);
        let at = Instant::from_nanos(entry.at);
        let mut event = |kind, from: &'static str, to: &'static str| {
            let row = EventRow::new(at, None, kind);
            let row = match kind {
                EventKind::Rto => row,
                _ => row.between(from, to),
            };
            self.events.push((entry.number, row));
        };
        let (from, to) = (before.phase(), entry.phase());
        if from != to {
            event(EventKind::State, from, to);
        }
        let (from, to) = (before.ca_state(), entry.ca_state());
        let episode = |state: &str| !matches!(state, "Open" | "Disorder");
        if from != to && (episode(from) || episode(to)) {
            if to == "Loss" {
                flow.rto_count += 1;
                event(EventKind::Rto, from, to);
            }
            flow.recovery_count += u64::from(to == "Recovery");
            event(EventKind::Recovery, from, to);
        }
        flow.ended |= entry.event == END;
        let slot = |entry: &Entry| entry.at / INTERVAL.as_nanos();
        if slot(&before) != slot(&entry) {
            self.kept.push(before);
        }
        let bytes = self.kept.len() as u64 * (size_of::<Entry>() as u64 + ROW);
        if bytes > self.memory / SHARE {
            self.full = Some(entry.at);
        }
    }

    /// The record of the events so far.
    ///
    /// # Errors
    /// No connection was reported.
    pub fn finish(mut self, ending: &Ending) -> Result<Run, CaptureError> {
        if self.flows.is_empty() {
            return Err(CaptureError::empty("no connection sent anything meanwhile"));
        }
        let end = self.full.unwrap_or(ending.at.saturating_sub(self.begin));
        let last = self.flows.values().map(|flow| flow.last.at).max();
        let end = Instant::from_nanos(end.max(last.unwrap_or(0)));
        let mut flows: Vec<(u64, Flow)> = std::mem::take(&mut self.flows).into_iter().collect();
        flows.sort_by_key(|(number, flow)| (flow.first.at, *number));
        let numbers: HashMap<u64, u32> = flows.iter().map(|(number, _)| *number).zip(0..).collect();
        let summaries: Vec<FlowSummary> =
            flows.iter().map(|(_, flow)| summary(flow, end)).collect();
        let stop = AtomicBool::new(false);
        let source = Source::bytes(&[], &ending.name, self.memory, &stop);
        let fields: Vec<Field> = FIELDS
            .iter()
            .map(|(name, quantity, _)| Field {
                name,
                quantity: *quantity,
            })
            .collect();
        let duration = end.since(Instant::ZERO);
        let active = summaries
            .iter()
            .map(|summary| summary.last.since(summary.start));
        let interval = crate::build::interval(active);
        let mut build = Build::with_fields(&source, NAME, &summaries, duration, interval, &fields);
        let mut events = std::mem::take(&mut self.events);
        for (number, flow) in flows.iter().filter(|(_, flow)| flow.ended) {
            let kind = match flow.last.in_flight {
                0 => EventKind::Finish,
                _ => EventKind::Stop,
            };
            let at = Instant::from_nanos(flow.last.at);
            events.push((*number, EventRow::new(at, None, kind)));
        }
        events.sort_by_key(|(_, row)| row.t_ns);
        let mut events = events.into_iter().peekable();
        // The state of each flow when a row is due.
        let mut now: Vec<Entry> = flows.iter().map(|(_, flow)| flow.first).collect();
        let first = now.clone();
        self.kept.extend(flows.iter().map(|(_, flow)| flow.last));
        self.kept.sort_by_key(|entry| entry.at);
        let mut room = true;
        for entry in &self.kept {
            let at = Instant::from_nanos(entry.at);
            room = room && sample(&mut build, at, &now, &first);
            while let Some((number, mut row)) = events.next_if(|(_, row)| row.t_ns <= at) {
                build.start_until(row.t_ns);
                row.flow = numbers.get(&number).copied();
                build.event(row);
            }
            let place = numbers.get(&entry.number).copied().unwrap_or_default();
            if let Some(known) = now.get_mut(place as usize) {
                *known = *entry;
            }
        }
        // One more, at the end itself.
        let _ = room && sample(&mut build, end + Duration::from_nanos(1), &now, &first);
        if let Some(why) = &ending.incomplete {
            build.cut(end, why);
        } else if self.full.is_some() {
            build.cut(end, "the record would take more than it may (--memory)");
        }
        let older = flows.iter().filter(|(_, flow)| !flow.is_new).count();
        let counts = [
            (
                "connections that were open before, counted from here",
                older as u64,
            ),
            ("events that the buffer had no room for", ending.missed),
        ];
        build.notes.extend(crate::build::counted(&counts));
        let known =
            json!({ "release": ending.kernel, "events": self.entries, "missed": ending.missed });
        Ok(build.finish(&summaries, Some(("kernel", known))))
    }
}

/// The approximate size of a row in the record, in bytes.
const ROW: u64 = 250;

fn sample(build: &mut Build<'_>, until: Instant, now: &[Entry], first: &[Entry]) -> bool {
    build.sample_shown(
        until,
        |flow, _| match (now.get(flow), first.get(flow)) {
            (Some(entry), Some(first)) => entry.row(first),
            _ => SampleRow::default(),
        },
        |flow, visitor| {
            if let Some(entry) = now.get(flow) {
                FIELDS
                    .iter()
                    .for_each(|(name, _, value)| visitor.show(name, value(entry)));
            }
        },
    )
}

fn summary(flow: &Flow, end: Instant) -> FlowSummary {
    let (first, last) = (&flow.first, &flow.last);
    let row = last.row(first);
    let at = Instant::from_nanos(last.at);
    let rtt = Duration::from_micros(last.min_rtt_us);
    FlowSummary {
        label: flow.label.clone(),
        cc: Some(CC.to_owned()),
        start: Instant::from_nanos(first.at),
        last: if flow.ended { at } else { end },
        finished: Some(at).filter(|_| flow.ended && last.in_flight == 0),
        base_rtt: Some(rtt).filter(|_| last.min_rtt_us < UNSET),
        mss: u32::try_from(last.smss).unwrap_or(0),
        goodput: row.goodput_bytes.get(),
        counters: vec![
            ("sent_packets", row.sent_packets),
            ("retransmitted_packets", row.retransmitted_packets),
            ("lost_packets", row.lost_packets),
            ("rto_count", flow.rto_count),
            ("recovery_count", flow.recovery_count),
        ],
    }
}

/// The ends of a connection: its own port and its destination.
fn label(entry: &Entry, bytes: &[u8], remote: (usize, usize), family: (usize, usize)) -> String {
    const INET6: u64 = 10;
    let address = bytes.get(remote.0..).unwrap_or_default();
    let address = match (number(bytes, family), address.first_chunk::<16>()) {
        (_, None) => String::new(),
        (INET6, Some(octets)) => format!("[{}]", std::net::Ipv6Addr::from(*octets)),
        (_, Some([a, b, c, d, ..])) => format!("{a}.{b}.{c}.{d}"),
    };
    format!("{} to {address}:{}", entry.local_port, entry.remote_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field takes eight bytes, in the order of this list.
    const NAMES: [&str; 30] = [
        "t_ns",
        "bytes_acked",
        "event",
        "number",
        "sent",
        "retransmitted",
        "local_port",
        "remote_port",
        "connection.pacing_rate",
        "connection.smss",
        "connection.cwnd",
        "connection.delivered",
        "connection.lost",
        "connection.inflight",
        "connection.app_limited",
        "connection.srtt_us",
        "connection.min_rtt_us",
        "connection.recovery",
        "sample.rtt_us",
        "bbr.sample_bw",
        "bbr.state",
        "bbr.phase",
        "bbr.min_rtt_us",
        "bbr.pacing_gain",
        "bbr.cwnd_gain",
        "bbr.max_bw[0]",
        "bbr.max_bw[1]",
        "bbr.bw_shortterm",
        "bbr.inflight_shortterm",
        "bbr.inflight_longterm",
    ];
    const SIZE: usize = NAMES.len() * 8 + 24;
    const BEGIN: u64 = 5_000_000_000;
    const MS: u64 = 1_000_000;

    fn layout() -> HashMap<String, (usize, usize)> {
        let mut layout: HashMap<_, _> = (0..)
            .zip(NAMES)
            .map(|(place, name)| (name.to_owned(), (place * 8, 8)))
            .collect();
        layout.insert("remote".to_owned(), (NAMES.len() * 8, 16));
        layout.insert("family".to_owned(), (NAMES.len() * 8 + 16, 2));
        layout
    }

    fn entry(set: &[(&str, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; SIZE];
        let usual = [
            ("event", 1),
            ("number", 7),
            ("local_port", 5201),
            ("remote_port", 40_000),
            ("connection.smss", 1000),
            ("connection.cwnd", 10),
            ("connection.min_rtt_us", 40_000),
            ("bbr.bw_shortterm", UNSET),
            ("bbr.inflight_shortterm", UNSET),
            ("bbr.inflight_longterm", UNSET),
            ("bbr.max_bw[1]", 1 << 24),
        ];
        for (name, value) in usual.iter().chain(set) {
            let place = NAMES.iter().position(|known| known == name).unwrap() * 8;
            bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes[NAMES.len() * 8..NAMES.len() * 8 + 4].copy_from_slice(&[192, 0, 2, 1]);
        bytes
    }

    fn kernel(port: Option<u16>) -> Kernel {
        Kernel::new(&layout(), SIZE, BEGIN, port, 1 << 30).unwrap()
    }

    fn ending(at: u64) -> Ending {
        Ending {
            name: "live".to_owned(),
            at: BEGIN + at,
            ..Ending::default()
        }
    }

    #[test]
    fn a_connection_that_begins_and_ends() {
        let mut kernel = kernel(None);
        kernel.take(&entry(&[
            ("t_ns", BEGIN + 100 * MS),
            ("event", 0),
            ("bytes_acked", 1),
        ]));
        kernel.take(&entry(&[
            ("t_ns", BEGIN + 140 * MS),
            ("bytes_acked", 5001),
            ("connection.delivered", 5),
        ]));
        kernel.take(&entry(&[
            ("t_ns", BEGIN + 400 * MS),
            ("bytes_acked", 100_001),
            ("connection.delivered", 100),
            ("sent", 103),
            ("retransmitted", 3),
            ("connection.recovery", 3),
            ("bbr.state", 2),
            ("bbr.phase", 1),
        ]));
        kernel.take(&entry(&[
            ("t_ns", BEGIN + 500 * MS),
            ("event", 2),
            ("bytes_acked", 100_001),
        ]));
        let run = kernel.finish(&ending(1000 * MS)).unwrap();
        let summary = run.summary_json();
        assert_eq!(summary["backend"], "kernel");
        assert_eq!(run.info().duration, Duration::from_secs(1));
        let flow = &run.info().flows[0];
        assert_eq!(flow.label, "5201 to 192.0.2.1:40000");
        assert_eq!(flow.start, Instant::from_nanos(100 * MS));
        assert_eq!(flow.base_rtt, Duration::from_millis(40));
        // 100 kB in the 0.4 s that it lasted.
        let goodput = summary["flows"][0]["goodput_bps"].as_f64().unwrap();
        assert!((goodput - 2e6).abs() < 1e3, "{goodput}");
        let events = run.table("events").unwrap();
        assert_eq!(events.num_rows(), 6, "{events:?}");
        assert_eq!(run.table("samples").unwrap().num_rows(), 41);
    }

    #[test]
    fn what_was_before_does_not_count() {
        let mut kernel = kernel(None);
        kernel.take(&entry(&[
            ("t_ns", BEGIN),
            ("bytes_acked", 1 << 40),
            ("connection.delivered", u64::from(u32::MAX)),
        ]));
        kernel.take(&entry(&[
            ("t_ns", BEGIN + 1000 * MS),
            ("bytes_acked", (1 << 40) + 125_000),
            ("connection.delivered", 124),
        ]));
        let run = kernel.finish(&ending(1000 * MS)).unwrap();
        let summary = run.summary_json();
        let goodput = summary["flows"][0]["goodput_bps"].as_f64().unwrap();
        assert!((goodput - 1e6).abs() < 1e3, "{goodput}");
        let notes = summary["source"]["notes"].to_string();
        assert!(notes.contains("were open before"), "{notes}");
    }

    #[test]
    fn only_a_port_that_was_asked_for() {
        let mut other = kernel(Some(443));
        other.take(&entry(&[("t_ns", BEGIN)]));
        let error = other.finish(&ending(MS)).unwrap_err();
        assert!(error.to_string().contains("no connection"), "{error}");
        let mut remote = kernel(Some(40_000));
        remote.take(&entry(&[("t_ns", BEGIN)]));
        assert!(remote.finish(&ending(MS)).is_ok());
    }

    #[test]
    fn it_ends_where_there_is_no_more_room() {
        let mut kernel = Kernel::new(&layout(), SIZE, BEGIN, None, 100_000).unwrap();
        let all: Vec<u8> = (0..1000)
            .flat_map(|n| entry(&[("t_ns", BEGIN + n * 20 * MS)]))
            .collect();
        assert!(!kernel.take(&all));
        let run = kernel.finish(&ending(20_000 * MS)).unwrap();
        assert!(run.info().duration < Duration::from_secs(10));
        assert!(run.info().incomplete.is_some());
    }

    #[test]
    fn any_bytes_are_read() {
        for size in [0, 1, 7, SIZE] {
            let mut kernel = Kernel::new(&layout(), size, BEGIN, None, 1 << 20).unwrap();
            kernel.take(&[0xff; 3 * SIZE]);
            let _ = kernel.finish(&ending(0));
        }
        assert!(Kernel::new(&HashMap::new(), 8, 0, None, 0).is_err());
    }
}
