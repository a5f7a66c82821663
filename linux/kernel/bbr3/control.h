/* The outputs of the model: pacing rate, burst and window. */
#ifndef BBR3_CONTROL_H
#define BBR3_CONTROL_H

static __always_inline bool is_probe_up(const struct bbr3 *b)
{
    return b->state == PROBE_BW && b->phase == UP;
}

static __always_inline bool is_probing_bw(const struct bbr3 *b)
{
    return b->state == STARTUP || (b->state == PROBE_BW && (b->phase == REFILL || b->phase == UP));
}

static __always_inline u64 pacing_rate_of(const struct bbr3_connection *c, u32 bandwidth, u32 gain)
{
    u64 rate = (u64)bandwidth * c->smss * gain >> BBR_SCALE;

    rate = rate * (10000ULL * (100 - options.pacing_margin_percent)) >> BW_SCALE;
    return rate ? rate : 1;
}

static __always_inline void init_pacing_rate(struct bbr3 *b, struct bbr3_connection *c)
{
    u32 rtt_us = c->srtt_us ? c->srtt_us : 1000;

    b->has_seen_rtt |= c->srtt_us != 0;
    c->pacing_rate = pacing_rate_of(c, c->cwnd * BW_UNIT / rtt_us, options.startup_pacing_gain);
}

static __always_inline void set_pacing_rate(struct bbr3 *b, struct bbr3_connection *c, u32 gain)
{
    u64 rate = pacing_rate_of(c, bw(b), gain);

    if (!b->has_seen_rtt && c->srtt_us)
        init_pacing_rate(b, c);
    if (b->full_bw_reached || rate > c->pacing_rate)
        c->pacing_rate = rate;
}

static __always_inline void update_gains(struct bbr3 *b)
{
    b->pacing_gain = BBR_UNIT;
    b->cwnd_gain = options.cwnd_gain;
    if (b->state == STARTUP) {
        b->pacing_gain = options.startup_pacing_gain;
        b->cwnd_gain = options.startup_cwnd_gain;
    } else if (b->state == DRAIN) {
        b->pacing_gain = options.drain_gain;
        b->cwnd_gain = options.startup_cwnd_gain;
    } else if (b->state == PROBE_RTT) {
        b->cwnd_gain = BBR_UNIT;
    } else if (b->phase == UP) {
        b->pacing_gain = options.probe_up_gain;
        b->cwnd_gain += options.bw_probe_cwnd_gain;
    } else if (b->phase == DOWN) {
        b->pacing_gain = options.probe_down_gain;
    }
}

/* Packets in a burst: 1 ms of pacing, and more if the RTT is short. */
static __always_inline u32 send_quantum(const struct bbr3 *b, const struct bbr3_connection *c)
{
    u32 halvings = b->min_rtt_us >> 9;
    u32 bytes = c->pacing_rate >> PACING_SHIFT;

    if (halvings < 32)
        bytes += GSO_BYTES >> halvings;
    return most(least(bytes, MAX_BURST_BYTES) / most(c->smss, 1), 2);
}

static __always_inline u32 bdp_multiple(const struct bbr3 *b, u32 bandwidth, u32 gain)
{
    if (b->min_rtt_us == UNSET)
        return b->initial_cwnd;
    return (((u64)bandwidth * b->min_rtt_us * gain >> BBR_SCALE) + BW_UNIT - 1) >> BW_SCALE;
}

static __always_inline u32 quantization_budget(const struct bbr3 *b, const struct bbr3_connection *c, u32 cwnd)
{
    cwnd = most(most(cwnd, 3 * send_quantum(b, c)), options.cwnd_min_target);
    return is_probe_up(b) ? cwnd + 2 : cwnd;
}

static __noinline u32 inflight(const struct bbr3 *b, const struct bbr3_connection *c, u32 bandwidth)
{
    return quantization_budget(b, c, bdp_multiple(b, bandwidth, BBR_UNIT));
}

static __always_inline u32 target_inflight(const struct bbr3 *b, const struct bbr3_connection *c)
{
    return least(inflight(b, c, bw(b)), c->cwnd);
}

/* How many of inflight_now packets are still in the network when the next one departs. */
static __noinline u32 packets_in_net(const struct bbr3 *b, const struct bbr3_connection *c, u32 inflight_now)
{
    u64 now_ns = c->now_us * 1000;
    u64 wait_us = c->departure_ns > now_ns ? (c->departure_ns - now_ns) / 1000 : 0;
    u32 delivered = packets_in(bw(b), wait_us);

    if (b->pacing_gain > BBR_UNIT)
        inflight_now += send_quantum(b, c);
    return inflight_now > delivered ? inflight_now - delivered : 0;
}

static __always_inline void save_cwnd(struct bbr3 *b, const struct bbr3_connection *c)
{
    if (b->prior_recovery < CA_RECOVERY && b->state != PROBE_RTT)
        b->prior_cwnd = c->cwnd;
    else
        b->prior_cwnd = most(b->prior_cwnd, c->cwnd);
}

static __always_inline u32 probe_rtt_cwnd(const struct bbr3 *b)
{
    return most(bdp_multiple(b, bw(b), options.probe_rtt_cwnd_gain), options.cwnd_min_target);
}

/* The window's addition for ACK aggregation: at most the data that bw delivers in 100 ms. */
static __always_inline u32 aggregation_budget(const struct bbr3 *b)
{
    u32 extra = most(b->extra_acked[0], b->extra_acked[1]);

    return least(options.extra_acked_gain * extra >> BBR_SCALE, packets_in(bw(b), 100000));
}

static __always_inline void set_cwnd(struct bbr3 *b, struct bbr3_connection *c, u32 newly_acked)
{
    if (newly_acked > 0) {
        u32 target = bdp_multiple(b, bw(b), b->cwnd_gain) + aggregation_budget(b);
        u32 grown = c->cwnd + newly_acked;

        target = quantization_budget(b, c, target);
        /* The fast path is open when the window has reached its target. */
        b->try_fast_path = false;
        if (b->full_bw_reached) {
            b->try_fast_path = grown >= target;
            c->cwnd = least(grown, target);
        } else if (c->cwnd < target || c->cwnd < 2 * b->initial_cwnd) {
            c->cwnd = grown;
        } else {
            b->try_fast_path = true;
        }
        c->cwnd = most(c->cwnd, options.cwnd_min_target);
    }
    if (b->state == PROBE_RTT)
        c->cwnd = least(c->cwnd, probe_rtt_cwnd(b));
}

static __always_inline u32 inflight_with_headroom(const struct bbr3 *b)
{
    s32 left;

    if (b->inflight_longterm == UNSET)
        return UNSET;
    left = b->inflight_longterm - most(scaled(b->inflight_longterm, options.inflight_headroom), 1);
    return left > (s32)options.cwnd_min_target ? (u32)left : options.cwnd_min_target;
}

static __always_inline void bound_cwnd_for_model(const struct bbr3 *b, struct bbr3_connection *c)
{
    u32 cap = UNSET;

    if (b->state == PROBE_RTT || (b->state == PROBE_BW && b->phase == CRUISE))
        cap = inflight_with_headroom(b);
    else if (b->state == PROBE_BW)
        cap = b->inflight_longterm;
    cap = most(least(cap, b->inflight_shortterm), options.cwnd_min_target);
    c->cwnd = least(c->cwnd, cap);
}

#endif
