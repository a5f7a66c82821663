//! Converts an engine's observations into a record with the simulator's tables.

use std::collections::HashMap;

use paceline_experiment::{ACK_COUNTERS, BANDWIDTH, FlowPlan};
use paceline_record::{EventRow, FlowTotals, PacketRow, QueueRow, Recorder, Run, RunInfo};
use paceline_recovery::SenderStats;
use paceline_units::{Bytes, Duration, Field, Gain, Quantity, StackName, Value, Visitor};
use serde::{Deserialize, Serialize};

use crate::settings::is_bbr;
use crate::state::{Bbr, Own, Sample};

/// What an engine observed of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Observations {
    /// Rows of flows.
    pub samples: Vec<Sample>,
    /// Rows of links.
    pub queues: Vec<QueueRow>,
    /// Events, in order.
    pub events: Vec<EventRow>,
    /// Packets, if they are recorded.
    pub packets: Vec<PacketRow>,
    /// Each flow over the whole run.
    pub flows: Vec<Flow>,
    /// Data packets offered to the path.
    pub packets_offered: u64,
    /// Tail loss probes of all flows.
    pub tlp_count: Option<u64>,
}

/// A flow over the whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Flow {
    /// Its totals.
    pub totals: FlowTotals,
    /// Minimum RTT that the kernel measured.
    pub min_rtt: Option<Duration>,
    /// Nanoseconds in which the receiver's window was the limit.
    pub window_limited: u64,
    /// Nanoseconds in which the sender's buffer was the limit.
    pub buffer_limited: u64,
    /// Its ACKs offered to links, those that they lost, and those that they filtered. None in an
    /// engine that does not count them.
    pub acks: Option<[u64; 3]>,
    /// Why it did not connect, or broke off.
    pub error: Option<String>,
}

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
        StackName::Paceline if is_bbr(flow) => of(BBR),
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

/// The record of a run, whose programs' conversations have these totals.
pub fn record(
    info: RunInfo,
    flows: &[FlowPlan],
    observations: Observations,
    programs: Vec<FlowTotals>,
) -> Run {
    let mut fields: Vec<_> = flows.iter().map(fields).collect();
    if !programs.is_empty() {
        let shown = shown(&observations.samples);
        let programs = programs.iter().map(|totals| totals.flow);
        fields.extend(programs.map(|flow| match shown.get(&flow) {
            Some(Own::Bbr(_)) => of(BBR),
            Some(Own::Window(_)) => of(WINDOW),
            _ => Vec::new(),
        }));
    }
    let returns = info.links.iter().any(|link| link.return_of.is_some());
    let acks = ACK_COUNTERS.iter().filter(|_| returns);
    let counters = SenderStats::COUNTERS.iter().chain(acks);
    let mut recorder = Recorder::new(info, &fields, counters.map(|(name, _)| *name));
    for sample in observations.samples {
        let row = sample.row.clone();
        recorder.sample(row, |show| visit(&sample, show));
    }
    for row in observations.queues {
        recorder.queue(row);
    }
    for row in observations.events {
        recorder.event(row);
    }
    for row in observations.packets {
        recorder.packet(row);
    }
    let flows = observations
        .flows
        .into_iter()
        .zip(flows)
        .map(|(flow, plan)| {
            let mut totals = flow.totals;
            let acks = flow.acks.filter(|_| !plan.back.is_empty());
            let acks = (0..ACK_COUNTERS.len()).map(|which| Some(acks?[which]));
            totals.counters.extend(acks.filter(|_| returns));
            totals
        });
    let more = if returns { ACK_COUNTERS.len() } else { 0 };
    let programs = programs.into_iter().map(|mut totals| {
        totals.counters.extend(vec![None; more]);
        totals
    });
    let totals: Vec<_> = flows.chain(programs).collect();
    recorder.finish(&totals)
}
