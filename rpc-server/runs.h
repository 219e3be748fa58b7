/* Carries out the actions START, TIME, KILL and CHECK of rpc-server/server.h: finds a trial's
 * blobs, starts its contained child (rpc-server/supervisor.h), and posts events. Tells the board's
 * self-check from trials. Belongs to the loop's thread. */
#ifndef KILN_RPC_SERVER_RUNS_H
#define KILN_RPC_SERVER_RUNS_H

#include "proto/net.h"
#include "rpc-server/drift.h"
#include "rpc-server/executor.h"
#include "rpc-server/helper.h"
#include "rpc-server/server.h"
#include "rpc-server/slots.h"

/* Limit of the store: artefacts, references and outputs of modules. */
#define KILN_SERVER_BLOB_BYTES_MAX ((uint64_t)4 << 30)

typedef struct kiln_runs kiln_runs;

typedef struct kiln_runs_options {
    kiln_loop *loop;
    kiln_helper *helper; /* as in rpc-server/supervisor.h */
    const char *state_folder;
    const char *emulator;          /* as in rpc-server/supervisor.h */
    const kiln_executor *executor; /* NULL: the one that an artefact names */
    const kiln_slots *slots;
    double peak_flops;
    kiln_blob_store *store;
    /* Must copy what it keeps of an event. */
    void (*post)(void *context, const kiln_server_event *event);
    void *context;
} kiln_runs_options;

/* What `options` points to must outlive it. PERMISSION_DENIED, RESOURCE_EXHAUSTED: the state
 * folder, or the first child. */
KILN_MUST_USE kiln_status kiln_runs_create(const kiln_runs_options *options, kiln_runs **out_runs);
/* Kills running children, without events. NULL is fine. */
void kiln_runs_destroy(kiln_runs *runs);
/* Deadline of the board's self-check; 0: there is no golden kernel for this target. */
uint64_t kiln_runs_check_ns(const kiln_runs *runs);
/* kiln_supervisor_norm. */
const kiln_reference_kernel_norm *kiln_runs_norm(const kiln_runs *runs, uint32_t slot);
/* kiln_supervisor_put_reading. */
void kiln_runs_put_reading(const kiln_runs *runs, uint32_t slot, kiln_msg_env *env);
/* kiln_supervisor_fences. */
uint32_t kiln_runs_fences(const kiln_runs *runs);

/* The actions. */
void kiln_runs_start(kiln_runs *runs, const kiln_server_action *action);
void kiln_runs_time(kiln_runs *runs, const kiln_server_action *action);
void kiln_runs_kill(kiln_runs *runs, const kiln_server_action *action);
void kiln_runs_check(kiln_runs *runs, const kiln_server_action *action);

#endif
