/* The queue: requests for boards, and whose turn it is when one is free. */
#include <string.h>

#include "base/alloc.h"
#include "tracker/state.h"

static void free_request(kiln_tracker_request *request) {
    kiln_arena_deinit(&request->arena);
    kiln_free(request);
}

void kiln_tracker_request_remove(kiln_tracker *t, kiln_tracker_request *request) {
    uint32_t index = 0;
    while (t->request.data[index] != request) index++;
    memmove(&t->request.data[index], &t->request.data[index + 1],
            (--t->request.count - index) * sizeof request);
    free_request(request);
}

kiln_tracker_request *kiln_tracker_request_find(kiln_tracker *t, const char *tuner,
                                                uint64_t number) {
    for (uint32_t i = 0; i < t->request.count; i++) {
        kiln_tracker_request *request = t->request.data[i];
        if (request->want.request == number && strcmp(request->tuner, tuner) == 0) return request;
    }
    return NULL;
}

void kiln_tracker_requests_end_of_job(kiln_tracker *t, const char *job) {
    for (uint32_t i = t->request.count; i-- > 0;)
        if (kiln_str_is(t->request.data[i]->want.job, job))
            kiln_tracker_request_remove(t, t->request.data[i]);
}

void kiln_tracker_requests_tuner_up(kiln_tracker *t, const kiln_tracker_peer *tuner) {
    for (uint32_t i = t->request.count; i-- > 0;) {
        kiln_tracker_request *request = t->request.data[i];
        if (strcmp(request->node, tuner->node) == 0 && strcmp(request->tuner, tuner->boot) != 0)
            kiln_tracker_request_remove(t, request);
    }
}

void kiln_tracker_requests_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->request.count; i++) free_request(t->request.data[i]);
    kiln_vec_deinit(&t->request);
}

/* ---- Grants ---- */

/* A job's claim on the next free board: fewer leases per weight come first, then the older request.
 */
static double load_of(const kiln_tracker_job *job) {
    return job ? (double)job->leases / (double)KILN_MAX(job->spec.weight, 1u) : 0;
}

static kiln_tracker_request *choose(kiln_tracker *t, const kiln_tracker_board *board) {
    kiln_tracker_request *best = NULL;
    double best_load = 0;
    for (uint32_t i = 0; i < t->request.count; i++) {
        kiln_tracker_request *request = t->request.data[i];
        if (!kiln_tracker_board_fits(board, &request->target, &request->want)) continue;
        double load = load_of(kiln_tracker_job_find(t, request->want.job));
        if (best && load >= best_load) continue;
        best = request;
        best_load = load;
    }
    return best;
}

void kiln_tracker_grant(kiln_tracker *t) {
    for (uint32_t b = 0; b < t->board.count && t->request.count; b++) {
        kiln_tracker_board *board = t->board.data[b];
        for (uint32_t slot = 0; board->peer && board->known && slot < board->up.slots; slot++) {
            if (board->slot[slot]) continue;
            kiln_tracker_request *request = choose(t, board);
            if (!request) break;
            kiln_tracker_lease_grant(t, board, slot, request);
        }
    }
}

/* ---- What tuners ask ---- */

static bool is_job_of(kiln_tracker *t, kiln_str id, const kiln_tracker_peer *tuner) {
    const kiln_tracker_job *job = kiln_tracker_job_find(t, id);
    return job && job->state == KILN_JOB_RUNNING && strcmp(job->tuner, tuner->node) == 0;
}

void kiln_tracker_lease_req(kiln_tracker *t, kiln_tracker_peer *tuner,
                            const kiln_message *message) {
    const kiln_msg_lease_req *want = &message->lease_req;
    if (!is_job_of(t, want->job, tuner)) {
        kiln_tracker_send_error(t, tuner, message->stream, KILN_NOT_FOUND, want->job, want->request,
                                "job %.*s is not this tuner's", KILN_STR_ARG(want->job));
        return;
    }
    if (kiln_tracker_lease_repeat(t, tuner, want->request) ||
        kiln_tracker_request_find(t, tuner->boot, want->request))
        return;
    if (t->request.count >= KILN_TRACKER_REQUESTS_MAX) {
        kiln_tracker_send_error(t, tuner, message->stream, KILN_RESOURCE_EXHAUSTED, want->job,
                                want->request, "the queue of lease requests is full");
        return;
    }
    if (want->trials == 0 || want->ttl_ms == 0 || want->ttl_ms > KILN_TRACKER_LEASE_TTL_MAX_MS) {
        kiln_tracker_send_error(t, tuner, message->stream, KILN_INVALID_ARGUMENT, want->job,
                                want->request,
                                "a lease needs trials, and a time to live of at most %u ms",
                                KILN_TRACKER_LEASE_TTL_MAX_MS);
        return;
    }
    kiln_tracker_request *request = kiln_alloc(sizeof *request);
    kiln_arena_init(&request->arena, KILN_TRACKER_ARENA_BYTES);
    request->want = kiln_message_copy(message, &request->arena).lease_req;
    kiln_tracker_set_text(request->tuner, kiln_str_from(tuner->boot));
    kiln_tracker_set_text(request->node, kiln_str_from(tuner->node));
    kiln_status st = kiln_target_parse(request->want.target, &request->arena, &request->target);
    if (st) {
        kiln_tracker_send_error(t, tuner, message->stream, kiln_status_code(st), want->job,
                                want->request, "%s", kiln_status_text(st));
        kiln_status_free(st);
        free_request(request);
        return;
    }
    kiln_vec_push(&t->request, request);
    t->slots_changed = true;
}
