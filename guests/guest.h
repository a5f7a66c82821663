/* What the guests in C share: random draws, the application's data, and texts. */
#ifndef GUEST_H
#define GUEST_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "paceline_endpoint.h"

/* Flow control that no flow of a scenario reaches, in bytes. */
#define GUEST_WINDOW ((uint64_t)1 << 40)

/* Random bytes: SplitMix64. */
static inline uint64_t guest_draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static inline void guest_fill(uint64_t *state, uint8_t *at, size_t size) {
    while (size > 0) {
        uint64_t some = guest_draw(state);
        size_t piece = size < sizeof some ? size : sizeof some;
        memcpy(at, &some, piece);
        at += piece, size -= piece;
    }
}

static inline int guest_is(paceline_string text, const char *other) {
    return text.length == strlen(other) && memcmp(text.data, other, text.length) == 0;
}

/* What the application has to write: PACELINE_UNLIMITED if there is always more. */
struct guest_data {
    uint64_t unwritten;
    int closes;
};

static inline void guest_write(struct guest_data *data, uint64_t bytes, uint8_t stop, uint8_t close) {
    if (stop && data->unwritten == PACELINE_UNLIMITED)
        data->unwritten = 0;
    if (bytes == PACELINE_UNLIMITED)
        data->unwritten = bytes;
    else if (data->unwritten != PACELINE_UNLIMITED)
        data->unwritten += bytes;
    data->closes |= close;
}

static inline void guest_wrote(struct guest_data *data, uint64_t bytes) {
    if (data->unwritten != PACELINE_UNLIMITED)
        data->unwritten -= bytes;
}

/* The first reason is the one that counts. */
#define guest_fail(why, ...)                             \
    do {                                                 \
        if ((why)[0] == 0)                               \
            snprintf((why), sizeof(why), __VA_ARGS__);   \
    } while (0)

static inline uint32_t guest_failed(const char *why, char *message, size_t message_size) {
    if (why[0] == 0)
        return 0;
    snprintf(message, message_size, "%s", why);
    return 1;
}

static inline paceline_string guest_text(const char *text) {
    return (paceline_string){text, strlen(text)};
}

#define GUEST_EXPORT __attribute__((visibility("default")))

/* A library of one stack. */
static inline uint32_t guest_table(const struct paceline_stack *table, size_t index, struct paceline_stack *out,
                                   size_t out_size) {
    if (index > 0)
        return PACELINE_NOT_FOUND;
    memcpy(out, table, out_size < sizeof *table ? out_size : sizeof *table);
    return PACELINE_OK;
}

#endif
