#include "compiler-core/graph/graph.h"

#include <stdio.h>

#include "tests/unit/compiler-core/graph/support.h"

static void names_are_made_unique(void **state) {
    kiln_graph *graph = kiln_graph_create(*state, KILN_STR("g"));
    kiln_value a = kiln_graph_add_value(graph, KILN_STR("a"));
    kiln_value b = kiln_graph_add_value(graph, KILN_STR("a"));
    kiln_value c = kiln_graph_add_value(graph, KILN_STR("a"));
    expect_str(graph->value.data[a].name, "a");
    expect_str(graph->value.data[b].name, "a'2");
    expect_str(graph->value.data[c].name, "a'3");
    assert_int_equal(kiln_graph_find_value(graph, KILN_STR("a'2")), b);
    assert_int_equal(kiln_graph_find_value(graph, KILN_STR("z")), 0);
}

static void attributes_replace_each_other(void **state) {
    kiln_graph *graph = kiln_graph_create(*state, KILN_STR("g"));
    kiln_node node = kiln_graph_add_node(graph, KILN_OP_TRANSPOSE, KILN_STR("t"), 1, 1);
    int64_t perm[] = {1, 0};
    assert_null(kiln_node_attr(&graph->node.data[node], "perm"));
    kiln_graph_set_ints(graph, node, "perm", perm, 2);
    perm[0] = 0; /* the list was copied */
    kiln_graph_set_int(graph, node, "axis", 1);
    kiln_graph_set_int(graph, node, "axis", 2);
    assert_int_equal(kiln_node_attr(&graph->node.data[node], "perm")->ints[0], 1);
    assert_int_equal(kiln_node_attr(&graph->node.data[node], "axis")->i, 2);
    assert_int_equal(graph->node.data[node].attr_count, 2);
}

static void empty_lists_are_given(void **state) {
    kiln_graph *graph = kiln_graph_create(*state, KILN_STR("g"));
    kiln_node node = kiln_graph_add_node(graph, KILN_OP_SQUEEZE, KILN_STR("s"), 1, 1);
    kiln_graph_set_ints(graph, node, "axes", NULL, 0);
    assert_non_null(kiln_node_attr(&graph->node.data[node], "axes"));
    assert_int_equal(kiln_node_attr(&graph->node.data[node], "axes")->count, 0);
}

static void renamed_values_are_found_by_their_new_names(void **state) {
    kiln_graph *graph = kiln_graph_create(*state, KILN_STR("g"));
    kiln_value a = kiln_graph_add_value(graph, KILN_STR("a"));
    kiln_value b = kiln_graph_add_value(graph, KILN_STR("b"));
    assert_int_equal(kiln_graph_find_value(graph, KILN_STR("a")), a);
    kiln_str name = graph->value.data[a].name;
    kiln_graph_rename_value(graph, a, graph->value.data[b].name);
    kiln_graph_rename_value(graph, b, name);
    assert_int_equal(kiln_graph_find_value(graph, KILN_STR("a")), b);
    assert_int_equal(kiln_graph_find_value(graph, KILN_STR("b")), a);
    for (uint32_t i = 0; i < 1000; i++) { /* names that were given up do not fill the table */
        char text[16];
        (void)snprintf(text, sizeof text, "c%u", i);
        kiln_graph_rename_value(graph, b, kiln_str_from(text));
        assert_int_equal(kiln_graph_find_value(graph, kiln_str_from(text)), b);
    }
    assert_int_equal(kiln_graph_find_value(graph, KILN_STR("a")), 0);
}

/* The first free number, of any count. What adding takes from the arena would grow with the square
 * of the count if each name were tried from 2 on. */
static void a_name_that_many_want_is_numbered_in_order(void **state) {
    kiln_graph *graph = kiln_graph_create(*state, KILN_STR("g"));
    size_t before = 0;
    for (uint32_t i = 1; i <= 4096; i++) {
        char text[16];
        kiln_value value = kiln_graph_add_value(graph, KILN_STR("w"));
        (void)snprintf(text, sizeof text, i == 1 ? "w" : "w'%u", i);
        expect_str(graph->value.data[value].name, text);
        if (i == 2048) before = graph->arena->used_bytes;
    }
    assert_true(graph->arena->used_bytes < 3 * before);
}

static void constants_are_named_by_their_bytes(void **state) {
    kiln_graph *graph = kiln_graph_create(*state, KILN_STR("g"));
    float data[] = {1, 2}, same[] = {1, 2}, other[] = {1, 3};
    kiln_tensor tensor = {KILN_F32, {.rank = 1, .dim = {2}}, data};
    kiln_value a = kiln_graph_add_constant(graph, KILN_STR("a"), &tensor);
    tensor.data = same;
    kiln_value b = kiln_graph_add_constant(graph, KILN_STR("b"), &tensor);
    tensor.data = other;
    kiln_value c = kiln_graph_add_constant(graph, KILN_STR("c"), &tensor);
    assert_true(kiln_value_is_constant(graph, a));
    assert_false(kiln_value_is_constant(graph, 0));
    assert_true(graph->value.data[a].hash.low == graph->value.data[b].hash.low);
    assert_true(graph->value.data[a].hash.low != graph->value.data[c].hash.low);
    assert_ptr_equal(kiln_value_tensor(graph, c).data, other);
}

static void nodes_in_another_order_keep_their_groups_and_results(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\ninput x: f32[2]\na: f32[2] = neg(x)\n"
                                         "b: f32[2] = exp(x)\nc: f32[2] = add(a, b)\noutput c\n");
    graph->node.data[2].group = graph->node.data[3].group = 2;
    kiln_graph_reorder(graph, (const kiln_node[]){0, 2, 1, 3});
    expect_ok(kiln_graph_verify(graph));
    assert_int_equal(graph->node.data[1].op, KILN_OP_EXP);
    assert_int_equal(graph->node.data[2].op, KILN_OP_NEG);
    assert_int_equal(graph->node.data[1].group, 1);
    assert_int_equal(graph->node.data[2].group, 0);
    assert_int_equal(graph->node.data[3].group, 1);
    assert_int_equal(graph->value.data[graph->node.data[1].output[0]].producer, 1);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(names_are_made_unique),
        test_with_arena(attributes_replace_each_other),
        test_with_arena(empty_lists_are_given),
        test_with_arena(renamed_values_are_found_by_their_new_names),
        test_with_arena(a_name_that_many_want_is_numbered_in_order),
        test_with_arena(constants_are_named_by_their_bytes),
        test_with_arena(nodes_in_another_order_keep_their_groups_and_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
