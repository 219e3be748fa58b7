/* The least loaded tuner gets a job. A lost tuner keeps its jobs for a while. A job that cannot be
 * served ends with the reason. */
#include "base/clock.h"
#include "tracker/state.h"

/* A walk over all boards, for a text that people read. */
#define HELD_LOOK_NS (UINT64_C(5) * KILN_NS_PER_S)

static void send_assign(kiln_tracker *t, const kiln_tracker_job *job,
                        const kiln_tracker_peer *tuner) {
    kiln_sign_public trusted[KILN_MESSAGES_TRUSTED];
    kiln_message message = {
        .type = KILN_MSG_JOB_ASSIGN,
        .job_assign = {.job = kiln_str_from(job->id),
                       .spec = job->spec,
                       .trusted = kiln_tracker_trusted_of(
                           t, kiln_tracker_project_find(t, job->spec.project), trusted),
                       .run = kiln_str_from(job->run)}};
    kiln_tracker_send(t, tuner, &message);
    if (job->ending_ns) kiln_tracker_job_send_cancel(t, job, tuner);
}

void kiln_tracker_jobs_tuner_up(kiln_tracker *t, kiln_tracker_peer *tuner) {
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        kiln_tracker_job *job = t->jobs.all.data[i];
        if (job->state != KILN_JOB_RUNNING || strcmp(job->tuner, tuner->node) != 0) continue;
        job->tuner_until_ns = 0;
        if (!job->assigning) send_assign(t, job, tuner);
    }
}

/* ---- Tuners ---- */

/* Whether the tuner can read the job's model. */
static bool can_read(const kiln_tracker_peer *tuner, const kiln_tracker_job *job) {
    return job->spec.form == KILN_MODEL_FORM_ONNX || tuner->version >= KILN_PROTO_TAKES_GRAPHS;
}

/* Counts the jobs of each tuner. */
static void count_loads(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->peers.tuners.count; i++)
        kiln_tracker_peer_set_jobs(t->peers.tuners.data[i], 0);
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        kiln_tracker_job *job = t->jobs.all.data[i];
        kiln_tracker_peer *tuner =
            job->state == KILN_JOB_RUNNING ? kiln_tracker_tuner_by_node(t, job->tuner) : NULL;
        if (tuner) kiln_tracker_peer_set_jobs(tuner, tuner->jobs + 1);
    }
}

static kiln_tracker_peer *least_loaded_tuner(const kiln_tracker *t, const kiln_tracker_job *job) {
    kiln_tracker_peer *best = NULL;
    for (uint32_t i = 0; i < t->peers.tuners.count; i++) {
        kiln_tracker_peer *tuner = t->peers.tuners.data[i];
        if (!tuner->closing && can_read(tuner, job) && (!best || tuner->jobs < best->jobs))
            best = tuner;
    }
    return best;
}

static bool has_room(const kiln_tracker_job *job, const kiln_tracker_peer *worker) {
    return job->spec.by_client || worker->jobs < KILN_TRACKER_TUNER_JOBS;
}

/* The tuner is told when this is durable: a tracker that has lost the lead assigns no job. */
static void assign(kiln_tracker *t, kiln_tracker_job *job, kiln_tracker_peer *tuner) {
    job->state = KILN_JOB_RUNNING;
    job->assigned_ns = t->effects.now_ns;
    kiln_tracker_peer_set_jobs(tuner, tuner->jobs + 1);
    job->tuner_until_ns = 0;
    kiln_tracker_set_text(job->tuner, kiln_str_from(tuner->node));
    kiln_tracker_job_add_signer(job, tuner);
    kiln_tracker_job_persist_assignment(t, job);
}

static void wait_for_tuner(kiln_tracker *t, kiln_tracker_job *job) {
    kiln_tracker_job_unassign(t, job);
    job->state = KILN_JOB_WAITING;
    job->tuner[0] = 0;
    kiln_tracker_leases_end_of_job(t, job);
}

/* The assignment is on disk, or, with a `failure`, the job waits again. */
static void assigned(kiln_tracker *t, kiln_tracker_job *job, const char *failure) {
    kiln_tracker_job_unassign(t, job);
    if (failure) { /* the next tick assigns it again */
        wait_for_tuner(t, job);
        return;
    }
    send_assign(t, job, kiln_tracker_job_worker(t, job));
    kiln_tracker_log(t, &(kiln_tracker_note){.what = KILN_TRACKER_JOB_ASSIGNED,
                                             .job = kiln_str_from(job->id),
                                             .tuner = kiln_str_from(job->tuner)});
    kiln_tracker_job_tell(t, job, job->client, 0, "assigned");
}

bool kiln_tracker_assignment_persisted(kiln_tracker *t, uint64_t persist, const char *failure) {
    uint32_t index = t->jobs.unkept ? 0 : t->jobs.all.count;
    while (index < t->jobs.all.count && t->jobs.all.data[index]->assigning != persist) index++;
    if (index == t->jobs.all.count) return false;
    assigned(t, t->jobs.all.data[index], failure);
    return true;
}

/* Takes the job from a tuner that is lost for too long. */
static void take_from_lost_tuner(kiln_tracker *t, kiln_tracker_job *job) {
    if (job->spec.by_client || !job->tuner_until_ns || t->effects.now_ns < job->tuner_until_ns)
        return;
    wait_for_tuner(t, job);
    kiln_tracker_job_tell(t, job, job->client, 0, "its tuner went away");
}

static void fail_unserved(kiln_tracker *t, kiln_tracker_job *job, bool tuner, bool board) {
    kiln_strbuf text = {0};
    if (!tuner)
        kiln_strbuf_text(&text,
                         job->spec.by_client ? "its client is not connected"
                         : t->peers.tuners.count
                             ? "no kiln-tuner at the tracker reads graphs: they are older than "
                               "the command (bring them up to date)"
                             : "no kiln-tuner is connected to the tracker");
    if (!tuner && !board) kiln_strbuf_text(&text, ", and ");
    if (!board) kiln_tracker_requirement_describe(t, job->required, &text);
    kiln_tracker_job_stop(t, job, KILN_UNAVAILABLE, text.data);
    kiln_strbuf_deinit(&text);
}

/* Stops a job whose client did not reconnect in time: frees its boards; its tuner hands in its
 * results. If the client reconnects later, the job goes on. */
static void abandon(kiln_tracker *t, kiln_tracker_job *job) {
    job->abandoned = true;
    t->assign.abandoned++;
    kiln_tracker_leases_end_of_job(t, job);
    kiln_tracker_job_stop(t, job, KILN_CANCELLED, "its client went away");
}

/* A job that runs and has no board may be kept from all of them by the calendar. Its client and its
 * row say so. */
static void update_held(kiln_tracker *t, kiln_tracker_job *job) {
    kiln_strbuf why = {0};
    const bool waits = job->state == KILN_JOB_RUNNING && job->leases == 0 && !job->ending_ns &&
                       job->required->devices > 0;
    if (waits && t->effects.now_ns < job->held_look_ns) return;
    const bool is_held = waits && kiln_tracker_job_is_held_up(t, job, &why);
    if (is_held) job->held_look_ns = t->effects.now_ns + HELD_LOOK_NS;
    if (kiln_tracker_job_set_held(t, job, is_held ? why.data : NULL) && is_held)
        kiln_tracker_job_tell(t, job, job->client, 0, why.data);
    kiln_strbuf_deinit(&why);
}

static void update_job(kiln_tracker *t, kiln_tracker_job *job) {
    if (job->state == KILN_JOB_RUNNING) take_from_lost_tuner(t, job);
    if (job->ending_ns) {
        bool late = t->effects.now_ns - job->ending_ns >= KILN_TRACKER_WAIT_NS;
        if (late || job->state == KILN_JOB_WAITING)
            kiln_tracker_job_end(t, job, job->ending_code, job->ending_text);
        return;
    }
    if (job->client_until_ns && t->effects.now_ns >= job->client_until_ns) {
        abandon(t, job);
        return;
    }
    kiln_tracker_peer *tuner = job->state == KILN_JOB_RUNNING || job->spec.by_client
                                   ? kiln_tracker_job_worker(t, job)
                                   : least_loaded_tuner(t, job);
    bool board = job->required->devices > 0;
    if (tuner && board) {
        job->unserved_ns = 0;
        if (job->state == KILN_JOB_WAITING && has_room(job, tuner)) assign(t, job, tuner);
        return;
    }
    if (!job->unserved_ns) job->unserved_ns = t->effects.now_ns;
    if (!job->spec.detach && t->effects.now_ns - job->unserved_ns >= KILN_TRACKER_WAIT_NS)
        fail_unserved(t, job, tuner != NULL, board);
}

void kiln_tracker_jobs_tick(kiln_tracker *t) {
    if (t->jobs.open == 0) return;
    count_loads(t);
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        kiln_tracker_job *job = t->jobs.all.data[i];
        if (!kiln_tracker_job_is_open(job) || job->persist) continue;
        update_job(t, job);
        if (kiln_tracker_job_is_open(job)) update_held(t, job);
    }
}
