/* Graph passes: one row of passes.def and one function each; run in the table's order. */
#ifndef KILN_COMPILER_CORE_PASSES_PASS_H
#define KILN_COMPILER_CORE_PASSES_PASS_H

#include "compiler-core/graph/graph.h"

typedef enum kiln_pass {
#define X(id, name, function, doc) KILN_PASS_##id,
#include "compiler-core/passes/passes.def"
#undef X
    KILN_PASS_COUNT
} kiln_pass;

typedef struct kiln_pass_info {
    const char *name;
    kiln_status (*run)(kiln_graph *graph);
    const char *doc;
} kiln_pass_info;

/* The row of a pass, and the pass with a name; false: there is none. */
const kiln_pass_info *kiln_pass_get(kiln_pass pass);
bool kiln_pass_find(kiln_str name, kiln_pass *out_pass);

/* Runs one pass and verifies the graph after it; errors name the pass. */
KILN_MUST_USE kiln_status kiln_pass_run(kiln_pass pass, kiln_graph *graph);
/* Runs every pass up to and including the one named `last`; an empty name runs all.
 * INVALID_ARGUMENT: no pass of that name; the note lists them. */
KILN_MUST_USE kiln_status kiln_passes_run(kiln_graph *graph, kiln_str last);
/* Runs all passes except those whose bit (1 << kiln_pass) is set, to measure the benefit of
 * each. */
KILN_MUST_USE kiln_status kiln_passes_run_without(kiln_graph *graph, uint32_t without);

#endif
