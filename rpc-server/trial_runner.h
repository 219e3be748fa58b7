/* Carries out the actions START, TIME, KILL and CHECK of rpc-server/server.h: finds a trial's
 * blobs, starts its contained child (rpc-server/supervisor.h), and posts events. Tells the board's
 * self-check from trials. Belongs to the loop's thread. */
#ifndef KILN_RPC_SERVER_TRIAL_RUNNER_H
#define KILN_RPC_SERVER_TRIAL_RUNNER_H

#include "proto/net.h"
#include "rpc-server/drift.h"
#include "rpc-server/executor.h"
#include "rpc-server/helper.h"
#include "rpc-server/server.h"
#include "rpc-server/slots.h"

/* Limit of the store: artefacts, references and outputs of modules. */
#define KILN_SERVER_BLOB_BYTES_MAX ((uint64_t)4 << 30)

typedef struct kiln_trial_runner kiln_trial_runner;

typedef struct kiln_trial_runner_options {
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
} kiln_trial_runner_options;

/* What `options` points to must outlive it. PERMISSION_DENIED, RESOURCE_EXHAUSTED: the state
 * folder, or the first child. */
KILN_MUST_USE kiln_status kiln_trial_runner_create(const kiln_trial_runner_options *options,
                                                   kiln_trial_runner **out_runner);
/* Kills running children, without events. NULL is fine. */
void kiln_trial_runner_destroy(kiln_trial_runner *runner);
/* Deadline of the board's self-check; 0: there is no golden kernel for this target. */
uint64_t kiln_trial_runner_check_ns(const kiln_trial_runner *runner);
/* kiln_supervisor_norm. */
const kiln_reference_kernel_norm *kiln_trial_runner_norm(const kiln_trial_runner *runner,
                                                         uint32_t slot);
/* kiln_supervisor_put_reading. */
void kiln_trial_runner_put_reading(const kiln_trial_runner *runner, uint32_t slot,
                                   kiln_msg_env *env);
/* kiln_supervisor_fences. */
uint32_t kiln_trial_runner_fences(const kiln_trial_runner *runner);

/* The actions. */
void kiln_trial_runner_start(kiln_trial_runner *runner, const kiln_server_action *action);
void kiln_trial_runner_time(kiln_trial_runner *runner, const kiln_server_action *action);
void kiln_trial_runner_kill(kiln_trial_runner *runner, const kiln_server_action *action);
void kiln_trial_runner_check(kiln_trial_runner *runner, const kiln_server_action *action);

#endif
