//! The options of LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus). The defaults are the draft's; open
//! points of the draft, and variants of other implementations, are options.

use paceline_units::{Duration, Gain, parameters};

use super::delay::MAX_HISTORY;
use crate::options::choice;
use crate::slowdown::{self, Rule, Slowdown};

choice! {
    /// The target for the queuing delay.
    pub enum TargetRule {
        /// The configured target.
        Fixed = "fixed" default,
        /// The minimum of the target and the base RTT.
        MinBaseRtt = "min-base-rtt",
    }
}

choice! {
    /// The target from which the gain is computed.
    pub enum GainTarget {
        /// The configured one, whatever the rule.
        Fixed = "fixed" default,
        /// The current one.
        Effective = "effective",
    }
}

choice! {
    /// How the window grows after a slowdown.
    pub enum RampGain {
        /// By the gain for each packet acknowledged, as in the initial slow start.
        Scaled = "gain-scaled" default,
        /// By a packet for each packet acknowledged.
        Doubling = "doubling",
    }
}

choice! {
    /// The condition that ends the ramp.
    pub enum RampEnd {
        /// Only the threshold.
        Threshold = "threshold" default,
        /// A queuing delay above the target too; the slowdown then counts as twice as long.
        Target = "target",
    }
}

choice! {
    /// How the decrease of a round trip is applied.
    pub enum DecreasePace {
        /// Spread over the acknowledgments, at most half a window in a round trip.
        Spread = "spread" default,
        /// All at once, and then not for a round trip.
        Once = "once",
    }
}

choice! {
    /// The quantity that a loss halves during a slowdown, and in the ramp after it.
    pub enum LossInSlowdown {
        /// The small window of that time: there is nothing left to ramp up to.
        Window = "window" default,
        /// The threshold: the window before the slowdown, which the losses belong to.
        Threshold = "threshold",
    }
}

parameters! {
    /// The options that a scenario may set.
    pub struct PlusPlusParameters {
        /// TARGET: the target queuing delay (4.5)
        target: Millis(1, 1000) = Duration::from_millis(60);
        /// with min-base-rtt the target is at most the base RTT (IETF 115, BBR and LEDBAT++)
        target_rule: Choice(TargetRule) = TargetRule::Fixed;
        /// The factor on the base RTT with target_rule = min-base-rtt
        base_rtt_share: Gain(10, 10_000) = Gain::ONE;
        /// The target from which the gain is computed; UC3M's receiver keeps the fixed one
        gain_target: Choice(GainTarget) = GainTarget::Fixed;
        /// The 16 of GAIN = 1 / min(16, ceil(2 TARGET / base)) (4.2)
        gain_constant: Count(1, 1000) = 16;
        /// Constant of the multiplicative decrease (4.3)
        decrease_constant: Gain(1, 10_000) = Gain::ONE;
        /// How the decrease of a round trip is applied; UC3M's receiver does it once (4.3)
        decrease: Choice(DecreasePace) = DecreasePace::Spread;
        /// periodic (4.4), or bbr-style (IETF 115, BBR and LEDBAT++)
        slowdown: Choice(Slowdown) = Slowdown::Periodic;
        /// Time from the end of a ramp to the next slowdown, as a multiple of the duration of
        /// slowdown and ramp (4.4)
        slowdown_factor: Count(1, 1000) = slowdown::FACTOR;
        /// Round trips of two packets in a periodic slowdown (4.4)
        slowdown_rounds: Count(1, 100) = slowdown::ROUNDS;
        /// A decrease delays the next slowdown by this; 30 s in XNU
        slowdown_deferral: Millis(0, HOUR_MS) = Duration::ZERO;
        /// bbr-style: time since the base RTT was last measured
        bbr_interval: Millis(100, HOUR_MS) = slowdown::BBR_INTERVAL;
        /// bbr-style: time at the floor, at least a round trip
        bbr_duration: Millis(0, HOUR_MS) = slowdown::BBR_DURATION;
        /// bbr-style: the floor in packets
        bbr_window: Count(1, 1000) = slowdown::BBR_PACKETS;
        /// Growth after a periodic slowdown, which the draft leaves open (4.4)
        ramp: Choice(RampGain) = RampGain::Scaled;
        /// threshold (4.1), or target as in XNU and in UC3M's receiver
        ramp_end: Choice(RampEnd) = RampEnd::Threshold;
        /// What a loss during a slowdown and its ramp halves
        loss_in_slowdown: Choice(LossInSlowdown) = LossInSlowdown::Window;
        /// Intervals whose minimum RTTs make the base RTT (RFC 6817 2.5)
        base_history: Count(1, 10) = MAX_HISTORY;
        /// Length of such an interval, a minute (RFC 6817 2.4.2)
        base_interval: Millis(100, HOUR_MS) = Duration::from_secs(60);
        /// Samples whose minimum is the current RTT, none older than a round trip; 10 in UC3M's receiver (RFC 6817
        /// 2.5)
        current_filter: Count(1, 10) = 4;
        /// Pace at 2 cwnd/srtt in slow start, at 1.2 cwnd/srtt after it (Linux)
        pacing: Flag = false;
    }
}

impl PlusPlusParameters {
    /// Those of slowdowns.
    pub(super) fn rule(&self) -> Rule {
        Rule {
            kind: self.slowdown,
            factor: self.slowdown_factor,
            rounds: self.slowdown_rounds,
            interval: self.bbr_interval,
            duration: self.bbr_duration,
            packets: self.bbr_window,
        }
    }
}

const HOUR_MS: u64 = 3_600_000;
