/* Decides the outcome of a trial from its contained child's report and outputs. Pure. The child may
 * lie: its numbers are checked against what the parent saw, and the outputs are compared here. */
#ifndef KILN_RPC_SERVER_VERDICT_H
#define KILN_RPC_SERVER_VERDICT_H

#include "base/arena.h"
#include "base/gpu.h"
#include "base/manifest.h"
#include "base/reference.h"
#include "proto/proto.h"
#include "rpc-server/timing.h"

/* A kernel that exceeds the measured peak by more than this factor did not do its work. The peak is
 * the best of many short rounds; the margin is for a clock that rises later. */
#define KILN_VERDICT_PEAK_MARGIN 1.2
/* The child's times may exceed the time that its parent saw pass by this much. */
#define KILN_VERDICT_CLOCK_SLACK_NS UINT64_C(20000000)

typedef struct kiln_evidence {
    const kiln_manifest *manifest;
    const kiln_msg_policy *policy;
    const kiln_reference
        *reference;           /* NULL: the executor's outputs are not real and are not compared */
    const char *first, *last; /* outputs after the first and the last call, as executors write them;
                                 of a kernel that was raced out only the first are compared */
    const kiln_timing *timing; /* the child's report */
    bool exact;                /* one run whose time was counted by a simulator, not measured */
    double race_ns;            /* a slower kernel may have been stopped early; 0: none may */
    uint64_t elapsed_ns;       /* life of the child as measured by its parent */
    double peak_flops;         /* of all cores that the kernel may use; 0: unknown */
    const kiln_gpu *gpu;       /* device, whose peak replaces peak_flops; NULL: none */
    const double
        *gpu_flops; /* [KILN_DTYPE_COUNT], measured on it (rpc-server/reference_kernel_device.h) */
} kiln_evidence;

/* Operations per second that a device cannot exceed with the manifest's operands: the larger of its
 * row's rate and the measured one (`measured`: [KILN_DTYPE_COUNT], 0: not measured). If the row has
 * no rates, a type that was not measured gets f32's rate scaled by its width. 0: unknown. */
double kiln_verdict_gpu_peak(const kiln_gpu *gpu, const double *measured,
                             const kiln_manifest *manifest);

/* Fills outcome, blame, samples, runs, stop, errors, checked and text of `*result`. Lists and text
 * in `arena`. */
void kiln_verdict_of(const kiln_evidence *evidence, kiln_arena *arena,
                     kiln_msg_trial_result *result);

#endif
