/* The ranges of integer values of a graph, where they are smaller than the dtype: the `range` of a
 * task's arguments (ir/ir.h), which algorithms use. */
#ifndef KILN_COMPILER_CORE_TASK_RANGES_H
#define KILN_COMPILER_CORE_TASK_RANGES_H

#include "compiler-core/graph/graph.h"

/* The range of each value that operators compute: [values] in `arena`, step 0 where nothing is
 * known. Ranges begin at quantize_linear with `bits` and pass through operators that move elements
 * or choose among them. */
kiln_range *kiln_graph_ranges(const kiln_graph *graph, kiln_arena *arena);

#define KILN_CONSTANT_BITS_MAX 4

/* The first of these ranges that contains all elements of a constant, with b from 1 to
 * KILN_CONSTANT_BITS_MAX: odd numbers from -(2^b - 1) to 2^b - 1, 0 to 2^b - 1, -2^(b-1) to 2^(b-1)
 * - 1. step 0: none, or no bytes. */
kiln_range kiln_constant_range(const kiln_tensor *constant);

#endif
