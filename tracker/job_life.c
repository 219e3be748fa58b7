#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tracker/state.h"

static void leave(kiln_tracker *t, kiln_tracker_job *job) {
    if (!job->required) return;
    kiln_tracker_job_unassign(t, job);
    kiln_tracker_leases_end_of_job(t, job);
    kiln_tracker_job_leave(t, job);
}

static void remove_job(kiln_tracker *t, kiln_tracker_job *job) {
    leave(t, job);
    kiln_tracker_job_remove(t, job);
}

/* Removes ended jobs but the newest KILN_TRACKER_JOBS_KEPT. */
static void forget_old_jobs(kiln_tracker *t) {
    uint32_t ended = 0;
    for (uint32_t i = t->jobs.all.count; i-- > 0;) {
        kiln_tracker_job *job = t->jobs.all.data[i];
        if (kiln_tracker_job_is_open(job) || job->persist) continue;
        /* A connected client may not have received the end yet, so that its jobs are kept longer;
         * but some clients never close jobs. */
        if (++ended <= (job->client ? KILN_TRACKER_JOBS_MAX : KILN_TRACKER_JOBS_KEPT)) continue;
        kiln_tracker_row row = {
            .kind = KILN_TRACKER_ROW_JOB, .removed = true, .id = kiln_str_from(job->id)};
        kiln_tracker_persist(t, &row, 1);
        remove_job(t, job);
    }
}

/* ---- The end of a job ---- */

static void tell_end(kiln_tracker *t, kiln_tracker_job *job) {
    kiln_sign_public trusted[KILN_MESSAGES_TRUSTED];
    kiln_message message = {.type = KILN_MSG_JOB_DONE, .job_done = job->done};
    message.job_done.trusted =
        kiln_tracker_trusted_of(t, kiln_tracker_project_find(t, job->spec.project), trusted);
    kiln_tracker_send(t, job->client, &message);
}

/* A job that was told to stop and whose tuner fails meanwhile ends as it was told to: a cancelled
 * job is not a failed one. The tuner's reason is added. */
static kiln_msg_job_done end_as_told(kiln_tracker_job *job, const kiln_msg_job_done *done) {
    kiln_msg_job_done end = *done;
    if (!job->ending_ns || !done->code || done->code == (uint32_t)job->ending_code) return end;
    const char *text = kiln_arena_printf(&job->arena, "%s; while it stopped: %.*s",
                                         job->ending_text, KILN_STR_ARG(done->text));
    end.code = (uint32_t)job->ending_code;
    end.text = kiln_tracker_prose(text);
    return end;
}

/* Writes the end of the job. JOB_CLOSE to the tuner and JOB_DONE to the client follow when that is
 * durable. */
static void end_job(kiln_tracker *t, kiln_tracker_job *job, const kiln_msg_job_done *done) {
    KILN_CHECK(kiln_tracker_job_is_open(job));
    kiln_message message = {.type = KILN_MSG_JOB_DONE, .job_done = *done};
    job->done = kiln_message_copy(&message, &job->arena).job_done;
    job->done.job = kiln_str_from(job->id);
    job->done.signers = kiln_tracker_job_signers(job);
    job->state = done->code == KILN_OK          ? KILN_JOB_DONE
                 : done->code == KILN_CANCELLED ? KILN_JOB_CANCELLED
                                                : KILN_JOB_FAILED;
    kiln_tracker_job_persist_and_wait(t, job);
    leave(t, job);
    kiln_tracker_log(t, &(kiln_tracker_note){.what = KILN_TRACKER_JOB_ENDED,
                                             .job = job->done.job,
                                             .tuner = kiln_str_from(job->tuner),
                                             .text = job->done.text});
    kiln_tracker_set_fleet_changed(t);
}

void kiln_tracker_job_end(kiln_tracker *t, kiln_tracker_job *job, kiln_code code,
                          const char *text) {
    kiln_msg_job_done done = {
        .job = kiln_str_from(job->id),
        .code = (uint32_t)code,
        .text = kiln_tracker_prose(text),
        .wall_ms = (t->effects.now_ns - job->opened_ns) / UINT64_C(1000000),
    };
    done.tasks.item = job->done.tasks.item;
    done.tasks.count = job->done.tasks.count;
    done.faults.item = job->done.faults.item;
    done.faults.count = job->done.faults.count;
    for (uint32_t i = 0; i < done.tasks.count; i++) done.trials += done.tasks.item[i].done;
    end_job(t, job, &done);
}

/* Tells the tuner to forget the job; `job`: NULL where the tracker does not know it. */
static void close_at_tuner(kiln_tracker *t, const kiln_tracker_peer *tuner, kiln_str id,
                           const kiln_tracker_job *job) {
    kiln_message message = {.type = KILN_MSG_JOB_CLOSE, .job_close = {.job = id}};
    if (job && !kiln_tracker_job_is_open(job)) message.job_close.state = job->state;
    kiln_tracker_send(t, tuner, &message);
}

void kiln_tracker_job_stop(kiln_tracker *t, kiln_tracker_job *job, kiln_code code,
                           const char *text) {
    if (!kiln_tracker_job_is_open(job) || job->ending_ns) return;
    const kiln_tracker_peer *tuner =
        job->state == KILN_JOB_RUNNING ? kiln_tracker_job_worker(t, job) : NULL;
    /* A client that works on its job itself has no results to hand in. */
    if (!tuner || job->spec.by_client) {
        kiln_tracker_job_end(t, job, code, text);
        return;
    }
    kiln_tracker_log(t, &(kiln_tracker_note){.what = KILN_TRACKER_JOB_STOPPED,
                                             .job = kiln_str_from(job->id),
                                             .text = kiln_str_from(text)});
    job->ending_ns = t->effects.now_ns;
    job->ending_code = code;
    job->ending_text = kiln_str_dup(&job->arena, kiln_tracker_prose(text));
    kiln_tracker_job_persist(t, job); /* if this fails, a restart before the end forgets the stop */
    if (!job->assigning)
        kiln_tracker_job_send_cancel(t, job, tuner); /* else JOB_ASSIGN comes first */
}

/* Tells the client which boards there are and how long it may take. A job for a board that was
 * never seen ends at once. */
static void answer_opened(kiln_tracker *t, kiln_tracker_job *job) {
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "opened; ");
    bool named = job->spec.key.size || job->spec.labels.count;
    bool seen = kiln_tracker_requirement_describe(t, job->required, &text);
    kiln_tracker_log(t, &(kiln_tracker_note){.what = KILN_TRACKER_JOB_OPENED,
                                             .job = kiln_str_from(job->id),
                                             .text = job->spec.model_name});
    kiln_tracker_job_tell(t, job, job->client, job->client_stream, text.data);
    if (!seen && named && !job->spec.detach)
        kiln_tracker_job_end(t, job, KILN_NOT_FOUND, text.data + strlen("opened; "));
    kiln_strbuf_deinit(&text);
    kiln_tracker_set_fleet_changed(t);
}

/* Opens an abandoned job again for its client, which has reconnected; it goes on from the records
 * that its tuner has stored. */
static void reopen(kiln_tracker *t, kiln_tracker_job *job) {
    job->abandoned = false;
    job->state = KILN_JOB_WAITING;
    job->tuner[0] = 0;
    job->ending_ns = 0;
    job->done = (kiln_msg_job_done){.job = kiln_str_from(job->id)};
    job->task_capacity = 0;
    kiln_status st = kiln_tracker_job_enter(t, job);
    KILN_CHECK(st == NULL); /* it was open before */
    kiln_tracker_job_persist_and_wait(t, job);
}

/* The same, if the quotas allow it as a new job. */
static void reopen_for_client(kiln_tracker *t, kiln_tracker_job *job) {
    kiln_status st = kiln_tracker_quota_of_jobs(t, job->client, &job->spec);
    if (!st) {
        reopen(t, job);
        return;
    }
    kiln_tracker_send_status(t, job->client, job->client_stream, kiln_str_from(job->id), 0, st);
}

void kiln_tracker_job_persisted(kiln_tracker *t, uint64_t persist, const char *failure) {
    uint32_t index = t->jobs.unkept ? 0 : t->jobs.all.count;
    while (index < t->jobs.all.count && t->jobs.all.data[index]->persist != persist) index++;
    if (index == t->jobs.all.count) return;
    kiln_tracker_job *job = t->jobs.all.data[index];
    kiln_tracker_job_kept(t, job);
    if (kiln_tracker_job_is_open(job)) {
        if (failure) { /* the job was never accepted */
            kiln_tracker_send_error(t, job->client, job->client_stream, KILN_RESOURCE_EXHAUSTED,
                                    kiln_str_from(job->id), 0,
                                    "the tracker cannot keep the job: %s", failure);
            remove_job(t, job);
            return;
        }
        answer_opened(t, job);
        return;
    }
    /* If the end could not be written the tuner is not told, so that it repeats the end after a
     * restart of the tracker. */
    if (!failure) close_at_tuner(t, kiln_tracker_job_worker(t, job), kiln_str_from(job->id), job);
    if (job->abandoned && job->client) {
        reopen_for_client(t, job);
        return;
    }
    tell_end(t, job);
    forget_old_jobs(t);
}

/* ---- Messages of clients ---- */

/* Whether two specifications ask for the same job. The user, stored records and figures are not
 * compared, because they may change between two calls of the same command, nor is the priority,
 * which a person may have changed since. */
static bool same_spec(const kiln_msg_job_spec *spec, const kiln_msg_job_spec *asked) {
    kiln_msg_job_spec a = *spec, b = *asked;
    b.project = kiln_tracker_project_asked(b.project);
    b.user = a.user;
    b.priority = a.priority;
    kiln_strbuf left = {0}, right = {0};
    a.records = b.records = (kiln_digest){0};
    a.figures = b.figures = (kiln_str){0};
    kiln_status st = kiln_record_encode(KILN_RECORD_job_spec, &a, &left);
    if (!st) st = kiln_record_encode(KILN_RECORD_job_spec, &b, &right);
    bool same = !st && kiln_str_equal(kiln_strbuf_view(&left), kiln_strbuf_view(&right));
    kiln_status_free(st); /* a spec that cannot be encoded is not one that came in */
    kiln_strbuf_deinit(&left);
    kiln_strbuf_deinit(&right);
    return same;
}

/* Only one command follows a job: the older one is told that another follows it now. */
static void detach_older(kiln_tracker *t, const kiln_tracker_job *job,
                         const kiln_tracker_peer *newcomer) {
    static const char text[] = "another command follows this job now, and it goes on";
    const kiln_tracker_peer *older = job->client;
    const bool open = kiln_tracker_job_is_open(job);
    if (!older || strcmp(older->boot, newcomer->boot) == 0 || !(open || job->persist)) return;
    if (open && job->persist) { /* it still waits for the answer to JOB_OPEN */
        kiln_tracker_send_error(t, older, job->client_stream, KILN_ABORTED, kiln_str_from(job->id),
                                0, "%s", text);
        return;
    }
    kiln_message done = {.type = KILN_MSG_JOB_DONE,
                         .job_done = {.job = kiln_str_from(job->id),
                                      .code = KILN_ABORTED,
                                      .text = kiln_str_from(text)}};
    kiln_tracker_send(t, older, &done);
}

static void attach(kiln_tracker *t, kiln_tracker_job *job, kiln_tracker_peer *client,
                   const kiln_message *message) {
    if (!same_spec(&job->spec, &message->job_open.spec)) {
        kiln_tracker_send_error(t, client, message->stream, KILN_ALREADY_EXISTS,
                                kiln_str_from(job->id), 0,
                                "job %s exists and asks for something else", job->id);
        return;
    }
    detach_older(t, job, client);
    job->client = client;
    job->client_stream = message->stream;
    kiln_tracker_set_text(job->opener, kiln_str_from(client->boot));
    job->client_until_ns = 0;
    if (job->persist) return; /* it is answered when that is durable */
    if (job->abandoned && !kiln_tracker_job_is_open(job)) {
        reopen_for_client(t, job);
        return;
    }
    kiln_tracker_job_tell(t, job, client, message->stream, "attached");
    if (!kiln_tracker_job_is_open(job)) tell_end(t, job);
}

/* Whether JOB_OPEN of a detached job that has ended begins another run of it, as for a command that
 * runs every night. The same process that repeats JOB_OPEN, because its connection was lost before
 * the answer, gets the job that it opened. */
static bool runs_anew(const kiln_tracker_job *job, const kiln_tracker_peer *client,
                      const kiln_msg_job_spec *spec) {
    const bool same_user = job->owner[0] ? strcmp(job->owner, client->person) == 0
                                         : kiln_str_equal(spec->user, job->spec.user);
    return spec->detach && job->spec.detach && !kiln_tracker_job_is_open(job) && !job->persist &&
           same_user &&
           kiln_str_equal(kiln_tracker_project_asked(spec->project), job->spec.project) &&
           strcmp(job->opener, client->boot) != 0;
}

void kiln_tracker_job_open(kiln_tracker *t, kiln_tracker_peer *client,
                           const kiln_message *message) {
    kiln_str id = message->job_open.job;
    kiln_tracker_job *job = kiln_tracker_job_latest(t, id);
    const kiln_str run = kiln_str_slice(kiln_str_from(client->boot), 0, KILN_TRACKER_RUN_DIGITS);
    char name[KILN_MESSAGES_TEXT + 2 + KILN_TRACKER_RUN_DIGITS];
    bool is_named_by_run = false;
    if (job && !runs_anew(job, client, &message->job_open.spec)) {
        attach(t, job, client, message);
        return;
    }
    if (job) {
        /* Another name, so that lists show both runs. */
        snprintf(name, sizeof name, "%.*s.%.*s", KILN_STR_ARG(id), KILN_STR_ARG(run));
        id = kiln_str_from(name);
        is_named_by_run = true;
        if (id.size > KILN_MESSAGES_TEXT || kiln_tracker_job_find(t, id)) {
            kiln_tracker_send_error(t, client, message->stream, KILN_INVALID_ARGUMENT,
                                    message->job_open.job, 0,
                                    "job %.*s has ended, and a new run of it needs a shorter name",
                                    KILN_STR_ARG(message->job_open.job));
            return;
        }
    }
    if (id.size == 0) {
        kiln_tracker_send_error(t, client, message->stream, KILN_INVALID_ARGUMENT, id, 0,
                                "a job needs an identity");
        return;
    }
    if (t->jobs.open >= KILN_TRACKER_JOBS_MAX) {
        kiln_tracker_send_error(t, client, message->stream, KILN_RESOURCE_EXHAUSTED, id, 0,
                                "%u jobs are open already", t->jobs.open);
        return;
    }
    kiln_status st = kiln_tracker_quota_of_jobs(t, client, &message->job_open.spec);
    if (!st) st = kiln_tracker_quota_of_blobs(t, client, &message->job_open.spec);
    if (st) {
        kiln_tracker_send_status(t, client, message->stream, id, 0, st);
        return;
    }
    job = kiln_tracker_job_add(t, id);
    job->spec = kiln_message_copy(message, &job->arena).job_open.spec;
    job->spec.project = kiln_tracker_project_asked(job->spec.project);
    /* The tracker may have forgotten an older run of this name that a tuner still knows. */
    if (job->spec.detach && !is_named_by_run) kiln_tracker_set_text(job->run, run);
    kiln_tracker_set_text(job->owner, kiln_str_from(client->person));
    if (job->owner[0]) job->spec.user = kiln_str_from(job->owner);
    job->blob_bytes = kiln_tracker_put_size(t, client, &job->spec.model) +
                      kiln_tracker_put_size(t, client, &job->spec.records) +
                      kiln_tracker_put_size(t, client, &job->spec.by_hand);
    st = kiln_tracker_job_enter(t, job);
    if (st) {
        kiln_tracker_send_status(t, client, message->stream, id, 0, st);
        remove_job(t, job);
        return;
    }
    job->client = client;
    job->client_stream = message->stream;
    kiln_tracker_set_text(job->opener, kiln_str_from(client->boot));
    kiln_tracker_job_persist_and_wait(t, job);
}

void kiln_tracker_job_close(kiln_tracker *t, kiln_tracker_peer *client,
                            const kiln_message *message) {
    kiln_tracker_job *job = kiln_tracker_job_find(t, message->job_close.job);
    if (!job || job->client != client || kiln_tracker_job_is_open(job)) return;
    job->client = NULL;
}

/* The order is answered when it is on disk. */
static void keep_order(kiln_tracker *t, const kiln_tracker_peer *client,
                       const kiln_message *message, kiln_tracker_job *job,
                       kiln_tracker_cancel order) {
    order.peer = client->id;
    order.stream = message->stream;
    order.state = job->state;
    kiln_tracker_set_text(order.job, kiln_str_from(job->id));
    kiln_vec_push(&t->cancels.waiting, order);
}

void kiln_tracker_job_cancel(kiln_tracker *t, kiln_tracker_peer *client,
                             const kiln_message *message) {
    kiln_tracker_job *job = kiln_tracker_job_latest(t, message->cancel.id);
    if (!job) {
        kiln_tracker_send_error(t, client, message->stream, KILN_NOT_FOUND, message->cancel.id, 0,
                                "there is no job %.*s", KILN_STR_ARG(message->cancel.id));
        return;
    }
    if (!kiln_tracker_job_is_open(job) && !job->persist && !job->abandoned) {
        kiln_tracker_job_tell(t, job, client, message->stream, "it had ended already");
        return;
    }
    const bool was_abandoned = job->abandoned;
    job->abandoned = false; /* the job stays cancelled when its client comes back */
    kiln_tracker_job_stop(t, job, KILN_CANCELLED, "cancelled on request");
    const bool is_written = job->persist && !was_abandoned;
    const kiln_tracker_cancel kept = {.persist = is_written ? job->persist
                                                            : kiln_tracker_job_persist(t, job)};
    keep_order(t, client, message, job, kept);
}

/* The most that jobs of the project may ask for; jobs that ask for more count with that. */
static uint32_t priority_max(const kiln_tracker_project *project) {
    const uint64_t bound = project->setting[KILN_SETTING_PRIORITY];
    return bound ? (uint32_t)bound : KILN_PRIORITY_MAX;
}

void kiln_tracker_job_order(kiln_tracker *t, kiln_tracker_peer *client,
                            const kiln_message *message) {
    const kiln_msg_job_order *order = &message->job_order;
    kiln_tracker_job *job = kiln_tracker_job_latest(t, order->job);
    kiln_status st = KILN_OK;
    if (!job)
        st = KILN_ERROR(NOT_FOUND, "there is no job %.*s", KILN_STR_ARG(order->job));
    else if (!kiln_tracker_job_is_open(job))
        st = KILN_ERROR(FAILED_PRECONDITION, "job %s has ended", job->id);
    else if (order->priority > priority_max(job->project))
        st = KILN_ERROR(OUT_OF_RANGE,
                        "jobs of project %s have priority %u at most (its setting \"priority\"; an "
                        "admin of the project raises it)",
                        job->project->name, priority_max(job->project));
    if (st) {
        kiln_tracker_send_status(t, client, message->stream, order->job, 0, st);
        return;
    }
    job->spec.priority = order->priority;
    job->changed = kiln_tracker_next_change(t);
    const kiln_tracker_cancel kept = {.persist = kiln_tracker_job_persist(t, job),
                                      .is_priority = true};
    keep_order(t, client, message, job, kept);
}

static void answer_cancel(kiln_tracker *t, const kiln_tracker_cancel *cancel, const char *failure) {
    const kiln_tracker_peer *client = kiln_tracker_peer_find(t, cancel->peer);
    const kiln_str job = kiln_str_from(cancel->job);
    kiln_message message = {
        .type = KILN_MSG_JOB_STATE,
        .stream = cancel->stream,
        .job_state = {.job = job,
                      .state = cancel->state,
                      .text = cancel->is_priority ? KILN_STR("its priority is changed")
                                                  : KILN_STR("stopping")},
    };
    if (failure)
        kiln_tracker_send_error(
            t, client, cancel->stream, KILN_RESOURCE_EXHAUSTED, job, 0,
            cancel->is_priority ? "its priority is changed until the tracker is started anew, "
                                  "as that cannot be kept: %s"
                                : "the job stops, but not if the tracker is started anew before "
                                  "its end, as that cannot be kept: %s",
            failure);
    else
        kiln_tracker_send(t, client, &message);
}

void kiln_tracker_cancel_persisted(kiln_tracker *t, uint64_t persist, const char *failure) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->cancels.waiting.count; i++) {
        const kiln_tracker_cancel cancel = t->cancels.waiting.data[i];
        if (cancel.persist == persist)
            answer_cancel(t, &cancel, failure);
        else
            t->cancels.waiting.data[kept++] = cancel;
    }
    t->cancels.waiting.count = kept;
}

/* ---- Messages of tuners ---- */

/* The running job of this tuner. NULL: it has ended or is another tuner's, and this tuner is told
 * to forget it. */
static kiln_tracker_job *own_job(kiln_tracker *t, kiln_tracker_peer *tuner, kiln_str id) {
    kiln_tracker_job *job = kiln_tracker_job_find(t, id);
    bool own = job && strcmp(job->tuner, tuner->node) == 0;
    if (own && job->state == KILN_JOB_RUNNING) return job;
    if (!own || !job->persist) close_at_tuner(t, tuner, id, job);
    return NULL;
}

static void make_room_for_task(kiln_tracker_job *job) {
    uint32_t count = job->done.tasks.count;
    if (count < job->task_capacity) return;
    job->task_capacity = KILN_MAX(2 * count, 8u);
    kiln_msg_task_state *grown =
        KILN_ARENA_ARRAY(&job->arena, kiln_msg_task_state, job->task_capacity);
    if (count) memcpy(grown, job->done.tasks.item, count * sizeof *grown);
    job->done.tasks.item = grown;
}

/* Replaces the states of tasks by newer ones. Texts are copied once per task. */
static void merge_tasks(kiln_tracker_job *job, const kiln_msg_job_event *event) {
    for (uint32_t i = 0; i < event->tasks.count; i++) {
        const kiln_msg_task_state *news = &event->tasks.item[i];
        uint32_t at = 0;
        while (at < job->done.tasks.count &&
               !kiln_str_equal(job->done.tasks.item[at].key, news->key))
            at++;
        if (at == KILN_MESSAGES_TASKS) continue;
        if (at == job->done.tasks.count) {
            make_room_for_task(job);
            job->done.tasks.item[job->done.tasks.count++] =
                (kiln_msg_task_state){.key = kiln_str_copy(&job->arena, news->key),
                                      .op = kiln_str_copy(&job->arena, news->op)};
        }
        kiln_str key = job->done.tasks.item[at].key, op = job->done.tasks.item[at].op;
        job->done.tasks.item[at] = *news;
        job->done.tasks.item[at].key = key;
        job->done.tasks.item[at].op = op;
    }
}

/* An event lists all faults so far, so that a longer list replaces the shorter one. */
static void merge_faults(kiln_tracker_job *job, const kiln_msg_job_event *event) {
    if (event->faults.count <= job->done.faults.count) return;
    job->done.faults.count = event->faults.count;
    job->done.faults.item = KILN_ARENA_ARRAY(&job->arena, kiln_msg_task_fault, event->faults.count);
    for (uint32_t i = 0; i < event->faults.count; i++)
        job->done.faults.item[i] =
            (kiln_msg_task_fault){kiln_str_copy(&job->arena, event->faults.item[i].key),
                                  kiln_str_copy(&job->arena, event->faults.item[i].text)};
}

void kiln_tracker_job_event(kiln_tracker *t, kiln_tracker_peer *tuner,
                            const kiln_message *message) {
    kiln_tracker_job *job = own_job(t, tuner, message->job_event.job);
    if (!job) return;
    merge_tasks(job, &message->job_event);
    merge_faults(job, &message->job_event);
    job->changed = kiln_tracker_next_change(t);
    kiln_message copy = *message;
    copy.stream = 0;
    kiln_tracker_send(t, job->client, &copy);
}

void kiln_tracker_job_done(kiln_tracker *t, kiln_tracker_peer *tuner, const kiln_message *message) {
    kiln_tracker_job *job = own_job(t, tuner, message->job_done.job);
    if (!job) return;
    const uint64_t bytes = kiln_tracker_put_size(t, tuner, &message->job_done.records);
    kiln_msg_job_done done = message->job_done;
    kiln_status over = kiln_tracker_quota_of_results(t, job, bytes);
    if (!over) {
        job->blob_bytes += bytes;
    } else { /* its records stay with the tuner; the same job starts from them there */
        done.records = (kiln_digest){{0}};
        if (!done.code) {
            done.code = (uint32_t)kiln_status_code(over);
            done.text = kiln_tracker_prose(kiln_status_text(over));
        }
    }
    kiln_tracker_job_add_signer(job, tuner); /* its key may have been rotated since the job began */
    done = end_as_told(job, &done);
    end_job(t, job, &done);
    kiln_status_free(over);
}

void kiln_tracker_jobs_peer_gone(kiln_tracker *t, kiln_tracker_peer *peer) {
    if (peer->role == KILN_PEER_BOARD) return;
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        kiln_tracker_job *job = t->jobs.all.data[i];
        if (job->client == peer) {
            job->client = NULL;
            if (!job->spec.detach)
                job->client_until_ns = t->effects.now_ns + KILN_TRACKER_CLIENT_GRACE_NS;
        }
        if (peer->role == KILN_PEER_TUNER && job->state == KILN_JOB_RUNNING &&
            !job->tuner_until_ns && !kiln_tracker_tuner_by_node(t, job->tuner))
            job->tuner_until_ns = t->effects.now_ns + KILN_TRACKER_TUNER_GRACE_NS;
    }
}

void kiln_tracker_cancels_free(kiln_tracker *t) { kiln_vec_deinit(&t->cancels.waiting); }
