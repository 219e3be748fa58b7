#include "base/integer.h"

#include "tests/support/test.h"

static void alignments_are_rounded_up_to(void **state) {
    (void)state;
    assert_int_equal(KILN_ALIGN_UP(0, 64), 0);
    assert_int_equal(KILN_ALIGN_UP(1, 64), 64);
    assert_int_equal(KILN_ALIGN_UP(64, 64), 64);
    assert_int_equal(KILN_ALIGN_UP(65, 64), 128);
    assert_int_equal(KILN_ALIGN_UP(10, 3), 12); /* no power of two */
}

static void division_rounds_down_and_never_traps(void **state) {
    (void)state;
    for (int64_t a = -20; a <= 20; a++)
        for (int64_t b = -5; b <= 5; b++) {
            int64_t q = kiln_floordiv(a, b), r = kiln_floormod(a, b);
            if (b == 0) {
                assert_int_equal(q, 0);
                assert_int_equal(r, 0);
                continue;
            }
            assert_int_equal(q * b + r, a);
            assert_true(b > 0 ? r >= 0 && r < b : r <= 0 && r > b);
        }
    assert_true(kiln_floordiv(INT64_MIN, -1) == INT64_MIN);
    assert_true(kiln_floormod(INT64_MIN, -1) == 0);
    assert_true(kiln_floordiv(INT64_MIN, 2) == INT64_MIN / 2);
}

static void common_divisors_are_of_magnitudes(void **state) {
    (void)state;
    assert_int_equal(kiln_gcd(12, 18), 6);
    assert_int_equal(kiln_gcd(-12, 18), 6);
    assert_int_equal(kiln_gcd(0, 7), 7);
    assert_int_equal(kiln_gcd(0, 0), 0);
    assert_int_equal(kiln_gcd(17, 5), 1);
    assert_int_equal(kiln_gcd(INT64_MIN, 0), 1);
    assert_int_equal(kiln_gcd(INT64_MIN, 6), 2);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(alignments_are_rounded_up_to),
        cmocka_unit_test(division_rounds_down_and_never_traps),
        cmocka_unit_test(common_divisors_are_of_magnitudes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
