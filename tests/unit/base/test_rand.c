#include "base/rand.h"

#include <math.h>

#include "tests/support/test.h"

/* splitmix64(0) as the state, then xoshiro256**: values of the authors' C code (prng.di.unimi.it).
 */
static void numbers_never_change(void **state) {
    (void)state;
    kiln_rand r;
    kiln_rand_init(&r, 0);
    assert_true(r.state[0] == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(r.state[1] == UINT64_C(0x6e789e6aa1b965f4));
    r = (kiln_rand){{1, 2, 3, 4}};
    const uint64_t expected[] = {11520, 0, 1509978240, UINT64_C(1215971899390074240)};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(expected); i++)
        assert_true(kiln_rand_u64(&r) == expected[i]);
}

static void same_seed_same_numbers_and_streams_differ(void **state) {
    (void)state;
    kiln_rand a, b;
    kiln_rand_init(&a, 42);
    kiln_rand_init(&b, 42);
    kiln_rand one = kiln_rand_split(&a, 1), same = kiln_rand_split(&b, 1),
              two = kiln_rand_split(&a, 2);
    assert_true(kiln_rand_u64(&a) == kiln_rand_u64(&b)); /* splitting did not advance a */
    uint64_t first = kiln_rand_u64(&one);
    assert_true(first == kiln_rand_u64(&same));
    assert_true(first != kiln_rand_u64(&two));
}

static void bounds_hold_and_every_value_comes_up_evenly(void **state) {
    (void)state;
    kiln_rand r;
    kiln_rand_init(&r, 1);
    unsigned seen[7] = {0};
    for (int i = 0; i < 70000; i++) seen[kiln_rand_below(&r, 7)]++;
    for (int v = 0; v < 7; v++) assert_in_range(seen[v], 9500, 10500);
    assert_int_equal(kiln_rand_below(&r, 1), 0);
    assert_int_equal(kiln_rand_range(&r, -5, -5), -5);
    for (int i = 0; i < 1000; i++) {
        int64_t value = kiln_rand_range(&r, -3, 3);
        assert_true(value >= -3 && value <= 3);
        kiln_rand_range(&r, INT64_MIN, INT64_MAX);
        double unit = kiln_rand_unit(&r);
        assert_true(unit >= 0 && unit < 1);
    }
}

static void normal_numbers_have_mean_0_and_deviation_1(void **state) {
    (void)state;
    kiln_rand r;
    kiln_rand_init(&r, 1);
    double sum = 0, squares = 0;
    for (int i = 0; i < 100000; i++) {
        double x = kiln_rand_normal(&r);
        assert_true(isfinite(x));
        sum += x;
        squares += x * x;
    }
    assert_true(fabs(sum / 1e5) < 0.02);
    assert_true(fabs(squares / 1e5 - 1) < 0.02);
}

static void system_bytes_differ(void **state) {
    (void)state;
    uint8_t one[32], two[32];
    expect_ok(kiln_rand_system(one, sizeof one));
    expect_ok(kiln_rand_system(two, sizeof two));
    assert_memory_not_equal(one, two, sizeof one);
    expect_ok(kiln_rand_system(NULL, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_never_change),
        cmocka_unit_test(same_seed_same_numbers_and_streams_differ),
        cmocka_unit_test(bounds_hold_and_every_value_comes_up_evenly),
        cmocka_unit_test(normal_numbers_have_mean_0_and_deviation_1),
        cmocka_unit_test(system_bytes_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
