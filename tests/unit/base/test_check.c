#include "base/check.h"

#include <signal.h>
#include <sys/wait.h>

#include "tests/support/test.h"

static void break_a_promise(void) { KILN_CHECK(1 + 1 == 3); }

static void keep_a_promise(void) { KILN_CHECK(1 + 1 == 2); }

static void a_condition_that_does_not_hold_aborts(void **state) {
    (void)state;
    int how = run_in_child(break_a_promise);
    assert_true(WIFSIGNALED(how));
    assert_int_equal(WTERMSIG(how), SIGABRT);
}

static void a_condition_that_holds_goes_on(void **state) {
    (void)state;
    int how = run_in_child(keep_a_promise);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_condition_that_does_not_hold_aborts),
        cmocka_unit_test(a_condition_that_holds_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
