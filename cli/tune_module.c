/* The module of `kiln tune`: packed with tuned schedules, judged beside the one of default
 * schedules as a whole, and what loses inside of it taken back (takeback.h).
 *
 * The packing process has the model and no rights, the command runs modules and has no model. So
 * the former shows each module that it made, with what it chose otherwise than by default, and
 * hears which tasks to take back for the next one. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mpack.h"
#include "cli/bench.h"
#include "cli/takeback.h"
#include "cli/tune.h"
#include "compiler-core/core.h"
#include "deploy/pack/pack.h"

#define MODULE_ALIGNMENT 4096u
#define FIRST_NS KILN_NS_PER_S         /* of the default and the tuned module, in turns */
#define VARIANT_NS (KILN_NS_PER_S / 2) /* of both and a variant */
/* Variants may take a share of the job's time, within bounds; so many are tried however long they
 * take. */
#define SHARE 0.1
#define SHARE_NS_MIN (2.0 * KILN_NS_PER_S)
#define SHARE_NS_MAX (20.0 * KILN_NS_PER_S)
#define VARIANTS_SURE 2u
#define TIES_MAX (KILN_COMPILATION_TASKS_MAX * 16u) /* rows of a module that is shown */

/* ---- what is shown --------------------------------------------------------------------------- */

/* A task (by its key) or a value (by its name, as conversions go by it) that a module treats
 * otherwise than the default one, and the group that it hangs together with. */
typedef struct tie_row {
    kiln_str name;
    uint32_t group; /* from 0 on */
    bool is_value;
} tie_row;

typedef struct tie_rows {
    tie_row *row;
    uint32_t count;
} tie_rows;

static void code_ties(kiln_mpack_coder *m, kiln_arena *arena, tie_rows *rows) {
    kiln_mpack_code_count(m, TIES_MAX, "ties", &rows->count);
    if (!m->out && !m->st) rows->row = KILN_ARENA_ARRAY(arena, tie_row, rows->count);
    for (uint32_t i = 0; !m->st && i < rows->count; i++) {
        kiln_mpack_code_fields(m, 3);
        kiln_mpack_code_str(m, &rows->row[i].name);
        kiln_mpack_code_below(m, TIES_MAX, &rows->row[i].group);
        kiln_mpack_code_bool(m, &rows->row[i].is_value);
    }
}

/* ---- the packing process --------------------------------------------------------------------- */

static tie_rows find_ties(const kiln_compilation *c, const kiln_way *const *before,
                          kiln_arena *arena) {
    kiln_ties ties;
    tie_rows rows = {0};
    kiln_ties_find(c, before, arena, &ties);
    const uint32_t tasks = c->plan.tasks.count, values = c->graph->value.count;
    rows.row = KILN_ARENA_ARRAY(arena, tie_row, tasks + values);
    for (uint32_t i = 0; i < tasks; i++)
        if (ties.task[i])
            rows.row[rows.count++] = (tie_row){c->plan.tasks.task[i].key, ties.task[i] - 1, false};
    for (uint32_t v = 0; v < values; v++)
        if (ties.value[v])
            rows.row[rows.count++] =
                (tie_row){c->graph->value.data[v].name, ties.value[v] - 1, true};
    return rows;
}

/* Packs and shows a module; what comes next is the answer. */
static kiln_status pack_and_show(const kiln_model_call *call, kiln_compilation *c,
                                 const kiln_pack_options *options, const kiln_way *const *before,
                                 kiln_arena *arena, kiln_str *out_answer) {
    kiln_strbuf module = {0}, head = {0};
    kiln_status st = kiln_pack(c, options, arena, &module, NULL);
    if (!st) {
        tie_rows rows = before ? find_ties(c, before, arena) : (tie_rows){0};
        kiln_mpack_coder m = {.out = &head};
        code_ties(&m, arena, &rows);
        st = m.st;
    }
    const uint64_t size = head.size;
    const kiln_str part[] = {
        {(const char *)&size, sizeof size}, kiln_strbuf_view(&head), kiln_strbuf_view(&module)};
    if (!st) st = kiln_model_show(call, &(kiln_cage_result){3, part}, arena, out_answer);
    kiln_strbuf_deinit(&head);
    kiln_strbuf_deinit(&module);
    return st;
}

/* The lines of an answer; none: it was the last module. */
static uint32_t split(kiln_str answer, kiln_arena *arena, kiln_str **out_line) {
    KILN_VEC(kiln_str) line = {0};
    while (answer.size) kiln_vec_push_in(arena, &line, kiln_str_cut(&answer, '\n'));
    *out_line = line.data;
    return line.count;
}

/* In a process without rights. */
static kiln_status pack_variants(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                                 kiln_cage_result *out_result) {
    const kiln_tune *t = call->work->context;
    const kiln_pack_stored stored = kiln_model_stored(call);
    kiln_compilation *c = NULL;
    kiln_pack_kernels kernels = {0};
    kiln_pack_options options = {.kernels = &kernels,
                                 .model_name = kiln_str_from(kiln_file_name(t->options->model)),
                                 .accuracy = t->accuracy,
                                 .step = kiln_model_step,
                                 .step_context = (void *)(uintptr_t)call};
    const kiln_way *const *before = NULL;
    kiln_str answer = {0};
    kiln_status st = kiln_compilation_of_model(graph, &t->target, arena, &c);
    if (!st && t->runs_here) {
        st = pack_and_show(call, c, &options, NULL, arena, &answer);
        before = c->way;
    }
    options.stored = &stored;
    do {
        kiln_str *line = NULL;
        options.taken_back_count = split(answer, arena, &line);
        options.taken_back = line;
        if (!st) st = pack_and_show(call, c, &options, before, arena, &answer);
    } while (!st && answer.size);
    kiln_map_deinit(&kernels.name);
    *out_result = (kiln_cage_result){0};
    return st;
}

/* ---- the command ----------------------------------------------------------------------------- */

typedef struct shown {
    kiln_str bytes; /* owned */
    kiln_module *module;
    tie_rows ties; /* in the arena of the turns */
} shown;

struct kiln_tune_turns {
    kiln_tune *tune;
    kiln_arena arena;
    shown base, best; /* best: of tuned schedules; without base where nothing runs here */
    kiln_takeback takeback;
    kiln_bench_pair pair; /* base and best, the last time that both ran */
    uint64_t spent_ns;    /* since both were there */
};

static void drop(shown *s) {
    kiln_module_close(s->module);
    kiln_free((void *)(uintptr_t)s->bytes.data);
    *s = (shown){0};
}

/* Copies what is shown, which does not stay. */
static kiln_status take(kiln_tune_turns *r, kiln_str all, shown *out) {
    uint64_t size = 0;
    if (all.size >= sizeof size) memcpy(&size, all.data, sizeof size);
    if (all.size < sizeof size || size > all.size - sizeof size)
        return KILN_ERROR(DATA_LOSS, "the module's bytes are cut off");
    const kiln_str head =
        kiln_str_copy(&r->arena, kiln_str_slice(all, sizeof size, sizeof size + size));
    const kiln_str module = kiln_str_slice(all, sizeof size + size, all.size);
    kiln_mpack_coder m = {0};
    kiln_mpack_reader_init(&m.in, head.data, head.size);
    code_ties(&m, &r->arena, &out->ties);
    if (m.st) return kiln_status_note(m.st, "what a module does otherwise");
    char *copy = kiln_alloc_aligned(MODULE_ALIGNMENT, module.size);
    memcpy(copy, module.data, module.size);
    out->bytes = (kiln_str){copy, module.size};
    return KILN_OK;
}

static kiln_status open_shown(shown *s) {
    char error[KILN_MODULE_ERROR_BYTES] = "";
    int code = kiln_module_open_memory(s->bytes.data, s->bytes.size, NULL, &s->module, error,
                                       sizeof error);
    return code ? KILN_ERROR(INTERNAL, "%s", error) : KILN_OK;
}

/* Adds the times of a module's steps to their groups, at default_ns or tuned_ns. */
static void add_times(const kiln_map *group_of, const kiln_module *module, const double *step_ns,
                      bool tuned, kiln_takeback_group *group) {
    for (uint32_t i = 0; i < kiln_module_step_count(module); i++) {
        const kiln_module_step *step = kiln_module_step_at(module, i);
        const bool converts = strcmp(step->op, "convert") == 0;
        uint64_t g = 0;
        if (!step->task[0]) continue;
        if (!kiln_map_find(group_of, kiln_str_from(converts ? step->name : step->task), &g))
            continue;
        *(tuned ? &group[g].tuned_ns : &group[g].default_ns) += step_ns[i];
    }
}

/* What the groups of `of` take in both modules, by the turns of modules 0 (base) and `index`. */
static void see(kiln_tune_turns *r, const shown *of, uint32_t index,
                const kiln_bench_turns *turns) {
    const tie_rows *ties = &of->ties;
    uint32_t groups = 0;
    kiln_map group_of;
    kiln_map_init(&group_of);
    for (uint32_t i = 0; i < ties->count; i++) {
        kiln_map_put(&group_of, ties->row[i].name, ties->row[i].group);
        groups = KILN_MAX(groups, ties->row[i].group + 1);
    }
    kiln_takeback_group *group = KILN_ARENA_ARRAY(&r->arena, kiln_takeback_group, groups);
    for (uint32_t g = 0; g < groups; g++) {
        KILN_VEC(kiln_str) task = {0};
        for (uint32_t i = 0; i < ties->count; i++)
            if (ties->row[i].group == g && !ties->row[i].is_value)
                kiln_vec_push_in(&r->arena, &task, ties->row[i].name);
        group[g] = (kiln_takeback_group){.task = task.data, .count = task.count};
    }
    add_times(&group_of, r->base.module, turns->step_ns[0], false, group);
    add_times(&group_of, of->module, turns->step_ns[index], true, group);
    kiln_map_deinit(&group_of);
    r->pair = kiln_bench_pair_of(turns, 0, index);
    kiln_takeback_see(&r->takeback, group, groups, r->pair.a.median);
}

/* Time that variants may take: it is counted into --seconds. */
static double allowed_ns(const kiln_tune *t) {
    const double whole_ns = t->options->seconds > 0 ? t->options->seconds * KILN_NS_PER_S
                                                    : (double)(t->end_ns - t->start_ns);
    return KILN_MIN(KILN_MAX(SHARE * whole_ns, SHARE_NS_MIN), SHARE_NS_MAX);
}

double kiln_tune_kept_s(const kiln_tune *t) {
    if (!t->options->out || !t->runs_here) return 0;
    return KILN_MIN(SHARE * t->options->seconds, SHARE_NS_MAX / KILN_NS_PER_S);
}

/* The next variant is wanted: says which. */
static void ask_for_more(kiln_tune_turns *r, kiln_strbuf *out_answer) {
    const bool in_time =
        (double)r->spent_ns < allowed_ns(r->tune) || r->takeback.variants < VARIANTS_SURE;
    if (!r->tune->stopped && in_time && kiln_takeback_next(&r->takeback))
        kiln_takeback_print(&r->takeback, out_answer);
}

/* The tuned module beside the default one. */
static kiln_status judge_first(kiln_tune_turns *r) {
    kiln_bench_turns turns;
    kiln_module *const both[] = {r->base.module, r->best.module};
    kiln_status st = kiln_bench_in_turns(both, 2, FIRST_NS, &r->arena, &turns);
    if (!st) see(r, &r->best, 1, &turns);
    return st;
}

/* A variant beside both. It takes the place of the best one, or is dropped. */
static kiln_status judge_variant(kiln_tune_turns *r, shown *variant) {
    kiln_bench_turns turns;
    kiln_module *const all[] = {r->base.module, r->best.module, variant->module};
    kiln_status st = kiln_bench_in_turns(all, 3, VARIANT_NS, &r->arena, &turns);
    if (st) return st;
    const bool faster = kiln_bench_pair_of(&turns, 1, 2).low > 1;
    kiln_takeback_judge(&r->takeback, faster);
    if (faster) {
        see(r, variant, 2, &turns);
        drop(&r->best);
        r->best = *variant;
        *variant = (shown){0};
    } else {
        r->pair = kiln_bench_pair_of(&turns, 0, 1);
    }
    return KILN_OK;
}

/* Each module comes by here: the default one, the tuned one, then variants of that. */
static kiln_status look(void *context, kiln_str bytes, kiln_strbuf *out_answer) {
    kiln_tune_turns *r = ((kiln_tune *)context)->turns;
    shown now = {0};
    const uint64_t start_ns = kiln_clock_ns();
    kiln_status st = take(r, bytes, &now);
    if (!st && r->tune->runs_here) st = open_shown(&now);
    if (!st && r->tune->runs_here && !r->base.module) {
        r->base = now;
        return KILN_OK;
    }
    if (!st && !r->best.bytes.data) {
        r->best = now;
        now = (shown){0};
        if (r->base.module) st = judge_first(r);
    } else if (!st) {
        st = judge_variant(r, &now);
    }
    drop(&now);
    if (!st && r->base.module) ask_for_more(r, out_answer);
    r->spent_ns += kiln_clock_ns() - start_ns;
    return st;
}

kiln_status kiln_tune_start_packer(kiln_tune *t) {
    kiln_target native;
    kiln_strbuf reason = {0};
    kiln_status st = kiln_target_native(t->process, &native);
    if (st) return st;
    t->runs_here = kiln_target_runs_on(&t->target, &native, &reason);
    kiln_strbuf_deinit(&reason);
    t->packing = (kiln_model_work){.model = &t->model,
                                   .doing = "compiling",
                                   .run = pack_variants,
                                   .look = look,
                                   .context = t,
                                   .has_db = true};
    return kiln_model_start(&t->packing, t->process, &t->packer);
}

/* ---- the report ------------------------------------------------------------------------------ */

static const char *label_of(const kiln_tune *t, kiln_str key) {
    for (uint32_t i = 0; i < t->compilation->searched.count; i++)
        if (kiln_str_equal(t->compilation->searched.task[i].key, key))
            return kiln_task_label(&t->compilation->searched.task[i], t->process);
    return kiln_str_dup(t->process, key);
}

/* Its share of all time that the command took. */
static double turns_share(const kiln_tune_turns *r) {
    const double all_ns = (double)(kiln_clock_ns() - r->tune->start_ns);
    return all_ns > 0 ? (double)r->spent_ns / all_ns : 0;
}

static json_t *taken_json(const kiln_tune_turns *r) {
    json_t *rows = json_array();
    for (uint32_t i = 0; i < r->takeback.taken.count; i++) {
        const kiln_takeback_group *g = &r->takeback.taken.data[i];
        json_t *tasks = json_array();
        for (uint32_t k = 0; k < g->count; k++)
            json_array_append_new(tasks, kiln_json_str(g->task[k]));
        json_array_append_new(rows, json_pack("{s:o, s:s, s:f, s:f}", "tasks", tasks, "label",
                                              label_of(r->tune, g->task[0]), "default_ms",
                                              g->default_ns / 1e6, "tuned_ms", g->tuned_ns / 1e6));
    }
    return rows;
}

static void print_taken(const kiln_tune_turns *r) {
    for (uint32_t i = 0; i < r->takeback.taken.count; i++) {
        const kiln_takeback_group *g = &r->takeback.taken.data[i];
        kiln_strbuf line = {0};
        kiln_strbuf_printf(&line, "  taken back: %s", label_of(r->tune, g->task[0]));
        if (g->count > 1) kiln_strbuf_printf(&line, " and %u more of its layouts", g->count - 1);
        kiln_strbuf_text(&line, ": inside of the module ");
        kiln_print_time(g->tuned_ns, &line);
        kiln_strbuf_text(&line, " tuned, ");
        kiln_print_time(g->default_ns, &line);
        kiln_strbuf_text(&line, " by default");
        puts(line.data);
        kiln_strbuf_deinit(&line);
    }
    if (r->takeback.variants)
        printf("  %u variant%s of the module judged, %.1f s in all (%.0f %% of the time)\n",
               r->takeback.variants, r->takeback.variants == 1 ? "" : "s",
               (double)r->spent_ns / 1e9, 100 * turns_share(r));
}

static void report_sums(const kiln_tune *t, double default_ns, double tuned_ns) {
    const double ratio = tuned_ns > 0 ? default_ns / tuned_ns : 1;
    if (t->options->json)
        kiln_json_line(json_pack("{s:s, s:s, s:f, s:f, s:f, s:b}", "event", "module", "file",
                                 t->options->out, "default_ms", default_ns / 1e6, "tuned_ms",
                                 tuned_ns / 1e6, "ratio", ratio, "tuned", true));
    else
        printf("whole model, the sum of its kernels: default %.4f ms, tuned %.4f ms (%.2fx)\n"
               "module in %s\n",
               default_ns / 1e6, tuned_ns / 1e6, ratio, t->options->out);
}

static void report_turns(const kiln_tune_turns *r, bool tuned) {
    const kiln_bench_pair *pair = &r->pair;
    const char *out = r->tune->options->out;
    if (r->tune->options->json) {
        kiln_json_line(json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:b, s:o, s:i, s:f, s:f}",
                                 "event", "module", "file", out, "default_ms", pair->a.median / 1e6,
                                 "tuned_ms", pair->b.median / 1e6, "ratio", pair->ratio, "low",
                                 pair->low, "high", pair->high, "tuned", tuned, "taken_back",
                                 taken_json(r), "variants", (int)r->takeback.variants, "turns_s",
                                 (double)r->spent_ns / 1e9, "turns_share", turns_share(r)));
        return;
    }
    const bool equal = pair->low <= 1 && pair->high >= 1;
    print_taken(r);
    printf("whole model, interleaved: default %.4f ms, tuned %.4f ms: %s (%.2fx, 95 %% interval "
           "%.2f to %.2f)\n",
           pair->a.median / 1e6, pair->b.median / 1e6,
           equal             ? "equal"
           : pair->ratio > 1 ? "faster"
                             : "slower",
           pair->ratio, pair->low, pair->high);
    printf("module in %s%s\n", out,
           tuned   ? ""
           : equal ? ", with the default schedules: the tuned ones are not faster here"
                   : ", with the default schedules, which are faster here");
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

/* The tuned schedules are shipped where the whole model is faster with them; which is known only of
 * this machine's target. */
static kiln_status ship(kiln_tune *t, kiln_db *db) {
    const kiln_tune_turns *r = t->turns;
    const bool tuned = !r->base.module || r->pair.low > 1;
    double default_ns = 0, tuned_ns = 0;
    kiln_status st = write_module(t, tuned ? r->best.bytes : r->base.bytes);
    if (!st && !t->runs_here) st = kiln_tune_sum_kernels(t, db, &default_ns, &tuned_ns);
    if (st) return st;
    if (t->runs_here)
        report_turns(r, tuned);
    else
        report_sums(t, default_ns, tuned_ns);
    return KILN_OK;
}

kiln_status kiln_tune_pack(kiln_tune *t) {
    kiln_db *db = NULL;
    kiln_mapping nothing = {0};
    kiln_tune_turns turns = {.tune = t};
    kiln_arena_init(&turns.arena, 0);
    kiln_takeback_init(&turns.takeback, &turns.arena);
    t->turns = &turns;
    t->packing.judged = t->stopped;
    kiln_status st = kiln_db_open(t->db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) st = kiln_model_finish(&t->packer, db, &nothing);
    kiln_file_unmap(&nothing);
    if (!st) st = ship(t, db);
    drop(&turns.best);
    drop(&turns.base);
    kiln_arena_deinit(&turns.arena);
    kiln_db_close(db);
    t->turns = NULL;
    return st;
}
