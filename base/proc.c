#include "base/proc.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/opt.h"

#define READ_BYTES 4096

/* A file instead of a pipe, so that nothing must be written while the child runs. */
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
    kiln_fd_close(&fd);
    return st;
}

/* Reads what a pipe holds now and keeps at most `max` bytes. Closes the pipe at its end. */
static void drain(int *fd, kiln_strbuf *kept, size_t max) {
    char data[READ_BYTES];
    while (*fd >= 0) {
        ssize_t got = read(*fd, data, sizeof data);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0)
            kiln_fd_close(fd);
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

/* Collects output until the child has ended (`ended_fd` becomes readable). True: the deadline came
 * first. */
static bool collect(kiln_child *child, int ended_fd, const kiln_proc_options *options,
                    kiln_strbuf *out, kiln_strbuf *err) {
    uint64_t deadline_ns = options->deadline_ns ? kiln_clock_ns() + options->deadline_ns : 0;
    for (;;) {
        struct pollfd watched[] = {
            {ended_fd, POLLIN, 0}, {child->out_fd, POLLIN, 0}, {child->error_fd, POLLIN, 0}};
        int ready = poll(watched, KILN_ARRAY_COUNT(watched), poll_timeout(deadline_ns));
        bool ended =
            ready > 0 &&
            watched[0].revents; /* before reading, so that all its output is in the pipes */
        drain(&child->out_fd, out, options->output_max);
        drain(&child->error_fd, err, options->output_max);
        if (ended) return false;
        if (ready == 0 && poll_timeout(deadline_ns) == 0) return true;
    }
}

static kiln_status run_child(const kiln_proc_options *options, int input, kiln_strbuf *out,
                             kiln_strbuf *err, kiln_proc_result *result) {
    kiln_child child = {0};
    kiln_status st = kiln_child_start(&(kiln_child_options){.argv = options->argv,
                                                            .env_extra = options->env_extra,
                                                            .cwd = options->cwd,
                                                            .input_fd = input,
                                                            .pipe_out = true,
                                                            .pipe_error = true},
                                      &child);
    if (st) return st;
    int ended_fd = (int)syscall(SYS_pidfd_open, child.pid, 0);
    if (ended_fd < 0)
        st = kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__, "watching %s: %s",
                              options->argv[0], strerror(errno));
    else
        result->timed_out = collect(&child, ended_fd, options, out, err);
    kill(-child.pid, SIGKILL); /* not reaped yet, so the group's number is still its own; also kills
                                  descendants */
    kiln_child_exit how = kiln_child_wait(&child);
    result->exit_code = how.code;
    result->signal = how.signal;
    kiln_fd_close(&ended_fd);
    kiln_child_destroy(&child);
    return st;
}

kiln_status kiln_proc_run(const kiln_proc_options *options, kiln_arena *arena,
                          kiln_proc_result *out_result) {
    int input = -1;
    kiln_strbuf out = {0}, err = {0};
    kiln_proc_result result = {0};
    kiln_status st = open_input(options->input, &input);
    if (!st) st = run_child(options, input, &out, &err, &result);
    if (!st) {
        result.out = (kiln_str){kiln_str_dup(arena, kiln_strbuf_view(&out)), out.size};
        result.err = (kiln_str){kiln_str_dup(arena, kiln_strbuf_view(&err)), err.size};
        *out_result = result;
    }
    kiln_fd_close(&input);
    kiln_strbuf_deinit(&out);
    kiln_strbuf_deinit(&err);
    return st;
}

/* Target of a link of /proc; empty if it cannot be read. */
static kiln_str read_link(const char *link, kiln_arena *arena) {
    char path[PATH_MAX];
    ssize_t size = readlink(link, path, sizeof path);
    if (size <= 0 || (size_t)size >= sizeof path) return (kiln_str){0};
    return (kiln_str){kiln_str_dup(arena, (kiln_str){path, (size_t)size}), (size_t)size};
}

const char *kiln_proc_emulator(kiln_arena *arena) {
    /* qemu-user translates /proc/self/exe to the program, but not the path below. */
    kiln_str own = read_link("/proc/self/exe", arena);
    kiln_str runs = read_link("/proc/thread-self/exe", arena);
    return own.size == 0 || runs.size == 0 || kiln_str_equal(own, runs) ? NULL : runs.data;
}

kiln_status kiln_proc_self(kiln_arena *arena, char **out_path) {
    kiln_str path = read_link("/proc/self/exe", arena);
    if (path.size == 0)
        return KILN_ERROR(NOT_FOUND,
                          "the running program's own path is unknown; is /proc mounted?");
    *out_path = kiln_str_dup(arena, path);
    return KILN_OK;
}

kiln_status kiln_proc_sibling(const char *name, kiln_arena *arena, char **out_path) {
    char *self = NULL;
    kiln_status st = kiln_proc_self(arena, &self);
    if (st) return st;
    *strrchr(self, '/') = '\0';
    /* In a build folder each program is in the folder of its sources: cli/kiln,
     * tracker/kiln-tracker. */
    const char *folder = strncmp(name, "kiln-", 5) == 0 ? name + 5
                         : strcmp(name, "kiln") == 0    ? "cli"
                                                        : name;
    const char *bin = kiln_env("KILN_BIN");
    const char *tried[] = {
        bin ? kiln_arena_printf(arena, "%s/%s", bin, name) : NULL,
        bin ? kiln_arena_printf(arena, "%s/%s/%s", bin, folder, name) : NULL,
        kiln_arena_printf(arena, "%s/%s", self, name),
        kiln_arena_printf(arena, "%s/../%s/%s", self, folder, name),
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(tried); i++) {
        if (!tried[i] || !kiln_file_exists(tried[i])) continue;
        if (access(tried[i], X_OK) != 0)
            return KILN_ERROR(PERMISSION_DENIED, "%s may not be run by this user", tried[i]);
        *out_path = kiln_str_dup(arena, kiln_str_from(tried[i]));
        return KILN_OK;
    }
    return KILN_ERROR(NOT_FOUND, "program %s is neither in $KILN_BIN nor at %s nor at %s", name,
                      tried[2], tried[3]);
}
