/* A graph in double precision: what the errors of a whole network are measured against. */
#ifndef KILN_COMPILER_CORE_PASSES_WIDEN_H
#define KILN_COMPILER_CORE_PASSES_WIDEN_H

#include "compiler-core/graph/graph.h"

/* Makes every float of a graph that has had no passes an f64: inputs, constants (copied), casts,
 * and what follows from them. Integers stay as they are. UNIMPLEMENTED: the graph rounds to
 * integers by a scale, or takes floats for their bits: what it computes depends on the type; or a
 * rule demands a type. The note names the node. */
KILN_MUST_USE kiln_status kiln_graph_widen(kiln_graph *graph);

#endif
