/* Rows of gpus.def: limits and figures of devices with groups of threads. Rules respect the limits,
 * the cost model uses the figures; neither depends on the kind of target. */
#ifndef KILN_BASE_GPU_H
#define KILN_BASE_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/str.h"

typedef struct kiln_gpu {
    const char *name;     /* "h200"; "sm_90" stands for all devices of a capability */
    const char *features; /* "f16 f64": types in addition to f32 and integers */
    bool is_cpu;          /* a processor with a driver for GPUs */
    bool is_generic;      /* stands for every device of its capability */
    uint32_t capability;  /* CUDA's, 90 for 9.0; 0: none */
    uint32_t warp;        /* threads that run in lockstep */
    /* Of a unit (multiprocessor). */
    uint32_t units;
    uint32_t unit_threads, unit_groups; /* at once */
    uint32_t unit_registers;            /* of 4 bytes */
    uint32_t unit_shared_bytes;
    /* Of a group. shared_bytes: most that it may request; static_: most that a kernel may declare;
     * reserved_: taken from the unit's in addition to the request. */
    uint32_t thread_registers; /* most of a thread */
    uint32_t group_threads;
    uint32_t group_shared_bytes, static_shared_bytes, reserved_shared_bytes;
    uint32_t load_bytes; /* widest load or store of a thread */
    uint64_t l2_bytes, memory_bytes;
    double clock_hz;
    double memory_rate, l2_rate; /* bytes a second, of the device; of the L2 what reads reach */
    double shared_rate;          /* bytes a cycle, of a unit */
    double issue;                /* instructions of warps a cycle, of a unit */
    double launch_ns;            /* from one kernel's end to the next one's start */
    /* Multiply-adds a cycle, of a unit; 0: the type is computed in another one. f32 on tensor cores
     * means tf32. */
    double multiply_adds[KILN_DTYPE_COUNT], tensor_multiply_adds[KILN_DTYPE_COUNT];
    double tensor_share; /* of these products that the device's power allows for long */
    double special;      /* roots, exponentials and quotients a cycle, of a unit */
} kiln_gpu;

/* Share of l2_rate that kernels reach which compute and write as well: two products of halves on an
 * H200 moved 7.3 and 7.7 of its 9.7 TB/s (decision 167). */
#define KILN_GPU_L2_SHARE 0.8

/* By its name; NULL: there is no such row. Static. */
const kiln_gpu *kiln_gpu_find(kiln_str name);
/* Rows in the order of gpus.def. */
uint32_t kiln_gpu_count(void);
const kiln_gpu *kiln_gpu_at(uint32_t index);

/* Upper bound of the device's operations per second, a multiply-add counted as two, with products
 * of that type (f32 includes tf32; NONE: any type). For a generic row the bound of the fastest
 * device of its capability. 0: not known, as for OpenCL devices. */
double kiln_gpu_peak_flops(const kiln_gpu *gpu, kiln_dtype dtype);
/* The same without tensor cores. */
double kiln_gpu_vector_peak_flops(const kiln_gpu *gpu, kiln_dtype dtype);
/* The same for bytes per second of its memory. */
double kiln_gpu_peak_bytes(const kiln_gpu *gpu);

#endif
