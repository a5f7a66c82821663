/*
 * What BBRv3's kernel stores with each packet and a stock one does not: what was in flight and lost when it was sent.
 * A packet carries `delivered` of that time, which names the moment in a history of ACKs; packets sent since that
 * moment are counted by their sequence numbers.
 */
#ifndef PACELINE_HISTORY_H
#define PACELINE_HISTORY_H

static __always_inline struct moment moment_of(struct tcp_sock *tp)
{
    struct moment moment = {
        .delivered = tp->delivered,
        .lost = tp->lost,
        .snd_nxt = tp->snd_nxt,
        .inflight = tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out,
    };

    return moment;
}

/* An ACK that delivers nothing begins no moment: packets sent after it carry the same `delivered`. */
static __always_inline void remember(struct flow *flow, struct tcp_sock *tp)
{
    u32 delivered = tp->delivered;

    if (flow->history[flow->newest & (HISTORY - 1)].delivered == delivered)
        return;
    flow->newest++;
    flow->history[flow->newest & (HISTORY - 1)] = moment_of(tp);
}

/*
 * The moment at which so much was delivered; of an older one than is held, the oldest. `delivered` rises along the
 * history: this looks for the latest that is not beyond it. The place is kept in the map, where the verifier forgets
 * it: else it would follow every path through the search.
 */
static __noinline struct moment *moment_at(struct flow *flow, u32 delivered)
{
    volatile u32 *back = &flow->search;
    u32 held = least(flow->newest, HISTORY - 1);
    u32 oldest = flow->newest - held, step;

    *back = 0;
    for (step = HISTORY / 2; step > 0; step /= 2) {
        u32 to = *back + step;

        if (to <= held && !comes_before(delivered, flow->history[(oldest + to) & (HISTORY - 1)].delivered))
            *back = to;
    }
    return &flow->history[(oldest + *back) & (HISTORY - 1)];
}

/* A retransmission is counted as the first packet of its moment. */
static __always_inline u32 in_flight_when_sent(const struct moment *sent, u32 end_seq, u32 smss, bool is_retrans)
{
    s32 bytes = end_seq - sent->snd_nxt;

    if (is_retrans || bytes <= 0)
        return sent->inflight + 1;
    return sent->inflight + ((u32)bytes + smss - 1) / most(smss, 1);
}

#endif
