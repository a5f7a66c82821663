//! From a scenario to what the kernel is asked for, and what it cannot be asked for.

use std::fs;

use paceline_experiment::{self as experiment, Change, Starts};
use paceline_path::Service;
use paceline_recovery::Workload;
use paceline_scenario::{
    AckPolicy, Diagnostic, EcnKind, FlowGroup, LinkSection, OptionInput, RecoverySection, Scenario,
    When,
};
use paceline_units::{Duration, Instant, Rate};

use crate::Unavailable;
use crate::namespace::Stack;
use crate::netlink::RouteMetrics;
use crate::packet::MOST_FLOWS;

/// The fastest link that is emulated: beyond it no machine has held its bounds.
pub const MAX_RATE: Rate = Rate::from_bps(1_000_000_000);
/// The shortest time between two samples of a flow.
pub const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// How long Linux holds back ACKs of what is out of order (`net.ipv4.tcp_comp_sack_delay_ns`).
pub const COMP_SACK_DELAY: Duration = Duration::from_millis(1);

/// The controllers that Linux has as modules.
const MAINLINE: [&str; 16] = [
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];

/// What an IPv4 segment with timestamps has before its payload.
const HEADER: u64 = 52;
/// And without.
const BARE_HEADER: u64 = 40;

/// One connection.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    pub start: Instant,
    pub stop: Option<Instant>,
    pub base_rtt: Duration,
    /// The controller by the scenario's name, and by the kernel's.
    pub cc: String,
    pub kernel_cc: String,
    pub label: String,
    pub mss: u32,
    pub workload: Workload,
    /// What its application does at times of the run, in order.
    pub script: Vec<(Instant, AppStep)>,
    /// The links that its data crosses, by number.
    pub route: Box<[usize]>,
    /// The way back that its ACKs take, by number.
    pub lane: usize,
    pub metrics: RouteMetrics,
    /// The largest window that its receiver announces.
    pub window: u64,
}

/// What an application does from now on.
#[derive(Clone, Copy, Debug)]
pub enum AppStep {
    Pause,
    Resume,
    Become(Workload),
}

/// A way back: its delay, and whether the data of its flows goes beside the path's own link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanePlan {
    pub delay: Duration,
    pub beside: bool,
}

/// An emulated run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub flows: Vec<FlowPlan>,
    pub links: Vec<LinkSection>,
    pub service: Service,
    pub lanes: Vec<LanePlan>,
    /// Changes by time, in order.
    pub script: Vec<(Instant, Change)>,
    pub stack: Stack,
}

impl Plan {
    /// Whether any flow asks for ECN.
    pub fn ecn(&self) -> bool {
        self.flows.iter().any(|flow| flow.metrics.ecn)
    }
}

/// The kernel's name for a controller.
fn kernel_name(cc: &str) -> &str {
    match cc {
        "bbr1" => "bbr",
        "cubic-linux" => "cubic",
        other => other,
    }
}

/// The controllers that this kernel has at hand.
pub fn controllers() -> Vec<String> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// What this machine lacks for a scenario.
pub fn available(scenario: &Scenario, has: &[String]) -> Result<(), Unavailable> {
    for group in &scenario.flows {
        let name = kernel_name(&group.cc.name);
        if !has.iter().any(|known| known == name) {
            return Err(Unavailable {
                what: format!(
                    "this kernel has no congestion controller `{name}`; it has {}",
                    experiment::list(&has.iter().map(String::as_str).collect::<Vec<_>>())
                ),
                hint: Some(match MAINLINE.contains(&name) {
                    true => format!("sudo modprobe tcp_{name}"),
                    false => "run it in the simulator: --backend sim".to_owned(),
                }),
            });
        }
    }
    Ok(())
}

/// All that is wrong with a scenario for the emulator.
pub fn check(scenario: &Scenario) -> Vec<Diagnostic> {
    let mut wrong = experiment::check(scenario);
    wrong.extend(experiment::service(scenario).err().map(|error| *error));
    let mut say = |key: String, message: &str, hint: &str| {
        wrong.push(scenario.diagnostic(&key, message, Some(hint.to_owned())));
    };
    if scenario.flow_count() > MOST_FLOWS {
        let message = format!("the emulator runs no more than {MOST_FLOWS} flows");
        say("flows".into(), &message, "run it in the simulator");
    }
    let sim = "run it in the simulator, or leave it out";
    for (number, group) in scenario.flows.iter().enumerate() {
        let at = |key: &str| format!("flows[{number}].{key}");
        // Whether it asks for ECN is the one choice that the kernel leaves for each connection.
        if let Some(option) = group.cc.options.keys().find(|option| *option != "ecn") {
            let message = "a kernel's controller takes no options from a scenario";
            say(at(&format!("cc.{option}")), message, sim);
        }
        let policy = AckPolicy {
            comp_sack_delay: group
                .ack
                .comp_sack_delay
                .filter(|time| *time != COMP_SACK_DELAY),
            // A kernel does so or does not.
            pushed: false,
            ..group.ack.clone()
        };
        if policy != AckPolicy::default() {
            let message = "when a kernel's receiver acknowledges cannot be chosen";
            say(at("ack"), message, sim);
        }
        let plain = RecoverySection {
            min_rto: group.recovery.min_rto,
            ..RecoverySection::default()
        };
        if group.recovery != plain {
            let message = "how a kernel recovers from loss cannot be chosen";
            say(at("recovery"), message, sim);
        }
        if group.recovery.min_rto < MIN_INTERVAL {
            let message = "a kernel's shortest retransmission timeout is counted in milliseconds";
            say(at("recovery.min_rto"), message, "\"1 ms\" or more");
        }
        if group.host.is_some() {
            let message = "what a real host adds cannot be chosen";
            say(at("host"), message, sim);
        }
        if group.ets {
            let message = "the kernel has no ETS option";
            say(at("ets"), message, sim);
        }
        if group.max_burst.is_some() {
            let message = "how much the kernel sends at once cannot be chosen";
            say(at("max_burst"), message, sim);
        }
        if asks_for_ecn(group) && group.ecn != EcnKind::Classic {
            let message = "the kernel's receiver reports marks by RFC 3168";
            say(at("ecn"), message, "ecn = \"classic\"");
        }
        let header = group.header.get();
        if ![HEADER, BARE_HEADER].contains(&header) {
            let message = "the kernel's headers have 52 bytes, or 40 without timestamps";
            say(at("header"), message, "header = \"52 B\"");
        } else if group.header != scenario.flows.first().map_or(group.header, |g| g.header) {
            let message = "all flows of an emulated run have timestamps, or none";
            say(at("header"), message, "give all flows the same header");
        }
    }
    let links = std::iter::once(("path.rate".to_owned(), first_rate(scenario)));
    let others = scenario.links.iter().enumerate();
    let others = others.map(|(number, link)| (format!("links[{number}].rate"), Some(link.rate)));
    for (key, rate) in links.chain(others) {
        if rate.is_some_and(|rate| rate > MAX_RATE) {
            let message = format!("the emulator runs no faster than {MAX_RATE}");
            say(
                key,
                &message,
                "`paceline doctor` measures what this machine holds",
            );
        }
    }
    for (number, event) in scenario.events.iter().enumerate() {
        if let When::Enters { .. } = event.when {
            let message = "the emulator does not see a kernel's state soon enough to act upon it";
            say(
                format!("events[{number}].when"),
                message,
                "give the event a time of the run",
            );
        }
        let rate = event.path.as_ref().and_then(|path| path.rate);
        if let Some(paceline_scenario::RateChange::Absolute(rate)) = rate
            && rate > MAX_RATE
        {
            let message = format!("the emulator runs no faster than {MAX_RATE}");
            let hint = "`paceline doctor` measures what this machine holds";
            say(format!("events[{number}].path.rate"), &message, hint);
        }
    }
    if scenario.sample_interval() < MIN_INTERVAL {
        let message = "a kernel's state is read once in a millisecond at most";
        say("run.sample_interval".into(), message, "\"1 ms\" or more");
    }
    if scenario.run.record.rounds {
        let message = "the kernel does not tell of its rounds";
        say("run.record.rounds".into(), message, sim);
    }
    wrong
}

fn asks_for_ecn(group: &FlowGroup) -> bool {
    group.cc.options.get("ecn") == Some(&OptionInput::Flag(true))
}

fn first_rate(scenario: &Scenario) -> Option<Rate> {
    match experiment::service(scenario).ok()? {
        Service::Fixed(rate) => Some(rate),
        Service::Trace(trace) => Some(trace.mean_rate()),
    }
}

/// What a run with `seed` is to be, of a scenario that [`check`] has nothing against.
pub fn resolve(scenario: &Scenario, seed: u64) -> Result<Plan, Vec<Diagnostic>> {
    let wrong = check(scenario);
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let service = experiment::service(scenario).map_err(|error| vec![*error])?;
    let rate = match &service {
        Service::Fixed(rate) => *rate,
        Service::Trace(trace) => trace.mean_rate(),
    };
    let links = experiment::links(scenario, rate);
    let mut lanes: Vec<LanePlan> = Vec::new();
    let mut flows = Vec::new();
    let mut starts = Starts::new(seed);
    for group in &scenario.flows {
        let route = experiment::route(scenario, group);
        let forth = route
            .iter()
            .filter_map(|number| links.get(*number))
            .fold(Duration::ZERO, |sum, link| sum + link.delay);
        let lane = LanePlan {
            delay: group.rtt.unwrap_or(scenario.path.rtt) - forth,
            beside: !route.contains(&0),
        };
        let number = lanes.iter().position(|known| *known == lane);
        let number = number.unwrap_or_else(|| {
            lanes.push(lane);
            lanes.len() - 1
        });
        for nth in 0..group.count {
            let start = starts.of(group, nth);
            flows.push(flow(scenario, group, start, route.clone(), number));
        }
    }
    for (number, flow) in flows.iter_mut().enumerate() {
        if flow.label.is_empty() {
            flow.label = format!("{} {number}", flow.cc);
        }
    }
    let mut script = Vec::new();
    for event in &scenario.events {
        let When::At(at) = event.when else { continue };
        let at = Instant::ZERO + at;
        let mss = |flow: usize| flows.get(flow).map_or(1, |plan: &FlowPlan| plan.mss);
        let changes = experiment::of_event(scenario, event, mss);
        script.extend(changes.into_iter().map(|change| (at, change)));
    }
    script.sort_by_key(|(at, _)| *at);
    for (at, change) in &script {
        let (flow, step) = match change {
            Change::Pause(flow) => (*flow, AppStep::Pause),
            Change::Resume(flow) => (*flow, AppStep::Resume),
            Change::Workload(flow, workload) => (*flow, AppStep::Become(*workload)),
            Change::Link(..) | Change::Rtt(_) | Change::AckAggregation(_) => continue,
        };
        if let Some(flow) = flows.get_mut(flow) {
            flow.script.push((*at, step));
        }
    }
    let stack = Stack {
        mtu: u32::try_from(scenario.path.mtu.get()).unwrap_or(u32::MAX),
        timestamps: scenario
            .flows
            .iter()
            .all(|group| group.header.get() == HEADER),
        window: flows.iter().map(|flow| flow.window).max().unwrap_or(0),
    };
    Ok(Plan {
        flows,
        links,
        service,
        lanes,
        script,
        stack,
    })
}

fn flow(
    scenario: &Scenario,
    group: &FlowGroup,
    start: Instant,
    route: Box<[usize]>,
    lane: usize,
) -> FlowPlan {
    let mss = experiment::mss(scenario, group);
    let min_rto = group.recovery.min_rto;
    let usual = RecoverySection::default().min_rto;
    FlowPlan {
        start,
        stop: group.stop.map(|stop| Instant::ZERO + stop),
        base_rtt: group.rtt.unwrap_or(scenario.path.rtt),
        cc: group.cc.name.clone(),
        kernel_cc: kernel_name(&group.cc.name).to_owned(),
        label: group.label.clone().unwrap_or_default(),
        mss,
        workload: experiment::workload(&group.app, mss),
        script: Vec::new(),
        route,
        lane,
        metrics: RouteMetrics {
            initial_window: Some(group.initial_window),
            min_rto_ms: (min_rto != usual)
                .then(|| u32::try_from(min_rto.as_micros() / 1000).unwrap_or(u32::MAX)),
            ecn: asks_for_ecn(group),
        },
        window: group.receive_window.get(),
    }
}
