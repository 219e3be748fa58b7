/* Blocks alone in their nests: lanes along a contiguous dimension, outer loops distributed to
 * threads. Steps that a block does not allow are left out, so this applies to any program. */
#include <stdlib.h>

#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/rules/rules.h"

int64_t kiln_sketch_lanes(const kiln_target *target, kiln_dtype dtype, int64_t extent) {
    int64_t lanes = (int64_t)(target->vector_bytes / kiln_dtype_size(dtype));
    while (lanes > 1 && extent * 2 <= lanes) lanes /= 2;
    return lanes;
}

uint32_t kiln_sketch_nearest(const int64_t *value, uint32_t count, int64_t to) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (llabs(value[i] - to) < llabs(value[best] - to)) best = i;
    return best;
}

int kiln_sketch_contiguous_iter(const kiln_program *p, const kiln_pattern *pattern) {
    const kiln_buffer_info *to = &p->buffer.data[pattern->to.buffer];
    if (to->shape.rank == 0) return -1;
    uint32_t dim = to->layout.piece_count ? to->layout.piece[to->layout.piece_count - 1].dim
                                          : to->shape.rank - 1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (pattern->to.dim_of[i] == (int)dim && (pattern->spatial >> i & 1)) return i;
    return -1;
}

bool kiln_sketch_reads_contiguously(const kiln_program *p, const kiln_pattern *pattern, int iter) {
    for (uint32_t a = 0; a < pattern->from_count; a++) {
        const kiln_block_access *x = &pattern->from[a];
        if (!(x->iters >> iter & 1)) continue;
        if (x->dim_of[iter] + 1 != (int)p->buffer.data[x->buffer].shape.rank) return false;
    }
    return true;
}

kiln_sched_loops kiln_sketch_split_lanes(kiln_sched *s, kiln_sched_loop loop, int64_t lanes) {
    return kiln_sched_split(kiln_sched_try(s), loop,
                            KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_const(lanes)));
}

/* Spatial loops outside, reduce loops inside, lanes innermost. `vector`: the two parts of the loop
 * of `lanes_iter`. */
static void order_around_lanes(kiln_sched *s, const kiln_pattern *pattern, int lanes_iter,
                               const kiln_sched_loops *vector) {
    const kiln_block_info *b = &s->program->block.data[pattern->block];
    kiln_sched_loops order = {0};
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce && (int)i != lanes_iter)
            kiln_sched_loops_add(&order, kiln_sched_loop_of(s, pattern->block, i));
    kiln_sched_loops_add(&order, vector->loop[0]);
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (pattern->reduce >> i & 1)
            kiln_sched_loops_add(&order, kiln_sched_loop_of(s, pattern->block, i));
    kiln_sched_loops_add(&order, vector->loop[1]);
    kiln_sched_reorder(kiln_sched_try(s), &order);
    kiln_sched_vectorize(kiln_sched_try(s), vector->loop[1]);
}

/* One after the other, innermost. */
static void put_inside(kiln_sched *s, const kiln_pattern *pattern, int iter, kiln_sched_loop loop) {
    const kiln_block_info *b = &s->program->block.data[pattern->block];
    kiln_sched_loops order = {0};
    for (uint32_t i = 0; i < b->iter_count; i++)
        if ((int)i != iter) kiln_sched_loops_add(&order, kiln_sched_loop_of(s, pattern->block, i));
    kiln_sched_loops_add(&order, loop);
    kiln_sched_reorder(kiln_sched_try(s), &order);
    kiln_sched_unroll(kiln_sched_try(s), loop);
}

/* Fewer elements than lanes, read from separate places (three channels interleaved): lanes would
 * cost a mask and a test for each of them. */
static bool is_few_from_apart(const kiln_program *p, const kiln_pattern *pattern, int iter,
                              int64_t lanes) {
    return p->block.data[pattern->block].iter[iter].extent < lanes &&
           !kiln_sketch_reads_contiguously(p, pattern, iter);
}

/* Elements of a square's side, so that registers hold all of its rows. */
#define SQUARE_MAX 16

/* If lanes along `iter` read elements that are not contiguous: the iterator along which these are,
 * if it splits into as many elements as there are lanes; else -1. Squares of both are transposed in
 * registers. */
static int square_iter(kiln_program *p, const kiln_pattern *pattern, int iter, int64_t lanes) {
    const kiln_block_info *b = &p->block.data[pattern->block];
    const kiln_block_access *x = &pattern->from[0];
    if (pattern->from_count != 1 || lanes < 4 || b->iter[iter].extent % lanes != 0) return -1;
    const kiln_buffer_info *from = &p->buffer.data[x->buffer], *to = &p->buffer.data[b->buffer];
    if (from->shape.rank == 0 || kiln_dtype_size(from->dtype) != kiln_dtype_size(to->dtype) ||
        kiln_dtype_size(to->dtype) < 2)
        return -1;
    const kiln_layout_piece *last =
        from->layout.piece_count ? &from->layout.piece[from->layout.piece_count - 1] : NULL;
    const int dim = last ? (int)last->dim : (int)from->shape.rank - 1;
    if (last && (last->divisor != 1 || last->modulus % lanes != 0)) return -1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (i != iter && (pattern->spatial >> i & 1) && x->dim_of[i] == dim &&
            x->dim_of[iter] != dim && b->iter[i].extent % lanes == 0)
            return i;
    return -1;
}

/* Whole squares outside, then the elements that are contiguous where read, then lanes. */
static void transpose_squares(kiln_sched *s, const kiln_pattern *pattern, int iter, int across,
                              int64_t lanes) {
    const kiln_block_info *b = &s->program->block.data[pattern->block];
    const kiln_sched_loops to =
        kiln_sketch_split_lanes(s, kiln_sched_loop_of(s, pattern->block, (uint32_t)iter), lanes);
    const kiln_sched_loops from =
        kiln_sketch_split_lanes(s, kiln_sched_loop_of(s, pattern->block, (uint32_t)across), lanes);
    kiln_sched_loops order = {0};
    for (uint32_t i = 0; i < b->iter_count; i++)
        if ((int)i != iter && (int)i != across)
            kiln_sched_loops_add(&order, kiln_sched_loop_of(s, pattern->block, i));
    kiln_sched_loops_add(&order, from.loop[0]);
    kiln_sched_loops_add(&order, to.loop[0]);
    kiln_sched_loops_add(&order, from.loop[1]);
    kiln_sched_loops_add(&order, to.loop[1]);
    kiln_sched_reorder(kiln_sched_try(s), &order);
    kiln_sched_unroll(kiln_sched_try(s), from.loop[1]);
    kiln_sched_vectorize(kiln_sched_try(s), to.loop[1]);
}

static void vectorize_block(kiln_sched *s, kiln_block block) {
    kiln_program *p = s->program;
    kiln_pattern pattern;
    kiln_sched_loops vector = {0};
    if (!kiln_pattern_of(p, block, &pattern)) return;
    int iter = kiln_sketch_contiguous_iter(p, &pattern);
    bool reduces = kiln_block_is_reduction(p, block);
    if (iter >= 0 && (!reduces || kiln_sketch_reads_contiguously(p, &pattern, iter))) {
        int64_t lanes = kiln_sketch_lanes(s->target, p->buffer.data[pattern.to.buffer].dtype,
                                          p->block.data[block].iter[iter].extent);
        const kiln_sched_loop along = kiln_sched_loop_of(s, block, (uint32_t)iter);
        const int64_t side = KILN_MIN(lanes, SQUARE_MAX);
        const int across = reduces ? -1 : square_iter(p, &pattern, iter, side);
        if (across >= 0)
            transpose_squares(s, &pattern, iter, across, side);
        else if (!reduces && is_few_from_apart(p, &pattern, iter, lanes))
            put_inside(s, &pattern, iter, along);
        else if (lanes > 1)
            vector = kiln_sketch_split_lanes(s, along, lanes);
    }
    if (vector.count) order_around_lanes(s, &pattern, iter, &vector);
    uint32_t outer = 0;
    for (uint32_t i = 0; i < p->block.data[block].iter_count; i++)
        outer += !p->block.data[block].iter[i].reduce;
    kiln_sketch_share(s, block, outer);
}

/* Words of bits: a lane for each bit; the lanes become a mask. The tests of a vector of data, plane
 * by plane, are unrolled. */
static void pack_bits(kiln_sched *s, kiln_block block) {
    const kiln_block_info *b = &s->program->block.data[block];
    kiln_sched_loop bits = {0}, plane = {0};
    uint32_t outer = 0;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        const kiln_sched_loop loop = kiln_sched_loop_of(s, block, i);
        *(b->iter[i].reduce ? &bits : &plane) = loop;
        outer += !b->iter[i].reduce;
    }
    kiln_sched_decompose_reduction(kiln_sched_try(s), block, bits);
    kiln_sched_vectorize(kiln_sched_try(s), bits);
    if (outer > 1) kiln_sched_unroll(kiln_sched_try(s), plane);
    kiln_sketch_share(s, block, outer - 1);
}

void kiln_sketch_finish_block(kiln_sched *s, kiln_block block) {
    if (kiln_block_packs_bits(s->program, block))
        pack_bits(s, block);
    else if (!kiln_sketch_transform(s, block, (kiln_sched_loop){0}))
        vectorize_block(s, block);
}

/* Whether it is alone in its nest, with unchanged loops. */
static bool stands_alone(kiln_program *p, kiln_block block) {
    kiln_stmt stmt = kiln_program_block_stmt(p, block);
    const kiln_loops around = kiln_nest_loops(p, stmt);
    for (uint32_t i = 0; i < around.count; i++)
        if (p->stmt.data[around.loop[i]].loop_kind != KILN_LOOP_SERIAL) return false;
    return kiln_nest_block_count(p, kiln_nest_child_towards(p, p->root, stmt)) == 1 &&
           around.count == p->block.data[block].iter_count;
}

void kiln_sketch_visit_alone(kiln_sched *s, void (*visit)(kiln_sched *, kiln_block)) {
    kiln_program *p = s->program;
    for (kiln_block b = 1; b < p->block.count; b++)
        if (!p->block.data[b].removed && !p->block.data[b].init_of && stands_alone(p, b) &&
            (!kiln_block_reads_only_constants(p, b) || kiln_sketch_picks(p, b, NULL)))
            visit(s, b);
}

void kiln_sketch_finish(kiln_sched *s) { kiln_sketch_visit_alone(s, kiln_sketch_finish_block); }

kiln_sketch_result kiln_sketch_any(kiln_sched *s, uint32_t options) {
    (void)options;
    kiln_sketch_inline(s);
    kiln_sketch_finish(s);
    return kiln_sketch_made();
}
