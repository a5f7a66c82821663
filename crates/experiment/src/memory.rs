//! Memory of a run: estimated before it begins, counted while it is in progress.

use std::collections::BTreeSet;

use paceline_path::{Aqm, QueueLimit, Service};
use paceline_record::{Held, field_bytes};
use paceline_scenario::{Diagnostic, FlowGroup, LinkSection, RateChange, Scenario};
use paceline_units::{App, Bytes, Duration, Field, Gain, Rate};

use crate::network;
use crate::plan::Plan;

/// Memory of a run, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The rows of the record.
    pub record: Held,
    /// Packets on their way, and the ends' state for them.
    pub in_flight: u64,
    /// Memory before the first packet: the scenario, its trace, flows, links.
    pub fixed: u64,
}

/// A part of a run's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What uses it.
    pub name: &'static str,
    /// The amount, in bytes.
    pub bytes: u64,
    /// How to reduce it.
    pub hint: &'static str,
}

impl Memory {
    /// Its parts.
    pub fn parts(&self) -> [Part; 7] {
        let part = |name, bytes, hint| Part { name, bytes, hint };
        [
            part(
                "samples",
                self.record.samples,
                "a longer run.sample_interval, a shorter run.duration or fewer flows",
            ),
            part(
                "queue",
                self.record.queue,
                "a longer run.sample_interval or a shorter run.duration",
            ),
            part(
                "events",
                self.record.events,
                "run.record.states = false or a shorter run.duration",
            ),
            part(
                "packets",
                self.record.packets,
                "run.record.packets = false or a shorter run.duration",
            ),
            part(
                "qlog",
                self.record.qlog,
                "run.record.qlog = false or a shorter run.duration",
            ),
            part(
                "packets in flight",
                self.in_flight,
                "a smaller queue or a smaller receive_window of the flows",
            ),
            part(
                "scenario",
                self.fixed,
                "fewer flows, links or events, or a shorter trace",
            ),
        ]
    }

    /// The total.
    pub fn total(&self) -> u64 {
        let parts = self.parts();
        parts
            .iter()
            .fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// The largest part.
    pub fn largest(&self) -> Part {
        let [first, others @ ..] = self.parts();
        let larger = |most: Part, part: Part| if part.bytes > most.bytes { part } else { most };
        others.into_iter().fold(first, larger)
    }
}

/// The estimated memory of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Memory once its flows start to send: a run that exceeds the limit here cannot succeed.
    pub least: Memory,
    /// Memory if its links are full all the time.
    pub most: Memory,
}

impl Plan<'_> {
    /// Memory before the first packet, in bytes.
    pub fn fixed_memory(&self) -> u64 {
        fixed(self.scenario, &self.service, &self.links)
    }
}

/// Size of a stack's qlog entry for a packet or an acknowledgment, in bytes.
pub const QLOG_ENTRY: u64 = 500;

fn fixed(scenario: &Scenario, service: &Service, links: &[LinkSection]) -> u64 {
    /// A flow with both of its ends.
    const FLOW: u64 = 8_000;
    /// An event in its text, parsed, resolved and recorded forms.
    const EVENT: u64 = 1_500;
    let trace = match service {
        Service::Fixed(_) => 0,
        Service::Trace(trace) => trace.opportunities() as u64 * 8,
    };
    let queues = links.iter().map(|link| {
        let choices = std::iter::once(&link.queue.kind).chain(&link.queue.early_signals);
        let aqms = choices.filter_map(|choice| Aqm::named(choice.name, &choice.options));
        aqms.map(|aqm| aqm.memory()).sum::<u64>()
    });
    scenario.flow_count() * FLOW
        + scenario.events.len() as u64 * EVENT
        + trace
        + queues.sum::<u64>()
}

/// The estimate for a run of a scenario whose flows show `fields`, group by group.
///
/// # Errors
/// All errors that [`crate::check`] reports.
pub fn estimate(scenario: &Scenario, fields: &[Vec<Field>]) -> Result<Estimate, Vec<Diagnostic>> {
    let plan = Plan::resolve(scenario, scenario.run.seed, "sim")?;
    let duration = scenario.run.duration;
    let interval = plan.info.sample_interval;
    let record = &scenario.run.record;
    let mut columns: Vec<Field> = Vec::new();
    for field in fields.iter().flatten() {
        if !columns.contains(field) {
            columns.push(*field);
        }
    }
    let (mut sure, mut samples, mut events) = (0, 0, 0);
    for flow in &plan.flows {
        let end = flow.stop.map_or(duration, |stop| {
            duration.min(stop.since(Default::default()))
        });
        let active = end - flow.start.since(Default::default());
        let rows = times(active, interval);
        let rounds = times(active, flow.base_rtt);
        // A flow with an end may have it at once. Others open their connections first.
        if !matches!(flow.group.app, App::Sized { .. }) {
            sure += rows.saturating_sub(rows / 10);
        }
        samples += rows + 2;
        if record.rounds {
            samples += rounds;
        }
        events += 4 + if record.states {
            rounds / 4
        } else {
            rounds / 16
        };
    }
    let queue = plan.links.len() as u64 * (times(duration, interval) + 1);
    let changes = 2 * plan.script.timed.len() as u64;
    let packets = if record.packets {
        packet_rows(&plan, |_| true)
    } else {
        0
    };
    let qlog = match record.qlog {
        true => packet_rows(&plan, FlowGroup::is_built_in_quic).saturating_mul(QLOG_ENTRY),
        false => 0,
    };
    let field_bytes = field_bytes(&columns);
    let fixed = plan.fixed_memory();
    Ok(Estimate {
        least: Memory {
            record: Held::rows(sure, field_bytes, queue, 0, 0),
            in_flight: 0,
            fixed,
        },
        most: Memory {
            record: Held {
                qlog,
                ..Held::rows(samples, field_bytes, queue, events + changes, packets)
            },
            in_flight: in_flight(&plan),
            fixed,
        },
    })
}

/// The number of times that something happens in a period.
fn times(span: Duration, every: Duration) -> u64 {
    span.as_nanos() / every.as_nanos().max(1)
}

/// The maximum rate of a link during the run.
fn peak(plan: &Plan<'_>, number: usize, link: &LinkSection) -> Rate {
    let changes = || {
        let events = plan.scenario.events.iter();
        let changes = events.filter_map(|event| event.path.as_ref());
        let here = changes.filter(move |change| match &change.link {
            None => number == 0,
            Some(name) => *name == link.name,
        });
        here.filter_map(|change| change.rate)
    };
    let rate = changes().fold(link.rate, |peak, change| match change {
        RateChange::Absolute(rate) => peak.max(rate),
        RateChange::Factor(_) => peak,
    });
    changes().fold(rate, |peak, change| match change {
        RateChange::Absolute(_) => peak,
        RateChange::Factor(factor) => peak * factor.max(Gain::ONE),
    })
}

/// The links at which data enters.
fn first_links(plan: &Plan<'_>) -> BTreeSet<usize> {
    plan.flows
        .iter()
        .filter_map(|flow| flow.route.first().copied())
        .collect()
}

/// The bytes that the applications of a group's flow have to send in a period.
fn offered(group: &FlowGroup, time: Duration) -> Bytes {
    match group.app {
        App::Bulk | App::OnOff { rate: None, .. } => Bytes::INFINITE,
        App::Sized { size } => size,
        App::Limited { rate } => rate.volume_in(time),
        App::OnOff {
            on,
            off,
            rate: Some(rate),
        } => {
            let cycles = times(time, on + off) + 1;
            rate.volume_in(on * cycles)
        }
    }
}

/// Rows of the packets of the groups that are `meant`: each is sent and delivered, and some are acknowledged.
fn packet_rows(plan: &Plan<'_>, meant: impl Fn(&FlowGroup) -> bool) -> u64 {
    let duration = plan.scenario.run.duration;
    let steered = plan
        .scenario
        .events
        .iter()
        .any(|event| event.flow.is_some());
    let mut rows = 0_u64;
    for first in first_links(plan) {
        let Some(link) = plan.links.get(first) else {
            continue;
        };
        let flows = || {
            plan.flows
                .iter()
                .filter(|flow| flow.route.first() == Some(&first) && meant(&flow.group))
        };
        if flows().next().is_none() {
            continue;
        }
        let carried = peak(plan, first, link).volume_in(duration).get();
        let asked = flows().fold(0_u64, |sum, flow| {
            sum.saturating_add(offered(&flow.group, duration).get())
        });
        let bytes = if steered { carried } else { carried.min(asked) };
        let packet = flows()
            .map(|flow| flow.mss + flow.header)
            .min()
            .unwrap_or(1);
        let every = flows()
            .map(|flow| flow.group.ack.every.0)
            .min()
            .unwrap_or(1);
        let packets = bytes / u64::from(packet.max(1));
        rows = rows.saturating_add(2 * packets + packets / u64::from(every.max(1)));
    }
    rows
}

/// Memory of packets on their way, with the queues full.
fn in_flight(plan: &Plan<'_>) -> u64 {
    /// A packet on a link, in its sender's scoreboard and its acknowledgment, in containers with
    /// room for up to twice as many.
    const PACKET: u64 = 600;
    let scenario = plan.scenario;
    let changed = scenario
        .events
        .iter()
        .filter_map(|event| event.path.as_ref()?.rtt);
    let own = scenario.flows.iter().filter_map(|group| group.rtt);
    let rtt = changed.chain(own).fold(scenario.path.rtt, Duration::max);
    let mtu = scenario.path.mtu.get().max(1);
    let mut room = 0_u64;
    for (number, link) in plan.links.iter().enumerate() {
        let limit = match network::queue_limit(scenario, link) {
            QueueLimit::Bytes(bytes) => bytes,
            QueueLimit::Packets(packets) => packets.saturating_mul(mtu),
        };
        room = room.saturating_add(limit);
        if first_links(plan).contains(&number) {
            room = room.saturating_add(peak(plan, number, link).volume_in(rtt).get());
        }
    }
    let windows = plan.flows.iter().fold(0_u64, |sum, flow| {
        let offered = offered(&flow.group, scenario.run.duration);
        sum.saturating_add(flow.group.receive_window.min(offered).get())
    });
    let packet = plan
        .flows
        .iter()
        .map(|flow| u64::from(flow.mss))
        .min()
        .unwrap_or(mtu);
    (room.min(windows) / packet.max(1)).saturating_mul(PACKET)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate_of(run: &str, path: &str, flows: &str) -> Estimate {
        let text = format!(
            "schema = 1\n[run]\n{run}\n[path]\nrtt = \"40 ms\"\n{path}\n[[flows]]\ncc = \"reno\"\n{flows}"
        );
        let scenario = crate::parse(&text, "x.toml", &[]).unwrap();
        estimate(&scenario, &[]).unwrap()
    }

    /// 10,000 flows for 10 s with a row each millisecond: 10^8 rows.
    #[test]
    fn rows_of_flows_are_counted() {
        let path = "rate = \"1 Gbit/s\"\nqueue = { kind = \"droptail\", size = \"1 bdp\" }";
        let found = estimate_of(
            "duration = \"10 s\"\nsample_interval = \"1 ms\"",
            path,
            "count = 10_000",
        );
        let rows = found.most.record.samples / Held::rows(1, 0, 0, 0, 0).samples;
        assert_eq!(rows, 100_020_000);
        assert_eq!(
            found.least.record,
            Held {
                samples: found.least.record.samples,
                ..Held::rows(90_000_000, 0, 10_001, 0, 0)
            }
        );
        assert_eq!(found.least.largest().name, "samples");
        // A flow that is stopped, and one whose end is not known.
        let stopped = estimate_of(
            "duration = \"10 s\"",
            path,
            "start = \"2 s\"\nstop = \"4 s\"",
        );
        assert_eq!(
            stopped.least.record.samples,
            Held::rows(180, 0, 0, 0, 0).samples
        );
        let sized = estimate_of("duration = \"10 s\"", path, "app = { size = \"1 MB\" }");
        assert_eq!(sized.least.record.samples, 0);
    }

    /// 10 Gbit/s for 600 s in packets of 1500 bytes: 5e8, each with two rows and half an acknowledgment.
    #[test]
    fn packets_that_are_recorded_are_counted() {
        let path = "rate = \"10 Gbit/s\"\nqueue = { kind = \"droptail\", size = \"1 bdp\" }";
        let run = "duration = \"600 s\"\nrecord.packets = true";
        let found = estimate_of(run, path, "");
        assert_eq!(
            found.most.record.packets,
            Held::rows(0, 0, 0, 0, 1_250_000_000).packets
        );
        assert_eq!(found.most.largest().name, "packets");
        assert_eq!(found.least.record.packets, 0);
        let sized = estimate_of(run, path, "app = { size = \"15 MB\" }");
        assert_eq!(
            sized.most.record.packets,
            Held::rows(0, 0, 0, 0, 25_000).packets
        );
    }

    #[test]
    fn what_waits_and_what_is_under_way_are_counted() {
        let queue = |size: &str| {
            format!(
                "rate = \"1 Gbit/s\"\nqueue = {{ kind = \"fq_codel\", flows = 65_536, size = \"{size}\" }}"
            )
        };
        let found = estimate_of("duration = \"1 s\"", &queue("5 MB"), "");
        // 5 MB of queue and 5 MB of a BDP, in payloads of 1448 bytes.
        assert_eq!(found.most.in_flight, 10_000_000 / 1448 * 600);
        // Queues that exist before the first packet.
        assert!(found.least.fixed > 65_536 * 64, "{:?}", found.least);
        let large = estimate_of(
            "duration = \"1 s\"",
            &queue("1000 GB"),
            "count = 1000\nreceive_window = \"100 GB\"",
        );
        assert_eq!(large.most.largest().name, "packets in flight");
    }
}
