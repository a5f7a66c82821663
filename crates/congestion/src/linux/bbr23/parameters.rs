//! The options of BBRv2 and BBRv3; the defaults are Linux's.

use paceline_units::parameters;

use crate::linux::arithmetic::BBR_UNIT;

parameters! {
    /// Linux's module parameters of version `V`.
    pub struct Parameters<const V: u8> {
        /// Pacing gain of STARTUP (bbr_startup_pacing_gain; bbr_high_gain in v2)
        startup_pacing_gain: In256ths(256, 1023) = if V == 2 { BBR_UNIT * 2885 / 1000 + 1 } else { BBR_UNIT * 277 / 100 + 1 };
        /// Window of STARTUP and DRAIN in BDPs (bbr_startup_cwnd_gain)
        startup_cwnd_gain: In256ths(256, 1023) = if V == 2 { BBR_UNIT * 2885 / 1000 + 1 } else { BBR_UNIT * 2 };
        /// Pacing gain of DRAIN (bbr_drain_gain)
        drain_gain: In256ths(1, 256) = BBR_UNIT * 1000 / 2885;
        /// Window of PROBE_BW in BDPs (bbr_cwnd_gain)
        cwnd_gain: In256ths(256, 1023) = BBR_UNIT * 2;
        /// Added to cwnd_gain in UP (bbr_bw_probe_cwnd_gain; v2 has none)
        bw_probe_cwnd_gain: In256ths(0, 192) = if V == 2 { 0 } else { BBR_UNIT / 4 };
        /// Pacing gain of UP (bbr_pacing_gain[0])
        probe_up_gain: In256ths(256, 1023) = BBR_UNIT * 5 / 4;
        /// Pacing gain of DOWN (bbr_pacing_gain[1])
        probe_down_gain: In256ths(1, 256) = if V == 2 { BBR_UNIT * 3 / 4 } else { BBR_UNIT * 91 / 100 };
        /// In flight, in BDPs, at which v2 ends UP (bbr_bw_probe_pif_gain; v3 does not use it)
        bw_probe_pif_gain: In256ths(256, 511) = BBR_UNIT * 5 / 4;
        /// Growth of bandwidth in a round that says the pipe is not full (bbr_full_bw_thresh)
        full_bw_thresh: In256ths(256, 1023) = BBR_UNIT * 5 / 4;
        /// Rounds without growth that say the pipe is full (bbr_full_bw_cnt)
        full_bw_cnt: Count(1, 3) = 3;
        /// Reduction of the bounds on loss, as a fraction (bbr_beta)
        beta: In256ths(0, 255) = BBR_UNIT * 30 / 100;
        /// Loss rate above which in flight is too high (bbr_loss_thresh)
        loss_thresh: In256ths(0, 255) = BBR_UNIT * 2 / 100;
        /// ACKs with loss in a round that end STARTUP; 0 disables it (bbr_full_loss_cnt)
        full_loss_cnt: Count(0, 15) = if V == 2 { 8 } else { 6 };
        /// Fraction of inflight_hi left free in CRUISE (bbr_inflight_headroom)
        inflight_headroom: In256ths(0, 255) = BBR_UNIT * 15 / 100;
        /// Maximum number of rounds between probes (bbr_bw_probe_max_rounds)
        bw_probe_max_rounds: Count(0, 255) = 63;
        /// Random addition to that, in rounds (bbr_bw_probe_rand_rounds)
        bw_probe_rand_rounds: Count(1, 15) = 2;
        /// Minimum time between probes (bbr_bw_probe_base_us)
        bw_probe_base: InMicros(0, 60_000_000) = 2_000_000;
        /// Random addition to that (bbr_bw_probe_rand_us)
        bw_probe_rand: InMicros(1, 60_000_000) = 1_000_000;
        /// Window of the min RTT filter (bbr_min_rtt_win_sec)
        min_rtt_win: InMillis(1, 600_000) = 10_000;
        /// Time between PROBE_RTTs (bbr_probe_rtt_win_ms)
        probe_rtt_win: InMillis(1, 600_000) = 5_000;
        /// Minimum time in PROBE_RTT; zero never enters it (bbr_probe_rtt_mode_ms)
        probe_rtt_mode: InMillis(0, 60_000) = 200;
        /// Window of PROBE_RTT in BDPs (bbr_probe_rtt_cwnd_gain)
        probe_rtt_cwnd_gain: In256ths(0, 255) = BBR_UNIT / 2;
        /// Minimum window in packets (bbr_cwnd_min_target)
        cwnd_min_target: Count(1, 1_000) = 4;
        /// Percent by which the pacing rate is reduced below the bandwidth
        /// (bbr_pacing_margin_percent)
        pacing_margin_percent: Count(0, 50) = 1;
        /// Fraction of the ACK aggregation by which the window is enlarged (bbr_extra_acked_gain)
        extra_acked_gain: In256ths(0, 1023) = BBR_UNIT;
        /// Send ECN-capable packets and respond to marks as those of a shallow threshold
        /// (TCP_ECN_LOW; bbr_ecn_enable in v2)
        ecn: Flag = false;
        /// Min RTT above which marks are ignored; zero for no limit (bbr_ecn_max_rtt_us)
        ecn_max_rtt: InMicros(0, 524_287) = 5_000;
        /// Initial estimate of the fraction of packets marked (bbr_ecn_alpha_init)
        ecn_alpha_init: In256ths(0, 256) = BBR_UNIT;
        /// Weight of a round in that estimate (bbr_ecn_alpha_gain)
        ecn_alpha_gain: In256ths(0, 255) = BBR_UNIT / 16;
        /// Reduction of inflight_lo by marks, as a fraction of the mark estimate; 0 ignores marks
        /// (bbr_ecn_factor)
        ecn_factor: In256ths(0, 255) = BBR_UNIT / 3;
        /// Fraction of packets marked above which in flight is too high; zero disables it
        /// (bbr_ecn_thresh)
        ecn_thresh: In256ths(0, 255) = BBR_UNIT / 2;
        /// Growth of inflight_hi if a cycle with a mark and no loss probes again at once; zero
        /// disables that (bbr_ecn_reprobe_gain)
        ecn_reprobe_gain: In256ths(0, 511) = if V == 2 { 0 } else { BBR_UNIT / 2 };
        /// Rounds above ecn_thresh that end STARTUP; 0 disables it (bbr_full_ecn_cnt)
        full_ecn_cnt: Count(0, 3) = 2;
        /// In fast recovery send no more for each delivered packet than RFC 9937 6.2 allows, as BBRv1
        /// roughly does (BBR update, IETF 109: PRR-inspired responses); Linux has no such bound
        prr_bound: Flag = false;
        /// Skip the model when the application limits the flow and nothing is lost (bbr_fast_path)
        fast_path: Flag = true;
    }
}
