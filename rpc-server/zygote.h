/* The zygote: a process from which contained children are forked. It has loaded the program and its
 * libraries, so that a child costs a fork directly into its control group, not the start of a
 * program and a move between groups, which waits for an RCU grace period of the kernel. Used by
 * rpc-server/helper_serve.c; children are in rpc-server/sandboxed_child.c. Children are the
 * caller's: it waits for and signals them, and they end with it. One thread. */
#ifndef KILN_RPC_SERVER_ZYGOTE_H
#define KILN_RPC_SERVER_ZYGOTE_H

#include <stdbool.h>

#include "base/child.h"
#include "rpc-server/driver.h"

/* Zeroed: closed. */
typedef struct kiln_zygote {
    kiln_child process;
} kiln_zygote;

/* False with a sanitizer, because a raw fork does not copy its threads and state. */
bool kiln_zygote_is_allowed(void);

/* Starts `program --children`, with only the variables that drivers need. NOT_FOUND,
 * PERMISSION_DENIED: of the program; RESOURCE_EXHAUSTED: no processes or descriptors. */
KILN_MUST_USE kiln_status kiln_zygote_open(kiln_zygote *zygote, const char *program);
/* Ends the zygote; its children live on. Accepts a closed one. */
void kiln_zygote_close(kiln_zygote *zygote);

/* Forks a child in a process group of its own and in the control group with folder `cgroup` (NULL:
 * none). It may open a device of `driver` (NULL: none). Its standard input is `socket`, which the
 * caller still owns. PERMISSION_DENIED, UNIMPLEMENTED: this machine does not allow it;
 * RESOURCE_EXHAUSTED: no processes, memory or descriptors now; NOT_FOUND, INVALID_ARGUMENT: the
 * folder is not a control group; UNAVAILABLE, DEADLINE_EXCEEDED: the zygote does not answer; close
 * it. */
KILN_MUST_USE kiln_status kiln_zygote_start(const kiln_zygote *zygote, const kiln_driver *driver,
                                            const char *cgroup, int socket, pid_t *out_pid);

/* How a child was started. */
typedef struct kiln_zygote_birth {
    bool is_grouped;           /* in a control group */
    const kiln_driver *driver; /* of the device that it may open; NULL: none */
} kiln_zygote_birth;
/* The zygote's main loop; requests come from standard input. Returns in each child, with the
 * child's socket as standard input. */
kiln_zygote_birth kiln_zygote_serve(void);

#endif
