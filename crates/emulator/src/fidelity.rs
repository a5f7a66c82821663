//! How far an emulated run was from what was asked for.

use std::fs;

use paceline_experiment::Plan;
use paceline_units::{Bytes, Duration, Gain, Rate};
use serde_json::{Value, json};

use crate::histogram::Times;
use crate::kernel;
use crate::message::Outcome;

/// What the emulator says of itself in `run.json`, with the bounds that it was beyond.
pub fn report(plan: &Plan<'_>, outcome: &Outcome) -> Value {
    let seen = &outcome.measured;
    let bounds = &plan.scenario.run.emulation;
    let nanos = |time: Option<Duration>| time.map(Duration::as_nanos);
    let share = |part: u64| part as f64 / seen.wall.max(1) as f64;
    let late = |times: &Times| {
        json!({
            "count": times.count,
            "p50_ns": times.p50,
            "p99_ns": times.p99,
            "max_ns": times.max,
        })
    };
    // There and back: late to be seen by the path, and late to leave it.
    let half = seen.ingest.p50.zip(seen.lateness.p50);
    let added = half.map(|(ingest, release)| Duration::from_nanos(2 * (ingest + release)));
    let rate_error = seen.rate.map(|rate| rate.ratio);
    let rate = plan.links.first().map_or(Rate::ZERO, |link| link.rate);
    // What is late is not where the plan has it.
    let queue_error = seen.ingest.p99.zip(seen.lateness.p99);
    let queue_error =
        queue_error.map(|(ingest, release)| rate.volume_in(Duration::from_nanos(ingest + release)));
    // As the bounds beside them are written.
    let micros =
        |time: Option<Duration>| Duration::from_micros(time.unwrap_or_default().as_micros());
    let mut beyond = Vec::new();
    let mut hold = |figure: &str, value: Value, bound: Value, broken: bool, message: String| {
        if broken {
            beyond.push(json!({
                "figure": figure, "value": value, "bound": bound, "message": message,
            }));
        }
    };
    let lateness = seen.lateness.p99.map(Duration::from_nanos);
    hold(
        "lateness_p99_ns",
        json!(nanos(lateness)),
        json!(bounds.lateness_p99.as_nanos()),
        lateness.is_some_and(|time| time > bounds.lateness_p99),
        format!(
            "1 % of packets left the path more than {} late, and {} is allowed",
            micros(lateness),
            bounds.lateness_p99
        ),
    );
    hold(
        "added_delay_ns",
        json!(nanos(added)),
        json!(bounds.added_delay.as_nanos()),
        added.is_some_and(|time| time > bounds.added_delay),
        format!(
            "the emulator adds {} to a round trip, and {} is allowed",
            micros(added),
            bounds.added_delay
        ),
    );
    let allowed = f64::from(bounds.rate_error.millionths()) / f64::from(Gain::SCALE);
    hold(
        "rate_error_ratio",
        json!(rate_error),
        json!(allowed),
        seen.rate
            .is_some_and(|rate| rate.ratio.abs() - rate.uncertainty > allowed),
        format!(
            "the busy link was {:.2} % off its rate, give or take {:.2} %, and {} is allowed",
            100.0 * rate_error.unwrap_or(0.0).abs(),
            100.0 * seen.rate.unwrap_or_default().uncertainty,
            bounds.rate_error
        ),
    );
    hold(
        "device_drops",
        json!(seen.device_drops),
        json!(0),
        seen.device_drops > 0,
        format!(
            "the devices dropped {} packets that the path has not seen",
            seen.device_drops
        ),
    );
    let stalled = share(seen.stalled);
    let allowed_stall = f64::from(bounds.stalled.millionths()) / f64::from(Gain::SCALE);
    hold(
        "stalled_ratio",
        json!(stalled),
        json!(allowed_stall),
        stalled > allowed_stall,
        format!(
            "the path stood still for {:.2} % of the run because it could not run, and {} is allowed",
            100.0 * stalled,
            bounds.stalled
        ),
    );
    let answer = Duration::from_nanos(seen.answers.max);
    hold(
        "answer_max_ns",
        json!(answer.as_nanos()),
        json!(bounds.answer_max.as_nanos()),
        answer > bounds.answer_max,
        format!(
            "a receiver took {} to acknowledge what it has to acknowledge at once, and {} is allowed",
            micros(Some(answer)),
            bounds.answer_max
        ),
    );
    let time = Duration::from_nanos(seen.wall);
    let flows: Vec<Value> = plan
        .flows
        .iter()
        .zip(&outcome.flows)
        .map(|(plan, flow)| {
            let error = flow
                .min_rtt
                .map(|rtt| i128::from(rtt.as_nanos()) - i128::from(plan.base_rtt.as_nanos()));
            json!({
                "flow": flow.totals.flow,
                "kernel_cc": kernel::name(&plan.group.cc.name),
                "min_rtt_ns": nanos(flow.min_rtt),
                "min_rtt_error_ns": error.and_then(|error| i64::try_from(error).ok()),
                "window_limited_ns": flow.window_limited,
                "buffer_limited_ns": flow.buffer_limited,
                "error": flow.error,
            })
        })
        .collect();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "trusted": beyond.is_empty(),
        "beyond": beyond,
        "lateness": late(&seen.lateness),
        "ingest": late(&seen.ingest),
        "sampling": late(&seen.sampling),
        "answers": late(&seen.answers),
        "stalls": {
            "count": seen.stalls.count,
            "total_ns": seen.stalled,
            "max_ns": seen.stalls.max,
        },
        "stalled_ratio": stalled,
        "added_delay_ns": nanos(added),
        "rate_asked_bps": rate_error.map(|_| rate.bps()),
        "rate_achieved_bps": rate_error.map(|error| (rate.bps() as f64 * (1.0 - error)).round()),
        "rate_error_ratio": rate_error,
        "rate_uncertainty_ratio": seen.rate.map(|rate| rate.uncertainty),
        "busy_bytes": seen.rate.map_or(0, |rate| rate.bytes),
        "queue_error_p99_bytes": queue_error.map(Bytes::get),
        "device_drops": seen.device_drops,
        "tlp_count": seen.tlp_count,
        "emulator_cpu_ratio": share(seen.emulator_cpu),
        "hosts_cpu_ratio": share(seen.hosts_cpu),
        "machine_cpu_ratio": share(seen.machine_cpu) / seen.cores.max(1) as f64,
        "cores": seen.cores,
        "wall_ns": time.as_nanos(),
        "real_time": seen.real_time,
        "memory_locked": seen.locked,
        "user_namespace": seen.user_namespace,
        "kernel": kernel.trim(),
        "bounds": {
            "lateness_p99_ns": bounds.lateness_p99.as_nanos(),
            "added_delay_ns": bounds.added_delay.as_nanos(),
            "rate_error_ratio": allowed,
            "stalled_ratio": allowed_stall,
            "answer_max_ns": bounds.answer_max.as_nanos(),
        },
        "flows": flows,
    })
}
