/* Tiles of instructions of warps and of warp groups: shared by gpu_warp.c, gpu_warp_nest.c and
 * gpu_warp_sizes.c. Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_GPU_WARP_H
#define KILN_COMPILER_CORE_RULES_GPU_WARP_H

#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/rules/gpu.h"

/* Columns of the table of tiles: warps and pieces along each iterator, and the swizzle (ways, and
 * rows between exchanges) of an operand with contiguous columns. For warp groups: groups instead of
 * warps, and eights of the instruction's columns as pieces along them.
 */
enum { KILN_GPU_WARP_WAYS = 2 * KILN_GPU_TILED_MAX, KILN_GPU_WARP_STEP, KILN_GPU_WARP_COLUMNS };
/* Columns of the table of steps: a block of k, the swizzle as above of operands with contiguous
 * steps, stages of the pipeline, whether extra threads fetch for it, and how (`producer`). */
enum {
    KILN_GPU_WARP_BLOCK,
    KILN_GPU_WARP_K_WAYS,
    KILN_GPU_WARP_K_STEP,
    KILN_GPU_WARP_STAGES,
    KILN_GPU_WARP_PRODUCER,
    KILN_GPU_WARP_STEP_COLUMNS
};
#define KILN_GPU_WARP_STEPS_MAX 24
#define KILN_GPU_WARP_UNIT_BYTES 16 /* bytes of a row that ldmatrix reads */

typedef struct kiln_gpu_warp_tiling {
    kiln_gpu_tiling t; /* rows: threads are warps, points a warp's part of an iterator */
    const kiln_intrinsic *mma;
    int64_t unit[KILN_GPU_TILED_MAX];   /* iterations that an instruction, or a piece, takes */
    int k_dim[KILN_GPU_COPIES_MAX];     /* of the operand, along k */
    int tile_dim[KILN_GPU_COPIES_MAX];  /* the same along rows, or columns */
    bool k_inside[KILN_GPU_COPIES_MAX]; /* steps are contiguous in shared memory, */
    bool lies_so[KILN_GPU_COPIES_MAX];  /* the operand in memory has the same order */
    bool packed[KILN_GPU_COPIES_MAX];   /* a constant that is packed in this order first */
    bool gathered[KILN_GPU_COPIES_MAX]; /* by a block that writes it to the group's shared memory */
    bool slides[KILN_GPU_COPIES_MAX];   /* read by windows: rows are padded, units not swizzled */
    bool boxes;      /* of warp groups: operands may be boxes, if tiles divide them */
    bool stretches;  /* of warp groups: columns are contiguous, 64 in a row */
    double cycles;   /* estimated for the preferred tile and steps, */
    double resident; /* and groups of them on a unit at once */
    double turns;    /* stretches in which its groups wait for single loads of long copies */
    uint32_t step_count, preferred_step;
    int64_t step[KILN_GPU_WARP_STEPS_MAX][KILN_GPU_WARP_STEP_COLUMNS];
} kiln_gpu_warp_tiling;

static inline bool kiln_gpu_warp_is_grouped(const kiln_gpu_warp_tiling *w) {
    return w->mma->owner == KILN_INTRINSIC_GROUP;
}

/* gpu_warp_sizes.c: chooses tables of tiles (t.row) and of steps, all pairs of which are within the
 * limits, and the width of fetches. NULL, or the limit that no pair meets. */
const char *kiln_gpu_warp_choose_sizes(kiln_gpu_warp_tiling *w);
/* The number of steps in a block is a multiple of this: an instruction's steps, for warp groups a
 * row of shared memory.
 */
int64_t kiln_gpu_warp_unit_steps(const kiln_intrinsic *in);
/* Ways and rows between exchanges for which eight rows of 16 bytes lie in different banks. */
void kiln_gpu_warp_exchange(int64_t row_bytes, int64_t *out_ways, int64_t *out_step);

/* gpu_warp_nest.c: makes the nest of one product after its sizes are chosen. NULL, or why there is
 * none. */
const char *kiln_gpu_warp_block(kiln_gpu_warp_tiling *w);

#endif
