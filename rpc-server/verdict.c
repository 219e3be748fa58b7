#include "rpc-server/verdict.h"

#include <math.h>
#include <string.h>

#include "base/kernel_abi.h"
#include "base/layout.h"
#include "base/macros.h"
#include "base/stats.h"
#include "rpc-server/executor.h"

static void refuse(kiln_msg_trial_result *result, kiln_outcome outcome, kiln_blame blame,
                   const char *text) {
    result->outcome = outcome;
    result->blame = blame;
    result->text = kiln_str_from(text);
}

/* NULL, or why these times cannot have passed while the child lived. */
static const char *outlives(const kiln_timing *timing, uint64_t elapsed_ns) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < timing->sample_count; i++) {
        if (timing->sample_ns[i] > elapsed_ns + KILN_VERDICT_CLOCK_SLACK_NS)
            return "a sample longer than its life";
        total += timing->sample_ns[i]; /* at most 1024 times the child's life: no overflow */
    }
    return total > elapsed_ns + KILN_VERDICT_CLOCK_SLACK_NS ? "samples longer than its life" : NULL;
}

/* NULL, or why no honest child can report this. */
static const char *impossible(const kiln_evidence *evidence) {
    const kiln_timing *timing = evidence->timing;
    const kiln_msg_policy *policy = evidence->policy;
    const bool raced = timing->stop == KILN_STOP_RACED;
    uint32_t most = KILN_MIN(policy->samples_max, KILN_TIMING_SAMPLES_MAX);
    uint32_t least = evidence->exact ? 1 : KILN_MAX(KILN_MIN(policy->samples_min, most), 1);
    if (timing->sample_count < (raced ? 1 : least) || timing->sample_count > most)
        return "a number of samples that was not asked for";
    if (timing->runs == 0) return "samples of no run";
    if (timing->stop == KILN_STOP_NONE || timing->stop > KILN_STOP_RACED)
        return "no reason to have stopped";
    if (raced && !kiln_timing_is_raced(timing, evidence->race_ns))
        return "a lost race that it did not lose";
    for (uint32_t i = 0; i < timing->sample_count; i++)
        if (timing->sample_ns[i] == 0) return "a sample of no time";
    /* A simulator counts cycles, which may be more time than it took. */
    return evidence->exact ? NULL : outlives(timing, evidence->elapsed_ns);
}

static double median_run_ns(const kiln_timing *timing) {
    double sample[KILN_TIMING_SAMPLES_MAX];
    for (uint32_t i = 0; i < timing->sample_count; i++) sample[i] = (double)timing->sample_ns[i];
    return kiln_stats_median(sample, timing->sample_count) / timing->runs;
}

/* Whether the reference belongs to this artefact's task: same outputs in the same order. */
static bool reference_fits(const kiln_manifest *manifest, const kiln_reference *reference) {
    uint32_t output = 0;
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        const kiln_manifest_arg *arg = &manifest->arg[i];
        if (arg->role != KILN_ROLE_OUTPUT) continue;
        if (output == reference->output_count) return false;
        const kiln_reference_output *expected = &reference->output[output++];
        if (expected->dtype != arg->dtype || !kiln_shape_equal(&expected->shape, &arg->shape))
            return false;
    }
    return output == reference->output_count;
}

static const char *describe_mismatch(const kiln_manifest_arg *arg,
                                     const kiln_reference_check *check, const char *when,
                                     kiln_arena *arena) {
    return kiln_arena_printf(
        arena,
        "output %.*s %s: %llu of %lld elements are wrong; the worst is element %llu: %.9g "
        "instead of %.9g (bound %.3g)",
        KILN_STR_ARG(arg->name), when, (unsigned long long)check->mismatch_count,
        (long long)kiln_shape_count(&arg->shape), (unsigned long long)check->worst_index,
        check->worst_actual, check->worst_expected, check->worst_bound);
}

/* Compares all outputs of one call. Stops at the first that is wrong. */
static void compare_outputs(const kiln_evidence *evidence, const char *outputs, const char *when,
                            kiln_arena *arena, kiln_msg_trial_result *result) {
    const kiln_manifest *manifest = evidence->manifest;
    uint32_t output = 0;
    for (uint32_t i = 0; i < manifest->arg_count && result->outcome == KILN_OUTCOME_OK; i++) {
        const kiln_manifest_arg *arg = &manifest->arg[i];
        if (arg->role != KILN_ROLE_OUTPUT) continue;
        const void *actual = outputs;
        if (!kiln_layout_is_identity(&arg->layout)) {
            size_t bytes = (size_t)kiln_shape_count(&arg->shape) * kiln_dtype_size(arg->dtype);
            void *row_major = kiln_arena_alloc_aligned(arena, KILN_KERNEL_ALIGNMENT, bytes);
            kiln_layout_unpack(&arg->layout, &arg->shape, arg->dtype, outputs, row_major);
            actual = row_major;
        }
        kiln_reference_check check = kiln_reference_compare(&evidence->reference->output[output++],
                                                            actual, manifest->error_factor);
        if (check.mismatch_count > 0)
            refuse(result, KILN_OUTCOME_WRONG_RESULT, KILN_BLAME_CANDIDATE,
                   describe_mismatch(arg, &check, when, arena));
        /* The message carries finite numbers only. */
        if (isfinite(check.error)) result->error = fmax(result->error, check.error);
        if (isfinite(check.max_abs_error))
            result->max_abs_error = fmax(result->max_abs_error, check.max_abs_error);
        if (isfinite(check.max_abs_error) && check.magnitude > 0)
            result->relative_error =
                fmax(result->relative_error, check.max_abs_error / check.magnitude);
        outputs += (kiln_executor_arg_bytes(arg) + KILN_KERNEL_ALIGNMENT - 1) /
                   KILN_KERNEL_ALIGNMENT * KILN_KERNEL_ALIGNMENT;
    }
}

static void check_outputs(const kiln_evidence *evidence, kiln_arena *arena,
                          kiln_msg_trial_result *result) {
    if (!reference_fits(evidence->manifest, evidence->reference)) {
        refuse(result, KILN_OUTCOME_INFRA, KILN_BLAME_CLIENT,
               "the reference blob is not one of this artefact's task");
        return;
    }
    result->checked = true;
    compare_outputs(evidence, evidence->first, "after the first call", arena, result);
    if (evidence->timing->stop == KILN_STOP_RACED) return;
    /* Most kernels write the same bytes again, padding included; then the verdict is the same. */
    const size_t bytes =
        (size_t)kiln_executor_output_bytes(evidence->manifest); /* fits: they are mapped */
    if (memcmp(evidence->first, evidence->last, bytes) == 0) return;
    compare_outputs(evidence, evidence->last, "after the last timed call", arena, result);
}

/* Operations per f32 operation of the peak: a multiply-add instruction takes four bytes or two
 * halves in place of one float (VPDPBUSD, SDOT, VPMADDWD, VDPBF16PS). */
static double density(const kiln_manifest *manifest) {
    size_t narrowest = sizeof(float);
    for (uint32_t i = 0; i < manifest->arg_count; i++)
        if (manifest->arg[i].role != KILN_ROLE_OUTPUT)
            narrowest = KILN_MIN(narrowest, kiln_dtype_size(manifest->arg[i].dtype));
    return (double)sizeof(float) / (double)narrowest;
}

static double gpu_peak_of(const kiln_gpu *gpu, const double *measured, kiln_dtype dtype) {
    const double stated = kiln_gpu_peak_flops(gpu, dtype);
    double own = measured[dtype];
    if (own <= 0 && kiln_gpu_peak_flops(gpu, KILN_DTYPE_NONE) <= 0)
        own = measured[KILN_F32] * (double)sizeof(float) / (double)kiln_dtype_size(dtype);
    return KILN_MAX(stated, own);
}

double kiln_verdict_gpu_peak(const kiln_gpu *gpu, const double *measured,
                             const kiln_manifest *manifest) {
    double peak = 0;
    for (uint32_t i = 0; i < manifest->arg_count; i++)
        if (manifest->arg[i].role != KILN_ROLE_OUTPUT)
            peak = KILN_MAX(peak, gpu_peak_of(gpu, measured, manifest->arg[i].dtype));
    return peak;
}

void kiln_verdict_of(const kiln_evidence *evidence, kiln_arena *arena,
                     kiln_msg_trial_result *result) {
    result->outcome = KILN_OUTCOME_OK;
    result->blame = KILN_BLAME_NONE;
    const char *reason = impossible(evidence);
    if (reason) {
        refuse(result, KILN_OUTCOME_CRASH, KILN_BLAME_CANDIDATE,
               kiln_arena_printf(arena, "the child reports %s: the candidate damaged it", reason));
        return;
    }
    const kiln_timing *timing = evidence->timing;
    result->stop = timing->stop;
    result->runs = timing->runs;
    result->samples_ns.count = timing->sample_count;
    result->samples_ns.item = kiln_arena_copy(arena, timing->sample_ns,
                                              sizeof timing->sample_ns[0] * timing->sample_count);
    if (evidence->reference) check_outputs(evidence, arena, result);

    const double own_peak =
        evidence->gpu
            ? kiln_verdict_gpu_peak(evidence->gpu, evidence->gpu_flops, evidence->manifest)
            : evidence->peak_flops * density(evidence->manifest);
    const double peak_flops = own_peak * KILN_VERDICT_PEAK_MARGIN;
    double least_ns = peak_flops > 0 ? evidence->manifest->executed_flops / peak_flops * 1e9 : 0;
    double median_ns = median_run_ns(timing);
    if (result->outcome == KILN_OUTCOME_OK && evidence->reference && median_ns < least_ns)
        refuse(result, KILN_OUTCOME_WRONG_RESULT, KILN_BLAME_CANDIDATE,
               kiln_arena_printf(
                   arena,
                   "%.0f ns per run is faster than this machine can be (%.0f ns at its FMA peak)",
                   median_ns, least_ns * KILN_VERDICT_PEAK_MARGIN));
}
