/* Blocks alone in their launches: their results are distributed to threads in order. This applies
 * to any program. */
#include "compiler-core/facts/loads.h"
#include "compiler-core/rules/group.h"

#define SIZES_MAX 4 /* of groups that are worth trying: the largest, half of it, ... */

/* Loops of the block's iterators, those that reduce or the others. */
static kiln_sched_loops loops_of(const kiln_sched *s, kiln_block block, bool reduce) {
    const kiln_block_info *b = &s->program->block.data[block];
    kiln_sched_loops list = {0};
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce == reduce)
            kiln_sched_loops_add(&list, kiln_sched_loop_of(s, block, i));
    return list;
}

/* Threads of a group, the preferred number first: no more than there are results. */
static kiln_sched_sample sample_threads(kiln_sched *s, int64_t results) {
    int64_t value[SIZES_MAX], most = s->target->group_threads;
    uint32_t count = 0;
    while (most / 2 >= results) most /= 2;
    for (; count < SIZES_MAX && most > 0; most /= 2) value[count++] = most;
    return kiln_sched_categorical(s, value, count, 0);
}

void kiln_group_spread_block(kiln_sched *s, kiln_block block) {
    kiln_sched_loops order = loops_of(s, block, false);
    const kiln_sched_loops results = order, reduce = loops_of(s, block, true);
    kiln_block write = 0;
    if (results.count == 0) return;
    if (reduce.count) write = kiln_sched_cache_write(kiln_sched_try(s), block, KILN_SCOPE_LOCAL);
    for (uint32_t i = 0; i < reduce.count; i++) kiln_sched_loops_add(&order, reduce.loop[i]);
    if (reduce.count) kiln_sched_reorder(kiln_sched_try(s), &order);
    kiln_sched_loop all = results.loop[0];
    if (results.count > 1) all = kiln_sched_fuse(kiln_sched_try(s), &results);
    const int64_t count = kiln_sched_loop_is_none(all) ? 0 : kiln_sched_extent(s, all);
    if (count == 0) return; /* a block without results stays one launch that does nothing */
    const kiln_sched_sample threads = sample_threads(s, count);
    const kiln_sched_loops part = kiln_sched_split(
        s, all, KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(threads, 0)));
    if (!kiln_sched_bind(kiln_sched_try(s), part.loop[0], KILN_AXIS_BLOCK_X)) return;
    kiln_sched_bind(kiln_sched_try(s), part.loop[1], KILN_AXIS_THREAD_X);
    if (write) kiln_sched_reverse_compute_at(kiln_sched_try(s), write, part.loop[1]);
}

kiln_sketch_result kiln_sketch_group_spread(kiln_sched *s, uint32_t options) {
    (void)options;
    kiln_sketch_inline(s);
    kiln_sketch_visit_alone(s, kiln_group_spread_block);
    return kiln_sketch_made();
}
