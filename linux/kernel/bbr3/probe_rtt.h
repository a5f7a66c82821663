/* The two windows of the minimum RTT, and PROBE_RTT. */
#ifndef BBR3_PROBE_RTT_H
#define BBR3_PROBE_RTT_H

static __always_inline void check_probe_rtt_done(struct bbr3 *b, struct bbr3_connection *c)
{
    u32 now_ms = to_ms(c->now_us);

    if (!b->probe_rtt_done_set || !comes_before(b->probe_rtt_done_ms, now_ms))
        return;
    b->probe_rtt_min_ms = now_ms;
    c->cwnd = most(c->cwnd, b->prior_cwnd);
    reset_shortterm_model(b);
    if (b->full_bw_reached) {
        b->state = PROBE_BW;
        /* The wait for the next probe starts here; in flight is already low enough to cruise. */
        start_probe_bw_down(b, c);
        start_probe_bw_cruise(b);
    } else {
        b->state = STARTUP;
    }
}

static __always_inline void update_min_rtt(struct bbr3 *b, struct bbr3_connection *c, const struct bbr3_sample *rs)
{
    u32 now_ms = to_ms(c->now_us);
    bool expired = comes_before(b->probe_rtt_min_ms + options.probe_rtt_win, now_ms);

    if (rs->rtt_us >= 0 && (rs->rtt_us < (s64)b->probe_rtt_min_us || (expired && !rs->is_ack_delayed))) {
        b->probe_rtt_min_us = rs->rtt_us;
        b->probe_rtt_min_ms = now_ms;
    }
    if (b->probe_rtt_min_us <= b->min_rtt_us || comes_before(b->min_rtt_ms + options.min_rtt_win, now_ms)) {
        b->min_rtt_us = b->probe_rtt_min_us;
        b->min_rtt_ms = b->probe_rtt_min_ms;
    }
    if (options.probe_rtt_mode > 0 && expired && !b->idle_restart && b->state != PROBE_RTT) {
        b->state = PROBE_RTT;
        save_cwnd(b, c);
        b->probe_rtt_done_set = false;
        b->ack_phase = ACKS_PROBE_STOPPING;
        b->next_round_delivered = c->delivered;
    }
    if (b->state == PROBE_RTT) {
        c->app_limited = most(c->delivered + c->inflight, 1);
        if (b->probe_rtt_done_set) {
            b->probe_rtt_round_done |= b->round_start;
            if (b->probe_rtt_round_done)
                check_probe_rtt_done(b, c);
        } else if (c->inflight <= probe_rtt_cwnd(b)) {
            b->probe_rtt_done_set = true;
            b->probe_rtt_done_ms = now_ms + options.probe_rtt_mode;
            b->probe_rtt_round_done = false;
            b->next_round_delivered = c->delivered;
        }
    }
    if (rs->delivered > 0)
        b->idle_restart = false;
}

#endif
