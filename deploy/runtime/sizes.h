/* Runs of a module of several sizes: chooses the bucket for a size, and copies between a caller's
 * tensors and those of a bucket. Used by module.c. The checks of deploy/format.h for such modules
 * are in the same file. */
#ifndef KILN_DEPLOY_RUNTIME_SIZES_H
#define KILN_DEPLOY_RUNTIME_SIZES_H

#include "deploy/format.h"

/* The bucket that runs `size`, which is not above the largest: the one of that size. Else, if rows
 * are independent and all buckets have times, the one with the least time for all parts needed;
 * else the next larger one, padded. */
uint32_t kiln_sizes_choose(const kiln_module_sizes *sizes, int64_t size);

/* A row-major tensor as [outer][extent] rows of row_bytes each; `extent` in units of the size. */
typedef struct kiln_rows {
    uint8_t *data;
    size_t outer, row_bytes;
    int64_t extent;
} kiln_rows;
/* Copies `count` rows of each outer index. The two differ in `data` and `extent` only. */
void kiln_sizes_copy_rows(const kiln_rows *from, int64_t first_from, const kiln_rows *to,
                          int64_t first_to, int64_t count);
/* Sets the rows from `first` on to zero. */
void kiln_sizes_clear_rows(const kiln_rows *in, int64_t first);

#endif
