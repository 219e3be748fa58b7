/* What a candidate may do: compute. Runs in the contained child, in two steps: `confine` when the
 * process starts, `shut` when everything that needs the system is done and before the first
 * candidate code. A child that opens a device keeps what the device's driver needs
 * (rpc-server/driver.h): it sees the driver's files, shuts when the device is open, and goes on
 * loading and building behind that. Fences (base/fences.def) that the platform does not allow are
 * left out, and the board reports them; whether one holds is tried, not assumed. */
#ifndef KILN_RPC_SERVER_SANDBOX_H
#define KILN_RPC_SERVER_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fence.h"
#include "base/macros.h"
#include "rpc-server/driver.h"

/* Descriptor that the child talks to its parent through; the only one left after `shut`. */
#define KILN_SANDBOX_SOCKET 0
/* Nobody: the user a child becomes when its helper is root. */
#define KILN_SANDBOX_USER 65534
/* Address space that a candidate may still grow by: its stack. */
#define KILN_SANDBOX_GROWTH_BYTES ((uint64_t)64 << 20)
#define KILN_SANDBOX_FOLDER_BYTES ((uint64_t)1 << 20)

typedef struct kiln_sandbox {
    uint32_t fences;           /* bit per kiln_fence that holds, or will once it is shut */
    int memory_fd;             /* of /proc/self/statm, for a process that sees no file any more */
    const kiln_driver *driver; /* NULL: the full sandbox */
} kiln_sandbox;

/* Leaves root for an unprivileged user without groups, and the machine's processes, network and
 * files for empty ones, or for those that `driver` (NULL: none) needs; ends with the parent and not
 * by SIGTERM, dumps no core, writes no file but the driver's. The caller goes on in another process
 * where process namespaces are allowed, unless it is the first of one already: the one that it was
 * stays behind to tell the parent how it ended. Ends the process when something is refused that a
 * platform cannot lack. */
void kiln_sandbox_confine(const kiln_driver *driver, kiln_sandbox *out_sandbox);

/* Parent: the user that children become may write into this folder, which a driver has in place of
 * files of its own. */
void kiln_sandbox_let_write(int folder_fd);

typedef struct kiln_sandbox_bounds {
    uint64_t cpu_seconds;  /* processor time from now on */
    uint64_t memory_bytes; /* that a driver whose address space is bounded may take beside what it
                              has */
} kiln_sandbox_bounds;

/* Freezes the address space at its size, bounds the processor time, closes every descriptor but the
 * socket, gives every fault its plain, deadly meaning, and lets only the system calls through that
 * a computing kernel needs: sending on the socket, futexes, clocks, ending. Any other ends the
 * process with SIGSYS. Holds for all its threads.
 *
 * With a driver descriptors stay, the address space may grow by memory_bytes or as it likes, and
 * calls beyond those of the driver's rows fail. */
void kiln_sandbox_shut(const kiln_sandbox *sandbox, const kiln_sandbox_bounds *bounds);
/* Of a child that serves on: that much processor time from now on. */
void kiln_sandbox_allow_time(uint64_t cpu_seconds);

/* Ends the process with one system call: what runs at an ordinary end may want more than the
 * sandbox allows. */
KILN_NORETURN void kiln_sandbox_exit(int code);

#endif
