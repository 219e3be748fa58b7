/* Fuzzes the module reader. Checksums are made right first, so that what lies behind them is
 * reached; kernels are checked, never called. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/status.h"
#include "deploy/runtime/kernel.h"
#include "deploy/runtime/module_read.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/module_seal.h"

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
    }
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    kiln_free(copy);
    return 0;
}
