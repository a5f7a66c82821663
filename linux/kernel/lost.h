/*
 * Tells of each packet marked lost, which a stock kernel does not: at the first call after some were marked, walks the
 * queue of retransmissions from the first to be sent again; after a timeout, all of it. Those that were retransmitted
 * before, and lost again, are only noted.
 */
#ifndef PACELINE_LOST_H
#define PACELINE_LOST_H

#define TCPCB_SACKED_RETRANS 2
#define TCPCB_LOST 4
/* Maximum steps between nodes of the tree. */
#define WALK 4096

/* Addresses, not pointers: the verifier does not know the tree, so each read is a probe. */
struct walk {
    struct flow *flow;
    u64 node;
    u64 from;     /* the node stepped from: a parent on the way down, a child on the way up */
    u32 left;     /* packets still to report */
    bool is_up;
};

static __always_inline u64 left_of(u64 address)
{
    struct rb_node *node = (void *)address;

    return (u64)BPF_CORE_READ(node, rb_left);
}

static __always_inline u64 right_of(u64 address)
{
    struct rb_node *node = (void *)address;

    return (u64)BPF_CORE_READ(node, rb_right);
}

static __always_inline u64 parent_of(u64 address)
{
    struct rb_node *node = (void *)address;

    return BPF_CORE_READ(node, __rb_parent_color) & ~3UL;
}

/* Reports the packet of a node if it is newly lost. */
static __always_inline void report(struct walk *walk)
{
    u64 skb = walk->node - bpf_core_field_offset(struct sk_buff, rbnode);
    struct tcp_skb_cb *cb = (void *)(skb + bpf_core_field_offset(struct sk_buff, cb));
    struct flow *flow = walk->flow;
    struct bbr3_lost_packet packet;
    struct moment *sent;
    u32 end_seq = BPF_CORE_READ(cb, end_seq);
    u8 sacked = BPF_CORE_READ(cb, sacked);

    if ((sacked & (TCPCB_LOST | TCPCB_SACKED_RETRANS)) != TCPCB_LOST || !comes_before(flow->lost_end_seq, end_seq))
        return;
    flow->lost_end_seq = end_seq;
    packet.count = least(most(BPF_CORE_READ(cb, tcp_gso_segs), 1), walk->left);
    sent = moment_at(&flow->history, BPF_CORE_READ(cb, tx.delivered));
    packet.tx_in_flight = in_flight_when_sent(sent, end_seq, flow->connection.smss, false);
    packet.tx_lost = sent->lost;
    packet.is_app_limited = BPF_CORE_READ_BITFIELD_PROBED(cb, tx.is_app_limited);
    walk->left -= packet.count;
    flow->connection.lost += packet.count;
    on_loss(&flow->bbr, &flow->connection, &packet);
}

/* One step of a walk in order: a node is reported once its left side is done. Nonzero ends the walk. */
static long step(u64 index, struct walk *walk)
{
    u64 next = left_of(walk->node);

    if (!walk->is_up && next) {
        walk->node = next;
        return 0;
    }
    if (!walk->is_up || next == walk->from) {
        report(walk);
        next = right_of(walk->node);
        if (next) {
            walk->node = next;
            walk->is_up = false;
            return walk->left == 0;
        }
    }
    walk->from = walk->node;
    walk->node = parent_of(walk->node);
    walk->is_up = true;
    return walk->left == 0 || !walk->node;
}

static __always_inline void report_lost(struct flow *flow, struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    u64 first = (u64)tp->retransmit_skb_hint;
    struct walk walk = { .flow = flow, .left = tp->lost - flow->lost_reported };

    if (walk.left == 0)
        return;
    flow->connection.lost = flow->lost_reported;
    flow->lost_reported = tp->lost;
    if (first) {
        /* The rest of the first is older: begin as though that side were done. */
        walk.node = first + bpf_core_field_offset(struct sk_buff, rbnode);
        walk.from = left_of(walk.node);
        walk.is_up = true;
    } else {
        walk.node = (u64)sk->tcp_rtx_queue.rb_node;
    }
    if (walk.node)
        bpf_loop(WALK, step, &walk, 0);
    flow->connection.lost = tp->lost;
    if (walk.left)
        note_loss(&flow->bbr, &flow->connection);
}

#endif
