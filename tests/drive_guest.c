/* Drives the only controller of a library as a transport would: 2,000 acknowledgments, losses and timeouts. */
#include <stdio.h>
#include <stdlib.h>

#include "paceline_controller.h"

int main(void) {
    struct paceline_controller table;
    if (paceline_controller_get(0, &table, sizeof table) != PACELINE_OK ||
        paceline_controller_get(1, &table, sizeof table) != PACELINE_NOT_FOUND)
        return 2;
    struct paceline_option_info info;
    struct paceline_string name;
    if (table.option(&table, 0, &info) != PACELINE_OK || table.option(&table, 1, &info) != PACELINE_NOT_FOUND ||
        table.phase_name(&table, 0, &name) != PACELINE_OK || table.phase_name(&table, 1, &name) != PACELINE_NOT_FOUND)
        return 3;
    struct paceline_config config = {.mss_bytes = 1448, .initial_window_bytes = 14480};
    char *digits = malloc(20); /* not ended by a zero, as the header says */
    void *state = malloc(table.state_size);
    if (digits == NULL || state == NULL)
        return 1;
    for (int i = 0; i < 20; i++)
        digits[i] = '7';
    struct paceline_option beta = {PACELINE_STRING("beta_percent"), {digits, 20}};
    char message[16];
    if (table.init(&table, state, &config, &beta, 1, message, sizeof message) != PACELINE_BAD_OPTION)
        return 4;
    beta.value.length = 2;
    if (table.init(&table, state, &config, &beta, 1, message, sizeof message) != PACELINE_OK)
        return 5;
    struct paceline_outputs outputs;
    for (uint64_t n = 0; n < 2000; n++) {
        struct paceline_ack ack = {.now_ns = n * 1000000, .newly_acked_bytes = 2896, .cwnd_limited = 1};
        table.on_ack(state, &ack);
        if (n % 100 == 99)
            table.on_recovery_enter(state, ack.now_ns, 0);
        if (n % 900 == 899)
            table.on_timeout(state, ack.now_ns, 0);
        table.outputs(state, &outputs);
        table.phase(state, &name);
    }
    printf("%.*s %d\n", (int)name.length, name.data, outputs.cwnd_bytes >= 2896);
    free(state);
    free(digits);
    return 0;
}
