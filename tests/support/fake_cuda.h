/* A driver for GPUs that has none: a library with the functions of deploy/runtime/cuda.h over
 * memory of the host, chosen with KILN_CUDA_LIBRARY. It does not run PTX: a launch calls the
 * function of the host that a test registered for the entry's name, and otherwise writes nothing.
 * One is registered from the start: the kernel of a board's self-check. It looks that calls come in
 * an order that is allowed, on things that are alive and within their bounds, and that what was
 * made is gone in the end; what it finds is in `complaints`.
 *
 * Graphs: between the beginning and the end of a capture launches and copies within the device are
 * kept with the arguments that they have then, and not done; any other call on the stream or that
 * takes memory fails and spoils the capture, as it does with the driver.
 *
 * Tensor maps: it checks what it is given as the driver's reference demands, and that all of the
 * map is memory. A parameter of 128 bytes is such a map; a kernel of the host sees what it was made
 * of (fake_cuda_map). Code with .reqnctapercluster is launched in whole clusters.
 *
 * A test in the same process finds `fake_cuda_state` with dlsym. Other programs read their
 * environment: KILN_CUDA_FAKE_FAIL=SYMBOL:N:CODE gives the N-th call of a function that result,
 * KILN_CUDA_FAKE_DEVICES=N is how many there are, KILN_CUDA_FAKE_VERSION the driver's; of the
 * devices KILN_CUDA_FAKE_MAJOR is the first number of their capability, _THREADS and _SHARED
 * (bytes) are what a group may have, _MEMORY_MIB is their memory. */
#ifndef KILN_TESTS_SUPPORT_FAKE_CUDA_H
#define KILN_TESTS_SUPPORT_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_CUDA_DEVICES_MAX 4
#define FAKE_CUDA_KERNELS_MAX 8

/* A launch on the host; `parameter` as cuLaunchKernel has it, over memory that can be followed. */
typedef void (*fake_cuda_run)(const uint32_t grid[3], const uint32_t group[3], void **parameter);

#define FAKE_CUDA_MAP_MARK UINT64_C(0x70616d2d656b6166)
#define FAKE_CUDA_MAP_BYTES 128

/* What is in a tensor map, of which kernels have the bytes: more than the driver tells. */
typedef struct fake_cuda_map {
    uint64_t mark; /* FAKE_CUDA_MAP_MARK */
    uint64_t address;
    uint64_t stride_bytes[4]; /* from the second dimension on */
    uint32_t size[5];         /* 0: 2^32 */
    uint16_t box[5];
    uint8_t rank, type, swizzle, promotion;
} fake_cuda_map;

typedef struct fake_cuda_device {
    const char *name;
    int major, minor, units, group_threads, group_shared;
    size_t memory_bytes;
} fake_cuda_device;

typedef struct fake_cuda {
    int version;
    int device_count;
    fake_cuda_device device[FAKE_CUDA_DEVICES_MAX];
    struct {
        const char *entry;
        fake_cuda_run run;
    } kernel[FAKE_CUDA_KERNELS_MAX];
    /* The `fail_at`-th call from now on of the function `fail_symbol` returns `fail_code`; a code
     * of those that spoil a context is what every later call on it returns, too. */
    const char *fail_symbol;
    int fail_at, fail_code;
    int spoilt;           /* that code; 0: the context is sound */
    int launch_us;        /* that a launch takes */
    int function_threads; /* of every kernel; 0: as many as the device */
    /* What happened. */
    int complaints;
    char complaint[200]; /* the first one */
    int inits, contexts, streams, events, modules, allocations, launches;
    size_t allocated_bytes;
    int copies;                           /* in any direction */
    int host_allocations;                 /* of memory of the host that is alive */
    int host_copies;                      /* from or to such memory alone */
    int graphs, captures, graph_launches; /* graphs that are alive, of both kinds */
    int dynamic_shared;                   /* that a function was allowed last */
    int launch_shared;                    /* that a launch asked for last */
    int launch_cluster; /* groups of a cluster of the last launch; 1: without clusters */
    int maps;           /* that were encoded */
} fake_cuda;

#endif
