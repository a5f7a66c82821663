/* The model of the path that every ACK updates: rounds, latest delivery, ACK aggregation. */
#ifndef BBR3_MODEL_H
#define BBR3_MODEL_H

/* Rounds in a slot of the aggregation filter, and the maximum count of an epoch (20 bits). */
#define EXTRA_ACKED_ROUNDS 5
#define EXTRA_ACKED_MOST 0xfffffU

static __always_inline bool is_valid(const struct bbr3_sample *rs)
{
    return rs->interval_us > 0 && rs->newly_acked > 0;
}

static __always_inline void update_round(struct bbr3 *b, const struct bbr3_connection *c,
                                         const struct bbr3_sample *rs)
{
    b->round_start = rs->interval_us > 0 && !comes_before(rs->prior_delivered, b->next_round_delivered);
    if (!b->round_start)
        return;
    b->next_round_delivered = c->delivered;
    b->rounds_since_probe = least(b->rounds_since_probe + 1, 255);
    update_ecn_alpha(b, c);
}

static __always_inline void take_bw_sample(struct bbr3 *b, const struct bbr3_sample *rs)
{
    b->sample_bw = 0;
    if (rs->interval_us > 0 && rs->delivered >= 0)
        b->sample_bw = bandwidth_of(rs->delivered, rs->interval_us);
}

static __always_inline void update_latest_delivery_signals(struct bbr3 *b, const struct bbr3_connection *c,
                                                           const struct bbr3_sample *rs)
{
    b->loss_round_start = false;
    if (!is_valid(rs))
        return;
    b->bw_latest = most(b->bw_latest, b->sample_bw);
    b->inflight_latest = most(b->inflight_latest, rs->delivered);
    if (!comes_before(rs->prior_delivered, b->loss_round_delivered)) {
        b->loss_round_delivered = c->delivered;
        b->loss_round_start = true;
    }
}

static __always_inline void advance_latest_delivery_signals(struct bbr3 *b, const struct bbr3_sample *rs)
{
    b->bw_latest = b->sample_bw;
    b->inflight_latest = rs->delivered;
}

static __always_inline void update_congestion_signals(struct bbr3 *b, const struct bbr3_connection *c,
                                                      const struct bbr3_sample *rs)
{
    if (!is_valid(rs))
        return;
    update_max_bw(b, rs);
    b->loss_in_round |= rs->newly_lost > 0;
    if (!b->loss_round_start)
        return;
    adapt_shortterm_model(b, c);
    b->loss_in_round = false;
    b->ecn_in_round = false;
}

static __always_inline void restart_extra_acked(struct bbr3 *b, u64 now_us)
{
    b->extra_acked_us = now_us;
    b->extra_acked_delivered = 0;
}

/* How much more ACKs deliver in a burst than the bandwidth explains: the maximum of two slots of rounds. */
static __always_inline void update_ack_aggregation(struct bbr3 *b, const struct bbr3_connection *c,
                                                   const struct bbr3_sample *rs)
{
    u32 expected, extra;

    if (options.extra_acked_gain == 0 || !is_valid(rs) || rs->delivered < 0)
        return;
    if (b->round_start) {
        b->extra_acked_rounds = least(b->extra_acked_rounds + 1, 31);
        if (b->extra_acked_rounds >= (b->full_bw_reached ? EXTRA_ACKED_ROUNDS : 1)) {
            b->extra_acked_rounds = 0;
            b->extra_acked_slot ^= 1;
            b->extra_acked[b->extra_acked_slot & 1] = 0;
        }
    }
    expected = packets_in(bw(b), elapsed_us(c->delivered_us, b->extra_acked_us));
    if (b->extra_acked_delivered <= expected ||
        b->extra_acked_delivered + rs->newly_acked > EXTRA_ACKED_MOST) {
        restart_extra_acked(b, c->delivered_us);
        expected = 0;
    }
    b->extra_acked_delivered = least(b->extra_acked_delivered + rs->newly_acked, EXTRA_ACKED_MOST);
    extra = least(b->extra_acked_delivered - expected, c->cwnd);
    /* A slot has 16 bits in Linux. */
    if (extra > b->extra_acked[b->extra_acked_slot & 1])
        b->extra_acked[b->extra_acked_slot & 1] = extra & 0xffff;
}

#endif
