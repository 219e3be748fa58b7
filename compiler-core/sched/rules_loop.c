/* Rules without a register tile: several reductions over the same rows, and whatever is left. */
#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/rules.h"

/* ---- blocks that stand alone ---- */

/* The iterator that runs over consecutive elements of what the block writes, or -1. */
static int contiguous_iter(const kiln_program *p, const kiln_pattern *pattern) {
    const kiln_buffer_info *to = &p->buffer.data[pattern->to.buffer];
    if (to->shape.rank == 0) return -1;
    uint32_t dim = to->layout.piece_count ? to->layout.piece[to->layout.piece_count - 1].dim
                                          : to->shape.rank - 1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (pattern->to.dim_of[i] == (int)dim && (pattern->spatial >> i & 1)) return i;
    return -1;
}

/* Whether consecutive values of the iterator read consecutive elements, or all the same one. */
static bool reads_contiguously(const kiln_program *p, const kiln_pattern *pattern, int iter) {
    for (uint32_t a = 0; a < pattern->from_count; a++) {
        const kiln_access *x = &pattern->from[a];
        if (!(x->iters >> iter & 1)) continue;
        if (x->dim_of[iter] + 1 != (int)p->buffer.data[x->buffer].shape.rank) return false;
    }
    return true;
}

static const char *loop_list(kiln_maker *m, kiln_block block, uint32_t mask) {
    const char *list = "";
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (mask >> i & 1)
            list = kiln_arena_printf(m->arena, "%s%s%s", list, *list ? ", " : "",
                                     kiln_make_loop_name(m, block, i, ""));
    return list;
}

static uint32_t bits(uint32_t mask) { return (uint32_t)__builtin_popcount(mask); }

/* Spatial loops outside, reduce loops inside, lanes of `lanes_iter` (or -1) innermost; the outer
 * loops shared out. */
static void order_and_share(kiln_maker *m, const kiln_pattern *pattern, int lanes_iter,
                            bool share) {
    const kiln_block_info *b = &m->replay.p->block.data[pattern->block];
    uint32_t outer = 0;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce && (int)i != lanes_iter) outer |= 1u << i;
    if (lanes_iter >= 0) {
        const char *outer_list = loop_list(m, pattern->block, outer);
        const char *low = kiln_make_loop_name(m, pattern->block, lanes_iter, ".0");
        const char *reduce = loop_list(m, pattern->block, pattern->reduce);
        kiln_make(m, "reorder(%s%s%s%s%s, %s)", outer_list, outer ? ", " : "", low,
                  *reduce ? ", " : "", reduce,
                  kiln_make_loop_name(m, pattern->block, lanes_iter, ".1"));
        kiln_make(m, "vectorize(%s)", kiln_make_loop_name(m, pattern->block, lanes_iter, ".1"));
    }
    if (share) kiln_sketch_share(m, pattern->block, bits(outer) + (lanes_iter >= 0));
}

static void vectorize_block(kiln_maker *m, kiln_block block, bool share) {
    kiln_program *p = m->replay.p;
    kiln_pattern pattern;
    if (!kiln_pattern_of(p, block, &pattern)) return;
    int iter = contiguous_iter(p, &pattern);
    bool reduces = kiln_block_is_reduction(p, block);
    if (iter >= 0 && reduces && !reads_contiguously(p, &pattern, iter)) iter = -1;
    if (iter >= 0) {
        int64_t lanes = kiln_sketch_lanes(m->target, p->buffer.data[pattern.to.buffer].dtype,
                                          p->block.data[block].iter[iter].extent);
        if (lanes < 2 || !kiln_make(m, "split(%s, -1, %lld)",
                                    kiln_make_loop_name(m, block, iter, ""), (long long)lanes))
            iter = -1;
    }
    order_and_share(m, &pattern, iter, share);
}

void kiln_sketch_finish_block(kiln_maker *m, kiln_block block) {
    if (!kiln_sketch_transform(m, block)) vectorize_block(m, block, true);
}

static void count_blocks(kiln_program *p, kiln_block block, void *context) {
    (void)p;
    (void)block;
    ++*(uint32_t *)context;
}

/* Alone in its nest, and every loop is as it was made. */
static bool stands_alone(kiln_program *p, kiln_block block) {
    kiln_stmt stmt = kiln_program_block_stmt(p, block);
    kiln_loops around = kiln_nest_loops(p, stmt);
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < around.count; i++)
        if (p->stmt.data[around.loop[i]].loop_kind != KILN_LOOP_SERIAL) return false;
    kiln_nest_visit_blocks(p, kiln_nest_child_towards(p, p->root, stmt), count_blocks, &blocks);
    return blocks == 1 && around.count == p->block.data[block].iter_count;
}

void kiln_sketch_finish(kiln_maker *m) {
    kiln_program *p = m->replay.p;
    for (kiln_block b = 1; b < p->block.count; b++)
        if (!p->block.data[b].removed && !p->block.data[b].init_of && stands_alone(p, b) &&
            !kiln_block_reads_only_constants(p, b))
            kiln_sketch_finish_block(m, b);
}

/* ---- rows ---- */

/* The last block that writes an output. */
static kiln_block last_block(const kiln_program *p) {
    kiln_block last = 0;
    for (kiln_block b = 1; b < p->block.count; b++)
        if (!p->block.data[b].removed &&
            p->buffer.data[p->block.data[b].buffer].role == KILN_ROLE_OUTPUT)
            last = b;
    return last;
}

/* Iterators of `last` that index everything that earlier blocks hand to it: the rows. */
static uint32_t row_iters(kiln_program *p, const kiln_pattern *last) {
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

#define PARTS_OF_VECTORS_MAX 4

/* The reduce iterator along which everything that a block reads is contiguous, or -1. */
static int contiguous_reduction(const kiln_program *p, const kiln_pattern *pattern) {
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        bool read = false;
        for (uint32_t a = 0; a < pattern->from_count; a++) read |= pattern->from[a].dim_of[i] >= 0;
        if ((pattern->reduce >> i & 1) && read && reads_contiguously(p, pattern, i)) return i;
    }
    return -1;
}

/* A reduction along contiguous elements becomes one of several vectors, and one of their lanes.
 * Returns the block that makes the vectors; 0: none. */
static kiln_block reduce_in_lanes(kiln_maker *m, kiln_block block) {
    kiln_program *p = m->replay.p;
    kiln_pattern pattern;
    if (!kiln_block_is_reduction(p, block) || !kiln_pattern_of(p, block, &pattern)) return 0;
    int iter = contiguous_reduction(p, &pattern);
    if (iter < 0) return 0;
    const kiln_iter *along = &p->block.data[block].iter[iter];
    int64_t lanes =
        kiln_sketch_lanes(m->target, p->buffer.data[pattern.to.buffer].dtype, along->extent);
    int64_t parts[PARTS_OF_VECTORS_MAX];
    uint32_t count = 0;
    for (int64_t vectors = 1; vectors <= PARTS_OF_VECTORS_MAX; vectors *= 2)
        if (lanes > 1 && vectors * lanes * 2 <= along->extent) parts[count++] = vectors * lanes;
    if (count == 0) return 0;
    const char *sampled = kiln_make_categorical(m, parts, count, 2 * lanes);
    kiln_block part = p->block.count;
    kiln_str name = kiln_iter_name(p, along);
    return kiln_make(m, "rfactor(%s, \"%.*s\", %s)", kiln_make_block_name(m, block),
                     KILN_STR_ARG(name), sampled)
               ? part
               : 0;
}

/* The vectors of a reduction, which stay in registers while it runs; then their lanes, one by one.
 * `in_rows`: both are computed for one row at a time, so that those of one result are all there
 * are. */
static void keep_lanes_in_registers(kiln_maker *m, kiln_block block, kiln_block part,
                                    bool in_rows) {
    kiln_program *p = m->replay.p;
    const kiln_block_info *b = &p->block.data[part];
    int lane = -1, along = -1;
    int64_t results = 1;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (b->iter[i].reduce && along < 0) along = (int)i;
        if (b->iter[i].reduce) continue;
        if (lane >= 0) results *= b->iter[lane].extent;
        lane = (int)i; /* the last spatial one */
    }
    int64_t lanes =
        kiln_sketch_lanes(m->target, p->buffer.data[b->buffer].dtype, b->iter[lane].extent);
    kiln_buffer parts = b->buffer;
    kiln_make(m, "split(%s, -1, %lld)", kiln_make_loop_name(m, part, lane, ""), (long long)lanes);
    const char *order = "";
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce)
            order = kiln_arena_printf(m->arena, "%s%s, ", order,
                                      kiln_make_loop_name(m, part, (int)i, ""));
    kiln_make(m, "reorder(%s%s, %s)", order, kiln_make_loop_name(m, part, lane, ".0"),
              kiln_make_loop_name(m, part, lane, ".1"));
    kiln_make(m, "vectorize(%s)", kiln_make_loop_name(m, part, lane, ".1"));
    kiln_make(m, "unroll(%s)", kiln_make_loop_name(m, part, lane, ".0"));
    kiln_make(m, "decompose_reduction(%s, %s)", kiln_make_block_name(m, part),
              kiln_make_loop_name(m, part, along, ""));
    b = &p->block.data[block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce)
            kiln_make(m, "unroll(%s)", kiln_make_loop_name(m, block, (int)i, ""));
    if (in_rows || results == 1)
        kiln_make(m, "set_scope(%s, \"register\")", kiln_make_buffer_name(m, parts));
}

bool kiln_sketch_rows(kiln_maker *m, uint32_t variant) {
    (void)variant;
    uint32_t reductions;
    kiln_sketch_inline(m);
    kiln_program *p = m->replay.p;
    kiln_block last = last_block(p);
    kiln_pattern pattern;
    if (!kiln_sketch_main_reduction(p, &reductions) || !last || kiln_block_is_reduction(p, last))
        return false;
    if (!kiln_pattern_of(p, last, &pattern)) return false;
    uint32_t rows = row_iters(p, &pattern);
    if (!rows) return false;

    kiln_block *part = KILN_ARENA_ARRAY(m->arena, kiln_block, last + 1);
    bool *in_rows = KILN_ARENA_ARRAY(m->arena, bool, last + 1);
    for (kiln_block b = 1; b < last; b++)
        if (!p->block.data[b].removed) part[b] = reduce_in_lanes(m, b);

    /* Rows outermost; everything else is computed for one row at a time. */
    uint32_t columns = 0;
    for (uint32_t i = 0; i < p->block.data[last].iter_count; i++)
        if (!(rows >> i & 1)) columns |= 1u << i;
    const char *row_list = loop_list(m, last, rows), *column_list = loop_list(m, last, columns);
    if (columns) kiln_make(m, "reorder(%s, %s)", row_list, column_list);
    int innermost = 31 - __builtin_clz(rows), outermost = __builtin_ctz(rows);
    const char *at = kiln_make_loop_name(m, last, innermost, "");
    if (bits(rows) > 1 && kiln_make(m, "fuse(%s)", row_list))
        at = kiln_make_loop_name(m, last, outermost, ".f");
    if (m->target->threads > 1) kiln_make(m, "parallel(%s)", at);
    for (kiln_block b = last - 1; b >= 1; b--) {
        if (p->block.data[b].removed) continue;
        in_rows[b] = kiln_make(m, "compute_at(%s, %s)", kiln_make_block_name(m, b), at);
        if (part[b])
            in_rows[b] &= kiln_make(m, "compute_at(%s, %s)", kiln_make_block_name(m, part[b]), at);
    }
    for (kiln_block b = 1; b <= last; b++) {
        if (p->block.data[b].removed || !kiln_pattern_of(p, b, &pattern)) continue;
        if (part[b]) keep_lanes_in_registers(m, b, part[b], in_rows[b]);
        int iter = contiguous_iter(p, &pattern);
        bool is_row = b == last && iter >= 0 && (rows >> iter & 1);
        if (iter < 0 || is_row || kiln_block_is_reduction(p, b)) continue;
        int64_t lanes = kiln_sketch_lanes(m->target, p->buffer.data[pattern.to.buffer].dtype,
                                          p->block.data[b].iter[iter].extent);
        if (lanes > 1 && kiln_make(m, "split(%s, -1, %lld)", kiln_make_loop_name(m, b, iter, ""),
                                   (long long)lanes))
            kiln_make(m, "vectorize(%s)", kiln_make_loop_name(m, b, iter, ".1"));
    }
    kiln_sketch_finish(m);
    return true;
}

/* ---- anything ---- */

bool kiln_sketch_any(kiln_maker *m, uint32_t variant) {
    (void)variant;
    kiln_sketch_inline(m);
    kiln_sketch_finish(m);
    return true;
}
