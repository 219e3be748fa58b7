#include "tests/mutate/self/decided.h"
#include "tests/support/test.h"

static void is_due_from_its_time_on(void **state) {
    (void)state;
    assert_false(self_is_due(9, 10));
    assert_true(self_is_due(10, 10));
}

/* Calls the other decision, so that it is linked, and leaves its result unread. */
static void is_called(void **state) {
    (void)state;
    (void)self_is_full(1, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_due_from_its_time_on),
        cmocka_unit_test(is_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
