/* From what a contained child left behind to the outcome of its trial. Pure. The child may lie:
 * every number is bounded by what this side saw, and the outputs are compared here. */
#ifndef KILN_RPC_SERVER_VERDICT_H
#define KILN_RPC_SERVER_VERDICT_H

#include "base/arena.h"
#include "base/gpu.h"
#include "base/manifest.h"
#include "base/reference.h"
#include "proto/proto.h"
#include "rpc-server/timing.h"

/* A kernel that is faster than this many times the measured peak has not done its work. The peak is
 * the best of many short rounds; the margin is for a clock that rises later. */
#define KILN_VERDICT_PEAK_MARGIN 1.2
/* What the child says it timed may exceed the time that its parent saw pass by this much. */
#define KILN_VERDICT_CLOCK_SLACK_NS UINT64_C(20000000)

typedef struct kiln_evidence {
    const kiln_manifest *manifest;
    const kiln_msg_policy *policy;
    const kiln_reference
        *reference;           /* NULL: the executor's outputs are not real and are not compared */
    const char *first, *last; /* outputs after the first and the last call, as executors write them;
                                 of a kernel that was raced out only the first are looked at */
    const kiln_timing *timing; /* the child's word */
    bool exact;                /* one run was checked, and its time counted: not one that passed */
    double race_ns;            /* bound above which the kernel may have been stopped; 0: none */
    uint64_t elapsed_ns;       /* from start to end of the child, as its parent saw it */
    double peak_flops;         /* of all cores that the kernel may use; 0: unknown */
    const kiln_gpu *gpu;       /* the device, whose peak takes its place; NULL: none */
    const double
        *gpu_flops; /* [KILN_DTYPE_COUNT], measured there (rpc-server/reference_kernel_device.h) */
} kiln_evidence;

/* What a device cannot exceed with such operands: what its row says, or more where more of them was
 * measured (`measured`: [KILN_DTYPE_COUNT], 0: not). A device whose row knows no rates has what was
 * measured, of a type without a kernel as much as its width makes of f32. 0: unknown. */
double kiln_verdict_gpu_peak(const kiln_gpu *gpu, const double *measured,
                             const kiln_manifest *manifest);

/* Fills outcome, blame, samples, runs, stop, errors, checked and text of `*result`. Lists and text
 * in `arena`. */
void kiln_verdict_of(const kiln_evidence *evidence, kiln_arena *arena,
                     kiln_msg_trial_result *result);

#endif
