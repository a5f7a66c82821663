//! Rows for tests.

use paceline_units::{Bytes, Duration, Field, Gain, Instant, Quantity, Rate, Setting, Value};

use crate::info::{FlowInfo, LinkInfo, RunInfo};
use crate::recorder::{FlowTotals, Recorder};
use crate::rows::{EventKind, EventRow, PacketKind, PacketRow, QueueRow, SampleRow};
use crate::run::Run;

/// The counters of flows in tests.
pub(crate) const COUNTERS: [&str; 3] = ["sent_packets", "retransmitted_packets", "rto_count"];

/// A recorder of flows whose controllers show no fields.
pub(crate) fn recorder(info: RunInfo) -> Recorder {
    Recorder::new(info, &[], COUNTERS)
}

/// A flow's totals: packets sent and retransmitted, timeouts, payload.
pub(crate) fn totals(flow: u32, counts: [u64; 3], goodput: u64) -> FlowTotals {
    FlowTotals {
        flow,
        goodput: Bytes::new(goodput),
        finished: None,
        counters: counts.map(Some).into(),
    }
}

pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * MS)
}

pub(crate) fn flow_info(flow: u32, start_ms: u64) -> FlowInfo {
    FlowInfo {
        flow,
        cc: "bbr3".into(),
        label: format!("bbr3 {flow}"),
        start: at_ms(start_ms),
        stop: None,
        base_rtt: Duration::from_millis(40),
        mss: 1448,
    }
}

/// Ten seconds over one link of 1 MB/s that all flows cross, 90 % of it payload.
pub(crate) fn run_info(flows: Vec<FlowInfo>) -> RunInfo {
    let link = LinkInfo {
        return_of: None,
        name: "bottleneck".into(),
        capacity: Rate::from_bps(8_000_000),
        limit: Bytes::new(40_000),
        flows: flows.iter().map(|flow| flow.flow).collect(),
    };
    RunInfo {
        scenario: "test".into(),
        scenario_toml: "schema = 1\n".into(),
        seed: u64::MAX,
        backend: "sim".into(),
        version: "0.1.0".into(),
        duration: Duration::from_secs(10),
        sample_interval: Duration::from_secs(1),
        payload_ratio: 0.9,
        payload_ratios: Vec::new(),
        incomplete: None,
        guests: Vec::new(),
        flows,
        links: vec![link],
    }
}

pub(crate) fn sample(flow: u32, t: Instant, goodput: u64, rtt_ms: Option<u64>) -> SampleRow {
    SampleRow {
        t_ns: t,
        flow,
        cwnd_bytes: Some(Bytes::new(14_480)),
        in_flight_bytes: Bytes::new(2_896),
        pacing_bps: None,
        delivery_bps: Some(Rate::from_bps(8_000_000)),
        rtt_ns: rtt_ms.map(Duration::from_millis),
        srtt_ns: rtt_ms.map(Duration::from_millis),
        min_rtt_ns: rtt_ms.map(Duration::from_millis),
        goodput_bytes: Bytes::new(goodput),
        delivered_bytes: Bytes::new(goodput),
        sent_packets: goodput / 1448,
        lost_packets: 0,
        retransmitted_packets: 0,
        phase: "ProbeBW_CRUISE".into(),
        ca_state: "Open".into(),
        app_limited: false,
    }
}

/// A link that could have carried 1 MB/s, and carried `share` percent of it.
pub(crate) fn queue(link: u32, second: u64, share: u64) -> QueueRow {
    QueueRow {
        t_ns: at_ms(second * 1_000),
        link,
        rate_bps: Some(Rate::from_bps(8_000_000)),
        capacity_bytes: Bytes::new(second * 1_000_000),
        delivered_bytes: Bytes::new(second * 10_000 * share),
        delay_ns: Some(Duration::ZERO),
        ..QueueRow::default()
    }
}

/// Rows of a flow, one per second from its start, with the goodput in kB of each second.
pub(crate) fn push_flow(recorder: &mut Recorder, flow: u32, start: u64, kilobytes: &[u64]) {
    let mut goodput = 0;
    recorder.sample(sample(flow, at_ms(start * 1_000), 0, None), |_| {});
    for (t, amount) in (start + 1..).zip(kilobytes) {
        goodput += amount * 1_000;
        recorder.sample(sample(flow, at_ms(t * 1_000), goodput, None), |_| {});
    }
}

/// The run whose metrics are computed by hand: one flow from 0 s, one from 2 s. In kB/s, the first
/// gets 900 until 2 s, 600 until 4 s, then 400; the second 200 until 4 s, then 400.
pub(crate) fn two_flows() -> Run {
    let field = |name, quantity| Field { name, quantity };
    let first = vec![
        field("max_bw", Quantity::Rate),
        field("min_rtt", Quantity::Duration),
        field("inflight_longterm", Quantity::Bytes),
        field("pacing_gain", Quantity::Gain),
        field("round_count", Quantity::Count),
        field("filled_pipe", Quantity::Flag),
    ];
    let second = vec![field("ssthresh", Quantity::Bytes)];
    let info = run_info(vec![flow_info(0, 0), flow_info(1, 2_000)]);
    let mut recorder = Recorder::new(info, &[first, second], COUNTERS);
    let (mut first, mut second) = (0, 0);
    for t in 0..=10 {
        let row = sample(0, at_ms(t * 1_000), first, (t > 0).then_some(t * 10));
        recorder.sample(row, |visit| {
            visit.show("max_bw", Value::Rate(Rate::from_bps(8_000_000)));
            visit.show("min_rtt", Value::Duration(Duration::from_millis(40)));
            visit.show("inflight_longterm", Value::Bytes(Bytes::INFINITE));
            visit.show("pacing_gain", Value::Gain(Gain::from_millionths(2_772_589)));
            visit.show("round_count", Value::Count(t));
            visit.show("filled_pipe", Value::Flag(t > 1));
        });
        first += 1_000
            * match t {
                0..=1 => 900,
                2..=3 => 600,
                _ => 400,
            };
        if t >= 2 {
            let row = sample(1, at_ms(t * 1_000), second, (t > 2).then_some(200));
            recorder.sample(row, |visit| {
                visit.show("ssthresh", Value::Bytes(Bytes::new(20_000)))
            });
            second += 1_000 * if t < 4 { 200 } else { 400 };
        }
        recorder.queue(QueueRow {
            backlog_bytes: Bytes::new(t * 1_000),
            backlog_packets: t,
            delay_ns: (t != 3).then(|| Duration::from_millis(t)),
            peak_bytes: Bytes::new(t * 1_000 + 500),
            dropped_packets: t * 4,
            offered_packets: t * 800,
            ..queue(0, t, 90)
        });
    }
    for (ms, flow, from, detail) in [
        (0, 0, "", "Startup"),
        (1_500, 0, "Startup", "Drain"),
        (2_000, 0, "Drain", "ProbeBW"),
        (5_000, 1, "Startup", "Drain"),
    ] {
        let event = EventRow::new(at_ms(ms), Some(flow), EventKind::State);
        recorder.event(event.between(from, detail));
    }
    recorder.event(change(3_000, 0, 0));
    let packet = PacketRow::new(at_ms(20), 0, PacketKind::Deliver, 0, 1448);
    recorder.packet(PacketRow {
        window_bytes: Bytes::new(65_536),
        ..packet
    });
    recorder.finish(&[
        totals(0, [5_500, 45, 1], 5_400_000),
        totals(1, [2_900, 15, 2], 2_800_000),
    ])
}

/// A change of a link's rate.
pub(crate) fn change(ms: u64, link: u32, rate: u64) -> EventRow {
    let to = Setting::Value(Value::Rate(Rate::from_bps(rate)));
    EventRow {
        link: Some(link),
        ..EventRow::change(at_ms(ms), "rate", to)
    }
}
