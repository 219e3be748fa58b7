/* The tasks of a job, as its model's compilation has them, and their searchers. Used by prepare.c.
 */
#include <string.h>

#include "base/log.h"
#include "tuner/shell.h"

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

kiln_status kiln_shell_open_tasks(kiln_shell_job *job, kiln_str bytes) {
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

void kiln_shell_close_tasks(kiln_shell_job *job) {
    bool *closed = KILN_ARENA_ARRAY(&job->arena, bool, job->task_count);
    uint64_t budget =
        kiln_tuner_budget(&job->spec, kiln_shell_list_tasks(job), job->task_count, closed);
    for (uint32_t i = 0; i < job->task_count; i++) {
        if (budget > 0 && !closed[i]) continue;
        kiln_searcher_destroy(job->task[i].searcher);
        job->task[i].searcher = NULL;
    }
}
