/* The passes that passes.def names. Private to this folder. */
#ifndef KILN_COMPILER_CORE_PASSES_REWRITE_H
#define KILN_COMPILER_CORE_PASSES_REWRITE_H

#include "compiler-core/graph/graph.h"

#define X(id, name, function, doc) KILN_MUST_USE kiln_status function(kiln_graph *graph);
#include "compiler-core/passes/passes.def"
#undef X

#endif
