use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use paceline_units::{Bytes, Duration, Instant, Quantity, Rate};
use proptest::prelude::*;

use super::*;
use crate::info::{FlowInfo, LinkInfo};
use crate::recorder::{FlowTotals, Recorder};
use crate::rows::{EventKind, EventRow, QueueRow, SampleRow};
use crate::run::Run;
use crate::testing::{
    at_ms, change, flow_info, push_flow, queue, recorder, run_info, sample, totals, two_flows,
};

#[track_caller]
fn assert_near(value: Option<f64>, expected: f64) {
    let value = value.expect("defined");
    assert!(
        (value - expected).abs() <= 1e-12 * expected.abs(),
        "{value} is not {expected}"
    );
}

/// A metric of a flow by its index.
fn of_flow(run: &Run, flow: usize, name: &str) -> Option<f64> {
    run.flows()[flow]
        .metrics
        .iter()
        .find(|m| m.name == name)
        .unwrap()
        .value
}

/// A run with a queue that is 90 % used, of flows given by start in seconds and kB in each second.
fn run_of(flows: &[(u64, &[u64])]) -> Run {
    let infos = (0..)
        .zip(flows)
        .map(|(flow, (start, _))| flow_info(flow, start * 1_000));
    record(infos.collect(), flows, &[])
}

fn record(infos: Vec<FlowInfo>, flows: &[(u64, &[u64])], totals: &[FlowTotals]) -> Run {
    let mut recorder = recorder(run_info(infos));
    for (flow, (start, kilobytes)) in (0..).zip(flows) {
        push_flow(&mut recorder, flow, *start, kilobytes);
    }
    for second in 0..=10 {
        recorder.queue(queue(0, second, 90));
    }
    recorder.finish(totals)
}

#[test]
fn rows_between_the_regular_ones_have_no_weight() {
    let mut recorder = recorder(run_info(vec![flow_info(0, 0)]));
    for second in 0..=10 {
        recorder.sample(sample(0, at_ms(second * 1_000), 0, Some(second)), |_| {});
        for extra in 1..20 {
            let row = sample(0, at_ms(second * 1_000 + extra), 0, Some(500));
            if second < 10 {
                recorder.sample(row, |_| {});
            }
        }
    }
    let run = recorder.finish(&[]);
    assert_near(run.metric("rtt_p50_ns"), 5e6);
    assert_near(run.metric("rtt_mean_ns"), 5e6);
}

#[test]
fn an_rtt_that_is_not_measured_again_counts_once() {
    let mut recorder = recorder(run_info(vec![flow_info(0, 0)]));
    // 20, 20 and 200 ms in the first three seconds; then the flow is idle.
    for second in 0..=10 {
        let rtt = match second {
            0 => None,
            1 | 2 => Some(20),
            _ => Some(200),
        };
        let row = sample(0, at_ms(second * 1_000), second.min(3) * 1_000, rtt);
        recorder.sample(row, |_| {});
    }
    let run = recorder.finish(&[]);
    assert_near(run.metric("rtt_p50_ns"), 20e6);
    assert_near(run.metric("rtt_mean_ns"), 80e6);
    assert_near(of_flow(&run, 0, "rtt_p95_ns"), 200e6);
}

#[test]
fn throughput_by_hand() {
    let run = two_flows();
    // 5.4 MB + 2.8 MB of 10 s x 1 MB/s x 0.9
    assert_near(run.metric("utilisation_ratio"), 8.2 / 9.0);
    assert_near(run.metric("goodput_bps"), 8.2e6 * 8.0 / 10.0);
    assert_near(of_flow(&run, 0, "goodput_bps"), 5.4e6 * 8.0 / 10.0);
    assert_near(of_flow(&run, 1, "goodput_bps"), 2.8e6 * 8.0 / 8.0);
    assert_near(of_flow(&run, 0, "share_ratio"), 5.4 / 8.2);
    assert_near(of_flow(&run, 1, "share_ratio"), 2.8 / 8.2);
}

#[test]
fn fairness_by_hand() {
    let run = two_flows();
    // 540 and 350 kB/s: 890^2 / (2 (540^2 + 350^2))
    assert_near(run.metric("jain_ratio"), 792_100.0 / 828_200.0);
    // Two bins of (600, 200), 0.8 each, and six of (400, 400); none before the second flow starts.
    assert_near(run.metric("jain_bins_ratio"), 0.95);
    assert_near(run.metric("jain_last_half_ratio"), 1.0);
    // The last start is at 2 s, the first fair bin at 4 s.
    assert_near(run.metric("convergence_ns"), 2e9);
    assert_near(run.metric("jain_after_convergence_ratio"), 1.0);
}

#[test]
fn variation_by_hand() {
    let run = two_flows();
    // 2 x 900, 2 x 600, 6 x 400: mean 540, variance (2 x 360^2 + 2 x 60^2 + 6 x 140^2) / 10
    let first = 38_400f64.sqrt() / 540.0;
    // 2 x 200, 6 x 400: mean 350, variance (2 x 150^2 + 6 x 50^2) / 8
    let second = 7_500f64.sqrt() / 350.0;
    assert_near(of_flow(&run, 0, "goodput_variation_ratio"), first);
    assert_near(of_flow(&run, 1, "goodput_variation_ratio"), second);
    assert_near(
        run.metric("goodput_variation_ratio"),
        (first + second) / 2.0,
    );
    // One bin has no variation.
    assert_eq!(
        of_flow(&run_of(&[(9, &[1])]), 0, "goodput_variation_ratio"),
        None
    );
}

#[test]
fn rtt_by_hand() {
    let run = two_flows();
    // 10, 20, ... 100 ms and eight times 200 ms: ranks 9 and 18 of 18
    assert_near(run.metric("rtt_p50_ns"), 90e6);
    assert_near(run.metric("rtt_p95_ns"), 200e6);
    assert_near(run.metric("rtt_p99_ns"), 200e6);
    // 2150 ms / 18, to the nearest nanosecond
    assert_near(run.metric("rtt_mean_ns"), 119_444_444.0);
    // ranks 5 and 10 of 10
    assert_near(of_flow(&run, 0, "rtt_p50_ns"), 50e6);
    assert_near(of_flow(&run, 0, "rtt_p95_ns"), 100e6);
    assert_near(of_flow(&run, 0, "rtt_mean_ns"), 55e6);
    assert_near(of_flow(&run, 1, "rtt_p50_ns"), 200e6);
}

#[test]
fn queue_by_hand() {
    let run = two_flows();
    // 0, 1, 2, 4, ... 10 ms: while the link is stopped (3 s) the delay is not known
    assert_near(run.metric("queue_p50_ns"), 5e6);
    assert_near(run.metric("queue_p95_ns"), 10e6);
    assert_near(run.metric("queue_p99_ns"), 10e6);
    assert_near(run.metric("queue_mean_ns"), 5.2e6);
    assert_near(run.metric("queue_max_bytes"), 10_500.0);
}

#[test]
fn percentiles_are_of_nearest_rank() {
    let hundred: Vec<i64> = (1..=100).collect();
    assert_eq!(percentile(&hundred, 50), Some(50.0));
    assert_eq!(percentile(&hundred, 95), Some(95.0));
    assert_eq!(percentile(&hundred, 99), Some(99.0));
    assert_eq!(percentile(&[7, 9], 50), Some(7.0));
    assert_eq!(percentile(&[7, 9], 51), Some(9.0));
    assert_eq!(percentile(&[7], 99), Some(7.0));
    assert_eq!(percentile(&[], 50), None);
}

#[test]
fn means_are_rounded() {
    assert_eq!(whole_mean(&[1, 2]), Some(2.0));
    assert_eq!(whole_mean(&[1, 1, 2]), Some(1.0));
    assert_eq!(whole_mean(&[]), None);
}

#[test]
fn loss_and_retransmission_by_hand() {
    let run = two_flows();
    // 40 of 8000
    assert_near(run.metric("loss_ratio"), 1.0 - 7_960.0 / 8_000.0);
    assert_near(run.metric("retransmit_ratio"), 60.0 / 8_400.0);
    assert_near(run.metric("rto_count"), 3.0);
    assert_near(of_flow(&run, 0, "retransmit_ratio"), 45.0 / 5_500.0);
    assert_near(of_flow(&run, 1, "rto_count"), 2.0);
    assert_eq!(of_flow(&run, 0, "completion_ns"), None);
}

/// A run of one flow with a row a second: bytes acknowledged, and the rate sample in Mbit/s.
fn ramp(rows: &[(u64, u64)]) -> Run {
    let mut recorder = recorder(run_info(vec![flow_info(0, 0)]));
    for (second, (acknowledged, tenths)) in (0..).zip(rows) {
        let row = SampleRow {
            delivered_bytes: Bytes::new(*acknowledged),
            delivery_bps: Some(Rate::from_bps(tenths * 100_000)),
            ..sample(0, at_ms(second * 1_000), 0, None)
        };
        recorder.sample(row, |_| {});
    }
    recorder.finish(&[])
}

#[test]
fn time_to_full_rate_by_hand() {
    // 8 Mbit/s, 90 % of it payload: 99 % of 7.2 Mbit/s is 7.128 Mbit/s.
    let full_rate = |rows: &[(u64, u64)]| of_flow(&ramp(rows), 0, "full_rate_ns");
    assert_eq!(
        full_rate(&[(0, 0), (0, 0), (1, 10), (2, 71), (3, 72), (4, 80)]),
        Some(2e9)
    );
    assert_eq!(full_rate(&[(0, 0), (1, 10), (2, 71)]), None);
    // The very first sample may reach it; a rate without data means nothing.
    assert_eq!(full_rate(&[(0, 90), (1, 72)]), Some(0.0));
    assert_eq!(full_rate(&[(0, 72), (0, 72)]), None);
    assert_eq!(full_rate(&[]), None);
    // For the run: 2 s and 4 s, and a flow that never reaches it.
    let mut recorder = recorder(run_info((0..3).map(|k| flow_info(k, 0)).collect()));
    for (flow, reached) in [(0, 3), (1, 5), (2, 99)] {
        for second in 1..=9 {
            let row = SampleRow {
                delivery_bps: Some(Rate::from_bps(if second < reached { 0 } else { 7_200_000 })),
                ..sample(flow, at_ms(second * 1_000), second, None)
            };
            recorder.sample(row, |_| {});
        }
    }
    let run = recorder.finish(&[]);
    assert_eq!(run.metric("full_rate_ns"), Some(3e9));
    // The third one's first row with data is at 1 s of 10: longer than 9 s.
    assert_eq!(of_flow(&run, 2, "full_rate_ns"), None);
    assert_eq!(censored(&run.flows()[2].metrics, "full_rate_ns"), Some(9e9));
    assert_eq!(censored(&run.flows()[1].metrics, "full_rate_ns"), None);
    assert_eq!(censored(run.metrics(), "full_rate_ns"), None);
    let never = ramp(&[(0, 0), (1, 10), (2, 71)]);
    assert_eq!(
        censored(never.metrics(), "full_rate_ns"),
        censored(&never.flows()[0].metrics, "full_rate_ns")
    );
    assert!(censored(never.metrics(), "full_rate_ns") > Some(0.0));
}

fn censored(metrics: &[Metric], name: &str) -> Option<f64> {
    metrics.iter().find(|m| m.name == name)?.censored
}

#[test]
fn a_time_that_the_run_does_not_show_is_censored() {
    // Ten whole bins: the last five begin at 5 s. Then from a last start at 2 s, at 3 s.
    let unfair = run_of(&[(0, &[500; 10]), (0, &[100; 10])]);
    assert_eq!(censored(unfair.metrics(), "convergence_ns"), Some(5e9));
    let late = record(
        vec![flow_info(0, 0), flow_info(1, 2_000)],
        &[(0, &[500; 10]), (2, &[100; 8])],
        &[],
    );
    assert_eq!(censored(late.metrics(), "convergence_ns"), Some(3e9));
    // Known, and not applicable to one flow.
    let fair = run_of(&[(0, &[500; 10]), (0, &[500; 10])]);
    assert_eq!(censored(fair.metrics(), "convergence_ns"), None);
    let one = run_of(&[(0, &[500; 10])]);
    assert_eq!(censored(one.metrics(), "convergence_ns"), None);
    // No change of the rate, no time to regain it.
    assert_eq!(censored(one.metrics(), "rate_recovery_ns"), None);
    // A flow has not finished in its 10 s; in JSON beside the other metrics.
    assert_eq!(
        censored(&one.flows()[0].metrics, "completion_ns"),
        Some(10e9)
    );
    let summary = one.summary_json();
    assert_eq!(
        summary["flows"][0]["censored"]["completion_ns"],
        10_000_000_000_u64
    );
    assert_eq!(
        unfair.summary_json()["censored"]["convergence_ns"],
        5_000_000_000_u64
    );
    assert!(
        one.summary_json()
            .get("censored")
            .is_none_or(|c| c.get("convergence_ns").is_none())
    );
}

#[test]
fn states_by_hand() {
    let run = two_flows();
    let states = |flow: usize| -> Vec<(&str, u64)> {
        run.flows()[flow]
            .states
            .iter()
            .map(|(name, t)| (name.as_str(), *t / 1_000_000))
            .collect()
    };
    assert_eq!(
        states(0),
        [("Startup", 1_500), ("Drain", 500), ("ProbeBW", 8_000)]
    );
    // Its initial state is known only from the state that it leaves at 5 s.
    assert_eq!(states(1), [("Startup", 3_000), ("Drain", 5_000)]);
}

#[test]
fn a_state_entered_again_adds_up_and_ends_with_the_flow() {
    let mut info = flow_info(0, 1_000);
    info.stop = Some(at_ms(7_000));
    let mut recorder = recorder(run_info(vec![info]));
    for (ms, detail) in [
        (1_000, "Up"),
        (2_000, "Down"),
        (4_000, "Up"),
        (8_000, "Down"),
    ] {
        let event = EventRow::new(at_ms(ms), Some(0), EventKind::State);
        recorder.event(event.between("", detail));
    }
    let run = recorder.finish(&[]);
    assert_eq!(
        run.flows()[0].states,
        [("Up".into(), 4_000_000_000), ("Down".into(), 2_000_000_000)]
    );
}

#[test]
fn a_flow_that_is_not_there_is_not_unfair() {
    // 400 kB/s each, the first until 5 s, the second from 2 s on.
    let mut early = flow_info(0, 0);
    early.stop = Some(at_ms(5_000));
    let late = flow_info(1, 2_000);
    let flows: [(u64, &[u64]); 2] = [
        (0, &[400, 400, 400, 400, 400, 0, 0, 0, 0, 0]),
        (2, &[400; 8]),
    ];
    let run = record(vec![early, late], &flows, &[]);
    assert_near(run.metric("jain_ratio"), 1.0);
    assert_near(run.metric("jain_bins_ratio"), 1.0);
    // In the last half there is only one.
    assert_near(run.metric("jain_last_half_ratio"), 1.0);
    // Two flows for three bins are not two flows for five.
    assert_eq!(run.metric("convergence_ns"), None);
}

#[test]
fn a_bin_that_a_flow_starts_in_is_not_its() {
    // From 3 s on both have 400 kB/s; the second starts at 2.5 s.
    let infos = vec![flow_info(0, 0), flow_info(1, 2_500)];
    let flows: [(u64, &[u64]); 2] = [(0, &[400; 10]), (3, &[400; 7])];
    assert_near(record(infos, &flows, &[]).metric("jain_bins_ratio"), 1.0);
}

#[test]
fn convergence_needs_five_fair_bins_in_a_row() {
    let fair = |second: &[u64]| run_of(&[(0, &[500; 10]), (0, second)]).metric("convergence_ns");
    assert_eq!(fair(&[500; 10]), Some(0.0));
    // 333 of a mean of 416.5 is within 20 %; 333 / 416.5 = 0.7995 is not.
    assert_eq!(fair(&[334; 10]), Some(0.0));
    assert_eq!(fair(&[333; 10]), None);
    // Four fair bins, an unfair one, then five.
    assert_eq!(
        fair(&[500, 500, 500, 500, 100, 500, 500, 500, 500, 500]),
        Some(5e9)
    );
    assert_eq!(
        fair(&[500, 500, 500, 500, 100, 500, 500, 500, 500, 100]),
        None
    );
    assert_eq!(run_of(&[(0, &[500; 10])]).metric("convergence_ns"), None);
    assert_eq!(
        run_of(&[(0, &[0; 10]), (0, &[0; 10])]).metric("convergence_ns"),
        None
    );
}

/// 25 flows for 10 days are 21.6 million bins.
#[test]
fn more_bins_than_there_is_time_for_are_not_looked_at() {
    let of = |count, hours: u64| {
        let mut info = run_info((0..count).map(|flow| flow_info(flow, 0)).collect());
        info.duration = Duration::from_secs(hours * 3600);
        let mut recorder = recorder(info);
        for flow in 0..count {
            push_flow(&mut recorder, flow, 0, &[500]);
        }
        recorder.finish(&[]).metric("jain_bins_ratio")
    };
    assert_eq!((of(25, 1), of(25, 240)), (Some(1.0), None));
}

#[test]
fn a_stall_of_all_flows_is_a_result() {
    let stalled = [500, 500, 0, 0, 500, 500, 500, 500, 500, 500];
    let run = run_of(&[(0, &stalled), (0, &stalled)]);
    // The bins without any delivery say nothing about fairness.
    assert_near(run.metric("jain_bins_ratio"), 1.0);
    assert_near(run.metric("convergence_ns"), 4e9);
    assert_near(run.metric("goodput_bps"), 6.4e6);
}

#[test]
fn a_flow_that_finishes_between_two_samples() {
    let totals = FlowTotals {
        flow: 0,
        goodput: Bytes::new(150_000),
        finished: Some(at_ms(1_500)),
        ..FlowTotals::default()
    };
    let infos = vec![flow_info(0, 1_000)];
    let run = record(infos, &[(1, &[150, 0, 0, 0, 0, 0, 0, 0, 0])], &[totals]);
    // 150 kB in half a second, which is the whole window.
    assert_near(of_flow(&run, 0, "completion_ns"), 5e8);
    assert_near(of_flow(&run, 0, "goodput_bps"), 2.4e6);
    assert_near(run.metric("goodput_bps"), 2.4e6);
    assert_near(run.metric("utilisation_ratio"), 0.15 / 0.45);
}

#[test]
fn a_single_flow_has_no_fairness_over_time() {
    let run = run_of(&[(0, &[800; 10])]);
    assert_near(run.metric("jain_ratio"), 1.0);
    assert_eq!(run.metric("jain_bins_ratio"), None);
    assert_eq!(run.metric("jain_after_convergence_ratio"), None);
}

#[test]
fn what_is_undefined_is_absent() {
    let run = recorder(run_info(Vec::new())).finish(&[]);
    let defined: Vec<&Metric> = run.metrics().iter().filter(|m| m.value.is_some()).collect();
    assert_eq!(
        defined.iter().map(|m| m.name).collect::<Vec<_>>(),
        ["rto_count"]
    );
    let metrics = &run.summary_json()["metrics"];
    assert!(metrics["utilisation_ratio"].is_null());
    assert_eq!(metrics["rto_count"], 0);
}

#[test]
fn of_several_links_the_busiest_is_the_bottleneck() {
    let mut info = run_info(vec![flow_info(0, 0), flow_info(1, 0)]);
    let link = |name: &str, flows: &[u32]| LinkInfo {
        return_of: None,
        name: name.into(),
        flows: flows.into(),
        ..info.links[0].clone()
    };
    info.links = vec![
        link("idle", &[0, 1]),
        link("access", &[1]),
        link("acks", &[]),
    ];
    let mut recorder = recorder(info);
    push_flow(&mut recorder, 0, 0, &[100; 10]);
    push_flow(&mut recorder, 1, 0, &[600; 10]);
    for second in 0..=10 {
        for (link, share, delay) in [(0, 70, 1), (1, 80, 2), (2, 99, 3)] {
            recorder.queue(QueueRow {
                delay_ns: Some(Duration::from_millis(delay)),
                offered_packets: second * 100,
                dropped_packets: second * delay * 10,
                ..queue(link, second, share)
            });
        }
    }
    let sent = [totals(0, [200, 0, 0], 0), totals(1, [1_000, 0, 0], 0)];
    let run = recorder.finish(&sent);
    assert_near(run.metric("queue_p50_ns"), 2e6);
    // Only the second flow crosses it.
    assert_near(run.metric("utilisation_ratio"), 6.0 / 9.0);
    // 100 and 200 of 1,200 packets; drops of acknowledgments are not loss of data.
    assert_near(run.metric("loss_ratio"), 0.25);
}

/// One flow down, one up, and 1 MB/s in each direction.
const ACKS: [&str; 3] = [
    "ack_sent_packets",
    "ack_lost_packets",
    "ack_filtered_packets",
];

#[test]
fn the_return_direction_has_metrics_of_its_own() {
    let mut info = run_info(vec![flow_info(0, 0), flow_info(1, 0)]);
    let one = info.links[0].clone();
    let link = |flows: &[u32], return_of| LinkInfo {
        return_of,
        flows: flows.into(),
        ..one.clone()
    };
    info.links = vec![link(&[0], None), link(&[1], Some(0)), link(&[], Some(0))];
    let mut recorder = Recorder::new(info.clone(), &[Vec::new(), Vec::new()], ACKS);
    push_flow(&mut recorder, 0, 0, &[600; 10]);
    push_flow(&mut recorder, 1, 0, &[100; 10]);
    for second in 0..=10 {
        // The up link is fuller than the down link, whose queue still is the bottleneck's.
        for (link, share, delay) in [(0, 70, 1), (1, 80, second), (2, 10, 50)] {
            recorder.queue(QueueRow {
                delay_ns: Some(Duration::from_millis(delay)),
                ..queue(link, second, share)
            });
        }
    }
    let acks = |flow, counts: [Option<u64>; 3]| FlowTotals {
        counters: counts.into(),
        ..totals(flow, [0; 3], 0)
    };
    let counted = [
        acks(0, [Some(300), Some(30), Some(45)]),
        acks(1, [Some(100), Some(50), Some(20)]),
    ];
    let run = recorder.finish(&counted);
    assert_near(run.metric("queue_p50_ns"), 1e6);
    assert_near(run.metric("utilisation_ratio"), 6.0 / 9.0);
    assert_near(run.metric("return_goodput_bps"), 800e3);
    assert_near(run.metric("return_used_ratio"), 0.8);
    // 0 to 10 ms in eleven rows: the sixth, and the eleventh.
    assert_near(run.metric("return_queue_p50_ns"), 5e6);
    assert_near(run.metric("return_queue_p95_ns"), 10e6);
    assert_near(run.metric("return_ack_loss_ratio"), 0.2);
    assert_near(of_flow(&run, 0, "return_ack_loss_ratio"), 0.1);
    assert_near(of_flow(&run, 1, "return_ack_loss_ratio"), 0.5);
    assert_near(run.metric("return_ack_filtered_ratio"), 0.1625);
    assert_near(of_flow(&run, 0, "return_ack_filtered_ratio"), 0.15);

    // Unknown is not zero, and what has no rate is not used to a share.
    info.links = vec![LinkInfo {
        capacity: Rate::INFINITE,
        ..link(&[], Some(0))
    }];
    let mut recorder = Recorder::new(info, &[Vec::new(), Vec::new()], ACKS);
    recorder.queue(queue(0, 10, 50));
    let run = recorder.finish(&[acks(0, [None; 3]), acks(1, [Some(0); 3])]);
    let names = [
        "return_goodput_bps",
        "return_used_ratio",
        "return_ack_loss_ratio",
        "return_ack_filtered_ratio",
    ];
    assert_eq!(names.map(|name| run.metric(name)), [None; 4]);
    assert!(run.summary_json()["metrics"]["return_used_ratio"].is_null());
    let without = two_flows();
    assert!(
        without
            .metrics()
            .iter()
            .all(|m| !m.name.starts_with("return_"))
    );
}

#[test]
fn a_rate_that_changes_counts_by_what_could_be_carried() {
    let mut recorder = recorder(run_info(vec![flow_info(0, 5_000)]));
    push_flow(&mut recorder, 0, 5, &[450; 5]);
    // 1 MB/s until 5 s, before the flow starts, then half of it.
    for (second, capacity) in [(0, 0), (5, 5_000_000), (10, 7_500_000)] {
        recorder.queue(QueueRow {
            capacity_bytes: Bytes::new(capacity),
            ..queue(0, second, 50)
        });
    }
    assert_near(recorder.finish(&[]).metric("utilisation_ratio"), 1.0);
}

#[test]
fn names_end_in_their_unit_and_are_found_without() {
    let names: Vec<_> = METRICS.iter().map(|m| m.name).collect();
    let flow_names = FLOW_METRICS.iter().map(|m| m.name);
    for name in names.iter().copied().chain(flow_names) {
        let quantity = Quantity::of_name(name);
        let is_known = matches!(
            quantity,
            Some(
                Quantity::Duration
                    | Quantity::Bytes
                    | Quantity::Rate
                    | Quantity::Count
                    | Quantity::Gain
            )
        );
        assert!(is_known, "{name}: {quantity:?}");
    }
    for (k, name) in names.iter().enumerate() {
        assert!(!names[..k].contains(name), "{name} twice");
    }
    assert_eq!(
        find(METRICS, "jain_after_convergence").unwrap().name,
        "jain_after_convergence_ratio"
    );
    assert_eq!(find(METRICS, "rtt_p50_ns").unwrap().name, "rtt_p50_ns");
    assert!(find(METRICS, "jain_").is_none() && find(METRICS, "").is_none());
}

#[test]
fn the_reference_is_up_to_date() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/metrics.md"
    );
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
        std::fs::write(path, reference()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == reference(),
        "stale: UPDATE_DOCS=1 cargo test -p paceline-record"
    );
}

/// Numbers at the edges and in between.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(u64::MAX),
        Just(1_000_000_000),
        0..20_000_000_000u64,
        any::<u64>()
    ]
}

prop_compose! {
    fn any_run()(
        duration in number(),
        payload_ratio in prop_oneof![Just(0.9), Just(0.0), any::<f64>()],
        flows in prop::collection::vec((0..4u32, number(), prop::option::of(number())), 0..5),
        links in prop::collection::vec(prop::collection::vec(0..5u32, 0..3), 0..3),
        samples in prop::collection::vec(
            (number(), 0..5u32, number(), prop::option::of(number())), 0..30),
        queues in prop::collection::vec((number(), 0..4u32, prop::array::uniform6(number())), 0..20),
        events in prop::collection::vec(
            (number(), prop::option::of(0..5u32), "[a-c]?", "[a-c]?"), 0..10),
        counts in prop::collection::vec(
            (0..5u32, prop::option::of(number()), prop::array::uniform4(number())), 0..5),
    ) -> Run {
        let mut info = run_info(Vec::new());
        info.duration = Duration::from_nanos(duration);
        info.payload_ratio = payload_ratio;
        info.flows = flows.into_iter().map(|(flow, start, stop)| FlowInfo {
            start: Instant::from_nanos(start),
            stop: stop.map(Instant::from_nanos),
            ..flow_info(flow, 0)
        }).collect();
        let link = info.links[0].clone();
        info.links = links.into_iter().map(|flows| LinkInfo { flows, ..link.clone() }).collect();
        let mut recorder = recorder(info);
        for (t, flow, goodput, rtt) in samples {
            let mut row = sample(flow, Instant::from_nanos(t), goodput, None);
            row.rtt_ns = rtt.map(Duration::from_nanos);
            recorder.sample(row, |_| {});
        }
        for (t, link, [delay, peak, capacity, delivered, dropped, offered]) in queues {
            recorder.queue(QueueRow {
                t_ns: Instant::from_nanos(t),
                link,
                delay_ns: Some(Duration::from_nanos(delay)),
                peak_bytes: Bytes::new(peak),
                capacity_bytes: Bytes::new(capacity),
                delivered_bytes: Bytes::new(delivered),
                dropped_packets: dropped,
                offered_packets: offered,
                ..QueueRow::default()
            });
        }
        for (t, flow, from, detail) in events {
            let t = Instant::from_nanos(t);
            let event = EventRow::new(t, flow, EventKind::State);
            recorder.event(event.between(from, detail));
        }
        let totals: Vec<FlowTotals> = counts.into_iter().map(
            |(flow, finished, [sent, again, rtos, goodput])| FlowTotals {
                finished: finished.map(Instant::from_nanos),
                ..totals(flow, [sent, again, rtos], goodput)
            }).collect();
        recorder.finish(&totals)
    }
}

fn check(run: &Run) {
    for metric in run
        .metrics()
        .iter()
        .chain(run.flows().iter().flat_map(|f| &f.metrics))
    {
        assert!(metric.value.is_none_or(f64::is_finite), "{metric:?}");
        if metric.name.starts_with("jain") {
            assert!(
                metric.value.is_none_or(|j| (0.0..=1.0 + 1e-9).contains(&j)),
                "{metric:?}"
            );
        }
    }
    let summary = run.summary_json();
    assert_eq!(
        summary["flows"].as_array().unwrap().len(),
        run.info().flows.len()
    );
}

proptest! {
    #[test]
    fn any_rows_give_metrics(run in any_run()) {
        check(&run);
    }

    /// Tables as in a damaged file: of the right types, with any numbers.
    #[test]
    fn any_tables_give_metrics(run in any_run(), numbers in prop::collection::vec(any::<i64>(), 1..50)) {
        let mut numbers = numbers.into_iter().cycle();
        let tables = run.tables().map(|(name, batch)| {
            let columns = batch.columns().iter().map(|column| -> ArrayRef {
                if column.data_type() == &arrow_schema::DataType::Int64 {
                    Arc::new(Int64Array::from_iter_values(numbers.by_ref().take(column.len())))
                } else {
                    column.clone()
                }
            });
            let changed = RecordBatch::try_new(batch.schema(), columns.collect());
            (name, changed.unwrap().into())
        });
        let tables = tables.collect();
        check(&Run::new(run.info().clone(), tables).unwrap());
    }

    /// Time in states is never more than the active time of the flow.
    #[test]
    fn states_fit_the_run(run in any_run()) {
        for flow in run.flows() {
            let sum: u128 = flow.states.iter().map(|(_, t)| u128::from(*t)).sum();
            // Only if events are in order is one state left before the next is entered.
            let times = run.table("events").unwrap();
            let times = times.column_by_name("t_ns").unwrap();
            let times = arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Int64Type>(times);
            if times.values().is_sorted() {
                prop_assert!(sum <= u128::from(run.info().duration.as_nanos()));
            }
        }
    }
}

#[test]
fn heavy_rounds_by_hand() {
    let with = |rtt_ms: u64, changes: &[u64]| {
        let mut recorder = recorder(run_info(vec![flow_info(0, 0)]));
        // Packets dropped and offered up to each second.
        let dropped = [50, 50, 61, 71, 82, 82, 82, 182, 192, 202, 302];
        let offered = [50, 150, 250, 350, 450, 450, 450, 550, 650, 750, 850];
        for (second, (dropped, offered)) in (0..).zip(dropped.into_iter().zip(offered)) {
            let rtt = (second > 0).then_some(rtt_ms);
            recorder.sample(sample(0, at_ms(second * 1_000), 0, rtt), |_| {});
            recorder.queue(QueueRow {
                offered_packets: offered,
                dropped_packets: dropped,
                ..queue(0, second, 90)
            });
        }
        for second in changes {
            recorder.event(change(second * 1_000, 0, 0));
        }
        recorder.finish(&[]).metric("heavy_loss_rounds_count")
    };
    // From 0 s by 2 s: 11 of 200; 21 of 200; nothing offered; 110 of 200; 110 of 200.
    assert_near(with(2_000, &[0]), 3.0);
    // From 1 s by 1 s: 11, 10, 11 of 100; nothing twice; 100 of 100; 10 of 100 twice, the end.
    assert_near(with(1_000, &[0, 1]), 3.0);
    assert_near(with(2_000, &[8]), 1.0);
    assert_eq!(with(2_000, &[]), None);
}

#[test]
fn rate_recovery_by_hand() {
    let with = |kilobytes: &[u64], changes: &[u64]| {
        let mut recorder = recorder(run_info(vec![flow_info(0, 0)]));
        push_flow(&mut recorder, 0, 0, kilobytes);
        for second in 0..=10 {
            recorder.queue(queue(0, second, 90));
        }
        for second in changes {
            recorder.event(change(second * 1_000, 0, 0));
        }
        recorder.finish(&[]).metric("rate_recovery_ns")
    };
    // The link carries 900 kB of payload per second: 810 kB are nine tenths. After the change at 2
    // s the bins from 4 s on reach that.
    let kilobytes = [900, 900, 100, 809, 811, 900, 810, 900, 900, 0];
    assert_near(with(&kilobytes, &[1, 2]), 2e9);
    assert_near(with(&kilobytes, &[4]), 0.0);
    // From 5 s on there are not five good seconds.
    assert_eq!(with(&kilobytes, &[5]), None);
    assert_eq!(with(&kilobytes, &[]), None);
}

/// A run over links, each with the flows that cross it, and with what is offered to it and dropped
/// by its end; its share is that of its capacity that it carries.
fn over(links: &[(&[u32], u64, u64, u64)], sent: &[u64], changed: &[u32]) -> Run {
    let count = links.iter().flat_map(|(flows, ..)| *flows).max().unwrap();
    let mut info = run_info((0..=*count).map(|flow| flow_info(flow, 0)).collect());
    let link = info.links[0].clone();
    let of = |flows: &[u32]| LinkInfo {
        return_of: None,
        flows: flows.into(),
        ..link.clone()
    };
    info.links = links.iter().map(|(flows, ..)| of(flows)).collect();
    let mut recorder = recorder(info);
    for flow in 0..=*count {
        push_flow(&mut recorder, flow, 0, &[450; 10]);
    }
    for second in 0..=10 {
        for (number, (_, offered, dropped, share)) in (0..).zip(links) {
            recorder.queue(QueueRow {
                offered_packets: offered * second / 10,
                dropped_packets: dropped * second / 10,
                ..queue(number, second, *share)
            });
        }
    }
    for link in changed {
        let mut event = change(1_000, 0, 0);
        event.link = Some(*link);
        recorder.event(event);
    }
    let of_flow = |(flow, sent): (u32, &u64)| totals(flow, [*sent, 0, 0], 4_500_000);
    let totals: Vec<FlowTotals> = (0..).zip(sent).map(of_flow).collect();
    recorder.finish(&totals)
}

#[test]
fn loss_counts_each_packet_once() {
    let loss = |links: &[(&[u32], u64, u64, u64)], sent: &[u64]| {
        over(links, sent, &[]).metric("loss_ratio")
    };
    // Side by side: 20 of 1,000 and 90 of 3,000.
    assert_near(
        loss(&[(&[0], 1_000, 20, 90), (&[1], 3_000, 90, 80)], &[]),
        110.0 / 4_000.0,
    );
    // In a row: 100 of 1,000, then 90 of the 900 that are left.
    assert_near(
        loss(&[(&[0, 1], 1_000, 100, 90), (&[0, 1], 900, 90, 80)], &[]),
        0.19,
    );
    // A parking lot: flow 0 crosses both links, flows 1 and 2 one each. 500 + 600 + 700 packets enter.
    let lot: &[(&[u32], u64, u64, u64)] = &[(&[0, 1], 1_100, 110, 90), (&[0, 2], 1_150, 70, 80)];
    assert_near(loss(lot, &[500, 600, 700]), 180.0 / 1_800.0);
    // How many entered is not known.
    assert_eq!(loss(lot, &[]), None);
    // Drops of acknowledgments are not loss of data.
    assert_near(
        loss(&[(&[0], 1_000, 20, 90), (&[], 1_000, 500, 99)], &[]),
        0.02,
    );
}

#[test]
fn a_change_of_a_link_concerns_the_flows_that_cross_it() {
    let defined = |links: &[(&[u32], u64, u64, u64)], changed: &[u32]| {
        let run = over(links, &[], changed);
        let of = |name| run.metric(name).is_some();
        (of("heavy_loss_rounds_count"), of("rate_recovery_ns"))
    };
    // Flow 1's link is not the bottleneck, and nobody crosses the third.
    let apart: &[(&[u32], u64, u64, u64)] =
        &[(&[0], 1_000, 0, 90), (&[1], 1_000, 0, 80), (&[], 0, 0, 0)];
    assert_eq!(defined(apart, &[]), (false, false));
    assert_eq!(defined(apart, &[1]), (false, false));
    assert_eq!(defined(apart, &[2]), (false, false));
    assert!(defined(apart, &[2, 0]).0);
    // A flow of the bottleneck crosses the other link as well.
    let lot: &[(&[u32], u64, u64, u64)] = &[(&[0, 1], 1_000, 0, 90), (&[1], 1_000, 0, 80)];
    assert_eq!(defined(lot, &[1]), (true, true));
    // 450 kB of 900 kB are half: flow 1 does not add to it.
    assert_eq!(defined(apart, &[0]), (true, false));
}

#[test]
fn each_flow_has_its_own_payload() {
    // 90 % payload, and 45 %: in the half that each has of the link, 450 and 225 kB of payload.
    let mut info = run_info(vec![flow_info(0, 0), flow_info(1, 0)]);
    info.set_payload_ratios(vec![0.9, 0.45]);
    assert_eq!((info.payload_ratio, info.payload_ratio_of(1)), (0.9, 0.45));
    let mut recorder = recorder(info);
    for second in 0..=10 {
        let rate = |flow: u32, bps| SampleRow {
            delivery_bps: Some(Rate::from_bps(bps)),
            ..sample(
                flow,
                at_ms(second * 1_000),
                second * 225_000 * u64::from(2 - flow),
                None,
            )
        };
        // 8 Mbit/s on the wire are 7.2 Mbit/s of payload, and 3.6.
        recorder.sample(rate(0, 3_600_000 + second * 600_000), |_| {});
        recorder.sample(rate(1, 3_000_000 + second * 100_000), |_| {});
        recorder.queue(queue(0, second, 100));
    }
    recorder.event(change(2_000, 0, 0));
    let run = recorder.finish(&[]);
    assert_near(run.metric("utilisation_ratio"), 1.0);
    assert_near(run.metric("rate_recovery_ns"), 0.0);
    // 99 % are 7.128 and 3.564 Mbit/s: the sixth row has 7.2 and 3.6.
    assert_near(of_flow(&run, 0, "full_rate_ns"), 5e9);
    assert_near(of_flow(&run, 1, "full_rate_ns"), 5e9);
}

#[test]
fn rows_between_the_regular_ones_change_no_metric() {
    let of = |between: bool| {
        let mut late = flow_info(1, 1_300);
        late.stop = Some(at_ms(7_700));
        let mut recorder = recorder(run_info(vec![flow_info(0, 0), late]));
        for ms in (0..=10_000_u64).step_by(100) {
            for (flow, from, to) in [(0, 0, 10_000), (1, 1_300, 7_700)] {
                let regular = ms % 1_000 == 0 || ms == to;
                if !(from..=to).contains(&ms) || !(regular || between) {
                    continue;
                }
                let row = SampleRow {
                    // As far from linear as a row between can be.
                    goodput_bytes: Bytes::new(if regular {
                        ms * 450
                    } else {
                        ms / 1_000 * 450_000
                    }),
                    delivered_bytes: Bytes::new(ms + 1),
                    delivery_bps: Some(Rate::from_bps(if regular { ms * 900 } else { 8_000_000 })),
                    ..sample(flow, at_ms(ms), 0, Some(if regular { 40 } else { 900 }))
                };
                recorder.sample(row.clone(), |_| {});
                if between && ms % 1_000 == 0 {
                    // Another at the same time, after the regular one.
                    recorder.sample(
                        SampleRow {
                            rtt_ns: Some(Duration::from_secs(3)),
                            ..row
                        },
                        |_| {},
                    );
                }
            }
            if ms % 1_000 == 0 {
                recorder.queue(queue(0, ms / 1_000, 90));
            }
        }
        recorder.event(change(2_000, 0, 0));
        let run = recorder.finish(&[]);
        (run.metrics().to_vec(), run.flows().to_vec())
    };
    assert_eq!(of(false), of(true));
}
