/* Canonical bytes of graphs: how a model travels from where it was imported to where it is tuned.
 * The same graph gives the same bytes; names of operators are in them, numbers of them are not.
 *
 *     "kilngrph", u32 version, u32 0, u64 bytes of the structure    little-endian
 *     structure: msgpack map with the keys below, ascending
 *     zeros up to a multiple of KILN_GRAPH_DATA_ALIGNMENT
 *     data of the constants, each with zeros up to such a multiple; equal ones stand there once
 *
 * 1 name, 2 given_bytes, 3 data: bytes of each, 4 values: [name, dtype, [dims], index into data or
 * nil], 5 nodes: [operator, name, [inputs], [outputs], [[name, kiln_attr_kind, value]], group],
 * 6 inputs, 7 outputs. Values count from 1 in the order of 4; 0 is "none". What no node and no
 * output uses is left out. */
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

/* Lists, and what is no view of the graph, in `arena`. */
kiln_graph_bytes kiln_graph_encode(const kiln_graph *graph, kiln_arena *arena);
/* Whether bytes begin as those of a graph do. */
bool kiln_graph_is_encoded(kiln_str bytes);
/* Bytes are hostile: counts, sizes and ranks are bounded, and the result has passed
 * kiln_graph_verify. Data of constants stay where they are where `bytes` begin at a multiple of
 * KILN_GRAPH_DATA_ALIGNMENT (a mapping does), else they are copied: `bytes` must live as long as
 * `arena`. DATA_LOSS: damaged, or no graph that keeps the rules; says which value or node.
 * UNIMPLEMENTED: of a newer version, with an operator or attribute that this one does not know. */
KILN_MUST_USE kiln_status kiln_graph_decode(kiln_str bytes, kiln_arena *arena,
                                            kiln_graph **out_graph);

#endif
