//! Two coupled queues, one of them for L4S (RFC 9332).

use paceline_units::limits::{MAX_RTT_NS, MIN_UPDATE_NS};
use paceline_units::options::Refusal;
use paceline_units::{Duration, Gain, Instant, Site, parameters};

use super::discipline::{Discipline, Fifo, Sink, Waiting};
use super::early::share;
use super::sums::add_repeatedly;
use crate::packet::{DropCause, Packet, QueueLimit};

parameters! {
    /// DualPI2 (RFC 9332, appendix A): a Classic queue and an L4S queue with coupled marking.
    ///
    /// With the overload code of A.2. The RFC leaves the scheduler open; this is a weighted round robin, as in Linux
    /// (`classic_protection`).
    pub struct DualPi2 {
        /// The target delay of the Classic queue.
        target: Nanos(MIN_UPDATE_NS, MAX_RTT_NS) = Duration::from_millis(15);
        /// The longest round-trip time for which it is stable, at most 100,000 times the target;
        /// the gains follow from it.
        rtt_max: Nanos(3 * MIN_UPDATE_NS, MAX_RTT_NS) = Duration::from_millis(100);
        /// The coupling factor `k`.
        coupling: Count(1, 1000) = 2;
        /// The sojourn time in the L4S queue at which marking begins (`minTh`).
        ramp_min: Nanos(0, MAX_RTT_NS) = Duration::from_micros(800);
        /// How far above that every packet is marked (`range`).
        ramp_range: Nanos(0, MAX_RTT_NS) = Duration::from_micros(400);
        /// The minimum share of the Classic queue while both have packets.
        classic_share: Share = Gain::from_millionths(100_000);
    }
    check DualPi2::refuses
}

/// The longest round-trip time, in targets. While a head waits, the probability climbs from 0 to 1
/// in 2.4 `rtt_max`, with an update each `target`: all of them may be due at one event.
const MOST_TARGETS: u64 = 100_000;

/// The L4S queue marks none of its own packets while it holds at most this many (`Th_len`).
const RAMP_PACKETS: u64 = 1;

impl DualPi2 {
    fn refuses(&self, _: &Site) -> Option<Refusal> {
        (self.rtt_max > self.target * MOST_TARGETS).then_some(Refusal {
            option: "rtt_max",
            message: "is more than 100,000 times `target`",
            hint: "the probability is updated once a target; give a longer target or a shorter rtt_max",
        })
    }

    /// Appendix A.1: the sampling interval, and the gains per second.
    fn controller(&self) -> (Duration, f64, f64) {
        let update = self
            .target
            .min(self.rtt_max / 3)
            .max(Duration::from_nanos(1));
        let rtt_max = self.rtt_max.as_secs_f64();
        let alpha = 0.1 * update.as_secs_f64() / (rtt_max * rtt_max);
        (update, alpha, 0.3 / rtt_max)
    }

    /// `p_Cmax`: at or above it, ECN-capable packets are dropped, too.
    fn most_classic(&self) -> f64 {
        let k = f64::from(self.coupling);
        (1.0 / (k * k)).min(1.0)
    }
}

/// One of the two queues.
struct Lane<P> {
    fifo: Fifo<P>,
    /// The count that `recur` accumulates.
    count: f64,
}

impl<P: Packet> Lane<P> {
    fn new() -> Self {
        Self {
            fifo: Fifo::new(),
            count: 0.0,
        }
    }

    /// Returns true as often as the likelihood says, at even distances.
    fn recur(&mut self, likelihood: f64) -> bool {
        self.count += likelihood;
        let fires = self.count > 1.0;
        if fires {
            self.count -= 1.0;
        }
        fires
    }

    /// Sojourn time of the head.
    fn delay(&self, now: Instant) -> Duration {
        self.fifo
            .since()
            .map_or(Duration::ZERO, |since| now.since(since))
    }
}

/// The two queues and their controller.
pub(crate) struct DualPi2Queue<P> {
    config: DualPi2,
    /// The largest packet, in bytes: for the scheduler's first turn, and for the space that must be
    /// free before a packet is accepted.
    max_packet: u64,
    l4s: Lane<P>,
    classic: Lane<P>,
    /// `p'`.
    base: f64,
    /// `prevq`.
    old_delay: Duration,
    next_update: Instant,
    /// The scheduler's balance: while it is above zero, it is the Classic queue's turn.
    credit: f64,
}

impl<P: Packet> Discipline<P> for DualPi2Queue<P> {
    type Options = DualPi2;

    fn new(config: DualPi2, site: &Site, _: u64) -> Self {
        let mut queue = Self {
            l4s: Lane::new(),
            classic: Lane::new(),
            base: 0.0,
            old_delay: Duration::ZERO,
            next_update: Instant::ZERO + config.controller().0,
            credit: 0.0,
            config,
            max_packet: site.mtu.get(),
        };
        queue.first_turn();
        queue
    }

    /// Appendix A.1: ECT(1) and CE to the L4S queue, the rest to the Classic queue.
    fn enqueue(
        &mut self,
        now: Instant,
        packet: P,
        _: Option<QueueLimit>,
        _: &mut Sink<'_, P>,
    ) -> Result<(), DropCause> {
        self.catch_up(now);
        match packet.is_l4s() {
            true => self.l4s.fifo.push(now, packet),
            false => self.classic.fifo.push(now, packet),
        }
        Ok(())
    }

    /// Appendix A.1 and A.2.
    fn dequeue(&mut self, now: Instant, sink: &mut Sink<'_, P>) -> Option<P> {
        self.catch_up(now);
        loop {
            let (head, l4s, credit) = self.schedule()?;
            let mut packet = head.packet;
            let dropped = match l4s {
                true => self.judge_l4s(&mut packet, now.since(head.since), sink),
                false => self.judge_classic(&mut packet, sink),
            };
            if dropped {
                sink.drop(now, packet, DropCause::Early);
            } else {
                self.credit += credit;
                return Some(packet);
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.l4s.fifo.bytes() + self.classic.fifo.bytes()
    }

    fn packets(&self) -> u64 {
        self.l4s.fifo.packets() + self.classic.fifo.packets()
    }

    /// ACKs are not ECN-capable (RFC 3168 section 6.1.4), and wait in the Classic queue.
    fn remove(&mut self, _: u64, pick: impl FnOnce(&Fifo<P>) -> Option<usize>) -> Option<P> {
        self.classic.fifo.take(pick)
    }

    /// Appendix A.1: require space for the largest packet, so that small ones are not favoured.
    fn space_for(&self, size: u32) -> u64 {
        self.max_packet.max(u64::from(size))
    }
}

impl<P: Packet> DualPi2Queue<P> {
    /// Marks or drops a packet that leaves the L4S queue; true if it is to be dropped.
    fn judge_l4s(&mut self, packet: &mut P, sojourn: Duration, sink: &mut Sink<'_, P>) -> bool {
        let coupled = f64::from(self.config.coupling) * self.base;
        // A.2: the L4S queue is overloaded too, so it drops like the Classic one.
        if coupled >= 1.0 {
            let classic = self.base * self.base;
            if self.l4s.recur(classic) {
                return true;
            }
            if self.l4s.recur(coupled.min(1.0)) {
                sink.mark(packet);
            }
            return false;
        }
        // The packet itself has been dequeued; the RFC's text counts it, while its line 5a after 4a
        // would not.
        let alone = self.l4s.fifo.packets() < RAMP_PACKETS;
        let own = if alone { 0.0 } else { self.ramp(sojourn) };
        if self.l4s.recur(own.max(coupled)) {
            sink.mark(packet);
        }
        false
    }

    /// Marks or drops a packet that leaves the Classic queue; true if it is to be dropped.
    fn judge_classic(&mut self, packet: &mut P, sink: &mut Sink<'_, P>) -> bool {
        let classic = self.base * self.base;
        self.classic.recur(classic) && (classic >= self.config.most_classic() || !sink.mark(packet))
    }

    /// `laqm`: rises from zero at `minTh` to one at `minTh` plus `range`.
    fn ramp(&self, sojourn: Duration) -> f64 {
        let above = sojourn - self.config.ramp_min;
        if sojourn <= self.config.ramp_min {
            0.0
        } else if above >= self.config.ramp_range {
            1.0
        } else {
            above.as_nanos() as f64 / self.config.ramp_range.as_nanos() as f64
        }
    }

    /// Whose turn it is: the packet, whether it is from the L4S queue, and by how much transmitting
    /// it changes the balance.
    fn schedule(&mut self) -> Option<(Waiting<P>, bool, f64)> {
        let share = share(self.config.classic_share);
        let classic_waits = !self.classic.fifo.is_empty();
        let size = |head: &Waiting<P>| f64::from(head.packet.size());
        if !(classic_waits && self.credit > 0.0)
            && let Some(head) = self.l4s.fifo.pop()
        {
            let credit = if classic_waits {
                share * size(&head)
            } else {
                0.0
            };
            return Some((head, true, credit));
        }
        if let Some(head) = self.classic.fifo.pop() {
            let contested = !self.l4s.fifo.is_empty();
            let credit = if contested {
                (share - 1.0) * size(&head)
            } else {
                0.0
            };
            return Some((head, false, credit));
        }
        self.first_turn();
        None
    }

    /// After an idle period the queue with the greater weight begins.
    fn first_turn(&mut self) {
        self.credit = self.max_packet as f64 * (2.0 * share(self.config.classic_share) - 1.0);
    }

    /// Does the updates that were due up to `now`. Updates that change nothing, or that all change
    /// the same amount, are done together.
    fn catch_up(&mut self, now: Instant) {
        while self.next_update <= now {
            let (every, alpha, beta) = self.config.controller();
            let (base, old_delay) = (self.base, self.old_delay);
            self.update(self.next_update, alpha, beta);
            self.next_update += every;
            if now < self.next_update {
                return;
            }
            let due = now.since(self.next_update).as_nanos() / every.as_nanos() + 1;
            let skipped = if self.packets() > 0 {
                self.settled(every).min(due)
            } else if old_delay > Duration::ZERO {
                0
            } else if self.base == base {
                due
            } else {
                let step = self.step(Duration::ZERO, alpha, beta);
                let (base, done) = add_repeatedly(self.base, step, &(0.0..1.0), due);
                self.base = base.clamp(0.0, 1.0);
                done
            };
            if skipped > 0 {
                self.next_update += every * (skipped - 1);
                self.old_delay = self.delay(self.next_update);
                self.next_update += every;
            }
        }
    }

    /// The number of updates that leave the probability at 0 or 1 while the head keeps waiting.
    fn settled(&self, every: Duration) -> u64 {
        if self.base == 1.0 && self.old_delay >= self.config.target {
            return u64::MAX;
        }
        // The probability never rises while the delay is below the target by more than `beta`
        // intervals over `alpha`, that is three of the longest round trips; four leave room for
        // rounding.
        let low = self.config.target - self.config.rtt_max * 4;
        let below = (low - self.delay(self.next_update)).as_nanos();
        match self.base == 0.0 && below > 0 {
            true => below / every.as_nanos() + 1,
            false => 0,
        }
    }

    /// A.2: the longer of the two delays counts.
    fn delay(&self, at: Instant) -> Duration {
        self.classic.delay(at).max(self.l4s.delay(at))
    }

    /// The amount that an update adds to the probability.
    fn step(&self, delay: Duration, alpha: f64, beta: f64) -> f64 {
        let (now, old) = (delay.as_secs_f64(), self.old_delay.as_secs_f64());
        alpha * (now - self.config.target.as_secs_f64()) + beta * (now - old)
    }

    /// Appendix A.1, `dualpi2_update`.
    fn update(&mut self, at: Instant, alpha: f64, beta: f64) {
        let delay = self.delay(at);
        self.base = (self.base + self.step(delay, alpha, beta)).clamp(0.0, 1.0);
        self.old_delay = delay;
    }
}

#[cfg(test)]
mod tests {
    use super::super::AnyDiscipline;
    use super::super::discipline::testing::{Discarded, Probe, SITE};
    use super::*;
    use proptest::prelude::*;

    fn us(n: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(n)
    }

    fn ms(n: u64) -> Instant {
        us(n * 1000)
    }

    fn dual() -> DualPi2Queue<Probe> {
        DualPi2Queue::new(DualPi2::default(), &SITE, 1)
    }

    fn probe(number: u32, ecn: u8) -> Probe {
        Probe {
            ecn,
            ..Probe::new(number, 1500)
        }
    }

    fn put(queue: &mut DualPi2Queue<Probe>, at: Instant, probe: Probe) {
        let taken = queue.enqueue(at, probe, None, &mut Discarded::new().sink());
        assert_eq!(taken, Ok(()));
    }

    fn near(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-9, "{value}, not {wanted}");
    }

    #[test]
    fn the_gains_follow_from_the_longest_round_trip() {
        let (update, alpha, beta) = dual().config.controller();
        assert_eq!(update, Duration::from_millis(15));
        near(alpha, 0.15);
        near(beta, 3.0);
        near(dual().config.most_classic(), 0.25);
        // A third of 30 ms is less than the target.
        let mut queue = dual();
        queue.config.rtt_max = Duration::from_millis(30);
        assert_eq!(queue.config.controller().0, Duration::from_millis(10));
    }

    /// By hand, a packet that arrives at 0 and stays: at 15 ms the delay is 15 ms, so p' = 0.15 x 0
    /// + 3 x 0.015 = 0.045; at 30 ms it grows by 0.15 x 0.015 + 3 x 0.015 = 0.04725.
    #[test]
    fn the_base_probability_is_proportional_and_integral() {
        let mut queue = dual();
        put(&mut queue, ms(0), probe(0, 0));
        queue.catch_up(ms(15));
        near(queue.base, 0.045);
        queue.catch_up(ms(30));
        near(queue.base, 0.092_25);
        // The packet is gone: 0.15 x -0.015 - 3 x 0.03 = -0.09225, limited to zero.
        let mut discarded = Discarded::new();
        queue.dequeue(ms(31), &mut discarded.sink()).unwrap();
        queue.catch_up(ms(45));
        near(queue.base, 0.0);
        queue.catch_up(ms(60));
        assert_eq!(queue.base, 0.0);
    }

    /// Line 2a of figure 8: an L4S packet of 0 ms waits longer than a Classic one of 5 ms.
    #[test]
    fn the_longer_delay_drives_the_base_probability() {
        for (l4s, classic) in [(0, 5), (5, 0)] {
            let mut queue = dual();
            let mut coming = [(l4s, 2), (classic, 0)];
            coming.sort_unstable();
            for (at, ecn) in coming {
                put(&mut queue, ms(at), probe(0, ecn));
            }
            queue.catch_up(ms(15));
            near(queue.base, 0.045);
        }
    }

    /// Line 2 of figure 3: 3000 bytes and the largest packet are 4500, whatever size arrives.
    #[test]
    fn there_must_be_space_for_the_largest() {
        let mut discarded = Discarded::new();
        for (limit, fits) in [(4500, true), (4499, false)] {
            let mut queue = AnyDiscipline::DualPi2(dual());
            let limit = Some(QueueLimit::Bytes(limit));
            for (size, fits) in [(1500, true), (1500, true), (40, fits)] {
                let probe = Probe::new(0, size);
                let taken = queue.enqueue(ms(0), probe, limit, &mut discarded.sink());
                assert_eq!(taken.is_ok(), fits, "{limit:?}, {size}");
            }
        }
    }

    #[test]
    fn the_square_and_the_double_come_at_even_distances() {
        // p' = 0.25: one Classic packet in 16, every other L4S packet. A count fires above one, so
        // the 17th packet is the first for Classic and the third for L4S.
        let (mut queue, mut discarded) = (dual(), Discarded::new());
        queue.base = 0.25;
        queue.next_update = Instant::MAX;
        let mut pass = |ecn: u8| -> (Vec<u32>, Vec<u32>) {
            (0..50).for_each(|number| put(&mut queue, ms(0), probe(number, ecn)));
            let passed: Vec<Probe> =
                std::iter::from_fn(|| queue.dequeue(ms(0), &mut discarded.sink())).collect();
            let marked = passed.iter().filter(|probe| probe.marked);
            let marked = marked.map(|probe| probe.number).collect();
            (
                marked,
                std::mem::take(&mut discarded.dropped)
                    .iter()
                    .map(|(_, p, _)| p.number)
                    .collect(),
            )
        };
        assert_eq!(pass(0), (vec![], vec![16, 32, 48]));
        // 0.125 remains.
        assert_eq!(pass(1), (vec![14, 30, 46], vec![]));
        let (marked, dropped) = pass(2);
        assert_eq!(marked, (2..50).step_by(2).collect::<Vec<u32>>());
        assert!(dropped.is_empty());
    }

    #[test]
    fn the_ramp_marks_from_800_to_1200_us() {
        let queue = dual();
        let at = |us| queue.ramp(Duration::from_micros(us));
        assert_eq!(
            [at(0), at(800), at(1000), at(1200), at(5000)],
            [0.0, 0.0, 0.5, 1.0, 1.0]
        );
        // All packets of a standing queue but the last, which is alone.
        let (mut queue, mut discarded) = (dual(), Discarded::new());
        (0..5).for_each(|number| put(&mut queue, us(0), probe(number, 2)));
        let marked: Vec<bool> = (0..5)
            .map(|_| {
                queue
                    .dequeue(us(2000), &mut discarded.sink())
                    .unwrap()
                    .marked
            })
            .collect();
        // The first brings the count to one, not above it.
        assert_eq!(marked, [false, true, true, true, false]);
    }

    #[test]
    fn overload_drops_in_both_and_marks_no_longer_help() {
        let (mut queue, mut discarded) = (dual(), Discarded::new());
        queue.next_update = Instant::MAX;
        // p' = 0.5: p_CL = 1, p_C = 0.25 = p_Cmax. One in four is dropped, ECN-capable or not.
        queue.base = 0.5;
        for ecn in [0, 1] {
            (0..100).for_each(|number| put(&mut queue, ms(0), probe(number, ecn)));
        }
        while queue.dequeue(ms(0), &mut discarded.sink()).is_some() {}
        assert!(
            (49..=50).contains(&discarded.dropped.len()),
            "{}",
            discarded.dropped.len()
        );
        assert_eq!(discarded.counters.marked.packets, 0);
        let before = discarded.dropped.len();
        (0..100).for_each(|number| put(&mut queue, ms(0), probe(number, 2)));
        let passed: Vec<Probe> =
            std::iter::from_fn(|| queue.dequeue(ms(0), &mut discarded.sink())).collect();
        // The packets that pass are marked; both use one count, as in the RFC.
        let dropped = discarded.dropped.len() - before;
        assert_eq!(passed.len() + dropped, 100);
        assert!((20..=50).contains(&dropped), "{dropped}");
        assert!(passed.iter().filter(|probe| probe.marked).count() >= passed.len() - 2);
    }

    #[test]
    fn l4s_goes_first_and_classic_gets_its_share() {
        let (mut queue, mut discarded) = (dual(), Discarded::new());
        queue.next_update = Instant::MAX;
        for number in 0..1000 {
            put(&mut queue, ms(0), probe(number, 0));
            put(&mut queue, ms(0), probe(1000 + number, 2));
        }
        let order: Vec<bool> = (0..1000)
            .map(|_| queue.dequeue(ms(0), &mut discarded.sink()).unwrap().ecn == 2)
            .collect();
        assert!(order[..9].iter().all(|l4s| *l4s));
        let classic = order.iter().filter(|l4s| !**l4s).count();
        assert!((98..=101).contains(&classic), "{classic}");
        // A queue on its own gets all of the capacity.
        let (mut queue, mut discarded) = (dual(), Discarded::new());
        (0..10).for_each(|number| put(&mut queue, ms(0), probe(number, 0)));
        let alone = std::iter::from_fn(|| queue.dequeue(ms(0), &mut discarded.sink()));
        assert_eq!(alone.count(), 10);
    }

    /// 30 days in steps of 10 us: 2.6e11 steps, idle or with a packet waiting.
    #[test]
    fn a_month_without_a_packet_takes_no_time() {
        let month = Instant::ZERO + Duration::from_secs(30 * 24 * 3600);
        for (rtt_max, waits) in [(100_000, false), (30, false), (30, true)] {
            let mut queue = dual();
            queue.config.target = Duration::from_nanos(MIN_UPDATE_NS);
            queue.config.rtt_max = Duration::from_millis(rtt_max);
            queue.next_update = ms(1);
            queue.base = 0.01;
            if waits {
                put(&mut queue, us(1), probe(0, 0));
            }
            queue.catch_up(month);
            assert!(queue.next_update > month);
        }
    }

    /// By hand, with n updates of `u` and x = n u / rtt_max: beta n u + alpha u n^2 / 2 = 0.3 x + 0.05 x^2, which is 1 at
    /// x = 2.385.
    #[test]
    fn a_head_that_waits_does_not_make_it_climb_for_long() {
        let mut queue = dual();
        queue.config.target = Duration::from_nanos(MIN_UPDATE_NS);
        queue.config.rtt_max = queue.config.target * MOST_TARGETS;
        assert_eq!(queue.config.refuses(&SITE), None);
        let (every, alpha, beta) = queue.config.controller();
        queue.next_update = Instant::ZERO + every;
        queue.classic.fifo.push(Instant::ZERO, probe(0, 0));
        let mut updates = 0;
        while queue.base < 1.0 {
            queue.update(queue.next_update, alpha, beta);
            queue.next_update += every;
            updates += 1;
        }
        assert!((238_500..238_540).contains(&updates), "{updates}");
        queue.config.rtt_max += Duration::from_nanos(1);
        assert_eq!(queue.config.refuses(&SITE).unwrap().option, "rtt_max");
    }

    /// All at once or one update after another gives the same result to the last bit.
    fn compare(start: impl Fn() -> DualPi2Queue<Probe>, due: u64) {
        let (mut queue, mut looped) = (start(), start());
        let (every, alpha, beta) = queue.config.controller();
        let now = queue.next_update + every * due;
        queue.catch_up(now);
        while looped.next_update <= now {
            looped.update(looped.next_update, alpha, beta);
            looped.next_update += every;
        }
        let state = |queue: &DualPi2Queue<Probe>| {
            let base = queue.base.to_bits();
            (base, queue.old_delay, queue.next_update)
        };
        assert_eq!(state(&queue), state(&looped));
    }

    /// A head that waits from 20 ms on: the probability stays at 0 or 1 as long as the delay is far
    /// below the target, or above it, and moves in between.
    #[test]
    fn a_head_that_waits_moves_the_probability_from_its_end() {
        for (base, old_delay) in [(0.0, 0), (1.0, 0), (1.0, 1), (0.0, 900), (1.0, 2_000)] {
            for due in 0..120 {
                let start = || {
                    let mut queue = dual();
                    queue.config.target = Duration::from_millis(1);
                    queue.config.rtt_max = Duration::from_micros(30);
                    queue.next_update = us(20_200);
                    queue.base = base;
                    queue.old_delay = Duration::from_micros(old_delay);
                    queue.classic.fifo.push(us(20_000), probe(0, 0));
                    queue
                };
                compare(start, due);
            }
        }
    }

    proptest! {
        #[test]
        fn updates_at_once_are_those_of_a_loop(
            (target, rtt_max, small) in (10..3_000_u64, 30..10_000_u64, 0..3_u32),
            (base, end) in (0.0..1.0_f64, 0..4_u8),
            (old_delay, waits) in (0..5_000_u64, 0..3_u8),
            (since, due) in (14_000..20_000_u64, 0..10_000_u64),
        ) {
            let start = || {
                let mut queue = dual();
                let rtt_max = (rtt_max / 10_u64.pow(small)).max(30);
                queue.config.target = Duration::from_micros(target);
                queue.config.rtt_max = Duration::from_micros(rtt_max);
                queue.next_update = us(20_003);
                queue.base = match end { 0 => 0.0, 1 => 1.0, _ => base };
                queue.old_delay = Duration::from_micros(old_delay);
                match waits {
                    0 => {}
                    1 => queue.classic.fifo.push(us(since), probe(0, 0)),
                    _ => queue.l4s.fifo.push(us(since), probe(0, 1)),
                }
                queue
            };
            compare(start, due);
        }
    }
}
