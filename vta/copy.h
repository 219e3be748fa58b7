/* Copies of any number of dimensions between main memory and the machine, as instructions that have
 * two. For vta/builder.c. */
#ifndef KILN_VTA_COPY_H
#define KILN_VTA_COPY_H

#include "base/arena.h"
#include "base/vec.h"
#include "vta/isa.h"

#define KILN_VTA_COPY_DIMS_MAX 6u

/* A dimension of a copy: `extent` parts, `stride` tiles of main memory apart, with zeros around. */
typedef struct kiln_vta_copy_dim {
    uint32_t extent, stride; /* extent 0: no parts, so that the whole copy is zeros */
    uint32_t before, behind; /* parts of zeros; of a store 0 */
} kiln_vta_copy_dim;

/* A copy between main memory and the machine, where it is dense: [before + extent + behind] of each
 * dimension, row-major. */
typedef struct kiln_vta_copy {
    uint32_t memory;               /* kiln_vta_memory; OUT: a store */
    uint32_t buffer;               /* of kiln_vta_builder_buffer */
    uint32_t sram_base, dram_base; /* tiles; dram_base from the beginning of the buffer */
    bool saturate;                 /* of a store */
    uint32_t dim_count;            /* 0: one tile */
    kiln_vta_copy_dim dim[KILN_VTA_COPY_DIMS_MAX]; /* outermost first */
} kiln_vta_copy;

typedef KILN_VEC(kiln_vta_instruction) kiln_vta_moves;

/* Appends LOADs or STOREs in the order of the machine's memory, as few as their fields allow. No
 * dimension of a store may be empty, and all tiles must be inside their memories. */
void kiln_vta_copy_split(const kiln_vta_copy *copy, kiln_arena *arena, kiln_vta_moves *moves);

#endif
