#include "compiler-core/layout/joined.h"

#include <string.h>

#include "base/macros.h"

/* A measured join has to save this share of its kernels' time: both were measured at different
 * times.
 */
#define MARGIN 0.01
/* A join that takes longer than its kernels by this factor is not tried: no conversion costs that
 * much. */
#define HOPELESS 1.25
#define ROUNDS_MAX 4u

kiln_plan kiln_joined_plan(const kiln_plan *base, const kiln_joins *joins, const bool *joined,
                           kiln_arena *arena) {
    const kiln_tasks *own = &base->tasks, *more = &joins->tasks;
    kiln_plan out = {.tasks = {.count = own->count + more->count}};
    out.tasks.task = KILN_ARENA_ARRAY(arena, kiln_task, out.tasks.count);
    if (own->count) memcpy(out.tasks.task, own->task, own->count * sizeof *own->task);
    if (more->count)
        memcpy(out.tasks.task + own->count, more->task, more->count * sizeof *more->task);
    const kiln_join **of = KILN_ARENA_ARRAY(arena, const kiln_join *, base->step_count);
    for (uint32_t j = 0; j < joins->count; j++)
        for (uint32_t k = 0; joined[j] && k < joins->join[j].row.count; k++)
            of[joins->join[j].row.step[k]] = &joins->join[j];
    out.step = KILN_ARENA_ARRAY(arena, kiln_step, base->step_count);
    uint32_t *place = KILN_ARENA_ARRAY(arena, uint32_t, base->step_count);
    for (uint32_t s = 0; s < base->step_count; s++) {
        const kiln_join *join = of[s];
        place[s] = out.step_count;
        if (join && join->row.step[join->row.count - 1] != s) continue;
        out.step[out.step_count] = join ? join->step : base->step[s];
        if (join) out.step[out.step_count].task += own->count;
        out.step_count++;
    }
    for (uint32_t s = 0; s < base->step_count; s++) /* the loops end at other steps */
        if (!of[s]) out.step[place[s]].partner = place[base->step[s].partner];
    return out;
}

typedef struct chooser {
    const kiln_assignment *a;
    const kiln_joins *joins;
    const kiln_plan *base;
    uint32_t own_count; /* tasks of the base */
} chooser;

/* A join that may save time, and how much by its own time. */
typedef struct hope {
    uint32_t join;
    double saved_ns;  /* less the margin */
    double margin_ns; /* the least that it has to save */
} hope;

static bool may_gain(const chooser *c, uint32_t join, hope *out) {
    const kiln_join *j = &c->joins->join[join];
    const kiln_ways *list = &c->a->list[c->own_count + j->step.task];
    double apart_ns = 0;
    if (!list->way.count) return false;
    for (uint32_t k = 0; k < j->row.count; k++)
        apart_ns += kiln_ways_least_ns(&c->a->list[c->base->step[j->row.step[k]].task]);
    const double joined_ns = kiln_ways_least_ns(list);
    const double margin_ns = list->way.data[0].median_ns > 0 ? MARGIN * apart_ns : 0;
    *out =
        (hope){join, j->step.times * (apart_ns - joined_ns - margin_ns), j->step.times * margin_ns};
    return joined_ns <= HOPELESS * apart_ns;
}

static bool overlap(const kiln_join *a, const kiln_join *b) {
    for (uint32_t i = 0; i < a->row.count; i++)
        for (uint32_t k = 0; k < b->row.count; k++)
            if (a->row.step[i] == b->row.step[k]) return true;
    return false;
}

static double time_with(const chooser *c, const bool *joined) {
    kiln_arena scratch;
    double ns = 0;
    kiln_arena_init(&scratch, 0);
    const kiln_plan plan = kiln_joined_plan(c->base, c->joins, joined, &scratch);
    kiln_assignment a = *c->a;
    a.plan = &plan;
    uint32_t *way = KILN_ARENA_ARRAY(&scratch, uint32_t, plan.step_count);
    kiln_layout_assign(&a, &scratch, way, &ns);
    kiln_arena_deinit(&scratch);
    return ns;
}

/* The set that saves most by the kernels' own times: joins along a row of kernels are intervals of
 * it, of which those chosen must not overlap. hopes: in the order of their first steps. */
static void choose_apart(const chooser *c, const hope *hopes, uint32_t count, kiln_arena *arena,
                         bool *out_joined) {
    const uint32_t steps = c->base->step_count;
    uint32_t *before = KILN_ARENA_ARRAY(arena, uint32_t, steps); /* in its row, + 1 */
    bool *goes_on = KILN_ARENA_ARRAY(arena, bool, steps);
    double *saved_ns =
        KILN_ARENA_ARRAY(arena, double, steps + 1); /* up to a step, its number + 1 */
    const hope **last = KILN_ARENA_ARRAY(arena, const hope *, steps);
    for (uint32_t j = 0; j < c->joins->count; j++) {
        const kiln_step_row *row = &c->joins->join[j].row;
        for (uint32_t k = 1; k < row->count; k++) {
            before[row->step[k]] = row->step[k - 1] + 1;
            goes_on[row->step[k - 1]] = true;
        }
    }
    for (uint32_t s = 0; s < steps; s++) {
        saved_ns[s + 1] = saved_ns[before[s]];
        for (uint32_t i = 0; i < count; i++) {
            const kiln_step_row *row = &c->joins->join[hopes[i].join].row;
            if (row->step[row->count - 1] != s) continue;
            const double ns = hopes[i].saved_ns + saved_ns[before[row->step[0]]];
            if (ns <= saved_ns[s + 1]) continue;
            saved_ns[s + 1] = ns;
            last[s] = &hopes[i];
        }
    }
    for (uint32_t s = 0; s < steps; s++) {
        uint32_t at = goes_on[s] ? 0 : s + 1; /* the end of a row */
        while (at) {
            const hope *taken = last[at - 1];
            if (taken) out_joined[taken->join] = true;
            at = before[taken ? c->joins->join[taken->join].row.step[0] : at - 1];
        }
    }
}

/* Adds the join in place of those that it overlaps, or takes it out. */
static void turn(const chooser *c, uint32_t join, const bool *joined, bool *out) {
    for (uint32_t j = 0; j < c->joins->count; j++)
        out[j] = joined[j] && !overlap(&c->joins->join[j], &c->joins->join[join]);
    out[join] = !joined[join];
}

void kiln_joined_choose(const kiln_assignment *assignment, const kiln_joins *joins,
                        kiln_arena *arena, bool *out_joined) {
    kiln_plan base = *assignment->plan;
    base.tasks.count -= joins->tasks.count;
    const chooser c = {assignment, joins, &base, base.tasks.count};
    hope *hopes = KILN_ARENA_ARRAY(arena, hope, joins->count);
    bool *tried = KILN_ARENA_ARRAY(arena, bool, joins->count), gained = true;
    uint32_t count = 0;
    memset(out_joined, 0, joins->count * sizeof *out_joined);
    for (uint32_t j = 0; j < joins->count; j++) count += may_gain(&c, j, &hopes[count]);
    if (!count) return;
    double best_ns = time_with(&c, out_joined);
    choose_apart(&c, hopes, count, arena, tried);
    const double apart_ns = time_with(&c, tried);
    if (apart_ns < best_ns) {
        memcpy(out_joined, tried, joins->count * sizeof *tried);
        best_ns = apart_ns;
    }
    for (uint32_t round = 0; gained && round < ROUNDS_MAX; round++) {
        gained = false;
        for (uint32_t i = 0; i < count; i++) {
            turn(&c, hopes[i].join, out_joined, tried);
            const double ns = time_with(&c, tried);
            const double margin_ns = tried[hopes[i].join] ? hopes[i].margin_ns : 0;
            if (ns + margin_ns >= best_ns) continue;
            memcpy(out_joined, tried, joins->count * sizeof *tried);
            best_ns = ns;
            gained = true;
        }
    }
}
