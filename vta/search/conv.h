/* Convolutions for accelerators of the VTA class, from a cut into tiles to a stream, without a
 * compiler: tiles in sequence on the parts of one or more virtual threads. For searches of
 * hardware, which time some thousand machines, and for benchmarks. */
#ifndef KILN_VTA_SEARCH_CONV_H
#define KILN_VTA_SEARCH_CONV_H

#include "vta/builder.h"

/* Operations of a pass over results: bias, which also rounds, shift, and both bounds of a byte. */
#define KILN_VTA_CONV_OPERATIONS 4u
/* Places of inputs, or weights, of steps. */
#define KILN_VTA_CONV_PLACES_MAX 64u

/* Channels in tiles of the machine. */
typedef struct kiln_vta_conv {
    uint32_t height, width, in, out;
    uint32_t kernel, stride, padding; /* of both dimensions */
} kiln_vta_conv;

/* The output is cut into parts, which divide it; sums into steps. The inputs and weights of each
 * step rotate through their places, and are not loaded if they are there already. */
typedef struct kiln_vta_conv_cut {
    uint32_t rows, columns, out;     /* of a part */
    uint32_t in;                     /* channels of a step */
    uint32_t threads;                /* virtual threads: parts in progress at once */
    uint32_t inp_places, wgt_places; /* places of a memory; equal unless in_turn */
    bool in_turn;                    /* threads alternate after whole parts, not after each step */
    bool out_inside; /* parts of the same rows and columns come one after the other */
} kiln_vta_conv_cut;

enum {
    KILN_VTA_CONV_INP = 1,
    KILN_VTA_CONV_WGT,
    KILN_VTA_CONV_BIAS,
    KILN_VTA_CONV_OUT,
    KILN_VTA_CONV_BUFFERS
};

uint32_t kiln_vta_conv_out_height(const kiln_vta_conv *conv);
uint32_t kiln_vta_conv_out_width(const kiln_vta_conv *conv);
/* Distance of loaded rows in the image: a kernel of 1x1 skips those between. */
uint32_t kiln_vta_conv_row_step(const kiln_vta_conv *conv);
/* Rows of inputs that `rows` of outputs need. */
uint32_t kiln_vta_conv_in_rows(const kiln_vta_conv *conv, uint32_t rows);
/* Parts of results that the accumulators hold. */
uint32_t kiln_vta_conv_acc_places(const kiln_vta_config *config, const kiln_vta_conv_cut *cut);
/* Tiles from one of them to the next. If the ALU is an engine it does not wait for GEMM in another
 * quarter of the accumulators (vta/rtl/vta_acc.v), so parts and the bias are in different
 * quarters. */
uint32_t kiln_vta_conv_acc_stride(const kiln_vta_config *config, const kiln_vta_conv_cut *cut);
/* Main memory: inputs [in][height][width], weights [out][in][kernel][kernel], bias [out], outputs
 * [out][height][width], tiles all. An output is min(max((sum + bias) >> 6, 0), 127). Errors of
 * the builder, OUT_OF_RANGE: the cut does not fit into the machine. */
kiln_status kiln_vta_conv_build(const kiln_vta_config *config, const kiln_vta_conv *conv,
                                const kiln_vta_conv_cut *cut, kiln_arena *arena,
                                kiln_vta_stream *out_stream);

#endif
