/* The passes in passes.def, and functions that they share. Private to this folder. */
#ifndef KILN_COMPILER_CORE_PASSES_REWRITE_H
#define KILN_COMPILER_CORE_PASSES_REWRITE_H

#include "compiler-core/graph/graph.h"

#define X(id, name, function, doc) KILN_MUST_USE kiln_status function(kiln_graph *graph);
#include "compiler-core/passes/passes.def"
#undef X

/* ---- one sweep over the nodes ---------------------------------------------------------------- */

typedef struct kiln_sweep {
    kiln_graph *graph;
    uint32_t *uses; /* [values] readers, kept up to date by the calls below */
    void *context;
    bool changed;
} kiln_sweep;

/* Visits a node after its operands. May change nodes and add two constants; returns a value that
 * replaces its first result, and then the node is removed, or 0. */
typedef kiln_value (*kiln_look)(kiln_sweep *sweep, kiln_node node);

/* Calls `look` for every node in order, and redirects readers. A value that replaces an output of
 * the graph takes over its name; a value that cannot be renamed (a graph input, a constant, another
 * output) does not replace it, and the node stays. Returns whether anything changed. Cost:
 * O(nodes). */
bool kiln_graph_sweep(kiln_graph *graph, kiln_look look, void *context);
/* Makes input `index` of `node` read `value`. */
void kiln_sweep_set_input(kiln_sweep *sweep, kiln_node node, uint32_t index, kiln_value value);
/* Whether a value has exactly one reader. */
bool kiln_sweep_reads_alone(const kiln_sweep *sweep, kiln_value value);

/* ---- simplify -------------------------------------------------------------------------------- */

typedef enum kiln_simplify_row {
#define X(id, name, function, doc) KILN_SIMPLIFY_##id,
#include "compiler-core/passes/simplify.def"
#undef X
    KILN_SIMPLIFY_COUNT
} kiln_simplify_row;

#define X(id, name, function, doc) kiln_value function(kiln_sweep *sweep, kiln_node node);
#include "compiler-core/passes/simplify.def"
#undef X

/* The pass with only those rows whose bit is set; for tests. */
void kiln_graph_simplify(kiln_graph *graph, uint32_t rows);

#endif
