/* Sums of products whose factors are rounded to tf32. */
#include <math.h>

#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/rules/space.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/algorithm/support.h"
#include "tests/unit/compiler-core/sched/support.h"

static kiln_program *rounded(const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_algorithm_apply(KILN_ALGORITHM_TF32_PRODUCTS, te, arena);
    if (p) expect_ok(kiln_program_verify(p));
    return p;
}

/* Of weights and of data alike, where they lie: no block is added. */
static void both_factors_are_rounded(void **state) {
    static const char head[] = "program p\ninput x: f32[8,8]\n%s w: f32[8,8]\noutput y: f32[8,8]\n"
                               "block y(m:8, n:8 | k:8): y[m, n] sum= %s init 0.0\n";
    static const char *const role[] = {"constant", "input"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(role); i++) {
        kiln_strbuf got = {0}, want = {0};
        const kiln_program *p = rounded(
            parsed(*state, kiln_arena_printf(*state, head, role[i], "x[m, k]*w[k, n]")), *state);
        assert_non_null(p);
        kiln_program_print(p, &got);
        kiln_program_print(
            parsed(*state, kiln_arena_printf(*state, head, role[i], "tf32(x[m, k])*tf32(w[k, n])")),
            &want);
        assert_string_equal(got.data, want.data);
        kiln_strbuf_deinit(&got);
        kiln_strbuf_deinit(&want);
    }
}

static void other_computations_are_left_alone(void **state) {
    static const char *const text[] = {
        /* a square's two factors are one */
        "program p\ninput x: f32[8,8]\noutput y: f32[8]\n"
        "block y(m:8 | k:8): y[m] sum= x[m, k]*x[m, k] init 0.0\n",
        /* a maximum is no sum */
        "program p\ninput x: f32[8,8]\nconstant w: f32[8,8]\noutput y: f32[8,8]\n"
        "block m(m:8, n:8 | k:8): y[m, n] max= x[m, k]*w[k, n] init 0.0\n",
        /* halves have as few bits */
        "program p\ninput x: f16[8,8]\nconstant w: f16[8,8]\noutput y: f32[8,8]\n"
        "block m(m:8, n:8 | k:8): y[m, n] sum= f32(x[m, k])*f32(w[k, n]) init 0.0\n",
        /* windows have no steps behind one another */
        "program p\ninput x: f32[8,10]\nconstant w: f32[8,3]\noutput y: f32[8,8]\n"
        "block y(c:8, i:8 | k:3): y[c, i] sum= x[c, i + k]*w[c, k] init 0.0\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        assert_null(rounded(parsed(*state, text[i]), *state));
}

/* The bound's second part, for few and for many products: neither too narrow for what is right nor
 * so wide that a sum with a product too many would pass. */
static void errors_stay_within_the_bound(void **state) {
    static const int64_t products[] = {8, 64, 1000};
    for (size_t k = 0; k < KILN_ARRAY_COUNT(products); k++) {
        const kiln_program *te = data_product_program(*state, 4, 24, products[k]);
        kiln_program *p = rounded(te, *state);
        assert_non_null(p);
        kiln_program_make_loops(p);
        const double factor = kiln_algorithm_error_factor(KILN_ALGORITHM_TF32_PRODUCTS, te);
        double worst = 0;
        for (uint64_t seed = 0; seed < 8; seed++)
            worst = fmax(worst, error_on_random_data(te, p, seed, 0, *state).in_bounds);
        print_message("%lld products: %.3g of %.3g\n", (long long)products[k], worst, factor);
        assert_true(worst <= factor && worst > factor / 50);
    }
}

/* How many sketches of the space are of the row; whether the default is, by an instruction. */
static uint32_t sketches_of(kiln_arena *arena, const char *name, kiln_accuracy accuracy,
                            bool *out_default) {
    const kiln_target target = target_of(arena, name);
    const kiln_program *te = matmul_program(arena, 256, 256, 256);
    const kiln_space_options options = {.accuracy = accuracy};
    kiln_space space;
    uint32_t found = 0;
    expect_ok(kiln_space_create_with(te, &target, &options, arena, &space));
    for (uint32_t s = 0; s < space.sketch_count; s++)
        found += kiln_trace_algorithm(&space.sketch[s].preferred) == KILN_ALGORITHM_TF32_PRODUCTS;
    const kiln_trace *preferred = &space.sketch[space.preferred].preferred;
    *out_default = kiln_trace_algorithm(preferred) == KILN_ALGORITHM_TF32_PRODUCTS;
    bool tensorized = false;
    for (uint32_t i = 0; i < preferred->count; i++)
        tensorized |= preferred->instruction[i].prim == KILN_PRIM_TENSORIZE;
    assert_int_equal(tensorized, *out_default);
    return found;
}

/* Where tensor cores are and the user leaves room, and nowhere else. */
static void tensor_cores_multiply_where_the_budget_allows_it(void **state) {
    static const struct {
        const char *target;
        kiln_accuracy accuracy;
        bool is_there;
    } row[] = {
        {"a100", {.precision = KILN_PRECISION_TF32}, true},
        {"h200", {.precision = KILN_PRECISION_TF32}, true},
        {"a100", {.precision = KILN_PRECISION_AUTO, .error_max = 1e-2}, true},
        {"a100", {.precision = KILN_PRECISION_AUTO}, false},
        {"a100", {0}, false},
        {"a100", {.error_max = 1e-2}, false},
        {"a100", {.precision = KILN_PRECISION_BF16}, false},
        {"a100", {.precision = KILN_PRECISION_TF32, .exact = true}, false},
        {"opencl", {.precision = KILN_PRECISION_TF32}, false},
        {"x86-64-v3", {.precision = KILN_PRECISION_TF32}, false},
        {"x86-64-v3", {.precision = KILN_PRECISION_AUTO, .error_max = 1e-2}, false},
        {"null", {.precision = KILN_PRECISION_TF32}, false},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        bool is_default;
        const uint32_t found = sketches_of(*state, row[i].target, row[i].accuracy, &is_default);
        if ((found > 0) != row[i].is_there || is_default != row[i].is_there)
            fail_msg("row %zu, %s: %u sketches, %s", i, row[i].target, found,
                     is_default ? "default" : "not the default");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(both_factors_are_rounded),
        test_with_arena(other_computations_are_left_alone),
        test_with_arena(errors_stay_within_the_bound),
        test_with_arena(tensor_cores_multiply_where_the_budget_allows_it),
    };
    return cmocka_run_group_tests_name("compiler-core/algorithm/tf32", tests, NULL, NULL);
}
