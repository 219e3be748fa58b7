/* Polynomials of exp, log, tanh, erf and sigmoid against the C library in double, over the whole
 * f32 line: a prime step through all bit patterns, so that every exponent and low mantissa bit is
 * met. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/unit/compiler-core/codegen/support.h"

#define STEP 257u /* prime */
#define COUNT ((int64_t)(UINT32_MAX / STEP) / 64 * 64)

static kiln_program *make_unary(kiln_arena *arena, kiln_expr_op op, int64_t count) {
    kiln_program *p = kiln_program_create(arena, KILN_STR("unary"));
    kiln_shape shape = {.rank = 1, .dim = {count}};
    kiln_buffer x = kiln_buffer_create(p, KILN_STR("x"), KILN_F32, KILN_ROLE_INPUT, &shape);
    kiln_buffer y = kiln_buffer_create(p, KILN_STR("y"), KILN_F32, KILN_ROLE_OUTPUT, &shape);
    kiln_block b = kiln_block_create(p, KILN_STR("f"));
    kiln_expr i = kiln_block_add_iter(p, b, "i", count, false);
    kiln_block_set(p, b, y, &i, 1, KILN_COMBINE_NONE,
                   kiln_expr_unary(p, op, kiln_expr_load(p, x, &i, 1)), 0);
    return p;
}

static kiln_program *vectorized(const kiln_program *te) {
    kiln_program *p = kiln_program_copy(te, te->arena);
    kiln_program_make_loops(p);
    p->stmt.data[kiln_program_find_loop(p, KILN_STR("f.i"))].loop_kind = KILN_LOOP_VECTORIZE;
    return p;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* Distance in units of the last place of the exact result; the spacing of denormals below the
 * normal range. */
static double ulps(float got, double exact) {
    float rounded = (float)exact;
    if (isnan(exact) || isnan(got)) return isnan(exact) && isnan(got) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(got))
        return rounded == got ? 0 : fabs(exact) > FLT_MAX * 0.999999 ? 1 : INFINITY;
    int exponent;
    frexp(exact, &exponent);
    double spacing = ldexp(1, exponent < -125 ? -149 : exponent - 24);
    return fabs((double)got - exact) / spacing;
}

static double worst_ulps(const char *target_text, kiln_expr_op op, double (*exact)(double)) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_target target = target_of(&arena, target_text);
    kiln_program *te = make_unary(&arena, op, COUNT);
    kiln_tensor args[2];
    kiln_artefact artefact;
    make_args(te, 1, args);
    float *x = args[0].data;
    const float *y = args[1].data;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t bits = i * STEP;
        memcpy(&x[i], &bits, sizeof bits);
    }
    kiln_status st = compile_scheduled(vectorized(te), &target, 2, &arena, &artefact);
    if (!st) st = run_artefact(&artefact, te, args, 1);
    if (st) fail_msg("%s", kiln_status_text(st));
    double worst = 0;
    float worst_at = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        double error = ulps(y[i], exact(x[i]));
        if (error > worst) worst_at = x[i];
        worst = error > worst ? error : worst;
    }
    print_message("%s: %.3f ulp at %.9g\n", target_text, worst, (double)worst_at);
    kiln_arena_deinit(&arena);
    return worst;
}

static void expect_ulps(kiln_expr_op op, double (*exact)(double), double with_fma, double without) {
    for (uint32_t i = 0; i < TEST_LEVELS; i++) {
        if (i == 1) continue; /* for these functions x86-64-v2 is as x86-64 */
        kiln_arena arena;
        kiln_arena_init(&arena, 0);
        kiln_target target = target_of(&arena, test_level[i]);
        bool runs = runs_here(&target, &arena);
        kiln_arena_deinit(&arena);
        if (runs)
            assert_true(worst_ulps(test_level[i], op, exact) <=
                        (target.has_fma ? with_fma : without));
    }
}

static void exp_is_accurate(void **state) {
    (void)state;
    expect_ulps(KILN_EXPR_EXP, exp, 1.5, 2);
}
static void log_is_accurate(void **state) {
    (void)state;
    expect_ulps(KILN_EXPR_LOG, log, 1.5, 2);
}
static void tanh_is_accurate(void **state) {
    (void)state;
    expect_ulps(KILN_EXPR_TANH, tanh, 2, 2.5);
}
static void erf_is_accurate(void **state) {
    (void)state;
    expect_ulps(KILN_EXPR_ERF, erf, 2, 2.5);
}
static void sigmoid_is_accurate(void **state) {
    (void)state;
    expect_ulps(KILN_EXPR_SIGMOID, sigmoid, 3, 3.5);
}

static double tf32(double x) { return (double)kiln_f32_to_tf32((float)x); }
static void tf32_is_rounded_as_stated(void **state) {
    (void)state;
    expect_ulps(KILN_EXPR_TF32, tf32, 0, 0);
}

/* What quantize_linear ends in, of every kind of float, in one vector and in each lane alone. */
static void expect_quantised(const char *target_text, const char *dtype, const char *value) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_target target = target_of(&arena, target_text);
    kiln_program *te = NULL;
    expect_ok(kiln_program_parse(
        kiln_str_from(kiln_arena_printf(&arena,
                                        "program q\ninput x: f32[64]\noutput y: %s[64]\n"
                                        "block f(i:64): y[i] = %s(%s)\n",
                                        dtype, dtype, value)),
        &arena, &te));
    static const float special[] = {NAN,     INFINITY, -INFINITY, 1e30f,  -1e30f, 2147483648.0f,
                                    -129.5f, -128.5f,  -127.5f,   126.5f, 127.5f, 128.5f,
                                    -0.5f,   0.5f,     1.5f,      -0.0f,  254.5f, 255.5f};
    for (uint32_t optimise = 0; optimise < 4; optimise += 2) {
        kiln_tensor wanted[2], got[2];
        kiln_artefact artefact;
        make_args(te, 1, wanted);
        make_args(te, 1, got);
        for (uint32_t i = 0; i < 64; i++)
            ((float *)wanted[0].data)[i] = ((float *)got[0].data)[i] =
                i < KILN_ARRAY_COUNT(special) ? special[i] : (float)i * 8.125f - 256;
        expect_ok(kiln_te_eval(te, wanted, 2));
        kiln_program *loops = vectorized(te);
        expect_ok(compile_scheduled(loops, &target, optimise, &arena, &artefact));
        expect_ok(run_artefact(&artefact, te, got, 1));
        assert_memory_equal(got[1].data, wanted[1].data, 64);
    }
    kiln_arena_deinit(&arena);
}

static void quantised_numbers_are_rounded_and_cut(void **state) {
    for (size_t i = 0; i < TEST_LEVELS; i++) {
        const char *level = test_level[i];
        kiln_target target = target_of(*state, level);
        if (!runs_here(&target, *state)) continue;
        expect_quantised(level, "u8", "i32(round(min(max(x[i], -3.0), 252.0))) + 3i32");
        expect_quantised(level, "u8", "i32(round(max(min(255.0, x[i]), 0.0)))");
        expect_quantised(level, "u8", "i32(round(min(max(x[i], 0.0), 255.0)))");
        expect_quantised(level, "u8", "i32(round(min(max(x[i], 0.0), 130.0))) + 7i32");
        expect_quantised(level, "i8", "i32(round(min(max(x[i], 0.0), 255.0))) + -128i32");
        expect_quantised(level, "i8", "i32(round(min(max(x[i], -135.0), 120.0))) + 7i32");
        expect_quantised(level, "u8", "round(x[i]) + 3.0"); /* a saturating cast */
        expect_quantised(level, "i8", "round(x[i])");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_accurate),
        cmocka_unit_test(log_is_accurate),
        cmocka_unit_test(tanh_is_accurate),
        cmocka_unit_test(erf_is_accurate),
        cmocka_unit_test(sigmoid_is_accurate),
        cmocka_unit_test(tf32_is_rounded_as_stated),
        test_with_arena(quantised_numbers_are_rounded_and_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
