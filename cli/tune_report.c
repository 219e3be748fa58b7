#include "cli/tune.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/bench.h"
#include "deploy/pack/pack.h"

#define MODULE_ALIGNMENT 4096u

/* ---- tasks ----------------------------------------------------------------------------------- */

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
        s->peak = KILN_MAX(s->peak, kiln_record_peak(r));
    }
}

static void print_task(const kiln_tune *t, const task_summary *task) {
    kiln_strbuf line = {0};
    kiln_strbuf_printf(&line, "  %-40s %4u trial%s", kiln_task_label(task->task, t->process),
                       task->trials, task->trials == 1 ? " " : "s");
    if (task->best) {
        kiln_strbuf_text(&line, "  best ");
        kiln_print_time(task->best_ns, &line);
        if (task->share > 0)
            kiln_strbuf_printf(&line, " (%.1f GFLOP/s, %.0f %% of peak)",
                               task->task->flops / task->best_ns, 100 * task->share);
        if (task->default_ns > 0)
            kiln_strbuf_printf(&line, ", %.2fx of the default", task->default_ns / task->best_ns);
    } else {
        kiln_strbuf_printf(&line, "  nothing %s; the default schedule is used",
                           task->trials ? "measured ran right" : "was measured");
    }
    if (task->rest) kiln_strbuf_printf(&line, "; %s", kiln_rest_name(task->rest));
    if (task->error.size) kiln_strbuf_printf(&line, "; %.*s", KILN_STR_ARG(task->error));
    puts(line.data);
    kiln_strbuf_deinit(&line);
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
    return json_pack("{s:o, s:o, s:s, s:i, s:f, s:f, s:f, s:f, s:s, s:s, s:o}", "key",
                     kiln_json_str(of->key), "op", kiln_json_str(of->op), "label",
                     kiln_task_label(of, t->process), "trials", (int)task->trials, "best_ms",
                     task->best_ns / 1e6, "default_ms", task->default_ns / 1e6, "gflops",
                     task->best ? of->flops / task->best_ns : 0.0, "share_of_peak", task->share,
                     "trace", task->best ? trace_text(task->best, t->process) : "", "note",
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
        if (best->peak_flops > 0)
            row.share = task->flops / row.best_ns * 1e9 / kiln_record_peak(best);
    }
    *out = row;
    return KILN_OK;
}

static kiln_status add_task(kiln_tune *t, kiln_db *db, const kiln_task *task, summary *s) {
    task_summary row;
    kiln_status st = read_task(t, db, task, s, &row);
    if (st) return st;
    json_array_append_new(s->tasks, task_to_json(t, &row));
    if (!t->options->json) print_task(t, &row);
    return KILN_OK;
}

static void print_totals(const kiln_tune *t, const summary *s) {
    double wall_s = (double)(t->end_ns - t->start_ns) / 1e9;
    if (t->options->json) {
        kiln_json_line(json_pack("{s:s, s:s, s:O, s:i, s:i, s:i, s:f, s:f, s:f}", "event", "done",
                                 "job", t->job, "tasks", s->tasks, "measured", (int)s->measured,
                                 "verified", (int)s->verified, "raced", (int)s->raced,
                                 "peak_gflops", s->peak / 1e9, "trials_per_s", s->verified / wall_s,
                                 "wall_s", wall_s));
        return;
    }
    printf("%u new trials, %u verified", s->measured, s->verified);
    if (s->raced) printf(", %u stopped early", s->raced);
    kiln_strbuf place = {0};
    kiln_db_print_path(t->db_path, &place);
    printf(", %.1f per second, %.1f s; records in %s\n", s->verified / wall_s, wall_s, place.data);
    kiln_strbuf_deinit(&place);
}

kiln_status kiln_tune_summarise(kiln_tune *t) {
    kiln_db *db = NULL;
    summary s = {.tasks = json_array()};
    kiln_status st = kiln_db_open(t->db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    for (uint32_t i = 0; !st && i < t->compilation->searched.count; i++)
        st = add_task(t, db, &t->compilation->searched.task[i], &s);
    kiln_db_close(db);
    if (!st) print_totals(t, &s);
    json_decref(s.tasks);
    return st;
}

/* ---- the module ------------------------------------------------------------------------------ */

/* What the packing process gives: the size of the tuned module, that module, and the one of default
 * schedules, which is empty where nothing runs it here. */
typedef struct packed {
    kiln_mapping bytes;
    kiln_str tuned, base;
} packed;

static kiln_status pack_bytes(const kiln_tune *t, kiln_compilation *compilation,
                              const kiln_pack_stored *stored, kiln_arena *arena, kiln_str *out) {
    const kiln_pack_options options = {.stored = stored,
                                       .model_name =
                                           kiln_str_from(kiln_file_name(t->options->model)),
                                       .accuracy = t->accuracy,
                                       .step = kiln_model_step,
                                       .step_context = (void *)(uintptr_t)&t->packer};
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_pack(compilation, &options, arena, &bytes, NULL);
    *out = kiln_strbuf_end(&bytes, arena);
    return st;
}

/* In a process without rights. */
static kiln_status pack_both(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                             kiln_cage_result *out_result) {
    const kiln_tune *t = call->work->context;
    const kiln_pack_stored stored = kiln_model_stored(call);
    kiln_compilation *compilation = NULL;
    kiln_str *part = KILN_ARENA_ARRAY(arena, kiln_str, 3);
    kiln_status st = kiln_compilation_of_model(graph, &t->target, arena, &compilation);
    if (!st) st = pack_bytes(t, compilation, &stored, arena, &part[1]);
    if (!st && t->runs_here) st = pack_bytes(t, compilation, NULL, arena, &part[2]);
    if (st) return st;
    part[0] =
        (kiln_str){kiln_arena_copy(arena, &part[1].size, sizeof part[1].size), sizeof part[1].size};
    *out_result = (kiln_cage_result){3, part};
    return KILN_OK;
}

kiln_status kiln_tune_start_packer(kiln_tune *t) {
    kiln_target native;
    kiln_strbuf reason = {0};
    kiln_status st = kiln_target_native(t->process, &native);
    if (st) return st;
    t->runs_here = kiln_target_runs_on(&t->target, &native, &reason);
    kiln_strbuf_deinit(&reason);
    t->packing = (kiln_model_work){
        .model = &t->model, .doing = "compiling", .run = pack_both, .context = t, .has_db = true};
    return kiln_model_start(&t->packing, t->process, &t->packer);
}

static kiln_status pack(kiln_tune *t, kiln_db *db, packed *out) {
    size_t size = 0;
    t->packing.judged = t->stopped;
    kiln_status st = kiln_model_finish(&t->packer, db, &out->bytes);
    if (st) return st;
    const kiln_str all = {out->bytes.data, out->bytes.size};
    if (all.size >= sizeof size) memcpy(&size, all.data, sizeof size);
    if (all.size < sizeof size || size > all.size - sizeof size)
        return KILN_ERROR(DATA_LOSS, "the module's bytes are cut off");
    out->tuned = kiln_str_slice(all, sizeof size, sizeof size + size);
    out->base = kiln_str_slice(all, sizeof size + size, all.size);
    return KILN_OK;
}

static kiln_status open_bytes(kiln_tune *t, kiln_str bytes, kiln_module **out_module) {
    char error[KILN_MODULE_ERROR_BYTES] = "";
    void *aligned = kiln_arena_alloc_aligned(t->process, MODULE_ALIGNMENT, bytes.size);
    memcpy(aligned, bytes.data, bytes.size);
    int code = kiln_module_open_memory(aligned, bytes.size, NULL, out_module, error, sizeof error);
    return code ? KILN_ERROR(INTERNAL, "%s", error) : KILN_OK;
}

/* Runs both modules here, alternately. */
static kiln_status compare(kiln_tune *t, const packed *modules, kiln_bench_pair *out) {
    kiln_module *a = NULL, *b = NULL;
    kiln_status st = open_bytes(t, modules->base, &a);
    if (!st) st = open_bytes(t, modules->tuned, &b);
    if (!st) st = kiln_bench_compare(a, b, t->process, out);
    kiln_module_close(a);
    kiln_module_close(b);
    return st;
}

/* What the model takes where it does not run here: its kernels as they were measured, one after the
 * other. Those that were not measured count on neither side. */
static kiln_status sum_kernels(kiln_tune *t, kiln_db *db, kiln_bench_pair *out) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < t->compilation->searched.count; i++) {
        const kiln_task *task = &t->compilation->searched.task[i];
        summary ignored = {0};
        task_summary row;
        st = read_task(t, db, task, &ignored, &row);
        if (st || !row.best || row.default_ns == 0) continue;
        out->a.median += task->weight * row.default_ns;
        out->b.median += task->weight * row.best_ns;
    }
    if (out->b.median > 0) out->ratio = out->a.median / out->b.median;
    return st;
}

static void report_module(kiln_tune *t, const kiln_bench_pair *pair, bool ran, bool tuned) {
    if (t->options->json) {
        kiln_json_line(json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:b}", "event", "module",
                                 "file", t->options->out, "default_ms", pair->a.median / 1e6,
                                 "tuned_ms", pair->b.median / 1e6, "ratio", pair->ratio, "low",
                                 pair->low, "high", pair->high, "tuned", tuned));
        return;
    }
    if (!ran) {
        printf("whole model, the sum of its kernels: default %.4f ms, tuned %.4f ms (%.2fx)\n"
               "module in %s\n",
               pair->a.median / 1e6, pair->b.median / 1e6, pair->ratio, t->options->out);
        return;
    }
    bool equal = pair->low <= 1 && pair->high >= 1;
    printf("whole model, interleaved: default %.4f ms, tuned %.4f ms: %s (%.2fx, 95 %% interval "
           "%.2f to %.2f)\n",
           pair->a.median / 1e6, pair->b.median / 1e6,
           equal             ? "equal"
           : pair->ratio > 1 ? "faster"
                             : "slower",
           pair->ratio, pair->low, pair->high);
    printf("module in %s%s\n", t->options->out,
           tuned ? "" : ", with the default schedules, which are faster here");
}

static void add_option(const char *name, const char *value, kiln_strbuf *out) {
    if (value) kiln_strbuf_printf(out, " --%s %s", name, value);
}

/* It was writable when the search began. What was measured is stored, so that the search is not
 * lost. */
static kiln_status write_module(const kiln_tune *t, kiln_str bytes) {
    const kiln_tune_options *o = t->options;
    kiln_status st = kiln_file_write(o->out, bytes, KILN_MODULE_FILE_MODE);
    if (!st) return KILN_OK;
    kiln_strbuf command = {0};
    kiln_strbuf_printf(&command, "kiln compile %s", o->model);
    add_option("target", o->target_text, &command);
    if (o->threads) kiln_strbuf_printf(&command, " --threads %llu", (unsigned long long)o->threads);
    for (size_t i = 0; i < o->dim.count; i++) add_option("dim", o->dim.item[i], &command);
    add_option("precision", o->accuracy.precision, &command);
    add_option("accuracy", o->accuracy.error_max, &command);
    if (o->accuracy.exact) kiln_strbuf_text(&command, " --exact");
    if (o->loop_max)
        kiln_strbuf_printf(&command, " --loop-max %llu", (unsigned long long)o->loop_max);
    add_option("db", o->db, &command);
    st = kiln_status_note(st, "the records are kept, and this packs them once more: %s -o FILE",
                          command.data);
    kiln_strbuf_deinit(&command);
    return st;
}

/* Ships the tuned schedules, unless the whole model is slower with them; known only for this
 * machine's target. */
kiln_status kiln_tune_pack(kiln_tune *t) {
    kiln_db *db = NULL;
    packed modules = {0};
    kiln_bench_pair pair = {.ratio = 1, .low = 1, .high = 1};
    kiln_status st = kiln_db_open(t->db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) st = pack(t, db, &modules);
    if (!st) st = t->runs_here ? compare(t, &modules, &pair) : sum_kernels(t, db, &pair);
    bool ship_tuned = pair.high >= 1;
    if (!st) st = write_module(t, ship_tuned ? modules.tuned : modules.base);
    if (!st) report_module(t, &pair, t->runs_here, ship_tuned);
    kiln_file_unmap(&modules.bytes);
    kiln_db_close(db);
    return st;
}
