#include "compiler-core/layout/compilation.h"

#include "base/map.h"
#include "base/reference.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/layout/assign.h"
#include "compiler-core/layout/convert.h"
#include "compiler-core/passes/pass.h"

static const kiln_layout row;

kiln_status kiln_compilation_create(kiln_graph *graph, const kiln_target *target, kiln_arena *arena,
                                    kiln_compilation **out_compilation) {
    kiln_compilation *c = KILN_ARENA_NEW(arena, kiln_compilation);
    *c = (kiln_compilation){.arena = arena, .graph = graph, .target = *target};
    kiln_status st = kiln_plan_create(graph, arena, &c->plan);
    if (!st) *out_compilation = c;
    return st;
}

/* ---- the choice ------------------------------------------------------------------------------ */

typedef struct chooser {
    const kiln_compilation *c;
    const kiln_choice *choice;
} chooser;

static double conversion_ns(void *context, kiln_value value, const kiln_layout *from,
                            const kiln_layout *to) {
    const chooser *ch = context;
    const kiln_value_info *info = &ch->c->graph->value.data[value];
    if (ch->choice->conversion_ns)
        return ch->choice->conversion_ns(ch->choice->context, info, from, to);
    return kiln_conversion_estimate_ns(info->dtype, &info->shape, from, to);
}

static kiln_status find_ways(kiln_compilation *c, const kiln_choice *choice) {
    kiln_status st = KILN_OK;
    c->list = KILN_ARENA_ARRAY(c->arena, kiln_ways, c->plan.tasks.count);
    for (uint32_t t = 0; !st && choice->measured && t < c->plan.tasks.count; t++)
        st = choice->measured(choice->context, &c->plan.tasks.task[t], c->arena, &c->list[t]);
    if (st) return st;
    const kiln_ways_maker maker = {&c->target, choice->accuracy, choice->compact, c->arena};
    st = choice->row_major || choice->apart
             ? kiln_ways_make_row_major(&c->plan, &maker, !choice->row_major, c->list)
             : kiln_ways_add_defaults(&c->plan, &maker, c->list);
    if (!st && !choice->no_windows) kiln_ways_free_windows(&c->plan, c->arena, c->list);
    return st;
}

void kiln_compilation_use(kiln_compilation *c, const uint32_t *way) {
    const kiln_assignment assignment = {.graph = c->graph, .plan = &c->plan, .list = c->list};
    c->way = KILN_ARENA_ARRAY(c->arena, const kiln_way *, c->plan.step_count);
    for (uint32_t s = 0; s < c->plan.step_count; s++)
        if (c->plan.step[s].kind == KILN_STEP_KERNEL)
            c->way[s] = &c->list[c->plan.step[s].task].way.data[way[s]];
    if (!c->graph) return;
    const kiln_value_info *value = c->graph->value.data;
    c->layout = KILN_ARENA_ARRAY(c->arena, kiln_layout, c->graph->value.count);
    kiln_layout_of_values(&assignment, way, c->layout);
    for (kiln_value v = 1; v < c->graph->value.count; v++)
        if (kiln_layout_same_places(&c->layout[v], &row, &value[v].shape)) c->layout[v] = row;
    kiln_windows_find(c->graph, &c->plan, c->way, c->layout, !c->no_windows, c->arena, &c->windows);
}

kiln_status kiln_compilation_choose(kiln_compilation *c, const kiln_choice *choice) {
    static const kiln_choice plain;
    chooser ch = {c, choice ? choice : &plain};
    c->no_windows = ch.choice->no_windows;
    kiln_status st = find_ways(c, ch.choice);
    if (st) return kiln_status_note(st, "choosing schedules");
    const kiln_assignment assignment = {c->graph, &c->plan, c->list, conversion_ns, &ch};
    uint32_t *way = KILN_ARENA_ARRAY(c->arena, uint32_t, c->plan.step_count);
    kiln_layout_assign(&assignment, c->arena, way);
    kiln_compilation_use(c, way);
    return KILN_OK;
}

/* ---- what is tuned --------------------------------------------------------------------------- */

typedef struct finder {
    kiln_compilation *c;
    bool *written, *read; /* [values] by a kernel */
    KILN_VEC(kiln_task) task;
    KILN_VEC(const kiln_layout **) agreed;
    kiln_map conversions; /* key -> index into task */
} finder;

/* Boards compare every output with its reference: what has more of them keeps its default. */
static bool can_be_checked(const kiln_program *te) {
    kiln_arg_buffers arg = kiln_program_args(te);
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < arg.count; i++)
        outputs += te->buffer.data[arg.buffer[i]].role == KILN_ROLE_OUTPUT;
    return outputs <= KILN_REFERENCE_OUTPUTS_MAX;
}

/* Which values pass from kernel to kernel. */
static void find_links(finder *f) {
    const kiln_compilation *c = f->c;
    f->written = KILN_ARENA_ARRAY(c->arena, bool, c->graph->value.count);
    f->read = KILN_ARENA_ARRAY(c->arena, bool, c->graph->value.count);
    for (uint32_t s = 0; s < c->plan.step_count; s++) {
        const kiln_step *step = &c->plan.step[s];
        for (uint32_t i = 0; step->kind == KILN_STEP_KERNEL && i < step->arg_count; i++)
            (i < step->read_count ? f->read : f->written)[step->arg[i]] = true;
    }
}

/* What only moves values that lie inside of others is never called. */
static void add_kernels(finder *f) {
    const kiln_compilation *c = f->c;
    const kiln_tasks *tasks = &c->plan.tasks;
    bool *tuned = KILN_ARENA_ARRAY(c->arena, bool, tasks->count);
    const kiln_layout ***agreed = KILN_ARENA_ARRAY(c->arena, const kiln_layout **, tasks->count);
    for (uint32_t s = c->plan.step_count; s-- > 0;) { /* the first step of a task comes last */
        const kiln_step *step = &c->plan.step[s];
        if (step->kind != KILN_STEP_KERNEL) continue;
        if (!c->windows.step[s]) tuned[step->task] = can_be_checked(tasks->task[step->task].te);
        agreed[step->task] = KILN_ARENA_ARRAY(c->arena, const kiln_layout *, step->arg_count);
        for (uint32_t i = 0; i < step->arg_count; i++)
            if (f->written[step->arg[i]] && f->read[step->arg[i]])
                agreed[step->task][i] = &c->way[s]->layout[i];
    }
    for (uint32_t t = 0; t < tasks->count; t++) {
        if (!tuned[t]) continue;
        kiln_vec_push_in(c->arena, &f->task, tasks->task[t]);
        kiln_vec_push_in(c->arena, &f->agreed, agreed[t]);
    }
}

/* Conversions are pinned by the task itself: nothing is left to agree on. */
static void add_conversion(finder *f, kiln_value value, const kiln_layout *to) {
    const kiln_compilation *c = f->c;
    const kiln_value_info *info = &c->graph->value.data[value];
    uint64_t index = 0;
    if (kiln_value_is_constant(c->graph, value) ||
        kiln_layout_same_places(&c->layout[value], to, &info->shape))
        return;
    kiln_program *te =
        kiln_conversion_te(info->dtype, &info->shape, &c->layout[value], to, c->arena);
    kiln_str key = kiln_task_key(te, c->arena);
    if (!kiln_map_find(&f->conversions, key, &index)) {
        index = f->task.count;
        kiln_map_put(&f->conversions, key, index);
        kiln_vec_push_in(c->arena, &f->task,
                         ((kiln_task){.key = key, .op = KILN_STR("convert"), .te = te}));
        kiln_vec_push_in(c->arena, &f->agreed, KILN_ARENA_ARRAY(c->arena, const kiln_layout *, 2));
    }
    f->task.data[index].weight += 1;
}

static void add_conversions(finder *f) {
    const kiln_compilation *c = f->c;
    for (uint32_t s = 0; s < c->plan.step_count; s++) {
        const kiln_step *step = &c->plan.step[s];
        for (uint32_t i = 0; i < step->read_count; i++)
            add_conversion(f, step->arg[i], c->way[s] ? &c->way[s]->layout[i] : &row);
    }
    for (uint32_t i = 0; i < c->graph->output.count; i++)
        add_conversion(f, c->graph->output.data[i], &row);
}

void kiln_compilation_find_searched(kiln_compilation *c) {
    finder f = {.c = c};
    find_links(&f);
    add_kernels(&f);
    kiln_map_init(&f.conversions);
    add_conversions(&f);
    kiln_map_deinit(&f.conversions);
    c->searched = (kiln_tasks){f.task.count, f.task.data};
    c->agreed = f.agreed.data;
}

kiln_status kiln_compilation_of_model(kiln_graph *graph, const kiln_target *target,
                                      kiln_arena *arena, kiln_compilation **out_compilation) {
    kiln_compilation *c = NULL;
    kiln_status st = kiln_passes_run(graph, (kiln_str){0});
    if (!st) st = kiln_compilation_create(graph, target, arena, &c);
    if (!st) st = kiln_compilation_choose(c, NULL);
    if (st) return st;
    kiln_compilation_find_searched(c);
    *out_compilation = c;
    return KILN_OK;
}
