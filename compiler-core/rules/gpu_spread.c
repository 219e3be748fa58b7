/* Blocks alone in their launches, on GPUs: results are distributed to threads in the order of
 * memory, some neighbouring ones to each; sums stay in registers. This applies to any program. */
#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/rules/gpu.h"

#define THREADS_MAX 512
#define SIZES_MAX 8
#define STEPS_UNROLLED_MAX 8 /* of a window: neighbours then share loads */

/* Loops of the block's iterators, those that reduce or the others. */
static kiln_sched_loops loops_of(const kiln_sched *s, kiln_block block, bool reduce) {
    const kiln_block_info *b = &s->program->block.data[block];
    kiln_sched_loops list = {0};
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce == reduce)
            kiln_sched_loops_add(&list, kiln_sched_loop_of(s, block, i));
    return list;
}

/* Loops over the results, in their order in memory. */
static kiln_sched_loops loops_in_memory(const kiln_sched *s, kiln_block block) {
    const kiln_program *p = s->program;
    const kiln_block_info *b = &p->block.data[block];
    const kiln_layout *layout = &p->buffer.data[b->buffer].layout;
    const kiln_sched_loops all = loops_of(s, block, false);
    kiln_sched_loops order = {0};
    if (layout->piece_count != b->index_count || all.count != b->index_count) return all;
    for (uint32_t k = 0; k < layout->piece_count; k++) {
        const kiln_layout_piece *piece = &layout->piece[k];
        const int i = kiln_block_iter_of(p, block, b->index[piece->dim]);
        if (i < 0 || piece->divisor != 1 || piece->modulus) return all;
        kiln_sched_loops_add(&order, kiln_sched_loop_of(s, block, (uint32_t)i));
    }
    return order;
}

/* Threads in whole warps, unless a group has not even one. */
static int64_t in_warps(const kiln_gpu_limits *l, int64_t threads) {
    return threads < l->warp ? threads : threads - threads % l->warp;
}

/* Threads of a group, the preferred number first; no more than there are results. */
static kiln_sched_sample sample_threads(kiln_sched *s, const kiln_gpu_limits *l, int64_t results) {
    int64_t value[SIZES_MAX], most = in_warps(l, KILN_MIN(l->threads, THREADS_MAX));
    uint32_t count = 0, preferred = 0;
    while (most / 2 >= results && most / 2 >= l->warp) most = in_warps(l, most / 2);
    for (; count < SIZES_MAX && most >= KILN_MIN(l->warp, l->threads);
         most = in_warps(l, most / 2)) {
        /* Enough groups for all units, of not too few threads. */
        if (most >= 4 * l->warp && (most > 8 * l->warp || results / most < l->units))
            preferred = count + 1;
        value[count++] = most;
    }
    return kiln_sched_categorical(s, value, count, KILN_MIN(preferred, count - 1));
}

/* Results that a thread computes at once, in vectors if these divide rows of memory. */
static kiln_sched_sample sample_items(kiln_sched *s, const kiln_gpu_limits *l,
                                      const kiln_pattern *pattern, int64_t results, bool several) {
    const kiln_program *p = s->program;
    int64_t value[SIZES_MAX];
    uint32_t count = 0, preferred = 0;
    const int iter = kiln_sketch_contiguous_iter(p, pattern);
    const int64_t extent = iter < 0 ? 1 : p->block.data[pattern->block].iter[iter].extent;
    const int64_t widest = KILN_MAX(
        l->fetch_bytes / (int64_t)kiln_dtype_size(p->buffer.data[pattern->to.buffer].dtype), 1);
    value[count++] = 1;
    for (int64_t items = 2; several && items <= widest && extent % items == 0; items *= 2) {
        if (results / items >= l->units * 4 * l->warp) preferred = count;
        value[count++] = items;
    }
    return kiln_sched_categorical(s, value, count, preferred);
}

/* The sums of a thread's results, in registers: steps outside, so that neighbouring results share
 * loads. False: they cannot be in registers. */
static bool sum_in_thread(kiln_sched *s, kiln_block sums, kiln_sched_loop thread) {
    if (!kiln_sched_compute_at(kiln_sched_try(s), sums, thread)) return false;
    const kiln_sched_loops results = loops_of(s, sums, false), steps = loops_of(s, sums, true);
    kiln_sched_loops order = steps;
    for (uint32_t i = 0; i < results.count; i++) kiln_sched_loops_add(&order, results.loop[i]);
    kiln_sched_reorder(kiln_sched_try(s), &order);
    for (uint32_t i = 0; i < results.count; i++)
        kiln_sched_unroll(kiln_sched_try(s), results.loop[i]);
    for (uint32_t i = 0; i < steps.count; i++)
        if (kiln_sched_extent(s, steps.loop[i]) <= STEPS_UNROLLED_MAX)
            kiln_sched_unroll(kiln_sched_try(s), steps.loop[i]);
    kiln_sched_decompose_reduction(kiln_sched_try(s), sums, steps.loop[0]);
    return true;
}

/* Fuses the loops over its results and distributes them; returns the loop over threads. None: not
 * possible. */
static kiln_sched_loop deal(kiln_sched *s, kiln_block block, bool several) {
    const kiln_gpu_limits limits = kiln_gpu_limits_of(s->target);
    const kiln_sched_loop none = {0};
    const kiln_sched_loops loops = loops_in_memory(s, block), steps = loops_of(s, block, true);
    kiln_sched_loops order = loops;
    kiln_pattern pattern;
    if (loops.count == 0 || !kiln_pattern_of(s->program, block, &pattern)) return none;
    for (uint32_t i = 0; i < steps.count; i++) kiln_sched_loops_add(&order, steps.loop[i]);
    if (order.count > 1) kiln_sched_reorder(kiln_sched_try(s), &order);
    kiln_sched_loop all = loops.loop[0];
    if (loops.count > 1) all = kiln_sched_fuse(kiln_sched_try(s), &loops);
    const int64_t count = kiln_sched_loop_is_none(all) ? 0 : kiln_sched_extent(s, all);
    if (count == 0) return none; /* a block without results stays one launch that does nothing */
    const kiln_sched_sample threads = sample_threads(s, &limits, count),
                            items = sample_items(s, &limits, &pattern, count, several);
    const kiln_sched_loops part =
        kiln_sched_split(s, all,
                         KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(threads, 0),
                                         kiln_sched_element(items, 0)));
    if (!kiln_sched_bind(kiln_sched_try(s), part.loop[0], KILN_AXIS_BLOCK_X)) return none;
    if (!kiln_sched_bind(kiln_sched_try(s), part.loop[1], KILN_AXIS_THREAD_X)) return none;
    if (several) kiln_sched_vectorize(kiln_sched_try(s), part.loop[2]);
    return part.loop[1];
}

/* Whether it reads other blocks' results: then the amount that one iteration reads must be
 * exact. */
static bool reads_temps(kiln_program *p, kiln_block block) {
    const kiln_loads loads = kiln_block_loads(p, block);
    for (uint32_t i = 0; i < loads.count; i++)
        if (p->buffer.data[kiln_load_buffer(p, loads.load[i])].role == KILN_ROLE_TEMP) return true;
    return false;
}

/* Several iterators index one dimension of the results, as in groups of channels: no loop of the
 * block that takes the results corresponds to one of them, so that block is moved into the loops of
 * the sums. */
static bool sum_in_own_loops(kiln_sched *s, kiln_block block, kiln_block results) {
    const kiln_sched_loop thread = deal(s, block, false);
    const kiln_sched_loops steps = loops_of(s, block, true);
    return !kiln_sched_loop_is_none(thread) &&
           kiln_sched_reverse_compute_at(kiln_sched_try(s), results, thread) &&
           kiln_sched_decompose_reduction(kiln_sched_try(s), block, steps.loop[0]);
}

/* One result of few steps: one launch, of one thread. */
static void sum_alone(kiln_sched *s, kiln_block block) {
    const kiln_sched_loops steps = loops_of(s, block, true);
    const kiln_sched_loops part = kiln_sched_split(
        kiln_sched_try(s), steps.loop[0], KILN_SCHED_INTS(kiln_sched_const(1), kiln_sched_rest()));
    if (part.count) kiln_sched_bind(kiln_sched_try(s), part.loop[0], KILN_AXIS_BLOCK_X);
}

void kiln_gpu_spread_block(kiln_sched *s, kiln_block block) {
    kiln_pattern pattern;
    kiln_program *p = s->program;
    if (!kiln_block_is_reduction(p, block)) {
        deal(s, block, true);
        return;
    }
    if (kiln_gpu_share_sums(s, block) || !kiln_pattern_of(p, block, &pattern)) return;
    if (loops_of(s, block, false).count == 0) {
        sum_alone(s, block);
        return;
    }
    const kiln_block results = kiln_sketch_separate_result(s, block, KILN_SCOPE_REGISTER);
    const kiln_buffer sums = p->block.data[block].buffer;
    if (!results) return;
    if (!kiln_gpu_has_plain_result(p, &pattern)) {
        kiln_sched_set_scope(kiln_sched_try(s), sums,
                             sum_in_own_loops(s, block, results) ? KILN_SCOPE_REGISTER
                                                                 : KILN_SCOPE_GLOBAL);
        return;
    }
    const kiln_sched_loop thread = deal(s, results, !reads_temps(p, block));
    if (!kiln_sched_loop_is_none(thread) &&
        kiln_sched_set_scope(kiln_sched_try(s), sums, KILN_SCOPE_REGISTER) &&
        sum_in_thread(s, block, thread))
        return;
    kiln_sched_set_scope(kiln_sched_try(s), sums, KILN_SCOPE_GLOBAL);
    deal(s, block, false);
}

/* Paddings of a reduction's data are computed where they are read. */
void kiln_gpu_inline_paddings(kiln_sched *s) {
    kiln_program *p = s->program;
    kiln_block *reader = KILN_ARENA_ARRAY(s->arena, kiln_block, p->block.count);
    for (kiln_block b = 1; b < p->block.count; b++)
        if (!p->block.data[b].removed && kiln_sketch_padding_of(p, b) &&
            kiln_buffer_readers(p, p->block.data[b].buffer, reader) == 1 &&
            kiln_block_is_reduction(p, reader[0]) && !kiln_gpu_is_tiled(s, reader[0]))
            kiln_sched_inline(kiln_sched_try(s), b);
}

kiln_sketch_result kiln_sketch_gpu_spread(kiln_sched *s, uint32_t options) {
    (void)options;
    kiln_sketch_inline(s);
    kiln_gpu_inline_paddings(s);
    kiln_sketch_visit_alone(s, kiln_gpu_spread_block);
    return kiln_sketch_made();
}
