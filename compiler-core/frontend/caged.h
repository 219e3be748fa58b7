/* Reading models in a process without rights (base/cage/cage.h): what commands use. The graph comes
 * back in its canonical bytes, which are checked as those of a stranger. */
#ifndef KILN_COMPILER_CORE_FRONTEND_CAGED_H
#define KILN_COMPILER_CORE_FRONTEND_CAGED_H

#include "base/file.h"
#include "compiler-core/frontend/frontend.h"

/* kiln_import_file in a cage; options->open is not used. Constants of the graph
 * stay in `*out_bytes`, which the caller ends after the graph. Errors of kiln_import_file and
 * kiln_cage_run. Cost beside the import: a process, and the graph's bytes copied once. With
 * KILN_UNCAGED in the environment it is kiln_import_file: for debuggers and valgrind, which a
 * process without rights does not let work. */
KILN_MUST_USE kiln_status kiln_import_caged(const char *path, const kiln_import_options *options,
                                            kiln_arena *arena, kiln_graph **out_graph,
                                            kiln_mapping *out_bytes);

#endif
