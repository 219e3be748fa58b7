#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tracker/state.h"

kiln_str kiln_tracker_request_name(kiln_tracker_request_key *key, const char *tuner,
                                   uint64_t number) {
    memset(key, 0, sizeof *key);
    key->number = number;
    kiln_tracker_set_text(key->tuner, kiln_str_from(tuner));
    return (kiln_str){(const char *)key, sizeof *key};
}

kiln_tracker_request *kiln_tracker_request_find(kiln_tracker *t, const char *tuner,
                                                uint64_t number) {
    kiln_tracker_request_key key;
    return kiln_tracker_find(&t->queue.of_key, kiln_tracker_request_name(&key, tuner, number));
}

static void free_request(kiln_tracker_request *request) {
    kiln_arena_deinit(&request->arena);
    kiln_free(request);
}

void kiln_tracker_request_add(kiln_tracker *t, const kiln_tracker_peer *tuner,
                              const kiln_message *message, kiln_tracker_job *job,
                              kiln_tracker_requirement *required) {
    kiln_tracker_request_key key;
    kiln_tracker_request *request = kiln_alloc(sizeof *request);
    kiln_arena_init(&request->arena, 512);
    request->asked = kiln_message_copy(message, &request->arena).lease_req;
    request->required = required;
    request->job = job;
    request->order = ++t->queue.last_order;
    request->since_ns = t->effects.now_ns;
    request->reservation.request = request;
    kiln_tracker_set_text(request->tuner, kiln_str_from(tuner->boot));
    kiln_tracker_set_text(request->node, kiln_str_from(tuner->node));
    kiln_map_put(&t->queue.of_key,
                 kiln_tracker_request_name(&key, request->tuner, request->asked.request),
                 (uintptr_t)request);
    t->queue.count++;
    job->project->queue.count++;
    if (job->queue.requests.count == 0) {
        if (job->project->queue.jobs.count == 0)
            kiln_tracker_project_starts_waiting(t, job->project);
        kiln_vec_push(&job->project->queue.jobs, job);
    }
    kiln_vec_push(&job->queue.requests, request);
    request->fresh = true;
    kiln_vec_push(&t->queue.fresh, request);
}

void kiln_tracker_request_remove(kiln_tracker *t, kiln_tracker_request *request) {
    kiln_tracker_request_key key;
    kiln_tracker_job *job = request->job;
    kiln_tracker_device *reserved = request->reservation.device;
    kiln_map_remove(&t->queue.of_key,
                    kiln_tracker_request_name(&key, request->tuner, request->asked.request));
    t->queue.count--;
    job->project->queue.count--;
    kiln_tracker_remove(&job->queue.requests, request);
    if (job->queue.requests.count == 0) kiln_tracker_remove(&job->project->queue.jobs, job);
    if (job->project->queue.jobs.count == 0) kiln_vec_deinit(&job->project->queue.jobs);
    if (request->fresh) kiln_tracker_remove(&t->queue.fresh, request);
    kiln_tracker_requirement_unref(t, request->required);
    if (reserved) kiln_tracker_device_unreserve(reserved);
    free_request(request);
    if (reserved) kiln_tracker_board_refresh(t, reserved->board);
}

void kiln_tracker_requests_end_of_job(kiln_tracker *t, kiln_tracker_job *job) {
    while (job->queue.requests.count)
        kiln_tracker_request_remove(t, kiln_vec_last(&job->queue.requests));
    kiln_vec_deinit(&job->queue.requests);
}

void kiln_tracker_requests_tuner_up(kiln_tracker *t, const kiln_tracker_peer *tuner) {
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t j = 0; j < t->jobs.all.count; j++) {
        kiln_tracker_job *job = t->jobs.all.data[j];
        for (uint32_t i = job->queue.requests.count; i-- > 0;) {
            kiln_tracker_request *request = job->queue.requests.data[i];
            if (strcmp(request->node, tuner->node) == 0 && strcmp(request->tuner, tuner->boot) != 0)
                kiln_tracker_request_remove(t, request);
        }
    }
}

void kiln_tracker_queue_init(kiln_tracker *t) { kiln_map_init(&t->queue.of_key); }

void kiln_tracker_requests_free(kiln_tracker *t) {
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t j = 0; j < t->jobs.all.count; j++) {
        for (uint32_t i = 0; i < t->jobs.all.data[j]->queue.requests.count; i++)
            free_request(t->jobs.all.data[j]->queue.requests.data[i]);
        kiln_vec_deinit(&t->jobs.all.data[j]->queue.requests);
    }
    for (uint32_t i = 0; i < t->projects.all.count; i++)
        kiln_vec_deinit(&t->projects.all.data[i]->queue.jobs);
    kiln_vec_deinit(&t->queue.fresh);
    kiln_map_deinit(&t->queue.of_key);
}

void kiln_tracker_requests_trade_places(kiln_tracker_job *job, uint32_t a, uint32_t b) {
    kiln_tracker_request *x = job->queue.requests.data[a], *y = job->queue.requests.data[b];
    const uint64_t since_ns = x->since_ns, order = x->order;
    x->since_ns = y->since_ns;
    x->order = y->order;
    y->since_ns = since_ns;
    y->order = order;
    job->queue.requests.data[a] = y;
    job->queue.requests.data[b] = x;
}

kiln_tracker_request *kiln_tracker_queue_take_fresh(kiln_tracker *t) {
    if (t->queue.fresh.count == 0) return NULL;
    kiln_tracker_request *request = t->queue.fresh.data[0];
    request->fresh = false;
    kiln_tracker_remove(&t->queue.fresh, request);
    return request;
}

/* ---- Invariants ---- */

void kiln_tracker_queue_check(const kiln_tracker *t) {
    uint32_t count = 0, of_projects = 0, waiting = 0, listed = 0;
    KILN_CHECK(t->queue.fresh.count == 0); /* the step considers each of them */
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        const kiln_tracker_job *job = t->jobs.all.data[i];
        count += job->queue.requests.count;
        waiting += job->queue.requests.count > 0;
        for (uint32_t r = 0; r < job->queue.requests.count; r++) {
            const kiln_tracker_request *request = job->queue.requests.data[r];
            const kiln_tracker_device *device = request->reservation.device;
            KILN_CHECK(request->job == job);
            KILN_CHECK(!device || device->reserved == &request->reservation);
        }
    }
    for (uint32_t i = 0; i < t->projects.all.count; i++) {
        of_projects += t->projects.all.data[i]->queue.count;
        listed += t->projects.all.data[i]->queue.jobs.count;
    }
    KILN_CHECK(count == t->queue.count && count == of_projects && waiting == listed);
    KILN_CHECK(kiln_map_count(&t->queue.of_key) == count);
}
