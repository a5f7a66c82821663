//! Slowdowns: from time to time the window falls to a few packets, so that the queue empties and
//! every flow of the bottleneck can measure its base RTT. LEDBAT++ has them
//! (draft-irtf-iccrg-ledbat-plus-plus 4.4), and other controllers may have the same (IETF 115, BBR
//! and LEDBAT++).

use paceline_units::{Bytes, Duration, Instant};

use crate::Ack;
use crate::options::choice;

/// Packets in a periodic slowdown, and its round trips (4.4).
pub(crate) const PACKETS: u64 = 2;
pub(crate) const ROUNDS: u32 = 2;
/// Time to the next one, as a multiple of the duration of slowdown and ramp (4.4).
pub(crate) const FACTOR: u32 = 9;
/// Round trips from the end of the initial slow start to the initial slowdown (4.4).
pub(crate) const INITIAL_ROUNDS: u64 = 2;
/// BBRv1's ProbeRTT: when it is due, how long it lasts, and how many packets are in flight.
pub(crate) const BBR_INTERVAL: Duration = Duration::from_secs(10);
pub(crate) const BBR_DURATION: Duration = Duration::from_millis(200);
pub(crate) const BBR_PACKETS: u32 = 4;

choice! {
    /// How often, for how long and how far the window is cut to measure the base RTT.
    pub enum Slowdown {
        /// As in the draft: two packets for two round trips, after nine times the duration of the
        /// last slowdown and its ramp.
        Periodic = "periodic" default,
        /// Like BBRv1's ProbeRTT: four packets for 200 ms and at least a round trip, 10 s after the
        /// base RTT was last measured.
        BbrStyle = "bbr-style",
    }
}

choice! {
    /// The slowdown of a controller that by its own specification has none.
    pub enum SharedSlowdown {
        /// None.
        Never = "never" default,
        /// LEDBAT++'s: two packets for two round trips, then slow start to the window before it;
        /// again after nine times the duration of both.
        Periodic = "periodic",
        /// BBRv1's: four packets for 200 ms and at least a round trip, 10 s after the minimum RTT
        /// was last measured; then the window before it.
        BbrStyle = "bbr-style",
    }
}

/// The settings of slowdowns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) kind: Slowdown,
    pub(crate) factor: u32,
    pub(crate) rounds: u32,
    pub(crate) interval: Duration,
    pub(crate) duration: Duration,
    pub(crate) packets: u32,
}

impl Rule {
    /// The source's values.
    pub(crate) const fn of(kind: Slowdown) -> Self {
        Self {
            kind,
            factor: FACTOR,
            rounds: ROUNDS,
            interval: BBR_INTERVAL,
            duration: BBR_DURATION,
            packets: BBR_PACKETS,
        }
    }

    /// The window in a slowdown.
    pub(crate) fn floor(&self, mss: Bytes) -> Bytes {
        mss * match self.kind {
            Slowdown::Periodic => PACKETS,
            Slowdown::BbrStyle => u64::from(self.packets),
        }
    }
}

/// BBR's filter: the minimum RTT since `stamp`, when a sample was last as low.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastRtt {
    pub(crate) least: Option<Duration>,
    pub(crate) stamp: Instant,
}

impl LeastRtt {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            least: None,
            stamp: now,
        }
    }

    /// Takes a sample. True if no other was as low for longer than `interval`: it is time to
    /// measure the base RTT.
    pub(crate) fn on_sample(&mut self, now: Instant, rtt: Duration, interval: Duration) -> bool {
        let expired = now.since(self.stamp) > interval;
        if expired || self.least.is_none_or(|least| rtt <= least) {
            (self.least, self.stamp) = (Some(rtt), now);
        }
        expired
    }
}

/// The times of slowdowns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The start of the slowdown, or of the one whose ramp is in progress.
    begin: Instant,
    /// When the next periodic slowdown is due.
    next: Option<Instant>,
    /// `bbr-style`: when the floor was reached, and the delivered data that completes a round from
    /// then.
    at_floor: Option<(Instant, Bytes)>,
}

impl Clock {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            begin: now,
            next: None,
            at_floor: None,
        }
    }

    pub(crate) fn is_planned(&self) -> bool {
        self.next.is_some()
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| now >= next)
    }

    pub(crate) fn plan(&mut self, next: Instant) {
        self.next = Some(next);
    }

    pub(crate) fn cancel(&mut self) {
        self.next = None;
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// Time since the slowdown began.
    pub(crate) fn took(&self, now: Instant) -> Duration {
        now.since(self.begin)
    }

    /// Whether the slowdown has lasted long enough.
    pub(crate) fn is_over(&mut self, rule: &Rule, ack: &Ack, srtt: Duration, mss: Bytes) -> bool {
        match (rule.kind, self.at_floor) {
            (Slowdown::Periodic, _) => self.took(ack.now) >= srtt * u64::from(rule.rounds),
            (Slowdown::BbrStyle, Some((since, round))) => {
                ack.delivered >= round && ack.now.since(since) >= rule.duration
            }
            (Slowdown::BbrStyle, None) => {
                if ack.in_flight <= rule.floor(mss) {
                    self.at_floor = Some((ack.now, ack.delivered + ack.in_flight));
                }
                false
            }
        }
    }
}

/// What a controller without slowdowns of its own does for the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    rule: Rule,
    clock: Clock,
    least: LeastRtt,
    stage: Stage,
}

/// Where it is between two slowdowns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Between,
    Floor,
    /// `periodic`: slow start to the window before the slowdown.
    Ramp,
}

impl Shared {
    /// None if there are no slowdowns.
    pub(crate) fn new(choice: SharedSlowdown, now: Instant) -> Option<Self> {
        let kind = match choice {
            SharedSlowdown::Never => return None,
            SharedSlowdown::Periodic => Slowdown::Periodic,
            SharedSlowdown::BbrStyle => Slowdown::BbrStyle,
        };
        Some(Self {
            rule: Rule::of(kind),
            clock: Clock::new(now),
            least: LeastRtt::new(now),
            stage: Stage::Between,
        })
    }

    /// The limit of the window, in a slowdown.
    pub(crate) fn limit(&self, mss: Bytes) -> Option<Bytes> {
        (self.stage == Stage::Floor).then(|| self.rule.floor(mss))
    }

    /// Whether the controller does not grow its window by its own rule.
    pub(crate) fn holds(&self) -> bool {
        self.stage != Stage::Between
    }

    /// A timeout or a pause takes the place of the slowdown.
    pub(crate) fn cancel(&mut self) {
        self.stage = Stage::Between;
        self.clock.cancel();
    }

    /// Begins or ends a slowdown. Returns the window from which slow start leads back, when that
    /// begins.
    pub(crate) fn on_ack(
        &mut self,
        ack: &Ack,
        srtt: Duration,
        mss: Bytes,
        in_slow_start: bool,
    ) -> Option<Bytes> {
        let periodic = self.rule.kind == Slowdown::Periodic;
        let sample = if periodic { None } else { ack.rtt };
        let expired =
            sample.is_some_and(|rtt| (self.least).on_sample(ack.now, rtt, self.rule.interval));
        if self.stage == Stage::Floor {
            if !self.clock.is_over(&self.rule, ack, srtt, mss) {
                return None;
            }
            if periodic {
                self.stage = Stage::Ramp;
                return Some(self.rule.floor(mss));
            }
            self.stage = Stage::Between;
            self.least.stamp = ack.now;
        } else if expired || self.clock.is_due(ack.now) {
            self.clock.begin(ack.now);
            self.stage = Stage::Floor;
        } else if periodic && !in_slow_start && !self.clock.is_planned() {
            let wait = match self.stage {
                Stage::Ramp => self.clock.took(ack.now) * u64::from(self.rule.factor),
                _ => srtt * INITIAL_ROUNDS,
            };
            self.clock.plan(ack.now + wait);
            self.stage = Stage::Between;
        }
        None
    }
}
