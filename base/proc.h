/* Runs child processes to their end, for tests, the private fleet and worker pools: posix_spawn
 * with an argument vector, never a shell, never a bare fork, because parents have threads. */
#ifndef KILN_BASE_PROC_H
#define KILN_BASE_PROC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef struct kiln_proc_options {
    const char *const *argv;      /* NULL-terminated; argv[0] is a path (or searched on PATH) */
    const char *const *env_extra; /* NULL-terminated "NAME=value", added to ours; may be NULL */
    const char *cwd;              /* NULL: ours */
    kiln_str input;               /* fed to stdin, then closed */
    uint64_t deadline_ns; /* duration, after which the whole process group is killed; 0: none */
    size_t output_max;    /* bytes kept of each stream; more is dropped */
} kiln_proc_options;

typedef struct kiln_proc_result {
    int exit_code; /* -1 when killed by a signal */
    int signal;    /* 0 when it exited */
    bool timed_out;
    kiln_str out, err; /* NUL-terminated, in the arena */
} kiln_proc_result;

/* Runs the child to its end. Errors are those of starting it; its exit is in the result. */
KILN_MUST_USE kiln_status kiln_proc_run(const kiln_proc_options *options, kiln_arena *arena,
                                        kiln_proc_result *out_result);

/* Path of the running program, without symbolic links, and of a sibling program in the build or
 * install tree: $KILN_BIN/NAME, or "kiln-tracker" beside "kiln"; in a build folder also
 * $KILN_BIN/tracker/NAME and ../tracker/NAME. NOT_FOUND names the places tried. */
KILN_MUST_USE kiln_status kiln_proc_self(kiln_arena *arena, char **out_path);
KILN_MUST_USE kiln_status kiln_proc_sibling(const char *name, kiln_arena *arena, char **out_path);

/* Path of the emulator under which this program runs (qemu-user); NULL: none. Programs for the same
 * machine are started as arguments of the emulator, because the kernel cannot run them. */
const char *kiln_proc_emulator(kiln_arena *arena);

#endif
