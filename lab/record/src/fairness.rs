//! Fairness of flows: Jain's index, convergence, steadiness. Computed over the flows that are
//! active, never over those that have not started or have ended.

use crate::counter::Span;
use crate::series::{FlowSeries, Series};

/// Length of a bin: 1 s.
const BIN: i64 = 1_000_000_000;
/// More bins than this (eleven days) are not evaluated,
const MOST_BINS: u64 = 1_000_000;
/// nor more than this over all flows together: one second of work.
const MOST_LOOKS: u64 = 20_000_000;
/// The number of consecutive fair bins that counts as convergence.
const HOLD: usize = 5;

/// Jain's index of rates, (Σx)² / (n Σx²); `None` without rates or when all of them are zero.
pub(crate) fn jain(rates: &[f64]) -> Option<f64> {
    let (mut sum, mut squares) = (0.0, 0.0);
    for rate in rates {
        sum += rate;
        squares += rate * rate;
    }
    // Rounding would give identical flows an index above one.
    (squares > 0.0).then(|| (sum * sum / (rates.len() as f64 * squares)).min(1.0))
}

/// Jain's index of the flows' mean goodput in a span, each over its active time within the span.
pub(crate) fn jain_over(rows: &Series<'_>, span: Span) -> Option<f64> {
    let rate = |flow: &FlowSeries| {
        let active = flow.active?.meet(span)?;
        Some(rows.goodput(flow, active) as f64 / active.length() as f64)
    };
    jain(&rows.flows.iter().filter_map(rate).collect::<Vec<_>>())
}

/// The last half of the window.
pub(crate) fn last_half(window: Span) -> Option<Span> {
    Span::new(window.to - (window.to - window.from) / 2, window.to)
}

/// The whole bins from the start of a span on; none if there are too many.
fn bins(rows: &Series<'_>, span: Span) -> impl Iterator<Item = Span> + use<> {
    let count = span.length() / BIN.unsigned_abs();
    let looks = count.saturating_mul(rows.flows.len() as u64);
    let count = match count > MOST_BINS || looks > MOST_LOOKS {
        true => 0,
        false => count as i64,
    };
    (0..count).map(move |k| Span {
        from: span.from + k * BIN,
        to: span.from + (k + 1) * BIN,
    })
}

/// The goodput in a bin of each flow that is active for all of it.
fn shares(rows: &Series<'_>, bin: Span) -> Vec<u64> {
    let covers = |f: &&FlowSeries| f.active.is_some_and(|a| a.covers(bin));
    let active = rows.flows.iter().filter(covers);
    active.map(|flow| rows.goodput(flow, bin)).collect()
}

/// Mean of Jain's index over the bins of a span in which at least two flows are active and
/// anything is delivered.
pub(crate) fn jain_in_bins(rows: &Series<'_>, span: Span) -> Option<f64> {
    let index = |bin| {
        let shares = shares(rows, bin);
        let rates: Vec<f64> = shares.iter().map(|share| *share as f64).collect();
        if rates.len() < 2 { None } else { jain(&rates) }
    };
    mean(&bins(rows, span).filter_map(index).collect::<Vec<_>>())
}

/// Whether there are two or more flows and each has the mean share, plus or minus 20 %.
fn is_fair(shares: &[u64]) -> bool {
    let count = shares.len() as u128;
    let sum: u128 = shares.iter().map(|share| u128::from(*share)).sum();
    let near = |share: &u64| 5 * (u128::from(*share) * count).abs_diff(sum) <= sum;
    count >= 2 && sum > 0 && shares.iter().all(near)
}

/// The span from the last flow's start to the end of the window.
fn after_last_start(rows: &Series<'_>) -> Option<Span> {
    let starts = rows.flows.iter().filter_map(|f| f.active).map(|a| a.from);
    Span::new(starts.max()?, rows.window?.to)
}

/// The span from convergence to the end of the window: from the first of five consecutive fair
/// bins.
pub(crate) fn converged(rows: &Series<'_>) -> Option<Span> {
    let span = after_last_start(rows)?;
    let mut fair = 0;
    for bin in bins(rows, span) {
        fair = match is_fair(&shares(rows, bin)) {
            true => fair + 1,
            false => 0,
        };
        if fair == HOLD {
            return Span::new(bin.to - HOLD as i64 * BIN, span.to);
        }
    }
    None
}

/// Time from the last flow's start to convergence.
pub(crate) fn convergence(rows: &Series<'_>) -> Option<f64> {
    let from = after_last_start(rows)?.from;
    Some(converged(rows)?.from.abs_diff(from) as f64)
}

/// Where convergence is censored: at the start of the last five bins in which two flows are active.
pub(crate) fn convergence_limit(rows: &Series<'_>) -> Option<f64> {
    let span = after_last_start(rows)?;
    let two = |bin: &Span| shares(rows, *bin).len() > 1;
    let last = bins(rows, span).filter(two).last()?;
    let start = last.to.saturating_sub(HOLD as i64 * BIN);
    Some(start.saturating_sub(span.from).max(0) as f64)
}

/// Coefficient of variation of a flow's goodput over the bins of its active time: the standard
/// deviation (of the whole population) over the mean.
pub(crate) fn variation(rows: &Series<'_>, flow: &FlowSeries) -> Option<f64> {
    let rates: Vec<f64> = bins(rows, flow.active?)
        .map(|bin| rows.goodput(flow, bin) as f64)
        .collect();
    let mean = mean(&rates)?;
    if rates.len() < 2 || mean <= 0.0 {
        return None;
    }
    let mut squares = 0.0;
    for rate in &rates {
        squares += (rate - mean) * (rate - mean);
    }
    Some((squares / rates.len() as f64).sqrt() / mean)
}

/// Arithmetic mean; `None` without values.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    let mut sum = 0.0;
    for value in values {
        sum += value;
    }
    (!values.is_empty()).then(|| sum / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_are_alike_are_fair_and_no_more() {
        // Without the bound this is 1.0000000000000002.
        assert_eq!(jain(&[14.3; 3]), Some(1.0));
    }
}
