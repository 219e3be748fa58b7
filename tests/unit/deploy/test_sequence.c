/* Which steps a device is told of at once. */
#include "deploy/runtime/sequence.h"

#include "base/macros.h"
#include "deploy/runtime/device.h"
#include "tests/support/device_module.h"
#include "tests/support/test.h"

static const uint32_t two = 2, one = 1;

static kiln_module_plan plan_of(kiln_arena *arena) {
    return device_module_plan(
        KILN_DEVICE_CUDA, &(text_artefact){.kind = KILN_PAYLOAD_PTX, .target = "h200", .text = ""},
        arena);
}

/* Of a plan whose only event is behind step `event`; "first-end" of each, with its device. */
static void expect(const kiln_module_plan *plan, const uint32_t *launches, uint32_t event,
                   const char *text, kiln_arena *arena) {
    bool *has_event = KILN_ARENA_ARRAY(arena, bool, plan->step_count);
    kiln_strbuf got = {0};
    kiln_sequence *sequence;
    if (event < plan->step_count) has_event[event] = true;
    const uint32_t count = kiln_sequences_find(plan, launches, has_event, arena, &sequence);
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(&got, "%s%u:%u-%u", i ? " " : "", sequence[i].device, sequence[i].begin,
                           sequence[i].end);
    expect_str(kiln_strbuf_view(&got), text);
    kiln_strbuf_deinit(&got);
}

static void kernels_between_copies_are_one(void **state) {
    const kiln_module_plan plan = plan_of(*state);
    expect(&plan, &two, DEVICE_MODULE_COPY_Y, "1:1-3", *state);
    expect(&plan, &one, DEVICE_MODULE_COPY_Y, "1:1-3", *state);
}

/* What is recorded behind a step must find the steps before it done. */
static void an_event_ends_a_sequence(void **state) {
    const kiln_module_plan plan = plan_of(*state);
    expect(&plan, &two, DEVICE_MODULE_FIRST, "1:1-2 1:2-3", *state);
    expect(&plan, &one, DEVICE_MODULE_FIRST, "", *state); /* one launch each is not worth it */
}

static void copies_within_the_device_and_aliases_belong_to_it(void **state) {
    kiln_module_plan plan = plan_of(*state);
    static const uint32_t within[] = {3, 4};
    plan.step[DEVICE_MODULE_FIRST] = (kiln_plan_step){
        .action = KILN_ACTION_COPY, .device = 1, .arg_count = 2, .output_count = 1, .arg = within};
    expect(&plan, &one, KILN_PLAN_NONE, "1:1-3", *state);
    plan.step[DEVICE_MODULE_FIRST].action = KILN_ACTION_ALIAS;
    expect(&plan, &two, KILN_PLAN_NONE, "1:2-3", *state);
    plan.step[DEVICE_MODULE_FIRST].action = KILN_ACTION_CARRY;
    expect(&plan, &one, KILN_PLAN_NONE, "1:1-3", *state);
}

static void the_processors_steps_and_other_devices_end_it(void **state) {
    kiln_module_plan plan = plan_of(*state);
    kiln_plan_buffer other[6];
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(other); i++) other[i] = plan.buffer[i];
    plan.step[DEVICE_MODULE_SECOND].device = 2;
    plan.buffer = other;
    expect(&plan, &two, KILN_PLAN_NONE, "1:1-2", *state); /* the other one reads device 1 */
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(other); i++) other[i].device = 2;
    plan.step[DEVICE_MODULE_FIRST].device = 2;
    expect(&plan, &two, KILN_PLAN_NONE, "2:1-3", *state);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(other); i++) other[i].device = 0;
    plan.step[DEVICE_MODULE_FIRST].device = plan.step[DEVICE_MODULE_SECOND].device = 0;
    expect(&plan, &two, KILN_PLAN_NONE, "", *state);
}

/* A body is repeated without what follows it; what moves with its iterations is never the same. */
static void bodies_are_recorded_apart_and_strided_steps_never(void **state) {
    kiln_module_plan plan = plan_of(*state);
    plan.step[DEVICE_MODULE_COPY_X] =
        (kiln_plan_step){.action = KILN_ACTION_LOOP, .body_count = 1, .trip_max = 3};
    expect(&plan, &two, KILN_PLAN_NONE, "1:1-2 1:2-3", *state);
    plan.step[DEVICE_MODULE_COPY_X].body_count = 2;
    expect(&plan, &two, KILN_PLAN_NONE, "1:1-3", *state);
    plan.buffer[5].stride = 64; /* the second kernel's result */
    expect(&plan, &two, KILN_PLAN_NONE, "1:1-2", *state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(kernels_between_copies_are_one),
        test_with_arena(an_event_ends_a_sequence),
        test_with_arena(copies_within_the_device_and_aliases_belong_to_it),
        test_with_arena(the_processors_steps_and_other_devices_end_it),
        test_with_arena(bodies_are_recorded_apart_and_strided_steps_never),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
