/* Places values in memory. Inside deploy/pack; pure. */
#ifndef KILN_DEPLOY_PACK_MEMORY_H
#define KILN_DEPLOY_PACK_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* A value that needs memory from the step that writes it to the last one that reads it. A value
 * whose first step comes after its last one may share bytes with all others. */
typedef struct kiln_memory_value {
    uint64_t size_bytes;
    uint32_t first_step, last_step; /* both included */
    uint64_t offset;                /* planned: a multiple of KILN_KERNEL_ALIGNMENT */
} kiln_memory_value;

typedef struct kiln_memory_peak {
    uint64_t arena_bytes; /* size of the arena */
    uint64_t live_bytes;  /* of the values alive at the worst step: a lower bound for any plan */
    uint64_t value_bytes; /* of all values */
    uint64_t looked_at;   /* values and steps visited: the cost of planning */
} kiln_memory_peak;

/* Sets the offsets of `count` values so that no two that are alive at the same step share bytes;
 * without `reuse` no two at all do. Sizes are rounded up to the alignment. Cost: O(log steps) per
 * value, plus the pairs of values that are alive together, up to some hundred per value; with more
 * pairs fewer orders are tried. */
kiln_memory_peak kiln_memory_plan(kiln_memory_value *value, uint32_t count, bool reuse,
                                  kiln_arena *scratch);

#endif
