/* Which cut of a convolution a machine runs in the fewest cycles, and what no cut can beat. For
 * searches of hardware and benchmarks, until a machine is tuned by the compiler. */
#ifndef KILN_VTA_SEARCH_CUT_H
#define KILN_VTA_SEARCH_CUT_H

#include "vta/csim.h"
#include "vta/search/conv.h"

/* Cycles that any schedule of a convolution needs at least; all: the largest of what applies. */
typedef struct kiln_vta_bound {
    double gemm;    /* a step of each tile of sums, inputs and weights */
    double compute; /* what the compute engine does: gemm and the passes over results, or the longer
                       of both where the ALU is an engine of its own */
    double memory;  /* every byte of inputs, weights and results moved once, as channels share it */
    double all;
} kiln_vta_bound;

typedef struct kiln_vta_cut_time {
    kiln_vta_conv_cut cut;
    double estimate; /* cycles */
    kiln_vta_timing timing;
    uint32_t instructions;
    uint64_t stream_bytes; /* of instructions and micro-ops */
    uint64_t no_ops;
} kiln_vta_cut_time;

kiln_vta_bound kiln_vta_conv_bound(const kiln_vta_config *config, const kiln_vta_conv *conv);
/* Cycles that the cut takes, without a stream: what engines and channels do, and what of it does
 * not overlap. Infinite where the cut does not fit into the machine. */
double kiln_vta_cut_estimate(const kiln_vta_config *config, const kiln_vta_conv *conv,
                             const kiln_vta_conv_cut *cut);
/* No more than the estimate, and without its steps: what each engine and the channel do at least.
 */
double kiln_vta_cut_least(const kiln_vta_config *config, const kiln_vta_conv *conv,
                          const kiln_vta_conv_cut *cut);
/* The cut with `threads` virtual threads that takes the fewest cycles by the cycle simulator, of
 * the `simulate_count` (at least 1) of all cuts with the best estimates. NOT_FOUND: no cut fits
 * into the machine. */
KILN_MUST_USE kiln_status kiln_vta_cut_search(const kiln_vta_config *config,
                                              const kiln_vta_conv *conv, uint32_t threads,
                                              uint32_t simulate_count, kiln_vta_cut_time *out_best);

#endif
