/* Where right implementations of ONNX may differ by one unit: behind operators that turn a computed
 * real number into an integer. The specification fixes how the number is rounded, but not the
 * precision of the arithmetic that makes it, so a number close to the middle of two integers may
 * become either. Used by `kiln verify`. */
#ifndef KILN_COMPILER_CORE_OPS_ROUNDING_H
#define KILN_COMPILER_CORE_OPS_ROUNDING_H

#include "compiler-core/graph/graph.h"

/* How far a value may lie from another implementation's, beside the error of its own floating-point
 * arithmetic. */
typedef struct kiln_rounding {
    uint32_t steps; /* integers: 1 where the value comes from such an operator through operators
                       that keep the integer type, else 0; always 0 of bool */
    double quantum; /* floats: the scale of the DequantizeLinear that the value comes from through
                       operators that enlarge no difference (the largest where there are several);
                       0 where there is none, or where no such operator stands before it */
} kiln_rounding;

/* Of each output of a graph as it was imported (passes remove what this looks for):
 * [output count], in `arena`. */
kiln_rounding *kiln_graph_rounding(const kiln_graph *graph, kiln_arena *arena);

#endif
