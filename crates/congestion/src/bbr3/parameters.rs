//! BBRv3's constants, by the draft's names (section 2), each an option.

use paceline_units::{Duration, Gain};

use crate::options::{OptionSpec, option, thousandths};

/// What a scenario may set; the defaults are the draft's.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is documented in OPTIONS below")]
pub struct Parameters {
    pub startup_pacing_gain: Gain,
    pub startup_cwnd_gain: Gain,
    pub drain_pacing_gain: Gain,
    pub probe_down_pacing_gain: Gain,
    pub probe_cruise_pacing_gain: Gain,
    pub probe_refill_pacing_gain: Gain,
    pub probe_up_pacing_gain: Gain,
    pub cwnd_gain: Gain,
    pub probe_up_cwnd_gain: Gain,
    pub probe_rtt_cwnd_gain: Gain,
    pub pacing_margin: Gain,
    pub loss_threshold: Gain,
    pub beta: Gain,
    pub headroom: Gain,
    pub full_bw_growth: Gain,
    pub full_bw_rounds: u32,
    pub startup_full_loss_count: u32,
    pub max_drain_rounds: u32,
    pub extra_acked_filter_rounds: u32,
    pub min_pipe_packets: u32,
    pub reno_rounds: u32,
    pub min_rtt_filter: Duration,
    pub probe_rtt_interval: Duration,
    pub probe_rtt_duration: Duration,
    pub probe_wait: Duration,
    pub probe_wait_random: Duration,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            startup_pacing_gain: Gain::from_millionths(2_772_589), // 4 ln 2
            startup_cwnd_gain: thousandths(2000),
            drain_pacing_gain: thousandths(500),
            probe_down_pacing_gain: thousandths(900),
            probe_cruise_pacing_gain: thousandths(1000),
            probe_refill_pacing_gain: thousandths(1000),
            probe_up_pacing_gain: thousandths(1250),
            cwnd_gain: thousandths(2000),
            probe_up_cwnd_gain: thousandths(2250),
            probe_rtt_cwnd_gain: thousandths(500),
            pacing_margin: thousandths(10),
            loss_threshold: thousandths(20),
            beta: thousandths(700),
            headroom: thousandths(150),
            full_bw_growth: thousandths(1250),
            full_bw_rounds: 3,
            startup_full_loss_count: 6,
            max_drain_rounds: 3,
            extra_acked_filter_rounds: 10,
            min_pipe_packets: 4,
            reno_rounds: 63,
            min_rtt_filter: Duration::from_secs(10),
            probe_rtt_interval: Duration::from_secs(5),
            probe_rtt_duration: Duration::from_millis(200),
            probe_wait: Duration::from_secs(2),
            probe_wait_random: Duration::from_secs(1),
        }
    }
}

const HOUR_MS: u64 = 3_600_000;

impl crate::options::Parameters for Parameters {
    const OPTIONS: &'static [OptionSpec<Self>] = &[
        option!(
            startup_pacing_gain,
            p.startup_pacing_gain,
            Gain(1001, 10_000),
            "StartupPacingGain: pacing gain in Startup, 4 ln 2 (2.4)"
        ),
        option!(
            startup_cwnd_gain,
            p.startup_cwnd_gain,
            Gain(1000, 10_000),
            "cwnd gain in Startup (5.6.1)"
        ),
        option!(
            drain_pacing_gain,
            p.drain_pacing_gain,
            Gain(10, 999),
            "DrainPacingGain: pacing gain in Drain (5.3.2)"
        ),
        option!(
            probe_down_pacing_gain,
            p.probe_down_pacing_gain,
            Gain(10, 1000),
            "Pacing gain in ProbeBW_DOWN (5.3.3.1)"
        ),
        option!(
            probe_cruise_pacing_gain,
            p.probe_cruise_pacing_gain,
            Gain(10, 2000),
            "Pacing gain in ProbeBW_CRUISE (5.3.3.2)"
        ),
        option!(
            probe_refill_pacing_gain,
            p.probe_refill_pacing_gain,
            Gain(10, 2000),
            "Pacing gain in ProbeBW_REFILL (5.3.3.3)"
        ),
        option!(
            probe_up_pacing_gain,
            p.probe_up_pacing_gain,
            Gain(1000, 10_000),
            "Pacing gain in ProbeBW_UP (5.3.3.4)"
        ),
        option!(
            cwnd_gain,
            p.cwnd_gain,
            Gain(500, 10_000),
            "DefaultCwndGain: cwnd gain in Drain and ProbeBW but UP (5.6.1)"
        ),
        option!(
            probe_up_cwnd_gain,
            p.probe_up_cwnd_gain,
            Gain(500, 10_000),
            "cwnd gain in ProbeBW_UP (5.6.1)"
        ),
        option!(
            probe_rtt_cwnd_gain,
            p.probe_rtt_cwnd_gain,
            Gain(0, 2000),
            "ProbeRTTCwndGain: window in ProbeRTT over the estimated BDP (5.3.4)"
        ),
        option!(
            pacing_margin,
            p.pacing_margin,
            Gain(0, 500),
            "PacingMarginPercent: how far below bw the flow paces on average (5.6.2)"
        ),
        option!(
            loss_threshold,
            p.loss_threshold,
            Gain(1, 999),
            "LossThresh: loss rate of a round that is too high (5.5.10)"
        ),
        option!(
            beta,
            p.beta,
            Gain(100, 1000),
            "Beta: what a bound keeps when it is cut (5.5.10)"
        ),
        option!(
            headroom,
            p.headroom,
            Gain(0, 900),
            "Headroom: share of inflight_longterm left free in CRUISE and ProbeRTT (5.3.3)"
        ),
        option!(
            full_bw_growth,
            p.full_bw_growth,
            Gain(1001, 10_000),
            "Growth of the delivery rate that shows a pipe not yet full (5.3.1.2)"
        ),
        option!(
            full_bw_rounds,
            p.full_bw_rounds,
            Count(1, 100),
            "Rounds without that growth after which it is full (5.3.1.2)"
        ),
        option!(
            startup_full_loss_count,
            p.startup_full_loss_count,
            Count(1, 10_000),
            "StartupFullLossCnt: lost ranges in a round that may end Startup (5.3.1.3)"
        ),
        option!(
            max_drain_rounds,
            p.max_drain_rounds,
            Count(1, 1000),
            "Rounds after which Drain ends in any case (5.3.2)"
        ),
        option!(
            extra_acked_filter_rounds,
            p.extra_acked_filter_rounds,
            Count(1, 1000),
            "ExtraAckedFilterLen in rounds, once the pipe is full (5.5.9)"
        ),
        option!(
            min_pipe_packets,
            p.min_pipe_packets,
            Count(1, 1000),
            "MinPipeCwnd in packets: floor of the window (5.6.4.3)"
        ),
        option!(
            reno_rounds,
            p.reno_rounds,
            Count(1, 1_000_000),
            "Most rounds between bandwidth probes (5.3.3.5)"
        ),
        option!(
            min_rtt_filter,
            p.min_rtt_filter,
            Millis(1, HOUR_MS),
            "MinRTTFilterLen: life of min_rtt (5.5.7)"
        ),
        option!(
            probe_rtt_interval,
            p.probe_rtt_interval,
            Millis(1, HOUR_MS),
            "ProbeRTTInterval: time between ProbeRTT states (5.3.4)"
        ),
        option!(
            probe_rtt_duration,
            p.probe_rtt_duration,
            Millis(1, HOUR_MS),
            "ProbeRTTDuration: least time at the reduced window (5.3.4)"
        ),
        option!(
            probe_wait,
            p.probe_wait,
            Millis(0, HOUR_MS),
            "Least wall-clock time between bandwidth probes (5.3.3.5)"
        ),
        option!(
            probe_wait_random,
            p.probe_wait_random,
            Millis(0, HOUR_MS),
            "Random addition to it, uniform (5.3.3.5)"
        ),
    ];
}
