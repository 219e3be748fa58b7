/* Quantisations by blocks, and with a scale of the data. */
#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

static message bytes_of(kiln_arena *arena, const char *name, const int64_t *item,
                        const kiln_shape *shape) {
    kiln_tensor tensor = kiln_tensor_create(arena, KILN_I8, shape);
    for (int64_t i = 0; i < kiln_shape_count(shape); i++)
        ((int8_t *)tensor.data)[i] = (int8_t)item[i];
    return tensor_message(arena, name, &tensor);
}

static message blocked_node(kiln_arena *arena, const char *op, const char *inputs, int64_t size) {
    return with_attr_int(with_attr_int(node_of(arena, op, inputs, "y"), "block_size", size), "axis",
                         1);
}

/* The last block of a row is shorter. */
static void blocks_have_scales_and_zero_points(void **state) {
    static const int64_t x[] = {1, 2, 3, -4, -5, 6}, zero[] = {0, 1, -1, 0};
    model_parts parts = {.opset = 21,
                         .input = "s:2,2",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {blocked_node(*state, "DequantizeLinear", "x s z", 2)},
                         .initializer_count = 2,
                         .initializer = {bytes_of(*state, "x", x, SHAPE(2, 3)),
                                         bytes_of(*state, "z", zero, SHAPE(2, 2))}};
    const kiln_tensor scale = tensor_from(*state, SHAPE(2, 2), FLOATS(0.5f, 10, 2, 100));
    kiln_tensor output;
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &scale, *state, &output));
    expect_tensor(&output, SHAPE(2, 3), FLOATS(0.5f, 1, 20, -6, -8, 600));
    parts.node[0] = blocked_node(*state, "DequantizeLinear", "x s z", 3);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "one for each block of 3");
    parts.node[0] = blocked_node(*state, "DequantizeLinear", "x s z", -1);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "block_size: 1 and -1");
}

static void blocks_are_rounded_and_cut(void **state) {
    static const int64_t zero[] = {0, 1};
    static const int8_t wanted[] = {2, -2, 127, -128};
    model_parts parts = {.opset = 21,
                         .input = "x:1,4 s:1,2",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {blocked_node(*state, "QuantizeLinear", "x s z", 2)},
                         .initializer_count = 1,
                         .initializer = {bytes_of(*state, "z", zero, SHAPE(1, 2))}};
    const kiln_tensor input[] = {tensor_from(*state, SHAPE(1, 4), FLOATS(5, -3, 13, -13)),
                                 tensor_from(*state, SHAPE(1, 2), FLOATS(2, 0.1f))};
    kiln_tensor output;
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &output));
    assert_int_equal(output.dtype, KILN_I8);
    assert_memory_equal(output.data, wanted, sizeof wanted); /* 2.5 and -1.5 to even numbers */
}

static void scales_follow_from_the_elements(void **state) {
    static const struct {
        float x[4], scale;
        uint8_t zero, wanted[4];
    } table[] = {{{-51, 0, 51, 204}, 1, 51, {0, 51, 102, 255}},
                 {{51, 102, 255, 510}, 2, 0, {26, 51, 128, 255}}, /* 0 belongs to the range */
                 {{0, -51, -102, -255}, 1, 255, {255, 204, 153, 0}},
                 {{0, 0, 0, 0}, 1, 0, {0, 0, 0, 0}}};
    const model_parts parts = {.opset = 11,
                               .input = "x:4",
                               .output = "y:1 s:1 z:1",
                               .node_count = 1,
                               .node = {node_of(*state, "DynamicQuantizeLinear", "x", "y s z")}};
    const kiln_graph *graph = import_of(*state, &parts);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        const kiln_tensor input = tensor_from(*state, SHAPE(4), table[i].x);
        kiln_tensor output[3];
        expect_ok(kiln_graph_eval(graph, &input, *state, output));
        expect_tensor(&output[1], &(kiln_shape){0}, &table[i].scale);
        assert_int_equal(*(const uint8_t *)output[2].data, table[i].zero);
        assert_memory_equal(output[0].data, table[i].wanted, sizeof table[i].wanted);
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(blocks_have_scales_and_zero_points),
        test_with_arena(blocks_are_rounded_and_cut),
        test_with_arena(scales_follow_from_the_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
