/*
 * Replays golden traces of BBRv3 in Linux (see conformance/linux-bbr/README.md) through the algorithm compiled for
 * this machine: reads a trace, writes it again with this algorithm's states for the trace's. A trace that holds comes
 * out byte for byte.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
#ifndef __always_inline
#define __always_inline inline
#endif
#define __noinline

#include "bbr3/bbr3.h"

/* The draws that a trace has for an event, in its order. */
static struct {
    u32 below, drew;
} draws[8];
static int draws_left, draws_taken;

static inline u32 random_below(u32 n)
{
    if (draws_taken == draws_left || draws[draws_taken].below != n) {
        printf("R below=%u drew=?\n", n);
        return 0;
    }
    printf("R below=%u drew=%u\n", n, draws[draws_taken].drew);
    return draws[draws_taken++].drew;
}

/* The number of a key in a line; a trace has every key of its event. */
static long long number(const char *line, const char *key)
{
    size_t length = strlen(key);

    for (const char *at = line; (at = strstr(at, key)); at += length)
        if (at > line && at[-1] == ' ' && at[length] == '=')
            return strtoll(at + length + 1, NULL, 10);
    fprintf(stderr, "replay: no %s in: %s", key, line);
    exit(2);
}

static void show(const struct bbr3 *b, const struct bbr3_connection *c, const char *event)
{
    static const char *const states[] = { "STARTUP", "DRAIN", "PROBE_BW", "PROBE_RTT" };
    static const char *const phases[] = { "UP", "DOWN", "CRUISE", "REFILL" };

    printf("S ev=%s t=%llu mode=%s/%s cwnd=%u pacing=%llu pg=%u cg=%u bw=%u maxbw=%u minrtt=%u rstart=%u fullbw=%u "
           "cnt=%u full=%u prior_cwnd=%u xacked=%u idle=%u bwlo=%u iflo=%u ifhi=%u bwlat=%u iflat=%u lrs=%u lir=%u "
           "ackph=%u probes=%u high=%u risky=%u rsp=%u upcnt=%u upacks=%u uprnds=%u wait=%u ecna=%u fast=%u fnow=%u\n",
           event, (unsigned long long)c->now_us, states[b->state], b->state == PROBE_BW ? phases[b->phase] : "-",
           c->cwnd, (unsigned long long)c->pacing_rate, b->pacing_gain, b->cwnd_gain, bw(b), max_bw(b), b->min_rtt_us,
           b->round_start, b->full_bw, b->full_bw_count, b->full_bw_reached, b->prior_cwnd,
           most(b->extra_acked[0], b->extra_acked[1]), b->idle_restart, b->bw_shortterm, b->inflight_shortterm,
           b->inflight_longterm, b->bw_latest, b->inflight_latest, b->loss_round_start, b->loss_in_round, b->ack_phase,
           b->is_bw_probe_sample, b->prev_probe_too_high, b->prev_probe_precautionary, b->rounds_since_probe,
           b->probe_up_acked_per_inc, b->bw_probe_up_acked, b->bw_probe_up_rounds, b->bw_probe_wait_us, b->ecn_alpha,
           b->try_fast_path, b->full_bw_now);
}

static void take_ack(struct bbr3_connection *c, struct bbr3_sample *rs, const char *line)
{
    c->delivered = number(line, "d");
    c->delivered_ce = number(line, "dce");
    c->delivered_us = number(line, "dmst");
    c->lost = number(line, "lost");
    c->inflight = number(line, "pout") - number(line, "lout") - number(line, "sout") + number(line, "rout");
    c->is_cwnd_limited = number(line, "cwl");
    c->recovery = number(line, "ca");
    c->departure_ns = number(line, "wst");
    c->srtt_us = number(line, "srtt");
    c->min_rtt_us = number(line, "mrtt");
    c->app_limited = number(line, "apl");
    *rs = (struct bbr3_sample){
        .interval_us = number(line, "rs.int"),
        .rtt_us = number(line, "rs.rtt"),
        .delivered = number(line, "rs.del"),
        .delivered_ce = number(line, "rs.dce"),
        .lost = number(line, "rs.lost"),
        .prior_delivered = number(line, "rs.pdel"),
        .newly_acked = number(line, "rs.acked"),
        .newly_lost = number(line, "rs.losses"),
        .tx_in_flight = number(line, "rs.txif"),
        .prior_inflight = number(line, "rs.pif"),
        .is_app_limited = number(line, "rs.app"),
        .is_ece = number(line, "rs.ece"),
        .is_ack_delayed = number(line, "rs.ackdel"),
        .is_acking_tlp = number(line, "rs.tlp"),
    };
}

/* Feeds the event of a line, and shows the state after it. */
static void feed(struct bbr3 *b, struct bbr3_connection *c, const char *line)
{
    struct bbr3_sample rs;
    struct bbr3_lost_packet packet;
    const char *event;

    c->now_us = number(line, "t");
    switch (line[0]) {
    case 'I':
        memset(b, 0, sizeof *b);
        *c = (struct bbr3_connection){
            .now_us = c->now_us,
            .cwnd = number(line, "cwnd"),
            .smss = number(line, "mss"),
            .srtt_us = number(line, "srtt"),
            .min_rtt_us = number(line, "minrtt"),
            .ecn_low = (number(line, "ecn_flags") & 17) == 17,
        };
        on_init(b, c);
        event = "init";
        break;
    case 'A':
        take_ack(c, &rs, line);
        on_ack(b, c, &rs);
        event = "ack";
        break;
    case 'L':
        c->delivered = number(line, "d");
        c->lost = number(line, "lost");
        c->cwnd = number(line, "cwnd");
        packet.count = number(line, "pcount");
        packet.tx_in_flight = number(line, "txif");
        packet.tx_lost = number(line, "txlost");
        packet.is_app_limited = number(line, "app");
        on_loss(b, c, &packet);
        event = "lost";
        break;
    case 'H':
        on_enter_recovery(b, c);
        event = "ssthresh";
        break;
    case 'C':
        c->cwnd = number(line, "cwnd");
        on_recovery_change(b, c, number(line, "ca"));
        c->recovery = number(line, "ca");
        event = "castate";
        break;
    case 'U':
        c->cwnd = on_spurious_loss(b);
        event = "undo";
        break;
    case 'X':
        c->app_limited = number(line, "apl");
        on_restart_from_idle(b, c);
        event = "txstart";
        break;
    case 'T':
        c->delivered = number(line, "d");
        c->tlp_app_limited = number(line, "apl");
        on_tlp_recovery(b, c);
        event = "tlp";
        break;
    default:
        fprintf(stderr, "replay: no event begins so: %s", line);
        exit(2);
    }
    show(b, c, event);
}

int main(void)
{
    static char line[4096], event[4096];
    struct bbr3 b;
    struct bbr3_connection c = { 0 };

    /* An event's draws follow it: it is fed when its state comes. */
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'R' && draws_left < (int)(sizeof draws / sizeof *draws)) {
            draws[draws_left].below = number(line, "below");
            draws[draws_left++].drew = number(line, "drew");
        } else if (line[0] == 'S') {
            feed(&b, &c, event);
            draws_left = draws_taken = 0;
        } else {
            fputs(line, stdout);
            strcpy(event, line);
        }
    }
    return 0;
}
