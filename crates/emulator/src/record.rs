//! From what the isolated process saw to a record with the simulator's tables.

use paceline_experiment as experiment;
use paceline_path::QueueLimit;
use paceline_record::{
    EventRow, FlowInfo, FlowTotals, LinkInfo, PacketRow, QueueRow, Recorder, Run, RunInfo,
    SampleRow,
};
use paceline_scenario::Scenario;
use paceline_units::{Bytes, Duration, Gain, Instant, Rate, Value};

use crate::message::{Outcome, Sample};
use crate::network::PACKET_KINDS;
use crate::plan::Plan;
use crate::sample::{CA_STATES, PHASES};

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn name(names: &[&'static str], number: u8) -> &'static str {
    names.get(usize::from(number)).copied().unwrap_or("")
}

/// The record of a run.
pub fn run(scenario: &Scenario, plan: &Plan, seed: u64, outcome: &Outcome) -> Run {
    let mut recorder = Recorder::new(info(scenario, plan, seed));
    for sample in &outcome.samples {
        recorder.sample(&sample_row(sample), |visit| visit_fields(sample, visit));
    }
    for queue in &outcome.queues {
        recorder.queue(&QueueRow {
            t: at(queue.t),
            link: queue.link,
            backlog: Bytes::new(queue.backlog),
            packets: queue.packets,
            delay: Duration::from_nanos(queue.delay),
            peak: Bytes::new(queue.peak),
            rate: Rate::from_bps(queue.rate),
            capacity: Bytes::new(queue.capacity),
            delivered: Bytes::new(queue.delivered),
            dropped_packets: queue.dropped,
            offered_packets: queue.offered,
            marked_packets: queue.marked,
        });
    }
    for event in &outcome.events {
        recorder.event(&EventRow {
            t: at(event.t),
            flow: event.flow,
            kind: &event.kind,
            from: &event.from,
            detail: &event.detail,
        });
    }
    for packet in &outcome.packets {
        recorder.packet(&PacketRow {
            t: at(packet.t),
            flow: packet.flow,
            kind: name(&PACKET_KINDS, packet.kind),
            seq: packet.seq,
            len: packet.len,
            window: packet.window,
            told: None,
        });
    }
    let totals: Vec<FlowTotals> = outcome
        .flows
        .iter()
        .map(|flow| FlowTotals {
            flow: flow.flow,
            goodput: Bytes::new(flow.goodput),
            packets_sent: flow.sent,
            packets_retransmitted: flow.retransmitted,
            packets_lost: flow.lost,
            spurious_losses: flow.spurious,
            rto_count: flow.rto_count,
            // The kernel counts its probes for a whole host only.
            tlp_count: 0,
            finished: flow.finished.map(at),
        })
        .collect();
    recorder.finish(&totals)
}

fn sample_row(sample: &Sample) -> SampleRow {
    let time = |nanos: Option<u64>| nanos.map(Duration::from_nanos);
    SampleRow {
        t: at(sample.t),
        flow: sample.flow,
        cwnd: Bytes::new(sample.cwnd),
        in_flight: Bytes::new(sample.in_flight),
        pacing_rate: sample.pacing.map(Rate::from_bps),
        delivery_rate: Rate::from_bps(sample.delivery),
        rtt: time(sample.rtt),
        srtt: time(sample.srtt),
        min_rtt: time(sample.min_rtt),
        goodput: Bytes::new(sample.goodput),
        delivered: Bytes::new(sample.delivered),
        sent_packets: sample.sent,
        lost_packets: sample.lost,
        retransmitted_packets: sample.retransmitted,
        phase: name(&PHASES, sample.phase),
        ca_state: name(&CA_STATES, sample.ca_state),
        app_limited: sample.app_limited,
    }
}

/// The controller's own fields, by the simulator's names.
fn visit_fields(sample: &Sample, visit: &mut dyn FnMut(&'static str, Value)) {
    // 256ths of the kernel, in millionths.
    let gain = |gain: u32| {
        let millionths = u64::from(gain) * u64::from(Gain::SCALE) / 256;
        Value::Gain(Gain::from_millionths(
            u32::try_from(millionths).unwrap_or(u32::MAX),
        ))
    };
    match &sample.bbr {
        Some(bbr) => {
            visit("pacing_gain", gain(bbr.pacing_gain));
            visit("cwnd_gain", gain(bbr.cwnd_gain));
            visit("bw", Value::Rate(Rate::from_bps(bbr.bw)));
            visit(
                "min_rtt",
                Value::Duration(Duration::from_nanos(bbr.min_rtt)),
            );
        }
        None => {
            let ssthresh = sample.ssthresh.map_or(Bytes::INFINITE, Bytes::new);
            visit("ssthresh", Value::Bytes(ssthresh));
        }
    }
}

fn info(scenario: &Scenario, plan: &Plan, seed: u64) -> RunInfo {
    let mtu = scenario.path.mtu.get() as f64;
    let payload = plan.flows.iter().map(|flow| f64::from(flow.mss) / mtu);
    RunInfo {
        scenario: scenario.name.clone(),
        scenario_toml: scenario.to_toml(),
        seed,
        backend: "emu".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        duration: scenario.run.duration,
        sample_interval: scenario.sample_interval(),
        payload_ratio: payload.fold(0.0, f64::max),
        flows: (0..)
            .zip(&plan.flows)
            .map(|(flow, plan)| FlowInfo {
                flow,
                cc: plan.cc.clone(),
                label: plan.label.clone(),
                start: plan.start,
                stop: plan.stop,
                base_rtt: plan.base_rtt,
                mss: plan.mss,
            })
            .collect(),
        links: (0..)
            .zip(&plan.links)
            .map(|(number, link)| LinkInfo {
                name: link.name.clone(),
                capacity: link.rate,
                limit: match experiment::queue_limit(scenario, link) {
                    QueueLimit::Bytes(bytes) => Bytes::new(bytes),
                    QueueLimit::Packets(_) => Bytes::INFINITE,
                },
                flows: (0..)
                    .zip(&plan.flows)
                    .filter(|(_, plan)| plan.route.contains(&number))
                    .map(|(flow, _)| flow)
                    .collect(),
            })
            .collect(),
    }
}
