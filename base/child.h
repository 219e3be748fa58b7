/* Child processes that live beside us: builder workers, the private fleet, measurement children.
 * Started with posix_spawn in a process group of their own, optionally joined by pipes. For
 * children that are run to their end in one call see base/proc.h. */
#ifndef KILN_BASE_CHILD_H
#define KILN_BASE_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

typedef struct kiln_child_options {
    const char *const *argv;      /* NULL-terminated; argv[0] is a path, or searched on PATH */
    const char *const *env_extra; /* NULL-terminated "NAME=value", replacing ours; may be NULL */
    bool bare_environment;        /* nothing of ours, `env_extra` alone; such a child does not call
                                     kiln_child_die_with_parent */
    const char *cwd;              /* NULL: ours */
    int input_fd;                 /* standard input when > 0; stays the caller's */
    int third_fd; /* the child's descriptor 3 when > 0, for a file that it may not open itself;
                     stays the caller's */
    bool pipe_in, pipe_out; /* join standard input, output by pipes; else /dev/null and ours */
    bool pipe_error;        /* the same for standard error */
    bool socket_in; /* standard input is a SOCK_SEQPACKET socket: bounded messages, both ways, and
                       descriptors can be passed; in_fd is our end */
    const char *error_path; /* standard error is appended to this file; NULL: ours */
} kiln_child_options;

typedef struct kiln_child {
    pid_t pid; /* 0: none */
    /* Our ends, non-blocking and close-on-exec; -1: none. */
    int in_fd, out_fd, error_fd;
} kiln_child;

typedef struct kiln_child_exit {
    int code;   /* exit code, or -1 when killed by a signal */
    int signal; /* 0 when it exited */
} kiln_child_exit;

/* Returns when the program runs: 1 ms, and tens where other programs have all cores, so that loops
 * leave it to their pool (kiln_loop_work). A child that is to die with its parent
 * (kiln_child_die_with_parent) dies with the thread that started it; those of the pool live as long
 * as the program.
 *
 * NOT_FOUND, PERMISSION_DENIED: the program; RESOURCE_EXHAUSTED: no processes or descriptors. */
KILN_MUST_USE kiln_status kiln_child_start(const kiln_child_options *options,
                                           kiln_child *out_child);
/* Whether it has ended; then it is reaped and `*out_exit` says how. Does not wait. */
bool kiln_child_ended(kiln_child *child, kiln_child_exit *out_exit);
/* Asks it to end (SIGTERM), for a child that cleans up. */
void kiln_child_stop(const kiln_child *child);
/* Waits for the end and reaps. */
kiln_child_exit kiln_child_wait(kiln_child *child);
/* Kills the whole group, reaps, closes the pipes; accepts one that ended or was never started. */
void kiln_child_destroy(kiln_child *child);

/* Called first thing by a program that must not outlive its parent (PR_SET_PDEATHSIG, and a check
 * that the parent is still there). The parent may be process 1, when kiln_child_start was how it
 * started us. */
void kiln_child_die_with_parent(void);
/* Called by a program that its parent ends (kiln_child_destroy): a request to end is from now on no
 * matter of its, nor of what it starts. Service managers send one to every process of a service,
 * and what is under way must not look as if it had failed. */
void kiln_child_leave_stopping(void);
/* The calling thread, and what it starts, runs from now on only when nothing else wants its core.
 */
void kiln_child_give_way(void);

#endif
