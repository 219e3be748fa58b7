/* Models of old operator sets become newer ones that compute the same. */
#include "compiler-core/frontend/onnx/edit.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

static kiln_status raise(kiln_arena *arena, const model_parts *parts, int64_t to,
                         kiln_str *out_bytes) {
    kiln_onnx_edit edit;
    kiln_status st =
        kiln_onnx_edit_init(&edit, model_of(arena, parts), &(kiln_onnx_files){0}, 0, arena);
    if (!st) st = kiln_onnx_raise_opset(&edit, to);
    if (!st) st = kiln_onnx_edit_pack(&edit, out_bytes);
    kiln_onnx_edit_deinit(&edit);
    return st;
}

/* Both are read by the rules of their own set. */
static void expect_same(kiln_arena *arena, const model_parts *parts, int64_t to) {
    kiln_str bytes;
    kiln_graph *raised = NULL;
    expect_ok(raise(arena, parts, to, &bytes));
    expect_ok(kiln_import_bytes(bytes, NULL, NULL, arena, &raised));
    assert_string_equal(result_of(arena, raised), result_of(arena, import_of(arena, parts)));
}

static void expect_same_node(kiln_arena *arena, int64_t from, const char *input, const char *output,
                             message node) {
    const model_parts parts = {
        .opset = from, .input = input, .output = output, .node_count = 1, .node = {node}};
    expect_same(arena, &parts, 25);
}

static void what_was_an_attribute_becomes_an_input(void **state) {
    static const int64_t one[] = {1}, last[] = {-1}, two[] = {2}, pads[] = {0, 1, 0, 2},
                         parts_of[] = {1, 2};
    message n = node_of(*state, "Slice", "x", "y");
    n = with_attr_ints(with_attr_ints(with_attr_ints(n, "starts", one, 1), "ends", two, 1), "axes",
                       one, 1);
    expect_same_node(*state, 7, "x:2,3", "y:2,1", n);
    expect_same_node(
        *state, 9, "x:2,3", "y:2,3",
        with_attr_float(with_attr_float(node_of(*state, "Clip", "x", "y"), "min", 2), "max", 4));
    expect_same_node(*state, 10, "x:2,3", "y:2,3",
                     with_attr_float(node_of(*state, "Clip", "x", "y"), "max", 4));
    expect_same_node(
        *state, 10, "x:2,3", "y:2,6",
        with_attr_float(with_attr_ints(node_of(*state, "Pad", "x", "y"), "pads", pads, 4), "value",
                        9));
    expect_same_node(*state, 11, "x:2,3", "y:2,3",
                     with_attr_float(node_of(*state, "Dropout", "x", "y"), "ratio", 0.5));
    expect_same_node(*state, 12, "x:2,1,3", "y:2,3",
                     with_attr_ints(node_of(*state, "Squeeze", "x", "y"), "axes", one, 1));
    expect_same_node(*state, 12, "x:2,3", "y:2,1,3",
                     with_attr_ints(node_of(*state, "Unsqueeze", "x", "y"), "axes", one, 1));
    expect_same_node(*state, 12, "x:2,3", "y:2,1",
                     with_attr_ints(node_of(*state, "ReduceSum", "x", "y"), "axes", last, 1));
    expect_same_node(*state, 17, "x:2,3", "y:2,1",
                     with_attr_ints(node_of(*state, "ReduceMean", "x", "y"), "axes", last, 1));
    expect_same_node(*state, 17, "x:2,3", "y:1,1", node_of(*state, "ReduceMax", "x", "y"));
    const model_parts split = {
        .opset = 12,
        .input = "x:2,3",
        .output = "y:2,1 z:2,2",
        .node_count = 1,
        .node = {with_attr_int(
            with_attr_ints(node_of(*state, "Split", "x", "y z"), "split", parts_of, 2), "axis",
            1)}};
    expect_same(*state, &split, 25);
    const model_parts equal = {.opset = 13,
                               .input = "x:2,4",
                               .output = "y:1,4 z:1,4",
                               .node_count = 1,
                               .node = {node_of(*state, "Split", "x", "y z")}};
    expect_same(*state, &equal, 25);
    const model_parts top = {.opset = 9, /* which the import does not know */
                             .input = "x:2,3",
                             .output = "y:2,2",
                             .node_count = 1,
                             .node = {with_attr_int(node_of(*state, "TopK", "x", "y i"), "k", 2)}};
    kiln_str bytes;
    kiln_graph *raised = NULL;
    expect_ok(raise(*state, &top, 25, &bytes));
    expect_ok(kiln_import_bytes(bytes, NULL, NULL, *state, &raised));
    assert_string_equal(result_of(*state, raised), "f32[2,2]: 3 2 6 5");
}

static void rows_of_a_matrix_are_what_they_were(void **state) {
    for (int64_t axis = 0; axis < 3; axis++) {
        expect_same_node(*state, 11, "x:2,3,2", "y:2,3,2",
                         with_attr_int(node_of(*state, "Softmax", "x", "y"), "axis", axis));
        expect_same_node(*state, 11, "x:2,3,2", "y:2,3,2",
                         with_attr_int(node_of(*state, "LogSoftmax", "x", "y"), "axis", axis));
    }
    expect_same_node(*state, 12, "x:2,3,2", "y:2,3,2", node_of(*state, "Softmax", "x", "y"));
    expect_same_node(*state, 12, "x:2,3,2", "y:2,3,2", node_of(*state, "Hardmax", "x", "y"));
}

static void operators_that_are_gone_have_successors(void **state) {
    static const float scales[] = {1, 1, 2, 2};
    const model_parts nine = {.opset = 9,
                              .input = "x:1,1,2,2",
                              .output = "y:1,1,4,4",
                              .node_count = 1,
                              .initializer_count = 1,
                              .node = {node_of(*state, "Upsample", "x s", "y")},
                              .initializer = {floats_of(*state, "s", scales, 4)}};
    expect_same(*state, &nine, 10);
    expect_same(*state, &nine, 25);
    model_parts ten = nine;
    ten.opset = 10;
    ten.node[0] = node_of(*state, "Resize", "x s", "y");
    expect_same(*state, &ten, 13);
}

static void what_is_not_converted_is_refused(void **state) {
    kiln_str bytes;
    model_parts parts = {.opset = 6,
                         .input = "x:2,3",
                         .output = "y:2,3",
                         .node_count = 1,
                         .node = {node_of(*state, "Relu", "x", "y")}};
    expect_error(raise(*state, &parts, 25, &bytes), UNIMPLEMENTED, "from 7 on are converted");
    expect_ok(raise(*state, &parts, 6, &bytes));
    parts.opset = 8;
    parts.node[0] =
        with_attr_int(node_of(*state, "BatchNormalization", "x x x x x", "y"), "spatial", 0);
    expect_error(raise(*state, &parts, 13, &bytes), UNIMPLEMENTED, "spatial: 0");
    parts.opset = 18;
    parts.node[0] = node_of(*state, "GroupNormalization", "x x x", "y");
    expect_error(raise(*state, &parts, 25, &bytes), UNIMPLEMENTED, "GroupNormalization");
    expect_ok(raise(*state, &parts, 20, &bytes));
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(what_was_an_attribute_becomes_an_input),
        test_with_arena(rows_of_a_matrix_are_what_they_were),
        test_with_arena(operators_that_are_gone_have_successors),
        test_with_arena(what_is_not_converted_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
