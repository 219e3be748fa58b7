/* The reference kernel: fixed work of about twenty microseconds that is timed before and after
 * every sample, on the core and in the process that measure. Its two parts show what can slow a
 * kernel:
 *
 *     arithmetic  independent integer operations that fill every issue slot of the core: shows a
 *                 falling clock, and a neighbour on the other thread of the core, which a virtual
 *                 machine cannot see (the multiply-adds of deploy/runtime/peak.h leave slots free
 *                 and do not notice it)
 *     memory      a pass over memory that is in no cache: shows other work in the memory behind the
 *                 caches
 *
 * Each part begins in a defined state, whatever ran before:
 *
 *     arithmetic  repeats its work untimed for KILN_REFERENCE_KERNEL_SETTLE_NS, then takes the
 * second least of KILN_REFERENCE_KERNEL_SHORTS short times. After AVX-512 multiply-adds a core of
 * Sapphire Rapids class computes at 0.83 of its clock for 2 to 20 us, then stops for 1 to 2 us
 * while the clock rises; a neighbour stays longer memory      writes the memory back and drops it
 * from all caches by the processor's own instruction; where programs may not use one (32-bit ARM,
 * RISC-V), it is the part of a buffer that was read longest ago
 *
 * That is not enough on every machine: an idle memory controller is slower, and a clock depends on
 * what the core did. So a board tries both parts after work that may change them
 * (kiln_reference_kernel_round), and rpc-server/drift.h decides which part can be used.
 *
 * The parts allocate nothing and make no system call. */
#ifndef KILN_RPC_SERVER_REFERENCE_KERNEL_H
#define KILN_RPC_SERVER_REFERENCE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

#define KILN_REFERENCE_KERNEL_BYTES ((size_t)4 << 20) /* twice the largest private cache known */
#define KILN_REFERENCE_KERNEL_PIECE_BYTES ((size_t)64 << 10)
#define KILN_REFERENCE_KERNEL_ROUNDS \
    500u /* of one short time of the arithmetic part: 1 us at 3.4 GHz */
#define KILN_REFERENCE_KERNEL_SHORTS 8u
#define KILN_REFERENCE_KERNEL_SETTLE_NS UINT64_C(10000)
#define KILN_REFERENCE_KERNEL_PAUSE_NS UINT64_C(1000000)

/* Times of both parts, in nanoseconds; smaller is faster. */
typedef struct kiln_reference_kernel_times {
    double arithmetic_ns, memory_ns;
} kiln_reference_kernel_times;

/* What ran on the core, or the device, before a reading. */
typedef enum kiln_reference_kernel_state {
    KILN_REFERENCE_KERNEL_AFTER_PAUSE,      /* nothing for KILN_REFERENCE_KERNEL_PAUSE_NS */
    KILN_REFERENCE_KERNEL_AFTER_ARITHMETIC, /* the widest multiply-adds */
    KILN_REFERENCE_KERNEL_AFTER_MEMORY,     /* a pass over the whole buffer */
    KILN_REFERENCE_KERNEL_AFTER_READING,    /* another reading */
    KILN_REFERENCE_KERNEL_STATE_COUNT
} kiln_reference_kernel_state;

/* One reading in each state, within some milliseconds. */
typedef struct kiln_reference_kernel_round {
    kiln_reference_kernel_times reading[KILN_REFERENCE_KERNEL_STATE_COUNT];
    double peak_flops; /* measured by multiply-adds (deploy/runtime/peak.h) */
    /* Of a device (rpc-server/reference_kernel_device.h): measured by multiply-adds of operands of
     * that type; 0: not measured. */
    double dtype_flops[KILN_DTYPE_COUNT];
} kiln_reference_kernel_round;

typedef struct kiln_reference_kernel {
    uint64_t *data;    /* [KILN_REFERENCE_KERNEL_BYTES], the caller's */
    size_t at;         /* the next piece */
    size_t line_bytes; /* dropped from the caches by one instruction; 0: not possible */
    /* Results of the timed and untimed work, so that compilers keep it. */
    uint64_t sink, settled;
} kiln_reference_kernel;

/* Writes to each page of `data`, so that no pages are shared. */
void kiln_reference_kernel_init(kiln_reference_kernel *reference, void *data);
/* Runs the reference kernel once. */
kiln_reference_kernel_times kiln_reference_kernel_take(kiln_reference_kernel *reference);
/* Brings the core into each state and takes a reading. Takes 2 ms. */
kiln_reference_kernel_round kiln_reference_kernel_measure(kiln_reference_kernel *reference);

/* Takes `count` rounds on `core` in the calling thread, whose cores are restored.
 * RESOURCE_EXHAUSTED: no memory, or no such core. */
KILN_MUST_USE kiln_status kiln_reference_kernel_watch(uint32_t core, uint32_t count,
                                                      kiln_reference_kernel_round *out_round);

#endif
