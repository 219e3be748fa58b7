/* Values between kernels in fewer bits: what one kernel writes and others read becomes halves in
 * memory, rounded where it is written and widened where it is read. Sums, and whatever else is
 * computed inside of a kernel, stay as they are; so do inputs and outputs of the graph. */
#ifndef KILN_COMPILER_CORE_PASSES_NARROW_H
#define KILN_COMPILER_CORE_PASSES_NARROW_H

#include "compiler-core/graph/graph.h"

/* Of a graph that has had its passes. Every f32 that a kernel writes for other kernels becomes a
 * `dtype` (BF16 or F16), by a cast at the end of the one and casts at the beginnings of the others.
 * What only moves or joins elements moves halves. Values that loops carry stay as they are. */
KILN_MUST_USE kiln_status kiln_graph_narrow(kiln_graph *graph, kiln_dtype dtype);

#endif
