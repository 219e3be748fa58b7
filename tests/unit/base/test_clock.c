#include "base/clock.h"

#include "tests/support/test.h"

static void clocks_never_go_back(void **state) {
    (void)state;
    uint64_t (*const clock[])(void) = {kiln_clock_ns, kiln_clock_precise_ns, kiln_clock_thread_ns};
    for (size_t c = 0; c < 3; c++) {
        uint64_t before = clock[c]();
        for (int i = 0; i < 1000; i++) {
            uint64_t now = clock[c]();
            assert_true(now >= before);
            before = now;
        }
    }
}

static void wall_time_is_in_this_century(void **state) {
    (void)state;
    uint64_t year_2024_s = UINT64_C(1704067200), year_2100_s = UINT64_C(4102444800);
    assert_in_range(kiln_clock_wall_ns() / KILN_NS_PER_S, year_2024_s, year_2100_s);
}

static void waiting_ends_at_or_after_the_deadline(void **state) {
    (void)state;
    uint64_t deadline_ns = kiln_clock_ns() + KILN_NS_PER_MS;
    kiln_clock_wait_until(deadline_ns);
    assert_true(kiln_clock_ns() >= deadline_ns);
    kiln_clock_wait_until(0); /* long past: returns at once */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_never_go_back),
        cmocka_unit_test(wall_time_is_in_this_century),
        cmocka_unit_test(waiting_ends_at_or_after_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
