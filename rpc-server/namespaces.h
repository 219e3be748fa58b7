/* Namespaces of a contained child: its own processes, network and files. For rpc-server/sandbox.c.
 * Each function runs in a process with one thread; false: this platform does not allow it, and
 * nothing changed. */
#ifndef KILN_RPC_SERVER_NAMESPACES_H
#define KILN_RPC_SERVER_NAMESPACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "rpc-server/driver.h"

/* Rights over namespaces for a process that is not root: a user namespace in which it keeps its own
 * number. True at once for root. */
bool kiln_namespace_user(void);
bool kiln_namespace_network(void);
/* An empty file system of `size_bytes` for `owner`, as root folder and working folder. */
bool kiln_namespace_files(uint64_t size_bytes, uid_t owner);
/* A file system that holds what the driver sees, read-only, its device files, and a folder /tmp of
 * `owner` in memory where the driver may write. What the machine lacks is left out. */
bool kiln_namespace_driver_files(const kiln_driver *driver, uid_t owner);
/* Goes on in a new process, the first of its namespace, unless it is that already: when it ends,
 * the kernel ends all others in it. `*out_guard`: in the process that stays behind, its child's
 * number; in the one that goes on 0. */
bool kiln_namespace_processes(pid_t *out_guard);
/* Gives up every right over them again. */
void kiln_namespace_leave_rights(void);

#endif
