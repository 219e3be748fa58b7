/* Blocks that are computed for one or a few rows at a time: reductions along a row, in lanes, and
 * the blocks that read them. Shared by the rules "rows" and "stack". Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_ROWS_H
#define KILN_COMPILER_CORE_RULES_ROWS_H

#include "compiler-core/rules/rules.h"

/* The last block that writes an output; 0: none. */
kiln_block kiln_rows_last_block(const kiln_program *p);
/* The rows: iterators of `last` that index all its operands from earlier blocks. */
uint32_t kiln_rows_iters(kiln_program *p, const kiln_pattern *last);

/* How many rows are computed together. */
typedef struct kiln_rows_limits {
    int64_t preferred, most;
    int64_t elements; /* most elements in temps of so many rows */
} kiln_rows_limits;
/* Makes the rows the outermost loop, which is returned; below it, several rows. */
kiln_sched_loop kiln_rows_put_outside(kiln_sched *s, kiln_block last, uint32_t rows,
                                      const kiln_rows_limits *limits);

/* Splits a reduction along contiguous elements into one over vectors and one over their lanes.
 * Returns the block that makes the vectors; 0: none. Call it before anything is placed. */
kiln_block kiln_rows_reduce_in_lanes(kiln_sched *s, kiln_block block);
/* Places the block, and the one that makes its vectors if `part` is one, in the loop. False: one of
 * them cannot be there. */
bool kiln_rows_place(kiln_sched *s, kiln_block block, kiln_block part, kiln_sched_loop at);
/* After all are placed: keeps vectors of `part` in registers, and computes elements of a pointwise
 * block in lanes, unless they lie along `rows`. `in_rows`: the result of kiln_rows_place. */
void kiln_rows_finish(kiln_sched *s, kiln_block block, kiln_block part, bool in_rows,
                      uint32_t rows);

#endif
