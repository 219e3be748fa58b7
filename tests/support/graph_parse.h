/* Text to graphs (docs/reference/graph-text.md), the opposite of kiln_graph_print: for golden
 * tests, unit tests and fuzzers. Programs exchange graphs in their canonical bytes (graph_codec.h).
 */
#ifndef KILN_TESTS_SUPPORT_GRAPH_PARSE_H
#define KILN_TESTS_SUPPORT_GRAPH_PARSE_H

#include "compiler-core/graph/graph_text.h"

#define KILN_GRAPH_TEXT_BYTES_MAX ((size_t)64 << 20)
#define KILN_GRAPH_TEXT_DATA_MAX ((size_t)64 << 20) /* bytes of all made-up constants */

/* Data of a constant that stands there as a hash are made up from the hash, which is kept, so that
 * the text round-trips. INVALID_ARGUMENT with line:column. Input is hostile: counts, ranks and
 * sizes are bounded. The result has passed kiln_graph_verify. */
KILN_MUST_USE kiln_status kiln_graph_parse(kiln_str text, kiln_arena *arena,
                                           kiln_graph **out_graph);

#endif
