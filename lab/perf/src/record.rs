//! A test as a record.

use paceline_record::{
    EventKind, EventRow, FlowInfo, FlowTotals, Recorder, Run, RunInfo, SampleRow,
};
use paceline_recovery::SenderStats;
use paceline_units::{Bytes, Duration, Instant, Rate};
use serde_json::json;

use crate::message::Row;

/// A test that has ended, and the measurements of both sides.
pub(crate) struct Measured {
    pub cc: String,
    pub peer: String,
    pub reverse: bool,
    pub streams: u32,
    pub interval: Duration,
    pub duration: Duration,
    pub mtu: u16,
    /// The sender's rows, in order of time.
    pub rows: Vec<Row>,
    /// Bytes received at each multiple of the interval.
    pub received: Vec<u64>,
    /// Total bytes received.
    pub total: u64,
    pub finished: Option<Duration>,
    pub incomplete: Option<String>,
    pub notes: Vec<String>,
}

impl Measured {
    pub fn into_run(self) -> Run {
        let start = Instant::ZERO;
        let minimum = self.rows.iter().filter_map(|row| row.min).min();
        let from = if self.reverse { "from" } else { "to" };
        let about = format!(
            "{} over QUIC {from} {}: no scenario was run.",
            self.cc, self.peer
        );
        let info = RunInfo {
            scenario: "perf".to_owned(),
            scenario_toml: format!("about = {}\n", json!(about)),
            seed: 0,
            backend: "perf".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            duration: self.duration,
            sample_interval: self.interval,
            // IP and UDP headers, in addition to QUIC's header, tag and frame.
            payload_ratio: f64::from(self.mtu.saturating_sub(40)) / (f64::from(self.mtu) + 28.0),
            payload_ratios: Vec::new(),
            incomplete: None,
            guests: Vec::new(),
            flows: vec![FlowInfo {
                flow: 0,
                cc: self.cc.clone(),
                label: format!("{} {from} {}", self.cc, self.peer),
                start,
                stop: Some(start + self.duration).filter(|_| self.finished.is_none()),
                base_rtt: Duration::from_nanos(minimum.unwrap_or(0)),
                mss: self.mtu.into(),
            }],
            links: Vec::new(),
        };
        let counters = SenderStats::COUNTERS.iter().map(|(name, _)| *name);
        let mut recorder = Recorder::new(info, &[Vec::new()], counters);
        recorder.event(EventRow::new(start, Some(0), EventKind::Start));
        let mut phase = String::new();
        for row in &self.rows {
            if row.phase != phase {
                let event = EventRow::new(
                    start + Duration::from_nanos(row.t),
                    Some(0),
                    EventKind::State,
                );
                recorder.event(event.between(phase.clone(), row.phase.clone()));
                phase.clone_from(&row.phase);
            }
        }
        let none = Row::default();
        let mut known = 0;
        let samples = self.duration.as_nanos() / self.interval.as_nanos();
        let even = (0..samples).map(|nth| self.interval * nth);
        for t in even.chain([self.duration]) {
            while self
                .rows
                .get(known)
                .is_some_and(|row| row.t <= t.as_nanos())
            {
                known += 1;
            }
            let row = known.checked_sub(1).and_then(|last| self.rows.get(last));
            let nth = (t.as_nanos() / self.interval.as_nanos()) as usize;
            let received = self.received.get(nth).or(self.received.last());
            let received = match t == self.duration {
                true => self.total,
                false => received.map_or(0, |received| (*received).min(self.total)),
            };
            recorder.sample(sample(start + t, row.unwrap_or(&none), received), |_| {});
        }
        if let Some(why) = &self.incomplete {
            recorder.stop(start + self.duration, why);
        }
        if let Some(finished) = self.finished {
            recorder.event(EventRow::new(start + finished, Some(0), EventKind::Finish));
        }
        let last = self.rows.last();
        let totals = FlowTotals {
            flow: 0,
            goodput: Bytes::new(self.total),
            finished: self.finished.map(|finished| start + finished),
            counters: SenderStats::COUNTERS
                .iter()
                .map(|(name, _)| match *name {
                    "sent_packets" => last.map(|row| row.sent),
                    "lost_packets" => last.map(|row| row.lost),
                    _ => None,
                })
                .collect(),
        };
        let source = json!({
            "format": "perf",
            "file": self.peer,
            "perf": { "reverse": self.reverse, "streams": self.streams },
            "notes": self.notes,
        });
        recorder.finish(&[totals]).with_source(source)
    }
}

fn sample(t: Instant, row: &Row, received: u64) -> SampleRow {
    SampleRow {
        t_ns: t,
        flow: 0,
        cwnd_bytes: row.cwnd.map(Bytes::new),
        in_flight_bytes: Bytes::new(row.flight),
        pacing_bps: row.pacing.map(Rate::from_bps),
        delivery_bps: row.delivery.map(Rate::from_bps),
        rtt_ns: row.rtt.map(Duration::from_nanos),
        srtt_ns: row.srtt.map(Duration::from_nanos),
        min_rtt_ns: row.min.map(Duration::from_nanos),
        goodput_bytes: Bytes::new(received),
        delivered_bytes: Bytes::new(row.acked),
        sent_packets: row.sent,
        lost_packets: row.lost,
        retransmitted_packets: 0,
        phase: row.phase.clone().into(),
        ca_state: "".into(),
        app_limited: row.limited,
    }
}
