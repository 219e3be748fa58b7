/* Text of graphs: printer and parser, for people, golden tests and fuzzers
 * (docs/reference/graph-text.md).
 *
 *     graph net
 *     input x: f32[1,3,8,8]
 *     constant w: f32[4,3,3,3] = hash "00112233445566778899aabbccddeeff"
 *     constant b: f32[2] = [1, -0.5]
 *     y: f32[1,4,8,8] = conv(x, w) pads=[1,1,1,1] name "conv1" kernel 1
 *     output y
 *
 * Constants of more than KILN_GRAPH_TEXT_ITEMS elements print the hash of their bytes; the parser
 * makes such data up from the hash (and keeps the hash, so that the text round-trips). */
#ifndef KILN_COMPILER_CORE_GRAPH_GRAPH_TEXT_H
#define KILN_COMPILER_CORE_GRAPH_GRAPH_TEXT_H

#include "compiler-core/graph/graph.h"

#define KILN_GRAPH_TEXT_ITEMS 16
#define KILN_GRAPH_TEXT_BYTES_MAX ((size_t)64 << 20)
#define KILN_GRAPH_TEXT_DATA_MAX ((size_t)64 << 20) /* bytes of all made-up constants */

void kiln_graph_print(const kiln_graph *graph, kiln_strbuf *out);
/* INVALID_ARGUMENT with line:column. Input is hostile: counts, ranks and sizes are bounded. The
 * result has passed kiln_graph_verify. */
KILN_MUST_USE kiln_status kiln_graph_parse(kiln_str text, kiln_arena *arena,
                                           kiln_graph **out_graph);

#endif
