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

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(indices_of_any_rank_become_rows),
        test_with_arena(many_operands_are_joined_in_order),
        test_with_arena(groups_are_normalised_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
