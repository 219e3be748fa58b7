#include "proto/loop.h"

#include <signal.h>

#include "base/clock.h"
#include "tests/support/test.h"

#define LATE_NS (300 * KILN_NS_PER_S) /* only what is broken reaches it */

/* For loops that have nothing else to wait for. */
static void fail_late(void *context) {
    (void)context;
    fail_msg("nothing happened");
}

static void a_server_stops_when_it_is_told_to(void **state) {
    (void)state;
    kiln_loop *loop = NULL;
    expect_ok(kiln_loop_create_stoppable(&loop));
    kiln_timer *timer = kiln_timer_create(loop, fail_late, NULL);
    kiln_timer_start(timer, LATE_NS);
    assert_int_equal(raise(SIGTERM), 0);
    kiln_loop_run(loop);
    kiln_timer_destroy(timer);
    kiln_loop_destroy(loop);
}

static void no_loop_can_be_destroyed(void **state) {
    (void)state;
    kiln_loop_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_stops_when_it_is_told_to),
        cmocka_unit_test(no_loop_can_be_destroyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
