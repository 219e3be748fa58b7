/* Blocks that are computed for one or a few rows at a time: reductions along a row, in lanes, and
 * what is computed from them. Shared by the rules "rows" and "stack". Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_ROWS_H
#define KILN_COMPILER_CORE_RULES_ROWS_H

#include "compiler-core/rules/rules.h"

/* The last block that writes an output; 0: none. */
kiln_block kiln_rows_last_block(const kiln_program *p);
/* Iterators of `last` that index everything that earlier blocks hand to it: the rows. */
uint32_t kiln_rows_iters(kiln_program *p, const kiln_pattern *last);

/* How many rows are computed together. */
typedef struct kiln_rows_limits {
    int64_t preferred, most;
    int64_t elements; /* that temps of so many rows may have */
} kiln_rows_limits;
/* Rows outermost and in one loop, which is returned; below it, several rows. */
kiln_sched_loop kiln_rows_put_outside(kiln_sched *s, kiln_block last, uint32_t rows,
                                      const kiln_rows_limits *limits);

/* A reduction along contiguous elements becomes one of several vectors, and one of their lanes.
 * Returns the block that makes the vectors; 0: none. Before anything is placed. */
kiln_block kiln_rows_reduce_in_lanes(kiln_sched *s, kiln_block block);
/* Places the block, and the one that makes its vectors if `part` is one, in the loop. False: one of
 * them cannot be there. */
bool kiln_rows_place(kiln_sched *s, kiln_block block, kiln_block part, kiln_sched_loop at);
/* When all are placed: vectors of `part` stay in registers, and elements of a pointwise block are
 * computed in lanes, unless they lie along `rows`. `in_rows`: kiln_rows_place said so. */
void kiln_rows_finish(kiln_sched *s, kiln_block block, kiln_block part, bool in_rows,
                      uint32_t rows);

#endif
