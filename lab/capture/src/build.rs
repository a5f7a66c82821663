//! Builds a record from the contents of a file.

use std::collections::BTreeSet;

use paceline_record::{
    EventKind, EventRow, FlowInfo, FlowTotals, PacketRow, Recorder, Run, RunInfo, SampleRow,
    in_words,
};
use paceline_recovery::SenderStats;
use paceline_units::{Bytes, Duration, Field, Instant, Visitor};
use serde_json::json;

use crate::source::{Format, Source};

/// Time between two rows of a flow, unless there would be too many.
pub const INTERVAL: Duration = Duration::from_millis(10);
/// The maximum number of rows of all flows.
const ROWS: u64 = 2_000_000;
/// The number of packets up to which each one is in the record.
pub const PACKETS: u64 = 4_000_000;

/// A flow of a file.
#[derive(Clone, Debug, Default)]
pub struct FlowSummary {
    pub label: String,
    /// Its controller, if the file names one.
    pub cc: Option<String>,
    pub start: Instant,
    /// When it was last mentioned.
    pub last: Instant,
    pub finished: Option<Instant>,
    pub base_rtt: Option<Duration>,
    pub mss: u32,
    pub goodput: u64,
    /// The flow's counters by name; unknown ones are missing.
    pub counters: Vec<(&'static str, u64)>,
}

/// A record under construction.
pub struct Build<'a> {
    source: &'a Source<'a>,
    format: &'static str,
    recorder: Recorder,
    interval: Duration,
    /// The time span in which each flow has rows; the flows are in the order of their starts.
    spans: Vec<(Instant, Instant)>,
    /// The first flow that has not started.
    waiting: usize,
    active: Vec<usize>,
    /// The ends of the active flows that have not passed.
    ends: BTreeSet<(Instant, usize)>,
    next: Instant,
    /// Data that the record lacks or shows differently.
    pub notes: Vec<String>,
    full: bool,
}

/// The counts that are not zero, in words.
pub fn counted(counts: &[(&str, u64)]) -> Vec<String> {
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    counts
        .map(|(what, count)| format!("{what}: {count}"))
        .collect()
}

/// The time between two rows of flows that are active for this long.
pub fn interval(active: impl Iterator<Item = Duration>) -> Duration {
    let total = active.fold(0_u64, |sum, time| sum.saturating_add(time.as_nanos()));
    let mut interval = INTERVAL;
    while total / interval.as_nanos() > ROWS {
        interval = interval * 2;
    }
    interval
}

impl<'a> Build<'a> {
    /// An empty record of known flows.
    pub fn new(
        source: &'a Source<'a>,
        format: Format,
        flows: &[FlowSummary],
        duration: Duration,
        interval: Duration,
    ) -> Self {
        Self::with_fields(source, format.name(), flows, duration, interval, &[])
    }

    /// The same of flows whose controllers show these fields.
    pub fn with_fields(
        source: &'a Source<'a>,
        format: &'static str,
        flows: &[FlowSummary],
        duration: Duration,
        interval: Duration,
        fields: &[Field],
    ) -> Self {
        let name = source.name.clone();
        let mss = flows.iter().map(|flow| flow.mss).max().unwrap_or(0);
        let about = format!("What {name} says ({format}): no scenario was run.");
        let info = RunInfo {
            scenario: name,
            scenario_toml: format!("about = {}\n", json!(about)),
            seed: 0,
            backend: format.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            duration,
            sample_interval: interval,
            payload_ratio: f64::from(mss.max(1)) / f64::from(mss.max(1) + 52),
            payload_ratios: Vec::new(),
            incomplete: None,
            guests: Vec::new(),
            flows: (0..)
                .zip(flows)
                .map(|(flow, summary)| FlowInfo {
                    flow,
                    cc: summary.cc.clone().unwrap_or_else(|| "unknown".to_owned()),
                    label: summary.label.clone(),
                    start: summary.start,
                    stop: Some(summary.last).filter(|_| summary.finished.is_none()),
                    base_rtt: summary.base_rtt.unwrap_or(Duration::ZERO),
                    mss: summary.mss,
                })
                .collect(),
            links: Vec::new(),
        };
        let fields = vec![fields.to_vec(); flows.len()];
        let counters = SenderStats::COUNTERS.iter().map(|(name, _)| *name);
        Self {
            source,
            format,
            recorder: Recorder::new(info, &fields, counters),
            interval,
            spans: flows
                .iter()
                .map(|summary| {
                    (
                        summary.start,
                        summary.last.max(summary.finished.unwrap_or_default()),
                    )
                })
                .collect(),
            waiting: 0,
            active: Vec::new(),
            ends: BTreeSet::new(),
            next: Instant::ZERO,
            notes: Vec::new(),
            full: false,
        }
    }

    /// Adds the rows of all times before `now`; `row` returns the known state of a flow, with what
    /// was measured after a time: that of its row before. Returns false when there is no room for
    /// more.
    pub fn sample_until(
        &mut self,
        now: Instant,
        row: impl Fn(usize, Option<Instant>) -> SampleRow,
    ) -> bool {
        self.sample_shown(now, row, |_, _| {})
    }

    /// The same with the displayed state of each flow's controller.
    pub fn sample_shown(
        &mut self,
        now: Instant,
        row: impl Fn(usize, Option<Instant>) -> SampleRow,
        show: impl Fn(usize, &mut Visitor<'_>),
    ) -> bool {
        while self.next < now {
            let at = self.next;
            self.start_until(at);
            self.end_before(at, &row, &show);
            let (spans, interval) = (&self.spans, self.interval);
            self.active
                .retain(|flow| spans.get(*flow).is_some_and(|span| at < span.1 + interval));
            let before = self.before();
            for flow in &self.active {
                self.ends.remove(&(at, *flow));
                let sample = SampleRow {
                    t_ns: at,
                    flow: *flow as u32,
                    ..row(*flow, before)
                };
                self.recorder.sample(sample, |visit| show(*flow, visit));
            }
            if !self.has_room(at) {
                return false;
            }
            self.next = at + self.interval;
            if self.active.is_empty() {
                // Nothing happens until the next flow starts, or any more.
                let then = self.spans.get(self.waiting).map_or(now, |span| span.0);
                let steps = then.since(Instant::ZERO).as_nanos() / self.interval.as_nanos();
                self.next = self.next.max(Instant::ZERO + self.interval * steps);
            }
        }
        self.end_before(now, &row, &show);
        true
    }

    /// The time of the row before the next regular one.
    fn before(&self) -> Option<Instant> {
        let since = self.next.since(Instant::ZERO).as_nanos();
        let before = since.checked_sub(self.interval.as_nanos())?;
        Some(Instant::from_nanos(before))
    }

    /// A row at the end of each flow that ends before `now`: it has the totals of the flow's time.
    fn end_before(
        &mut self,
        now: Instant,
        row: &impl Fn(usize, Option<Instant>) -> SampleRow,
        show: &impl Fn(usize, &mut Visitor<'_>),
    ) {
        while let Some((end, flow)) = self.ends.first().copied().filter(|(end, _)| *end < now) {
            self.ends.pop_first();
            let sample = SampleRow {
                t_ns: end,
                flow: flow as u32,
                ..row(flow, self.before())
            };
            self.recorder.sample(sample, |visit| show(flow, visit));
        }
    }

    /// The flows that have started by then: later entries about one of them come after that.
    pub fn start_until(&mut self, at: Instant) {
        let due = |span: &(Instant, Instant)| span.0 <= at;
        while let Some((start, end)) = self.spans.get(self.waiting).copied().filter(due) {
            let flow = self.waiting as u32;
            self.recorder
                .event(EventRow::new(start, Some(flow), EventKind::Start));
            self.active.push(self.waiting);
            self.ends.insert((end, self.waiting));
            self.waiting += 1;
        }
    }

    /// Whether there is room for more; if not, the record ends here.
    fn has_room(&mut self, now: Instant) -> bool {
        let bytes = self.recorder.memory();
        let bytes = [bytes.samples, bytes.queue, bytes.events, bytes.packets];
        let bytes = bytes
            .iter()
            .fold(0_u64, |sum, part| sum.saturating_add(*part));
        if !self.full && bytes > self.source.memory {
            self.full = true;
            let limit = in_words(self.source.memory);
            let why = format!("the record would take more than {limit} (--memory)");
            self.recorder.stop(now, &why);
        }
        !self.full
    }

    /// The file ends early.
    pub fn cut(&mut self, now: Instant, why: &str) {
        if !self.full {
            self.recorder.stop(now, why);
        }
    }

    pub fn sample(&mut self, row: SampleRow) {
        self.recorder.sample(row, |_| {});
    }

    pub fn event(&mut self, row: EventRow) {
        self.recorder.event(row);
    }

    pub fn packet(&mut self, row: PacketRow) {
        self.recorder.packet(row);
    }

    /// The record; `more` holds the format-specific parts.
    pub fn finish(self, flows: &[FlowSummary], more: Option<(&str, serde_json::Value)>) -> Run {
        let totals: Vec<FlowTotals> = (0..)
            .zip(flows)
            .map(|(flow, summary)| FlowTotals {
                flow,
                goodput: Bytes::new(summary.goodput),
                finished: summary.finished,
                counters: SenderStats::COUNTERS
                    .iter()
                    .map(|(name, _)| {
                        let known = summary.counters.iter().find(|(counter, _)| counter == name);
                        known.map(|(_, count)| *count)
                    })
                    .collect(),
            })
            .collect();
        let mut source = json!({
            "format": self.format,
            "file": self.source.name,
        });
        if let Some(object) = source.as_object_mut() {
            object.extend(more.map(|(name, value)| (name.to_owned(), value)));
            object.insert("notes".to_owned(), json!(self.notes));
        }
        self.recorder.finish(&totals).with_source(source)
    }
}
