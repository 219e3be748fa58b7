/* A loop's module moved to a device, here a second handle on the processor with memory of its own.
 */
#include <string.h>

#include "deploy/module.h"
#include "deploy/pack/module_write.h"
#include "deploy/pack/packer.h"
#include "deploy/pack/places.h"
#include "deploy/runtime/device.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"
#include "tests/unit/deploy/fixture.h"

/* fixture_loop_plan without the numbers of iterations, as pack has it before loops have numbers. */
static kiln_packer packer_of(kiln_arena *arena, kiln_module_plan *plan) {
    kiln_packer p = {.graph = KILN_ARENA_NEW(arena, kiln_graph),
                     .arena = arena,
                     .device_kind = KILN_DEVICE_CPU,
                     .alignment = 256};
    *plan = fixture_loop_plan(arena);
    plan->output_count = 2;
    plan->buffer[LOOP_IDX] = plan->buffer[LOOP_INDEX] = plan->buffer[LOOP_IDX_ROW] =
        plan->buffer[LOOP_SPARE];
    for (uint32_t i = 0; i < plan->buffer_count; i++)
        kiln_vec_push_in(arena, &p.buffer, plan->buffer[i]);
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (i != LOOP_STEP_INDEX) kiln_packer_add_step(&p, plan->step[i]);
    kiln_plan_step *loop = &p.level[0].data[LOOP_STEP_LOOP];
    loop->index = KILN_PLAN_NONE;
    loop->body_count--;
    loop->kernel = LOOP_STEP_LOOP; /* by this the rows know it */
    p.plan.step_count = LOOP_STEP_LOOP + 1;
    for (uint32_t i = 0; i < plan->kernel_count; i++) {
        kiln_vec_push_in(arena, &p.kernel, plan->kernel[i]);
        kiln_vec_push_in(arena, &p.on_host, false);
    }
    return p;
}

static kiln_module_plan finished(kiln_packer *p, const kiln_module_plan *from,
                                 kiln_plan_device *device) {
    static uint32_t none[5];
    static uint32_t *const in_place[] = {none};
    kiln_packer_number_loops(p);
    const kiln_places places = {.buffer = p->buffer.data,
                                .buffer_count = p->buffer.count,
                                .step = p->level[0].data,
                                .step_count = p->level[0].count,
                                .in_place = in_place,
                                .reuse = true,
                                .device = 1,
                                .alignment = p->alignment};
    *device = (kiln_plan_device){.kind = p->device_kind,
                                 .arena_bytes = kiln_places_find(&places, p->arena).arena_bytes};
    kiln_module_plan plan = *from;
    plan.buffer = p->buffer.data;
    plan.buffer_count = p->buffer.count;
    plan.step = p->level[0].data;
    plan.step_count = p->level[0].count;
    plan.arena_bytes = 0;
    plan.device = device;
    plan.device_count = 1;
    return plan;
}

static void everything_but_inputs_and_outputs_moves(void **state) {
    kiln_module_plan from;
    kiln_plan_device device;
    kiln_packer p = packer_of(*state, &from);
    kiln_packer_move_to_device(&p);
    kiln_module_plan plan = finished(&p, &from, &device);
    for (uint32_t i = 0; i < plan.buffer_count; i++) {
        kiln_module_storage storage = plan.buffer[i].storage;
        bool port = storage == KILN_STORAGE_INPUT || storage == KILN_STORAGE_OUTPUT;
        assert_int_equal(plan.buffer[i].device, !port);
        if (storage == KILN_STORAGE_ARENA) assert_int_equal(plan.buffer[i].offset % 256, 0);
    }
    assert_int_equal(plan.step[0].action, KILN_ACTION_COPY);
    assert_int_equal(plan.step[plan.step_count - 1].action, KILN_ACTION_EVENT);
    expect_ok(kiln_module_plan_check(&plan));
}

static void what_moved_computes_the_same(void **state) {
    kiln_module_plan from;
    kiln_plan_device device;
    kiln_strbuf bytes = {0};
    kiln_packer p = packer_of(*state, &from);
    kiln_packer_move_to_device(&p);
    kiln_module_plan plan = finished(&p, &from, &device);
    expect_ok(kiln_module_encode(&plan, &bytes));
    void *aligned = kiln_arena_alloc_aligned(*state, KILN_MODULE_SECTION_ALIGNMENT, bytes.size);
    memcpy(aligned, bytes.data, bytes.size);
    kiln_module *module = NULL;
    char error[KILN_MODULE_ERROR_BYTES] = "";
    if (kiln_module_open_memory(aligned, bytes.size, NULL, &module, error, sizeof error))
        fail_msg("%s", error);
    float x[LOOP_TRIPS][LOOP_ROW], first[LOOP_ROW], y[LOOP_TRIPS][LOOP_ROW], sum[LOOP_ROW];
    for (int i = 0; i < LOOP_ROW; i++) {
        first[i] = (float)i;
        for (int t = 0; t < LOOP_TRIPS; t++) x[t][i] = (float)(t + 1);
    }
    for (int again = 0; again < 2; again++) {
        memset(y, 0xff, sizeof y);
        if (kiln_module_run(module, (const void *[]){x, first}, (void *[]){y, sum}))
            fail_msg("%s", kiln_module_error(module));
        for (int i = 0; i < LOOP_ROW; i++) {
            for (int t = 0; t < LOOP_TRIPS; t++)
                assert_true(y[t][i] == 2.0f * (float)(i + (t + 1) * (t + 2) / 2));
            assert_true(sum[i] == (float)(i + 15));
        }
    }
    kiln_module_close(module);
    kiln_strbuf_deinit(&bytes);
}

static void what_only_moves_bytes_stays_on_the_processor(void **state) {
    kiln_module_plan from;
    kiln_packer p = packer_of(*state, &from);
    p.kernel.count = 0;
    const uint32_t buffers = p.buffer.count;
    kiln_packer_move_to_device(&p);
    assert_int_equal(p.device_kind, 0);
    assert_int_equal(p.buffer.count, buffers);
}

static void the_target_says_where_its_kernels_run(void **state) {
    kiln_target cpu = plain_target(*state);
    const kiln_pack_options options = {0}, as_c = {.as_c = true};
    kiln_packer p = {.target = &cpu, .options = &options};
    kiln_packer_find_device(&p);
    assert_true(p.device_kind == 0 && p.alignment == KILN_KERNEL_ALIGNMENT);
    for (uint32_t i = 0; i < kiln_device_row_count(); i++) {
        const kiln_device_row *row = kiln_device_row_at(i);
        kiln_target target = cpu;
        for (uint32_t kind = 0; kind < KILN_TARGET_KIND_COUNT; kind++)
            if (kiln_payload_of((kiln_target_kind)kind) == row->payload)
                target.kind = (kiln_target_kind)kind;
        p = (kiln_packer){.target = &target, .options = &options};
        kiln_packer_find_device(&p);
        bool host = row->memory == KILN_MEMORY_HOST;
        assert_int_equal(p.device_kind, host ? 0 : row->kind);
        assert_int_equal(p.alignment, kiln_memory_row_of(row->memory)->alignment);
        p = (kiln_packer){.target = &target, .options = &as_c};
        kiln_packer_find_device(&p);
        assert_int_equal(p.device_kind, 0);
    }
}

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        test_with_arena(everything_but_inputs_and_outputs_moves),
        test_with_arena(what_moved_computes_the_same),
        test_with_arena(what_only_moves_bytes_stays_on_the_processor),
        test_with_arena(the_target_says_where_its_kernels_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
