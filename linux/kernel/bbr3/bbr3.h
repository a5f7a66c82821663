/*
 * BBRv3 (draft-ietf-ccwg-bbr) with the numbers and the order of steps of BBRv3 in Linux.
 *
 * Knows no kernel: what happens to a connection comes in as the events below, and goes out by
 * cwnd, pacing_rate and app_limited of the connection. Before it is included, the includer has
 * defined the integer types, and after it random_below().
 */
#ifndef BBR3_H
#define BBR3_H

#include "arithmetic.h"
#include "options.h"
#include "state.h"

static __noinline int start_probe_bw_down(struct bbr3 *b, const struct bbr3_connection *c);
static __always_inline void check_startup_high_ecn(struct bbr3 *b, const struct bbr3_connection *c, u32 ratio);

#include "max_filter.h"
#include "control.h"
#include "loss.h"
#include "model.h"
#include "startup.h"
#include "probe_bw.h"
#include "probe_rtt.h"

/* The connection is established; b is zeroed. */
static __always_inline void on_init(struct bbr3 *b, struct bbr3_connection *c)
{
    b->min_rtt_us = b->probe_rtt_min_us = c->min_rtt_us;
    b->min_rtt_ms = b->probe_rtt_min_ms = to_ms(c->now_us);
    b->next_round_delivered = c->delivered;
    b->loss_round_delivered = c->delivered + 1;
    b->initial_cwnd = least(c->cwnd, 127);
    b->inflight_longterm = UNSET;
    b->probe_up_acked_per_inc = UNSET;
    b->ecn_alpha = options.ecn_alpha_init;
    reset_shortterm_model(b);
    init_pacing_rate(b, c);
    restart_extra_acked(b, c->now_us);
}

/* An ACK was processed. */
static __always_inline void on_ack(struct bbr3 *b, struct bbr3_connection *c, const struct bbr3_sample *rs)
{
    u32 state = b->state, min_rtt_us = b->min_rtt_us;
    bool is_fast;

    update_round(b, c, rs);
    b->ecn_in_round |= rs->is_ece && b->ecn_eligible;
    take_bw_sample(b, rs);
    update_latest_delivery_signals(b, c, rs);
    /* Most of the model can wait if the application limits the flow below the known capacity. */
    is_fast = options.fast_path && b->try_fast_path && rs->is_app_limited && b->sample_bw < max_bw(b) &&
              !b->loss_in_round && !b->ecn_in_round;
    if (!is_fast) {
        update_congestion_signals(b, c, rs);
        update_ack_aggregation(b, c, rs);
        check_startup_high_loss(b, c, rs);
        check_full_bw_reached(b, rs);
    }
    check_drain_done(b, c);
    update_probe_bw_cycle_phase(b, c, rs);
    update_min_rtt(b, c, rs);
    if (!is_fast || state != b->state || min_rtt_us != b->min_rtt_us || !b->try_fast_path) {
        update_gains(b);
        set_pacing_rate(b, c, b->pacing_gain);
        set_cwnd(b, c, rs->newly_acked);
        bound_cwnd_for_model(b, c);
    }
    /* A tail-loss probe that filled the hole must not hide the path's deliveries before it. */
    if (b->loss_round_start && !rs->is_acking_tlp)
        advance_latest_delivery_signals(b, rs);
    b->prior_recovery = c->recovery;
    b->loss_in_cycle |= rs->lost > 0;
    b->ecn_in_cycle |= rs->delivered_ce > 0;
}

/* A packet was marked lost. */
static __always_inline void on_loss(struct bbr3 *b, const struct bbr3_connection *c,
                                    const struct bbr3_lost_packet *packet)
{
    struct bbr3_sample rs = {
        .tx_in_flight = packet->tx_in_flight,
        .lost = c->lost - packet->tx_lost,
        .is_app_limited = packet->is_app_limited,
    };

    note_loss(b, c);
    if (!b->is_bw_probe_sample || !is_inflight_too_high(b, &rs))
        return;
    rs.tx_in_flight = inflight_at_loss(&rs, packet->count);
    handle_inflight_too_high(b, c, &rs);
}

/* A tail-loss probe repaired a loss. */
static __always_inline void on_tlp_recovery(struct bbr3 *b, const struct bbr3_connection *c)
{
    struct bbr3_sample rs = {
        .tx_in_flight = b->inflight_latest + 1,
        .lost = 1,
        .is_app_limited = c->tlp_app_limited,
    };

    note_loss(b, c);
    if (b->is_bw_probe_sample && is_inflight_too_high(b, &rs))
        handle_inflight_too_high(b, c, &rs);
}

/* Recovery is about to begin. By now a lost packet may already have cut inflight_longterm: then no undo restores it. */
static __always_inline void on_enter_recovery(struct bbr3 *b, const struct bbr3_connection *c)
{
    save_cwnd(b, c);
    b->undo_bw_shortterm = b->bw_shortterm;
    b->undo_inflight_shortterm = b->inflight_shortterm;
    b->undo_inflight_longterm = b->inflight_longterm;
}

/* The recovery state changes; cwnd already has the stack's change. */
static __always_inline void on_recovery_change(struct bbr3 *b, struct bbr3_connection *c, u32 recovery)
{
    if (recovery == CA_LOSS) {
        b->prior_recovery = CA_LOSS;
        reset_full_bw(b);
        if (!is_probing_bw(b) && b->inflight_shortterm == UNSET)
            b->inflight_shortterm = most(c->cwnd, b->prior_cwnd);
    } else if (b->prior_recovery == CA_LOSS) {
        c->cwnd = most(c->cwnd, b->prior_cwnd);
        b->try_fast_path = false;
    }
}

/* The recovery was spurious. Returns the window to restore. */
static __always_inline u32 on_spurious_loss(struct bbr3 *b)
{
    reset_full_bw(b);
    b->loss_in_round = false;
    b->try_fast_path = false;
    b->bw_shortterm = most(b->bw_shortterm, b->undo_bw_shortterm);
    b->inflight_shortterm = most(b->inflight_shortterm, b->undo_inflight_shortterm);
    b->inflight_longterm = most(b->inflight_longterm, b->undo_inflight_longterm);
    return b->prior_cwnd;
}

/* Sending starts with nothing in flight. */
static __always_inline void on_restart_from_idle(struct bbr3 *b, struct bbr3_connection *c)
{
    if (!c->app_limited)
        return;
    b->idle_restart = true;
    restart_extra_acked(b, c->now_us);
    if (b->state == PROBE_BW)
        set_pacing_rate(b, c, BBR_UNIT);
    else if (b->state == PROBE_RTT)
        check_probe_rtt_done(b, c);
}

#endif
