#include "tests/unit/compiler-core/graph/support.h"

static kiln_graph *small(kiln_arena *arena) {
    return graph_of(arena, "graph g\n"
                           "input x: f32[2]\n"
                           "a: f32[2] = neg(x) name \"first\"\n"
                           "b: f32[2] = exp(a) name \"second\"\n"
                           "output b\n");
}

static kiln_value find(kiln_graph *graph, const char *name) {
    return kiln_graph_find_value(graph, kiln_str_from(name));
}

static void whole_graph_passes(void **state) { expect_ok(kiln_graph_verify(small(*state))); }

static void use_before_definition_is_found(void **state) {
    kiln_graph *graph = small(*state);
    kiln_graph_set_input(graph, 1, 0, find(graph, "b"));
    expect_error(kiln_graph_verify(graph), INTERNAL,
                 "\"first\" (neg): reads %b before it is computed");
}

static void second_producer_is_found(void **state) {
    kiln_graph *graph = small(*state);
    graph->node.data[2].output[0] = find(graph, "a");
    expect_error(kiln_graph_verify(graph), INTERNAL, "%a has several producers");
}

static void wrong_type_is_found(void **state) {
    kiln_graph *graph = small(*state);
    graph->value.data[find(graph, "b")].shape.dim[0] = 3;
    expect_error(kiln_graph_verify(graph), INTERNAL, "%b is not of the inferred type");
}

static void duplicate_name_is_found(void **state) {
    kiln_graph *graph = small(*state);
    graph->value.data[find(graph, "b")].name = KILN_STR("x");
    expect_error(kiln_graph_verify(graph), INTERNAL, "two values are called %x");
}

static void unknown_operand_is_found(void **state) {
    kiln_graph *graph = small(*state);
    graph->node.data[2].input[0] = 99;
    expect_error(kiln_graph_verify(graph), INTERNAL, "input 0 does not exist");
}

static void output_that_nobody_computes_is_found(void **state) {
    kiln_graph *graph = small(*state);
    kiln_graph_remove_node(graph, 2);
    expect_error(kiln_graph_verify(graph), INTERNAL, "output 0 is never computed");
}

static void unknown_attribute_is_found(void **state) {
    kiln_graph *graph = small(*state);
    kiln_graph_set_int(graph, 1, "axis", 0);
    expect_error(kiln_graph_verify(graph), UNIMPLEMENTED, "attribute axis is not known");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(whole_graph_passes),
        test_with_arena(use_before_definition_is_found),
        test_with_arena(second_producer_is_found),
        test_with_arena(wrong_type_is_found),
        test_with_arena(duplicate_name_is_found),
        test_with_arena(unknown_operand_is_found),
        test_with_arena(output_that_nobody_computes_is_found),
        test_with_arena(unknown_attribute_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
