/* Fuzzes the reader of reference blobs: every view lies inside of the bytes. */
#include "base/check.h"
#include "base/reference.h"
#include "tests/fuzz/fuzz.h"

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena = {0};
    const char *bytes = kiln_arena_copy(&arena, data, size);
    kiln_reference reference;
    kiln_status st = kiln_reference_decode((kiln_str){bytes, size}, &reference);
    for (uint32_t i = 0; !st && i < reference.output_count; i++) {
        const kiln_reference_output *output = &reference.output[i];
        size_t count = (size_t)kiln_shape_count(&output->shape);
        const char *end = (const char *)output->value + count * kiln_dtype_size(output->dtype);
        KILN_CHECK((const char *)output->value >= bytes && end <= bytes + size);
        if (output->bound) KILN_CHECK((const char *)(output->bound + count) <= bytes + size);
    }
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return 0;
}
