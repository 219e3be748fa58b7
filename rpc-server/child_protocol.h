/* What a parent and its contained child say to each other, over a SOCK_SEQPACKET socket: one order
 * with its descriptors, then notes, all of one size, and between them one word of the parent: that
 * the child may time. A child whose executor has the lifetime FAULT says READY again when all of a
 * trial is unloaded, and takes the next order. Both ends are the same program, so these are
 * plain structs. From the note WARM on, candidate code may have run in the child's address space,
 * so nothing it says is evidence: the parent bounds every number, and compares the outputs itself,
 * in memory that the child can write but whose expected content it never sees. */
#ifndef KILN_RPC_SERVER_CHILD_PROTOCOL_H
#define KILN_RPC_SERVER_CHILD_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/proto.h"
#include "rpc-server/executor.h"
#include "rpc-server/timing.h"

#define KILN_CHILD_MAGIC UINT32_C(0x31444c4b) /* "KLD1" */

/* Kernels of one order: the trial's own, and those that it is measured in turns with. */
#define KILN_CHILD_KERNELS_MAX (1u + KILN_MESSAGES_RIVALS)

/* Descriptors passed with the order, in this order; one artefact per kernel. */
typedef enum kiln_child_fd {
    KILN_CHILD_OUTPUTS,  /* sealed memory: per kernel 2 * output_bytes, after the first call and
                             after the last */
    KILN_CHILD_FOLDER,   /* an empty folder, for one without files of its own; else anything */
    KILN_CHILD_ARTEFACT, /* the first artefact's bytes, read-only; the others follow. Of a module:
                             its bytes, then its inputs */
    KILN_CHILD_FDS_MAX = KILN_CHILD_ARTEFACT + KILN_CHILD_KERNELS_MAX
} kiln_child_fd;

#define KILN_CHILD_TEXT_BYTES 512u
#define KILN_CHILD_INPUTS_MAX 256u /* of a module */

typedef struct kiln_child_kernel {
    uint64_t artefact_bytes, output_bytes;
} kiln_child_kernel;

/* A module in place of a kernel; its bytes and those of its outputs are those of kernel 0. */
typedef struct kiln_child_module {
    uint32_t is_asked, bench;
    uint32_t input_count;
    uint64_t input_bytes;
    int64_t size;                            /* that it is set to; 0: the one that it opens at */
    uint64_t samples[KILN_CHILD_INPUTS_MAX]; /* [input_count] */
} kiln_child_module;

typedef struct kiln_child_order {
    uint32_t magic;
    uint32_t executor; /* row of executors.def */
    uint32_t core_count;
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    uint32_t waits; /* to be let time, when all is linked */
    uint32_t kernel_count;
    kiln_child_kernel kernel[KILN_CHILD_KERNELS_MAX];
    kiln_child_module module;
    uint64_t seed, cpu_seconds;
    uint64_t memory_bytes; /* as in rpc-server/sandbox.h */
    uint32_t device;       /* of the executor: which one of its kind */
    uint32_t is_gpu;       /* the device has a clock of its own, which takes its time */
    uint32_t asks;         /* what the device is: there are no kernels, and the child ends */
    double race_ns;
    kiln_msg_policy policy;
    kiln_reference_kernel_norm norm; /* of the board */
} kiln_child_order;

typedef struct kiln_child_device {
    char target[KILN_CHILD_TEXT_BYTES], name[KILN_CHILD_TEXT_BYTES];
    char driver[KILN_CHILD_TEXT_BYTES];
    char management[KILN_CHILD_TEXT_BYTES]; /* empty: nothing to say */
    uint64_t memory_bytes;
} kiln_child_device;

typedef enum kiln_child_said {
    KILN_CHILD_PHASE = 1, /* entered `phase` */
    KILN_CHILD_READY,     /* the first note, before an order: code (fences that hold) */
    KILN_CHILD_LOADED,    /* all is linked and filled; it waits to be let time, as it was told */
    KILN_CHILD_REFUSED,   /* the artefact cannot be run: code, text; last note */
    KILN_CHILD_FAILED,    /* a call of the candidate went wrong: code (kiln_ran), text; last note */
    KILN_CHILD_DEVICE,    /* `device`, as was asked; last note */
    KILN_CHILD_MEASURED,  /* timing of `kernel`; one after the other, that of the last kernel last
                           */
} kiln_child_said;

typedef struct kiln_child_note {
    uint32_t magic, said, phase, kernel;
    uint32_t code; /* REFUSED: kiln_code; FAILED: kiln_ran; READY: a bit per kiln_fence */
    kiln_reference_kernel_round
        round; /* PHASE WARM and later: of the core or the device, before the candidate ran */
    /* Of the device, where its vendor's library tells: PHASE WARM: before the candidate ran; PHASE
     * CHECK and later: when all was timed. */
    kiln_device_reading reading;
    uint32_t is_read;
    char text[KILN_CHILD_TEXT_BYTES]; /* REFUSED, FAILED; NUL-terminated */
    kiln_timing timing;
    kiln_child_device device;
} kiln_child_note;

/* Files that travel with it: one per kernel, or a module and its inputs. */
uint32_t kiln_child_file_count(const kiln_child_order *order);

/* Parent. `fd`: [KILN_CHILD_ARTEFACT + files]. UNAVAILABLE: the child does not listen. */
KILN_MUST_USE kiln_status kiln_child_send_order(int socket, const kiln_child_order *order,
                                                const int *fd);
/* Parent: lets it time. UNAVAILABLE: the child does not listen. */
KILN_MUST_USE kiln_status kiln_child_let_time(int socket);
typedef enum kiln_child_got {
    KILN_CHILD_GOT_NOTE,
    KILN_CHILD_GOT_NOTHING, /* now */
    KILN_CHILD_GOT_END,     /* and no more can come */
    KILN_CHILD_GOT_RUBBISH, /* something of another size */
} kiln_child_got;
/* Parent: the next note, without waiting. */
kiln_child_got kiln_child_read_note(int socket, kiln_child_note *out_note);
/* Parent: waits for the first note of a child and leaves it to be read. DEADLINE_EXCEEDED,
 * UNAVAILABLE: it does not get ready. */
KILN_MUST_USE kiln_status kiln_child_await_ready(int socket, uint32_t *out_fences);

/* Parent: asks a child that is ready what device `index` of the executor is, and waits; its driver
 * may write into `folder`. Errors of the device, and DEADLINE_EXCEEDED, UNAVAILABLE: nobody
 * answers. */
KILN_MUST_USE kiln_status kiln_child_ask_device(int socket, int folder_fd, uint32_t executor,
                                                uint32_t index, kiln_child_device *out_device);

/* Child: waits. False when no order will come: a spare that is not needed, or a parent of another
 * version. */
bool kiln_child_read_order(int socket, kiln_child_order *out_order, int out_fd[KILN_CHILD_FDS_MAX]);
/* Child: waits until it may time. False when the parent is gone. */
bool kiln_child_await_turn(int socket);
/* Child: false when the parent is gone. */
bool kiln_child_send_note(int socket, const kiln_child_note *note);

#endif
