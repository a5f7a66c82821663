//! Google's start-up gain simulator: one flow in an ideal pipe without a
//! bottleneck, paced at `gain` times the delivery rate of the last round trip.
//!
//! Source: google/bbr, `Documentation/startup/gain/simulation`, June 2018. The published tables
//! come from double-precision arithmetic, so the order of operations here is theirs: this is the
//! one place that computes in floating point, and it affects no controller.

/// Packets sent before pacing begins.
const INITIAL_CWND: u64 = 10;
/// Round-trip time in seconds.
const RTT: f64 = 0.1;
/// Width of a bucket of acknowledgments in seconds.
const BUCKET: f64 = 1e-6;
/// Buckets in a round trip: the window over which delivery is measured.
const WINDOW: usize = (RTT / BUCKET) as usize;

/// The maximum number of rounds to simulate: sending doubles with each.
pub const MAX_ROUNDS: u32 = 20;

/// The state at the first acknowledgment of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Growth of the bandwidth estimate since the last row, before this acknowledgment is counted;
    /// 0 while there is no estimate.
    pub growth: f64,
    /// Time in seconds.
    pub t: f64,
    /// Round trips, counted from 1.
    pub round: u32,
    /// Congestion window in packets.
    pub cwnd: u64,
    /// Packets in flight.
    pub pif: u64,
    /// Bandwidth estimate in packets per second.
    pub bw: f64,
}

/// Acknowledgments that arrive within one bucket, and the round they belong to.
#[derive(Clone, Copy, Default)]
struct Acks {
    count: u32,
    round: u32,
}

/// The first `rounds` rows for a start-up pacing `gain`; at most [`MAX_ROUNDS`].
pub fn simulate(gain: f64, rounds: u32) -> Vec<Row> {
    let rounds = rounds.min(MAX_ROUNDS);
    let mut rows = Vec::new();
    // A round lasts slightly longer than one RTT: twice the rounds leave room for slow gains.
    let mut acks = vec![Acks::default(); WINDOW * (2 * rounds as usize + 4)];
    let (mut t, mut last_sent) = (0.0, 0.0);
    let (mut cwnd, mut in_flight, mut sent) = (INITIAL_CWND, 0, 0);
    let mut bw = 0.0;
    let mut shown_bw = 0.0;
    let mut pacing_rate = gain * INITIAL_CWND as f64 / RTT;
    let mut round = 0;
    let mut bucket = 0;
    let mut delivered_in_window: u64 = 0;
    while bucket + 1 + WINDOW + 1 < acks.len() && rows.len() < rounds as usize {
        let next_bucket = (bucket + 1) as f64 * BUCKET;
        let release = if sent < INITIAL_CWND {
            0.0
        } else {
            last_sent + 1.0 / pacing_rate
        };
        let next_release = if release > t { release } else { t };
        if in_flight < cwnd && next_release < next_bucket {
            t = next_release;
            in_flight += 1;
            sent += 1;
            last_sent = t;
            let arrival = &mut acks[((t + RTT) / BUCKET) as usize];
            arrival.count += 1;
            arrival.round = round + 1;
            continue;
        }
        t = next_bucket;
        bucket += 1;
        let arrived = acks[bucket];
        delivered_in_window += u64::from(arrived.count);
        if let Some(past) = bucket.checked_sub(WINDOW) {
            delivered_in_window -= u64::from(acks[past].count);
        }
        if arrived.count == 0 {
            continue;
        }
        let starts_round = arrived.round > round;
        let growth = if shown_bw > 0.0 { bw / shown_bw } else { 0.0 };
        if starts_round {
            shown_bw = bw;
        }
        round = arrived.round;
        in_flight -= u64::from(arrived.count);
        let sample = delivered_in_window as f64 / RTT;
        if sample > bw {
            bw = sample;
        }
        let rate = gain * bw;
        if rate > pacing_rate {
            pacing_rate = rate;
        }
        cwnd += u64::from(arrived.count);
        if starts_round {
            rows.push(Row {
                growth,
                t,
                round,
                cwnd,
                pif: in_flight,
                bw,
            });
        }
    }
    rows
}

/// The minimum ratio of one row's bandwidth estimate to the previous row's, over `rounds`.
pub fn least_growth(gain: f64, rounds: core::ops::RangeInclusive<u32>) -> f64 {
    simulate(gain, *rounds.end())
        .iter()
        .filter(|row| rounds.contains(&row.round))
        .map(|row| row.growth)
        .fold(f64::INFINITY, f64::min)
}

/// The rounds over which a gain is judged, and the growth that counts as
/// doubling to the three digits printed.
pub const JUDGED_ROUNDS: core::ops::RangeInclusive<u32> = 10..=15;
/// See [`JUDGED_ROUNDS`].
pub const DOUBLING: f64 = 1.9995;

/// The minimum gain, to within `tolerance`, that doubles the estimate in each of the judged rounds.
pub fn least_doubling_gain(tolerance: f64) -> f64 {
    bisect(2.0, 4.0, tolerance, |gain| {
        least_growth(gain, JUDGED_ROUNDS) >= DOUBLING
    })
}

/// The derivation in numbers: gains that follow from the rate doubling each round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Derivation {
    /// Pacing gain at which the pacing rate doubles each round trip (4 ln 2).
    pub pacing_gain: f64,
    /// Data in flight at that growth over the estimated BDP (2): the window gain.
    pub cwnd_gain: f64,
    /// Pacing gain that drains the queue of that window in one of its own round trips (1/2).
    pub drain_gain: f64,
}

/// Finds the gains from the integral equations, with the RTT as unit of time.
pub fn derive() -> Derivation {
    // Data sent from `from` to `to` when the rate at 0 is 1 and grows as e^(rate t).
    let sent = |rate: f64, from: f64, to: f64| integrate(from, to, |t| (rate * t).exp());
    // Rate = gain x delivered in the last round trip = gain x sent in the one before. Finds the
    // growth that satisfies this for a gain; growth only rises with the gain.
    let growth = |gain: f64| {
        let rate = bisect(0.0, 4.0, 1e-13, |rate| gain * sent(rate, -2.0, -1.0) <= 1.0);
        rate.exp()
    };
    let pacing_gain = bisect(1.0, 8.0, 1e-12, |gain| growth(gain) >= 2.0);
    let doubling = 2f64.ln();
    // The data in flight was sent in the last round trip; the estimated BDP was delivered in it.
    let cwnd_gain = sent(doubling, -1.0, 0.0) / sent(doubling, -2.0, -1.0);
    // A queue of q BDP makes a round trip of 1 + q. Paced at `gain`, the data in flight shrinks by
    // (1 - gain) (1 + q) in it, and that must equal q.
    let queue = cwnd_gain - 1.0;
    let drain_gain = 1.0 - queue / (1.0 + queue);
    Derivation {
        pacing_gain,
        cwnd_gain,
        drain_gain,
    }
}

/// The smallest x in `low..high`, to within `tolerance`, at which `holds` (false below it, true
/// above).
fn bisect(mut low: f64, mut high: f64, tolerance: f64, holds: impl Fn(f64) -> bool) -> f64 {
    while high - low > tolerance {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// Simpson's rule.
fn integrate(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
    const STEPS: u32 = 256;
    let h = (to - from) / f64::from(STEPS);
    let inner: f64 = (1..STEPS)
        .map(|i| f(from + h * f64::from(i)) * if i % 2 == 1 { 4.0 } else { 2.0 })
        .sum();
    (f(from) + inner + f(to)) * h / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_derivation_finds_the_published_gains() {
        let gains = derive();
        assert!(
            (gains.pacing_gain - 4.0 * 2f64.ln()).abs() < 1e-9,
            "{gains:?}"
        );
        assert!((gains.cwnd_gain - 2.0).abs() < 1e-9, "{gains:?}");
        assert!((gains.drain_gain - 0.5).abs() < 1e-9, "{gains:?}");
    }

    #[test]
    fn two_seventy_seven_falls_short_and_two_seventy_eight_does_not() {
        assert!(least_growth(2.77, JUDGED_ROUNDS) < DOUBLING);
        assert!(least_growth(2.78, JUDGED_ROUNDS) >= DOUBLING);
        let least = least_doubling_gain(1e-4);
        assert!(least > 2.77 && least <= 2.78, "{least}");
    }

    /// The published rows: growth, t, round, cwnd, packets in flight, and the estimate as far as it
    /// was printed.
    type Printed = (&'static str, &'static str, u32, u64, u64, &'static str);

    const PUBLISHED_277: [Printed; 15] = [
        ("0.000", "0.100000", 1, 20, 0, "100.00000"),
        ("0.000", "0.200000", 2, 21, 19, "100.00000"),
        ("2.000", "0.300000", 3, 41, 39, "200.00000"),
        ("2.000", "0.400000", 4, 81, 68, "400.00000"),
        ("1.725", "0.500189", 5, 150, 143, "690.00000"),
        ("2.087", "0.600354", 6, 294, 292, "1440.0000"),
        ("2.035", "0.700354", 7, 587, 570, "2930.0000"),
        ("1.949", "0.800385", 8, 1158, 1145, "5710.0000"),
        ("2.007", "0.900420", 9, 2304, 2302, "11460.000"),
        ("2.010", "1.000420", 10, 4607, 4586, "23030.00"),
        ("1.992", "1.100432", 11, 9194, 9169, "45870.00"),
        ("1.999", "1.200437", 12, 18364, 18347, "91700.00"),
        ("2.001", "1.300440", 13, 36712, 36649, "183480.0"),
        ("1.997", "1.400440", 14, 73362, 73253, "366500.0"),
        ("1.999", "1.500440", 15, 146_616, 146_437, "732540.0"),
    ];

    const PUBLISHED_278: [Printed; 15] = [
        ("0.000", "0.100000", 1, 20, 0, "100.00000"),
        ("0.000", "0.200000", 2, 21, 19, "100.00000"),
        ("2.000", "0.300000", 3, 41, 39, "200.00000"),
        ("2.000", "0.400000", 4, 81, 69, "400.00000"),
        ("1.750", "0.500727", 5, 151, 144, "700.00000"),
        ("2.071", "0.601013", 6, 296, 294, "1450.0000"),
        ("2.034", "0.701013", 7, 591, 579, "2950.0000"),
        ("1.966", "0.801112", 8, 1171, 1158, "5800.0000"),
        ("1.998", "0.901155", 9, 2330, 2328, "11590.000"),
        ("2.009", "1.001155", 10, 4659, 4657, "23290.00"),
        ("2.000", "1.101155", 11, 9317, 9315, "46580.00"),
        ("2.000", "1.201155", 12, 18633, 18631, "93160.00"),
        ("2.000", "1.301155", 13, 37265, 37263, "186320.0"),
        ("2.000", "1.401155", 14, 74529, 74527, "372640.0"),
        ("2.000", "1.501155", 15, 149_058, 149_054, "745290.0"),
    ];

    fn assert_printed(gain: f64, published: &[Printed]) {
        let rows = simulate(gain, 15);
        assert_eq!(rows.len(), published.len());
        for (row, (growth, t, round, cwnd, pif, bw)) in rows.iter().zip(published) {
            assert_eq!(&format!("{:.3}", row.growth), growth, "{row:?}");
            assert_eq!(&format!("{:.6}", row.t), t, "{row:?}");
            assert_eq!((row.round, row.cwnd, row.pif), (*round, *cwnd, *pif));
            assert!(format!("{:.6}", row.bw).starts_with(bw), "{row:?}");
        }
    }

    #[test]
    fn the_published_rows_for_2_77() {
        assert_printed(2.77, &PUBLISHED_277);
    }

    #[test]
    fn the_published_rows_for_2_78() {
        assert_printed(2.78, &PUBLISHED_278);
    }

    #[test]
    fn odd_gains_end() {
        for gain in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1e-300] {
            assert!(simulate(gain, 15).len() <= 15);
        }
        assert!(simulate(2.0, 0).is_empty());
    }
}
