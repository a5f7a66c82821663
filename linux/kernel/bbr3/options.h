/*
 * What can be set, once, when the controller is loaded. The defaults are those of BBRv3 in Linux.
 * OPTION(name, kind, least, most, default), where the kind says the unit: gain (256ths), count, us, ms, flag (0 or 1).
 */
#ifndef BBR3_OPTIONS_H
#define BBR3_OPTIONS_H

#define BBR3_OPTIONS(OPTION)                                           \
    OPTION(startup_pacing_gain, gain, 256, 1023, 710)                  \
    OPTION(startup_cwnd_gain, gain, 256, 1023, 512)                    \
    OPTION(drain_gain, gain, 1, 256, 88)                               \
    OPTION(cwnd_gain, gain, 256, 1023, 512)                            \
    OPTION(bw_probe_cwnd_gain, gain, 0, 192, 64)                       \
    OPTION(probe_up_gain, gain, 256, 1023, 320)                        \
    OPTION(probe_down_gain, gain, 1, 256, 232)                         \
    OPTION(full_bw_thresh, gain, 256, 1023, 320)                       \
    OPTION(full_bw_cnt, count, 1, 3, 3)                                \
    OPTION(beta, gain, 0, 255, 76)                                     \
    OPTION(loss_thresh, gain, 0, 255, 5)                               \
    OPTION(full_loss_cnt, count, 0, 15, 6)                             \
    OPTION(inflight_headroom, gain, 0, 255, 38)                        \
    OPTION(bw_probe_max_rounds, count, 0, 255, 63)                     \
    OPTION(bw_probe_rand_rounds, count, 1, 15, 2)                      \
    OPTION(bw_probe_base, us, 0, 60000000, 2000000)                    \
    OPTION(bw_probe_rand, us, 1, 60000000, 1000000)                    \
    OPTION(min_rtt_win, ms, 1, 600000, 10000)                          \
    OPTION(probe_rtt_win, ms, 1, 600000, 5000)                         \
    OPTION(probe_rtt_mode, ms, 0, 60000, 200)                          \
    OPTION(probe_rtt_cwnd_gain, gain, 0, 255, 128)                     \
    OPTION(cwnd_min_target, count, 1, 1000, 4)                         \
    OPTION(pacing_margin_percent, count, 0, 50, 1)                     \
    OPTION(extra_acked_gain, gain, 0, 1023, 256)                       \
    OPTION(ecn, flag, 0, 1, 0)                                         \
    OPTION(ecn_max_rtt, us, 0, 524287, 5000)                           \
    OPTION(ecn_alpha_init, gain, 0, 256, 256)                          \
    OPTION(ecn_alpha_gain, gain, 0, 255, 16)                           \
    OPTION(ecn_factor, gain, 0, 255, 85)                               \
    OPTION(ecn_thresh, gain, 0, 255, 128)                              \
    OPTION(ecn_reprobe_gain, gain, 0, 511, 128)                        \
    OPTION(full_ecn_cnt, count, 0, 3, 2)                               \
    OPTION(fast_path, flag, 0, 1, 1)

/* A reader of the object finds kinds, limits and defaults by these types and variables (BTF). */
typedef u32 option_gain;
typedef u32 option_count;
typedef u32 option_us;
typedef u32 option_ms;
typedef u32 option_flag;

#define BBR3_DECLARE(name, kind, low, high, standard) option_##kind name;
#define BBR3_DEFAULT(name, kind, low, high, standard) .name = standard,
#define BBR3_LEAST(name, kind, low, high, standard) .name = low,
#define BBR3_MOST(name, kind, low, high, standard) .name = high,

struct bbr3_options {
    BBR3_OPTIONS(BBR3_DECLARE)
};

/* Constant while it runs: the loader writes it before the verifier sees the program. */
const volatile struct bbr3_options options = { BBR3_OPTIONS(BBR3_DEFAULT) };
const volatile struct bbr3_options options_least = { BBR3_OPTIONS(BBR3_LEAST) };
const volatile struct bbr3_options options_most = { BBR3_OPTIONS(BBR3_MOST) };

#endif
