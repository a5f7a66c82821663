//! LEDBAT++'s options. The defaults are the draft's; what it leaves open, and what others do, can be
//! chosen.

use paceline_units::{Duration, Gain};

use super::delay::MAX_HISTORY;
use crate::options::{OptionSpec, choice, option};

choice! {
    /// What the queuing delay is held to.
    TargetRule {
        /// The target as it is.
        Fixed = "fixed",
        /// The least of the target and the base RTT.
        MinBaseRtt = "min-base-rtt",
    }
}

choice! {
    /// Which target the gain is computed from.
    GainTarget {
        /// The fixed one, whatever the rule.
        Fixed = "fixed",
        /// The one in force.
        Effective = "effective",
    }
}

choice! {
    /// How often, for how long and how far the window is cut to see the base RTT.
    Slowdown {
        /// As the draft: two packets for two round trips, after nine times as long as the last
        /// slowdown and its ramp took.
        Periodic = "periodic",
        /// As BBRv1's ProbeRTT: four packets for 200 ms and at least a round trip, 10 s after the
        /// base RTT was last seen.
        BbrStyle = "bbr-style",
    }
}

choice! {
    /// How the window grows after a slowdown.
    RampGain {
        /// By the gain for each packet acknowledged, as in the initial slow start.
        Scaled = "gain-scaled",
        /// By a packet for each packet acknowledged.
        Doubling = "doubling",
    }
}

choice! {
    /// What ends the ramp.
    RampEnd {
        /// The threshold alone.
        Threshold = "threshold",
        /// A queuing delay above the target too; the slowdown then counts as twice as long.
        Target = "target",
    }
}

choice! {
    /// How the decrease of a round trip is applied.
    DecreasePace {
        /// Spread over the acknowledgments, at most half a window in a round trip.
        Spread = "spread",
        /// At once, and then not for a round trip.
        Once = "once",
    }
}

choice! {
    /// What a loss during a slowdown halves.
    LossInSlowdown {
        /// The frozen window: the ramp ends where it begins.
        Window = "window",
        /// The threshold, which is the window that the losses belong to.
        Threshold = "threshold",
    }
}

/// What a scenario may set; see [`OPTIONS`](crate::options::Parameters::OPTIONS).
#[derive(Clone, Debug)]
pub struct PlusPlusParameters {
    pub(super) target: Duration,
    pub(super) target_rule: TargetRule,
    pub(super) base_rtt_share: Gain,
    pub(super) gain_target: GainTarget,
    pub(super) gain_constant: u32,
    pub(super) decrease_constant: Gain,
    pub(super) decrease: DecreasePace,
    pub(super) slowdown: Slowdown,
    pub(super) slowdown_factor: u32,
    pub(super) slowdown_rounds: u32,
    pub(super) slowdown_deferral: Duration,
    pub(super) bbr_interval: Duration,
    pub(super) bbr_duration: Duration,
    pub(super) bbr_window: u32,
    pub(super) ramp: RampGain,
    pub(super) ramp_end: RampEnd,
    pub(super) loss_in_slowdown: LossInSlowdown,
    pub(super) base_history: u32,
    pub(super) base_interval: Duration,
    pub(super) current_filter: u32,
    pub(super) pacing: bool,
}

impl Default for PlusPlusParameters {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(60),
            target_rule: TargetRule::Fixed,
            base_rtt_share: Gain::ONE,
            gain_target: GainTarget::Fixed,
            gain_constant: 16,
            decrease_constant: Gain::ONE,
            decrease: DecreasePace::Spread,
            slowdown: Slowdown::Periodic,
            slowdown_factor: 9,
            slowdown_rounds: 2,
            slowdown_deferral: Duration::ZERO,
            bbr_interval: Duration::from_secs(10),
            bbr_duration: Duration::from_millis(200),
            bbr_window: 4,
            ramp: RampGain::Scaled,
            ramp_end: RampEnd::Threshold,
            loss_in_slowdown: LossInSlowdown::Window,
            base_history: MAX_HISTORY,
            base_interval: Duration::from_secs(60),
            current_filter: 4,
            pacing: false,
        }
    }
}

impl crate::options::Parameters for PlusPlusParameters {
    const OPTIONS: &'static [OptionSpec<Self>] = &[
        option!(
            target,
            p.target,
            Millis(1, 1000),
            "TARGET: the queuing delay to hold (4.5)"
        ),
        option!(
            target_rule,
            p.target_rule,
            Choice(TargetRule),
            "min-base-rtt holds the queue to the base RTT where that is less (IETF 115, BBR and LEDBAT++)"
        ),
        option!(
            base_rtt_share,
            p.base_rtt_share,
            Gain(10, 10_000),
            "What the base RTT is multiplied with in target_rule = min-base-rtt"
        ),
        option!(
            gain_target,
            p.gain_target,
            Choice(GainTarget),
            "The target that the gain is computed from; UC3M's receiver keeps the fixed one"
        ),
        option!(
            gain_constant,
            p.gain_constant,
            Count(1, 1000),
            "The 16 of GAIN = 1 / min(16, ceil(2 TARGET / base)) (4.2)"
        ),
        option!(
            decrease_constant,
            p.decrease_constant,
            Gain(1, 10_000),
            "Constant of the multiplicative decrease (4.3)"
        ),
        option!(
            decrease,
            p.decrease,
            Choice(DecreasePace),
            "How the decrease of a round trip is applied; UC3M's receiver does it once (4.3)"
        ),
        option!(
            slowdown,
            p.slowdown,
            Choice(Slowdown),
            "periodic (4.4), or bbr-style (IETF 115, BBR and LEDBAT++)"
        ),
        option!(
            slowdown_factor,
            p.slowdown_factor,
            Count(1, 1000),
            "Time from the end of a ramp to the next slowdown, in times that slowdown and ramp took (4.4)"
        ),
        option!(
            slowdown_rounds,
            p.slowdown_rounds,
            Count(1, 100),
            "Round trips of two packets in a periodic slowdown (4.4)"
        ),
        option!(
            slowdown_deferral,
            p.slowdown_deferral,
            Millis(0, HOUR_MS),
            "A decrease puts the next slowdown off by this; 30 s in XNU"
        ),
        option!(
            bbr_interval,
            p.bbr_interval,
            Millis(100, HOUR_MS),
            "bbr-style: time since the base RTT was last seen"
        ),
        option!(
            bbr_duration,
            p.bbr_duration,
            Millis(0, HOUR_MS),
            "bbr-style: time at the floor, and at least a round trip"
        ),
        option!(
            bbr_window,
            p.bbr_window,
            Count(1, 1000),
            "bbr-style: the floor in packets"
        ),
        option!(
            ramp,
            p.ramp,
            Choice(RampGain),
            "Growth after a periodic slowdown, which the draft leaves open (4.4)"
        ),
        option!(
            ramp_end,
            p.ramp_end,
            Choice(RampEnd),
            "threshold (4.1), or target as in XNU and in UC3M's receiver"
        ),
        option!(
            loss_in_slowdown,
            p.loss_in_slowdown,
            Choice(LossInSlowdown),
            "What a loss during a slowdown halves"
        ),
        option!(
            base_history,
            p.base_history,
            Count(1, 10),
            "Intervals whose least RTTs make the base RTT (RFC 6817 2.5)"
        ),
        option!(
            base_interval,
            p.base_interval,
            Millis(100, HOUR_MS),
            "Length of such an interval, a minute (RFC 6817 2.4.2)"
        ),
        option!(
            current_filter,
            p.current_filter,
            Count(1, 10),
            "Samples whose minimum is the current RTT, none older than a round trip; 10 in UC3M's receiver (RFC 6817 2.5)"
        ),
        option!(
            pacing,
            p.pacing,
            Flag,
            "Pace at 2 cwnd/srtt in slow start, at 1.2 cwnd/srtt after it (Linux)"
        ),
    ];
}

const HOUR_MS: u64 = 3_600_000;
