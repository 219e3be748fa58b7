/* Canonical bytes of graphs, in which an imported model is sent to a tuner. The same graph gives
 * the same bytes; they contain names of operators, not their numbers.
 *
 *     "kilngrph", u32 version, u32 0, u64 bytes of the structure    little-endian
 *     structure: msgpack map with the keys below, ascending
 *     zeros up to a multiple of KILN_GRAPH_DATA_ALIGNMENT
 *     data of the constants, each with zeros up to such a multiple; equal ones are stored once
 *
 * 1 name, 2 given_bytes, 3 data: bytes of each, 4 values: [name, dtype, [dims], index into data or
 * nil], 5 nodes: [operator, name, [inputs], [outputs], [[name, kiln_attr_kind, value]], group],
 * 6 inputs, 7 outputs. Values count from 1 in the order of 4; 0 is "none". Unused values are left
 * out. */
#ifndef KILN_COMPILER_CORE_GRAPH_GRAPH_CODEC_H
#define KILN_COMPILER_CORE_GRAPH_GRAPH_CODEC_H

#include "compiler-core/graph/graph.h"

#define KILN_GRAPH_BYTES_VERSION 1u
#define KILN_GRAPH_DATA_ALIGNMENT 64u
#define KILN_NODE_ATTRS_MAX 64u /* of one node that is decoded */

/* The bytes are the parts in order: data of constants are views of the graph's own. */
typedef struct kiln_graph_bytes {
    uint32_t part_count;
    kiln_str *part;
    size_t size;
} kiln_graph_bytes;

/* Lists, and bytes that are no views of the graph, are in `arena`. */
kiln_graph_bytes kiln_graph_encode(const kiln_graph *graph, kiln_arena *arena);
/* Whether bytes begin as those of a graph do. */
bool kiln_graph_is_encoded(kiln_str bytes);
/* Bytes are hostile: counts, sizes and ranks are bounded, and the result has passed
 * kiln_graph_verify. Data of constants are views of `bytes` if these begin at a multiple of
 * KILN_GRAPH_DATA_ALIGNMENT (a mapping does), else they are copied: `bytes` must live as long as
 * `arena`. DATA_LOSS: damaged, or the graph breaks a rule; names the value or node. UNIMPLEMENTED:
 * a newer version, or an unknown operator or attribute. */
KILN_MUST_USE kiln_status kiln_graph_decode(kiln_str bytes, kiln_arena *arena,
                                            kiln_graph **out_graph);

#endif
