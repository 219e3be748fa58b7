/* A process that contained children are copies of: it has the program, its libraries and what all
 * of them need in memory, so that a child costs a fork into its control group, and neither a
 * program's start nor a move between groups, for which the kernel waits until every processor has
 * passed a quiet point. For rpc-server/helper_serve.c; children know it from inside
 * (rpc-server/sandboxed_child.c). Children are the caller's own: it waits for them, signals them,
 * and they end with it. One thread.
 */
#ifndef KILN_RPC_SERVER_ZYGOTE_H
#define KILN_RPC_SERVER_ZYGOTE_H

#include <stdbool.h>

#include "base/child.h"
#include "rpc-server/driver.h"

/* Zeroed: closed. */
typedef struct kiln_zygote {
    kiln_child process;
} kiln_zygote;

/* False with a sanitizer inside: what it knows of the process, and its threads, are not copied. */
bool kiln_zygote_is_allowed(void);

/* Starts it: `program --children`, with an empty environment, so that no copy has any. NOT_FOUND,
 * PERMISSION_DENIED: the program; RESOURCE_EXHAUSTED: no processes or descriptors. */
KILN_MUST_USE kiln_status kiln_zygote_open(kiln_zygote *zygote, const char *program);
/* Children stay. Accepts a closed one. */
void kiln_zygote_close(kiln_zygote *zygote);

/* A child that opens a device of `driver`, unless that is NULL, in a process group of its own, and
 * in the control group with that folder unless it is NULL; its standard input is `socket`, which
 * stays the caller's. PERMISSION_DENIED, UNIMPLEMENTED: there are no copies on this machine;
 * RESOURCE_EXHAUSTED: no processes, memory or descriptors now; NOT_FOUND, INVALID_ARGUMENT: the
 * folder is no control group; UNAVAILABLE, DEADLINE_EXCEEDED: nobody answers, and nobody will. */
KILN_MUST_USE kiln_status kiln_zygote_start(const kiln_zygote *zygote, const kiln_driver *driver,
                                            const char *cgroup, int socket, pid_t *out_pid);

/* How a child was born. */
typedef struct kiln_zygote_birth {
    bool is_grouped;           /* into a control group */
    const kiln_driver *driver; /* of the device that it will open; NULL: of none */
} kiln_zygote_birth;
/* The zygote's own life, its caller's socket being its standard input. Returns in each child, whose
 * socket is then its standard input. */
kiln_zygote_birth kiln_zygote_serve(void);

#endif
