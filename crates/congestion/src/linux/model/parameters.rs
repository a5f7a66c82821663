//! What can be set in BBRv2 and BBRv3; the defaults are Linux's.

use crate::linux::arithmetic::BBR_UNIT;
use crate::linux::options::{FixedPoint, linux_options};

/// Linux's module parameters of version `V`.
#[derive(Clone, Debug)]
pub struct Parameters<const V: u8> {
    pub(super) startup_pacing_gain: FixedPoint,
    pub(super) startup_cwnd_gain: FixedPoint,
    pub(super) drain_gain: FixedPoint,
    pub(super) cwnd_gain: FixedPoint,
    pub(super) bw_probe_cwnd_gain: FixedPoint,
    pub(super) probe_up_gain: FixedPoint,
    pub(super) probe_down_gain: FixedPoint,
    pub(super) bw_probe_pif_gain: FixedPoint,
    pub(super) full_bw_thresh: FixedPoint,
    pub(super) full_bw_cnt: u32,
    pub(super) beta: FixedPoint,
    pub(super) loss_thresh: FixedPoint,
    pub(super) full_loss_cnt: u32,
    pub(super) inflight_headroom: FixedPoint,
    pub(super) bw_probe_max_rounds: u32,
    pub(super) bw_probe_rand_rounds: u32,
    pub(super) bw_probe_base: u32,
    pub(super) bw_probe_rand: u32,
    pub(super) min_rtt_win: u32,
    pub(super) probe_rtt_win: u32,
    pub(super) probe_rtt_mode: u32,
    pub(super) probe_rtt_cwnd_gain: FixedPoint,
    pub(super) cwnd_min_target: u32,
    pub(super) pacing_margin_percent: u32,
    pub(super) extra_acked_gain: FixedPoint,
    pub(super) ecn: bool,
    pub(super) ecn_max_rtt: u32,
    pub(super) ecn_alpha_init: FixedPoint,
    pub(super) ecn_alpha_gain: FixedPoint,
    pub(super) ecn_factor: FixedPoint,
    pub(super) ecn_thresh: FixedPoint,
    pub(super) ecn_reprobe_gain: FixedPoint,
    pub(super) full_ecn_cnt: u32,
    pub(super) fast_path: bool,
}

impl Default for Parameters<3> {
    fn default() -> Self {
        Self {
            startup_pacing_gain: BBR_UNIT * 277 / 100 + 1,
            startup_cwnd_gain: BBR_UNIT * 2,
            drain_gain: BBR_UNIT * 1000 / 2885,
            cwnd_gain: BBR_UNIT * 2,
            bw_probe_cwnd_gain: BBR_UNIT / 4,
            probe_up_gain: BBR_UNIT * 5 / 4,
            probe_down_gain: BBR_UNIT * 91 / 100,
            bw_probe_pif_gain: BBR_UNIT * 5 / 4,
            full_bw_thresh: BBR_UNIT * 5 / 4,
            full_bw_cnt: 3,
            beta: BBR_UNIT * 30 / 100,
            loss_thresh: BBR_UNIT * 2 / 100,
            full_loss_cnt: 6,
            inflight_headroom: BBR_UNIT * 15 / 100,
            bw_probe_max_rounds: 63,
            bw_probe_rand_rounds: 2,
            bw_probe_base: 2_000_000,
            bw_probe_rand: 1_000_000,
            min_rtt_win: 10_000,
            probe_rtt_win: 5_000,
            probe_rtt_mode: 200,
            probe_rtt_cwnd_gain: BBR_UNIT / 2,
            cwnd_min_target: 4,
            pacing_margin_percent: 1,
            extra_acked_gain: BBR_UNIT,
            ecn: false,
            ecn_max_rtt: 5_000,
            ecn_alpha_init: BBR_UNIT,
            ecn_alpha_gain: BBR_UNIT / 16,
            ecn_factor: BBR_UNIT / 3,
            ecn_thresh: BBR_UNIT / 2,
            ecn_reprobe_gain: BBR_UNIT / 2,
            full_ecn_cnt: 2,
            fast_path: true,
        }
    }
}

impl Default for Parameters<2> {
    fn default() -> Self {
        let Parameters::<3> {
            drain_gain,
            cwnd_gain,
            probe_up_gain,
            bw_probe_pif_gain,
            full_bw_thresh,
            full_bw_cnt,
            beta,
            loss_thresh,
            inflight_headroom,
            bw_probe_max_rounds,
            bw_probe_rand_rounds,
            bw_probe_base,
            bw_probe_rand,
            min_rtt_win,
            probe_rtt_win,
            probe_rtt_mode,
            probe_rtt_cwnd_gain,
            cwnd_min_target,
            pacing_margin_percent,
            extra_acked_gain,
            ecn,
            ecn_max_rtt,
            ecn_alpha_init,
            ecn_alpha_gain,
            ecn_factor,
            ecn_thresh,
            full_ecn_cnt,
            fast_path,
            ..
        } = Parameters::default();
        Self {
            startup_pacing_gain: BBR_UNIT * 2885 / 1000 + 1,
            startup_cwnd_gain: BBR_UNIT * 2885 / 1000 + 1,
            bw_probe_cwnd_gain: 0,
            probe_down_gain: BBR_UNIT * 3 / 4,
            full_loss_cnt: 8,
            ecn_reprobe_gain: 0,
            drain_gain,
            cwnd_gain,
            probe_up_gain,
            bw_probe_pif_gain,
            full_bw_thresh,
            full_bw_cnt,
            beta,
            loss_thresh,
            inflight_headroom,
            bw_probe_max_rounds,
            bw_probe_rand_rounds,
            bw_probe_base,
            bw_probe_rand,
            min_rtt_win,
            probe_rtt_win,
            probe_rtt_mode,
            probe_rtt_cwnd_gain,
            cwnd_min_target,
            pacing_margin_percent,
            extra_acked_gain,
            ecn,
            ecn_max_rtt,
            ecn_alpha_init,
            ecn_alpha_gain,
            ecn_factor,
            ecn_thresh,
            full_ecn_cnt,
            fast_path,
        }
    }
}

impl<const V: u8> crate::options::Parameters for Parameters<V>
where
    Self: Default,
{
    const OPTIONS: &'static [crate::options::OptionSpec<Self>] = linux_options! {
        startup_pacing_gain: gain(256, 1023), "Pacing gain of STARTUP (bbr_startup_pacing_gain; bbr_high_gain in v2)";
        startup_cwnd_gain: gain(256, 1023), "Window of STARTUP and DRAIN in BDPs (bbr_startup_cwnd_gain)";
        drain_gain: gain(1, 256), "Pacing gain of DRAIN (bbr_drain_gain)";
        cwnd_gain: gain(256, 1023), "Window of PROBE_BW in BDPs (bbr_cwnd_gain)";
        bw_probe_cwnd_gain: gain(0, 192), "What UP adds to cwnd_gain (bbr_bw_probe_cwnd_gain; v2 has none)";
        probe_up_gain: gain(256, 1023), "Pacing gain of UP (bbr_pacing_gain[0])";
        probe_down_gain: gain(1, 256), "Pacing gain of DOWN (bbr_pacing_gain[1])";
        bw_probe_pif_gain: gain(256, 511), "In flight, in BDPs, at which v2 ends UP (bbr_bw_probe_pif_gain; v3 does not use it)";
        full_bw_thresh: gain(256, 1023), "Growth of bandwidth in a round that says the pipe is not full (bbr_full_bw_thresh)";
        full_bw_cnt: count(1, 3), "Rounds without growth that say the pipe is full (bbr_full_bw_cnt)";
        beta: gain(0, 255), "Part by which loss cuts the bounds (bbr_beta)";
        loss_thresh: gain(0, 255), "Loss rate above which in flight is too high (bbr_loss_thresh)";
        full_loss_cnt: count(0, 15), "ACKs with loss in a round that end STARTUP; 0 disables it (bbr_full_loss_cnt)";
        inflight_headroom: gain(0, 255), "Part of inflight_hi left free in CRUISE (bbr_inflight_headroom)";
        bw_probe_max_rounds: count(0, 255), "Most rounds between probes (bbr_bw_probe_max_rounds)";
        bw_probe_rand_rounds: count(1, 15), "Rounds by which that varies (bbr_bw_probe_rand_rounds)";
        bw_probe_base: micros(0, 60_000_000), "Least time between probes (bbr_bw_probe_base_us)";
        bw_probe_rand: micros(1, 60_000_000), "Time by which that varies (bbr_bw_probe_rand_us)";
        min_rtt_win: millis(1, 600_000), "Window of the min RTT filter (bbr_min_rtt_win_sec)";
        probe_rtt_win: millis(1, 600_000), "Time between PROBE_RTTs (bbr_probe_rtt_win_ms)";
        probe_rtt_mode: millis(0, 60_000), "Least time in PROBE_RTT; zero never enters it (bbr_probe_rtt_mode_ms)";
        probe_rtt_cwnd_gain: gain(0, 255), "Window of PROBE_RTT in BDPs (bbr_probe_rtt_cwnd_gain)";
        cwnd_min_target: count(1, 1_000), "Least window in packets (bbr_cwnd_min_target)";
        pacing_margin_percent: count(0, 50), "Percent by which pacing stays below the bandwidth (bbr_pacing_margin_percent)";
        extra_acked_gain: gain(0, 1023), "Part of the ACK aggregation that the window allows for (bbr_extra_acked_gain)";
        ecn: flag, "Send ECN-capable packets and answer marks as those of a shallow threshold (TCP_ECN_LOW; bbr_ecn_enable in v2)";
        ecn_max_rtt: micros(0, 524_287), "Min RTT above which marks are ignored; zero for none (bbr_ecn_max_rtt_us)";
        ecn_alpha_init: gain(0, 256), "Initial estimate of the part of packets marked (bbr_ecn_alpha_init)";
        ecn_alpha_gain: gain(0, 255), "Weight of a round in that estimate (bbr_ecn_alpha_gain)";
        ecn_factor: gain(0, 255), "Part of the estimate by which marks cut inflight_lo; zero ignores them (bbr_ecn_factor)";
        ecn_thresh: gain(0, 255), "Part of packets marked above which in flight is too high; zero disables it (bbr_ecn_thresh)";
        ecn_reprobe_gain: gain(0, 511), "First growth, of inflight_hi, once marks cease; zero disables it (bbr_ecn_reprobe_gain)";
        full_ecn_cnt: count(0, 3), "Rounds above ecn_thresh that end STARTUP; 0 disables it (bbr_full_ecn_cnt)";
        fast_path: flag, "Skip the model when the application limits the flow and nothing is lost (bbr_fast_path)";
    };
}
