/* The interpreter of tensor expressions. */
#include "compiler-core/ir/eval.h"

#include "tests/unit/compiler-core/ir/support.h"

static float *floats(const kiln_tensor *t) { return t->data; }

static void a_convolution_is_what_its_definition_says(void **state) {
    kiln_program *p = parse(
        *state, "program conv\n"
                "input x: f32[2,5]\n"
                "constant w: f32[3,2,2]\n"
                "output y: f32[3,4]\n"
                "block conv(o:3, i:4 | c:2, k:2): y[o, i] sum= x[c, i + k]*w[o, c, k] init 0.0\n");
    kiln_tensor args[64];
    expect_ok(kiln_te_eval(p, args, make_args(p, 3, args)));
    for (int o = 0; o < 3; o++) {
        for (int i = 0; i < 4; i++) {
            double sum = 0;
            for (int c = 0; c < 2; c++)
                for (int k = 0; k < 2; k++)
                    sum += (double)floats(&args[0])[c * 5 + i + k] *
                           floats(&args[1])[(o * 2 + c) * 2 + k];
            assert_true(floats(&args[2])[o * 4 + i] == (float)sum);
        }
    }
}

static void blocks_run_in_order_and_reductions_round_once(void **state) {
    kiln_program *p =
        parse(*state, "program chain\n"
                      "input x: f32[3]\n"
                      "output y: f32[]\n"
                      "temp t: f32[3]\n"
                      "block first(i:3): t[i] = x[i]*0.0 + select(i < 1, 16777216.0, 1.0)\n"
                      "block second( | i:3): y[] sum= t[i] init 0.0\n");
    kiln_tensor args[64];
    expect_ok(kiln_te_eval(p, args, make_args(p, 3, args)));
    assert_true(floats(&args[1])[0] == 16777218.0F); /* f32 steps of one would stay at 16777216 */
}

static void an_empty_reduction_gives_its_init(void **state) {
    kiln_program *p =
        parse(*state, "program empty\n"
                      "input x: i32[2,0]\n"
                      "output y: i32[2]\n"
                      "block most(i:2 | k:0): y[i] max= x[i, k] init -2147483648i32\n");
    kiln_tensor args[64];
    expect_ok(kiln_te_eval(p, args, make_args(p, 3, args)));
    assert_int_equal(((int32_t *)args[1].data)[1], INT32_MIN);
}

static void accesses_outside_name_block_buffer_and_index(void **state) {
    kiln_program *p = parse(*state, "program gather\n"
                                    "input x: f32[4]\n"
                                    "input at: i64[2] fill(zero)\n"
                                    "output y: f32[2]\n"
                                    "block gather(i:2): y[i] = x[at[i] + 9]\n");
    kiln_tensor args[64];
    expect_error(kiln_te_eval(p, args, make_args(p, 3, args)), OUT_OF_RANGE,
                 "block gather reads x[9]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(a_convolution_is_what_its_definition_says),
        PROGRAM_TEST(blocks_run_in_order_and_reductions_round_once),
        PROGRAM_TEST(an_empty_reduction_gives_its_init),
        PROGRAM_TEST(accesses_outside_name_block_buffer_and_index),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/te_eval", tests, NULL, NULL);
}
