/* Distributing loops to threads. */
#include <string.h>

#include "compiler-core/rules/rules.h"

/* Below this, transfers between the cores' caches cost more than several threads save. Fork and
 * join themselves take 0.13 us while workers spin, some microseconds when they sleep. */
#define SHARED_WORK_MIN 16384.0

double kiln_sketch_waiting(int64_t parts, int64_t threads) {
    return 1 - (double)parts / (double)((parts + threads - 1) / threads * threads);
}

#define WAITING_MAX                                                           \
    0.04 /* less than the cost of dividing by one more loop's extent in every \
          * part */

static bool is_parallel(const kiln_program *p, kiln_sched_loop loop) {
    return p->stmt.data[kiln_program_find_loop(p, p->var.data[loop.var].name)].loop_kind ==
           KILN_LOOP_PARALLEL;
}

uint32_t kiln_sketch_shared_depth(const kiln_sched *s, kiln_block block) {
    const kiln_sched_loops around = kiln_sched_loops_around(s, block);
    for (uint32_t i = 0; i < around.count; i++)
        if (is_parallel(s->program, around.loop[i])) return i + 1;
    return 0;
}

uint32_t kiln_sketch_depth(const kiln_sched *s, kiln_block block, kiln_sched_loop loop) {
    const kiln_sched_loops around = kiln_sched_loops_around(s, block);
    for (uint32_t i = 0; i < around.count; i++)
        if (around.loop[i].var == loop.var) return i + 1;
    return 0;
}

uint32_t kiln_sketch_share_inside(kiln_sched *s, kiln_block block, kiln_sched_loop outer,
                                  uint32_t most) {
    int64_t parts = 1, threads = s->target->threads;
    if (threads <= 1 || kiln_pattern_work(s->program, block) < SHARED_WORK_MIN ||
        kiln_sketch_shared_depth(s, block))
        return 0;
    kiln_sched_loops around = kiln_sched_loops_around(s, block);
    const uint32_t depth = kiln_sketch_depth(s, block, outer);
    around.count -= depth;
    memmove(around.loop, around.loop + depth, around.count * sizeof around.loop[0]);
    uint32_t shared = 0;
    double least = 1;
    for (uint32_t i = 0; i < most && i < around.count && least > WAITING_MAX; i++) {
        parts *= kiln_sched_extent(s, around.loop[i]);
        if (kiln_sketch_waiting(parts, threads) >= least) continue;
        least = kiln_sketch_waiting(parts, threads);
        shared = i + 1;
    }
    if (shared == 0) return 0;
    around.count = shared;
    kiln_sched_loop outermost =
        shared > 1 ? kiln_sched_fuse(kiln_sched_try(s), &around) : around.loop[0];
    return kiln_sched_parallel(kiln_sched_try(s), outermost) ? shared : 0;
}

uint32_t kiln_sketch_share(kiln_sched *s, kiln_block block, uint32_t most) {
    return kiln_sketch_share_inside(s, block, (kiln_sched_loop){0}, most);
}
