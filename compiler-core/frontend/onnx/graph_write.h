/* A graph as an ONNX model: for what changes models by their nodes (quantize.c), when the file is
 * of another kind. Private to onnx/. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ONNX_GRAPH_WRITE_H
#define KILN_COMPILER_CORE_FRONTEND_ONNX_GRAPH_WRITE_H

#include "compiler-core/graph/graph.h"

/* A model of one operator set that computes what the graph does, under its names; in `arena`. What
 * depends on constants alone becomes a constant, in the graph as well. Rows
 * of nodes.def, read backwards, say how each node is written.
 *
 * UNIMPLEMENTED  an operator has no form there: loops, expressions
 * OUT_OF_RANGE   more bytes than a model can have */
KILN_MUST_USE kiln_status kiln_onnx_of_graph(kiln_graph *graph, kiln_arena *arena,
                                             kiln_str *out_bytes);

#endif
