/*
 * What can be set, once, when the controller is loaded. The defaults are those of BBRv3 in Linux.
 * OPTION(name, kind, least, most, default), where the kind says the unit: GAIN in 256ths, COUNT, US, MS, FLAG.
 */
#ifndef BBR3_OPTIONS_H
#define BBR3_OPTIONS_H

#define BBR3_OPTIONS(OPTION)                                       \
    OPTION(startup_pacing_gain, GAIN, 256, 1023, 710)              \
    OPTION(startup_cwnd_gain, GAIN, 256, 1023, 512)                \
    OPTION(drain_gain, GAIN, 1, 256, 88)                           \
    OPTION(cwnd_gain, GAIN, 256, 1023, 512)                        \
    OPTION(bw_probe_cwnd_gain, GAIN, 0, 192, 64)                   \
    OPTION(probe_up_gain, GAIN, 256, 1023, 320)                    \
    OPTION(probe_down_gain, GAIN, 1, 256, 232)                     \
    OPTION(full_bw_thresh, GAIN, 256, 1023, 320)                   \
    OPTION(full_bw_cnt, COUNT, 1, 3, 3)                            \
    OPTION(beta, GAIN, 0, 255, 76)                                 \
    OPTION(loss_thresh, GAIN, 0, 255, 5)                           \
    OPTION(full_loss_cnt, COUNT, 0, 15, 6)                         \
    OPTION(inflight_headroom, GAIN, 0, 255, 38)                    \
    OPTION(bw_probe_max_rounds, COUNT, 0, 255, 63)                 \
    OPTION(bw_probe_rand_rounds, COUNT, 1, 15, 2)                  \
    OPTION(bw_probe_base, US, 0, 60000000, 2000000)                \
    OPTION(bw_probe_rand, US, 1, 60000000, 1000000)                \
    OPTION(min_rtt_win, MS, 1, 600000, 10000)                      \
    OPTION(probe_rtt_win, MS, 1, 600000, 5000)                     \
    OPTION(probe_rtt_mode, MS, 0, 60000, 200)                      \
    OPTION(probe_rtt_cwnd_gain, GAIN, 0, 255, 128)                 \
    OPTION(cwnd_min_target, COUNT, 1, 1000, 4)                     \
    OPTION(pacing_margin_percent, COUNT, 0, 50, 1)                 \
    OPTION(extra_acked_gain, GAIN, 0, 1023, 256)                   \
    OPTION(ecn_max_rtt, US, 0, 524287, 5000)                       \
    OPTION(ecn_alpha_init, GAIN, 0, 256, 256)                      \
    OPTION(ecn_alpha_gain, GAIN, 0, 255, 16)                       \
    OPTION(ecn_factor, GAIN, 0, 255, 85)                           \
    OPTION(ecn_thresh, GAIN, 0, 255, 128)                          \
    OPTION(ecn_reprobe_gain, GAIN, 0, 511, 128)                    \
    OPTION(full_ecn_cnt, COUNT, 0, 3, 2)                           \
    OPTION(fast_path, FLAG, 0, 1, 1)

#define BBR3_DECLARE(name, kind, low, high, standard) u32 name;
#define BBR3_DEFAULT(name, kind, low, high, standard) .name = standard,

struct bbr3_options {
    BBR3_OPTIONS(BBR3_DECLARE)
};

/* Constant while it runs: the loader writes it before the verifier sees the program. */
const volatile struct bbr3_options options = { BBR3_OPTIONS(BBR3_DEFAULT) };

#endif
