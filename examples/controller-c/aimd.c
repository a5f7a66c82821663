/* A controller of one's own behind the header: additive increase, multiplicative decrease (RFC 5681's shape, without
 * slow start's refinements), with the decrease as an option.
 *
 * docs/guide/c.md shows how to build it.
 */
#include <stdio.h>
#include <string.h>

#include "paceline_controller.h"

struct aimd {
    uint64_t window, threshold, acked;
    uint32_t mss;
    uint32_t beta_percent;
};

static uint32_t option(const struct paceline_controller *controller, size_t index, struct paceline_option_info *out) {
    (void)controller;
    static const struct paceline_option_info BETA = {PACELINE_STRING("beta"),
                                                     PACELINE_STRING("what is left of the window after a loss, in %")};
    if (index > 0)
        return PACELINE_NOT_FOUND;
    *out = BETA;
    return PACELINE_OK;
}

static const struct paceline_string PHASES[] = {PACELINE_STRING("SlowStart"), PACELINE_STRING("CongestionAvoidance")};

static uint32_t phase_name(const struct paceline_controller *controller, size_t index, struct paceline_string *out) {
    (void)controller;
    if (index >= sizeof PHASES / sizeof *PHASES)
        return PACELINE_NOT_FOUND;
    *out = PHASES[index];
    return PACELINE_OK;
}

static uint32_t field(const struct paceline_controller *controller, size_t index, struct paceline_field *out) {
    (void)controller;
    static const struct paceline_field ACKED = {PACELINE_STRING("acked"), PACELINE_BYTES};
    if (index > 0)
        return PACELINE_NOT_FOUND;
    *out = ACKED;
    return PACELINE_OK;
}

static uint32_t init(const struct paceline_controller *controller, void *state, const struct paceline_config *config,
                     const struct paceline_option *options, size_t option_count, char *message, size_t message_size) {
    (void)controller;
    struct aimd *aimd = state;
    *aimd = (struct aimd){.window = config->initial_window_bytes,
                          .threshold = PACELINE_NONE,
                          .mss = config->mss_bytes,
                          .beta_percent = 50};
    for (size_t i = 0; i < option_count; i++) {
        const struct paceline_string name = options[i].name, value = options[i].value;
        if (name.length != 4 || memcmp(name.data, "beta", 4) != 0) {
            snprintf(message, message_size, "`aimd` has no option `%.*s`", (int)name.length, name.data);
            return PACELINE_BAD_OPTION;
        }
        char text[16] = {0};
        if (value.length < sizeof text)
            memcpy(text, value.data, value.length);
        if (sscanf(text, "%u %%", &aimd->beta_percent) != 1 || aimd->beta_percent == 0 || aimd->beta_percent >= 100) {
            snprintf(message, message_size, "`beta` is a share from \"1 %%\" to \"99 %%\", not `%.*s`",
                     (int)value.length, value.data);
            return PACELINE_BAD_OPTION;
        }
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

static void reduce(struct aimd *aimd) {
    uint64_t least = 2 * (uint64_t)aimd->mss, reduced = aimd->window * aimd->beta_percent / 100;
    aimd->threshold = reduced > least ? reduced : least;
    aimd->acked = 0;
}

static void on_recovery_enter(void *state, uint64_t now_ns, uint64_t in_flight_bytes) {
    (void)now_ns, (void)in_flight_bytes;
    struct aimd *aimd = state;
    reduce(aimd);
    aimd->window = aimd->threshold;
}

static void on_timeout(void *state, uint64_t now_ns, uint64_t in_flight_bytes) {
    (void)now_ns, (void)in_flight_bytes;
    struct aimd *aimd = state;
    reduce(aimd);
    aimd->window = aimd->mss;
}

static void on_mss(void *state, uint32_t mss_bytes) {
    ((struct aimd *)state)->mss = mss_bytes;
}

static void outputs(const void *state, struct paceline_outputs *out) {
    const struct aimd *aimd = state;
    *out = (struct paceline_outputs){.cwnd_bytes = aimd->window,
                                     .pacing_rate_bps = PACELINE_NONE,
                                     .send_quantum_bytes = 2 * (uint64_t)aimd->mss,
                                     .ssthresh_bytes = aimd->threshold,
                                     .ecn = PACELINE_NOT_ECT,
                                     .uses_prr = 1,
                                     .has_ssthresh = 1};
}

static void phase(const void *state, struct paceline_string *out) {
    const struct aimd *aimd = state;
    *out = PHASES[aimd->window < aimd->threshold ? 0 : 1];
}

static void values(const void *state, uint64_t *values, size_t count) {
    if (count > 0)
        values[0] = ((const struct aimd *)state)->acked;
}

uint32_t paceline_controller_get(size_t index, struct paceline_controller *out, size_t out_size) {
    static const struct paceline_controller AIMD = {
        .abi_version = PACELINE_ABI_VERSION,
        .table_size = sizeof(struct paceline_controller),
        .name = PACELINE_STRING("aimd"),
        .summary = PACELINE_STRING("Additive increase, multiplicative decrease"),
        .source = PACELINE_STRING("RFC 5681 section 3.1, without its refinements"),
        .state_size = sizeof(struct aimd),
        .state_align = _Alignof(struct aimd),
        .option = option,
        .phase_name = phase_name,
        .field = field,
        .init = init,
        .on_ack = on_ack,
        .on_recovery_enter = on_recovery_enter,
        .on_timeout = on_timeout,
        .on_mss = on_mss,
        .outputs = outputs,
        .phase = phase,
        .values = values,
    };
    if (index > 0)
        return PACELINE_NOT_FOUND;
    memcpy(out, &AIMD, out_size < sizeof AIMD ? out_size : sizeof AIMD);
    return PACELINE_OK;
}
