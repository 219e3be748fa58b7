/* From a graph to the problem of pbqp.h and back. */
#include "compiler-core/layout/assign.h"

#include <string.h>

#include "compiler-core/layout/pbqp.h"

#define NOT_WRITTEN UINT32_MAX

static const kiln_layout row;

/* Where a value comes from: an argument of a kernel. */
typedef struct writer {
    uint32_t step,
        arg; /* step NOT_WRITTEN: an input, a constant or an alias; these are row-major */
} writer;

static const kiln_ways *ways_of(const kiln_assignment *a, uint32_t step) {
    return &a->list[a->plan->step[step].task];
}
static bool is_kernel(const kiln_assignment *a, uint32_t step) {
    return a->plan->step[step].kind == KILN_STEP_KERNEL;
}

/* The memory that a value is in, and its layout there. */
typedef struct place {
    const kiln_layout *layout;
    bool on_host;
} place;

static const place host_row = {&row, true};

static place place_of(const kiln_way *way, uint32_t arg) {
    return (place){&way->layout[arg], way->on_host};
}

/* Time from one place to another: copies, and a conversion, on the host if there is one. */
static double pass_ns(const kiln_assignment *a, kiln_value value, place from, place to) {
    const bool same =
        kiln_layout_same_places(from.layout, to.layout, &a->graph->value.data[value].shape);
    const double convert_ns =
        same ? 0 : a->conversion_ns(a->context, value, from.layout, to.layout);
    const int copies = same ? from.on_host != to.on_host : !from.on_host + !to.on_host;
    return a->copy_ns && copies ? convert_ns + copies * a->copy_ns(a->context, value) : convert_ns;
}

/* ---- the problem ----------------------------------------------------------------------------- */

/* Costs of conversions between two kernels: [ways of the giver][ways of the taker]. */
typedef struct edge {
    uint32_t giver, taker; /* steps */
    const double *cost;
} edge;

typedef struct maker {
    const kiln_assignment *a;
    kiln_arena *arena;
    writer *from;    /* [values] */
    uint32_t *node;  /* [steps] of the problem; aliases have none */
    double **own_ns; /* [steps][ways] */
    KILN_VEC(edge) edge;
    kiln_pbqp *problem;
} maker;

/* Adds the cost to one kernel's own when the other end is row-major in any case, or is the same
 * kernel.
 */
static void charge_row(maker *m, uint32_t step, uint32_t arg, kiln_value value, bool writes) {
    const kiln_ways *list = ways_of(m->a, step);
    for (uint32_t i = 0; i < list->way.count; i++) {
        const place own = place_of(&list->way.data[i], arg);
        m->own_ns[step][i] +=
            m->a->plan->step[step].times *
            pass_ns(m->a, value, writes ? own : host_row, writes ? host_row : own);
    }
}

/* Records the kernel's outputs and adds the costs of its own inputs. Constants are converted into
 * any layout. */
static void look_at_args(maker *m, uint32_t s) {
    const kiln_step *step = &m->a->plan->step[s];
    for (uint32_t i = step->read_count; i < step->arg_count; i++)
        m->from[step->arg[i]] = (writer){s, i};
    for (uint32_t i = 0; i < step->read_count; i++)
        if (!kiln_value_is_constant(m->a->graph, step->arg[i]) &&
            m->from[step->arg[i]].step == NOT_WRITTEN)
            charge_row(m, s, i, step->arg[i], false);
}

static void charge_row_readers(maker *m) {
    for (uint32_t s = 0; s < m->a->plan->step_count; s++) {
        for (uint32_t i = 0; !is_kernel(m->a, s) && i < m->a->plan->step[s].read_count; i++) {
            kiln_value read = m->a->plan->step[s].arg[i];
            if (m->from[read].step != NOT_WRITTEN)
                charge_row(m, m->from[read].step, m->from[read].arg, read, true);
        }
    }
    for (uint32_t i = 0; i < m->a->graph->output.count; i++) {
        kiln_value read = m->a->graph->output.data[i];
        if (m->from[read].step != NOT_WRITTEN)
            charge_row(m, m->from[read].step, m->from[read].arg, read, true);
    }
}

/* Adds the edge between a kernel and the one that writes its argument `arg`. */
static void add_edge(maker *m, uint32_t step, uint32_t arg) {
    const kiln_value value = m->a->plan->step[step].arg[arg];
    const writer *from = &m->from[value];
    if (from->step == NOT_WRITTEN) return;
    const kiln_ways *giver = ways_of(m->a, from->step), *taker = ways_of(m->a, step);
    double *cost = KILN_ARENA_ARRAY(m->arena, double, (size_t)giver->way.count * taker->way.count),
           most = 0;
    for (uint32_t i = 0; i < giver->way.count; i++) {
        for (uint32_t j = 0; j < taker->way.count; j++) {
            double ns = pass_ns(m->a, value, place_of(&giver->way.data[i], from->arg),
                                place_of(&taker->way.data[j], arg));
            cost[(size_t)i * taker->way.count + j] = m->a->plan->step[from->step].times * ns;
            most = KILN_MAX(most, ns);
        }
    }
    if (most <= 0) return;
    kiln_pbqp_add_edge(m->problem, m->node[from->step], m->node[step], cost);
    kiln_vec_push_in(m->arena, &m->edge, ((edge){from->step, step, cost}));
}

static double sum_up(const maker *m, const uint32_t *way) {
    double ns = 0;
    for (uint32_t s = 0; s < m->a->plan->step_count; s++)
        if (is_kernel(m->a, s)) ns += m->own_ns[s][way[s]];
    for (uint32_t i = 0; i < m->edge.count; i++) {
        const edge *e = &m->edge.data[i];
        ns += e->cost[(size_t)way[e->giver] * ways_of(m->a, e->taker)->way.count + way[e->taker]];
    }
    return ns;
}

bool kiln_layout_assign(const kiln_assignment *a, kiln_arena *arena, uint32_t *out_way,
                        double *out_ns) {
    uint32_t steps = a->plan->step_count, kernels = 0;
    maker m = {.a = a,
               .arena = arena,
               .problem = kiln_pbqp_create(arena),
               .from = KILN_ARENA_ARRAY(arena, writer, a->graph->value.count),
               .node = KILN_ARENA_ARRAY(arena, uint32_t, steps),
               .own_ns = KILN_ARENA_ARRAY(arena, double *, steps)};
    memset(out_way, 0, steps * sizeof *out_way);
    for (uint32_t v = 0; v < a->graph->value.count; v++) m.from[v].step = NOT_WRITTEN;
    for (uint32_t s = 0; s < steps; s++) {
        if (!is_kernel(a, s)) continue;
        const kiln_ways *list = ways_of(a, s);
        m.own_ns[s] = KILN_ARENA_ARRAY(arena, double, list->way.count);
        for (uint32_t i = 0; i < list->way.count; i++)
            m.own_ns[s][i] = a->plan->step[s].times * list->way.data[i].cost_ns;
        look_at_args(&m, s);
    }
    charge_row_readers(&m);
    for (uint32_t s = 0; s < steps; s++) {
        if (!is_kernel(a, s)) continue;
        m.node[s] = kiln_pbqp_add_node(m.problem, ways_of(a, s)->way.count, m.own_ns[s]);
        for (uint32_t i = 0; i < a->plan->step[s].read_count; i++)
            add_edge(&m, s, i); /* producers come before their readers */
        kernels++;
    }
    uint32_t *choice = KILN_ARENA_ARRAY(arena, uint32_t, kernels + 1);
    bool exact = kiln_pbqp_solve(m.problem, choice);
    for (uint32_t s = 0; s < steps; s++)
        if (is_kernel(a, s)) out_way[s] = choice[m.node[s]];
    *out_ns = sum_up(&m, out_way);
    return exact;
}

/* ---- what a choice means --------------------------------------------------------------------- */

void kiln_layout_of_values(const kiln_assignment *a, const uint32_t *way, kiln_layout *out_layout) {
    memset(out_layout, 0, a->graph->value.count * sizeof *out_layout);
    for (uint32_t s = 0; s < a->plan->step_count; s++) {
        const kiln_step *step = &a->plan->step[s];
        for (uint32_t i = step->read_count; is_kernel(a, s) && i < step->arg_count; i++)
            out_layout[step->arg[i]] = ways_of(a, s)->way.data[way[s]].layout[i];
    }
}
