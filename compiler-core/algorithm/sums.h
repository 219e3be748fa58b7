/* Helpers of algorithms, private to this folder: sums of products of integers and constant weights,
 * and the place of new blocks. */
#ifndef KILN_COMPILER_CORE_ALGORITHM_SUMS_H
#define KILN_COMPILER_CORE_ALGORITHM_SUMS_H

#include "compiler-core/ir/ir.h"

/* Moves the program's last `count` blocks, which are new, to their place in the order of execution:
 * the last `after` of them behind `block`, the others before it. */
void kiln_blocks_put_around(kiln_program *p, kiln_block block, uint32_t count, uint32_t after);

/* The buffer that a load reads. */
const kiln_buffer_info *kiln_loaded(const kiln_program *p, kiln_expr load);

/* A sum in i32 of data times constant weights, each product with a weight of its own. */
typedef struct kiln_sum {
    kiln_block block;
    kiln_expr data, weights; /* loads of narrower integers */
    /* [rank of the weights] the sum's dimension with the same index; -1: it is summed up */
    int dim_of[KILN_RANK_MAX];
} kiln_sum;

/* Whether the block is such a sum with factor `data`, 0 or 1, as the data. */
bool kiln_sum_find(const kiln_program *p, kiln_block block, uint32_t data, kiln_sum *out);
/* A new block that writes a new temp; both named after the sum. */
kiln_block kiln_sum_begin(kiln_program *p, const kiln_sum *s, const char *suffix, kiln_dtype dtype,
                          const kiln_shape *shape, kiln_buffer *out_to);
/* Its iterator for dimension `d`. */
kiln_expr kiln_sum_add_iter(kiln_program *p, kiln_block block, uint32_t d, int64_t extent,
                            bool reduce);
/* Adds a block that sums up the weights, into the shape of the weights with 1 for what is summed.
 */
kiln_buffer kiln_sum_weights(kiln_program *p, const kiln_sum *s);
/* Redirects the sum to a temp and adds a block that writes the old result: the temp plus the offset
 * of the weights, in the shape of kiln_sum_weights. */
void kiln_sum_add_offset(kiln_program *p, const kiln_sum *s, kiln_buffer offset);

#endif
