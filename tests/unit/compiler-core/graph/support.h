/* What tests of graphs share: graphs from text and f32 tensors from lists. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_GRAPH_SUPPORT_H
#define KILN_TESTS_UNIT_COMPILER_CORE_GRAPH_SUPPORT_H

#include "compiler-core/graph/graph.h"
#include "tests/support/test.h"

/* A graph that must parse. */
kiln_graph *graph_from(kiln_arena *arena, const char *text);
/* A f32 tensor in row-major order. */
kiln_tensor tensor_from(kiln_arena *arena, const kiln_shape *shape, const float *value);
/* Dtype, shape and every element are as given. */
void expect_tensor(const kiln_tensor *tensor, const kiln_shape *shape, const float *value);

#define SHAPE(...)                                                             \
    (&(kiln_shape){.rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
                   .dim = {__VA_ARGS__}})
#define FLOATS(...) ((const float[]){__VA_ARGS__})

#endif
