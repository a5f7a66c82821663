/* Drives a controller by its C header: a transport in virtual time through a bottleneck of 50 Mbit/s and 40 ms
 * with one bandwidth-delay product of buffer.
 *
 * docs/guide/c.md shows how to build and run it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paceline_controller.h"

enum { MSS = 1448, FLIGHT = 8192, OPTIONS = 16 };

static const uint64_t SECOND = 1000000000, RTT = 40000000, RATE_BPS = 50000000;

/* One transmission: the controller's token, and when its ACK comes. */
struct packet {
    struct paceline_packet token;
    uint64_t acked_at;
    int dropped;
};

struct transport {
    struct paceline_controller controller;
    void *state;
    struct paceline_outputs outputs;
    struct paceline_delivery delivery;
    struct packet ring[FLIGHT]; /* transmissions [first, next), by number modulo FLIGHT */
    uint64_t first, next;
    uint64_t in_flight, recovery_until;
    int in_recovery;
    uint64_t now, next_send, link_free;
    uint64_t srtt, min_rtt;
};

/* The bottleneck: the time at which the ACK of a packet sent now comes back, or never. */
static void cross(struct transport *t, struct packet *packet) {
    uint64_t serialisation = (uint64_t)MSS * 8 * SECOND / RATE_BPS;
    uint64_t start = t->link_free > t->now ? t->link_free : t->now;
    packet->dropped = start - t->now > RTT; /* what the queue holds takes an RTT to drain: one BDP */
    if (!packet->dropped)
        t->link_free = start + serialisation;
    packet->acked_at = t->link_free + RTT;
}

/* One packet may always be in flight, however small the window; the pacing rate then says how often. */
static int window_allows(const struct transport *t) {
    return t->in_flight == 0 || t->in_flight + MSS <= t->outputs.cwnd_bytes;
}

static void send_packets(struct transport *t) {
    while (window_allows(t) && t->now >= t->next_send && t->next - t->first < FLIGHT) {
        struct packet *packet = &t->ring[t->next % FLIGHT];
        struct paceline_sent sent = {.now_ns = t->now, .in_flight_bytes = t->in_flight, .size_bytes = MSS};
        t->controller.on_send(t->state, &sent);
        paceline_delivery_on_send(&t->delivery, t->now, MSS, t->in_flight, &packet->token);
        cross(t, packet);
        t->in_flight += MSS;
        t->next++;
        if (t->outputs.pacing_rate_bps != PACELINE_NONE && t->outputs.pacing_rate_bps > 0)
            t->next_send = t->now + (uint64_t)MSS * 8 * SECOND / t->outputs.pacing_rate_bps;
    }
}

/* The path keeps order: every packet dropped before the one that is acknowledged now is lost. */
static uint64_t declare_losses(struct transport *t) {
    uint64_t lost = 0;
    struct paceline_totals totals;
    for (; t->ring[t->first % FLIGHT].dropped; t->first++) {
        struct packet *packet = &t->ring[t->first % FLIGHT];
        paceline_delivery_on_lost(&t->delivery, &packet->token);
        paceline_delivery_totals(&t->delivery, &totals);
        t->in_flight -= MSS;
        struct paceline_lost event = {.now_ns = t->now,
                                      .packet = packet->token,
                                      .lost_bytes = totals.lost_bytes,
                                      .delivered_bytes = totals.delivered_bytes,
                                      .in_flight_bytes = t->in_flight,
                                      .starts_range = lost == 0};
        t->controller.on_loss(t->state, &event);
        lost += MSS;
    }
    if (lost > 0 && !t->in_recovery) {
        t->in_recovery = 1;
        t->recovery_until = t->next;
        t->controller.on_recovery_enter(t->state, t->now, t->in_flight);
    }
    return lost;
}

static void acknowledge(struct transport *t) {
    uint64_t prior = t->in_flight, lost = declare_losses(t);
    struct packet *packet = &t->ring[t->first % FLIGHT];
    uint64_t rtt = t->now - packet->token.send_time_ns;
    t->srtt = t->srtt == 0 ? rtt : (7 * t->srtt + rtt) / 8;
    t->min_rtt = t->min_rtt == 0 || rtt < t->min_rtt ? rtt : t->min_rtt;
    paceline_delivery_on_rtt(&t->delivery, rtt);
    paceline_delivery_on_delivered(&t->delivery, t->now, &packet->token, t->first, 0);
    t->in_flight -= MSS;
    t->first++;
    if (t->in_recovery && t->first > t->recovery_until) {
        t->in_recovery = 0;
        t->controller.on_recovery_exit(t->state, t->now);
    }
    struct paceline_totals totals;
    paceline_delivery_totals(&t->delivery, &totals);
    struct paceline_ack ack = {.now_ns = t->now,
                               .newly_acked_bytes = MSS,
                               .newly_lost_bytes = lost,
                               .newly_marked_bytes = PACELINE_NONE,
                               .prior_in_flight_bytes = prior,
                               .in_flight_bytes = t->in_flight,
                               .delivered_bytes = totals.delivered_bytes,
                               .lost_bytes = totals.lost_bytes,
                               .sent_bytes = totals.sent_bytes,
                               .rtt_ns = rtt,
                               .srtt_ns = t->srtt,
                               .min_rtt_ns = t->min_rtt,
                               .one_way_delay_ns = PACELINE_NONE,
                               .network_rtt_ns = rtt,
                               .receiver_delay_ns = PACELINE_NONE,
                               .ca_state = t->in_recovery ? PACELINE_CA_RECOVERY : PACELINE_CA_OPEN,
                               .cwnd_limited = prior + MSS > t->outputs.cwnd_bytes,
                               .una_advanced = 1};
    paceline_delivery_sample(&t->delivery, &ack.sample);
    t->controller.on_ack(t->state, &ack);
    t->controller.outputs(t->state, &t->outputs);
}

/* Makes the controller `name` with options as `name=value`. */
static int begin(struct transport *t, const char *name, int count, char **arguments) {
    if (paceline_controller_find(name, &t->controller, sizeof t->controller) != PACELINE_OK) {
        fprintf(stderr, "error: no controller is called `%s`; there are", name);
        for (size_t i = 0; paceline_controller_get(i, &t->controller, sizeof t->controller) == PACELINE_OK; i++)
            fprintf(stderr, " %.*s", (int)t->controller.name.length, t->controller.name.data);
        fputc('\n', stderr);
        return 2;
    }
    struct paceline_option options[OPTIONS];
    int used = 0;
    for (; used < count && used < OPTIONS; used++) {
        const char *equals = strchr(arguments[used], '=');
        if (equals == NULL) {
            fprintf(stderr, "error: `%s` is not an option; write name=value\n", arguments[used]);
            return 2;
        }
        options[used].name.data = arguments[used];
        options[used].name.length = (size_t)(equals - arguments[used]);
        options[used].value.data = equals + 1;
        options[used].value.length = strlen(equals + 1);
    }
    struct paceline_config config = {.mss_bytes = MSS,
                                     .has_selective_acks = 1,
                                     .initial_window_bytes = 10 * MSS,
                                     .seed = 1,
                                     .srtt_ns = RTT,
                                     .signals = PACELINE_SIGNAL_LOSSES_FIRST | PACELINE_SIGNAL_LOSS_PER_PACKET |
                                                PACELINE_SIGNAL_PACING | PACELINE_SIGNAL_APP_LIMITED_AT_SEND};
    char message[256];
    t->state = aligned_alloc(t->controller.state_align, t->controller.state_size);
    if (t->state == NULL)
        return 1;
    if (t->controller.init(&t->controller, t->state, &config, options, (size_t)used, message, sizeof message) !=
        PACELINE_OK) {
        fprintf(stderr, "error: %s\n", message);
        free(t->state);
        return 2;
    }
    t->controller.outputs(t->state, &t->outputs);
    paceline_delivery_init(&t->delivery, t->outputs.pacer_below);
    return 0;
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: %s CONTROLLER [OPTION=VALUE ...]\nexample: %s bbr3 startup_pacing_gain=2.89\n",
                arguments[0], arguments[0]);
        return 2;
    }
    static struct transport t;
    int failed = begin(&t, arguments[1], count - 2, arguments + 2);
    if (failed)
        return failed;
    printf("%6s %12s %12s %14s %14s  %s\n", "s", "Mbit/s", "lost %", "window kB", "pacing Mbit/s", "phase");
    struct paceline_totals totals, before = {0};
    for (uint64_t second = 1; second <= 10; second++) {
        while (t.now < second * SECOND) {
            send_packets(&t);
            /* What comes next: an ACK, or the pacer. Losses are found by the ACKs after them. */
            uint64_t at = t.first;
            while (at < t.next && t.ring[at % FLIGHT].dropped)
                at++;
            uint64_t ack_at = at < t.next ? t.ring[at % FLIGHT].acked_at : UINT64_MAX;
            int may_send = window_allows(&t) && t.next_send > t.now;
            if (ack_at == UINT64_MAX && !may_send) {
                fprintf(stderr, "error: nothing is left to happen after %.3f s\n", (double)t.now / 1e9);
                free(t.state);
                return 1;
            }
            if (may_send && t.next_send < ack_at) {
                t.now = t.next_send;
            } else {
                t.now = ack_at;
                acknowledge(&t);
            }
        }
        paceline_delivery_totals(&t.delivery, &totals);
        struct paceline_string phase;
        t.controller.phase(t.state, &phase);
        uint64_t delivered = totals.delivered_bytes - before.delivered_bytes;
        uint64_t lost = totals.lost_bytes - before.lost_bytes;
        double pacing = t.outputs.pacing_rate_bps == PACELINE_NONE ? 0 : (double)t.outputs.pacing_rate_bps / 1e6;
        printf("%6" PRIu64 " %12.2f %12.2f %14.1f %14.2f  %.*s\n", second, (double)delivered * 8 / 1e6,
               100.0 * (double)lost / (double)(delivered + lost + 1), (double)t.outputs.cwnd_bytes / 1e3, pacing,
               (int)phase.length, phase.data);
        before = totals;
    }
    free(t.state);
    return 0;
}
