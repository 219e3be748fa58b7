/* What a person sees of a job: every task on its line, nothing wider or longer than the terminal,
 * and sums that are true. */
#include "cli/display.h"

#include <string.h>

#include "base/clock.h"
#include "tests/support/test.h"

#define SECOND KILN_NS_PER_S

static kiln_display display_of(kiln_arena *arena, double seconds) {
    kiln_display d = {.options = {.seconds = seconds, .process = arena}, .start_ns = 100 * SECOND};
    return d;
}

/* Takes in how far a task is, which is there or comes last. */
static void take(kiln_display *d, kiln_request_task task) {
    uint32_t i = 0;
    while (i < d->task.count && strcmp(d->task.data[i].state.key, task.key) != 0) i++;
    kiln_display_update_task(d, i, &task);
}

static kiln_request_task task_of(kiln_display *d, const char *key) {
    return (kiln_request_task){.key = kiln_str_dup(d->options.process, kiln_str_from(key)),
                               .label = "conv",
                               .fault = "",
                               .weight = 2,
                               .flops = 1e6};
}

static void tell(kiln_display *d, const char *key, uint32_t planned, uint32_t done, double best_ns,
                 double default_ns) {
    kiln_request_task task = task_of(d, key);
    task.planned = planned;
    task.done = done;
    task.failed = done > 5;
    task.best_ns = best_ns;
    task.default_ns = default_ns;
    take(d, task);
}

/* The final of a task is over. */
static void confirm(kiln_display *d, const char *key, double best_ns, double default_ns) {
    kiln_request_task task = task_of(d, key);
    task.planned = task.done = 4;
    task.best_ns = best_ns;
    task.default_ns = default_ns;
    task.gain_low = best_ns < default_ns ? 1.1 : 1;
    take(d, task);
}

static char *line_of(const kiln_display *d, uint64_t now_ns, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_display_line(d, now_ns, &text);
    char *copy = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static char *frame_of(const kiln_display *d, kiln_display_size size, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_display_frame(d, 110 * SECOND, size, &text);
    char *copy = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static uint32_t lines_of(const char *text, size_t *out_widest) {
    uint32_t lines = 0;
    *out_widest = 0;
    for (kiln_str rest = kiln_str_from(text); rest.size; lines++) {
        kiln_str line = kiln_str_cut(&rest, '\n');
        *out_widest = KILN_MAX(*out_widest, line.size);
    }
    return lines;
}

static void trials_left_tell_the_time_left(void **state) {
    kiln_display d = display_of(*state, 0);
    tell(&d, "a", 20, 10, 2000, 4000);
    tell(&d, "b", 20, 0, 0, 0);
    assert_string_equal(line_of(&d, 110 * SECOND, *state),
                        "10 of 40 trials (1 failed), 1.0 per second, 10 s, about 30 s left\n");
}

static void a_time_budget_bounds_what_is_left(void **state) {
    kiln_display d = display_of(*state, 600);
    tell(&d, "a", UINT32_MAX, 10, 2000, 4000);
    char *line = line_of(&d, 110 * SECOND, *state);
    assert_non_null(strstr(line, "10 trials ("));
    assert_non_null(strstr(line, "10 s of 10 min 00 s, about 9 min 50 s left"));
    assert_non_null(strstr(line_of(&d, 900 * SECOND, *state), "13 min 20 s of 10 min 00 s;"));
}

static void an_inference_counts_each_call(void **state) {
    kiln_display d = display_of(*state, 0);
    tell(&d, "a", 4, 4, 2000, 4000);
    assert_non_null(
        strstr(line_of(&d, 101 * SECOND, *state), "inference 4 us, 2.00x? of the default until"));
    confirm(&d, "a", 2000, 4000);
    assert_non_null(
        strstr(line_of(&d, 101 * SECOND, *state), "inference 4 us, 2.00x of the default\n"));
    tell(&d, "b", 4, 4, 3000, 2000); /* slower than its default, which is shipped */
    assert_non_null(
        strstr(line_of(&d, 101 * SECOND, *state), "inference 8 us, 1.50x of the default\n"));
    tell(&d, "c", 4, 0, 0, 0);
    assert_null(strstr(line_of(&d, 101 * SECOND, *state), "inference"));
}

static void every_task_has_its_line(void **state) {
    kiln_display d = display_of(*state, 0);
    tell(&d, "a", 4, 1, 2000, 4000);
    tell(&d, "b", 4, 0, 0, 0);
    char *frame = frame_of(&d, (kiln_display_size){80, 24}, *state);
    size_t widest;
    assert_int_equal(lines_of(frame, &widest), 4);
    assert_non_null(strstr(frame, "1/4 "));
    assert_non_null(strstr(frame, "500.0     2 us  2.00x?"));
    confirm(&d, "a", 3800, 3800); /* the final takes it back */
    frame = frame_of(&d, (kiln_display_size){80, 24}, *state);
    assert_non_null(strstr(frame, "3.8 us  1.00x "));
    assert_non_null(strstr(frame, "0/4 "));
}

static void a_judged_gain_is_no_promise_while_trials_go_on(void **state) {
    kiln_display d = display_of(*state, 0);
    kiln_request_task task = task_of(&d, "a");
    task.planned = 90;
    task.done = 30;
    task.best_ns = 2000;
    task.default_ns = 4000;
    task.gain_low = 1.9;
    take(&d, task);
    assert_non_null(strstr(frame_of(&d, (kiln_display_size){80, 24}, *state), "2.00x "));
    task.best_ns = 1600; /* somebody looks clearly faster */
    task.gain_low = 0;
    take(&d, task);
    assert_non_null(strstr(frame_of(&d, (kiln_display_size){80, 24}, *state), "2.50x?"));
}

static void a_small_terminal_is_never_exceeded(void **state) {
    kiln_display d = display_of(*state, 60);
    char key[2] = "A";
    for (uint32_t i = 0; i < 50; i++, key[0]++) tell(&d, key, 1000, i, 2000, 4000);
    const kiln_display_size size[] = {{80, 24}, {40, 10}, {20, 3}, {132, 60}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(size); i++) {
        size_t widest;
        char *frame = frame_of(&d, size[i], *state);
        assert_true(lines_of(frame, &widest) <= KILN_MAX(size[i].rows, 4u));
        assert_true(widest < size[i].columns);
    }
    assert_non_null(strstr(frame_of(&d, size[0], *state), "and 30 more tasks"));
}

static void the_tasks_at_work_are_those_shown(void **state) {
    kiln_display d = display_of(*state, 0);
    char key[2] = "A";
    for (uint32_t i = 0; i < 30; i++, key[0]++) tell(&d, key, 1000, 1, 2000, 4000);
    uint64_t told_ns = kiln_clock_ns();
    while (kiln_clock_ns() == told_ns) continue;
    tell(&d, "Z", 777, 5, 1000, 4000); /* the 26th; it moved last */
    assert_non_null(strstr(frame_of(&d, (kiln_display_size){120, 8}, *state), "/777"));
}

static void a_task_of_which_nothing_can_be_measured_says_why(void **state) {
    kiln_display d = display_of(*state, 0);
    tell(&d, "a", 20, 10, 2000, 4000);
    kiln_request_task task = task_of(&d, "b");
    task.fault = "no memory for it";
    take(&d, task);
    const char *frame = frame_of(&d, (kiln_display_size){120, 20}, *state);
    const char *fault = strstr(frame, "no memory for it");
    assert_non_null(fault);
    assert_null(strstr(fault + 1, "no memory for it"));
    assert_true(fault > strstr(frame, "  1 conv"));
}

/* Some of a model's tasks are left out, so its sum is not known. */
static void an_inference_is_told_when_all_of_its_kernels_are(void **state) {
    kiln_display d = display_of(*state, 0);
    d.kernel_count = 2;
    tell(&d, "a", 4, 4, 2000, 4000);
    assert_null(strstr(line_of(&d, 101 * SECOND, *state), "inference"));
    tell(&d, "b", 4, 4, 2000, 4000);
    assert_non_null(strstr(line_of(&d, 101 * SECOND, *state), "inference 8 us"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(trials_left_tell_the_time_left),
        test_with_arena(a_time_budget_bounds_what_is_left),
        test_with_arena(an_inference_counts_each_call),
        test_with_arena(every_task_has_its_line),
        test_with_arena(a_judged_gain_is_no_promise_while_trials_go_on),
        test_with_arena(a_small_terminal_is_never_exceeded),
        test_with_arena(the_tasks_at_work_are_those_shown),
        test_with_arena(a_task_of_which_nothing_can_be_measured_says_why),
        test_with_arena(an_inference_is_told_when_all_of_its_kernels_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
