/* Blocks whose value depends on which of a few cases an iterator is in: transforms of tiles. */
#include "compiler-core/facts/nest.h"
#include "compiler-core/rules/rules.h"

#define CASES_MAX 8

typedef struct search {
    kiln_block block;
    kiln_picks picks;
} search;

/* A comparison of an iterator, or of its remainder, with a constant. */
static kiln_expr look_at(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    search *s = context;
    if (kiln_expr_get(p, e)->op != KILN_EXPR_EQ ||
        !kiln_expr_is_const(p, kiln_expr_operand(p, e, 1)))
        return rebuilt;
    kiln_expr what = kiln_expr_operand(p, e, 0);
    int64_t by = 0;
    if (kiln_expr_get(p, what)->op == KILN_EXPR_FLOORMOD &&
        kiln_expr_as_int(p, kiln_expr_operand(p, what, 1), &by))
        what = kiln_expr_operand(p, what, 0);
    int i = kiln_block_iter_of(p, s->block, what);
    if (i < 0 || p->block.data[s->block].iter[i].reduce) return rebuilt;
    int64_t cases = by ? by : p->block.data[s->block].iter[i].extent;
    if (cases > CASES_MAX) return rebuilt;
    s->picks.iters |= 1u << i;
    s->picks.by[i] = by;
    return rebuilt;
}

bool kiln_sketch_picks(kiln_program *p, kiln_block block, kiln_picks *out) {
    search s = {.block = block};
    if (p->block.data[block].combiner == KILN_COMBINE_NONE)
        kiln_expr_rewrite(p, p->block.data[block].value, 0, look_at, &s);
    if (out) *out = s.picks;
    return s.picks.iters != 0;
}

/* The longest iterator that runs along one dimension of everything that it indexes. */
static int common_iter(const kiln_program *p, const kiln_pattern *pattern, uint32_t picked) {
    const kiln_block_info *b = &p->block.data[pattern->block];
    int best = -1;
    for (int i = 0; i < (int)b->iter_count; i++) {
        bool common =
            (pattern->spatial >> i & 1) && !(picked >> i & 1) && pattern->to.dim_of[i] >= 0;
        for (uint32_t a = 0; a < pattern->from_count; a++)
            common &= !(pattern->from[a].iters >> i & 1) || pattern->from[a].dim_of[i] >= 0;
        if (common && (best < 0 || b->iter[i].extent > b->iter[best].extent)) best = i;
    }
    return best;
}

/* Blocks of `lanes` along the iterator innermost in `access`'s buffer, if nobody has given it a
 * layout. */
static void block_along(kiln_sched *s, const kiln_block_access *access, int iter, int64_t lanes) {
    if (kiln_layout_is_identity(&s->program->buffer.data[access->buffer].layout))
        kiln_sketch_block_buffer(s, access->buffer, access->dim_of[iter], kiln_sched_const(lanes));
}

/* Lanes innermost, around them the cases, and outside what else there is. */
static void order_cases(kiln_sched *s, kiln_block block, const kiln_picks *picks, int iter,
                        int64_t lanes) {
    const uint32_t iters = s->program->block.data[block].iter_count;
    kiln_sched_loops order = {0}, cases = {0};
    kiln_sched_loop loop = kiln_sched_loop_of(s, block, (uint32_t)iter);
    const kiln_sched_loops vector = kiln_sketch_split_lanes(s, loop, lanes);
    if (!vector.count) return;
    for (uint32_t i = 0; i < iters; i++) {
        loop = kiln_sched_loop_of(s, block, i);
        if ((int)i == iter) continue;
        if (!(picks->iters >> i & 1)) {
            kiln_sched_loops_add(&order, loop);
        } else if (!picks->by[i]) {
            kiln_sched_loops_add(&cases, loop);
        } else {
            const kiln_sched_loops part = kiln_sketch_split_lanes(s, loop, picks->by[i]);
            kiln_sched_loops_add(&order, part.loop[0]);
            kiln_sched_loops_add(&cases, part.loop[1]);
        }
    }
    const uint32_t outer = order.count + 1;
    kiln_sched_loops_add(&order, vector.loop[0]);
    for (uint32_t i = 0; i < cases.count; i++) kiln_sched_loops_add(&order, cases.loop[i]);
    kiln_sched_loops_add(&order, vector.loop[1]);
    kiln_sched_reorder(kiln_sched_try(s), &order);
    kiln_sched_vectorize(kiln_sched_try(s), vector.loop[1]);
    for (uint32_t i = cases.count; i-- > 0;) kiln_sched_unroll(kiln_sched_try(s), cases.loop[i]);
    kiln_sketch_share(s, block, outer);
}

bool kiln_sketch_transform(kiln_sched *s, kiln_block block) {
    kiln_program *p = s->program;
    kiln_picks picks;
    kiln_pattern pattern;
    if (!kiln_sketch_picks(p, block, &picks) || !kiln_pattern_of(p, block, &pattern)) return false;
    int iter = common_iter(p, &pattern, picks.iters);
    if (iter < 0) return false;
    const kiln_block_info *b = &p->block.data[block];
    int64_t lanes =
        kiln_sketch_lanes(s->target, p->buffer.data[b->buffer].dtype, b->iter[iter].extent);
    if (lanes < 2) return false;
    block_along(s, &pattern.to, iter, lanes);
    for (uint32_t a = 0; a < pattern.from_count; a++) block_along(s, &pattern.from[a], iter, lanes);
    order_cases(s, block, &picks, iter, lanes);
    return true;
}
