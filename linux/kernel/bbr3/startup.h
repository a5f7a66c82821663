/* STARTUP, what ends it, and DRAIN. */
#ifndef BBR3_STARTUP_H
#define BBR3_STARTUP_H

static __always_inline void reset_full_bw(struct bbr3 *b)
{
    b->full_bw = 0;
    b->full_bw_count = 0;
    b->full_bw_now = false;
}

static __always_inline void handle_queue_too_high_in_startup(struct bbr3 *b, const struct bbr3_connection *c)
{
    b->full_bw_reached = true;
    b->inflight_longterm = most(inflight(b, c, max_bw(b)), b->inflight_latest);
}

static __always_inline void check_startup_high_ecn(struct bbr3 *b, const struct bbr3_connection *c, u32 ratio)
{
    if (b->full_bw_reached || options.full_ecn_cnt == 0 || options.ecn_thresh == 0)
        return;
    b->startup_ecn_rounds = ratio >= options.ecn_thresh ? b->startup_ecn_rounds + 1 : 0;
    if (b->startup_ecn_rounds >= options.full_ecn_cnt)
        handle_queue_too_high_in_startup(b, c);
}

static __always_inline void check_startup_high_loss(struct bbr3 *b, const struct bbr3_connection *c,
                                                    const struct bbr3_sample *rs)
{
    if (b->full_bw_reached)
        return;
    if (rs->newly_lost > 0)
        b->loss_events_in_round = least(b->loss_events_in_round + 1, 15);
    if (options.full_loss_cnt > 0 && b->loss_round_start && c->recovery == CA_RECOVERY &&
        b->loss_events_in_round >= options.full_loss_cnt && is_inflight_too_high(b, rs)) {
        handle_queue_too_high_in_startup(b, c);
        return;
    }
    if (b->loss_round_start)
        b->loss_events_in_round = 0;
}

static __always_inline void check_full_bw_reached(struct bbr3 *b, const struct bbr3_sample *rs)
{
    if (b->full_bw_now || rs->is_app_limited)
        return;
    if (b->sample_bw >= scaled(b->full_bw, options.full_bw_thresh)) {
        reset_full_bw(b);
        b->full_bw = b->sample_bw;
        return;
    }
    if (!b->round_start)
        return;
    b->full_bw_count++;
    b->full_bw_now = b->full_bw_count >= options.full_bw_cnt;
    b->full_bw_reached |= b->full_bw_now;
}

static __always_inline void check_drain_done(struct bbr3 *b, const struct bbr3_connection *c)
{
    if (b->state == STARTUP && b->full_bw_reached) {
        b->state = DRAIN;
        reset_congestion_signals(b);
    }
    if (b->state == DRAIN && packets_in_net(b, c, c->inflight) <= inflight(b, c, max_bw(b))) {
        b->state = PROBE_BW;
        start_probe_bw_down(b, c);
    }
}

#endif
