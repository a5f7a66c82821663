/* What a reader is told of each connection while it reads: its beginning, each ACK, its end. */
#ifndef PACELINE_TRACE_H
#define PACELINE_TRACE_H

/*
 * A reader moves it on while it reads, in the time of bpf_ktime_get_ns; 0: nobody reads, and an ACK pays for one
 * comparison. Of a reader that was killed it is soon in the past, and the next ACK clears it.
 */
volatile u64 recording_until;
/* Number of events that found the buffer full. */
volatile u64 missed;

enum traced_event { TRACED_START, TRACED_ACK, TRACED_END };

struct traced {
    u64 t_ns;
    u64 bytes_acked;
    u32 event;
    u32 number;
    u32 sent;            /* packets, retransmissions included */
    u32 retransmitted;
    u16 local_port;
    u16 remote_port;
    u16 family;
    u8 remote[16];       /* an address of IPv4 takes the first four */
    struct bbr3_connection connection;
    struct bbr3_sample sample;
    struct bbr3 bbr;
};

/* Points at nothing: with it the object has the layout of the type (BTF), which a reader needs. */
struct traced *traced_layout;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4 << 20);
} traces SEC(".maps");

static __noinline int trace(struct flow *flow, struct sock *sk, u32 event)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    u64 now = bpf_ktime_get_ns();
    struct traced *traced;

    if (now > recording_until) {
        recording_until = 0;
        return 0;
    }
    traced = bpf_ringbuf_reserve(&traces, sizeof *traced, 0);
    if (!traced) {
        __sync_fetch_and_add(&missed, 1);
        return 0;
    }
    traced->t_ns = now;
    traced->bytes_acked = tp->bytes_acked;
    traced->event = event;
    traced->number = flow->number;
    traced->sent = tp->data_segs_out;
    traced->retransmitted = tp->total_retrans;
    traced->local_port = sk->__sk_common.skc_num;
    traced->remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
    traced->family = sk->__sk_common.skc_family;
    if (traced->family == AF_INET6 && bpf_core_field_exists(sk->__sk_common.skc_v6_daddr))
        BPF_CORE_READ_INTO(&traced->remote, sk, __sk_common.skc_v6_daddr);
    else
        __builtin_memcpy(traced->remote, &sk->__sk_common.skc_daddr, 4);
    traced->connection = flow->connection;
    traced->sample = flow->sample;
    traced->bbr = flow->bbr;
    /* The reader looks by itself: waking it would cost more than all of this. */
    bpf_ringbuf_submit(traced, BPF_RB_NO_WAKEUP);
    return 0;
}

#endif
