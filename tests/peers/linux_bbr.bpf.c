/* Linux's own BBR behind a struct_ops, so that the kernel's statistics of BPF measure it as they measure ours. */
#include "linux.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

extern void bbr_init(struct sock *sk) __ksym;
extern void bbr_main(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs) __ksym;
extern u32 bbr_sndbuf_expand(struct sock *sk) __ksym;
extern u32 bbr_undo_cwnd(struct sock *sk) __ksym;
extern void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern u32 bbr_ssthresh(struct sock *sk) __ksym;
extern u32 bbr_min_tso_segs(struct sock *sk) __ksym;
extern void bbr_set_state(struct sock *sk, u8 state) __ksym;

SEC("struct_ops/linux_init")
void BPF_PROG(linux_init, struct sock *sk)
{
    bbr_init(sk);
}

SEC("struct_ops/linux_cong_control")
void BPF_PROG(linux_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
    bbr_main(sk, ack, flag, rs);
}

SEC("struct_ops/linux_sndbuf_expand")
u32 BPF_PROG(linux_sndbuf_expand, struct sock *sk)
{
    return bbr_sndbuf_expand(sk);
}

SEC("struct_ops/linux_undo_cwnd")
u32 BPF_PROG(linux_undo_cwnd, struct sock *sk)
{
    return bbr_undo_cwnd(sk);
}

SEC("struct_ops/linux_cwnd_event")
void BPF_PROG(linux_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
    bbr_cwnd_event(sk, event);
}

SEC("struct_ops/linux_ssthresh")
u32 BPF_PROG(linux_ssthresh, struct sock *sk)
{
    return bbr_ssthresh(sk);
}

SEC("struct_ops/linux_min_tso_segs")
u32 BPF_PROG(linux_min_tso_segs, struct sock *sk)
{
    return bbr_min_tso_segs(sk);
}

SEC("struct_ops/linux_set_state")
void BPF_PROG(linux_set_state, struct sock *sk, u8 state)
{
    bbr_set_state(sk, state);
}

SEC(".struct_ops")
struct tcp_congestion_ops linux_bbr = {
    .name = "linux_bbr",
    .flags = 1,
    .init = (void *)linux_init,
    .cong_control = (void *)linux_cong_control,
    .sndbuf_expand = (void *)linux_sndbuf_expand,
    .undo_cwnd = (void *)linux_undo_cwnd,
    .cwnd_event = (void *)linux_cwnd_event,
    .ssthresh = (void *)linux_ssthresh,
    .min_tso_segs = (void *)linux_min_tso_segs,
    .set_state = (void *)linux_set_state,
};
