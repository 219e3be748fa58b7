/* The reference kernel: a fixed piece of work of some ten microseconds that is timed before and
 * after every sample, on the core and in the process that measures. Its two parts show what a
 * kernel can lose:
 *
 *     arithmetic  independent integer operations that want every issue slot of the core: a clock
 *                 that falls, and a neighbour on the other thread of the same core, which a virtual
 *                 machine is not told of (the multiply-adds of deploy/runtime/peak.h leave slots
 *                 free and do not notice that one)
 *     memory      a pass over the next piece of a buffer that private caches do not hold: somebody
 *                 else at work in the shared cache and the memory behind it
 *
 * The arithmetic part keeps its operands in registers; the memory part evicts one piece from the
 * private caches. Neither allocates nor makes a system call. */
#ifndef KILN_RPC_SERVER_PACE_H
#define KILN_RPC_SERVER_PACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define KILN_PACE_BYTES ((size_t)4 << 20) /* twice the largest private cache that is about */
#define KILN_PACE_PIECE_BYTES ((size_t)64 << 10)
#define KILN_PACE_ROUNDS 2000u /* of the arithmetic part: 5 us at 3.4 GHz */
#define KILN_PACE_READINGS 9u
#define KILN_PACE_PAUSE_NS UINT64_C(3000000)

/* Times of both parts, in nanoseconds; smaller is faster. */
typedef struct kiln_pace {
    double arithmetic_ns, memory_ns;
} kiln_pace;

typedef struct kiln_pacer {
    uint64_t *data; /* [KILN_PACE_BYTES], of the caller */
    size_t at;      /* the next piece */
    uint64_t sink;  /* what the work comes to: without it there would be none */
} kiln_pacer;

/* Writes to each page of `data`, so that it is one of its own. */
void kiln_pacer_init(kiln_pacer *pacer, void *data);
/* Runs the reference kernel once. */
kiln_pace kiln_pacer_take(kiln_pacer *pacer);
/* The median of each part in KILN_PACE_READINGS runs: what the board does at the moment. */
kiln_pace kiln_pacer_settle(kiln_pacer *pacer);

/* `count` settled readings of `core`, some milliseconds apart so that what disturbs one does not
 * disturb all, in the calling thread, which may run where it might before afterwards.
 * RESOURCE_EXHAUSTED: no memory, or no such core. */
KILN_MUST_USE kiln_status kiln_pace_watch(uint32_t core, uint32_t count, kiln_pace *out_pace);

#endif
