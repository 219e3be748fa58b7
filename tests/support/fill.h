/* Data of a program's argument as boards make them. */
#ifndef KILN_TESTS_SUPPORT_FILL_H
#define KILN_TESTS_SUPPORT_FILL_H

#include "compiler-core/ir/ir.h"

static inline void fill_buffer(const kiln_buffer_info *b, uint64_t seed, void *data) {
    const size_t count = (size_t)kiln_shape_count(&b->shape);
    if (b->range.step)
        kiln_fill_range(data, b->dtype, count, seed, &b->range);
    else
        kiln_fill_data(data, b->dtype, count, seed, b->fill);
}

#endif
