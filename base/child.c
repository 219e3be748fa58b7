#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/opt.h"
#include "base/thread_work.h"

/* Number of the starting process: if that is 1, getppid() does not show that the parent has ended.
 */
#define PARENT "KILN_PARENT"

extern char **environ;

static bool is_replaced(const char *variable, char *const *by, size_t count) {
    size_t name_size = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < count; i++)
        if (strncmp(by[i], variable, name_size) == 0) return true;
    return false;
}

/* Our environment with `extra` and `parent` added or replaced; NULL: no memory. */
static char **merge_environment(const char *const *extra, char *parent) {
    size_t ours = 0, count = 0;
    while (environ && environ[ours]) ours++; /* NULL once it was cleared */
    while (extra[count]) count++;
    char **merged = kiln_try_alloc((ours + count + 2) * sizeof *merged);
    if (!merged) return NULL;
    for (size_t i = 0; i < count; i++) merged[i] = (char *)(uintptr_t)extra[i];
    merged[count++] = parent;
    size_t extra_count = count;
    for (size_t i = 0; i < ours; i++)
        if (!is_replaced(environ[i], merged, extra_count)) merged[count++] = environ[i];
    return merged;
}

static kiln_status errno_status(int error, const char *program) {
    if (error == ENOENT) return KILN_ERROR(NOT_FOUND, "there is no program %s", program);
    if (error == EACCES) return KILN_ERROR(PERMISSION_DENIED, "%s may not be run", program);
    return KILN_ERROR(RESOURCE_EXHAUSTED, "starting %s: %s", program, strerror(error));
}

/* Pipe `ends[0]` -> `ends[1]`; our end is non-blocking, both are close-on-exec. */
static int open_pipe(int ends[2], int our_end) {
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    fcntl(ends[our_end], F_SETFL, O_NONBLOCK);
    return 0;
}

/* `ends[1]` is ours, as with a pipe to the child's standard input. */
static int open_socket(int ends[2]) {
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    return 0;
}

/* The child's ends; -1: not joined. */
typedef struct child_ends {
    int in, out, error;
} child_ends;

#define THIRD_FD 3

/* Returns 0 or an error number (no memory). */
static int redirect(posix_spawn_file_actions_t *files, const kiln_child_options *options,
                    child_ends ends) {
    int error = ends.in >= 0 ? posix_spawn_file_actions_adddup2(files, ends.in, STDIN_FILENO)
                             : posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null",
                                                                O_RDONLY, 0);
    if (!error && ends.out >= 0)
        error = posix_spawn_file_actions_adddup2(files, ends.out, STDOUT_FILENO);
    if (!error && ends.error >= 0)
        error = posix_spawn_file_actions_adddup2(files, ends.error, STDERR_FILENO);
    /* Last, because descriptor 3 may be one of the ends until here. */
    if (!error && options->third_fd > 0)
        error = posix_spawn_file_actions_adddup2(files, options->third_fd, THIRD_FD);
    if (!error && options->error_path)
        error = posix_spawn_file_actions_addopen(files, STDERR_FILENO, options->error_path,
                                                 O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (!error && options->cwd) error = posix_spawn_file_actions_addchdir_np(files, options->cwd);
    return error;
}

static int spawn(const kiln_child_options *options, child_ends ends, pid_t *out_pid) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    int error = redirect(&files, options, ends);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);

    char parent[32];
    snprintf(parent, sizeof parent, PARENT "=%d", (int)getpid());
    static const char *const nothing[] = {NULL};
    const char *const *extra = options->env_extra ? options->env_extra : nothing;
    char **merged = options->bare_environment ? NULL : merge_environment(extra, parent);
    if (!merged && !options->bare_environment) error = ENOMEM;
    kiln_thread_work_here()->processes++;
    if (!error)
        error = posix_spawnp(out_pid, options->argv[0], &files, &attributes,
                             (char *const *)(uintptr_t)options->argv,
                             merged ? merged : (char *const *)(uintptr_t)extra);
    kiln_free(merged);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

kiln_status kiln_child_start(const kiln_child_options *options, kiln_child *out_child) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    pid_t pid = 0;
    int error = 0;
    if (options->pipe_in) error = open_pipe(in, 1);
    if (options->socket_in) error = open_socket(in);
    if (!error && options->pipe_out) error = open_pipe(out, 0);
    if (!error && options->pipe_error) error = open_pipe(err, 0);
    int input = options->input_fd > 0 ? options->input_fd : in[0];
    if (!error) error = spawn(options, (child_ends){input, out[1], err[1]}, &pid);
    kiln_fd_close(&in[0]);
    kiln_fd_close(&out[1]);
    kiln_fd_close(&err[1]);
    if (error) {
        kiln_fd_close(&in[1]);
        kiln_fd_close(&out[0]);
        kiln_fd_close(&err[0]);
        return errno_status(error, options->argv[0]);
    }
    *out_child = (kiln_child){.pid = pid, .in_fd = in[1], .out_fd = out[0], .error_fd = err[0]};
    return KILN_OK;
}

static kiln_child_exit exit_of(int wait_status) {
    if (WIFSIGNALED(wait_status)) return (kiln_child_exit){-1, WTERMSIG(wait_status)};
    return (kiln_child_exit){WEXITSTATUS(wait_status), 0};
}

bool kiln_child_ended(kiln_child *child, kiln_child_exit *out_exit) {
    int status = 0;
    if (child->pid == 0 || waitpid(child->pid, &status, WNOHANG) != child->pid) return false;
    child->pid = 0;
    *out_exit = exit_of(status);
    return true;
}

void kiln_child_stop(const kiln_child *child) {
    if (child->pid) kill(child->pid, SIGTERM);
}

kiln_child_exit kiln_child_wait(kiln_child *child) {
    int status = 0;
    pid_t got;
    do got = waitpid(child->pid, &status, 0);
    while (got < 0 && errno == EINTR);
    child->pid = 0;
    return exit_of(status);
}

void kiln_child_destroy(kiln_child *child) {
    if (child->pid) {
        kill(-child->pid, SIGKILL);
        kill(child->pid, SIGKILL); /* it may have left its group */
        kiln_child_wait(child);
    }
    if (child->in_fd > 0) kiln_fd_close(&child->in_fd);
    if (child->out_fd > 0) kiln_fd_close(&child->out_fd);
    if (child->error_fd > 0) kiln_fd_close(&child->error_fd);
}

void kiln_child_die_with_parent(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char *parent = kiln_env(PARENT);
    /* The parent ended before the call, unless it is process 1 itself, as in a container. */
    if (getppid() == 1 && !(parent && strcmp(parent, "1") == 0)) _exit(1);
}

void kiln_child_leave_stopping(void) { signal(SIGTERM, SIG_IGN); }

void kiln_child_give_way(void) {
    (void)setpriority(PRIO_PROCESS, 0,
                      19); /* on Linux a property of the thread; everyone may raise it */
}
