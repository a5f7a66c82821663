/* What is used of Linux's types: names alone count, the loader finds their places in the running kernel (CO-RE). */
#ifndef PACELINE_LINUX_H
#define PACELINE_LINUX_H

#include "types.h"

enum { BPF_MAP_TYPE_SK_STORAGE = 24, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_F_NO_PREALLOC = 1, BPF_SK_STORAGE_GET_F_CREATE = 1, BPF_RB_NO_WAKEUP = 1 };
enum { AF_INET6 = 10 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
    __u8 in6_u[16];
};

struct sock_common {
    __be32 skc_daddr;
    __be16 skc_dport;
    __u16 skc_num;
    __u16 skc_family;
    struct in6_addr skc_v6_daddr;
};

struct rb_node {
    unsigned long __rb_parent_color;
    struct rb_node *rb_right;
    struct rb_node *rb_left;
};

struct rb_root {
    struct rb_node *rb_node;
};

struct sock {
    struct sock_common __sk_common;
    struct rb_root tcp_rtx_queue;
    unsigned long sk_pacing_rate;
    unsigned long sk_max_pacing_rate;
    __u32 sk_pacing_status;
};

struct inet_connection_sock {
    __u8 icsk_ca_state : 5;
    __u64 icsk_ca_priv[13];
};

struct minmax_sample {
    u32 t, v;
};

struct minmax {
    struct minmax_sample s[3];
};

struct sk_buff {
    struct rb_node rbnode;
    char cb[48];
};

struct tcp_skb_cb {
    __u32 end_seq;
    __u16 tcp_gso_segs;
    __u8 sacked;
    struct {
        __u32 is_app_limited : 1;
        __u32 delivered;
    } tx;
};

struct tcp_sock {
    struct inet_connection_sock inet_conn;
    struct sk_buff *retransmit_skb_hint;
    struct minmax rtt_min;
    u64 tcp_wstamp_ns;
    u64 tcp_mstamp;
    u64 delivered_mstamp;
    u64 bytes_acked;
    u32 data_segs_out;
    u32 total_retrans;
    u32 mss_cache;
    u32 snd_cwnd;
    u32 snd_ssthresh;
    u32 snd_nxt;
    u32 snd_una;
    u32 srtt_us;
    u32 packets_out;
    u32 lost_out;
    u32 sacked_out;
    u32 retrans_out;
    u32 delivered;
    u32 delivered_ce;
    u32 lost;
    u32 app_limited;
    u32 tlp_high_seq;
    u8 is_cwnd_limited : 1;
    u8 ecn_flags;
};

struct rate_sample {
    u32 prior_delivered;
    s32 delivered;
    s32 delivered_ce;
    long interval_us;
    long rtt_us;
    int losses;
    u32 acked_sacked;
    u32 prior_in_flight;
    u32 last_end_seq;
    bool is_app_limited;
    bool is_retrans;
    bool is_ack_delayed;
};

#pragma clang attribute pop

enum tcp_ca_event { CA_EVENT_TX_START = 0 };

struct tcp_congestion_ops {
    u32 (*ssthresh)(struct sock *sk);
    void (*set_state)(struct sock *sk, u8 state);
    void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
    void (*in_ack_event)(struct sock *sk, u32 flags);
    u32 (*min_tso_segs)(struct sock *sk);
    void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
    u32 (*undo_cwnd)(struct sock *sk);
    u32 (*sndbuf_expand)(struct sock *sk);
    char name[16];
    u32 flags;
    void (*init)(struct sock *sk);
    void (*release)(struct sock *sk);
};

#endif
