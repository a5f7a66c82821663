/*
 * BBRv3 as a congestion control of a stock kernel: feeds bbr3/ with what the kernel's TCP tells a struct_ops, and
 * derives what it does not tell (history.h, lost.h). Needs Linux 6.10, where cong_control has the ACK and its flags.
 */
#include "linux.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "bbr3/bbr3.h"
#include "history.h"
#include "flow.h"
#include "lost.h"
#include "trace.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define TCP_CONG_NON_RESTRICTED 1
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define TCP_ECN_OK 1
#define FLAG_ECE 0x40
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

static __always_inline u32 random_below(u32 n)
{
    return (u64)bpf_get_prandom_u32() * n >> 32;
}

/* Takes in the connection's state. The rate is our own: the socket's is cut to its maximum. */
static __always_inline void take_connection(struct bbr3_connection *c, struct tcp_sock *tp)
{
    c->now_us = tp->tcp_mstamp;
    c->departure_ns = tp->tcp_wstamp_ns;
    c->delivered_us = tp->delivered_mstamp;
    c->smss = tp->mss_cache;
    c->cwnd = tp->snd_cwnd;
    c->delivered = tp->delivered;
    c->delivered_ce = tp->delivered_ce;
    c->lost = tp->lost;
    c->inflight = packets_in_flight(tp);
    c->app_limited = tp->app_limited;
    c->srtt_us = tp->srtt_us ? most(tp->srtt_us >> 3, 1) : 0;
    c->min_rtt_us = tp->rtt_min.s[0].v;
    c->recovery = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
    c->is_cwnd_limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
    c->ecn_low = options.ecn && (tp->ecn_flags & TCP_ECN_OK);
}

static __always_inline void give_connection(struct sock *sk, struct tcp_sock *tp, const struct bbr3_connection *c)
{
    u64 most_rate = sk->sk_max_pacing_rate;

    sk->sk_pacing_rate = c->pacing_rate < most_rate ? c->pacing_rate : most_rate;
    tp->snd_cwnd = c->cwnd;
    tp->app_limited = c->app_limited;
}

/* The flow of a socket; creates one if there is none. */
static __noinline struct flow *flow_of(struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

    if (!flow)
        return 0;
    take_connection(&flow->connection, tp);
    /*
     * The kernel has set this window. Linux 6.18 warned once that it had got an impossible one from undo_cwnd, which the
     * program cannot return; such a window would remain in Startup.
     */
    if (flow->restored_cwnd) {
        flow->connection.cwnd = flow->restored_cwnd;
        flow->restored_cwnd = 0;
    }
    if (!flow->started) {
        __builtin_memset(&flow->bbr, 0, sizeof flow->bbr);
        flow->started = true;
        flow->number = __sync_fetch_and_add(&flows_started, 1);
        flow->lost_reported = tp->lost;
        flow->lost_end_seq = tp->snd_una;
        flow->history.newest = 0;
        flow->history.search = 0;
        flow->history.moments[0] = moment_of(tp);
        on_init(&flow->bbr, &flow->connection);
    }
    return flow;
}

SEC("struct_ops/paceline_init")
void BPF_PROG(paceline_init, struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct flow *flow;

    bpf_sk_storage_delete(&flows, sk);
    tp->inet_conn.icsk_ca_priv[TLP_HIGH_SEQ] = 0;
    tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
    if (sk->sk_pacing_status == SK_PACING_NONE)
        sk->sk_pacing_status = SK_PACING_NEEDED;
    flow = flow_of(sk);
    if (!flow)
        return;
    flow->is_open = true;
    give_connection(sk, tp, &flow->connection);
    if (recording_until)
        trace(flow, sk, TRACED_START);
}

SEC("struct_ops/paceline_release")
void BPF_PROG(paceline_release, struct sock *sk)
{
    struct flow *flow = recording_until ? bpf_sk_storage_get(&flows, sk, 0, 0) : 0;

    if (flow) {
        take_connection(&flow->connection, (struct tcp_sock *)sk);
        trace(flow, sk, TRACED_END);
    }
    bpf_sk_storage_delete(&flows, sk);
}

SEC("struct_ops/paceline_in_ack_event")
void BPF_PROG(paceline_in_ack_event, struct sock *sk, u32 flags)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;

    tp->inet_conn.icsk_ca_priv[TLP_HIGH_SEQ] = tp->tlp_high_seq;
}

SEC("struct_ops/paceline_cong_control")
void BPF_PROG(paceline_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct flow *flow = flow_of(sk);
    struct bbr3_sample *sample;
    struct moment *sent;
    u32 tlp_high_seq;

    if (!flow)
        return;
    sample = &flow->sample;
    sample->interval_us = rs->interval_us;
    sample->rtt_us = rs->rtt_us;
    sample->delivered = rs->delivered;
    sample->delivered_ce = rs->delivered_ce;
    sample->prior_delivered = rs->prior_delivered;
    sample->newly_acked = rs->acked_sacked;
    sample->newly_lost = rs->losses;
    sample->prior_inflight = rs->prior_in_flight;
    sample->is_app_limited = rs->is_app_limited;
    sample->is_ece = (flag & FLAG_ECE) != 0;
    sample->is_ack_delayed = rs->is_ack_delayed;
    tlp_high_seq = tp->inet_conn.icsk_ca_priv[TLP_HIGH_SEQ];
    sample->is_acking_tlp = tlp_high_seq && !comes_before(ack, tlp_high_seq);
    sample->lost = 0;
    sample->tx_in_flight = 0;
    if (rs->interval_us > 0) {
        sent = moment_at(&flow->history, rs->prior_delivered);
        sample->lost = tp->lost - sent->lost;
        sample->tx_in_flight = in_flight_when_sent(sent, rs->last_end_seq, flow->connection.smss, rs->is_retrans);
    }
    report_lost(flow, sk);
    on_ack(&flow->bbr, &flow->connection, sample);
    give_connection(sk, tp, &flow->connection);
    remember(&flow->history, tp);
    if (recording_until && flow->is_open)
        trace(flow, sk, TRACED_ACK);
}

SEC("struct_ops/paceline_cwnd_event")
void BPF_PROG(paceline_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
    struct flow *flow;

    if (event != CA_EVENT_TX_START)
        return;
    flow = flow_of(sk);
    if (!flow)
        return;
    on_restart_from_idle(&flow->bbr, &flow->connection);
    give_connection(sk, (struct tcp_sock *)sk, &flow->connection);
}

SEC("struct_ops/paceline_ssthresh")
u32 BPF_PROG(paceline_ssthresh, struct sock *sk)
{
    struct flow *flow = flow_of(sk);

    if (flow) {
        report_lost(flow, sk);
        on_enter_recovery(&flow->bbr, &flow->connection);
    }
    return ((struct tcp_sock *)sk)->snd_ssthresh;
}

SEC("struct_ops/paceline_set_state")
void BPF_PROG(paceline_set_state, struct sock *sk, u8 state)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct flow *flow = flow_of(sk);

    if (!flow)
        return;
    report_lost(flow, sk);
    /* The stack passes through CWR when a tail-loss probe has repaired a loss. */
    if (state == CA_CWR && tp->inet_conn.icsk_ca_priv[TLP_HIGH_SEQ]) {
        flow->connection.tlp_app_limited = flow->connection.app_limited != 0;
        on_tlp_recovery(&flow->bbr, &flow->connection);
    }
    on_recovery_change(&flow->bbr, &flow->connection, state);
    give_connection(sk, tp, &flow->connection);
}

SEC("struct_ops/paceline_undo_cwnd")
u32 BPF_PROG(paceline_undo_cwnd, struct sock *sk)
{
    u32 cwnd = ((struct tcp_sock *)sk)->snd_cwnd;
    struct flow *flow = flow_of(sk);

    if (flow)
        cwnd = flow->restored_cwnd = on_spurious_loss(&flow->bbr);
    return cwnd;
}

SEC("struct_ops/paceline_min_tso_segs")
u32 BPF_PROG(paceline_min_tso_segs, struct sock *sk)
{
    return 2;
}

SEC("struct_ops/paceline_sndbuf_expand")
u32 BPF_PROG(paceline_sndbuf_expand, struct sock *sk)
{
    /* The window may double after recovery: room for it, and for a full window of retransmissions. */
    return 3;
}

SEC(".struct_ops")
struct tcp_congestion_ops paceline_bbr3 = {
    .name = "paceline_bbr3",
    /* Without it no unprivileged process may choose the controller, and a refused choice leaks the map. */
    .flags = TCP_CONG_NON_RESTRICTED,
    .init = (void *)paceline_init,
    .release = (void *)paceline_release,
    .in_ack_event = (void *)paceline_in_ack_event,
    .cong_control = (void *)paceline_cong_control,
    .cwnd_event = (void *)paceline_cwnd_event,
    .ssthresh = (void *)paceline_ssthresh,
    .set_state = (void *)paceline_set_state,
    .undo_cwnd = (void *)paceline_undo_cwnd,
    .min_tso_segs = (void *)paceline_min_tso_segs,
    .sndbuf_expand = (void *)paceline_sndbuf_expand,
};
