/* Where inputs and outputs may lie on a device. */
#include "deploy/runtime/port_link.h"

#include "deploy/runtime/device.h"
#include "tests/support/device_module.h"
#include "tests/support/test.h"

/* Of tests/support/device_module.c. */
enum { X, Y, W, AT_X, AT_T, AT_Y, BUFFERS };

static kiln_module_plan plan_of(kiln_arena *arena) {
    return device_module_plan(
        KILN_DEVICE_CUDA, &(text_artefact){.kind = KILN_PAYLOAD_PTX, .target = "h200", .text = ""},
        arena);
}

static void expect_link(const kiln_port_link *link, uint32_t device, uint32_t stand_in,
                        uint32_t copy) {
    assert_int_equal(link->device, device);
    assert_int_equal(link->stand_in, stand_in);
    assert_int_equal(link->copy, copy);
}

static void expect(const kiln_module_plan *plan, kiln_port_link in, kiln_port_link out,
                   kiln_arena *arena) {
    kiln_port_link *input, *output;
    kiln_port_links_find(plan, arena, &input, &output);
    expect_link(&input[0], in.device, in.stand_in, in.copy);
    expect_link(&output[0], out.device, out.stand_in, out.copy);
}

static const kiln_port_link in_place = {1, AT_X, DEVICE_MODULE_COPY_X},
                            out_place = {1, AT_Y, DEVICE_MODULE_COPY_Y},
                            copied = {1, KILN_PLAN_NONE, KILN_PLAN_NONE},
                            of_host = {0, KILN_PLAN_NONE, KILN_PLAN_NONE};

static void copies_at_the_ends_can_be_left_out(void **state) {
    const kiln_module_plan plan = plan_of(*state);
    expect(&plan, in_place, out_place, *state);
}

/* What the processor reads or writes too must be in its memory. */
static void ports_that_the_host_uses_stay_there(void **state) {
    kiln_module_plan plan = plan_of(*state);
    static const uint32_t by_host[] = { X, W, AT_T };
    const kiln_plan_step kernel = plan.step[DEVICE_MODULE_FIRST];
    plan.step[DEVICE_MODULE_FIRST].arg = by_host;
    expect(&plan, of_host, out_place, *state);
    plan.step[DEVICE_MODULE_FIRST] = kernel;
    plan.step[DEVICE_MODULE_WAIT] = (kiln_plan_step){.action = KILN_ACTION_LOOP,
                                                     .trip_max = 1,
                                                     .count = KILN_PLAN_NONE,
                                                     .condition = KILN_PLAN_NONE,
                                                     .index = Y};
    expect(&plan, in_place, of_host, *state);
    plan.step[DEVICE_MODULE_COPY_Y].device = 0;
    expect(&plan, in_place, of_host, *state);
}

/* A second writer would write into the caller's input. */
static void buffers_with_other_writers_do_not_stand_in(void **state) {
    kiln_module_plan plan = plan_of(*state);
    static const uint32_t again[] = {AT_T, AT_X};
    plan.step[DEVICE_MODULE_WAIT] = (kiln_plan_step){
        .action = KILN_ACTION_CARRY, .device = 1, .arg_count = 2, .output_count = 1, .arg = again};
    expect(&plan, copied, out_place, *state);
}

static void parts_and_bodies_are_copied(void **state) {
    kiln_module_plan plan = plan_of(*state);
    plan.buffer[AT_X] = (kiln_plan_buffer) {
        .storage = KILN_STORAGE_ALIAS, .size_bytes = plan.buffer[X].size_bytes, .source = AT_Y,
        .device = 1
    };
    plan.buffer[AT_Y].size_bytes *= 2;
    expect(&plan, copied, copied, *state);
    plan = plan_of(*state);
    plan.buffer[AT_T] = (kiln_plan_buffer){
        .storage = KILN_STORAGE_ALIAS, .size_bytes = 64, .offset = 64, .source = AT_Y, .device = 1};
    expect(&plan, in_place, copied, *state); /* a handle cannot begin inside of another */
    plan = plan_of(*state);
    plan.step[DEVICE_MODULE_SECOND] = (kiln_plan_step){.action = KILN_ACTION_LOOP,
                                                       .body_count = 1,
                                                       .trip_max = 2,
                                                       .count = KILN_PLAN_NONE,
                                                       .condition = KILN_PLAN_NONE,
                                                       .index = KILN_PLAN_NONE};
    expect(&plan, in_place, copied, *state);
}

/* An input that is an output as well: one of the two is copied. */
static void no_two_ports_share_a_stand_in(void **state) {
    kiln_module_plan plan = plan_of(*state);
    static const uint32_t from[] = {AT_X, Y};
    plan.step[DEVICE_MODULE_COPY_Y].arg = from;
    expect(&plan, in_place, copied, *state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(copies_at_the_ends_can_be_left_out),
        test_with_arena(ports_that_the_host_uses_stay_there),
        test_with_arena(buffers_with_other_writers_do_not_stand_in),
        test_with_arena(parts_and_bodies_are_copied),
        test_with_arena(no_two_ports_share_a_stand_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
