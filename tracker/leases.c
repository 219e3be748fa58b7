#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "tracker/state.h"

#define SAME_MAX                                                                           \
    8u /* newest blobs that are compared before one is added: trials of a task share their \
          reference */

const double kiln_tracker_wait_bound_s[] = {0.001, 0.01, 0.1, 1, 10, 60, 600, 3600};

static uint32_t wait_bucket(uint64_t wait_ns) {
    uint32_t bucket = 0;
    while (bucket < KILN_ARRAY_COUNT(kiln_tracker_wait_bound_s) &&
           (double)wait_ns / 1e9 > kiln_tracker_wait_bound_s[bucket])
        bucket++;
    return bucket;
}

kiln_tracker_lease *kiln_tracker_lease_find(kiln_tracker *t, uint64_t number) {
    return kiln_tracker_find(&t->leases.of_number, kiln_tracker_number_key(&number));
}

static uint32_t slots_of(const kiln_tracker_lease *lease) {
    const kiln_tracker_device *device = kiln_tracker_board_device(lease->board, lease->slot);
    return lease->whole && device ? device->reported->slots : 1;
}

static void add_lease(kiln_tracker *t, kiln_tracker_lease *lease) {
    kiln_tracker_request_key key;
    kiln_tracker_board_hold(lease->board, lease->lease, lease->slot, lease->whole);
    lease->index = t->leases.all.count;
    kiln_vec_push(&t->leases.all, lease);
    kiln_map_put(&t->leases.of_number, kiln_tracker_number_key(&lease->lease), (uintptr_t)lease);
    if (lease->request)
        kiln_map_put(&t->leases.of_request,
                     kiln_tracker_request_name(&key, lease->tuner, lease->request),
                     (uintptr_t)lease);
    if (lease->persist)
        kiln_map_put(&t->leases.of_persist, kiln_tracker_number_key(&lease->persist),
                     (uintptr_t)lease);
    lease->counted = slots_of(lease);
    if (lease->job) {
        kiln_tracker_job_add_lease(t, lease->job);
        kiln_tracker_project_granted(t, lease->job->project, lease->counted);
    }
    kiln_tracker_board_refresh(t, lease->board);
}

/* While other requests wait, a lease gets fewer trials, so that it lasts about
 * KILN_TRACKER_SLICE_NS. */
static uint32_t count_of_trials(const kiln_tracker *t, const kiln_tracker_board *board,
                                const kiln_tracker_request *request) {
    uint32_t wanted = request->asked.trials;
    if (t->queue.count <= 1 || board->trial_ns <= 0) return wanted;
    double fair = KILN_TRACKER_SLICE_NS / board->trial_ns;
    return fair < 1 ? 1 : fair < wanted ? (uint32_t)fair : wanted;
}

uint64_t kiln_tracker_lease_cost(const kiln_tracker *t, const kiln_tracker_lease *lease) {
    uint64_t held_ns = lease->persist ? 0 : t->effects.now_ns - lease->granted_ns;
    return held_ns * lease->counted;
}

static void claim(kiln_tracker *t, kiln_tracker_lease *lease) {
    t->leases.unclaimed -= lease->unclaimed;
    lease->unclaimed = false;
}

/* Charges its time to the project and removes it from the board and all maps. */
static void remove_lease(kiln_tracker *t, kiln_tracker_lease *lease) {
    kiln_tracker_request_key key;
    uint64_t held_ns = lease->persist ? 0 : t->effects.now_ns - lease->granted_ns;
    claim(t, lease);
    /* A client's own runs say nothing about the duration of trials. */
    if (!lease->job || !lease->job->spec.by_client)
        kiln_tracker_board_learn_trial_time(lease->board, held_ns, lease->trial.count);
    if (lease->job) {
        kiln_tracker_project *project = lease->job->project;
        kiln_tracker_job_remove_lease(t, lease->job);
        if (project->setting[KILN_SETTING_BOARDS] && project->queue.jobs.count)
            kiln_tracker_offer_idle(t); /* its quota may now allow a lease for another request */
        kiln_tracker_project_ended(t, project, lease->counted, kiln_tracker_lease_cost(t, lease));
        kiln_tracker_project_forget(t, project);
    }
    kiln_tracker_board_release(lease->board, lease->lease);
    kiln_map_remove(&t->leases.of_number, kiln_tracker_number_key(&lease->lease));
    if (lease->request)
        kiln_map_remove(&t->leases.of_request,
                        kiln_tracker_request_name(&key, lease->tuner, lease->request));
    if (lease->persist)
        kiln_map_remove(&t->leases.of_persist, kiln_tracker_number_key(&lease->persist));
    kiln_tracker_lease *last = kiln_vec_pop(&t->leases.all);
    if (last != lease) {
        t->leases.all.data[lease->index] = last;
        last->index = lease->index;
    }
    kiln_tracker_board_refresh(t, lease->board);
}

static void free_lease(kiln_tracker_lease *lease) {
    kiln_vec_deinit(&lease->trial);
    kiln_vec_deinit(&lease->blob);
    kiln_vec_deinit(&lease->held_back.messages);
    kiln_arena_deinit(&lease->held_back.arena);
    kiln_free(lease);
}

void kiln_tracker_leases_init(kiln_tracker *t) {
    kiln_map_init(&t->leases.of_number);
    kiln_map_init(&t->leases.of_request);
    kiln_map_init(&t->leases.of_persist);
}

void kiln_tracker_leases_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->leases.all.count; i++) free_lease(t->leases.all.data[i]);
    kiln_vec_deinit(&t->leases.all);
    kiln_map_deinit(&t->leases.of_number);
    kiln_map_deinit(&t->leases.of_request);
    kiln_map_deinit(&t->leases.of_persist);
}

static kiln_tracker_lease *find_granted(kiln_tracker *t, const char *tuner, uint64_t request) {
    kiln_tracker_request_key key;
    return kiln_tracker_find(&t->leases.of_request,
                             kiln_tracker_request_name(&key, tuner, request));
}

static void note(kiln_tracker *t, const kiln_tracker_lease *lease, kiln_tracker_happening what,
                 const char *text) {
    kiln_tracker_log(t,
                     &(kiln_tracker_note){.what = what,
                                          .job = kiln_str_from(lease->job ? lease->job->id : NULL),
                                          .board = kiln_str_from(lease->board->node),
                                          .tuner = kiln_str_from(lease->node),
                                          .lease = lease->lease,
                                          .text = kiln_str_from(text)});
}

/* ---- The end of a lease ---- */

/* The row of a lease. It is named by its slot, so that a slot has one row even if the removal of an
 * older lease could not be written. The name lies in `name`, which must last as long. */
static kiln_tracker_row row_of(const kiln_tracker_lease *lease, kiln_strbuf *name) {
    kiln_strbuf_printf(name, "%s/%u", lease->board->node, lease->slot);
    return (kiln_tracker_row){
        .kind = KILN_TRACKER_ROW_LEASE,
        .id = kiln_strbuf_view(name),
        .board = kiln_str_from(lease->board->node),
        .tuner = kiln_str_from(lease->tuner),
        .node = kiln_str_from(lease->node),
        .job = kiln_str_from(lease->job ? lease->job->id : NULL),
        .epoch = lease->lease,
        .slot = lease->slot,
        .trials = lease->trials,
        .ttl_ms = lease->ttl_ms,
        .whole = lease->whole,
        .request = lease->request,
    };
}

/* Tells the board if a trial was sent under the lease, and the holder unless it knows. */
static void tell_end(kiln_tracker *t, const kiln_tracker_lease *lease, kiln_code code,
                     const char *why, bool holder_knows) {
    kiln_message lost = {
        .type = KILN_MSG_LEASE_LOST,
        .lease_lost = {.lease = lease->lease, .code = (uint32_t)code, .text = kiln_str_from(why)},
    };
    if (lease->trial.count > 0 || lease->restored) kiln_tracker_send(t, lease->board->peer, &lost);
    if (holder_knows) return;
    kiln_tracker_send(t, kiln_tracker_holder_by_boot(t, lease->tuner), &lost);
    if (lease->persist && code != KILN_OK) {
        /* The holder knows only its request so far, which ends with the lease. */
        kiln_tracker_send_error(t, kiln_tracker_holder_by_boot(t, lease->tuner), 0, code,
                                kiln_str_from(lease->job ? lease->job->id : NULL), lease->request,
                                "%s", why);
    }
}

/* Frees the slot, on disk too. */
static void end(kiln_tracker *t, kiln_tracker_lease *lease, const char *why) {
    if (!lease->persist) note(t, lease, KILN_TRACKER_LEASE_ENDED, why);
    kiln_strbuf name = {0};
    kiln_tracker_row row = row_of(lease, &name);
    row.removed = true;
    kiln_tracker_persist_later(t, &row, 1); /* if this fails, the next tracker ends the lease */
    kiln_strbuf_deinit(&name);

    remove_lease(t, lease);
    free_lease(lease);
}

void kiln_tracker_lease_end(kiln_tracker *t, kiln_tracker_lease *lease, kiln_code code,
                            const char *why) {
    tell_end(t, lease, code, why, false);
    end(t, lease, why);
}

void kiln_tracker_lease_deny(kiln_tracker *t, const kiln_tracker_peer *board, uint64_t number) {
    kiln_message lost = {.type = KILN_MSG_LEASE_LOST,
                         .lease_lost = {.lease = number, .code = KILN_ABORTED}};
    kiln_tracker_send(t, board, &lost);
}

void kiln_tracker_leases_end_of_job(kiln_tracker *t, kiln_tracker_job *job) {
    kiln_tracker_requests_end_of_job(t, job);
    for (uint32_t i = t->leases.all.count; job->leases && i-- > 0;)
        if (t->leases.all.data[i]->job == job)
            kiln_tracker_lease_end(t, t->leases.all.data[i], KILN_OK, "the job is over");
}

void kiln_tracker_leases_end_of_board(kiln_tracker *t, const kiln_tracker_board *board,
                                      const char *why) {
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        kiln_tracker_lease *lease = kiln_tracker_lease_find(t, board->slot[i]);
        if (lease) kiln_tracker_lease_end(t, lease, KILN_UNAVAILABLE, why);
    }
}

void kiln_tracker_leases_end_of_project(kiln_tracker *t, const kiln_tracker_project *project,
                                        const char *why) {
    for (uint32_t i = t->leases.all.count; i-- > 0;)
        if (t->leases.all.data[i]->job && t->leases.all.data[i]->job->project == project)
            kiln_tracker_lease_end(t, t->leases.all.data[i], KILN_RESOURCE_EXHAUSTED, why);
}

void kiln_tracker_leases_tuner_up(kiln_tracker *t, const kiln_tracker_peer *tuner) {
    kiln_tracker_requests_tuner_up(t, tuner);
    for (uint32_t i = t->leases.all.count; i-- > 0;) {
        kiln_tracker_lease *lease = t->leases.all.data[i];
        if (strcmp(lease->node, tuner->node) == 0 && strcmp(lease->tuner, tuner->boot) != 0)
            kiln_tracker_lease_end(t, lease, KILN_ABORTED, "its tuner was started anew");
    }
}

void kiln_tracker_leases_tuner_settled(kiln_tracker *t, const kiln_tracker_peer *tuner) {
    for (uint32_t i = t->leases.all.count; t->leases.unclaimed && i-- > 0;) {
        kiln_tracker_lease *lease = t->leases.all.data[i];
        if (lease->unclaimed && strcmp(lease->tuner, tuner->boot) == 0)
            kiln_tracker_lease_end(t, lease, KILN_ABORTED, "its tuner does not know it");
    }
}

void kiln_tracker_leases_tick(kiln_tracker *t) {
    for (uint32_t i = t->leases.all.count; i-- > 0;) {
        kiln_tracker_lease *lease = t->leases.all.data[i];
        if (lease->board_due_ns && t->effects.now_ns >= lease->board_due_ns)
            kiln_tracker_lease_end(t, lease, KILN_UNAVAILABLE,
                                   "its board did not come back after the tracker's restart");
        else if (t->effects.now_ns >= lease->expires_ns) {
            t->leases.expired++;
            kiln_tracker_lease_end(t, lease, KILN_DEADLINE_EXCEEDED,
                                   "the lease was not renewed in time");
        } else if (lease->hold_until_ns && t->effects.now_ns >= lease->hold_until_ns) {
            kiln_tracker_count_over_quota(t, lease->job->project);
            kiln_tracker_lease_end(t, lease, KILN_DEADLINE_EXCEEDED,
                                   "its project may not hold a board any longer at a time");
        } else if (lease->hold_until_ns) {
            kiln_tracker_wake_at(t, lease->hold_until_ns);
        }
    }
}

/* ---- Grants ---- */

static kiln_str label_of(const kiln_msg_board_up *up, const char *key) {
    for (uint32_t i = 0; i < up->labels.count; i++)
        if (kiln_str_is(up->labels.item[i].key, key)) return up->labels.item[i].value;
    return (kiln_str){0};
}

static void send_grant(kiln_tracker *t, const kiln_tracker_lease *lease, uint32_t trials) {
    const kiln_msg_board_up *up = &lease->board->up;
    const kiln_tracker_device *device = kiln_tracker_board_device(lease->board, lease->slot);
    const kiln_msg_board_target *reported = device ? device->reported : &(kiln_msg_board_target){0};
    kiln_message grant = {
        .type = KILN_MSG_LEASE_GRANT,
        .lease_grant = {.request = lease->request,
                        .lease = lease->lease,
                        .board = kiln_str_from(lease->board->node),
                        .key = up->key,
                        .target = reported->target,
                        .device = reported->device,
                        .firmware = reported->firmware.size ? reported->firmware : up->firmware,
                        .builds = label_of(up, KILN_LABEL_BUILDS),
                        .fences = up->fences,
                        .proven = kiln_str_from(lease->board->proven),
                        .slot = lease->slot,
                        .trials = trials,
                        .ttl_ms = lease->ttl_ms},
    };
    kiln_tracker_send(t, kiln_tracker_holder_by_boot(t, lease->tuner), &grant);
}

/* Gives the lease the next number. A row reserves KILN_TRACKER_EPOCHS numbers; until it is durable
 * each grant writes its own reservation, so that the number of a lease is never written without
 * one. */
static void number(kiln_tracker *t, kiln_tracker_lease *lease, kiln_tracker_row *row,
                   uint32_t *row_count) {
    lease->lease = ++t->leases.epoch;
    if (lease->lease <= t->leases.epoch_durable) return;
    lease->reserves = lease->lease + KILN_TRACKER_EPOCHS - 1;
    row[(*row_count)++] = (kiln_tracker_row){
        .kind = KILN_TRACKER_ROW_EPOCH, .id = KILN_STR("epoch"), .epoch = lease->reserves};
}

static void bound_hold(kiln_tracker *t, kiln_tracker_lease *lease) {
    const uint64_t hold_s = lease->job ? lease->job->project->setting[KILN_SETTING_HOLD] : 0;
    if (!hold_s) return;
    lease->hold_until_ns = t->effects.now_ns + hold_s * KILN_NS_PER_S; /* ticks wake for it */
}

void kiln_tracker_lease_grant(kiln_tracker *t, kiln_tracker_device *device, uint32_t slot,
                              kiln_tracker_request *request) {
    kiln_tracker_lease *lease = kiln_alloc(sizeof *lease);
    kiln_tracker_row row[2];
    uint32_t row_count = 0;
    number(t, lease, row, &row_count);
    lease->request = request->asked.request;
    lease->board = device->board;
    lease->slot = slot;
    lease->whole = kiln_tracker_requirement_is_whole(request->required, device);
    lease->trials = count_of_trials(t, device->board, request);
    lease->ttl_ms = request->asked.ttl_ms;
    lease->granted_ns = t->effects.now_ns;
    lease->expires_ns = t->effects.now_ns + lease->ttl_ms * UINT64_C(1000000);
    lease->job = request->job;
    bound_hold(t, lease);
    kiln_tracker_set_text(lease->tuner, kiln_str_from(request->tuner));
    kiln_tracker_set_text(lease->node, kiln_str_from(request->node));
    kiln_strbuf name = {0};
    row[row_count++] = row_of(lease, &name);
    lease->persist = kiln_tracker_persist(t, row, row_count);
    kiln_strbuf_deinit(&name);
    t->leases.waits[wait_bucket(t->effects.now_ns - request->since_ns)]++;
    t->leases.waited_ns += t->effects.now_ns - request->since_ns;
    kiln_tracker_request_remove(t, request);
    add_lease(t, lease);
}

bool kiln_tracker_lease_repeat(kiln_tracker *t, const kiln_tracker_peer *tuner, uint64_t request) {
    kiln_tracker_lease *granted = find_granted(t, tuner->boot, request);
    if (!granted) return false;
    claim(t, granted);
    if (!granted->persist) send_grant(t, granted, granted->trials);
    return true;
}

void kiln_tracker_board_wind_down(kiln_tracker *t, const kiln_tracker_board *board) {
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        const kiln_tracker_lease *lease = kiln_tracker_lease_find(t, board->slot[i]);
        if (!lease || lease->persist || !lease->request) continue;
        send_grant(
            t, lease,
            KILN_MAX(lease->trial.count, 1u)); /* a trial that is under way is still accepted */
    }
}

bool kiln_tracker_lease_persisted(kiln_tracker *t, uint64_t persist, const char *failure) {
    kiln_tracker_lease *lease =
        kiln_tracker_find(&t->leases.of_persist, kiln_tracker_number_key(&persist));
    if (!lease) return false;
    if (failure) {
        kiln_tracker_lease_end(t, lease, KILN_RESOURCE_EXHAUSTED, failure);
        return true;
    }
    kiln_map_remove(&t->leases.of_persist, kiln_tracker_number_key(&persist));
    lease->persist = 0;
    t->leases.epoch_durable = KILN_MAX(t->leases.epoch_durable, lease->reserves);
    lease->expires_ns = t->effects.now_ns + lease->ttl_ms * UINT64_C(1000000);
    t->leases.grants++;
    send_grant(t, lease, lease->trials);
    note(t, lease, KILN_TRACKER_LEASE_GRANTED, NULL);
    return true;
}

/* Of restored leases that share a slot only the newest holds, because the removal of the others
 * could not be written. Removes older ones; false: `row` is an older one itself. */
static bool remove_older(kiln_tracker *t, const kiln_tracker_board *board,
                         const kiln_tracker_row *row) {
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        if (i != row->slot &&
            !(row->whole && kiln_tracker_board_shares_device(board, row->slot, i)))
            continue;
        kiln_tracker_lease *other = kiln_tracker_lease_find(t, board->slot[i]);
        if (!other) continue;
        if (other->lease > row->epoch) return false;
        remove_lease(t, other);
        free_lease(other);
    }
    return true;
}

void kiln_tracker_epoch_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    t->leases.epoch = KILN_MAX(t->leases.epoch, row->epoch);
}

kiln_status kiln_tracker_lease_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    kiln_tracker_board *board = kiln_tracker_board_get(t, row->board);
    if (!board || row->slot >= KILN_TRACKER_SLOTS_MAX || row->epoch == 0)
        return KILN_ERROR(DATA_LOSS, "stored lease %.*s of board %.*s makes no sense",
                          KILN_STR_ARG(row->id), KILN_STR_ARG(row->board));
    t->leases.epoch = KILN_MAX(t->leases.epoch, row->epoch);
    if (!remove_older(t, board, row)) return KILN_OK;
    kiln_tracker_job *job = kiln_tracker_job_find(t, row->job);
    kiln_tracker_lease *lease = kiln_alloc(sizeof *lease);
    lease->lease = row->epoch;
    lease->request = row->request;
    lease->board = board;
    lease->slot = row->slot;
    lease->whole = row->whole;
    lease->trials = row->trials;
    lease->ttl_ms = row->ttl_ms;
    lease->granted_ns = t->effects.now_ns;
    lease->expires_ns = t->effects.now_ns + lease->ttl_ms * UINT64_C(1000000);
    lease->restored = lease->unclaimed = true;
    t->leases.unclaimed++;
    lease->board_due_ns = t->effects.now_ns + KILN_TRACKER_WAIT_NS;
    lease->job = job && kiln_tracker_job_is_open(job) ? job : NULL;
    kiln_tracker_set_text(lease->tuner, row->tuner);
    /* A new run of the same tuner ends the lease when it connects. */
    kiln_tracker_set_text(lease->node, row->node);
    if (!row->node.size && job) kiln_tracker_set_text(lease->node, kiln_str_from(job->tuner));
    /* A lease of a job that has ended, or that another tuner has, expires at once. */
    bound_hold(t, lease);
    bool is_due =
        lease->job && job->state == KILN_JOB_RUNNING && strcmp(lease->node, job->tuner) == 0;
    if (!is_due) lease->expires_ns = t->effects.now_ns;
    add_lease(t, lease);
    return KILN_OK;
}

/* ---- Messages of tuners ---- */

/* The node is compared, too: a peer can state any boot, but its node is proven by its key. */
static bool is_holder(const kiln_tracker_lease *lease, const kiln_tracker_peer *peer) {
    return strcmp(lease->tuner, peer->boot) == 0 &&
           (!lease->node[0] || strcmp(lease->node, peer->node) == 0);
}

kiln_tracker_lease *kiln_tracker_lease_own(kiln_tracker *t, kiln_tracker_peer *tuner,
                                           uint64_t number) {
    kiln_tracker_lease *lease = kiln_tracker_lease_find(t, number);
    if (lease && is_holder(lease, tuner) && !lease->persist) {
        claim(t, lease);
        return lease;
    }
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
    kiln_tracker_lease *lease = kiln_tracker_lease_own(t, tuner, message->lease_renew.lease);
    if (!lease) return;
    lease->expires_ns = t->effects.now_ns + lease->ttl_ms * UINT64_C(1000000);
    kiln_tracker_send(t, tuner, message);
}

void kiln_tracker_lease_release(kiln_tracker *t, kiln_tracker_peer *tuner,
                                const kiln_message *message) {
    const kiln_msg_lease_release *release = &message->lease_release;
    kiln_tracker_lease *lease = release->lease ? kiln_tracker_lease_find(t, release->lease)
                                               : find_granted(t, tuner->boot, release->request);
    if (lease && is_holder(lease, tuner)) {
        tell_end(t, lease, KILN_OK, "released", true);
        end(t, lease, "released");
    }
    kiln_tracker_request *request =
        release->lease ? NULL : kiln_tracker_request_find(t, tuner->boot, release->request);
    if (request) kiln_tracker_request_remove(t, request);
}

/* ---- Blobs and costs ---- */

void kiln_tracker_lease_add_blob(kiln_tracker_lease *lease, const kiln_digest *digest) {
    const uint32_t count = lease->blob.count;
    for (uint32_t i = count; i-- > 0 && count - i <= SAME_MAX;)
        if (kiln_digest_equal(&lease->blob.data[i], digest)) return;
    kiln_vec_push(&lease->blob, *digest);
}

void kiln_tracker_leases_tell_cost(kiln_tracker *t) {
    kiln_thread_walks(t->leases.all.count);
    for (uint32_t i = 0; i < t->leases.all.count; i++) {
        const kiln_tracker_lease *lease = t->leases.all.data[i];
        if (lease->job)
            kiln_tracker_project_add_running(lease->job->project,
                                             kiln_tracker_lease_cost(t, lease));
    }
}

/* ---- Invariants ---- */

void kiln_tracker_leases_check(const kiln_tracker *t) {
    uint32_t unclaimed = 0, of_jobs = 0, held = 0, busy = 0, slots = 0, unkept = 0;
    for (uint32_t i = 0; i < t->leases.all.count; i++) {
        const kiln_tracker_lease *lease = t->leases.all.data[i];
        KILN_CHECK(lease->index == i && lease->lease <= t->leases.epoch);
        KILN_CHECK(kiln_tracker_find(&t->leases.of_number,
                                     kiln_tracker_number_key(&lease->lease)) == lease);
        KILN_CHECK(lease->board->slot[lease->slot] == lease->lease);
        unclaimed += lease->unclaimed;
        unkept += lease->persist != 0;
        of_jobs += lease->job != NULL;
        slots += slots_of(lease);
    }
    KILN_CHECK(kiln_map_count(&t->leases.of_persist) == unkept);
    KILN_CHECK(kiln_map_count(&t->leases.of_number) == t->leases.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++) busy += t->boards.all.data[i]->busy;
    KILN_CHECK(unclaimed == t->leases.unclaimed && slots == busy); /* each busy slot has a lease */
    for (uint32_t i = 0; i < t->jobs.all.count; i++) held += t->jobs.all.data[i]->leases;
    KILN_CHECK(held == of_jobs);
}
