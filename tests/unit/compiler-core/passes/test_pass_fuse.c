#include <string.h>

#include "compiler-core/passes/pass.h"
#include "compiler-core/task/task.h"
#include "tests/unit/compiler-core/graph/support.h"

/* The kernels of a graph in order: "conv+relu, softmax". */
static void expect_kernels(kiln_arena *arena, const char *body, const char *expected) {
    kiln_graph *graph = graph_of(
        arena,
        kiln_arena_printf(arena,
                          "graph g\n"
                          "input x: f32[1,2,4,4]\n"
                          "input z: f32[1,2,4,4]\n"
                          "constant w: f32[2,2,3,3] = hash \"00112233445566778899aabbccddeeff\"\n"
                          "constant v: f32[2,1,1] = [1, 2]\n"
                          "%s",
                          body));
    const char *before = result_of(arena, graph);
    kiln_plan plan;
    kiln_strbuf text = {0};
    expect_ok(kiln_pass_run(KILN_PASS_FUSE, graph));
    expect_ok(kiln_plan_create(graph, arena, &plan));
    for (uint32_t i = 0; i < plan.step_count; i++)
        if (plan.step[i].kind == KILN_STEP_KERNEL)
            kiln_strbuf_printf(&text, "%s%.*s", text.size ? ", " : "",
                               KILN_STR_ARG(plan.step[i].op));
    assert_string_equal(text.data, expected);
    assert_string_equal(result_of(arena, graph), before);
    kiln_strbuf_deinit(&text);
}

#define CONV "c: f32[1,2,4,4] = conv(x, w) pads=[1,1,1,1]\n"

static void arithmetic_joins_the_reduction_before_it(void **state) {
    expect_kernels(*state,
                   CONV "d: f32[1,2,4,4] = add(c, v)\ny: f32[1,2,4,4] = relu(d)\noutput y\n",
                   "conv+add+relu");
    expect_kernels(*state, CONV "y: f32[1,2,4,4] = add(c, z)\noutput y\n", "conv+add");
}

static void a_value_with_two_readers_ends_its_kernel(void **state) {
    expect_kernels(*state,
                   CONV "d: f32[1,2,4,4] = relu(c)\ne: f32[1,2,4,4] = neg(c)\noutput d\noutput e\n",
                   "conv, relu, neg");
    expect_kernels(*state, CONV "y: f32[1,2,4,4] = relu(c)\noutput y\noutput c\n", "conv, relu");
}

static void one_reader_may_read_twice(void **state) {
    expect_kernels(*state, CONV "y: f32[1,2,4,4] = mul(c, c)\noutput y\n", "conv+mul");
}

#define ROOT_HALF \
    "constant r: f32[] = [1.41421354]\nconstant o: f32[] = [1]\nconstant h: f32[] = [0.5]\n"

/* x * sigmoid(x); GELU as exporters write it, in two orders; x * clip(x + 3) / 6. */
static void several_readers_that_are_one_chain_follow_what_they_read(void **state) {
    expect_kernels(*state,
                   CONV "s: f32[1,2,4,4] = sigmoid(c)\ny: f32[1,2,4,4] = mul(c, s)\noutput y\n",
                   "conv+sigmoid+mul");
    expect_kernels(*state,
                   ROOT_HALF CONV
                   "b: f32[1,2,4,4] = add(c, v)\nd: f32[1,2,4,4] = div(b, r)\n"
                   "e: f32[1,2,4,4] = erf(d)\nf: f32[1,2,4,4] = add(e, o)\n"
                   "g: f32[1,2,4,4] = mul(b, f)\ny: f32[1,2,4,4] = mul(g, h)\noutput y\n",
                   "conv+add+div+erf+add+mul+mul");
    expect_kernels(*state,
                   ROOT_HALF CONV "p: f32[1,2,4,4] = mul(c, h)\nd: f32[1,2,4,4] = div(c, r)\n"
                                  "e: f32[1,2,4,4] = erf(d)\nf: f32[1,2,4,4] = add(e, o)\n"
                                  "y: f32[1,2,4,4] = mul(p, f)\noutput y\n",
                   "conv+mul+div+erf+add+mul");
    expect_kernels(
        *state,
        "s: f32[1,2,4,4] = softmax(x)\na: f32[1,2,4,4] = add(s, v)\n"
        "b: f32[1,2,4,4] = mul(s, a)\ny: f32[1,2,4,4] = transpose(b) perm=[0,1,3,2]\noutput y\n",
        "softmax+add+mul, transpose");
}

static void a_reader_outside_of_the_chain_keeps_it_apart(void **state) {
    expect_kernels(
        *state,
        CONV "s: f32[1,2,4,4] = sigmoid(c)\ny: f32[1,2,4,4] = mul(c, s)\noutput y\noutput c\n",
        "conv, sigmoid+mul");
    expect_kernels(*state,
                   CONV "p: f32[1,2,1,1] = global_average_pool(c)\ns: f32[1,2,1,1] = sigmoid(p)\n"
                        "y: f32[1,2,4,4] = mul(c, s)\noutput y\n",
                   "conv, global_average_pool+sigmoid, mul");
    expect_kernels(
        *state,
        CONV
        "t: f32[1,2,4,4] = transpose(c) perm=[0,1,3,2]\ny: f32[1,2,4,4] = mul(c, t)\noutput y\n",
        "conv, transpose+mul");
}

static void movement_does_not_join_a_reduction(void **state) {
    expect_kernels(*state, CONV "y: f32[1,4,4,2] = transpose(c) perm=[0,2,3,1]\noutput y\n",
                   "conv, transpose");
    expect_kernels(*state, CONV "y: f32[1,4,4,4] = concat(c, z) axis=1\noutput y\n",
                   "conv, concat");
}

static void broadcasting_a_reduction_needs_a_kernel_of_its_own(void **state) {
    expect_kernels(
        *state, "s: f32[1,2,1,1] = global_average_pool(x)\ny: f32[1,2,4,4] = mul(x, s)\noutput y\n",
        "global_average_pool, mul");
}

static void two_reductions_never_share_a_kernel(void **state) {
    expect_kernels(
        *state,
        CONV "d: f32[1,2,4,4] = conv(z, w) pads=[1,1,1,1]\ny: f32[1,2,4,4] = add(c, d)\noutput y\n",
        "conv, conv+add");
    expect_kernels(
        *state, CONV "y: f32[1,2,2,2] = max_pool(c) kernel_shape=[2,2] strides=[2,2]\noutput y\n",
        "conv, max_pool");
}

static void chains_without_reductions_merge(void **state) {
    expect_kernels(*state,
                   "a: f32[1,2,4,4] = exp(x)\nb: f32[1,4,4,2] = transpose(a) perm=[0,2,3,1]\n"
                   "c: f32[1,4,4,2] = neg(b)\nd: f32[1,4,4,4] = concat(c, c) axis=3\noutput d\n",
                   "exp+transpose+neg+concat");
}

static void operands_that_only_the_epilogue_reads_come_along(void **state) {
    expect_kernels(*state,
                   CONV "g: f32[1,2,4,4] = sigmoid(z)\ny: f32[1,2,4,4] = mul(c, g)\noutput y\n",
                   "conv+sigmoid+mul");
}

/* The residual block: its input is read twice, so the first kernel ends with it. */
static void no_kernel_waits_for_itself(void **state) {
    expect_kernels(*state,
                   CONV "a: f32[1,2,4,4] = relu(c)\nd: f32[1,2,4,4] = conv(a, w) pads=[1,1,1,1]\n"
                        "e: f32[1,2,4,4] = neg(a)\nf: f32[1,2,4,4] = add(d, e)\ny: f32[1,2,4,4] = "
                        "relu(f)\noutput y\n",
                   "conv+relu, conv+neg+add+relu");
}

/* What widens at the end of a kernel is done by the one that reads it, element by element. */
static void narrow_elements_lie_between_kernels(void **state) {
#define NARROW                                                                          \
    CONV "b: f16[1,2,4,4] = cast(c) to=\"f16\"\ne: f32[1,2,4,4] = cast(b) to=\"f32\"\n" \
         "d: f32[1,2,4,4] = conv(z, w) pads=[1,1,1,1]\n"
    expect_kernels(*state, NARROW "f: f32[1,2,4,4] = add(d, e)\noutput f\n",
                   "conv+cast, cast+conv+add");
    /* what maps its elements goes along, but nothing that reads anything else */
    expect_kernels(*state,
                   NARROW "k: f32[1,2,4,4] = neg(e)\nf: f32[1,2,4,4] = add(d, k)\noutput f\n",
                   "conv+cast, cast+conv+neg+add");
    expect_kernels(*state,
                   NARROW "k: f32[1,2,4,4] = mul(e, z)\nf: f32[1,2,4,4] = add(d, k)\noutput f\n",
                   "conv+cast+cast+mul, conv+add");
    /* a reduction reads it */
    expect_kernels(*state,
                   NARROW "f: f32[1,2,4,4] = conv(e, w) pads=[1,1,1,1]\ng: f32[1,2,4,4] = add(f, "
                          "d)\noutput g\n",
                   "conv+cast+cast, conv, conv+add");
    /* two kernels read it, or it is an output */
    expect_kernels(*state,
                   NARROW "f: f32[1,2,4,4] = add(d, e)\ng: f32[1,2,4,4] = neg(e)\noutput "
                          "f\noutput g\n",
                   "conv+cast+cast, conv+add, neg");
    expect_kernels(*state, NARROW "f: f32[1,2,4,4] = add(d, e)\noutput f\noutput e\n",
                   "conv+cast+cast, conv+add");
}

static void softmax_is_one_kernel(void **state) {
    expect_kernels(*state, "s: f32[1,2,4,4] = softmax(x)\ny: f32[1,2,4,4] = mul(s, v)\noutput y\n",
                   "softmax+mul");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(arithmetic_joins_the_reduction_before_it),
        test_with_arena(a_value_with_two_readers_ends_its_kernel),
        test_with_arena(one_reader_may_read_twice),
        test_with_arena(several_readers_that_are_one_chain_follow_what_they_read),
        test_with_arena(a_reader_outside_of_the_chain_keeps_it_apart),
        test_with_arena(movement_does_not_join_a_reduction),
        test_with_arena(broadcasting_a_reduction_needs_a_kernel_of_its_own),
        test_with_arena(two_reductions_never_share_a_kernel),
        test_with_arena(chains_without_reductions_merge),
        test_with_arena(operands_that_only_the_epilogue_reads_come_along),
        test_with_arena(no_kernel_waits_for_itself),
        test_with_arena(narrow_elements_lie_between_kernels),
        test_with_arena(softmax_is_one_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
