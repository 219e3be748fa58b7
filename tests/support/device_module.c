#include "tests/support/device_module.h"

#include "base/macros.h"

#define BYTES TEXT_ARTEFACT_BYTES

enum { X, Y, W, AT_X, AT_T, AT_Y };

static void fill_weights(float *w) {
    for (int i = 0; i < TEXT_ARTEFACT_COUNT; i++) w[i] = (float)(i % 17) - 8;
}

static kiln_plan_buffer on_device(uint64_t offset) {
    return (kiln_plan_buffer){
        .storage = KILN_STORAGE_ARENA, .size_bytes = BYTES, .offset = offset, .device = 1};
}

static kiln_plan_port *port(const char *name, uint32_t buffer, kiln_arena *arena) {
    kiln_plan_port *made = KILN_ARENA_NEW(arena, kiln_plan_port);
    *made = (kiln_plan_port){.name = kiln_str_from(name),
                             .dtype = KILN_F32,
                             .shape = {.rank = 1, .dim = {TEXT_ARTEFACT_COUNT}},
                             .buffer = buffer};
    return made;
}

kiln_module_plan device_module_plan(uint32_t kind, const text_artefact *a, kiln_arena *arena) {
    static const uint32_t to[] =
    { X,
      AT_X },
                          first[] = {AT_X, W, AT_T}, second[] = {AT_T, W, AT_Y}, from[] = {AT_Y, Y};
    float *weights = kiln_arena_alloc(arena, BYTES);
    fill_weights(weights);
    const kiln_plan_buffer buffer[] = {
        [X] = {.storage = KILN_STORAGE_INPUT, .size_bytes = BYTES},
        [Y] = {.storage = KILN_STORAGE_OUTPUT, .size_bytes = BYTES},
        [W] = {.storage = KILN_STORAGE_CONSTANT, .size_bytes = BYTES, .data = weights, .device = 1},
        [AT_X] = on_device(0),
        [AT_T] = on_device(BYTES),
        [AT_Y] = on_device(0),
    };
    const kiln_plan_step step[DEVICE_MODULE_STEPS] = {
        {.action = KILN_ACTION_COPY, .device = 1, .arg_count = 2, .output_count = 1, .arg = to},
        {.action = KILN_ACTION_KERNEL,
         .device = 1,
         .arg_count = 3,
         .output_count = 1,
         .arg = first},
        {.action = KILN_ACTION_KERNEL,
         .device = 1,
         .arg_count = 3,
         .output_count = 1,
         .arg = second},
        {.action = KILN_ACTION_COPY, .device = 1, .arg_count = 2, .output_count = 1, .arg = from},
        {.action = KILN_ACTION_EVENT, .device = 1, .after = DEVICE_MODULE_COPY_Y},
    };
    kiln_plan_device *device = KILN_ARENA_NEW(arena, kiln_plan_device);
    kiln_str *kernel = KILN_ARENA_NEW(arena, kiln_str);
    *device = (kiln_plan_device){.kind = kind, .arena_bytes = 2 * BYTES};
    *kernel = text_artefact_encode(a, arena);
    return (kiln_module_plan) {
        .input_count = 1, .output_count = 1, .kernel_count = 1,
        .buffer_count = KILN_ARRAY_COUNT(buffer), .step_count = KILN_ARRAY_COUNT(step),
        .input = port("x", X, arena), .output = port("y", Y, arena), .kernel = kernel,
        .buffer = kiln_arena_copy(arena, buffer, sizeof buffer),
        .step = kiln_arena_copy(arena, step, sizeof step), .threads = 1, .device_count = 1,
        .device = device
    };
}

void device_module_expected(const float *x, float *y) {
    float w[TEXT_ARTEFACT_COUNT], between[TEXT_ARTEFACT_COUNT];
    fill_weights(w);
    text_artefact_expected(x, w, between);
    text_artefact_expected(between, w, y);
}
