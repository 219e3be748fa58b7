/* Common subexpressions. */
#include "compiler-core/passes/pass.h"
#include "tests/unit/compiler-core/graph/support.h"

static uint32_t nodes_left(kiln_arena *arena, const char *body) {
    kiln_graph *graph = graph_of(
        arena, kiln_arena_printf(arena,
                                 "graph g\ninput x: f32[2,3]\nconstant a: f32[1] = [2]\n"
                                 "constant b: f32[1] = [2]\nconstant c: f32[1,1] = [2]\n%s",
                                 body));
    const char *before = result_of(arena, graph);
    uint32_t count = 0;
    expect_ok(kiln_pass_run(KILN_PASS_MERGE_EQUAL, graph));
    assert_string_equal(result_of(arena, graph), before);
    for (kiln_node n = 1; n < graph->node.count; n++)
        count += graph->node.data[n].op != KILN_OP_NONE;
    return count;
}

static void equal_nodes_become_one(void **state) {
    assert_int_equal(
        nodes_left(
            *state,
            "p: f32[2,3] = exp(x)\nq: f32[2,3] = exp(x)\ny: f32[2,3] = add(p, q)\noutput y\n"),
        2);
}

static void chains_of_equal_nodes_become_one_chain(void **state) {
    assert_int_equal(nodes_left(*state,
                                "p: f32[2,3] = exp(x)\nq: f32[2,3] = exp(x)\nr: f32[2,3] = sin(p)\n"
                                "s: f32[2,3] = sin(q)\ny: f32[2,3] = add(r, s)\noutput y\n"),
                     3);
}

static void equal_constants_are_one_operand(void **state) {
    assert_int_equal(nodes_left(*state, "p: f32[2,3] = mul(x, a)\nq: f32[2,3] = mul(x, b)\ny: "
                                        "f32[2,3] = sub(p, q)\noutput y\n"),
                     2);
    assert_int_equal(nodes_left(*state, "p: f32[2,3] = mul(x, a)\nq: f32[2,3] = mul(x, c)\ny: "
                                        "f32[2,3] = sub(p, q)\noutput y\n"),
                     3);
}

static void attributes_and_order_of_operands_count(void **state) {
    assert_int_equal(
        nodes_left(*state,
                   "p: f32[2,1] = reduce_sum(x) axes=[1]\nq: f32[1,3] = reduce_sum(x) axes=[0]\n"
                   "y: f32[2,3] = sub(p, q)\nz: f32[2,3] = sub(q, p)\noutput y\noutput z\n"),
        4);
}

static void outputs_keep_their_names(void **state) {
    assert_int_equal(
        nodes_left(*state, "y: f32[2,3] = exp(x)\nz: f32[2,3] = exp(x)\noutput y\noutput z\n"), 2);
    assert_int_equal(nodes_left(*state, "p: f32[2,3] = exp(x)\nz: f32[2,3] = exp(x)\nq: f32[2,3] = "
                                        "neg(p)\noutput q\noutput z\n"),
                     2);
}

static void parts_of_one_node_are_not_mixed_up(void **state) {
    assert_int_equal(
        nodes_left(*state,
                   "p: f32[1,3], q: f32[1,3] = split(x)\nr: f32[1,3], s: f32[1,3] = split(x)\n"
                   "y: f32[1,3] = sub(p, s)\nz: f32[1,3] = sub(q, r)\noutput y\noutput z\n"),
        4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(equal_nodes_become_one),
        test_with_arena(chains_of_equal_nodes_become_one_chain),
        test_with_arena(equal_constants_are_one_operand),
        test_with_arena(attributes_and_order_of_operands_count),
        test_with_arena(outputs_keep_their_names),
        test_with_arena(parts_of_one_node_are_not_mixed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
