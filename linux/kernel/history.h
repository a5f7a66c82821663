/*
 * What BBRv3's kernel stores with each packet and a stock one does not: what was in flight and lost when it was sent.
 * A packet carries `delivered` of that time, which names the moment in a history of ACKs; packets sent since that
 * moment are counted by their sequence numbers.
 */
#ifndef PACELINE_HISTORY_H
#define PACELINE_HISTORY_H

/* The number of ACKs in the history, a power of two. */
#define HISTORY 2048

/* The connection after an ACK: the state of every packet that is sent before the next one. */
struct moment {
    u32 delivered;
    u32 lost;
    u32 snd_nxt;
    u32 inflight;
};

struct history {
    u32 newest;          /* moments so far, less one; the place of one is its number modulo HISTORY */
    u32 search;          /* the moment that was found last */
    struct moment moments[HISTORY];
};

static __always_inline u32 packets_in_flight(const struct tcp_sock *tp)
{
    return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

static __always_inline struct moment moment_of(const struct tcp_sock *tp)
{
    struct moment moment = {
        .delivered = tp->delivered,
        .lost = tp->lost,
        .snd_nxt = tp->snd_nxt,
        .inflight = packets_in_flight(tp),
    };

    return moment;
}

/* An ACK that delivers nothing begins no moment: packets sent after it carry the same `delivered`. */
static __always_inline void remember(struct history *history, const struct tcp_sock *tp)
{
    u32 delivered = tp->delivered;

    if (history->moments[history->newest & (HISTORY - 1)].delivered == delivered)
        return;
    history->newest++;
    history->moments[history->newest & (HISTORY - 1)] = moment_of(tp);
}

/* Whether a moment is stored and its `delivered` is not beyond this. */
static __always_inline bool reaches(const struct history *history, u32 at, u32 delivered)
{
    return !comes_before(history->newest, at) &&
           !comes_before(delivered, history->moments[at & (HISTORY - 1)].delivered);
}

/*
 * The moment at which so much was delivered; of an older one than is held, the oldest. `delivered` rises along the
 * history: this looks for the latest that is not beyond it, from the one that was found last, since what is asked for
 * rises, too, and is mostly the next. Memory is what a search costs. The place is kept in the map, where the verifier
 * forgets it: else it would follow every path through the search.
 */
static __noinline struct moment *moment_at(struct history *history, u32 delivered)
{
    volatile u32 *at = &history->search;
    u32 held = least(history->newest, HISTORY - 1);
    u32 oldest = history->newest - held, step;

    if (comes_before(*at, oldest) || !reaches(history, *at, delivered))
        *at = oldest;
    for (step = 1; step < HISTORY && reaches(history, *at + step, delivered); step *= 2)
        *at += step;
    for (step /= 2; step > 0; step /= 2) {
        if (reaches(history, *at + step, delivered))
            *at += step;
    }
    return &history->moments[*at & (HISTORY - 1)];
}

/* A retransmission counts as the first packet of its moment. */
static __always_inline u32 in_flight_when_sent(const struct moment *sent, u32 end_seq, u32 smss, bool is_retrans)
{
    s32 bytes = end_seq - sent->snd_nxt;

    if (is_retrans || bytes <= 0)
        return sent->inflight + 1;
    return sent->inflight + ((u32)bytes + smss - 1) / most(smss, 1);
}

#endif
