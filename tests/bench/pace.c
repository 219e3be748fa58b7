/* bench-pace ROUNDS: what the reference kernel takes in each state, against what is usual here
 *
 * Learns what is usual as a server does when it starts, takes ROUNDS more rounds on the same core
 * as trials do, and prints a JSON object: of each part how it is used at the end, its band, and of
 * each state the middle and the edges of its readings and the share of them that was out of band.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/stats.h"
#include "rpc-server/board.h"
#include "rpc-server/drift.h"
#include "rpc-server/executor.h"

#define ROUNDS_MAX 10000u

static const char *const state_name[KILN_REFERENCE_KERNEL_STATE_COUNT] = {"pause", "arithmetic",
                                                                          "memory", "reading"};

/* Readings of one part in one state, and how many were out of the band of their time. */
typedef struct column {
    double ns[ROUNDS_MAX];
    uint32_t out;
} column;

static column arithmetic[KILN_REFERENCE_KERNEL_STATE_COUNT],
    memory[KILN_REFERENCE_KERNEL_STATE_COUNT];

/* As in a trial: against what the rounds before it were like. */
static void take(kiln_drift *drift, const kiln_reference_kernel_round *round, uint32_t index) {
    for (uint32_t s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++) {
        const kiln_reference_kernel_times *pace = &round->reading[s];
        const kiln_reference_kernel_norm *norm = &drift->norm;
        arithmetic[s].ns[index] = pace->arithmetic_ns;
        memory[s].ns[index] = pace->memory_ns;
        arithmetic[s].out +=
            kiln_part_is_out(pace->arithmetic_ns / norm->arithmetic.usual_ns, &norm->arithmetic);
        memory[s].out += kiln_part_is_out(pace->memory_ns / norm->memory.usual_ns, &norm->memory);
    }
    kiln_drift_take(drift, round);
}

static void print_part(const char *name, const column *state, uint32_t count,
                       const kiln_part_norm *norm) {
    kiln_strbuf text = {0};
    kiln_part_norm_print(norm, &text);
    printf("{\"part\":\"%s\",\"used\":%s,\"text\":\"%s\",\"usual_ns\":%.0f,\"band\":%.4f,"
           "\"states\":[",
           name, norm->use == KILN_PART_USED ? "true" : "false", text.data, norm->usual_ns,
           norm->band);
    for (uint32_t s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++)
        printf("%s{\"after\":\"%s\",\"p05_ns\":%.0f,\"median_ns\":%.0f,\"p95_ns\":%.0f,"
               "\"out\":%.4f}",
               s ? "," : "", state_name[s], kiln_stats_quantile(state[s].ns, count, 0.05),
               kiln_stats_median(state[s].ns, count), kiln_stats_quantile(state[s].ns, count, 0.95),
               (double)state[s].out / count);
    printf("]}");
    kiln_strbuf_deinit(&text);
}

int main(int argc, char **argv) {
    static kiln_reference_kernel_round round[ROUNDS_MAX];
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    const uint32_t count = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    if (count < 1 || count > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench-pace ROUNDS, 1 to %u\n", ROUNDS_MAX);
        return 2;
    }
    kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    kiln_drift drift = {0};
    kiln_status st = kiln_reference_kernel_watch(core[0], KILN_DRIFT_START, round);
    for (uint32_t i = 0; !st && i < KILN_DRIFT_START; i++) kiln_drift_take(&drift, &round[i]);
    if (!st) st = kiln_reference_kernel_watch(core[0], count, round);
    if (st) {
        fprintf(stderr, "bench-pace: %s\n", kiln_status_text(st));
        kiln_status_free(st);
        return 1;
    }
    for (uint32_t i = 0; i < count; i++) take(&drift, &round[i], i);
    printf("{\"event\":\"pace\",\"rounds\":%u,\"parts\":[", count);
    print_part("arithmetic", arithmetic, count, &drift.norm.arithmetic);
    printf(",");
    print_part("memory", memory, count, &drift.norm.memory);
    printf("]}\n");
    return 0;
}
