/* What algorithms build with, private to this folder: sums of products of integers and constant
 * weights, and where new blocks go. */
#ifndef KILN_COMPILER_CORE_ALGORITHM_SUMS_H
#define KILN_COMPILER_CORE_ALGORITHM_SUMS_H

#include "compiler-core/ir/ir.h"

/* Blocks stand in the order of execution: of the new ones, which are the program's last `count`,
 * the last `after` come behind `block` and the others before it. */
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

/* Whether the block is one whose factor `data`, 0 or 1, is the data. */
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
/* Adds a block that gives what the sum gave: its result, which goes to a temp, plus the offset of
 * its weights, in the shape of kiln_sum_weights. */
void kiln_sum_add_offset(kiln_program *p, const kiln_sum *s, kiln_buffer offset);

#endif
