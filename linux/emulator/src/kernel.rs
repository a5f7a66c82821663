//! The settings requested from the kernel, and its limits.

use std::fs;

use paceline_experiment::{self as experiment, Guests, Unavailable};
use paceline_scenario::{
    Diagnostic, Engine, FlowGroup, OptionInput, RecoverySection, Scenario, When,
};
use paceline_units::{Duration, EcnFeedback, Rate};

use crate::namespace::{COMP_SACK_DELAY, Stack};
use crate::netlink::RouteMetrics;
use crate::packet::{MOST_FLOWS, UDP_HEADERS};

/// The fastest link that is emulated: beyond it no machine has met its bounds.
const MAX_RATE: Rate = Rate::from_bps(1_000_000_000);
/// The shortest time between two samples of a flow.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

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

/// Controllers that the stack paces if a socket asks for it; the option that does so is `pacing`.
const PACED: [&str; 3] = ["cubic", "dctcp", "reno"];
/// BBRv3 by eBPF, as `paceline kernel load` registers it.
pub const BBR3: &str = "paceline_bbr3";
/// Inputs that a stock kernel does not give, and that it derives.
const BBR3_DERIVED: [&str; 5] = [
    "tx_in_flight",
    "lost",
    "skb_marked_lost",
    "tlp_recovery",
    "is_acking_tlp",
];

/// Headers of an IPv4 segment with timestamps.
const HEADER: u64 = 52;
/// Headers without timestamps.
const BARE_HEADER: u64 = 40;
/// Headers of a datagram.
const UDP_HEADER: u64 = UDP_HEADERS as u64;

/// The kernel's name for a controller.
pub fn name(cc: &str) -> &str {
    match cc {
        "bbr1" => "bbr",
        "cubic-linux" => "cubic",
        "bbr3-linux" => BBR3,
        other => other,
    }
}

/// The inputs that a controller, by the kernel's name, derives.
pub fn derived(name: &str) -> &'static [&'static str] {
    match name {
        BBR3 => &BBR3_DERIVED,
        _ => &[],
    }
}

/// Whether a flow's controller is one of the kernel's BBRs: paced, and with a state of its own.
pub fn is_bbr(flow: &experiment::FlowPlan) -> bool {
    name(&flow.group.cc.name).starts_with("bbr")
}

/// The controllers available in this kernel.
pub fn controllers() -> Vec<String> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The groups of flows that run the kernel's TCP.
fn tcp_groups(scenario: &Scenario) -> impl Iterator<Item = &FlowGroup> {
    scenario.flows.iter().filter(|group| !group.is_quic())
}

/// Requirements of a scenario that this machine lacks.
pub fn available(scenario: &Scenario, has: &[String]) -> Result<(), Unavailable> {
    for group in tcp_groups(scenario) {
        let name = name(&group.cc.name);
        if !has.iter().any(|known| known == name) {
            return Err(Unavailable {
                what: format!(
                    "this kernel has no congestion controller `{name}`; it has {}",
                    experiment::list(&has.iter().map(String::as_str).collect::<Vec<_>>())
                ),
                hint: Some(match name {
                    BBR3 => "sudo paceline kernel load".to_owned(),
                    name if MAINLINE.contains(&name) => format!("sudo modprobe tcp_{name}"),
                    _ => "run it in the simulator: --backend sim".to_owned(),
                }),
            });
        }
    }
    Ok(())
}

/// All errors in a scenario for the emulator, which may name the stacks among `guests`.
pub fn check(scenario: &Scenario, guests: &Guests) -> Vec<Diagnostic> {
    let mut wrong = check_tcp(scenario, Engine::Emulator);
    wrong.extend(
        experiment::stack_choices(scenario, guests)
            .err()
            .unwrap_or_default(),
    );
    let mut say = |key: String, message: &str, hint: &str| {
        wrong.push(scenario.diagnostic(&key, message, Some(hint.to_owned())));
    };
    let doctor = "`paceline doctor` measures what this machine holds";
    if scenario.flow_count() > MOST_FLOWS {
        let message = format!("the emulator runs no more than {MOST_FLOWS} flows");
        say("flows".into(), &message, "run it in the simulator");
    }
    let service = experiment::service(scenario, 0).ok();
    let first = service.as_ref().map(experiment::rate);
    let links = std::iter::once(("path.rate".to_owned(), first));
    let others = scenario.links.iter().enumerate();
    let others = others.map(|(number, link)| (format!("links[{number}].rate"), Some(link.rate)));
    let too_fast = format!("the emulator runs no faster than {MAX_RATE}");
    for (key, rate) in links.chain(others) {
        if rate.is_some_and(|rate| rate > MAX_RATE) {
            say(key, &too_fast, doctor);
        }
    }
    let plan = experiment::Plan::resolve(scenario, 0, "emu");
    let later = plan.map_or_else(|_| Vec::new(), |plan| plan.later_rates());
    for (number, event) in scenario.events.iter().enumerate() {
        let rate = event.path.as_ref().and_then(|path| path.rate);
        if let Some(paceline_scenario::RateChange::Absolute(rate)) = rate
            && rate > MAX_RATE
        {
            say(format!("events[{number}].path.rate"), &too_fast, doctor);
        } else if let Some(paceline_scenario::RateChange::Factor(_)) = rate
            && later.iter().any(|(_, rate)| *rate > MAX_RATE)
        {
            say(format!("events[{number}].path.rate"), &too_fast, doctor);
        }
    }
    wrong
}

/// All errors in a scenario for an engine with a kernel's TCP.
pub fn check_tcp(scenario: &Scenario, engine: Engine) -> Vec<Diagnostic> {
    let mut wrong = experiment::check(scenario);
    let mut say = |key: String, message: &str, hint: &str| {
        wrong.push(scenario.diagnostic(&key, message, Some(hint.to_owned())));
    };
    let sim = "run it in the simulator, or leave it out";
    for refused in scenario.refused(engine) {
        say(refused.key, refused.why, sim);
    }
    for (number, group) in scenario.flows.iter().enumerate() {
        let at = |key: &str| format!("flows[{number}].{key}");
        if group.is_quic() {
            if group.header().get() != UDP_HEADER {
                let message = "the headers of IPv4 and UDP have 28 bytes";
                say(at("header"), message, "header = \"28 B\", or leave it out");
            }
            continue;
        }
        let is_bbr3 = name(&group.cc.name) == BBR3;
        // ECN and pacing are choices per connection; a machine of its own loads BBRv3 with any
        // options.
        let taken = |option: &str| match option {
            "ecn" => true,
            "pacing" => engine == Engine::Vm && PACED.contains(&name(&group.cc.name)),
            _ => engine == Engine::Vm && is_bbr3,
        };
        if let Some(option) = group.cc.options.keys().find(|option| !taken(option)) {
            let message = "a kernel's controller takes no options from a scenario";
            let load = format!("sudo paceline kernel load --set {option}=VALUE");
            say(
                at(&format!("cc.{option}")),
                message,
                if is_bbr3 { &load } else { sim },
            );
        }
        let held = group.ack.comp_sack_delay;
        if held.is_some_and(|time| time != COMP_SACK_DELAY) {
            let message = "when a kernel's receiver acknowledges cannot be chosen";
            say(at("ack.comp_sack_delay"), message, sim);
        }
        if group.recovery.min_rto < MIN_INTERVAL {
            let message = "a kernel's shortest retransmission timeout is counted in milliseconds";
            say(at("recovery.min_rto"), message, "\"1 ms\" or more");
        }
        if asks_for_ecn(group) && group.ecn != EcnFeedback::Classic {
            let message = "the kernel's receiver reports marks by RFC 3168";
            say(at("ecn"), message, "ecn = \"classic\"");
        }
        let header = group.header().get();
        if ![HEADER, BARE_HEADER].contains(&header) {
            let message = "the kernel's headers have 52 bytes, or 40 without timestamps";
            say(at("header"), message, "header = \"52 B\"");
        } else if group.header()
            != tcp_groups(scenario)
                .next()
                .map_or(group.header(), FlowGroup::header)
        {
            let message = "all flows of a run with a kernel's TCP have timestamps, or none";
            say(at("header"), message, "give all flows the same header");
        }
    }
    for (number, event) in scenario.events.iter().enumerate() {
        if let When::Enters { .. } = event.when {
            let message = "a kernel's state is not seen soon enough to act upon it";
            let hint = "give the event a time of the run";
            say(format!("events[{number}].when"), message, hint);
        }
    }
    if scenario.sample_interval() < MIN_INTERVAL {
        let message = "a kernel's state is read once in a millisecond at most";
        say("run.sample_interval".into(), message, "\"1 ms\" or more");
    }
    wrong
}

fn asks_for_ecn(group: &FlowGroup) -> bool {
    group.cc.options.get("ecn") == Some(&OptionInput::Flag(true))
}

/// The settings that a group requests from the kernel for its path.
pub fn metrics(group: &FlowGroup) -> RouteMetrics {
    let min_rto = group.recovery.min_rto;
    let usual = RecoverySection::default().min_rto;
    RouteMetrics {
        initial_window: Some(group.initial_window.0),
        min_rto_ms: (min_rto != usual)
            .then(|| u32::try_from(min_rto.as_micros() / 1000).unwrap_or(u32::MAX)),
        ecn: asks_for_ecn(group),
    }
}

/// The largest receive window of this machine's TCP: half of its largest buffer. Linux's default is 6 MB.
pub fn largest_window() -> u64 {
    let limits = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap_or_default();
    let most = limits.split_whitespace().nth(2);
    most.and_then(|most| most.parse().ok()).unwrap_or(6 << 20) / 2
}

/// The settings that a run requests from both stacks.
pub fn stack(scenario: &Scenario) -> Stack {
    let groups = || tcp_groups(scenario);
    Stack {
        mtu: u32::try_from(scenario.path.mtu.get()).unwrap_or(u32::MAX),
        timestamps: groups().all(|group| group.header().get() == HEADER),
        window: groups()
            .map(|group| group.receive_window.get())
            .max()
            .unwrap_or(0),
    }
}
