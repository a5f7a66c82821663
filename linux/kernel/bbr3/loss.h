/* The response to loss and CE: the short-term bounds, and when too much was in flight. */
#ifndef BBR3_LOSS_H
#define BBR3_LOSS_H

static __always_inline void reset_shortterm_model(struct bbr3 *b)
{
    b->bw_shortterm = UNSET;
    b->inflight_shortterm = UNSET;
}

static __always_inline void reset_congestion_signals(struct bbr3 *b)
{
    b->loss_in_round = false;
    b->ecn_in_round = false;
    b->loss_in_cycle = false;
    b->ecn_in_cycle = false;
    b->bw_latest = 0;
    b->inflight_latest = 0;
}

/* Marks this round as one with loss, and lets it last a full round from its first loss. */
static __always_inline void note_loss(struct bbr3 *b, const struct bbr3_connection *c)
{
    if (!b->loss_in_round)
        b->loss_round_delivered = c->delivered;
    b->loss_in_round = true;
    b->loss_in_cycle = true;
}

static __always_inline void adapt_shortterm_model(struct bbr3 *b, const struct bbr3_connection *c)
{
    u32 marked_inflight = UNSET;

    if (is_probing_bw(b))
        return;
    if (b->ecn_in_round && b->ecn_eligible && options.ecn_factor > 0) {
        u32 cut = least(scaled(b->ecn_alpha, options.ecn_factor), BBR_UNIT);

        if (b->inflight_shortterm == UNSET)
            b->inflight_shortterm = c->cwnd;
        marked_inflight = scaled(b->inflight_shortterm, BBR_UNIT - cut);
    }
    if (b->loss_in_round) {
        u32 keep = BBR_UNIT - options.beta;

        if (b->bw_shortterm == UNSET)
            b->bw_shortterm = max_bw(b);
        if (b->inflight_shortterm == UNSET)
            b->inflight_shortterm = c->cwnd;
        b->bw_shortterm = most(b->bw_latest, scaled(b->bw_shortterm, keep));
        b->inflight_shortterm = most(b->inflight_latest, scaled(b->inflight_shortterm, keep));
    }
    b->inflight_shortterm = least(b->inflight_shortterm, marked_inflight);
    b->bw_shortterm = most(b->bw_shortterm, 1);
}

/* Whether a sample's loss or CE says that too much was in flight. */
static __noinline bool is_inflight_too_high(const struct bbr3 *b, const struct bbr3_sample *rs)
{
    if (rs->lost > 0 && rs->tx_in_flight > 0 &&
        (u32)rs->lost > scaled(rs->tx_in_flight, options.loss_thresh))
        return true;
    return rs->delivered_ce > 0 && rs->delivered > 0 && b->ecn_eligible && options.ecn_thresh > 0 &&
           (u32)rs->delivered_ce > scaled(rs->delivered, options.ecn_thresh);
}

/* The data in flight when the loss rate passed the threshold, somewhere within the lost burst. */
static __always_inline u32 inflight_at_loss(const struct bbr3_sample *rs, u32 count)
{
    s32 inflight_prev = rs->tx_in_flight - count;
    s32 lost_prev = rs->lost - count;
    u64 budget, lost_prefix = 0;

    if (inflight_prev < 0 || lost_prev < 0)
        return UNSET;
    budget = ((u64)inflight_prev * options.loss_thresh + BBR_UNIT - 1) >> BBR_SCALE;
    if (budget > (u64)lost_prev)
        lost_prefix = ((budget - lost_prev) << BBR_SCALE) / (BBR_UNIT - options.loss_thresh);
    return inflight_prev + lost_prefix;
}

/* Cuts inflight_longterm, once per probe, and ends the probe. */
static __noinline int handle_inflight_too_high(struct bbr3 *b, const struct bbr3_connection *c,
                                               const struct bbr3_sample *rs)
{
    b->prev_probe_too_high = true;
    b->is_bw_probe_sample = false;
    if (!rs->is_app_limited) {
        u32 kept = scaled(target_inflight(b, c), BBR_UNIT - options.beta);

        b->inflight_longterm = most(rs->tx_in_flight, kept);
    }
    if (is_probe_up(b))
        start_probe_bw_down(b, c);
    return 0;
}

/* Once per round: the marked fraction, averaged over rounds. */
static __always_inline void update_ecn_alpha(struct bbr3 *b, const struct bbr3_connection *c)
{
    s32 delivered = c->delivered - b->alpha_delivered;
    s32 marked = c->delivered_ce - b->alpha_delivered_ce;
    u64 ratio;

    b->ecn_eligible |= c->ecn_low && options.ecn_factor > 0 &&
                       (b->min_rtt_us <= options.ecn_max_rtt || options.ecn_max_rtt == 0);
    if (!b->ecn_eligible || delivered <= 0 || marked < 0)
        return;
    ratio = ((u64)marked << BBR_SCALE) / (u64)delivered;
    b->ecn_alpha = least(scaled(b->ecn_alpha, BBR_UNIT - options.ecn_alpha_gain) +
                             (u32)(options.ecn_alpha_gain * ratio >> BBR_SCALE),
                         BBR_UNIT);
    b->alpha_delivered = c->delivered;
    b->alpha_delivered_ce = c->delivered_ce;
    check_startup_high_ecn(b, c, ratio);
}

#endif
