/* Finds the cut of a convolution that a machine runs in the fewest cycles, and lower bounds for all
 * cuts. For searches of hardware and benchmarks, until a machine is tuned by the compiler. */
#ifndef KILN_VTA_SEARCH_CUT_H
#define KILN_VTA_SEARCH_CUT_H

#include "vta/csim.h"
#include "vta/search/conv.h"

/* Lower bounds in cycles for any schedule of a convolution; `all`: the largest that applies. */
typedef struct kiln_vta_bound {
    double gemm;    /* a step of each tile of sums, inputs and weights */
    double compute; /* work of the compute engine: gemm and the passes over results, or the longer
                     * of both if the ALU is a separate engine */
    double memory;  /* every byte of inputs, weights and results moved once, divided among
                     * channels */
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
/* Estimated cycles of the cut, without a stream, from the work of engines and channels and its
 * overlap. Infinite if the cut does not fit into the machine. */
double kiln_vta_cut_estimate(const kiln_vta_config *config, const kiln_vta_conv *conv,
                             const kiln_vta_conv_cut *cut);
/* A lower bound of the estimate, without its steps, from the least work of each engine and the
 * channel.
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
