/* Blocks whose value depends on which of a few cases an iterator is in: transforms of tiles. */
#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/rules.h"

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
        kiln_expr_rewrite(p, p->block.data[block].value, look_at, &s);
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
static void block_along(kiln_maker *m, const kiln_access *access, int iter, int64_t lanes) {
    const kiln_buffer_info *b = &m->replay.p->buffer.data[access->buffer];
    if (access->dim_of[iter] < 0 || !kiln_layout_is_identity(&b->layout)) return;
    const char *layout = kiln_sketch_blocked_layout(m, b->shape.rank, access->dim_of[iter]);
    if (layout)
        kiln_make(m, "transform_layout(%s, \"%s\", %lld)", kiln_make_buffer_name(m, access->buffer),
                  layout, (long long)lanes);
}

bool kiln_sketch_transform(kiln_maker *m, kiln_block block) {
    kiln_program *p = m->replay.p;
    kiln_picks picks;
    kiln_pattern pattern;
    if (!kiln_sketch_picks(p, block, &picks) || !kiln_pattern_of(p, block, &pattern)) return false;
    int iter = common_iter(p, &pattern, picks.iters);
    if (iter < 0) return false;
    const kiln_block_info *b = &p->block.data[block];
    int64_t lanes =
        kiln_sketch_lanes(m->target, p->buffer.data[b->buffer].dtype, b->iter[iter].extent);
    if (lanes < 2) return false;
    block_along(m, &pattern.to, iter, lanes);
    for (uint32_t a = 0; a < pattern.from_count; a++) block_along(m, &pattern.from[a], iter, lanes);
    kiln_make(m, "split(%s, -1, %lld)", kiln_make_loop_name(m, block, iter, ""), (long long)lanes);
    const char *outer = "", *cases = "";
    uint32_t outer_count = 1;
    for (int i = 0; i < (int)b->iter_count; i++) {
        bool picked = picks.iters >> i & 1;
        if (i == iter || (picked && !picks.by[i])) continue;
        if (picked)
            kiln_make(m, "split(%s, -1, %lld)", kiln_make_loop_name(m, block, i, ""),
                      (long long)picks.by[i]);
        outer = kiln_arena_printf(m->arena, "%s%s, ", outer,
                                  kiln_make_loop_name(m, block, i, picked ? ".0" : ""));
        outer_count++;
    }
    for (int i = 0; i < (int)b->iter_count; i++)
        if (picks.iters >> i & 1)
            cases = kiln_arena_printf(m->arena, "%s%s, ", cases,
                                      kiln_make_loop_name(m, block, i, picks.by[i] ? ".1" : ""));
    kiln_make(m, "reorder(%s%s, %s%s)", outer, kiln_make_loop_name(m, block, iter, ".0"), cases,
              kiln_make_loop_name(m, block, iter, ".1"));
    kiln_make(m, "vectorize(%s)", kiln_make_loop_name(m, block, iter, ".1"));
    for (int i = (int)b->iter_count - 1; i >= 0; i--)
        if (picks.iters >> i & 1)
            kiln_make(m, "unroll(%s)", kiln_make_loop_name(m, block, i, picks.by[i] ? ".1" : ""));
    kiln_sketch_share(m, block, outer_count);
    return true;
}
