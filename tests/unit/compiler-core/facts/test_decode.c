/* What the values of expressions tell about others. */
#include "compiler-core/facts/decode.h"

#include "compiler-core/ir/affine.h"
#include "tests/unit/compiler-core/ir/support.h"

static bool all_move(kiln_program *p, kiln_expr term, const void *context) {
    (void)p;
    (void)term;
    (void)context;
    return true;
}

static kiln_expr simple(kiln_program *p, kiln_expr e) { return kiln_expr_simplify(p, e, NULL); }

static bool determines(kiln_program *p, kiln_expr e, uint64_t slack, kiln_expr wanted) {
    kiln_decoding d = {.moves = all_move};
    kiln_decoding_learn(&d, simple(p, e), slack);
    return kiln_decoding_determines(p, &d, wanted);
}

static void sums_with_wide_strides_have_one_reading(void **state) {
    kiln_program *p = *state;
    kiln_expr i = var(p, "i", 4), j = var(p, "j", 8);
    assert_true(determines(p, add(p, times(p, i, 8), j), 0, i));
    assert_true(determines(p, add(p, times(p, i, 8), j), 0, j));
    assert_false(determines(p, add(p, times(p, i, 7), j), 0, i));
    assert_false(determines(p, times(p, i, 8), 0, j));
}

static void slack_is_taken_for_another_digit(void **state) {
    kiln_program *p = *state;
    kiln_expr i = var(p, "i", 4), j = var(p, "j", 4);
    kiln_expr sum = add(p, times(p, i, 16), times(p, j, 4));
    assert_true(determines(p, sum, 3, i));
    assert_true(determines(p, sum, 3, j));
    assert_false(determines(p, sum, 4, i));
    assert_false(determines(p, i, 1, i));
}

static void quotient_and_remainder_give_the_whole(void **state) {
    kiln_program *p = *state;
    kiln_expr t = var(p, "t", 32);
    kiln_decoding d = {.moves = all_move};
    kiln_decoding_learn(&d, times(p, floordiv(p, t, 8), 4), 3);
    assert_false(kiln_decoding_determines(p, &d, t));
    kiln_decoding_learn(&d, times(p, floormod(p, t, 8), 2), 1);
    assert_true(kiln_decoding_determines(p, &d, t));
}

/* A number that runs over f0 * 64 + f1, in digits of 4, 6 and 8, as the simplifier writes them. */
static void digits_give_the_whole_in_any_form(void **state) {
    kiln_program *p = *state;
    kiln_expr f0 = var(p, "f0", 3), f1 = var(p, "f1", 64);
    kiln_expr whole = add(p, times(p, f0, 64), f1);
    for (int missing = 0; missing < 4; missing++) {
        kiln_decoding d = {.moves = all_move};
        if (missing != 1) kiln_decoding_learn(&d, simple(p, floordiv(p, whole, 48)), 0);
        if (missing != 2)
            kiln_decoding_learn(&d, simple(p, floormod(p, floordiv(p, whole, 8), 6)), 0);
        if (missing != 3) kiln_decoding_learn(&d, simple(p, floormod(p, whole, 8)), 0);
        assert_int_equal(kiln_decoding_determines(p, &d, f0), missing == 0 || missing == 3);
        assert_int_equal(kiln_decoding_determines(p, &d, f1), missing == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(sums_with_wide_strides_have_one_reading),
        PROGRAM_TEST(slack_is_taken_for_another_digit),
        PROGRAM_TEST(quotient_and_remainder_give_the_whole),
        PROGRAM_TEST(digits_give_the_whole_in_any_form),
    };
    return cmocka_run_group_tests_name("compiler-core/facts/decode", tests, NULL, NULL);
}
