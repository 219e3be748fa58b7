/* The default assignment, seen from the tuner. */
#include "compiler-core/layout/tuning.h"

#include "base/map.h"
#include "base/reference.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/layout/assign.h"
#include "compiler-core/layout/convert.h"
#include "compiler-core/layout/windows.h"

typedef struct tuner {
    const kiln_graph *graph;
    kiln_arena *arena;
    kiln_plan plan;
    const kiln_alternative **way; /* [steps] */
    kiln_layout *layout;          /* [values] in which each is written */
    bool *tuned;                  /* [tasks of the plan] */
    bool *written, *read;         /* [values] by a kernel */
    KILN_VEC(kiln_task) task;
    kiln_map conversions; /* key -> index into task */
} tuner;

static double estimate_ns(void *context, kiln_value value, const kiln_layout *from,
                          const kiln_layout *to) {
    const tuner *t = context;
    const kiln_value_info *info = &t->graph->value.data[value];
    return kiln_conversion_estimate_ns(info->dtype, &info->shape, from, to);
}

static kiln_status assign(tuner *t, const kiln_target *target) {
    kiln_alternatives *list = KILN_ARENA_ARRAY(t->arena, kiln_alternatives, t->plan.tasks.count);
    kiln_status st = kiln_alternatives_add_defaults(&t->plan, target, t->arena, list);
    if (st) return st;
    kiln_alternatives_free_windows(&t->plan, t->arena, list);
    const kiln_assignment assignment = {t->graph, &t->plan, list, estimate_ns, t};
    uint32_t *way = KILN_ARENA_ARRAY(t->arena, uint32_t, t->plan.step_count);
    t->way = KILN_ARENA_ARRAY(t->arena, const kiln_alternative *, t->plan.step_count);
    t->layout = KILN_ARENA_ARRAY(t->arena, kiln_layout, t->graph->value.count);
    kiln_layout_assign(&assignment, t->arena, way);
    kiln_layout_of_values(&assignment, way, t->layout);
    for (uint32_t s = 0; s < t->plan.step_count; s++)
        if (t->plan.step[s].kind == KILN_STEP_KERNEL)
            t->way[s] = &list[t->plan.step[s].task].way.data[way[s]];
    return KILN_OK;
}

/* Boards compare every output with its reference: what has more of them keeps its default. */
static bool can_be_checked(const kiln_program *te) {
    kiln_arg_buffers buffer = kiln_program_args(te);
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < buffer.count; i++)
        outputs += te->buffer.data[buffer.buffer[i]].role == KILN_ROLE_OUTPUT;
    return outputs <= KILN_REFERENCE_OUTPUTS_MAX;
}

/* What only moves values that lie inside of others is never called. */
static void find_tuned(tuner *t) {
    kiln_windows windows;
    t->tuned = KILN_ARENA_ARRAY(t->arena, bool, t->plan.tasks.count);
    kiln_windows_find(t->graph, &t->plan, t->way, t->layout, true, t->arena, &windows);
    for (uint32_t s = 0; s < t->plan.step_count; s++)
        if (t->plan.step[s].kind == KILN_STEP_KERNEL && !windows.step[s])
            t->tuned[t->plan.step[s].task] =
                can_be_checked(t->plan.tasks.task[t->plan.step[s].task].te);
}

static bool is_written(const tuner *t, uint32_t step, uint32_t arg) {
    const kiln_program *te = t->plan.tasks.task[t->plan.step[step].task].te;
    kiln_arg_buffers buffer = kiln_program_args(te);
    return te->buffer.data[buffer.buffer[arg]].role == KILN_ROLE_OUTPUT;
}

/* Which values pass from kernel to kernel. */
static void find_links(tuner *t) {
    t->written = KILN_ARENA_ARRAY(t->arena, bool, t->graph->value.count);
    t->read = KILN_ARENA_ARRAY(t->arena, bool, t->graph->value.count);
    for (uint32_t s = 0; s < t->plan.step_count; s++) {
        const kiln_step *step = &t->plan.step[s];
        for (uint32_t i = 0; step->kind == KILN_STEP_KERNEL && i < step->arg_count; i++)
            (is_written(t, s, i) ? t->written : t->read)[step->arg[i]] = true;
    }
}

static void agree(const tuner *t, const kiln_layout ***layout) {
    for (uint32_t s = t->plan.step_count; s-- > 0;) { /* the first step of a task comes last */
        const kiln_step *step = &t->plan.step[s];
        if (step->kind != KILN_STEP_KERNEL) continue;
        layout[step->task] = KILN_ARENA_ARRAY(t->arena, const kiln_layout *, step->arg_count);
        for (uint32_t i = 0; i < step->arg_count; i++)
            if (t->written[step->arg[i]] && t->read[step->arg[i]])
                layout[step->task][i] = &t->way[s]->layout[i];
    }
}

static void add_conversion(tuner *t, kiln_value value, const kiln_layout *to) {
    const kiln_value_info *info = &t->graph->value.data[value];
    uint64_t index = 0;
    if (kiln_value_is_constant(t->graph, value) ||
        kiln_layout_same_places(&t->layout[value], to, &info->shape))
        return;
    kiln_program *te =
        kiln_conversion_te(info->dtype, &info->shape, &t->layout[value], to, t->arena);
    kiln_str key = kiln_task_key(te, t->arena);
    if (!kiln_map_find(&t->conversions, key, &index)) {
        index = t->task.count;
        kiln_map_put(&t->conversions, key, index);
        kiln_vec_push_in(t->arena, &t->task,
                         ((kiln_task){.key = key, .op = KILN_STR("convert"), .te = te}));
    }
    t->task.data[index].weight += 1;
}

static void add_conversions(tuner *t) {
    static const kiln_layout row;
    for (uint32_t s = 0; s < t->plan.step_count; s++) {
        const kiln_step *step = &t->plan.step[s];
        bool kernel = step->kind == KILN_STEP_KERNEL;
        for (uint32_t i = 0; kernel && i < step->arg_count; i++)
            if (!is_written(t, s, i)) add_conversion(t, step->arg[i], &t->way[s]->layout[i]);
        for (uint32_t i = 0; !kernel && i < step->read_count; i++)
            add_conversion(t, step->arg[i], &row);
    }
    for (uint32_t i = 0; i < t->graph->output.count; i++)
        add_conversion(t, t->graph->output.data[i], &row);
}

kiln_status kiln_tuning_create(const kiln_graph *graph, const kiln_target *target,
                               kiln_arena *arena, kiln_tuning *out_tuning) {
    tuner t = {.graph = graph, .arena = arena};
    kiln_status st = kiln_plan_create(graph, arena, &t.plan);
    if (!st) st = assign(&t, target);
    if (st) return st;
    find_links(&t);
    find_tuned(&t);
    const kiln_layout ***agreed = KILN_ARENA_ARRAY(arena, const kiln_layout **, t.plan.tasks.count);
    agree(&t, agreed);
    uint32_t own = 0;
    for (uint32_t i = 0; i < t.plan.tasks.count; i++) {
        if (!t.tuned[i]) continue;
        kiln_vec_push_in(arena, &t.task, t.plan.tasks.task[i]);
        agreed[own++] = agreed[i];
    }
    kiln_map_init(&t.conversions);
    add_conversions(&t);
    kiln_map_deinit(&t.conversions);
    const kiln_layout ***layout = KILN_ARENA_ARRAY(arena, const kiln_layout **, t.task.count);
    for (uint32_t i = 0; i < t.task.count; i++) /* conversions are pinned by the task itself */
        layout[i] = i < own ? agreed[i] : KILN_ARENA_ARRAY(arena, const kiln_layout *, 2);
    *out_tuning = (kiln_tuning){{t.task.count, t.task.data}, layout};
    return KILN_OK;
}
