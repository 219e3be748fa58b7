/* What a candidate may do: compute. Runs in the contained child, in two steps: `confine` when the
 * process starts, `shut` when everything that needs the system is done and before the first
 * candidate code. What the platform lacks is skipped here and reported by the board
 * (kiln_sandbox_missing). */
#ifndef KILN_RPC_SERVER_SANDBOX_H
#define KILN_RPC_SERVER_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/str.h"
#include "rpc-server/executor.h"

/* Descriptor that the child talks to its parent through; the only one left after `shut`. */
#define KILN_SANDBOX_SOCKET 0
/* Nobody: the user a child becomes when the server is root. */
#define KILN_SANDBOX_USER 65534
/* Address space that a candidate may still grow by: its stack. */
#define KILN_SANDBOX_GROWTH_BYTES ((uint64_t)64 << 20)

/* Comma-separated: "seccomp" (or built without it), "uid" (not started as root, so that
 * RLIMIT_NPROC counts other processes of the user too). Empty: everything is there. */
void kiln_sandbox_missing(kiln_strbuf *out);

/* Leaves root for an unprivileged user without groups, ends with the parent, dumps no core, starts
 * no process and writes no file. Ends the process when one of these is refused. */
void kiln_sandbox_confine(void);

/* Freezes the address space at its size, bounds the processor time, closes every descriptor but the
 * socket, gives every fault its plain, deadly meaning, and (KILN_SANDBOX_FULL) lets only the system
 * calls through that a computing kernel needs: sending on the socket, futexes, clocks, ending. Any
 * other ends the process with SIGSYS. Holds for all its threads. */
void kiln_sandbox_shut(kiln_sandbox_profile profile, uint64_t cpu_seconds);

/* Ends the process with one system call: what runs at an ordinary end may want more than the
 * sandbox allows. */
KILN_NORETURN void kiln_sandbox_exit(int code);

#endif
