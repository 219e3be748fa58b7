/* The rule "rows": several reductions over the same rows, and blocks that use their results:
 * softmax, normalisations. Everything is computed for one row at a time, and reductions along a row
 * run in lanes. */
#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/rules/rows.h"

kiln_block kiln_rows_last_block(const kiln_program *p) {
    kiln_block last = 0;
    for (kiln_block b = 1; b < p->block.count; b++)
        if (!p->block.data[b].removed &&
            p->buffer.data[p->block.data[b].buffer].role == KILN_ROLE_OUTPUT)
            last = b;
    return last;
}

uint32_t kiln_rows_iters(kiln_program *p, const kiln_pattern *last) {
    uint32_t rows = last->spatial, found = 0;
    for (uint32_t a = 0; a < last->from_count; a++) {
        if (!kiln_program_producer(p, last->from[a].buffer)) continue;
        uint32_t plain = 0;
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
            if (last->from[a].dim_of[i] >= 0) plain |= 1u << i;
        rows &= plain;
        found++;
    }
    return found ? rows : 0;
}

/* Loops of the block's iterators that `mask` has. */
static kiln_sched_loops loops_of(const kiln_sched *s, kiln_block block, uint32_t mask) {
    kiln_sched_loops list = {0};
    for (uint32_t i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (mask >> i & 1) kiln_sched_loops_add(&list, kiln_sched_loop_of(s, block, i));
    return list;
}

static void add_all(kiln_sched_loops *list, const kiln_sched_loops *more) {
    for (uint32_t i = 0; i < more->count; i++) kiln_sched_loops_add(list, more->loop[i]);
}

/* ---- lanes ---- */

#define PARTS_OF_VECTORS_MAX 4

/* The reduce iterator along which all reads of a block are contiguous, or -1. */
static int contiguous_reduction(const kiln_program *p, const kiln_pattern *pattern) {
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        bool read = false;
        for (uint32_t a = 0; a < pattern->from_count; a++) read |= pattern->from[a].dim_of[i] >= 0;
        if ((pattern->reduce >> i & 1) && read && kiln_sketch_reads_contiguously(p, pattern, i))
            return i;
    }
    return -1;
}

kiln_block kiln_rows_reduce_in_lanes(kiln_sched *s, kiln_block block) {
    kiln_program *p = s->program;
    kiln_pattern pattern;
    if (!kiln_block_is_reduction(p, block) || !kiln_pattern_of(p, block, &pattern)) return 0;
    int iter = contiguous_reduction(p, &pattern);
    if (iter < 0) return 0;
    int64_t extent = p->block.data[block].iter[iter].extent;
    int64_t lanes = kiln_sketch_lanes(s->target, p->buffer.data[pattern.to.buffer].dtype, extent);
    int64_t parts[PARTS_OF_VECTORS_MAX];
    uint32_t count = 0;
    for (int64_t vectors = 1; vectors <= PARTS_OF_VECTORS_MAX; vectors *= 2)
        if (lanes > 1 && vectors * lanes * 2 <= extent) parts[count++] = vectors * lanes;
    if (count == 0) return 0;
    kiln_sched_sample sampled =
        kiln_sched_categorical(s, parts, count, kiln_sketch_nearest(parts, count, 2 * lanes));
    return kiln_sched_rfactor(kiln_sched_try(s), block, (uint32_t)iter,
                              kiln_sched_element(sampled, 0));
}

/* Lanes are combined in halves; if that is refused, one by one. */
static void combine_lanes(kiln_sched *s, kiln_block block, kiln_sched_loop lanes) {
    kiln_sched_decompose_reduction(kiln_sched_try(s), block, lanes);
    if (!kiln_sched_vectorize(kiln_sched_try(s), lanes))
        kiln_sched_unroll(kiln_sched_try(s), lanes);
}

/* Sums in vectors, which stay in registers while the reduction runs; then sums their lanes.
 * `in_rows`: both are computed for one row at a time, so there are only those of one result. */
static void keep_lanes_in_registers(kiln_sched *s, kiln_block block, kiln_block part,
                                    bool in_rows) {
    kiln_program *p = s->program;
    const kiln_block_info *b = &p->block.data[part];
    uint32_t reduce = 0;
    int lane = -1;
    int64_t results = 1;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (b->iter[i].reduce) {
            reduce |= 1u << i;
            continue;
        }
        if (lane >= 0) results *= b->iter[lane].extent;
        lane = (int)i; /* the last spatial one */
    }
    kiln_buffer parts = b->buffer;
    int64_t lanes = kiln_sketch_lanes(s->target, p->buffer.data[parts].dtype, b->iter[lane].extent);
    kiln_sched_loops vector =
        kiln_sketch_split_lanes(s, kiln_sched_loop_of(s, part, (uint32_t)lane), lanes);
    kiln_sched_loops order = loops_of(s, part, reduce);
    const kiln_sched_loop along = order.loop[0];
    add_all(&order, &vector);
    kiln_sched_reorder(kiln_sched_try(s), &order);
    kiln_sched_vectorize(kiln_sched_try(s), vector.loop[1]);
    kiln_sched_unroll(kiln_sched_try(s), vector.loop[0]);
    kiln_sched_decompose_reduction(kiln_sched_try(s), part, along);
    b = &p->block.data[block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce) combine_lanes(s, block, kiln_sched_loop_of(s, block, i));
    if (in_rows || results == 1) kiln_sched_set_scope(s, parts, KILN_SCOPE_REGISTER);
}

/* Lanes along the elements of a row that a pointwise block computes. */
static void vectorize_row(kiln_sched *s, kiln_block block, uint32_t iter) {
    const kiln_program *p = s->program;
    const kiln_block_info *b = &p->block.data[block];
    int64_t lanes =
        kiln_sketch_lanes(s->target, p->buffer.data[b->buffer].dtype, b->iter[iter].extent);
    kiln_sched_loops vector = {0};
    if (lanes > 1) vector = kiln_sketch_split_lanes(s, kiln_sched_loop_of(s, block, iter), lanes);
    if (vector.count) kiln_sched_vectorize(kiln_sched_try(s), vector.loop[1]);
}

/* ---- the nest ---- */

/* Dependency chains of one row hide behind those of others; elements are half of a first cache. */
static const kiln_rows_limits few_rows = {.preferred = 4, .most = 8, .elements = 4096};
#define SIZES_MAX 16

/* Number of rows computed together, step by step: a divisor of their innermost loop. */
static kiln_sched_int sample_rows(kiln_sched *s, kiln_sched_loop row, int64_t width,
                                  const kiln_rows_limits *limits) {
    int64_t several[SIZES_MAX];
    uint32_t count = 0;
    for (int64_t n = 1; n <= limits->most && count < SIZES_MAX; n *= 2)
        if (kiln_sched_extent(s, row) % n == 0 && (n == 1 || n * width <= limits->elements))
            several[count++] = n;
    if (count == 1) return kiln_sched_const(1);
    return kiln_sched_element(
        kiln_sched_categorical(s, several, count,
                               kiln_sketch_nearest(several, count, limits->preferred)),
        0);
}

kiln_sched_loop kiln_rows_put_outside(kiln_sched *s, kiln_block last, uint32_t rows,
                                      const kiln_rows_limits *limits) {
    const kiln_block_info *b = &s->program->block.data[last];
    const uint32_t all = (1u << b->iter_count) - 1;
    kiln_sched_loops row = loops_of(s, last, rows);
    const kiln_sched_loops column = loops_of(s, last, all & ~rows);
    int64_t width = 1;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!(rows >> i & 1)) width *= b->iter[i].extent;
    kiln_sched_loops order = row;
    add_all(&order, &column);
    if (column.count) kiln_sched_reorder(kiln_sched_try(s), &order);
    kiln_sched_loop *innermost = &row.loop[row.count - 1];
    const kiln_sched_int several = sample_rows(s, *innermost, width, limits);
    const kiln_sched_loops parts = kiln_sched_split(kiln_sched_try(s), *innermost,
                                                    KILN_SCHED_INTS(kiln_sched_rest(), several));
    if (parts.count) *innermost = parts.loop[0];
    kiln_sched_loop at = {0};
    if (row.count > 1) at = kiln_sched_fuse(kiln_sched_try(s), &row);
    if (kiln_sched_loop_is_none(at)) at = *innermost;
    if (s->target->threads > 1) kiln_sched_parallel(kiln_sched_try(s), at);
    return at;
}

bool kiln_rows_place(kiln_sched *s, kiln_block block, kiln_block part, kiln_sched_loop at) {
    bool placed = kiln_sched_compute_at(kiln_sched_try(s), block, at);
    if (part)
        placed &=
            kiln_sched_compute_at(kiln_sched_try(s), part, kiln_sched_loop_around(s, block, -2));
    return placed;
}

void kiln_rows_finish(kiln_sched *s, kiln_block block, kiln_block part, bool in_rows,
                      uint32_t rows) {
    kiln_program *p = s->program;
    kiln_pattern pattern;
    if (p->block.data[block].removed || !kiln_pattern_of(p, block, &pattern)) return;
    if (part) keep_lanes_in_registers(s, block, part, in_rows);
    const int iter = kiln_sketch_contiguous_iter(p, &pattern);
    if (iter >= 0 && !(rows >> iter & 1) && !kiln_block_is_reduction(p, block))
        vectorize_row(s, block, (uint32_t)iter);
}

kiln_sketch_result kiln_sketch_rows(kiln_sched *s, uint32_t options) {
    (void)options;
    uint32_t reductions;
    kiln_sketch_inline(s);
    kiln_program *p = s->program;
    kiln_block last = kiln_rows_last_block(p);
    kiln_pattern pattern;
    if (!kiln_sketch_main_reduction(p, &reductions))
        return kiln_sketch_never("there is no reduction");
    if (!last || kiln_block_is_reduction(p, last))
        return kiln_sketch_never("the last block is a reduction");
    uint32_t rows = kiln_pattern_of(p, last, &pattern) ? kiln_rows_iters(p, &pattern) : 0;
    if (!rows) return kiln_sketch_never("there are no rows that all blocks share");

    kiln_block *part = KILN_ARENA_ARRAY(s->arena, kiln_block, last + 1);
    bool *in_rows = KILN_ARENA_ARRAY(s->arena, bool, last + 1);
    for (kiln_block b = 1; b < last; b++)
        if (!p->block.data[b].removed) part[b] = kiln_rows_reduce_in_lanes(s, b);

    const kiln_sched_loop at = kiln_rows_put_outside(s, last, rows, &few_rows);
    for (kiln_block b = last - 1; b >= 1; b--)
        if (!p->block.data[b].removed) in_rows[b] = kiln_rows_place(s, b, part[b], at);
    for (kiln_block b = 1; b <= last; b++)
        kiln_rows_finish(s, b, part[b], in_rows[b], b == last ? rows : 0);
    kiln_sketch_finish(s);
    return kiln_sketch_made();
}
