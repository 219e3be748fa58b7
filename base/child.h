/* Child processes that run beside this one: builder workers, the private fleet, measurement
 * children. Started with posix_spawn in a process group of their own, optionally with pipes.
 * base/proc.h runs a child to its end in one call. */
#ifndef KILN_BASE_CHILD_H
#define KILN_BASE_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

typedef struct kiln_child_options {
    const char *const *argv;      /* NULL-terminated; argv[0] is a path, or searched on PATH */
    const char *const *env_extra; /* NULL-terminated "NAME=value", replacing ours; may be NULL */
    bool bare_environment;        /* only `env_extra`; such a child must not call
                                     kiln_child_die_with_parent */
    const char *cwd;              /* NULL: ours */
    int input_fd;                 /* standard input when > 0; stays the caller's */
    int third_fd; /* the child's descriptor 3 if > 0, for a file that it may not open itself; stays
                     the caller's */
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

/* Returns once the program runs, after 1 ms, or tens of them on a busy machine, so loops call it on
 * their pool (kiln_loop_work). A child that calls kiln_child_die_with_parent dies with the thread
 * that started it; the pool's threads live as long as the program.
 *
 * NOT_FOUND, PERMISSION_DENIED: the program; RESOURCE_EXHAUSTED: no processes or descriptors. */
KILN_MUST_USE kiln_status kiln_child_start(const kiln_child_options *options,
                                           kiln_child *out_child);
/* Whether the child has ended; if so, reaps it and sets `*out_exit`. Does not wait. */
bool kiln_child_ended(kiln_child *child, kiln_child_exit *out_exit);
/* Asks the child to end (SIGTERM), so that it can clean up. */
void kiln_child_stop(const kiln_child *child);
/* Waits for the end and reaps. */
kiln_child_exit kiln_child_wait(kiln_child *child);
/* Kills the whole group, reaps, closes the pipes; accepts a child that ended or was never started.
 */
void kiln_child_destroy(kiln_child *child);

/* Called first by a program that must not outlive its parent (sets PR_SET_PDEATHSIG and checks that
 * the parent is alive). The parent may be process 1 if it used kiln_child_start. */
void kiln_child_die_with_parent(void);
/* Makes this program and its children ignore SIGTERM, because its parent ends it
 * (kiln_child_destroy). Service managers send SIGTERM to every process of a service, and work in
 * progress must not look failed. */
void kiln_child_leave_stopping(void);
/* From now on the calling thread and its children run only when no other program wants the core. */
void kiln_child_give_way(void);

#endif
