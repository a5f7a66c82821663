//! The metrics, each defined once: name, formula, window, and how it is computed.
//!
//! A metric is a pure function of the rows of a run's tables. An undefined one (no flow, no packet,
//! a division by zero) is absent, never a number.

use crate::counter::Span;
use crate::error::RecordError;
use crate::fairness::{
    converged, convergence, convergence_limit, jain_in_bins, jain_over, last_half, mean, variation,
};
pub use crate::metric::{Better, Censored, Definition};
use crate::metric::{FlowMetrics, Metric};
use crate::rounds::{heavy_loss_rounds, rate_recovery, rate_recovery_limit};
use crate::series::{FlowSeries, Series};

/// A metric of a run.
pub type MetricSpec = Definition<fn(&Series<'_>) -> Option<f64>>;

/// A metric of one flow.
pub type FlowMetricSpec = Definition<fn(&Series<'_>, &FlowSeries) -> Option<f64>>;

/// The metrics of a run.
pub const METRICS: &[MetricSpec] = &[
    Definition {
        name: "utilisation_ratio",
        label: "Link used",
        better: Better::Higher,
        formula: "sum over the flows that cross the bottleneck of goodput / (payload / wire size of the flow's full packets) / bytes that the bottleneck could have carried",
        window: WINDOW,
        censored: None,
        compute: |rows| rows.utilisation(),
    },
    Definition {
        name: "goodput_bps",
        label: "Goodput",
        better: Better::Higher,
        formula: "payload that all receivers handed over in order / length of the window",
        window: WINDOW,
        censored: None,
        compute: |rows| rate(rows.window_goodput()?, rows.window?),
    },
    Definition {
        name: "jain_ratio",
        label: "Jain's index",
        better: Better::Higher,
        formula: "Jain's index (sum x)^2 / (n sum x^2) of the flows' mean goodput, each over its own active time",
        window: "the window; flows that are active in it",
        censored: None,
        compute: |rows| jain_over(rows, rows.window?),
    },
    Definition {
        name: "jain_bins_ratio",
        label: "Jain's index, mean of 1 s bins",
        better: Better::Higher,
        formula: "mean over 1 s bins of Jain's index of the goodput of the flows that are active for the whole bin",
        window: "whole bins from the window's start; without those in which fewer than two flows are active or nothing is delivered",
        censored: None,
        compute: |rows| jain_in_bins(rows, rows.window?),
    },
    Definition {
        name: "jain_last_half_ratio",
        label: "Jain's index, second half",
        better: Better::Higher,
        formula: "as `jain_ratio`",
        window: "the last half of the window; flows that are active in it",
        censored: None,
        compute: |rows| jain_over(rows, last_half(rows.window?)?),
    },
    Definition {
        name: "jain_after_convergence_ratio",
        label: "Jain's index after convergence",
        better: Better::Higher,
        formula: "as `jain_bins_ratio`",
        window: "whole bins from convergence (`convergence_ns`) to the window's end; absent if the flows never converge",
        censored: None,
        compute: |rows| jain_in_bins(rows, converged(rows)?),
    },
    Definition {
        name: "convergence_ns",
        label: "Time to converge",
        better: Better::Lower,
        formula: "time from the last flow's start to the first of five consecutive 1 s bins in which the goodput of every flow active for the full bin is within 20 % of their mean",
        window: "whole bins from the last flow's start; at least two flows in each of the five; absent if there are no such bins",
        censored: Some(Censored {
            at: "the start of the last five whole bins in which two flows are active",
            compute: convergence_limit,
        }),
        compute: convergence,
    },
    Definition {
        name: "goodput_variation_ratio",
        label: "Variation of goodput",
        better: Better::Lower,
        formula: "mean over flows of `goodput_variation_ratio` of the flow",
        window: "flows for which it is defined",
        censored: None,
        compute: |rows| {
            let of_flow = |flow| variation(rows, flow);
            mean(&rows.flows.iter().filter_map(of_flow).collect::<Vec<_>>())
        },
    },
    Definition {
        name: "full_rate_ns",
        label: "Time to full rate",
        better: Better::Lower,
        formula: "mean over flows of `full_rate_ns` of the flow",
        window: "flows for which it is defined",
        censored: Some(Censored {
            at: "the mean over flows of where it is censored",
            compute: full_rate_limit,
        }),
        compute: |rows| {
            let of_flow = |flow| Some(rows.time_to_rate(flow, FULL_RATE)? as f64);
            mean(&rows.flows.iter().filter_map(of_flow).collect::<Vec<_>>())
        },
    },
    Definition {
        name: "rtt_p50_ns",
        label: "Median RTT",
        better: Better::Lower,
        formula: "50th percentile, by nearest rank, of the latest RTT at each sample in which one was measured",
        window: RTT_WINDOW,
        censored: None,
        compute: |rows| percentile(rows.all_rtts(), 50),
    },
    Definition {
        name: "rtt_p95_ns",
        label: "RTT, 95th percentile",
        better: Better::Lower,
        formula: "95th percentile, likewise",
        window: RTT_WINDOW,
        censored: None,
        compute: |rows| percentile(rows.all_rtts(), 95),
    },
    Definition {
        name: "rtt_p99_ns",
        label: "RTT, 99th percentile",
        better: Better::Lower,
        formula: "99th percentile, likewise",
        window: RTT_WINDOW,
        censored: None,
        compute: |rows| percentile(rows.all_rtts(), 99),
    },
    Definition {
        name: "rtt_mean_ns",
        label: "Mean RTT",
        better: Better::Lower,
        formula: "mean of the latest RTT at each sample in which one was measured",
        window: RTT_WINDOW,
        censored: None,
        compute: |rows| whole_mean(rows.all_rtts()),
    },
    Definition {
        name: "queue_p50_ns",
        label: "Median queue delay",
        better: Better::Lower,
        formula: "50th percentile, by nearest rank, of the time that a packet would wait in the bottleneck's queue",
        window: QUEUE_WINDOW,
        censored: None,
        compute: |rows| percentile(rows.delays(), 50),
    },
    Definition {
        name: "queue_p95_ns",
        label: "Queue delay, 95th percentile",
        better: Better::Lower,
        formula: "95th percentile, likewise",
        window: QUEUE_WINDOW,
        censored: None,
        compute: |rows| percentile(rows.delays(), 95),
    },
    Definition {
        name: "queue_p99_ns",
        label: "Queue delay, 99th percentile",
        better: Better::Lower,
        formula: "99th percentile, likewise",
        window: QUEUE_WINDOW,
        censored: None,
        compute: |rows| percentile(rows.delays(), 99),
    },
    Definition {
        name: "queue_mean_ns",
        label: "Mean queue delay",
        better: Better::Lower,
        formula: "mean of the time that a packet would wait in the bottleneck's queue",
        window: QUEUE_WINDOW,
        censored: None,
        compute: |rows| whole_mean(rows.delays()),
    },
    Definition {
        name: "queue_max_bytes",
        label: "Largest queue",
        better: Better::Lower,
        formula: "greatest backlog of the bottleneck, between rows included",
        window: "rows of `queue` in the window",
        censored: None,
        compute: |rows| rows.greatest_backlog().map(|bytes| bytes as f64),
    },
    Definition {
        name: "loss_ratio",
        label: "Packets lost",
        better: Better::Lower,
        formula: "packets dropped / packets that entered: those offered to the first of links in a row, summed over links side by side; where flows share only a part of their way, those that the flows have sent. ACKs that cross these links count as packets",
        window: "the whole run; links that carry data",
        censored: None,
        compute: |rows| rows.loss(),
    },
    Definition {
        name: "retransmit_ratio",
        label: "Packets retransmitted",
        better: Better::Lower,
        formula: "packets retransmitted / data packets sent, retransmissions included",
        window: "the whole run; all flows",
        censored: None,
        compute: |rows| {
            let sum = |of: fn(&FlowSeries) -> Option<u64>| {
                let counts = rows.flows.iter().map(|flow| of(flow).map(u128::from));
                Some(counts.sum::<Option<u128>>()? as f64)
            };
            ratio(sum(|flow| flow.retransmitted)?, sum(|flow| flow.sent)?)
        },
    },
    Definition {
        name: "rto_count",
        label: "Retransmission timeouts",
        better: Better::Lower,
        formula: "retransmission timeouts",
        window: "the whole run; all flows",
        censored: None,
        compute: |rows| {
            let mut counts = rows.flows.iter().map(|flow| flow.rto_count);
            Some(counts.try_fold(0, |sum: u64, count| Some(sum.saturating_add(count?)))? as f64)
        },
    },
    Definition {
        name: "heavy_loss_rounds_count",
        label: "Rounds with heavy loss",
        better: Better::Lower,
        formula: "rounds in which more than 10 % of the packets offered to the bottleneck are dropped, until two in a row in which no more are; a round ends at the first row of `queue` that is the shortest of the RTTs of the flows that cross it, the latest at that row, after its start; one without a packet offered is left out",
        window: "from the first such round after the last change of the rate of a link that a flow of the bottleneck crosses; absent without a change",
        censored: None,
        compute: heavy_loss_rounds,
    },
    Definition {
        name: "rate_recovery_ns",
        label: "Time to regain the rate",
        better: Better::Lower,
        formula: "time from the last change of the rate of a link that a flow of the bottleneck crosses to the first row of `queue` that begins five consecutive 1 s bins, each with a `utilisation_ratio` of at least 90 %",
        window: "rows from the change on with five bins left in the window; absent without a change or such a row",
        censored: Some(Censored {
            at: "five bins before the end of the window",
            compute: rate_recovery_limit,
        }),
        compute: rate_recovery,
    },
    Definition {
        name: "return_goodput_bps",
        label: "Goodput of uploads",
        better: Better::Higher,
        formula: "payload that the receivers of flows whose data crosses a return direction handed over in order / length of the window",
        window: "the window; absent without such a flow",
        censored: None,
        compute: |rows| rate(rows.return_goodput()?, rows.window?),
    },
    Definition {
        name: "return_used_ratio",
        label: "Return link used",
        better: Better::Higher,
        formula: "wire bytes that the busiest return direction carried, ACKs included / bytes that it could have carried",
        window: "the window; absent if it has no rate",
        censored: None,
        compute: |rows| {
            let (carried, most) = rows.return_use()?;
            ratio(carried as f64, most as f64)
        },
    },
    Definition {
        name: "return_queue_p50_ns",
        label: "Median return queue delay",
        better: Better::Lower,
        formula: "50th percentile, by nearest rank, of the time that a packet would wait in the queue of the busiest return direction",
        window: QUEUE_WINDOW,
        censored: None,
        compute: |rows| percentile(rows.return_delays(), 50),
    },
    Definition {
        name: "return_queue_p95_ns",
        label: "Return queue delay, 95th percentile",
        better: Better::Lower,
        formula: "95th percentile, likewise",
        window: QUEUE_WINDOW,
        censored: None,
        compute: |rows| percentile(rows.return_delays(), 95),
    },
    Definition {
        name: "return_ack_loss_ratio",
        label: "ACKs lost",
        better: Better::Lower,
        formula: "ACKs that links lost / ACKs that receivers sent over links, those of uploads included; the packets of a QUIC receiver count as ACKs",
        window: "the whole run; flows whose ACKs cross a link",
        censored: None,
        compute: |rows| of_acks(rows, |flow| flow.acks_lost),
    },
    Definition {
        name: "return_ack_filtered_ratio",
        label: "ACKs filtered",
        better: Better::Lower,
        formula: "ACKs that links removed as redundant, or thinned out / ACKs that receivers sent over links",
        window: "the whole run; flows whose ACKs cross a link; absent in records before this count",
        censored: None,
        compute: |rows| of_acks(rows, |flow| flow.acks_filtered),
    },
];

/// The share of the ACKs sent over links that `part` counts.
fn of_acks(rows: &Series<'_>, part: impl Fn(&FlowSeries) -> Option<u64>) -> Option<f64> {
    let known = |flow: &FlowSeries| Some((part(flow)?, flow.acks_sent?));
    let counts = rows.flows.iter().filter_map(known);
    let add = |sum: (u64, u64), more: (u64, u64)| {
        (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1))
    };
    let (some, sent) = counts.fold((0, 0), add);
    ratio(some as f64, sent as f64)
}

/// Whether a run has this metric; those of the return direction need one.
fn is_of(rows: &Series<'_>, name: &str) -> bool {
    rows.has_return() || !name.starts_with("return_")
}

/// The metrics of one flow.
pub const FLOW_METRICS: &[FlowMetricSpec] = &[
    Definition {
        name: "goodput_bps",
        label: "Goodput",
        better: Better::Higher,
        formula: "payload that the receiver handed over in order / length of the flow's active time",
        window: ACTIVE,
        censored: None,
        compute: |rows, flow| {
            let active = flow.active?;
            rate(rows.goodput(flow, active), active)
        },
    },
    Definition {
        name: "share_ratio",
        label: "Share",
        better: Better::Higher,
        formula: "payload that the receiver handed over in order / the same of all flows",
        window: WINDOW,
        censored: None,
        compute: |rows, flow| {
            let window = rows.window?;
            ratio(
                rows.goodput(flow, window) as f64,
                rows.window_goodput()? as f64,
            )
        },
    },
    Definition {
        name: "goodput_variation_ratio",
        label: "Variation of goodput",
        better: Better::Lower,
        formula: "coefficient of variation of the goodput in 1 s bins: standard deviation / mean",
        window: "whole bins from the flow's start in its active time, at least two",
        censored: None,
        compute: variation,
    },
    Definition {
        name: "rtt_p50_ns",
        label: "Median RTT",
        better: Better::Lower,
        formula: "50th percentile, by nearest rank, of the latest RTT at each sample in which one was measured",
        window: ACTIVE,
        censored: None,
        compute: |rows, flow| percentile(rows.rtts(flow), 50),
    },
    Definition {
        name: "rtt_p95_ns",
        label: "RTT, 95th percentile",
        better: Better::Lower,
        formula: "95th percentile, likewise",
        window: ACTIVE,
        censored: None,
        compute: |rows, flow| percentile(rows.rtts(flow), 95),
    },
    Definition {
        name: "rtt_mean_ns",
        label: "Mean RTT",
        better: Better::Lower,
        formula: "mean of the latest RTT at each sample in which one was measured",
        window: ACTIVE,
        censored: None,
        compute: |rows, flow| whole_mean(rows.rtts(flow)),
    },
    Definition {
        name: "retransmit_ratio",
        label: "Packets retransmitted",
        better: Better::Lower,
        formula: "packets retransmitted / data packets sent, retransmissions included",
        window: "the whole run",
        censored: None,
        compute: |_, flow| ratio(flow.retransmitted? as f64, flow.sent? as f64),
    },
    Definition {
        name: "rto_count",
        label: "Retransmission timeouts",
        better: Better::Lower,
        formula: "retransmission timeouts",
        window: "the whole run",
        censored: None,
        compute: |_, flow| Some(flow.rto_count? as f64),
    },
    Definition {
        name: "completion_ns",
        label: "Completion time",
        better: Better::Lower,
        formula: "time from the flow's start until all of its data is delivered",
        window: "the whole run; absent if it does not finish",
        censored: Some(Censored {
            at: "the end of the flow's active time",
            compute: |_, flow| Some(flow.active?.to.abs_diff(flow.start) as f64),
        }),
        compute: |_, flow| Some(Span::new(flow.start, flow.finish?)?.length() as f64),
    },
    Definition {
        name: "full_rate_ns",
        label: "Time to full rate",
        better: Better::Lower,
        formula: "time from the first row with data acknowledged to the first whose rate sample (`delivery_bps`) is at least 99 % of the payload rate of the flow's slowest link: its capacity at the start x payload / wire size of the flow's full packets",
        window: "regular rows of `samples` of the flow, so exact to the sample interval; absent if no sample reaches that rate",
        censored: Some(Censored {
            at: "the end of the flow's active time",
            compute: flow_full_rate_limit,
        }),
        compute: |rows, flow| Some(rows.time_to_rate(flow, FULL_RATE)? as f64),
    },
    Definition {
        name: "return_ack_loss_ratio",
        label: "ACKs lost",
        better: Better::Lower,
        formula: "ACKs that links lost / ACKs that the receiver sent",
        window: "the whole run; absent if they cross no link",
        censored: None,
        compute: |_, flow| ratio(flow.acks_lost? as f64, flow.acks_sent? as f64),
    },
    Definition {
        name: "return_ack_filtered_ratio",
        label: "ACKs filtered",
        better: Better::Lower,
        formula: "ACKs that links removed as redundant, or thinned out / ACKs that the receiver sent",
        window: "the whole run; absent if they cross no link",
        censored: None,
        compute: |_, flow| ratio(flow.acks_filtered? as f64, flow.acks_sent? as f64),
    },
];

/// Where the time to full rate of a run is censored.
fn full_rate_limit(rows: &Series<'_>) -> Option<f64> {
    let limit = |flow| flow_full_rate_limit(rows, flow);
    mean(&rows.flows.iter().filter_map(limit).collect::<Vec<_>>())
}

/// Where the time to full rate of a flow is censored.
fn flow_full_rate_limit(rows: &Series<'_>, flow: &FlowSeries) -> Option<f64> {
    let from = rows.first_acknowledged(flow).unwrap_or(flow.start);
    flow.capacity?;
    Some(flow.active?.to.saturating_sub(from).max(0) as f64)
}

/// The share of a link's payload rate at which a flow counts as having found it.
const FULL_RATE: f64 = 0.99;

const WINDOW: &str = "the window";
const ACTIVE: &str = "the flow's active time";
const RTT_WINDOW: &str = "samples of flows while they are active";
const QUEUE_WINDOW: &str = "rows of `queue` in the window";

/// The metric of `known` by its name, with or without its unit (`jain` for `jain_ratio`).
pub fn find<'a, F>(known: &'a [Definition<F>], name: &str) -> Option<&'a Definition<F>> {
    let exact = known.iter().find(|m| m.name == name);
    let stem = |m: &&Definition<F>| {
        m.name
            .rsplit_once('_')
            .is_some_and(|(stem, _)| stem == name)
    };
    exact.or_else(|| known.iter().find(stem))
}

/// The metrics of a run, in the order of their definition.
pub(crate) fn of_run(rows: &Series<'_>) -> Vec<Metric> {
    let metric = |spec: &MetricSpec| measured(spec, |of| of(rows));
    let known = METRICS.iter().filter(|spec| is_of(rows, spec.name));
    known.map(metric).collect()
}

/// The metrics of each flow, in the order of their definition.
pub(crate) fn of_flows(rows: &Series<'_>) -> Result<Vec<FlowMetrics>, RecordError> {
    let of_flow = |(flow, states): (&FlowSeries, _)| FlowMetrics {
        flow: flow.flow,
        metrics: (FLOW_METRICS.iter())
            .filter(|spec| is_of(rows, spec.name))
            .map(|spec| measured(spec, |of| of(rows, flow)))
            .collect(),
        states,
    };
    Ok(rows.flows.iter().zip(rows.states()?).map(of_flow).collect())
}

fn measured<F>(spec: &Definition<F>, of: impl Fn(&F) -> Option<f64>) -> Metric {
    let value = of(&spec.compute).filter(|v| v.is_finite());
    let censored = spec.censored.as_ref().filter(|_| value.is_none());
    Metric {
        name: spec.name,
        value,
        censored: censored
            .and_then(|time| of(&time.compute))
            .filter(|v| v.is_finite()),
    }
}

/// Bits per second, rounded down.
fn rate(bytes: u64, span: Span) -> Option<f64> {
    let bits = u128::from(bytes) * 8_000_000_000;
    Some(bits.checked_div(u128::from(span.length()))? as f64)
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// The value at rank ⌈p n / 100⌉ of `n` in rising order.
fn percentile(sorted: &[i64], p: usize) -> Option<f64> {
    let rank = sorted.len().saturating_mul(p).div_ceil(100);
    Some(*sorted.get(rank.checked_sub(1)?)? as f64)
}

/// The mean, rounded to a whole number.
fn whole_mean(values: &[i64]) -> Option<f64> {
    let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
    let count = i128::try_from(values.len()).ok()?;
    Some((sum + count / 2).checked_div(count)? as f64)
}

/// The reference of all metrics, in Markdown.
pub fn reference() -> String {
    let mut text = String::from(INTRODUCTION);
    text.push_str("\n## Of a run\n\n");
    text.push_str(HEAD);
    for m in METRICS {
        text.push_str(&line(m));
    }
    text.push_str("\n## Of a flow\n\n");
    text.push_str(HEAD);
    for m in FLOW_METRICS {
        text.push_str(&line(m));
    }
    text.push_str(STATES);
    text
}

fn line<F>(spec: &Definition<F>) -> String {
    let better = match spec.better {
        Better::Higher => "more",
        Better::Lower => "less",
    };
    let Definition {
        name,
        formula,
        window,
        censored,
        ..
    } = spec;
    let censored = censored
        .as_ref()
        .map_or_else(String::new, |time| format!("; censored at {}", time.at));
    format!(
        "| `{name}` | {} | {better} | {formula} | {window}{censored} |\n",
        spec.quantity().unit()
    )
}

const HEAD: &str = "| name | unit | better | formula | over |\n|---|---|---|---|---|\n";

const INTRODUCTION: &str = "\
# Metrics

Generated from `lab/record/src/metrics.rs`; `UPDATE_DOCS=1 cargo test -p paceline-record` regenerates it.

Every metric is a pure function over the tables of a run, defined in one place. An undefined metric is `null`, never a number. Names end in the unit; `_ns`, `_bytes`, `_bps` and `_count` are whole numbers.

- A flow is *active* from its start to its stop, its finish or the end of the run, whichever is first.
- The *window* runs from the first flow's start to the end of the last active time.
- *Goodput* is payload that the receiver has passed to its application in order, each byte once. A counter is assumed to grow linearly between two rows.
- The *bottleneck* is the link with data that carried the largest part of its capacity in the window; if two are equal, the first. A return direction is it only if no other link carries data.
- Metrics whose names begin with `return_` exist only if a link has a return direction. All but `return_ack_loss_ratio` describe that direction.
- Samples are taken at equal intervals, so that a percentile over them is weighted by time; rows between them, as `record.rounds` asks for, do not count.
- An undefined time that has a place where it is *censored* was not missed: it is longer than what the run could show. A run's `censored` gives how long at least, and comparisons count it as that.
- An RTT was *measured* in a sample if since the flow's sample before, data was acknowledged or the latest RTT changed. A flow that is idle, or waits for a timeout, has none, however long.
- A flow that is not active in a bin does not count in it: one that starts late or ends early does not look unfair.
";

const STATES: &str = "\nIn addition, `state_ns` gives the nanoseconds of its active time that a flow's controller spent in each of its states, exactly, from the times in the table `events`.\n";

#[cfg(test)]
mod tests;
