/* The reference kernel runs, takes time, and leaves the thread where it was. How long it takes is
 * this machine's affair and no test's. */
#include <sched.h>

#include "rpc-server/reference_kernel.h"
#include "tests/support/test.h"

static uint64_t data[KILN_REFERENCE_KERNEL_BYTES / sizeof(uint64_t)];

static void both_parts_take_time(void **state) {
    (void)state;
    kiln_reference_kernel reference;
    kiln_reference_kernel_init(&reference, data);
    for (uint32_t i = 0; i < 200; i++) { /* more than the buffer has pieces */
        const kiln_reference_kernel_times times = kiln_reference_kernel_take(&reference);
        assert_true(times.arithmetic_ns >= 1 && times.memory_ns >= 1);
    }
}

static void the_work_is_done(void **state) {
    (void)state;
    kiln_reference_kernel a, b;
    kiln_reference_kernel_init(&a, data);
    kiln_reference_kernel_init(&b, data);
    (void)kiln_reference_kernel_take(&a);
    assert_true(a.sink != b.sink && a.at != b.at);
    (void)kiln_reference_kernel_take(&b);
    assert_true(a.sink == b.sink && a.at == b.at); /* always the same */
}

static void a_round_has_a_reading_in_each_state(void **state) {
    (void)state;
    kiln_reference_kernel reference;
    kiln_reference_kernel_init(&reference, data);
    const kiln_reference_kernel_round round = kiln_reference_kernel_measure(&reference);
    for (int s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++)
        assert_true(round.reading[s].arithmetic_ns >= 1 && round.reading[s].memory_ns >= 1);
    assert_true(round.peak_flops > 0);
}

/* On any machine the fastest of many passes over a piece that was just read takes less than the
 * fastest over one that was dropped. */
static void the_piece_is_read_from_where_no_cache_holds_it(void **state) {
    (void)state;
    kiln_reference_kernel reference;
    kiln_reference_kernel_init(&reference, data);
    const size_t line_bytes = reference.line_bytes;
    if (line_bytes == 0) skip_because("this processor lets no program drop lines of its caches");
    assert_in_range(line_bytes, 16, 4096);
    double warm_ns = 1e9, cold_ns = 1e9;
    for (int i = 0; i < 200; i++) {
        const size_t at = reference.at;
        reference.line_bytes = line_bytes;
        const double cold = kiln_reference_kernel_take(&reference).memory_ns;
        reference.at = at;
        reference.line_bytes = 0; /* the same piece again, left where it is */
        const double warm = kiln_reference_kernel_take(&reference).memory_ns;
        cold_ns = cold < cold_ns ? cold : cold_ns;
        warm_ns = warm < warm_ns ? warm : warm_ns;
    }
    assert_true(warm_ns < cold_ns);
}

static void watching_leaves_the_thread_where_it_may_run(void **state) {
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    uint32_t core = 0;
    while (!CPU_ISSET(core, &before)) core++;
    kiln_reference_kernel_round round[3] = {0};
    expect_ok(kiln_reference_kernel_watch(core, 3, round));
    for (int i = 0; i < 3; i++)
        assert_true(round[i].reading[KILN_REFERENCE_KERNEL_AFTER_READING].arithmetic_ns >= 1);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

static void a_core_that_is_not_there_is_refused(void **state) {
    (void)state;
    kiln_reference_kernel_round round;
    expect_error(kiln_reference_kernel_watch(CPU_SETSIZE - 1, 1, &round), RESOURCE_EXHAUSTED,
                 "core");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_parts_take_time),
        cmocka_unit_test(the_work_is_done),
        cmocka_unit_test(a_round_has_a_reading_in_each_state),
        cmocka_unit_test(the_piece_is_read_from_where_no_cache_holds_it),
        cmocka_unit_test(watching_leaves_the_thread_where_it_may_run),
        cmocka_unit_test(a_core_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests_name("rpc-server/reference_kernel", tests, NULL, NULL);
}
