/* What blocks touch: regions of buffers for a given iteration of outer loops, whether a reader's
 * region is written before it reads, and whether two iterations of a loop can write the same
 * element. All answers are safe: "no" may mean "not proved". Private to sched/. */
#ifndef KILN_COMPILER_CORE_SCHED_REGION_H
#define KILN_COMPILER_CORE_SCHED_REGION_H

#include "base/status.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/ir.h"

/* Indices touched along one dimension while the outer loops stand still: within base + [low, high].
 * `base` is over the variables that stand still; 0 stands for zero. */
typedef struct kiln_region_dim {
    kiln_expr base;
    int64_t low, high;
    bool dense; /* every index in the interval is touched (as far as it lies in the buffer and below
                   the limit) */
    kiln_expr limit; /* over what stands still: a predicate leaves out indices from here on; 0: none
                        known */
} kiln_region_dim;

typedef struct kiln_region {
    uint32_t rank;
    kiln_region_dim dim[KILN_RANK_MAX];
} kiln_region;

/* Region of one access: `index` over the iterators of `block`, which is placed in the tree. Loops
 * that lie inside `outer` move, the others stand still (outer 0: all move). */
kiln_region kiln_region_of(kiln_program *p, kiln_block block, const kiln_expr *index, uint32_t rank,
                           kiln_stmt outer);
/* Smallest region that this form can express around both; `shape` bounds what is not expressible.
 */
kiln_region kiln_region_union(kiln_program *p, const kiln_region *a, const kiln_region *b,
                              const kiln_shape *shape);
/* Whether the block's predicate cuts only what lies outside its domain. */
bool kiln_predicate_clips_domain(kiln_program *p, kiln_block block);

/* NULL when whatever `reader` reads of `buffer` has been written completely by `writer` earlier
 * within the same iteration of their common loops; else the reason. */
const char *kiln_dependence_broken(kiln_program *p, kiln_block writer, kiln_block reader,
                                   kiln_buffer buffer);
/* All dependences of `block` as reader and as writer. ILLEGAL_SCHEDULE names the other block and
 * why. */
KILN_MUST_USE kiln_status kiln_dependences_check(kiln_program *p, kiln_block block);

/* Whether the element that `block` writes tells the value of the loop's variable, given the loops
 * around it: then no two of its iterations touch the same element. */
bool kiln_element_determines(kiln_program *p, kiln_block block, kiln_stmt loop);
/* Whether two different iterations of `loop` never write the same element of a buffer that lives
 * outside the loop, for all blocks below. ILLEGAL_SCHEDULE names the block and why. */
KILN_MUST_USE kiln_status kiln_iterations_check(kiln_program *p, kiln_stmt loop);
/* The same for each parallel or vectorized loop of the program: moving a reader can end a buffer's
 * privacy. */
KILN_MUST_USE kiln_status kiln_iterations_check_all(kiln_program *p);

#endif
