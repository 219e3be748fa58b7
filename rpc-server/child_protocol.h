/* The protocol between a parent and its contained child, over a SOCK_SEQPACKET socket: the parent
 * sends one order with descriptors; the child sends notes of equal size; between them the parent
 * sends one word, after which the child may time. If the executor has the lifetime FAULT the child
 * sends READY again after it has unloaded a trial, and takes the next order. Both ends are the same
 * program, so messages are plain structs. From the note WARM on, candidate code may have run in the
 * child's address space, so its notes prove nothing: the parent bounds every number, and compares
 * the outputs itself, in memory that the child can write but whose expected content it never sees.
 */
#ifndef KILN_RPC_SERVER_CHILD_PROTOCOL_H
#define KILN_RPC_SERVER_CHILD_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/proto.h"
#include "rpc-server/executor.h"
#include "rpc-server/timing.h"

#define KILN_CHILD_MAGIC UINT32_C(0x31444c4b) /* "KLD1" */

/* Kernels of one order: the trial's own and its rivals, measured in turns. */
#define KILN_CHILD_KERNELS_MAX (1u + KILN_MESSAGES_RIVALS)

/* Descriptors passed with the order, in this order; one artefact per kernel. */
typedef enum kiln_child_fd {
    KILN_CHILD_OUTPUTS, /* sealed memory: per kernel 2 * output_bytes, after the first call and
                            after the last */
    KILN_CHILD_FOLDER,  /* an empty folder for a child without a file system of its own; else unused
                         */
    KILN_CHILD_ARTEFACT, /* the first artefact's bytes, read-only; the others follow. For a module:
                            its bytes, then its inputs */
    KILN_CHILD_FDS_MAX = KILN_CHILD_ARTEFACT + KILN_CHILD_KERNELS_MAX
} kiln_child_fd;

#define KILN_CHILD_TEXT_BYTES 512u
#define KILN_CHILD_INPUTS_MAX 256u /* of a module */

typedef struct kiln_child_kernel {
    uint64_t artefact_bytes, output_bytes;
} kiln_child_kernel;

/* A module instead of a kernel; kernel 0 holds the sizes of its bytes and outputs. */
typedef struct kiln_child_module {
    uint32_t is_asked, bench;
    uint32_t input_count;
    uint64_t input_bytes;
    int64_t size; /* size of the module's free dimension; 0: its default */
    uint64_t samples[KILN_CHILD_INPUTS_MAX]; /* [input_count] */
} kiln_child_module;

typedef struct kiln_child_order {
    uint32_t magic;
    uint32_t executor; /* row in executors.def */
    uint32_t core_count;
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    uint32_t waits; /* once linked, wait for the word to time */
    uint32_t kernel_count;
    kiln_child_kernel kernel[KILN_CHILD_KERNELS_MAX];
    kiln_child_module module;
    uint64_t seed, cpu_seconds;
    uint64_t memory_bytes; /* as in rpc-server/sandbox.h */
    uint32_t device;       /* number of the executor's device */
    uint32_t is_gpu;       /* the device times with a clock of its own */
    uint32_t
        asks; /* asks for a description of the device: there are no kernels, and the child ends */
    double race_ns;
    kiln_msg_policy policy;
    kiln_reference_kernel_norm norm; /* of the board */
} kiln_child_order;

typedef struct kiln_child_device {
    char target[KILN_CHILD_TEXT_BYTES], name[KILN_CHILD_TEXT_BYTES];
    char driver[KILN_CHILD_TEXT_BYTES];
    char management[KILN_CHILD_TEXT_BYTES]; /* empty: nothing to report */
    uint64_t memory_bytes;
} kiln_child_device;

typedef enum kiln_child_said {
    KILN_CHILD_PHASE = 1, /* entered `phase` */
    KILN_CHILD_READY,     /* first note, before an order: code (fences that hold) */
    KILN_CHILD_LOADED,    /* all is linked and filled; the child waits to time, as ordered */
    KILN_CHILD_REFUSED,   /* the artefact cannot run: code, text; last note */
    KILN_CHILD_FAILED,    /* a call of the candidate failed: code (kiln_ran), text; last note */
    KILN_CHILD_DEVICE,    /* `device`, as ordered; last note */
    KILN_CHILD_MEASURED,  /* timing of `kernel`, in order; the last kernel's is the last note */
} kiln_child_said;

typedef struct kiln_child_note {
    uint32_t magic, said, phase, kernel;
    uint32_t code; /* REFUSED: kiln_code; FAILED: kiln_ran; READY: a bit per kiln_fence */
    kiln_reference_kernel_round
        round; /* PHASE WARM and later: of the core or the device, before the candidate ran */
    /* Reading of the device, if its vendor's library gives one (`is_read`). PHASE WARM: before the
     * candidate ran; PHASE CHECK and later: after the timing. */
    kiln_device_reading reading;
    uint32_t is_read;
    char text[KILN_CHILD_TEXT_BYTES]; /* REFUSED, FAILED; NUL-terminated */
    kiln_timing timing;
    kiln_child_device device;
} kiln_child_note;

/* Number of files sent with an order: one per kernel, or a module and its inputs. */
uint32_t kiln_child_file_count(const kiln_child_order *order);

/* Parent: sends an order. `fd`: [KILN_CHILD_ARTEFACT + files]. UNAVAILABLE: the child has closed
 * the socket. */
KILN_MUST_USE kiln_status kiln_child_send_order(int socket, const kiln_child_order *order,
                                                const int *fd);
/* Parent: lets the child time. UNAVAILABLE: the child has closed the socket. */
KILN_MUST_USE kiln_status kiln_child_let_time(int socket);
typedef enum kiln_child_got {
    KILN_CHILD_GOT_NOTE,
    KILN_CHILD_GOT_NOTHING, /* no note yet */
    KILN_CHILD_GOT_END,     /* the socket is closed; no note can follow */
    KILN_CHILD_GOT_RUBBISH, /* a message of another size */
} kiln_child_got;
/* Parent: the next note, without waiting. */
kiln_child_got kiln_child_read_note(int socket, kiln_child_note *out_note);
/* Parent: waits for READY and leaves the note to be read. DEADLINE_EXCEEDED, UNAVAILABLE: the child
 * did not get ready. */
KILN_MUST_USE kiln_status kiln_child_await_ready(int socket, uint32_t *out_fences);

/* Parent: asks a ready child to describe device `index` of the executor, and waits. The driver may
 * write into `folder_fd`. Errors of the device; DEADLINE_EXCEEDED, UNAVAILABLE: the child did not
 * answer. */
KILN_MUST_USE kiln_status kiln_child_ask_device(int socket, int folder_fd, uint32_t executor,
                                                uint32_t index, kiln_child_device *out_device);

/* Child: waits for an order. False if none will come: the parent closed the socket, or is of
 * another version. */
bool kiln_child_read_order(int socket, kiln_child_order *out_order, int out_fd[KILN_CHILD_FDS_MAX]);
/* Child: waits until it may time. False if the parent has ended. */
bool kiln_child_await_turn(int socket);
/* Child: sends a note. False if the parent has ended. */
bool kiln_child_send_note(int socket, const kiln_child_note *note);

#endif
