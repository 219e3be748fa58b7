/* Convolutions as texts of loop programs for accelerators of the VTA class, in the form that
 * lowering hands to the back end (compiler-core/codegen/vta_calls.h) but for virtual threads and
 * allocations, which lowering makes. */
#ifndef KILN_TESTS_SUPPORT_VTA_CONV_H
#define KILN_TESTS_SUPPORT_VTA_CONV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vta_config.h"

/* Channels in tiles of the machine. */
typedef struct vta_conv {
    uint32_t height, width, in, out;
    uint32_t kernel, stride, padding; /* of both dimensions */
} vta_conv;

/* The output is cut into parts, which divide it; sums into steps. */
typedef struct vta_conv_cut {
    uint32_t rows, columns, out; /* of a part */
    uint32_t in;                 /* channels of a step */
    uint32_t threads;            /* virtual ones, or with `in_turn` stages of a pipeline */
    bool in_turn;                /* parts come one after the other, not a step of each in turn */
    bool out_inside;             /* parts of the same rows and columns come one after the other */
} vta_conv_cut;

uint32_t vta_conv_out_height(const vta_conv *conv);
uint32_t vta_conv_out_width(const vta_conv *conv);
/* Arguments x [in][height][width], w [out][in][kernel][kernel], bias [out], y [out][out height][out
 * width], tiles all. An output is min(max((sum + bias + 32) >> 6, 0), 127). In `arena`. */
const char *vta_conv_text(const kiln_vta_config *config, const vta_conv *conv,
                          const vta_conv_cut *cut, kiln_arena *arena);

#endif
