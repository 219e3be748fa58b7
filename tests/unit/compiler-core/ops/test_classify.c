/* Classes come from the access pattern alone. */
#include <string.h>

#include "compiler-core/graph/op.h"
#include "tests/unit/compiler-core/graph/support.h"

/* "class: class of input 0, class of input 1, ..." of the node that computes y. */
static const char *const access_word[] = {
    [KILN_ACCESS_ELEMENTWISE] = "elementwise", [KILN_ACCESS_BROADCAST] = "broadcast",
    [KILN_ACCESS_INJECTIVE] = "injective",     [KILN_ACCESS_REDUCTION] = "reduction",
    [KILN_ACCESS_COMPLEX] = "complex",
};

static void expect_class(kiln_arena *arena, const char *line, const char *expected) {
    kiln_graph *graph = graph_of(
        arena,
        kiln_arena_printf(arena,
                          "graph g\n"
                          "input x: f32[2,3,4,4]\n"
                          "input v: f32[3,1,1]\n"
                          "input i: i64[2]\n"
                          "constant w: f32[5,3,3,3] = hash \"00112233445566778899aabbccddeeff\"\n"
                          "constant m: f32[4,6] = hash \"00112233445566778899aabbccddeeff\"\n"
                          "%s\n"
                          "output y\n",
                          line));
    kiln_op_class class;
    kiln_strbuf text = {0};
    kiln_node_classify(graph, 1, &class);
    kiln_strbuf_printf(&text, "%s:", access_word[class.node]);
    for (uint32_t i = 0; i < graph->node.data[1].input_count; i++)
        kiln_strbuf_printf(&text, "%s %s", i ? "," : "", access_word[class.input[i]]);
    assert_string_equal(text.data, expected);
    kiln_strbuf_deinit(&text);
}

static void arithmetic_is_elementwise_or_broadcast(void **state) {
    expect_class(*state, "y: f32[2,3,4,4] = relu(x)", "elementwise: elementwise");
    expect_class(*state, "y: f32[2,3,4,4] = add(x, x)", "elementwise: elementwise, elementwise");
    expect_class(*state, "y: f32[2,3,4,4] = add(x, v)", "broadcast: elementwise, broadcast");
    expect_class(*state, "y: f32[2,3,4,4] = add(v, x)", "broadcast: broadcast, elementwise");
}

static void movement_is_injective(void **state) {
    expect_class(*state, "y: f32[3,2,4,4] = transpose(x) perm=[1,0,2,3]", "injective: injective");
    expect_class(*state, "y: f32[2,6,4,4] = concat(x, x) axis=1",
                 "injective: elementwise, injective");
    expect_class(*state, "y: f32[2,3,2,4] = slice(x) starts=[1] ends=[3] axes=[2]",
                 "injective: injective");
    expect_class(*state, "y: f32[2,2,4,4] = gather(x, i) axis=1",
                 "injective: injective, injective");
    expect_class(*state, "y: f32[6,16] = reshape(x) shape=[6,16]", "injective: injective");
}

static void contractions_are_one_reduction(void **state) {
    expect_class(*state, "y: f32[2,5,2,2] = conv(x, w)", "reduction: reduction, reduction");
    expect_class(*state, "y: f32[2,5,4,4] = conv(x, w) pads=[1,1,1,1]",
                 "reduction: reduction, reduction");
    expect_class(*state, "y: f32[2,3,4,6] = matmul(x, m)", "reduction: reduction, reduction");
    expect_class(*state, "y: f32[2,3,1,1] = global_average_pool(x)", "reduction: reduction");
    expect_class(*state, "y: f32[2,1,4,4] = reduce_max(x) axes=[1]", "reduction: reduction");
}

static void values_used_again_after_a_reduction_are_complex(void **state) {
    expect_class(*state, "y: f32[2,3,4,4] = softmax(x)", "complex: complex");
    expect_class(*state, "y: i64[2,3,4,1] = arg_max(x) axis=3", "complex: complex");
    expect_class(*state, "y: f32[2,3,4,4] = lp_norm(x)", "complex: complex");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(arithmetic_is_elementwise_or_broadcast),
        test_with_arena(movement_is_injective),
        test_with_arena(contractions_are_one_reduction),
        test_with_arena(values_used_again_after_a_reduction_are_complex),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
