//! Measures the rate of a link while it is busy.

use std::collections::VecDeque;

use paceline_units::{Bytes, Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::clock::STALL;

/// The error of a link's rate while it was busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateError {
    /// The share of its rate that it did not carry; negative if it carried more.
    pub ratio: f64,
    /// Three standard errors of that, plus the possible effect of late wake-ups.
    pub uncertainty: f64,
    /// The wire bytes on which it is based.
    pub bytes: u64,
}

/// With fewer packets there is no result: a single late one would decide.
const ENOUGH: u64 = 100;

/// Stretches whose lengths differ by less than this multiple of [`STALL`] give no result: all
/// packets of that time may have left at its end, which looks like a faster link, the shorter the
/// stretches are.
const LONG: f64 = 10.0;

/// A period in which the link is never idle.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// Total bytes accepted by the link when it began.
    position: u64,
    start: Instant,
}

/// Follows a link: when it becomes busy, and when packets have left it.
///
/// In each busy stretch, consider a packet that leaves when `capacity` bytes could have been
/// carried since the start, and `carried` bytes have been, including itself: it is `capacity -
/// carried` bytes behind. A link with the configured rate is no further behind at the end of a
/// stretch than at its start; the emulator's late wake-ups are included, but do not grow with the
/// bytes carried. The rate's error is the slope of a straight line through all packets of all
/// stretches; effects at the start and end of stretches go into its offset.
#[derive(Debug, Default)]
pub struct Busy {
    /// The stretches, with that of the latest packet first.
    stretches: VecDeque<Stretch>,
    /// Stretches that begin earlier are not compared: the rate or the delay has changed.
    resume: Instant,
    total: u64,
    /// Bytes that were compared.
    bytes: u64,
    /// The maximum that the link could carry in [`STALL`].
    late: f64,
    line: Line,
}

impl Busy {
    /// The idle link gets a packet at `start`, when `position` bytes had arrived.
    pub fn begin(&mut self, start: Instant, position: u64) {
        self.stretches.push_back(Stretch { position, start });
    }

    /// At `until` a change of the link takes effect at the far end.
    pub fn interrupt(&mut self, until: Instant) {
        self.resume = self.resume.max(until);
    }

    /// A packet leaves at `now`; `total` bytes have left. `delay` is its propagation
    /// delay after the link, and `capacity` returns the bytes that the link could have carried by a
    /// given time.
    pub fn left(
        &mut self,
        now: Instant,
        delay: Duration,
        total: u64,
        capacity: impl Fn(Instant) -> Bytes,
    ) {
        if total == self.total {
            // A copy, or a drop decided by the queue.
            return;
        }
        let size = total - std::mem::replace(&mut self.total, total).min(total);
        while let Some(next) = self.stretches.get(1)
            && next.position < total
        {
            self.stretches.pop_front();
        }
        let left = Instant::ZERO + now.since(Instant::ZERO + delay);
        let Some(current) = self.stretches.front_mut() else {
            return;
        };
        if current.start + delay < self.resume {
            // The stretch continues from the first packet after the change.
            *current = Stretch {
                position: total,
                start: left,
            };
            return;
        }
        let carried = total.saturating_sub(current.position);
        let able = capacity(left);
        let asked = able.get() as f64 - capacity(current.start).get() as f64;
        self.line.add(carried as f64, asked - carried as f64);
        let late = capacity(left + STALL) - able;
        self.late = self.late.max(late.get() as f64);
        self.bytes += size;
    }

    /// The result; none with fewer than [`ENOUGH`] packets, or stretches that are too short.
    pub fn error(&self) -> Option<RateError> {
        if self.line.count < ENOUGH as f64 || self.line.spread() < LONG * self.late {
            return None;
        }
        self.fitted()
    }

    fn fitted(&self) -> Option<RateError> {
        let (slope, deviation) = self.line.slope()?;
        // Behind by `slope` per byte carried: the requested amount is that much more than the
        // amount carried.
        let asked = 1.0 + slope;
        (asked > 0.0).then(|| RateError {
            ratio: slope / asked,
            uncertainty: 3.0 * deviation / (asked * asked) + self.late / self.line.spread(),
            bytes: self.bytes,
        })
    }
}

/// A least-squares straight line.
#[derive(Debug, Default)]
struct Line {
    count: f64,
    x_mean: f64,
    y_mean: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Line {
    fn add(&mut self, x: f64, y: f64) {
        // Welford: means and central moments, updated incrementally.
        self.count += 1.0;
        let (dx, dy) = (x - self.x_mean, y - self.y_mean);
        self.x_mean += dx / self.count;
        self.y_mean += dy / self.count;
        self.xx += dx * (x - self.x_mean);
        self.xy += dx * (y - self.y_mean);
        self.yy += dy * (y - self.y_mean);
    }

    /// The standard deviation of the bytes carried.
    fn spread(&self) -> f64 {
        (self.xx / self.count.max(1.0)).sqrt()
    }

    /// The slope and its standard error.
    fn slope(&self) -> Option<(f64, f64)> {
        if self.count < 3.0 || self.xx <= 0.0 {
            return None;
        }
        let slope = self.xy / self.xx;
        let rest = (self.yy - slope * self.xy).max(0.0) / (self.count - 2.0);
        Some((slope, (rest / self.xx).sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use paceline_units::{Rate, Rng};

    use super::*;

    const DELAY: Duration = Duration::from_millis(5);
    const SIZE: u64 = 1500;
    /// 1500 bytes take 1.2 ms.
    const ASKED: Rate = Rate::from_bps(10_000_000);

    fn capacity(at: Instant) -> Bytes {
        ASKED.volume_in(at.since(Instant::ZERO))
    }

    /// Stretches of `packets` each, separated by 20 ms of idle time, for a link that takes `each`
    /// per packet and an emulator that is late by a draw of `late`.
    fn run(
        stretches: u64,
        packets: u64,
        each: Duration,
        mut late: impl FnMut() -> Duration,
    ) -> Option<RateError> {
        let mut busy = Busy::default();
        let (mut start, mut total) = (Instant::from_nanos(123_456), 0);
        for _ in 0..stretches {
            busy.begin(start, total);
            for n in 1..=packets {
                total += SIZE;
                busy.left(start + each * n + DELAY + late(), DELAY, total, capacity);
            }
            start = start + each * packets + Duration::from_millis(20);
        }
        busy.error()
    }

    #[test]
    fn by_hand() {
        let mut busy = Busy::default();
        let at = |micros| Instant::ZERO + DELAY + Duration::from_micros(micros);
        busy.begin(Instant::ZERO, 0);
        // Behind by 0, 0 and 300 bytes (0.24 ms) after 1500, 3000 and 4500: the line through them
        // rises by 0.1, and (0 - -50, 0 - 100, 300 - 250) deviate from it by 50, 100 and 50.
        for (micros, total) in [(1200, 1500), (2400, 3000), (3840, 4500)] {
            busy.left(at(micros), DELAY, total, capacity);
        }
        assert_eq!(busy.error(), None);
        let error = busy.fitted().unwrap();
        assert!((error.ratio - 0.1 / 1.1).abs() < 1e-9);
        let deviation = (15_000.0_f64 / 4_500_000.0).sqrt();
        // 625 bytes in 0.5 ms, and the bytes carried differ by 1225.
        let late = 625.0 / 1_500_000.0_f64.sqrt();
        assert!((error.uncertainty - 3.0 * deviation / 1.21 - late).abs() < 1e-9);
        assert_eq!(error.bytes, 4500);
    }

    #[test]
    fn a_link_that_is_three_per_cent_slow() {
        // 1.2 ms / 0.97.
        let each = Duration::from_nanos(1_237_113);
        let mut random = Rng::new(1);
        let mut jitter = || Duration::from_nanos(random.below(200_000));
        for (stretches, packets) in [(1, 200), (3, 200)] {
            let error = run(stretches, packets, each, &mut jitter).unwrap();
            assert!((error.ratio - 0.03).abs() < 0.01, "{error:?}");
            assert!(error.ratio - error.uncertainty > 0.02, "{error:?}");
        }
        for (stretches, packets) in [(200, 3), (20, 10)] {
            assert_eq!(run(stretches, packets, each, &mut jitter), None);
        }
    }

    #[test]
    fn bursts_that_leave_at_one_wake_say_nothing() {
        let fast = |at: Instant| Rate::from_bps(200_000_000).volume_in(at.since(Instant::ZERO));
        let mut busy = Busy::default();
        let mut total = 0;
        for stretch in 0..1000 {
            let start = Instant::from_nanos(stretch * 10_000_000);
            busy.begin(start, total);
            // 60 us each, and all of them once the emulator has woken up.
            for n in 1..=10 {
                total += 1500;
                let now = start + DELAY + Duration::from_micros((60 * n).max(400));
                busy.left(now, DELAY, total, fast);
            }
        }
        assert_eq!(busy.error(), None);
        assert!(busy.fitted().unwrap().ratio < -0.2);
    }

    #[test]
    fn a_few_acks_say_nothing_of_a_fast_link() {
        let fast = |at: Instant| Rate::from_bps(50_000_000).volume_in(at.since(Instant::ZERO));
        let mut busy = Busy::default();
        let mut total = 0;
        for stretch in 0..1000 {
            let start = Instant::from_nanos(stretch * 10_000_000);
            busy.begin(start, total);
            // Both leave when the emulator wakes up, which takes longer than the link.
            for micros in [60, 61] {
                total += 52;
                let now = start + DELAY + Duration::from_micros(micros);
                busy.left(now, DELAY, total, fast);
            }
        }
        assert_eq!(busy.error(), None);
        assert!(busy.fitted().unwrap().ratio.abs() > 0.5);
    }

    #[test]
    fn late_wakes_are_no_error_of_the_rate() {
        let each = Duration::from_micros(1200);
        for seed in 1..=200 {
            let mut random = Rng::new(seed);
            // Half a millisecond, and occasionally three.
            let mut jitter = || match random.below(50) {
                0 => Duration::from_millis(3),
                _ => Duration::from_nanos(random.below(500_000)),
            };
            for (stretches, packets) in [(10, 20), (5, 40), (1, 100)] {
                let error = run(stretches, packets, each, &mut jitter).unwrap();
                assert!(error.ratio.abs() - error.uncertainty < 0.02, "{error:?}");
            }
        }
    }

    #[test]
    fn the_first_of_each_stretch_may_be_later_than_all_others() {
        let each = Duration::from_micros(1200);
        for late in [0, 400] {
            let mut busy = Busy::default();
            let mut total = 0;
            for stretch in 0..100 {
                let start = Instant::from_nanos(stretch * 50_000_000);
                busy.begin(start, total);
                for n in 1..=20 {
                    total += SIZE;
                    let late = Duration::from_micros(if n == 1 { late } else { 30 });
                    busy.left(start + each * n + DELAY + late, DELAY, total, capacity);
                }
            }
            let error = busy.error().unwrap();
            assert!(error.ratio.abs() < 0.005, "{error:?}");
        }
    }

    #[test]
    fn what_left_before_a_change_is_not_compared_with_what_left_after() {
        let mut busy = Busy::default();
        busy.begin(Instant::ZERO, 0);
        let each = Duration::from_micros(1200);
        let at = |n| Instant::ZERO + each * n + DELAY;
        let mut total = 0;
        let mut send = |busy: &mut Busy, now| {
            total += SIZE;
            busy.left(now, DELAY, total, capacity);
        };
        for n in 1..=100 {
            send(&mut busy, at(n));
        }
        // For 10 ms the link was slower, unknown to the measurement; five packets are on their way
        // then.
        busy.interrupt(at(105) + Duration::from_nanos(1));
        let pause = Duration::from_millis(10);
        for n in 101..=105 {
            send(&mut busy, at(n));
        }
        for n in 106..=200 {
            send(&mut busy, at(n) + pause);
        }
        let error = busy.error().unwrap();
        assert!(error.ratio.abs() < 1e-6, "{error:?}");
        // The count restarts at the first packet after it, the 106th.
        assert_eq!(error.bytes, 194 * SIZE);
    }

    #[test]
    fn nothing_is_said_of_next_to_nothing() {
        let each = Duration::from_micros(1200);
        // With one packet at a time, packets are never back to back.
        assert_eq!(run(200, 1, each, || Duration::ZERO), None);
        assert_eq!(run(1, 99, each, || Duration::ZERO), None);
        assert!(run(1, 100, each, || Duration::ZERO).is_some());
        assert_eq!(run(0, 0, each, || Duration::ZERO), None);
    }
}
