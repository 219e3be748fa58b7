/* What tests of ONNX share: models of a few nodes. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_FRONTEND_SUPPORT_H
#define KILN_TESTS_UNIT_COMPILER_CORE_FRONTEND_SUPPORT_H

#include "compiler-core/frontend/data_set.h"
#include "compiler-core/graph/graph.h"
#include "tests/support/onnx_message.h"
#include "tests/support/test.h"

/* A model of that opset: `input` and `output` are ports like "x:2,3" or "x:n,4" of f32, separated
 * by spaces. */
typedef struct model_parts {
    int64_t opset;
    const char *input, *output;
    uint32_t node_count, initializer_count;
    message node[16], initializer[8];
    uint32_t function_count;
    message function[4];
} model_parts;
kiln_str model_of(kiln_arena *arena, const model_parts *parts);

/* Imports; fails the test when that is refused. */
kiln_graph *import_of(kiln_arena *arena, const model_parts *parts);
/* Loops of more than so many iterations stay loops. */
kiln_graph *import_unrolling(kiln_arena *arena, const model_parts *parts, uint32_t unroll_max);
kiln_graph *import_with(kiln_arena *arena, const model_parts *parts,
                        const kiln_import_options *options);
uint32_t count_loops(const kiln_graph *graph);
/* Text of the graph below "graph NAME". */
char *text_of_import(kiln_arena *arena, const model_parts *parts);
void expect_import_refused(kiln_arena *arena, const model_parts *parts, kiln_code code,
                           const char *needle);

#endif
