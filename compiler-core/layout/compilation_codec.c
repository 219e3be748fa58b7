/* Bytes of compilations: a msgpack map with the keys below, ascending. Tasks of the plan stand
 * first, then those of conversions; searched tasks name them by their place. Steps are
 * not written: the graph gives the same ones each time. */
#include "base/mpack.h"
#include "compiler-core/graph/graph_codec.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/layout/compilation.h"

enum {
    KEY_VERSION = 1,
    KEY_TARGET,
    KEY_GRAPH,      /* canonical bytes; nil: left out */
    KEY_PLAN_TASKS, /* how many of the tasks are the plan's */
    KEY_TASKS,      /* [key, op, expression, flops, weight, ways]; */
                    /* a way: [trace, [layouts], cost, median, is_default] */
    KEY_WAYS,       /* [steps of the plan] which way was chosen; empty without a graph */
    KEY_WINDOWS,    /* whether values may lie inside of others */
    KEY_SEARCHED,   /* [task, [layouts; "" where nothing is agreed]] */
    KEY_END
};

/* ---- writing --------------------------------------------------------------------------------- */

static void write_layout(const kiln_layout *layout, kiln_strbuf *out) {
    kiln_strbuf text = {0};
    if (layout) kiln_layout_print(layout, &text);
    kiln_mpack_write_str(out, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
}

static uint32_t arg_count_of(const kiln_program *te) { return kiln_program_args(te).count; }

static void write_way(const kiln_way *way, uint32_t arg_count, kiln_strbuf *out) {
    kiln_mpack_write_array(out, 5);
    kiln_mpack_write_bin(out, way->trace.data, way->trace.size);
    kiln_mpack_write_array(out, arg_count);
    for (uint32_t i = 0; i < arg_count; i++) write_layout(&way->layout[i], out);
    kiln_mpack_write_f64(out, way->cost_ns);
    kiln_mpack_write_f64(out, way->median_ns);
    kiln_mpack_write_bool(out, way->is_default);
}

static void write_task(const kiln_task *task, const kiln_ways *list, kiln_strbuf *out) {
    kiln_strbuf te = {0};
    kiln_program_print(task->te, &te);
    kiln_mpack_write_array(out, 6);
    kiln_mpack_write_str(out, task->key);
    kiln_mpack_write_str(out, task->op);
    kiln_mpack_write_str(out, kiln_strbuf_view(&te));
    kiln_mpack_write_f64(out, task->flops);
    kiln_mpack_write_f64(out, task->weight);
    kiln_mpack_write_array(out, list ? list->way.count : 0);
    for (uint32_t i = 0; list && i < list->way.count; i++)
        write_way(&list->way.data[i], arg_count_of(task->te), out);
    kiln_strbuf_deinit(&te);
}

/* Place of a searched task among all; conversions follow those of the plan. */
static uint32_t place_of(const kiln_compilation *c, uint32_t searched, uint32_t *conversions) {
    for (uint32_t t = 0; t < c->plan.tasks.count; t++)
        if (c->plan.tasks.task[t].te == c->searched.task[searched].te) return t;
    return c->plan.tasks.count + (*conversions)++;
}

static void write_ways(const kiln_compilation *c, bool with_graph, kiln_strbuf *out) {
    uint32_t count = with_graph ? c->plan.step_count : 0;
    kiln_mpack_write_array(out, count);
    for (uint32_t s = 0; s < count; s++)
        kiln_mpack_write_u64(out,
                             c->way[s] ? c->way[s] - c->list[c->plan.step[s].task].way.data : 0);
}

static void write_searched(const kiln_compilation *c, kiln_strbuf *out) {
    uint32_t conversions = 0;
    kiln_mpack_write_array(out, c->searched.count);
    for (uint32_t i = 0; i < c->searched.count; i++) {
        uint32_t arg_count = arg_count_of(c->searched.task[i].te);
        kiln_mpack_write_array(out, 2);
        kiln_mpack_write_u64(out, place_of(c, i, &conversions));
        kiln_mpack_write_array(out, arg_count);
        for (uint32_t k = 0; k < arg_count; k++) write_layout(c->agreed[i][k], out);
    }
}

static void write_tasks(const kiln_compilation *c, kiln_strbuf *out) {
    uint32_t conversions = 0;
    for (uint32_t i = 0; i < c->searched.count; i++) place_of(c, i, &conversions);
    kiln_mpack_write_array(out, c->plan.tasks.count + conversions);
    for (uint32_t t = 0; t < c->plan.tasks.count; t++)
        write_task(&c->plan.tasks.task[t], &c->list[t], out);
    conversions = 0;
    for (uint32_t i = 0; i < c->searched.count; i++)
        if (place_of(c, i, &conversions) >= c->plan.tasks.count)
            write_task(&c->searched.task[i], NULL, out);
}

static void write_graph(const kiln_graph *graph, kiln_strbuf *out) {
    kiln_arena scratch;
    kiln_strbuf whole = {0};
    kiln_arena_init(&scratch, 0);
    kiln_graph_bytes bytes = kiln_graph_encode(graph, &scratch);
    for (uint32_t i = 0; i < bytes.part_count; i++) kiln_strbuf_str(&whole, bytes.part[i]);
    kiln_mpack_write_bin(out, whole.data, whole.size);
    kiln_strbuf_deinit(&whole);
    kiln_arena_deinit(&scratch);
}

void kiln_compilation_encode(const kiln_compilation *c, bool with_graph, kiln_strbuf *out) {
    kiln_strbuf target = {0};
    kiln_target_print(&c->target, &target);
    kiln_mpack_write_map(out, KEY_END - 1);
    kiln_mpack_write_u64(out, KEY_VERSION);
    kiln_mpack_write_u64(out, KILN_COMPILATION_VERSION);
    kiln_mpack_write_u64(out, KEY_TARGET);
    kiln_mpack_write_str(out, kiln_strbuf_view(&target));
    kiln_mpack_write_u64(out, KEY_GRAPH);
    if (with_graph)
        write_graph(c->graph, out);
    else
        kiln_mpack_write_nil(out);
    kiln_mpack_write_u64(out, KEY_PLAN_TASKS);
    kiln_mpack_write_u64(out, c->plan.tasks.count);
    kiln_mpack_write_u64(out, KEY_TASKS);
    write_tasks(c, out);
    kiln_mpack_write_u64(out, KEY_WAYS);
    write_ways(c, with_graph, out);
    kiln_mpack_write_u64(out, KEY_WINDOWS);
    kiln_mpack_write_bool(out, !c->no_windows);
    kiln_mpack_write_u64(out, KEY_SEARCHED);
    write_searched(c, out);
    kiln_strbuf_deinit(&target);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    kiln_mpack_reader r;
    kiln_compilation *c;
    uint32_t task_count; /* conversions included */
    kiln_task *task;
    uint32_t *way; /* [steps] */
} reader;

static kiln_status read_below(reader *d, uint64_t limit, uint32_t *out_value) {
    uint64_t value = 0;
    kiln_status st = kiln_mpack_read_below(&d->r, limit, &value);
    if (!st) *out_value = (uint32_t)value;
    return st;
}

/* Layouts of all arguments of `te`; NULL where the text is empty, which only `may_be_free` allows.
 */
static kiln_status read_layouts(reader *d, const kiln_program *te, bool may_be_free,
                                const kiln_layout **out_layout) {
    kiln_arg_buffers arg = kiln_program_args(te);
    kiln_status st = kiln_mpack_read_array_of(&d->r, arg.count);
    for (uint32_t i = 0; !st && i < arg.count; i++) {
        kiln_str text = {0};
        kiln_layout *layout = KILN_ARENA_NEW(d->c->arena, kiln_layout);
        st = kiln_mpack_read_str(&d->r, &text);
        if (st || (may_be_free && !text.size)) continue;
        st = kiln_layout_parse(text, te->buffer.data[arg.buffer[i]].shape.rank, layout);
        out_layout[i] = layout;
    }
    return st;
}

static kiln_status read_way(reader *d, const kiln_task *task, kiln_way *way) {
    uint32_t count = arg_count_of(task->te);
    const kiln_layout **layout = KILN_ARENA_ARRAY(d->c->arena, const kiln_layout *, count);
    kiln_status st = kiln_mpack_read_array_of(&d->r, 5);
    if (!st) st = kiln_mpack_read_bin(&d->r, &way->trace);
    if (!st) st = read_layouts(d, task->te, false, layout);
    if (!st) st = kiln_mpack_read_f64(&d->r, &way->cost_ns);
    if (!st) st = kiln_mpack_read_f64(&d->r, &way->median_ns);
    if (!st) st = kiln_mpack_read_bool(&d->r, &way->is_default);
    if (st) return st;
    way->layout = KILN_ARENA_ARRAY(d->c->arena, kiln_layout, count);
    for (uint32_t i = 0; i < count; i++) way->layout[i] = *layout[i];
    return KILN_OK;
}

static kiln_status read_task(reader *d, uint32_t index) {
    kiln_task *task = &d->task[index];
    kiln_str te = {0};
    uint32_t ways = 0;
    kiln_status st = kiln_mpack_read_array_of(&d->r, 6);
    if (!st) st = kiln_mpack_read_str(&d->r, &task->key);
    if (!st) st = kiln_mpack_read_str(&d->r, &task->op);
    if (!st) st = kiln_mpack_read_str(&d->r, &te);
    if (!st) st = kiln_mpack_read_f64(&d->r, &task->flops);
    if (!st) st = kiln_mpack_read_f64(&d->r, &task->weight);
    if (!st) st = kiln_program_parse(te, d->c->arena, &task->te);
    if (!st && !kiln_str_equal(kiln_task_key(task->te, d->c->arena), task->key))
        st =
            KILN_ERROR(DATA_LOSS, "%.*s is not the key of its expression", KILN_STR_ARG(task->key));
    const kiln_tasks *plan = &d->c->plan.tasks;
    bool planned = index < plan->count;
    if (!st && planned && d->c->graph && !kiln_str_equal(task->key, plan->task[index].key))
        st = KILN_ERROR(DATA_LOSS, "%.*s is not of its graph", KILN_STR_ARG(task->key));
    if (!st && planned && d->c->graph) *task = plan->task[index];
    uint32_t most = planned ? KILN_WAYS_MAX : 0;
    if (!st) st = kiln_mpack_read_count(&d->r, most, "ways", &ways);
    for (uint32_t i = 0; !st && i < ways; i++) {
        kiln_way way = {0};
        st = kiln_status_note(read_way(d, task, &way), "way %u", i);
        if (!st) kiln_vec_push_in(d->c->arena, &d->c->list[index].way, way);
    }
    return kiln_status_note(st, "task %u", index);
}

static kiln_status read_tasks(reader *d) {
    kiln_compilation *c = d->c;
    kiln_status st =
        kiln_mpack_read_count(&d->r, KILN_COMPILATION_TASKS_MAX, "tasks", &d->task_count);
    if (!st && d->task_count < c->plan.tasks.count)
        st = KILN_ERROR(DATA_LOSS, "%u tasks; the plan has %u", d->task_count, c->plan.tasks.count);
    if (st) return st;
    d->task = KILN_ARENA_ARRAY(c->arena, kiln_task, d->task_count);
    if (!c->graph) c->plan.tasks.task = d->task;
    c->list = KILN_ARENA_ARRAY(c->arena, kiln_ways, c->plan.tasks.count);
    for (uint32_t i = 0; !st && i < d->task_count; i++) st = read_task(d, i);
    return st;
}

static kiln_status read_ways(reader *d) {
    kiln_compilation *c = d->c;
    kiln_status st = kiln_mpack_read_array_of(&d->r, c->plan.step_count);
    d->way = KILN_ARENA_ARRAY(c->arena, uint32_t, c->plan.step_count);
    for (uint32_t s = 0; !st && s < c->plan.step_count; s++) {
        const kiln_step *step = &c->plan.step[s];
        bool kernel = step->kind == KILN_STEP_KERNEL;
        st = kiln_status_note(read_below(d, kernel ? c->list[step->task].way.count : 1, &d->way[s]),
                              "the way of step %u", s);
    }
    return st;
}

static kiln_status read_searched(reader *d) {
    kiln_compilation *c = d->c;
    kiln_status st =
        kiln_mpack_read_count(&d->r, d->task_count, "searched tasks", &c->searched.count);
    if (st) return st;
    c->searched.task = KILN_ARENA_ARRAY(c->arena, kiln_task, c->searched.count);
    c->agreed = KILN_ARENA_ARRAY(c->arena, const kiln_layout **, c->searched.count);
    for (uint32_t i = 0; !st && i < c->searched.count; i++) {
        uint32_t task = 0;
        st = kiln_mpack_read_array_of(&d->r, 2);
        if (!st) st = read_below(d, d->task_count, &task);
        if (st) break;
        const kiln_program *te = d->task[task].te;
        c->searched.task[i] = d->task[task];
        c->agreed[i] = KILN_ARENA_ARRAY(c->arena, const kiln_layout *, arg_count_of(te));
        st = kiln_status_note(read_layouts(d, te, true, c->agreed[i]), "searched task %u", i);
    }
    return st;
}

static kiln_status read_version(reader *d) {
    uint64_t version = 0;
    kiln_status st = kiln_mpack_read_u64(&d->r, &version);
    if (!st && version != KILN_COMPILATION_VERSION)
        st = KILN_ERROR(UNIMPLEMENTED, "they are of version %llu; this program reads version %u",
                        (unsigned long long)version, KILN_COMPILATION_VERSION);
    return st;
}

static kiln_status read_target(reader *d) {
    kiln_str text = {0};
    kiln_status st = kiln_mpack_read_str(&d->r, &text);
    return st ? st : kiln_target_parse(text, d->c->arena, &d->c->target);
}

static kiln_status read_graph(reader *d) {
    kiln_str bytes = {0};
    if (kiln_mpack_peek(&d->r) == KILN_MPACK_NIL) return kiln_mpack_skip(&d->r);
    kiln_status st = kiln_mpack_read_bin(&d->r, &bytes);
    if (!st) st = kiln_graph_decode(bytes, d->c->arena, &d->c->graph);
    return st ? st : kiln_plan_create(d->c->graph, d->c->arena, &d->c->plan);
}

/* As many as the graph has, where it is there. */
static kiln_status read_plan_tasks(reader *d) {
    uint32_t count = 0;
    kiln_status st = read_below(d, KILN_COMPILATION_TASKS_MAX + 1, &count);
    if (!st && d->c->graph && count != d->c->plan.tasks.count)
        st = KILN_ERROR(DATA_LOSS, "%u tasks; its graph has %u", count, d->c->plan.tasks.count);
    if (!st) d->c->plan.tasks.count = count;
    return st;
}

static kiln_status read_windows(reader *d) {
    bool on = false;
    kiln_status st = kiln_mpack_read_bool(&d->r, &on);
    d->c->no_windows = !on;
    return st;
}

static kiln_status read_field(reader *d, uint32_t key) {
    switch (key) {
    case KEY_VERSION: return read_version(d);
    case KEY_TARGET: return read_target(d);
    case KEY_GRAPH: return read_graph(d);
    case KEY_PLAN_TASKS: return read_plan_tasks(d);
    case KEY_TASKS: return read_tasks(d);
    case KEY_WAYS: return read_ways(d);
    case KEY_WINDOWS: return read_windows(d);
    default: return read_searched(d);
    }
}

static kiln_status decode(kiln_str bytes, kiln_arena *arena, kiln_compilation **out_compilation) {
    reader d = {.c = KILN_ARENA_NEW(arena, kiln_compilation)};
    uint32_t fields = 0;
    d.c->arena = arena;
    kiln_mpack_reader_init(&d.r, bytes.data, bytes.size);
    kiln_status st = kiln_mpack_read_map(&d.r, &fields);
    if (!st && fields != KEY_END - 1) st = KILN_ERROR(DATA_LOSS, "%u parts", fields);
    for (uint32_t key = 1; !st && key < KEY_END; key++) {
        uint64_t found = 0;
        st = kiln_mpack_read_u64(&d.r, &found);
        if (!st && found != key)
            st = KILN_ERROR(DATA_LOSS, "part %llu instead of %u", (unsigned long long)found, key);
        if (!st) st = read_field(&d, key);
    }
    if (!st && kiln_mpack_peek(&d.r) != KILN_MPACK_END)
        st = KILN_ERROR(DATA_LOSS, "bytes behind their end");
    if (st) return st;
    kiln_compilation_use(d.c, d.way);
    *out_compilation = d.c;
    return KILN_OK;
}

kiln_status kiln_compilation_decode(kiln_str bytes, kiln_arena *arena,
                                    kiln_compilation **out_compilation) {
    return kiln_status_note(decode(bytes, arena, out_compilation),
                            "reading the bytes of a compilation");
}
