/* Which outputs may differ between right implementations, and by how much. */
#include "compiler-core/ops/rounding.h"
#include "tests/unit/compiler-core/graph/support.h"

static kiln_rounding rounding_of(kiln_arena *arena, const char *lines) {
    kiln_graph *graph =
        graph_of(arena, kiln_arena_printf(arena,
                                          "graph g\n"
                                          "input x: f32[2,4]\n"
                                          "input b: u8[2,4]\n"
                                          "input s: f32[]\n"
                                          "constant scale: f32[] = [0.25]\n"
                                          "constant scales: f32[4] = [0.5,-2,1,0.125]\n"
                                          "constant zero: u8[] = [3]\n"
                                          "constant w: f32[4,4] = hash "
                                          "\"00112233445566778899aabbccddeeff\"\n"
                                          "%s\n"
                                          "output y\n",
                                          lines));
    return kiln_graph_rounding(graph, arena)[0];
}

static void expect_steps(kiln_arena *arena, const char *lines, uint32_t steps) {
    kiln_rounding rounding = rounding_of(arena, lines);
    assert_int_equal(rounding.steps, steps);
    assert_true(rounding.quantum == 0);
}

static void expect_quantum(kiln_arena *arena, const char *lines, double quantum) {
    kiln_rounding rounding = rounding_of(arena, lines);
    assert_int_equal(rounding.steps, 0);
    assert_true(rounding.quantum == quantum);
}

static void integers_are_exact_but_behind_a_rounding(void **state) {
    expect_steps(*state, "y: u8[2,4] = max(b, b)", 0);
    expect_steps(*state, "y: i32[2,4] = cast(x) to=\"i32\"", 0);
    expect_steps(*state, "y: u8[2,4] = quantize_linear(x, scale, zero)", 1);
    expect_steps(*state,
                 "q: u8[2,4] = quantize_linear(x, scale, zero)\n"
                 "y: u8[4,2] = transpose(q) perm=[1,0]",
                 1);
    expect_steps(*state,
                 "q: u8[2,4] = quantize_linear(x, scale, zero)\n"
                 "y: i32[2,4] = cast(q) to=\"i32\"",
                 1);
}

static void indices_and_truths_are_exact_behind_a_rounding(void **state) {
    expect_steps(*state,
                 "q: u8[2,4] = quantize_linear(x, scale, zero)\n"
                 "y: i64[2,1] = arg_max(q) axis=1",
                 0);
    expect_steps(*state,
                 "q: u8[2,4] = quantize_linear(x, scale, zero)\n"
                 "y: bool[2,4] = less(q, b)",
                 0);
    expect_steps(*state,
                 "q: u8[2,4] = quantize_linear(x, scale, zero)\n"
                 "y: bool[2,4] = cast(q) to=\"bool\"",
                 0);
}

static void floats_get_the_scale_that_feeds_them(void **state) {
    const char *quantised = "q: u8[2,4] = quantize_linear(x, scale, zero)\n";
    expect_quantum(
        *state,
        kiln_arena_printf(*state, "%sy: f32[2,4] = dequantize_linear(q, scale, zero)", quantised),
        0.25);
    expect_quantum(
        *state,
        kiln_arena_printf(*state, "%sy: f32[2,4] = dequantize_linear(q, scales) axis=1", quantised),
        2);
    expect_quantum(*state,
                   kiln_arena_printf(*state,
                                     "%sd: f32[2,4] = dequantize_linear(q, scale, zero)\n"
                                     "r: f32[8] = reshape(d) shape=[8]\n"
                                     "y: f32[8] = softmax(r)",
                                     quantised),
                   0.25);
}

static void other_floats_get_none(void **state) {
    expect_quantum(*state, "y: f32[2,4] = dequantize_linear(b, scale, zero)", 0);
    expect_quantum(*state,
                   "q: u8[2,4] = quantize_linear(x, scale, zero)\n"
                   "d: f32[2,4] = dequantize_linear(q, scale, zero)\n"
                   "y: f32[2,4] = matmul(d, w)",
                   0);
    expect_quantum(*state,
                   "q: u8[2,4] = quantize_linear(x, scale, zero)\n"
                   "y: f32[2,4] = dequantize_linear(q, s, zero)",
                   0);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(integers_are_exact_but_behind_a_rounding),
        test_with_arena(indices_and_truths_are_exact_behind_a_rounding),
        test_with_arena(floats_get_the_scale_that_feeds_them),
        test_with_arena(other_floats_get_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
