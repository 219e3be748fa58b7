/* Text of graphs, for people and golden tests (docs/reference/graph-text.md).
 *
 *     graph net
 *     input x: f32[1,3,8,8]
 *     constant w: f32[4,3,3,3] = hash "00112233445566778899aabbccddeeff"
 *     constant b: f32[2] = [1, -0.5]
 *     y: f32[1,4,8,8] = conv(x, w) pads=[1,1,1,1] name "conv1" kernel 1
 *     output y
 *
 * Constants of more than KILN_GRAPH_TEXT_ITEMS elements print the hash of their bytes. */
#ifndef KILN_COMPILER_CORE_GRAPH_GRAPH_TEXT_H
#define KILN_COMPILER_CORE_GRAPH_GRAPH_TEXT_H

#include "compiler-core/graph/graph.h"

#define KILN_GRAPH_TEXT_ITEMS 16

/* Appends the whole graph, a line per input, used constant, node and output. */
void kiln_graph_print(const kiln_graph *graph, kiln_strbuf *out);

#endif
