/* Where values come from and how long they live, of plans whose answers are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macros.h"
#include "deploy/runtime/plan_flow.h"
#include "tests/unit/deploy/fixture.h"

#define NONE KILN_PLAN_NONE

static kiln_arena arena;

static kiln_plan_flow follow(const kiln_module_plan *plan) {
    kiln_plan_flow flow = {0};
    kiln_status st = kiln_module_plan_follow(plan, &arena, &flow);
    if (st) fail_msg("%s", kiln_status_text(st));
    return flow;
}

/* `wanted` ends with NONE. */
static void assert_sources(const kiln_plan_flow *flow, uint32_t step, const uint32_t *wanted) {
    uint32_t count = 0;
    while (wanted[count] != NONE) count++;
    assert_int_equal(flow->step[step].source_count, count);
    for (uint32_t i = 0; i < count; i++) assert_int_equal(flow->step[step].source[i], wanted[i]);
}

static void assert_life(const kiln_plan_flow *flow, uint32_t buffer, uint32_t first,
                        uint32_t last) {
    assert_int_equal(flow->buffer[buffer].first, first);
    assert_int_equal(flow->buffer[buffer].last, last);
}

static uint64_t peak_of(const kiln_plan_flow *flow, uint32_t steps, uint32_t device) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < steps; i++) peak = KILN_MAX(peak, flow->step[i].in_use[device]);
    return peak;
}

static void a_chain_has_its_sources_lives_and_peak(void **state) {
    (void)state;
    const kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    const kiln_plan_flow flow = follow(&plan);
    assert_sources(&flow, 0, (uint32_t[]){NONE});
    assert_sources(&flow, 1, (uint32_t[]){0, NONE});
    assert_sources(&flow, 2, (uint32_t[]){1, NONE});
    assert_sources(&flow, 3, (uint32_t[]){2, NONE}); /* the alias step, not the one that wrote */
    assert_sources(&flow, 4, (uint32_t[]){2, NONE});
    assert_int_equal(flow.buffer[FIXTURE_A1_ALIAS].renamed_by, 2);
    assert_int_equal(flow.buffer[FIXTURE_A1].renamed_by, NONE);
    assert_life(&flow, FIXTURE_X, 0, 0);
    assert_life(&flow, FIXTURE_W1, 0, 4);
    assert_life(&flow, FIXTURE_A0, 0, 1);
    assert_life(&flow, FIXTURE_A1, 1, 4);
    assert_life(&flow, FIXTURE_A1_ALIAS, 1, 4);
    assert_life(&flow, FIXTURE_OUT0, 3, 4);
    assert_life(&flow, FIXTURE_OUT1, 4, 4);
    const uint64_t used[] = {4032, 8064, 4032, 4032, 4032};
    for (uint32_t i = 0; i < plan.step_count; i++) {
        assert_int_equal(flow.step[i].in_use[0], used[i]);
        assert_int_equal(flow.step[i].loop, NONE);
    }
    assert_int_equal(peak_of(&flow, plan.step_count, 0), plan.arena_bytes);
}

static void bytes_of_a_result_over_its_input_count_once(void **state) {
    (void)state;
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    plan.buffer[FIXTURE_A1].offset = 0;
    plan.arena_bytes = 4032;
    const kiln_plan_flow flow = follow(&plan);
    for (uint32_t i = 0; i < plan.step_count; i++)
        assert_int_equal(flow.step[i].in_use[0], plan.arena_bytes);
}

static void what_nobody_uses_has_no_life(void **state) {
    (void)state;
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    uint32_t *arg = (uint32_t *)(uintptr_t)plan.step[3].arg;
    arg[1] = FIXTURE_W0;
    const kiln_plan_flow flow = follow(&plan);
    assert_life(&flow, FIXTURE_W0_AGAIN, NONE, NONE);
    assert_life(&flow, FIXTURE_W0, 0, 4);
}

static void loops_carry_values_to_the_steps_behind_them(void **state) {
    (void)state;
    const kiln_module_plan plan = fixture_loop_plan(&arena);
    const kiln_plan_flow flow = follow(&plan);
    assert_sources(&flow, LOOP_STEP_KERNEL, (uint32_t[]){LOOP_STEP_INIT, NONE});
    assert_sources(&flow, LOOP_STEP_INDEX, (uint32_t[]){LOOP_STEP_LOOP, NONE});
    assert_sources(&flow, LOOP_STEP_CARRY, (uint32_t[]){LOOP_STEP_KERNEL, NONE});
    assert_sources(&flow, LOOP_STEP_SUM, (uint32_t[]){LOOP_STEP_INIT, LOOP_STEP_CARRY, NONE});
    for (uint32_t i = 0; i < LOOP_STEP_COUNT; i++) {
        const bool inside = i > LOOP_STEP_LOOP && i < LOOP_STEP_SUM;
        assert_int_equal(flow.step[i].loop, inside ? LOOP_STEP_LOOP : NONE);
    }
    assert_life(&flow, LOOP_S0, 0, LOOP_STEP_INIT);
    assert_life(&flow, LOOP_X, 0, LOOP_STEP_CARRY); /* needed by every iteration */
    assert_life(&flow, LOOP_X_ROW, 0, LOOP_STEP_CARRY);
    assert_life(&flow, LOOP_Y, LOOP_STEP_LOOP, LOOP_STEP_SUM);
    assert_life(&flow, LOOP_STATE, LOOP_STEP_INIT, LOOP_STEP_SUM);
    assert_life(&flow, LOOP_NEXT, LOOP_STEP_KERNEL, LOOP_STEP_CARRY);
    assert_life(&flow, LOOP_GO, LOOP_STEP_KERNEL, LOOP_STEP_KERNEL);
    assert_life(&flow, LOOP_INDEX, LOOP_STEP_LOOP, LOOP_STEP_INDEX);
    assert_life(&flow, LOOP_SPARE, NONE, NONE);
    const uint64_t used[] = {64, 128, 256, 192, 128, 64}; /* four buffers of one line each */
    for (uint32_t i = 0; i < LOOP_STEP_COUNT; i++)
        assert_int_equal(flow.step[i].in_use[0], used[i]);
}

static void each_device_has_memory_of_its_own(void **state) {
    (void)state;
    const kiln_module_plan plan = fixture_device_plan(&arena);
    const kiln_plan_flow flow = follow(&plan);
    assert_sources(&flow, LOOP_DEVICE_STEP_EVENT, (uint32_t[]){LOOP_DEVICE_STEP_Y, NONE});
    assert_sources(&flow, LOOP_DEVICE_STEP_KERNEL,
                   (uint32_t[]){LOOP_DEVICE_STEP_X, LOOP_DEVICE_STEP_INIT, NONE});
    assert_sources(&flow, LOOP_DEVICE_STEP_Y, (uint32_t[]){LOOP_DEVICE_STEP_KERNEL, NONE});
    assert_int_equal(flow.step[LOOP_DEVICE_STEP_X].in_use[0], 0);
    assert_int_equal(flow.step[LOOP_DEVICE_STEP_X].in_use[1], LOOP_TRIPS * LOOP_ROW_BYTES);
    assert_int_equal(flow.step[LOOP_DEVICE_STEP_LOOP].in_use[0], 64); /* the iteration's number */
    /* x, state, next, go and y: 2 * 5 + 3 lines */
    assert_int_equal(flow.step[LOOP_DEVICE_STEP_KERNEL].in_use[1], 13 * 64);
    assert_true(peak_of(&flow, plan.step_count, 1) <= plan.device[0].arena_bytes);
}

static void a_plan_that_breaks_a_rule_has_no_flow(void **state) {
    (void)state;
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    kiln_plan_flow flow = {0};
    plan.buffer[FIXTURE_A1].offset = 64;
    kiln_status st = kiln_module_plan_follow(&plan, &arena, &flow);
    assert_non_null(st);
    assert_non_null(strstr(kiln_status_text(st), "still needed"));
    assert_null(flow.step);
    kiln_status_free(st);
}

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_has_its_sources_lives_and_peak),
        cmocka_unit_test(bytes_of_a_result_over_its_input_count_once),
        cmocka_unit_test(what_nobody_uses_has_no_life),
        cmocka_unit_test(loops_carry_values_to_the_steps_behind_them),
        cmocka_unit_test(each_device_has_memory_of_its_own),
        cmocka_unit_test(a_plan_that_breaks_a_rule_has_no_flow),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_arena_deinit(&arena);
    return failed;
}
