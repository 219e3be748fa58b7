/* The time of a candidate predicted without any measurement, good enough to rank thousands of
 * traces: work on the vector ports, latency of the accumulators, loads and stores, loop overhead,
 * and the traffic between each pair of cache levels, each from the target's table.
 *
 * Source: the roofline model, with the footprint analysis of Roller (OSDI'22) per loop and level.
 */
#ifndef KILN_COMPILER_CORE_COST_ANALYTIC_H
#define KILN_COMPILER_CORE_COST_ANALYTIC_H

#include "compiler-core/cost/features.h"

/* Predicted nanoseconds, at a nominal clock: ratios count, not the value. It is one of the exact
 * features, so this costs nothing. */
double kiln_analytic_ns(const float *features);
/* Whether the register buffers fit the target's registers as far as can be told before lowering:
 * lowering refuses what does not. */
bool kiln_analytic_fits(const float *features);

#endif
