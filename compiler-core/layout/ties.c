#include "compiler-core/layout/ties.h"

typedef struct finder {
    const kiln_compilation *c;
    bool *differs;         /* [tasks] */
    uint32_t *next;        /* [tasks] towards the first of its group */
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

static void look_at_step(finder *f, const kiln_step *step, const kiln_way *now,
                         const kiln_way *before) {
    if (!kiln_str_equal(now->trace, before->trace)) f->differs[step->task] = true;
    for (uint32_t i = 0; i < step->arg_count; i++) {
        const kiln_value v = step->arg[i];
        if (kiln_layout_same_places(&now->layout[i], &before->layout[i],
                                    &f->c->graph->value.data[v].shape))
            continue;
        f->differs[step->task] = true;
        if (!f->first_touch[v]) f->first_touch[v] = step->task + 1;
        tie(f, f->first_touch[v] - 1, step->task);
    }
}

void kiln_ties_find(const kiln_compilation *c, const kiln_way *const *before, kiln_arena *arena,
                    kiln_ties *out) {
    const uint32_t tasks = c->plan.tasks.count, values = c->graph->value.count;
    finder f = {.c = c,
                .differs = KILN_ARENA_ARRAY(arena, bool, tasks),
                .next = KILN_ARENA_ARRAY(arena, uint32_t, tasks),
                .first_touch = KILN_ARENA_ARRAY(arena, uint32_t, values)};
    *out = (kiln_ties){.task = KILN_ARENA_ARRAY(arena, uint32_t, tasks),
                       .value = KILN_ARENA_ARRAY(arena, uint32_t, values)};
    for (uint32_t t = 0; t < tasks; t++) f.next[t] = t;
    for (uint32_t s = 0; s < c->plan.step_count; s++)
        if (c->way[s]) look_at_step(&f, &c->plan.step[s], c->way[s], before[s]);
    for (uint32_t t = 0; t < tasks; t++)
        if (f.differs[t]) out->task[t] = f.next[t] == t ? ++out->count : out->task[first_of(&f, t)];
    for (kiln_value v = 0; v < values; v++)
        if (f.first_touch[v]) out->value[v] = out->task[f.first_touch[v] - 1];
}
