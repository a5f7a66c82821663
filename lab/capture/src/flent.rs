//! Flent's data: JSON with series of values at common times, and the units of each.
//!
//! Each series of rates is a flow. A value is the rate in the step that ends at its time. Sums and
//! averages, which Flent computes, are left out. RTTs are those of the flow itself (`tcp_rtt`) or of
//! Flent's ping.

use paceline_record::{EventKind, EventRow, Run, SampleRow};
use paceline_units::{Bytes, Duration, Instant};
use serde_json::{Value, json};

use crate::build::{Build, FlowSummary, counted};
use crate::error::CaptureError;
use crate::source::{Format, Source};

/// The maximum size: hours of dozens of series.
const MOST: u64 = 256 << 20;
/// Memory of the values of a JSON text, as a multiple of its length.
const TAKES: u64 = 8;
/// The words at the end of series that Flent computes from others.
const COMPUTED: [&str; 6] = ["sum", "avg", "totals", "mean", "total", "fairness"];
const PING: &str = "Ping (ms)";

/// A series of rates.
struct Series {
    name: String,
    cc: Option<String>,
    /// Bit/s.
    rates: Vec<Option<f64>>,
    rtts: Vec<Option<Duration>>,
}

/// Reads Flent's data.
pub fn read(source: &Source<'_>) -> Result<Run, CaptureError> {
    let text = source.text(MOST.min(source.memory / TAKES).max(1 << 20))?;
    let data: Value = serde_json::from_slice(&text)
        .map_err(|error| CaptureError::damaged(format!("it is no JSON: {error}")))?;
    let times = times(&data)?;
    let results = data.get("results").and_then(Value::as_object);
    let results = results.ok_or_else(|| CaptureError::damaged("it has no results"))?;
    let pings = results.iter().filter(|(name, _)| name.starts_with(PING));
    let ping = pings.map(|(_, values)| delays(values)).next();
    let mut own = false;
    let series: Vec<Series> = results
        .iter()
        .filter_map(|(name, values)| {
            let about = data
                .get("metadata")
                .and_then(|all| all.get("SERIES_META")?.get(name));
            let unit = about.and_then(|about| about.get("UNITS")?.as_str());
            let factor = factor(name, unit)?;
            let rates = list(values).map(|value| value.map(|rate| rate * factor));
            let rtts = results.get(&format!("{name}::tcp_rtt")).map(delays);
            own |= rtts.is_some();
            let cc = about.and_then(|about| about.get("CONG_CONTROL")?.as_str());
            Some(Series {
                name: printable(name),
                cc: cc.map(printable),
                rates: rates.collect(),
                rtts: rtts.or_else(|| ping.clone()).unwrap_or_default(),
            })
        })
        .filter(|series| span(series, &times).is_some())
        .collect();
    let summaries: Vec<FlowSummary> = series.iter().map(|one| summary(one, &times)).collect();
    let Some(last) = summaries.iter().map(|summary| summary.last).max() else {
        return Err(CaptureError::empty("it has no series of rates"));
    };
    let steps = times.windows(2).map(|pair| pair[1].since(pair[0]));
    let interval = steps.max().unwrap_or(Duration::from_secs(1));
    let interval = interval.max(Duration::from_millis(1));
    let duration = last.since(Instant::ZERO);
    let mut build = Build::new(source, Format::Flent, &summaries, duration, interval);
    for (flow, (one, summary)) in (0..).zip(series.iter().zip(&summaries)) {
        rows(&mut build, flow, one, summary, &times);
    }
    let left = results.len() - series.len();
    build.notes = counted(&[("series that are no rates of a flow, left out", left as u64)]);
    build
        .notes
        .push("a rate is of the step that ends at its time".to_owned());
    let rtt = match (own, ping.is_some()) {
        (true, _) => "RTTs are what the kernel reports for each flow",
        (false, true) => "RTTs are of Flent's ping, not of the flows",
        (false, false) => "RTTs are not known",
    };
    build.notes.push(rtt.to_owned());
    build
        .notes
        .push("bytes in flight are not known and stand as 0".to_owned());
    let about = |key: &str| data.get("metadata").and_then(|all| all.get(key)).cloned();
    let known = json!({ "name": about("NAME"), "title": about("TITLE"), "time": about("TIME") });
    Ok(build.finish(&summaries, Some(("flent", known))))
}

/// The times of all series, which begin at zero and rise.
fn times(data: &Value) -> Result<Vec<Instant>, CaptureError> {
    let values = data.get("x_values").map(list).into_iter().flatten();
    let seconds: Option<Vec<f64>> = values.collect();
    let seconds = seconds.filter(|all| all.is_sorted_by(|a, b| a < b) && all.len() > 1);
    let known = seconds.filter(|all| all.iter().all(|time| (0.0..3.2e7).contains(time)));
    let known = known.ok_or_else(|| CaptureError::damaged("its x_values are no rising times"))?;
    let nanos = known.iter().map(|time| (time * 1e9).round() as u64);
    Ok(nanos.map(Instant::from_nanos).collect())
}

/// Bit/s in a unit of rates; nothing for a series that is none of a flow.
fn factor(name: &str, unit: Option<&str>) -> Option<f64> {
    let last = name.rsplit([' ', ':']).next().unwrap_or_default();
    if COMPUTED.contains(&last) {
        return None;
    }
    match unit {
        Some("bits/s") => Some(1.0),
        Some("Kbits/s") => Some(1e3),
        Some("Mbits/s") => Some(1e6),
        Some("Gbits/s") => Some(1e9),
        Some(_) => None,
        // Older files say the unit in the name, or not at all.
        None if name.contains("(ms)") || name.contains("::tcp_") => None,
        None => name.starts_with("TCP ").then_some(1e6),
    }
}

fn list(values: &Value) -> impl Iterator<Item = Option<f64>> {
    let values = values.as_array().map_or(&[][..], Vec::as_slice).iter();
    values.map(|value| value.as_f64().filter(|value| (0.0..1e15).contains(value)))
}

fn delays(values: &Value) -> Vec<Option<Duration>> {
    let known = |value: Option<f64>| value.filter(|ms| (1e-6..1e7).contains(ms));
    let delay = |ms: f64| Duration::from_nanos((ms * 1e6).round() as u64);
    list(values).map(|value| known(value).map(delay)).collect()
}

/// The steps of the first and the last rate.
fn span(series: &Series, times: &[Instant]) -> Option<(usize, usize)> {
    let known = |step: &usize| series.rates.get(*step).is_some_and(Option::is_some);
    let first = (1..times.len()).find(known)?;
    Some((first, (1..times.len()).rev().find(known)?))
}

/// The bytes of a step; a rate that is missing between others counts as nothing.
fn bytes(series: &Series, times: &[Instant], step: usize) -> u64 {
    let rate = series.rates.get(step).copied().flatten().unwrap_or(0.0);
    let before = step.checked_sub(1).and_then(|before| times.get(before));
    let ends = before.zip(times.get(step));
    let length = ends.map_or(0.0, |(from, to)| to.since(*from).as_nanos() as f64 / 1e9);
    (rate * length / 8.0).round() as u64
}

fn summary(series: &Series, times: &[Instant]) -> FlowSummary {
    let (first, last) = span(series, times).unwrap_or((1, 1));
    let at = |step: usize| times.get(step).copied().unwrap_or_default();
    FlowSummary {
        label: series.name.clone(),
        cc: series.cc.clone(),
        start: at(first - 1),
        last: at(last),
        base_rtt: series.rtts.iter().flatten().min().copied(),
        goodput: (first..=last)
            .map(|step| bytes(series, times, step))
            .fold(0, u64::saturating_add),
        ..FlowSummary::default()
    }
}

/// A row for each step.
fn rows(
    build: &mut Build<'_>,
    flow: u32,
    series: &Series,
    summary: &FlowSummary,
    times: &[Instant],
) {
    build.event(EventRow::new(summary.start, Some(flow), EventKind::Start));
    let (mut total, mut least) = (0_u64, None);
    for (step, at) in times.iter().enumerate() {
        if *at < summary.start || *at > summary.last {
            continue;
        }
        if *at > summary.start {
            total = total.saturating_add(bytes(series, times, step));
        }
        let rtt = series.rtts.get(step).copied().flatten();
        least = least.into_iter().chain(rtt).min();
        build.sample(SampleRow {
            t_ns: *at,
            flow,
            rtt_ns: rtt,
            min_rtt_ns: least,
            goodput_bytes: Bytes::new(total),
            delivered_bytes: Bytes::new(total),
            ..SampleRow::default()
        });
    }
}

fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_series_of_one_flow_are_flows() {
        let mega = Some("Mbits/s");
        assert_eq!(factor("TCP upload::1", mega), Some(1e6));
        assert_eq!(factor("TCP download BE", mega), Some(1e6));
        assert_eq!(factor("TCP upload", None), Some(1e6));
        assert_eq!(factor("TCP upload sum", mega), None);
        assert_eq!(factor("TCP totals", None), None);
        assert_eq!(factor("TCP upload::1::tcp_rtt", Some("ms")), None);
        assert_eq!(factor("TCP upload::1::tcp_delivery_rate", None), None);
        assert_eq!(factor("Ping (ms) ICMP", None), None);
    }
}
