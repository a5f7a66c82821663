use paceline_units::Rng;
use serde_json::{Map, Value, json};

use crate::fairness::mean;
use crate::metric::Metric;
use crate::run::Run;
use crate::table::SCHEMA;

/// Number of bootstrap resamples.
const RESAMPLES: usize = 2_000;
/// The minimum number of values for an interval: with fewer it is little more than their minimum
/// and maximum.
const FEWEST: usize = 5;
/// Seed of the bootstrap, fixed: the same values give the same interval.
const SEED: u64 = 1;

/// The summary of repeated measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregate {
    /// Mean.
    pub mean: f64,
    /// Median; for an even number of values, the mean of the middle two.
    pub median: f64,
    /// Lower end of the 95 % interval of the mean.
    pub low: f64,
    /// Upper end of the 95 % interval of the mean.
    pub high: f64,
    /// Lower end of the 95 % interval of the median.
    pub median_low: f64,
    /// Upper end of the 95 % interval of the median.
    pub median_high: f64,
    /// Number of values.
    pub count: usize,
}

/// Mean, median and the 95 % interval of each; `None` without values, or if one is not finite.
///
/// The intervals are the percentile bootstrap (Efron 1979): 2000 times, as many values as there are
/// get drawn with replacement, by a generator with a fixed seed. `low` and `high` are, by nearest
/// rank, the 2.5th and 97.5th percentile of the draws' means, `median_low` and `median_high` those
/// of their medians. For one value they are the value itself; for fewer than about ten they are too
/// narrow.
pub fn aggregate(values: &[f64]) -> Option<Aggregate> {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mean_of_all = mean(values)?;
    let (sorted, ranks) = ranked(values);
    let median_of_all = middle(&sorted, &vec![1; values.len()])?;
    if sorted.first() == sorted.last() {
        // Every draw consists of the values themselves.
        return Some(Aggregate {
            mean: mean_of_all,
            median: median_of_all,
            low: mean_of_all,
            high: mean_of_all,
            median_low: median_of_all,
            median_high: median_of_all,
            count: values.len(),
        });
    }

    let mut rng = Rng::new(SEED);
    let mut counts = vec![0_u32; values.len()];
    let mut means = Vec::with_capacity(RESAMPLES);
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut sum = 0.0;
        counts.fill(0);
        for _ in values {
            let index = usize::try_from(rng.below(values.len() as u64)).ok()?;
            sum += values.get(index)?;
            *counts.get_mut(*ranks.get(index)?)? += 1;
        }
        means.push(sum / values.len() as f64);
        medians.push(middle(&sorted, &counts)?);
    }
    let (low, high) = interval(&mut means)?;
    let (median_low, median_high) = interval(&mut medians)?;
    Some(Aggregate {
        mean: mean_of_all,
        median: median_of_all,
        low,
        high,
        median_low,
        median_high,
        count: values.len(),
    })
}

/// The values in order, and the position of each.
fn ranked(values: &[f64]) -> (Vec<f64>, Vec<usize>) {
    let mut order: Vec<(f64, usize)> = values.iter().copied().zip(0..).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0; values.len()];
    for (rank, (_, index)) in order.iter().enumerate() {
        if let Some(place) = ranks.get_mut(*index) {
            *place = rank;
        }
    }
    (order.into_iter().map(|(value, _)| value).collect(), ranks)
}

/// The median of values with these counts, for an even number the mean of the middle two: no draw
/// has to be sorted.
fn middle(sorted: &[f64], counts: &[u32]) -> Option<f64> {
    let total: u32 = counts.iter().sum();
    let (below, above) = (total.checked_sub(1)? / 2, total / 2);
    let mut seen = 0;
    let mut lower = None;
    for (value, count) in sorted.iter().zip(counts) {
        seen += count;
        if seen > below {
            let lower = *lower.get_or_insert(*value);
            if seen > above {
                return Some(lower + (value - lower) / 2.0);
            }
        }
    }
    None
}

/// The 2.5th and 97.5th percentile of a statistic of the draws; reorders them.
fn interval(draws: &mut [f64]) -> Option<(f64, f64)> {
    let (low, high) = (RESAMPLES * 25 / 1000 - 1, RESAMPLES * 975 / 1000 - 1);
    if draws.len() <= high {
        return None;
    }
    // Two of them are needed, but not the order of the others.
    let (below, high, _) = draws.select_nth_unstable_by(high, f64::total_cmp);
    let (_, low, _) = below.select_nth_unstable_by(low, f64::total_cmp);
    Some((*low, *high))
}

/// The `--json` output for repeats of one scenario: like [`Run::summary_json`] of the first, but
/// each metric of the run and of its flows holds `mean`, `median`, `low`, `high` and `count` over
/// the runs in which it is defined (`null` if there are none; `low` and `high` are `null` with
/// fewer than five), flows have no `state_ns`, and `repeats` holds the single values of the run's
/// metrics and of `seed`.
pub fn repeats_json(runs: &[Run]) -> Value {
    let Some(first) = runs.first() else {
        return json!({ "schema": SCHEMA });
    };
    let mut summary = first.summary_json();
    let mut repeats = Map::new();
    repeats.insert(
        "seed".into(),
        runs.iter().map(|run| run.info().seed).collect(),
    );
    for (k, metric) in first.metrics().iter().enumerate() {
        let values: Vec<&Metric> = runs.iter().filter_map(|run| run.metrics().get(k)).collect();
        repeats.insert(
            metric.name.into(),
            values.iter().map(|m| m.json()).collect(),
        );
        if let Some(object) = summary.get_mut("metrics").and_then(Value::as_object_mut) {
            object.insert(metric.name.into(), together(&values));
        }
    }
    for (f, flow) in first.flows().iter().enumerate() {
        for (k, metric) in flow.metrics.iter().enumerate() {
            let of_run = |run: &'_ Run| run.flows().get(f)?.metrics.get(k).copied();
            let values: Vec<Metric> = runs.iter().filter_map(of_run).collect();
            let object = summary.get_mut("flows").and_then(|flows| flows.get_mut(f));
            if let Some(object) = object.and_then(Value::as_object_mut) {
                object.insert(
                    metric.name.into(),
                    together(&values.iter().collect::<Vec<_>>()),
                );
                object.shift_remove("state_ns");
            }
        }
    }
    if let Some(object) = summary.as_object_mut() {
        object.insert("repeats".into(), Value::Object(repeats));
    }
    summary
}

fn together(metrics: &[&Metric]) -> Value {
    let values: Vec<f64> = metrics.iter().filter_map(|metric| metric.value).collect();
    match aggregate(&values) {
        Some(Aggregate {
            mean,
            median,
            low,
            high,
            count,
            ..
        }) => {
            let interval = (count >= FEWEST).then_some((low, high)).unzip();
            json!({
                "mean": mean, "median": median, "low": interval.0, "high": interval.1, "count": count,
            })
        }
        None => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::two_flows;

    #[test]
    fn mean_and_median_by_hand() {
        let of = |values: &[f64]| aggregate(values).map(|a| (a.mean, a.median, a.count));
        assert_eq!(of(&[3.0, 1.0, 8.0]), Some((4.0, 3.0, 3)));
        assert_eq!(of(&[3.0, 1.0, 8.0, 4.0]), Some((4.0, 3.5, 4)));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn the_middle_is_that_of_the_values_in_order() {
        let mut rng = Rng::new(7);
        for count in 1..60 {
            let values: Vec<f64> = (0..count).map(|_| rng.below(9) as f64 - 4.0).collect();
            let (sorted, ranks) = ranked(&values);
            let mut counts = vec![0; values.len()];
            let mut draw: Vec<f64> = (0..count)
                .map(|_| {
                    let index = rng.below(count) as usize;
                    counts[ranks[index]] += 1;
                    values[index]
                })
                .collect();
            draw.sort_unstable_by(f64::total_cmp);
            let (lower, upper) = (draw[(draw.len() - 1) / 2], draw[draw.len() / 2]);
            let expected = lower + (upper - lower) / 2.0;
            assert_eq!(middle(&sorted, &counts), Some(expected), "{draw:?}");
        }
        assert_eq!(middle(&[], &[]), None);
    }

    #[test]
    fn one_value_is_its_own_interval() {
        let one = aggregate(&[0.25]).unwrap();
        assert_eq!((one.low, one.high), (0.25, 0.25));
        assert_eq!((one.median_low, one.median_high), (0.25, 0.25));
        // Draws of equal values do not vary either, although their sum may be rounded.
        let same = aggregate(&[0.1; 7]).unwrap();
        assert_eq!((same.low, same.high), (same.mean, same.mean));
        assert_eq!((same.median_low, same.median_high), (0.1, 0.1));
    }

    #[test]
    fn the_interval_is_that_of_the_mean() {
        // Of a hundred values, half 0 and half 1, the mean has a standard error of 0.05:
        // the interval is 0.5 +- 1.96 x 0.05, in steps of 0.01.
        let values: Vec<f64> = (0..100).map(|k| f64::from(k % 2)).collect();
        let all = aggregate(&values).unwrap();
        assert!((0.38..=0.42).contains(&all.low), "{all:?}");
        assert!((0.58..=0.62).contains(&all.high), "{all:?}");
        assert_eq!(aggregate(&values), Some(all), "not replayable");
    }

    #[test]
    fn the_median_has_its_own_interval() {
        // One outlier moves the mean and not the median: a draw's median is 5 only if 5 is drawn at
        // least twice, with a probability of 1 - (2/3)^3 - 3 x 1/3 x (2/3)^2 = 7/27.
        let all = aggregate(&[0.0, 0.0, 5.0]).unwrap();
        assert_eq!((all.median_low, all.median_high), (0.0, 5.0));
        // With nine values, five or more of nine draws must be it: 0.1 %.
        let nine = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0];
        let all = aggregate(&nine).unwrap();
        assert_eq!((all.median_low, all.median_high), (0.0, 0.0));
        assert!(all.high > 1.0, "{all:?}");
    }

    #[test]
    fn repeats_hold_the_interval_and_the_values() {
        let json = repeats_json(&[two_flows(), two_flows()]);
        let mean = &json["metrics"]["rtt_p50_ns"];
        assert_eq!(
            *mean,
            json!({
                "mean": 90e6, "median": 90e6, "low": null, "high": null, "count": 2,
            })
        );
        let five: Vec<Run> = (0..5).map(|_| two_flows()).collect();
        let metric = &repeats_json(&five)["metrics"]["rtt_p50_ns"];
        assert_eq!(
            (&metric["low"], &metric["high"]),
            (&json!(90e6), &json!(90e6))
        );
        assert_eq!(
            json["repeats"]["rtt_p50_ns"],
            json!([90_000_000, 90_000_000])
        );
        assert_eq!(json["repeats"]["seed"], json!([u64::MAX, u64::MAX]));
        assert_eq!(json["flows"][1]["rto_count"]["mean"], 2.0);
        assert!(json["flows"][1]["completion_ns"].is_null());
        assert_eq!(json["flows"][1]["cc"], "bbr3");
        assert_eq!(repeats_json(&[]), json!({ "schema": SCHEMA }));
    }
}
