//! From a scenario to a world: names become controllers, files become traces.

use std::collections::BTreeMap;

use paceline_congestion::Recipe;
use paceline_experiment::{self as experiment, Starts, list, nearest, seed_of};
use paceline_path::{QueueLimit, Service};
use paceline_record::{FlowInfo, LinkInfo, RunInfo};
use paceline_recovery::{
    Application, EcnFeedback, Receiver, ReceiverConfig, Recovery, SenderConfig, Workload, ets,
};
use paceline_scenario::{
    ControllerChoice, Diagnostic, EcnKind, FlowGroup, HostSection, LinkSection, RecoveryKind,
    Scenario, When,
};
use paceline_units::{Bytes, Duration, Instant};

use crate::controllers;
use crate::flow::{Flow, FlowPlan, Seen, Stage};
use crate::host::Host;
use crate::journal::Journal;
use crate::script::{Script, Trigger};
use crate::world::{Lane, Ways, World};

/// Streams of random numbers that do not belong to one flow.
/// The first flow's hosts'; the others' lie below it.
const HOST_STREAM: u64 = u64::MAX - 2;

/// Everything of a scenario that can be wrong beyond its own text, resolved:
/// controllers by name, the capacity trace from its file.
pub(crate) struct Parts {
    recipes: Vec<Recipe>,
    service: Service,
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
    wrong.extend(experiment::check(scenario));
    match experiment::service(scenario) {
        Ok(service) if wrong.is_empty() => return Ok(Parts { recipes, service }),
        Ok(_) => {}
        Err(error) => wrong.push(*error),
    }
    Err(wrong)
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
            let hint = nearest(state, spec.phases.iter().copied());
            wrong.push(scenario.diagnostic(
                &format!("events[{index}].when.enters"),
                format!(
                    "`{}` has no state `{state}`; it has {}",
                    spec.name,
                    list(spec.phases)
                ),
                hint,
            ));
        }
    }
}

/// The world at time zero.
pub(crate) fn world(scenario: &Scenario, parts: Parts, seed: u64) -> World {
    let path = &scenario.path;
    let rate = match &parts.service {
        Service::Fixed(rate) => *rate,
        Service::Trace(trace) => trace.mean_rate(),
    };
    let mut plans = Vec::new();
    let mut starts = Starts::new(seed);
    let links = experiment::links(scenario, rate);
    let mut lanes: Vec<(Duration, bool)> = Vec::new();
    let mut specs = Vec::new();
    for (group, recipe) in scenario.flows.iter().zip(parts.recipes) {
        let route = experiment::route(scenario, group);
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
        let changes = experiment::of_event(scenario, event, mss);
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
            experiment::link(scenario, (number, section), service, seed)
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

/// By how much Linux lets the timer slip that ends the holding back of SACKs (`net.ipv4.tcp_comp_sack_slack_ns`).
const COMP_SACK_SLACK: Duration = Duration::from_micros(100);

fn plan(
    scenario: &Scenario,
    group: &FlowGroup,
    recipe: &Recipe,
    nth: u32,
    (route, lane): (Box<[usize]>, usize),
    starts: &mut Starts,
) -> (FlowPlan, Workload) {
    let header = u32::try_from(group.header.get()).unwrap_or(u32::MAX);
    let mss = experiment::mss(scenario, group);
    let base_rtt = group.rtt.unwrap_or(scenario.path.rtt);
    let plan = FlowPlan {
        start: starts.of(group, nth),
        stop: group.stop.map(|stop| Instant::ZERO + stop),
        base_rtt,
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
            push: group.ack.pushed,
            ets: group.ets,
            ..SenderConfig::default()
        },
        receiver: ReceiverConfig {
            ack_every: group.ack.every,
            max_ack_delay: group.ack.delay,
            window: group.receive_window.get(),
            quick_acks: group.ack.quick,
            sack_delay: group
                .ack
                .comp_sack_delay
                .filter(|time| *time > Duration::ZERO)
                .map_or(Duration::ZERO, |time| {
                    time.min(base_rtt / 20) + COMP_SACK_SLACK
                }),
            pushed: group.ack.pushed,
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
    let workload = experiment::workload(&group.app, mss);
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
                limit: match experiment::queue_limit(scenario, link) {
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
