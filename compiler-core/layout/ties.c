#include "compiler-core/layout/ties.h"

#include "base/map.h"

typedef struct finder {
    const kiln_compilation *c;
    const kiln_chosen *before;
    uint32_t *step_before; /* [nodes] that computed it */
    uint32_t *task_before; /* [tasks before] its number: that of the task now, or a higher one */
    uint32_t count;        /* numbers */
    bool *differs;         /* [count] */
    uint32_t *next;        /* [count] towards the first of its group */
    uint32_t *first_touch; /* [values] a task that has it in another layout, + 1 */
} finder;

static uint32_t first_of(const finder *f, uint32_t task) {
    while (f->next[task] != task) task = f->next[task];
    return task;
}

static void tie(finder *f, uint32_t a, uint32_t b) {
    a = first_of(f, a);
    b = first_of(f, b);
    f->next[KILN_MAX(a, b)] = KILN_MIN(a, b);
}

static void touch(finder *f, kiln_value v, uint32_t task) {
    f->differs[task] = true;
    if (!f->first_touch[v]) f->first_touch[v] = task + 1;
    tie(f, f->first_touch[v] - 1, task);
}

/* A task that is in both plans has one number. */
static void number_tasks(finder *f, kiln_arena *arena) {
    const kiln_tasks *now = &f->c->plan.tasks, *before = &f->before->plan.tasks;
    kiln_map known;
    kiln_map_init(&known);
    f->task_before = KILN_ARENA_ARRAY(arena, uint32_t, before->count);
    f->count = now->count;
    for (uint32_t t = 0; t < now->count; t++) kiln_map_put(&known, now->task[t].key, t);
    for (uint32_t t = 0; t < before->count; t++) {
        uint64_t number = 0;
        if (!kiln_map_find(&known, before->task[t].key, &number)) number = f->count++;
        f->task_before[t] = (uint32_t)number;
    }
    kiln_map_deinit(&known);
}

/* The layout of a value that the step reads, or writes, under its way; NULL: it does not. */
static const kiln_layout *layout_of(const kiln_step *step, const kiln_way *way, kiln_value value,
                                    bool reads) {
    for (uint32_t i = reads ? 0 : step->read_count;
         i < (reads ? step->read_count : step->arg_count); i++)
        if (step->arg[i] == value) return &way->layout[i];
    return NULL;
}

/* Finds the values that the step has in another layout than the step of the other plan that
 * computes some of its nodes; a value that is inside only the larger of the two was converted, if
 * at all, in the other plan.
 */
static void compare_args(finder *f, const kiln_step *step, const kiln_way *way,
                         const kiln_step *other, const kiln_way *other_way, uint32_t task) {
    const bool is_part = step->member_count < other->member_count;
    for (uint32_t i = 0; i < step->arg_count; i++) {
        const kiln_value v = step->arg[i];
        const kiln_layout *layout = layout_of(other, other_way, v, i < step->read_count);
        if (layout ? !kiln_layout_same_places(&way->layout[i], layout,
                                              &f->c->graph->value.data[v].shape)
                   : is_part)
            touch(f, v, task);
    }
}

/* The step of the other plan has the same nodes, or the tasks of both are tied. */
static void look_at_step(finder *f, const kiln_step *step, const kiln_way *now) {
    for (uint32_t m = 0; m < step->member_count; m++) {
        const uint32_t s = f->step_before[step->member[m]];
        const kiln_step *old = &f->before->plan.step[s];
        const kiln_way *way = f->before->way[s];
        const uint32_t task = f->task_before[old->task];
        if (task != step->task) {
            f->differs[task] = f->differs[step->task] = true;
            tie(f, task, step->task);
        } else if (!kiln_str_equal(now->trace, way->trace)) {
            f->differs[task] = true;
        }
        compare_args(f, step, now, old, way, step->task);
        compare_args(f, old, way, step, now, step->task);
    }
}

void kiln_ties_find(const kiln_compilation *c, const kiln_chosen *before, kiln_arena *arena,
                    kiln_ties *out) {
    const uint32_t values = c->graph->value.count;
    const kiln_plan *plan = &c->plan, *old = &before->plan;
    finder f = {.c = c,
                .before = before,
                .step_before = KILN_ARENA_ARRAY(arena, uint32_t, c->graph->node.count),
                .first_touch = KILN_ARENA_ARRAY(arena, uint32_t, values)};
    number_tasks(&f, arena);
    f.differs = KILN_ARENA_ARRAY(arena, bool, f.count);
    f.next = KILN_ARENA_ARRAY(arena, uint32_t, f.count);
    *out = (kiln_ties){.task = KILN_ARENA_ARRAY(arena, uint32_t, plan->tasks.count),
                       .before = KILN_ARENA_ARRAY(arena, uint32_t, old->tasks.count),
                       .value = KILN_ARENA_ARRAY(arena, uint32_t, values)};
    for (uint32_t t = 0; t < f.count; t++) f.next[t] = t;
    for (uint32_t s = 0; s < old->step_count; s++)
        for (uint32_t m = 0; m < old->step[s].member_count; m++)
            f.step_before[old->step[s].member[m]] = s;
    for (uint32_t s = 0; s < plan->step_count; s++)
        if (c->way[s]) look_at_step(&f, &plan->step[s], c->way[s]);
    uint32_t *group = KILN_ARENA_ARRAY(arena, uint32_t, f.count);
    for (uint32_t t = 0; t < f.count; t++) /* the first of a group has the least number */
        if (f.differs[t]) group[t] = f.next[t] == t ? ++out->count : group[first_of(&f, t)];
    for (uint32_t t = 0; t < plan->tasks.count; t++) out->task[t] = group[t];
    for (uint32_t t = 0; t < old->tasks.count; t++) out->before[t] = group[f.task_before[t]];
    for (kiln_value v = 0; v < values; v++)
        if (f.first_touch[v]) out->value[v] = group[f.first_touch[v] - 1];
}
