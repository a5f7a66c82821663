//! Linux's constants, each an option.

use paceline_units::parameters;

use crate::linux::arithmetic::BBR_UNIT;

parameters! {
    /// The options; the defaults are Linux's.
    pub struct Parameters {
        /// Pacing and cwnd gain of STARTUP, and cwnd gain of DRAIN (bbr_high_gain)
        high_gain: In256ths(256, 1023) = BBR_UNIT * 2885 / 1000 + 1;
        /// Pacing gain of DRAIN (bbr_drain_gain)
        drain_gain: In256ths(1, 256) = BBR_UNIT * 1000 / 2885;
        /// Window of PROBE_BW in BDPs (bbr_cwnd_gain)
        cwnd_gain: In256ths(256, 1023) = BBR_UNIT * 2;
        /// Pacing gain of the probing phase (bbr_pacing_gain[0])
        probe_up_gain: In256ths(256, 1023) = BBR_UNIT * 5 / 4;
        /// Pacing gain of the draining phase (bbr_pacing_gain[1])
        probe_down_gain: In256ths(1, 256) = BBR_UNIT * 3 / 4;
        /// Growth of bandwidth in a round that says the pipe is not full (bbr_full_bw_thresh)
        full_bw_thresh: In256ths(256, 1023) = BBR_UNIT * 5 / 4;
        /// Rounds without growth that say the pipe is full (bbr_full_bw_cnt)
        full_bw_cnt: Count(1, 3) = 3;
        /// Window of the min RTT filter (bbr_min_rtt_win_sec)
        min_rtt_win: InMillis(1, 600_000) = 10_000;
        /// Minimum time in PROBE_RTT; zero never enters it (bbr_probe_rtt_mode_ms)
        probe_rtt_mode: InMillis(0, 60_000) = 200;
        /// Packets in flight in PROBE_RTT, and the minimum window (bbr_cwnd_min_target)
        cwnd_min_target: Count(1, 1_000) = 4;
        /// Percent by which the pacing rate is reduced below the bandwidth
        /// (bbr_pacing_margin_percent)
        pacing_margin_percent: Count(0, 50) = 1;
        /// Fraction of the ACK aggregation by which the window is enlarged (bbr_extra_acked_gain)
        extra_acked_gain: In256ths(0, 1023) = BBR_UNIT;
        /// Detect token-bucket policers and send at their rate (the long-term bandwidth estimator)
        lt_bw: Flag = true;
    }
}
