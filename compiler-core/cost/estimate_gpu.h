/* The analytic model of GPUs: the demand of each launch on issue slots, pipes and memory, the
 * groups that a unit holds at once, and the term that takes longest. Counts are those of the
 * scheduled program; rates and limits are those of the target's row in base/gpus.def. Private to
 * cost/. */
#ifndef KILN_COMPILER_CORE_COST_ESTIMATE_GPU_H
#define KILN_COMPILER_CORE_COST_ESTIMATE_GPU_H

#include "base/target.h"
#include "compiler-core/cost/registers_gpu.h"
#include "compiler-core/facts/facts.h"

/* Terms in the order of their rows in features_gpu.def. */
typedef enum kiln_gpu_term {
    KILN_GPU_ISSUE,
    KILN_GPU_ARITHMETIC,
    KILN_GPU_TENSOR,
    KILN_GPU_SHARED,
    KILN_GPU_LATENCY,
    KILN_GPU_BARRIERS,
    KILN_GPU_SPILL,
    KILN_GPU_TAIL,
    KILN_GPU_L2,
    KILN_GPU_MEMORY,
    KILN_GPU_LAUNCHES,
    KILN_GPU_TERM_COUNT
} kiln_gpu_term;

/* The resource that limits the groups that a unit holds at once. */
typedef enum kiln_gpu_limit {
    KILN_GPU_BY_GROUPS,
    KILN_GPU_BY_THREADS,
    KILN_GPU_BY_REGISTERS,
    KILN_GPU_BY_SHARED,
} kiln_gpu_limit;

#define KILN_GPU_PIPES 4 /* f32, f64, integers, special functions */

/* A nest at the root. */
typedef struct kiln_gpu_launch {
    bool used;
    uint32_t group_size[3];
    bool producers; /* the last threads in z fetch data for the others */
    double groups, threads, shared_bytes;
    double registers;        /* of a thread, of 4 bytes, as expected from the assembler */
    double needed_registers; /* the minimum, not limited to a thread's maximum */
    double accumulators, fetched, operands; /* of these */
    kiln_gpu_held held;
    double stages; /* of its deepest pipeline; 1: none */
    /* Of one group. */
    double instructions;          /* of warps */
    double warp_instructions;     /* of its busiest warp that works */
    double producer_instructions; /* of a warp that only fetches */
    double pipe[KILN_GPU_PIPES];  /* cycles */
    double tensor;                /* of tensor cores, all of a unit's, at their full rate */
    double shared_requests, shared_cycles; /* of warps; cycles count bank conflicts */
    double device_requests, device_cycles, sectors;
    double barriers, fetches; /* times that the group waits for device memory */
    double chain;             /* cycles of the dependence chain of results */
    double turns;  /* stretches of straight code of a warp that begin with loads of shared memory */
    double drains; /* times that a warp group waits for the end of its instructions */
    /* Of all groups. */
    double l2_bytes, memory_bytes;
    double occupancy; /* groups of a unit at once */
    kiln_gpu_limit limit;
    double waves;
    double ns, term[KILN_GPU_TERM_COUNT]; /* cycles of a unit */
    kiln_gpu_term bound;                  /* the largest of them */
} kiln_gpu_launch;

typedef struct kiln_gpu_estimate {
    const kiln_facts *facts;
    const kiln_target *target;
    uint32_t launch_count, main; /* main: the one that takes longest */
    kiln_gpu_launch *launch;     /* [launch_count], some not used */
    uint32_t used;
    double executed, work; /* operations */
    double ns, term[KILN_GPU_TERM_COUNT];
} kiln_gpu_estimate;

/* `facts` count lines of KILN_WARP_SECTOR_BYTES. */
void kiln_gpu_estimate_make(const kiln_facts *facts, const kiln_target *target, kiln_arena *arena,
                            kiln_gpu_estimate *out);

#endif
