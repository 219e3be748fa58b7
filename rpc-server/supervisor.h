/* The parent's side of a measurement: a contained child per trial (rpc-server/sandboxed_child.h),
 * killed as a group and verified gone, its report bounded, its outputs compared here with the
 * reference. A spare child waits ready, so that starting a process does not cost measuring time.
 *
 * Where opening the device takes long (executors with the lifetime FAULT), a child is kept in its
 * slot from trial to trial, until one goes wrong, its time is over, KILN_SUPERVISOR_SERVES_MAX are
 * done, or one comes with another reference or executor. Then it is killed, and nothing starts
 * before it is verified gone. One that ends while it links for a later trial than its first is the
 * board's fault: what ran in it before may have spoilt the device.
 *
 * Everything is called on the loop's thread; comparing runs on the loop's pool. */
#ifndef KILN_RPC_SERVER_SUPERVISOR_H
#define KILN_RPC_SERVER_SUPERVISOR_H

#include <stdint.h>

#include "proto/net.h"
#include "rpc-server/drift.h"
#include "rpc-server/executor.h"
#include "rpc-server/helper.h"
#include "rpc-server/slots.h"

/* Processor time of a child beyond the deadlines of its phases, per core. */
#define KILN_SUPERVISOR_CPU_S 60u
/* Trials that one child serves at most. */
#define KILN_SUPERVISOR_SERVES_MAX 256u

typedef struct kiln_supervisor kiln_supervisor;

/* Called from the loop, never from inside kiln_supervisor_start or kiln_supervisor_kill. After
 * FINISHED or DIED the run is over: no process, no file, no descriptor of it is left. */
typedef struct kiln_supervisor_handler {
    /* It is linked and waits for kiln_supervisor_time, which may be called from here; NULL where
     * none waits. */
    void (*loaded)(void *context, uint32_t slot, uint64_t run);
    void (*phase)(void *context, uint32_t slot, uint64_t run, kiln_phase phase);
    /* Its processes are gone and the next may start in its slot; how it ended is still being found
     * out. */
    void (*vacated)(void *context, uint32_t slot, uint64_t run);
    /* It ended by itself. Trial, attempt and lease are not filled; views last until it returns. */
    void (*finished)(void *context, uint32_t slot, uint64_t run,
                     const kiln_msg_trial_result *result);
    /* It is gone without a result: `text` says how ("signal 11 ..."). */
    void (*died)(void *context, uint32_t slot, uint64_t run, const char *text);
} kiln_supervisor_handler;

typedef struct kiln_supervisor_options {
    kiln_loop *loop;
    kiln_helper *helper;           /* which starts the children; outlives the supervisor */
    const char *emulator;          /* that it runs under (base/proc.h); NULL: none */
    const char *folder;            /* of the children's own folders; what is in it goes away */
    kiln_blob_store_options blobs; /* of the store that takes what modules leave */
    const kiln_executor
        *executor; /* used for everything; NULL: the one that the artefact asks for */
    const kiln_slots *slots;
    double peak_flops; /* of one core, measured here: what no kernel can beat; 0: unknown */
    const kiln_supervisor_handler *handler;
    void *context;
} kiln_supervisor_options;

/* Strings and arrays of `options` must outlive it. PERMISSION_DENIED, RESOURCE_EXHAUSTED: the
 * folder. */
KILN_MUST_USE kiln_status kiln_supervisor_create(const kiln_supervisor_options *options,
                                                 kiln_supervisor **out_cages);
/* Kills what runs, without a word to the handler. NULL is fine. */
void kiln_supervisor_destroy(kiln_supervisor *supervisor);

/* A bit per kiln_fence that holds for children here. */
uint32_t kiln_supervisor_fences(const kiln_supervisor *supervisor);

/* What the reference kernel usually takes on the core of that slot; changes with trials. */
const kiln_reference_kernel_norm *kiln_supervisor_norm(const kiln_supervisor *supervisor,
                                                       uint32_t slot);
/* Puts the state of the slot's device, behind its last trial, in place of that of its core; leaves
 * `env` alone where nothing tells of one. */
void kiln_supervisor_put_reading(const kiln_supervisor *supervisor, uint32_t slot,
                                 kiln_msg_env *env);

/* Where the blobs of a trial are (of a module's: its inputs, and itself), and whether its child
 * waits for kiln_supervisor_time when it is linked.
 */
typedef struct kiln_supervisor_blobs {
    const char *reference;
    uint32_t artefact_count;                        /* at least 1 */
    const char *artefact[1 + KILN_MESSAGES_RIVALS]; /* its own, then its rivals' */
    bool waits;
} kiln_supervisor_blobs;

/* Starts `trial` (only its policy, bound, seed, deadlines and module are used) with these blobs. */
void kiln_supervisor_start(kiln_supervisor *supervisor, uint32_t slot, uint64_t run,
                           const kiln_msg_trial *trial, const kiln_supervisor_blobs *blobs);
/* Lets a run that is loaded go on: from here on code of its candidate runs. Unknown runs are
 * ignored. */
void kiln_supervisor_time(kiln_supervisor *supervisor, uint32_t slot, uint64_t run);
/* Kills the whole group; `died` follows when it is gone. Unknown runs are ignored. */
void kiln_supervisor_kill(kiln_supervisor *supervisor, uint32_t slot, uint64_t run);

#endif
