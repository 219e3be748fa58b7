/* The copy of a reduction's data with its padding: whether there is one, its place, and its
 * vectors. */
#include "compiler-core/facts/nest.h"
#include "compiler-core/rules/tile.h"

#define PIXELS_UNROLLED 8 /* vectors that are copied at a time for products with steps of a tap */

/* The fill value of a copy that does nothing else, or with `casts` casts as well; 0: it does more.
 */
static kiln_expr padding_of(const kiln_program *p, kiln_block copy, bool casts) {
    const kiln_expr value = p->block.data[copy].value;
    if (kiln_expr_get(p, value)->op != KILN_EXPR_SELECT) return 0;
    kiln_expr copied = kiln_expr_operand(p, value, 1);
    if (casts && kiln_expr_get(p, copied)->op == KILN_EXPR_CAST)
        copied = kiln_expr_operand(p, copied, 0);
    const bool only_pads = kiln_expr_get(p, copied)->op == KILN_EXPR_LOAD &&
                           kiln_expr_is_const(p, kiln_expr_operand(p, value, 2));
    return only_pads ? kiln_expr_operand(p, value, 2) : 0;
}

kiln_expr kiln_sketch_padding_of(const kiln_program *p, kiln_block copy) {
    return padding_of(p, copy, false);
}

/* Lowering cuts the loops where the padding begins, and the middle part reads the source itself.
 * Sums skip products with zeros, so that tiles at the border have less work; a tensor intrinsic
 * takes its operands as they are, and each cut piece is separate code. Vectors of data are widened
 * once for the taps that share them, so halves are read from the source, too. */
bool kiln_tile_reads_source(const kiln_tiling *t, kiln_block copy) {
    kiln_program *p = t->s->program;
    kiln_expr filled = padding_of(p, copy, !t->packs);
    if (!filled || t->dot) return false;
    if (!t->packs) return true;
    return !t->s->compact &&
           filled == kiln_expr_zero(p, (kiln_dtype)kiln_expr_get(p, filled)->dtype);
}

/* Iterator of the copy that runs over dimension `dim` of what it writes, or -1. */
static int iter_along(const kiln_program *p, kiln_block copy, int dim) {
    const kiln_block_info *b = &p->block.data[copy];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (dim >= 0 && kiln_block_iter_of(p, copy, b->index[dim]) == (int)i) return (int)i;
    return -1;
}

/* Blocks of `block` along iterator `inner`, so that some of the last dimension's elements and their
 * blocks make one vector. */
static void vectorize_blocks(kiln_tiling *t, kiln_block copy, int inner, int last,
                             kiln_sched_int block, kiln_sched_int lanes) {
    kiln_sched *s = t->s;
    kiln_sched_loops blocks = kiln_sched_split(s, kiln_sched_loop_of(s, copy, (uint32_t)inner),
                                               KILN_SCHED_INTS(kiln_sched_rest(), block));
    kiln_sched_loops vectors = kiln_sched_split(s, kiln_sched_loop_of(s, copy, (uint32_t)last),
                                                KILN_SCHED_INTS(kiln_sched_rest(), lanes));
    kiln_sched_loops order = {0};
    for (uint32_t i = 0; i < s->program->block.data[copy].iter_count; i++)
        if ((int)i != last)
            kiln_sched_loops_add(&order,
                                 (int)i == inner ? blocks.loop[0] : kiln_sched_loop_of(s, copy, i));
    kiln_sched_loops_add(&order, vectors.loop[0]);
    kiln_sched_loops_add(&order, vectors.loop[1]);
    kiln_sched_loops_add(&order, blocks.loop[1]);
    kiln_sched_reorder(s, &order);
    if (t->dot && !t->packs) { /* whole vectors each */
        kiln_sched_vectorize(s, blocks.loop[1]);
        kiln_sched_unroll(s, vectors.loop[1]);
        return;
    }
    const kiln_sched_loops innermost = {2, {vectors.loop[1], blocks.loop[1]}};
    kiln_sched_vectorize(s, kiln_sched_fuse(s, &innermost));
}

/* In vectors along its blocks, which are of dimension `dim`; alone at the root it is distributed to
 * threads. */
static void vectorize_copy(kiln_tiling *t, kiln_block copy, int dim, kiln_sched_int block,
                           kiln_sched_int lanes, bool at_root) {
    kiln_program *p = t->s->program;
    int rank = (int)p->buffer.data[p->block.data[copy].buffer].shape.rank;
    int inner = iter_along(p, copy, dim), last = iter_along(p, copy, rank - 1);
    if (last < 0) return;
    if (inner >= 0 && inner != last) {
        vectorize_blocks(t, copy, inner, last, block, lanes);
    } else {
        kiln_sched_loops vector =
            kiln_sketch_split_lanes(t->s, kiln_sched_loop_of(t->s, copy, (uint32_t)last), t->lanes);
        if (vector.count) kiln_sched_vectorize(kiln_sched_try(t->s), vector.loop[1]);
    }
    if (at_root) kiln_sketch_share(t->s, copy, p->block.data[copy].iter_count - 1);
}

/* Around the second round of tiles at most: further inside, border tests multiply the code. Copies
 * that are used for one vector of outputs only are preferred there, some rows at a time, others at
 * the root, in a loop of their own. Only a copy at the root can be distributed separately, so with
 * threads that is a separate sketch. */
void kiln_tile_place_copy(kiln_tiling *t, kiln_block copy, uint32_t outer_count) {
    kiln_sched *s = t->s;
    const bool threads = s->target->threads > 1;
    const bool at_root = threads && !t->options.copy_elsewhere;
    const uint32_t inside = 2 * ((t->mh >= 0) + (t->mw >= 0));
    const uint32_t places = outer_count > inside ? outer_count - inside : 0;
    if (kiln_sketch_picks(s->program, copy, NULL)) return; /* kiln_sketch_finish has it */
    if (!t->options.padded_copy && kiln_tile_reads_source(t, copy)) {
        kiln_sched_inline(kiln_sched_try(s), copy);
        return;
    }
    if (!at_root) {
        kiln_sched_loop place =
            kiln_sched_location(kiln_sched_try(s), copy, places, t->packs && !threads ? 0 : places);
        if (!kiln_sched_loop_is_none(place)) kiln_sched_compute_at(s, copy, place);
    }
    const kiln_block_access *x = &t->pattern.from[t->data];
    if (!t->packs)
        vectorize_copy(t, copy, x->dim_of[t->v], kiln_sched_const(t->lanes),
                       kiln_sched_const(t->dot ? PIXELS_UNROLLED : 1), at_root);
    else
        vectorize_copy(t, copy, t->k >= 0 ? x->dim_of[t->k] : -1,
                       t->k >= 0 ? kiln_sched_element(t->steps, 0) : kiln_sched_const(1),
                       kiln_sched_element(t->steps, 2), at_root);
}
