//! Converts the isolated process's observations into a record with the simulator's tables.

use std::collections::HashMap;

use paceline_experiment::{ACK_COUNTERS, BANDWIDTH, FlowPlan, Plan};
use paceline_record::{FlowInfo, LinkInfo, Recorder, Run, RunInfo};
use paceline_recovery::SenderStats;
use paceline_units::{Bytes, Field, Gain, Instant, Quantity, StackName, Value, Visitor};

use crate::kernel;
use crate::message::{Bbr, Outcome, Own, Sample};

/// The displayed state of a controller with a threshold.
const WINDOW: &[Shown<Bytes>] = &[("ssthresh", Quantity::Bytes, |ssthresh| {
    Value::Bytes(*ssthresh)
})];

/// The displayed state of BBR, by the simulator's names.
const BBR: &[Shown<Bbr>] = &[
    ("pacing_gain", Quantity::Gain, |bbr| gain(bbr.pacing_gain)),
    ("cwnd_gain", Quantity::Gain, |bbr| gain(bbr.cwnd_gain)),
    ("bw", Quantity::Rate, |bbr| Value::Rate(bbr.bw)),
    ("min_rtt", Quantity::Duration, |bbr| {
        Value::Duration(bbr.min_rtt)
    }),
];

/// A field: its name, its quantity, its value.
type Shown<T> = (&'static str, Quantity, fn(&T) -> Value);

/// 256ths of the kernel.
fn gain(gain: u32) -> Value {
    let millionths = u64::from(gain) * u64::from(Gain::SCALE) / 256;
    let millionths = u32::try_from(millionths).unwrap_or(u32::MAX);
    Value::Gain(Gain::from_millionths(millionths))
}

fn of<T>(shown: &[Shown<T>]) -> Vec<Field> {
    let field = |(name, quantity, _): &Shown<T>| Field {
        name,
        quantity: *quantity,
    };
    shown.iter().map(field).collect()
}

/// The fields of a flow's controller.
fn fields(flow: &FlowPlan) -> Vec<Field> {
    match flow.group.stack {
        StackName::Guest => vec![BANDWIDTH],
        StackName::Quinn | StackName::Noq => Vec::new(),
        StackName::Paceline if kernel::is_bbr(flow) => of(BBR),
        StackName::Paceline => of(WINDOW),
    }
}

/// The first displayed state of each flow's controller, if there is one.
fn shown(samples: &[Sample]) -> HashMap<u32, Own> {
    let showing = samples.iter().filter(|sample| sample.own != Own::Hidden);
    let mut first = HashMap::new();
    for sample in showing {
        first.entry(sample.row.flow).or_insert(sample.own);
    }
    first
}

/// Their values.
fn visit(sample: &Sample, visitor: &mut Visitor<'_>) {
    match &sample.own {
        Own::Window(ssthresh) => WINDOW
            .iter()
            .for_each(|(name, _, of)| visitor.show(name, of(ssthresh))),
        Own::Bbr(bbr) => BBR
            .iter()
            .for_each(|(name, _, of)| visitor.show(name, of(bbr))),
        Own::Bandwidth(rate) => visitor.show(BANDWIDTH.name, Value::Rate(*rate)),
        Own::Hidden => {}
    }
}

/// Data of a run with programs that is known when it has ended: its true length, their
/// conversations, and the link from client to server.
pub fn with_talks(plan: &Plan<'_>, up_link: Option<&LinkInfo>, outcome: &Outcome) -> RunInfo {
    let mut info = plan.info.clone();
    let mut scenario = plan.scenario.clone();
    scenario.run.duration = outcome.ended.since(Instant::ZERO);
    info.duration = scenario.run.duration;
    info.scenario_toml = scenario.to_toml();
    let mtu = scenario.path.mtu.get();
    let mss = mtu.saturating_sub(HEADERS);
    let flows = 0..info.flows.len();
    let mut ratios: Vec<f64> = flows.map(|flow| info.payload_ratio_of(flow)).collect();
    // Without a conversation either, the ratio is that of TCP.
    ratios.resize(
        (info.flows.len() + outcome.talks.len()).max(1),
        mss as f64 / mtu.max(1) as f64,
    );
    info.set_payload_ratios(ratios);
    let mut ways = [Vec::new(), Vec::new()];
    for talk in &outcome.talks {
        let flow = talk.totals.flow;
        ways[usize::from(talk.up)].push(flow);
        info.flows.push(FlowInfo {
            flow,
            cc: talk.cc.clone(),
            label: talk.label.clone(),
            start: talk.start,
            stop: talk.stop,
            base_rtt: scenario.path.rtt,
            mss: u32::try_from(mss).unwrap_or(u32::MAX),
        });
    }
    let [down, up] = ways;
    let back = plan.scenario.return_number(0);
    if let Some(link) = info.links.first_mut() {
        let twin = LinkInfo {
            name: format!("{} up", link.name),
            flows: up.clone(),
            ..up_link.unwrap_or(link).clone()
        };
        link.flows.extend(down);
        match back.and_then(|number| info.links.get_mut(number)) {
            Some(back) => back.flows.extend(up),
            None => info.links.push(twin),
        }
    }
    info
}

/// IP and TCP headers with timestamps.
const HEADERS: u64 = 52;

/// The record of a run.
pub fn run(info: RunInfo, flows: &[FlowPlan], outcome: Outcome) -> Run {
    let qlogs = outcome.qlogs;
    let mut fields: Vec<_> = flows.iter().map(fields).collect();
    if !outcome.talks.is_empty() {
        let shown = shown(&outcome.samples);
        let talks = outcome.talks.iter().map(|talk| talk.totals.flow);
        fields.extend(talks.map(|flow| match shown.get(&flow) {
            Some(Own::Bbr(_)) => of(BBR),
            Some(Own::Window(_)) => of(WINDOW),
            _ => Vec::new(),
        }));
    }
    let returns = info.links.iter().any(|link| link.return_of.is_some());
    let acks = ACK_COUNTERS.iter().filter(|_| returns);
    let counters = SenderStats::COUNTERS.iter().chain(acks);
    let mut recorder = Recorder::new(info, &fields, counters.map(|(name, _)| *name));
    for sample in outcome.samples {
        let row = sample.row.clone();
        recorder.sample(row, |show| visit(&sample, show));
    }
    outcome
        .queues
        .into_iter()
        .for_each(|row| recorder.queue(row));
    outcome
        .events
        .into_iter()
        .for_each(|row| recorder.event(row));
    outcome
        .packets
        .into_iter()
        .for_each(|row| recorder.packet(row));
    let flows = outcome.flows.into_iter().zip(flows).map(|(flow, plan)| {
        let mut totals = flow.totals;
        let acks = flow.acks.filter(|_| !plan.back.is_empty());
        let acks = (0..ACK_COUNTERS.len()).map(|which| Some(acks?[which]));
        totals.counters.extend(acks.filter(|_| returns));
        totals
    });
    let talks = outcome.talks.into_iter().map(|talk| talk.totals);
    let more = if returns { ACK_COUNTERS.len() } else { 0 };
    let talks = talks.map(|mut totals| {
        totals.counters.extend(vec![None; more]);
        totals
    });
    let totals: Vec<_> = flows.chain(talks).collect();
    recorder.finish(&totals).with_qlogs(qlogs)
}
