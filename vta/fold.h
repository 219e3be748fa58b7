/* Folds a nest of loops over tiles into one instruction of GEMM or ALU: two loops and a list of
 * micro-ops, in which all other loops are unrolled. For vta/builder.c. */
#ifndef KILN_VTA_FOLD_H
#define KILN_VTA_FOLD_H

#include "base/arena.h"
#include "base/status.h"
#include "vta/isa.h"

#define KILN_VTA_NEST_LOOPS_MAX 8u
#define KILN_VTA_ITERATIONS_MAX 16383u /* of an instruction's loop */

typedef struct kiln_vta_loop {
    uint32_t extent;
    kiln_vta_uop step; /* tiles from one round to the next */
} kiln_vta_loop;

/* One tile operation for each round of the innermost loop, at base plus the steps of all loops. */
typedef struct kiln_vta_nest {
    kiln_vta_uop base;
    uint32_t loop_count;                         /* 0: one operation */
    kiln_vta_loop loop[KILN_VTA_NEST_LOOPS_MAX]; /* outermost first */
} kiln_vta_nest;

/* Requirements of the instruction on the nest. */
typedef struct kiln_vta_fold_rules {
    kiln_vta_uop tiles;    /* every dst, src and wgt is below */
    uint32_t uops_max;     /* micro-ops that the machine holds */
    uint32_t distance;     /* least number of operations from a write of an accumulator to its first
                            * read */
    bool reads_sources;    /* reads accumulators, some of which are results, so that the distance
                            * applies to them */
    bool any_order;        /* operations may be reordered; reads_sources is false */
    bool overwrites_first; /* GEMM's `first`: only the first operation of each dst overwrites it */
} kiln_vta_fold_rules;

typedef struct kiln_vta_folded {
    kiln_vta_loop outer, inner; /* extent 1 and steps 0 where there is no such loop */
    uint32_t uop_count;
    kiln_vta_uop *uop;
} kiln_vta_folded;

/* Whether all operations of a nest have different dst. Also false if the steps alone do not prove
 * it. */
bool kiln_vta_nest_is_injective(const kiln_vta_nest *nest);

/* Chooses the fewest micro-ops; among equal ones the loops nearest to the order of the nest.
 * `out_folded` lies in `arena`. Costs about micro-ops * distance.
 *
 * INVALID_ARGUMENT     too many loops, or one without rounds
 * OUT_OF_RANGE         a tile outside of its memory
 * RESOURCE_EXHAUSTED   more micro-ops than the machine holds
 * FAILED_PRECONDITION  an accumulator is read before its last result is written, for any choice of
 *                      loops; or `first` would overwrite an accumulator twice */
KILN_MUST_USE kiln_status kiln_vta_fold(const kiln_vta_nest *nest, const kiln_vta_fold_rules *rules,
                                        kiln_arena *arena, kiln_vta_folded *out_folded);

#endif
