/* Convolutions for accelerators of the VTA class, written by hand: tiles in turn on the parts of
 * one or more virtual threads. What code generation will do, in small. */
#ifndef KILN_TESTS_SUPPORT_VTA_CONV_H
#define KILN_TESTS_SUPPORT_VTA_CONV_H

#include "vta/builder.h"

/* Channels in tiles of the machine. */
typedef struct vta_conv {
    uint32_t height, width, in, out;
    uint32_t kernel, stride, padding; /* of both dimensions */
} vta_conv;

/* The output is cut into parts, which divide it; sums into steps. */
typedef struct vta_conv_cut {
    uint32_t rows, columns, out; /* of a part */
    uint32_t in;                 /* channels of a step */
    uint32_t threads;            /* virtual ones, each with its own part of every memory */
    bool in_turn;                /* threads have whole parts in turn, not a step of each in turn */
    bool out_inside;             /* parts of the same rows and columns come one after the other */
    bool resident;               /* weights and inputs that are there are not loaded again */
} vta_conv_cut;

enum { VTA_CONV_INP = 1, VTA_CONV_WGT, VTA_CONV_BIAS, VTA_CONV_OUT, VTA_CONV_BUFFERS };

uint32_t vta_conv_out_height(const vta_conv *conv);
uint32_t vta_conv_out_width(const vta_conv *conv);
/* Main memory: inputs [in][height][width], weights [out][in][kernel][kernel], bias [out], outputs
 * [out][height][width], tiles all. An output is min(max((sum + bias + 32) >> 6, 0), 127). Errors of
 * the builder, OUT_OF_RANGE where the cut does not fit into the machine. */
kiln_status vta_conv_build(const kiln_vta_config *config, const vta_conv *conv,
                           const vta_conv_cut *cut, kiln_arena *arena, kiln_vta_stream *out_stream);

#endif
