/* The reference program and its bounds. */
#include "compiler-core/ir/reference.h"

#include <math.h>

#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/ir/support.h"

static float *floats(const kiln_tensor *t) { return t->data; }

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
    static const char *const wanted[] = {"x", "y", "y.bound", "n", "z", "z.bound"};
    kiln_arg_buffers arg = kiln_program_args(reference);
    assert_int_equal(arg.count, 6);
    for (int i = 0; i < 6; i++)
        assert_true(kiln_str_is(reference->buffer.data[arg.buffer[i]].name, wanted[i]));
}

/* A sum that cancels: the value is tiny, the bound is about the magnitudes. */
static void bounds_follow_magnitudes_not_values(void **state) {
    kiln_program *p =
        parse(*state, "program cancel\n"
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

/* 5 * 0.1 is 0.5 in f32 and more than that in f64; the even neighbour is 0, and then 1. */
static void integers_are_made_of_floats_as_kernels_have_them(void **state) {
    static const struct {
        const char *text;
        uint8_t wanted;
    } row[] = {
        {"program q\ninput x: i32[4]\noutput y: u8[4]\n"
         "block q(i:4): y[i] = u8(round(f32(i + 5)*0.1))\n",
         0},
        /* floats that are summed up have no order of their own */
        {"program q\ninput x: i32[4]\noutput y: u8[4]\ntemp t: f32[4]\ntemp s: f32[4]\n"
         "block t(i:4): t[i] = f32(i + 5)*0.1\n"
         "block s(i:4 | k:1): s[i] sum= t[i + k] init 0.0\n"
         "block q(i:4): y[i] = u8(round(s[i]))\n",
         1},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        kiln_program *p = parse(*state, row[i].text);
        kiln_tensor args[4], bound[4];
        uint32_t count = make_args(p, 3, args);
        expect_ok(kiln_te_eval_bounds(p, args, count, p->arena, bound));
        assert_int_equal(((uint8_t *)args[1].data)[0], row[i].wanted);
    }
}

/* Every float operator: computing in f32 step by step stays within the bound. */
static void float_arithmetic_stays_within_the_bound(void **state) {
    static const char *const value[] = {
        "exp(x[i])",
        "log(abs(x[i]) + 0.5)",
        "tanh(x[i])*x[i]",
        "erf(x[i])",
        "sigmoid(x[i])",
        "sqrt(abs(x[i]))",
        "sin(x[i]) + cos(x[i])",
        "x[i]/(abs(x[i]) + 0.1)",
        "pow(abs(x[i]) + 0.1, 2.5)",
        "tan(x[i])",
        "sinh(x[i])",
        "atanh(x[i]*0.9)",
        "asin(x[i])",
        "acosh(x[i] + 2.5)",
        "max(x[i], exp(x[i]) - 1.0)",
        "x[i] - x[63 - i]",
    };
    for (size_t k = 0; k < KILN_ARRAY_COUNT(value); k++) {
        const kiln_program *test = *state;
        kiln_program *p = parse(
            test,
            kiln_arena_printf(test->arena,
                              "program f\ninput x: f32[64]\noutput y: f32[64]\ntemp t: f32[64]\n"
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
        PROGRAM_TEST(the_reference_lists_each_bound_after_its_output),
        PROGRAM_TEST(integers_are_made_of_floats_as_kernels_have_them),
        PROGRAM_TEST(bounds_follow_magnitudes_not_values),
        PROGRAM_TEST(float_arithmetic_stays_within_the_bound),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/reference", tests, NULL, NULL);
}
