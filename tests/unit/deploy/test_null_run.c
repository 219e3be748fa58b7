/* Groups of threads, shared memory, barriers and bounds of the null device's byte code. */
#include "deploy/runtime/null_run.h"

#include <string.h>

#include "base/macros.h"
#include "tests/support/test.h"

#define THREADS 8

static const uint32_t grid[3] = {2, 1, 1}, group[3] = {THREADS, 1, 1};

/* Each thread puts its element of x into shared memory, waits, and takes that of its mirror image:
 * y[g * 8 + t] = x[g * 8 + 7 - t]. */
static kiln_null_instruction mirror[] = {
    {KILN_NULL_SET, 6, 0, 0, 0, 0},           {KILN_NULL_SET, 7, 0, 0, 0, THREADS - 1},
    {KILN_NULL_ADDRESS, 8, 3, 0, 0, THREADS}, {KILN_NULL_LOAD, 9, 8, 6, 0, 0},
    {KILN_NULL_STORE, 9, 3, 6, 2, 0},         {KILN_NULL_BARRIER, 0, 0, 0, 0, 0},
    {KILN_NULL_ADDRESS, 10, 7, 3, 0, -1},     {KILN_NULL_LOAD, 9, 10, 6, 2, 0},
    {KILN_NULL_STORE, 9, 8, 6, 1, 0},         {KILN_NULL_END, 0, 0, 0, 0, 0},
};
static kiln_null_buffer buffers[] = {{KILN_NULL_ARGUMENT, KILN_I32, 0, 0, 2 * THREADS},
                                     {KILN_NULL_ARGUMENT, KILN_I32, 1, 0, 2 * THREADS},
                                     {KILN_NULL_SHARED, KILN_I32, 0, 0, THREADS}};

static kiln_null_function function(kiln_null_instruction *instruction, uint32_t count) {
    return (kiln_null_function){.name = KILN_STR("f"),
                                .register_count = 11,
                                .shared_bytes = 4 * THREADS,
                                .buffer_count = KILN_ARRAY_COUNT(buffers),
                                .buffer = buffers,
                                .instruction_count = count,
                                .instruction = instruction};
}

static kiln_null_end launch_on(const uint32_t over[3], kiln_null_function *f,
                               const kiln_null_memory *argument, uint64_t *ticks) {
    kiln_null_ready *ready = NULL;
    expect_ok(kiln_null_code_check(&(kiln_null_code){1, f}));
    expect_ok(kiln_null_ready_create(f, group, &ready));
    kiln_null_end end = kiln_null_launch(ready, over, argument, ticks);
    kiln_null_ready_destroy(ready);
    return end;
}

static kiln_null_end launch(kiln_null_function *f, const kiln_null_memory *argument,
                            uint64_t *ticks) {
    return launch_on(grid, f, argument, ticks);
}

static void threads_meet_at_barriers_and_share_memory(void **state) {
    (void)state;
    int32_t x[2 * THREADS], y[2 * THREADS] = {0};
    const kiln_null_memory argument[] = {{x, sizeof x}, {y, sizeof y}};
    kiln_null_function f = function(mirror, KILN_ARRAY_COUNT(mirror));
    uint64_t ticks = 0;
    for (int32_t i = 0; i < 2 * THREADS; i++) x[i] = 100 + i;
    assert_int_equal(kiln_null_argument_count(&f), 2);
    assert_int_equal(launch(&f, argument, &ticks), KILN_NULL_OK);
    for (int32_t i = 0; i < 2 * THREADS; i++)
        assert_int_equal(y[i], 100 + i / THREADS * THREADS + THREADS - 1 - i % THREADS);
    /* Two units take a group each, whose threads run at once. */
    assert_int_equal(ticks, KILN_NULL_TICKS_LAUNCH + KILN_NULL_TICKS_BARRIER +
                                2 * (KILN_NULL_TICKS_STATEMENT + KILN_NULL_TICKS_ARGUMENT +
                                     KILN_NULL_TICKS_SHARED));
}

/* One store by each thread of each group, and as many more as the number of the group. */
static void a_launch_takes_as_long_as_the_unit_with_most_to_do(void **state) {
    (void)state;
    static kiln_null_instruction more[] = {
        {KILN_NULL_SET, 6, 0, 0, 0, 0},    {KILN_NULL_STORE, 3, 6, 6, 2, 0},
        {KILN_NULL_LOOP, 7, 0, 0, 0, 0},   {KILN_NULL_LESS, 8, 7, 0, 0, 0},
        {KILN_NULL_IF, 8, 0, 0, 0, 0},     {KILN_NULL_STORE, 3, 6, 6, 2, 0},
        {KILN_NULL_IF_END, 0, 0, 0, 0, 0}, {KILN_NULL_LOOP_END, 7, 0, 0, 0, 9},
        {KILN_NULL_END, 0, 0, 0, 0, 0},
    };
    int32_t x[2 * THREADS] = {0};
    const kiln_null_memory argument[] = {{x, sizeof x}, {x, sizeof x}};
    const uint32_t over[3] = {KILN_NULL_UNITS + 2, 1, 1};
    kiln_null_function f = function(more, KILN_ARRAY_COUNT(more));
    uint64_t ticks = 0;
    assert_int_equal(launch_on(over, &f, argument, &ticks), KILN_NULL_OK);
    /* The unit of groups 1 and 5: two stores and 1 + 5 more. */
    assert_int_equal(ticks, KILN_NULL_TICKS_LAUNCH +
                                (2 + 1 + 1 + KILN_NULL_UNITS) *
                                    (KILN_NULL_TICKS_STATEMENT + KILN_NULL_TICKS_SHARED));
}

/* Temps between launches lie behind one another in one argument. */
static void a_buffer_may_begin_inside_of_an_argument(void **state) {
    (void)state;
    int32_t memory[3 * THREADS + 1] = {0};
    kiln_null_buffer inside[] = {buffers[0], buffers[1], buffers[2]};
    const kiln_null_memory whole[] = {{memory, sizeof memory - 4}, {memory, sizeof memory}},
                           small[] = {{memory, sizeof memory - 4}, {memory, sizeof memory - 1}};
    kiln_null_function f = function(mirror, KILN_ARRAY_COUNT(mirror));
    uint64_t ticks = 0;
    inside[1].offset = (THREADS + 1) * sizeof(int32_t);
    f.buffer = inside;
    memory[THREADS - 1] = 5;
    assert_int_equal(launch(&f, whole, &ticks), KILN_NULL_OK);
    assert_int_equal(memory[THREADS + 1], 5);
    assert_int_equal(launch(&f, small, &ticks), KILN_NULL_STRAY);
    inside[1].offset++;
    expect_error(kiln_null_code_check(&(kiln_null_code){1, &f}), DATA_LOSS,
                 "outside of its memory");
}

static void an_index_outside_of_its_buffer_ends_the_launch(void **state) {
    (void)state;
    int32_t x[2 * THREADS] = {0}, y[2 * THREADS] = {0};
    const kiln_null_memory argument[] = {{x, sizeof x}, {y, sizeof y}},
                           small[] = {{x, sizeof x}, {y, sizeof y - 1}};
    uint64_t ticks = 0;
    static const int64_t wrong[] = {THREADS + 1, -1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++) {
        kiln_null_instruction copy[KILN_ARRAY_COUNT(mirror)];
        memcpy(copy, mirror, sizeof mirror);
        copy[2].imm = wrong[i];
        kiln_null_function f = function(copy, KILN_ARRAY_COUNT(copy));
        assert_int_equal(launch(&f, argument, &ticks), KILN_NULL_STRAY);
    }
    kiln_null_function f = function(mirror, KILN_ARRAY_COUNT(mirror));
    assert_int_equal(launch(&f, small, &ticks), KILN_NULL_STRAY);
}

static void a_barrier_that_some_threads_miss_ends_the_launch(void **state) {
    (void)state;
    static kiln_null_instruction half[] = {
        {KILN_NULL_IF, 3, 0, 0, 0, 0},
        {KILN_NULL_BARRIER, 0, 0, 0, 0, 0},
        {KILN_NULL_IF_END, 0, 0, 0, 0, 0},
        {KILN_NULL_END, 0, 0, 0, 0, 0},
    };
    static kiln_null_instruction other[] = {
        {KILN_NULL_IF, 3, 0, 0, 0, 0},      {KILN_NULL_BARRIER, 0, 0, 0, 0, 0},
        {KILN_NULL_IF_END, 0, 0, 0, 0, 0},  {KILN_NULL_IF_NOT, 3, 0, 0, 0, 0},
        {KILN_NULL_BARRIER, 0, 0, 0, 0, 0}, {KILN_NULL_IF_END, 0, 0, 0, 0, 0},
        {KILN_NULL_END, 0, 0, 0, 0, 0},
    };
    int32_t x[2 * THREADS] = {0}, y[2 * THREADS] = {0};
    const kiln_null_memory argument[] = {{x, sizeof x}, {y, sizeof y}};
    uint64_t ticks = 0;
    kiln_null_function f = function(half, KILN_ARRAY_COUNT(half));
    assert_int_equal(launch(&f, argument, &ticks), KILN_NULL_DIVERGED);
    f = function(other, KILN_ARRAY_COUNT(other));
    assert_int_equal(launch(&f, argument, &ticks), KILN_NULL_DIVERGED);
}

static void groups_that_need_too_much_are_refused(void **state) {
    (void)state;
    static const uint32_t none[3] = {1, 0, 1}, many[3] = {65536, 65536, 2};
    kiln_null_function f = function(mirror, KILN_ARRAY_COUNT(mirror));
    kiln_null_ready *ready = NULL;
    expect_error(kiln_null_ready_create(&f, none, &ready), DATA_LOSS, "no threads");
    expect_error(kiln_null_ready_create(&f, many, &ready), RESOURCE_EXHAUSTED, "take too much");
    kiln_null_ready_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_meet_at_barriers_and_share_memory),
        cmocka_unit_test(a_launch_takes_as_long_as_the_unit_with_most_to_do),
        cmocka_unit_test(a_buffer_may_begin_inside_of_an_argument),
        cmocka_unit_test(an_index_outside_of_its_buffer_ends_the_launch),
        cmocka_unit_test(a_barrier_that_some_threads_miss_ends_the_launch),
        cmocka_unit_test(groups_that_need_too_much_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
