/* Transfer: what the database knows of a job before its first trial.
 *
 * - Records of the job's own tasks, the newest of each. They count towards the tasks' shares and
 * are never measured again.
 * - Hints for these tasks: records that neither we nor the job's project trust. The fastest are
 *   proposed first and the model learns from them, but they count only after they are measured
 * here.
 * - Records of these tasks on the most similar other target (target_similarity.h). The fastest are
 *   proposed first, and the model learns from them.
 * - Schedules written by hand, which the job brings. They are proposed before all others.
 * - Records of other tasks on the job's target: the model learns from those of the most similar
 *   tasks, by the features of their fastest trace. */
#include <math.h>

#include "base/log.h"
#include "base/map.h"
#include "tuner/shell.h"
#include "tuner/target_similarity.h"

#define OWN_RECORDS_MAX 16384u  /* newest of a task; each is replayed before the first proposal */
#define OTHER_RECORDS_MAX 6000u /* newest, looked through */
#define OTHER_TASKS 6u          /* the most similar are learnt from */
#define ADOPTED_MAX 6u          /* of a task, from another target or from hints */

/* ---- on the loop: reading ---- */

/* Whether a job of the same model made the record. */
static kiln_status is_repeat(kiln_shell_job *job, kiln_str job_id, kiln_map *known, bool *out) {
    uint64_t answer = 0;
    kiln_status st = KILN_OK;
    if (!kiln_map_find(known, job_id, &answer)) {
        char digest[KILN_DIGEST_TEXT];
        kiln_db_job row = {0};
        bool found; /* it is, as its record names it */
        kiln_digest_print(&job->spec.model, digest);
        st = kiln_db_find_job(job->shell->db, job_id, &job->arena, &row, &found);
        answer = kiln_str_is(row.model_digest, digest);
        kiln_map_put(known, job_id, answer);
    }
    *out = answer != 0;
    return st;
}

/* Board and infrastructure faults teach nothing. */
static bool is_sample(const kiln_db_record *record) {
    kiln_outcome outcome = KILN_OUTCOME_INFRA;
    (void)kiln_outcome_find(record->outcome, &outcome); /* databases have no others */
    return kiln_outcome_trains(outcome);
}

/* What is learnt of the record outlives it. */
static kiln_transfer_record transfer_of(kiln_shell_job *job, uint32_t task,
                                        const kiln_db_record *record) {
    return (kiln_transfer_record){.task = task,
                                  .key = kiln_str_copy(&job->arena, record->task_key),
                                  .trace = kiln_str_copy(&job->arena, record->trace),
                                  .hash = kiln_str_copy(&job->arena, record->trace_hash),
                                  .assembled = kiln_record_assembled(record),
                                  .latency_ns =
                                      kiln_str_is(record->outcome, "ok") ? record->min_ns : 0};
}

static kiln_db_filter filter_of(const kiln_shell_job *job) {
    return (kiln_db_filter){.target = job->spec.target,
                            .trusting = &job->trusting,
                            .allowed = job->allowed,
                            .codegen_version = kiln_str_from(kiln_codegen_version())};
}

/* Only records from before the job began: a restart must find the same. */
static kiln_db_filter filter_of_others(const kiln_shell_job *job) {
    kiln_db_filter filter = filter_of(job);
    filter.before_wall_ns = (int64_t)job->opened_wall_ns;
    return filter;
}

static bool may_be_best(const kiln_db_record *record) {
    return kiln_str_is(record->outcome, "ok") && record->checked && !record->raced;
}

/* Records of other jobs for one of this job's tasks, made by this compiler. */
static kiln_status find_own(kiln_shell_job *job, uint32_t index, kiln_map *known) {
    kiln_shell_task *task = &job->task[index];
    kiln_db_filter filter = filter_of(job);
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_arena scratch = {0};
    filter.task_key = task->key;
    filter.order = KILN_DB_NEWEST;
    filter.limit = OWN_RECORDS_MAX;
    kiln_status st = kiln_db_records(job->shell->db, &filter, &scratch, &record, &count);
    for (uint32_t i = count; i-- > 0;) { /* as they were stored */
        bool repeat = false;
        if (kiln_str_is(record[i].job_id, job->identity)) continue; /* comes back as `stored` */
        if (record[i].final) continue;                              /* no trial of its own */
        if (may_be_best(&record[i])) {
            task->known.peak_flops = KILN_MAX(task->known.peak_flops, record[i].peak_flops);
            task->known.best_ns = task->known.best_ns > 0
                                      ? KILN_MIN(task->known.best_ns, record[i].median_ns)
                                      : record[i].median_ns;
            if (kiln_str_is(record[i].searcher, "default"))
                task->known.default_ns = record[i].median_ns;
        }
        if (!st) st = is_repeat(job, record[i].job_id, known, &repeat);
        if (repeat)
            task->known.repeat_count++;
        else
            task->known.stored_count++;
        if (!is_sample(&record[i])) continue;
        kiln_transfer_record transferred = transfer_of(job, index, &record[i]);
        kiln_vec_push_in(&job->arena, &job->transfer.records, transferred);
    }
    kiln_arena_deinit(&scratch);
    return st;
}

/* ---- the same tasks on another target ---- */

/* The target most similar to the job's among those with records of the task. Where there is none,
 * nothing is written. */
static kiln_status find_similar_target(kiln_shell_job *job, kiln_str key, kiln_str *out_text,
                                       const kiln_target **out_similar) {
    kiln_db_filter filter = filter_of_others(job);
    kiln_db_record *best = NULL;
    uint32_t count = 0, most = 0;
    filter.task_key = key;
    filter.target = (kiln_str){0};
    kiln_status st = kiln_db_best(job->shell->db, &filter, &job->arena, &best, &count);
    for (uint32_t i = 0; i < count; i++) {
        kiln_target *target = KILN_ARENA_NEW(&job->arena, kiln_target);
        kiln_status unknown = kiln_target_parse(best[i].target, &job->arena, target);
        uint32_t similarity = unknown ? 0 : kiln_target_similarity(target, &job->target);
        kiln_status_free(unknown); /* of a version that knew other targets */
        if (similarity <= most || kiln_str_equal(best[i].target, job->spec.target)) continue;
        most = similarity;
        *out_similar = target;
        *out_text = best[i].target;
    }
    return st;
}

/* At most `limit` of the task's records on `similar`, as transfer. */
static kiln_status find_similar(kiln_shell_job *job, uint32_t task, kiln_db_filter filter,
                                const kiln_target *similar) {
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_str key = job->task[task].key;
    kiln_arena scratch = {0};
    char *group = kiln_arena_printf(&job->arena, "%.*s %.*s%s", KILN_STR_ARG(key),
                                    KILN_STR_ARG(filter.target),
                                    filter.whose == KILN_DB_HINTS ? " hints" : "");
    kiln_status st = kiln_db_records(job->shell->db, &filter, &scratch, &record, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_sample(&record[i])) continue;
        kiln_transfer_record transferred = transfer_of(job, task, &record[i]);
        transferred.key = kiln_str_from(group);
        transferred.target = similar;
        transferred.adopted = filter.order == KILN_DB_FASTEST;
        kiln_vec_push_in(&job->arena, &job->transfer.records, transferred);
    }
    kiln_arena_deinit(&scratch);
    return st;
}

/* The fastest records are proposed early; the model learns from the newest, too. */
static kiln_status find_fastest_and_newest(kiln_shell_job *job, uint32_t task,
                                           kiln_db_filter filter, const kiln_target *similar) {
    filter.task_key = job->task[task].key;
    filter.order = KILN_DB_FASTEST;
    filter.limit = ADOPTED_MAX;
    kiln_status st = find_similar(job, task, filter, similar);
    if (!job->model) return st;
    filter.order = KILN_DB_NEWEST;
    filter.limit = KILN_TRANSFER_RECORDS_PER_TASK;
    return st ? st : find_similar(job, task, filter, similar);
}

/* Hints of the job's own target are tried and learnt from as if they came from another one. */
static kiln_status find_hints(kiln_shell_job *job, uint32_t task) {
    kiln_db_filter filter = filter_of_others(job);
    filter.whose = KILN_DB_HINTS;
    return find_fastest_and_newest(job, task, filter, &job->target);
}

static kiln_status find_on_similar_target(kiln_shell_job *job, uint32_t task) {
    kiln_db_filter filter = filter_of_others(job);
    const kiln_target *similar = NULL;
    kiln_status st = find_similar_target(job, job->task[task].key, &filter.target, &similar);
    return similar ? find_fastest_and_newest(job, task, filter, similar) : st;
}

/* ---- other tasks ---- */

static bool is_own(const kiln_shell_job *job, kiln_str key) {
    for (uint32_t i = 0; i < job->task_count; i++)
        if (kiln_str_equal(job->task[i].key, key)) return true;
    return false;
}

/* Records of other tasks. */
static kiln_status find_others(kiln_shell_job *job) {
    kiln_db_filter filter = filter_of_others(job);
    kiln_db_record *record = NULL;
    kiln_map text_of = {0}; /* task key -> kiln_str * of its program */
    uint32_t count = 0;
    kiln_arena scratch = {0};
    filter.order = KILN_DB_NEWEST;
    filter.limit = OTHER_RECORDS_MAX;
    kiln_status st = kiln_db_records(job->shell->db, &filter, &scratch, &record, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t text = 0;
        if (is_own(job, record[i].task_key) || !is_sample(&record[i])) continue;
        if (!kiln_map_find(&text_of, record[i].task_key, &text)) {
            kiln_db_task *row = KILN_ARENA_NEW(&job->arena, kiln_db_task);
            bool found; /* it is, as its record names it */
            if (!st)
                st =
                    kiln_db_find_task(job->shell->db, record[i].task_key, &job->arena, row, &found);
            text = (uint64_t)(uintptr_t)row;
            kiln_map_put(&text_of, record[i].task_key, text);
        }
        kiln_transfer_record transferred = transfer_of(job, job->task_count, &record[i]);
        transferred.text = ((const kiln_db_task *)(uintptr_t)text)->canonical;
        if (transferred.text.size)
            kiln_vec_push_in(&job->arena, &job->transfer.records, transferred);
    }
    kiln_map_deinit(&text_of);
    kiln_arena_deinit(&scratch);
    return st;
}

/* ---- schedules written by hand ---- */

/* Whether a record of another job measured it, so that it needs no trial. */
static bool is_stored(const kiln_shell_job *job, uint32_t task, kiln_str trace) {
    char hash[KILN_HASH128_TEXT];
    kiln_hash128_print(kiln_hash128_of(trace.data, trace.size), hash);
    for (uint32_t i = 0; i < job->transfer.records.count; i++) {
        const kiln_transfer_record *transferred = &job->transfer.records.data[i];
        if (transferred->task == task && !transferred->target &&
            kiln_str_is(transferred->hash, hash))
            return true;
    }
    return false;
}

static kiln_status find_by_hand(kiln_shell_job *job) {
    kiln_str bytes = {0};
    if (kiln_digest_is_none(&job->spec.by_hand)) return KILN_OK;
    kiln_status st =
        kiln_blob_store_get(job->shell->store, &job->spec.by_hand, &job->arena, &bytes);
    if (!st)
        st = kiln_record_decode(KILN_RECORD_hand_schedules, bytes, &job->arena,
                                &job->transfer.by_hand);
    if (st) return kiln_status_note(st, "schedules that the job brings");
    for (uint32_t i = 0; i < job->task_count; i++)
        for (uint32_t k = 0; k < job->transfer.by_hand.items.count; k++) {
            const kiln_msg_hand_schedule *given = &job->transfer.by_hand.items.item[k];
            if (kiln_str_equal(given->task, job->task[i].key) && !is_stored(job, i, given->trace))
                job->task[i].known.by_hand_count++;
        }
    return KILN_OK;
}

static void begin_with(kiln_shell_job *job, kiln_shell_task *task) {
    for (uint32_t k = 0; k < job->transfer.by_hand.items.count; k++) {
        const kiln_msg_hand_schedule *given = &job->transfer.by_hand.items.item[k];
        if (!kiln_str_equal(given->task, task->key)) continue;
        kiln_status st = kiln_searcher_begin_with(task->searcher, given->trace);
        if (st)
            kiln_log(KILN_LOG_WARN, "job %s: the schedule that is given for %.*s is left out: %s",
                     job->identity, KILN_STR_ARG(task->op), kiln_status_text(st));
        kiln_status_free(st); /* its client has checked it: of another version of Kiln */
    }
}

kiln_status kiln_shell_find_transfer(kiln_shell_job *job) {
    kiln_map known = {0}; /* job -> whether it tuned this model */
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < job->task_count; i++) {
        if (!st) st = find_own(job, i, &known);
        if (!st) st = find_hints(job, i);
        if (!st) st = find_on_similar_target(job, i);
    }
    if (!st && job->model) st = find_others(job);
    if (!st) st = find_by_hand(job);
    kiln_map_deinit(&known);
    return st;
}

/* ---- on the pool thread: teaching ---- */

typedef struct other_task {
    kiln_str key, text;
    double distance; /* to the most similar task of the job */
    kiln_program *te;
    uint32_t taught;
} other_task;

/* A recorded trace as the job's model sees it, in `scratch`. */
static kiln_status encode(const kiln_shell_job *job, const kiln_target *target,
                          const kiln_program *te, kiln_str bytes, kiln_arena *scratch,
                          kiln_encoding *out) {
    kiln_trace trace;
    kiln_program *program = NULL;
    kiln_status st = kiln_trace_decode(bytes, scratch, &trace);
    if (!st) st = kiln_trace_replay(&trace, te, NULL, scratch, &program, NULL);
    return st ? st
              : kiln_model_encode(kiln_cost_model_kind(job->model), program, target, scratch,
                                  scratch, out);
}

static double nearest(const kiln_shell_job *job, const kiln_encoding *candidate) {
    double least = INFINITY;
    for (uint32_t i = 0; i < job->task_count; i++) {
        if (!job->task[i].searcher) continue;
        const kiln_encoding *own = kiln_searcher_default_encoding(job->task[i].searcher);
        least = fmin(least, kiln_model_distance(kiln_cost_model_kind(job->model), candidate, own));
    }
    return least;
}

static other_task *find_other(other_task *other, uint32_t count, kiln_str key) {
    for (uint32_t i = 0; i < count; i++)
        if (kiln_str_equal(other[i].key, key)) return &other[i];
    return NULL;
}

/* The other tasks, each with the similarity of its newest record. */
static uint32_t list_others(const kiln_shell_job *job, kiln_arena *arena, other_task *other) {
    uint32_t count = 0;
    kiln_arena scratch = {0};
    for (uint32_t i = 0; i < job->transfer.records.count; i++) {
        const kiln_transfer_record *transferred = &job->transfer.records.data[i];
        kiln_encoding candidate;
        if (transferred->task < job->task_count || find_other(other, count, transferred->key))
            continue;
        other_task added = {
            .key = transferred->key, .text = transferred->text, .distance = INFINITY};
        kiln_status st = kiln_program_parse(transferred->text, arena, &added.te);
        if (!st) st = encode(job, &job->target, added.te, transferred->trace, &scratch, &candidate);
        if (!st) added.distance = nearest(job, &candidate);
        kiln_status_free(st); /* of another version of the program text: nothing is learnt */
        other[count++] = added;
        kiln_arena_reset(&scratch);
    }
    kiln_arena_deinit(&scratch);
    return count;
}

/* How many tasks are more like the job's. */
static uint32_t rank_of(const other_task *other, uint32_t count, const other_task *task) {
    uint32_t rank = 0;
    for (const other_task *o = other; o < other + count; o++)
        rank += o->distance < task->distance || (o->distance == task->distance && o < task);
    return rank;
}

static void teach_others(kiln_shell_job *job) {
    kiln_arena arena = {0}, scratch = {0};
    other_task *other = KILN_ARENA_ARRAY(&arena, other_task, job->transfer.records.count);
    uint32_t count = list_others(job, &arena, other);
    for (uint32_t i = 0; i < job->transfer.records.count; i++) {
        const kiln_transfer_record *transferred = &job->transfer.records.data[i];
        kiln_encoding candidate;
        other_task *task =
            transferred->task < job->task_count ? NULL : find_other(other, count, transferred->key);
        if (!task || isinf(task->distance) || task->taught == KILN_TRANSFER_RECORDS_PER_TASK ||
            rank_of(other, count, task) >= OTHER_TASKS)
            continue;
        kiln_status st =
            encode(job, &job->target, task->te, transferred->trace, &scratch, &candidate);
        if (!st)
            kiln_cost_model_learn(job->model, task->key, &candidate, &transferred->assembled,
                                  transferred->latency_ns);
        task->taught += !st;
        kiln_status_free(st);
        kiln_arena_reset(&scratch);
    }
    kiln_arena_deinit(&scratch);
    kiln_arena_deinit(&arena);
}

/* Encoded for the core on which it was measured: what is learnt is how far that was
 * from the core's own analytic estimate. */
static void teach_similar(kiln_shell_job *job, const kiln_transfer_record *transferred) {
    kiln_encoding candidate;
    kiln_arena scratch = {0};
    const kiln_program *te = job->task[transferred->task].te;
    kiln_status st = encode(job, transferred->target, te, transferred->trace, &scratch, &candidate);
    if (!st)
        kiln_cost_model_learn(job->model, transferred->key, &candidate, &transferred->assembled,
                              transferred->latency_ns);
    kiln_status_free(st); /* of another version of the primitives: nothing is learnt */
    kiln_arena_deinit(&scratch);
}

void kiln_shell_teach(kiln_shell_job *job) {
    if (job->model) teach_others(job);
    for (uint32_t i = 0; i < job->transfer.records.count; i++) {
        const kiln_transfer_record *transferred = &job->transfer.records.data[i];
        kiln_searcher *searcher =
            transferred->task < job->task_count ? job->task[transferred->task].searcher : NULL;
        if (!searcher) continue;
        if (!transferred->target)
            kiln_searcher_know(searcher, transferred->trace, transferred->hash,
                               &transferred->assembled, transferred->latency_ns);
        else if (transferred->adopted)
            kiln_searcher_adopt(searcher, transferred->trace);
        else
            teach_similar(job, transferred);
    }
    for (uint32_t i = 0; i < job->task_count; i++)
        if (job->task[i].searcher) begin_with(job, &job->task[i]);
}
