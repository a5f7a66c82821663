//! The difference between an emulated run and its plan.

use std::fs;

use paceline_experiment::Plan;
use paceline_tcp::settings::{derived, name};
use paceline_units::{Bytes, Duration, Gain, Rate};
use serde_json::{Map, Value, json};

use crate::histogram::Times;
use crate::message::{Measured, Outcome};

/// A figure and its bound in the scenario.
struct Check {
    figure: &'static str,
    value: Value,
    bound: Value,
    broken: bool,
    message: String,
}

/// The emulator's own measurements in `run.json`, with the bounds that were exceeded.
pub fn report(plan: &Plan<'_>, outcome: &Outcome) -> Value {
    let measured = &outcome.measured;
    let check = bounds(plan, measured);
    let beyond: Vec<Value> = check.iter().filter(|check| check.broken).map(row).collect();
    let allowed = check.iter().filter(|check| check.figure != "device_drops");
    let allowed: Map<String, Value> = allowed
        .map(|check| (check.figure.to_owned(), check.bound.clone()))
        .collect();
    let rate = plan.links.first().map_or(Rate::ZERO, |link| link.rate);
    let rate_error = measured.rate.map(|rate| rate.ratio);
    // Late packets are not where the plan has them.
    let late = measured.ingest.p99.zip(measured.lateness.p99);
    let queue_error =
        late.map(|(ingest, release)| rate.volume_in(Duration::from_nanos(ingest + release)));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "trusted": beyond.is_empty(),
        "beyond": beyond,
        "lateness": times(&measured.lateness),
        "ingest": times(&measured.ingest),
        "sampling": times(&measured.sampling),
        "answers": times(&measured.answers),
        "stalls": {
            "count": measured.stalls.count,
            "total_ns": measured.stalled,
            "max_ns": measured.stalls.max,
        },
        "stalled_ratio": share(measured, measured.stalled),
        "added_delay_ns": nanos(added_delay(measured)),
        "rate_asked_bps": rate_error.map(|_| rate.bps()),
        "rate_achieved_bps": rate_error.map(|error| (rate.bps() as f64 * (1.0 - error)).round()),
        "rate_error_ratio": rate_error,
        "rate_uncertainty_ratio": measured.rate.map(|rate| rate.uncertainty),
        "busy_bytes": measured.rate.map_or(0, |rate| rate.bytes),
        "queue_error_p99_bytes": queue_error.map(Bytes::get),
        "device_drops": measured.device_drops,
        "tlp_count": outcome.observations.tlp_count,
        "emulator_cpu_ratio": share(measured, measured.emulator_cpu),
        "hosts_cpu_ratio": share(measured, measured.hosts_cpu),
        "machine_cpu_ratio": share(measured, measured.machine_cpu) / measured.cores.max(1) as f64,
        "cores": measured.cores,
        "wall_ns": measured.wall,
        "real_time": measured.real_time,
        "memory_locked": measured.locked,
        "user_namespace": measured.user_namespace,
        "kernel": kernel.trim(),
        "bounds": allowed,
        "flows": flows(plan, outcome),
    })
}

/// Every figure that has a bound.
fn bounds(plan: &Plan<'_>, measured: &Measured) -> [Check; 6] {
    let bounds = &plan.scenario.run.emulation;
    let ratio = |gain: Gain| f64::from(gain.millionths()) / f64::from(Gain::SCALE);
    // As the bounds themselves are written.
    let micros =
        |time: Option<Duration>| Duration::from_micros(time.unwrap_or_default().as_micros());
    let lateness = measured.lateness.p99.map(Duration::from_nanos);
    let added = added_delay(measured);
    let rate_error = ratio(bounds.rate_error);
    let rate = measured.rate.unwrap_or_default();
    let stalled = share(measured, measured.stalled);
    let answer = Duration::from_nanos(measured.answers.max);
    [
        Check {
            figure: "lateness_p99_ns",
            value: json!(nanos(lateness)),
            bound: json!(bounds.lateness_p99.as_nanos()),
            broken: lateness.is_some_and(|time| time > bounds.lateness_p99),
            message: format!(
                "1 % of packets left the path more than {} late, and {} is allowed",
                micros(lateness),
                bounds.lateness_p99
            ),
        },
        Check {
            figure: "added_delay_ns",
            value: json!(nanos(added)),
            bound: json!(bounds.added_delay.as_nanos()),
            broken: added.is_some_and(|time| time > bounds.added_delay),
            message: format!(
                "the emulator adds {} to a round trip, and {} is allowed",
                micros(added),
                bounds.added_delay
            ),
        },
        Check {
            figure: "rate_error_ratio",
            value: json!(measured.rate.map(|rate| rate.ratio)),
            bound: json!(rate_error),
            broken: rate.ratio.abs() - rate.uncertainty > rate_error,
            message: format!(
                "the busy link was {:.2} % off its rate, give or take {:.2} %, and {} is allowed",
                100.0 * rate.ratio.abs(),
                100.0 * rate.uncertainty,
                bounds.rate_error
            ),
        },
        Check {
            figure: "device_drops",
            value: json!(measured.device_drops),
            bound: json!(0),
            broken: measured.device_drops > 0,
            message: format!(
                "the devices dropped {} packets that the path has not seen",
                measured.device_drops
            ),
        },
        Check {
            figure: "stalled_ratio",
            value: json!(stalled),
            bound: json!(ratio(bounds.stalled)),
            broken: stalled > ratio(bounds.stalled),
            message: format!(
                "the path stood still for {:.2} % of the run because it could not run, and {} is allowed",
                100.0 * stalled,
                bounds.stalled
            ),
        },
        Check {
            figure: "answer_max_ns",
            value: json!(answer.as_nanos()),
            bound: json!(bounds.answer_max.as_nanos()),
            broken: answer > bounds.answer_max,
            message: format!(
                "a receiver took {} to acknowledge what it has to acknowledge at once, and {} is allowed",
                micros(Some(answer)),
                bounds.answer_max
            ),
        },
    ]
}

fn row(check: &Check) -> Value {
    json!({
        "figure": check.figure, "value": check.value, "bound": check.bound, "message": check.message,
    })
}

/// The kernel's statistics, flow by flow.
fn flows(plan: &Plan<'_>, outcome: &Outcome) -> Vec<Value> {
    let flows = plan.flows.iter().zip(&outcome.observations.flows);
    let flow = flows.map(|(planned, flow)| {
        let base = i128::from(plan.least_rtt(planned).as_nanos());
        let error = flow.min_rtt.map(|rtt| i128::from(rtt.as_nanos()) - base);
        let cc = (!planned.group.is_quic()).then(|| name(&planned.group.cc.name));
        json!({
            "flow": flow.totals.flow,
            "kernel_cc": cc,
            "derived_inputs": cc.map_or(&[][..], derived),
            "min_rtt_ns": nanos(flow.min_rtt),
            "min_rtt_error_ns": error.and_then(|error| i64::try_from(error).ok()),
            "window_limited_ns": flow.window_limited,
            "buffer_limited_ns": flow.buffer_limited,
            "error": flow.error,
        })
    });
    flow.collect()
}

/// The time that packets wait for the emulator, in both directions: until the path sees them, and
/// until they leave it.
fn added_delay(measured: &Measured) -> Option<Duration> {
    let half = measured.ingest.p50.zip(measured.lateness.p50);
    half.map(|(ingest, release)| Duration::from_nanos(2 * (ingest + release)))
}

fn share(measured: &Measured, part: u64) -> f64 {
    part as f64 / measured.wall.max(1) as f64
}

fn nanos(time: Option<Duration>) -> Option<u64> {
    time.map(Duration::as_nanos)
}

fn times(times: &Times) -> Value {
    json!({
        "count": times.count,
        "p50_ns": times.p50,
        "p99_ns": times.p99,
        "max_ns": times.max,
    })
}
