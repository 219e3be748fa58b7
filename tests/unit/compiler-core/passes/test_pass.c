#include "compiler-core/passes/pass.h"

#include "tests/unit/compiler-core/graph/support.h"

static void passes_are_found_by_name(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_PASS_COUNT; i++) {
        kiln_pass found;
        assert_true(kiln_pass_find(kiln_str_from(kiln_pass_get((kiln_pass)i)->name), &found));
        assert_int_equal(found, i);
        assert_true(kiln_pass_get((kiln_pass)i)->doc[0] != '\0');
    }
}

static void unknown_pass_is_refused_with_the_known_ones(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\ninput x: f32[1]\noutput x\n");
    expect_error(kiln_passes_run(graph, KILN_STR("magic")), INVALID_ARGUMENT,
                 "no pass \"magic\"; there are fold-constants, ");
}

static void passes_stop_after_the_one_that_is_named(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input x: f32[1]\n"
                                         "a: f32[1] = neg(x)\n"
                                         "c: f32[1] = abs(x)\n"
                                         "b: f32[1] = identity(c)\n"
                                         "output b\n");
    expect_ok(kiln_passes_run(graph, KILN_STR("remove-identity")));
    assert_int_equal(graph->node.data[1].op, KILN_OP_NEG); /* dead, but that comes later */
    assert_int_equal(graph->node.data[3].op, KILN_OP_NONE);
    expect_ok(kiln_passes_run(graph, (kiln_str){0}));
    assert_int_equal(graph->node.data[1].op, KILN_OP_NONE);
}

static void passes_that_are_named_are_left_out(void **state) {
    static const char *const text =
        "graph g\ninput x: f32[2]\na: f32[2] = identity(x)\nb: f32[2] = exp(a)\n"
        "y: f32[2] = neg(b)\noutput y\n";
    kiln_graph *graph = graph_of(*state, text);
    expect_ok(kiln_passes_run_without(graph, 1u << KILN_PASS_FUSE));
    assert_int_equal(graph->node.data[1].op, KILN_OP_NONE);
    assert_int_equal(graph->node.data[3].group, 0);
    graph = graph_of(*state, text);
    expect_ok(kiln_passes_run_without(graph, 1u << KILN_PASS_REMOVE_IDENTITY));
    assert_int_equal(graph->node.data[1].op, KILN_OP_IDENTITY);
    assert_int_equal(graph->node.data[2].group, graph->node.data[3].group);
}

/* The same results before and after all passes. */
static void passes_keep_what_a_graph_computes(void **state) {
    const char *text = "graph g\n"
                       "input x: f32[1,2,4,4]\n"
                       "constant w: f32[3,2,3,3] = hash \"00112233445566778899aabbccddeeff\"\n"
                       "constant s: f32[3] = [1, 2, 3]\n"
                       "constant k: f32[1,3,1,1] = [-5, -6, -4]\n"
                       "c: f32[1,3,4,4] = conv(x, w) pads=[1,1,1,1]\n"
                       "n: f32[1,3,4,4] = batch_norm(c, s, s, s, s)\n"
                       "r: f32[1,3,4,4] = relu(n)\n"
                       "e: f32[1,3,1,1] = exp(k)\n"
                       "m: f32[1,3,4,4] = mul(r, e)\n"
                       "i: f32[1,3,4,4] = identity(m)\n"
                       "p: f32[1,3,2,2] = average_pool(i) kernel_shape=[2,2] strides=[2,2]\n"
                       "f: f32[1,12] = flatten(p)\n"
                       "t: f32[12,1] = transpose(f)\n"
                       "y: f32[1,12] = softmax(f)\n"
                       "output y\n"
                       "output t\n";
    kiln_graph *graph = graph_of(*state, text);
    const char *before = result_of(*state, graph);
    expect_ok(kiln_passes_run(graph, (kiln_str){0}));
    assert_string_equal(result_of(*state, graph), before);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(passes_are_found_by_name),
        test_with_arena(unknown_pass_is_refused_with_the_known_ones),
        test_with_arena(passes_stop_after_the_one_that_is_named),
        test_with_arena(passes_that_are_named_are_left_out),
        test_with_arena(passes_keep_what_a_graph_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
