/* The interpreter of tensor expressions, and the reference with its bounds. */
#include "compiler-core/ir/eval.h"

#include <math.h>

#include "compiler-core/ir/reference.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/unit/compiler-core/ir/support.h"

static float *floats(const kiln_tensor *t) { return t->data; }

static void a_convolution_is_what_its_definition_says(void **state) {
    kiln_program *p = parse(*state, "program conv\n"
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
                for (int k = 0; k < 2; k++) sum += (double)floats(&args[0])[c * 5 + i + k] * floats(&args[1])[(o * 2 + c) * 2 + k];
            assert_true(floats(&args[2])[o * 4 + i] == (float)sum);
        }
    }
}

static void blocks_run_in_order_and_reductions_round_once(void **state) {
    kiln_program *p = parse(*state, "program chain\n"
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
    kiln_program *p = parse(*state, "program empty\n"
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
    expect_error(kiln_te_eval(p, args, make_args(p, 3, args)), OUT_OF_RANGE, "block gather reads x[9]");
}

static void the_reference_lists_each_bound_after_its_output(void **state) {
    kiln_program *p = parse(*state, "program two\n"
                                    "input x: f32[4]\n"
                                    "output y: f32[4]\n"
                                    "output n: i32[4]\n"
                                    "output z: f16[]\n"
                                    "block map(i:4): y[i] = exp(x[i])\n"
                                    "block count(i:4): n[i] = i32(i)\n"
                                    "block sum( | i:4): z[] sum= f16(y[i]) init 0.0f16\n");
    kiln_program *reference = kiln_te_reference(p, p->arena);
    expect_ok(kiln_program_verify(reference));
    kiln_buffer arg[KILN_PROGRAM_BUFFERS_MAX];
    static const char *const wanted[] = {"x", "y", "y.bound", "n", "z", "z.bound"};
    assert_int_equal(kiln_program_args(reference, arg), 6);
    for (int i = 0; i < 6; i++) assert_true(kiln_str_is(reference->buffer.data[arg[i]].name, wanted[i]));
}

/* A sum that cancels: the value is tiny, the bound is about the magnitudes. */
static void bounds_follow_magnitudes_not_values(void **state) {
    kiln_program *p = parse(*state, "program cancel\n"
                                    "input x: f32[64]\n"
                                    "output y: f32[]\n"
                                    "block sum( | i:64): y[] sum= x[i]*1000.0 - x[i]*1000.0 init 0.0\n");
    kiln_tensor args[64];
    kiln_tensor bound[64];
    uint32_t count = make_args(p, 3, args);
    expect_ok(kiln_te_eval_bounds(p, args, count, p->arena, bound));
    assert_true(floats(&args[1])[0] == 0);
    double magnitudes = 0;
    for (int i = 0; i < 64; i++) magnitudes += 2000 * fabs((double)floats(&args[0])[i]);
    assert_true(floats(&bound[0])[0] > 64 * 0x1p-24 * magnitudes);
    assert_true(floats(&bound[0])[0] < 128 * 0x1p-23 * magnitudes);
}

/* Every float operator: computing in f32 step by step stays within the bound. */
static void float_arithmetic_stays_within_the_bound(void **state) {
    static const char *const value[] = {
        "exp(x[i])", "log(abs(x[i]) + 0.5)", "tanh(x[i])*x[i]", "erf(x[i])", "sigmoid(x[i])", "sqrt(abs(x[i]))",
        "sin(x[i]) + cos(x[i])", "x[i]/(abs(x[i]) + 0.1)", "pow(abs(x[i]) + 0.1, 2.5)", "tan(x[i])", "sinh(x[i])",
        "atanh(x[i]*0.9)", "asin(x[i])", "acosh(x[i] + 2.5)", "max(x[i], exp(x[i]) - 1.0)", "x[i] - x[63 - i]",
    };
    for (size_t k = 0; k < KILN_ARRAY_COUNT(value); k++) {
        const kiln_program *test = *state;
        kiln_program *p = parse(test, kiln_arena_printf(test->arena, "program f\ninput x: f32[64]\noutput y: f32[64]\ntemp t: f32[64]\n"
                                                                     "block t(i:64): t[i] = %s\nblock y(i:64): y[i] = t[i]*t[i] + t[i]\n",
                                                        value[k]));
        kiln_program *loops = kiln_program_copy(p, p->arena);
        kiln_program_make_loops(loops);
        kiln_tensor wanted[64];
        kiln_tensor got[64];
        kiln_tensor bound[64];
        uint32_t count = make_args(p, k, wanted);
        make_args(p, k, got);
        expect_ok(kiln_te_eval_bounds(p, wanted, count, p->arena, bound));
        expect_ok(kiln_loop_eval(loops, got, count));
        expect_within_bounds(p, got, wanted, bound, count, k);
        for (int i = 0; i < 64; i++) { /* and the bound is not so wide that it proves nothing */
            double size = fmax(fabs((double)floats(&wanted[1])[i]), 1);
            assert_true(floats(&bound[0])[i] < 1e-2 * size || k == 13 || k == 12);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(a_convolution_is_what_its_definition_says),
        PROGRAM_TEST(blocks_run_in_order_and_reductions_round_once),
        PROGRAM_TEST(an_empty_reduction_gives_its_init),
        PROGRAM_TEST(accesses_outside_name_block_buffer_and_index),
        PROGRAM_TEST(the_reference_lists_each_bound_after_its_output),
        PROGRAM_TEST(bounds_follow_magnitudes_not_values),
        PROGRAM_TEST(float_arithmetic_stays_within_the_bound),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/te_eval", tests, NULL, NULL);
}
