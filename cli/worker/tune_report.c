#include "cli/common/json.h"
#include "cli/common/records.h"
#include "cli/common/task_names.h"
#include "cli/worker/tune.h"

#include <string.h>

#include "cli/common/roofline.h"

typedef struct summary {
    uint32_t measured, verified, raced; /* by this job */
    double peak;
    json_t *tasks;
} summary;

/* One task's records. */
typedef struct task_summary {
    const kiln_task *task;
    uint32_t trials;
    const kiln_db_record *best; /* as the database chooses; NULL: none */
    double best_ns, default_ns, share;
    kiln_rest rest;
    kiln_str error; /* why nothing of it could be measured */
} task_summary;

static char *trace_text(const kiln_db_record *record, kiln_arena *process) {
    kiln_trace trace;
    kiln_strbuf text = {0};
    kiln_status st = kiln_trace_decode(record->trace, process, &trace);
    if (!st) kiln_trace_print(&trace, &text);
    kiln_status_free(st); /* a trace of another version has no text here */
    char *copy = kiln_str_dup(process, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static void count_records(const kiln_tune *t, const kiln_db_record *record, uint32_t count,
                          task_summary *task, summary *s) {
    for (uint32_t i = 0; i < count; i++) {
        const kiln_db_record *r = &record[i];
        bool ours = t->job[0] && kiln_str_is(r->job_id, t->job);
        bool ok = kiln_str_is(r->outcome, "ok") && r->checked;
        if (r->final) continue; /* no trial: it was measured before */
        task->trials++;
        s->measured += ours;
        s->raced += ours && r->raced;
        s->verified += ours && ok && !r->raced;
        s->peak = KILN_MAX(s->peak, kiln_roofline_peak_of(r, &t->target, task->task->te));
    }
}

/* What computes it: the default's is the direct form. */
static kiln_algorithm algorithm_of(const task_summary *task) {
    const kiln_algorithm found =
        task->best ? kiln_algorithm_find(task->best->algorithm) : KILN_ALGORITHM_DIRECT;
    return found < KILN_ALGORITHM_COUNT ? found : KILN_ALGORITHM_DIRECT;
}

static kiln_rest rest_of(const kiln_tune *t, kiln_str key) {
    for (uint32_t i = 0; t->done && i < t->end.tasks.count; i++)
        if (kiln_str_equal(t->end.tasks.item[i].key, key))
            return (kiln_rest)t->end.tasks.item[i].rest;
    return KILN_REST_NONE;
}

static kiln_str error_of(const kiln_tune *t, kiln_str key) {
    for (uint32_t i = 0; t->done && i < t->end.faults.count; i++)
        if (kiln_str_equal(t->end.faults.item[i].key, key)) return t->end.faults.item[i].text;
    return (kiln_str){0};
}

static json_t *task_to_json(const kiln_tune *t, const task_summary *task) {
    const kiln_task *of = task->task;
    const kiln_algorithm algorithm = algorithm_of(task);
    return json_pack(
        "{s:o, s:o, s:s, s:i, s:f, s:f, s:f, s:f, s:s, s:s, s:f, s:f, s:s, s:b, s:s, s:o}", "key",
        kiln_json_str(of->key), "op", kiln_json_str(of->op), "label",
        kiln_task_label(of, t->process), "trials", (int)task->trials, "best_ms",
        task->best_ns / 1e6, "default_ms", task->default_ns / 1e6, "gflops",
        task->best ? of->flops / task->best_ns : 0.0, "share_of_peak", task->share, "algorithm",
        kiln_algorithm_name(algorithm), "precision",
        kiln_precision_name(kiln_algorithm_precision(algorithm)), "stated_error",
        kiln_algorithm_relative_error(algorithm), "measured_error",
        task->best ? task->best->relative_error : 0.0, "trace",
        task->best ? trace_text(task->best, t->process) : "", "by_hand",
        (int)(task->best && kiln_str_is(task->best->searcher, "hand")), "note",
        kiln_rest_name(task->rest), "error", kiln_json_str(task->error));
}

static kiln_status read_task(kiln_tune *t, kiln_db *db, const kiln_task *task, summary *s,
                             task_summary *out) {
    task_summary row = {
        .task = task, .rest = rest_of(t, task->key), .error = error_of(t, task->key)};
    kiln_db_filter filter = {.task_key = task->key, .target = kiln_str_from(t->target_text)};
    kiln_db_record *record = NULL, *best = NULL;
    uint32_t count = 0, best_count = 0;
    kiln_status st = kiln_db_records(db, &filter, t->process, &record, &count);
    filter.allowed = kiln_allowed_by(&t->accuracy, t->process);
    if (!st) st = kiln_db_best(db, &filter, t->process, &best, &best_count);
    if (st) return st;
    row.best = best_count ? best : NULL;
    count_records(t, record, count, &row, s);
    const kiln_db_record *base = kiln_record_default(record, count, row.best);
    if (base) row.default_ns = base->median_ns;
    if (row.best) {
        row.best_ns = best->median_ns;
        const double peak = kiln_roofline_peak_of(best, &t->target, task->te);
        if (peak > 0) row.share = task->flops / row.best_ns * 1e9 / peak;
    }
    *out = row;
    return KILN_OK;
}

static kiln_status add_task(kiln_tune *t, kiln_db *db, const kiln_task *task, summary *s) {
    task_summary row;
    kiln_status st = read_task(t, db, task, s, &row);
    if (st) return st;
    json_array_append_new(s->tasks, task_to_json(t, &row));
    return KILN_OK;
}

static void say_totals(const kiln_tune *t, const summary *s) {
    const double wall_s = (double)(t->end_ns - t->start_ns) / 1e9;
    kiln_strbuf place = {0};
    kiln_db_print_path(t->db_path, &place);
    kiln_events_result(
        t->events, json_pack("{s:s, s:s, s:O, s:i, s:i, s:i, s:f, s:f, s:f, s:s}", "event",
                             t->bytes ? "size_done" : "done", "job", t->job, "tasks", s->tasks,
                             "measured", (int)s->measured, "verified", (int)s->verified, "raced",
                             (int)s->raced, "peak_gflops", s->peak / 1e9, "trials_per_s",
                             s->verified / wall_s, "wall_s", wall_s, "db", place.data));
    kiln_strbuf_deinit(&place);
}

kiln_status kiln_tune_summarise(kiln_tune *t) {
    kiln_db *db = NULL;
    summary s = {.tasks = json_array()};
    kiln_status st = kiln_db_open(t->db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    for (uint32_t i = 0; !st && i < t->compilation->searched.count; i++)
        st = add_task(t, db, &t->compilation->searched.task[i], &s);
    kiln_db_close(db);
    if (!st) say_totals(t, &s);
    json_decref(s.tasks);
    return st;
}

/* Tasks that were not measured count on neither side. */
kiln_status kiln_tune_sum_kernels(kiln_tune *t, kiln_db *db, double *out_default_ns,
                                  double *out_tuned_ns) {
    kiln_status st = KILN_OK;
    *out_default_ns = *out_tuned_ns = 0;
    for (uint32_t i = 0; !st && i < t->compilation->searched.count; i++) {
        const kiln_task *task = &t->compilation->searched.task[i];
        summary ignored = {0};
        task_summary row;
        st = read_task(t, db, task, &ignored, &row);
        if (st || !row.best || row.default_ns == 0) continue;
        *out_default_ns += task->weight * row.default_ns;
        *out_tuned_ns += task->weight * row.best_ns;
    }
    return st;
}
