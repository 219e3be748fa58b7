#include "web/attempts.h"

#include <stdio.h>

#include "tests/support/test.h"

static kiln_attempts attempts;

static int set_up(void **state) {
    (void)state;
    attempts = (kiln_attempts){0};
    return 0;
}

static void an_address_fails_so_often_and_no_more(void **state) {
    (void)state;
    uint64_t now_ns = 1000;
    for (uint32_t i = 0; i < KILN_ATTEMPTS_MAX; i++) {
        assert_true(kiln_attempts_allow(&attempts, "192.0.2.1", now_ns));
        kiln_attempts_failed(&attempts, "192.0.2.1", now_ns);
    }
    assert_false(kiln_attempts_allow(&attempts, "192.0.2.1", now_ns));
    assert_true(kiln_attempts_allow(&attempts, "192.0.2.2", now_ns));
    now_ns += KILN_ATTEMPTS_NS;
    assert_true(kiln_attempts_allow(&attempts, "192.0.2.1", now_ns));
    kiln_attempts_failed(&attempts, "192.0.2.1", now_ns);
    assert_false(kiln_attempts_allow(&attempts, "192.0.2.1", now_ns));
    now_ns += KILN_ATTEMPTS_MAX * KILN_ATTEMPTS_NS;
    for (uint32_t i = 0; i < KILN_ATTEMPTS_MAX; i++) {
        assert_true(kiln_attempts_allow(&attempts, "192.0.2.1", now_ns));
        kiln_attempts_failed(&attempts, "192.0.2.1", now_ns);
    }
}

static void many_addresses_need_no_memory(void **state) {
    (void)state;
    char address[32];
    for (uint32_t i = 0; i < 3 * KILN_ATTEMPTS_ADDRESSES; i++) {
        snprintf(address, sizeof address, "2001:db8::%x", i);
        assert_true(kiln_attempts_allow(&attempts, address, i));
        kiln_attempts_failed(&attempts, address, i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_address_fails_so_often_and_no_more, set_up),
        cmocka_unit_test_setup(many_addresses_need_no_memory, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
