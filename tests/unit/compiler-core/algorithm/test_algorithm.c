/* The table of algorithms. */
#include "compiler-core/algorithm/algorithm.h"

#include <math.h>

#include "base/macros.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/algorithm/support.h"
#include "tests/unit/compiler-core/sched/support.h"

static void names_are_found_again(void **state) {
    const kiln_program *te = matmul_program(*state, 4, 4, 4);
    for (uint32_t i = 0; i < KILN_ALGORITHM_COUNT; i++) {
        const char *name = kiln_algorithm_name((kiln_algorithm)i);
        assert_int_equal(kiln_algorithm_find(kiln_str_from(name)), i);
        assert_true(kiln_algorithm_error_factor((kiln_algorithm)i, te) >= 1);
    }
    assert_int_equal(kiln_algorithm_find(KILN_STR("winograd")), KILN_ALGORITHM_COUNT);
    assert_int_equal(kiln_algorithm_find(KILN_STR("direct")), KILN_ALGORITHM_DIRECT);
}

static void the_direct_form_is_a_copy(void **state) {
    kiln_program *te = chain_program(*state, 4, 4);
    kiln_program *p = kiln_algorithm_apply(KILN_ALGORITHM_DIRECT, te, *state);
    assert_true(p != te);
    kiln_program_make_loops(p);
    expect_ok(same_result(te, p, *state));
}

/* Tasks that rows are measured on: each row applies to one of them at least. */
static const conv_shape tried[] = {
    {.n = 1, .ic = 64, .h = 10, .w = 10, .oc = 4, .kh = 3, .kw = 3, .stride = 1, .padding = 1},
    {.n = 1, .ic = 2, .h = 16, .w = 16, .oc = 4, .kh = 3, .kw = 3, .stride = 1, .padding = 1},
    {.n = 1, .ic = 16, .h = 12, .w = 12, .oc = 4, .kh = 5, .kw = 5, .stride = 1, .padding = 2},
    {.n = 1, .ic = 16, .h = 12, .w = 12, .oc = 4, .kh = 7, .kw = 7, .stride = 1, .padding = 3},
    {.n = 1, .ic = 32, .h = 9, .w = 9, .oc = 4, .kh = 2, .kw = 2, .stride = 1},
    {.n = 1, .ic = 16, .h = 14, .w = 14, .oc = 4, .kh = 3, .kw = 3, .stride = 2, .padding = 1},
    {.n = 1, .ic = 100, .h = 1, .w = 4, .oc = 30, .kh = 1, .kw = 1, .stride = 1},
    {.n = 1, .ic = 256, .h = 4, .w = 4, .oc = 8, .kh = 1, .kw = 1, .stride = 1},
    {.n = 1, .ic = 240, .h = 8, .w = 4, .oc = 172, .kh = 1, .kw = 1, .stride = 1},
};

static const attention_shape tried_keys = {"f32", 1024, "s[h, i, j]*0.5", "e[h, i, j]/l[h, i]", 3};

/* Task `i` of these, of two values that are no weights, of attention; NULL: there are no more. */
static kiln_program *tried_program(kiln_arena *arena, size_t i) {
    if (i < KILN_ARRAY_COUNT(tried)) return conv_program(arena, &tried[i]);
    if (i == KILN_ARRAY_COUNT(tried)) return data_product_program(arena, 16, 16, 100);
    return i == KILN_ARRAY_COUNT(tried) + 1 ? attention_program(arena, &tried_keys) : NULL;
}

/* The largest relative error over tasks and draws; 0 when the row applies to none of them. */
static double worst_error(kiln_algorithm algorithm, kiln_arena *arena) {
    double worst = 0;
    kiln_program *te;
    for (size_t i = 0; (te = tried_program(arena, i)) != NULL; i++) {
        kiln_program *p = kiln_algorithm_apply(algorithm, te, arena);
        if (!p) continue;
        kiln_program_make_loops(p);
        for (uint64_t seed = 0; seed < 4; seed++)
            worst =
                fmax(worst, error_on_random_data(te, p, seed, seed < 2 ? 0 : 0.5, arena).relative);
    }
    return worst;
}

/* And none states so much that it would lose its place under a budget which it meets. Rows that
 * state none are of integers (test_bytes.c). */
static void relative_errors_are_as_stated(void **state) {
    for (uint32_t i = 1; i < KILN_ALGORITHM_COUNT; i++) {
        const double stated = kiln_algorithm_relative_error((kiln_algorithm)i);
        if (stated == 0) continue;
        const double worst = worst_error((kiln_algorithm)i, *state);
        print_message("%s: %.3g, %.3g stated\n", kiln_algorithm_name((kiln_algorithm)i), worst,
                      stated);
        assert_true(worst > 0);
        assert_true(worst <= stated);
        assert_true(worst >= stated / 20);
    }
}

/* Only what is exact, or named as a precision that is nothing but an instruction, goes before the
 * direct form without a model; and the model chooses among the others, or nobody does. */
static void defaults_are_by_instruction_where_rows_are_exact(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_ALGORITHM_COUNT; i++) {
        const kiln_algorithm_default *by = kiln_algorithm_default_of((kiln_algorithm)i);
        assert_int_equal(by->instruction,
                         kiln_algorithm_relative_error((kiln_algorithm)i) == 0 ||
                             kiln_algorithm_precision((kiln_algorithm)i) == KILN_PRECISION_TF32);
        assert_true(by->share >= 0 && (by->share < 1 || by->steps > 0));
        assert_false(by->instruction && by->share > 0);
    }
}

static void budgets_leave_rows_out(void **state) {
    kiln_accuracy accuracy = {0};
    const kiln_algorithm winograd = KILN_ALGORITHM_WINOGRAD_2X2_3X3;
    assert_true(kiln_algorithm_is_allowed(winograd, &accuracy));
    accuracy.precision = KILN_PRECISION_BF16;
    assert_true(kiln_algorithm_is_allowed(winograd, &accuracy));
    accuracy.exact = true;
    assert_false(kiln_algorithm_is_allowed(winograd, &accuracy));
    assert_true(kiln_algorithm_is_allowed(KILN_ALGORITHM_DIRECT, &accuracy));
    accuracy = (kiln_accuracy){.error_max = 1e-9};
    assert_false(kiln_algorithm_is_allowed(winograd, &accuracy));
    assert_true(kiln_algorithm_is_allowed(KILN_ALGORITHM_DIRECT, &accuracy));
    assert_true(kiln_algorithm_relative_error(KILN_ALGORITHM_DIRECT) == 0);
    accuracy.exact = true;
    assert_true(kiln_algorithm_is_allowed(KILN_ALGORITHM_SIGNED_DATA, &accuracy));
    expect_str(kiln_algorithm_allowed(&accuracy, *state),
               "direct,padded_data,signed_data,unsigned_data,padded_taps,signed_taps,unsigned_taps,"
               "bit_planes,wide_data,wide_taps");
    accuracy = (kiln_accuracy){0};
    assert_true(
        kiln_str_starts(kiln_algorithm_allowed(&accuracy, *state), "direct,winograd_2x2_3x3"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(names_are_found_again),
        test_with_arena(the_direct_form_is_a_copy),
        test_with_arena(relative_errors_are_as_stated),
        test_with_arena(defaults_are_by_instruction_where_rows_are_exact),
        test_with_arena(budgets_leave_rows_out),
    };
    return cmocka_run_group_tests_name("compiler-core/algorithm/algorithm", tests, NULL, NULL);
}
