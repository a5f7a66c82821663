//! Loss round by round, and recovery after a change of the path's rate.

use crate::counter::Span;
use crate::series::Series;

/// Length of a bin: 1 s.
const BIN: i64 = 1_000_000_000;
/// The number of consecutive bins in which the new rate must be reached.
const HOLD: i64 = 5;

/// The number of consecutive rounds, from the first one after the last change of a rate, in which
/// the bottleneck drops more than a tenth of the packets offered to it. A sender responds to a loss
/// one round later, so two rounds without drops end the count; rounds in which nothing is offered
/// do not count.
pub(crate) fn heavy_loss_rounds(rows: &Series<'_>) -> Option<f64> {
    let changed = rows.last_change("rate")?;
    let mut times = rows.bottleneck_times()?.filter(|time| *time >= changed);
    let mut start = times.next()?;
    let (mut count, mut light) = (0_u64, 0_u64);
    for time in times {
        if time - start < rows.shortest_rtt(time).unwrap_or(0) {
            continue;
        }
        let (offered, dropped, _) = rows.bottleneck_in(Span::new(start, time)?)?;
        let heavy = u128::from(dropped) * 10 > u128::from(offered);
        count += u64::from(heavy);
        light = match heavy {
            true => 0,
            false => light + u64::from(offered > 0),
        };
        if count > 0 && light > 1 {
            break;
        }
        start = time;
    }
    Some(count as f64)
}

/// Time from the last change of a rate to the start of five bins with 90 % of it.
pub(crate) fn rate_recovery(rows: &Series<'_>) -> Option<f64> {
    let changed = rows.last_change("rate")?;
    let window = rows.window?;
    let holds = |from: i64| {
        (0..HOLD).all(|bin| {
            let start = from.saturating_add(bin * BIN);
            let span = Span::new(start, start.saturating_add(BIN));
            let goodput = span.and_then(|span| rows.bottleneck_goodput(span));
            goodput.is_some_and(|(goodput, most)| goodput >= 0.9 * most)
        })
    };
    let mut times = rows.bottleneck_times()?;
    times
        .find(|time| {
            *time >= changed && time.saturating_add(HOLD * BIN) <= window.to && holds(*time)
        })
        .map(|time| time.abs_diff(changed) as f64)
}

/// Where the time to regain the rate is censored: five bins before the end of the window.
pub(crate) fn rate_recovery_limit(rows: &Series<'_>) -> Option<f64> {
    let changed = rows.last_change("rate")?;
    let last = rows.window?.to.saturating_sub(HOLD * BIN);
    Some(last.saturating_sub(changed).max(0) as f64)
}
