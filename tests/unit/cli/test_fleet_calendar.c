#include "cli/fleet_calendar.h"

#include "base/macros.h"
#include "tests/support/test.h"

static void a_duration_is_a_number_and_a_unit(void **state) {
    static const struct {
        const char *text;
        uint32_t seconds;
    } row[] = {{"1s", 1}, {"90s", 90}, {"30m", 1800}, {"2h", 7200}, {"7d", KILN_RESERVE_S_MAX}};
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        uint32_t seconds = 0;
        expect_ok(kiln_duration_parse(row[i].text, &seconds));
        assert_int_equal(seconds, row[i].seconds);
    }
}

static void what_is_no_duration_is_refused(void **state) {
    static const char *const bad[] = {
        "", "h", "1", "0h", "-1h", "1w", "1.5h", "8d", "1h30m", "169h", "99999999999999999999s"};
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) {
        uint32_t seconds = 0;
        expect_error(kiln_duration_parse(bad[i], &seconds), INVALID_ARGUMENT, "1d, at most 7d");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_is_a_number_and_a_unit),
        cmocka_unit_test(what_is_no_duration_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
