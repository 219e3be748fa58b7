#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

static void indices_of_any_rank_become_rows(void **state) {
    const int64_t index[] = {2, 0};
    const float update[] = {7, 8};
    model_parts parts = {
        .opset = 16,
        .input = "x:3",
        .output = "y:3",
        .node_count = 2,
        .initializer_count = 2,
        .node = {with_attr_ints(node_of(*state, "Unsqueeze", "i", "i2"), "axes",
                                (const int64_t[]){1}, 1),
                 node_of(*state, "ScatterND", "x i2 u", "y")},
        .initializer = {i64s_of(*state, "i", index, 2), floats_of(*state, "u", update, 2)}};
    parts.opset = 12; /* where Unsqueeze has its attribute */
    assert_string_equal(result_of(*state, import_of(*state, &parts)), "f32[3]: 8 2 7");
    parts.node[1] = node_of(*state, "ScatterND", "x i2", "y");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "input 2 is missing");
}

static void groups_are_normalised_together(void **state) {
    const float by_group[] = {1, 2}, by_channel[] = {1, 1, 2, 10};
    const float zero_group[] = {0, 5}, zero_channel[] = {0, 0, 5, 5};
    model_parts parts = {.opset = 18,
                         .input = "x:1,4,1",
                         .output = "y:1,4,1",
                         .node_count = 1,
                         .initializer_count = 2,
                         .initializer = {floats_of(*state, "s", by_group, 2),
                                         floats_of(*state, "b", zero_group, 2)}};
    message node =
        with_attr_float(node_of(*state, "GroupNormalization", "x s b", "y"), "epsilon", 0);
    parts.node[0] = with_attr_int(node, "num_groups", 2);
    assert_string_equal(result_of(*state, import_of(*state, &parts)), "f32[1,4,1]: -1 1 3 7");
    parts.opset = 21;
    parts.initializer[0] = floats_of(*state, "s", by_channel, 4);
    parts.initializer[1] = floats_of(*state, "b", zero_channel, 4);
    assert_string_equal(result_of(*state, import_of(*state, &parts)), "f32[1,4,1]: -1 1 3 15");
    parts.node[0] = with_attr_int(node, "num_groups", 3);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "does not divide the channels");
}

/* Each operand i has 1 + i % 3 elements, which are 1, 2, 3. */
static void many_operands_are_joined_in_order(void **state) {
    enum { OPERANDS = 70 };
    kiln_strbuf input = {0}, names = {0}, wanted = {0};
    int64_t elements = 0;
    for (int i = 0; i < OPERANDS; i++) {
        kiln_strbuf_printf(&input, "%sx%d:%d", i ? " " : "", i, 1 + i % 3);
        kiln_strbuf_printf(&names, "%sx%d", i ? " " : "", i);
        for (int k = 0; k <= i % 3; k++) kiln_strbuf_printf(&wanted, " %d", k + 1);
        elements += 1 + i % 3;
    }
    model_parts parts = {
        .opset = 13,
        .input = input.data,
        .output = kiln_arena_printf(*state, "y:%lld", (long long)elements),
        .node_count = 1,
        .node = {with_attr_int(node_of(*state, "Concat", names.data, "y"), "axis", -1)}};
    kiln_graph *graph = import_of(*state, &parts);
    for (kiln_node n = 1; n < graph->node.count; n++)
        assert_true(graph->node.data[n].input_count <= 32);
    assert_string_equal(
        result_of(*state, graph),
        kiln_arena_printf(*state, "f32[%lld]:%s", (long long)elements, wanted.data));
    kiln_strbuf_deinit(&input);
    kiln_strbuf_deinit(&names);
    kiln_strbuf_deinit(&wanted);
}

/* Channel 0 holds 1, 3, 5, 7 (mean 4, variance 5), channel 1 only twos. */
static void training_takes_the_batch_and_moves_what_is_kept(void **state) {
    message node = with_attr_int(node_of(*state, "BatchNormalization", "x s b m v", "y om ov"),
                                 "training_mode", 1);
    node = with_attr_float(with_attr_float(node, "momentum", 0.75f), "epsilon", 4);
    model_parts parts = {.opset = 15,
                         .input = "x:2,2,2 s:2 b:2 m:2 v:2",
                         .output = "y:1 om:1 ov:1",
                         .node_count = 1,
                         .node = {node}};
    const kiln_tensor input[] = {
        tensor_from(*state, SHAPE(2, 2, 2), FLOATS(1, 3, 2, 2, 5, 7, 2, 2)),
        tensor_from(*state, SHAPE(2), FLOATS(3, 1)), tensor_from(*state, SHAPE(2), FLOATS(10, 20)),
        tensor_from(*state, SHAPE(2), FLOATS(8, 2)), tensor_from(*state, SHAPE(2), FLOATS(1, 4))};
    kiln_tensor output[3];
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, output));
    expect_tensor(&output[0], SHAPE(2, 2, 2), FLOATS(7, 9, 20, 20, 11, 13, 20, 20));
    expect_tensor(&output[1], SHAPE(2), FLOATS(7, 2));
    expect_tensor(&output[2], SHAPE(2), FLOATS(2, 3));
    parts.node[0] = with_attr_int(node_of(*state, "BatchNormalization", "x s b m", "y om ov"),
                                  "training_mode", 1);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "input 4 is missing");
}

static void features_are_chosen_and_compared(void **state) {
    static const int64_t columns[] = {2, 0};
    message node = with_text(node_of(*state, "ArrayFeatureExtractor", "x i", "y"), 7, "ai.onnx.ml");
    model_parts parts = {.opset = 13,
                         .input = "x:2,3",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node},
                         .initializer_count = 1,
                         .initializer = {i64s_of(*state, "i", columns, 2)}};
    const kiln_tensor x = tensor_from(*state, SHAPE(2, 3), FLOATS(1, 2, 3, 4, 5, 6)),
                      row = tensor_from(*state, SHAPE(3), FLOATS(1, 2, 3));
    kiln_tensor y;
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &x, *state, &y));
    expect_tensor(&y, SHAPE(2, 2), FLOATS(3, 1, 6, 4));
    parts.input = "x:3";
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &row, *state, &y));
    expect_tensor(&y, SHAPE(1, 2), FLOATS(3, 1));
    node = with_text(node_of(*state, "Binarizer", "x", "y"), 7, "ai.onnx.ml");
    parts.node[0] = with_attr_float(node, "threshold", 2);
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &row, *state, &y));
    expect_tensor(&y, SHAPE(3), FLOATS(0, 0, 1));
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(training_takes_the_batch_and_moves_what_is_kept),
        test_with_arena(features_are_chosen_and_compared),
        test_with_arena(indices_of_any_rank_become_rows),
        test_with_arena(many_operands_are_joined_in_order),
        test_with_arena(groups_are_normalised_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
