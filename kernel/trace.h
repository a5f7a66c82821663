/* What a reader is told after each ACK, while one reads. */
#ifndef PACELINE_TRACE_H
#define PACELINE_TRACE_H

/* Set and cleared by the reader. */
volatile u32 recording;
/* ACKs that found the buffer full. */
volatile u64 missed;

struct traced {
    u64 t_ns;
    u32 number;
    u16 local_port;
    u16 remote_port;
    struct bbr3_connection connection;
    struct bbr3_sample sample;
    struct bbr3 bbr;
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4 << 20);
} traces SEC(".maps");

static __always_inline void trace(struct flow *flow, struct sock *sk)
{
    struct traced *traced = bpf_ringbuf_reserve(&traces, sizeof *traced, 0);

    if (!traced) {
        __sync_fetch_and_add(&missed, 1);
        return;
    }
    traced->t_ns = bpf_ktime_get_ns();
    traced->number = flow->number;
    traced->local_port = sk->__sk_common.skc_num;
    traced->remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
    traced->connection = flow->connection;
    traced->sample = flow->sample;
    traced->bbr = flow->bbr;
    bpf_ringbuf_submit(traced, 0);
}

#endif
