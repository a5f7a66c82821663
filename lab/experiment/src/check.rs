//! Names and files that a scenario refers to.

use std::path::Path;

use paceline_path::{CapacityTrace, Service};
use paceline_record::metrics::{Definition, FLOW_METRICS, METRICS, find};
use paceline_record::regular;
use paceline_scenario::{
    BoundUnit, Diagnostic, RateSource, Scenario, SweepSection, metric_of_flow,
};
use paceline_units::{Quantity, Rate};

/// The hint for a misspelled name, if one of `names` is similar.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.into_iter().collect();
    let near = paceline_scenario::nearest(word, &names);
    near.map(|name| format!("did you mean `{name}`?"))
}

/// Quoted words, as a list.
pub fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

/// The error for an unknown metric, with the nearest known name.
fn unknown_metric<F>(
    scenario: &Scenario,
    key: &str,
    name: &str,
    known: &[Definition<F>],
) -> Diagnostic {
    let hint = nearest(name, known.iter().map(|metric| metric.name))
        .unwrap_or_else(|| "`paceline list metrics` lists them".into());
    scenario.diagnostic(key, format!("no metric is called `{name}`"), Some(hint))
}

/// Errors in a scenario for any engine: names of metrics, their bounds, the trace.
pub fn check(scenario: &Scenario) -> Vec<Diagnostic> {
    resolve(scenario).err().unwrap_or_default()
}

/// The services of all links, by number, if there is no error.
pub(crate) fn resolve(scenario: &Scenario) -> Result<Vec<Service>, Vec<Diagnostic>> {
    let mut wrong = metrics(scenario);
    let mut services = Vec::new();
    for number in 0..scenario.link_count() {
        match service(scenario, number) {
            Ok(service) => services.push(service),
            Err(error) => wrong.push(*error),
        }
    }
    match wrong.is_empty() {
        true => Ok(services),
        false => Err(wrong),
    }
}

/// The metrics that a sweep looks at, by their names in full: a unit may be left out of the file.
pub fn looked_at(sweep: &SweepSection) -> Vec<String> {
    let full = |name: &String| {
        let metric = match metric_of_flow(name) {
            Some((_, metric)) => find(FLOW_METRICS, metric).map(|known| (metric, known.name)),
            None => find(METRICS, name).map(|known| (name.as_str(), known.name)),
        };
        metric.map_or_else(
            || name.clone(),
            |(short, full)| format!("{}{full}", &name[..name.len() - short.len()]),
        )
    };
    sweep.metrics.iter().map(full).collect()
}

/// Errors in the names of metrics and their bounds.
fn metrics(scenario: &Scenario) -> Vec<Diagnostic> {
    let mut wrong = Vec::new();
    for (name, bound) in &scenario.expect {
        let key = format!("expect.{name}");
        let Some(metric) = find(METRICS, name) else {
            wrong.push(unknown_metric(scenario, &key, name, METRICS));
            continue;
        };
        let (unit, bounds) = bounds_of(metric.quantity());
        if !bounds.contains(&bound.unit) {
            let message = format!("`{name}` is {unit}, and `{}` is not", bound.text);
            let hint = "write the bound in the metric's unit";
            wrong.push(scenario.diagnostic(&key, message, Some(hint.into())));
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
            Some((_, metric)) if find(FLOW_METRICS, metric).is_none() => {
                wrong.push(unknown_metric(scenario, &key, metric, FLOW_METRICS));
            }
            None if find(METRICS, name).is_none() => {
                wrong.push(unknown_metric(scenario, &key, name, METRICS));
            }
            _ => {}
        }
    }
    wrong
}

/// How a link or a return direction serves, by its number: at a rate, along the scenario's trace, or
/// at once.
///
/// # Errors
/// The error in the trace.
pub fn service(scenario: &Scenario, number: usize) -> Result<Service, Box<Diagnostic>> {
    if let Some((key, path)) = scenario.trace_of(number) {
        let problem = |message| {
            let hint = "a trace holds one whole number of milliseconds a line, each a \
                        1500-byte delivery opportunity (mahimahi's format)";
            Box::new(scenario.diagnostic(&key, message, Some(hint.into())))
        };
        return read_trace(&path).map(Service::Trace).map_err(problem);
    }
    Ok(Service::Fixed(match scenario.rate_source(number) {
        Some(RateSource::Fixed(rate)) => rate,
        _ => Rate::INFINITE,
    }))
}

/// A metric's unit in words, and the kinds of bound that it is comparable with.
fn bounds_of(metric: Quantity) -> (&'static str, &'static [BoundUnit]) {
    match metric {
        Quantity::Duration => ("a time such as \"100 ms\"", &[BoundUnit::Time]),
        Quantity::Bytes => ("a volume such as \"250 kB\"", &[BoundUnit::Volume]),
        Quantity::Rate => ("a rate such as \"5 Mbit/s\"", &[BoundUnit::Rate]),
        Quantity::Count => ("a number without a unit", &[BoundUnit::Number]),
        _ => (
            "a ratio such as \"0.95\" or \"95 %\"",
            &[BoundUnit::Number, BoundUnit::Share],
        ),
    }
}

fn read_trace(path: &Path) -> Result<CapacityTrace, String> {
    let text = regular::read_text(path, regular::TEXT).map_err(|error| {
        if error.kind() == std::io::ErrorKind::InvalidData {
            return format!("the trace {} is not text", path.display());
        }
        format!("cannot read the trace {}: {error}", path.display())
    })?;
    CapacityTrace::parse(&text).map_err(|error| format!("trace {}: {error}", path.display()))
}
