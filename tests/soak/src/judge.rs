//! Invariants of every run.

use std::collections::BTreeMap;
use std::fs;
use std::hash::Hasher;
use std::ops::ControlFlow;
use std::path::Path;

use paceline_experiment::{Plan, Progress, RunError};
use paceline_record::arrow_array::cast::AsArray;
use paceline_record::arrow_array::types::{Int64Type, UInt32Type};
use paceline_record::arrow_array::{Array, RecordBatch};
use paceline_record::{Expectation, Run, evaluate};
use paceline_scenario::Scenario;
use paceline_units::Duration;
use serde_json::json;

use crate::draft::Draft;
use crate::draw::with;
use crate::names::TRACE;
use crate::schema::Schema;

/// The budget of a run: it is shortened until it fits, and lengthened as long as it uses almost
/// nothing.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Events of the engine and packets of the senders, together.
    pub work: u64,
    /// The minimum number to aim for.
    pub wanted: u64,
    /// Rows of the tables that are sampled.
    pub rows: u64,
}

/// A run without problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Hash of all bytes of its folder.
    pub digest: u64,
    /// Events and packets.
    pub work: u64,
}

/// Runs a draft twice in `folder`, the second time in a parallel thread, and compares the records
/// with each other and with the invariants. Shortens it until it fits the budget; `None` if that is
/// impossible.
///
/// # Errors
/// The problem.
pub fn judge(
    schema: &Schema,
    draft: &mut Draft,
    folder: &Path,
    budget: Budget,
) -> Result<Option<Judged>, String> {
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    fs::write(folder.join(TRACE.0), TRACE.1).map_err(|error| error.to_string())?;
    let file = folder.join("scenario.toml");
    let name = file.to_string_lossy().into_owned();
    let wrong = |scenario: &Scenario| paceline_simulator::check(&at_home(scenario, &name));
    let Some(scenario) = fit(schema, draft, &name, budget, wrong)? else {
        return Ok(None);
    };
    fs::write(&file, draft.text()).map_err(|error| error.to_string())?;
    round_trip(&scenario)?;
    let (first, second) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| recorded(&scenario, &folder.join("second"), budget));
        let first = recorded(&scenario, &folder.join("first"), budget);
        let second = beside
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (first, second)
    });
    let (first, second) = (first?, second?);
    match first == second {
        true => Ok(Some(first)),
        false => Err("two runs of the same scenario and seed differ".into()),
    }
}

/// The scenario as if it had been read from another file, which determines where its trace is
/// looked for.
fn at_home(scenario: &Scenario, name: &str) -> Scenario {
    paceline_experiment::parse(&scenario.to_toml(), name, &[]).unwrap_or_else(|_| scenario.clone())
}

/// The maximum number of times that a run is shortened or lengthened.
const FITTINGS: usize = 12;

/// Shortens a draft until its run fits the budget, and lengthens it if it does too little, as long
/// as that helps.
fn fit(
    schema: &Schema,
    draft: &mut Draft,
    name: &str,
    budget: Budget,
    wrong: impl Fn(&Scenario) -> Vec<paceline_scenario::Diagnostic>,
) -> Result<Option<Scenario>, String> {
    let mut before = None;
    match thinned(schema, draft, budget, &wrong) {
        Some(thinner) => *draft = thinner,
        None => return Ok(None),
    }
    for fitting in 0..FITTINGS {
        let scenario = draft
            .read(name)
            .map_err(|problems| format!("what was mended is refused: {}", problems[0]))?;
        let interval = scenario.sample_interval().as_nanos();
        let sampled = scenario.flow_count() + scenario.link_count() as u64 + 1;
        let most = Duration::from_nanos(interval.saturating_mul(budget.rows / sampled + 1));
        let another = match scenario.run.duration > most {
            true => most,
            false => {
                let mut reached = Duration::ZERO;
                match paceline_simulator::run(&scenario, scenario.run.seed, &mut |so_far| {
                    reached = so_far.passed;
                    within(so_far, budget)
                }) {
                    Ok((_, ended)) => {
                        let work = ended.events + ended.packets;
                        let longer = longer(scenario.run.duration, work, budget).min(most);
                        let helps = before.is_none_or(|before| work > before);
                        let last = fitting + 4 > FITTINGS;
                        if longer == scenario.run.duration || !helps || last {
                            return Ok(Some(scenario));
                        }
                        before = Some(work);
                        match lasting(schema, draft, longer, &wrong) {
                            Some(again) => *draft = again,
                            None => return Ok(Some(scenario)),
                        }
                        continue;
                    }
                    // Up to the moment at which the budget was exceeded, the run does the same again.
                    Err(RunError::Interrupted) => reached.min(scenario.run.duration / 2),
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
        match lasting(schema, draft, another, &wrong) {
            Some(again) => *draft = again,
            None => return Ok(None),
        }
    }
    Ok(None)
}

/// A draft whose groups are no larger than the packets in the budget: a run of a hundred thousand
/// flows does not become cheap by being short.
fn thinned(
    schema: &Schema,
    draft: &Draft,
    budget: Budget,
    wrong: impl Fn(&Scenario) -> Vec<paceline_scenario::Diagnostic>,
) -> Option<Draft> {
    /// Work of a flow until its first packets are acknowledged.
    const A_START: u64 = 32;
    let most = budget.work / A_START;
    let groups = draft.0["flows"].as_array().map_or(0, Vec::len);
    let mut thinner = draft.clone();
    for group in 0..groups {
        let count = &thinner.0["flows"][group]["count"];
        if count.as_u64().is_some_and(|count| count > most) {
            let key = format!("/flows/{group}/count");
            thinner = with(&thinner, schema, &key, json!(most), &wrong)?;
        }
    }
    Some(thinner)
}

/// A draft of this duration.
fn lasting(
    schema: &Schema,
    draft: &Draft,
    duration: Duration,
    wrong: impl Fn(&Scenario) -> Vec<paceline_scenario::Diagnostic>,
) -> Option<Draft> {
    let text = json!(format!("{} ns", duration.as_nanos().max(1)));
    with(draft, schema, "/run/duration", text, wrong)
}

/// The duration for a run that takes this much work now: unchanged if it fits.
fn longer(duration: Duration, work: u64, budget: Budget) -> Duration {
    /// By then a controller has shown its whole behaviour; an hour contains every event.
    const MOST: Duration = Duration::from_secs(3600);
    match work < budget.wanted {
        true => (duration * (2 * budget.wanted / work.max(1)).clamp(2, 32)).min(MOST.max(duration)),
        false => duration,
    }
}

fn within(so_far: &Progress, budget: Budget) -> ControlFlow<()> {
    match so_far.events + so_far.packets > budget.work {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// The text form reads back as the same scenario, and all queries about a run work.
fn round_trip(scenario: &Scenario) -> Result<(), String> {
    let again = paceline_experiment::parse(&scenario.to_toml(), "again.toml", &[]);
    let again =
        again.map_err(|problems| format!("the resolved scenario is refused: {}", problems[0]))?;
    let mut expected = scenario.clone();
    expected.sweep = None;
    if again != expected {
        return Err("the resolved scenario is read as another".into());
    }
    if again.to_toml() != scenario.to_toml() {
        return Err("the resolved scenario is written differently when it is read again".into());
    }
    // Points of a sweep may be invalid, and are then reported.
    scenario.check_sweep(paceline_simulator::check);
    Ok(())
}

/// Memory that a run may use in addition to that of each flow, link, row and packet, in bytes.
const BASE: u64 = 64 << 20;
const A_FLOW: u64 = 32 << 10;
const A_LINK: u64 = 1 << 20;
const A_UNIT_OF_WORK: u64 = 1 << 10;

/// A run that has been judged and written.
fn recorded(scenario: &Scenario, folder: &Path, budget: Budget) -> Result<Judged, String> {
    let mut ended = None;
    let counted = allocation_counter::measure(|| {
        let run = paceline_simulator::run(scenario, scenario.run.seed, &mut |_| {
            ControlFlow::Continue(())
        });
        ended = Some(run);
    });
    let ended = ended.expect("it has ended");
    let (run, progress) = ended.map_err(|error| error.to_string())?;
    let work = progress.events + progress.packets;
    let allowed = BASE
        + scenario.flow_count() * A_FLOW
        + scenario.link_count() as u64 * A_LINK
        + (work + budget.rows) * A_UNIT_OF_WORK;
    if counted.bytes_max > allowed {
        return Err(format!(
            "the run holds {} bytes, and {allowed} are enough",
            counted.bytes_max
        ));
    }
    sane(scenario, &run)?;
    let digest = written(&run, folder)?;
    Ok(Judged { digest, work })
}

/// Writes a run, reads it, and returns the hash of its bytes.
fn written(run: &Run, folder: &Path) -> Result<u64, String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| error.to_string())?;
    }
    run.write(folder)
        .map_err(|error| format!("cannot write the record: {error}"))?;
    let again =
        Run::read(folder, u64::MAX).map_err(|error| format!("cannot read the record: {error}"))?;
    if again.summary_json() != run.summary_json() || !again.tables().eq(run.tables()) {
        return Err("the record is read as another".into());
    }
    let mut hash = std::hash::DefaultHasher::new();
    let mut files: Vec<_> = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(|error: std::io::Error| error.to_string())?;
    files.sort();
    for file in files {
        hash.write(&fs::read(&file).map_err(|error| error.to_string())?);
    }
    Ok(hash.finish())
}

/// Whether a record is consistent with physics and arithmetic.
fn sane(scenario: &Scenario, run: &Run) -> Result<(), String> {
    metrics(run)?;
    let table = |name: &str| run.table(name).ok_or(format!("there is no table {name}"));
    round_trips(scenario, run, &table("samples")?)?;
    rising(run)?;
    let expectations: Vec<_> = (scenario.expect.iter())
        .map(|(metric, bound)| Expectation {
            metric: metric.clone(),
            op: bound.op,
            bound: bound.value,
        })
        .collect();
    if evaluate(run.metrics(), &expectations).len() != scenario.expect.len() {
        return Err("an expectation has no outcome".into());
    }
    Ok(())
}

/// Whether a record of real time is consistent with arithmetic.
///
/// # Errors
/// The first inconsistency.
pub fn sane_emulated(run: &Run) -> Result<(), String> {
    metrics(run)?;
    rising(run)
}

/// Counters only rise, and a part is no larger than its whole.
fn rising(run: &Run) -> Result<(), String> {
    let table = |name: &str| run.table(name).ok_or(format!("there is no table {name}"));
    let samples = table("samples")?;
    counters(&samples, "flow", &SAMPLED)?;
    counters(&table("queue")?, "link", &QUEUED)?;
    no_more(&samples, "retransmitted_packets", "sent_packets")
}

/// Counters of the table `samples`.
const SAMPLED: [&str; 5] = [
    "goodput_bytes",
    "delivered_bytes",
    "sent_packets",
    "lost_packets",
    "retransmitted_packets",
];
/// Counters of the table `queue`.
const QUEUED: [&str; 5] = [
    "capacity_bytes",
    "delivered_bytes",
    "dropped_packets",
    "offered_packets",
    "marked_packets",
];

/// Metrics are finite, and ratios at most one.
fn metrics(run: &Run) -> Result<(), String> {
    let flows = run.flows().iter().flat_map(|flow| &flow.metrics);
    for metric in run.metrics().iter().chain(flows) {
        let Some(value) = metric.value else {
            continue;
        };
        let bounded = metric.name.ends_with("_ratio") && !metric.name.contains("variation");
        if !value.is_finite() || value < 0.0 || bounded && value > 1.0 {
            return Err(format!("{} is {value}", metric.name));
        }
    }
    shares(run)
}

/// Shares of one whole.
fn shares(run: &Run) -> Result<(), String> {
    let share = |flow: &paceline_record::FlowMetrics| {
        let share = flow
            .metrics
            .iter()
            .find(|metric| metric.name == "share_ratio")?;
        share.value
    };
    let shares: Vec<f64> = run.flows().iter().filter_map(share).collect();
    let sum: f64 = shares.iter().sum();
    match shares.is_empty() || (sum - 1.0).abs() < 1e-6 {
        true => Ok(()),
        false => Err(format!("the shares of the flows come to {sum}")),
    }
}

/// No RTT is shorter than the path's.
fn round_trips(scenario: &Scenario, run: &Run, samples: &RecordBatch) -> Result<(), String> {
    let plan = Plan::resolve(scenario, run.info().seed, "sim").map_err(|_| "it has no plan")?;
    let changes = scenario
        .events
        .iter()
        .filter_map(|event| event.path.as_ref()?.rtt);
    let least = changes.min().unwrap_or(scenario.path.rtt);
    let base = |flow: usize| {
        let planned = &plan.flows[flow];
        match planned.group.rtt {
            Some(_) => planned.base_rtt,
            None => planned.base_rtt.min(least),
        }
    };
    let flows = samples["flow"].as_primitive::<UInt32Type>();
    for name in ["rtt_ns", "min_rtt_ns", "srtt_ns"] {
        let rtts = samples[name].as_primitive::<Int64Type>();
        for row in (0..samples.num_rows()).filter(|row| rtts.is_valid(*row)) {
            let (flow, rtt) = (flows.value(row) as usize, rtts.value(row));
            let base = base(flow);
            if rtt < 0 || (rtt as u64) < base.as_nanos() {
                return Err(format!(
                    "{name} of flow {flow} is {rtt} ns, and its path takes {base}"
                ));
            }
        }
    }
    Ok(())
}

/// Counters only rise.
fn counters(table: &RecordBatch, of: &str, names: &[&str]) -> Result<(), String> {
    let owners = table[of].as_primitive::<UInt32Type>();
    for name in names {
        let values = table[*name].as_primitive::<Int64Type>();
        let mut last = BTreeMap::new();
        for row in (0..table.num_rows()).filter(|row| values.is_valid(*row)) {
            let (owner, value) = (owners.value(row), values.value(row));
            let before = last.insert(owner, value).unwrap_or(0);
            if value < before {
                return Err(format!(
                    "{name} of {of} {owner} falls from {before} to {value}"
                ));
            }
        }
    }
    Ok(())
}

/// One column is never more than another.
fn no_more(table: &RecordBatch, less: &str, more: &str) -> Result<(), String> {
    let column = |name: &str| {
        table
            .column_by_name(name)
            .and_then(|column| column.as_primitive_opt::<Int64Type>())
    };
    let (Some(low), Some(high)) = (column(less), column(more)) else {
        return Err(format!("there is no column {less}, or no {more}"));
    };
    for row in 0..table.num_rows() {
        if low.is_valid(row) && high.is_valid(row) && low.value(row) > high.value(row) {
            return Err(format!(
                "{less} is {}, and {more} is {}",
                low.value(row),
                high.value(row)
            ));
        }
    }
    Ok(())
}
