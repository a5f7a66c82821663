/*
 * What is recorded of the kernel's own controllers. Fields have the kernel's names, and the loader finds their places in
 * the running kernel (CO-RE); each list is read once for the kernel's type and once for the entry.
 */
#ifndef PACELINE_STOCK_H
#define PACELINE_STOCK_H

#include "types.h"

/* Of struct tcp_sock. */
#define CONNECTION(F)                                                                                                  \
    F(tcp_mstamp) F(delivered_mstamp) F(tcp_wstamp_ns) F(snd_cwnd) F(snd_cwnd_cnt) F(snd_ssthresh) F(prior_cwnd)       \
    F(snd_una) F(snd_nxt) F(srtt_us) F(mss_cache) F(packets_out) F(lost_out) F(sacked_out) F(retrans_out)              \
    F(delivered) F(delivered_ce) F(lost) F(app_limited) F(lsndtime)             \
    F(max_packets_out) F(is_cwnd_limited)

/* Of struct rate_sample. */
#define RATE(F)                                                                                                        \
    F(prior_delivered) F(delivered) F(delivered_ce) F(interval_us) F(rtt_us) F(losses) F(acked_sacked)                 \
    F(prior_in_flight) F(is_app_limited) F(is_ack_delayed)

/* Of struct bbr, beside its windowed maximum and extra_acked[]. */
#define BBR(F)                                                                                                         \
    F(min_rtt_us) F(mode) F(cycle_idx) F(packet_conservation) F(round_start) F(idle_restart) F(rtt_cnt)                \
    F(lt_use_bw) F(lt_bw) F(lt_rtt_cnt) F(pacing_gain) F(cwnd_gain) F(full_bw_reached) F(full_bw_cnt) F(full_bw)       \
    F(prior_cwnd)

/* Of struct bictcp. */
#define CUBIC(F)                                                                                                       \
    F(cnt) F(last_max_cwnd) F(last_cwnd) F(last_time) F(bic_origin_point) F(bic_K) F(delay_min) F(epoch_start)         \
    F(ack_cnt) F(tcp_cwnd) F(sample_cnt) F(found) F(round_start) F(end_seq) F(last_ack) F(curr_rtt)

/* Of struct dctcp. */
#define DCTCP(F) F(old_delivered) F(old_delivered_ce) F(dctcp_alpha) F(next_seq) F(ce_state) F(loss_cwnd)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#define IN_KERNEL(field) u32 field;

struct sock_common {
    __be32 skc_daddr;
};

struct sock {
    struct sock_common __sk_common;
    unsigned long sk_pacing_rate;
    u32 sk_pacing_status;
    u32 sk_gso_max_size;
};

struct inet_connection_sock {
    u8 icsk_ca_state : 5;
    u64 icsk_ca_priv[13];
};

struct minmax_sample {
    u32 t, v;
};

struct minmax {
    struct minmax_sample s[3];
};

struct tcp_sock {
    struct inet_connection_sock inet_conn;
    struct minmax rtt_min;
    CONNECTION(IN_KERNEL)
};

struct rate_sample {
    RATE(IN_KERNEL)
};

struct ack_sample {
    u32 pkts_acked;
    s32 rtt_us;
};

struct bbr {
    struct minmax bw;
    u16 extra_acked[2];
    BBR(IN_KERNEL)
};

struct bictcp {
    CUBIC(IN_KERNEL)
};

struct dctcp {
    DCTCP(IN_KERNEL)
};

#pragma clang attribute pop

enum function { INIT, MAIN, SSTHRESH, UNDO, STATE, EVENT, AVOID, ACKED, ALPHA, STACK };

/* A call of a controller's function, before or after it. */
struct call {
    u64 t_ns;
    u64 jiffies;
    u64 sk_pacing_rate;
    u32 number;          /* from 0; one that is missing found the buffer full */
    u32 function;
    u32 after;
    u32 receiver;        /* its address, which is the flow's */
    u32 sk_pacing_status;
    u32 sk_gso_max_size;
    u32 ca_state;
    u32 rtt_min;
    u32 argument;        /* flags, state, event or packets */
    s32 rtt_us;          /* of struct ack_sample */
    u32 result;
    u32 bbr_bw;
    u32 bbr_extra_acked_0;
    u32 bbr_extra_acked_1;
#define IN_CALL(field) u64 field;
    CONNECTION(IN_CALL)
#define OF_RATE(field) s64 rs_##field;
    RATE(OF_RATE)
#define OF_BBR(field) u64 bbr_##field;
    BBR(OF_BBR)
#define OF_CUBIC(field) u64 cubic_##field;
    CUBIC(OF_CUBIC)
#define OF_DCTCP(field) u64 dctcp_##field;
    DCTCP(OF_DCTCP)
};

#endif
