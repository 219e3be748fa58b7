/* bench-overhead OBJECTS TRACKER RPC-SERVER TRIALS: what a trial costs beside its kernel, over real
 * tracker and rpc-server on a Unix socket, blobs cached: one trial at a time (time from the request
 * to its result) and several waiting at the board (time per trial). The kernel itself runs for some
 * ten microseconds. Also what goes over the tuner's wire for a trial. Prints a JSON object. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/stats.h"
#include "tests/unit/rpc-server/fleet.h"

#define TRIALS_MAX 2000u
#define AHEAD 8u

typedef struct bench {
    fleet fleet;
    kiln_msg_blob_ref artefact, reference;
    uint32_t sent;
} bench;

static kiln_msg_trial next_trial(bench *b, char id[33]) {
    snprintf(id, 33, "%032u", ++b->sent); /* as long as real identities */
    kiln_msg_trial trial = fleet_trial(&b->fleet, id, 1, &b->artefact, &b->reference);
    trial.policy = (kiln_msg_policy){
        .samples_min = 1, .samples_max = 1, .interval = 1, .sample_ns = 1, .total_ns = 1};
    return trial;
}

/* What one trial costs, as its tuner sees it. */
typedef struct cost {
    double spent_ms;        /* from request to result */
    kiln_msg_phases phases; /* of them in the contained child, nanoseconds */
    uint32_t events;        /* messages of the answer beside the result */
} cost;

static cost run_one(bench *b) {
    char id[33];
    const kiln_msg_trial trial = next_trial(b, id);
    const uint64_t begin = kiln_clock_ns();
    const size_t events = b->fleet.events.count;
    fleet_send_trial(&b->fleet, &trial);
    const kiln_msg_trial_result *result = fleet_await_result(&b->fleet, id, 1);
    cost c = {.spent_ms = (double)(kiln_clock_ns() - begin) / 1e6};
    assert_non_null(result);
    assert_int_equal(result->outcome, KILN_OUTCOME_OK);
    c.phases = result->times_ns;
    c.events = (uint32_t)(b->fleet.events.count - events);
    fleet_acknowledge(&b->fleet, result);
    return c;
}

/* Milliseconds per trial when AHEAD of them wait at the board. */
static double run_many(bench *b, uint32_t count) {
    char id[33];
    const uint32_t before = b->fleet.results;
    uint64_t begin = kiln_clock_ns();
    for (uint32_t sent = 0; b->fleet.results - before < count;) {
        for (; sent < count && sent - (b->fleet.results - before) < AHEAD; sent++) {
            const kiln_msg_trial trial = next_trial(b, id);
            fleet_send_trial(&b->fleet, &trial);
        }
        fleet_turn(&b->fleet);
    }
    return (double)(kiln_clock_ns() - begin) / 1e6 / count;
}

/* Where the time goes: medians of the phases, in milliseconds; what is left is starting a child,
 * seeing it gone, comparing, and messages. */
static void print_phases(const cost *c, uint32_t count) {
    static const struct {
        const char *name;
        size_t offset;
    } phase[] = {{"load", offsetof(kiln_msg_phases, load)},
                 {"warm", offsetof(kiln_msg_phases, warm)},
                 {"run", offsetof(kiln_msg_phases, run)},
                 {"check", offsetof(kiln_msg_phases, check)}};
    static double ms[TRIALS_MAX];
    for (size_t p = 0; p < KILN_ARRAY_COUNT(phase); p++) {
        for (uint32_t i = 0; i < count; i++)
            ms[i] = (double)*(const uint64_t *)(const void *)((const char *)&c[i].phases +
                                                              phase[p].offset) /
                    1e6;
        printf("\"%s_ms\":%.4g,", phase[p].name, kiln_stats_median(ms, count));
    }
}

int main(int argc, char **argv) {
    static double spent[TRIALS_MAX];
    static cost c[TRIALS_MAX];
    static bench b;
    uint32_t count = argc == 5 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0, events = 0;
    if (count < 1 || count > TRIALS_MAX) {
        fprintf(stderr, "bench-overhead OBJECTS TRACKER RPC-SERVER TRIALS (1 to 2000)\n");
        return 1;
    }
    fleet_take_arguments(argc, argv);
    fleet_set_up(&b.fleet, NULL);
    fleet_open_job(&b.fleet);
    b.artefact = fleet_upload_candidate(&b.fleet, "honest");
    b.reference = fleet_upload_reference(&b.fleet);
    fleet_lease(&b.fleet, 4096);
    assert_true(b.fleet.lease_trials > 2 * count);
    (void)run_one(&b); /* brings the blobs */
    const uint64_t wire = kiln_conn_wire_bytes(b.fleet.tuner);
    for (uint32_t i = 0; i < count; i++) {
        c[i] = run_one(&b);
        spent[i] = c[i].spent_ms;
        events += c[i].events;
    }
    const double bytes = (double)(kiln_conn_wire_bytes(b.fleet.tuner) - wire) / count;
    double many_ms = run_many(&b, KILN_MIN(count, 200));
    const kiln_stats all = kiln_stats_of(spent, count);
    printf("{\"event\":\"overhead\",\"trials\":%u,\"median_ms\":%.4g,\"min_ms\":%.4g,", count,
           all.median, all.minimum);
    print_phases(c, count);
    printf("\"queued_ms\":%.4g,\"messages\":%.3g,\"bytes\":%.0f}\n", many_ms,
           1 + (double)events / count, bytes);
    fleet_tear_down(&b.fleet);
    return 0;
}
