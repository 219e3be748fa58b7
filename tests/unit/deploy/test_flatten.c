/* Plans of several sizes as one: what is shared, and that every number finds what it found before.
 */
#include "deploy/pack/flatten.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/deploy/fixture.h"

static int set_up(void **state) {
    static kiln_arena arena;
    kiln_arena_init(&arena, 0);
    *state = &arena;
    return 0;
}

static int tear_down(void **state) {
    kiln_arena_deinit(*state);
    return 0;
}

/* Two sizes whose plans are equal but for the memory of their values. */
static kiln_flat flat_of(kiln_arena *arena, kiln_module_plan plan, uint64_t second_arena_bytes) {
    kiln_module_bucket *bucket = KILN_ARENA_ARRAY(arena, kiln_module_bucket, 2);
    bucket[0] = (kiln_module_bucket){2, 50, plan};
    bucket[1] = (kiln_module_bucket){5, 70, plan};
    bucket[1].plan.arena_bytes = second_arena_bytes;
    const kiln_module_sizes sizes = {KILN_STR("n"), false, 2, bucket};
    kiln_flat flat;
    kiln_flatten(&sizes, arena, &flat);
    return flat;
}

static void kernels_and_constants_of_equal_bytes_are_there_once(void **state) {
    const kiln_module_plan plan = fixture_plan(*state, "kernel_static.o");
    const kiln_flat flat = flat_of(*state, plan, plan.arena_bytes + 64);
    uint32_t constants = 0;
    for (uint32_t i = 0; i < flat.plan.buffer_count; i++)
        constants += flat.plan.buffer[i].storage == KILN_STORAGE_CONSTANT;
    assert_int_equal(flat.plan.kernel_count, plan.kernel_count);
    assert_int_equal(constants, 2); /* one of the three is a copy */
    assert_int_equal(flat.plan.arena_bytes, plan.arena_bytes + 64);
    assert_int_equal(flat.bucket_count, 2);
    assert_int_equal(flat.bucket[1].size, 5);
    assert_int_equal(flat.bucket[1].median_ns, 70);
}

/* Each buffer of a step of either size is like that of the plan it came from. */
static void expect_like(const kiln_flat *flat, uint32_t index, const kiln_module_plan *plan) {
    const kiln_flat_bucket *bucket = &flat->bucket[index];
    assert_int_equal(bucket->step_count, plan->step_count);
    assert_int_equal(bucket->first_step, index * plan->step_count);
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const kiln_plan_step *step = &flat->plan.step[bucket->first_step + s];
        assert_int_equal(step->action, plan->step[s].action);
        for (uint32_t i = 0; i < step->arg_count; i++) {
            const kiln_plan_buffer *is = &flat->plan.buffer[step->arg[i]],
                                   *was = &plan->buffer[plan->step[s].arg[i]];
            assert_int_equal(is->storage, was->storage);
            assert_int_equal(is->size_bytes, was->size_bytes);
            assert_int_equal(is->offset, was->offset);
            if (was->storage == KILN_STORAGE_CONSTANT)
                assert_memory_equal(is->data, was->data, was->size_bytes);
            if (was->storage == KILN_STORAGE_ALIAS)
                assert_int_equal(flat->plan.buffer[is->source].storage,
                                 plan->buffer[was->source].storage);
            if (was->stride) assert_int_equal(is->loop, bucket->first_step + was->loop);
        }
    }
    for (uint32_t i = 0; i < plan->output_count; i++) {
        const kiln_plan_buffer *buffer = &flat->plan.buffer[bucket->output[i].buffer];
        assert_int_equal(buffer->storage, KILN_STORAGE_OUTPUT);
        assert_int_equal(buffer->source, i);
    }
}

static void numbers_find_what_they_found_before(void **state) {
    const kiln_module_plan plan[] = {fixture_plan(*state, "kernel_static.o"),
                                     fixture_loop_plan(*state)};
    for (uint32_t i = 0; i < 2; i++) {
        const kiln_flat flat = flat_of(*state, plan[i], plan[i].arena_bytes);
        expect_like(&flat, 0, &plan[i]);
        expect_like(&flat, 1, &plan[i]);
    }
}

static void conditions_and_indices_of_loops_stay_theirs(void **state) {
    const kiln_module_plan plan = fixture_loop_plan(*state);
    const kiln_flat flat = flat_of(*state, plan, plan.arena_bytes);
    const kiln_plan_step *was = &plan.step[LOOP_STEP_LOOP],
                         *is = &flat.plan.step[plan.step_count + LOOP_STEP_LOOP];
    assert_int_equal(is->count, was->count); /* there is none */
    assert_int_equal(flat.plan.buffer[is->index].size_bytes, plan.buffer[was->index].size_bytes);
    assert_int_not_equal(is->index, was->index);
}

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_and_constants_of_equal_bytes_are_there_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(numbers_find_what_they_found_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(conditions_and_indices_of_loops_stay_theirs, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
