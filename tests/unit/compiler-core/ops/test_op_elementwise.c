#include "tests/unit/compiler-core/graph/support.h"

#define SIGNS "constant k: f32[5] = [-2, -0.5, 0, 0.5, 2]\ninput x: f32[1]"

static void activations_follow_their_definitions(void **state) {
    expect_op(*state, SIGNS, "y: f32[5] = relu(k)", "f32[5]: 0 0 0 0.5 2");
    expect_op(*state, SIGNS, "y: f32[5] = leaky_relu(k) alpha=0.5", "f32[5]: -1 -0.25 0 0.5 2");
    expect_op(*state, SIGNS, "y: f32[5] = thresholded_relu(k)", "f32[5]: 0 0 0 0 2");
    expect_op(*state, SIGNS, "y: f32[5] = hard_sigmoid(k)", "f32[5]: 0.1 0.4 0.5 0.6 0.9");
    expect_op(*state, SIGNS, "y: f32[5] = hard_swish(k)",
              "f32[5]: -0.333333 -0.208333 0 0.291667 1.66667");
    expect_op(*state, SIGNS, "y: f32[5] = shrink(k) lambd=1 bias=0.5", "f32[5]: -1.5 0 0 0 1.5");
    expect_op(*state, SIGNS, "y: f32[5] = elu(k) alpha=2", "f32[5]: -1.72933 -0.786939 0 0.5 2");
    expect_op(*state, SIGNS, "y: f32[5] = softsign(k)",
              "f32[5]: -0.666667 -0.333333 0 0.333333 0.666667");
}

static void large_arguments_do_not_overflow(void **state) {
    expect_op(*state, "constant k: f32[3] = [-1000, 0, 1000]\ninput x: f32[1]",
              "y: f32[3] = softplus(k)", "f32[3]: 0 0.693147 1000");
    expect_op(*state, "constant k: f32[2] = [-1000, 1000]\ninput x: f32[1]", "y: f32[2] = mish(k)",
              "f32[2]: -0 1000");
}

static void operands_broadcast(void **state) {
    expect_op(*state, "input x: f32[2,1]\ninput z: f32[3]", "y: f32[2,3] = add(x, z)",
              "f32[2,3]: 2 3 4 3 4 5");
    expect_op(*state, "input x: i32[2]\nconstant k: i32[] = [-3]", "y: i32[2] = sub(x, k)",
              "i32[2]: 4 5");
    expect_op(*state, "input x: f32[2]\ninput a: f32[1]\ninput b: f32[2,1]",
              "y: f32[2,2] = max(x, a, b)", "f32[2,2]: 1 2 2 2");
    expect_op_refused(*state, "input x: f32[2]\ninput z: f32[3]", "y: f32[3] = add(x, z)",
                      "2 and 3 do not broadcast");
    expect_op_refused(*state, "input x: f32[2]\ninput z: i32[2]", "y: f32[2] = add(x, z)",
                      "input 1 of type i32");
}

static void remainders_have_the_sign_that_was_asked_for(void **state) {
    const char *inputs =
        "input x: i32[1]\nconstant a: i32[4] = [7, -7, 7, -7]\nconstant b: i32[4] = [3, 3, -3, -3]";
    expect_op(*state, inputs, "y: i32[4] = mod(a, b)", "i32[4]: 1 2 -2 -1");
    expect_op(*state, inputs, "y: i32[4] = mod(a, b) fmod=1", "i32[4]: 1 -1 1 -1");
}

static void powers_keep_the_type_of_the_base(void **state) {
    expect_op(*state, "input x: i32[3]\nconstant e: f32[1] = [2]", "y: i32[3] = pow(x, e)",
              "i32[3]: 1 4 9");
    expect_op(*state, "input x: f32[3]\nconstant e: i64[1] = [3]", "y: f32[3] = pow(x, e)",
              "f32[3]: 1 8 27");
}

static void casts_to_bool_ask_for_non_zero(void **state) {
    expect_op(*state, "input x: f32[1]\nconstant k: f32[4] = [0, 0.25, -1, nan]",
              "y: bool[4] = cast(k) to=\"bool\"", "bool[4]: 0 1 1 1");
    expect_op(*state, "input x: f32[1]\nconstant k: f32[3] = [-1.5, 300, nan]",
              "y: u8[3] = cast(k) to=\"u8\"", "u8[3]: 0 255 0");
    expect_op_refused(*state, "input x: f32[1]", "y: f32[1] = cast(x) to=\"text\"",
                      "there is no type text");
}

static void clip_takes_either_bound(void **state) {
    const char *inputs = "input x: f32[4]\nconstant low: f32[] = [2]\nconstant high: f32[] = [3]";
    expect_op(*state, inputs, "y: f32[4] = clip(x, low, high)", "f32[4]: 2 2 3 3");
    expect_op(*state, inputs, "y: f32[4] = clip(x, _, high)", "f32[4]: 1 2 3 3");
    expect_op(*state, inputs, "y: f32[4] = clip(x, high, low)", "f32[4]: 2 2 2 2");
}

static void infinities_are_told_by_sign(void **state) {
    const char *inputs = "input x: f32[1]\nconstant k: f32[3] = [inf, -inf, nan]";
    expect_op(*state, inputs, "y: bool[3] = is_inf(k)", "bool[3]: 1 1 0");
    expect_op(*state, inputs, "y: bool[3] = is_inf(k) detect_negative=0", "bool[3]: 1 0 0");
    expect_op(*state, inputs, "y: bool[3] = is_inf(k) detect_positive=0", "bool[3]: 0 1 0");
    expect_op(*state, inputs, "y: bool[3] = is_inf(k) detect_positive=0 detect_negative=0",
              "bool[3]: 0 0 0");
    expect_op(*state, inputs, "y: bool[3] = is_nan(k)", "bool[3]: 0 0 1");
}

static void quantised_values_round_and_saturate(void **state) {
    const char *inputs = "input x: f32[1]\nconstant k: f32[4] = [-9, 0.25, 0.75, 900]\n"
                         "constant s: f32[] = [0.5]\nconstant z: u8[] = [10]";
    expect_op(*state, inputs, "y: u8[4] = quantize_linear(k, s, z)", "u8[4]: 0 10 12 255");
    const char *few = "input x: f32[1]\nconstant k: f32[4] = [-9, 0.25, 0.75, 900]\n"
                      "constant s: f32[] = [0.5]\nconstant z: u8[] = [1]\nconstant n: i8[] = [0]";
    expect_op(*state, few, "y: u8[4] = quantize_linear(k, s, z) bits=2", "u8[4]: 0 1 3 3");
    expect_op(*state, few, "y: i8[4] = quantize_linear(k, s, n) bits=2", "i8[4]: -2 0 1 1");
    expect_op(*state, few, "y: i8[4] = quantize_linear(k, s, n) bits=1", "i8[4]: -1 0 0 0");
    expect_op(*state, inputs, "y: u8[4] = quantize_linear(k, s, z) bits=4", "u8[4]: 0 10 12 15");
    const char *around_zero = "input x: f32[1]\nconstant k: f32[4] = [-9, -0.5, 0.75, 900]\n"
                              "constant s: f32[] = [0.5]\nconstant z: i8[] = [0]";
    expect_op(*state, around_zero, "y: i8[4] = quantize_linear(k, s, z) bits=2",
              "i8[4]: -2 -1 1 1");
    expect_op_refused(*state, inputs, "y: u8[4] = quantize_linear(k, s, z) bits=9", "bits: 9");
    expect_op_refused(*state, inputs, "y: u8[4] = quantize_linear(k, s, z) bits=-1", "bits: -1");
    expect_op_refused(*state, "input x: f32[1]\nconstant s: f32[] = [1]\nconstant z: i16[] = [0]",
                      "y: i16[1] = quantize_linear(x, s, z) bits=2", "bits: 2 of type i16");
    expect_op_refused(*state, "input x: f32[1]\nconstant s: f32[] = [1]\nconstant z: f32[] = [0]",
                      "y: f32[1] = quantize_linear(x, s, z)", "input 2 has type f32");
    expect_op(*state,
              "input q: u8[3]\nconstant s: f32[3] = [1, 2, 3]\nconstant z: u8[3] = [1, 1, 1]",
              "y: f32[3] = dequantize_linear(q, s, z) axis=0", "f32[3]: 0 2 6");
}

static void dropout_keeps_everything(void **state) {
    expect_op(*state, "input x: f32[2]", "y: f32[2] = dropout(x)", "f32[2]: 1 2");
    expect_op(*state, "input x: f32[2]", "_, y: bool[2] = dropout(x)", "bool[2]: 1 1");
}

static void batch_norm_works_by_channel(void **state) {
    expect_op(*state,
              "input x: f32[1,2,2]\nconstant s: f32[2] = [2, 1]\nconstant b: f32[2] = [0, 10]\n"
              "constant m: f32[2] = [1, 3]\nconstant v: f32[2] = [4, 0.25]",
              "y: f32[1,2,2] = batch_norm(x, s, b, m, v) epsilon=0", "f32[1,2,2]: 0 1 10 12");
    expect_op_refused(*state, "input x: f32[1,2,2]\ninput v: f32[3]",
                      "y: f32[1,2,2] = batch_norm(x, v, v, v, v)",
                      "input 1 must be a vector of 2 elements");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(activations_follow_their_definitions),
        test_with_arena(large_arguments_do_not_overflow),
        test_with_arena(operands_broadcast),
        test_with_arena(remainders_have_the_sign_that_was_asked_for),
        test_with_arena(powers_keep_the_type_of_the_base),
        test_with_arena(casts_to_bool_ask_for_non_zero),
        test_with_arena(clip_takes_either_bound),
        test_with_arena(infinities_are_told_by_sign),
        test_with_arena(quantised_values_round_and_saturate),
        test_with_arena(dropout_keeps_everything),
        test_with_arena(batch_norm_works_by_channel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
