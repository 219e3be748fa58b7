/* Values inside of values. */
#include "compiler-core/layout/windows.h"

typedef struct finder {
    const kiln_graph *graph;
    const kiln_plan *plan;
    const kiln_way *const *way;
    const kiln_layout *layout;
    bool *computed;   /* [values] written by a kernel, and no output of the graph */
    kiln_parts *task; /* [tasks] */
    kiln_windows *found;
} finder;

static const kiln_parts *parts_of(const finder *f, uint32_t step) {
    const kiln_step *s = &f->plan->step[step];
    const kiln_parts *parts = s->kind == KILN_STEP_KERNEL ? &f->task[s->task] : NULL;
    bool windows = parts && kiln_parts_are_windows(parts, f->plan->tasks.task[s->task].te,
                                                   f->way[step]->layout);
    return windows ? parts : NULL;
}

static kiln_window window_of(const finder *f, uint32_t step, const kiln_part *part) {
    const kiln_step *s = &f->plan->step[step];
    const kiln_value_info *whole = &f->graph->value.data[s->arg[part->whole]],
                          *inner = &f->graph->value.data[s->arg[part->arg]];
    kiln_window window = {.whole = s->arg[part->whole]};
    if (!kiln_part_offset(part, &whole->shape, inner->shape.dim[part->axis], whole->dtype,
                          &f->way[step]->layout[part->whole], &window.offset_bytes))
        window.whole = 0;
    return window;
}

/* All results have to be windows: a kernel is removed as a whole or not at all. */
static void find_cut(const finder *f, uint32_t step, const kiln_parts *parts) {
    const kiln_step *s = &f->plan->step[step];
    for (uint32_t i = 0; i < parts->count; i++)
        if (!f->computed[s->arg[parts->part[i].arg]]) return;
    for (uint32_t i = 0; i < parts->count; i++)
        f->found->of[s->arg[parts->part[i].arg]] = window_of(f, step, &parts->part[i]);
    f->found->step[step] = parts;
}

/* Worth it as soon as one operand is written in place: the others are copied as before. */
static void find_joined(const finder *f, uint32_t step, const kiln_parts *parts) {
    const kiln_step *s = &f->plan->step[step];
    kiln_value whole = s->arg[parts->part[0].whole];
    for (uint32_t i = 0; i < parts->count; i++) {
        kiln_value operand = s->arg[parts->part[i].arg];
        if (f->found->of[operand].whole || !f->computed[operand] ||
            !kiln_layout_same_places(&f->layout[operand], &f->layout[whole],
                                     &f->graph->value.data[operand].shape))
            continue;
        f->found->of[operand] = window_of(f, step, &parts->part[i]);
        f->found->step[step] = parts;
    }
}

static void note_computed(const finder *f) {
    for (uint32_t s = 0; s < f->plan->step_count; s++) {
        const kiln_step *step = &f->plan->step[s];
        for (uint32_t i = step->read_count; i < step->arg_count; i++)
            f->computed[step->arg[i]] |= step->kind == KILN_STEP_KERNEL;
    }
    for (uint32_t i = 0; i < f->graph->output.count; i++)
        f->computed[f->graph->output.data[i]] = false;
}

void kiln_windows_find(const kiln_graph *graph, const kiln_plan *plan, const kiln_way *const *way,
                       const kiln_layout *layout, bool on, kiln_arena *arena,
                       kiln_windows *out_windows) {
    *out_windows =
        (kiln_windows){.of = KILN_ARENA_ARRAY(arena, kiln_window, graph->value.count),
                       .step = KILN_ARENA_ARRAY(arena, const kiln_parts *, plan->step_count)};
    if (!on) return;
    finder f = {graph, plan, way, layout, .found = out_windows};
    f.computed = KILN_ARENA_ARRAY(arena, bool, graph->value.count);
    f.task = KILN_ARENA_ARRAY(arena, kiln_parts, plan->tasks.count);
    for (uint32_t t = 0; t < plan->tasks.count; t++)
        f.task[t] = kiln_parts_of(plan->tasks.task[t].te, arena);
    note_computed(&f);
    for (uint32_t s = 0; s < plan->step_count; s++) { /* the values that are cut are already
                                                       * placed */
        const kiln_parts *parts = parts_of(&f, s);
        if (parts && !parts->joins) find_cut(&f, s, parts);
    }
    for (uint32_t s = plan->step_count;
         s-- > 0;) { /* of two joins the later one, which is larger */
        const kiln_parts *parts = parts_of(&f, s);
        if (parts && parts->joins) find_joined(&f, s, parts);
    }
}
