#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/opt.h"
#include "base/vec.h"

#define READ_BYTES 4096

extern char **environ;

/* What one run holds open; -1 where nothing is. */
typedef struct run_fds {
    int input;               /* a memory file with the child's standard input */
    int out_read, out_write; /* standard output */
    int err_read, err_write; /* standard error */
    int child;               /* pidfd: readable once the child ended */
} run_fds;

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void run_fds_deinit(run_fds *fds) {
    close_fd(&fds->input);
    close_fd(&fds->out_read);
    close_fd(&fds->out_write);
    close_fd(&fds->err_read);
    close_fd(&fds->err_write);
    close_fd(&fds->child);
}

static kiln_status open_pipe(int *out_read, int *out_write) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__,
                                "making a pipe: %s", strerror(errno));
    fcntl(ends[1], F_SETFL, 0); /* the child's end blocks, as programs expect */
    *out_read = ends[0];
    *out_write = ends[1];
    return KILN_OK;
}

/* A whole file instead of a pipe: nothing has to be fed while the child runs. */
static kiln_status open_input(kiln_str input, int *out_fd) {
    int fd = memfd_create("kiln-input", MFD_CLOEXEC);
    bool ready = fd >= 0;
    for (size_t done = 0; ready && done < input.size;) {
        ssize_t put = write(fd, input.data + done, input.size - done);
        ready = put > 0 || (put < 0 && errno == EINTR);
        if (put > 0) done += (size_t)put;
    }
    ready = ready && lseek(fd, 0, SEEK_SET) == 0;
    if (ready) {
        *out_fd = fd;
        return KILN_OK;
    }
    kiln_status st = kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__,
                                      "preparing a child's input: %s", strerror(errno));
    close_fd(&fd);
    return st;
}

/* Our environment with `extra` put before it: the first mention of a name wins. */
static char **merge_environment(const char *const *extra, kiln_arena *scratch) {
    KILN_VEC(char *) merged = {0};
    for (size_t i = 0; extra && extra[i]; i++)
        kiln_vec_push_in(scratch, &merged, kiln_str_dup(scratch, kiln_str_from(extra[i])));
    uint32_t extra_count = merged.count;
    for (size_t i = 0; environ[i]; i++) {
        size_t name_size = strcspn(environ[i], "=") + 1;
        bool replaced = false;
        for (uint32_t j = 0; j < extra_count; j++)
            replaced |= strncmp(merged.data[j], environ[i], name_size) == 0;
        if (!replaced) kiln_vec_push_in(scratch, &merged, environ[i]);
    }
    kiln_vec_push_in(scratch, &merged, NULL);
    return merged.data;
}

static kiln_status spawn(const kiln_proc_options *options, const run_fds *fds, kiln_arena *scratch,
                         pid_t *out_pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, fds->input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fds->out_write, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fds->err_write, STDERR_FILENO);
    if (options->cwd) posix_spawn_file_actions_addchdir_np(&actions, options->cwd);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int failure = posix_spawnp(out_pid, options->argv[0], &actions, &attributes,
                               (char *const *)(uintptr_t)options->argv,
                               merge_environment(options->env_extra, scratch));
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failure)
        return kiln_status_make(kiln_code_from_errno(failure), __FILE__, __LINE__,
                                "starting %s: %s", options->argv[0], strerror(failure));
    return KILN_OK;
}

/* Takes what a pipe holds now, keeping at most `max` bytes. Closes it at its end. */
static void drain(int *fd, kiln_strbuf *kept, size_t max) {
    char data[READ_BYTES];
    while (*fd >= 0) {
        ssize_t got = read(*fd, data, sizeof data);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0)
            close_fd(fd);
        else
            kiln_strbuf_append(kept, data, KILN_MIN((size_t)got, max - kept->size));
    }
}

/* Milliseconds for poll until `deadline_ns` (0: for ever), rounded up. */
static int poll_timeout(uint64_t deadline_ns) {
    if (deadline_ns == 0) return -1;
    uint64_t now_ns = kiln_clock_ns();
    if (now_ns >= deadline_ns) return 0;
    uint64_t left_ms = (deadline_ns - now_ns + KILN_NS_PER_MS - 1) / KILN_NS_PER_MS;
    return (int)KILN_MIN(left_ms, (uint64_t)INT_MAX);
}

/* Collects output until the child itself has ended; true when the deadline came first. */
static bool collect(run_fds *fds, const kiln_proc_options *options, kiln_strbuf *out,
                    kiln_strbuf *err) {
    uint64_t deadline_ns = options->deadline_ns ? kiln_clock_ns() + options->deadline_ns : 0;
    for (;;) {
        struct pollfd watched[] = {
            {fds->child, POLLIN, 0}, {fds->out_read, POLLIN, 0}, {fds->err_read, POLLIN, 0}};
        int ready = poll(watched, KILN_ARRAY_COUNT(watched), poll_timeout(deadline_ns));
        bool ended = ready > 0 &&
                     watched[0].revents; /* seen before draining: what it wrote is in the pipes */
        drain(&fds->out_read, out, options->output_max);
        drain(&fds->err_read, err, options->output_max);
        if (ended) return false;
        if (ready == 0 && poll_timeout(deadline_ns) == 0) return true;
    }
}

static kiln_status run_child(const kiln_proc_options *options, run_fds *fds, kiln_strbuf *out,
                             kiln_strbuf *err, kiln_arena *scratch, kiln_proc_result *result) {
    pid_t pid = 0;
    kiln_status st = open_input(options->input, &fds->input);
    if (!st) st = open_pipe(&fds->out_read, &fds->out_write);
    if (!st) st = open_pipe(&fds->err_read, &fds->err_write);
    if (!st) st = spawn(options, fds, scratch, &pid);
    if (st) return st;
    close_fd(&fds->out_write);
    close_fd(&fds->err_write);
    fds->child = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fds->child < 0)
        st = kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__, "watching %s: %s",
                              options->argv[0], strerror(errno));
    else
        result->timed_out = collect(fds, options, out, err);
    kill(-pid, SIGKILL); /* the child is not reaped yet, so the group is still its own; descendants
                            go too */
    int how = 0;
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR) continue;
    result->exit_code = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
    result->signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    return st;
}

kiln_status kiln_proc_run(const kiln_proc_options *options, kiln_arena *arena,
                          kiln_proc_result *out_result) {
    run_fds fds = {-1, -1, -1, -1, -1, -1};
    kiln_strbuf out = {0}, err = {0};
    kiln_arena scratch = {0};
    kiln_proc_result result = {0};
    kiln_status st = run_child(options, &fds, &out, &err, &scratch, &result);
    if (!st) {
        result.out = (kiln_str){kiln_str_dup(arena, kiln_strbuf_view(&out)), out.size};
        result.err = (kiln_str){kiln_str_dup(arena, kiln_strbuf_view(&err)), err.size};
        *out_result = result;
    }
    run_fds_deinit(&fds);
    kiln_strbuf_deinit(&out);
    kiln_strbuf_deinit(&err);
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_proc_self(kiln_arena *arena, char **out_path) {
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path);
    if (size <= 0 || (size_t)size >= sizeof path)
        return KILN_ERROR(NOT_FOUND,
                          "the running program's own path is unknown; is /proc mounted?");
    *out_path = kiln_str_dup(arena, (kiln_str){path, (size_t)size});
    return KILN_OK;
}

kiln_status kiln_proc_sibling(const char *name, kiln_arena *arena, char **out_path) {
    char *self = NULL;
    kiln_status st = kiln_proc_self(arena, &self);
    if (st) return st;
    *strrchr(self, '/') = '\0';
    /* A build folder has each program in the folder of its sources: cli/kiln, tracker/kiln-tracker.
     */
    const char *folder = strncmp(name, "kiln-", 5) == 0 ? name + 5
                         : strcmp(name, "kiln") == 0    ? "cli"
                                                        : name;
    const char *bin = kiln_env("KILN_BIN");
    const char *tried[] = {
        bin ? kiln_arena_printf(arena, "%s/%s", bin, name) : NULL,
        kiln_arena_printf(arena, "%s/%s", self, name),
        kiln_arena_printf(arena, "%s/../%s/%s", self, folder, name),
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(tried); i++) {
        if (!tried[i] || access(tried[i], X_OK) != 0) continue;
        *out_path = kiln_str_dup(arena, kiln_str_from(tried[i]));
        return KILN_OK;
    }
    return KILN_ERROR(NOT_FOUND, "program %s is neither in $KILN_BIN nor at %s nor at %s", name,
                      tried[1], tried[2]);
}
