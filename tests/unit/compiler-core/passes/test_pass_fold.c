#include "compiler-core/passes/pass.h"
#include "tests/unit/compiler-core/graph/support.h"

static kiln_op op_of(kiln_graph *graph, const char *name) {
    return graph->node
        .data[graph->value.data[kiln_graph_find_value(graph, kiln_str_from(name))].producer]
        .op;
}

static void work_that_is_too_much_stays(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input x: f32[1]\n"
                                         "constant k: f32[1,1] = [2]\n"
                                         "a: f32[2,2] = expand(k) shape=[2,2]\n"
                                         "b: f32[9000,9000] = expand(k) shape=[9000,9000]\n"
                                         "output a\n"
                                         "output b\n");
    expect_ok(kiln_pass_run(KILN_PASS_FOLD_CONSTANTS, graph));
    assert_int_equal(op_of(graph, "a"), KILN_OP_NONE);
    assert_int_equal(op_of(graph, "b"), KILN_OP_EXPAND);
}

static void what_depends_on_an_input_stays(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input x: f32[2]\n"
                                         "constant k: f32[2] = [1, 2]\n"
                                         "a: f32[2] = add(x, k)\n"
                                         "b: f32[2] = add(k, k)\n"
                                         "c: f32[2] = add(a, b)\n"
                                         "output c\n");
    expect_ok(kiln_pass_run(KILN_PASS_FOLD_CONSTANTS, graph));
    assert_int_equal(op_of(graph, "a"), KILN_OP_ADD);
    assert_true(kiln_value_is_constant(graph, kiln_graph_find_value(graph, KILN_STR("b"))));
    assert_string_equal(result_of(*state, graph), "f32[2]: 4 8");
}

static void results_that_nobody_reads_are_not_computed(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input x: f32[2]\n"
                                         "constant k: f32[2] = [1, 2]\n"
                                         "a: f32[2] = add(k, k)\n"
                                         "b: f32[2] = add(x, k)\n"
                                         "output b\n");
    expect_ok(kiln_pass_run(KILN_PASS_FOLD_CONSTANTS, graph));
    assert_int_equal(op_of(graph, "a"), KILN_OP_ADD);
}

static void every_result_of_a_folded_node_is_constant(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input x: f32[1]\n"
                                         "constant k: f32[3] = [1, 2, 3]\n"
                                         "a: f32[1], _, b: f32[1] = split(k)\n"
                                         "output b\n"
                                         "output a\n");
    expect_ok(kiln_pass_run(KILN_PASS_FOLD_CONSTANTS, graph));
    assert_string_equal(result_of(*state, graph), "f32[1]: 3; f32[1]: 1");
}

static void identities_go_but_outputs_keep_their_names(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input a: f32[2,3]\n"
                                         "b: f32[2,3] = identity(a)\n"
                                         "c: f32[2,3] = relu(b)\n"
                                         "d: f32[2,3] = reshape(c) shape=[2,3]\n"
                                         "e: f32[2,3] = identity(d)\n"
                                         "f: f32[2,3] = identity(e)\n"
                                         "g: f32[2,3] = identity(b)\n"
                                         "output e\n"
                                         "output f\n"
                                         "output g\n");
    expect_ok(kiln_pass_run(KILN_PASS_REMOVE_IDENTITY, graph));
    expect_ok(kiln_graph_verify(graph));
    const char *const name[] = {"e", "f", "g"};
    const kiln_op op[] = {KILN_OP_RELU, KILN_OP_IDENTITY, KILN_OP_IDENTITY};
    for (uint32_t i = 0; i < 3; i++) {
        const kiln_value_info *output = &graph->value.data[graph->output.data[i]];
        assert_true(kiln_str_is(output->name, name[i]));
        assert_int_equal(graph->node.data[output->producer].op, op[i]);
    }
    assert_int_equal(graph->node.data[graph->value.data[graph->output.data[0]].producer].input[0],
                     graph->input.data[0]);
}

static void nodes_that_do_something_stay(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input x: f32[2]\n"
                                         "a: f32[2,2] = expand(x) shape=[2,2]\n"
                                         "b: f32[2] = neg(x)\n"
                                         "output a\n"
                                         "output b\n");
    expect_ok(kiln_pass_run(KILN_PASS_REMOVE_IDENTITY, graph));
    assert_string_equal(result_of(*state, graph), "f32[2,2]: 1 2 1 2; f32[2]: -1 -2");
}

static void dead_chains_go_from_the_end(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input x: f32[2]\n"
                                         "a: f32[2] = neg(x)\n"
                                         "b: f32[2] = exp(a)\n"
                                         "c: f32[2] = log(b)\n"
                                         "d: f32[2] = abs(a)\n"
                                         "output d\n");
    expect_ok(kiln_pass_run(KILN_PASS_REMOVE_DEAD, graph));
    assert_int_equal(op_of(graph, "a"), KILN_OP_NEG);
    assert_int_equal(op_of(graph, "b"), KILN_OP_NONE);
    assert_int_equal(op_of(graph, "c"), KILN_OP_NONE);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(work_that_is_too_much_stays),
        test_with_arena(what_depends_on_an_input_stays),
        test_with_arena(results_that_nobody_reads_are_not_computed),
        test_with_arena(every_result_of_a_folded_node_is_constant),
        test_with_arena(identities_go_but_outputs_keep_their_names),
        test_with_arena(nodes_that_do_something_stay),
        test_with_arena(dead_chains_go_from_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
