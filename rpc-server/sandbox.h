/* The sandbox of a contained child, in which candidate code can only compute. It closes in two
 * steps: `confine` when the process starts, `shut` after everything that needs the system and
 * before the first candidate code. A child that opens a device keeps what the device's driver needs
 * (rpc-server/driver.h): it sees the driver's files, calls `shut` once the device is open, and
 * loads and builds after that. Fences (base/fences.def) that the platform does not allow are left
 * out, and the board reports them. Whether a fence holds is tried, not assumed. */
#ifndef KILN_RPC_SERVER_SANDBOX_H
#define KILN_RPC_SERVER_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fence.h"
#include "base/macros.h"
#include "rpc-server/driver.h"

/* Descriptor of the socket to the parent; the only one left after `shut`. */
#define KILN_SANDBOX_SOCKET 0
/* "nobody": the user of children of a helper that is root. */
#define KILN_SANDBOX_USER 65534
/* Growth of the address space that a candidate may use, for its stack. */
#define KILN_SANDBOX_GROWTH_BYTES ((uint64_t)64 << 20)
#define KILN_SANDBOX_FOLDER_BYTES ((uint64_t)1 << 20)

typedef struct kiln_sandbox {
    uint32_t fences;           /* a bit per kiln_fence that holds, now or after `shut` */
    int memory_fd;             /* of /proc/self/statm, opened before files become invisible */
    const kiln_driver *driver; /* NULL: the full sandbox */
} kiln_sandbox;

/* Changes from root to an unprivileged user without groups, and enters namespaces without the
 * machine's processes, network and files, except those that `driver` (NULL: none) needs. The
 * process then ends with its parent, ignores SIGTERM, dumps no core, and writes no file but the
 * driver's. With a process namespace the caller continues in a new process; the old one waits to
 * report the exit to the parent. Ends the process if a step fails that every platform allows. */
void kiln_sandbox_confine(const kiln_driver *driver, kiln_sandbox *out_sandbox);

/* Parent: lets the children's user write into this folder, which a driver uses if the child has no
 * file system of its own. */
void kiln_sandbox_let_write(int folder_fd);

typedef struct kiln_sandbox_bounds {
    uint64_t cpu_seconds;  /* processor time from now on */
    uint64_t memory_bytes; /* that a driver with a bounded address space may still allocate */
} kiln_sandbox_bounds;

/* Freezes the address space at its size, bounds the processor time, closes every descriptor but the
 * socket, resets the handlers of fault signals, and allows only the system calls that a computing
 * kernel needs: sending on the socket, futexes, clocks, exit. Any other call ends the process with
 * SIGSYS. Holds for all threads.
 *
 * With a driver, descriptors stay open, the address space may grow by memory_bytes (or without
 * bound), and calls other than the driver's rows fail. */
void kiln_sandbox_shut(const kiln_sandbox *sandbox, const kiln_sandbox_bounds *bounds);
/* Gives a kept child that much processor time from now on. */
void kiln_sandbox_allow_time(uint64_t cpu_seconds);

/* Whether this process may start no other. */
bool kiln_sandbox_cannot_fork(void);

/* Ends the process with one system call, because exit handlers may need calls that the sandbox
 * forbids. */
KILN_NORETURN void kiln_sandbox_exit(int code);

#endif
