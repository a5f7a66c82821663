/* Additive increase, multiplicative decrease (RFC 5681's shape, without its refinements), behind the header:
 *     cc -O2 -fPIC -shared -I FOLDER_OF_THE_HEADER aimd.c -o libaimd.so
 *     paceline run FILE --controller mine=./libaimd.so */
#include <stdio.h>
#include <string.h>

#include "paceline_controller.h"

struct aimd {
    uint64_t window, threshold, acked;
    uint32_t mss, beta_percent;
};

static uint32_t option(const struct paceline_controller *table, size_t index, struct paceline_option_info *out) {
    static const struct paceline_option_info BETA = {PACELINE_STRING("beta_percent"), PACELINE_STRING("% kept")};
    (void)table, *out = BETA;
    return index == 0 ? PACELINE_OK : PACELINE_NOT_FOUND;
}

static uint32_t phase_name(const struct paceline_controller *table, size_t index, struct paceline_string *out) {
    (void)table, *out = (struct paceline_string)PACELINE_STRING("Aimd");
    return index == 0 ? PACELINE_OK : PACELINE_NOT_FOUND;
}

static uint32_t init(const struct paceline_controller *table, void *state, const struct paceline_config *config,
                     const struct paceline_option *options, size_t count, char *message, size_t size) {
    struct aimd *aimd = ((void)table, state);
    *aimd = (struct aimd){config->initial_window_bytes, PACELINE_NONE, 0, config->mss_bytes, 50};
    for (size_t i = 0; i < count; i++) {
        char text[16] = {0};
        memcpy(text, options[i].value.data, options[i].value.length < 15 ? options[i].value.length : 15);
        if (sscanf(text, "%u", &aimd->beta_percent) == 1 && aimd->beta_percent > 0 && aimd->beta_percent < 100)
            continue;
        snprintf(message, size, "`beta_percent` is a whole number from 1 to 99, not `%s`", text);
        return PACELINE_BAD_OPTION;
    }
    return PACELINE_OK;
}

static void on_ack(void *state, const struct paceline_ack *ack) {
    struct aimd *aimd = state;
    if (ack->ca_state == PACELINE_CA_RECOVERY || !ack->cwnd_limited)
        return;
    if (aimd->window < aimd->threshold) {
        aimd->window += ack->newly_acked_bytes;
        return;
    }
    aimd->acked += ack->newly_acked_bytes;
    if (aimd->acked >= aimd->window) {
        aimd->acked -= aimd->window;
        aimd->window += aimd->mss;
    }
}

/* After a timeout as after losses. */
static void reduce(void *state, uint64_t now_ns, uint64_t in_flight_bytes) {
    (void)now_ns, (void)in_flight_bytes;
    struct aimd *aimd = state;
    uint64_t kept = aimd->window * aimd->beta_percent / 100, least = 2 * (uint64_t)aimd->mss;
    aimd->window = aimd->threshold = kept > least ? kept : least;
    aimd->acked = 0;
}

static void outputs(const void *state, struct paceline_outputs *out) {
    const struct aimd *aimd = state;
    *out = (struct paceline_outputs){aimd->window, PACELINE_NONE, 2 * (uint64_t)aimd->mss, .uses_prr = 1};
}

static void phase(const void *state, struct paceline_string *out) { phase_name(NULL, 0, ((void)state, out)); }

uint32_t paceline_controller_get(size_t index, struct paceline_controller *out, size_t out_size) {
    static const struct paceline_controller AIMD = {
        PACELINE_ABI_VERSION, sizeof AIMD, PACELINE_STRING("aimd"), PACELINE_STRING(""), PACELINE_STRING("RFC 5681"),
        .state_size = sizeof(struct aimd), .state_align = _Alignof(struct aimd), .option = option,
        .phase_name = phase_name, .init = init, .on_ack = on_ack, .on_recovery_enter = reduce, .on_timeout = reduce,
        .outputs = outputs, .phase = phase};
    memcpy(out, &AIMD, out_size < sizeof AIMD ? out_size : sizeof AIMD);
    return index == 0 ? PACELINE_OK : PACELINE_NOT_FOUND;
}
