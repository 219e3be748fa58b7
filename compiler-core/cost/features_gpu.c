#include "compiler-core/cost/features_gpu.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/cost/estimate_gpu.h"
#include "compiler-core/cost/warp.h"

#define WORD_BYTES 4.0

static void put_count(float *out, uint32_t feature, double count) {
    out[feature] = log2f(1 + (float)count);
}

static void put_ratio(float *out, kiln_gpu_feature feature, double a, double b) {
    out[feature] = a > 0 && b > 0 ? log2f((float)(a / b)) : 0;
}

static void put_occupancy(const kiln_gpu_estimate *e, const kiln_gpu_launch *l, float *out) {
    const kiln_gpu *gpu = e->target->gpu;
    const double warps = ceil(l->threads / gpu->warp), units = e->target->cores;
    put_count(out, KILN_GPU_FEATURE_GROUPS, l->groups);
    put_count(out, KILN_GPU_FEATURE_THREADS, l->threads);
    put_ratio(out, KILN_GPU_FEATURE_WARP_FILL, l->threads, warps * gpu->warp);
    put_count(out, KILN_GPU_FEATURE_OCCUPANCY, l->occupancy);
    put_count(out, KILN_GPU_FEATURE_WARPS, l->occupancy * warps);
    put_ratio(out, KILN_GPU_FEATURE_WARPS_FILL, l->occupancy * l->threads, gpu->unit_threads);
    out[KILN_GPU_FEATURE_LIMIT] = (float)l->limit;
    put_count(out, KILN_GPU_FEATURE_WAVES, l->waves);
    put_ratio(out, KILN_GPU_FEATURE_WAVES_FILL, l->waves, ceil(l->waves));
    put_ratio(out, KILN_GPU_FEATURE_UNITS_FILL, l->groups, ceil(l->groups / units) * units);
    put_count(out, KILN_GPU_FEATURE_REGISTERS, l->registers);
    put_count(out, KILN_GPU_FEATURE_ACCUMULATORS, l->accumulators);
    put_count(out, KILN_GPU_FEATURE_OPERANDS, l->operands);
    put_count(out, KILN_GPU_FEATURE_FETCHED, l->fetched);
    out[KILN_GPU_FEATURE_STAGES] = (float)fmax(l->stages, 1);
    put_ratio(out, KILN_GPU_FEATURE_REUSE, l->accumulators, l->operands);
    put_count(out, KILN_GPU_FEATURE_SHARED_BYTES, l->shared_bytes);
}

static void put_main(const kiln_gpu_estimate *e, const kiln_gpu_launch *l, float *out) {
    put_occupancy(e, l, out);
    put_count(out, KILN_GPU_FEATURE_SHARED_REQUESTS, l->shared_requests);
    put_ratio(out, KILN_GPU_FEATURE_CONFLICTS, l->shared_cycles, l->shared_requests);
    put_count(out, KILN_GPU_FEATURE_DEVICE_REQUESTS, l->device_requests);
    put_ratio(out, KILN_GPU_FEATURE_SECTORS, l->sectors, l->device_requests);
    put_count(out, KILN_GPU_FEATURE_BARRIERS, l->barriers);
    put_count(out, KILN_GPU_FEATURE_FETCHES, l->fetches);
    put_count(out, KILN_GPU_FEATURE_INSTRUCTIONS, l->instructions);
    put_ratio(out, KILN_GPU_FEATURE_ARITHMETIC_SHARE, l->term[KILN_GPU_ARITHMETIC],
              l->term[KILN_GPU_ISSUE]);
    out[KILN_GPU_FEATURE_BOUND] = (float)l->bound;
}

static void put_program(const kiln_gpu_estimate *e, float *out) {
    double l2 = 0, memory = 0, threads = 0, shared = 0, registers = 0;
    for (uint32_t i = 0; i < e->launch_count; i++) {
        const kiln_gpu_launch *l = &e->launch[i];
        l2 += l->l2_bytes;
        memory += l->memory_bytes;
        threads = fmax(threads, l->used ? l->threads : 0);
        shared = fmax(shared, l->shared_bytes);
        registers = fmax(registers, l->needed_registers);
    }
    out[KILN_GPU_FEATURE_NS] = log2f((float)fmax(e->ns, 1));
    for (uint32_t t = 0; t < KILN_GPU_TERM_COUNT; t++)
        put_count(out, KILN_GPU_FEATURE_CYCLES_ISSUE + t, e->term[t]);
    put_count(out, KILN_GPU_FEATURE_WORK, e->work);
    put_ratio(out, KILN_GPU_FEATURE_OPS_EXECUTED, e->executed, e->work);
    put_count(out, KILN_GPU_FEATURE_LAUNCHES, e->used);
    put_count(out, KILN_GPU_FEATURE_BYTES, e->facts->bytes);
    put_ratio(out, KILN_GPU_FEATURE_INTENSITY, e->work, memory);
    put_count(out, KILN_GPU_FEATURE_L2_BYTES, l2);
    put_count(out, KILN_GPU_FEATURE_MEMORY_BYTES, memory);
    put_ratio(out, KILN_GPU_FEATURE_THREADS_FILL, threads, e->target->group_threads);
    put_ratio(out, KILN_GPU_FEATURE_SHARED_OVER, shared, e->target->shared_bytes);
    put_ratio(out, KILN_GPU_FEATURE_REGISTERS_OVER, registers, e->target->gpu->thread_registers);
}

static void put_assembled(float *out, double registers, double spill, double stack, double shared) {
    put_count(out, KILN_GPU_FEATURE_ASSEMBLED_REGISTERS, registers);
    put_count(out, KILN_GPU_FEATURE_ASSEMBLED_SPILL, spill);
    put_count(out, KILN_GPU_FEATURE_ASSEMBLED_STACK, stack);
    put_count(out, KILN_GPU_FEATURE_ASSEMBLED_SHARED, shared);
}

/* Each register above the limit is a word of the stack, stored and loaded. */
static void expect_assembled(const kiln_gpu_estimate *e, float *out) {
    double registers = 0, needed = 0, shared = 0;
    for (uint32_t i = 0; i < e->launch_count; i++) {
        const kiln_gpu_launch *l = &e->launch[i];
        registers = fmax(registers, l->registers);
        needed = fmax(needed, l->needed_registers);
        shared = fmax(shared, l->shared_bytes);
    }
    const double stack = WORD_BYTES * fmax(needed - e->target->gpu->thread_registers, 0);
    put_assembled(out, registers, 2 * stack, stack, shared);
}

static void take_assembled(float *vector, const kiln_assembled *said) {
    if (said && said->registers)
        put_assembled(vector, said->registers, said->spill_bytes, said->stack_bytes,
                      said->shared_bytes);
    else
        for (uint32_t f = KILN_GPU_FEATURE_ASSEMBLED_REGISTERS; f < KILN_GPU_FEATURE_COUNT; f++)
            vector[f] = NAN;
}

static void estimate(const kiln_program *scheduled, const kiln_target *target, kiln_arena *scratch,
                     kiln_gpu_estimate *out) {
    const kiln_facts *facts = kiln_facts_create(scheduled, KILN_WARP_SECTOR_BYTES, scratch);
    kiln_gpu_estimate_make(facts, target, scratch, out);
}

static void compute(const kiln_program *scheduled, const kiln_target *target, kiln_arena *scratch,
                    float *out) {
    kiln_gpu_estimate e;
    memset(out, 0, KILN_GPU_FEATURE_COUNT * sizeof *out);
    estimate(scheduled, target, scratch, &e);
    if (!e.used) return; /* nothing is left to run */
    put_program(&e, out);
    put_main(&e, &e.launch[e.main], out);
    expect_assembled(&e, out);
}

static bool fits(const float *vector) {
    return vector[KILN_GPU_FEATURE_SHARED_OVER] <= 0 && vector[KILN_GPU_FEATURE_THREADS_FILL] <= 0;
}

/* ---- for people ------------------------------------------------------------------------------ */

static const kiln_feature_info feature_table[] = {
#define X(name, text, unit, doc) [KILN_GPU_FEATURE_##name] = {text, unit, doc},
#include "compiler-core/cost/features_gpu.def"
#undef X
};

static const char *const limit_words[] = {
    [KILN_GPU_BY_GROUPS] = "its places for blocks",
    [KILN_GPU_BY_THREADS] = "its threads",
    [KILN_GPU_BY_REGISTERS] = "registers",
    [KILN_GPU_BY_SHARED] = "shared memory",
};

/* Why some units have no group. */
static void describe_idle(const kiln_gpu_estimate *e, const kiln_gpu_launch *l, kiln_strbuf *out) {
    const double own = fmax(l->accumulators, 1), results = l->groups * l->threads * own,
                 warps = ceil(results / e->target->gpu->warp), idle = e->target->cores - l->groups;
    if (idle <= 0) return;
    kiln_strbuf_printf(out, "    %.0f unit%s without a block: ", idle, idle == 1 ? " is" : "s are");
    if (warps < e->target->cores)
        kiln_strbuf_printf(out, "its %.0f results are %.0f warp%s\n", results, warps,
                           warps == 1 ? "" : "s");
    else if (l->operands > 0)
        kiln_strbuf_printf(out,
                           "smaller blocks would read more for each of their results, now %.3g "
                           "words for a sum of %.0f\n",
                           l->operands / own, own);
    else
        kiln_strbuf_printf(out, "a block makes %.0f results\n", l->threads * own);
}

static void describe_launch(const kiln_gpu_estimate *e, const kiln_gpu_launch *l,
                            kiln_strbuf *out) {
    const kiln_gpu *gpu = e->target->gpu;
    kiln_strbuf_printf(
        out,
        "  %.0f block%s of %.0f thread%s (%.0f warp%s), %.4g KB shared, about %.0f registers "
        "a thread of %u\n",
        l->groups, l->groups == 1 ? "" : "s", l->threads, l->threads == 1 ? "" : "s",
        ceil(l->threads / gpu->warp), l->threads > gpu->warp ? "s" : "", l->shared_bytes / 1e3,
        l->registers, gpu->thread_registers);
    kiln_strbuf_printf(out, "    a unit holds %.0f at once, by %s; %.3g wave%s on %u units\n",
                       l->occupancy, limit_words[l->limit], l->waves, l->waves == 1 ? "" : "s",
                       e->target->cores);
    describe_idle(e, l, out);
    if (l->shared_requests > 0)
        kiln_strbuf_printf(out,
                           "    a request of shared memory takes %.3g cycles (1: no conflict "
                           "of banks); %.0f barriers a block\n",
                           l->shared_cycles / l->shared_requests, l->barriers);
    if (l->device_requests > 0)
        kiln_strbuf_printf(out,
                           "    a request of device memory touches %.3g sectors of 32 bytes; "
                           "%.4g MB through L2, %.4g MB from memory\n",
                           l->sectors / l->device_requests, l->l2_bytes / 1e6,
                           l->memory_bytes / 1e6);
    kiln_strbuf_printf(out, "    expected %.4g us, bound by: %s\n", l->ns / 1e3,
                       feature_table[KILN_GPU_FEATURE_CYCLES_ISSUE + l->bound].doc);
}

static void describe(const kiln_program *scheduled, const kiln_target *target, kiln_arena *scratch,
                     kiln_strbuf *out) {
    kiln_gpu_estimate e;
    estimate(scheduled, target, scratch, &e);
    for (uint32_t i = 0; i < e.launch_count; i++)
        if (e.launch[i].used) describe_launch(&e, &e.launch[i], out);
}

const kiln_feature_set kiln_features_gpu = {
    .count = KILN_GPU_FEATURE_COUNT,
    .info = feature_table,
    .predicted_ns = KILN_GPU_FEATURE_NS,
    .first_term = KILN_GPU_FEATURE_CYCLES_ISSUE,
    .term_count = KILN_GPU_TERM_COUNT,
    .compute = compute,
    .fits = fits,
    .take_assembled = take_assembled,
    .describe = describe,
};
