#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "proto/net/loop_times.h"
#include "tests/support/test.h"

static kiln_turn turn_of(uint64_t wall_ns, uint64_t cpu_ns, const char *handler) {
    return (kiln_turn){.wall_ns = wall_ns, .cpu_ns = cpu_ns, .handler = handler};
}

static void the_longest_turn_names_its_handler(void **state) {
    (void)state;
    kiln_loop_times times = {0};
    kiln_strbuf text = {0};
    kiln_turn turn[] = {turn_of(50000, 40000, "quick"), turn_of(7 * KILN_NS_PER_MS, 300000, "slow"),
                        turn_of(2 * KILN_NS_PER_S, KILN_NS_PER_MS, "slower")};
    turn[1].work =
        (kiln_thread_work){.hashed_bytes = 77, .compressed_bytes = 5, .rows = 3, .processes = 2};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(turn); i++) kiln_loop_times_add(&times, &turn[i]);
    kiln_loop_times_print(&times, &text);
    expect_contains(text.data, "kiln_loop_turn_seconds_bucket{le=\"0.0001\"} 1\n");
    expect_contains(text.data, "kiln_loop_turn_seconds_bucket{le=\"0.005\"} 1\n");
    expect_contains(text.data, "kiln_loop_turn_seconds_bucket{le=\"0.01\"} 2\n");
    expect_contains(text.data, "kiln_loop_turn_seconds_bucket{le=\"+Inf\"} 3\n");
    expect_contains(text.data, "kiln_loop_turn_seconds_max{handler=\"slower\"} 2\n");
    expect_contains(text.data, "kiln_loop_turn_cpu_seconds_bucket{le=\"0.005\"} 3\n");
    expect_contains(text.data, "kiln_loop_turn_hashed_bytes 77\n");
    expect_contains(text.data, "kiln_loop_turn_compressed_bytes 5\n");
    expect_contains(text.data, "kiln_loop_turn_rows 3\n");
    expect_contains(text.data, "kiln_loop_turn_processes 2\n");
    kiln_strbuf_reset(&text);
    kiln_loop_times_summary(&times, &text);
    expect_contains(text.data, "3 turns of the loop, 2 over 5 ms; longest 2000.00 ms (slower)");
    kiln_strbuf_deinit(&text);
}

static void slow_handlers_are_listed(void **state) {
    (void)state;
    kiln_loop_times times = {0};
    kiln_strbuf text = {0};
    kiln_loop_times_note(&times, "quick", KILN_TURN_NS);
    kiln_loop_times_note(&times, "slow", 6 * KILN_NS_PER_MS);
    kiln_loop_times_note(&times, "slower", 9 * KILN_NS_PER_MS);
    kiln_loop_times_note(&times, "slow", 7 * KILN_NS_PER_MS);
    kiln_loop_times_summary(&times, &text);
    expect_contains(text.data, "; over in CPU: slow (2, longest 7.00 ms), slower (1, longest 9.00");
    kiln_strbuf_reset(&text);
    kiln_loop_times_print(&times, &text);
    expect_contains(text.data, "kiln_loop_slow_total{handler=\"slow\"} 2\n");
    assert_null(strstr(text.data, "quick"));
    kiln_strbuf_deinit(&text);
}

static void warnings_are_few(void **state) {
    (void)state;
    kiln_turn_warner warner = {0};
    kiln_turn slow = turn_of(KILN_TURN_WARN_NS, 0, "slow"),
              quick = turn_of(KILN_TURN_WARN_NS - 1, 0, "quick");
    assert_false(kiln_turn_warns(&warner, &quick, KILN_NS_PER_S));
    assert_true(kiln_turn_warns(&warner, &slow, KILN_NS_PER_S));
    assert_false(kiln_turn_warns(&warner, &slow, 2 * KILN_NS_PER_S));
    assert_int_equal(warner.unsaid, 1);
    assert_true(kiln_turn_warns(&warner, &slow, 11 * KILN_NS_PER_S));
    assert_int_equal(warner.unsaid, 0);
}

static void work_hard(void *context) {
    static char bytes[1 << 20];
    kiln_digest digest;
    kiln_loop_part(*(kiln_loop **)context, "the hard part");
    kiln_digest_of(bytes, sizeof bytes, &digest);
}

static void a_loop_measures_its_turns_and_not_its_waiting(void **state) {
    (void)state;
    kiln_loop *loop = NULL;
    expect_ok(kiln_loop_create(&loop));
    kiln_timer *timer = kiln_timer_create(loop, work_hard, &loop);
    kiln_timer_start(timer, 30 * KILN_NS_PER_MS);
    const uint64_t begin_ns = kiln_clock_ns();
    kiln_loop_run(loop);
    const uint64_t passed_ns = kiln_clock_ns() - begin_ns;
    const kiln_loop_times *times = kiln_loop_times_get(loop);
    expect_str(kiln_str_from(times->cpu.handler), "the hard part");
    assert_true(times->cpu.max_ns > 0);
    assert_int_equal(times->most.hashed_bytes, 1 << 20);
    assert_true(times->wall.sum_ns + 20 * KILN_NS_PER_MS <= passed_ns); /* it waited for 30 */
    kiln_timer_destroy(timer);
    kiln_loop_destroy(loop);
}

static void outside_of_handlers_there_are_no_parts(void **state) {
    (void)state;
    kiln_loop *loop = NULL;
    expect_ok(kiln_loop_create(&loop));
    for (int i = 0; i < 200; i++) { /* as much as makes a handler a slow one */
        static char bytes[1 << 20];
        kiln_digest digest;
        kiln_digest_of(bytes, sizeof bytes, &digest);
        if (kiln_clock_thread_ns() > 4 * KILN_TURN_NS) break;
    }
    kiln_loop_part(loop, "no part");
    kiln_loop_part(loop, "nor this");
    assert_int_equal(kiln_loop_times_get(loop)->slow_count, 0);
    kiln_loop_destroy(loop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_turn_names_its_handler),
        cmocka_unit_test(slow_handlers_are_listed),
        cmocka_unit_test(warnings_are_few),
        cmocka_unit_test(outside_of_handlers_there_are_no_parts),
        cmocka_unit_test(a_loop_measures_its_turns_and_not_its_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
