//! Random early detection.

use paceline_units::options::Refusal;
use paceline_units::{Bytes, Gain, Rate, Rng, Site, Size, parameters};

use super::early::{Arrival, Early, Signal, draw, share};

parameters! {
    /// Random early detection (Floyd and Jacobson 1993).
    ///
    /// With the marks of RFC 3168 section 7. Gentle: Floyd 2000.
    pub struct Red {
        /// The average queue below which all packets pass.
        min: Size = Size::Bytes(Bytes::ZERO), needs "say below which average all pass: min = \"30 kB\"";
        /// The average queue from which on all packets are dropped, unless it is gentle.
        max: Size = Size::Bytes(Bytes::ZERO), needs "say from which average all are dropped: max = \"90 kB\"";
        /// The probability of a signal when the average reaches `max`.
        probability: Share = Gain::from_millionths(100_000);
        /// The weight in the average of the queue that a packet finds.
        weight: ShareAboveZero = Gain::from_millionths(2_000);
        /// Whether ECN-capable packets are marked instead of dropped, unless all packets are
        /// dropped.
        ecn: Flag = true;
        /// Whether the probability rises to 1 between `max` and twice `max`, instead of jumping to
        /// 1 at `max`.
        gentle: Flag = false;
        /// Whether one random number decides the gap between two signals, as in the paper's
        /// section 11 and in Linux, and not one for each packet, as in its figure 2. There are
        /// fewer signals while the average falls.
        per_gap: Flag = false;
    }
    check Red::refuses
}

impl Red {
    /// Whether the average queue is counted in packets; otherwise in bytes.
    fn in_packets(&self) -> bool {
        matches!(self.min, Size::Packets(_))
    }

    fn refuses(&self, site: &Site) -> Option<Refusal> {
        let option = "max";
        if self.in_packets() != matches!(self.max, Size::Packets(_)) {
            let (message, hint) = (
                "is in another kind of unit than `min`",
                "give both in packets, or neither",
            );
            return Some(Refusal {
                option,
                message,
                hint,
            });
        }
        let known = site.rate > Rate::ZERO;
        let (message, hint) = (
            "is not greater than `min`",
            "the probability rises from min to max",
        );
        (known && self.max.to_bytes(site) <= self.min.to_bytes(site)).then_some(Refusal {
            option,
            message,
            hint,
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RedState {
    red: Red,
    /// The average below which all packets pass (`min_th`), in packets or bytes.
    min: u64,
    /// The average from which on all packets are dropped (`max_th`).
    max: u64,
    average: f64,
    /// Packets since the last signal while the average is above `min`; none below it.
    count: Option<u64>,
    /// With `per_gap`: the signal comes when `count` times p_b reaches it.
    gap: f64,
    rng: Rng,
}

impl Early for RedState {
    type Options = Red;

    fn new(red: Red, site: &Site, seed: u64) -> Self {
        let amount = |size: Size| match size {
            Size::Packets(packets) => packets,
            size => size.to_bytes(site).get(),
        };
        Self {
            red,
            min: amount(red.min),
            max: amount(red.max),
            average: 0.0,
            count: None,
            gap: 0.0,
            rng: Rng::new(seed),
        }
    }

    fn judge(&mut self, arrival: Arrival) -> Signal {
        let begins = self.count.is_none();
        let Some(chance) = self.chance(arrival) else {
            self.count = (!self.red.per_gap).then_some(0);
            return Signal::Drop;
        };
        let signals = match (self.red.per_gap, self.count) {
            (false, _) => chance > 0.0 && draw(&mut self.rng) < chance,
            (true, None) => false,
            // Linux's `red_action`: the first packet of a gap starts it.
            (true, Some(_)) if begins => {
                self.gap = draw(&mut self.rng);
                false
            }
            (true, Some(count)) => count as f64 * self.base() >= self.gap,
        };
        if !signals {
            return Signal::None;
        }
        self.count = Some(0);
        if self.red.per_gap {
            self.gap = draw(&mut self.rng);
        }
        match self.red.ecn {
            true => Signal::MarkOrDrop,
            false => Signal::Drop,
        }
    }
}

impl RedState {
    /// The probability of signalling the packet; none if it must be dropped.
    fn chance(&mut self, arrival: Arrival) -> Option<f64> {
        let keep = 1.0 - share(self.red.weight);
        self.average = match arrival.idle {
            // Updates the average as if this many packets had found an empty queue.
            Some(packets) => self.average * power(keep, packets),
            None => {
                let queue = match self.red.in_packets() {
                    true => arrival.packets,
                    false => arrival.bytes,
                };
                keep * self.average + (1.0 - keep) * queue as f64
            }
        };
        let max = self.max as f64;
        if self.average < self.min as f64 {
            self.count = None;
            return Some(0.0);
        }
        let end = if self.red.gentle { 2.0 * max } else { max };
        if self.average >= end {
            return None;
        }
        let count = self.count.map_or(0, |count| count + 1);
        self.count = Some(count);
        let base = self.base();
        // The gap between two signals is uniform: p_a = p_b / (1 - count p_b).
        let left = 1.0 - count as f64 * base;
        Some(if left > base { base / left } else { 1.0 })
    }

    /// The probability for the average alone: p_b.
    fn base(&self) -> f64 {
        let (min, max) = (self.min as f64, self.max as f64);
        let most = share(self.red.probability);
        match self.average < max {
            true => most * (self.average - min) / (max - min),
            false => most + (1.0 - most) * (self.average - max) / max,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::super::discipline::Fifo;
    use super::super::discipline::testing::SITE;
    use super::super::early::testing::arrival;
    use super::super::linux_tests::{self as kernel, Event};
    use super::*;
    use paceline_units::Duration;

    fn red(weight: u32) -> RedState {
        let red = Red {
            min: Size::Packets(5),
            max: Size::Packets(15),
            weight: Gain::from_millionths(weight),
            ..Red::default()
        };
        RedState::new(red, &SITE, 7)
    }

    #[test]
    fn both_thresholds_count_alike() {
        let error_of = |min, max| {
            let red = Red {
                min,
                max,
                ..Red::default()
            };
            red.refuses(&SITE).map(|refusal| refusal.message)
        };
        let (few, many) = (Size::Packets(5), Size::Packets(15));
        let bytes = Size::Bytes(Bytes::new(90_000));
        assert_eq!(error_of(few, many), None);
        let message = Some("is in another kind of unit than `min`");
        assert_eq!([error_of(few, bytes), error_of(bytes, many)], [message; 2]);
    }

    #[test]
    fn red_follows_the_queue_by_its_weight_and_forgets_while_idle() {
        let mut state = red(2_000);
        for _ in 0..1000 {
            state.judge(arrival(10));
        }
        // 10 (1 - 0.998^1000) = 8.649
        assert!(
            (state.average - 8.649_354).abs() < 1e-5,
            "{}",
            state.average
        );
        let idle = Arrival {
            idle: Some(500),
            ..arrival(0)
        };
        state.judge(idle);
        // x 0.998^500 = 0.367511
        assert!((state.average - 3.178_73).abs() < 1e-4, "{}", state.average);
    }

    #[test]
    fn red_signals_as_often_as_its_average_asks_for_and_evenly() {
        // At an average of 10, halfway, p_b = 0.05. With the count kept as in the paper's figure 2,
        // the gap between two signals is uniform over 1 to 1 / p_b - 1 packets.
        let mut state = red(1_000_000);
        let mut gaps = Vec::new();
        let mut gap = 0;
        for _ in 0..200_000 {
            gap += 1;
            match state.judge(arrival(10)) {
                Signal::MarkOrDrop => gaps.push(std::mem::take(&mut gap)),
                Signal::None => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(gaps.iter().all(|gap| (1..=19).contains(gap)));
        for length in 1..=19 {
            let signalled = gaps.iter().filter(|gap| **gap == length).count() as f64;
            let expected = gaps.len() as f64 / 19.0;
            assert!(
                (signalled / expected - 1.0).abs() < 0.2,
                "{length}: {signalled} of {expected}"
            );
        }
        // Below `min` none; from `max` on all, and those are dropped.
        assert_eq!(state.judge(arrival(4)), Signal::None);
        assert_eq!(state.judge(arrival(15)), Signal::Drop);
    }

    #[test]
    fn one_number_decides_a_gap() {
        // At an average of 10 p_b is 0.05: the gap is uniform over 1 to 20 packets.
        let mut state = red(1_000_000);
        state.red.per_gap = true;
        let signals: Vec<Signal> = (0..100_000).map(|_| state.judge(arrival(10))).collect();
        let gaps: Vec<usize> = signals
            .split_inclusive(|signal| *signal == Signal::MarkOrDrop)
            .skip(1)
            .map(<[Signal]>::len)
            .collect();
        assert_eq!(gaps.iter().max(), Some(&20));
        let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
        assert!((mean - 10.5).abs() < 0.2, "{mean}");
        // The average falls after a signal: with a number of .9 p_b times the count reaches 0.5, at
        // 10, and then no more. One number for each packet would signal nearly always.
        state.gap = 0.9;
        state.count = Some(0);
        let falling = (0..200).map(|n| state.judge(arrival(if n < 10 { 10 } else { 5 })));
        assert!(
            falling
                .collect::<Vec<_>>()
                .iter()
                .all(|s| *s == Signal::None)
        );
        // Below `min` a gap begins again; from `max` on all are dropped.
        state.judge(arrival(4));
        assert_eq!(state.count, None);
        assert_eq!(state.judge(arrival(15)), Signal::Drop);
        assert_eq!(state.count, None);
        assert_eq!(state.judge(arrival(10)), Signal::None);
        assert_eq!(state.count, Some(0));
    }

    #[test]
    fn red_without_ecn_drops() {
        let mut state = red(1_000_000);
        state.red.ecn = false;
        let signals: Vec<Signal> = (0..100).map(|_| state.judge(arrival(14))).collect();
        assert!(signals.contains(&Signal::Drop) && !signals.contains(&Signal::MarkOrDrop));
    }

    #[test]
    fn gentle_red_goes_on_beyond_max() {
        // At an average of 18 p_b = 0.1 + 0.9 x 3 / 15 = 0.28: a signal after one packet with
        // 0.28 / 0.72 = 0.389, after two with 0.611 x 0.28 / 0.44 = 0.389, else after three.
        let mut state = red(1_000_000);
        state.red.gentle = true;
        let signals: Vec<Signal> = (0..10_000).map(|_| state.judge(arrival(18))).collect();
        assert!(!signals.contains(&Signal::Drop));
        let gaps: Vec<usize> = signals
            .split_inclusive(|signal| *signal == Signal::MarkOrDrop)
            .map(<[Signal]>::len)
            .collect();
        assert_eq!(gaps.iter().max(), Some(&3));
        // 0.389 + 2 x 0.389 + 3 x 0.222
        let mean = 10_000.0 / gaps.len() as f64;
        assert!((mean - 1.833).abs() < 0.02, "{mean}");
        assert_eq!(state.judge(arrival(30)), Signal::Drop);
    }

    /// Linux's queue and ours with the same packets, compared at each arrival, each starting from
    /// Linux's state.
    #[test]
    fn red_signals_as_often_as_linux() {
        let mut state = RedState::new(
            Red {
                min: Size::Bytes(Bytes::new(30_280)),
                max: Size::Bytes(Bytes::new(90_840)),
                weight: Gain::from_millionths(1_000_000 / 32),
                ..Red::default()
            },
            &SITE,
            1,
        );
        let events = kernel::events(&kernel::trace("red"));
        let marked = kernel::marked(&events);
        let mut fifo = Fifo::new();
        let (mut expected, mut variance, mut signalled, mut forced, mut below) =
            (0.0, 0.0, 0, 0, 0);
        for (at, event) in events {
            match event {
                Event::Comes { packet, dropped } => {
                    let signal = dropped || marked.contains(&packet.number);
                    let chance = state.chance(Arrival {
                        size: packet.size,
                        bytes: fifo.bytes(),
                        packets: fifo.packets(),
                        sojourn: Duration::ZERO,
                        idle: None,
                    });
                    match chance {
                        None => {
                            assert!(dropped, "{at:?}: {packet:?}, {}", state.average);
                            forced += 1;
                        }
                        Some(0.0) => {
                            assert!(!signal, "{at:?}: {packet:?}, {}", state.average);
                            below += 1;
                        }
                        Some(chance) => {
                            expected += chance;
                            variance += chance * (1.0 - chance);
                            signalled += u32::from(signal);
                            if signal {
                                assert_eq!(dropped, packet.ecn == 0);
                            }
                        }
                    }
                    // The packet after a signal has p_b there, p_b / (1 - p_b) in the paper.
                    if signal {
                        state.count = None;
                    }
                    if !dropped {
                        fifo.push(at, packet);
                    }
                }
                Event::Goes { number, .. } => {
                    assert_eq!(fifo.pop().map(|head| head.packet.number), number);
                }
                Event::Updates { .. } => panic!("{event:?}"),
            }
        }
        assert!(forced > 50 && below > 1000, "{forced}, {below}");
        // Gaps are more even than with independent draws.
        let apart = (f64::from(signalled) - expected) / f64::sqrt(variance);
        assert!(
            apart.abs() < 3.0,
            "{signalled}, not {expected}: {apart} deviations"
        );
    }
}
