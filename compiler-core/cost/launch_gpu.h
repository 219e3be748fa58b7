/* The groups of a launch that a unit holds at once, and the time that the launch takes, from what
 * estimate_gpu.c counted of it. Private to cost/. */
#ifndef KILN_COMPILER_CORE_COST_LAUNCH_GPU_H
#define KILN_COMPILER_CORE_COST_LAUNCH_GPU_H

#include "compiler-core/cost/estimate_gpu.h"

/* Cycles from a request of device memory to its data, as others have measured them on A100 and
 * H100. */
#define KILN_GPU_DEVICE_LATENCY 600.0
#define KILN_GPU_SHARED_LATENCY 30.0 /* the same of shared memory */

/* Fills registers, occupancy, limit and waves from threads, shared bytes and what threads hold. */
void kiln_gpu_launch_hold(const kiln_target *target, kiln_gpu_launch *l);
/* Fills ns, the terms and the bound. Adds the instructions with which every kernel begins. */
void kiln_gpu_launch_finish(const kiln_target *target, kiln_gpu_launch *l);

#endif
