/* The reference kernel: a fixed piece of work of some twenty microseconds that is timed before and
 * after every sample, on the core and in the process that measures. Its two parts show what a
 * kernel can lose:
 *
 *     arithmetic  independent integer operations that want every issue slot of the core: a clock
 *                 that falls, and a neighbour on the other thread of the same core, which a virtual
 *                 machine is not told of (the multiply-adds of deploy/runtime/peak.h leave slots
 *                 free and do not notice that one)
 *     memory      a pass over a piece of memory that no cache holds: somebody else at work in the
 *                 memory behind the caches
 *
 * Each part begins in one state, whatever ran before it:
 *
 *     arithmetic  repeats its work untimed for KILN_REFERENCE_KERNEL_SETTLE_NS, and then takes the
 * second least of KILN_REFERENCE_KERNEL_SHORTS short times. Behind AVX-512 multiply-adds a core of
 *                 Sapphire Rapids class computes at 0.83 of its clock for 2 to 20 us, and then
 *                 stops for 1 to 2 us while the clock rises; a neighbour stays for longer
 *     memory      the piece is written back and dropped from all caches by the processor's own
 *                 instruction; where a program may not use one (32-bit ARM, RISC-V), it is the part
 *                 of a buffer that was read longest ago
 *
 * That is not enough on every machine: a memory controller that rests takes longer, a clock follows
 * what the core did. So a board tries its parts behind what may change them
 * (kiln_reference_kernel_round), and rpc-server/drift.h decides which part can be used.
 *
 * The parts allocate nothing and make no system call. */
#ifndef KILN_RPC_SERVER_REFERENCE_KERNEL_H
#define KILN_RPC_SERVER_REFERENCE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

#define KILN_REFERENCE_KERNEL_BYTES \
    ((size_t)4 << 20) /* twice the largest private cache that is about */
#define KILN_REFERENCE_KERNEL_PIECE_BYTES ((size_t)64 << 10)
#define KILN_REFERENCE_KERNEL_ROUNDS \
    500u /* of a short time of the arithmetic part: 1 us at 3.4 GHz */
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
    double peak_flops; /* that the multiply-adds reached (deploy/runtime/peak.h) */
    /* Of a device (rpc-server/reference_kernel_device.h): what multiply-adds of operands of that
     * type reached; 0: not measured. */
    double dtype_flops[KILN_DTYPE_COUNT];
} kiln_reference_kernel_round;

typedef struct kiln_reference_kernel {
    uint64_t *data;    /* [KILN_REFERENCE_KERNEL_BYTES], of the caller */
    size_t at;         /* the next piece */
    size_t line_bytes; /* of what can be dropped from the caches at once; 0: nothing can */
    /* What the work comes to, timed and untimed: without it there would be none. */
    uint64_t sink, settled;
} kiln_reference_kernel;

/* Writes to each page of `data`, so that it is one of its own. */
void kiln_reference_kernel_init(kiln_reference_kernel *reference, void *data);
/* Runs the reference kernel once. */
kiln_reference_kernel_times kiln_reference_kernel_take(kiln_reference_kernel *reference);
/* Brings the core into each state and takes a reading. Takes 2 ms. */
kiln_reference_kernel_round kiln_reference_kernel_measure(kiln_reference_kernel *reference);

/* `count` rounds on `core`, in the calling thread, which may run where it might before afterwards.
 * RESOURCE_EXHAUSTED: no memory, or no such core. */
KILN_MUST_USE kiln_status kiln_reference_kernel_watch(uint32_t core, uint32_t count,
                                                      kiln_reference_kernel_round *out_round);

#endif
