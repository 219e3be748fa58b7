/* Finds the loops of a graph. A loop is a loop_begin, a loop_end that reads its first result, and
 * the body: every node that depends on results of the loop_begin, up to the loop_end. A node that
 * does not depend on them is computed once, outside, whatever its position. The graph itself does
 * not mark loops: a body's nodes are ordinary nodes. */
#ifndef KILN_COMPILER_CORE_GRAPH_LOOPS_H
#define KILN_COMPILER_CORE_GRAPH_LOOPS_H

#include "compiler-core/graph/graph.h"

typedef struct kiln_graph_loop {
    kiln_node begin, end; /* end 0: its results are unused */
    uint32_t parent;      /* the loop around it, by its place in the list + 1; 0: none */
} kiln_graph_loop;

typedef struct kiln_graph_loops {
    uint32_t count;
    kiln_graph_loop *loop; /* [count] in the order of their beginnings */
    uint32_t *of; /* [node] the innermost loop whose body it is in + 1; 0: none. Both ends of a loop
                     are in the loop around it */
} kiln_graph_loops;

/* INVALID_ARGUMENT: a value of a loop is read outside of it, or two loops cross. UNIMPLEMENTED: a
 * value that grows (kiln_loop_grows) is read, or is two outputs. */
KILN_MUST_USE kiln_status kiln_graph_loops_find(const kiln_graph *graph, kiln_arena *arena,
                                                kiln_graph_loops *out_loops);

#endif
