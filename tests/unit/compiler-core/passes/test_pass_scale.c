#include "compiler-core/passes/pass.h"
#include "tests/unit/compiler-core/graph/support.h"

#define HEAD                                                                                     \
    "graph g\ninput x: f32[1,1,3]\nconstant w: f32[2,1,2] = [1, 2, 3, 4]\nconstant b: f32[2] = " \
    "[5, 6]\n"                                                                                   \
    "constant s: f32[2] = [2, 0.5]\nconstant m: f32[2] = [1, -1]\nconstant v: f32[2] = [4, "     \
    "0.25]\ninput r: f32[2]\n"

static uint32_t norms_after(kiln_arena *arena, const char *body, bool *out_same) {
    kiln_graph *graph = graph_of(arena, kiln_arena_printf(arena, "%s%s", HEAD, body));
    const char *before = result_of(arena, graph);
    uint32_t norms = 0;
    expect_ok(kiln_pass_run(KILN_PASS_FOLD_SCALE, graph));
    for (kiln_node n = 1; n < graph->node.count; n++)
        norms += graph->node.data[n].op == KILN_OP_BATCH_NORM;
    const char *after = result_of(arena, graph);
    *out_same = kiln_str_equal(kiln_str_from(before), kiln_str_from(after));
    return norms;
}

static void expect_norms(kiln_arena *arena, const char *body, uint32_t norms) {
    bool same = false;
    assert_int_equal(norms_after(arena, body, &same), norms);
    assert_true(same);
}

static void weights_and_bias_take_the_normalisation_in(void **state) {
    expect_norms(*state,
                 "c: f32[1,2,2] = conv(x, w)\ny: f32[1,2,2] = batch_norm(c, s, b, m, v) "
                 "epsilon=0\noutput y\n",
                 0);
    expect_norms(*state,
                 "c: f32[1,2,2] = conv(x, w, b)\ny: f32[1,2,2] = batch_norm(c, s, b, m, v) "
                 "epsilon=0\noutput y\n",
                 0);
}

#define HALVES                                                                                    \
    "graph g\ninput x: f16[1,1,3]\nconstant w: f16[2,1,2] = [20, 2, 3, 4]\nconstant s: f16[2] = " \
    "[2, 0.5]\nconstant b: f16[2] = [5, 6]\nconstant m: f16[2] = [1, -1]\nc: f16[1,2,2] = "       \
    "conv(x, w)\n"

static uint32_t norms_of_halves(kiln_arena *arena, const char *variance) {
    kiln_graph *graph = graph_of(
        arena, kiln_arena_printf(arena,
                                 HALVES "constant v: f16[2] = [%s, 0.25]\n"
                                        "y: f16[1,2,2] = batch_norm(c, s, b, m, v) epsilon=0\n"
                                        "output y\n",
                                 variance));
    uint32_t norms = 0;
    expect_ok(kiln_pass_run(KILN_PASS_FOLD_SCALE, graph));
    for (kiln_node n = 1; n < graph->node.count; n++)
        norms += graph->node.data[n].op == KILN_OP_BATCH_NORM;
    return norms;
}

/* The least variance of a half makes 163,840 of a weight. */
static void halves_take_it_in_where_they_can_hold_it(void **state) {
    assert_int_equal(norms_of_halves(*state, "4"), 0);
    assert_int_equal(norms_of_halves(*state, "6e-8"), 1);
}

static void transposed_convolutions_take_it_in_along_their_channels(void **state) {
    expect_norms(*state,
                 "constant t: f32[1,2,2] = [1, 2, 3, 4]\n"
                 "c: f32[1,2,4] = conv_transpose(x, t)\ny: f32[1,2,4] = batch_norm(c, s, b, m, v) "
                 "epsilon=0\noutput y\n",
                 0);
    expect_norms(*state,
                 "constant t: f32[2,1,2] = [1, 2, 3, 4]\nconstant e: f32[2,1,1] = [1, 2]\n"
                 "d: f32[1,2,3] = conv(x, e)\n"
                 "c: f32[1,2,4] = conv_transpose(d, t) group=2\n"
                 "y: f32[1,2,4] = batch_norm(c, s, b, m, v) epsilon=0\noutput y\n",
                 0);
}

static void convolution_with_other_readers_stays(void **state) {
    expect_norms(*state,
                 "c: f32[1,2,2] = conv(x, w)\ny: f32[1,2,2] = batch_norm(c, s, b, m, v)\noutput "
                 "y\noutput c\n",
                 1);
}

static void statistics_known_at_run_time_only_stay(void **state) {
    expect_norms(
        *state, "c: f32[1,2,2] = conv(x, w)\ny: f32[1,2,2] = batch_norm(c, s, b, m, r)\noutput y\n",
        1);
}

static void normalisation_of_something_else_stays(void **state) {
    expect_norms(*state,
                 "c: f32[1,2,2] = conv(x, w)\nd: f32[1,2,2] = relu(c)\ny: f32[1,2,2] = "
                 "batch_norm(d, s, b, m, v)\noutput y\n",
                 1);
}

static uint32_t scales_after(kiln_arena *arena, const char *body) {
    kiln_graph *graph = graph_of(arena, kiln_arena_printf(arena, "%s%s", HEAD, body));
    const char *before = result_of(arena, graph);
    uint32_t count = 0;
    expect_ok(kiln_pass_run(KILN_PASS_FOLD_SCALE, graph));
    assert_string_equal(result_of(arena, graph), before);
    for (kiln_node n = 1; n < graph->node.count; n++)
        count += graph->node.data[n].op != KILN_OP_NONE && graph->node.data[n].op != KILN_OP_CONV;
    return count;
}

static void constants_of_channels_move_into_the_weights(void **state) {
    static const char *const chain =
        "constant k: f32[2,1] = [2, 4]\nconstant h: f32[1] = [0.5]\nc: f32[1,2,2] = conv(x, w)\n"
        "d: f32[1,2,2] = mul(k, c)\ne: f32[1,2,2] = add(d, k)\nf: f32[1,2,2] = sub(k, e)\n"
        "g: f32[1,2,2] = sub(f, h)\ny: f32[1,2,2] = div(g, k)\noutput y\n";
    assert_int_equal(scales_after(*state, chain), 0);
}

static void constants_of_places_stay(void **state) {
    assert_int_equal(scales_after(*state,
                                  "constant k: f32[2] = [2, 4]\nc: f32[1,2,2] = conv(x, w)\n"
                                  "y: f32[1,2,2] = mul(c, k)\noutput y\n"),
                     1);
    assert_int_equal(scales_after(*state, "constant k: f32[1] = [2]\nc: f32[1,2,2] = conv(x, w)\n"
                                          "y: f32[1,2,2] = div(k, c)\noutput y\n"),
                     1);
}

static void a_constant_that_makes_the_result_larger_stays(void **state) {
    assert_int_equal(scales_after(*state,
                                  "constant k: f32[1,1,1,1] = [2]\nc: f32[1,2,2] = conv(x, w)\n"
                                  "y: f32[1,1,2,2] = mul(c, k)\noutput y\n"),
                     1);
}

/* Two convolutions share weights; only one is normalised. */
static void shared_weights_are_not_changed(void **state) {
    expect_norms(*state,
                 "c: f32[1,2,2] = conv(x, w)\nd: f32[1,2,2] = conv(x, w)\n"
                 "y: f32[1,2,2] = batch_norm(c, s, b, m, v) epsilon=0\noutput y\noutput d\n",
                 0);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(weights_and_bias_take_the_normalisation_in),
        test_with_arena(halves_take_it_in_where_they_can_hold_it),
        test_with_arena(transposed_convolutions_take_it_in_along_their_channels),
        test_with_arena(convolution_with_other_readers_stays),
        test_with_arena(statistics_known_at_run_time_only_stay),
        test_with_arena(normalisation_of_something_else_stays),
        test_with_arena(constants_of_channels_move_into_the_weights),
        test_with_arena(constants_of_places_stay),
        test_with_arena(a_constant_that_makes_the_result_larger_stays),
        test_with_arena(shared_weights_are_not_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
