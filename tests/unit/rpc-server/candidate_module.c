/* Modules of one planted candidate: y = 2 * w * x, or what the candidate does instead. */
#include "deploy/pack/module_write.h"
#include "tests/unit/rpc-server/candidates.h"

#define BYTES (CANDIDATE_ELEMENTS * sizeof(float))

float candidate_weight(size_t index) { return 0.5f * (float)(index % 7); }

void candidate_module(kiln_str artefact, const char *path) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    float *w = kiln_arena_alloc(&arena, BYTES);
    for (size_t i = 0; i < CANDIDATE_ELEMENTS; i++) w[i] = candidate_weight(i);
    kiln_plan_buffer buffer[] = {
        {.storage = KILN_STORAGE_INPUT, .size_bytes = BYTES},
        {.storage = KILN_STORAGE_CONSTANT, .size_bytes = BYTES, .data = w},
        {.storage = KILN_STORAGE_OUTPUT, .size_bytes = BYTES},
    };
    const uint32_t arg[] = {0, 1, 2};
    kiln_plan_step step = {.action = KILN_ACTION_KERNEL,
                           .name = KILN_STR("scale"),
                           .op = KILN_STR("mul"),
                           .task = KILN_STR("t"),
                           .arg_count = 3,
                           .output_count = 1,
                           .arg = arg};
    const kiln_shape shape = {.rank = 1, .dim = {CANDIDATE_ELEMENTS}};
    kiln_plan_port input = {KILN_STR("x"), KILN_F32, shape, 0};
    kiln_plan_port output = {KILN_STR("y"), KILN_F32, shape, 2};
    kiln_plan_pair target = {KILN_STR("target"), candidate_target(&arena)};
    const kiln_module_plan plan = {.metadata_count = 1,
                                   .metadata = &target,
                                   .input_count = 1,
                                   .output_count = 1,
                                   .kernel_count = 1,
                                   .buffer_count = KILN_ARRAY_COUNT(buffer),
                                   .step_count = 1,
                                   .input = &input,
                                   .output = &output,
                                   .kernel = &artefact,
                                   .buffer = buffer,
                                   .step = &step,
                                   .threads = 1};
    expect_ok(kiln_module_write(&plan, path));
    kiln_arena_deinit(&arena);
}
