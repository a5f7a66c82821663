/* A transport of one's own behind paceline_endpoint.h: a fixed window, an answer to each datagram, and what is not
 * answered within 200 ms goes again. It has no congestion control; the window is an option.
 *
 *     cc -O2 -fPIC -shared -Icrates/capi/include examples/transport-c/fixed.c -o target/libfixed.so
 */
#include <stdio.h>
#include <string.h>

#include "paceline_endpoint.h"

enum { MOST = 4096, ANSWER = 8 };

static const uint64_t PATIENCE = 200000000;

/* Either end. Datagram n has slot n modulo MOST; the window never spans more. */
struct end {
    uint32_t window, size;
    uint64_t unsent, next, first;       /* to send: bytes, the next number, the oldest unanswered one */
    uint64_t sent_at[MOST];             /* PACELINE_NONE once it is answered */
    uint64_t answers[MOST];             /* to answer: a ring */
    uint64_t answer_first, answer_next;
    uint8_t arrived[MOST];
    uint64_t delivered;                 /* datagrams, in order */
    uint64_t now;
    struct paceline_stats stats;
};

static uint32_t init(const struct paceline_stack *stack, void *state, const struct paceline_end_config *config,
                     const struct paceline_option *options, size_t option_count, char *message, size_t message_size) {
    (void)stack;
    struct end *end = state;
    memset(end, 0, sizeof *end);
    end->window = 64;
    end->size = config->max_datagram_bytes;
    for (size_t i = 0; i < option_count; i++) {
        char text[16] = {0};
        if (options[i].value.length < sizeof text)
            memcpy(text, options[i].value.data, options[i].value.length);
        int known = options[i].name.length == 6 && memcmp(options[i].name.data, "window", 6) == 0;
        if (!known || sscanf(text, "%u", &end->window) != 1 || end->window == 0 || end->window > MOST) {
            snprintf(message, message_size, "the only option is `window`, from 1 to %d datagrams", MOST);
            return PACELINE_BAD_OPTION;
        }
    }
    return PACELINE_OK;
}

static void receive(void *state, uint64_t now_ns, const struct paceline_datagram *datagram) {
    struct end *end = state;
    uint64_t number;
    if (datagram->size_bytes < sizeof number)
        return; /* no datagram of ours */
    memcpy(&number, datagram->data, sizeof number);
    end->now = now_ns;
    if (datagram->size_bytes == ANSWER) {
        if (number >= end->next || number < end->first || end->sent_at[number % MOST] == PACELINE_NONE)
            return; /* it was answered before */
        end->stats.latest_rtt_ns = now_ns - end->sent_at[number % MOST];
        end->stats.acknowledged_bytes += end->size;
        end->sent_at[number % MOST] = PACELINE_NONE;
        while (end->first < end->next && end->sent_at[end->first % MOST] == PACELINE_NONE)
            end->first++;
    } else if (number < end->delivered + MOST && end->answer_next - end->answer_first < MOST) {
        end->answers[end->answer_next++ % MOST] = number;
        if (number >= end->delivered)
            end->arrived[number % MOST] = 1;
        while (end->arrived[end->delivered % MOST]) {
            end->arrived[end->delivered % MOST] = 0;
            end->delivered++;
        }
    }
}

static void on_timer(void *state, uint64_t now_ns) {
    ((struct end *)state)->now = now_ns;
}

static uint32_t send_datagram(struct end *end, uint64_t now_ns, struct paceline_batch *batch, uint64_t number,
                              uint32_t size) {
    if (size > batch->capacity_bytes)
        return 0;
    memset(batch->data, 0, size);
    memcpy(batch->data, &number, sizeof number);
    batch->size_bytes = batch->segment_size_bytes = size;
    batch->ecn = PACELINE_NOT_ECT;
    if (size != ANSWER) {
        end->sent_at[number % MOST] = now_ns;
        end->stats.sent_packets++;
    }
    return 1;
}

static uint32_t poll_transmit(void *state, uint64_t now_ns, struct paceline_batch *batch) {
    struct end *end = state;
    if (end->answer_first < end->answer_next)
        return send_datagram(end, now_ns, batch, end->answers[end->answer_first++ % MOST], ANSWER);
    for (uint64_t number = end->first; number < end->next; number++) {
        uint64_t sent = end->sent_at[number % MOST];
        if (sent != PACELINE_NONE && sent + PATIENCE <= now_ns) {
            end->stats.lost_packets++;
            end->stats.retransmitted_packets++;
            return send_datagram(end, now_ns, batch, number, end->size);
        }
    }
    if (end->unsent == 0 || end->next - end->first >= end->window)
        return 0;
    if (end->unsent != PACELINE_UNLIMITED)
        end->unsent -= end->unsent < end->size ? end->unsent : end->size;
    return send_datagram(end, now_ns, batch, end->next++, end->size);
}

static uint64_t next_timer(void *state) {
    struct end *end = state;
    uint64_t least = PACELINE_NONE;
    for (uint64_t number = end->first; number < end->next; number++) {
        uint64_t sent = end->sent_at[number % MOST];
        if (sent != PACELINE_NONE && sent + PATIENCE < least)
            least = sent + PATIENCE;
    }
    return least;
}

static void write_bytes(void *state, uint64_t now_ns, uint64_t bytes, uint8_t stop, uint8_t close) {
    (void)now_ns, (void)close;
    struct end *end = state;
    if (stop)
        end->unsent = 0;
    if (bytes == PACELINE_UNLIMITED)
        end->unsent = PACELINE_UNLIMITED;
    else if (end->unsent != PACELINE_UNLIMITED)
        end->unsent += bytes;
}

static uint64_t delivered(const void *state) {
    const struct end *end = state;
    return end->delivered * end->size;
}

static void stats(const void *state, struct paceline_stats *out) {
    const struct end *end = state;
    struct paceline_stats unknown = *out;
    *out = end->stats;
    out->cwnd_bytes = (uint64_t)end->window * end->size;
    out->in_flight_bytes = (end->next - end->first) * end->size;
    out->pacing_rate_bps = unknown.pacing_rate_bps;
    out->delivery_rate_bps = unknown.delivery_rate_bps;
    out->srtt_ns = unknown.srtt_ns;
    out->min_rtt_ns = unknown.min_rtt_ns;
}

uint32_t paceline_stack_get(size_t index, struct paceline_stack *out, size_t out_size) {
    static const struct paceline_stack FIXED = {
        .abi_version = PACELINE_ENDPOINT_ABI_VERSION,
        .table_size = sizeof(struct paceline_stack),
        .name = PACELINE_STRING("fixed"),
        .summary = PACELINE_STRING("A fixed window without congestion control"),
        .version = PACELINE_STRING("1"),
        .state_size = sizeof(struct end),
        .state_align = _Alignof(struct end),
        .max_batch_bytes = 65535,
        .init = init,
        .receive = receive,
        .on_timer = on_timer,
        .poll_transmit = poll_transmit,
        .next_timer = next_timer,
        .write = write_bytes,
        .delivered = delivered,
        .stats = stats,
    };
    if (index > 0)
        return PACELINE_NOT_FOUND;
    memcpy(out, &FIXED, out_size < sizeof FIXED ? out_size : sizeof FIXED);
    return PACELINE_OK;
}
