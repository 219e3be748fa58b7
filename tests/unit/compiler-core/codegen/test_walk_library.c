/* Functions that Kiln has for targets without a library, run on this machine: those of f32 against
 * the C library's in double, those of f64 against long double, and rem against fmod. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/sched/support.h"

#define COUNT 262144
#define STEP (UINT32_MAX / COUNT | 1u)

/* Distance in units of the last place of the exact result. */
static double ulps(float got, double exact) {
    const float rounded = (float)exact;
    int exponent;
    if (isnan(exact) || isnan(got)) return isnan(exact) && isnan(got) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(got)) return rounded == got ? 0 : INFINITY;
    if (rounded == 0 && got == 0) return signbit(rounded) == signbit(got) ? 0 : INFINITY;
    frexp(exact, &exponent);
    return fabs((double)got - exact) / ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

/* Code of `te` that calls nothing. */
static void run_own(kiln_program *te, const kiln_tensor *args) {
    kiln_target target = target_of(te->arena, "x86-64-v3");
    const kiln_codegen_options options = {
        .emit = KILN_EMIT_OBJECT, .optimise = 2, .own_functions = true};
    kiln_artefact artefact;
    kiln_lowered lowered;
    uint64_t scratch, worker;
    kiln_program_make_loops(te);
    expect_ok(compile_scheduled(te, &target, 2, te->arena, &artefact));
    expect_ok(kiln_lower(te, &target, te->arena, &lowered));
    expect_ok(
        kiln_codegen(&lowered, &target, &options, te->arena, &artefact.payload, &scratch, &worker));
    expect_ok(run_artefact(&artefact, te, args, 1));
}

static const struct {
    const char *name;
    double (*exact)(double);
    double size_max; /* of what is tried */
} function[] = {{"sin", sin, 0x1p40},       {"cos", cos, 0x1p40},      {"tan", tan, 0x1p40},
                {"asin", asin, INFINITY},   {"acos", acos, INFINITY},  {"atan", atan, INFINITY},
                {"sinh", sinh, INFINITY},   {"cosh", cosh, INFINITY},  {"asinh", asinh, INFINITY},
                {"acosh", acosh, INFINITY}, {"atanh", atanh, INFINITY}};

static void functions_of_one_number_are_accurate(void **state) {
    (void)state;
    skip_unless_runs_here("x86-64-v3");
    for (size_t f = 0; f < KILN_ARRAY_COUNT(function); f++) {
        kiln_arena arena;
        kiln_tensor args[2];
        kiln_arena_init(&arena, 0);
        kiln_program *te =
            parsed(&arena, kiln_arena_printf(&arena,
                                             "program p\ninput x: f32[%d]\noutput y: f32[%d]\n"
                                             "block f(i:%d): y[i] = %s(x[i])\n",
                                             COUNT, COUNT, COUNT, function[f].name));
        make_args(te, 1, args);
        float *x = args[0].data;
        const float *y = args[1].data;
        double worst = 0;
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint32_t bits = i * STEP;
            memcpy(&x[i], &bits, sizeof bits);
        }
        static const float special[] = {0, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, 0.5f, 2};
        memcpy(x, special, sizeof special);
        run_own(te, args);
        for (uint32_t i = 0; i < COUNT; i++) {
            if (fabsf(x[i]) > function[f].size_max && isfinite(x[i])) continue;
            const double error = ulps(y[i], function[f].exact(x[i]));
            if (error > 0.51)
                fail_msg("%s(%.9g) = %.9g: %.3f ulp", function[f].name, (double)x[i], (double)y[i],
                         error);
            worst = error > worst ? error : worst;
        }
        print_message("%s: %.4f ulp\n", function[f].name, worst);
        kiln_arena_deinit(&arena);
    }
}

static void powers_and_remainders_are_those_of_c(void **state) {
    static const char text[] = "program p\ninput x: f32[65536]\ninput y: f32[65536]\n"
                               "output p: f32[65536]\noutput r: f32[65536]\n"
                               "block f(i:65536): p[i] = pow(x[i], y[i])\n"
                               "block g(i:65536): r[i] = rem(x[i], y[i])\n";
    static const float special[] = {0,      -0.0f, 1,     -1,     INFINITY, -INFINITY, NAN,   0.5f,
                                    -0.5f,  2,     -2,    3,      -3,       2.5f,      -2.5f, 1e38f,
                                    1e-44f, -7,    1e10f, 33.25f, 0.3333f,  16777216,  -1e20f};
    enum { SPECIAL = KILN_ARRAY_COUNT(special) };
    skip_unless_runs_here("x86-64-v3");
    kiln_program *te = parsed(*state, text);
    kiln_tensor args[4];
    make_args(te, 1, args);
    float *x = args[0].data, *y = args[1].data;
    const float *p = args[2].data, *r = args[3].data;
    for (uint32_t i = 0; i < 65536; i++) {
        const uint32_t bits[] = {i * 65537u * 3, i * 40503u * 70001u};
        memcpy(&x[i], &bits[0], 4);
        memcpy(&y[i], &bits[1], 4);
        if (i % 4 == 1) y[i] = fmodf(y[i], 40);
        if (i % 4 == 2) x[i] = fabsf(fmodf(x[i], 9)), y[i] = fmodf(y[i], 9);
        if (i < SPECIAL * SPECIAL) x[i] = special[i / SPECIAL], y[i] = special[i % SPECIAL];
    }
    run_own(te, args);
    for (uint32_t i = 0; i < 65536; i++) {
        if (ulps(p[i], pow(x[i], y[i])) > 0.51)
            fail_msg("pow(%.9g, %.9g) = %.9g", (double)x[i], (double)y[i], (double)p[i]);
        if (ulps(r[i], fmod(x[i], y[i])) > 0)
            fail_msg("rem(%.9g, %.9g) = %.9g", (double)x[i], (double)y[i], (double)r[i]);
    }
}

/* ---- f64 ------------------------------------------------------------------------------------- */

#define WIDE_COUNT 131072

/* Distance in units of the last place of the exact result. */
static double wide_ulps(double got, long double exact) {
    const double rounded = (double)exact;
    int exponent;
    if (isnan(exact) || isnan(got)) return isnan(exact) && isnan(got) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(got)) return rounded == got ? 0 : INFINITY;
    if (rounded == 0 && got == 0) return signbit(rounded) == signbit(got) ? 0 : INFINITY;
    frexpl(exact, &exponent);
    return (double)(fabsl((long double)got - exact) /
                    ldexpl(1, exponent < -1021 ? -1074 : exponent - 53));
}

static long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }

static const struct {
    const char *name;
    long double (*exact)(long double);
    double size_max; /* of what is tried */
    double ulps_max; /* what walk_library_wide.c promises */
} wide_function[] = {
    {"exp", expl, INFINITY, 1},    {"log", logl, INFINITY, 1},     {"tanh", tanhl, INFINITY, 3},
    {"erf", erfl, INFINITY, 2},    {"sigmoid", sigmoid, 700, 3},   {"sin", sinl, 0x1p40, 1},
    {"cos", cosl, 0x1p40, 1},      {"tan", tanl, 0x1p40, 2},       {"asin", asinl, INFINITY, 3},
    {"acos", acosl, INFINITY, 3},  {"atan", atanl, INFINITY, 3},   {"sinh", sinhl, INFINITY, 2},
    {"cosh", coshl, INFINITY, 2},  {"asinh", asinhl, INFINITY, 2}, {"acosh", acoshl, INFINITY, 2},
    {"atanh", atanhl, INFINITY, 2}};

/* All exponents, and as many numbers again where functions are neither 0 nor infinite: sizes from
 * 2^-20 to 2^11, and near 1. */
static void fill_wide(double *x, uint32_t count) {
    static const double special[] = {0,   -0.0, 1,       -1,       INFINITY, -INFINITY, NAN, 0.5, 2,
                                     710, -746, DBL_MAX, -DBL_MAX, DBL_MIN,  0x1p-1074, 6,   1e22};
    uint64_t state = 88172645463325252;
    for (uint32_t i = 0; i < count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        uint64_t bits = state;
        if (i % 2) bits = (state & ~(UINT64_C(0x7ff) << 52)) | (1003 + (state >> 52) % 32) << 52;
        memcpy(&x[i], &bits, sizeof bits);
        if (i % 8 == 3) x[i] = 1 + fmod(x[i], 1) / 16;
    }
    memcpy(x, special, sizeof special);
}

static void functions_of_f64_are_accurate(void **state) {
    (void)state;
    skip_unless_runs_here("x86-64-v3");
    for (size_t f = 0; f < KILN_ARRAY_COUNT(wide_function); f++) {
        kiln_arena arena;
        kiln_tensor args[2];
        kiln_arena_init(&arena, 0);
        kiln_program *te = parsed(
            &arena, kiln_arena_printf(&arena,
                                      "program p\ninput x: f64[%d]\noutput y: f64[%d]\n"
                                      "block f(i:%d): y[i] = %s(x[i])\n",
                                      WIDE_COUNT, WIDE_COUNT, WIDE_COUNT, wide_function[f].name));
        make_args(te, 1, args);
        double *x = args[0].data, worst = 0;
        const double *y = args[1].data;
        fill_wide(x, WIDE_COUNT);
        run_own(te, args);
        for (uint32_t i = 0; i < WIDE_COUNT; i++) {
            if (fabs(x[i]) > wide_function[f].size_max && isfinite(x[i])) continue;
            const double error = wide_ulps(y[i], wide_function[f].exact(x[i]));
            if (error > wide_function[f].ulps_max)
                fail_msg("%s(%.17g) = %.17g: %.3f ulp", wide_function[f].name, x[i], y[i], error);
            worst = error > worst ? error : worst;
        }
        print_message("%s of f64: %.4f ulp\n", wide_function[f].name, worst);
        kiln_arena_deinit(&arena);
    }
}

static void powers_and_remainders_of_f64_are_those_of_c(void **state) {
    static const char text[] = "program p\ninput x: f64[65536]\ninput y: f64[65536]\n"
                               "output p: f64[65536]\noutput r: f64[65536]\n"
                               "block f(i:65536): p[i] = pow(x[i], y[i])\n"
                               "block g(i:65536): r[i] = rem(x[i], y[i])\n";
    static const double special[] = {
        0,    -0.0,     1,      -1,        INFINITY,   -INFINITY, NAN,
        0.5,  -0.5,     2,      -2,        3,          -3,        2.5,
        -2.5, 1e308,    -1e308, -7,        1e10,       33.25,     0.3,
        1e17, 1e16 + 2, -1e20,  0x1p-1074, -0x1p-1074, DBL_MIN,   1 + DBL_EPSILON};
    enum { SPECIAL = KILN_ARRAY_COUNT(special) };
    skip_unless_runs_here("x86-64-v3");
    kiln_program *te = parsed(*state, text);
    kiln_tensor args[4];
    make_args(te, 1, args);
    double *x = args[0].data, *y = args[1].data, worst = 0;
    const double *p = args[2].data, *r = args[3].data;
    fill_wide(x, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        y[i] = x[65535 - i];
        if (i % 4 == 1) y[i] = fmod(y[i], 40);
        if (i % 4 == 2) x[i] = fabs(fmod(x[i], 9)), y[i] = fmod(y[i], 300);
        if (i % 4 == 3) y[i] = fmod(y[i], 1) * 1e9; /* x is near 1 */
        if (i < SPECIAL * SPECIAL) x[i] = special[i / SPECIAL], y[i] = special[i % SPECIAL];
    }
    run_own(te, args);
    for (uint32_t i = 0; i < 65536; i++) {
        const double error = wide_ulps(p[i], powl(x[i], y[i]));
        if (error > 1) fail_msg("pow(%.17g, %.17g) = %.17g: %g ulp", x[i], y[i], p[i], error);
        worst = error > worst ? error : worst;
        if (wide_ulps(r[i], (long double)fmod(x[i], y[i])) > 0)
            fail_msg("rem(%.17g, %.17g) = %.17g", x[i], y[i], r[i]);
    }
    print_message("pow of f64: %.4f ulp\n", worst);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(functions_of_one_number_are_accurate),
        test_with_arena(powers_and_remainders_are_those_of_c),
        test_with_arena(functions_of_f64_are_accurate),
        test_with_arena(powers_and_remainders_of_f64_are_those_of_c),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
