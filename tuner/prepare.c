/* A job from its model to its searchers. PREPARE goes: blobs here -> tasks found in a worker ->
 * the client's records imported, stored records looked up, searchers made -> PREPARED. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "db/bundle.h"
#include "db/trust.h"
#include "tuner/plausible.h"
#include "tuner/shell.h"

#define TASKS_DEADLINE_NS (UINT64_C(300) * KILN_NS_PER_S) /* large models fold large constants */

/* ---- PREPARE, second: tasks ------------------------------------------------------------------ */

/* `error` of the task says why it cannot be searched; an error that is returned stops the job. */
static kiln_status open_task(kiln_shell_job *job, const kiln_task *found,
                             const kiln_layout *const *layout, kiln_shell_task *task) {
    kiln_searcher_options options = {0};
    kiln_points *points = NULL;
    kiln_strbuf text = {0};
    kiln_program_print(found->te, &text);
    *task = (kiln_shell_task){.key = kiln_str_copy(&job->arena, found->key),
                              .op = kiln_str_copy(&job->arena, found->op),
                              .text = kiln_str_copy(&job->arena, kiln_strbuf_view(&text)),
                              .te = found->te,
                              .flops = found->flops,
                              .least_flops = kiln_algorithm_least_flops(found->te, &job->accuracy),
                              .weight = (uint32_t)found->weight};
    kiln_strbuf_deinit(&text);
    kiln_status st = kiln_searcher_find(job->spec.searcher, &options.kind);
    if (st) return kiln_status_note(st, "task %.*s", KILN_STR_ARG(task->op));
    if (!job->model && kiln_searcher_learns(options.kind))
        job->model = kiln_cost_model_create(
            &(kiln_cost_model_options){.kind = job->shell->options.model, .seed = job->spec.seed});
    options.seed = kiln_hash64(task->key.data, task->key.size, job->spec.seed);
    options.task = task->key;
    options.model = kiln_searcher_learns(options.kind) ? job->model : NULL;
    /* Without a model only the use of registers is checked, which the analytic model knows. */
    kiln_model_kind model = options.model ? job->shell->options.model : KILN_MODEL_ANALYTIC;
    const kiln_space_options space = {.layout = layout, .accuracy = job->accuracy};
    st = kiln_points_of_space(task->te, &job->target, &space, model, &points);
    if (!st) st = kiln_searcher_create(&options, points, &task->searcher);
    if (!st) return KILN_OK;
    kiln_log(KILN_LOG_WARN, "job %s: %.*s cannot be searched: %s", job->identity,
             KILN_STR_ARG(task->op), kiln_status_text(st));
    task->error = kiln_str_copy(&job->arena, kiln_str_from(kiln_status_text(st)));
    kiln_status_free(st); /* the task's own end: others go on */
    return KILN_OK;
}

static bool wanted(const kiln_shell_job *job, const kiln_task *task) {
    kiln_str filter = job->spec.tasks;
    if (filter.size == 0) return true;
    while (filter.size) {
        kiln_str word = kiln_str_trim(kiln_str_cut(&filter, ','));
        if (word.size == 0) continue;
        if (memmem(task->key.data, task->key.size, word.data, word.size)) return true;
        if (memmem(task->op.data, task->op.size, word.data, word.size)) return true;
    }
    return false;
}

_Static_assert(KILN_TUNER_ROW == KILN_ROW_STEPS_MAX, "rows of the tuner are the compiler's");

/* Keeps the alternatives whose tasks are all in the job. place: [searched] place in the job's list
 * + 1; 0: not in it. */
static void keep_alternatives(kiln_shell_job *job, const kiln_compilation *c,
                              const uint32_t *place) {
    job->alternative = KILN_ARENA_ARRAY(&job->arena, kiln_tuner_alternative, c->alternative_count);
    for (uint32_t i = 0; i < c->alternative_count; i++) {
        const kiln_alternative *from = &c->alternative[i];
        kiln_tuner_alternative to = {
            .task = place[from->task] - 1, .count = from->count, .times = from->times};
        bool whole = place[from->task] > 0;
        for (uint32_t k = 0; k < from->count; k++) {
            whole = whole && place[from->instead_of[k]];
            to.instead_of[k] = place[from->instead_of[k]] - 1;
        }
        if (whole) job->alternative[job->alternative_count++] = to;
    }
}

/* `bytes`: a compilation, which the job keeps. */
static kiln_status open_tasks(kiln_shell_job *job, kiln_str bytes) {
    kiln_compilation *c = NULL;
    kiln_str copy = {kiln_arena_copy(&job->arena, bytes.data, bytes.size), bytes.size};
    kiln_status st = kiln_compilation_decode(copy, &job->arena, &c);
    if (st) return st;
    const kiln_tasks *tasks = &c->searched;
    job->task = KILN_ARENA_ARRAY(&job->arena, kiln_shell_task, tasks->count);
    for (uint32_t i = 0; i < tasks->count; i++) job->task_count += wanted(job, &tasks->task[i]);
    if (tasks->count && !job->task_count)
        st = KILN_ERROR(NOT_FOUND, "none of the model's %u tasks matches '%.*s'", tasks->count,
                        KILN_STR_ARG(job->spec.tasks));
    uint32_t *place = KILN_ARENA_ARRAY(&job->arena, uint32_t, tasks->count), count = 0;
    for (uint32_t i = 0; !st && i < tasks->count; i++) {
        if (!wanted(job, &tasks->task[i])) continue;
        st = open_task(job, &tasks->task[i], c->agreed[i], &job->task[count++]);
        place[i] = count;
    }
    if (!st) keep_alternatives(job, c, place);
    return st;
}

/* Frees searchers of tasks that get no trials. */
static void close_tasks(kiln_shell_job *job) {
    bool *closed = KILN_ARENA_ARRAY(&job->arena, bool, job->task_count);
    uint64_t budget =
        kiln_tuner_budget(&job->spec, kiln_shell_list_tasks(job), job->task_count, closed);
    for (uint32_t i = 0; i < job->task_count; i++) {
        if (budget > 0 && !closed[i]) continue;
        kiln_searcher_destroy(job->task[i].searcher);
        job->task[i].searcher = NULL;
    }
}

kiln_status kiln_shell_import(kiln_shell_job *job) {
    if (kiln_digest_is_none(&job->spec.records)) return KILN_OK;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_plausible_task *known = KILN_ARENA_ARRAY(&scratch, kiln_plausible_task, job->task_count);
    for (uint32_t i = 0; i < job->task_count; i++)
        known[i] = (kiln_plausible_task){job->task[i].key, job->task[i].te};
    const kiln_db_import_options options = {.now_wall_ns = (int64_t)kiln_clock_wall_ns(),
                                            .implausible = kiln_plausible_why_not,
                                            .context =
                                                kiln_plausible_create_for(known, job->task_count)};
    kiln_db_import_counts counts = {0};
    kiln_str bytes = {0};
    kiln_status st = kiln_blob_store_get(job->shell->store, &job->spec.records, &scratch, &bytes);
    if (!st) st = kiln_bundle_import(job->shell->db, bytes, &options, &counts);
    if (!st && counts.records > counts.trusted) {
        kiln_strbuf text = {0};
        kiln_db_import_print(&counts, &text);
        kiln_log(KILN_LOG_INFO, "job %s came with %s", job->identity, text.data);
        kiln_strbuf_deinit(&text);
    }
    kiln_plausible_destroy(options.context);
    kiln_arena_deinit(&scratch);
    return st;
}

static void take_tasks(kiln_shell_io *e) {
    kiln_status st = open_tasks(e->job, kiln_strbuf_view(&e->bytes));
    if (!st) st = kiln_shell_import(e->job);
    if (!st) st = kiln_shell_find_transfer(e->job);
    if (!st) close_tasks(e->job);
    e->status = st;
}

static void on_part(kiln_shell_io *e) { kiln_shell_part_done(e->job, kiln_shell_take_status(e)); }

static void on_tasks(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                     const char *text) {
    (void)outcome;
    kiln_shell_ticket t;
    kiln_shell_job *job = kiln_shell_ticket_use(context, &t);
    if (!job) return;
    kiln_status st = kiln_status_note(kiln_builders_status(reply, text), "reading the model");
    if (st) {
        kiln_shell_part_done(job, st);
        return;
    }
    const kiln_shell_io io = {.job = job, .run = take_tasks, .done = on_part};
    kiln_shell_io_submit_bytes(io, reply->bytes, "tasks of a model");
}

static void ask_tasks(kiln_shell_job *job) {
    char *path = NULL;
    kiln_status st = kiln_blob_store_path(job->shell->store, &job->spec.model, &job->arena, &path);
    if (st) {
        kiln_shell_part_done(job, st);
        return;
    }
    kiln_work_request request = {.work = KILN_WORK_TASKS,
                                 .target = job->spec.target,
                                 .figures = job->spec.figures,
                                 .accuracy = job->accuracy,
                                 .model_path = kiln_str_from(path),
                                 .model_form = job->spec.form};
    kiln_builders_submit(job->shell->builders, &request, true, TASKS_DEADLINE_NS, on_tasks,
                         kiln_shell_ticket_make(job, 0, 0));
}

/* ---- PREPARE, first: blobs ------------------------------------------------------------------- */

static void fetch_next(kiln_shell_job *job);

static void on_fetched(void *context, const kiln_digest *digest, kiln_status status) {
    (void)digest;
    kiln_shell_ticket t;
    kiln_shell_job *job = kiln_shell_ticket_use(context, &t);
    if (!job) {
        kiln_status_free(status);
    } else if (kiln_status_code(status) == KILN_UNAVAILABLE) {
        kiln_status_free(status); /* the connection closes */
        job->wants_blobs = true;
    } else if (status) {
        kiln_shell_part_done(job, kiln_status_note(status, "fetching the model"));
    } else {
        fetch_next(job);
    }
}

/* Fetches what is missing, one blob after the other; then goes on. A tracker that goes away
 * meanwhile is waited for. */
static void fetch_next(kiln_shell_job *job) {
    kiln_shell *shell = job->shell;
    const kiln_digest *need[] = {&job->spec.model, &job->spec.records, &job->spec.by_hand};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(need); i++) {
        if (kiln_digest_is_none(need[i]) || kiln_blob_store_has(shell->store, need[i])) continue;
        if (shell->blobs)
            kiln_blobs_fetch(shell->blobs, need[i], on_fetched, kiln_shell_ticket_make(job, 0, 0));
        else
            job->wants_blobs = true;
        return;
    }
    ask_tasks(job);
}

void kiln_shell_fetch_again(kiln_shell *shell) {
    for (kiln_shell_job *job = shell->jobs; job; job = job->next) {
        if (!job->wants_blobs || job->forgotten) continue;
        job->wants_blobs = false;
        fetch_next(job);
    }
}

/* A job that an earlier run began keeps the age it had. */
static kiln_status find_age(kiln_shell_job *job) {
    kiln_db_job row = {0};
    bool found = false;
    kiln_status st =
        kiln_db_find_job(job->shell->db, kiln_str_from(job->identity), &job->arena, &row, &found);
    found &= row.origin.size == 0; /* a client's row says nothing of ours */
    if (!st && found && row.opened_wall_ns > 0 && row.opened_wall_ns < (int64_t)job->opened_wall_ns)
        job->opened_wall_ns = (uint64_t)row.opened_wall_ns;
    return st;
}

static void begin(kiln_shell_io *e) {
    e->status = find_age(e->job);
    if (!e->status) e->status = kiln_shell_store_job(e->job, "open");
}

static void on_begun(kiln_shell_io *e) {
    kiln_shell_job *job = e->job;
    if (e->status) {
        kiln_shell_part_done(job, kiln_shell_take_status(e));
        return;
    }
    kiln_shell_claim_begin(job);
    fetch_next(job);
}

/* A maximum that is no number means the default. */
static kiln_accuracy accuracy_of(const kiln_msg_job_spec *spec) {
    return (kiln_accuracy){.precision = (kiln_precision)spec->precision,
                           .exact = spec->exact,
                           .error_max = isfinite(spec->error_max) ? spec->error_max : 0};
}

void kiln_shell_prepare(kiln_shell *shell, const kiln_tuner_action *action) {
    kiln_shell_job *job = kiln_shell_job_create(shell, action->job);
    job->opened_wall_ns = kiln_clock_wall_ns();
    kiln_shell_part_add(job);
    job->identity = kiln_str_dup(&job->arena, kiln_str_from(action->text));
    kiln_message assign = {.type = KILN_MSG_JOB_ASSIGN, .job_assign = {.spec = *action->spec}};
    job->spec = kiln_message_copy(&assign, &job->arena).job_assign.spec;
    job->accuracy = accuracy_of(&job->spec);
    job->allowed = (kiln_db_allowed){kiln_algorithm_allowed(&job->accuracy, &job->arena),
                                     kiln_accuracy_error_max(&job->accuracy)};
    job->trusting = kiln_db_trusting_read(action->trusted, &job->arena);
    kiln_log(KILN_LOG_INFO, "job %s: %.*s for %.*s", job->identity,
             KILN_STR_ARG(job->spec.model_name), KILN_STR_ARG(job->spec.target));
    kiln_figures calibration;
    kiln_status st = kiln_target_parse(job->spec.target, &job->arena, &job->target);
    if (!st) st = kiln_figures_decode(job->spec.figures, &calibration);
    if (!st) kiln_target_calibrate(&job->target, &calibration);
    if (st) {
        kiln_shell_part_done(job, st);
        return;
    }
    const kiln_shell_io io = {.job = job, .run = begin, .done = on_begun};
    kiln_shell_io_submit(&io, "PREPARE, begun");
}
