/* Reads models in a process without rights (base/isolated/isolated.h); commands use this. The graph
 * comes back in its canonical bytes, which are checked like any untrusted input. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ISOLATED_H
#define KILN_COMPILER_CORE_FRONTEND_ISOLATED_H

#include "base/file.h"
#include "compiler-core/frontend/frontend.h"

/* The canonical bytes of a model's graph, not checked yet: the input of kiln_graph_decode, in this
 * process or in the next isolated one. `*out_graph` is a part of `*out_bytes`, which the caller
 * must end. Errors of kiln_import_file and kiln_isolated_run. With KILN_NO_ISOLATION in the
 * environment there is no other process, because debuggers and valgrind do not work on a process
 * without rights. */
KILN_MUST_USE kiln_status kiln_read_isolated(const char *path, const kiln_import_options *options,
                                             kiln_arena *arena, kiln_mapping *out_bytes,
                                             kiln_str *out_graph);
/* Bytes of memory that options->memory_mib allows. OUT_OF_RANGE: more than a size can hold. */
KILN_MUST_USE kiln_status kiln_memory_limit(const kiln_import_options *options,
                                            uint64_t *out_bytes);
/* kiln_import_file in an isolated process; options->open is not used. Constants of the graph stay
 * in `*out_bytes`, which the caller must end after the graph. Errors of kiln_read_isolated and
 * kiln_graph_decode. Cost beside the import: a process, and the graph's bytes copied once. */
KILN_MUST_USE kiln_status kiln_import_isolated(const char *path, const kiln_import_options *options,
                                               kiln_arena *arena, kiln_graph **out_graph,
                                               kiln_mapping *out_bytes);

#endif
