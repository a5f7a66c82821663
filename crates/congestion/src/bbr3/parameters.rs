//! BBRv3's constants, by the draft's names (section 2), each an option.

use paceline_units::{Duration, Gain, parameters};

use crate::options::{choice, thousandths};

choice! {
    /// The response to ECN marks.
    pub enum EcnResponse {
        /// None: packets are not ECN-capable (3.7).
        None = "none" default,
        /// Linux's: a share of inflight_shortterm by the average of the marked share, as in DCTCP;
        /// more than half of a sample ends a probe, two rounds of at least half end Startup. The
        /// probe that Linux starts after a cycle with a mark is not included.
        Alpha = "alpha",
        /// A mark is a loss rate above LossThresh, as the draft's issue 7 proposes.
        Loss = "loss",
    }
}

parameters! {
    /// The options that a scenario may set; the defaults are the draft's.
    pub struct Parameters {
        /// StartupPacingGain: pacing gain in Startup, 4 ln 2 (2.5)
        startup_pacing_gain: Gain(1001, 10_000) = Gain::from_millionths(2_772_589); // 4 ln 2
        /// cwnd gain in Startup (5.6.1)
        startup_cwnd_gain: Gain(1000, 10_000) = thousandths(2000);
        /// DrainPacingGain: pacing gain in Drain (5.3.2)
        drain_pacing_gain: Gain(10, 999) = thousandths(500);
        /// Pacing gain in ProbeBW_DOWN (5.3.3.1)
        probe_down_pacing_gain: Gain(10, 1000) = thousandths(900);
        /// Pacing gain in ProbeBW_CRUISE (5.3.3.2)
        probe_cruise_pacing_gain: Gain(10, 2000) = thousandths(1000);
        /// Pacing gain in ProbeBW_REFILL (5.3.3.3)
        probe_refill_pacing_gain: Gain(10, 2000) = thousandths(1000);
        /// Pacing gain in ProbeBW_UP (5.3.3.4)
        probe_up_pacing_gain: Gain(1000, 10_000) = thousandths(1250);
        /// DefaultCwndGain: cwnd gain in Drain and ProbeBW but UP (5.6.1)
        cwnd_gain: Gain(500, 10_000) = thousandths(2000);
        /// cwnd gain in ProbeBW_UP (5.6.1)
        probe_up_cwnd_gain: Gain(500, 10_000) = thousandths(2250);
        /// ProbeRTTCwndGain: window in ProbeRTT over the estimated BDP (5.3.4)
        probe_rtt_cwnd_gain: Gain(0, 2000) = thousandths(500);
        /// PacingMarginPercent: how far below bw the flow paces on average (5.6.2)
        pacing_margin: Gain(0, 500) = thousandths(10);
        /// LossThresh: loss rate of a round that is too high (5.5.10)
        loss_threshold: Gain(1, 999) = thousandths(20);
        /// Beta: the fraction of a bound that remains after a cut (5.5.10)
        beta: Gain(100, 1000) = thousandths(700);
        /// Headroom: share of inflight_longterm left free in CRUISE and ProbeRTT (5.3.3)
        headroom: Gain(0, 900) = thousandths(150);
        /// Growth of the delivery rate that shows a pipe not yet full (5.3.1.2)
        full_bw_growth: Gain(1001, 10_000) = thousandths(1250);
        /// Rounds without that growth after which it is full (5.3.1.2)
        full_bw_rounds: Count(1, 100) = 3;
        /// StartupFullLossCnt: lost ranges in a round that may end Startup (5.3.1.3)
        startup_full_loss_count: Count(1, 10_000) = 6;
        /// Rounds after which Drain ends in any case (5.3.2)
        max_drain_rounds: Count(1, 1000) = 3;
        /// ExtraAckedFilterLen in rounds, once the pipe is full (5.5.9)
        extra_acked_filter_rounds: Count(1, 1000) = 10;
        /// MinPipeCwnd in packets: floor of the window (5.6.4.3)
        min_pipe_packets: Count(1, 1000) = 4;
        /// Maximum number of rounds between bandwidth probes (5.3.3.8)
        reno_rounds: Count(1, 1_000_000) = 63;
        /// MinRTTFilterLen: lifetime of min_rtt (5.5.7)
        min_rtt_filter: Millis(1, HOUR_MS) = Duration::from_secs(10);
        /// ProbeRTTInterval: time between ProbeRTT states (5.3.4)
        probe_rtt_interval: Millis(1, HOUR_MS) = Duration::from_secs(5);
        /// ProbeRTTDuration: minimum time at the reduced window (5.3.4)
        probe_rtt_duration: Millis(1, HOUR_MS) = Duration::from_millis(200);
        /// Minimum wall-clock time between bandwidth probes (5.3.3.8)
        probe_wait: Millis(0, HOUR_MS) = Duration::from_secs(2);
        /// Random addition to it, uniform (5.3.3.8)
        probe_wait_random: Millis(0, HOUR_MS) = Duration::from_secs(1);
        /// Advance the filter of max_bw on entering ProbeBW_DOWN, as the draft's pull request 5
        /// proposes, and not at the end of the round that follows (5.5.6)
        advance_on_down: Flag = false;
        /// Advance it also after this time, if its slot has a sample that is not
        /// application-limited; zero: never (the draft has no such rule)
        advance_after: Millis(0, HOUR_MS) = Duration::ZERO;
        /// Enter ProbeRTT only between bandwidth probes, not from ProbeBW_REFILL to the round after
        /// ProbeBW_UP, so that the filter can advance; an application-limited flow may stay in UP
        /// and never enter it (the draft has no such rule)
        probe_rtt_waits: Flag = false;
        /// Window of ProbeRTT from the delivery rate of the round before it, if that is below bw
        /// (the draft has no such rule)
        probe_rtt_latest_bw: Flag = false;
        /// Window of ProbeRTT from the min_rtt before it expired, as the draft's issue 109 proposes
        probe_rtt_prior_min_rtt: Flag = false;
        /// min_rtt rises only after a ProbeRTT in which the delivery rate fell to three quarters or
        /// less: half of a BDP in flight shows a path without a queue (the draft has no such rule)
        min_rtt_if_drained: Flag = false;
        /// Response to ECN marks; the draft defines none (3.7)
        ecn: Choice(EcnResponse) = EcnResponse::None;
    }
}

const HOUR_MS: u64 = 3_600_000;
