/* The kernel of the board's self-check for accelerators of the VTA class, made for the machine that
 * a target names: y = (x w) >> KILN_GOLDEN_VTA_SHIFT, summed over KILN_GOLDEN_VTA_TILES tiles of x
 * and w. The output is one tile, so it fits any machine; all engines are used. For golden.c. */
#ifndef KILN_RPC_SERVER_GOLDEN_VTA_H
#define KILN_RPC_SERVER_GOLDEN_VTA_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "base/vta_config.h"

#define KILN_GOLDEN_VTA_TILES 2u
#define KILN_GOLDEN_VTA_SHIFT 4

typedef struct kiln_golden_vta {
    uint64_t x_bytes, w_bytes, y_bytes; /* of the arguments, in this order */
    kiln_str code;                      /* a program (vta/program.h), in the arena */
} kiln_golden_vta;

/* Errors of vta/builder.h; there are none for machines that a target can name. */
KILN_MUST_USE kiln_status kiln_golden_vta_make(const kiln_vta_config *config, kiln_arena *arena,
                                               kiln_golden_vta *out_golden);
/* Computes the kernel's reference in plain C. */
void kiln_golden_vta_compute(const kiln_vta_config *config, const uint8_t *x, const uint8_t *w,
                             uint8_t *out_y);

#endif
