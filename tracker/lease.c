/* Leases: the queue of requests, grants that are on disk before they are sent, and the fence.
 * Everything about a trial passes through here and is let through only under a lease that holds. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "tracker/state.h"

static kiln_str number_key(const uint64_t *number) {
    return (kiln_str){(const char *)number, sizeof *number};
}

kiln_tracker_lease *kiln_tracker_lease_find(kiln_tracker *t, uint64_t number) {
    uint64_t value = 0;
    return kiln_map_find(&t->lease_of_number, number_key(&number), &value)
               ? (kiln_tracker_lease *)(uintptr_t)value
               : NULL;
}

static void count_for_job(kiln_tracker *t, const kiln_tracker_lease *lease, int change) {
    kiln_tracker_job *job = kiln_tracker_job_find(t, kiln_str_from(lease->job));
    if (job) job->leases += (uint32_t)change;
}

static void add_lease(kiln_tracker *t, kiln_tracker_lease *lease) {
    lease->board->slot[lease->slot] = lease->lease;
    kiln_vec_push(&t->lease, lease);
    kiln_map_put(&t->lease_of_number, number_key(&lease->lease), (uintptr_t)lease);
    count_for_job(t, lease, 1);
}

static void free_lease(kiln_tracker_lease *lease) {
    kiln_vec_deinit(&lease->trial);
    kiln_free(lease);
}

static void free_request(kiln_tracker_request *request) {
    kiln_arena_deinit(&request->arena);
    kiln_free(request);
}

void kiln_tracker_leases_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->lease.count; i++) free_lease(t->lease.data[i]);
    for (uint32_t i = 0; i < t->request.count; i++) free_request(t->request.data[i]);
    kiln_vec_deinit(&t->lease);
    kiln_vec_deinit(&t->request);
    kiln_map_deinit(&t->lease_of_number);
}

static void remove_request(kiln_tracker *t, uint32_t index) {
    free_request(t->request.data[index]);
    memmove(&t->request.data[index], &t->request.data[index + 1],
            (--t->request.count - index) * sizeof t->request.data[0]);
}

/* Index of a waiting request, or UINT32_MAX. */
static uint32_t find_request(const kiln_tracker *t, const char *tuner, uint64_t number) {
    for (uint32_t i = 0; i < t->request.count; i++) {
        const kiln_tracker_request *request = t->request.data[i];
        if (request->want.request == number && strcmp(request->tuner, tuner) == 0) return i;
    }
    return UINT32_MAX;
}

static kiln_tracker_lease *find_granted(kiln_tracker *t, const char *tuner, uint64_t request) {
    for (uint32_t i = 0; i < t->lease.count; i++)
        if (t->lease.data[i]->request == request && strcmp(t->lease.data[i]->tuner, tuner) == 0)
            return t->lease.data[i];
    return NULL;
}

/* ---- The end of a lease ---- */

/* Row of a lease, named by its slot, so that a slot has one row whatever could not be written
 * before. The name lies in `name`, which must last as long. */
static kiln_tracker_row row_of(const kiln_tracker_lease *lease, kiln_strbuf *name) {
    kiln_strbuf_printf(name, "%s/%u", lease->board->node, lease->slot);
    return (kiln_tracker_row){
        .kind = KILN_TRACKER_ROW_LEASE,
        .id = kiln_strbuf_view(name),
        .board = kiln_str_from(lease->board->node),
        .tuner = kiln_str_from(lease->tuner),
        .job = kiln_str_from(lease->job),
        .epoch = lease->lease,
        .slot = lease->slot,
        .trials = lease->trials,
        .ttl_ms = lease->ttl_ms,
    };
}

void kiln_tracker_lease_end(kiln_tracker *t, kiln_tracker_lease *lease, kiln_code code,
                            const char *why) {
    kiln_message lost = {
        .type = KILN_MSG_LEASE_LOST,
        .lease_lost = {.lease = lease->lease, .code = (uint32_t)code, .text = kiln_str_from(why)},
    };
    kiln_tracker_send(t, lease->board->peer, &lost);
    kiln_tracker_send(t, kiln_tracker_tuner_by_boot(t, lease->tuner), &lost);
    if (lease->persist && code != KILN_OK) {
        /* The holder does not know this number yet; it knows its request, which ends with it. */
        kiln_tracker_send_error(t, kiln_tracker_tuner_by_boot(t, lease->tuner), 0, code,
                                kiln_str_from(lease->job), lease->request, "%s", why);
    }
    kiln_strbuf name = {0};
    kiln_tracker_row row = row_of(lease, &name);
    row.removed = true;
    kiln_tracker_persist(t, &row, 1); /* should it fail, the next tracker lets the lease expire */
    kiln_strbuf_deinit(&name);

    count_for_job(t, lease, -1);
    lease->board->slot[lease->slot] = 0;
    kiln_map_remove(&t->lease_of_number, number_key(&lease->lease));
    for (uint32_t i = 0; i < t->lease.count; i++)
        if (t->lease.data[i] == lease) t->lease.data[i] = kiln_vec_last(&t->lease);
    t->lease.count--;
    t->slots_changed = true;
    free_lease(lease);
}

void kiln_tracker_leases_end_of_job(kiln_tracker *t, const char *job) {
    for (uint32_t i = t->request.count; i-- > 0;)
        if (kiln_str_is(t->request.data[i]->want.job, job)) remove_request(t, i);
    for (uint32_t i = t->lease.count; i-- > 0;)
        if (strcmp(t->lease.data[i]->job, job) == 0)
            kiln_tracker_lease_end(t, t->lease.data[i], KILN_OK, "the job is over");
}

void kiln_tracker_leases_tuner_up(kiln_tracker *t, const kiln_tracker_peer *tuner) {
    for (uint32_t i = t->request.count; i-- > 0;) {
        const kiln_tracker_request *request = t->request.data[i];
        if (strcmp(request->node, tuner->node) == 0 && strcmp(request->tuner, tuner->boot) != 0)
            remove_request(t, i);
    }
    for (uint32_t i = t->lease.count; i-- > 0;) {
        kiln_tracker_lease *lease = t->lease.data[i];
        if (strcmp(lease->node, tuner->node) == 0 && strcmp(lease->tuner, tuner->boot) != 0)
            kiln_tracker_lease_end(t, lease, KILN_ABORTED, "its tuner was started anew");
    }
}

void kiln_tracker_leases_tick(kiln_tracker *t) {
    for (uint32_t i = t->lease.count; i-- > 0;) {
        kiln_tracker_lease *lease = t->lease.data[i];
        if (lease->board_due_ns && t->now_ns >= lease->board_due_ns)
            kiln_tracker_lease_end(t, lease, KILN_UNAVAILABLE,
                                   "its board did not come back after the tracker's restart");
        else if (t->now_ns >= lease->expires_ns)
            kiln_tracker_lease_end(t, lease, KILN_DEADLINE_EXCEEDED,
                                   "the lease was not renewed in time");
    }
}

/* ---- Grants ---- */

static void send_grant(kiln_tracker *t, const kiln_tracker_lease *lease) {
    const kiln_msg_board_up *up = &lease->board->up;
    kiln_message grant = {
        .type = KILN_MSG_LEASE_GRANT,
        .lease_grant = {.request = lease->request,
                        .lease = lease->lease,
                        .board = kiln_str_from(lease->board->node),
                        .key = up->key,
                        .target = up->target,
                        .device = up->device,
                        .firmware = up->firmware,
                        .slot = lease->slot,
                        .trials = lease->trials,
                        .ttl_ms = lease->ttl_ms},
    };
    kiln_tracker_send(t, kiln_tracker_tuner_by_boot(t, lease->tuner), &grant);
}

/* A job's claim on the next free board: fewer leases per weight come first, then the older request.
 */
static double load_of(const kiln_tracker_job *job) {
    return job ? (double)job->leases / (double)KILN_MAX(job->spec.weight, 1u) : 0;
}

static uint32_t choose_request(kiln_tracker *t, const kiln_tracker_board *board) {
    uint32_t best = UINT32_MAX;
    double best_load = 0;
    for (uint32_t i = 0; i < t->request.count; i++) {
        const kiln_tracker_request *request = t->request.data[i];
        if (!kiln_tracker_board_fits(board, &request->target, &request->want)) continue;
        double load = load_of(kiln_tracker_job_find(t, request->want.job));
        if (best != UINT32_MAX && load >= best_load) continue;
        best = i;
        best_load = load;
    }
    return best;
}

/* Takes the slot now and asks for the row to be written; the holder hears of it when that is done.
 */
static void grant(kiln_tracker *t, kiln_tracker_board *board, uint32_t slot, uint32_t index) {
    const kiln_tracker_request *request = t->request.data[index];
    kiln_tracker_lease *lease = kiln_alloc(sizeof *lease);
    lease->lease = ++t->epoch;
    lease->request = request->want.request;
    lease->board = board;
    lease->slot = slot;
    lease->trials = request->want.trials;
    lease->ttl_ms = request->want.ttl_ms;
    lease->expires_ns = t->now_ns + lease->ttl_ms * UINT64_C(1000000);
    kiln_tracker_set_text(lease->tuner, kiln_str_from(request->tuner));
    kiln_tracker_set_text(lease->node, kiln_str_from(request->node));
    kiln_tracker_set_text(lease->job, request->want.job);
    kiln_strbuf name = {0};
    kiln_tracker_row row[] = {
        row_of(lease, &name),
        {.kind = KILN_TRACKER_ROW_EPOCH, .id = KILN_STR("epoch"), .epoch = t->epoch},
    };
    lease->persist = kiln_tracker_persist(t, row, 2);
    kiln_strbuf_deinit(&name);
    add_lease(t, lease);
    remove_request(t, index);
}

void kiln_tracker_grant(kiln_tracker *t) {
    for (uint32_t b = 0; b < t->board.count && t->request.count; b++) {
        kiln_tracker_board *board = t->board.data[b];
        for (uint32_t slot = 0; board->peer && board->known && slot < board->up.slots; slot++) {
            if (board->slot[slot]) continue;
            uint32_t index = choose_request(t, board);
            if (index == UINT32_MAX) break;
            grant(t, board, slot, index);
        }
    }
}

void kiln_tracker_lease_persisted(kiln_tracker *t, uint64_t persist, const char *failure) {
    for (uint32_t i = 0; i < t->lease.count; i++) {
        kiln_tracker_lease *lease = t->lease.data[i];
        if (lease->persist != persist) continue;
        if (failure) {
            kiln_tracker_lease_end(t, lease, KILN_RESOURCE_EXHAUSTED, failure);
            return;
        }
        lease->persist = 0;
        lease->expires_ns = t->now_ns + lease->ttl_ms * UINT64_C(1000000);
        t->grants++;
        send_grant(t, lease);
        return;
    }
}

kiln_status kiln_tracker_lease_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    kiln_tracker_board *board = kiln_tracker_board_get(t, row->board);
    if (!board || row->slot >= KILN_TRACKER_SLOTS_MAX || row->epoch == 0 || board->slot[row->slot])
        return KILN_ERROR(DATA_LOSS, "stored lease %.*s of board %.*s makes no sense",
                          KILN_STR_ARG(row->id), KILN_STR_ARG(row->board));
    kiln_tracker_lease *lease = kiln_alloc(sizeof *lease);
    lease->lease = row->epoch;
    lease->board = board;
    lease->slot = row->slot;
    lease->trials = row->trials;
    lease->ttl_ms = row->ttl_ms;
    lease->expires_ns = t->now_ns + lease->ttl_ms * UINT64_C(1000000);
    lease->board_due_ns = t->now_ns + KILN_TRACKER_WAIT_NS;
    kiln_tracker_set_text(lease->tuner, row->tuner);
    kiln_tracker_set_text(lease->job, row->job);
    /* Its holder may come back as another run of the same tuner, which ends the lease at once. */
    const kiln_tracker_job *job = kiln_tracker_job_find(t, row->job);
    if (job) kiln_tracker_set_text(lease->node, kiln_str_from(job->tuner));
    add_lease(t, lease);
    t->epoch = KILN_MAX(t->epoch, lease->lease);
    return KILN_OK;
}

/* ---- What tuners say about leases ---- */

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
    const kiln_tracker_lease *granted = find_granted(t, tuner->boot, want->request);
    if (granted && !granted->persist) send_grant(t, granted); /* it got lost on the way */
    if (granted || find_request(t, tuner->boot, want->request) != UINT32_MAX) return;
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

/* The lease that a tuner speaks of when it is its own; otherwise the tuner is told that it has
 * none. */
static kiln_tracker_lease *own_lease(kiln_tracker *t, kiln_tracker_peer *tuner, uint64_t number) {
    kiln_tracker_lease *lease = kiln_tracker_lease_find(t, number);
    if (lease && strcmp(lease->tuner, tuner->boot) == 0 && !lease->persist) return lease;
    kiln_message lost = {
        .type = KILN_MSG_LEASE_LOST,
        .lease_lost = {.lease = number,
                       .code = KILN_ABORTED,
                       .text = KILN_STR("this tuner holds no such lease")},
    };
    kiln_tracker_send(t, tuner, &lost);
    return NULL;
}

void kiln_tracker_lease_renew(kiln_tracker *t, kiln_tracker_peer *tuner,
                              const kiln_message *message) {
    kiln_tracker_lease *lease = own_lease(t, tuner, message->lease_renew.lease);
    if (!lease) return;
    lease->expires_ns = t->now_ns + lease->ttl_ms * UINT64_C(1000000);
    kiln_tracker_send(t, tuner, message);
}

void kiln_tracker_lease_release(kiln_tracker *t, kiln_tracker_peer *tuner,
                                const kiln_message *message) {
    const kiln_msg_lease_release *release = &message->lease_release;
    kiln_tracker_lease *lease = release->lease ? kiln_tracker_lease_find(t, release->lease)
                                               : find_granted(t, tuner->boot, release->request);
    if (lease && strcmp(lease->tuner, tuner->boot) == 0)
        kiln_tracker_lease_end(t, lease, KILN_OK, "released");
    uint32_t index = release->lease ? UINT32_MAX : find_request(t, tuner->boot, release->request);
    if (index != UINT32_MAX) remove_request(t, index);
}

/* ---- Trials on their way ---- */

/* False when the lease has sent its K trials and this is another one. */
static bool count_trial(kiln_tracker_lease *lease, kiln_str trial) {
    uint64_t hash = kiln_hash64(trial.data, trial.size, 0);
    for (uint32_t i = 0; i < lease->trial.count; i++)
        if (lease->trial.data[i] == hash) return true;
    if (lease->trial.count >= lease->trials) return false;
    kiln_vec_push(&lease->trial, hash);
    return true;
}

static uint64_t lease_in(const kiln_message *message) {
    if (message->type == KILN_MSG_TRIAL) return message->trial.lease;
    if (message->type == KILN_MSG_TRIAL_ACK) return message->trial_ack.lease;
    if (message->type == KILN_MSG_CANCEL) return message->cancel.lease;
    if (message->type == KILN_MSG_TRIAL_EVENT) return message->trial_event.lease;
    return message->trial_result.lease;
}

static void forward(kiln_tracker *t, const kiln_tracker_peer *to, const kiln_message *message) {
    kiln_message copy = *message;
    copy.stream = 0; /* streams belong to one connection */
    kiln_tracker_send(t, to, &copy);
}

void kiln_tracker_trial_down(kiln_tracker *t, kiln_tracker_peer *tuner,
                             const kiln_message *message) {
    kiln_tracker_lease *lease = own_lease(t, tuner, lease_in(message));
    if (!lease) {
        t->stale_refused += message->type == KILN_MSG_TRIAL;
        return;
    }
    if (message->type == KILN_MSG_TRIAL && !count_trial(lease, message->trial.trial)) {
        kiln_tracker_send_error(t, tuner, message->stream, KILN_RESOURCE_EXHAUSTED,
                                message->trial.trial, lease->lease, "lease %llu was for %u trials",
                                (unsigned long long)lease->lease, lease->trials);
        return;
    }
    forward(t, lease->board->peer, message);
}

void kiln_tracker_trial_up(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    uint64_t number = lease_in(message);
    kiln_tracker_lease *lease = kiln_tracker_lease_find(t, number);
    if (!lease ||
        lease->board != peer->board) { /* the fence: a late answer under a lease that is over */
        t->stale_refused++;
        kiln_message lost = {.type = KILN_MSG_LEASE_LOST,
                             .lease_lost = {.lease = number, .code = KILN_ABORTED}};
        kiln_tracker_send(t, peer, &lost);
        return;
    }
    if (message->type == KILN_MSG_TRIAL_RESULT) {
        lease->board->results++;
        t->results++;
    }
    /* A holder that is away gets it when the board sends it again. */
    forward(t, kiln_tracker_tuner_by_boot(t, lease->tuner), message);
}
