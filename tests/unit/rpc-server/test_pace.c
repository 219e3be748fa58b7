/* The reference kernel runs, takes time, and leaves the thread where it was. How long it takes is
 * this machine's affair and no test's. */
#include <sched.h>

#include "rpc-server/pace.h"
#include "tests/support/test.h"

static uint64_t data[KILN_PACE_BYTES / sizeof(uint64_t)];

static void both_parts_take_time(void **state) {
    (void)state;
    kiln_pacer pacer;
    kiln_pacer_init(&pacer, data);
    for (uint32_t i = 0; i < 200; i++) { /* more than the buffer has pieces */
        const kiln_pace pace = kiln_pacer_take(&pacer);
        assert_true(pace.arithmetic_ns >= 1 && pace.memory_ns >= 1);
    }
    const kiln_pace settled = kiln_pacer_settle(&pacer);
    assert_true(settled.arithmetic_ns >= 1 && settled.memory_ns >= 1);
}

static void the_work_is_done(void **state) {
    (void)state;
    kiln_pacer a, b;
    kiln_pacer_init(&a, data);
    kiln_pacer_init(&b, data);
    (void)kiln_pacer_take(&a);
    assert_true(a.sink != b.sink && a.at != b.at);
    (void)kiln_pacer_take(&b);
    assert_true(a.sink == b.sink && a.at == b.at); /* always the same */
}

static void watching_leaves_the_thread_where_it_may_run(void **state) {
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    uint32_t core = 0;
    while (!CPU_ISSET(core, &before)) core++;
    kiln_pace pace[3] = {0};
    expect_ok(kiln_pace_watch(core, 3, pace));
    for (int i = 0; i < 3; i++) assert_true(pace[i].arithmetic_ns >= 1 && pace[i].memory_ns >= 1);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

static void a_core_that_is_not_there_is_refused(void **state) {
    (void)state;
    kiln_pace pace;
    expect_error(kiln_pace_watch(CPU_SETSIZE - 1, 1, &pace), RESOURCE_EXHAUSTED, "core");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_parts_take_time),
        cmocka_unit_test(the_work_is_done),
        cmocka_unit_test(watching_leaves_the_thread_where_it_may_run),
        cmocka_unit_test(a_core_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests_name("rpc-server/pace", tests, NULL, NULL);
}
