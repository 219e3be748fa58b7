#include "compiler-core/cost/launch_gpu.h"

#include <math.h>

#include "base/macros.h"
#include "compiler-core/ir/intrinsic.h"

#define KERNEL_INSTRUCTIONS 30 /* reading parameters and numbering the thread */
#define BARRIER_CYCLES 30.0
#define SPILL_CYCLES 2.0 /* of a word, stored and loaded, in each step of its loop */
#define REGISTER_STEP 8  /* registers of a thread are allocated in eights */
/* Cycles in which a warp group multiplies nothing, from the end of its last instruction, for which
 * its threads wait, to the next one's first: a guess (decision 75). */
#define DRAIN_CYCLES 64.0
/* Share of the tensor cores' rate that instructions of single warps reach where warp groups have
 * their own (arXiv:2402.13499). */
#define SINGLE_WARPS 0.63
/* Shares of the published rates that kernels reach: 4.3 of 4.8 TB/s were copied on an H200. */
#define ISSUE_SHARE 0.97
#define MEMORY_SHARE 0.9
#define EXPOSED 0.05 /* of the memory term when it is not the largest */

void kiln_gpu_launch_hold(const kiln_target *target, kiln_gpu_launch *l) {
    const kiln_gpu *gpu = target->gpu;
    const double warps = ceil(l->threads / gpu->warp);
    l->held.sums = l->accumulators;
    const kiln_gpu_registers thread = kiln_gpu_registers_of(&l->held, gpu, l->threads);
    l->registers = thread.expected;
    l->needed_registers = thread.needed;
    const double given = ceil(l->registers / REGISTER_STEP) * REGISTER_STEP;
    const double most[] = {
        [KILN_GPU_BY_GROUPS] = gpu->unit_groups,
        [KILN_GPU_BY_THREADS] = floor(gpu->unit_threads / (warps * gpu->warp)),
        [KILN_GPU_BY_REGISTERS] = floor(gpu->unit_registers / (given * warps * gpu->warp)),
        [KILN_GPU_BY_SHARED] =
            l->shared_bytes > 0
                ? floor(gpu->unit_shared_bytes / (l->shared_bytes + gpu->reserved_shared_bytes))
                : INFINITY};
    l->limit = KILN_GPU_BY_GROUPS;
    for (kiln_gpu_limit i = KILN_GPU_BY_THREADS; i <= KILN_GPU_BY_SHARED; i++)
        if (most[i] < most[l->limit]) l->limit = i;
    l->occupancy = fmax(most[l->limit], 1); /* a group that does not fit is refused elsewhere */
    l->waves = l->groups / (l->occupancy * target->cores);
}

/* Of the tensor cores' full rate. */
static double tensor_share_of(const kiln_target *target, const kiln_gpu_launch *l) {
    bool groups = false;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT && !l->held.by_groups; i++)
        groups |= kiln_intrinsics[i].owner == KILN_INTRINSIC_GROUP &&
                  kiln_intrinsic_runs_on(&kiln_intrinsics[i], target);
    return fmin(target->gpu->tensor_share, groups ? SINGLE_WARPS : 1);
}

/* Threads that work, without those that only fetch. */
static double workers_of(const kiln_gpu_launch *l) {
    const double plane = (double)l->group_size[0] * l->group_size[1];
    return l->threads - (l->producers ? plane : 0);
}

/* Quarters of a unit for each warp that works: few warps leave some of them idle. */
static double quarters_of(const kiln_gpu *gpu, const kiln_gpu_launch *l) {
    return gpu->issue * gpu->warp / workers_of(l);
}

/* Cycles of a group alone, without waiting: its busiest resource, warp, or chain of results. */
static double busiest_of(const kiln_target *target, const kiln_gpu_launch *l, double busy,
                         double tensor) {
    const double warp = fmax(l->warp_instructions, l->producer_instructions),
                 parts = fmax(quarters_of(target->gpu, l), 1);
    return fmax(fmax(busy, tensor * parts), fmax(warp, l->chain));
}

/* Cycles in which a group alone waits for shared memory, and for the end of its tensor cores'
 * instructions. More warps than quarters run while others wait. A warp group multiplies while
 * another one waits only where no barrier of all threads lets both wait: where others fetch. */
static double waits_of(const kiln_target *target, const kiln_gpu_launch *l) {
    const double groups = workers_of(l) / (KILN_GROUP_WARPS * target->gpu->warp);
    const bool filled = l->producers && groups >= 2;
    return l->turns * KILN_GPU_SHARED_LATENCY * fmin(quarters_of(target->gpu, l), 1) +
           (filled ? 0 : l->drains * DRAIN_CYCLES);
}

/* Cycles of a unit for `count` groups that it holds at once. */
static double cycles_of_groups(double busy, double alone, double count) {
    return fmax(busy * count, alone);
}

void kiln_gpu_launch_finish(const kiln_target *target, kiln_gpu_launch *l) {
    const kiln_gpu *gpu = target->gpu;
    const double ns = 1e9 / gpu->clock_hz, units = target->cores;
    double *term = l->term, arithmetic = 0;
    l->instructions += KERNEL_INSTRUCTIONS * ceil(l->threads / gpu->warp);
    l->warp_instructions += KERNEL_INSTRUCTIONS;
    for (uint32_t p = 0; p < KILN_GPU_PIPES; p++) arithmetic = fmax(arithmetic, l->pipe[p]);
    const double spilled = fmax(l->needed_registers - gpu->thread_registers, 0);
    const double steps = l->operands > 0 ? l->shared_requests / fmax(l->operands, 1) : 0;
    double one[] = {
        [KILN_GPU_ISSUE] = l->instructions / gpu->issue / ISSUE_SHARE,
        [KILN_GPU_ARITHMETIC] = arithmetic,
        [KILN_GPU_TENSOR] = l->tensor / tensor_share_of(target, l),
        [KILN_GPU_SHARED] = l->shared_cycles + l->device_cycles,
        [KILN_GPU_LATENCY] = l->fetches * KILN_GPU_DEVICE_LATENCY,
        [KILN_GPU_BARRIERS] = l->barriers * BARRIER_CYCLES,
        [KILN_GPU_SPILL] = spilled * steps * SPILL_CYCLES,
    };
    double busy = 0;
    for (kiln_gpu_term t = KILN_GPU_ISSUE; t <= KILN_GPU_SHARED; t++) busy = fmax(busy, one[t]);
    busy += one[KILN_GPU_SPILL];
    /* Fetches that begin stages earlier wait only for the latency that the work of these stages
     * does not hide. */
    const double hidden = fmin((l->stages - 1) * busy, (l->fetches - 1) * KILN_GPU_DEVICE_LATENCY);
    if (l->stages > 1 && l->fetches > 1) one[KILN_GPU_LATENCY] -= hidden;
    const double alone = busiest_of(target, l, busy, one[KILN_GPU_TENSOR]) + waits_of(target, l) +
                         one[KILN_GPU_LATENCY] + one[KILN_GPU_BARRIERS];
    const double full = floor(l->waves), rest = l->groups - full * l->occupancy * units;
    const double cycles = full * cycles_of_groups(busy, alone, l->occupancy) +
                          (rest > 0 ? cycles_of_groups(busy, alone, ceil(rest / units)) : 0);
    const double share = l->groups / units; /* groups of a unit if they were spread evenly */
    for (kiln_gpu_term t = KILN_GPU_ISSUE; t <= KILN_GPU_SPILL; t++) term[t] = one[t] * share;
    /* Groups of a unit wait at the same time. */
    const double together = fmax(fmin(l->occupancy, share), 1);
    term[KILN_GPU_LATENCY] /= together;
    term[KILN_GPU_BARRIERS] /= together;
    term[KILN_GPU_TAIL] = fmax(cycles - fmax(busy, alone / together) * share, 0);
    term[KILN_GPU_L2] = l->l2_bytes / (gpu->l2_rate * KILN_GPU_L2_SHARE) * gpu->clock_hz;
    term[KILN_GPU_MEMORY] = l->memory_bytes / (gpu->memory_rate * MEMORY_SHARE) * gpu->clock_hz;
    term[KILN_GPU_LAUNCHES] = gpu->launch_ns / ns;
    const double memory = term[KILN_GPU_L2] + term[KILN_GPU_MEMORY];
    const double largest = fmax(cycles, fmax(term[KILN_GPU_L2], term[KILN_GPU_MEMORY]));
    l->ns = (largest + EXPOSED * memory) * ns + gpu->launch_ns;
    for (kiln_gpu_term t = KILN_GPU_ISSUE; t < KILN_GPU_TERM_COUNT; t++)
        if (term[t] > term[l->bound]) l->bound = t;
}
