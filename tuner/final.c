/* The candidates of a task's final: GATHER. They are chosen among all records of the task, of any
 * job: the default schedule first. A judgement during the search takes earlier winners and the
 * fastest of the others; the final at the end takes the fastest, and the fastest of other pairs of
 * layouts. It takes none when a judgement of this job still holds: its winner is faster than all
 * candidates that were in no final. Artefacts that are not in our blob store any more are built
 * again. */
#include "base/log.h"
#include "tuner/shell.h"

static bool is_finalist(const kiln_shell_task *task, kiln_str trace_hash) {
    for (uint32_t i = 0; i < task->final.count; i++)
        if (kiln_str_equal(task->final.finalist[i].row.trace_hash, trace_hash)) return true;
    return false;
}

static void add_finalist(kiln_shell_job *job, kiln_shell_task *task, const kiln_db_record *row) {
    kiln_db_record bare = *row;
    bare.samples_ns = (kiln_db_samples){0};
    const kiln_db_record *copy = kiln_db_copy_row(KILN_DB_TABLE_RECORD, &bare, &job->arena);
    task->final.finalist[task->final.count++] = (kiln_finalist){.row = *copy};
}

static bool pair_is_finalist(const kiln_shell_task *task, const kiln_db_record *row) {
    for (uint32_t i = 0; i < task->final.count; i++)
        if (kiln_str_equal(task->final.finalist[i].row.layout_in, row->layout_in) &&
            kiln_str_equal(task->final.finalist[i].row.layout_out, row->layout_out))
            return true;
    return false;
}

typedef enum choice {
    OF_ALL,
    OF_PAIRS,  /* of pairs of layouts that are not among the candidates */
    OF_JUDGED, /* in some final */
    OF_ALONE,  /* measured so only */
} choice;

static bool is_eligible(const kiln_shell_task *task, const kiln_db_record *row, choice of) {
    if (is_finalist(task, row->trace_hash)) return false;
    return of == OF_ALL || (of == OF_PAIRS && !pair_is_finalist(task, row)) ||
           (of == OF_JUDGED && row->final) || (of == OF_ALONE && !row->final);
}

/* The fastest record that is not a candidate yet; NULL: none. */
static const kiln_db_record *fastest(const kiln_shell_task *task, const kiln_db_record *row,
                                     uint32_t count, choice of) {
    const kiln_db_record *best = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (is_eligible(task, &row[i], of) && (!best || row[i].median_ns < best->median_ns))
            best = &row[i];
    return best;
}

static void add_fastest(kiln_shell_job *job, kiln_shell_task *task, const kiln_db_record *row,
                        uint32_t count, uint32_t most, choice of) {
    for (uint32_t added = 0; added < most; added++) {
        const kiln_db_record *best = fastest(task, row, count, of);
        if (!best) return;
        add_finalist(job, task, best);
    }
}

static bool is_judged_here(const kiln_shell_job *job, const kiln_db_record *row) {
    return row->final && kiln_str_is(row->job_id, job->identity);
}

static bool pair_is_judged(const kiln_shell_job *job, const kiln_db_record *row, uint32_t count,
                           const kiln_db_record *of) {
    for (uint32_t i = 0; i < count; i++)
        if (is_judged_here(job, &row[i]) && kiln_str_equal(row[i].layout_in, of->layout_in) &&
            kiln_str_equal(row[i].layout_out, of->layout_out))
            return true;
    return false;
}

/* Time of the best that this job judged; 0: none. */
static double judged_best_ns(const kiln_shell_job *job, const kiln_db_record *row, uint32_t count) {
    double judged_ns = 0;
    for (uint32_t i = 0; i < count; i++)
        if (is_judged_here(job, &row[i]) && (judged_ns == 0 || row[i].median_ns < judged_ns))
            judged_ns = row[i].median_ns;
    return judged_ns;
}

/* Whether this job's judgement still holds: no other record is faster, or is the best of other
 * layouts. */
static bool judgement_holds(const kiln_shell_job *job, const kiln_db_record *row, uint32_t count) {
    const double judged_ns = judged_best_ns(job, row, count);
    for (uint32_t i = 0; i < count; i++) {
        if (is_judged_here(job, &row[i])) continue;
        if (row[i].median_ns < judged_ns || !pair_is_judged(job, row, count, &row[i])) return false;
    }
    return judged_ns > 0;
}

/* The default first. */
static void choose(kiln_shell_job *job, kiln_shell_task *task, const kiln_db_record *row,
                   uint32_t count) {
    kiln_str base = kiln_str_from(kiln_searcher_default_hash(task->searcher));
    for (uint32_t i = 0; i < count && task->final.count == 0; i++)
        if (kiln_str_equal(row[i].trace_hash, base)) add_finalist(job, task, &row[i]);
    if (task->final.count == 0) return;
    if (task->final.early) {
        const kiln_db_record *alone = fastest(task, row, count, OF_ALONE);
        const double judged_ns = judged_best_ns(job, row, count);
        if (alone && (judged_ns == 0 || alone->median_ns < judged_ns)) {
            add_fastest(job, task, row, count, KILN_TUNER_FINALISTS_FASTEST, OF_JUDGED);
            add_finalist(job, task, alone);
        }
    } else if (!judgement_holds(job, row, count)) {
        add_fastest(job, task, row, count, 1, OF_JUDGED);
        add_fastest(job, task, row, count, KILN_TUNER_FINALISTS_FASTEST - (task->final.count - 1),
                    OF_ALL);
        add_fastest(job, task, row, count, KILN_TUNER_FINALISTS_PAIRS, OF_PAIRS);
    }
    const kiln_db_record *rest = fastest(task, row, count, OF_ALONE);
    task->final.alone_ns = rest ? rest->median_ns : 0;
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
