/* What a candidate may do: compute. Runs in the contained child, in two steps: `confine` when the
 * process starts, `shut` when everything that needs the system is done and before the first
 * candidate code. Fences (base/fences.def) that the platform does not allow are left out, and
 * the board reports them; whether one holds is tried, not assumed. */
#ifndef KILN_RPC_SERVER_SANDBOX_H
#define KILN_RPC_SERVER_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fence.h"
#include "base/macros.h"
#include "rpc-server/executor.h"

/* Descriptor that the child talks to its parent through; the only one left after `shut`. */
#define KILN_SANDBOX_SOCKET 0
/* Nobody: the user a child becomes when its helper is root. */
#define KILN_SANDBOX_USER 65534
/* Address space that a candidate may still grow by: its stack. */
#define KILN_SANDBOX_GROWTH_BYTES ((uint64_t)64 << 20)
#define KILN_SANDBOX_FOLDER_BYTES ((uint64_t)1 << 20)

typedef struct kiln_sandbox {
    uint32_t fences; /* bit per kiln_fence that holds, or will once it is shut */
    int memory_fd;   /* of /proc/self/statm, for a process that sees no file any more */
} kiln_sandbox;

/* Leaves root for an unprivileged user without groups, and the machine's processes, network and
 * files for empty ones; ends with the parent and not by SIGTERM, dumps no core, writes no file. The
 * caller goes on in another process where process namespaces are allowed, unless it is the first of
 * one already: the one that it was stays behind to tell the parent how it ended. Ends the process
 * when something is refused that a platform cannot lack. */
void kiln_sandbox_confine(kiln_sandbox *out_sandbox);

/* Freezes the address space at its size, bounds the processor time, closes every descriptor but the
 * socket, gives every fault its plain, deadly meaning, and (KILN_SANDBOX_FULL) lets only the system
 * calls through that a computing kernel needs: sending on the socket, futexes, clocks, ending. Any
 * other ends the process with SIGSYS. Holds for all its threads. */
void kiln_sandbox_shut(const kiln_sandbox *sandbox, kiln_sandbox_profile profile,
                       uint64_t cpu_seconds);

/* Ends the process with one system call: what runs at an ordinary end may want more than the
 * sandbox allows. */
KILN_NORETURN void kiln_sandbox_exit(int code);

#endif
