/*
 * Records the kernel's own controllers: writes the connection before and after each call of a controller's function
 * (fentry, fexit) to a ring buffer. The controllers stay as they are, and flows choose them by their own names.
 *
 * A program's name is that of the function that it follows, with `_before` or `_after`. The loader loads those of
 * `tcp_...` and of one other controller.
 */
#include "stock.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { BPF_MAP_TYPE_RINGBUF = 27, BPF_RB_NO_WAKEUP = 1 };

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 8 << 20);
} calls SEC(".maps");

/* Points at nothing: with it the object has the layout of the type (BTF), which a reader needs. */
struct call *call_layout;

static u32 calls_seen;

#define TAKE(field) call->field = BPF_CORE_READ_BITFIELD_PROBED(own, field);
#define TAKE_BBR(field) call->bbr_##field = BPF_CORE_READ_BITFIELD_PROBED(own, field);
#define TAKE_CUBIC(field) call->cubic_##field = BPF_CORE_READ_BITFIELD_PROBED(own, field);
#define TAKE_DCTCP(field) call->dctcp_##field = BPF_CORE_READ_BITFIELD_PROBED(own, field);

/* The state of the connection, in a new entry of the ring buffer. */
static __noinline struct call *call_of(struct sock *sk, u32 function, bool after)
{
    struct tcp_sock *own = (struct tcp_sock *)sk;
    struct call *call = bpf_ringbuf_reserve(&calls, sizeof *call, 0);
    u32 number = __sync_fetch_and_add(&calls_seen, 1);

    if (!call)
        return 0;
    __builtin_memset(call, 0, sizeof *call);
    call->number = number;
    call->function = function;
    call->after = after;
    call->t_ns = bpf_ktime_get_ns();
    call->jiffies = bpf_jiffies64();
    BPF_CORE_READ_INTO(&call->receiver, sk, __sk_common.skc_daddr);
    call->sk_pacing_rate = BPF_CORE_READ(sk, sk_pacing_rate);
    call->sk_pacing_status = BPF_CORE_READ(sk, sk_pacing_status);
    call->sk_gso_max_size = BPF_CORE_READ(sk, sk_gso_max_size);
    call->ca_state = BPF_CORE_READ_BITFIELD_PROBED(&own->inet_conn, icsk_ca_state);
    call->rtt_min = BPF_CORE_READ(own, rtt_min.s[0].v);
    CONNECTION(TAKE)
    return call;
}

static __noinline void take_bbr(struct call *call, struct sock *sk)
{
    struct bbr *own = (void *)((struct tcp_sock *)sk)->inet_conn.icsk_ca_priv;

    call->bbr_bw = BPF_CORE_READ(own, bw.s[0].v);
    call->bbr_extra_acked_0 = BPF_CORE_READ(own, extra_acked[0]);
    call->bbr_extra_acked_1 = BPF_CORE_READ(own, extra_acked[1]);
    BBR(TAKE_BBR)
}

static __noinline void take_cubic(struct call *call, struct sock *sk)
{
    struct bictcp *own = (void *)((struct tcp_sock *)sk)->inet_conn.icsk_ca_priv;

    CUBIC(TAKE_CUBIC)
}

static __noinline void take_dctcp(struct call *call, struct sock *sk)
{
    struct dctcp *own = (void *)((struct tcp_sock *)sk)->inet_conn.icsk_ca_priv;

    DCTCP(TAKE_DCTCP)
}

static __noinline void take_reno(struct call *call, struct sock *sk)
{
}

static __noinline void take_rate(struct call *call, const struct rate_sample *own)
{
#define TAKE_RATE(field) call->rs_##field = BPF_CORE_READ_BITFIELD_PROBED(own, field);
    RATE(TAKE_RATE)
}

/* Both programs of a function: its arguments after the socket, how to keep them, whether it returns a number. */
#define BEFORE(name, function, take, arguments...)                                                                    \
    SEC("fentry/" #name)                                                                                               \
    int BPF_PROG(name##_before, struct sock *sk, ##arguments)                                                          \
    {                                                                                                                  \
        struct call *call = call_of(sk, function, false);                                                              \
                                                                                                                       \
        if (!call)                                                                                                     \
            return 0;                                                                                                  \
        take(call, sk);                                                                                                \
        KEEP_##function                                                                                                \
        bpf_ringbuf_submit(call, BPF_RB_NO_WAKEUP);                                                                    \
        return 0;                                                                                                      \
    }
#define AFTER(name, function, take, keep, arguments...)                                                                \
    SEC("fexit/" #name)                                                                                                \
    int BPF_PROG(name##_after, struct sock *sk, ##arguments)                                                           \
    {                                                                                                                  \
        struct call *call = call_of(sk, function, true);                                                               \
                                                                                                                       \
        if (!call)                                                                                                     \
            return 0;                                                                                                  \
        take(call, sk);                                                                                                \
        KEEP_##function                                                                                                \
        keep                                                                                                           \
        bpf_ringbuf_submit(call, BPF_RB_NO_WAKEUP);                                                                    \
        return 0;                                                                                                      \
    }
#define FOLLOW(name, function, take, arguments...)                                                                     \
    BEFORE(name, function, take, ##arguments) AFTER(name, function, take, , ##arguments)
#define FOLLOW_RESULT(name, function, take)                                                                            \
    BEFORE(name, function, take) AFTER(name, function, take, call->result = ret;, u32 ret)

#define KEEP_INIT
#define KEEP_MAIN take_rate(call, rs); call->argument = flag;
#define KEEP_SSTHRESH
#define KEEP_UNDO
#define KEEP_STATE call->argument = state;
#define KEEP_EVENT call->argument = event;
#define KEEP_AVOID call->argument = acked;
#define KEEP_ACKED call->rtt_us = BPF_CORE_READ(sample, rtt_us); call->argument = BPF_CORE_READ(sample, pkts_acked);
#define KEEP_ALPHA call->argument = flags;
#define KEEP_STACK call->argument = state;

FOLLOW(bbr_init, INIT, take_bbr)
FOLLOW(bbr_main, MAIN, take_bbr, u32 ack, int flag, const struct rate_sample *rs)
FOLLOW_RESULT(bbr_ssthresh, SSTHRESH, take_bbr)
FOLLOW(bbr_set_state, STATE, take_bbr, u8 state)
FOLLOW_RESULT(bbr_undo_cwnd, UNDO, take_bbr)
FOLLOW(bbr_cwnd_event, EVENT, take_bbr, u32 event)

FOLLOW(cubictcp_init, INIT, take_cubic)
FOLLOW(cubictcp_acked, ACKED, take_cubic, const struct ack_sample *sample)
FOLLOW(cubictcp_cong_avoid, AVOID, take_cubic, u32 ack, u32 acked)
FOLLOW_RESULT(cubictcp_recalc_ssthresh, SSTHRESH, take_cubic)
FOLLOW(cubictcp_state, STATE, take_cubic, u8 state)
FOLLOW(cubictcp_cwnd_event, EVENT, take_cubic, u32 event)

FOLLOW(dctcp_init, INIT, take_dctcp)
FOLLOW(dctcp_update_alpha, ALPHA, take_dctcp, u32 flags)
FOLLOW_RESULT(dctcp_ssthresh, SSTHRESH, take_dctcp)
FOLLOW(dctcp_state, STATE, take_dctcp, u8 state)
FOLLOW_RESULT(dctcp_cwnd_undo, UNDO, take_dctcp)
FOLLOW(dctcp_cwnd_event, EVENT, take_dctcp, u32 event)

FOLLOW(tcp_set_ca_state, STACK, take_reno, u8 state)
FOLLOW(tcp_reno_cong_avoid, AVOID, take_reno, u32 ack, u32 acked)
FOLLOW_RESULT(tcp_reno_ssthresh, SSTHRESH, take_reno)
FOLLOW_RESULT(tcp_reno_undo_cwnd, UNDO, take_reno)
