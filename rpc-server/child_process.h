/* Processes of contained children. The helper (rpc-server/helper.h) starts them, each in a process
 * group of its own and, where the system allows it, in a control group of its own. A child without
 * a file system of its own gets an empty folder, which is removed with it. A spare child is kept
 * ready, so that starting a process costs no measuring time. supervisor.c gives the children their
 * orders. One thread. */
#ifndef KILN_RPC_SERVER_CHILD_PROCESS_H
#define KILN_RPC_SERVER_CHILD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/child.h"
#include "rpc-server/helper.h"

typedef struct kiln_child_process {
    kiln_helper *helper;
    kiln_held child;  /* number 0: none */
    int socket;       /* to the child; rpc-server/child_protocol.h */
    int folder_fd;    /* -1: the child has a file system of its own */
    char *folder;     /* on the heap */
    bool ended, gone; /* as seen by the last look */
} kiln_child_process;

#define KILN_CHILD_PROCESS_NONE \
    ((kiln_child_process){.child = {.pidfd = -1}, .socket = -1, .folder_fd = -1})

/* Starts children. */
typedef struct kiln_child_pool {
    kiln_helper *helper; /* owned by the caller, like `folder` */
    const char *folder;
    kiln_child_process spare;
    uint32_t fences;                   /* a bit per kiln_fence that holds for children here */
    bool own_files, drivers_own_files; /* children (with drivers) need no folder */
} kiln_child_pool;

/* Removes what an earlier server left in the folder, starts the first spare and waits until it is
 * ready. Also tries one child for each of `driver` [driver_count], so that `fences` are those that
 * hold for all. PERMISSION_DENIED, RESOURCE_EXHAUSTED: the folder; NOT_FOUND: the program. */
KILN_MUST_USE kiln_status kiln_child_pool_open(kiln_child_pool *pool,
                                               const kiln_driver *const *driver,
                                               uint32_t driver_count);
/* Ends the spare and removes the folder. Accepts a pool that was not opened. */
void kiln_child_pool_close(kiln_child_pool *pool);
/* Starts a spare if there is none. Failures are ignored: the next call tries again, and a trial
 * without a spare starts its own child and reports the error. */
void kiln_child_pool_refill(kiln_child_pool *pool);

/* Takes the spare. Starts a new child if there is none, or if the child must open a device of
 * `driver`. The caller releases `*out_process` on success and on failure. RESOURCE_EXHAUSTED,
 * PERMISSION_DENIED: this machine's fault. */
KILN_MUST_USE kiln_status kiln_child_process_take(kiln_child_pool *pool, uint64_t run,
                                                  const kiln_driver *driver,
                                                  kiln_child_process *out_process);
/* Restricts the child to these cores through its control group, if it has one. */
void kiln_child_process_keep_to(const kiln_child_process *process, const uint32_t *core,
                                uint32_t core_count);
/* Kills the child's whole group; kiln_child_process_is_gone says when it has ended. */
void kiln_child_process_kill(const kiln_child_process *process);
/* Whether the child was seen to end by this call; then `*out_exit` says how. */
bool kiln_child_process_ended(kiln_child_process *process, kiln_child_exit *out_exit);
/* Whether the child's process has ended, without asking the helper. */
bool kiln_child_process_has_ended(const kiln_child_process *process);
/* Whether no process of its group and of its control group is left. */
bool kiln_child_process_is_gone(kiln_child_process *process);
/* Kills what is left, closes descriptors, removes the folder. Accepts KILN_CHILD_PROCESS_NONE, and
 * may be called twice. */
void kiln_child_process_release(kiln_child_process *process);

#endif
