#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tracker/state.h"

kiln_tracker_job *kiln_tracker_job_find(kiln_tracker *t, kiln_str id) {
    return kiln_tracker_find(&t->jobs.of_id, id);
}

static bool is_run_of(const kiln_tracker_job *job, kiln_str name) {
    kiln_str id = kiln_str_from(job->id);
    if (kiln_str_equal(id, name)) return true;
    return id.size == name.size + 1 + KILN_TRACKER_RUN_DIGITS && id.data[name.size] == '.' &&
           memcmp(id.data, name.data, name.size) == 0;
}

kiln_tracker_job *kiln_tracker_job_latest(kiln_tracker *t, kiln_str name) {
    kiln_tracker_job *latest = NULL;
    for (uint32_t i = t->jobs.all.count; name.size && i-- > 0;) {
        kiln_tracker_job *job = t->jobs.all.data[i];
        if (!is_run_of(job, name)) continue;
        if (kiln_tracker_job_is_open(job)) return job;
        if (!latest) latest = job;
    }
    return latest;
}

bool kiln_tracker_job_is_open(const kiln_tracker_job *job) {
    return job->state == KILN_JOB_WAITING || job->state == KILN_JOB_RUNNING;
}

kiln_tracker_peer *kiln_tracker_job_worker(kiln_tracker *t, const kiln_tracker_job *job) {
    return job->spec.by_client ? job->client : kiln_tracker_tuner_by_node(t, job->tuner);
}

static void free_job(kiln_tracker_job *job) {
    kiln_free(job->held);
    kiln_arena_deinit(&job->arena);
    kiln_free(job);
}

void kiln_tracker_job_remove(kiln_tracker *t, kiln_tracker_job *job) {
    kiln_map_remove(&t->jobs.of_id, kiln_str_from(job->id));
    kiln_tracker_remove(&t->jobs.all, job);
    free_job(job);
}

void kiln_tracker_job_add_lease(kiln_tracker *t, kiln_tracker_job *job) {
    job->leases++;
    job->changed = kiln_tracker_next_change(t);
}

void kiln_tracker_job_remove_lease(kiln_tracker *t, kiln_tracker_job *job) {
    job->leases--;
    job->changed = kiln_tracker_next_change(t);
}

bool kiln_tracker_job_set_held(kiln_tracker *t, kiln_tracker_job *job, const char *why) {
    if (!why && !job->held) return false;
    if (why && job->held && strcmp(why, job->held) == 0) return false;
    const size_t size = why ? strlen(why) + 1 : 0;
    kiln_free(job->held);
    job->held = why ? memcpy(kiln_alloc(size), why, size) : NULL;
    job->changed = kiln_tracker_next_change(t);
    return true;
}

void kiln_tracker_job_drop_client(kiln_tracker_job *job) { job->client = NULL; }

void kiln_tracker_jobs_init(kiln_tracker *t) { kiln_map_init(&t->jobs.of_id); }

void kiln_tracker_jobs_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->jobs.all.count; i++) free_job(t->jobs.all.data[i]);
    kiln_vec_deinit(&t->jobs.all);
    kiln_map_deinit(&t->jobs.of_id);
}

/* The weight that the job asks for, bounded by the project; NULL: a new project, which bounds
 * nothing. */
static uint32_t weight_of(const kiln_tracker_project *project, const kiln_tracker_job *job) {
    const uint64_t bound = project ? project->setting[KILN_SETTING_WEIGHT] : 0;
    const uint32_t asked = KILN_MAX(job->spec.weight, 1u);
    return bound && bound < asked ? (uint32_t)bound : asked;
}

kiln_status kiln_tracker_job_enter(kiln_tracker *t, kiln_tracker_job *job) {
    const kiln_msg_job_spec *spec = &job->spec;
    kiln_status st = kiln_tracker_requirement_get(t, spec->target, spec->key, spec->labels.item,
                                                  spec->labels.count, false, &job->required);
    if (st) return st;
    const uint32_t weight = weight_of(kiln_tracker_project_find(t, spec->project), job);
    job->project = kiln_tracker_project_join(t, spec->project, weight);
    t->jobs.open++;
    return KILN_OK;
}

void kiln_tracker_jobs_weigh(kiln_tracker *t, kiln_tracker_project *project) {
    uint32_t weight = 1;
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t i = 0; i < t->jobs.all.count; i++)
        if (t->jobs.all.data[i]->project == project)
            weight = KILN_MAX(weight, weight_of(project, t->jobs.all.data[i]));
    kiln_tracker_project_set_weight(project, weight);
}

void kiln_tracker_job_leave(kiln_tracker *t, kiln_tracker_job *job) {
    kiln_tracker_project *project = job->project;
    job->project = NULL;
    kiln_tracker_job_set_held(t, job, NULL);
    if (project) {
        kiln_tracker_project_leave(project);
        kiln_tracker_jobs_weigh(t, project);
        kiln_tracker_project_forget(t, project);
    }
    kiln_tracker_requirement_unref(t, job->required);
    job->required = NULL;
    t->jobs.open--;
}

kiln_tracker_job *kiln_tracker_job_add(kiln_tracker *t, kiln_str id) {
    kiln_tracker_job *job = kiln_alloc(sizeof *job);
    kiln_arena_init(&job->arena, KILN_TRACKER_ARENA_BYTES);
    kiln_tracker_set_text(job->id, id);
    job->opened_ns = t->effects.now_ns;
    job->changed = kiln_tracker_next_change(t);
    kiln_vec_push(&t->jobs.all, job);
    job->number = kiln_tracker_next_row(t);
    kiln_map_put(&t->jobs.of_id, id, (uintptr_t)job);
    return job;
}

void kiln_tracker_job_unassign(kiln_tracker *t, kiln_tracker_job *job) {
    t->jobs.unkept -= job->assigning != 0;
    job->assigning = 0;
}

kiln_str kiln_tracker_prose(const char *text) {
    return kiln_str_slice(kiln_str_from(text), 0, KILN_MESSAGES_PROSE);
}

void kiln_tracker_job_send_cancel(kiln_tracker *t, const kiln_tracker_job *job,
                                  const kiln_tracker_peer *tuner) {
    kiln_message cancel = {
        .type = KILN_MSG_CANCEL,
        .cancel = {.scope = KILN_CANCEL_JOB,
                   .id = kiln_str_from(job->id),
                   .code = (uint32_t)job->ending_code,
                   .reason = kiln_str_from(job->ending_text)},
    };
    kiln_tracker_send(t, tuner, &cancel);
}

void kiln_tracker_job_tell(kiln_tracker *t, kiln_tracker_job *job, const kiln_tracker_peer *client,
                           uint32_t stream, const char *text) {
    job->changed = kiln_tracker_next_change(t);
    kiln_message message = {
        .type = KILN_MSG_JOB_STATE,
        .stream = stream,
        .job_state = {.job = kiln_str_from(job->id),
                      .state = job->state,
                      .text = kiln_tracker_prose(text)},
    };
    kiln_tracker_send(t, client, &message);
}

static uint32_t add_blob(kiln_digest *out, uint32_t count, const kiln_digest *digest) {
    if (kiln_digest_is_none(digest)) return count;
    out[count] = *digest;
    return count + 1;
}

uint32_t kiln_tracker_job_blobs(kiln_tracker *t, kiln_str id,
                                kiln_digest out_digest[KILN_TRACKER_JOB_BLOBS_MAX]) {
    const kiln_tracker_job *job = kiln_tracker_job_find(t, id);
    if (!job) return 0;
    if (!kiln_tracker_job_is_open(job)) return add_blob(out_digest, 0, &job->done.records);
    uint32_t count = add_blob(out_digest, 0, &job->spec.model);
    count = add_blob(out_digest, count, &job->spec.records);
    return add_blob(out_digest, count, &job->spec.by_hand);
}

/* ---- On disk ---- */

kiln_str kiln_tracker_job_signers(const kiln_tracker_job *job) {
    return (kiln_str){(const char *)job->signer, job->signer_count * sizeof job->signer[0]};
}

void kiln_tracker_job_add_signer(kiln_tracker_job *job, const kiln_tracker_peer *tuner) {
    if (!tuner->signs) return;
    for (uint32_t i = 0; i < job->signer_count; i++)
        if (memcmp(&job->signer[i], &tuner->signer, sizeof tuner->signer) == 0) return;
    if (job->signer_count == KILN_TRACKER_SIGNERS)
        memmove(&job->signer[0], &job->signer[1], sizeof job->signer[0] * --job->signer_count);
    job->signer[job->signer_count++] = tuner->signer;
}

uint64_t kiln_tracker_job_persist(kiln_tracker *t, kiln_tracker_job *job) {
    job->changed = kiln_tracker_next_change(t);
    kiln_msg_kept_job kept = {
        .spec = job->spec,
        .tuner = kiln_str_from(job->tuner),
        .code = job->done.code,
        .text = job->done.text,
        .records = job->done.records,
        .trials = job->done.trials,
        .wall_ms = job->done.wall_ms,
        .abandoned = job->abandoned,
        .owner = kiln_str_from(job->owner),
        .blob_bytes = job->blob_bytes,
        .signers = kiln_tracker_job_signers(job),
        .run = kiln_str_from(job->run),
    };
    if (!kiln_tracker_job_is_open(job)) {
        kept.tasks.item = job->done.tasks.item;
        kept.tasks.count = job->done.tasks.count;
        kept.faults.item = job->done.faults.item;
        kept.faults.count = job->done.faults.count;
    } else if (job->ending_ns) {
        kept.code = (uint32_t)job->ending_code;
        kept.text = kiln_str_from(job->ending_text);
    }
    const kiln_tracker_row row = {.kind = KILN_TRACKER_ROW_JOB,
                                  .id = kiln_str_from(job->id),
                                  .state = kiln_str_from(kiln_job_state_name(job->state))};
    return kiln_tracker_persist_record(t, row, KILN_RECORD_kept_job, &kept);
}

void kiln_tracker_job_persist_and_wait(kiln_tracker *t, kiln_tracker_job *job) {
    t->jobs.unkept += job->persist == 0;
    job->persist = kiln_tracker_job_persist(t, job);
}

void kiln_tracker_job_kept(kiln_tracker *t, kiln_tracker_job *job) {
    job->persist = 0;
    t->jobs.unkept--;
}

void kiln_tracker_job_persist_assignment(kiln_tracker *t, kiln_tracker_job *job) {
    t->jobs.unkept++;
    job->assigning = kiln_tracker_job_persist(t, job);
}

static bool parse_state(kiln_str text, kiln_job_state *out) {
    for (unsigned i = 0; i < KILN_JOB_STATE_COUNT; i++) {
        if (!kiln_str_is(text, kiln_job_state_name((kiln_job_state)i))) continue;
        *out = (kiln_job_state)i;
        return true;
    }
    return false;
}

/* Restores how the job ended, or, while it is open, that it was told to stop. */
static void restore_end(kiln_tracker *t, kiln_tracker_job *job, const kiln_msg_kept_job *kept) {
    job->done = (kiln_msg_job_done){.job = kiln_str_from(job->id)};
    if (!kiln_tracker_job_is_open(job)) {
        job->done.code = kept->code;
        job->done.text = kept->text;
        job->done.records = kept->records;
        job->done.signers = kiln_tracker_job_signers(job);
        job->done.trials = kept->trials;
        job->done.wall_ms = kept->wall_ms;
        job->done.tasks.item = kept->tasks.item;
        job->done.tasks.count = kept->tasks.count;
        job->done.faults.item = kept->faults.item;
        job->done.faults.count = kept->faults.count;
    } else if (kept->code) {
        job->ending_ns = t->effects.now_ns;
        job->ending_code = (kiln_code)kept->code;
        job->ending_text = kiln_str_dup(&job->arena, kept->text);
    }
}

kiln_status kiln_tracker_job_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    if (kiln_tracker_job_find(t, row->id) || row->id.size > KILN_MESSAGES_TEXT)
        return KILN_ERROR(DATA_LOSS, "stored job %.*s is there twice", KILN_STR_ARG(row->id));
    kiln_tracker_job *job = kiln_tracker_job_add(t, row->id);
    kiln_msg_kept_job kept = {0};
    kiln_status st = KILN_OK;
    if (!parse_state(row->state, &job->state))
        st = KILN_ERROR(DATA_LOSS, "unknown state '%.*s'", KILN_STR_ARG(row->state));
    if (!st) st = kiln_record_decode(KILN_RECORD_kept_job, row->body, &job->arena, &kept);
    if (!st) {
        kiln_record_copy(KILN_RECORD_kept_job, &kept, &job->arena); /* row->body is the caller's */
        job->spec = kept.spec;
        job->spec.project = kiln_tracker_project_asked(job->spec.project);
        kiln_tracker_set_text(job->owner, kept.owner);
        kiln_tracker_set_text(job->run, kept.run);
        job->blob_bytes = kept.blob_bytes;
        if (kiln_tracker_job_is_open(job)) st = kiln_tracker_job_enter(t, job);
    }
    if (st) return kiln_status_note(st, "stored job %.*s", KILN_STR_ARG(row->id));
    kiln_tracker_set_text(job->tuner, kept.tuner);
    job->signer_count = (uint32_t)(kept.signers.size / sizeof job->signer[0]);
    if (job->signer_count)
        memcpy(job->signer, kept.signers.data, job->signer_count * sizeof job->signer[0]);
    job->abandoned = kept.abandoned;
    restore_end(t, job, &kept);
    /* No peer is connected yet; after a long pause they all reconnect late and at the same time. */
    job->assigned_ns = t->effects.now_ns;
    job->tuner_until_ns = t->effects.now_ns + KILN_TRACKER_WAIT_NS;
    if (!job->spec.detach) job->client_until_ns = t->effects.now_ns + KILN_TRACKER_WAIT_NS;
    kiln_tracker_set_fleet_changed(t);
    return KILN_OK;
}

/* ---- Invariants ---- */

void kiln_tracker_jobs_check(const kiln_tracker *t) {
    uint32_t open = 0, unkept = 0;
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        const kiln_tracker_job *job = t->jobs.all.data[i];
        KILN_CHECK(kiln_tracker_find(&t->jobs.of_id, kiln_str_from(job->id)) == job);
        KILN_CHECK(kiln_tracker_job_is_open(job) == (job->required != NULL));
        KILN_CHECK(kiln_tracker_job_is_open(job) == (job->project != NULL));
        open += kiln_tracker_job_is_open(job);
        unkept += (job->persist != 0) + (job->assigning != 0);
    }
    KILN_CHECK(open == t->jobs.open && unkept == t->jobs.unkept);
}
