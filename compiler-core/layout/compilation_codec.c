/* Bytes of compilations: a msgpack map with the keys below, ascending. Tasks of the plan come
 * first, then the other searched tasks; searched tasks refer to them by index. Steps are not
 * written: the graph gives the same ones each time. Nor are the joins: the graph's groups are those
 * of the chosen plan. */
#include "base/mpack.h"
#include "compiler-core/graph/graph_codec.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/layout/compilation.h"

/* The walks below write a compilation, which they do not change, or read one. */
typedef struct codec {
    kiln_mpack_coder m;
    kiln_compilation *c;
    kiln_arena *arena;
    uint32_t task_count; /* those included that the plan does not have */
    kiln_task *task;
    uint32_t *way; /* [steps of the plan] */
} codec;

static bool writes(const codec *k) { return k->m.out != NULL; }

static uint32_t arg_count_of(const kiln_program *te) { return kiln_program_args(te).count; }

/* Takes the text when writing; gives a view when reading. */
static kiln_str code_text(codec *k, kiln_strbuf *text) {
    kiln_str view = kiln_strbuf_view(text);
    kiln_mpack_code_str(&k->m, &view);
    kiln_strbuf_deinit(text);
    return view;
}

/* Layouts of all arguments of `te`; NULL where the text is empty, which only `may_be_free` allows.
 */
static void code_layouts(codec *k, const kiln_program *te, bool may_be_free,
                         const kiln_layout **layout) {
    kiln_arg_buffers arg = kiln_program_args(te);
    kiln_mpack_code_fields(&k->m, arg.count);
    for (uint32_t i = 0; !k->m.st && i < arg.count; i++) {
        kiln_strbuf printed = {0};
        if (layout[i]) kiln_layout_print(layout[i], &printed);
        kiln_str text = code_text(k, &printed);
        if (writes(k) || k->m.st || (may_be_free && !text.size)) continue;
        kiln_layout *read = KILN_ARENA_NEW(k->arena, kiln_layout);
        k->m.st = kiln_layout_parse(text, te->buffer.data[arg.buffer[i]].shape.rank, read);
        layout[i] = read;
    }
}

/* [trace, [layouts], cost, median, is_default] */
static void code_way(codec *k, const kiln_task *task, kiln_way *way) {
    uint32_t count = arg_count_of(task->te);
    const kiln_layout **layout = KILN_ARENA_ARRAY(k->arena, const kiln_layout *, count);
    for (uint32_t i = 0; way->layout && i < count; i++) layout[i] = &way->layout[i];
    kiln_mpack_code_fields(&k->m, 5);
    kiln_mpack_code_bin(&k->m, &way->trace);
    code_layouts(k, task->te, false, layout);
    kiln_mpack_code_f64(&k->m, &way->cost_ns);
    kiln_mpack_code_f64(&k->m, &way->median_ns);
    kiln_mpack_code_bool(&k->m, &way->is_default);
    if (writes(k) || k->m.st) return;
    way->layout = KILN_ARENA_ARRAY(k->arena, kiln_layout, count);
    for (uint32_t i = 0; i < count; i++) way->layout[i] = *layout[i];
}

static void code_te(codec *k, kiln_task *task) {
    kiln_strbuf printed = {0};
    if (writes(k)) kiln_program_print(task->te, &printed);
    kiln_str text = code_text(k, &printed);
    if (!writes(k) && !k->m.st) k->m.st = kiln_program_parse(text, k->arena, &task->te);
}

/* A task that was read has the key of its expression, and those of the plan are the graph's. */
static void check_task(codec *k, uint32_t index) {
    kiln_task *task = &k->task[index];
    const kiln_tasks *plan = &k->c->plan.tasks;
    bool known = k->c->graph && index < plan->count;
    if (!kiln_str_equal(kiln_task_key(task->te, k->arena), task->key))
        k->m.st =
            KILN_ERROR(DATA_LOSS, "%.*s is not the key of its expression", KILN_STR_ARG(task->key));
    else if (known && !kiln_str_equal(task->key, plan->task[index].key))
        k->m.st = KILN_ERROR(DATA_LOSS, "%.*s is not of its graph", KILN_STR_ARG(task->key));
    else if (known)
        *task = plan->task[index];
}

/* [key, op, expression, flops, weight, ways] */
static void code_task(codec *k, uint32_t index) {
    kiln_task *task = &k->task[index];
    kiln_ways none = {0}, *list = index < k->c->plan.tasks.count ? &k->c->list[index] : &none;
    uint32_t ways = list->way.count;
    kiln_mpack_code_fields(&k->m, 6);
    kiln_mpack_code_str(&k->m, &task->key);
    kiln_mpack_code_str(&k->m, &task->op);
    code_te(k, task);
    kiln_mpack_code_f64(&k->m, &task->flops);
    kiln_mpack_code_f64(&k->m, &task->weight);
    if (!writes(k) && !k->m.st) check_task(k, index);
    kiln_mpack_code_count(&k->m, list == &none ? 0 : KILN_WAYS_MAX, "ways", &ways);
    for (uint32_t i = 0; !k->m.st && i < ways; i++) {
        kiln_way way = writes(k) ? list->way.data[i] : (kiln_way){0};
        code_way(k, task, &way);
        k->m.st = kiln_status_note(k->m.st, "way %u", i);
        if (!writes(k) && !k->m.st) kiln_vec_push_in(k->arena, &list->way, way);
    }
    k->m.st = kiln_status_note(k->m.st, "task %u", index);
}

static void code_tasks(codec *k) {
    kiln_compilation *c = k->c;
    kiln_mpack_code_count(&k->m, KILN_COMPILATION_TASKS_MAX, "tasks", &k->task_count);
    if (!k->m.st && k->task_count < c->plan.tasks.count)
        k->m.st =
            KILN_ERROR(DATA_LOSS, "%u tasks; the plan has %u", k->task_count, c->plan.tasks.count);
    if (!writes(k) && !k->m.st) {
        k->task = KILN_ARENA_ARRAY(k->arena, kiln_task, k->task_count);
        if (!c->graph) c->plan.tasks.task = k->task;
        c->list = KILN_ARENA_ARRAY(k->arena, kiln_ways, c->plan.tasks.count);
    }
    for (uint32_t i = 0; !k->m.st && i < k->task_count; i++) code_task(k, i);
}

/* [steps of the plan] which way was chosen; empty without a graph. */
static void code_choice(codec *k, bool with_graph) {
    const kiln_plan *plan = &k->c->plan;
    uint32_t count = with_graph ? plan->step_count : 0;
    kiln_mpack_code_fields(&k->m, count);
    for (uint32_t s = 0; !k->m.st && s < count; s++) {
        bool kernel = plan->step[s].kind == KILN_STEP_KERNEL;
        uint32_t limit = kernel ? k->c->list[plan->step[s].task].way.count : 1;
        kiln_mpack_code_below(&k->m, limit, &k->way[s]);
        k->m.st = kiln_status_note(k->m.st, "the way of step %u", s);
    }
}

/* Of a searched task among all. */
static uint32_t place_of(const codec *k, const kiln_program *te) {
    uint32_t place = 0;
    while (k->task[place].te != te) place++;
    return place;
}

/* [task, [layouts; "" where nothing is agreed]] */
static void code_searched(codec *k) {
    kiln_tasks *searched = &k->c->searched;
    kiln_mpack_code_count(&k->m, k->task_count, "searched tasks", &searched->count);
    if (!writes(k) && !k->m.st) {
        searched->task = KILN_ARENA_ARRAY(k->arena, kiln_task, searched->count);
        k->c->agreed = KILN_ARENA_ARRAY(k->arena, const kiln_layout **, searched->count);
    }
    for (uint32_t i = 0; !k->m.st && i < searched->count; i++) {
        uint32_t place = writes(k) ? place_of(k, searched->task[i].te) : 0;
        kiln_mpack_code_fields(&k->m, 2);
        kiln_mpack_code_below(&k->m, k->task_count, &place);
        if (k->m.st) return;
        const kiln_program *te = k->task[place].te;
        if (!writes(k)) {
            searched->task[i] = k->task[place];
            k->c->agreed[i] = KILN_ARENA_ARRAY(k->arena, const kiln_layout *, arg_count_of(te));
        }
        code_layouts(k, te, true, k->c->agreed[i]);
        k->m.st = kiln_status_note(k->m.st, "searched task %u", i);
    }
}

static void code_version(codec *k) {
    uint64_t version = KILN_COMPILATION_VERSION;
    kiln_mpack_code_u64(&k->m, &version);
    if (!k->m.st && version != KILN_COMPILATION_VERSION)
        k->m.st =
            KILN_ERROR(UNIMPLEMENTED, "they are of version %llu; this program reads version %u",
                       (unsigned long long)version, KILN_COMPILATION_VERSION);
}

static void code_target(codec *k) {
    kiln_strbuf printed = {0};
    if (writes(k)) kiln_target_print(&k->c->target, &printed);
    kiln_str text = code_text(k, &printed);
    if (!writes(k) && !k->m.st) k->m.st = kiln_target_parse(text, k->arena, &k->c->target);
}

/* Canonical bytes; nil: left out. */
static void write_graph(const kiln_graph *graph, kiln_strbuf *out) {
    kiln_arena scratch;
    kiln_strbuf whole = {0};
    if (!graph) {
        kiln_mpack_write_nil(out);
        return;
    }
    kiln_arena_init(&scratch, 0);
    kiln_graph_bytes bytes = kiln_graph_encode(graph, &scratch);
    for (uint32_t i = 0; i < bytes.part_count; i++) kiln_strbuf_str(&whole, bytes.part[i]);
    kiln_mpack_write_bin(out, whole.data, whole.size);
    kiln_strbuf_deinit(&whole);
    kiln_arena_deinit(&scratch);
}

static kiln_status read_graph(codec *k) {
    kiln_str bytes = {0};
    if (kiln_mpack_peek(&k->m.in) == KILN_MPACK_NIL) return kiln_mpack_skip(&k->m.in);
    kiln_status st = kiln_mpack_read_bin(&k->m.in, &bytes);
    if (!st) st = kiln_graph_decode(bytes, k->arena, &k->c->graph);
    if (!st) st = kiln_plan_create(k->c->graph, k->arena, &k->c->plan);
    if (!st) k->way = KILN_ARENA_ARRAY(k->arena, uint32_t, k->c->plan.step_count);
    return st;
}

/* The number of tasks that are the plan's: those of the graph, if it is included. */
static void code_plan_tasks(codec *k) {
    uint32_t count = k->c->plan.tasks.count;
    kiln_mpack_code_below(&k->m, KILN_COMPILATION_TASKS_MAX + 1, &count);
    if (!k->m.st && k->c->graph && count != k->c->plan.tasks.count)
        k->m.st =
            KILN_ERROR(DATA_LOSS, "%u tasks; its graph has %u", count, k->c->plan.tasks.count);
    if (!k->m.st) k->c->plan.tasks.count = count;
}

/* Whether values may lie inside of others. */
static void code_windows(codec *k) {
    bool on = !k->c->no_windows;
    kiln_mpack_code_bool(&k->m, &on);
    k->c->no_windows = !on;
}

/* [[task, [tasks that it replaces], times]] */
static void code_alternatives(codec *k) {
    kiln_compilation *c = k->c;
    kiln_mpack_code_count(&k->m, c->searched.count, "alternatives", &c->alternative_count);
    if (!writes(k) && !k->m.st)
        c->alternative = KILN_ARENA_ARRAY(k->arena, kiln_alternative, c->alternative_count);
    for (uint32_t i = 0; !k->m.st && i < c->alternative_count; i++) {
        kiln_alternative *of = &c->alternative[i];
        kiln_mpack_code_fields(&k->m, 3);
        kiln_mpack_code_below(&k->m, c->searched.count, &of->task);
        kiln_mpack_code_count(&k->m, KILN_ROW_STEPS_MAX, "tasks in a row", &of->count);
        for (uint32_t n = 0; !k->m.st && n < of->count; n++)
            kiln_mpack_code_below(&k->m, c->searched.count, &of->instead_of[n]);
        kiln_mpack_code_f64(&k->m, &of->times);
        k->m.st = kiln_status_note(k->m.st, "alternative %u", i);
    }
}

/* The last ones are left out where they are empty. */
enum { PARTS_LEAST = 8, PARTS = 10 };

static uint32_t part_count(const kiln_compilation *c) {
    if (c->alternative_count) return PARTS;
    return kiln_figures_is_empty(&c->target.calibration) ? PARTS_LEAST : PARTS_LEAST + 1;
}

/* The calibration that schedules were chosen by. */
static void code_calibration(codec *k) {
    kiln_figures calibration = k->c->target.calibration;
    kiln_figures_code(&k->m, &calibration);
    if (!writes(k) && !k->m.st) kiln_target_calibrate(&k->c->target, &calibration);
}

static void code_part(codec *k, uint64_t key) {
    switch (key) {
    case 1: code_version(k); break;
    case 2: code_target(k); break;
    case 3:
        if (writes(k))
            write_graph(k->c->graph, k->m.out);
        else
            k->m.st = read_graph(k);
        break;
    case 4: code_plan_tasks(k); break;
    case 5: code_tasks(k); break;
    case 6: code_choice(k, k->c->graph != NULL); break;
    case 7: code_windows(k); break;
    case 8: code_searched(k); break;
    case 9: code_calibration(k); break;
    default: code_alternatives(k);
    }
}

static void code_parts(codec *k, uint32_t count) {
    for (uint64_t key = 1; !k->m.st && key <= count; key++) {
        uint64_t found = key;
        kiln_mpack_code_u64(&k->m, &found);
        if (!k->m.st && found != key)
            k->m.st = KILN_ERROR(DATA_LOSS, "part %llu instead of %u", (unsigned long long)found,
                                 (unsigned)key);
        if (!k->m.st) code_part(k, key);
    }
}

/* The plan's tasks, then the others among those that are searched. */
static void list_tasks(codec *k) {
    const kiln_tasks *plan = &k->c->plan.tasks, *searched = &k->c->searched;
    k->task = KILN_ARENA_ARRAY(k->arena, kiln_task, plan->count + searched->count);
    for (uint32_t t = 0; t < plan->count; t++) k->task[k->task_count++] = plan->task[t];
    for (uint32_t i = 0; i < searched->count; i++) {
        bool planned = false;
        for (uint32_t t = 0; t < plan->count; t++)
            planned |= plan->task[t].te == searched->task[i].te;
        if (!planned) k->task[k->task_count++] = searched->task[i];
    }
}

void kiln_compilation_encode(const kiln_compilation *compilation, bool with_graph,
                             kiln_strbuf *out) {
    kiln_arena scratch;
    kiln_compilation c = *compilation;
    kiln_arena_init(&scratch, 0);
    codec k = {.m = {.out = out}, .c = &c, .arena = &scratch};
    if (!with_graph) c.graph = NULL;
    k.way = KILN_ARENA_ARRAY(&scratch, uint32_t, c.plan.step_count);
    for (uint32_t s = 0; s < c.plan.step_count; s++)
        if (c.way[s]) k.way[s] = (uint32_t)(c.way[s] - c.list[c.plan.step[s].task].way.data);
    list_tasks(&k);
    kiln_mpack_write_map(out, part_count(&c));
    code_parts(&k, part_count(&c));
    kiln_arena_deinit(&scratch);
}

static kiln_status decode(kiln_str bytes, kiln_arena *arena, kiln_compilation **out_compilation) {
    codec k = {.c = KILN_ARENA_NEW(arena, kiln_compilation), .arena = arena};
    uint32_t parts = 0;
    k.c->arena = arena;
    kiln_mpack_reader_init(&k.m.in, bytes.data, bytes.size);
    k.m.st = kiln_mpack_read_map(&k.m.in, &parts);
    if (!k.m.st && (parts < PARTS_LEAST || parts > PARTS))
        k.m.st = KILN_ERROR(DATA_LOSS, "%u parts", parts);
    code_parts(&k, parts);
    if (!k.m.st && kiln_mpack_peek(&k.m.in) != KILN_MPACK_END)
        k.m.st = KILN_ERROR(DATA_LOSS, "bytes behind their end");
    if (k.m.st) return k.m.st;
    kiln_compilation_use(k.c, k.way);
    *out_compilation = k.c;
    return KILN_OK;
}

kiln_status kiln_compilation_decode(kiln_str bytes, kiln_arena *arena,
                                    kiln_compilation **out_compilation) {
    return kiln_status_note(decode(bytes, arena, out_compilation),
                            "reading the bytes of a compilation");
}
