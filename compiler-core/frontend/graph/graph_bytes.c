/* Graphs written by Kiln (graph/graph_codec.h), as models: the form of user-defined operators
 * (libkiln/operator.h). */
#include <string.h>

#include "compiler-core/frontend/frontend.h"
#include "compiler-core/graph/graph_codec.h"

bool kiln_graph_probe(kiln_str bytes);
kiln_status kiln_graph_import(kiln_str bytes, const char *folder,
                              const kiln_import_options *options, kiln_arena *arena,
                              kiln_graph **out_graph);

bool kiln_graph_probe(kiln_str bytes) { return kiln_graph_is_encoded(bytes); }

kiln_status kiln_graph_import(kiln_str bytes, const char *folder,
                              const kiln_import_options *options, kiln_arena *arena,
                              kiln_graph **out_graph) {
    (void)folder; /* everything is in the bytes */
    if (options->dim_count)
        return KILN_ERROR(INVALID_ARGUMENT, "a graph of Kiln has no open dimension '%.*s'",
                          KILN_STR_ARG(options->dim_name[0]));
    char *own = kiln_arena_alloc_aligned(arena, KILN_GRAPH_DATA_ALIGNMENT, bytes.size);
    memcpy(own, bytes.data, bytes.size);
    return kiln_graph_decode((kiln_str){own, bytes.size}, arena, out_graph);
}
