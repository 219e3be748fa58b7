/* Halves between kernels. */
#include "compiler-core/passes/narrow.h"

#include "compiler-core/passes/pass.h"
#include "tests/unit/compiler-core/graph/support.h"

static kiln_graph *narrowed(kiln_arena *arena, const char *text) {
    kiln_graph *graph = graph_of(arena, text);
    expect_ok(kiln_passes_run(graph, (kiln_str){0}));
    expect_ok(kiln_graph_narrow(graph, KILN_BF16));
    return graph;
}

static kiln_dtype dtype_of(kiln_graph *graph, const char *name) {
    const kiln_value value = kiln_graph_find_value(graph, kiln_str_from(name));
    assert_true(value > 0);
    return graph->value.data[value].dtype;
}

/* Values that a node of another kernel reads. */
static uint32_t between_kernels(const kiln_graph *graph, kiln_dtype dtype) {
    uint32_t count = 0;
    for (kiln_node n = 1; n < graph->node.count; n++)
        for (uint32_t i = 0; i < graph->node.data[n].input_count; i++) {
            const kiln_value_info *in = &graph->value.data[graph->node.data[n].input[i]];
            count += in->producer && in->dtype == dtype &&
                     graph->node.data[in->producer].group != graph->node.data[n].group;
        }
    return count;
}

static const char *const two_products = "graph g\n"
                                        "input x: f32[4,4]\n"
                                        "input w: f32[4,4]\n"
                                        "a: f32[4,4] = matmul(x, w)\n"
                                        "b: f32[4,4] = relu(a)\n"
                                        "c: f32[4,4] = matmul(b, w)\n"
                                        "d: f32[4,4] = add(c, b)\n"
                                        "output d\n";

/* One cast behind the first product and its relu, one in front of what reads it: the second
 * product and its sum are one kernel. */
static void kernels_write_halves_for_each_other(void **state) {
    const kiln_graph *graph = narrowed(*state, two_products);
    uint32_t casts = 0;
    for (kiln_node n = 1; n < graph->node.count; n++)
        casts += graph->node.data[n].op == KILN_OP_CAST;
    assert_int_equal(casts, 2);
    assert_int_equal(between_kernels(graph, KILN_BF16), 1);
    assert_int_equal(between_kernels(graph, KILN_F32), 0);
}

static void inputs_and_outputs_stay_floats(void **state) {
    kiln_graph *graph = narrowed(*state, two_products);
    assert_int_equal(dtype_of(graph, "x"), KILN_F32);
    assert_int_equal(dtype_of(graph, "d"), KILN_F32);
    /* an output that another kernel reads, too */
    graph = narrowed(*state, "graph g\ninput x: f32[4,4]\na: f32[4,4] = matmul(x, x)\n"
                             "b: f32[4,4] = matmul(a, x)\noutput a\noutput b\n");
    assert_int_equal(between_kernels(graph, KILN_BF16), 0);
}

/* What gives elements as they are needs no casts of its own. */
static void movements_and_aliases_move_halves(void **state) {
    kiln_graph *graph = narrowed(*state, "graph g\n"
                                         "input x: f32[1,4,8,8]\n"
                                         "input w: f32[4,4,1,1]\n"
                                         "input m: f32[64,4]\n"
                                         "a: f32[1,4,8,8] = conv(x, w)\n"
                                         "b: f32[1,4,4,4] = max_pool(a) kernel_shape=[2,2] "
                                         "strides=[2,2]\n"
                                         "c: f32[1,64] = reshape(b) shape=[1,64]\n"
                                         "d: f32[1,4] = matmul(c, m)\n"
                                         "output d\n");
    assert_int_equal(dtype_of(graph, "b"), KILN_BF16);
    assert_int_equal(dtype_of(graph, "c"), KILN_BF16);
    assert_int_equal(between_kernels(graph, KILN_F32), 0);
}

static void integers_are_left_alone(void **state) {
    kiln_graph *graph = narrowed(*state, "graph g\ninput x: i32[4,4]\na: i32[4,4] = matmul(x, x)\n"
                                         "b: i32[4,4] = matmul(a, x)\noutput b\n");
    assert_int_equal(dtype_of(graph, "a"), KILN_I32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(kernels_write_halves_for_each_other),
        test_with_arena(inputs_and_outputs_stay_floats),
        test_with_arena(movements_and_aliases_move_halves),
        test_with_arena(integers_are_left_alone),
    };
    return cmocka_run_group_tests_name("compiler-core/passes/narrow", tests, NULL, NULL);
}
