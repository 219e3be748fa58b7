/* Namespaces of a contained child: its own processes, network and files. For rpc-server/sandbox.c.
 * Each function runs in a process with one thread; false: this platform does not allow it, and
 * nothing has changed. */
#ifndef KILN_RPC_SERVER_NAMESPACES_H
#define KILN_RPC_SERVER_NAMESPACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "rpc-server/driver.h"

/* Gives a process that is not root rights over namespaces, through a user namespace in which it
 * keeps its number. Root needs none. */
bool kiln_namespace_user(void);
bool kiln_namespace_network(void);
/* Replaces the root and working folder by an empty file system of `size_bytes`, owned by `owner`.
 */
bool kiln_namespace_files(uint64_t size_bytes, uid_t owner);
/* Replaces it by the driver's files, read-only, its device files, and a writable folder /tmp in
 * memory, owned by `owner`. Files that the machine lacks are left out. */
bool kiln_namespace_driver_files(const kiln_driver *driver, uid_t owner);
/* Forks a new process, the first of its own namespace, unless this process is that already. When it
 * ends the kernel kills all others in the namespace. `*out_child`: the new process' number in the
 * old process, 0 in the new one. */
bool kiln_namespace_processes(pid_t *out_child);
/* Gives up all capabilities again. */
void kiln_namespace_leave_rights(void);

#endif
