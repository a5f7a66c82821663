//! Parts of a scenario that a kernel's own queues cannot do.

use paceline_emulator::linux::check_tcp;
use paceline_experiment::Plan;
use paceline_path::{Aqm, Pie, Red};
use paceline_scenario::{Diagnostic, Engine, LinkKey, RateSource, Scenario};
use paceline_units::{Frequency, Gain, Rate, Size};

use crate::bbr3::Controllers;
use crate::network::{MOST_LANES, pie_weight, red_weight};

/// The maximum number of flows: each has sockets, and a route, in one machine.
const MOST_FLOWS: u64 = 1_000;
/// Above this rate the guest's processor is saturated, whatever the scenario.
const MAX_RATE: Rate = Rate::from_bps(400_000_000);

/// All errors in a scenario for the machine.
pub fn check(scenario: &Scenario) -> Vec<Diagnostic> {
    let mut wrong = check_tcp(scenario, Engine::Vm);
    wrong.extend(Controllers::of(scenario).err().unwrap_or_default());
    let mut say = |key: String, message: &str, hint: &str| {
        wrong.push(scenario.diagnostic(&key, message, Some(hint.to_owned())));
    };
    let sim = "run it in the simulator, or leave it out";
    if scenario.flow_count() > MOST_FLOWS {
        let message = format!("the machine runs no more than {MOST_FLOWS} flows");
        say("flows".into(), &message, "run it in the simulator");
    }
    if !scenario.links.is_empty() {
        say(
            "links".into(),
            "the machine has one link, that of the path",
            sim,
        );
    }
    match &scenario.path.rate {
        RateSource::Fixed(rate) if *rate > MAX_RATE => {
            let message = format!("the machine runs no faster than {MAX_RATE}");
            say(
                "path.rate".into(),
                &message,
                "choose a lower rate, or another backend",
            );
        }
        RateSource::Fixed(_) => {}
        _ => say(
            "path.rate".into(),
            "a kernel's queues follow no recorded trace",
            sim,
        ),
    }
    let queue = &scenario.path.queue;
    for (number, signal) in queue.early_signals.iter().enumerate() {
        let key = format!("path.queue.{}", signal.name);
        match Aqm::named(signal.name, &signal.options) {
            Some(Aqm::Red(red)) if number == 0 && queue.kind.name == "droptail" => {
                for (option, message, hint) in beyond_red(&red) {
                    say(format!("{key}.{option}"), message, &hint);
                }
            }
            _ => say(key, "the machine has no such early signal", sim),
        }
    }
    match Aqm::named(queue.kind.name, &queue.kind.options) {
        None | Some(Aqm::Codel(_) | Aqm::FqCodel(_)) => {}
        Some(Aqm::Pie(pie)) => {
            for key in fixed_in_pie(&pie) {
                say(
                    format!("path.queue.{key}"),
                    "the kernel's PIE has this fixed",
                    "leave it at its default",
                );
            }
        }
        Some(_) => say(
            "path.queue.kind".into(),
            "the machine has no such queue",
            sim,
        ),
    }
    let netem = |key: &LinkKey| {
        matches!(
            key,
            LinkKey::Loss(_) | LinkKey::Duplicate(_) | LinkKey::Jitter(_)
        )
    };
    for key in scenario
        .path
        .link
        .at_start()
        .iter()
        .filter(|key| !netem(key))
    {
        say(
            format!("path.{}", key.name()),
            "netem does this otherwise, or not at all",
            sim,
        );
    }
    if let Ok(plan) = Plan::resolve(scenario, 0, "vm") {
        let lanes = plan.ways.delays(scenario.path.rtt).lanes.len();
        if lanes > MOST_LANES {
            let message =
                format!("the machine has no more than {MOST_LANES} different round trips");
            say("flows".into(), &message, sim);
        }
        for (number, event) in scenario.events.iter().enumerate() {
            let Some(path) = &event.path else { continue };
            for key in path.keys.keys().filter(|key| !netem(key)) {
                let message = "netem does this otherwise, or not at all";
                say(
                    format!("events[{number}].path.{}", key.name()),
                    message,
                    sim,
                );
            }
        }
        let beyond = |(_, rate): &(usize, Rate)| *rate == Rate::ZERO || *rate > MAX_RATE;
        if plan.later_rates().iter().any(beyond) {
            let message = format!("the machine's rates are above 0 and at most {MAX_RATE}");
            say("events".into(), &message, sim);
        }
    }
    wrong
}

/// The options of PIE that Linux does not support as a scenario sets them.
fn fixed_in_pie(pie: &Pie) -> Vec<&'static str> {
    let usual = Pie::default();
    let exact = |weight: Frequency| {
        u64::from(pie_weight(weight)) * 1_000_000
            == u64::from(weight.per_second().millionths()) * 16
    };
    [
        ("burst", pie.burst == usual.burst),
        ("mark_limit", pie.mark_limit == usual.mark_limit),
        ("derandomize", pie.derandomize == usual.derandomize),
        ("alpha", exact(pie.alpha)),
        ("beta", exact(pie.beta)),
    ]
    .into_iter()
    .filter_map(|(name, fits)| (!fits).then_some(name))
    .collect()
}

/// The options of RED that Linux does not support, with alternatives.
fn beyond_red(red: &Red) -> Vec<(&'static str, &'static str, String)> {
    let mut beyond = Vec::new();
    if red_weight(red.weight).is_none() {
        let near = (1..20)
            .map(|log| Gain::SCALE >> log)
            .min_by_key(|millionths| millionths.abs_diff(red.weight.millionths()))
            .unwrap_or_default();
        let hint = format!("the nearest is {}", Gain::from_millionths(near));
        beyond.push(("weight", "the kernel's RED has powers of one half", hint));
    }
    let sizes = [("min", red.min), ("max", red.max)];
    for (key, _) in sizes
        .into_iter()
        .filter(|(_, size)| matches!(size, Size::Packets(_)))
    {
        let hint = "say it in bytes, such as \"30 kB\"".to_owned();
        beyond.push((key, "the kernel's RED counts bytes", hint));
    }
    // `red_check_params`: `fls(threshold) + Wlog` must be below 32.
    let most = red_weight(red.weight).map(|log| (1_u64 << (31 - log)) - 1);
    if let (Some(most), Size::Bytes(max)) = (most, red.max)
        && max.get() > most
    {
        let hint = format!("at most {most} bytes, or a larger weight");
        beyond.push((
            "max",
            "above the maximum of the kernel's RED with this weight",
            hint,
        ));
    }
    if red.gentle {
        let hint = "gentle = false".to_owned();
        beyond.push(("gentle", "the kernel's RED is not gentle", hint));
    }
    beyond
}
