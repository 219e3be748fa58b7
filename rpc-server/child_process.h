/* Contained children as processes, which are the helper's (rpc-server/helper.h): each the leader of
 * a group of its own, in a control group of its own where there can be some; one that has no file
 * system of its own gets an empty folder that goes away with it. A spare waits ready, so that
 * starting a process does not cost measuring time. What children are told to do is supervisor.c's
 * affair. One thread. */
#ifndef KILN_RPC_SERVER_CHILD_PROCESS_H
#define KILN_RPC_SERVER_CHILD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/child.h"
#include "rpc-server/helper.h"

typedef struct kiln_child_process {
    kiln_helper *helper;
    kiln_held child;  /* number 0: none */
    int socket;       /* of rpc-server/child_protocol.h */
    int folder_fd;    /* -1: it has files of its own */
    char *folder;     /* on the heap */
    bool ended, gone; /* as far as we looked */
} kiln_child_process;

#define KILN_CHILD_PROCESS_NONE \
    ((kiln_child_process){.child = {.pidfd = -1}, .socket = -1, .folder_fd = -1})

/* Where children come from. */
typedef struct kiln_child_pool {
    kiln_helper *helper; /* of the caller, like `folder` */
    const char *folder;
    kiln_child_process spare;
    uint32_t fences;                   /* bit per kiln_fence that holds for children here */
    bool own_files, drivers_own_files; /* whether children need no folder */
} kiln_child_pool;

/* Empties the folder of what an earlier server left, starts the first spare and waits until it is
 * ready; and once a child for each of `driver` [driver_count], so that `fences` are those that hold
 * for all. PERMISSION_DENIED, RESOURCE_EXHAUSTED: the folder; NOT_FOUND: the program. */
KILN_MUST_USE kiln_status kiln_child_pool_open(kiln_child_pool *pool,
                                               const kiln_driver *const *driver,
                                               uint32_t driver_count);
/* Ends the spare and removes the folder. Accepts one that was not opened. */
void kiln_child_pool_close(kiln_child_pool *pool);
/* The next spare, unless one waits. What a machine refuses now it may allow later: the next call
 * tries again, and a trial that finds none starts its own, or says why not. */
void kiln_child_pool_refill(kiln_child_pool *pool);

/* The spare, or a new child where there is none or it is to open a device of `driver`, in
 * `*out_ward`, which is released by the caller whatever comes. RESOURCE_EXHAUSTED,
 * PERMISSION_DENIED: this machine's fault. */
KILN_MUST_USE kiln_status kiln_child_process_take(kiln_child_pool *pool, uint64_t run,
                                                  const kiln_driver *driver,
                                                  kiln_child_process *out_ward);
/* Binds it to these cores, where that can be done from outside. */
void kiln_child_process_keep_to(const kiln_child_process *process, const uint32_t *core,
                                uint32_t core_count);
/* Kills all of it; it is gone when kiln_child_process_is_gone says so. */
void kiln_child_process_kill(const kiln_child_process *process);
/* Whether the child ended and was reaped; then `*out_exit` says how. */
bool kiln_child_process_ended(kiln_child_process *process, kiln_child_exit *out_exit);
/* Whether its process has ended, as far as can be seen without asking the helper. */
bool kiln_child_process_has_ended(const kiln_child_process *process);
/* Whether no process is left of its group, nor of its control group. */
bool kiln_child_process_is_gone(kiln_child_process *process);
/* Kills what is left, closes, removes the folder. Accepts KILN_CHILD_PROCESS_NONE, and twice. */
void kiln_child_process_release(kiln_child_process *process);

#endif
