/* The regions of buffers that blocks touch while some loops run and the loops outside are fixed, as
 * expressions over the fixed variables. Used by legality (sched/dependence, iterations) and by
 * primitives that place computation. All answers are safe: a region contains everything that is
 * touched, and `dense` is true only when proved. Answers hold until the program changes. */
#ifndef KILN_COMPILER_CORE_FACTS_REGION_H
#define KILN_COMPILER_CORE_FACTS_REGION_H

#include "compiler-core/ir/ir.h"

/* Variables of the loops between a statement and an outer one: those that run while the outer one
 * is fixed. */
typedef struct kiln_movers {
    uint32_t count;
    kiln_var *var; /* [count], in the program's arena */
} kiln_movers;
/* `outer` 0: all loops around the statement. */
kiln_movers kiln_movers_inside(const kiln_program *p, kiln_stmt stmt, kiln_stmt outer);
/* Which kinds of variables an expression has. Loaded data counts as both, because it is unknown
 * which variables it depends on. */
typedef struct kiln_mix {
    bool moves, stands;
} kiln_mix;
/* The kinds that `e` has. */
kiln_mix kiln_mix_of(kiln_program *p, kiln_expr e, const kiln_movers *m);
/* An index over the block's iterators, as an expression over loop variables. */
kiln_expr kiln_bound_index(kiln_program *p, kiln_block block, kiln_expr index);

/* Indices touched along one dimension while the outer loops are fixed: within base + [low, high].
 * `base` is over the fixed variables; id 0 means zero. */
typedef struct kiln_region_dim {
    kiln_expr base;
    int64_t low, high;
    bool dense; /* every index in the interval is touched (as far as it lies in the buffer and below
                   the limit) */
    kiln_expr limit; /* over fixed variables: a predicate excludes indices from here on; 0: none
                      * known */
} kiln_region_dim;

typedef struct kiln_region {
    uint32_t rank;
    kiln_region_dim dim[KILN_RANK_MAX];
} kiln_region;

/* Region of one access: `index` over the iterators of `block`, which is placed in the tree. Loops
 * inside `outer` run, the others are fixed (outer 0: all run). */
kiln_region kiln_region_of(kiln_program *p, kiln_block block, const kiln_expr *index, uint32_t rank,
                           kiln_stmt outer);
/* Smallest region that this form can express around both; `shape` bounds what is not expressible.
 */
kiln_region kiln_region_union(kiln_program *p, const kiln_region *a, const kiln_region *b,
                              const kiln_shape *shape);
/* Whether the block's predicate cuts only what lies outside its domain. */
bool kiln_predicate_clips_domain(kiln_program *p, kiln_block block);

#endif
