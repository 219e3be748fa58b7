/* Sharing out loops among threads. */
#include "compiler-core/rules/rules.h"

/* Below this, what moves between the cores' caches costs more than sharing saves. Fork and join
 * themselves take 0.13 us while workers spin, some microseconds when they sleep. */
#define SHARED_WORK_MIN 16384.0

/* Share of the threads' time in which they wait for the last of `parts` equal ones. */
static double waiting(int64_t parts, int64_t threads) {
    return 1 - (double)parts / (double)((parts + threads - 1) / threads * threads);
}

#define WAITING_MAX 0.04 /* less than dividing by one more loop's extent in every part costs */

uint32_t kiln_sketch_share(kiln_sched *s, kiln_block block, uint32_t most) {
    int64_t parts = 1, threads = s->target->threads;
    if (threads <= 1 || kiln_pattern_work(s->program, block) < SHARED_WORK_MIN) return 0;
    kiln_sched_loops around = kiln_sched_loops_around(s, block);
    uint32_t shared = 0;
    double least = 1;
    for (uint32_t i = 0; i < most && i < around.count && least > WAITING_MAX; i++) {
        parts *= kiln_sched_extent(s, around.loop[i]);
        if (waiting(parts, threads) >= least) continue;
        least = waiting(parts, threads);
        shared = i + 1;
    }
    if (shared == 0) return 0;
    around.count = shared;
    kiln_sched_loop outermost =
        shared > 1 ? kiln_sched_fuse(kiln_sched_try(s), &around) : around.loop[0];
    return kiln_sched_parallel(kiln_sched_try(s), outermost) ? shared : 0;
}
