//! iperf3's JSON (`--json`) and its lines of JSON (`--json-stream`), of TCP and UDP.
//!
//! Each stream is a flow, with a row at each of iperf3's intervals. The sender reports window, RTT
//! and retransmissions. The receiver's count is known only at the end; until then the data sent is
//! used. A file may hold several tests, as a server writes them, and lines of other programs.

use std::collections::BTreeMap;

use paceline_record::{EventKind, EventRow, Run, SampleRow};
use paceline_units::{Bytes, Duration, Instant};
use serde_json::{Value, json};

use crate::build::{Build, FlowSummary};
use crate::cut::up_to_last;
use crate::error::CaptureError;
use crate::source::{Format, Source, list};

/// The maximum size of a result: hours at ten intervals a second with dozens of streams.
const MOST: u64 = 256 << 20;

/// A test: its parts in the file.
#[derive(Default)]
struct Test {
    head: Value,
    intervals: Vec<Value>,
    end: Value,
    /// Why it ended early.
    cut: Option<String>,
    /// When it began, after the first of the file.
    begin: f64,
}

/// An interval's data about a stream.
struct Row {
    from: f64,
    to: f64,
    bytes: u64,
    retransmits: Option<u64>,
    cwnd: Option<u64>,
    rtt_us: Option<u64>,
    lost: Option<u64>,
    packets: Option<u64>,
}

/// A stream, by its test and iperf3's number of its socket.
#[derive(Default)]
struct Stream {
    rows: Vec<Row>,
    /// Whether the host that wrote the file sends it.
    sender: Option<bool>,
    /// Bytes that arrived, and when that count ends; from the summary.
    arrived: Option<u64>,
    last: f64,
    /// Whether the rows count what was sent and not what arrived.
    is_sent: bool,
}

impl Stream {
    fn bytes(&self) -> u64 {
        let bytes = self.rows.iter().map(|row| row.bytes);
        bytes.fold(0, u64::saturating_add)
    }
}

/// Reads a result of iperf3.
pub fn read(source: &Source<'_>) -> Result<Run, CaptureError> {
    let mut tests = tests(&source.text(MOST)?)?;
    let has_rows = tests.iter().any(|test| !test.intervals.is_empty());
    let why = tests.iter().find_map(|test| test.cut.clone());
    if let Some(why) = why.filter(|_| !has_rows) {
        return Err(CaptureError::empty(why));
    }
    place(&mut tests);
    let mut streams: BTreeMap<(usize, u64), Stream> = BTreeMap::new();
    let mut omitted = 0_u64;
    for (number, test) in tests.iter().enumerate() {
        omitted += collect(number, test, &mut streams)?;
    }
    let mut streams: Vec<((usize, u64), Stream)> = streams
        .into_iter()
        .filter(|(_, stream)| !stream.rows.is_empty())
        .collect();
    if streams.is_empty() {
        return Err(CaptureError::empty("it has no interval of a stream"));
    }
    for (number, test) in tests.iter().enumerate() {
        let own = streams.iter_mut().filter(|((of, _), _)| *of == number);
        let mut own: Vec<(u64, &mut Stream)> =
            own.map(|((_, socket), stream)| (*socket, stream)).collect();
        arrivals(test, &mut own);
    }
    let mut summaries: Vec<FlowSummary> = Vec::new();
    for ((number, socket), stream) in &streams {
        let test = tests.get(*number).map_or(&Value::Null, |test| &test.head);
        let end = tests.get(*number).map_or(&Value::Null, |test| &test.end);
        let mut flow = describe(*socket, stream, test, end);
        if tests.len() > 1 {
            flow.label = format!("test {}: {}", number + 1, flow.label);
        }
        summaries.push(flow);
    }
    let last = summaries.iter().map(|summary| summary.last).max();
    let duration = last.unwrap_or(Instant::ZERO).since(Instant::ZERO);
    let lengths = streams.iter().flat_map(|(_, stream)| &stream.rows);
    let lengths = lengths.map(|row| at(row.to).since(at(row.from)));
    let interval = lengths.max().unwrap_or(Duration::from_secs(1));
    let interval = interval.max(Duration::from_millis(1));
    let mut build = Build::new(source, Format::Iperf3, &summaries, duration, interval);
    for (flow, ((_, stream), summary)) in (0..).zip(streams.iter().zip(&summaries)) {
        rows(&mut build, flow, stream, summary);
    }
    if let Some(cut) = tests.iter().rev().find_map(|test| test.cut.as_ref()) {
        build.cut(Instant::ZERO + duration, cut);
    }
    notes(&mut build, &tests, &streams, omitted);
    let known = tests.first().map(|test| {
        let start = test.head.get("test_start");
        json!({ "test_start": start, "version": test.head.get("version") })
    });
    Ok(build.finish(&summaries, Some(("iperf3", json!(known)))))
}

/// The tests of a file: JSON texts, or a line for each event. Lines that begin neither are of other
/// programs.
fn tests(text: &[u8]) -> Result<Vec<Test>, CaptureError> {
    let mut tests: Vec<Test> = Vec::new();
    let (mut is_stream, mut is_damaged) = (false, false);
    let mut rest = text;
    while let Some(begin) = begin(rest) {
        rest = rest.get(begin..).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<Value>();
        let value = values.next();
        let read = values.byte_offset();
        match value {
            Some(Ok(value)) => {
                rest = rest.get(read..).unwrap_or_default();
                is_stream |= value.get("event").is_some();
                add(&mut tests, value);
            }
            Some(Err(error)) => {
                let why = "the file ends or is damaged within a test";
                // The first text that ends early may be a test; what follows is examined once.
                let begun = match is_damaged || is_stream {
                    true => None,
                    false => up_to_last(rest, "intervals"),
                };
                is_damaged = true;
                let is_end = error.is_eof();
                if let Some(value) = begun {
                    add(&mut tests, value);
                }
                if let Some(test) = tests.last_mut() {
                    test.cut.get_or_insert_with(|| why.to_owned());
                }
                if is_end {
                    break;
                }
                rest = rest.get(1..).unwrap_or_default();
            }
            None => break,
        }
    }
    if tests.is_empty() {
        return Err(CaptureError::damaged("it has no JSON text of a test"));
    }
    if is_stream {
        for test in tests.iter_mut().filter(|test| test.end.is_null()) {
            let why = "the file ends before iperf3's summary";
            test.cut.get_or_insert_with(|| why.to_owned());
        }
    }
    Ok(tests)
}

/// Where the next JSON object begins: at the beginning of a line, or right here.
fn begin(text: &[u8]) -> Option<usize> {
    let blank = text.iter().take_while(|octet| !octet.is_ascii_graphic());
    let blank = blank.count();
    if text.get(blank) == Some(&b'{') {
        return Some(blank);
    }
    let line = text.windows(2).position(|pair| pair == b"\n{")?;
    Some(line + 1)
}

/// Adds a JSON text: a test, or an event of the last one.
fn add(tests: &mut Vec<Test>, mut value: Value) {
    let mut take = |key: &str| value.get_mut(key).map(Value::take).unwrap_or_default();
    let event = take("event");
    let Some(event) = event.as_str() else {
        let (head, intervals, end) = (take("start"), take("intervals"), take("end"));
        let error = take("error");
        let cut = error.as_str().map(|why| format!("iperf3 failed: {why}"));
        let Value::Array(intervals) = intervals else {
            return;
        };
        tests.push(Test {
            head,
            intervals,
            end,
            cut,
            begin: 0.0,
        });
        return;
    };
    let data = take("data");
    if event == "start" || tests.is_empty() {
        tests.push(Test::default());
    }
    if let Some(test) = tests.last_mut() {
        match event {
            "start" => test.head = data,
            "interval" => test.intervals.push(data),
            "end" => test.end = data,
            "error" => test.cut = data.as_str().map(|why| format!("iperf3 failed: {why}")),
            _ => {}
        }
    }
}

/// Places tests one after the other, at their distance if it is known.
fn place(tests: &mut [Test]) {
    let clock = |test: &Test| test.head.get("timestamp")?.get("timesecs")?.as_f64();
    let first = tests.first().and_then(clock);
    let mut free = 0.0_f64;
    for test in tests {
        let begin = clock(test)
            .zip(first)
            .map_or(free, |(own, first)| own - first);
        // Not more than a year apart.
        test.begin = begin.max(free).min(free + 3.2e7);
        let streams = test.intervals.iter().flat_map(|one| list(one, "streams"));
        let last = streams.filter_map(|entry| seconds(entry, "end"));
        free = test.begin + last.fold(0.0, f64::max);
    }
}

/// Adds the rows of a test; returns how many were left out because the test omits them.
fn collect(
    number: usize,
    test: &Test,
    streams: &mut BTreeMap<(usize, u64), Stream>,
) -> Result<u64, CaptureError> {
    let mut omitted = 0;
    for entry in test.intervals.iter().flat_map(|one| list(one, "streams")) {
        if entry.get("omitted").and_then(Value::as_bool) == Some(true) {
            omitted += 1;
            continue;
        }
        let (Some(socket), Some(from), Some(to)) = (
            whole(entry, "socket"),
            seconds(entry, "start"),
            seconds(entry, "end"),
        ) else {
            return Err(CaptureError::damaged(
                "an interval has a stream without socket, start or end",
            ));
        };
        let stream = streams.entry((number, socket)).or_default();
        let sender = entry.get("sender").and_then(Value::as_bool);
        stream.sender = sender.or(stream.sender);
        stream.last = test.begin + to;
        stream.rows.push(Row {
            from: test.begin + from,
            to: test.begin + to,
            bytes: whole(entry, "bytes").unwrap_or(0),
            retransmits: whole(entry, "retransmits"),
            cwnd: whole(entry, "snd_cwnd"),
            rtt_us: whole(entry, "rtt").filter(|rtt| *rtt > 0),
            lost: whole(entry, "lost_packets"),
            packets: whole(entry, "packets"),
        });
    }
    Ok(omitted)
}

/// What arrived of each stream that the host sends. A receiver counts per stream for TCP; for UDP
/// there is a sum of all streams, and each stream's loss.
fn arrivals(test: &Test, streams: &mut [(u64, &mut Stream)]) {
    let totals = totals(&test.end);
    let sum = test.end.get("sum_received");
    let of_sum = |key: &str| whole(sum?, key).filter(|count| *count > 0);
    let mut expected = Vec::new();
    for (socket, stream) in streams.iter_mut() {
        let Some(total) = totals.get(socket) else {
            continue;
        };
        if let Some(receiver) = total.get("receiver") {
            stream.arrived = whole(receiver, "bytes").filter(|bytes| *bytes > 0);
            let end = seconds(receiver, "end").unwrap_or(0.0);
            stream.last = stream.last.max(test.begin + end);
        } else if let Some(udp) = total.get("udp").filter(|_| stream.sender != Some(false)) {
            stream.is_sent = true;
            let counts = [whole(udp, "packets"), whole(udp, "lost_packets")];
            let [Some(packets @ 1..), Some(lost)] = counts else {
                continue;
            };
            let share = packets.saturating_sub(lost) as f64 / packets as f64;
            expected.push((*socket, stream.bytes() as f64 * share));
        }
    }
    // The sum is the receiver's own; it has one count of packets fewer than each stream's loss.
    let all: f64 = expected.iter().map(|(_, bytes)| bytes).sum();
    let sum = of_sum("bytes").map_or(all, |sum| sum as f64);
    let received = test.end.get("sum_received");
    let end = received.and_then(|sum| seconds(sum, "end"));
    for (socket, bytes) in expected {
        if let Some((_, stream)) = streams.iter_mut().find(|(of, _)| *of == socket) {
            let part = if all > 0.0 { bytes / all } else { 0.0 };
            stream.arrived = Some((sum * part).round() as u64);
            stream.last = stream.last.max(test.begin + end.unwrap_or(0.0));
        }
    }
}

/// The final data about each stream, by socket.
fn totals(end: &Value) -> BTreeMap<u64, &Value> {
    let socket = |stream: &Value| {
        ["sender", "receiver", "udp"]
            .iter()
            .find_map(|side| whole(stream.get(side)?, "socket"))
    };
    list(end, "streams")
        .iter()
        .filter_map(|stream| Some((socket(stream)?, stream)))
        .collect()
}

fn describe(socket: u64, stream: &Stream, head: &Value, end: &Value) -> FlowSummary {
    let totals = totals(end);
    let total = totals.get(&socket);
    let connected = list(head, "connected")
        .iter()
        .find(|one| whole(one, "socket") == Some(socket));
    let name = |side: &str| {
        let one = connected?;
        let host = one.get(format!("{side}_host"))?.as_str()?;
        let shown: String = host.chars().filter(|c| !c.is_control()).take(80).collect();
        Some(format!("{shown}:{}", whole(one, &format!("{side}_port"))?))
    };
    let label = match (name("local"), name("remote"), stream.sender) {
        (Some(local), Some(remote), Some(false)) => format!("{remote} to {local}"),
        (Some(local), Some(remote), _) => format!("{local} to {remote}"),
        _ => format!("stream {socket}"),
    };
    let of = |side: &str, key: &str| whole(total?.get(side)?, key);
    let words = ["sender_tcp_congestion", "receiver_tcp_congestion"];
    let cc = words.iter().find_map(|key| end.get(key)?.as_str());
    let cc = cc.map(|cc| cc.chars().filter(|c| !c.is_control()).take(40).collect());
    let rtts = stream.rows.iter().filter_map(|row| row.rtt_us);
    let least = of("sender", "min_rtt").filter(|rtt| *rtt > 0);
    let least = least.into_iter().chain(rtts).min();
    let packets = || {
        let rows = stream.rows.iter();
        rows.map(|row| row.packets).sum::<Option<u64>>()
    };
    let rows = stream.rows.iter();
    let retransmits = rows.map(|row| row.retransmits).sum::<Option<u64>>();
    let counters = [
        ("sent_packets", of("udp", "packets").or_else(packets)),
        (
            "retransmitted_packets",
            of("sender", "retransmits").or(retransmits),
        ),
        ("lost_packets", of("udp", "lost_packets")),
    ];
    FlowSummary {
        label,
        cc,
        start: at(stream.rows.first().map_or(0.0, |row| row.from)),
        last: at(stream.last),
        finished: None,
        base_rtt: least.map(|us| Duration::from_micros(us.min(u64::MAX / 2_000))),
        mss: whole(head, "tcp_mss_default").map_or(0, |mss| u32::try_from(mss).unwrap_or(0)),
        goodput: stream.arrived.unwrap_or_else(|| stream.bytes()),
        counters: counters
            .into_iter()
            .filter_map(|(name, count)| Some((name, count?)))
            .collect(),
    }
}

/// A row for each interval. The sender may have written more than had arrived when it ended.
fn rows(build: &mut Build<'_>, flow: u32, stream: &Stream, summary: &FlowSummary) {
    let Some(first) = stream.rows.first() else {
        return;
    };
    build.event(EventRow::new(at(first.from), Some(flow), EventKind::Start));
    let total = stream.bytes();
    // What is lost of UDP is lost all the time, as far as is known.
    let arrived = |bytes: u64| match stream.is_sent {
        true => {
            let product = u128::from(bytes) * u128::from(summary.goodput);
            (product / u128::from(total.max(1))) as u64
        }
        false => bytes.min(summary.goodput),
    };
    let (mut bytes, mut again, mut lost, mut sent) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut least = None;
    build.sample(SampleRow {
        t_ns: at(first.from),
        flow,
        ..SampleRow::default()
    });
    for row in &stream.rows {
        bytes = bytes.saturating_add(row.bytes);
        again = again.saturating_add(row.retransmits.unwrap_or(0));
        lost = lost.saturating_add(row.lost.or(row.retransmits).unwrap_or(0));
        sent = sent.saturating_add(row.packets.unwrap_or(0));
        let rtt = row
            .rtt_us
            .map(|us| Duration::from_micros(us.min(u64::MAX / 2_000)));
        least = least.into_iter().chain(rtt).min();
        build.sample(SampleRow {
            t_ns: at(row.to),
            flow,
            cwnd_bytes: row.cwnd.map(Bytes::new),
            rtt_ns: rtt,
            srtt_ns: rtt,
            min_rtt_ns: least,
            goodput_bytes: Bytes::new(arrived(bytes)),
            delivered_bytes: Bytes::new(arrived(bytes)),
            sent_packets: sent,
            lost_packets: lost,
            retransmitted_packets: again,
            ..SampleRow::default()
        });
    }
}

fn notes(build: &mut Build<'_>, tests: &[Test], streams: &[((usize, u64), Stream)], omitted: u64) {
    let mut note = |text: &str| build.notes.push(text.to_owned());
    let is_udp = |test: &Test| {
        let start = test.head.get("test_start");
        start.and_then(|start| start.get("protocol")?.as_str()) == Some("UDP")
    };
    let sending = streams.iter().filter(|(_, one)| one.sender != Some(false));
    let (mut exact, mut shared, mut unknown) = (false, false, false);
    for (_, stream) in sending {
        match (stream.arrived, stream.is_sent) {
            (None, _) => unknown = true,
            (_, true) => shared = true,
            _ => exact = true,
        }
    }
    if exact {
        note("goodput over time is what senders wrote; the totals are what receivers read");
    }
    if shared {
        note(
            "the totals of UDP are what the receiver counted, and goodput over time is what was sent, less the same share all the time",
        );
    }
    if unknown {
        note("goodput is what senders wrote: the file does not tell what receivers read");
    }
    if !tests.iter().all(is_udp) {
        note("RTTs are the kernel's smoothed RTT at the end of each interval");
    }
    if tests.len() > 1 {
        note(&format!(
            "tests in the file, one after the other: {}",
            tests.len()
        ));
    }
    if omitted > 0 {
        build.notes.push(format!(
            "rows of omitted intervals (-O), left out: {omitted}"
        ));
    }
    build
        .notes
        .push("bytes in flight are not known and stand as 0".to_owned());
}

fn whole(value: &Value, key: &str) -> Option<u64> {
    let value = value.get(key)?;
    let rounded = || {
        value
            .as_f64()
            .filter(|number| *number >= 0.0 && *number < 1e18)
    };
    value
        .as_u64()
        .or_else(|| rounded().map(|number| number as u64))
}

fn seconds(value: &Value, key: &str) -> Option<f64> {
    // A year, in seconds.
    value
        .get(key)?
        .as_f64()
        .filter(|time| (0.0..3.2e7).contains(time))
}

/// Seconds since the test began.
fn at(seconds: f64) -> Instant {
    Instant::from_nanos((seconds * 1e9).round() as u64)
}
