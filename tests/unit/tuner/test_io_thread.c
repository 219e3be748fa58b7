#include "tuner/io_thread.h"

#include <pthread.h>

#include "base/hash.h"
#include "tests/support/test.h"

typedef struct office {
    kiln_loop *loop;
    kiln_io_thread *io_thread;
    pthread_t loop_thread;
    char order[8]; /* what ran, and what was done */
    uint32_t count;
} office;

typedef struct piece {
    office *office;
    char name;
    struct piece *then; /* handed in when this one is done */
    bool stops;         /* the loop */
} piece;

static void run(void *context) {
    piece *p = context;
    static char bytes[1 << 16];
    kiln_digest digest;
    kiln_digest_of(bytes, sizeof bytes, &digest);
    assert_false(pthread_equal(pthread_self(), p->office->loop_thread));
    p->office->order[p->office->count++] = p->name;
}

static void done(void *context) {
    piece *p = context;
    assert_true(pthread_equal(pthread_self(), p->office->loop_thread));
    if (p->then) kiln_io_thread_submit(p->office->io_thread, run, done, p->then);
    if (p->stops) kiln_loop_stop(p->office->loop);
}

static void begin(office *o) {
    *o = (office){.loop_thread = pthread_self()};
    expect_ok(kiln_loop_create(&o->loop));
    o->io_thread = kiln_io_thread_create(o->loop);
}

static void end(office *o) {
    kiln_io_thread_destroy(o->io_thread);
    kiln_loop_destroy(o->loop);
}

static void pieces_are_run_in_order_and_off_the_loop(void **state) {
    (void)state;
    office o;
    begin(&o);
    piece last = {&o, 'd', NULL, true}, third = {&o, 'c', &last, false};
    piece second = {&o, 'b', NULL, false}, first = {&o, 'a', NULL, false};
    kiln_timer *keeps_it_running = kiln_timer_create(o.loop, done, &first);
    kiln_timer_start(keeps_it_running, UINT64_C(60000000000));
    kiln_io_thread_submit(o.io_thread, run, done, &first);
    kiln_io_thread_submit(o.io_thread, run, done, &second);
    kiln_io_thread_submit(o.io_thread, run, done, &third);
    kiln_loop_run(o.loop);
    expect_str(kiln_str_from(o.order), "abcd");
    assert_int_equal(kiln_loop_times_get(o.loop)->most.hashed_bytes, 0);
    kiln_timer_destroy(keeps_it_running);
    end(&o);
}

static void waiting_ends_what_that_hands_in(void **state) {
    (void)state;
    office o;
    begin(&o);
    piece second = {&o, 'b', NULL, false}, first = {&o, 'a', &second, false};
    kiln_io_thread_submit(o.io_thread, run, done, &first);
    kiln_io_thread_wait(o.io_thread);
    expect_str(kiln_str_from(o.order), "ab");
    end(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_run_in_order_and_off_the_loop),
        cmocka_unit_test(waiting_ends_what_that_hands_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
