/* Supervises measurements: gives each trial to a contained child (rpc-server/sandboxed_child.h),
 * checks the child's report, compares its outputs with the reference, and makes sure that its whole
 * group has ended.
 *
 * Where opening the device takes long (executors with the lifetime FAULT) a slot keeps its child
 * for later trials, until a trial fails or is over its deadline, KILN_SUPERVISOR_SERVES_MAX trials
 * are done, or a trial has another reference or executor. Then the child is killed, and nothing
 * starts before it has ended. If a kept child ends while it links a later trial the board is to
 * blame, because earlier candidates may have damaged the device's state.
 *
 * All functions belong to the loop's thread; outputs are compared on the loop's pool. */
#ifndef KILN_RPC_SERVER_SUPERVISOR_H
#define KILN_RPC_SERVER_SUPERVISOR_H

#include <stdint.h>

#include "proto/net.h"
#include "rpc-server/drift.h"
#include "rpc-server/executor.h"
#include "rpc-server/helper.h"
#include "rpc-server/slots.h"

/* Processor time of a child in addition to the deadlines of its phases, per core. */
#define KILN_SUPERVISOR_CPU_S 60u
/* Trials that one child serves at most. */
#define KILN_SUPERVISOR_SERVES_MAX 256u

typedef struct kiln_supervisor kiln_supervisor;

/* Called from the loop, never from inside kiln_supervisor_start or kiln_supervisor_kill. After
 * `finished` or `died` no process, file or descriptor of the run is left. */
typedef struct kiln_supervisor_handler {
    /* The child is linked and waits for kiln_supervisor_time, which may be called from here. NULL
     * if no child waits. */
    void (*loaded)(void *context, uint32_t slot, uint64_t run);
    void (*phase)(void *context, uint32_t slot, uint64_t run, kiln_phase phase);
    /* The child's processes have ended, so the next trial may start in its slot. The outcome
     * follows. */
    void (*vacated)(void *context, uint32_t slot, uint64_t run);
    /* The run has a result, valid during the call. Trial, attempt and lease are not filled. */
    void (*finished)(void *context, uint32_t slot, uint64_t run,
                     const kiln_msg_trial_result *result);
    /* The child ended without a result; `text` says how ("signal 11 ..."). */
    void (*died)(void *context, uint32_t slot, uint64_t run, const char *text);
} kiln_supervisor_handler;

typedef struct kiln_supervisor_options {
    kiln_loop *loop;
    kiln_helper *helper;           /* starts the children; outlives the supervisor */
    const char *emulator;          /* under which this program runs (base/proc.h); NULL: none */
    const char *folder;            /* for the children's folders; its contents are removed */
    kiln_blob_store_options blobs; /* of the store that takes outputs of modules */
    const kiln_executor *executor; /* for all trials; NULL: the one that an artefact names */
    const kiln_slots *slots;
    double peak_flops; /* of one core, measured here; no kernel exceeds it; 0: unknown */
    const kiln_supervisor_handler *handler;
    void *context;
} kiln_supervisor_options;

/* Strings and arrays of `options` must outlive it. PERMISSION_DENIED, RESOURCE_EXHAUSTED: the
 * folder. */
KILN_MUST_USE kiln_status kiln_supervisor_create(const kiln_supervisor_options *options,
                                                 kiln_supervisor **out_supervisor);
/* Kills running children without calling the handler. NULL is fine. */
void kiln_supervisor_destroy(kiln_supervisor *supervisor);

/* A bit per kiln_fence that holds for children here. */
uint32_t kiln_supervisor_fences(const kiln_supervisor *supervisor);

/* Usual times of the reference kernel in that slot; trials update them. */
const kiln_reference_kernel_norm *kiln_supervisor_norm(const kiln_supervisor *supervisor,
                                                       uint32_t slot);
/* Replaces the core's state in `env` by the state of the slot's device after its last trial, if one
 * was read. */
void kiln_supervisor_put_reading(const kiln_supervisor *supervisor, uint32_t slot,
                                 kiln_msg_env *env);

/* Paths of a trial's blobs (for a module: `reference` holds its inputs), and whether its child
 * waits for kiln_supervisor_time once it is linked. */
typedef struct kiln_supervisor_blobs {
    const char *reference;
    uint32_t artefact_count;                        /* at least 1 */
    const char *artefact[1 + KILN_MESSAGES_RIVALS]; /* the trial's, then its rivals' */
    bool waits;
} kiln_supervisor_blobs;

/* Starts `trial` (only its policy, bound, seed, deadlines and module are used) with these blobs. */
void kiln_supervisor_start(kiln_supervisor *supervisor, uint32_t slot, uint64_t run,
                           const kiln_msg_trial *trial, const kiln_supervisor_blobs *blobs);
/* Lets a loaded run time; from here on its candidate's code runs. Unknown runs are ignored. */
void kiln_supervisor_time(kiln_supervisor *supervisor, uint32_t slot, uint64_t run);
/* Kills the whole group; `died` or `finished` follows once it has ended. Unknown runs are ignored.
 */
void kiln_supervisor_kill(kiln_supervisor *supervisor, uint32_t slot, uint64_t run);

#endif
