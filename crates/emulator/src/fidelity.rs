//! How far an emulated run was from what was asked for.

use std::fs;

use paceline_scenario::Scenario;
use paceline_units::{Bytes, Duration, Gain, Rate};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::message::Outcome;
use crate::plan::Plan;

/// Times, counted in bins no wider than 1/32 of what they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

/// Bins of each doubling.
const STEPS: u64 = 32;

impl Histogram {
    /// An empty one that will not allocate.
    pub fn new() -> Self {
        Self {
            counts: vec![0; bin(u64::MAX) + 1],
            total: 0,
            max: 0,
        }
    }

    /// Counts a time.
    pub fn add(&mut self, time: Duration) {
        if let Some(count) = self.counts.get_mut(bin(time.as_nanos())) {
            *count += 1;
        }
        self.total += 1;
        self.max = self.max.max(time.as_nanos());
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The greatest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The least bound that no less than `share` of the times keep to; none of nothing.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(Duration::from_nanos(upper(found).min(self.max)))
    }
}

/// The bin of a time: exact below [`STEPS`], then that many to each doubling.
fn bin(nanos: u64) -> usize {
    let steps = STEPS.ilog2();
    if nanos < STEPS {
        return nanos as usize;
    }
    let doublings = nanos.ilog2() - steps;
    let within = (nanos >> doublings) - STEPS;
    (STEPS + u64::from(doublings) * STEPS + within) as usize
}

/// The greatest time in a bin.
fn upper(bin: usize) -> u64 {
    let bin = bin as u64;
    if bin < STEPS {
        return bin;
    }
    let (doublings, within) = ((bin - STEPS) / STEPS, (bin - STEPS) % STEPS);
    let next = u128::from(STEPS + within + 1) << doublings;
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

/// What the emulator says of itself in `run.json`, with the bounds that it was beyond.
pub fn report(scenario: &Scenario, plan: &Plan, outcome: &Outcome) -> Value {
    let seen = &outcome.measured;
    let bounds = &scenario.run.emulation;
    let nanos = |time: Option<Duration>| time.map(Duration::as_nanos);
    let share = |part: u64| part as f64 / seen.wall.max(1) as f64;
    let late = |times: &Histogram| {
        json!({
            "count": times.count(),
            "p50_ns": nanos(times.percentile(0.5)),
            "p99_ns": nanos(times.percentile(0.99)),
            "max_ns": times.max().as_nanos(),
        })
    };
    // There and back: late to be seen by the path, and late to leave it.
    let half = seen
        .ingest
        .percentile(0.5)
        .zip(seen.lateness.percentile(0.5));
    let added = half.map(|(ingest, release)| (ingest + release) * 2);
    let rate_error = seen.rate.map(|rate| rate.ratio);
    let rate = plan.links.first().map_or(Rate::ZERO, |link| link.rate);
    // What is late is not where the plan has it.
    let queue_error = seen
        .ingest
        .percentile(0.99)
        .zip(seen.lateness.percentile(0.99));
    let queue_error = queue_error.map(|(ingest, release)| rate.volume_in(ingest + release));
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
    let lateness = seen.lateness.percentile(0.99);
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
    let answer = seen.answers.max();
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
                .map(|rtt| i128::from(rtt) - i128::from(plan.base_rtt.as_nanos()));
            json!({
                "flow": flow.flow,
                "kernel_cc": plan.kernel_cc,
                "min_rtt_ns": flow.min_rtt,
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
            "count": seen.stalls.count(),
            "total_ns": seen.stalled,
            "max_ns": seen.stalls.max().as_nanos(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_in_order_and_hold_what_they_say() {
        let mut before = None;
        for nanos in (0..5000).chain([1 << 40, u64::MAX - 1, u64::MAX]) {
            let bin = bin(nanos);
            assert!(before.is_none_or(|before| before <= bin));
            before = Some(bin);
            assert!(upper(bin) >= nanos, "{nanos}");
            assert!(upper(bin) - nanos <= nanos / STEPS, "{nanos}");
            assert!(bin == 0 || upper(bin - 1) < nanos);
        }
    }

    #[test]
    fn percentiles_of_a_hundred_times() {
        let mut times = Histogram::new();
        assert_eq!(times.percentile(0.5), None);
        for n in 1..=100 {
            times.add(Duration::from_nanos(n));
        }
        assert_eq!(times.percentile(0.1), Some(Duration::from_nanos(10)));
        // Bins are exact up to 63; 98 shares one with 99.
        assert_eq!(times.percentile(0.5), Some(Duration::from_nanos(50)));
        assert_eq!(times.percentile(0.98), Some(Duration::from_nanos(99)));
        assert_eq!(times.percentile(1.0), Some(Duration::from_nanos(100)));
        assert_eq!(
            (times.count(), times.max()),
            (100, Duration::from_nanos(100))
        );
    }
}
