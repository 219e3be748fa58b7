/* The module of `kiln tune`: packed with tuned schedules, compared with double precision and judged
 * beside the one of default schedules as a whole. Alternatives are taken back until the error of
 * the whole is within the budget (network_error.h), and then what loses inside of it (takeback.h).
 *
 * Modules run where the job's boards are (module_runs.h): with --tracker on one of those, else
 * here, if this machine is what they are for.
 *
 * The packing process has the model and no rights, the command runs modules and has no model. So
 * the former shows each module that it made, with what it chose otherwise than by default, and
 * hears which tasks to take back for the next one. */
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mpack.h"
#include "cli/common/json.h"
#include "cli/common/names.h"
#include "cli/common/task_names.h"
#include "cli/worker/module_runs.h"
#include "cli/worker/network_error.h"
#include "cli/worker/takeback.h"
#include "cli/worker/tune.h"
#include "compiler-core/core.h"
#include "deploy/pack/pack.h"
#include "deploy/runtime/device.h"

#define FIRST_NS KILN_NS_PER_S         /* of the default and the tuned module, in turns */
#define VARIANT_NS (KILN_NS_PER_S / 2) /* of both and a variant */
/* Variants may take a share of the job's time, within bounds; so many are tried however long they
 * take. */
#define SHARE 0.1
#define SHARE_NS_MIN (2.0 * KILN_NS_PER_S)
#define SHARE_NS_MAX (20.0 * KILN_NS_PER_S)
#define VARIANTS_SURE 2u
/* Of larger modules none is sure: each takes minutes to copy, to send to a board and to open. */
#define SURE_BYTES_MAX ((size_t)1 << 30)
/* Larger models are not compared with double precision, which takes several times their memory. */
#define WEIGHTS_CHECKED_MAX (UINT64_C(1) << 30)
#define BOARD_WAIT_S 60u                            /* for a board that is free */
#define TIES_MAX (KILN_COMPILATION_TASKS_MAX * 16u) /* rows of a module that is shown */

/* ---- what is shown --------------------------------------------------------------------------- */

/* What a module treats otherwise than the default one: tasks of its own and those that only the
 * default one has (by their keys), values (by their names, as conversions go by them). */
typedef enum tie_kind { TIE_TASK, TIE_BEFORE, TIE_VALUE, TIE_KINDS } tie_kind;

typedef struct tie_row {
    kiln_str name;
    uint32_t group; /* that it hangs together with, from 0 on */
    uint32_t kind;  /* tie_kind */
} tie_row;

typedef struct tie_rows {
    tie_row *row;
    uint32_t count;
} tie_rows;

/* Tasks that a module computes by an alternative. */
typedef struct network_parts {
    kiln_network_part *part;
    uint32_t count;
} network_parts;

static void code_ties(kiln_mpack_coder *m, kiln_arena *arena, tie_rows *rows) {
    kiln_mpack_code_count(m, TIES_MAX, "ties", &rows->count);
    if (!m->out && !m->st) rows->row = KILN_ARENA_ARRAY(arena, tie_row, rows->count);
    for (uint32_t i = 0; !m->st && i < rows->count; i++) {
        kiln_mpack_code_fields(m, 3);
        kiln_mpack_code_str(m, &rows->row[i].name);
        kiln_mpack_code_below(m, TIES_MAX, &rows->row[i].group);
        kiln_mpack_code_below(m, TIE_KINDS, &rows->row[i].kind);
    }
}

static void code_parts(kiln_mpack_coder *m, kiln_arena *arena, network_parts *parts) {
    kiln_mpack_code_count(m, KILN_COMPILATION_TASKS_MAX, "parts", &parts->count);
    if (!m->out && !m->st) parts->part = KILN_ARENA_ARRAY(arena, kiln_network_part, parts->count);
    for (uint32_t i = 0; !m->st && i < parts->count; i++) {
        kiln_mpack_code_fields(m, 4);
        kiln_mpack_code_str(m, &parts->part[i].task);
        kiln_mpack_code_str(m, &parts->part[i].op);
        kiln_mpack_code_str(m, &parts->part[i].algorithm);
        kiln_mpack_code_f64(m, &parts->part[i].error);
    }
}

/* ---- the packing process --------------------------------------------------------------------- */

static void add_tasks(tie_rows *rows, const kiln_tasks *tasks, const uint32_t *group,
                      tie_kind kind) {
    for (uint32_t i = 0; i < tasks->count; i++)
        if (group[i]) rows->row[rows->count++] = (tie_row){tasks->task[i].key, group[i] - 1, kind};
}

static tie_rows find_ties(const kiln_compilation *c, const kiln_chosen *before, kiln_arena *arena) {
    kiln_ties ties;
    tie_rows rows = {0};
    kiln_ties_find(c, before, arena, &ties);
    const kiln_tasks *now = &c->plan.tasks, *old = &before->plan.tasks;
    const uint32_t values = c->graph->value.count;
    rows.row = KILN_ARENA_ARRAY(arena, tie_row, now->count + old->count + values);
    add_tasks(&rows, now, ties.task, TIE_TASK);
    add_tasks(&rows, old, ties.before, TIE_BEFORE);
    for (uint32_t v = 0; v < values; v++)
        if (ties.value[v])
            rows.row[rows.count++] =
                (tie_row){c->graph->value.data[v].name, ties.value[v] - 1, TIE_VALUE};
    return rows;
}

/* Whose measured error is not known states one. */
static kiln_status find_parts(const kiln_pack_report *report, kiln_arena *arena,
                              network_parts *out) {
    out->part = KILN_ARENA_ARRAY(arena, kiln_network_part, report->task_count);
    for (uint32_t i = 0; i < report->task_count; i++) {
        const kiln_pack_task *task = &report->task[i];
        kiln_trace trace;
        if (!task->trace.size) continue; /* it needs no kernel */
        kiln_status st = kiln_trace_decode(task->trace, arena, &trace);
        if (st) return st;
        const kiln_algorithm algorithm = kiln_trace_algorithm(&trace);
        const double stated = kiln_algorithm_relative_error(algorithm);
        if (stated == 0) continue; /* it is as exact as direct sums */
        out->part[out->count++] =
            (kiln_network_part){.task = task->key,
                                .op = task->op,
                                .algorithm = kiln_str_from(kiln_algorithm_name(algorithm)),
                                .error = task->relative_error > 0 ? task->relative_error : stated};
    }
    return KILN_OK;
}

/* Shows a module with what is said of it; the answer says what comes next. */
static kiln_status show(const kiln_model_call *call, kiln_str head, const kiln_module_bytes *module,
                        kiln_arena *arena, kiln_str *out_answer) {
    const uint64_t size = head.size;
    kiln_arena own;
    kiln_arena_init(&own, 0);
    kiln_str *part = KILN_ARENA_ARRAY(&own, kiln_str, 2 + (size_t)module->part_count);
    part[0] = (kiln_str){(const char *)&size, sizeof size};
    part[1] = head;
    if (module->part_count) memcpy(part + 2, module->part, module->part_count * sizeof *part);
    kiln_status st = kiln_model_show(call, &(kiln_isolated_result){2 + module->part_count, part},
                                     arena, out_answer);
    kiln_arena_deinit(&own);
    return st;
}

/* RESOURCE_EXHAUSTED: its constants take too much memory in double precision. */
static kiln_status check_weights(const kiln_graph *graph) {
    uint64_t bytes = 0;
    for (kiln_value v = 1; v < graph->value.count; v++) {
        if (!kiln_value_is_constant(graph, v)) continue;
        const kiln_tensor tensor = kiln_value_tensor(graph, v);
        bytes += kiln_tensor_bytes(&tensor);
    }
    if (bytes <= WEIGHTS_CHECKED_MAX) return KILN_OK;
    return KILN_ERROR(RESOURCE_EXHAUSTED,
                      "the model has %llu MiB of constants, and models of at most %llu MiB are "
                      "computed in double precision",
                      (unsigned long long)(bytes >> 20),
                      (unsigned long long)(WEIGHTS_CHECKED_MAX >> 20));
}

/* The graph in double precision: its module, or as the head why there is none. */
static kiln_status show_in_double(const kiln_model_call *call, const kiln_pack_options *options,
                                  kiln_arena *arena, kiln_str *out_answer) {
    const kiln_tune *t = call->work->context;
    kiln_graph *graph = NULL;
    kiln_compilation *c = NULL;
    kiln_module_bytes module = {0};
    kiln_pack_options plain = *options;
    plain.kernels = NULL; /* their memory goes with the arena */
    kiln_arena own;
    kiln_arena_init(&own, 0);
    kiln_status st = kiln_graph_decode(t->model.graph, &own, &graph);
    if (!st) st = check_weights(graph);
    if (!st) st = kiln_graph_widen(graph);
    if (!st) st = kiln_passes_run(graph, (kiln_str){0});
    if (!st) st = kiln_compilation_create(graph, &t->in_double, &own, &c);
    if (!st) st = kiln_pack_parts(c, &plain, &own, &module, NULL);
    const kiln_str why = kiln_str_from(st ? kiln_status_text(st) : "");
    kiln_status shown = show(call, why, &module, arena, out_answer);
    kiln_status_free(st); /* the module is not checked then, and people are told why */
    kiln_arena_deinit(&own);
    return shown;
}

/* Packs and shows a module; what comes next is the answer. */
static kiln_status pack_and_show(const kiln_model_call *call, kiln_compilation *c,
                                 const kiln_pack_options *options, const kiln_chosen *before,
                                 kiln_arena *arena, kiln_str *out_answer) {
    kiln_strbuf head = {0};
    kiln_module_bytes module = {0};
    kiln_pack_report report = {0};
    network_parts parts = {0};
    kiln_status st = kiln_pack_parts(c, options, arena, &module, &report);
    if (!st) st = find_parts(&report, arena, &parts);
    if (!st) {
        tie_rows rows = before->way ? find_ties(c, before, arena) : (tie_rows){0};
        kiln_mpack_coder m = {.out = &head};
        code_ties(&m, arena, &rows);
        code_parts(&m, arena, &parts);
        st = m.st;
    }
    if (!st) st = show(call, kiln_strbuf_view(&head), &module, arena, out_answer);
    kiln_strbuf_deinit(&head);
    return st;
}

/* What lines of an answer begin with, unless they are the key of a task that is taken back for its
 * time. */
#define EXACTLY '='    /* before the key of a task that gets none but direct sums */
#define UNNARROWED '~' /* alone: what lies between kernels has the model's own types */
#define TAKEN_BACK 0

/* What follows in the lines that begin so. */
static uint32_t lines_of(kiln_str answer, char kind, kiln_arena *arena, const kiln_str **out_key) {
    KILN_VEC(kiln_str) key = {0};
    while (answer.size) {
        kiln_str line = kiln_str_cut(&answer, '\n');
        const char first = line.size ? line.data[0] : 0;
        const bool marked = first == EXACTLY || first == UNNARROWED;
        if (kind == (marked ? first : TAKEN_BACK))
            kiln_vec_push_in(arena, &key, kiln_str_slice(line, marked, line.size));
    }
    *out_key = key.data;
    return key.count;
}

/* The model once more, whose values between kernels are not narrowed. */
static kiln_status compile_unnarrowed(const kiln_tune *t, kiln_arena *arena, kiln_compilation **c) {
    kiln_graph *graph = NULL;
    kiln_status st = kiln_graph_decode(t->model.graph, arena, &graph);
    if (!st) st = kiln_passes_run(graph, (kiln_str){0});
    return st ? st : kiln_compilation_create(graph, &t->target, arena, c);
}

/* In a process without rights. */
static kiln_status pack_variants(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                                 kiln_isolated_result *out_result) {
    const kiln_tune *t = call->work->context;
    const kiln_pack_stored stored = kiln_model_stored(call);
    kiln_compilation *c = NULL;
    kiln_pack_kernels kernels = {0};
    kiln_pack_options options = {
        .kernels = &kernels,
        .model_name = kiln_model_title(t->options->model_name, t->options->model, arena),
        .provenance = t->provenance,
        .accuracy = t->accuracy,
        .is_part = t->bytes != NULL,
        .step = kiln_model_step,
        .step_context = (void *)(uintptr_t)call};
    kiln_chosen before = {0}; /* what the default module chose */
    kiln_str answer = {0};
    const kiln_str *nothing;
    bool narrowed = true;
    kiln_status st = kiln_compilation_of_model(graph, &t->target, &t->accuracy, arena, &c);
    if (!st && t->judges) st = show_in_double(call, &options, arena, &answer);
    if (!st && t->judges) {
        st = pack_and_show(call, c, &options, &before, arena, &answer);
        before = (kiln_chosen){c->plan, c->way};
    }
    options.stored = &stored;
    do {
        options.taken_back_count = lines_of(answer, TAKEN_BACK, arena, &options.taken_back);
        options.exact_count = lines_of(answer, EXACTLY, arena, &options.exact);
        if (!st && narrowed && lines_of(answer, UNNARROWED, arena, &nothing)) {
            narrowed = false;
            before = (kiln_chosen){0}; /* of other values */
            st = compile_unnarrowed(t, arena, &c);
        }
        if (!st) st = pack_and_show(call, c, &options, &before, arena, &answer);
    } while (!st && answer.size);
    kiln_map_deinit(&kernels.name);
    *out_result = (kiln_isolated_result){0};
    return st;
}

/* ---- the command ----------------------------------------------------------------------------- */

typedef struct shown {
    kiln_shown_module run;
    kiln_mapping bytes; /* of the module */
    tie_rows ties;      /* in the arena of the turns, and so are the parts */
    network_parts parts;
} shown;

struct kiln_tune_turns {
    kiln_tune *tune;
    kiln_arena arena;
    kiln_module_runs runs;
    shown base, best;      /* best: of tuned schedules; without base where nothing is judged */
    shown in_double;       /* without bytes where there is none */
    const char *unchecked; /* why there is none; NULL: there is, or not yet */
    const char *untimed;   /* why no board says what is faster; NULL: one does, or this machine */
    kiln_network network;
    double error, first_error; /* of what ships; of the tuned module before any was taken back */
    double base_error;
    bool is_checked;                     /* these are known */
    KILN_VEC(kiln_network_part) inexact; /* taken back */
    bool unnarrowed;                     /* and so was what lies between kernels */
    kiln_takeback takeback;
    kiln_bench_pair pair; /* base and best, the last time that both ran */
    uint64_t spent_ns;    /* since both were there */
};

static void drop(shown *s) {
    kiln_module_close(s->run.module);
    kiln_file_unmap(&s->bytes);
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
    if (!module.size) { /* only the one in double precision may be missing */
        r->unchecked = kiln_str_dup(&r->arena, head);
        return KILN_OK;
    }
    kiln_mpack_coder m = {0};
    kiln_mpack_reader_init(&m.in, head.data, head.size);
    if (head.size) code_ties(&m, &r->arena, &out->ties);
    if (head.size) code_parts(&m, &r->arena, &out->parts);
    if (m.st) return kiln_status_note(m.st, "what a module does otherwise");
    kiln_status st = kiln_file_map_copy(module, &out->bytes);
    out->run.bytes = (kiln_str){out->bytes.data, out->bytes.size};
    return st;
}

static bool is_inexact(const kiln_tune_turns *r, const char *task) {
    for (uint32_t i = 0; i < r->inexact.count; i++)
        if (kiln_str_is(r->inexact.data[i].task, task)) return true;
    return false;
}

/* Adds the times of a module's steps to their groups, at default_ns or tuned_ns. Tasks that were
 * taken back for accuracy are left out: there is nothing else that they may be. */
static void add_times(const kiln_tune_turns *r, const kiln_map *group_of, const kiln_module *module,
                      const double *step_ns, bool tuned, kiln_takeback_group *group) {
    for (uint32_t i = 0; i < kiln_module_step_count(module); i++) {
        const kiln_module_step *step = kiln_module_step_at(module, i);
        const bool converts = strcmp(step->op, "convert") == 0;
        uint64_t g = 0;
        if (!step->task[0] || is_inexact(r, step->task)) continue;
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
            if (ties->row[i].group == g && ties->row[i].kind == TIE_TASK)
                kiln_vec_push_in(&r->arena, &task, ties->row[i].name);
        group[g] = (kiln_takeback_group){.task = task.data, .count = task.count};
    }
    add_times(r, &group_of, r->base.run.module, turns->step_ns[0], false, group);
    add_times(r, &group_of, of->run.module, turns->step_ns[index], true, group);
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
    if (!t->options->out || !t->judges) return 0;
    return KILN_MIN(SHARE * t->options->seconds, SHARE_NS_MAX / KILN_NS_PER_S);
}

/* What every later module is without. */
static void say_exact(const kiln_tune_turns *r, kiln_strbuf *out_answer) {
    for (uint32_t i = 0; i < r->inexact.count; i++)
        kiln_strbuf_printf(out_answer, "%c%.*s\n", EXACTLY, KILN_STR_ARG(r->inexact.data[i].task));
    if (r->unnarrowed) kiln_strbuf_printf(out_answer, "%c\n", UNNARROWED);
}

/* The next variant is wanted: says which. */
static void ask_for_more(kiln_tune_turns *r, kiln_strbuf *out_answer) {
    if (r->untimed) return;
    const uint32_t sure = r->best.bytes.size > SURE_BYTES_MAX ? 0 : VARIANTS_SURE;
    const bool in_time = (double)r->spent_ns < allowed_ns(r->tune) || r->takeback.variants < sure;
    if (r->tune->stopped || !in_time || !kiln_takeback_next(&r->takeback)) return;
    kiln_takeback_print(&r->takeback, out_answer);
    say_exact(r, out_answer);
}

/* A board that is not there, is not free or has no room is no reason to lose a module: it ships as
 * it is, and people are told. What a module itself does wrong is one. */
static kiln_status excuse(kiln_tune_turns *r, kiln_status st) {
    if (!st || !r->runs.there || kiln_status_code(st) == KILN_INTERNAL) return st;
    r->untimed = kiln_str_dup(&r->arena, kiln_str_from(kiln_status_text(st)));
    if (!r->is_checked) r->unchecked = r->untimed;
    kiln_status_free(st);
    return KILN_OK;
}

static kiln_status find_error(kiln_tune_turns *r, const shown *s, double *out_error) {
    kiln_run run;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_module_runs_once(&r->runs, &s->run, &scratch, &run);
    if (!st) *out_error = kiln_network_error_of(&r->network, s->run.module, run.outputs);
    kiln_arena_deinit(&scratch);
    return st;
}

static bool is_narrowed(const kiln_tune *t) {
    return kiln_space_storage(&t->target, &t->accuracy) != KILN_DTYPE_NONE;
}

/* Whether alternatives of the tuned module have to go, or in the end the halves between its
 * kernels: then `out_answer` asks for it without them. */
static kiln_status check_error(kiln_tune_turns *r, shown *tuned, kiln_strbuf *out_answer) {
    const double error_max = kiln_accuracy_error_max(&r->tune->accuracy);
    if (r->unchecked) return KILN_OK;
    kiln_status st = KILN_OK;
    if (!r->network.output)
        st = kiln_network_run(r->in_double.run.module, tuned->run.module, &r->arena, &r->network);
    drop(&r->in_double); /* its outputs are all that is wanted of it */
    if (!st && !r->is_checked) st = find_error(r, &r->base, &r->base_error);
    if (!st) st = find_error(r, tuned, &r->error);
    if (st) return excuse(r, st);
    if (!r->is_checked) r->first_error = r->error;
    r->is_checked = true;
    if (r->error <= error_max) return KILN_OK;
    if (!kiln_network_take_back(tuned->parts.part, tuned->parts.count, r->error, error_max)) {
        if (r->unnarrowed || !is_narrowed(r->tune)) return KILN_OK;
        r->unnarrowed = true;
    }
    for (uint32_t i = 0; i < tuned->parts.count; i++)
        if (tuned->parts.part[i].taken_back)
            kiln_vec_push_in(&r->arena, &r->inexact, tuned->parts.part[i]);
    say_exact(r, out_answer);
    return KILN_OK;
}

/* What the target's modules run on; NULL: nothing that this program has. */
static const kiln_device_row *device_of(const kiln_tune *t) {
    return kiln_device_row_for(kiln_payload_of(t->target.kind));
}

/* Why the time that modules take says nothing of schedules; NULL: it does. */
static const char *why_untimed(const kiln_tune_turns *r) {
    const kiln_device_row *row = device_of(r->tune);
    if (row && row->counts) return "the device is in software, its records hold counted times";
    return r->runs.emulated ? "the board is emulated" : NULL;
}

/* The tuned module beside the default one. */
static kiln_status judge_first(kiln_tune_turns *r) {
    kiln_bench_turns turns;
    const kiln_shown_module both[] = {r->base.run, r->best.run};
    if (!r->untimed) r->untimed = why_untimed(r);
    if (r->untimed) return KILN_OK;
    kiln_status st = kiln_module_runs_in_turns(&r->runs, both, 2, FIRST_NS, &r->arena, &turns);
    if (!st) see(r, &r->best, 1, &turns);
    if (!st) r->untimed = why_untimed(r); /* the board is known now */
    return excuse(r, st);
}

/* A variant beside both. It takes the place of the best one, or is dropped. */
static kiln_status judge_variant(kiln_tune_turns *r, shown *variant) {
    kiln_bench_turns turns;
    const kiln_shown_module all[] = {r->base.run, r->best.run, variant->run};
    kiln_status st = kiln_module_runs_in_turns(&r->runs, all, 3, VARIANT_NS, &r->arena, &turns);
    if (st) return excuse(r, st);
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

/* The one in double precision runs here, the others where they are judged. */
static kiln_status open_shown(kiln_tune_turns *r, shown *s) {
    const kiln_module_runs here = {0};
    const bool is_first = !r->in_double.run.module && !r->base.run.module && !r->unchecked;
    if (!s->run.bytes.size) return KILN_OK;
    return kiln_module_runs_open(is_first ? &here : &r->runs, s->run.bytes, &s->run.module);
}

/* Each module comes by here: where they are judged, the one in double precision and the default
 * one; the tuned one, again without alternatives that made it too inexact; then variants of that.
 */
static kiln_status look(void *context, kiln_str bytes, kiln_strbuf *out_answer) {
    kiln_tune_turns *r = ((kiln_tune *)context)->turns;
    shown now = {0};
    const uint64_t start_ns = kiln_clock_ns();
    kiln_status st = take(r, bytes, &now);
    if (!st && r->tune->judges) st = open_shown(r, &now);
    if (!st && r->tune->judges && !r->base.run.module) {
        *(r->in_double.run.module || r->unchecked ? &r->base : &r->in_double) = now;
        return KILN_OK;
    }
    if (!st && !r->best.run.bytes.data) {
        if (r->base.run.module) st = check_error(r, &now, out_answer);
        if (!st && !out_answer->size) {
            r->best = now;
            now = (shown){0};
            if (r->base.run.module) st = judge_first(r);
        }
    } else if (!st) {
        st = judge_variant(r, &now);
    }
    drop(&now);
    if (!st && r->best.run.module) ask_for_more(r, out_answer);
    r->spent_ns += kiln_clock_ns() - start_ns;
    return st;
}

kiln_status kiln_tune_start_packer(kiln_tune *t) {
    kiln_target native;
    kiln_strbuf reason = {0};
    kiln_status st = kiln_target_native(t->process, &native);
    if (st) return st;
    const bool is_native = kiln_target_runs_on(&t->target, &native, &reason);
    const kiln_device_row *row = device_of(t);
    const bool has_device = row && row->kind != KILN_DEVICE_CPU; /* which the module opens */
    kiln_strbuf_deinit(&reason);
    const bool is_for_pages = t->target.arch == KILN_ARCH_WASM32; /* their files tell no steps */
    t->judges = !is_for_pages && (is_native || has_device || t->options->tracker);
    t->in_double = is_native ? t->target : native;
    t->packing = (kiln_model_work){.model = &t->model,
                                   .doing = "compiling",
                                   .run = pack_variants,
                                   .look = look,
                                   .context = t,
                                   .has_db = true};
    st = kiln_model_provenance(t->options->model, &t->options->dim, t->db_path, t->process,
                               &t->provenance);
    return st ? st : kiln_model_start(&t->packing, t->process, &t->packer);
}

/* ---- the report ------------------------------------------------------------------------------ */

/* `op`: of a task that the compilation does not have. */
static const char *label_of(const kiln_tune *t, kiln_str key, kiln_str op) {
    for (uint32_t i = 0; i < t->compilation->searched.count; i++)
        if (kiln_str_equal(t->compilation->searched.task[i].key, key))
            return kiln_task_label(&t->compilation->searched.task[i], t->process);
    return kiln_str_dup(t->process, op);
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
        json_array_append_new(rows,
                              json_pack("{s:o, s:s, s:f, s:f}", "tasks", tasks, "label",
                                        label_of(r->tune, g->task[0], g->task[0]), "default_ms",
                                        g->default_ns / 1e6, "tuned_ms", g->tuned_ns / 1e6));
    }
    return rows;
}

static json_t *accuracy_json(const kiln_tune_turns *r) {
    json_t *parts = json_array();
    for (uint32_t i = 0; i < r->inexact.count; i++) {
        const kiln_network_part *part = &r->inexact.data[i];
        json_array_append_new(
            parts, json_pack("{s:o, s:s, s:o, s:f}", "task", kiln_json_str(part->task), "label",
                             label_of(r->tune, part->task, part->op), "algorithm",
                             kiln_json_str(part->algorithm), "error", part->error));
    }
    return json_pack("{s:b, s:s, s:f, s:f, s:f, s:f, s:o, s:b}", "checked", !r->unchecked,
                     "why_not", r->unchecked ? r->unchecked : "", "error", r->error, "error_max",
                     kiln_accuracy_error_max(&r->tune->accuracy), "before", r->first_error,
                     "default_error", r->base_error, "taken_back", parts, "unnarrowed",
                     r->unnarrowed);
}

/* Of modules that were not run in turns. */
static void say_sums(const kiln_tune_turns *r, double default_ns, double tuned_ns) {
    const kiln_tune *t = r->tune;
    json_t *line =
        json_pack("{s:s, s:s, s:f, s:f, s:f, s:b}", "event", "module", "file", t->options->out,
                  "default_ms", default_ns / 1e6, "tuned_ms", tuned_ns / 1e6, "ratio",
                  tuned_ns > 0 ? default_ns / tuned_ns : 1.0, "tuned", true);
    if (t->judges) json_object_set_new(line, "accuracy", accuracy_json(r));
    if (t->judges) json_object_set_new(line, "untimed", json_string(r->untimed));
    kiln_events_result(t->events, line);
}

/* Whether the default module is out of the budget and the tuned one is closer to it. */
static bool base_is_inexact(const kiln_tune_turns *r) {
    return r->base_error > kiln_accuracy_error_max(&r->tune->accuracy) && r->error < r->base_error;
}

static void say_turns(const kiln_tune_turns *r, bool tuned) {
    const kiln_bench_pair *pair = &r->pair;
    kiln_events_result(
        r->tune->events,
        json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:b, s:o, s:i, s:f, s:f, s:o}", "event",
                  "module", "file", r->tune->options->out, "board",
                  r->runs.there ? r->runs.board.on : "", "default_ms", pair->a.median / 1e6,
                  "tuned_ms", pair->b.median / 1e6, "ratio", pair->ratio, "low", pair->low, "high",
                  pair->high, "tuned", tuned, "taken_back", taken_json(r), "variants",
                  (int)r->takeback.variants, "turns_s", (double)r->spent_ns / 1e9, "turns_share",
                  turns_share(r), "accuracy", accuracy_json(r)));
}

static void add_option(const char *name, const char *value, kiln_strbuf *out) {
    if (value) kiln_strbuf_printf(out, " --%s %s", name, value);
}

/* It was writable when the search began. What was measured is stored, so that the search is not
 * lost. */
static kiln_status write_module(const kiln_tune *t, kiln_str bytes) {
    const kiln_tune_options *o = t->options;
    if (t->bytes) kiln_strbuf_append(t->bytes, bytes.data, bytes.size);
    kiln_status st = t->bytes ? KILN_OK : kiln_file_write(o->out, bytes, KILN_MODULE_FILE_MODE);
    if (!st) return KILN_OK;
    kiln_strbuf command = {0};
    kiln_strbuf_printf(&command, "kiln compile %s", o->model);
    add_option("target", o->target_text, &command);
    if (o->threads) kiln_strbuf_printf(&command, " --threads %llu", (unsigned long long)o->threads);
    for (size_t i = 0; i < o->dim.count; i++) add_option("dim", o->dim.item[i], &command);
    add_option("precision", o->accuracy.precision, &command);
    add_option("accuracy", o->accuracy.error_max, &command);
    if (o->accuracy.exact) kiln_strbuf_text(&command, " --exact");
    if (o->import.loop_max)
        kiln_strbuf_printf(&command, " --loop-max %llu", (unsigned long long)o->import.loop_max);
    add_option("db", o->db, &command);
    st = kiln_status_note(st, "the records are kept, and this packs them once more: %s -o FILE",
                          command.data);
    kiln_strbuf_deinit(&command);
    return st;
}

/* The tuned schedules are shipped where the whole model is faster with them, or within the budget
 * of accuracy with none but them; which is known only of
 * this machine's target. */
static kiln_status ship(kiln_tune *t, kiln_db *db) {
    kiln_tune_turns *r = t->turns;
    const bool timed = r->base.run.module && !r->untimed;
    const bool tuned = !timed || r->pair.low > 1 || base_is_inexact(r);
    double default_ns = 0, tuned_ns = 0;
    const shown *shipped = tuned ? &r->best : &r->base;
    kiln_status st = write_module(t, shipped->run.bytes);
    if (!tuned) r->error = r->base_error;
    if (!st && tuned && r->is_checked && r->takeback.taken.count)
        st = excuse(r, find_error(r, shipped, &r->error));
    if (!st && !timed) st = kiln_tune_sum_kernels(t, db, &default_ns, &tuned_ns);
    if (st) return st;
    if (timed)
        say_turns(r, tuned);
    else
        say_sums(r, default_ns, tuned_ns);
    return KILN_OK;
}

kiln_status kiln_tune_pack(kiln_tune *t) {
    kiln_db *db = NULL;
    kiln_mapping nothing = {0};
    const kiln_tune_options *o = t->options;
    kiln_tune_turns turns = {.tune = t};
    kiln_arena_init(&turns.arena, 0);
    turns.runs = (kiln_module_runs){.there = o->tracker,
                                    .emulated = !o->tracker && t->target.emulated,
                                    .board = {.client = {.tracker = o->tracker,
                                                         .key_file = o->key_file,
                                                         .person = o->person,
                                                         .insecure = o->insecure,
                                                         .waits = kiln_events_waits,
                                                         .waits_context = t->events},
                                              .on = o->on,
                                              .name = o->out,
                                              .wait_s = BOARD_WAIT_S},
                                    .arena = &turns.arena};
    kiln_takeback_init(&turns.takeback, &turns.arena);
    t->turns = &turns;
    t->packing.judged = t->stopped;
    kiln_status st = kiln_db_open(t->db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) st = kiln_model_finish(&t->packer, db, &nothing);
    kiln_file_unmap(&nothing);
    if (!st) st = ship(t, db);
    drop(&turns.best);
    drop(&turns.base);
    drop(&turns.in_double);
    kiln_arena_deinit(&turns.arena);
    kiln_db_close(db);
    t->turns = NULL;
    return st;
}
