/* What tests of graphs, operators and passes share: graphs from text, and what they compute. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_GRAPH_SUPPORT_H
#define KILN_TESTS_UNIT_COMPILER_CORE_GRAPH_SUPPORT_H

#include "compiler-core/graph/graph.h"
#include "tests/support/test.h"

/* The graph of that text; fails the test when it does not parse. */
kiln_graph *graph_of(kiln_arena *arena, const char *text);
/* Its canonical bytes as one piece, at a multiple of the alignment that they ask for. */
kiln_str bytes_of_graph(kiln_arena *arena, const kiln_graph *graph);
/* The graph that comes out of its bytes; fails the test when it prints otherwise. */
kiln_graph *sent_and_read(kiln_arena *arena, const kiln_graph *graph);
/* Outputs of a graph whose inputs hold 1, 2, 3, ...: "f32[2]: 1 2; i64[]: 0". */
char *result_of(kiln_arena *arena, const kiln_graph *graph);
kiln_tensor *inputs_of(kiln_arena *arena, const kiln_graph *graph); /* those of result_of */
/* A graph of one node: `inputs` are lines like "input x: f32[2,3]", `node` is a line like
 * "y: f32[2,3] = relu(x)"; the value y is the result. */
void expect_op(kiln_arena *arena, const char *inputs, const char *node, const char *result);
/* That graph is refused, with that text. */
void expect_op_refused(kiln_arena *arena, const char *inputs, const char *node, const char *needle);

/* A f32 tensor in row-major order. */
kiln_tensor tensor_from(kiln_arena *arena, const kiln_shape *shape, const float *value);
/* Dtype, shape and every element are as given. */
void expect_tensor(const kiln_tensor *tensor, const kiln_shape *shape, const float *value);

#define SHAPE(...)                                                             \
    (&(kiln_shape){.rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
                   .dim = {__VA_ARGS__}})
#define FLOATS(...) ((const float[]){__VA_ARGS__})

#endif
