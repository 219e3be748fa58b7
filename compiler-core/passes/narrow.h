/* Values between kernels in fewer bits: a value that one kernel writes for others becomes halves in
 * memory, rounded when written and widened when read. Arithmetic inside of a kernel does not
 * change, nor do inputs and outputs of the graph. */
#ifndef KILN_COMPILER_CORE_PASSES_NARROW_H
#define KILN_COMPILER_CORE_PASSES_NARROW_H

#include "compiler-core/graph/graph.h"

/* Requires a graph after its passes. Every f32 that a kernel writes for other kernels becomes a
 * `dtype` (BF16 or F16), by a cast at the end of the writer and casts at the start of the readers.
 * Operators that only move or join elements move halves. Values that loops carry do not change. */
KILN_MUST_USE kiln_status kiln_graph_narrow(kiln_graph *graph, kiln_dtype dtype);

#endif
