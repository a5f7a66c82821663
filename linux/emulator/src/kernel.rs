//! What this machine's kernel can run.

use std::fs;

use paceline_experiment::{self as experiment, Guests, Unavailable};
use paceline_scenario::{Diagnostic, Engine, Scenario};
use paceline_tcp::packet::MOST_FLOWS;
use paceline_tcp::settings::{BBR3, check_tcp, name, tcp_groups};
use paceline_units::Rate;

/// The fastest link that is emulated: beyond it no machine has met its bounds.
const MAX_RATE: Rate = Rate::from_bps(1_000_000_000);
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

/// The controllers available in this kernel.
pub fn controllers() -> Vec<String> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
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
    let mut report = |key: String, message: &str, hint: &str| {
        wrong.push(scenario.diagnostic(&key, message, Some(hint.to_owned())));
    };
    let doctor = "`paceline doctor` measures what this machine holds";
    if scenario.flow_count() > MOST_FLOWS {
        let message = format!("the emulator runs no more than {MOST_FLOWS} flows");
        report("flows".into(), &message, "run it in the simulator");
    }
    let service = experiment::service(scenario, 0).ok();
    let first = service.as_ref().map(experiment::rate);
    let links = std::iter::once(("path.rate".to_owned(), first));
    let others = scenario.links.iter().enumerate();
    let others = others.map(|(number, link)| (format!("links[{number}].rate"), Some(link.rate)));
    let too_fast = format!("the emulator runs no faster than {MAX_RATE}");
    for (key, rate) in links.chain(others) {
        if rate.is_some_and(|rate| rate > MAX_RATE) {
            report(key, &too_fast, doctor);
        }
    }
    let plan = experiment::Plan::resolve(scenario, 0, "emu");
    let later = plan.map_or_else(|_| Vec::new(), |plan| plan.later_rates());
    for (number, event) in scenario.events.iter().enumerate() {
        let rate = event.path.as_ref().and_then(|path| path.rate);
        if let Some(paceline_scenario::RateChange::Absolute(rate)) = rate
            && rate > MAX_RATE
        {
            report(format!("events[{number}].path.rate"), &too_fast, doctor);
        } else if let Some(paceline_scenario::RateChange::Factor(_)) = rate
            && later.iter().any(|(_, rate)| *rate > MAX_RATE)
        {
            report(format!("events[{number}].path.rate"), &too_fast, doctor);
        }
    }
    wrong
}

/// The largest receive window of this machine's TCP: half of its largest buffer. Linux's default is 6 MB.
pub fn largest_window() -> u64 {
    let limits = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap_or_default();
    let most = limits.split_whitespace().nth(2);
    most.and_then(|most| most.parse().ok()).unwrap_or(6 << 20) / 2
}
