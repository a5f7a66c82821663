/* The cycle of PROBE_BW, and the long-term bound that probing moves. */
#ifndef BBR3_PROBE_BW_H
#define BBR3_PROBE_BW_H

static __always_inline void set_phase(struct bbr3 *b, u32 phase)
{
    b->phase = phase;
    b->try_fast_path = false;
}

static __always_inline void raise_inflight_longterm_slope(struct bbr3 *b, const struct bbr3_connection *c)
{
    u32 growth = 1U << least(b->bw_probe_up_rounds, 31);

    b->bw_probe_up_rounds = least(b->bw_probe_up_rounds + 1, 30);
    b->probe_up_acked_per_inc = most(c->cwnd / growth, 1);
}

static __noinline int start_probe_bw_down(struct bbr3 *b, const struct bbr3_connection *c)
{
    reset_congestion_signals(b);
    b->probe_up_acked_per_inc = UNSET;
    b->rounds_since_probe = random_below(options.bw_probe_rand_rounds);
    b->bw_probe_wait_us = options.bw_probe_base + random_below(options.bw_probe_rand);
    b->cycle_us = c->now_us;
    b->ack_phase = ACKS_PROBE_STOPPING;
    b->next_round_delivered = c->delivered;
    set_phase(b, DOWN);
    return 0;
}

static __always_inline void start_probe_bw_cruise(struct bbr3 *b)
{
    if (b->inflight_shortterm != UNSET)
        b->inflight_shortterm = least(b->inflight_shortterm, b->inflight_longterm);
    set_phase(b, CRUISE);
}

static __always_inline void start_probe_bw_refill(struct bbr3 *b, const struct bbr3_connection *c, u32 up_rounds)
{
    reset_shortterm_model(b);
    b->bw_probe_up_rounds = up_rounds;
    b->bw_probe_up_acked = 0;
    b->prev_probe_precautionary = false;
    b->ack_phase = ACKS_REFILLING;
    b->next_round_delivered = c->delivered;
    set_phase(b, REFILL);
}

static __always_inline void start_probe_bw_up(struct bbr3 *b, const struct bbr3_connection *c)
{
    b->ack_phase = ACKS_PROBE_STARTING;
    b->next_round_delivered = c->delivered;
    b->cycle_us = c->now_us;
    reset_full_bw(b);
    b->full_bw = b->sample_bw;
    set_phase(b, UP);
    raise_inflight_longterm_slope(b, c);
}

static __always_inline bool is_time_to_probe_bw(struct bbr3 *b, const struct bbr3_connection *c)
{
    if (options.ecn_reprobe_gain > 0 && b->ecn_eligible && b->ecn_in_cycle && !b->loss_in_cycle &&
        c->recovery == CA_OPEN) {
        /* Whether or not marks have ceased: the first round grows by about this much. The logarithm of 0 is -1, in 5 bits. */
        u32 volume = scaled(b->inflight_longterm, options.ecn_reprobe_gain);

        start_probe_bw_refill(b, c, volume ? log2_floor(volume) : 31);
        return true;
    }
    if (elapsed_us(c->now_us, b->cycle_us + b->bw_probe_wait_us) == 0 &&
        b->rounds_since_probe < least(target_inflight(b, c), options.bw_probe_max_rounds))
        return false;
    start_probe_bw_refill(b, c, 0);
    return true;
}

static __always_inline bool is_time_to_cruise(const struct bbr3 *b, const struct bbr3_connection *c,
                                              const struct bbr3_sample *rs)
{
    u32 in_net = packets_in_net(b, c, rs->prior_inflight);

    return in_net <= inflight_with_headroom(b) && in_net <= inflight(b, c, max_bw(b));
}

/* Whether UP must end; too much loss or CE ends it elsewhere. */
static __always_inline bool is_time_to_go_down(struct bbr3 *b, const struct bbr3_connection *c,
                                               const struct bbr3_sample *rs)
{
    if (b->prev_probe_too_high && packets_in_net(b, c, rs->prior_inflight) >= b->inflight_longterm) {
        b->prev_probe_precautionary = true;
        return true;
    }
    if (c->is_cwnd_limited && c->cwnd >= b->inflight_longterm) {
        /* inflight_longterm limits the growth: a plateau would mean nothing. */
        reset_full_bw(b);
        b->full_bw = b->sample_bw;
        return false;
    }
    return b->full_bw_now;
}

static __always_inline void probe_inflight_longterm_upward(struct bbr3 *b, const struct bbr3_connection *c,
                                                           const struct bbr3_sample *rs)
{
    if (!c->is_cwnd_limited || c->cwnd < b->inflight_longterm)
        return;
    b->bw_probe_up_acked += rs->newly_acked;
    if (b->bw_probe_up_acked >= b->probe_up_acked_per_inc) {
        u32 step = most(b->probe_up_acked_per_inc, 1);

        b->inflight_longterm += b->bw_probe_up_acked / step;
        b->bw_probe_up_acked %= step;
        b->try_fast_path = false;
    }
    if (b->round_start)
        raise_inflight_longterm_slope(b, c);
}

/* Moves inflight_longterm by the result of probing. Returns whether that decided the phase. */
static __noinline bool adapt_longterm_model(struct bbr3 *b, const struct bbr3_connection *c,
                                            const struct bbr3_sample *rs)
{
    if (b->ack_phase == ACKS_PROBE_STARTING && b->round_start)
        b->ack_phase = ACKS_PROBE_FEEDBACK;
    if (b->ack_phase == ACKS_PROBE_STOPPING && b->round_start) {
        b->is_bw_probe_sample = false;
        b->ack_phase = ACKS_INIT;
        if (b->state == PROBE_BW) {
            if (!rs->is_app_limited)
                advance_max_bw_filter(b);
            /* inflight_longterm was reached without problems: continue from there. */
            if (b->prev_probe_precautionary && !b->prev_probe_too_high) {
                start_probe_bw_refill(b, c, 0);
                return true;
            }
        }
    }
    if (is_inflight_too_high(b, rs)) {
        if (b->is_bw_probe_sample)
            handle_inflight_too_high(b, c, rs);
    } else if (b->inflight_longterm != UNSET) {
        b->inflight_longterm = most(b->inflight_longterm, rs->tx_in_flight);
        if (is_probe_up(b))
            probe_inflight_longterm_upward(b, c, rs);
    }
    return false;
}

static __always_inline void update_probe_bw_cycle_phase(struct bbr3 *b, const struct bbr3_connection *c,
                                                        const struct bbr3_sample *rs)
{
    if (!b->full_bw_reached || adapt_longterm_model(b, c, rs) || b->state != PROBE_BW)
        return;
    if (b->phase == CRUISE) {
        is_time_to_probe_bw(b, c);
    } else if (b->phase == REFILL) {
        if (b->round_start) {
            b->is_bw_probe_sample = true;
            start_probe_bw_up(b, c);
        }
    } else if (b->phase == UP) {
        if (is_time_to_go_down(b, c, rs)) {
            b->prev_probe_too_high = false;
            start_probe_bw_down(b, c);
        }
    } else if (!is_time_to_probe_bw(b, c) && is_time_to_cruise(b, c, rs)) {
        start_probe_bw_cruise(b);
    }
}

#endif
