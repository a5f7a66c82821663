//! Parts of a scenario that a kernel's own queues cannot do.

use paceline_experiment::Plan;
use paceline_path::{Aqm, FqCodel, Pie, Red};
use paceline_scenario::{Diagnostic, Engine, FlowGroup, LinkKey, Queue, RateSource, Scenario};
use paceline_tcp::settings::check_tcp;
use paceline_units::{AckFilter, Frequency, Gain, Rate, Size};

use crate::bbr3::Controllers;
use crate::network::{MOST_LANES, pie_weight, red_weight};

/// The maximum number of flows: each has sockets, and a route, in one machine.
const MOST_FLOWS: u64 = 1_000;
/// Above this rate the guest's processor is saturated, whatever the scenario.
const MAX_RATE: Rate = Rate::from_bps(400_000_000);
/// HTB forgives a debt of more than 60 s: the largest packet has 64 KiB.
const MIN_RATE: Rate = Rate::from_bps(10_000);

/// What helps where nothing does.
const SIM: &str = "run it in the simulator, or leave it out";
const OTHERWISE: &str = "netem does this otherwise, or not at all";

/// `cake` drops at the head of the longest queue, by memory, and its AQM is COBALT.
const FILTERS_ACKS: &str =
    "the machine filters ACKs only where no data goes: Linux's cake drops data in its own way";

/// All errors in a scenario for the machine.
pub fn check(scenario: &Scenario) -> Vec<Diagnostic> {
    let mut wrong = check_tcp(scenario, Engine::Vm);
    wrong.extend(Controllers::of(scenario).err().unwrap_or_default());
    let mut report = |key: String, message: &str, hint: &str| {
        wrong.push(scenario.diagnostic(&key, message, Some(hint.to_owned())));
    };
    let sim = SIM;
    if scenario.flow_count() > MOST_FLOWS {
        let message = format!("the machine runs no more than {MOST_FLOWS} flows");
        report("flows".into(), &message, "run it in the simulator");
    }
    if !scenario.links.is_empty() {
        let message = "the machine has one link, that of the path";
        report("links".into(), message, sim);
    }
    let unusual = |group: &&FlowGroup| group.return_route.as_ref().is_some_and(Vec::is_empty);
    if scenario.path.r#return.is_some() && scenario.flows.iter().any(|group| unusual(&group)) {
        let message = "all packets of the machine cross both directions of the path";
        report("flows".into(), message, "leave return_route out");
    }
    let back = scenario.path.r#return.as_ref();
    let directions = [
        (
            "path",
            Some(&scenario.path.rate),
            Some(&scenario.path.queue),
        ),
        (
            "path.return",
            back.and_then(|back| back.rate.as_ref()),
            back.and_then(|back| back.queue.as_ref()),
        ),
    ];
    for (number, (at, rate, queue)) in directions.into_iter().enumerate() {
        match rate {
            Some(RateSource::Fixed(rate)) if *rate > MAX_RATE => {
                let message = format!("the machine runs no faster than {MAX_RATE}");
                let hint = "choose a lower rate, or another backend";
                report(format!("{at}.rate"), &message, hint);
            }
            Some(RateSource::Fixed(rate)) if *rate < MIN_RATE => {
                let message = format!("the machine runs no slower than {MIN_RATE}");
                let hint = "choose a higher rate, or another backend";
                report(format!("{at}.rate"), &message, hint);
            }
            Some(RateSource::Trace { .. }) => {
                let message = "a kernel's queues follow no recorded trace";
                report(format!("{at}.rate"), message, sim);
            }
            Some(RateSource::Fixed(_)) | None => {}
        }
        for (key, message, hint) in queue.map(beyond_queue).unwrap_or_default() {
            report(format!("{at}.{key}"), message, &hint);
        }
        if number < scenario.link_count() {
            let keys = scenario.link_keys(number).at_start();
            for key in keys.iter().filter(|key| !netem(key)) {
                if let (LinkKey::AckFilter(_), Some(queue)) = (key, queue) {
                    for (key, message) in beyond_filter(queue) {
                        let hint = "leave it at its default, or run it in the simulator";
                        report(format!("{at}.queue.{key}"), message, hint);
                    }
                } else {
                    report(format!("{at}.{}", key.name()), OTHERWISE, sim);
                }
            }
        }
    }
    if let Ok(plan) = Plan::resolve(scenario, 0, "vm") {
        let lanes = plan.ways.delays(scenario.path.rtt).lanes.len();
        if lanes > MOST_LANES {
            let message =
                format!("the machine has no more than {MOST_LANES} different round trips");
            report("flows".into(), &message, sim);
        }
        for (number, (at, ..)) in directions.into_iter().enumerate().take(plan.links.len()) {
            let carries_data = plan.flows.iter().any(|flow| flow.route.contains(&number));
            if carries_data && scenario.link_keys(number).ack_filter != AckFilter::Off {
                report(format!("{at}.ack_filter"), FILTERS_ACKS, sim);
            }
        }
        for (number, event) in scenario.events.iter().enumerate() {
            let Some(path) = &event.path else { continue };
            for change in path.directions(scenario) {
                for key in change.keys.keys().filter(|key| !netem(key)) {
                    let message = match key {
                        LinkKey::AckFilter(_) => "the machine's ACK filter does not change",
                        _ => OTHERWISE,
                    };
                    let key = format!("events[{number}].{}.{}", change.at, key.name());
                    report(key, message, sim);
                }
            }
        }
        let beyond = |(_, rate): &(usize, Rate)| *rate < MIN_RATE || *rate > MAX_RATE;
        if plan.later_rates().iter().any(beyond) {
            let message =
                format!("the machine's rates are at least {MIN_RATE} and at most {MAX_RATE}");
            report("events".into(), &message, sim);
        }
    }
    wrong
}

/// What a kernel's queue cannot do as a scenario's does: keys, with alternatives.
fn beyond_queue(queue: &Queue) -> Vec<(String, &'static str, String)> {
    let sim = || SIM.to_owned();
    let mut beyond = Vec::new();
    for (number, signal) in queue.early_signals.iter().enumerate() {
        let key = format!("queue.{}", signal.name);
        match Aqm::named(signal.name, &signal.options) {
            Some(Aqm::Red(red)) if number == 0 && queue.kind.name == "droptail" => {
                let options = beyond_red(&red).into_iter();
                beyond.extend(
                    options.map(|(option, what, hint)| (format!("{key}.{option}"), what, hint)),
                );
            }
            _ => beyond.push((key, "the machine has no such early signal", sim())),
        }
    }
    match Aqm::named(queue.kind.name, &queue.kind.options) {
        None | Some(Aqm::Codel(_) | Aqm::FqCodel(_)) => {}
        Some(Aqm::Pie(pie)) => beyond.extend(fixed_in_pie(&pie).into_iter().map(|key| {
            let what = "the kernel's PIE has this fixed";
            let hint = "leave it at its default".to_owned();
            (format!("queue.{key}"), what, hint)
        })),
        Some(_) => beyond.push(("queue.kind".into(), "the machine has no such queue", sim())),
    }
    beyond
}

/// What Linux's `cake`, which filters ACKs, cannot do as a queue: keys.
fn beyond_filter(queue: &Queue) -> Vec<(&'static str, &'static str)> {
    let mut beyond: Vec<_> = queue
        .early_signals
        .iter()
        .map(|signal| (signal.name, "the machine's ACK filter has no early signals"))
        .collect();
    let usual = FqCodel::default();
    let fixed = |key| (key, "Linux's cake, which filters here, has this fixed");
    match Aqm::named(queue.kind.name, &queue.kind.options) {
        None => {}
        Some(Aqm::FqCodel(fq)) => {
            beyond.extend((fq.flows != usual.flows).then(|| fixed("flows")));
            beyond.extend((fq.quantum != usual.quantum).then(|| fixed("quantum")));
        }
        Some(_) => beyond.push(("kind", "the machine filters ACKs in droptail or fq_codel")),
    }
    beyond
}

/// Whether netem and the program of losses do what a link does.
fn netem(key: &LinkKey) -> bool {
    matches!(
        key,
        LinkKey::Loss(_) | LinkKey::Duplicate(_) | LinkKey::Jitter(_)
    )
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
        let what = "above the maximum of the kernel's RED with this weight";
        beyond.push(("max", what, hint));
    }
    if red.gentle {
        let hint = "gentle = false".to_owned();
        beyond.push(("gentle", "the kernel's RED is not gentle", hint));
    }
    beyond
}
