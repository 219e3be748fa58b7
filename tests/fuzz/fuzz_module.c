/* Fuzzes the module reader. Checksums are made right first, so that what lies behind them is
 * reached; kernels are checked, never called. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/integer.h"
#include "base/kernel_abi.h"
#include "base/status.h"
#include "deploy/runtime/kernel.h"
#include "deploy/runtime/module_read.h"
#include "deploy/runtime/plan_flow.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/module_seal.h"

/* What the flow of a plan promises, whatever the plan is. */
static void check_flow(const kiln_module_plan *plan, kiln_arena *arena) {
    kiln_plan_flow flow = {0};
    kiln_status st = kiln_module_plan_follow(plan, arena, &flow);
    KILN_CHECK(!st); /* decoding has checked the plan by the same rules */
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const kiln_plan_step_flow *step = &flow.step[i];
        const bool is_noted = step->source_count != KILN_PLAN_NONE;
        for (uint32_t k = 0; is_noted && k < step->source_count; k++) {
            KILN_CHECK(step->source[k] < i);
            KILN_CHECK(k == 0 || step->source[k - 1] < step->source[k]);
        }
        KILN_CHECK(step->in_use[0] <= KILN_ALIGN_UP(plan->arena_bytes, KILN_KERNEL_ALIGNMENT));
        KILN_CHECK(step->loop == KILN_PLAN_NONE || step->loop < i);
        for (uint32_t k = 0; k < plan->step[i].arg_count; k++) {
            const kiln_plan_buffer_flow *used = &flow.buffer[plan->step[i].arg[k]];
            KILN_CHECK(used->first == KILN_PLAN_NONE || used->first <= i);
            KILN_CHECK(used->last == KILN_PLAN_NONE || used->last >= i);
        }
    }
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    uint8_t *copy = kiln_alloc_aligned(KILN_MODULE_CONSTANT_ALIGNMENT, size + 1);
    memcpy(copy, data, size);
    module_seal(copy, size);
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_module_sizes sizes;
    size_t constant_bytes;
    kiln_status st =
        kiln_module_decode((kiln_str){(const char *)copy, size}, &arena, &sizes, &constant_bytes);
    for (uint32_t b = 0; !st && b < sizes.bucket_count; b++) {
        const kiln_module_plan *plan = &sizes.bucket[b].plan;
        for (uint32_t i = 0; !st && i < plan->kernel_count; i++)
            st = kiln_kernel_check(plan->kernel[i]);
        check_flow(plan, &arena);
    }
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    kiln_free(copy);
    return 0;
}
