//! Impairments other than queueing: random draws, losses, policing, late arrival.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use paceline_units::{Duration, Gain, Instant, Loss, Policer, Rng};

/// Something that happens to each packet with the same probability, independently of others.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    pub(crate) probability: Gain,
    rng: Rng,
}

impl Chance {
    pub(crate) fn new(probability: Gain, seed: u64) -> Self {
        Self {
            probability,
            rng: Rng::new(seed),
        }
    }

    /// Whether the probability is zero.
    pub(crate) fn is_none(&self) -> bool {
        self.probability == Gain::from_millionths(0)
    }

    /// Whether it happens to the next packet. Draws only if the probability is not zero.
    #[inline]
    pub(crate) fn strikes(&mut self) -> bool {
        !self.is_none()
            && self.rng.below(u64::from(Gain::SCALE)) < u64::from(self.probability.millionths())
    }
}

/// Each draw has its own stream, separate from that of the good state.
const LOSS_STREAMS: [u64; 3] = [
    0x6261_6464_6c6f_7373,
    0x746f_2062_6164_2020,
    0x746f_2067_6f6f_6420,
];

/// Which packets of a link are lost: [`Loss`] at run time.
#[derive(Clone, Debug)]
pub struct LossState {
    /// Loss in the good state, or in the only one.
    good: Chance,
    burst: Option<BurstState>,
    seed: u64,
}

#[derive(Clone, Debug)]
struct BurstState {
    loss: Chance,
    worsens: Chance,
    mends: Chance,
    is_bad: bool,
}

impl LossState {
    /// That of a link with this seed, before the first packet.
    pub fn new(loss: Loss, seed: u64) -> Self {
        let mut state = Self {
            good: Chance::new(Gain::default(), seed),
            burst: None,
            seed,
        };
        state.set(loss);
        state
    }

    /// Changes the loss; bursts begin in the good state.
    pub(crate) fn set(&mut self, loss: Loss) {
        let stream = |number: usize| Rng::new(self.seed ^ LOSS_STREAMS[number]).next_u64();
        match loss {
            Loss::Independent(probability) => {
                self.good.probability = probability;
                self.burst = None;
            }
            Loss::Burst(burst) => {
                self.burst = Some(BurstState {
                    loss: Chance::new(burst.bad, stream(0)),
                    worsens: Chance::new(burst.p, stream(1)),
                    mends: Chance::new(burst.r, stream(2)),
                    is_bad: false,
                });
                self.good.probability = burst.good;
            }
        }
    }

    /// Whether nothing is lost.
    pub fn is_none(&self) -> bool {
        self.burst.is_none() && self.good.is_none()
    }

    /// Whether the next packet is lost.
    #[inline(never)]
    pub fn strikes(&mut self) -> bool {
        let Some(burst) = &mut self.burst else {
            return self.good.strikes();
        };
        if burst.is_bad {
            burst.is_bad = !burst.mends.strikes();
            burst.loss.strikes()
        } else {
            burst.is_bad = burst.worsens.strikes();
            self.good.strikes()
        }
    }
}

/// A token bucket: a packet passes if the bucket holds as many tokens as it has bytes.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    policer: Policer,
    /// In bit-nanoseconds per second, so that rounding loses nothing.
    tokens: u128,
    since: Instant,
}

impl TokenBucket {
    const PER_BYTE: u128 = 8 * Duration::NANOS_PER_SEC as u128;

    /// A full bucket.
    pub(crate) fn new(policer: Policer, now: Instant) -> Self {
        Self {
            policer,
            tokens: u128::from(policer.burst.get()) * Self::PER_BYTE,
            since: now,
        }
    }

    pub(crate) fn passes(&mut self, now: Instant, size: u32) -> bool {
        let Policer { rate, burst } = self.policer;
        let gained = u128::from(rate.bps()) * u128::from(now.since(self.since).as_nanos());
        let full = u128::from(burst.get()) * Self::PER_BYTE;
        self.tokens = self.tokens.saturating_add(gained).min(full);
        self.since = now;
        let price = u128::from(size) * Self::PER_BYTE;
        let passes = price <= self.tokens;
        if passes {
            self.tokens -= price;
        }
        passes
    }
}

/// Packets that arrive out of order.
pub(crate) struct Late<P> {
    heap: BinaryHeap<Straggler<P>>,
    order: u64,
}

struct Straggler<P> {
    due: Instant,
    order: u64,
    packet: P,
}

impl<P> Late<P> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            order: 0,
        }
    }

    /// Among packets due at the same time, the first inserted comes out first.
    pub(crate) fn put(&mut self, due: Instant, packet: P) {
        self.order += 1;
        self.heap.push(Straggler {
            due,
            order: self.order,
            packet,
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|straggler| straggler.due)
    }

    pub(crate) fn take(&mut self, now: Instant) -> Option<P> {
        self.next().filter(|due| *due <= now)?;
        self.heap.pop().map(|straggler| straggler.packet)
    }
}

impl<P> Ord for Straggler<P> {
    /// Reversed: the heap returns the maximum, and we want the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

impl<P> PartialOrd for Straggler<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Straggler<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Straggler<P> {}

/// The first multiple of `slot` at or after `at`; `at` itself without slots.
fn next_slot(at: Instant, slot: Duration) -> Instant {
    match at.as_nanos().checked_rem(slot.as_nanos()) {
        None | Some(0) => at,
        Some(past) => at + (slot - Duration::from_nanos(past)),
    }
}

/// When a link lets departing packets go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants {
    /// Requests and grants are at its multiples.
    pub(crate) slot: Duration,
    /// How long after a request its grant is, if not zero.
    pub(crate) delay: Duration,
    /// The grant of the last packet that has been planned, and of the last that has departed.
    planned: Instant,
    departed: Instant,
}

impl Grants {
    /// Whether packets leave as they depart.
    pub(crate) fn is_none(&self) -> bool {
        self.slot.max(self.delay) == Duration::ZERO
    }

    /// When a packet leaves that is planned to depart `at` this time.
    pub(crate) fn plan(&mut self, at: Instant) -> Instant {
        next_grant(at, self.slot, self.delay, &mut self.planned)
    }

    /// A packet has departed `at` this time.
    #[inline(always)]
    pub(crate) fn on_departure(&mut self, at: Instant) {
        if self.delay > Duration::ZERO {
            self.grant(at);
        }
    }

    #[cold]
    #[inline(never)]
    fn grant(&mut self, at: Instant) {
        next_grant(at, self.slot, self.delay, &mut self.departed);
    }

    /// Discards the plan for the packets that have not departed.
    pub(crate) fn discard_plan(&mut self) {
        self.planned = self.departed;
    }
}

/// When a packet that is ready `at` a time is granted its transmission, `delay` after the request;
/// `latest` is the grant of the packet before. Requests and grants are at multiples of `slot`, and
/// what comes while one is pending is requested with the transmission that it grants.
fn next_grant(at: Instant, slot: Duration, delay: Duration, latest: &mut Instant) -> Instant {
    let request = next_slot(at, slot);
    if delay == Duration::ZERO {
        return request;
    }
    let granted = |request| next_slot(request + delay, slot);
    if granted(request) > *latest {
        *latest = granted(request.max(*latest));
    }
    *latest
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_units::{BurstLoss, Bytes, Rate};
    use proptest::prelude::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    #[test]
    fn a_bucket_holds_its_burst_and_fills_at_its_rate() {
        // 3000 B at once, then 1000 B every millisecond.
        let policer = Policer {
            rate: Rate::from_bps(8_000_000),
            burst: Bytes::new(3000),
        };
        let mut bucket = TokenBucket::new(policer, ms(0));
        let passed: Vec<bool> = [(0, 1500), (0, 1500), (0, 1), (1, 1500), (2, 1500), (2, 501)]
            .map(|(at, size)| bucket.passes(ms(at), size))
            .into();
        assert_eq!(passed, [true, true, false, false, true, false]);
        // It is full again after 3 ms, and holds no more after 100 ms.
        assert!(bucket.passes(ms(100), 3000));
        assert!(!bucket.passes(ms(100), 1));
    }

    #[test]
    fn slots_begin_at_their_multiples() {
        let slot = Duration::from_millis(5);
        assert_eq!(
            [0, 1, 5, 6].map(|t| next_slot(ms(t), slot)),
            [0, 5, 5, 10].map(ms)
        );
        assert_eq!(next_slot(ms(7), Duration::ZERO), ms(7));
        assert_eq!(next_slot(Instant::MAX, slot), Instant::MAX);
    }

    /// A MAP interval of 2 ms and a request-grant delay of 3 ms, so 4.
    #[test]
    fn a_grant_follows_the_request_of_its_packets() {
        let [slot, delay] = [2, 3].map(Duration::from_millis);
        let mut latest = Instant::ZERO;
        let mut grants = |times: &[u64]| -> Vec<u64> {
            let each = times
                .iter()
                .map(|at| next_grant(ms(*at), slot, delay, &mut latest));
            each.map(|at| at.as_nanos() / 1_000_000).collect()
        };
        // Requested at 2 and granted at 6, when the others are requested.
        assert_eq!(grants(&[1, 2, 3, 5, 6]), [6, 6, 10, 10, 10]);
        // From 10 on nothing is pending.
        assert_eq!(grants(&[7, 15, 16]), [14, 20, 20]);
        assert_eq!(grants(&[25]), [30]);
        let mut latest = ms(50);
        let mut grant = |at, slot, delay| next_grant(ms(at), slot, delay, &mut latest);
        assert_eq!(grant(25, slot, Duration::ZERO), ms(26));
        // Without slots a request is made at once.
        let none = Duration::ZERO;
        assert_eq!(
            [60, 61, 63, 66].map(|at| grant(at, none, delay)),
            [63, 66, 66, 69].map(ms)
        );
    }

    fn percent(n: u32) -> Gain {
        Gain::from_millionths(n * 10_000)
    }

    #[test]
    fn bursts_are_as_long_and_as_frequent_as_said() {
        let burst = BurstLoss {
            p: percent(1),
            r: percent(20),
            good: percent(0),
            bad: percent(100),
        };
        let mut loss = LossState::new(Loss::Burst(burst), 3);
        let fates: Vec<bool> = (0..500_000).map(|_| loss.strikes()).collect();
        let lost = fates.iter().filter(|lost| **lost).count() as f64;
        // 0.01 / 0.21 of all packets, in bursts of 5.
        assert!(
            (lost / 500_000.0 / (0.01 / 0.21) - 1.0).abs() < 0.05,
            "{lost}"
        );
        let bursts = fates.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        assert!(
            (lost / bursts / 5.0 - 1.0).abs() < 0.05,
            "{}",
            lost / bursts
        );
    }

    #[test]
    fn each_state_loses_with_its_own_probability() {
        // Always bad after the first packet.
        let burst = BurstLoss {
            p: percent(100),
            r: percent(0),
            good: percent(100),
            bad: percent(30),
        };
        let mut loss = LossState::new(Loss::Burst(burst), 3);
        assert!(loss.strikes());
        let lost = (0..100_000).filter(|_| loss.strikes()).count();
        assert!((29_000..31_000).contains(&lost), "{lost}");
        loss.set(Loss::Independent(percent(2)));
        let lost = (0..100_000).filter(|_| loss.strikes()).count();
        assert!((1_800..2_200).contains(&lost), "{lost}");
    }

    proptest! {
        /// For any offered load, at most the burst plus the tokens earned since then pass.
        #[test]
        fn a_policer_passes_no_more_than_it_may(
            rate in 1u64..1_000_000_000, burst in 0u64..100_000,
            packets in prop::collection::vec((0u64..10_000_000, 40u32..3000), 1..200),
        ) {
            let policer = Policer { rate: Rate::from_bps(rate), burst: Bytes::new(burst) };
            let mut bucket = TokenBucket::new(policer, Instant::ZERO);
            let (mut now, mut passed) = (Instant::ZERO, 0);
            for (gap, size) in packets {
                now += Duration::from_nanos(gap);
                if bucket.passes(now, size) {
                    passed += u64::from(size);
                }
                let most = burst + policer.rate.volume_in(now.since(Instant::ZERO)).get();
                prop_assert!(passed <= most + 1, "{passed} of {most}");
            }
        }
    }
}
