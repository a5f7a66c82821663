//! Signals of a queue before it is full.

use paceline_units::{Duration, Gain, Instant, Rng};

/// When a queue marks or drops what it could still hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aqm {
    /// Marks what finds more waiting than the threshold, itself included, as DCTCP asks for
    /// (RFC 8257 section 3.1). What is not ECN-capable passes.
    Step(Threshold),
    /// Random early detection.
    Red(Red),
}

/// How much may wait, or how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// In bytes on the wire.
    Bytes(u64),
    /// In packets.
    Packets(u64),
    /// The sojourn that the packet faces at the rate in force.
    Sojourn(Duration),
}

/// Random early detection (Floyd and Jacobson 1993), with the marks of RFC 3168 section 7.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Whether the average queue is counted in packets; in bytes otherwise.
    pub in_packets: bool,
    /// The average below which all pass (`min_th`).
    pub min: u64,
    /// The average from which on all are dropped (`max_th`).
    pub max: u64,
    /// The probability of a signal as the average reaches `max` (`max_p`).
    pub probability: Gain,
    /// Weight of the queue that a packet finds in the average (`w_q`).
    pub weight: Gain,
    /// Whether ECN-capable packets are marked instead of dropped between `min` and `max`.
    pub ecn: bool,
}

/// What a packet finds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) size: u32,
    /// Waiting behind the packet in transmission.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// Time until its transmission begins.
    pub(crate) sojourn: Duration,
    /// How long the link has been idle, in transmissions of this packet; none if it is busy.
    pub(crate) idle: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    None,
    /// Mark it if it can be marked.
    Mark,
    /// Mark it, or drop it if it cannot be.
    MarkOrDrop,
    Drop,
}

/// An [`Aqm`] at work.
#[derive(Clone, Debug)]
pub(crate) enum Watch {
    Step(Threshold),
    Red(RedState),
}

impl Watch {
    pub(crate) fn new(aqm: Aqm, seed: u64) -> Self {
        match aqm {
            Aqm::Step(threshold) => Self::Step(threshold),
            Aqm::Red(red) => Self::Red(RedState::new(red, seed)),
        }
    }

    pub(crate) fn judge(&mut self, found: Found) -> Signal {
        match self {
            Self::Step(threshold) => {
                let exceeded = match *threshold {
                    Threshold::Bytes(most) => found.bytes + u64::from(found.size) > most,
                    Threshold::Packets(most) => found.packets + 1 > most,
                    Threshold::Sojourn(most) => found.sojourn > most,
                };
                match exceeded && found.idle.is_none() {
                    true => Signal::Mark,
                    false => Signal::None,
                }
            }
            Self::Red(red) => red.judge(found),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RedState {
    red: Red,
    average: f64,
    /// Packets since the last signal while the average is above `min`; none below it.
    count: Option<u64>,
    rng: Rng,
}

impl RedState {
    fn new(red: Red, seed: u64) -> Self {
        Self {
            red,
            average: 0.0,
            count: None,
            rng: Rng::new(seed),
        }
    }

    fn judge(&mut self, found: Found) -> Signal {
        let keep = 1.0 - share(self.red.weight);
        self.average = match found.idle {
            // As if so many packets had found nothing.
            Some(packets) => self.average * power(keep, packets),
            None => {
                let queue = match self.red.in_packets {
                    true => found.packets,
                    false => found.bytes,
                };
                keep * self.average + (1.0 - keep) * queue as f64
            }
        };
        let (min, max) = (self.red.min as f64, self.red.max as f64);
        if self.average < min {
            self.count = None;
            return Signal::None;
        }
        if self.average >= max {
            self.count = Some(0);
            return Signal::Drop;
        }
        let count = self.count.map_or(0, |count| count + 1);
        self.count = Some(count);
        let base = share(self.red.probability) * (self.average - min) / (max - min);
        // The gap between two signals is uniform: p_a = p_b / (1 - count p_b).
        let left = 1.0 - count as f64 * base;
        let chance = if left > base { base / left } else { 1.0 };
        if base == 0.0 || self.draw() >= chance {
            return Signal::None;
        }
        self.count = Some(0);
        match self.red.ecn {
            true => Signal::MarkOrDrop,
            false => Signal::Drop,
        }
    }

    /// Uniform in [0, 1).
    fn draw(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn share(gain: Gain) -> f64 {
    f64::from(gain.millionths()) / f64::from(Gain::SCALE)
}

/// By squaring: the same digits on every platform.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 && result > 0.0 {
        if exponent % 2 == 1 {
            result *= base;
        }
        base *= base;
        exponent /= 2;
    }
    result
}

/// How many transmissions of `each` fit between `from` and `to`.
pub(crate) fn transmissions(from: Instant, to: Instant, each: Duration) -> u64 {
    let count = to.since(from).as_nanos().checked_div(each.as_nanos());
    count.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(packets: u64) -> Found {
        Found {
            size: 1500,
            bytes: packets * 1500,
            packets,
            sojourn: Duration::from_micros(packets * 240),
            idle: None,
        }
    }

    #[test]
    fn a_step_marks_what_stands_beyond_it() {
        for threshold in [
            Threshold::Packets(3),
            Threshold::Bytes(3 * 1500),
            Threshold::Sojourn(Duration::from_micros(2 * 240)),
        ] {
            let mut watch = Watch::new(Aqm::Step(threshold), 1);
            let signals: Vec<bool> = (0..5)
                .map(|packets| watch.judge(found(packets)) == Signal::Mark)
                .collect();
            assert_eq!(signals, [false, false, false, true, true], "{threshold:?}");
        }
        // What finds the link idle does not wait.
        let mut watch = Watch::new(Aqm::Step(Threshold::Packets(0)), 1);
        let idle = Found {
            idle: Some(0),
            ..found(0)
        };
        assert_eq!(watch.judge(idle), Signal::None);
        assert_eq!(watch.judge(found(0)), Signal::Mark);
    }

    fn red(weight: u32) -> RedState {
        let red = Red {
            in_packets: true,
            min: 5,
            max: 15,
            probability: Gain::from_millionths(100_000),
            weight: Gain::from_millionths(weight),
            ecn: true,
        };
        RedState::new(red, 7)
    }

    #[test]
    fn red_follows_the_queue_by_its_weight_and_forgets_while_idle() {
        let mut state = red(2_000);
        for _ in 0..1000 {
            state.judge(found(10));
        }
        // 10 (1 - 0.998^1000) = 8.649
        assert!(
            (state.average - 8.649_354).abs() < 1e-5,
            "{}",
            state.average
        );
        let idle = Found {
            idle: Some(500),
            ..found(0)
        };
        state.judge(idle);
        // x 0.998^500 = 0.367511
        assert!((state.average - 3.178_73).abs() < 1e-4, "{}", state.average);
    }

    #[test]
    fn red_signals_as_often_as_its_average_asks_for_and_evenly() {
        // At an average of 10, half way, p_b = 0.05. With the count as the paper's figure 2
        // keeps it, the gap between two signals is uniform over 1 to 1 / p_b - 1 packets.
        let mut state = red(1_000_000);
        let mut gaps = Vec::new();
        let mut gap = 0;
        for _ in 0..200_000 {
            gap += 1;
            match state.judge(found(10)) {
                Signal::MarkOrDrop => gaps.push(std::mem::take(&mut gap)),
                Signal::None => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(gaps.iter().all(|gap| (1..=19).contains(gap)));
        for length in 1..=19 {
            let seen = gaps.iter().filter(|gap| **gap == length).count() as f64;
            let expected = gaps.len() as f64 / 19.0;
            assert!(
                (seen / expected - 1.0).abs() < 0.2,
                "{length}: {seen} of {expected}"
            );
        }
        // Below min none, from max on all, and those are dropped.
        assert_eq!(state.judge(found(4)), Signal::None);
        assert_eq!(state.judge(found(15)), Signal::Drop);
    }

    #[test]
    fn red_without_ecn_drops() {
        let mut state = red(1_000_000);
        state.red.ecn = false;
        let signals: Vec<Signal> = (0..100).map(|_| state.judge(found(14))).collect();
        assert!(signals.contains(&Signal::Drop) && !signals.contains(&Signal::MarkOrDrop));
    }
}
