/* Tiles of instructions of warps and of warp groups: what gpu_warp.c, gpu_warp_nest.c and
 * gpu_warp_sizes.c share. Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_GPU_WARP_H
#define KILN_COMPILER_CORE_RULES_GPU_WARP_H

#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/rules/gpu.h"

/* Columns of the table of tiles: warps and pieces along each iterator, and of what the units of an
 * operand exchange whose columns lie behind one another: ways, and rows between exchanges. Of warp
 * groups: groups in place of warps, and eights of the instruction's columns as pieces along them.
 */
enum { KILN_GPU_WARP_WAYS = 2 * KILN_GPU_TILED_MAX, KILN_GPU_WARP_STEP, KILN_GPU_WARP_COLUMNS };
/* Columns of the table of steps: a block of k, ways and rows as above of operands whose steps lie
 * behind one another, stages of the pipeline, whether threads of their own fetch for it. */
enum {
    KILN_GPU_WARP_BLOCK,
    KILN_GPU_WARP_K_WAYS,
    KILN_GPU_WARP_K_STEP,
    KILN_GPU_WARP_STAGES,
    KILN_GPU_WARP_PRODUCER,
    KILN_GPU_WARP_STEP_COLUMNS
};
#define KILN_GPU_WARP_STEPS_MAX 16
#define KILN_GPU_WARP_UNIT_BYTES 16 /* that ldmatrix reads of a row */

typedef struct kiln_gpu_warp_tiling {
    kiln_gpu_tiling t; /* rows: threads are warps, points what a warp has of an iterator */
    const kiln_intrinsic *mma;
    int64_t unit[KILN_GPU_TILED_MAX];   /* what an instruction, or a piece, takes of an iterator */
    int k_dim[KILN_GPU_COPIES_MAX];     /* of the operand, along k */
    int tile_dim[KILN_GPU_COPIES_MAX];  /* the same along rows, or columns */
    bool k_inside[KILN_GPU_COPIES_MAX]; /* steps lie behind one another in shared memory, */
    bool lies_so[KILN_GPU_COPIES_MAX];  /* as they do, or columns, in the operand */
    bool packed[KILN_GPU_COPIES_MAX];   /* a constant that is packed so first */
    bool gathered[KILN_GPU_COPIES_MAX]; /* by a block that writes it where the group keeps it */
    bool slides[KILN_GPU_COPIES_MAX];   /* read by windows: rows apart, no units exchanged */
    bool stretches;  /* of warp groups: columns lie behind one another, 64 in a row */
    double cycles;   /* of the preferred tile and steps, about, */
    double resident; /* and groups of them on a unit at once */
    double turns;    /* that its groups wait beside, for single loads of long copies */
    uint32_t step_count, preferred_step;
    int64_t step[KILN_GPU_WARP_STEPS_MAX][KILN_GPU_WARP_STEP_COLUMNS];
} kiln_gpu_warp_tiling;

static inline bool kiln_gpu_warp_is_grouped(const kiln_gpu_warp_tiling *w) {
    return w->mma->owner == KILN_INTRINSIC_GROUP;
}

/* gpu_warp_sizes.c: tables of tiles (t.row) and of steps, all of which go together within the
 * limits, and how wide the operands are fetched. NULL, or the limit that leaves none. */
const char *kiln_gpu_warp_choose_sizes(kiln_gpu_warp_tiling *w);
/* Steps that a block has a multiple of: an instruction's, for warp groups a row of shared memory.
 */
int64_t kiln_gpu_warp_unit_steps(const kiln_intrinsic *in);
/* Ways and rows between exchanges for which eight rows of 16 bytes lie in different banks. */
void kiln_gpu_warp_exchange(int64_t row_bytes, int64_t *out_ways, int64_t *out_step);

/* gpu_warp_nest.c: the nest of one product, whose sizes are chosen. NULL, or why there is none. */
const char *kiln_gpu_warp_block(kiln_gpu_warp_tiling *w);

#endif
