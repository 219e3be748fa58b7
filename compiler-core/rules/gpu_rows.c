/* The rule "rows" of GPUs: reductions along contiguous rows, and the blocks that use them: softmax,
 * normalisations, products with one vector. A group computes a row. Each of its threads adds up its
 * elements in a register; the threads' partial sums are combined in two steps, in shared memory,
 * where the other temps of the row are as well. */
#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/rules/gpu.h"
#include "compiler-core/rules/rows.h"

#define THREADS_MAX 256 /* limit of rfactor */
#define ITEMS_WANTED 4  /* of a thread, so that combining is not most of the work */
#define LAST_PARTS 8    /* sums that one thread adds up in the end */
#define SIZES_MAX 8

/* The reduce iterator along which the block's reads are contiguous, of at least a warp; or -1. */
static int row_iter(const kiln_sched *s, kiln_block block, const kiln_gpu_limits *l) {
    kiln_pattern pattern;
    if (!kiln_pattern_of(s->program, block, &pattern)) return -1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if ((pattern.reduce >> i & 1) && s->program->block.data[block].iter[i].extent >= l->warp &&
            kiln_sketch_reads_contiguously(s->program, &pattern, i))
            return i;
    return -1;
}

static bool is_reduction(const kiln_sched *s, kiln_block b) {
    return !s->program->block.data[b].removed && kiln_block_is_reduction(s->program, b) &&
           !kiln_block_reads_only_constants(s->program, b);
}

/* Threads of a group: whole warps, some elements for each. 0 rows: a warp exceeds the threads of a
 * group. */
static uint32_t list_threads(const kiln_gpu_limits *l, int64_t extent, int64_t *out,
                             uint32_t *out_preferred) {
    uint32_t count = 0;
    *out_preferred = 0;
    for (int64_t n = l->warp; n <= KILN_MIN(l->threads, THREADS_MAX) && count < SIZES_MAX &&
                              (n == l->warp || n <= extent);
         n *= 2) {
        if (n * ITEMS_WANTED <= extent) *out_preferred = count;
        out[count++] = n;
    }
    return count;
}

typedef struct rows {
    kiln_sched *s;
    kiln_sched_loop row; /* a group each */
    kiln_sched_int threads;
    bool *is_placed;         /* [blocks] */
    kiln_sched_loop *thread; /* [blocks] around a thread's part of the block; none: no loop */
} rows;

/* Partial sums of each thread, then of a few threads. False: the loops do not allow it. */
static bool share_out(kiln_sched *s, kiln_block block, int iter, kiln_sched_int threads) {
    const kiln_block part = kiln_sched_rfactor(kiln_sched_try(s), block, (uint32_t)iter, threads);
    if (!part || !kiln_sched_cache_write(kiln_sched_try(s), part, KILN_SCOPE_REGISTER))
        return false;
    const kiln_block_info *b = &s->program->block.data[block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce)
            return kiln_sched_rfactor(kiln_sched_try(s), block, i, kiln_sched_const(LAST_PARTS));
    return false;
}

/* Distributes its results to the threads. */
static bool deal(rows *r, kiln_block block, uint32_t outside) {
    kiln_sched *s = r->s;
    const kiln_block_info *b = &s->program->block.data[block];
    kiln_sched_loops results = {0}, order;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce && !(outside >> i & 1))
            kiln_sched_loops_add(&results, kiln_sched_loop_of(s, block, i));
    if (results.count == 0) return true;
    order = results;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce) kiln_sched_loops_add(&order, kiln_sched_loop_of(s, block, i));
    if (order.count > 1 && !kiln_sched_reorder(kiln_sched_try(s), &order)) return false;
    kiln_sched_loop all = results.loop[0];
    if (results.count > 1) all = kiln_sched_fuse(kiln_sched_try(s), &results);
    if (kiln_sched_loop_is_none(all)) return false;
    r->thread[block] = all;
    if (kiln_sched_extent(s, all) == 1) return true;
    if (kiln_sched_extent(s, all) != LAST_PARTS) {
        const kiln_sched_loops part =
            kiln_sched_split(s, all, KILN_SCHED_INTS(kiln_sched_rest(), r->threads));
        const kiln_sched_loops inner = {2, {part.loop[1], part.loop[0]}};
        r->thread[block] = part.loop[1];
        if (!kiln_sched_reorder(kiln_sched_try(s), &inner)) return false;
    }
    return kiln_sched_bind(kiln_sched_try(s), r->thread[block], KILN_AXIS_THREAD_X);
}

/* The only reader of the block's result, if it copies it out of registers; 0: none. */
static kiln_block copy_of(kiln_sched *s, kiln_block block) {
    kiln_program *p = s->program;
    const kiln_buffer buffer = p->block.data[block].buffer;
    if (p->buffer.data[buffer].scope != KILN_SCOPE_REGISTER) return 0;
    kiln_block *reader = KILN_ARENA_ARRAY(s->arena, kiln_block, p->block.count);
    return kiln_buffer_readers(p, buffer, reader) == 1 ? reader[0] : 0;
}

static bool place(rows *r, kiln_block block) {
    kiln_sched *s = r->s;
    const kiln_block copy = copy_of(s, block);
    r->is_placed[block] = true;
    if (!copy) return kiln_sched_compute_at(kiln_sched_try(s), block, r->row) && deal(r, block, 0);
    if (!kiln_sched_compute_at(kiln_sched_try(s), block, r->thread[copy])) return false;
    const kiln_block_info *b = &s->program->block.data[block];
    kiln_sched_loop first = {0};
    for (uint32_t i = b->iter_count; i-- > 0;)
        if (b->iter[i].reduce) first = kiln_sched_loop_of(s, block, i);
    return kiln_sched_decompose_reduction(kiln_sched_try(s), block, first);
}

/* Whether all readers of the block's result are placed. */
static bool is_next(const rows *r, kiln_block block) {
    kiln_program *p = r->s->program;
    kiln_block *reader = KILN_ARENA_ARRAY(r->s->arena, kiln_block, p->block.count);
    const uint32_t count = kiln_buffer_readers(p, p->block.data[block].buffer, reader);
    if (p->block.data[block].removed || p->block.data[block].init_of || r->is_placed[block] ||
        count == 0 || kiln_block_reads_only_constants(p, block))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!r->is_placed[reader[i]]) return false;
    return true;
}

/* From the last block to the first. */
static bool place_all(rows *r) {
    const uint32_t count = r->s->program->block.count;
    for (kiln_block b = count - 1; b >= 1; b--) {
        if (!is_next(r, b)) continue;
        if (!place(r, b)) return false;
        b = count; /* from the beginning */
    }
    return true;
}

/* The loops of rows outermost, as one, a group each. */
static bool bind_rows(rows *r, kiln_block last, uint32_t mask) {
    kiln_sched *s = r->s;
    const kiln_block_info *b = &s->program->block.data[last];
    kiln_sched_loops row = {0}, order;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (mask >> i & 1) kiln_sched_loops_add(&row, kiln_sched_loop_of(s, last, i));
    order = row;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!(mask >> i & 1)) kiln_sched_loops_add(&order, kiln_sched_loop_of(s, last, i));
    if (order.count > 1 && !kiln_sched_reorder(kiln_sched_try(s), &order)) return false;
    r->row = row.count > 1 ? kiln_sched_fuse(kiln_sched_try(s), &row) : row.loop[0];
    r->is_placed[last] = true;
    return !kiln_sched_loop_is_none(r->row) &&
           kiln_sched_bind(kiln_sched_try(s), r->row, KILN_AXIS_BLOCK_X) && deal(r, last, mask);
}

kiln_sketch_result kiln_sketch_gpu_rows(kiln_sched *s, uint32_t options) {
    (void)options;
    const kiln_gpu_limits limits = kiln_gpu_limits_of(s->target);
    kiln_sketch_inline(s);
    kiln_program *p = s->program;
    int64_t extent = 0, size[SIZES_MAX];
    uint32_t preferred;
    const uint32_t count = p->block.count;
    int *iter = KILN_ARENA_ARRAY(s->arena, int, count);
    for (kiln_block b = 1; b < count; b++) {
        if (!is_reduction(s, b)) continue;
        iter[b] = row_iter(s, b, &limits);
        if (iter[b] < 0)
            return kiln_sketch_never("the rows of a reduction are shorter than a warp");
        extent = KILN_MAX(extent, p->block.data[b].iter[iter[b]].extent);
    }
    if (extent == 0) return kiln_sketch_never("there is no reduction");
    const uint32_t sizes = list_threads(&limits, extent, size, &preferred);
    if (sizes == 0)
        return kiln_sketch_none(kiln_arena_printf(
            s->arena, "no group of the device has a warp: it runs %lld threads, a warp has %lld",
            (long long)limits.threads, (long long)limits.warp));
    const kiln_sched_sample threads = kiln_sched_categorical(s, size, sizes, preferred);
    rows r = {.s = s, .threads = kiln_sched_element(threads, 0)};
    for (kiln_block b = 1; b < count; b++)
        if (is_reduction(s, b) && !share_out(s, b, iter[b], r.threads))
            return kiln_sketch_none("threads cannot share a reduction");
    kiln_pattern pattern;
    const kiln_block last = kiln_rows_last_block(p);
    const uint32_t mask =
        last && kiln_pattern_of(p, last, &pattern) ? kiln_rows_iters(p, &pattern) : 0;
    if (!mask) return kiln_sketch_none("there are no rows that all blocks share");
    r.is_placed = KILN_ARENA_ARRAY(s->arena, bool, p->block.count);
    r.thread = KILN_ARENA_ARRAY(s->arena, kiln_sched_loop, p->block.count + count * 4);
    if (!bind_rows(&r, last, mask) || !place_all(&r))
        return kiln_sketch_none("something cannot be computed for a row at a time");
    kiln_sketch_visit_alone(s, kiln_gpu_spread_block);
    return kiln_sketch_made();
}
