/* Grids, crops, columns, unpooling and deformable convolutions: stated values. */
#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

static kiln_tensor result(kiln_arena *arena, const model_parts *parts, const kiln_tensor *input) {
    kiln_tensor output;
    expect_ok(kiln_graph_eval(import_of(arena, parts), input, arena, &output));
    return output;
}

static model_parts model_with(kiln_arena *arena, const char *input, message node,
                              const int64_t *size, uint32_t count) {
    return (model_parts){.opset = 22,
                         .input = input,
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node},
                         .initializer_count = 1,
                         .initializer = {i64s_of(arena, "s", size, count)}};
}

static void images_are_cut_and_padded_around_their_centre(void **state) {
    static const int64_t size[] = {2, 4}, axis[] = {-1}, narrow[] = {2}, few[] = {2};
    const kiln_tensor x = tensor_from(*state, SHAPE(3, 3), FLOATS(1, 2, 3, 4, 5, 6, 7, 8, 9));
    model_parts parts =
        model_with(*state, "x:3,3", node_of(*state, "CenterCropPad", "x s", "y"), size, 2);
    kiln_tensor y = result(*state, &parts, &x);
    expect_tensor(&y, SHAPE(2, 4), FLOATS(1, 2, 3, 0, 4, 5, 6, 0));
    parts.node[0] = with_attr_ints(parts.node[0], "axes", axis, 1);
    parts.initializer[0] = i64s_of(*state, "s", narrow, 1);
    y = result(*state, &parts, &x);
    expect_tensor(&y, SHAPE(3, 2), FLOATS(1, 2, 4, 5, 7, 8));
    parts.node[0] = node_of(*state, "CenterCropPad", "x s", "y");
    parts.initializer[0] = i64s_of(*state, "s", few, 1);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "one extent for each axis");
}

static void grids_are_positions_under_a_matrix(void **state) {
    static const int64_t size[] = {1, 1, 2, 3}, flat[] = {1, 1, 2};
    const kiln_tensor theta = tensor_from(*state, SHAPE(1, 2, 3), FLOATS(3, 0, 10, 0, 2, 20));
    message node = node_of(*state, "AffineGrid", "t s", "y");
    model_parts parts =
        model_with(*state, "t:1,2,3", with_attr_int(node, "align_corners", 1), size, 4);
    kiln_tensor y = result(*state, &parts, &theta);
    expect_tensor(&y, SHAPE(1, 2, 3, 2), FLOATS(7, 18, 10, 18, 13, 18, 7, 22, 10, 22, 13, 22));
    parts.node[0] = node;
    y = result(*state, &parts, &theta);
    expect_tensor(&y, SHAPE(1, 2, 3, 2), FLOATS(8, 19, 10, 19, 12, 19, 8, 21, 10, 21, 12, 21));
    parts.initializer[0] = i64s_of(*state, "s", flat, 3);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "is no vector of 4 to");
}

/* Blocks of 2 x 1 in a column of three: the middle one is in both. */
static void columns_are_added_up_where_blocks_overlap(void **state) {
    static const int64_t image[] = {3, 1}, block[] = {2, 1}, large[] = {4, 1};
    model_parts parts =
        model_with(*state, "x:1,4,2", node_of(*state, "Col2Im", "x s b", "y"), image, 2);
    parts.initializer[parts.initializer_count++] = i64s_of(*state, "b", block, 2);
    const kiln_tensor x = tensor_from(*state, SHAPE(1, 4, 2), FLOATS(1, 2, 30, 40, 5, 6, 70, 80));
    const kiln_tensor y = result(*state, &parts, &x);
    expect_tensor(&y, SHAPE(1, 2, 3, 1), FLOATS(1, 32, 40, 5, 76, 80));
    parts.initializer[1] = i64s_of(*state, "b", large, 2);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "no block fits dimension 0");
}

static void unpooling_puts_elements_back(void **state) {
    static const int64_t from[] = {1, 6}, kernel[] = {2}, larger[] = {1, 1, 5},
                         smaller[] = {1, 1, 3};
    message node =
        with_attr_ints(node_of(*state, "MaxUnpool", "x i", "y"), "kernel_shape", kernel, 1);
    node = with_attr_ints(node, "strides", kernel, 1);
    model_parts parts = model_with(*state, "x:1,1,2", node, from, 2);
    kiln_tensor index = kiln_tensor_create(*state, KILN_I64, SHAPE(1, 1, 2));
    ((int64_t *)index.data)[0] = 1;
    ((int64_t *)index.data)[1] = 2;
    parts.initializer[0] = tensor_message(*state, "i", &index);
    const kiln_tensor x = tensor_from(*state, SHAPE(1, 1, 2), FLOATS(8, 9));
    kiln_tensor y = result(*state, &parts, &x);
    expect_tensor(&y, SHAPE(1, 1, 4), FLOATS(0, 8, 9, 0));
    node = with_attr_ints(node_of(*state, "MaxUnpool", "x i n", "y"), "kernel_shape", kernel, 1);
    parts.node[0] = with_attr_ints(node, "strides", kernel, 1);
    parts.initializer[parts.initializer_count++] = i64s_of(*state, "n", larger, 3);
    y = result(*state, &parts, &x);
    expect_tensor(&y, SHAPE(1, 1, 5), FLOATS(0, 8, 9, 0, 0));
    parts.initializer[1] = i64s_of(*state, "n", smaller, 3);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT,
                          "smaller than the pooled dimension");
}

/* A filter of 1 x 2 over 2 x 3 elements: (10, 1). */
static void deformed_filters_read_where_offsets_say(void **state) {
    model_parts parts = {.opset = 22,
                         .input = "x:1,1,2,3 w:1,1,1,2 o:1,4,2,2 b:1 m:1,2,2,2",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node_of(*state, "DeformConv", "x w o b m", "y")}};
    float offset[16] = {0};
    static const float all[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    kiln_tensor input[] = {tensor_from(*state, SHAPE(1, 1, 2, 3), FLOATS(1, 2, 3, 4, 5, 6)),
                           tensor_from(*state, SHAPE(1, 1, 1, 2), FLOATS(10, 1)),
                           tensor_from(*state, SHAPE(1, 4, 2, 2), offset),
                           tensor_from(*state, SHAPE(1), FLOATS(0)),
                           tensor_from(*state, SHAPE(1, 2, 2, 2), all)};
    kiln_tensor y = result(*state, &parts, input);
    expect_tensor(&y, SHAPE(1, 1, 2, 2), FLOATS(12, 23, 45, 56));
    float *at = input[2].data, *mask = input[4].data;
    at[0] = 0.5f;       /* the first element of the first result, half a row down */
    at[4 + 3] = -9;     /* that of the last one, outside on the left */
    at[12 + 1] = 0.75f; /* the second of the second result, partly beyond the right edge */
    mask[4 + 2] = 0;    /* the second of the third */
    ((float *)input[3].data)[0] = 100;
    y = result(*state, &parts, input);
    expect_tensor(&y, SHAPE(1, 1, 2, 2), FLOATS(100 + 25 + 2, 100 + 20 + 0.75f, 100 + 40, 100 + 6));
    parts.input = "x:1,1,2,3 w:1,1,1,2 o:1,2,2,2 b:1 m:1,2,2,2";
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "its offset does not have");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(images_are_cut_and_padded_around_their_centre),
        test_with_arena(grids_are_positions_under_a_matrix),
        test_with_arena(columns_are_added_up_where_blocks_overlap),
        test_with_arena(unpooling_puts_elements_back),
        test_with_arena(deformed_filters_read_where_offsets_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
