#include "tests/unit/compiler-core/graph/support.h"

#include <string.h>

#include "compiler-core/graph/graph_text.h"

kiln_graph *graph_from(kiln_arena *arena, const char *text) {
    kiln_graph *graph = NULL;
    expect_ok(kiln_graph_parse(kiln_str_from(text), arena, &graph));
    return graph;
}

kiln_tensor tensor_from(kiln_arena *arena, const kiln_shape *shape, const float *value) {
    kiln_tensor tensor = kiln_tensor_create(arena, KILN_F32, shape);
    memcpy(tensor.data, value, kiln_tensor_bytes(&tensor));
    return tensor;
}

void expect_tensor(const kiln_tensor *tensor, const kiln_shape *shape, const float *value) {
    assert_int_equal(tensor->dtype, KILN_F32);
    assert_int_equal(tensor->shape.rank, shape->rank);
    for (uint32_t d = 0; d < shape->rank; d++)
        assert_int_equal(tensor->shape.dim[d], shape->dim[d]);
    for (int64_t i = 0; i < kiln_shape_count(shape); i++)
        assert_float_equal(kiln_dtype_load_f64(KILN_F32, tensor->data, (size_t)i), value[i], 1e-6);
}
