#include "base/stats.h"

#include <math.h>

#include "base/rand.h"
#include "tests/support/test.h"

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b)); }

static void known_samples_give_known_figures(void **state) {
    (void)state;
    const double sample[] = {9, 1, 8, 2, 7, 3, 6, 4, 5};
    kiln_stats stats = kiln_stats_of(sample, 9);
    assert_true(stats.median == 5 && stats.minimum == 1 && stats.maximum == 9 && stats.count == 9);
    assert_true(near(stats.mean, 5));
    assert_true(stats.mad == 2);
    assert_true(stats.p95 == 9);
    assert_true(stats.low == 2 && stats.high == 8); /* ranks 2 and 8 for n = 9: 96.1 % */
    assert_true(sample[0] == 9);
    const double even[] = {4, 1, 3, 2};
    assert_true(kiln_stats_median(even, 4) == 2.5);
    assert_true(near(kiln_stats_geomean(even, 4), pow(24, 0.25)));
}

static void few_samples_give_their_whole_range(void **state) {
    (void)state;
    const double one[] = {3}, five[] = {5, 1, 4, 2, 3};
    kiln_stats stats = kiln_stats_of(one, 1);
    assert_true(stats.median == 3 && stats.low == 3 && stats.high == 3 && stats.mad == 0 &&
                stats.p95 == 3);
    stats = kiln_stats_of(five, 5);
    assert_true(stats.low == 1 && stats.high == 5);
}

static void interval_covers_the_true_median_as_often_as_it_says(void **state) {
    (void)state;
    kiln_rand r;
    kiln_rand_init(&r, 1);
    int covered = 0;
    for (int round = 0; round < 4000; round++) {
        double sample[20];
        for (int i = 0; i < 20; i++) sample[i] = kiln_rand_normal(&r);
        kiln_stats stats = kiln_stats_of(sample, 20);
        covered += stats.low <= 0 && stats.high >= 0;
    }
    assert_in_range(covered, 3760, 3960); /* 95.9 % for n = 20 */
}

static void ratio_of_paired_samples_has_an_interval(void **state) {
    (void)state;
    enum { COUNT = 40 };
    double a[COUNT], b[COUNT], ratio, low, high, again, low_again, high_again;
    kiln_rand r;
    kiln_rand_init(&r, 1);
    for (int i = 0; i < COUNT; i++) {
        a[i] = 2 * (1 + 0.01 * kiln_rand_unit(&r));
        b[i] = 1 + 0.01 * kiln_rand_unit(&r);
    }
    kiln_stats_ratio(a, b, COUNT, &ratio, &low, &high);
    assert_true(low <= ratio && ratio <= high && low > 1.98 && high < 2.02);
    kiln_stats_ratio(a, b, COUNT, &again, &low_again, &high_again);
    assert_true(again == ratio && low_again == low && high_again == high);
    kiln_stats_ratio(a, a, COUNT, &ratio, &low, &high);
    assert_true(ratio == 1 && low == 1 && high == 1);
}

static void times_print_with_three_digits(void **state) {
    static const struct {
        double ns;
        const char *text;
    } row[] = {{12, "12 ns"}, {45600, "45.6 us"}, {1234567, "1.23 ms"}, {2.5e9, "2.5 s"}};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        kiln_strbuf text = {0};
        kiln_print_time(row[i].ns, &text);
        assert_string_equal(text.data, row[i].text);
        kiln_strbuf_deinit(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_samples_give_known_figures),
        cmocka_unit_test(few_samples_give_their_whole_range),
        cmocka_unit_test(interval_covers_the_true_median_as_often_as_it_says),
        cmocka_unit_test(ratio_of_paired_samples_has_an_interval),
        cmocka_unit_test(times_print_with_three_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
