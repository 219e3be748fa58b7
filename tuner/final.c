/* The candidates of a task's final: GATHER. final_choice.c chooses them; artefacts that are not in
 * our blob store any more are built again. */
#include "base/log.h"
#include "tuner/final_choice.h"
#include "tuner/shell.h"

static void add_finalist(kiln_shell_job *job, kiln_shell_task *task, const kiln_db_record *row) {
    kiln_db_record bare = *row;
    bare.samples_ns = (kiln_db_samples){0};
    const kiln_db_record *copy = kiln_db_copy_row(KILN_DB_TABLE_RECORD, &bare, &job->arena);
    task->final.finalist[task->final.count++] = (kiln_finalist){.row = *copy};
}

static void choose(kiln_shell_job *job, kiln_shell_task *task, const kiln_db_record *row,
                   uint32_t count) {
    const kiln_final_records all = {.row = row,
                                    .count = count,
                                    .base =
                                        kiln_str_from(kiln_searcher_default_hash(task->searcher)),
                                    .job = kiln_str_from(job->identity)};
    const kiln_final_choice choice = kiln_final_choose(&all, task->final.early);
    for (uint32_t i = 0; i < choice.count; i++) add_finalist(job, task, choice.record[i]);
    task->final.alone_ns = choice.alone_ns;
}

static kiln_status find_finalists(kiln_shell_job *job, kiln_shell_task *task) {
    kiln_db_filter filter = {.task_key = task->key,
                             .target = job->spec.target,
                             .trusting = &job->trusting,
                             .allowed = job->allowed,
                             .order = KILN_DB_FASTEST,
                             .codegen_version = kiln_str_from(kiln_codegen_version())};
    kiln_db_record *row = NULL;
    uint32_t count = 0;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_db_records(job->shell->db, &filter, &scratch, &row, &count);
    task->final.finalist = KILN_ARENA_ARRAY(&job->arena, kiln_finalist, 1 + KILN_TUNER_FINALISTS);
    task->final.artefact =
        KILN_ARENA_ARRAY(&job->arena, kiln_msg_blob_ref, 1 + KILN_TUNER_FINALISTS);
    task->final.count = 0;
    task->final.alone_ns = 0;
    if (!st && task->searcher) choose(job, task, row, count);
    kiln_arena_deinit(&scratch);
    return st;
}

/* When an artefact is missing there is no final. */
static void post_gathered(kiln_shell_job *job, uint32_t index) {
    kiln_shell_task *task = &job->task[index];
    kiln_tuner_event event = {.kind = KILN_TUNER_GATHERED,
                              .job = job->handle,
                              .task = index,
                              .alone_ns = task->final.alone_ns};
    kiln_msg_blob_ref *list = task->final.artefact; /* it outlives the event */
    event.finalist_count = task->final.count;
    for (uint32_t i = 0; i < task->final.count; i++) {
        list[i] = task->final.finalist[i].artefact;
        if (list[i].size == 0) event.finalist_count = 0;
    }
    event.finalist = list;
    kiln_shell_post(job->shell, &event);
}

static void part_done(kiln_shell_job *job, uint32_t index) {
    if (--job->task[index].final.waiting == 0) post_gathered(job, index);
}

/* Without an artefact there is no final, and the times of the search count. */
static void warn(const kiln_shell_task *task, const char *text) {
    kiln_log(KILN_LOG_WARN, "a finalist of %.*s: %s", KILN_STR_ARG(task->op), text);
}

static void on_kept(kiln_shell_io *e) {
    kiln_shell_task *task = &e->job->task[e->task];
    if (e->status)
        warn(task, kiln_status_text(e->status));
    else
        task->final.finalist[e->place].artefact = (kiln_msg_blob_ref){e->digest, e->bytes.size};
    part_done(e->job, e->task);
}

static void on_built(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                     const char *text) {
    (void)outcome;
    kiln_shell_ticket t;
    kiln_shell_job *job = kiln_shell_ticket_use(context, &t);
    if (!job) return;
    if (!reply || reply->code != 0) {
        warn(&job->task[t.task], reply ? "it was built before and cannot be now" : text);
        part_done(job, t.task);
        return;
    }
    const kiln_shell_io io = {.job = job,
                              .task = t.task,
                              .place = t.index,
                              .run = kiln_shell_keep_artefact,
                              .done = on_kept};
    kiln_shell_io_submit_bytes(io, reply->bytes, "the artefact of a finalist");
}

/* The store has most artefacts still. */
static void find_artefact(kiln_shell_job *job, kiln_finalist *finalist) {
    kiln_digest digest;
    kiln_str bytes = {0};
    if (!kiln_digest_parse(finalist->row.artefact_digest, &digest)) return;
    if (!kiln_blob_store_has(job->shell->store, &digest)) return;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_blob_store_get(job->shell->store, &digest, &scratch, &bytes);
    if (!st) finalist->artefact = (kiln_msg_blob_ref){digest, bytes.size};
    kiln_status_free(st); /* it is built again */
    kiln_arena_deinit(&scratch);
}

static void gather(kiln_shell_io *e) {
    kiln_shell_task *task = &e->job->task[e->task];
    task->final.early = e->early;
    e->status = find_finalists(e->job, task);
    for (uint32_t i = 0; i < task->final.count && task->final.count > 1; i++)
        find_artefact(e->job, &task->final.finalist[i]);
}

static void on_gathered(kiln_shell_io *e) {
    kiln_shell_task *task = &e->job->task[e->task];
    if (e->status)
        kiln_log(KILN_LOG_WARN, "finalists of %.*s: %s", KILN_STR_ARG(task->op),
                 kiln_status_text(e->status));
    task->final.waiting = 1;
    for (uint32_t i = 0; i < task->final.count && task->final.count > 1; i++) {
        if (task->final.finalist[i].artefact.size > 0) continue;
        task->final.waiting++;
        kiln_shell_submit_build(e->job, e->task, task->final.finalist[i].row.trace, i, on_built);
    }
    part_done(e->job, e->task);
}

void kiln_shell_gather(kiln_shell *shell, const kiln_tuner_action *action) {
    kiln_shell_job *job = kiln_shell_find_job(shell, action->job);
    const kiln_shell_io io = {.job = job,
                              .task = action->task,
                              .early = action->early,
                              .run = gather,
                              .done = on_gathered};
    if (job) kiln_shell_io_submit(&io, "GATHERED");
}
