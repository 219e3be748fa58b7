/* Outputs in which correct implementations of ONNX may differ by one unit: behind operators that
 * turn a computed real number into an integer. The specification fixes how the number is rounded,
 * but not the precision of the arithmetic that makes it, so a number close to the middle of two
 * integers may become either. Used by `kiln verify`. */
#ifndef KILN_COMPILER_CORE_OPS_ROUNDING_H
#define KILN_COMPILER_CORE_OPS_ROUNDING_H

#include "compiler-core/graph/graph.h"

/* The allowed difference to another implementation's value, in addition to the error of
 * floating-point arithmetic. */
typedef struct kiln_rounding {
    uint32_t steps; /* integers: 1 where the value comes from such an operator through operators
                       that keep the integer type, else 0; always 0 of bool */
    double quantum; /* floats: the scale of the DequantizeLinear that the value comes from through
                       operators that enlarge no difference (the largest where there are several);
                       0 where there is none, or no such operator before it */
} kiln_rounding;

/* For each output of a graph as it was imported (passes remove the operators that this looks for):
 * [output count], in `arena`. */
kiln_rounding *kiln_graph_rounding(const kiln_graph *graph, kiln_arena *arena);

#endif
