/* The plans of a module of several sizes as one plan: the steps of each size in sequence, over
 * shared kernels and constants. For forms of a module whose addresses are fixed when they are
 * written (wasm_module.c, static_c.c). Works for a single size, too. */
#ifndef KILN_DEPLOY_PACK_FLATTEN_H
#define KILN_DEPLOY_PACK_FLATTEN_H

#include "base/arena.h"
#include "deploy/format.h"

/* A size, as a part of the whole. */
typedef struct kiln_flat_bucket {
    int64_t size; /* as those of kiln_module_bucket */
    uint64_t median_ns;
    kiln_plan_port *input, *output; /* their buffers are those of the flat plan */
    uint32_t first_step, step_count;
} kiln_flat_bucket;

typedef struct kiln_flat {
    kiln_module_plan plan; /* ports and metadata are those of the first size; arena_bytes is the
                              largest, as one size runs at a time */
    uint32_t bucket_count;
    kiln_flat_bucket *bucket; /* [bucket_count] in the order of the sizes */
} kiln_flat;

/* Kernels and constants with equal bytes are stored once. `*out_flat` is in `arena` and refers to
 * the bytes of `sizes`, whose plans are valid (kiln_module_sizes_check) and use no further
 * device. */
void kiln_flatten(const kiln_module_sizes *sizes, kiln_arena *arena, kiln_flat *out_flat);

#endif
