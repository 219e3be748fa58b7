/* Decides which request gets a free device.
 *
 * The project with the least use of its share comes first (usage.c). Of its jobs the one with the
 * highest priority comes first, where waiting raises the priority; then the one with fewer leases;
 * then the one with the older request. A device that no request can use is idle. A fresh request
 * that fits an idle device gets it at once, because no older request fits that device. */
#include <string.h>

#include "tracker/state.h"

/* Whether the request needs the whole device and not all of it is free. */
static bool must_wait(const kiln_tracker_device *device, const kiln_tracker_request *request) {
    return device->reported->busy > 0 &&
           kiln_tracker_requirement_is_whole(request->required, device);
}

/* A request for a whole device waits for one device only, which is reserved for it. */
static bool may_have(const kiln_tracker *t, const kiln_tracker_device *device,
                     const kiln_tracker_request *request) {
    if (!kiln_tracker_project_may_hold(t, request->job->project,
                                       kiln_tracker_requirement_is_whole(request->required, device)
                                           ? device->reported->slots
                                           : 1))
        return false;
    if (!kiln_tracker_requirement_fits(request->required, (kiln_tracker_device *)device))
        return false;
    if (!kiln_tracker_calendar_allows(t, device->board, request->job->owner, request->asked.trials))
        return false;
    return !must_wait(device, request) || !request->reservation.device ||
           request->reservation.device == device;
}

/* The oldest request of the job that may have the device; the job competes with its age. */
static kiln_tracker_request *of_job(const kiln_tracker *t, const kiln_tracker_job *job,
                                    const kiln_tracker_device *device) {
    for (uint32_t i = 0; i < job->queue.requests.count; i++)
        if (may_have(t, device, job->queue.requests.data[i])) return job->queue.requests.data[i];
    return NULL;
}

/* The request of the winning job that gets the device: one that names this board, else the
 * `oldest`. A request that wins because it names the board gives its queue position to the oldest,
 * so that the job cannot win forever with one age. */
static kiln_tracker_request *preferred(const kiln_tracker *t, kiln_tracker_request *oldest,
                                       const kiln_tracker_device *device) {
    kiln_tracker_job *job = oldest->job;
    uint32_t at = 0;
    while (job->queue.requests.data[at] != oldest) at++;
    for (uint32_t i = 0; i < job->queue.requests.count; i++) {
        kiln_tracker_request *request = job->queue.requests.data[i];
        if (!kiln_str_is(request->asked.board, device->board->node) ||
            !may_have(t, device, request))
            continue;
        kiln_tracker_requests_trade_places(job, at, i);
        return request;
    }
    return oldest;
}

static uint64_t priority_of(const kiln_tracker *t, const kiln_tracker_request *request) {
    const uint64_t bound = request->job->project->setting[KILN_SETTING_PRIORITY];
    uint64_t priority = request->job->spec.priority;
    if (bound) priority = KILN_MIN(priority, bound);
    return priority + (t->effects.now_ns - request->since_ns) / KILN_TRACKER_AGEING_NS;
}

static bool is_before(const kiln_tracker *t, const kiln_tracker_request *a,
                      const kiln_tracker_request *b) {
    uint64_t a_priority = priority_of(t, a), b_priority = priority_of(t, b);
    if (a_priority != b_priority) return a_priority > b_priority;
    if (a->job->leases != b->job->leases) return a->job->leases < b->job->leases;
    return a->order < b->order;
}

static kiln_tracker_request *of_project(const kiln_tracker *t, const kiln_tracker_project *project,
                                        const kiln_tracker_device *device) {
    kiln_tracker_request *best = NULL;
    for (uint32_t i = 0; i < project->queue.jobs.count; i++) {
        kiln_tracker_request *request = of_job(t, project->queue.jobs.data[i], device);
        if (request && (!best || is_before(t, request, best))) best = request;
    }
    return best;
}

static kiln_tracker_request *choose(const kiln_tracker *t, const kiln_tracker_device *device) {
    kiln_tracker_request *best = NULL;
    double best_claim = 0;
    for (uint32_t i = 0; i < t->projects.all.count; i++) {
        const kiln_tracker_project *project = t->projects.all.data[i];
        if (project->queue.jobs.count == 0) continue;
        double claim = kiln_tracker_project_claim(t, project);
        if (best && claim > best_claim) continue;
        kiln_tracker_request *request = of_project(t, project, device);
        if (!request) continue;
        if (best && claim == best_claim && !is_before(t, request, best)) continue;
        best = request;
        best_claim = claim;
    }
    return best ? preferred(t, best, device) : NULL;
}

/* ---- Grants ---- */

static uint32_t free_slot(const kiln_tracker_device *device) {
    uint32_t slot = device->first_slot;
    while (device->board->slot[slot]) slot++;
    return slot;
}

/* Grants the device, or reserves it until all of it is free. */
static void give(kiln_tracker *t, kiln_tracker_device *device, kiln_tracker_request *request) {
    if (must_wait(device, request)) {
        kiln_tracker_device_reserve(device, &request->reservation);
        kiln_tracker_board_refresh(t, device->board);
        return;
    }
    kiln_tracker_lease_grant(t, device, free_slot(device), request);
}

static void serve_device(kiln_tracker *t, kiln_tracker_device *device) {
    while (device->board->available && !device->board->upgrading &&
           device->reported->busy < device->reported->slots) {
        if (device->reserved && !may_have(t, device, device->reserved->request))
            kiln_tracker_device_unreserve(device); /* its project is over a quota now */
        kiln_tracker_request *request =
            device->reserved ? device->reserved->request : choose(t, device);
        if (!request || (device->reserved && device->reported->busy > 0)) return;
        give(t, device, request);
    }
}

/* An idle device of the board that the request may have; NULL: there is none. */
static kiln_tracker_device *idle_of(const kiln_tracker *t, kiln_tracker_board *board,
                                    const kiln_tracker_request *request) {
    for (uint32_t i = 0; i < board->device_count; i++)
        if (board->device[i].idle_at && may_have(t, &board->device[i], request))
            return &board->device[i];
    return NULL;
}

/* Looks for an idle device: of the board that the request names, else any; one that is free at once
 * before one to wait for. */
static void serve_request(kiln_tracker *t, kiln_tracker_request *request) {
    kiln_tracker_board *named = kiln_tracker_board_find(t, request->asked.board);
    kiln_tracker_device *found = named ? idle_of(t, named, request) : NULL;
    for (uint32_t i = 0; (!found || must_wait(found, request)) && i < t->boards.idle.count; i++) {
        kiln_tracker_device *device = t->boards.idle.data[i];
        if (may_have(t, device, request) && (!found || !must_wait(device, request))) found = device;
    }
    if (found) give(t, found, request);
}

void kiln_tracker_grant(kiln_tracker *t) {
    for (kiln_tracker_device *device; (device = kiln_tracker_boards_take_offered(t));)
        serve_device(t, device);
    for (kiln_tracker_request *request; (request = kiln_tracker_queue_take_fresh(t));)
        serve_request(t, request);
}

/* ---- Requests of tuners ---- */

static kiln_tracker_job *running_job_of(kiln_tracker *t, kiln_str id,
                                        const kiln_tracker_peer *tuner) {
    kiln_tracker_job *job = kiln_tracker_job_find(t, id);
    bool is_its = job && job->state == KILN_JOB_RUNNING && strcmp(job->tuner, tuner->node) == 0;
    return is_its && !job->ending_ns ? job : NULL;
}

/* Checks whether the request may enter the queue. */
static kiln_status refusal(kiln_tracker *t, const kiln_tracker_job *job,
                           const kiln_msg_lease_req *asked) {
    if (!job)
        return KILN_ERROR(NOT_FOUND, "job %.*s is not this tuner's", KILN_STR_ARG(asked->job));
    if (t->queue.count >= KILN_TRACKER_REQUESTS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "the queue of lease requests is full");
    if (job->queue.requests.count >= KILN_TRACKER_REQUESTS_OF_JOB_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%u lease requests of this job wait already",
                          job->queue.requests.count);
    if (asked->trials == 0 || asked->ttl_ms == 0 || asked->ttl_ms > KILN_TRACKER_LEASE_TTL_MAX_MS)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "a lease needs trials, and a time to live of at most %u ms",
                          KILN_TRACKER_LEASE_TTL_MAX_MS);
    return kiln_tracker_quota_of_queue(t, job->project);
}

/* The requirement of the job, joined with that of the request. */
static kiln_status find_requirement(kiln_tracker *t, const kiln_tracker_job *job,
                                    const kiln_msg_lease_req *asked,
                                    kiln_tracker_requirement **out_required) {
    kiln_msg_label label[2 * KILN_MESSAGES_LABELS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->spec.labels.count; i++) label[count++] = job->spec.labels.item[i];
    for (uint32_t i = 0; i < asked->labels.count; i++) label[count++] = asked->labels.item[i];
    return kiln_tracker_requirement_get(t, asked->target, job->spec.key, label, count,
                                        asked->exclusive, out_required);
}

void kiln_tracker_lease_req(kiln_tracker *t, kiln_tracker_peer *tuner,
                            const kiln_message *message) {
    const kiln_msg_lease_req *asked = &message->lease_req;
    kiln_tracker_job *job = running_job_of(t, asked->job, tuner);
    if (job && (kiln_tracker_lease_repeat(t, tuner, asked->request) ||
                kiln_tracker_request_find(t, tuner->boot, asked->request)))
        return;
    kiln_tracker_requirement *required = NULL;
    kiln_status st = refusal(t, job, asked);
    if (!st) st = find_requirement(t, job, asked, &required);
    if (st) {
        kiln_tracker_send_status(t, tuner, message->stream, asked->job, asked->request, st);
        return;
    }
    kiln_tracker_request_add(t, tuner, message, job, required);
}
