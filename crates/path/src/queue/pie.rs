//! Proportional integral controller enhanced (RFC 8033).

use std::ops::Range;

use paceline_units::limits::{MAX_RTT_NS, MIN_UPDATE_NS};
use paceline_units::{Duration, Frequency, Gain, Instant, Rng, Site, parameters};

use super::discipline::{Discipline, Fifo, Sink};
use super::early::{draw, share};
use super::sums::add_repeatedly;
use crate::packet::{DropCause, Packet, QueueLimit};

parameters! {
    /// Proportional integral controller enhanced (RFC 8033): drops or marks on arrival, with a
    /// probability that follows the delay.
    ///
    /// With timestamps (section 4.3), ECN (5.1), derandomization (5.4) and the cap on an increase
    /// (5.5). It is always active (5.3 is optional). Where the RFC's appendices differ, this
    /// follows the sections and appendix A: the burst allowance is checked first, and the
    /// probability decays once both delays are zero.
    pub struct Pie {
        /// The target delay (`QDELAY_REF`).
        target: Nanos(1, MAX_RTT_NS) = Duration::from_millis(15);
        /// Time between updates of the probability (`T_UPDATE`).
        update: Nanos(MIN_UPDATE_NS, MAX_RTT_NS) = Duration::from_millis(15);
        /// Weight of the difference from the target.
        alpha: Frequency = Frequency::from_millionths(125_000);
        /// Weight of the change since the last update.
        beta: Frequency = Frequency::from_millionths(1_250_000);
        /// How long a burst passes without drops (`MAX_BURST`).
        burst: Nanos(0, MAX_RTT_NS) = Duration::from_millis(150);
        /// Whether ECN-capable packets are marked instead of dropped (section 5.1).
        ecn: Flag = true;
        /// The probability above which they are dropped even so (`mark_ecnth`).
        mark_limit: Share = Gain::from_millionths(100_000);
        /// Whether drops are spread out (section 5.4).
        derandomize: Flag = true;
    }
}

/// One queue with PIE.
pub(crate) struct PieQueue<P> {
    pie: Pie,
    /// The mean packet, in bytes: two of them are not a queue (`MEAN_PKTSIZE`).
    mean_packet: u64,
    fifo: Fifo<P>,
    probability: f64,
    /// The sojourn time of the last dequeued packet (`current_qdelay`); zero once the queue is
    /// empty, as in Linux. In the RFC it would keep its value until the next packet.
    delay: Duration,
    /// The same at the last update.
    old_delay: Duration,
    burst: Duration,
    /// Sum of the probabilities since the last drop.
    accumulated: f64,
    next_update: Instant,
    rng: Rng,
}

/// Whether arriving packets are dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Chance {
    None,
    /// The current probability.
    Draw,
    Sure,
}

impl<P: Packet> Discipline<P> for PieQueue<P> {
    type Options = Pie;

    fn new(pie: Pie, site: &Site, seed: u64) -> Self {
        Self {
            pie,
            mean_packet: site.mtu.get(),
            fifo: Fifo::new(),
            probability: 0.0,
            delay: Duration::ZERO,
            old_delay: Duration::ZERO,
            burst: pie.burst,
            accumulated: 0.0,
            next_update: Instant::ZERO + pie.update,
            rng: Rng::new(seed),
        }
    }

    /// Section 4.1 and 4.4: whether a packet is admitted.
    fn enqueue(
        &mut self,
        now: Instant,
        mut packet: P,
        _: Option<QueueLimit>,
        sink: &mut Sink<'_, P>,
    ) -> Result<(), DropCause> {
        self.catch_up(now);
        let half = self.pie.target / 2;
        if self.probability == 0.0 && self.delay < half && self.old_delay < half {
            self.burst = self.pie.burst;
        }
        if self.burst == Duration::ZERO && self.drop_early() {
            let few = self.probability < share(self.pie.mark_limit);
            if !(self.pie.ecn && few && sink.mark(&mut packet)) {
                return Err(DropCause::Early);
            }
        }
        self.fifo.push(now, packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Instant, _: &mut Sink<'_, P>) -> Option<P> {
        self.catch_up(now);
        let head = self.fifo.pop()?;
        self.delay = match self.fifo.is_empty() {
            true => Duration::ZERO,
            false => now.since(head.since),
        };
        Some(head.packet)
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> u64 {
        self.fifo.packets()
    }

    fn remove(&mut self, _: u64, pick: impl FnOnce(&Fifo<P>) -> Option<usize>) -> Option<P> {
        self.fifo.take(pick)
    }

    /// The next packet's decision treats this drop like any other (appendix B).
    fn on_overflow(&mut self) {
        self.accumulated = 0.0;
    }
}

impl<P: Packet> PieQueue<P> {
    fn drop_early(&mut self) -> bool {
        let drops = match self.chance() {
            Chance::None => false,
            Chance::Sure => true,
            Chance::Draw => draw(&mut self.rng) < self.probability,
        };
        if drops {
            self.accumulated = 0.0;
        }
        drops
    }

    /// Section 4.1, and 5.4.
    fn chance(&mut self) -> Chance {
        let short = self.old_delay < self.pie.target / 2 && self.probability < 0.2;
        if short || self.fifo.bytes() <= 2 * self.mean_packet {
            return Chance::None;
        }
        if self.pie.derandomize {
            if self.probability == 0.0 {
                self.accumulated = 0.0;
            }
            self.accumulated += self.probability;
            if self.accumulated < 0.85 {
                return Chance::None;
            }
            if self.accumulated >= 8.5 {
                return Chance::Sure;
            }
        }
        Chance::Draw
    }

    /// Does the updates that were due up to `now`, in a time that does not grow with their number.
    fn catch_up(&mut self, now: Instant) {
        if now < self.next_update {
            return;
        }
        let every = self.pie.update.max(Duration::from_nanos(1));
        let mut due = now.since(self.next_update).as_nanos() / every.as_nanos() + 1;
        self.next_update += every * due;
        while due > 0 {
            let (probability, old_delay) = (self.probability, self.old_delay);
            self.update();
            due -= 1;
            // A change between the two delays counts once.
            if old_delay == self.delay {
                let skipped = self.skip(probability, due);
                self.burst = self.burst - every * skipped;
                due -= skipped;
            }
        }
    }

    /// Does some of the updates that are due, given that an update with the same delays has moved
    /// the probability from `before`. Returns their number.
    fn skip(&mut self, before: f64, due: u64) -> u64 {
        if self.probability == before {
            return due;
        }
        // With an empty queue the probability falls by 2 % each time and soon stops changing.
        if self.delay == Duration::ZERO {
            return 0;
        }
        let (range, step) = self.step(0.0);
        let (probability, done) = add_repeatedly(self.probability, step, &range, due);
        self.probability = probability.clamp(0.0, 1.0);
        done
    }

    /// The amount that an update adds to the probability for this change of the delay in seconds,
    /// and the range of probabilities to which it adds the same.
    fn step(&self, change: f64) -> (Range<f64>, f64) {
        let distance = self.delay.as_secs_f64() - self.pie.target.as_secs_f64();
        let step = share(self.pie.alpha.per_second()) * distance
            + share(self.pie.beta.per_second()) * change;
        // Small probabilities change in small steps.
        let (range, divisor) = match self.probability {
            p if p < 0.000_001 => (0.0..0.000_001, 2048.0),
            p if p < 0.000_01 => (0.000_001..0.000_01, 512.0),
            p if p < 0.000_1 => (0.000_01..0.000_1, 128.0),
            p if p < 0.001 => (0.000_1..0.001, 32.0),
            p if p < 0.01 => (0.001..0.01, 8.0),
            p if p < 0.1 => (0.01..0.1, 2.0),
            _ => return (0.1..1.0, step.min(0.02)),
        };
        (range, step / divisor)
    }

    /// Section 4.2, and 5.5.
    fn update(&mut self) {
        let change = self.delay.as_secs_f64() - self.old_delay.as_secs_f64();
        self.probability += self.step(change).1;
        if self.delay == Duration::ZERO && self.old_delay == Duration::ZERO {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.old_delay = self.delay;
        // Section 4.4.
        self.burst = self.burst - self.pie.update;
    }
}

#[cfg(test)]
mod tests {
    use super::super::AnyDiscipline;
    use super::super::discipline::testing::{Discarded, Probe, SITE};
    use super::super::linux_tests::{self as kernel, Event};
    use super::*;
    use proptest::prelude::*;

    fn us(n: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(n)
    }

    fn ms(n: u64) -> Instant {
        us(n * 1000)
    }

    fn pie() -> PieQueue<Probe> {
        PieQueue::new(Pie::default(), &SITE, 1)
    }

    fn near(value: f64, wanted: f64) {
        assert!((value / wanted - 1.0).abs() < 1e-9, "{value}, not {wanted}");
    }

    /// By hand: 0.125 (0.035 - 0.015) + 1.25 (0.035 - 0.005) = 0.04, divided by 2048 is
    /// 0.00001953125; the next, with no change, 0.125 x 0.02 = 0.0025 divided by 128, and so on up
    /// the table.
    #[test]
    fn the_probability_moves_by_the_table() {
        let mut queue = pie();
        queue.old_delay = Duration::from_millis(5);
        queue.delay = Duration::from_millis(35);
        queue.update();
        near(queue.probability, 0.000_019_531_25);
        queue.update();
        near(queue.probability, 0.000_019_531_25 + 0.0025 / 128.0);
        for (from, by) in [
            (0.000_000_5, 2048.0),
            (0.000_005, 512.0),
            (0.000_05, 128.0),
            (0.000_5, 32.0),
            (0.005, 8.0),
            (0.05, 2.0),
            (0.5, 1.0),
        ] {
            queue.probability = from;
            queue.update();
            near(queue.probability, from + 0.0025 / by);
        }
        // An increase of 0.125 x 0.085 + 1.25 x 0.065 = 0.091875 is cut to 0.02 from 0.1 on.
        queue.delay = Duration::from_millis(100);
        queue.probability = 0.1;
        queue.update();
        near(queue.probability, 0.12);
        // A decrease is not cut: 0.125 x -0.015 + 1.25 x -0.1 = -0.126875.
        queue.delay = Duration::ZERO;
        queue.probability = 0.5;
        queue.update();
        near(queue.probability, 0.373_125);
        // The queue is empty, now and at the last update: -0.001875, and 2 % less.
        queue.update();
        near(queue.probability, 0.371_25 * 0.98);
    }

    #[test]
    fn the_last_packet_leaves_no_delay_behind() {
        let (mut queue, mut discarded) = (pie(), Discarded::new());
        for number in 0..2 {
            queue
                .enqueue(ms(0), Probe::new(number, 1500), None, &mut discarded.sink())
                .unwrap();
        }
        queue.dequeue(ms(7), &mut discarded.sink());
        assert_eq!(queue.delay, Duration::from_millis(7));
        queue.dequeue(ms(8), &mut discarded.sink());
        assert_eq!(queue.delay, Duration::ZERO);
    }

    /// A load of 200 %: the probability rises, and drops begin, once the burst of 150 ms is over
    /// and not before; with ECN none is dropped below 10 %.
    #[test]
    fn a_burst_passes_and_an_overload_does_not() {
        for capable in [0, 1] {
            let (mut queue, mut discarded) = (pie(), Discarded::new());
            let (mut dropped, mut marked) = (Vec::new(), Vec::new());
            for at in 0..400 {
                for number in 0..2 {
                    let probe = Probe {
                        ecn: capable,
                        ..Probe::new(number, 1500)
                    };
                    let before = discarded.counters.marked.packets;
                    if queue
                        .enqueue(ms(at), probe, None, &mut discarded.sink())
                        .is_err()
                    {
                        dropped.push((at, queue.probability));
                    }
                    if discarded.counters.marked.packets > before {
                        marked.push((at, queue.probability));
                    }
                }
                queue.dequeue(ms(at), &mut discarded.sink());
            }
            let signals = if capable == 1 { &marked } else { &dropped };
            assert!(signals.len() > 5, "{signals:?}");
            // From the last moment without delay, 150 ms in whole updates.
            assert!(signals[0].0 >= 150, "{signals:?}");
            if capable == 1 {
                assert!(marked.iter().all(|(_, p)| *p < 0.1));
                assert!(dropped.iter().all(|(_, p)| *p >= 0.1));
            }
        }
    }

    #[test]
    fn nothing_is_dropped_while_the_burst_allowance_lasts() {
        let (mut queue, mut discarded) = (pie(), Discarded::new());
        (0..10).for_each(|n| queue.fifo.push(ms(0), Probe::new(n, 1500)));
        queue.next_update = Instant::MAX;
        (queue.probability, queue.old_delay) = (1.0, Duration::from_millis(50));
        let mut offer = |queue: &mut PieQueue<Probe>| {
            let probe = Probe::new(99, 1500);
            queue
                .enqueue(ms(1), probe, None, &mut discarded.sink())
                .is_ok()
        };
        queue.burst = Duration::from_millis(1);
        assert!(offer(&mut queue));
        queue.update();
        assert_eq!(queue.burst, Duration::ZERO);
        (queue.probability, queue.old_delay) = (1.0, Duration::from_millis(50));
        assert!(!offer(&mut queue));
        // The allowance returns only once both delays are below half of the target.
        (queue.probability, queue.delay) = (0.0, Duration::from_millis(7));
        queue.old_delay = Duration::from_millis(8);
        offer(&mut queue);
        assert_eq!(queue.burst, Duration::ZERO);
        queue.old_delay = Duration::from_millis(7);
        offer(&mut queue);
        assert_eq!(queue.burst, Duration::from_millis(150));
    }

    #[test]
    fn drops_are_kept_apart() {
        let (mut queue, mut discarded) = (pie(), Discarded::new());
        (0..10).for_each(|n| queue.fifo.push(ms(0), Probe::new(n, 1500)));
        queue.burst = Duration::ZERO;
        queue.old_delay = Duration::from_millis(20);
        queue.probability = 0.1;
        queue.next_update = Instant::MAX;
        let mut gaps = Vec::new();
        let mut gap = 0;
        for number in 0..20_000 {
            gap += 1;
            if queue
                .enqueue(ms(1), Probe::new(number, 40), None, &mut discarded.sink())
                .is_err()
            {
                gaps.push(std::mem::take(&mut gap));
            }
        }
        // No drop before 0.85 / 0.1 = 8.5 packets, one at the latest after 8.5 / 0.1 = 85.
        assert_eq!(gaps.iter().min(), Some(&9));
        assert!(gaps.iter().all(|gap| *gap <= 86));
        // Eight are certain to pass, then one in ten is dropped.
        let mean = 20_000.0 / gaps.len() as f64;
        assert!((mean - 18.0).abs() < 1.0, "{mean}");
    }

    #[test]
    fn what_does_not_fit_is_a_drop_like_others() {
        let (mut queue, mut discarded) = (pie(), Discarded::new());
        (0..10).for_each(|n| queue.fifo.push(ms(0), Probe::new(n, 1500)));
        queue.burst = Duration::ZERO;
        queue.old_delay = Duration::from_millis(20);
        queue.probability = 0.1;
        queue.next_update = Instant::MAX;
        let mut queue = AnyDiscipline::Pie(queue);
        let mut offer = |queue: &mut AnyDiscipline<Probe>, limit: u64| {
            let limit = Some(QueueLimit::Packets(limit));
            queue.enqueue(ms(1), Probe::new(99, 40), limit, &mut discarded.sink())
        };
        // Eight leave 0.8; the tail drop resets it to zero: eight more are certain to pass.
        for _ in 0..2 {
            for _ in 0..8 {
                assert_eq!(offer(&mut queue, 1000), Ok(()));
            }
            assert_eq!(offer(&mut queue, 10), Err(DropCause::Queue));
        }
        let AnyDiscipline::Pie(queue) = queue else {
            panic!();
        };
        assert_eq!(queue.accumulated, 0.0);
    }

    #[test]
    fn two_packets_or_half_the_target_are_no_queue() {
        let (mut queue, mut discarded) = (pie(), Discarded::new());
        queue.burst = Duration::ZERO;
        queue.probability = 0.19;
        queue.old_delay = Duration::from_millis(7);
        queue.next_update = Instant::MAX;
        for number in 0..200 {
            queue
                .enqueue(ms(1), Probe::new(number, 1500), None, &mut discarded.sink())
                .unwrap();
        }
        // From 0.2 on a short delay no longer protects packets: the last of five may be dropped.
        queue.probability = 0.2;
        let taken = (0..200).filter(|n| {
            let probe = Probe::new(*n, 1500);
            queue
                .enqueue(ms(1), probe, None, &mut discarded.sink())
                .is_ok()
        });
        assert!(taken.count() < 190);
        queue.fifo = Fifo::new();
        (queue.old_delay, queue.probability) = (Duration::from_millis(50), 1.0);
        let verdicts: Vec<bool> = (0..4)
            .map(|n| {
                queue
                    .enqueue(ms(1), Probe::new(n, 1500), None, &mut discarded.sink())
                    .is_ok()
            })
            .collect();
        assert_eq!(verdicts, [true, true, true, false]);
    }

    #[test]
    fn a_long_rest_is_skipped_on_the_grid() {
        let mut queue = pie();
        queue.catch_up(ms(1_000_000_000));
        assert_eq!(queue.next_update, ms(1_000_000_005));
    }

    /// 30 days in steps of 10 us: 2.6e11 steps, in none of which the probability comes to rest.
    #[test]
    fn a_month_without_a_packet_takes_no_time() {
        let month = Instant::ZERO + Duration::from_secs(30 * 24 * 3600);
        for (alpha, delay) in [(0, 0), (1, 15_001), (1, 14_999), (125_000, 15_001)] {
            let mut queue = pie();
            queue.pie.update = Duration::from_nanos(MIN_UPDATE_NS);
            queue.pie.alpha = Frequency::from_millionths(alpha);
            queue.delay = Duration::from_micros(delay);
            queue.probability = 0.01;
            queue.catch_up(month);
            assert!(queue.next_update > month);
        }
    }

    proptest! {
        /// All at once or one update after another gives the same result to the last bit.
        #[test]
        fn updates_at_once_are_those_of_a_loop(
            (target, delay, old_delay) in (1..50_000_u64, 0..60_000_u64, 0..60_000_u64),
            (alpha, beta) in (0..2_000_000_u32, 0..5_000_000_u32),
            (probability, small) in (0.0..1.0_f64, 0..30_i32),
            (idle, burst, due) in (any::<bool>(), 0..100_000_u64, 0..20_000_u64),
        ) {
            let start = || {
                let mut queue = pie();
                queue.pie.target = Duration::from_micros(target);
                queue.pie.update = Duration::from_micros(10);
                queue.pie.alpha = Frequency::from_millionths(alpha);
                queue.pie.beta = Frequency::from_millionths(beta);
                queue.probability = probability * 2.0_f64.powi(-small);
                queue.delay = Duration::from_micros(if idle { 0 } else { delay });
                queue.old_delay = Duration::from_micros(old_delay);
                queue.burst = Duration::from_micros(burst);
                queue.next_update = us(7);
                queue
            };
            let (mut queue, mut looped) = (start(), start());
            let now = us(10 * due);
            queue.catch_up(now);
            while looped.next_update <= now {
                looped.update();
                looped.next_update += looped.pie.update;
            }
            let state = |queue: &PieQueue<Probe>| (
                queue.probability.to_bits(), queue.old_delay, queue.burst, queue.next_update,
            );
            prop_assert_eq!(state(&queue), state(&looped));
        }
    }

    /// Linux's queue and ours with the same packets, compared at each update and arrival, each
    /// starting from Linux's state. Linux uses the current delay where the RFC uses that of the
    /// last update, subtracts 1 / 64 where the RFC subtracts 2 %, and decays only when the queue is
    /// empty.
    #[test]
    fn probability_and_drops_are_those_of_linux() {
        for (name, ecn) in [("pie", false), ("pie-ecn", true)] {
            let pie = Pie {
                target: Duration::from_millis(15),
                update: Duration::from_millis(16),
                ecn,
                ..Pie::default()
            };
            let (mut queue, mut discarded) = (PieQueue::new(pie, &SITE, 1), Discarded::new());
            // Two packets including the one that the shaper holds: one waits here.
            queue.mean_packet = 756;
            queue.next_update = Instant::MAX;
            let events = kernel::events(&kernel::trace(name));
            let marked = kernel::marked(&events);
            let (mut expected, mut variance, mut signalled) = (0.0, 0.0, 0);
            let (mut was_busy, mut predicted, mut updates) = (false, None, 0);
            for (at, event) in events {
                match event {
                    Event::Comes { packet, dropped } => {
                        let old_delay = std::mem::replace(&mut queue.old_delay, queue.delay);
                        let chance = queue.chance();
                        queue.old_delay = old_delay;
                        let probability = match chance {
                            Chance::None => 0.0,
                            Chance::Draw => queue.probability,
                            Chance::Sure => 1.0,
                        };
                        expected += probability;
                        variance += probability * (1.0 - probability);
                        let signal = dropped || marked.contains(&packet.number);
                        if signal {
                            assert!(probability > 0.0, "{at:?}: {packet:?}, {chance:?}");
                            assert_eq!(dropped, packet.ecn == 0 || queue.probability > 0.1);
                            signalled += 1;
                            queue.accumulated = 0.0;
                        }
                        assert!(signal || chance != Chance::Sure, "{at:?}: {packet:?}");
                        if !dropped {
                            queue.fifo.push(at, packet);
                        }
                    }
                    Event::Goes { number, .. } => {
                        assert_eq!(
                            queue
                                .dequeue(at, &mut discarded.sink())
                                .map(|packet| packet.number),
                            number
                        );
                        was_busy = number.is_some();
                    }
                    Event::Updates {
                        probability,
                        delay,
                        accumulated,
                    } => {
                        let apart = queue.accumulated - accumulated;
                        // After an idle period Linux restarts at once, the RFC at the next packet.
                        assert!(apart.abs() < 1e-6 || probability == 0.0, "{at:?}: {apart}");
                        // The kernel takes some microseconds from the probe to its clock.
                        let apart = queue.delay.as_secs_f64() - delay.as_secs_f64();
                        assert!(apart.abs() < 2e-5, "{at:?}: {:?}, {delay:?}", queue.delay);
                        let apart = probability - predicted.unwrap_or(probability);
                        assert!(f64::abs(apart) < 1e-10, "{at:?}: {apart} apart");
                        (queue.probability, queue.delay) = (probability, delay);
                        let rests = delay == Duration::ZERO && queue.old_delay == delay;
                        queue.update();
                        if rests {
                            let kept = if was_busy { 1.0 } else { 63.0 / 64.0 };
                            queue.probability *= kept / 0.98;
                        }
                        predicted = Some(queue.probability);
                        updates += 1;
                    }
                }
            }
            assert!(updates > 300, "{updates}");
            let apart = (f64::from(signalled) - expected) / f64::sqrt(variance);
            assert!(
                apart.abs() < 3.0,
                "{signalled}, not {expected}: {apart} deviations"
            );
        }
    }
}
