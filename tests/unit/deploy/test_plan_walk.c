/* The rules between steps for loops and devices: each row breaks one of them in a good plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "deploy/format.h"
#include "tests/unit/deploy/fixture.h"

static kiln_arena arena;

static uint32_t *args_of(kiln_module_plan *p, uint32_t step) {
    return (uint32_t *)(uintptr_t)p->step[step].arg;
}

typedef struct spoiled {
    void (*apply)(kiln_module_plan *plan);
    const char *text; /* of the error; NULL: the plan is good */
} spoiled;

static void check_rows(kiln_module_plan (*make)(kiln_arena *arena), const spoiled *row,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        kiln_module_plan plan = make(&arena);
        row[i].apply(&plan);
        kiln_status st = kiln_module_plan_check(&plan);
        if (row[i].text && !st) fail_msg("row %zu: accepted, but '%s' is wrong", i, row[i].text);
        if (!row[i].text && st) fail_msg("row %zu: %s", i, kiln_status_text(st));
        if (row[i].text && !strstr(kiln_status_text(st), row[i].text))
            fail_msg("row %zu: '%s' does not say '%s'", i, kiln_status_text(st), row[i].text);
        kiln_status_free(st);
    }
}

/* ---- loops ----------------------------------------------------------------------------------- */

static void nothing(kiln_module_plan *p) { (void)p; }
static void body_empty(kiln_module_plan *p) { p->step[LOOP_STEP_LOOP].body_count = 0; }
static void body_too_long(kiln_module_plan *p) { p->step[LOOP_STEP_LOOP].body_count = 5; }
static void trips(kiln_module_plan *p, uint64_t trip_max) {
    for (uint32_t i = LOOP_X_ROW; i <= LOOP_IDX_ROW; i++)
        p->buffer[i].stride = p->buffer[i].loop = 0;
    p->step[LOOP_STEP_LOOP].trip_max = trip_max;
}
static void no_trip(kiln_module_plan *p) { trips(p, 0); }
static void too_many_trips(kiln_module_plan *p) { trips(p, KILN_MODULE_TRIPS_MAX + 1); }
static void alias_moves_out(kiln_module_plan *p) {
    p->step[LOOP_STEP_LOOP].trip_max = LOOP_TRIPS + 1;
}
static void alias_begins_late(kiln_module_plan *p) {
    p->buffer[LOOP_X_ROW].offset = LOOP_ROW_BYTES;
}
static void alias_goes_below(kiln_module_plan *p) {
    p->buffer[LOOP_X_ROW].stride = -(int64_t)LOOP_ROW_BYTES;
}
static void alias_of_no_loop(kiln_module_plan *p) { p->buffer[LOOP_X_ROW].loop = LOOP_STEP_KERNEL; }
static void loop_without_stride(kiln_module_plan *p) {
    p->buffer[LOOP_STATE].loop = LOOP_STEP_LOOP;
}
static void arena_moves(kiln_module_plan *p) { p->buffer[LOOP_STATE].stride = 64; }
static void stride_wraps(kiln_module_plan *p) { p->buffer[LOOP_X_ROW].stride = INT64_MIN; }
static void argument_unaligned(kiln_module_plan *p) {
    p->buffer[LOOP_X_ROW].stride = LOOP_ROW_BYTES - 4;
}
static void backwards(kiln_module_plan *p) {
    for (uint32_t i = LOOP_X_ROW; i <= LOOP_Y_ROW; i++) {
        p->buffer[i].stride = -(int64_t)LOOP_ROW_BYTES;
        p->buffer[i].offset = (LOOP_TRIPS - 1) * LOOP_ROW_BYTES;
    }
}
static void moves_outside_of_its_loop(kiln_module_plan *p) {
    args_of(p, LOOP_STEP_INIT)[0] = LOOP_X_ROW;
}
static void iterations_overlap(kiln_module_plan *p) { p->buffer[LOOP_IDX_ROW].stride = 4; }
static void iterations_leave_gaps(kiln_module_plan *p) { /* 8 of every 16 bytes */
    p->buffer[LOOP_IDX].size_bytes = 80;
    p->output[2].shape.dim[0] = 10;
    p->buffer[LOOP_IDX_ROW].stride = 16;
}
static void stacked_twice(kiln_module_plan *p) { args_of(p, LOOP_STEP_KERNEL)[2] = LOOP_Y_ROW; }
static void carried_outside(kiln_module_plan *p) { p->step[LOOP_STEP_LOOP].body_count = 2; }
static void carried_but_not_there_before(kiln_module_plan *p) {
    args_of(p, LOOP_STEP_CARRY)[1] = LOOP_SPARE;
}
static void carried_over_itself(kiln_module_plan *p) {
    args_of(p, LOOP_STEP_CARRY)[0] = LOOP_STATE;
}
static void carried_into_an_input(kiln_module_plan *p) { args_of(p, LOOP_STEP_CARRY)[1] = LOOP_S0; }
static void carried_before_it_is_computed(kiln_module_plan *p) {
    kiln_plan_step kernel = p->step[LOOP_STEP_KERNEL];
    p->step[LOOP_STEP_KERNEL] = p->step[LOOP_STEP_CARRY];
    p->step[LOOP_STEP_CARRY] = kernel;
}
/* The state is read in the next iteration, so the result of this one must lie elsewhere. */
static void next_over_the_state(kiln_module_plan *p) { p->buffer[LOOP_NEXT].offset = 0; }
/* What is stacked lies in the arena from `offset` on, and is copied to the output behind the loop.
 */
static void stack_in_the_arena(kiln_module_plan *p, uint64_t offset) {
    static const uint32_t both[] = {LOOP_SPARE, LOOP_Y};
    kiln_plan_step *step = KILN_ARENA_ARRAY(&arena, kiln_plan_step, LOOP_STEP_COUNT + 1);
    memcpy(step, p->step, LOOP_STEP_COUNT * sizeof *step);
    step[LOOP_STEP_COUNT] = (kiln_plan_step){
        .action = KILN_ACTION_COPY, .arg_count = 2, .output_count = 1, .arg = both};
    p->step = step;
    p->step_count++;
    p->buffer[LOOP_SPARE].size_bytes = LOOP_TRIPS * LOOP_ROW_BYTES;
    p->buffer[LOOP_SPARE].offset = offset;
    p->buffer[LOOP_Y_ROW].source = LOOP_SPARE;
}
static void stacked_in_the_arena(kiln_module_plan *p) { stack_in_the_arena(p, 1024); }
static void state_over_what_is_stacked(kiln_module_plan *p) { stack_in_the_arena(p, 0); }
static void temp_over_what_is_stacked(kiln_module_plan *p) {
    stack_in_the_arena(p, 448); /* go is in the last row */
}
static void index_over_the_state(kiln_module_plan *p) { p->buffer[LOOP_INDEX].offset = 0; }
static void last_of_a_constant_loop(kiln_module_plan *p) {
    args_of(p, LOOP_STEP_SUM)[0] = LOOP_NEXT;
}
static void stacked_read_inside(kiln_module_plan *p) {
    args_of(p, LOOP_STEP_KERNEL)[0] = LOOP_Y_ROW;
    args_of(p, LOOP_STEP_KERNEL)[3] = LOOP_SPARE;
}

/* What is carried is the row that was just stacked. */
static void row_read_by_its_iteration(kiln_module_plan *p) {
    args_of(p, LOOP_STEP_CARRY)[0] = LOOP_Y_ROW;
}
static void row_read_behind_the_loop(kiln_module_plan *p) {
    row_read_by_its_iteration(p);
    p->step[LOOP_STEP_LOOP].body_count = 2;
    p->step[LOOP_STEP_CARRY].action = KILN_ACTION_COPY;
    args_of(p, LOOP_STEP_CARRY)[1] = LOOP_SPARE;
}

/* The loop ends when go is false, or after count iterations; stacked outputs are then not whole. */
static void ends_early(kiln_module_plan *p, uint32_t condition, uint32_t count) {
    p->step[LOOP_STEP_LOOP].condition = condition;
    p->step[LOOP_STEP_LOOP].count = count;
    p->output_count = 2;
    args_of(p, LOOP_STEP_KERNEL)[3] = LOOP_SPARE;
    args_of(p, LOOP_STEP_INDEX)[1] = LOOP_IDX_ROW;
    p->buffer[LOOP_Y].storage = p->buffer[LOOP_IDX].storage = KILN_STORAGE_ARENA;
    p->buffer[LOOP_Y].offset = p->buffer[LOOP_IDX].offset = 1536;
    p->buffer[LOOP_SUM].source = 0;
    p->output[0] = p->output[1];
    p->output_count = 1;
}
static void condition_unwritten(kiln_module_plan *p) { ends_early(p, LOOP_GO, KILN_PLAN_NONE); }
static void condition_of_eight_bytes(kiln_module_plan *p) {
    ends_early(p, LOOP_INDEX, KILN_PLAN_NONE);
}
static void condition_out_of_range(kiln_module_plan *p) { ends_early(p, 99, KILN_PLAN_NONE); }
static void count_unwritten(kiln_module_plan *p) { ends_early(p, KILN_PLAN_NONE, LOOP_INDEX); }
static void count_from_an_input(kiln_module_plan *p) {
    ends_early(p, KILN_PLAN_NONE, LOOP_X);
    p->buffer[LOOP_X].size_bytes = 8;
    p->input[0].dtype = KILN_I64;
    p->input[0].shape = (kiln_shape){0};
    args_of(p, LOOP_STEP_KERNEL)[0] = LOOP_S0;
    p->buffer[LOOP_X_ROW] = p->buffer[LOOP_STATE]; /* nobody uses it */
}
static void count_and_the_last_of_the_loop(kiln_module_plan *p) {
    count_from_an_input(p);
    args_of(p, LOOP_STEP_SUM)[0] = LOOP_NEXT;
}
static void count_and_what_is_stacked(kiln_module_plan *p) {
    count_from_an_input(p);
    p->buffer[LOOP_SPARE] = (kiln_plan_buffer){
        .storage = KILN_STORAGE_ALIAS, .size_bytes = LOOP_ROW_BYTES, .source = LOOP_Y};
    p->buffer[LOOP_SPARE].size_bytes = LOOP_ROW_BYTES;
    args_of(p, LOOP_STEP_KERNEL)[3] = LOOP_Y_ROW;
    args_of(p, LOOP_STEP_SUM)[0] = LOOP_SPARE;
}

/* An output may be stacked by a loop that ends early, from its first row on. */
static void count_and_an_output(kiln_module_plan *p) {
    p->step[LOOP_STEP_LOOP].count = LOOP_SPARE;
    p->buffer[LOOP_SPARE] =
        (kiln_plan_buffer){.storage = KILN_STORAGE_CONSTANT, .size_bytes = 8, .data = p};
}
static void count_and_an_output_backwards(kiln_module_plan *p) {
    count_and_an_output(p);
    backwards(p);
}
static void count_and_an_output_with_gaps(kiln_module_plan *p) {
    count_and_an_output(p);
    iterations_leave_gaps(p);
}

static void rules_of_loops_are_named(void **state) {
    (void)state;
    static const spoiled row[] = {
        {nothing, NULL},
        {backwards, NULL},
        {stacked_in_the_arena, NULL},
        {row_read_by_its_iteration, NULL},
        {last_of_a_constant_loop, NULL},
        {count_from_an_input, NULL},
        {count_and_an_output, NULL},
        {count_and_an_output_backwards, "output 0 is never written"},
        {count_and_an_output_with_gaps, "output 2 is never written"},
        {body_empty, "step 1: a loop over 0 steps"},
        {body_too_long, "step 1: a loop over 5 steps"},
        {no_trip, "at most 0 iterations"},
        {too_many_trips, "at most 4294967297 iterations"},
        {alias_moves_out, "buffer 9"},
        {alias_begins_late, "buffer 9"},
        {alias_goes_below, "buffer 9"},
        {alias_of_no_loop, "buffer 9"},
        {loop_without_stride, "buffer 5"},
        {arena_moves, "buffer 5"},
        {stride_wraps, "buffer 9"},
        {argument_unaligned, "does not suit argument x"},
        {moves_outside_of_its_loop, "step 0: buffer 9 moves with a loop"},
        {iterations_overlap, "write over each other in buffer 11"},
        {iterations_leave_gaps, "output 2 is never written"},
        {stacked_twice, "buffer 10 may not be written twice"},
        {carried_outside, "step 4: a value is carried outside"},
        {carried_but_not_there_before, "buffer 12, which is carried, is not written"},
        {carried_over_itself, "buffer 5 is carried over itself"},
        {carried_into_an_input, "buffer 1, which is carried"},
        {carried_before_it_is_computed, "buffer 6 is read before"},
        {next_over_the_state, "buffer 6 overwrites buffer 5"},
        {state_over_what_is_stacked, "overwrites buffer 5"},
        {temp_over_what_is_stacked, "overwrites buffer 12"},
        {index_over_the_state, "buffer 8 overwrites buffer 5"},
        {stacked_read_inside, "buffer 10 is read before"},
        {row_read_behind_the_loop, "buffer 10 moves with a loop that is elsewhere"},
        {condition_unwritten, "buffer 7 is read before"},
        {condition_of_eight_bytes, "no such element"},
        {condition_out_of_range, "condition 99"},
        {count_unwritten, "buffer 8 is read before"},
        {count_and_the_last_of_the_loop, "buffer 6 is read before"},
        {count_and_what_is_stacked, "buffer 12 is read before"},
    };
    check_rows(fixture_loop_plan, row, sizeof row / sizeof *row);
}

/* Ten loops around each other, with a copy in the middle. */
static void loops_inside_of_each_other_are_bounded(void **state) {
    (void)state;
    for (uint32_t depth = 1; depth <= KILN_MODULE_LOOP_DEPTH_MAX + 1; depth++) {
        kiln_module_plan plan = fixture_loop_plan(&arena);
        kiln_plan_step *step = KILN_ARENA_ARRAY(&arena, kiln_plan_step, depth + LOOP_STEP_COUNT);
        for (uint32_t i = 0; i < depth; i++)
            step[i] = (kiln_plan_step){.action = KILN_ACTION_LOOP,
                                       .body_count = depth - i,
                                       .trip_max = 2,
                                       .count = KILN_PLAN_NONE,
                                       .condition = KILN_PLAN_NONE,
                                       .index = KILN_PLAN_NONE};
        step[depth] = plan.step[LOOP_STEP_INIT];
        step[depth + 1] = plan.step[LOOP_STEP_SUM];
        plan.step = step;
        plan.step_count = depth + 2;
        plan.output[0] = plan.output[1];
        plan.output_count = 1;
        plan.buffer[LOOP_SUM].source = 0;
        for (uint32_t i = LOOP_Y; i < LOOP_BUFFER_COUNT; i++)
            if (i != LOOP_SUM && i != LOOP_STATE) plan.buffer[i] = plan.buffer[LOOP_STATE];
        kiln_status st = kiln_module_plan_check(&plan);
        assert_int_equal(st != NULL, depth > KILN_MODULE_LOOP_DEPTH_MAX);
        if (st) assert_non_null(strstr(kiln_status_text(st), "loops nested more than"));
        kiln_status_free(st);
    }
}

/* ---- devices --------------------------------------------------------------------------------- */

static void device_unknown(kiln_module_plan *p) { p->device[0].kind = 99; }
static void device_of_a_buffer(kiln_module_plan *p) { p->buffer[LOOP_STATE].device = 2; }
static void device_of_a_step(kiln_module_plan *p) { p->step[LOOP_DEVICE_STEP_KERNEL].device = 2; }
static void device_of_a_port(kiln_module_plan *p) { p->buffer[LOOP_X].device = 1; }
static void device_of_an_alias(kiln_module_plan *p) { p->buffer[LOOP_X_ROW].device = 0; }
static void arena_of_the_device(kiln_module_plan *p) { p->device[0].arena_bytes = 1024; }
static void kernel_elsewhere(kiln_module_plan *p) { p->step[LOOP_DEVICE_STEP_KERNEL].device = 0; }
static void copied_by_the_processor(kiln_module_plan *p) { p->step[LOOP_DEVICE_STEP_X].device = 0; }
static void carried_between_devices(kiln_module_plan *p) {
    p->buffer[LOOP_SPARE].device = 0;
    args_of(p, LOOP_DEVICE_STEP_CARRY)[0] = LOOP_S0;
}
static void no_event(kiln_module_plan *p) { p->step_count--; }
static void event_for_an_earlier_step(kiln_module_plan *p) {
    p->step[LOOP_DEVICE_STEP_EVENT].after = LOOP_DEVICE_STEP_SUM;
}
static void event_for_itself(kiln_module_plan *p) {
    p->step[LOOP_DEVICE_STEP_EVENT].after = LOOP_DEVICE_STEP_EVENT;
}
static void event_of_the_processor(kiln_module_plan *p) {
    p->step[LOOP_DEVICE_STEP_EVENT].device = 0;
    p->step[LOOP_DEVICE_STEP_EVENT].after = LOOP_DEVICE_STEP_INDEX;
}
static void event_for_another_queue(kiln_module_plan *p) {
    p->step[LOOP_DEVICE_STEP_EVENT].after = LOOP_DEVICE_STEP_INDEX;
}
/* The sum comes back into the arena and is copied from there before the event. */
static void read_before_the_event(kiln_module_plan *p) {
    p->buffer[LOOP_SPARE].device = 0;
    p->buffer[LOOP_SPARE].offset = 0;
    args_of(p, LOOP_DEVICE_STEP_SUM)[1] = LOOP_SPARE;
    kiln_plan_step *step = KILN_ARENA_ARRAY(&arena, kiln_plan_step, LOOP_DEVICE_STEP_COUNT + 1);
    memcpy(step, p->step, (LOOP_DEVICE_STEP_COUNT - 1) * sizeof *step);
    static const uint32_t both[] = {LOOP_SPARE, LOOP_SUM};
    step[LOOP_DEVICE_STEP_EVENT] = (kiln_plan_step){
        .action = KILN_ACTION_COPY, .arg_count = 2, .output_count = 1, .arg = both};
    step[LOOP_DEVICE_STEP_COUNT] = p->step[LOOP_DEVICE_STEP_EVENT];
    p->step = step;
    p->step_count++;
}
static void read_after_the_event(kiln_module_plan *p) {
    read_before_the_event(p);
    kiln_plan_step event = p->step[LOOP_DEVICE_STEP_COUNT];
    p->step[LOOP_DEVICE_STEP_COUNT] = p->step[LOOP_DEVICE_STEP_EVENT];
    p->step[LOOP_DEVICE_STEP_EVENT] = event;
}
static void same_device_twice(kiln_module_plan *p) {
    kiln_plan_device *two = KILN_ARENA_ARRAY(&arena, kiln_plan_device, 2);
    two[0] = two[1] = p->device[0];
    p->device = two;
    p->device_count = 2;
}

static void rules_of_devices_are_named(void **state) {
    (void)state;
    static const spoiled row[] = {
        {nothing, NULL},
        {read_after_the_event, NULL},
        {device_unknown, "device 1 is of kind 99"},
        {device_of_a_buffer, "buffer 5"},
        {device_of_a_step, "device 2 of 1"},
        {device_of_a_port, "buffer 0"},
        {device_of_an_alias, "buffer 9"},
        {arena_of_the_device, "buffer 13"},
        {kernel_elsewhere, "does not suit argument x"},
        {copied_by_the_processor, "buffers 0 and 13 cannot be copied"},
        {carried_between_devices, "cannot be copied"},
        {no_event, "no step waits for the copy of step"},
        {event_for_an_earlier_step, "no step waits for the copy of step 7"},
        {event_for_itself, "an event for step 8 on device 1"},
        {event_of_the_processor, "on device 0"},
        {event_for_another_queue, "an event for step 4 on device 1"},
        {read_before_the_event, "buffer 12 is read before an event"},
        {same_device_twice, "devices 1 and 2 are the same"},
    };
    check_rows(fixture_device_plan, row, sizeof row / sizeof *row);
}

static void plain_plans_are_told_apart(void **state) {
    (void)state;
    kiln_module_plan plain = fixture_plan(&arena, "kernel_static.o"),
                     loop = fixture_loop_plan(&arena), device = fixture_device_plan(&arena);
    assert_true(kiln_module_plan_is_plain(&plain));
    assert_false(kiln_module_plan_is_plain(&loop));
    assert_false(kiln_module_plan_is_plain(&device));
}

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_of_loops_are_named),
        cmocka_unit_test(loops_inside_of_each_other_are_bounded),
        cmocka_unit_test(rules_of_devices_are_named),
        cmocka_unit_test(plain_plans_are_told_apart),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_arena_deinit(&arena);
    return failed;
}
