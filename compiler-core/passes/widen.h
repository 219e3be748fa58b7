/* A graph in double precision: the reference for errors of a whole network. */
#ifndef KILN_COMPILER_CORE_PASSES_WIDEN_H
#define KILN_COMPILER_CORE_PASSES_WIDEN_H

#include "compiler-core/graph/graph.h"

/* Makes every float of a graph before its passes an f64: inputs, constants (copied), casts, and
 * dependent values. Integers do not change. UNIMPLEMENTED: the graph rounds to integers by a scale,
 * or reads the bits of floats, so that its results depend on the type; or a rule demands a type.
 * The note names the node. */
KILN_MUST_USE kiln_status kiln_graph_widen(kiln_graph *graph);

#endif
