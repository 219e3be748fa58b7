#include "proto/net/event_loop.h"

#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/test.h"

#define LATE_NS (300 * KILN_NS_PER_S) /* only what is broken reaches it */

typedef struct noted {
    kiln_loop *loop;
    kiln_timer *timer;
    kiln_watch *watch;
    int fd;
    uint32_t count;
    uint64_t at_ns;
    int order[8];
} noted;

static void note(void *context) {
    noted *n = context;
    n->count++;
    n->at_ns = kiln_loop_now_ns(n->loop);
}

static void a_timer_fires_once_and_never_early(void **state) {
    (void)state;
    noted n = {0};
    expect_ok(kiln_loop_create(&n.loop));
    n.timer = kiln_timer_create(n.loop, note, &n);
    uint64_t begin = kiln_loop_now_ns(n.loop);
    kiln_timer_start(n.timer, 2500 * KILN_NS_PER_US);
    kiln_loop_run(n.loop); /* ends by itself: nothing is left to wait for */
    assert_int_equal(n.count, 1);
    assert_true(n.at_ns - begin >= 2500 * KILN_NS_PER_US);
    kiln_timer_destroy(n.timer);
    kiln_loop_destroy(n.loop);
}

static void destroy_self(void *context) {
    noted *n = context;
    n->count++;
    kiln_timer_destroy(n->timer);
}

static void a_timer_may_destroy_itself(void **state) {
    (void)state;
    noted n = {0};
    expect_ok(kiln_loop_create(&n.loop));
    n.timer = kiln_timer_create(n.loop, destroy_self, &n);
    kiln_timer_start(n.timer, 0);
    kiln_loop_run(n.loop);
    assert_int_equal(n.count, 1);
    kiln_loop_destroy(n.loop);
}

#define AGAIN 20u

/* Goes on in the next turn, as who has a list to work off does. */
static void go_on(void *context) {
    noted *n = context;
    const uint64_t turn = kiln_loop_times_get(n->loop)->wall.count;
    assert_true(n->count == 0 || turn > n->at_ns);
    n->at_ns = turn;
    if (++n->count < AGAIN) kiln_timer_start(n->timer, 0);
}

static void a_timer_that_starts_itself_fires_in_the_next_turn(void **state) {
    (void)state;
    for (int once = 0; once < 2; once++) {
        noted n = {0};
        expect_ok(kiln_loop_create(&n.loop));
        n.timer = kiln_timer_create(n.loop, go_on, &n);
        kiln_timer_start(n.timer, 0);
        if (once)
            while (kiln_loop_run_once(n.loop)) continue;
        else
            kiln_loop_run(n.loop);
        assert_int_equal(n.count, AGAIN);
        kiln_timer_destroy(n.timer);
        kiln_loop_destroy(n.loop);
    }
}

static void read_one(void *context, unsigned ready_for) {
    noted *n = context;
    char byte;
    assert_true(ready_for & KILN_WATCH_READ);
    if (read(n->fd, &byte, 1) == 1)
        n->count++;
    else {
        kiln_watch_destroy(n->watch);
        n->watch = NULL;
    }
}

static void judge(void *context) {
    noted *n = context;
    n->order[0] = (int)n->count; /* what was read by now */
    kiln_watch_destroy(n->watch);
}

static void a_timer_that_reads_first_fires_after_what_waits(void **state) {
    (void)state;
    noted n = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    expect_ok(kiln_loop_create(&n.loop));
    n.fd = ends[0];
    n.watch = kiln_watch_create(n.loop, ends[0], KILN_WATCH_READ, read_one, &n);
    n.timer = kiln_timer_create(n.loop, judge, &n);
    kiln_timer_read_first(n.timer);
    kiln_timer_start(n.timer, 0);
    assert_int_equal(write(ends[1], "a", 1), 1);
    kiln_loop_run(n.loop);
    assert_int_equal(n.order[0], 1);
    kiln_timer_start(n.timer, 0);
    kiln_timer_destroy(n.timer); /* due or not, it does not fire any more */
    kiln_loop_destroy(n.loop);
    close(ends[0]);
    close(ends[1]);
}

static void a_watch_tells_of_bytes_and_of_the_end(void **state) {
    (void)state;
    noted n = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    expect_ok(kiln_loop_create(&n.loop));
    n.fd = ends[0];
    n.watch = kiln_watch_create(n.loop, ends[0], KILN_WATCH_READ, read_one, &n);
    assert_int_equal(write(ends[1], "abc", 3), 3);
    close(ends[1]);
    kiln_loop_run(n.loop);
    assert_int_equal(n.count, 3);
    assert_null(n.watch);
    close(ends[0]);
    kiln_loop_destroy(n.loop);
}

static void on_signal(void *context, int number) {
    noted *n = context;
    n->order[n->count++] = number;
    kiln_loop_stop(n->loop);
}

/* For loops that have nothing else to wait for. */
static void fail_late(void *context) {
    (void)context;
    fail_msg("nothing happened");
}

static void a_signal_becomes_a_callback(void **state) {
    (void)state;
    noted n = {0};
    expect_ok(kiln_loop_create(&n.loop));
    kiln_loop_on_signal(n.loop, SIGUSR1, on_signal, &n);
    n.timer = kiln_timer_create(n.loop, fail_late, NULL);
    kiln_timer_start(n.timer, LATE_NS);
    assert_int_equal(raise(SIGUSR1), 0);
    kiln_loop_run(n.loop);
    assert_int_equal(n.count, 1);
    assert_int_equal(n.order[0], SIGUSR1);
    kiln_timer_destroy(n.timer);
    kiln_loop_destroy(n.loop);
}

static void run_work(void *context) {
    noted *n = context;
    n->order[n->count++] = 1;
    kiln_loop_wake(n->loop); /* from the pool's thread */
}

static void finish_work(void *context) {
    noted *n = context;
    n->order[n->count++] = 2;
}

static void work_runs_apart_and_ends_on_the_loop(void **state) {
    (void)state;
    noted n = {0};
    expect_ok(kiln_loop_create(&n.loop));
    kiln_loop_work(n.loop, run_work, finish_work, &n);
    kiln_loop_run(n.loop);
    assert_int_equal(n.count, 2);
    assert_int_equal(n.order[0], 1);
    assert_int_equal(n.order[1], 2);
    kiln_loop_destroy(n.loop);
}

static void woken(void *context) {
    noted *n = context;
    n->count++;
    kiln_loop_stop(n->loop);
}

static void a_wake_reaches_the_loop(void **state) {
    (void)state;
    noted n = {0};
    expect_ok(kiln_loop_create(&n.loop));
    kiln_loop_on_wake(n.loop, woken, &n);
    n.timer = kiln_timer_create(n.loop, fail_late, NULL);
    kiln_timer_start(n.timer, LATE_NS);
    kiln_loop_wake(n.loop);
    kiln_loop_run(n.loop);
    assert_int_equal(n.count, 1);
    kiln_timer_destroy(n.timer);
    kiln_loop_destroy(n.loop);
}

static void errors_of_the_system_keep_their_meaning(void **state) {
    (void)state;
    expect_error(kiln_net_error(UV_EACCES, "a %s", "b"), PERMISSION_DENIED, "a b: permission");
    expect_error(kiln_net_error(UV_EPERM, "a"), PERMISSION_DENIED, "a: ");
    expect_error(kiln_net_error(UV_EADDRINUSE, "a"), ALREADY_EXISTS, "a: ");
    expect_error(kiln_net_error(UV_EMFILE, "a"), RESOURCE_EXHAUSTED, "a: ");
    expect_error(kiln_net_error(UV_ENFILE, "a"), RESOURCE_EXHAUSTED, "a: ");
    expect_error(kiln_net_error(UV_ENOSPC, "a"), RESOURCE_EXHAUSTED, "a: ");
    expect_error(kiln_net_error(UV_ECONNREFUSED, "a"), UNAVAILABLE, "a: ");
}

static void count_writable(void *context, unsigned ready_for) {
    noted *n = context;
    assert_int_equal(ready_for, KILN_WATCH_WRITE);
    if (++n->count == 2) kiln_watch_set(n->watch, 0); /* pauses: nothing is left to wait for */
}

static void a_watch_for_writing_can_pause(void **state) {
    (void)state;
    noted n = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    expect_ok(kiln_loop_create(&n.loop));
    n.watch = kiln_watch_create(n.loop, ends[1], KILN_WATCH_WRITE, count_writable, &n);
    kiln_loop_run(n.loop);
    assert_int_equal(n.count, 2);
    kiln_watch_destroy(n.watch);
    close(ends[0]);
    close(ends[1]);
    kiln_loop_destroy(n.loop);
}

static void nothing_can_be_destroyed(void **state) {
    (void)state;
    kiln_timer_destroy(NULL);
    kiln_watch_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_fires_once_and_never_early),
        cmocka_unit_test(a_timer_may_destroy_itself),
        cmocka_unit_test(a_timer_that_starts_itself_fires_in_the_next_turn),
        cmocka_unit_test(a_timer_that_reads_first_fires_after_what_waits),
        cmocka_unit_test(a_watch_tells_of_bytes_and_of_the_end),
        cmocka_unit_test(a_signal_becomes_a_callback),
        cmocka_unit_test(work_runs_apart_and_ends_on_the_loop),
        cmocka_unit_test(a_wake_reaches_the_loop),
        cmocka_unit_test(errors_of_the_system_keep_their_meaning),
        cmocka_unit_test(a_watch_for_writing_can_pause),
        cmocka_unit_test(nothing_can_be_destroyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
