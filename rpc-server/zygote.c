#include "rpc-server/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"
#include "rpc-server/helper_socket.h"

extern char **environ;

#define ANSWER_MS 10000

/* Descriptors of a request: the child's socket, and the folder of its control group. */
enum { CHILD_SOCKET, CHILD_CGROUP, CHILD_FDS_MAX };

typedef struct answer {
    pid_t pid;
    int error; /* of the system; 0: none */
} answer;

/* ---- The caller's side ---- */

bool kiln_zygote_is_allowed(void) { return !KILN_SANITIZED; }

kiln_status kiln_zygote_open(kiln_zygote *zygote, const char *program) {
    const char *const argv[] = {program, "--children", NULL};
    const char *kept[KILN_DRIVER_KEPT_MAX + 1];
    kiln_driver_environment(kept);
    return kiln_child_start(
        &(kiln_child_options){
            .argv = argv, .env_extra = kept, .socket_in = true, .bare_environment = true},
        &zygote->process);
}

void kiln_zygote_close(kiln_zygote *zygote) {
    kiln_child_destroy(&zygote->process);
    *zygote = (kiln_zygote){0};
}

/* The status for an `error` of fork_child. */
static kiln_status refusal(int error) {
    kiln_code code = kiln_code_from_errno(error);
    if (error == EAGAIN) code = KILN_RESOURCE_EXHAUSTED;
    if (error == EBADF) code = KILN_INVALID_ARGUMENT;
    if (error == ENOSYS || error == EINVAL || error == E2BIG) code = KILN_UNIMPLEMENTED;
    return kiln_status_make(code, __FILE__, __LINE__, "starting a contained child: %s",
                            strerror(error));
}

static kiln_status await_answer(int socket, pid_t *out_pid) {
    answer got = {0};
    struct pollfd ready = {.fd = socket, .events = POLLIN};
    int count;
    do count = poll(&ready, 1, ANSWER_MS);
    while (count < 0 && errno == EINTR);
    if (count == 0)
        return KILN_ERROR(DEADLINE_EXCEEDED, "no contained child was started for %d ms", ANSWER_MS);
    if (recv(socket, &got, sizeof got, MSG_DONTWAIT) != sizeof got)
        return KILN_ERROR(UNAVAILABLE, "the zygote of contained children has ended");
    if (got.error) return refusal(got.error);
    *out_pid = got.pid;
    return NULL;
}

kiln_status kiln_zygote_start(const kiln_zygote *zygote, const kiln_driver *driver,
                              const char *cgroup, int socket, pid_t *out_pid) {
    const uint8_t request = driver ? (uint8_t)(kiln_driver_index(driver) + 1) : 0;
    const int zygote_fd = zygote->process.in_fd;
    int cgroup_fd = -1;
    pid_t pid = 0;
    kiln_status st = NULL;
    if (cgroup) cgroup_fd = open(cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cgroup && cgroup_fd < 0) return KILN_ERROR(NOT_FOUND, "%s: %s", cgroup, strerror(errno));
    const int fd[CHILD_FDS_MAX] = {[CHILD_SOCKET] = socket, [CHILD_CGROUP] = cgroup_fd};
    if (!kiln_helper_socket_send(zygote_fd, &request, 1, fd, cgroup ? CHILD_FDS_MAX : CHILD_CGROUP))
        st = KILN_ERROR(UNAVAILABLE, "the zygote of contained children has ended");
    if (!st) st = await_answer(zygote_fd, &pid);
    kiln_fd_close(&cgroup_fd);
    if (st) return st;
    setpgid(pid, pid); /* the child calls it, too, so it holds whoever comes first */
    *out_pid = pid;
    return NULL;
}

/* ---- The zygote's side ---- */

/* Returns the number of descriptors; 0: the caller has ended, or the request is wrong. */
static uint32_t receive_request(int fd[KILN_HELPER_SOCKET_FDS_MAX],
                                const kiln_driver **out_driver) {
    uint8_t request = 0;
    uint32_t fd_count = 0;
    const size_t size = kiln_helper_socket_receive(STDIN_FILENO, &request, 1, fd, &fd_count);
    if (size != 1 || request > kiln_driver_count() || fd_count > CHILD_FDS_MAX) return 0;
    *out_driver = request ? kiln_driver_at(request - 1u) : NULL;
    return fd_count;
}

/* Forks a child of the zygote's caller, directly into a control group and, if allowed, as the first
 * process of a process namespace, so that no process must wait for it. The kernel writes the new
 * thread's number where the C library keeps it. */
static pid_t fork_child(int cgroup_fd) {
    uint64_t thread = 0;
    struct clone_args args = {.flags = CLONE_PARENT | (geteuid() == 0 ? CLONE_NEWPID : 0)};
    if (prctl(PR_GET_TID_ADDRESS, &thread) == 0 && thread) {
        args.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
        args.child_tid = thread;
    }
    if (cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup_fd;
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0 && errno == EPERM && args.flags & CLONE_NEWPID) {
        args.flags &= ~(uint64_t)CLONE_NEWPID;
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    }
    return pid;
}

/* Also wipes the strings, because candidates run in this process. */
static void empty_environment(void) {
    for (char **variable = environ; variable && *variable; variable++)
        explicit_bzero(*variable, strlen(*variable));
    if (environ) *environ = NULL;
}

static void set_up_child(const int *fd, uint32_t fd_count) {
    setpgid(0, 0);
    dup2(fd[CHILD_SOCKET], STDIN_FILENO);
    for (uint32_t i = 0; i < fd_count; i++) close(fd[i]);
}

kiln_zygote_birth kiln_zygote_serve(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the parent has already ended, its socket is closed */
    kiln_child_leave_stopping();
    for (;;) {
        int fd[KILN_HELPER_SOCKET_FDS_MAX] = {-1, -1};
        const kiln_driver *driver = NULL;
        const uint32_t fd_count = receive_request(fd, &driver);
        if (fd_count == 0) _exit(0);
        const pid_t pid = fork_child(fd[CHILD_CGROUP]);
        if (pid == 0) {
            set_up_child(fd, fd_count);
            if (!driver) empty_environment(); /* only drivers' children need it */
            return (kiln_zygote_birth){fd_count == CHILD_FDS_MAX, driver};
        }
        const answer told = {pid, pid < 0 ? errno : 0};
        if (send(STDIN_FILENO, &told, sizeof told, MSG_NOSIGNAL) != sizeof told) _exit(0);
        for (uint32_t i = 0; i < fd_count; i++) close(fd[i]);
    }
}
