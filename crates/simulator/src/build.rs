//! From a scenario to a world: names become controllers, files become traces.

use std::collections::BTreeMap;
use std::path::Path;

use paceline_congestion::Recipe;
use paceline_path::{
    Aqm, CapacityTrace, Codel, DualPi2, FqCodel, Link, LinkConfig, Pie, QueueLimit, Red, Service,
    Threshold,
};
use paceline_record::metrics::{Definition, FLOW_METRICS, METRICS, Unit};
use paceline_record::{FlowInfo, LinkInfo, RunInfo};
use paceline_recovery::{
    Application, EcnFeedback, Receiver, ReceiverConfig, Recovery, SenderConfig, Workload, ets,
};
use paceline_scenario::{
    App, BoundUnit, ControllerChoice, Diagnostic, EcnKind, FlowGroup, HostSection, LinkSection,
    QueueKind, QueueSize, RateSource, RecoveryKind, Scenario, When, metric_of_flow,
};
use paceline_units::{Bytes, Duration, Instant, Rate, Rng};

use crate::change;
use crate::controllers;
use crate::flow::{Flow, FlowPlan, Packet, Seen, Stage};
use crate::host::Host;
use crate::journal::Journal;
use crate::script::{Script, Trigger};
use crate::world::{Lane, Ways, World, seed_of};

/// Streams of random numbers that do not belong to one flow.
const LOSS_STREAM: u64 = u64::MAX;
const START_STREAM: u64 = u64::MAX - 1;
/// The first flow's hosts'; the others' lie below it.
const HOST_STREAM: u64 = u64::MAX - 2;
/// From one link's stream of losses to the next link's.
const LINK_STRIDE: u64 = 1 << 32;

/// Everything of a scenario that can be wrong beyond its own text, resolved:
/// controllers by name, the capacity trace from its file.
pub(crate) struct Parts {
    recipes: Vec<Recipe>,
    service: Service,
}

/// A name that no metric has, and the nearest that one has.
fn unknown_metric<F>(
    scenario: &Scenario,
    key: &str,
    name: &str,
    known: &[Definition<F>],
) -> Diagnostic {
    let hint = controllers::nearest(name, known.iter().map(|metric| metric.name))
        .unwrap_or_else(|| "`paceline list metrics` lists them".into());
    scenario.diagnostic(key, format!("no metric is called `{name}`"), Some(hint))
}

/// Resolves a scenario's names and files, or says all that is wrong with them.
pub(crate) fn resolve(scenario: &Scenario) -> Result<Parts, Vec<Diagnostic>> {
    let mut wrong = Vec::new();
    let mut recipes = Vec::new();
    for (index, group) in scenario.flows.iter().enumerate() {
        match controllers::choose(&group.cc) {
            Ok(recipe) => recipes.push(recipe),
            Err(error) => {
                let key = match error.key.as_str() {
                    "" => format!("flows[{index}].cc"),
                    option => format!("flows[{index}].cc.{option}"),
                };
                wrong.push(scenario.diagnostic(&key, error.message, error.hint));
            }
        }
    }
    for (index, name) in scenario.run.compare.iter().enumerate() {
        let choice = ControllerChoice {
            name: name.clone(),
            options: BTreeMap::new(),
        };
        if let Err(error) = controllers::choose(&choice) {
            let key = format!("run.compare[{index}]");
            wrong.push(scenario.diagnostic(&key, error.message, error.hint));
        }
    }
    check_triggers(scenario, &mut wrong);
    for (name, bound) in &scenario.expect {
        let metric = paceline_record::metrics::find(name);
        if let Some(metric) = metric.filter(|metric| !fits(metric.unit, bound.unit)) {
            wrong.push(scenario.diagnostic(
                &format!("expect.{name}"),
                format!(
                    "`{name}` is {}, and `{}` is not",
                    in_words(metric.unit),
                    bound.text
                ),
                Some("write the bound in the metric's unit".into()),
            ));
        }
        if metric.is_none() {
            let key = format!("expect.{name}");
            wrong.push(unknown_metric(scenario, &key, name, METRICS));
        }
    }
    let looked_at = scenario.sweep.as_ref().map_or(&[][..], |s| &s.metrics);
    for (index, name) in looked_at.iter().enumerate() {
        let key = format!("sweep.metrics[{index}]");
        match metric_of_flow(name) {
            Some((flow, _)) if flow as u64 >= scenario.flow_count() => {
                let last = scenario.flow_count().saturating_sub(1);
                let message = format!("there is no flow {flow}");
                let hint = format!("they are flows[0] to flows[{last}]");
                wrong.push(scenario.diagnostic(&key, message, Some(hint)));
            }
            Some((_, metric)) if FLOW_METRICS.iter().all(|known| known.name != metric) => {
                wrong.push(unknown_metric(scenario, &key, metric, FLOW_METRICS));
            }
            None if METRICS.iter().all(|known| known.name != name) => {
                wrong.push(unknown_metric(scenario, &key, name, METRICS));
            }
            _ => {}
        }
    }
    let service = match &scenario.path.rate {
        RateSource::Fixed(rate) => Some(Service::Fixed(*rate)),
        RateSource::Trace { .. } => match read_trace(&scenario.trace_path().unwrap_or_default()) {
            Ok(trace) => Some(Service::Trace(trace)),
            Err(message) => {
                let hint = "a trace holds one whole number of milliseconds a line, each a \
                            1500-byte delivery opportunity (mahimahi's format)";
                wrong.push(scenario.diagnostic("path.rate.trace", message, Some(hint.into())));
                None
            }
        },
    };
    match service {
        Some(service) if wrong.is_empty() => Ok(Parts { recipes, service }),
        _ => Err(wrong),
    }
}

/// Events wait for states that their flow's controller has.
fn check_triggers(scenario: &Scenario, wrong: &mut Vec<Diagnostic>) {
    let groups: Vec<&FlowGroup> = scenario
        .flows
        .iter()
        .flat_map(|group| std::iter::repeat_n(group, group.count as usize))
        .collect();
    for (index, event) in scenario.events.iter().enumerate() {
        let When::Enters { flow, state, .. } = &event.when else {
            continue;
        };
        let spec = groups.get(*flow as usize).and_then(|group| {
            paceline_congestion::controllers()
                .iter()
                .find(|spec| spec.name == group.cc.name)
        });
        // A controller that does not exist is told of elsewhere; a comparison has several.
        let Some(spec) = spec.filter(|_| scenario.run.compare.is_empty()) else {
            continue;
        };
        if !spec.phases.contains(&state.as_str()) {
            let hint = controllers::nearest(state, spec.phases.iter().copied());
            wrong.push(scenario.diagnostic(
                &format!("events[{index}].when.enters"),
                format!(
                    "`{}` has no state `{state}`; it has {}",
                    spec.name,
                    controllers::list(spec.phases)
                ),
                hint,
            ));
        }
    }
}

/// Whether a bound of this kind can hold a metric in this unit.
fn fits(metric: Unit, bound: BoundUnit) -> bool {
    match metric {
        Unit::Nanoseconds => bound == BoundUnit::Time,
        Unit::Bytes => bound == BoundUnit::Volume,
        Unit::BitsPerSecond => bound == BoundUnit::Rate,
        Unit::Count => bound == BoundUnit::Number,
        Unit::Ratio => matches!(bound, BoundUnit::Number | BoundUnit::Share),
    }
}

fn in_words(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "a time such as \"100 ms\"",
        Unit::Bytes => "a volume such as \"250 kB\"",
        Unit::BitsPerSecond => "a rate such as \"5 Mbit/s\"",
        Unit::Count => "a number without a unit",
        Unit::Ratio => "a ratio such as \"0.95\" or \"95 %\"",
    }
}

fn read_trace(path: &Path) -> Result<CapacityTrace, String> {
    let bytes = std::fs::read(path)
        .map_err(|error| format!("cannot read the trace {}: {error}", path.display()))?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| format!("the trace {} is not text", path.display()))?;
    CapacityTrace::parse(text).map_err(|error| format!("trace {}: {error}", path.display()))
}

/// The world at time zero.
pub(crate) fn world(scenario: &Scenario, parts: Parts, seed: u64) -> World {
    let path = &scenario.path;
    let rate = match &parts.service {
        Service::Fixed(rate) => *rate,
        Service::Trace(trace) => trace.mean_rate(),
    };
    let mut plans = Vec::new();
    let mut starts = Rng::new(seed_of(seed, START_STREAM));
    // Half of the shortest RTT lies before the receivers, the rest on each way back.
    let shortest = scenario
        .flows
        .iter()
        .map(|group| group.rtt.unwrap_or(path.rtt))
        .fold(path.rtt, Duration::min);
    let there = shortest / 2;
    let mut links = vec![path.link(rate, there)];
    links.extend(scenario.links.iter().cloned());
    let mut lanes: Vec<(Duration, bool)> = Vec::new();
    let mut specs = Vec::new();
    for (group, recipe) in scenario.flows.iter().zip(parts.recipes) {
        let route = route(scenario, group);
        let forth = route
            .iter()
            .fold(Duration::ZERO, |sum, number| sum + links[*number].delay);
        let way = (group.rtt.unwrap_or(path.rtt) - forth, !route.contains(&0));
        let known = lanes.iter().position(|lane| *lane == way);
        // What one flow's hosts hold back does not hold back another flow.
        let mut lane = known.filter(|_| group.host.is_none());
        for nth in 0..group.count {
            if lane.is_none() || group.host.is_some() {
                lanes.push(way);
                lane = Some(lanes.len() - 1);
            }
            let way = (route.clone(), lane.unwrap_or(0));
            specs.push(group.host.clone());
            plans.push(plan(scenario, group, &recipe, nth, way, &mut starts));
        }
    }
    let info = info(scenario, &plans, &links, seed);
    let mut script = Script::default();
    for event in &scenario.events {
        let mss = |flow: usize| plans.get(flow).map_or(1, |(plan, _)| plan.sender.mss);
        let changes = change::of_event(scenario, event, mss);
        match &event.when {
            When::At(at) => script.at(Instant::ZERO + *at, changes),
            When::Enters {
                flow,
                state,
                nth,
                delay,
            } => script.upon(Trigger {
                flow: *flow as usize,
                phase: state.clone(),
                nth: *nth,
                delay: *delay,
                changes,
            }),
        }
    }
    let mut service = Some(parts.service);
    let links = (0..)
        .zip(&links)
        .map(|(number, section)| {
            // The path's own may follow a trace.
            let service = service.take().unwrap_or(Service::Fixed(section.rate));
            let stream = LOSS_STREAM - number * LINK_STRIDE;
            link(scenario, section, service, seed_of(seed, stream))
        })
        .collect();
    let ways = Ways {
        lanes: lanes
            .into_iter()
            .map(|(delay, beside)| Lane::new(delay, beside))
            .collect(),
        rtt: path.rtt,
        slot: path.ack_aggregation,
    };
    let mut hosts = 0..;
    let mut host = |id: u32, spec: HostSection| {
        let seed = seed_of(seed, HOST_STREAM - u64::from(id));
        Box::new(Host::new(hosts.next().unwrap_or(0), spec, seed))
    };
    let flows = (0..)
        .zip(plans.into_iter().zip(specs))
        .map(|(id, ((plan, workload), spec))| Flow {
            host: spec.map(|spec| host(id, spec)),
            id,
            stage: Stage::Waiting,
            receiver: Receiver::new(plan.receiver),
            application: Application::new(workload, plan.start),
            plan,
            last_delivery: Instant::ZERO,
            finished: None,
            seen: Seen::default(),
        })
        .collect();
    World::new(
        flows,
        links,
        ways,
        script,
        Journal::new(info, &scenario.run.record),
        seed,
    )
}

/// The links that a group's data crosses, by number.
fn route(scenario: &Scenario, group: &FlowGroup) -> Box<[usize]> {
    match &group.route {
        None => Box::new([0]),
        Some(names) => names
            .iter()
            .filter_map(|name| scenario.link_number(name))
            .collect(),
    }
}

fn link(scenario: &Scenario, section: &LinkSection, service: Service, seed: u64) -> Link<Packet> {
    let mut link = Link::new(LinkConfig {
        service,
        delay: section.delay,
        limit: queue_limit(scenario, section),
        loss: change::loss(section.loss),
        seed,
    });
    link.set_aqm(aqm(scenario, section));
    if scenario.run.record.packets {
        link.tell_drops();
    }
    for change in change::at_start(section) {
        change.apply(Instant::ZERO, &mut link);
    }
    link
}

fn plan(
    scenario: &Scenario,
    group: &FlowGroup,
    recipe: &Recipe,
    nth: u32,
    (route, lane): (Box<[usize]>, usize),
    starts: &mut Rng,
) -> (FlowPlan, Workload) {
    let jitter = Duration::from_nanos(starts.below(group.start_jitter.as_nanos()));
    let header = u32::try_from(group.header.get()).unwrap_or(u32::MAX);
    let mtu = u32::try_from(scenario.path.mtu.get()).unwrap_or(u32::MAX);
    let mss = mtu.saturating_sub(header).max(1);
    let plan = FlowPlan {
        start: Instant::ZERO + group.start + group.stagger * u64::from(nth) + jitter,
        stop: group.stop.map(|stop| Instant::ZERO + stop),
        base_rtt: group.rtt.unwrap_or(scenario.path.rtt),
        controller: recipe.clone(),
        sender: SenderConfig {
            mss,
            initial_window: Bytes::new(u64::from(mss) * u64::from(group.initial_window)),
            min_rto: group.recovery.min_rto,
            recovery: recovery(group.recovery.kind),
            tlp: group.recovery.tlp,
            f_rto: group.recovery.f_rto,
            limited_transmit: group.recovery.limited_transmit,
            undo: group.recovery.undo,
            max_ack_delay: group.ack.delay,
            max_burst: group.max_burst,
            ecn: ecn(group.ecn),
            ets: group.ets,
            ..SenderConfig::default()
        },
        receiver: ReceiverConfig {
            ack_every: group.ack.every,
            max_ack_delay: group.ack.delay,
            window: group.receive_window.get(),
            quick_acks: group.ack.quick,
            ecn: ecn(group.ecn),
            sack_blocks: if group.ets {
                ets::SACK_BLOCKS
            } else {
                ReceiverConfig::default().sack_blocks
            },
        },
        header,
        route,
        lane,
        label: group.label.clone().unwrap_or_default(),
    };
    let workload = workload(&group.app, mss);
    (plan, workload)
}

fn recovery(kind: RecoveryKind) -> Recovery {
    match kind {
        RecoveryKind::RackPrr => Recovery::RackPrr,
        RecoveryKind::RackPrrCrb => Recovery::RackPrrCrb,
        RecoveryKind::RackPrrSsrb => Recovery::RackPrrSsrb,
        RecoveryKind::Rack => Recovery::Rack,
        RecoveryKind::Sack => Recovery::Sack,
        RecoveryKind::Newreno => Recovery::NewReno,
    }
}

pub(crate) fn workload(app: &App, mss: u32) -> Workload {
    match app {
        App::Bulk => Workload::Bulk,
        App::Sized { size } => Workload::Sized { bytes: *size },
        App::Limited { rate } => limited(*rate, mss),
        App::OnOff { on, off, rate } => Workload::OnOff {
            on: *on,
            off: *off,
            rate: *rate,
        },
    }
}

/// An application with a rate writes packet by packet, but no more often than every millisecond.
fn limited(rate: Rate, mss: u32) -> Workload {
    Workload::Limited {
        rate,
        chunk: rate
            .volume_in(Duration::from_millis(1))
            .max(Bytes::new(u64::from(mss))),
    }
}

fn queue_limit(scenario: &Scenario, link: &LinkSection) -> QueueLimit {
    match &link.queue.size {
        QueueSize::Packets(packets) => QueueLimit::Packets(*packets),
        size => QueueLimit::Bytes(
            size.to_bytes(link.rate, scenario.path.rtt, scenario.path.mtu)
                .get(),
        ),
    }
}

/// How the queue signals congestion.
fn aqm(scenario: &Scenario, link: &LinkSection) -> Option<Aqm> {
    let (path, queue, rate) = (&scenario.path, &link.queue, link.rate);
    let amount = |size: QueueSize| match size {
        QueueSize::Packets(packets) => packets,
        size => size.to_bytes(rate, path.rtt, path.mtu).get(),
    };
    let step = queue.mark.map(|mark| {
        Aqm::Step(match mark.threshold {
            QueueSize::Packets(packets) => Threshold::Packets(packets),
            QueueSize::Time(time) => Threshold::Sojourn(time),
            size => Threshold::Bytes(amount(size)),
        })
    });
    let red = |red: paceline_scenario::Red| {
        Aqm::Red(Red {
            in_packets: matches!(red.min, QueueSize::Packets(_)),
            min: amount(red.min),
            max: amount(red.max),
            probability: red.probability,
            weight: red.weight,
            ecn: red.ecn,
            gentle: red.gentle,
        })
    };
    discipline(queue.kind, path.mtu.get())
        .or(step)
        .or(queue.red.map(red))
}

/// A queue that is more than drop-tail; the largest packet is `mtu` bytes.
fn discipline(kind: QueueKind, mtu: u64) -> Option<Aqm> {
    let codel = |target, interval, ecn| Codel {
        target,
        interval,
        ecn,
        max_packet: mtu,
    };
    Some(match kind {
        QueueKind::DropTail => return None,
        QueueKind::Codel(queue) => Aqm::Codel(codel(queue.target, queue.interval, queue.ecn)),
        QueueKind::FqCodel(queue) => Aqm::FqCodel(FqCodel {
            codel: codel(queue.target, queue.interval, queue.ecn),
            flows: queue.flows,
            quantum: u32::try_from(queue.quantum.get()).unwrap_or(u32::MAX),
        }),
        QueueKind::Pie(queue) => Aqm::Pie(Pie {
            target: queue.target,
            update: queue.update,
            alpha: queue.alpha.0,
            beta: queue.beta.0,
            burst: queue.burst,
            ecn: queue.ecn,
            mark_limit: queue.mark_limit,
            derandomize: queue.derandomize,
            mean_packet: mtu,
        }),
        QueueKind::DualPi2(queue) => Aqm::DualPi2(DualPi2 {
            target: queue.target,
            rtt_max: queue.rtt_max,
            coupling: queue.coupling,
            ramp_min: queue.ramp_min,
            ramp_range: queue.ramp_range,
            ramp_packets: 1,
            classic_share: queue.classic_share,
            max_packet: mtu,
        }),
    })
}

fn ecn(kind: EcnKind) -> EcnFeedback {
    match kind {
        EcnKind::Classic => EcnFeedback::Classic,
        EcnKind::Dctcp => EcnFeedback::Dctcp,
        EcnKind::Accurate => EcnFeedback::Accurate,
        EcnKind::Ace => EcnFeedback::Ace,
    }
}

fn info(
    scenario: &Scenario,
    plans: &[(FlowPlan, Workload)],
    links: &[LinkSection],
    seed: u64,
) -> RunInfo {
    let payload = plans
        .iter()
        .map(|(plan, _)| f64::from(plan.sender.mss) / f64::from(plan.sender.mss + plan.header))
        .fold(0.0, f64::max);
    RunInfo {
        scenario: scenario.name.clone(),
        scenario_toml: scenario.to_toml(),
        seed,
        backend: "sim".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        duration: scenario.run.duration,
        sample_interval: scenario.sample_interval(),
        payload_ratio: payload,
        flows: (0..)
            .zip(plans)
            .map(|(flow, (plan, _))| FlowInfo {
                flow,
                cc: plan.controller.name().into(),
                label: match plan.label.as_str() {
                    "" => format!("{} {flow}", plan.controller.name()),
                    label => label.to_owned(),
                },
                start: plan.start,
                stop: plan.stop,
                base_rtt: plan.base_rtt,
                mss: plan.sender.mss,
            })
            .collect(),
        links: links
            .iter()
            .enumerate()
            .map(|(number, link)| LinkInfo {
                name: link.name.clone(),
                capacity: link.rate,
                limit: match queue_limit(scenario, link) {
                    QueueLimit::Bytes(bytes) => Bytes::new(bytes),
                    QueueLimit::Packets(_) => Bytes::INFINITE,
                },
                flows: (0..)
                    .zip(plans)
                    .filter(|(_, (plan, _))| plan.route.contains(&number))
                    .map(|(flow, _)| flow)
                    .collect(),
            })
            .collect(),
    }
}
