//! iperf3's JSON (`--json`) and its lines of JSON (`--json-stream`), of TCP and UDP.
//!
//! Each stream is a flow, with a row at each of iperf3's intervals. The sender reports window, RTT
//! and retransmissions. The receiver's count is known only at the end; until then the data sent is
//! used.

use std::collections::BTreeMap;
use std::io::BufRead;

use paceline_record::{EventKind, EventRow, Run, SampleRow};
use paceline_units::{Bytes, Duration, Instant};
use serde_json::{Value, json};

use crate::build::{Build, Told};
use crate::error::CaptureError;
use crate::source::{Format, Source};

/// The maximum size of a result: hours at ten intervals a second with dozens of streams.
const MOST: usize = 256 << 20;

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

/// A stream, by iperf3's number of its socket.
#[derive(Default)]
struct Stream {
    rows: Vec<Row>,
    /// Whether the host that wrote the file sends it.
    sender: Option<bool>,
}

/// Reads a result of iperf3.
pub fn read(source: &Source<'_>) -> Result<Run, CaptureError> {
    let (head, intervals, end, cut) = parts(source)?;
    if let Some(error) = head
        .get("error")
        .or_else(|| end.get("error"))
        .and_then(Value::as_str)
        && intervals.is_empty()
    {
        return Err(CaptureError::empty(format!("iperf3 failed: {error}")));
    }
    let mut streams: BTreeMap<u64, Stream> = BTreeMap::new();
    let mut omitted = 0_u64;
    for interval in &intervals {
        for told in list(interval, "streams") {
            if told.get("omitted").and_then(Value::as_bool) == Some(true) {
                omitted += 1;
                continue;
            }
            let (Some(socket), Some(from), Some(to)) = (
                whole(told, "socket"),
                seconds(told, "start"),
                seconds(told, "end"),
            ) else {
                return Err(CaptureError::damaged(
                    "an interval has a stream without socket, start or end",
                ));
            };
            let stream = streams.entry(socket).or_default();
            stream.sender = told
                .get("sender")
                .and_then(Value::as_bool)
                .or(stream.sender);
            stream.rows.push(Row {
                from,
                to,
                bytes: whole(told, "bytes").unwrap_or(0),
                retransmits: whole(told, "retransmits"),
                cwnd: whole(told, "snd_cwnd"),
                rtt_us: whole(told, "rtt").filter(|rtt| *rtt > 0),
                lost: whole(told, "lost_packets"),
                packets: whole(told, "packets"),
            });
        }
    }
    let streams: Vec<(u64, Stream)> = streams
        .into_iter()
        .filter(|(_, stream)| !stream.rows.is_empty())
        .collect();
    if streams.is_empty() {
        return Err(CaptureError::empty("it has no interval of a stream"));
    }
    let totals = totals(&end);
    let test = head.get("test_start").unwrap_or(&Value::Null);
    let udp = test.get("protocol").and_then(Value::as_str) == Some("UDP");
    let told: Vec<Told> = streams
        .iter()
        .map(|(socket, stream)| told(*socket, stream, &head, &end, totals.get(socket)))
        .collect();
    let last = |stream: &Stream| stream.rows.last().map_or(0.0, |row| row.to);
    let ends = streams.iter().map(|(_, stream)| at(last(stream)));
    let duration = ends.max().unwrap_or(Instant::ZERO).since(Instant::ZERO);
    let lengths = streams.iter().flat_map(|(_, stream)| &stream.rows);
    let lengths = lengths.map(|row| at(row.to).since(at(row.from)));
    let interval = lengths.max().unwrap_or(Duration::from_secs(1));
    let interval = interval.max(Duration::from_millis(1));
    let mut build = Build::new(source, Format::Iperf3, &told, duration, interval);
    for (flow, (_, stream)) in (0..).zip(&streams) {
        let arrived = told.get(flow as usize).map_or(0, |told| told.goodput);
        rows(&mut build, flow, stream, arrived);
    }
    if let Some(cut) = cut {
        build.cut(Instant::ZERO + duration, &cut);
    }
    notes(&mut build, &streams, udp, omitted);
    let known = json!({ "test_start": test, "version": head.get("version") });
    Ok(build.finish(&told, Some(("iperf3", known))))
}

/// Its start, its intervals, its end, and the reason if it ended early.
type Parts = (Value, Vec<Value>, Value, Option<String>);

fn parts(source: &Source<'_>) -> Result<Parts, CaptureError> {
    let mut text = Vec::new();
    let mut reader = source.open()?;
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        text.extend_from_slice(chunk);
        let length = chunk.len();
        reader.consume(length);
        if text.len() > MOST {
            return Err(CaptureError::damaged("it is larger than 256 MiB"));
        }
    }
    source.check()?;
    if let Ok(mut whole) = serde_json::from_slice::<Value>(&text)
        && whole.get("event").is_none()
    {
        let mut take = |key: &str| whole.get_mut(key).map(Value::take).unwrap_or_default();
        let (mut head, intervals, end) = (take("start"), take("intervals"), take("end"));
        if let (Some(error), Some(head)) = (whole.get("error").cloned(), head.as_object_mut()) {
            head.insert("error".to_owned(), error);
        }
        return match intervals {
            Value::Array(intervals) => Ok((head, intervals, end, None)),
            _ => Err(CaptureError::damaged("it has no list of intervals")),
        };
    }
    // A line for each event.
    let (mut head, mut end, mut intervals) = (Value::Null, Value::Null, Vec::new());
    let mut cut = None;
    for (number, line) in text.split(|octet| *octet == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Ok(mut event) = serde_json::from_slice::<Value>(line) else {
            if head.is_null() {
                return Err(CaptureError::damaged(
                    "it is no JSON, whole or line by line",
                ));
            }
            cut = Some(format!(
                "the file ends or is damaged at line {}",
                number + 1
            ));
            break;
        };
        let data = event.get_mut("data").map(Value::take).unwrap_or_default();
        match event.get("event").and_then(Value::as_str) {
            Some("start") => head = data,
            Some("interval") => intervals.push(data),
            Some("end") => end = data,
            Some("error") => cut = data.as_str().map(|why| format!("iperf3 failed: {why}")),
            _ => {}
        }
    }
    if end.is_null() {
        cut.get_or_insert_with(|| "the file ends before iperf3's summary".to_owned());
    }
    Ok((head, intervals, end, cut))
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

fn told(socket: u64, stream: &Stream, head: &Value, end: &Value, total: Option<&&Value>) -> Told {
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
    let sent: u64 = stream
        .rows
        .iter()
        .fold(0, |sum: u64, row| sum.saturating_add(row.bytes));
    let arrived = of("receiver", "bytes").filter(|bytes| *bytes > 0);
    let words = ["sender_tcp_congestion", "receiver_tcp_congestion"];
    let cc = words.iter().find_map(|key| end.get(key)?.as_str());
    let cc = cc.map(|cc| cc.chars().filter(|c| !c.is_control()).take(40).collect());
    let rtts = stream.rows.iter().filter_map(|row| row.rtt_us);
    let least = of("sender", "min_rtt")
        .filter(|rtt| *rtt > 0)
        .into_iter()
        .chain(rtts)
        .min();
    let packets = || {
        stream
            .rows
            .iter()
            .map(|row| row.packets)
            .sum::<Option<u64>>()
    };
    let retransmits = stream
        .rows
        .iter()
        .map(|row| row.retransmits)
        .sum::<Option<u64>>();
    let counters = [
        ("sent_packets", of("udp", "packets").or_else(packets)),
        (
            "retransmitted_packets",
            of("sender", "retransmits").or(retransmits),
        ),
        ("lost_packets", of("udp", "lost_packets")),
    ];
    Told {
        label,
        cc,
        start: at(stream.rows.first().map_or(0.0, |row| row.from)),
        last: at(stream.rows.last().map_or(0.0, |row| row.to)),
        finished: None,
        base_rtt: least.map(|us| Duration::from_micros(us.min(u64::MAX / 2_000))),
        mss: whole(head, "tcp_mss_default").map_or(0, |mss| u32::try_from(mss).unwrap_or(0)),
        goodput: arrived.unwrap_or(sent),
        counters: counters
            .into_iter()
            .filter_map(|(name, count)| Some((name, count?)))
            .collect(),
    }
}

/// A row for each interval. The sender may have written more than had arrived when it ended.
fn rows(build: &mut Build<'_>, flow: u32, stream: &Stream, arrived: u64) {
    let Some(first) = stream.rows.first() else {
        return;
    };
    build.event(EventRow::new(at(first.from), Some(flow), EventKind::Start));
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
            goodput_bytes: Bytes::new(bytes.min(arrived)),
            delivered_bytes: Bytes::new(bytes.min(arrived)),
            sent_packets: sent,
            lost_packets: lost,
            retransmitted_packets: again,
            ..SampleRow::default()
        });
    }
}

fn notes(build: &mut Build<'_>, streams: &[(u64, Stream)], udp: bool, omitted: u64) {
    if streams
        .iter()
        .any(|(_, stream)| stream.sender != Some(false))
    {
        let what = "goodput over time is what senders wrote; the totals are what receivers read";
        build.notes.push(what.to_owned());
    }
    if !udp {
        build
            .notes
            .push("RTTs are the kernel's smoothed RTT at the end of each interval".to_owned());
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

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
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
