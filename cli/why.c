#include "cli/why.h"

#include <math.h>
#include <string.h>

#include "base/outcome.h"
#include "base/stats.h"
#include "cli/common/json.h"
#include "cli/common/model_work.h"
#include "cli/common/records.h"
#include "cli/common/task_names.h"
#include "tuner/model/model.h"

#define RIVALS_MAX 5u
#define TERMS_MAX 3u
#define TERM_SHARE_MIN 0.1 /* terms of the analytic model below a tenth are not worth a word */

/* One stored schedule, replayed. */
typedef struct schedule {
    const kiln_db_record *record; /* NULL: the default, never measured */
    kiln_trace trace;
    kiln_program *program;
} schedule;

typedef struct why {
    const kiln_why_options *options;
    kiln_db *db;
    const kiln_task *task;
    kiln_str target;
    kiln_arena *arena;
    kiln_strbuf *out;
    kiln_db_record *record; /* all of the task, oldest first */
    uint32_t record_count;
    schedule winner, fallback, rival[RIVALS_MAX];
    uint32_t rival_count;
    kiln_roofline machine;
    kiln_attributions attributions;
    kiln_strbuf split; /* lines: why the default does not split its sums, or no more */
} why;

/* ---- reading --------------------------------------------------------------------------------- */

static kiln_status replay(const why *w, const kiln_db_record *record, schedule *out) {
    out->record = record;
    kiln_status st = kiln_trace_decode(record->trace, w->arena, &out->trace);
    if (!st) st = kiln_trace_replay(&out->trace, w->task->te, NULL, w->arena, &out->program, NULL);
    return kiln_status_note(st, "the stored schedule %.12s", record->trace_hash.data);
}

/* The fastest few other schedules, each once. */
static kiln_status find_rivals(why *w, const kiln_db_record *fastest, uint32_t count) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < count && w->rival_count < RIVALS_MAX; i++) {
        bool seen = kiln_str_equal(fastest[i].trace_hash, w->winner.record->trace_hash);
        for (uint32_t k = 0; k < w->rival_count; k++)
            seen = seen || kiln_str_equal(fastest[i].trace_hash, w->rival[k].record->trace_hash);
        if (!seen) st = replay(w, &fastest[i], &w->rival[w->rival_count++]);
    }
    return st;
}

static kiln_status find_fallback(why *w) {
    kiln_space space;
    const kiln_db_record *base = kiln_record_default(w->record, w->record_count, w->winner.record);
    if (base) return replay(w, base, &w->fallback);
    const kiln_space_options options = {.accuracy = w->options->accuracy};
    kiln_status st =
        kiln_space_create_with(w->task->te, w->options->target, &options, w->arena, &space);
    if (!st) st = kiln_space_default(&space, w->arena, &w->fallback.trace, &w->fallback.program);
    return st;
}

/* The features of the target, where they tell of launches: what is said of them needs no device. */
static const kiln_feature_set *counted_features(const why *w) {
    const kiln_feature_set *features = kiln_features_of(w->options->target);
    return features->describe ? features : NULL;
}

/* Nothing was measured: the default takes the winner's place. */
static kiln_status find_unmeasured(why *w) {
    const kiln_space_options options = {.keeps_refused = true, .accuracy = w->options->accuracy};
    kiln_space space;
    kiln_status st =
        kiln_space_create_with(w->task->te, w->options->target, &options, w->arena, &space);
    if (!st) st = kiln_space_default(&space, w->arena, &w->winner.trace, &w->winner.program);
    if (!st) kiln_space_explain_split(&space, w->arena, &w->split);
    if (!st) st = kiln_roofline_of(w->options->target, w->task->te, w->arena, &w->machine);
    return st;
}

static kiln_status read_all(why *w) {
    if (!w->db) return find_unmeasured(w);
    kiln_db_filter filter = {.task_key = w->task->key, .target = w->target};
    kiln_db_record *fastest = NULL, *best = NULL;
    uint32_t fastest_count = 0, best_count = 0;
    kiln_db *db = w->db;
    kiln_status st = kiln_db_records(db, &filter, w->arena, &w->record, &w->record_count);
    filter.allowed = kiln_allowed_by(&w->options->accuracy, w->arena);
    if (!st) st = kiln_db_best(db, &filter, w->arena, &best, &best_count);
    filter.order = KILN_DB_FASTEST;
    if (!st) st = kiln_db_records(db, &filter, w->arena, &fastest, &fastest_count);
    if (st) return st;
    if (!best_count && counted_features(w)) return find_unmeasured(w);
    if (!best_count)
        return KILN_ERROR(NOT_FOUND, "nothing measured can be best for %.*s; tune it first",
                          KILN_STR_ARG(w->target));
    st = replay(w, best, &w->winner);
    if (!st) st = find_rivals(w, fastest, fastest_count);
    if (!st) st = find_fallback(w);
    if (!st) st = kiln_roofline_of(w->options->target, w->task->te, w->arena, &w->machine);
    if (!st)
        st = kiln_attributions_of(db, w->task, w->options->target, w->winner.program,
                                  w->fallback.program, w->arena, &w->attributions);
    return st;
}

/* ---- who won --------------------------------------------------------------------------------- */

static double default_ns(const why *w) {
    return w->fallback.record ? w->fallback.record->median_ns : 0;
}

/* What was told beside the winner, else the target's. */
static double peak_of(const why *w) {
    const double told = kiln_roofline_peak_of(w->winner.record, w->options->target, w->task->te);
    return told > 0 ? told : w->machine.peak_flops;
}

static double share_of_peak(const why *w) {
    const double peak = peak_of(w);
    return peak > 0 ? w->task->flops / w->winner.record->median_ns * 1e9 / peak : 0;
}

/* In how many decisions two schedules differ; -1 when their steps do. */
static int differing_decisions(const kiln_trace *a, const kiln_trace *b) {
    int count = 0;
    if (a->count != b->count) return -1;
    for (uint32_t i = 0; i < a->count; i++) {
        const kiln_instruction *x = &a->instruction[i], *y = &b->instruction[i];
        if (x->prim != y->prim || x->operand_count != y->operand_count) return -1;
        bool same = x->decision_count == y->decision_count &&
                    memcmp(x->decision, y->decision, x->decision_count * sizeof *x->decision) == 0;
        count += !same;
    }
    return count;
}

static void print_outcomes(const why *w) {
    uint32_t count[KILN_OUTCOME_COUNT] = {0}, raced = 0;
    for (uint32_t i = 0; i < w->record_count; i++) {
        kiln_outcome outcome = KILN_OUTCOME_INFRA;
        if (!kiln_outcome_find(w->record[i].outcome, &outcome)) continue;
        count[outcome]++;
        raced += w->record[i].raced != 0;
    }
    kiln_strbuf_printf(w->out, "  out of %u measurement%s: %u ok", w->record_count,
                       w->record_count == 1 ? "" : "s", count[KILN_OUTCOME_OK]);
    if (raced) kiln_strbuf_printf(w->out, " (%u stopped early)", raced);
    for (unsigned k = 0; k < KILN_OUTCOME_COUNT; k++)
        if (k != KILN_OUTCOME_OK && count[k])
            kiln_strbuf_printf(w->out, ", %u %s", count[k], kiln_outcome_name((kiln_outcome)k));
    kiln_strbuf_char(w->out, '\n');
}

static void print_rival(const why *w, schedule *rival) {
    const kiln_db_record *r = rival->record;
    int differs = differing_decisions(&w->winner.trace, &rival->trace);
    kiln_strbuf_text(w->out, "    ");
    kiln_print_time(r->median_ns, w->out);
    kiln_strbuf_printf(
        w->out, " (%+.1f %%, %.*s%s): ", 100 * (r->median_ns / w->winner.record->median_ns - 1),
        KILN_STR_ARG(r->searcher), w->winner.record->final && !r->final ? ", measured alone" : "");
    kiln_program_tile_words(rival->program, w->out);
    kiln_algorithm algorithm = kiln_trace_algorithm(&rival->trace);
    if (algorithm != kiln_trace_algorithm(&w->winner.trace))
        kiln_strbuf_printf(w->out, "; algorithm %s\n", kiln_algorithm_name(algorithm));
    else if (differs < 0)
        kiln_strbuf_text(w->out, "; another sketch\n");
    else
        kiln_strbuf_printf(w->out, "; %d other decision%s\n", differs, differs == 1 ? "" : "s");
}

/* Of the winner, with the share of the direct form's operations that it cannot do without. */
static void print_algorithm(why *w) {
    kiln_algorithm algorithm = kiln_trace_algorithm(&w->winner.trace);
    const kiln_program *alternative = kiln_algorithm_apply(algorithm, w->task->te, w->arena);
    double executed = kiln_algorithm_executed_flops(algorithm, alternative);
    kiln_strbuf_printf(w->out, "  algorithm %s", kiln_algorithm_name(algorithm));
    if (algorithm != KILN_ALGORITHM_DIRECT)
        kiln_strbuf_printf(w->out, ", whose products are %.0f %% of the direct form's operations",
                           100 * executed / w->task->flops);
    kiln_strbuf_char(w->out, '\n');
}

static void print_winner(why *w) {
    const kiln_db_record *r = w->winner.record;
    kiln_strbuf_printf(w->out, "Winning schedule\n  %.12s, found by %.*s: ", r->trace_hash.data,
                       KILN_STR_ARG(r->searcher));
    kiln_print_time(r->median_ns, w->out);
    kiln_strbuf_printf(w->out, ", %.1f GFLOP/s", w->task->flops / r->median_ns);
    if (default_ns(w) > 0) {
        kiln_strbuf_printf(w->out, "; %.2fx of the default, which takes ",
                           default_ns(w) / r->median_ns);
        kiln_print_time(default_ns(w), w->out);
    }
    kiln_strbuf_char(w->out, '\n');
    if (r->final)
        kiln_strbuf_text(w->out, "  measured anew at the end, in turns with its rivals\n");
    print_algorithm(w);
    print_outcomes(w);
    if (w->rival_count) kiln_strbuf_text(w->out, "  ahead of\n");
    for (uint32_t i = 0; i < w->rival_count; i++) print_rival(w, &w->rival[i]);
}

/* ---- its loops, the roofline, the model ------------------------------------------------------ */

static void print_indented(kiln_str text, kiln_strbuf *out) {
    while (text.size) {
        kiln_str line = kiln_str_cut(&text, '\n');
        kiln_strbuf_printf(out, "  %.*s\n", KILN_STR_ARG(line));
    }
}

static void print_loops(why *w) {
    kiln_strbuf words = {0};
    kiln_program_words(w->winner.program, &words);
    kiln_strbuf_text(w->out, "\nIts loops\n");
    print_indented(kiln_strbuf_view(&words), w->out);
    kiln_strbuf_deinit(&words);
}

/* The largest terms of the analytic model: where it sees the cycles go. */
static void print_terms(why *w) {
    uint32_t count = 0;
    double sum = 0;
    kiln_model_term *term =
        kiln_model_terms(w->winner.program, w->options->target, w->arena, &count);
    for (uint32_t i = 0; i < count; i++) sum += term[i].cycles;
    if (sum <= 0) return;
    kiln_strbuf_text(w->out, "  the analytic model sees the cycles in:");
    for (unsigned shown = 0; shown < TERMS_MAX; shown++) {
        kiln_model_term *largest = term;
        for (uint32_t i = 1; i < count; i++)
            if (term[i].cycles > largest->cycles) largest = &term[i];
        if (shown && largest->cycles < TERM_SHARE_MIN * sum) break;
        kiln_strbuf_printf(w->out, "%s %s %.0f %%", shown ? "," : "", largest->doc,
                           100 * largest->cycles / sum);
        largest->cycles = 0;
    }
    kiln_strbuf_char(w->out, '\n');
}

/* Of devices with launches: blocks, threads, waves, shared memory, and what bounds each. */
static void print_launches(why *w) {
    kiln_strbuf lines = {0};
    kiln_why_launches(w->winner.program, w->options->target, w->arena, &lines);
    if (lines.size)
        kiln_strbuf_text(w->out, "\nIts launches, counted from the loops and the target's row\n");
    kiln_strbuf_str(w->out, kiln_strbuf_view(&lines));
    if (lines.size) kiln_strbuf_str(w->out, kiln_strbuf_view(&w->split));
    kiln_strbuf_deinit(&lines);
}

static const char *const bound_words[] = {
    [KILN_BOUND_UNKNOWN] = "what bounds it is not known",
    [KILN_BOUND_ARITHMETIC] = "bound by arithmetic",
    [KILN_BOUND_MEMORY] = "bound by memory",
};

static double bytes_of(const why *w) { return kiln_program_argument_bytes(w->task->te); }

/* Of what was not measured: the roof, and the analytic model. */
static void print_unmeasured_roofline(why *w) {
    const double bytes = bytes_of(w), intensity = bytes > 0 ? w->task->flops / bytes : 0;
    kiln_bound bound;
    const double roof = kiln_roof(&w->machine, intensity, &bound);
    kiln_strbuf_printf(w->out,
                       "\nOn the roofline of %s\n  %.4g MFLOP over %.4g MB of inputs, constants "
                       "and outputs: %.3g operations per byte\n  at most %.1f GFLOP/s, %s: no less "
                       "than ",
                       w->machine.memory_of, w->task->flops / 1e6, bytes / 1e6, intensity,
                       roof / 1e9, bound_words[bound]);
    kiln_print_time(roof > 0 ? w->task->flops / roof * 1e9 : 0, w->out);
    kiln_strbuf_char(w->out, '\n');
    print_terms(w);
}

static void print_roofline(why *w) {
    double bytes = bytes_of(w), intensity = bytes > 0 ? w->task->flops / bytes : 0;
    double rate = w->task->flops / w->winner.record->median_ns;
    kiln_bound bound;
    kiln_roofline machine = w->machine;
    machine.peak_flops = peak_of(w);
    double roof = kiln_roof(&machine, intensity, &bound);
    kiln_strbuf_printf(w->out,
                       "\nOn the roofline\n  %.4g MFLOP over %.4g MB of inputs, constants and "
                       "outputs: %.3g operations per byte\n  %.1f GFLOP/s",
                       w->task->flops / 1e6, bytes / 1e6, intensity, rate);
    if (machine.peak_flops > 0)
        kiln_strbuf_printf(w->out, ", %.0f %% of the peak of %.1f", 100 * share_of_peak(w),
                           machine.peak_flops / 1e9);
    kiln_strbuf_printf(w->out, "; %s\n", bound_words[bound]);
    if (bound == KILN_BOUND_MEMORY && rate * 1e9 > roof)
        kiln_strbuf_printf(w->out,
                           "  memory of %s brings %.1f GB/s, good for %.1f GFLOP/s: what it "
                           "touches stays in a cache\n",
                           machine.memory_of, machine.memory_bytes / 1e9, roof / 1e9);
    else if (bound == KILN_BOUND_MEMORY)
        kiln_strbuf_printf(w->out, "  memory of %s brings %.1f GB/s: a roof of %.1f GFLOP/s\n",
                           machine.memory_of, machine.memory_bytes / 1e9, roof / 1e9);
    print_terms(w);
}

static void print_attributions(why *w) {
    const kiln_attributions *a = &w->attributions;
    kiln_strbuf_printf(w->out, "\nWhat a cost model learnt from %u trial%s of %u task%s\n",
                       a->sample_count, a->sample_count == 1 ? "" : "s", a->task_count,
                       a->task_count == 1 ? "" : "s");
    if (!a->count) {
        kiln_strbuf_text(w->out, "  nothing that distinguishes them\n");
        return;
    }
    kiln_strbuf_printf(w->out,
                       "  it expects %.2fx the speed of this task's average trial; in doublings of "
                       "speed:\n    winner default average\n",
                       a->gain);
    for (uint32_t i = 0; i < a->count; i++) {
        const kiln_attribution *item = &a->item[i];
        kiln_strbuf_printf(w->out, "    %+6.2f  %+6.2f  %+6.2f  %s = %.4g %s: %s\n", item->winner,
                           item->fallback, item->average, item->name, item->value, item->unit,
                           item->doc);
    }
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void print_text(why *w, uint32_t number) {
    kiln_strbuf_printf(w->out, "%stask %u %s\n  %.*s, %g per inference\n\n",
                       w->out->size ? "\n" : "", number, kiln_task_label(w->task, w->arena),
                       KILN_STR_ARG(w->task->key), w->task->weight);
    if (!w->winner.record) {
        kiln_strbuf_printf(w->out,
                           "Nothing was measured for %.*s\n  this is the default schedule, which "
                           "no device has run for this answer\n",
                           KILN_STR_ARG(w->target));
        print_loops(w);
        print_launches(w);
        print_unmeasured_roofline(w);
        return;
    }
    print_winner(w);
    print_loops(w);
    print_launches(w);
    print_roofline(w);
    print_attributions(w);
}

/* What is known of a schedule that nobody measured. */
static void print_unmeasured_json(why *w, uint32_t number) {
    kiln_strbuf words = {0}, launches = {0};
    kiln_program_words(w->winner.program, &words);
    kiln_why_launches(w->winner.program, w->options->target, w->arena, &launches);
    if (launches.size) kiln_strbuf_str(&launches, kiln_strbuf_view(&w->split));
    kiln_json_line(json_pack("{s:s, s:i, s:o, s:s, s:s, s:i, s:o, s:o}", "event", "why", "task",
                             (int)number, "key", kiln_json_str(w->task->key), "label",
                             kiln_task_label(w->task, w->arena), "algorithm",
                             kiln_algorithm_name(kiln_trace_algorithm(&w->winner.trace)),
                             "measurements", 0, "loops", kiln_json_str(kiln_strbuf_view(&words)),
                             "launches", kiln_json_str(kiln_strbuf_view(&launches))));
    kiln_strbuf_deinit(&launches);
    kiln_strbuf_deinit(&words);
}

static void print_json(why *w, uint32_t number) {
    const kiln_attributions *a = &w->attributions;
    const kiln_db_record *r = w->winner.record;
    double bytes = bytes_of(w);
    kiln_strbuf words = {0}, launches = {0};
    kiln_program_words(w->winner.program, &words);
    kiln_why_launches(w->winner.program, w->options->target, w->arena, &launches);
    json_t *list = json_array();
    for (uint32_t i = 0; i < a->count; i++)
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f, s:f}", "feature",
                                              a->item[i].name, "value", a->item[i].value, "winner",
                                              a->item[i].winner, "default", a->item[i].fallback,
                                              "average", a->item[i].average));
    json_t *object =
        json_pack("{s:s, s:i, s:o, s:s, s:o, s:s, s:o, s:f, s:f, s:i, s:f, s:f, s:o, s:i, s:o}",
                  "event", "why", "task", (int)number, "key", kiln_json_str(w->task->key), "label",
                  kiln_task_label(w->task, w->arena), "trace", kiln_json_str(r->trace_hash),
                  "algorithm", kiln_algorithm_name(kiln_trace_algorithm(&w->winner.trace)),
                  "found_by", kiln_json_str(r->searcher), "best_ms", r->median_ns / 1e6,
                  "default_ms", default_ns(w) / 1e6, "measurements", (int)w->record_count,
                  "intensity", bytes > 0 ? w->task->flops / bytes : 0.0, "share_of_peak",
                  share_of_peak(w), "loops", kiln_json_str(kiln_strbuf_view(&words)), "samples",
                  (int)a->sample_count, "attributions", list);
    if (launches.size)
        json_object_set_new(object, "launches", kiln_json_str(kiln_strbuf_view(&launches)));
    kiln_json_line(object);
    kiln_strbuf_deinit(&launches);
    kiln_strbuf_deinit(&words);
}

static kiln_status explain_task(const kiln_why_options *options, kiln_db *db, const kiln_task *task,
                                uint32_t number, kiln_arena *process, kiln_strbuf *out) {
    kiln_strbuf target = {0};
    why w = {.options = options, .db = db, .task = task, .arena = process, .out = out};
    kiln_target_print(options->target, &target);
    w.target = kiln_str_from(kiln_str_dup(process, kiln_strbuf_view(&target)));
    kiln_strbuf_deinit(&target);
    kiln_status st = read_all(&w);
    if (!st && options->json && !w.winner.record)
        print_unmeasured_json(&w, number);
    else if (!st && options->json)
        print_json(&w, number);
    else if (!st)
        print_text(&w, number);
    kiln_strbuf_deinit(&w.split);
    return kiln_status_note(st, "task %u %.*s", number, KILN_STR_ARG(task->op));
}

/* In a process without rights. */
static kiln_status find_tasks(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                              kiln_isolated_result *out_result) {
    const kiln_why_options *options = call->work->context;
    kiln_compilation *c = NULL;
    kiln_status st =
        kiln_compilation_of_model(graph, options->target, &options->accuracy, arena, &c);
    return st ? st : kiln_model_give_tasks(c, arena, out_result);
}

kiln_status kiln_why_print(const char *model_path, const kiln_why_options *options,
                           kiln_arena *process, kiln_strbuf *out) {
    kiln_model model = {0};
    kiln_compilation *compilation = NULL;
    kiln_db *db = NULL;
    uint32_t found = 0;
    kiln_why_options own = *options;
    kiln_model_work work = {.model = &model,
                            .doing = "compiling",
                            .run = find_tasks,
                            .context = &own,
                            .precision = own.accuracy.precision};
    kiln_status st = kiln_model_read(model_path, options->onnx, process, &model);
    if (!st) st = kiln_model_take_tasks(&work, process, &compilation);
    if (!st && options->db_path)
        st = kiln_db_open(options->db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    const kiln_tasks tasks =
        compilation ? compilation->searched : (kiln_tasks){0}; /* numbered as kiln tune does */
    for (uint32_t i = 0; !st && i < tasks.count; i++) {
        if (!kiln_task_is(&tasks.task[i], i, options->task)) continue;
        found++;
        st = explain_task(options, db, &tasks.task[i], i, process, out);
    }
    kiln_db_close(db);
    return st || found ? st : kiln_no_such_task(&tasks, options->task);
}
