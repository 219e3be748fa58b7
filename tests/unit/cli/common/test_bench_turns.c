/* Two modules in turns: what other programs do to some rounds does not decide. */
#include "cli/common/bench_turns.h"

#include "tests/support/test.h"

#define ROUNDS 40u

static void disturbed_rounds_do_not_count(void **state) {
    (void)state;
    double a[ROUNDS], b[ROUNDS];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        a[i] = 102 + i % 3;
        b[i] = 100 + i % 3;
        if (i % 5 == 1) a[i] *= 8; /* a neighbour, now in one, now in the other */
        if (i % 5 == 3) b[i] *= 9;
    }
    const kiln_bench_turns turns = {.rounds = ROUNDS, .whole = {a, b}};
    const kiln_bench_pair pair = kiln_bench_pair_of(&turns, 0, 1);
    assert_true(pair.low > 1 && pair.high < 1.05);
    assert_true(pair.a.maximum < 110 && pair.b.maximum < 110);
    assert_int_equal(pair.a.count, ROUNDS / 2);
}

static void equal_modules_are_equal(void **state) {
    (void)state;
    double a[ROUNDS], b[ROUNDS];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        a[i] = 100 + i % 7;
        b[i] = 100 + (i + 3) % 7;
    }
    const kiln_bench_turns turns = {.rounds = ROUNDS, .whole = {a, b}};
    const kiln_bench_pair pair = kiln_bench_pair_of(&turns, 0, 1);
    assert_true(pair.low <= 1 && pair.high >= 1);
    assert_int_equal(kiln_bench_order(&pair), 0);
}

static void what_is_faster_shows_in_the_ratio(void **state) {
    (void)state;
    assert_int_equal(kiln_bench_order(&(kiln_bench_pair){.ratio = 1.004, .low = 1.003, .high = 2}),
                     0);
    assert_int_equal(kiln_bench_order(&(kiln_bench_pair){.ratio = 0.996, .low = 0, .high = 0.997}),
                     0);
    assert_int_equal(kiln_bench_order(&(kiln_bench_pair){.ratio = 1.1, .low = 0.9, .high = 1.3}),
                     0);
    assert_int_equal(kiln_bench_order(&(kiln_bench_pair){.ratio = 1.01, .low = 1.006, .high = 2}),
                     1);
    assert_int_equal(kiln_bench_order(&(kiln_bench_pair){.ratio = 0.99, .low = 0, .high = 0.995}),
                     -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disturbed_rounds_do_not_count),
        cmocka_unit_test(equal_modules_are_equal),
        cmocka_unit_test(what_is_faster_shows_in_the_ratio),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
