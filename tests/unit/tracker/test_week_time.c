/* Times of maintenance windows. */
#include "tracker/week_time.h"

#include "base/macros.h"
#include "tests/support/test.h"

#define HOUR UINT64_C(3600)
#define DAY (24 * HOUR)
/* 2023-11-13, a Monday, is day 19674. */
#define MONDAY (UINT64_C(19674) * DAY)

static kiln_week_time time_of(const char *text) {
    kiln_week_time time;
    expect_ok(kiln_week_time_parse(kiln_str_from(text), &time));
    return time;
}

static void a_window_is_open_or_comes_next(void **state) {
    static const struct {
        const char *text;
        uint64_t now, begin, end;
    } row[] = {
        {"Sat 02:00-06:00", MONDAY, MONDAY + 5 * DAY + 2 * HOUR, MONDAY + 5 * DAY + 6 * HOUR},
        {"Sat 02:00-06:00", MONDAY + 5 * DAY + 2 * HOUR, MONDAY + 5 * DAY + 2 * HOUR,
         MONDAY + 5 * DAY + 6 * HOUR},
        {"Sat 02:00-06:00", MONDAY + 5 * DAY + 6 * HOUR - 1, MONDAY + 5 * DAY + 2 * HOUR,
         MONDAY + 5 * DAY + 6 * HOUR},
        {"Sat 02:00-06:00", MONDAY + 5 * DAY + 6 * HOUR, MONDAY + 12 * DAY + 2 * HOUR,
         MONDAY + 12 * DAY + 6 * HOUR},
        {"Mon 00:00-24:00", MONDAY, MONDAY, MONDAY + DAY},
        {"daily 03:30-04:00", MONDAY + 4 * HOUR, MONDAY + DAY + 3 * HOUR + 1800,
         MONDAY + DAY + 4 * HOUR},
        /* Over midnight: on Tuesday at 00:30 Monday's is still open. */
        {"Mon-Fri 22:00-01:00", MONDAY + DAY + 1800, MONDAY + 22 * HOUR, MONDAY + 25 * HOUR},
        {"Mon-Fri 22:00-01:00", MONDAY + 5 * DAY + HOUR, MONDAY + 7 * DAY + 22 * HOUR,
         MONDAY + 7 * DAY + 25 * HOUR},
        {"Sat-Mon 10:00-11:00", MONDAY + DAY, MONDAY + 5 * DAY + 10 * HOUR,
         MONDAY + 5 * DAY + 11 * HOUR},
        {"Tue,Thu 10:00-11:00", MONDAY + 2 * DAY, MONDAY + 3 * DAY + 10 * HOUR,
         MONDAY + 3 * DAY + 11 * HOUR},
        {"Sun 10:00-11:59", MONDAY, MONDAY + 6 * DAY + 10 * HOUR,
         MONDAY + 6 * DAY + 11 * HOUR + 59 * 60},
        {"2023-11-15 18:00-24:00", MONDAY, MONDAY + 2 * DAY + 18 * HOUR, MONDAY + 3 * DAY},
    };
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        uint64_t begin = 0, end = 0;
        const kiln_week_time time = time_of(row[i].text);
        assert_true(kiln_week_time_next(&time, row[i].now, &begin, &end));
        assert_int_equal(begin, row[i].begin);
        assert_int_equal(end, row[i].end);
    }
}

static void one_day_is_over_for_good(void **state) {
    uint64_t begin = 0, end = 0;
    const kiln_week_time time = time_of("2023-11-13 18:00-20:00");
    (void)state;
    assert_true(kiln_week_time_next(&time, MONDAY + 20 * HOUR - 1, &begin, &end));
    assert_false(kiln_week_time_next(&time, MONDAY + 20 * HOUR, &begin, &end));
}

static void the_first_day_of_1970_is_no_trouble(void **state) {
    uint64_t begin = 0, end = 0;
    const kiln_week_time time = time_of("Thu 00:00-01:00");
    (void)state;
    assert_true(kiln_week_time_next(&time, 0, &begin, &end));
    assert_int_equal(begin, 0);
}

static void what_is_no_time_is_refused_with_examples(void **state) {
    static const char *const bad[] = {"",
                                      "Sat",
                                      "02:00-06:00",
                                      "Sat 02:00",
                                      "Sat 2:00-06:00",
                                      "Sat 24:00-25:00",
                                      "Sat 02:00-02:00",
                                      "Sat 02:60-04:00",
                                      "Sat 02:00-25:00",
                                      "Sat 23:00-24:01",
                                      "Sat 02x00-04:00",
                                      "Sat 0x:00-04:00",
                                      "Sat 02:0x-04:00",
                                      "sat 02:00-06:00",
                                      "Sat 02:00-06:00 x",
                                      "Sat- 02:00-06:00",
                                      "Sat-Foo 02:00-06:00",
                                      "Foo 02:00-06:00",
                                      "Sat,,Sun 02:00-06:00",
                                      "2023-02-30 02:00-06:00",
                                      "Sat 24:00-02:00",
                                      "-Sat 02:00-03:00"};
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) {
        kiln_week_time time;
        expect_error(kiln_week_time_parse(kiln_str_from(bad[i]), &time), INVALID_ARGUMENT,
                     "Sat 02:00-06:00");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_open_or_comes_next),
        cmocka_unit_test(one_day_is_over_for_good),
        cmocka_unit_test(the_first_day_of_1970_is_no_trouble),
        cmocka_unit_test(what_is_no_time_is_refused_with_examples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
