/* The access pattern of a block: which iterators index which operands. Rules decide by this, never
 * by an operator's name. */
#ifndef KILN_COMPILER_CORE_FACTS_PATTERN_H
#define KILN_COMPILER_CORE_FACTS_PATTERN_H

#include "compiler-core/ir/ir.h"

/* One operand of a block (or the element that it writes). */
typedef struct kiln_block_access {
    kiln_buffer buffer;
    uint32_t iters; /* bit i: iterator i takes part in an index */
    /* The dimension in which iterator i steps by one and all others by multiples of its extent, so
     * that blocks of the iterator are blocks of that dimension; -1: none. */
    int8_t dim_of[KILN_BLOCK_ITERS_MAX];
    int64_t step[KILN_RANK_MAX]; /* by which dimension d grows with a reduce iterator, or shrinks;
                                    0: none */
    uint32_t window; /* bit d: dimension d is indexed by spatial and reduce iterators together */
} kiln_block_access;

typedef struct kiln_pattern {
    kiln_block block;
    kiln_block_access to;
    uint32_t from_count;
    kiln_block_access *from;  /* [from_count] distinct loads, in the program's arena */
    uint32_t spatial, reduce; /* bit i: iterator i, extent above 1 */
    bool contracts;   /* multiplies, or reduces another function of two loads, each of which has
                         spatial iterators that the other one lacks: a product of matrices over other
                         operations */
    bool multiplies;  /* a sum of products of two loads: from[0] and from[1] */
    bool counts_ones; /* multiplies bits: loads are words of them (algorithm/bits.c) */
} kiln_pattern;

/* False when the block was inlined away. */
bool kiln_pattern_of(kiln_program *p, kiln_block block, kiln_pattern *out);
/* Whether it joins bits to words: a sum of select(.., 1 << .., 0). */
bool kiln_block_packs_bits(const kiln_program *p, kiln_block block);
/* Operations of one run of the block. */
double kiln_pattern_work(const kiln_program *p, kiln_block block);

#endif
