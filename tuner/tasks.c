/* Tasks of a job: what PREPARED says of each, and how results are counted. */
#include "base/check.h"
#include "base/macros.h"
#include "tuner/state.h"

/* ---- From PREPARED ---- */

uint64_t kiln_tuner_budget(const kiln_msg_job_spec *spec, const kiln_tuner_task *task,
                           uint32_t count, bool *out_closed) {
    uint64_t trials = spec->trials, stored = 0, by_hand = 0;
    if (!trials && spec->seconds <= 0) trials = (uint64_t)KILN_TUNER_TRIALS_DEFAULT * count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t share = trials / count + (i < trials % count);
        out_closed[i] = trials > 0 && task[i].stored_count >= share && !task[i].by_hand_count;
        stored += KILN_MIN(task[i].stored_count, share) + task[i].repeat_count;
        by_hand += task[i].by_hand_count;
    }
    if (!trials) return UINT64_MAX;
    return by_hand + (trials > stored ? trials - stored : 0);
}

static void keep_stored(kiln_tuner_job_task *tasks, const kiln_tuner_event *event,
                        kiln_arena *arena) {
    const size_t bytes = event->stored_count * sizeof *event->stored;
    const kiln_tuner_result *result = kiln_arena_copy(arena, event->stored, bytes);
    for (uint32_t i = 0; i < event->stored_count; i++)
        if (result[i].task < event->task_count && result[i].index < KILN_TUNER_INDEX_MAX)
            tasks[result[i].task].stored_end =
                KILN_MAX(tasks[result[i].task].stored_end, result[i].index + 1);
    for (uint32_t i = 0; i < event->task_count; i++)
        tasks[i].stored = KILN_ARENA_ARRAY(arena, const kiln_tuner_result *, tasks[i].stored_end);
    for (uint32_t i = 0; i < event->stored_count; i++)
        if (result[i].task < event->task_count &&
            result[i].index < tasks[result[i].task].stored_end)
            tasks[result[i].task].stored[result[i].index] = &result[i];
}

/* Each task sees those on whose sides it is. */
static void keep_rivals(kiln_tuner_job_task *tasks, const kiln_tuner_event *event,
                        kiln_arena *arena) {
    const uint32_t count = event->alternative_count;
    kiln_tuner_substitute *substitutes = KILN_ARENA_ARRAY(arena, kiln_tuner_substitute, count);
    for (uint32_t r = 0; r < count; r++) {
        const kiln_tuner_alternative *from = &event->alternative[r];
        KILN_CHECK(from->task < event->task_count);
        kiln_tuner_stats *joined = &tasks[from->task].stats;
        substitutes[r] =
            (kiln_tuner_substitute){.joined = joined, .count = from->count, .times = from->times};
        joined->weight = 0; /* its calls count with those that it replaces */
        for (uint32_t i = 0; i < from->count; i++) {
            KILN_CHECK(from->instead_of[i] < event->task_count);
            substitutes[r].apart[i] = &tasks[from->instead_of[i]].stats;
        }
    }
    for (uint32_t t = 0; count && t < event->task_count; t++) {
        kiln_tuner_stats *stats = &tasks[t].stats;
        const kiln_tuner_substitute **of =
            KILN_ARENA_ARRAY(arena, const kiln_tuner_substitute *, count);
        for (uint32_t r = 0; r < count; r++) {
            bool on_side = substitutes[r].joined == stats;
            for (uint32_t i = 0; i < substitutes[r].count; i++)
                on_side = on_side || substitutes[r].apart[i] == stats;
            if (on_side) of[stats->substitute_count++] = &substitutes[r];
        }
        stats->substitutes = of;
    }
}

static void init(kiln_tuner_job_task *task, const kiln_tuner_task *given, kiln_arena *arena) {
    task->given = *given;
    task->given.key = kiln_str_from(kiln_str_dup(arena, given->key));
    task->given.op = kiln_str_from(kiln_str_dup(arena, given->op));
    task->given.error = (kiln_str){0};
    task->stats = (kiln_tuner_stats){.op = task->given.op,
                                     .weight = KILN_MAX(given->weight, 1u),
                                     .flops = given->flops,
                                     .least_flops = given->least_flops,
                                     .best_ns = given->best_ns,
                                     .tried = given->stored_count + given->repeat_count};
    kiln_tuner_stats_limit(&task->stats, given->peak_flops);
    kiln_tuner_race_take(&task->race, given->best_ns);
    task->changed = true;
}

kiln_tuner_job_task *kiln_tuner_tasks_create(const kiln_tuner_event *event,
                                             const kiln_msg_job_spec *spec, kiln_arena *job,
                                             uint64_t *out_budget) {
    const uint32_t count = event->task_count;
    kiln_tuner_job_task *tasks = KILN_ARENA_ARRAY(job, kiln_tuner_job_task, count);
    bool *closed = KILN_ARENA_ARRAY(job, bool, count);
    *out_budget = kiln_tuner_budget(spec, event->task_list, count, closed);
    for (uint32_t i = 0; i < count; i++) {
        init(&tasks[i], &event->task_list[i], job);
        tasks[i].closed = closed[i];
        if (closed[i]) tasks[i].rest = KILN_REST_STORED;
    }
    keep_rivals(tasks, event, job);
    keep_stored(tasks, event, job);
    return tasks;
}

/* ---- Results ---- */

const kiln_tuner_result *kiln_tuner_task_take_stored(kiln_tuner_job_task *task, uint32_t index) {
    if (index >= task->stored_end) return NULL;
    const kiln_tuner_result *stored = task->stored[index];
    task->stored[index] = NULL;
    return stored;
}

bool kiln_tuner_task_count(kiln_tuner_job_task *task, const kiln_tuner_result *result,
                           bool is_default) {
    const bool ok = result->outcome == KILN_OUTCOME_OK;
    task->done++;
    task->failed += !ok;
    task->raced += result->raced;
    task->changed = true;
    if (!ok || result->raced || result->median_ns <= 0) return false;
    kiln_tuner_race_take(&task->race, result->median_ns);
    if (is_default) task->given.default_ns = result->median_ns;
    return true;
}

void kiln_tuner_task_judged(kiln_tuner_job_task *task, double default_ns, double judged_ns) {
    task->given.default_ns = default_ns;
    kiln_tuner_race_judge(&task->race, judged_ns);
}

void kiln_tuner_task_set_rest(kiln_tuner_job_task *task, kiln_rest rest) {
    task->changed = task->changed || task->rest != rest;
    task->rest = rest;
}

void kiln_tuner_task_set_home(kiln_tuner_job_task *task, const char *node) { task->home = node; }

void kiln_tuner_task_set_changed(kiln_tuner_job_task *task) { task->changed = true; }

bool kiln_tuner_task_take_changed(kiln_tuner_job_task *task) {
    const bool changed = task->changed;
    task->changed = false;
    return changed;
}

static uint32_t count_trials(const kiln_tuner_job *job, uint32_t task) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->trial.count; i++)
        count += job->trial.data[i]->task == task && job->trial.data[i]->index != KILN_TUNER_FINAL;
    return count;
}

void kiln_tuner_tasks_check(const kiln_tuner_job *job) {
    for (uint32_t i = 0; i < job->task_count; i++) {
        const kiln_tuner_job_task *task = &job->task[i];
        KILN_CHECK(task->missing <= task->next_observe);
        KILN_CHECK(task->failed <= task->done && task->raced <= task->done);
        KILN_CHECK((task->reference.state <= KILN_TUNER_BLOB_MAKING) ==
                   (task->program.state == KILN_TUNER_BLOB_NONE));
        KILN_CHECK(!task->error || task->closed);
        if (job->state == KILN_TUNER_JOB_RUNNING)
            KILN_CHECK(task->next_propose - task->next_observe == count_trials(job, i));
    }
}
