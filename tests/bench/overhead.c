/* bench-overhead OBJECTS TRACKER RPC-SERVER TRIALS: what a trial costs beside its kernel, over real
 * tracker and rpc-server on a Unix socket, blobs cached: one trial at a time (time from the request
 * to its result) and several waiting at the board (time per trial). The kernel itself runs for some
 * ten microseconds. Also the bytes of its messages. Prints a JSON object. */
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

static kiln_msg_blob_ref upload(bench *b, kiln_strbuf *bytes) {
    kiln_msg_blob_ref blob = fleet_upload(&b->fleet, kiln_strbuf_view(bytes));
    kiln_strbuf_deinit(bytes);
    return blob;
}

static kiln_msg_trial next_trial(bench *b, char id[33]) {
    snprintf(id, 33, "%032u", ++b->sent); /* as long as real identities */
    kiln_msg_trial trial = fleet_trial(&b->fleet, id, 1, &b->artefact, &b->reference);
    trial.policy = (kiln_msg_policy){
        .samples_min = 1, .samples_max = 1, .interval = 1, .sample_ns = 1, .total_ns = 1};
    return trial;
}

static size_t frame_bytes(const kiln_message *message) {
    kiln_strbuf frame = {0};
    expect_ok(kiln_frame_write_message(&frame, message));
    size_t size = frame.size;
    kiln_strbuf_deinit(&frame);
    return size;
}

/* Request, events, result and acknowledgement of one trial. */
static size_t wire_bytes(const kiln_msg_trial *trial, const kiln_msg_trial_result *result) {
    kiln_message event = {.type = KILN_MSG_TRIAL_EVENT,
                          .trial_event = {.trial = trial->trial,
                                          .attempt = trial->attempt,
                                          .lease = trial->lease,
                                          .phase = KILN_PHASE_CHECK,
                                          .elapsed_ns = 10000000}};
    kiln_message ack = {.type = KILN_MSG_TRIAL_ACK,
                        .trial_ack = {trial->trial, trial->attempt, trial->lease}};
    return frame_bytes(&(kiln_message){.type = KILN_MSG_TRIAL, .trial = *trial}) +
           4 * frame_bytes(&event) +
           frame_bytes(&(kiln_message){.type = KILN_MSG_TRIAL_RESULT, .trial_result = *result}) +
           frame_bytes(&ack);
}

/* Milliseconds from request to result; `*out_bytes` of its messages. */
static double run_one(bench *b, kiln_msg_phases *out_times, size_t *out_bytes) {
    char id[33];
    const kiln_msg_trial trial = next_trial(b, id);
    uint64_t begin = kiln_clock_ns();
    fleet_send_trial(&b->fleet, &trial);
    const kiln_msg_trial_result *result = fleet_await_result(&b->fleet, id, 1);
    double spent_ms = (double)(kiln_clock_ns() - begin) / 1e6;
    assert_non_null(result);
    assert_int_equal(result->outcome, KILN_OUTCOME_OK);
    *out_times = result->times_ns;
    *out_bytes = wire_bytes(&trial, result);
    fleet_acknowledge(&b->fleet, result);
    return spent_ms;
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

int main(int argc, char **argv) {
    static double spent[TRIALS_MAX], load[TRIALS_MAX];
    static bench b;
    uint32_t count = argc == 5 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    if (count < 1 || count > TRIALS_MAX) {
        fprintf(stderr, "bench-overhead OBJECTS TRACKER RPC-SERVER TRIALS (1 to 2000)\n");
        return 1;
    }
    fleet_set_up(&b.fleet, argv[2], argv[3]);
    fleet_open_job(&b.fleet);
    kiln_strbuf artefact = {0}, reference = {0};
    candidate_artefact(argv[1], "honest", CANDIDATE_FLOPS, &artefact);
    candidate_reference(CANDIDATE_ELEMENTS, &reference);
    b.artefact = upload(&b, &artefact);
    b.reference = upload(&b, &reference);
    fleet_lease(&b.fleet, 4096);
    assert_true(b.fleet.lease_trials > 2 * count);
    kiln_msg_phases times;
    size_t bytes = 0;
    run_one(&b, &times, &bytes); /* brings the blobs */
    for (uint32_t i = 0; i < count; i++) {
        spent[i] = run_one(&b, &times, &bytes);
        load[i] = (double)times.load / 1e6;
    }
    double many_ms = run_many(&b, KILN_MIN(count, 200));
    kiln_stats all = kiln_stats_of(spent, count);
    double least = spent[0];
    for (uint32_t i = 1; i < count; i++) least = KILN_MIN(least, spent[i]);
    printf("{\"event\":\"overhead\",\"trials\":%u,\"median_ms\":%.4g,\"min_ms\":%.4g,"
           "\"load_ms\":%.4g,\"queued_ms\":%.4g,\"bytes\":%zu}\n",
           count, all.median, least, kiln_stats_median(load, count), many_ms, bytes);
    fleet_tear_down(&b.fleet);
    return 0;
}
