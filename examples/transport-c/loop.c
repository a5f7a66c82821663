/* Drives both ends of a transport by paceline_endpoint.h: ours, in virtual time, through a bottleneck of 50 Mbit/s and
 * 40 ms with one bandwidth-delay product of buffer. What crosses it are bytes, as over a socket.
 *
 * docs/guide/c.md shows how to build and run it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paceline_endpoint.h"

enum { DATAGRAM = 1472, HEADERS = 28, WAY = 4096, OPTIONS = 16, SECONDS = 10 };

static const uint64_t SECOND = 1000000000, HALF_RTT = 20000000, RATE_BPS = 50000000;

/* Datagrams on their way to one end, in order. */
struct way {
    struct {
        uint64_t due;
        uint32_t size, ecn;
        uint8_t data[DATAGRAM];
    } ring[WAY]; /* [first, next), by number modulo WAY */
    uint64_t first, next;
};

static struct paceline_stack stack;
static void *sender, *receiver;
static struct way forth, back;
static uint64_t link_free;

static void *make(int sends, const char *controller, const struct paceline_option *options, size_t count) {
    struct paceline_end_config config = {
        .sends = sends != 0,
        .max_datagram_bytes = DATAGRAM,
        .seed = 1 + (uint64_t)sends,
        .controller = {controller, strlen(controller)},
    };
    size_t size = (stack.state_size + stack.state_align - 1) / stack.state_align * stack.state_align;
    void *state = aligned_alloc(stack.state_align, size);
    char message[256] = "";
    if (stack.init(&stack, state, &config, options, count, message, sizeof message) != PACELINE_OK) {
        fprintf(stderr, "error: %s\n", message);
        exit(2);
    }
    return state;
}

/* The bottleneck, and the uncongested way back: when a datagram arrives, or 0 if the queue has no room for it. */
static uint64_t cross(const struct way *way, uint64_t now, uint32_t size) {
    if (way == &back)
        return now + HALF_RTT;
    uint64_t start = link_free > now ? link_free : now;
    if (start - now > 2 * HALF_RTT)
        return 0; /* what the queue holds takes an RTT to drain: one BDP */
    link_free = start + (uint64_t)(size + HEADERS) * 8 * SECOND / RATE_BPS;
    return link_free + HALF_RTT;
}

/* One step of an end: what has come, or its time-out; what it sends; when it wants to be called next. */
static uint64_t step(void *end, uint64_t now, struct way *in, struct way *out) {
    stack.on_timer(end, now);
    for (; in->first < in->next && in->ring[in->first % WAY].due <= now; in->first++) {
        struct paceline_datagram datagram = {
            .data = in->ring[in->first % WAY].data,
            .size_bytes = in->ring[in->first % WAY].size,
            .ecn = in->ring[in->first % WAY].ecn,
        };
        stack.receive(end, now, &datagram);
    }
    static uint8_t room[65536];
    struct paceline_batch batch = {.data = room, .capacity_bytes = stack.max_batch_bytes};
    while (stack.poll_transmit(end, now, &batch)) {
        for (uint32_t at = 0; at < batch.size_bytes; at += batch.segment_size_bytes) {
            uint32_t left = batch.size_bytes - at;
            uint32_t size = left < batch.segment_size_bytes ? left : batch.segment_size_bytes;
            uint64_t due = cross(out, now, size);
            if (due == 0 || size > DATAGRAM || out->next - out->first == WAY)
                continue;
            out->ring[out->next % WAY].due = due;
            out->ring[out->next % WAY].size = size;
            out->ring[out->next % WAY].ecn = batch.ecn;
            memcpy(out->ring[out->next % WAY].data, room + at, size);
            out->next++;
        }
    }
    return stack.next_timer(end);
}

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t arrival(const struct way *way) {
    return way->first < way->next ? way->ring[way->first % WAY].due : UINT64_MAX;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 2 + OPTIONS) {
        fprintf(stderr, "usage: loop CONTROLLER [OPTION=VALUE]...\n");
        return 2;
    }
    struct paceline_option options[OPTIONS];
    size_t count = 0;
    for (int i = 2; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        if (!value) {
            fprintf(stderr, "error: an option is written OPTION=VALUE, not %s\n", argv[i]);
            return 2;
        }
        options[count].name = (struct paceline_string){argv[i], (size_t)(value - argv[i])};
        options[count++].value = (struct paceline_string){value + 1, strlen(value + 1)};
    }
    if (paceline_stack_get(0, &stack, sizeof stack) != PACELINE_OK || stack.table_size < sizeof stack) {
        fprintf(stderr, "error: this library has no such transport\n");
        return 2;
    }
    sender = make(1, argv[1], options, count);
    receiver = make(0, "", NULL, 0);

    uint64_t now = 0, before = 0;
    stack.write(sender, now, PACELINE_UNLIMITED, 0, 0);
    for (uint64_t second = 1; second <= SECONDS;) {
        uint64_t next = earlier(step(sender, now, &back, &forth), step(receiver, now, &forth, &back));
        now = earlier(next, earlier(arrival(&forth), arrival(&back)));
        for (; second <= SECONDS && now >= second * SECOND; second++) {
            struct paceline_stats stats;
            stack.stats(sender, &stats);
            uint64_t delivered = stack.delivered(receiver);
            printf("%2" PRIu64 " s  %5.1f Mbit/s  RTT %5.1f ms  cwnd %7" PRIu64 " B  lost %" PRIu64 "\n", second,
                   (double)(delivered - before) * 8e-6, (double)stats.latest_rtt_ns * 1e-6, stats.cwnd_bytes,
                   stats.lost_packets);
            before = delivered;
        }
    }
    stack.fini(sender);
    stack.fini(receiver);
    free(sender);
    free(receiver);
    return 0;
}
