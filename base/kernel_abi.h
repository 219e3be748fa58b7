/* INSTALLED. The versioned contract between generated code and its callers. Self-contained C99.
 *
 * An artefact's object exports two functions of type kiln_kernel_entry: `kiln_prepare` (packs
 * constants, called once, untimed; absent when there is nothing to pack) and `kiln_run`. Both get
 * the same argument array, in the manifest's order: inputs, constants, outputs, then packed buffers
 * (written by kiln_prepare, read by kiln_run). A manifest that lists launches (base/manifest.h)
 * names other entries of the same type, each with its own list of arguments. Tensor descriptors
 * have DLPack's DLTensor layout (version 1.0). */
#ifndef KILN_KERNEL_ABI_H
#define KILN_KERNEL_ABI_H

#include <stddef.h>
#include <stdint.h>

#define KILN_KERNEL_ABI_VERSION 1
#define KILN_KERNEL_ALIGNMENT 64 /* of every buffer and of scratch, in bytes */

typedef struct kiln_kernel_tensor {
    void *data;          /* aligned to KILN_KERNEL_ALIGNMENT */
    int32_t device_type; /* 1 = CPU; the numbers are DLPack's */
    int32_t device_id;
    int32_t ndim;      /* physical dimensions */
    uint8_t type_code; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool */
    uint8_t type_bits;
    uint16_t type_lanes;  /* 1 */
    int64_t *shape;       /* [ndim] physical extents */
    int64_t *strides;     /* NULL: compact row-major */
    uint64_t byte_offset; /* 0, except on devices whose memory has handles instead of addresses */
} kiln_kernel_tensor;

/* Body of a parallel loop: runs iterations [begin, end). `context` comes from parallel_for. */
typedef int32_t (*kiln_kernel_body)(void *context, int64_t begin, int64_t end, int32_t worker);

/* Services of the host for a kernel. Offsets are part of the contract; new members go at the end.
 */
typedef struct kiln_kernel_services {
    uint32_t version;      /* KILN_KERNEL_ABI_VERSION */
    uint32_t worker_count; /* threads that parallel_for may use, >= 1 */
    void *host;            /* the first argument of the functions below */
    /* Runs body over [0, count), each iteration once, in contiguous ranges, any number per worker,
     * in any order. Returns after all are done: 0 or the first non-zero status. */
    int32_t (*parallel_for)(void *host, int64_t count, kiln_kernel_body body, void *context);
    /* `scratch`: manifest's scratch_bytes shared by the call, followed by worker_count regions of
     * scratch_worker_bytes each (rounded up to KILN_KERNEL_ALIGNMENT); contents are undefined at
     * entry. */
    void *scratch;
} kiln_kernel_services;

/* Returns 0, or a kernel status other than 0 (see kiln_kernel_status). */
typedef int32_t (*kiln_kernel_entry)(kiln_kernel_tensor *const *args,
                                     const kiln_kernel_services *services);

typedef enum kiln_kernel_status { KILN_KERNEL_OK = 0, KILN_KERNEL_FAILED = 1 } kiln_kernel_status;

#if UINTPTR_MAX > 0xffffffffu
_Static_assert(offsetof(kiln_kernel_tensor, device_type) == 8, "DLPack layout");
_Static_assert(offsetof(kiln_kernel_tensor, shape) == 24, "DLPack layout");
_Static_assert(sizeof(kiln_kernel_tensor) == 48, "DLPack layout");
_Static_assert(offsetof(kiln_kernel_services, parallel_for) == 16, "kernel ABI 1");
_Static_assert(offsetof(kiln_kernel_services, scratch) == 24, "kernel ABI 1");
#else
_Static_assert(offsetof(kiln_kernel_tensor, device_type) == 4, "DLPack layout");
_Static_assert(offsetof(kiln_kernel_services, parallel_for) == 12, "kernel ABI 1");
#endif

#endif
