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

static kiln_null_end launch(kiln_null_function *f, const kiln_null_memory *argument,
                            uint64_t *statements) {
    kiln_null_ready *ready = NULL;
    expect_ok(kiln_null_code_check(&(kiln_null_code){1, f}));
    expect_ok(kiln_null_ready_create(f, group, &ready));
    kiln_null_end end = kiln_null_launch(ready, grid, argument, statements);
    kiln_null_ready_destroy(ready);
    return end;
}

static void threads_meet_at_barriers_and_share_memory(void **state) {
    (void)state;
    int32_t x[2 * THREADS], y[2 * THREADS] = {0};
    const kiln_null_memory argument[] = {{x, sizeof x}, {y, sizeof y}};
    kiln_null_function f = function(mirror, KILN_ARRAY_COUNT(mirror));
    uint64_t statements = 0;
    for (int32_t i = 0; i < 2 * THREADS; i++) x[i] = 100 + i;
    assert_int_equal(kiln_null_argument_count(&f), 2);
    assert_int_equal(launch(&f, argument, &statements), KILN_NULL_OK);
    for (int32_t i = 0; i < 2 * THREADS; i++)
        assert_int_equal(y[i], 100 + i / THREADS * THREADS + THREADS - 1 - i % THREADS);
    assert_int_equal(statements, 2 * 2 * THREADS);
}

static void an_index_outside_of_its_buffer_ends_the_launch(void **state) {
    (void)state;
    int32_t x[2 * THREADS] = {0}, y[2 * THREADS] = {0};
    const kiln_null_memory argument[] = {{x, sizeof x}, {y, sizeof y}},
                           small[] = {{x, sizeof x}, {y, sizeof y - 1}};
    uint64_t statements = 0;
    static const int64_t wrong[] = {THREADS + 1, -1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++) {
        kiln_null_instruction copy[KILN_ARRAY_COUNT(mirror)];
        memcpy(copy, mirror, sizeof mirror);
        copy[2].imm = wrong[i];
        kiln_null_function f = function(copy, KILN_ARRAY_COUNT(copy));
        assert_int_equal(launch(&f, argument, &statements), KILN_NULL_STRAY);
    }
    kiln_null_function f = function(mirror, KILN_ARRAY_COUNT(mirror));
    assert_int_equal(launch(&f, small, &statements), KILN_NULL_STRAY);
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
    uint64_t statements = 0;
    kiln_null_function f = function(half, KILN_ARRAY_COUNT(half));
    assert_int_equal(launch(&f, argument, &statements), KILN_NULL_DIVERGED);
    f = function(other, KILN_ARRAY_COUNT(other));
    assert_int_equal(launch(&f, argument, &statements), KILN_NULL_DIVERGED);
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
        cmocka_unit_test(an_index_outside_of_its_buffer_ends_the_launch),
        cmocka_unit_test(a_barrier_that_some_threads_miss_ends_the_launch),
        cmocka_unit_test(groups_that_need_too_much_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
