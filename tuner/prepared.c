/* The end of PREPARE: when all parts are there, looks up the job's own records and posts PREPARED.
 */
#include "tuner/shell.h"

/* Results of this job that an earlier run of this tuner committed. */
static kiln_status find_own_results(kiln_shell_job *job) {
    kiln_db_filter filter = {.job_id = kiln_str_from(job->identity), .whose = KILN_DB_HERE};
    kiln_db_record *record = NULL;
    uint32_t count = 0, used = 0;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_db_records(job->shell->db, &filter, &scratch, &record, &count);
    kiln_tuner_result *result = KILN_ARENA_ARRAY(&job->arena, kiln_tuner_result, count);
    int64_t last_wall_ns = (int64_t)job->opened_wall_ns;
    for (uint32_t i = 0; !st && i < count; i++) {
        last_wall_ns = KILN_MAX(last_wall_ns, record[i].stored_wall_ns);
        for (uint32_t t = 0; t < job->task_count; t++) {
            if (record[i].final || !kiln_str_equal(job->task[t].key, record[i].task_key)) continue;
            kiln_outcome outcome = KILN_OUTCOME_INFRA;
            if (!kiln_outcome_find(record[i].outcome, &outcome)) continue;
            result[used++] = (kiln_tuner_result){.task = t,
                                                 .index = (uint32_t)record[i].trial_index,
                                                 .outcome = outcome,
                                                 .median_ns = record[i].median_ns,
                                                 .least_ns = record[i].min_ns,
                                                 .raced = record[i].raced != 0,
                                                 .peak_flops = record[i].peak_flops,
                                                 .assembled = kiln_record_assembled(&record[i])};
        }
    }
    kiln_arena_deinit(&scratch);
    job->parts.stored = result;
    job->parts.stored_count = used;
    job->parts.spent_ns = (uint64_t)last_wall_ns - job->opened_wall_ns;
    return st;
}

kiln_tuner_task *kiln_shell_list_tasks(kiln_shell_job *job) {
    kiln_tuner_task *list = KILN_ARENA_ARRAY(&job->arena, kiln_tuner_task, job->task_count);
    for (uint32_t i = 0; i < job->task_count; i++) {
        const kiln_shell_task *task = &job->task[i];
        list[i] = (kiln_tuner_task){.key = task->key,
                                    .op = task->op,
                                    .weight = task->weight,
                                    .stored_count = task->known.stored_count,
                                    .repeat_count = task->known.repeat_count,
                                    .by_hand_count = task->known.by_hand_count,
                                    .flops = task->flops,
                                    .least_flops = task->least_flops,
                                    .best_ns = task->known.best_ns,
                                    .default_ns = task->known.default_ns,
                                    .peak_flops = task->known.peak_flops,
                                    .input_seed = job->spec.seed,
                                    .error = task->error};
    }
    return list;
}

static void look_for_results(kiln_shell_io *e) {
    if (!e->job->parts.failure) e->status = find_own_results(e->job);
}

static void post_prepared(kiln_shell_io *e) {
    kiln_shell_job *job = e->job;
    if (!job->parts.failure) job->parts.failure = kiln_shell_take_status(e);
    kiln_tuner_event event = {.kind = KILN_TUNER_PREPARED,
                              .job = job->handle,
                              .stored = job->parts.stored,
                              .stored_count = job->parts.stored_count,
                              .spent_ns = job->parts.spent_ns};
    event.task_list = kiln_shell_list_tasks(job); /* in the job's arena: it outlives the event */
    event.task_count = job->task_count;
    event.alternative = job->alternative;
    event.alternative_count = job->alternative_count;
    event.code = kiln_status_code(job->parts.failure);
    if (job->parts.failure) event.failure = kiln_status_text(job->parts.failure);
    kiln_shell_post(job->shell, &event);
}

void kiln_shell_part_add(kiln_shell_job *job) { job->parts.waiting++; }

void kiln_shell_part_done(kiln_shell_job *job, kiln_status st) {
    if (st && job->parts.failure)
        kiln_status_free(st);
    else if (st)
        job->parts.failure = st;
    if (--job->parts.waiting > 0) return;
    const kiln_shell_io io = {.job = job, .run = look_for_results, .done = post_prepared};
    kiln_shell_io_submit(&io, "PREPARED");
}
