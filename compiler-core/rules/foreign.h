/* Schedules of other systems, as far as the rule "tile" can follow them: which task a workload of
 * theirs is, and the schedule of its space nearest to the sizes of their tile. */
#ifndef KILN_COMPILER_CORE_RULES_FOREIGN_H
#define KILN_COMPILER_CORE_RULES_FOREIGN_H

#include "base/status.h"
#include "compiler-core/rules/space.h"

#define KILN_FOREIGN_RANK 4

/* The extent of a dimension of the data: at least `extent`, and less than `extent + slack`. */
typedef struct kiln_foreign_extent {
    int64_t extent, slack; /* slack >= 1 */
} kiln_foreign_extent;

/* A sum of products of f32, by extents alone. Extents of one may be there or not. */
typedef struct kiln_foreign_work {
    uint32_t result_count, reduce_count, data_count;
    int64_t result[KILN_FOREIGN_RANK]; /* dimensions of the result */
    int64_t reduce[KILN_FOREIGN_RANK]; /* iterators that are summed over */
    /* Dimensions of the first factor. Of a convolution its rows and columns with their padding, as
     * far as windows reach, and the stride as slack. */
    kiln_foreign_extent data[KILN_FOREIGN_RANK];
} kiln_foreign_work;

/* Whether `te` has this sum of products and no other, whatever follows it in the same kernel. */
bool kiln_foreign_is(const kiln_foreign_work *work, kiln_program *te);

/* Sizes of the innermost tile; 0: the other system does not say. */
typedef struct kiln_foreign_tile {
    int64_t rows, columns; /* points of the output */
    int64_t lanes;         /* elements of the dimension that vectors run along */
    int64_t steps;         /* block of the reduction */
} kiln_foreign_tile;

/* The direct schedule of the space whose table rows are nearest to `tile`; the rest is as the rule
 * prefers. Deterministic; costs one replay.
 * UNIMPLEMENTED        the space has no direct schedule in tiles of registers
 * ILLEGAL_SCHEDULE     the schedule is refused */
KILN_MUST_USE kiln_status kiln_foreign_adopt(const kiln_space *space, const kiln_foreign_tile *tile,
                                             kiln_arena *arena, kiln_trace *out_trace);

#endif
