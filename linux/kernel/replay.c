/*
 * Replays golden traces of BBRv3 in Linux (see data/conformance/linux-bbr/README.md) through the algorithm compiled for
 * this machine: reads a trace, writes it again with this algorithm's states for the trace's. A trace that holds comes
 * out byte for byte.
 *
 * `replay stock` withholds what a stock kernel does not tell, and derives it as the controller does (history.h). It
 * writes a `D` line for what it derived: for each ACK, and for each packet lost.
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

/* The connection, as far as the history reads it. */
struct tcp_sock {
    u32 delivered, lost, snd_nxt, packets_out, sacked_out, lost_out, retrans_out;
};

#include "history.h"

static bool is_stock;

/* The draws that a trace has for an event, in its order; of `stock`, where they come at other times, all. */
static struct {
    u32 below, drew;
    bool is_taken;
} draws[4096];
static int draws_left;

static inline u32 random_below(u32 n)
{
    int number = 0;

    while (number < draws_left && (draws[number].is_taken || draws[number].below != n))
        number++;
    if (number == draws_left) {
        printf("R below=%u drew=?\n", n);
        return 0;
    }
    draws[number].is_taken = true;
    if (!is_stock)
        printf("R below=%u drew=%u\n", n, draws[number].drew);
    return draws[number].drew;
}

/* The value of a key in a line; a trace has every key of its event. */
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

/*
 * The connection as a stock kernel knows it. A trace has no sequence numbers, so packets are numbered: its path keeps
 * the order and repairs nothing, and what has been delivered or lost is taken to be what was sent first.
 */
static struct {
    struct tcp_sock tp;
    struct history history;
    u32 lost_reported;
    bool is_app_limited; /* of the packets lost: a stock kernel tells that */
} stock;

/* The moment at which a packet was sent. */
static const struct moment *moment_of_packet(u32 seq)
{
    u32 number = stock.history.newest;
    const struct moment *sent;

    do {
        sent = &stock.history.moments[number-- & (HISTORY - 1)];
    } while (!comes_before(sent->snd_nxt, seq) && stock.history.newest - number < least(stock.history.newest, HISTORY));
    return sent;
}

/* Reports losses at the first call after them, as report_lost() does. */
static void report_stock_losses(struct bbr3 *b, struct bbr3_connection *c, u32 lost)
{
    for (c->lost = stock.lost_reported; c->lost != lost;) {
        u32 seq = stock.tp.delivered + ++c->lost;
        const struct moment *sent = moment_of_packet(seq);
        struct bbr3_lost_packet packet = {
            .count = 1,
            .tx_in_flight = in_flight_when_sent(sent, seq, 1, false),
            .tx_lost = sent->lost,
            .is_app_limited = stock.is_app_limited,
        };

        printf("D lost=%u txif=%u txlost=%u\n", c->lost, packet.tx_in_flight, packet.tx_lost);
        on_loss(b, c, &packet);
    }
    stock.lost_reported = lost;
}

/* Replaces the values of an ACK that a stock kernel does not give. */
static void derive(struct bbr3 *b, struct bbr3_connection *c, struct bbr3_sample *rs)
{
    const struct moment *sent = moment_at(&stock.history, rs->prior_delivered);

    report_stock_losses(b, c, c->lost);
    stock.tp.delivered = c->delivered;
    stock.tp.lost = c->lost;
    stock.tp.packets_out = c->inflight;
    stock.tp.snd_nxt = c->delivered + c->lost + c->inflight;
    rs->lost = 0;
    rs->tx_in_flight = 0;
    if (rs->interval_us > 0) {
        rs->lost = c->lost - sent->lost;
        rs->tx_in_flight = in_flight_when_sent(sent, c->delivered + c->lost, 1, false);
    }
    printf("D rs.lost=%d rs.txif=%u\n", rs->lost, rs->tx_in_flight);
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
        if (is_stock)
            derive(b, c, &rs);
        on_ack(b, c, &rs);
        if (is_stock)
            remember(&stock.history, &stock.tp);
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
        stock.is_app_limited = packet.is_app_limited;
        if (!is_stock)
            on_loss(b, c, &packet);
        event = "lost";
        break;
    case 'H':
        if (is_stock)
            report_stock_losses(b, c, c->lost);
        on_enter_recovery(b, c);
        event = "ssthresh";
        break;
    case 'C':
        c->cwnd = number(line, "cwnd");
        if (is_stock)
            report_stock_losses(b, c, c->lost);
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

static void take_draw(const char *line)
{
    if (line[0] != 'R' || draws_left == (int)(sizeof draws / sizeof *draws))
        return;
    draws[draws_left].below = number(line, "below");
    draws[draws_left].drew = number(line, "drew");
    draws[draws_left++].is_taken = false;
}

int main(int count, char **arguments)
{
    static char line[4096], event[4096];
    struct bbr3 b;
    struct bbr3_connection c = { 0 };

    is_stock = count > 1 && strcmp(arguments[1], "stock") == 0;
    if (is_stock) {
        while (fgets(line, sizeof line, stdin))
            take_draw(line);
        rewind(stdin);
    }
    /* An event's draws follow it: it is fed when its state comes. */
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'R') {
            if (!is_stock)
                take_draw(line);
        } else if (line[0] == 'S') {
            feed(&b, &c, event);
            if (!is_stock)
                draws_left = 0;
        } else {
            fputs(line, stdout);
            strcpy(event, line);
        }
    }
    return 0;
}
