/* Writes a graph as an ONNX model, for quantize.c, which changes the nodes of ONNX models, when the
 * file is of another kind. Private to onnx/. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ONNX_GRAPH_WRITE_H
#define KILN_COMPILER_CORE_FRONTEND_ONNX_GRAPH_WRITE_H

#include "compiler-core/graph/graph.h"

/* A model of one operator set that computes the graph, with the same names; in `arena`. Values that
 * depend on constants alone become constants, in the graph as well. Each node is written by its row
 * of nodes.def.
 *
 * UNIMPLEMENTED  an operator has no form there: loops, expressions
 * OUT_OF_RANGE   more bytes than a model can have */
KILN_MUST_USE kiln_status kiln_onnx_of_graph(kiln_graph *graph, kiln_arena *arena,
                                             kiln_str *out_bytes);

#endif
