/* Escapes, each tried in a process of its own that is confined as a candidate's is, before system
 * calls are shut off: what holds here holds also where seccomp is missing. */
#include "rpc-server/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

#define BIT(fence) (1U << KILN_FENCE_##fence)

/* What a child says about its attempt by its exit code; 0 is left to children that ended otherwise.
 */
enum { ESCAPED = 1, DENIED = 2, NOT_FENCED = 3 };

static pid_t the_test;
static struct sockaddr_in the_listener;

/* Confines; ends here where this machine has no such fence. */
static kiln_sandbox confine(uint32_t needed) {
    kiln_sandbox sandbox;
    kiln_sandbox_confine(NULL, &sandbox);
    if ((sandbox.fences & needed) != needed) _exit(NOT_FENCED);
    return sandbox;
}

KILN_NORETURN static void end(bool escaped) { _exit(escaped ? ESCAPED : DENIED); }

static void expect_denied(void (*attempt)(void)) {
    int how = run_in_child(attempt);
    if (!WIFEXITED(how) || WEXITSTATUS(how) == ESCAPED || WEXITSTATUS(how) == 0)
        fail_msg("it ended with status %#x", (unsigned)how);
    if (WEXITSTATUS(how) == NOT_FENCED) skip_because("this machine lacks a fence of the sandbox");
}

static bool opens(const char *path, int flags) { return open(path, flags, 0600) >= 0; }

#define ATTEMPT(name, fences, escaped) \
    static void try_##name(void) {     \
        confine(fences);               \
        end(escaped);                  \
    }                                  \
    static void name(void **state) {   \
        (void)state;                   \
        expect_denied(try_##name);     \
    }

static bool connects(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (const struct sockaddr *)&the_listener, sizeof the_listener) == 0;
}

static bool forks(void) {
    pid_t child = fork();
    if (child == 0) kiln_sandbox_exit(0);
    return child >= 0;
}

static bool leaves_its_group(void) { return setsid() >= 0 && forks(); }

static bool writes_in_its_folder(void) {
    signal(SIGXFSZ, SIG_IGN);
    int fd = open("file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return fd >= 0 && write(fd, "x", 1) == 1;
}

static bool raises_its_limits(void) {
    const struct rlimit free_size = {RLIM_INFINITY, RLIM_INFINITY};
    return setrlimit(RLIMIT_FSIZE, &free_size) == 0;
}

static bool copies_memory(void) {
    char here_byte;
    struct iovec here = {&here_byte, 1}, there = {&the_test, 1};
    return process_vm_readv(the_test, &here, 1, &there, 1, 0) > 0;
}

static bool takes_a_descriptor(void) {
    const int pidfd = pidfd_open(the_test, 0);
    return pidfd >= 0 && pidfd_getfd(pidfd, STDERR_FILENO, 0) >= 0;
}

static bool goes_up(void) {
    for (int i = 0; i < 20; i++)
        if (chdir("..") != 0) return false;
    return opens("etc/passwd", O_RDONLY);
}

ATTEMPT(reads_files_of_others, BIT(FOLDER), opens("/etc/passwd", O_RDONLY))
ATTEMPT(sees_other_processes, BIT(FOLDER), opens("/proc/1/status", O_RDONLY))
ATTEMPT(climbs_out_of_its_folder, BIT(FOLDER), goes_up())
ATTEMPT(creates_a_file_elsewhere, BIT(UID), opens("/etc/kiln-was-here", O_WRONLY | O_CREAT))
ATTEMPT(writes_a_byte_to_a_file, 0, writes_in_its_folder())
ATTEMPT(reaches_the_machines_network, BIT(NETWORK), connects())
ATTEMPT(stops_its_parent, BIT(PIDS), kill(the_test, SIGSTOP) == 0)
ATTEMPT(stops_everybody, BIT(PIDS), kill(-1, SIGSTOP) == 0)
ATTEMPT(reads_its_parents_memory, BIT(PIDS), ptrace(PTRACE_ATTACH, the_test, NULL, NULL) == 0)
ATTEMPT(copies_its_parents_memory, BIT(PIDS), copies_memory())
ATTEMPT(takes_its_parents_descriptor, BIT(PIDS), takes_a_descriptor())
ATTEMPT(becomes_root_again, BIT(UID), setuid(0) == 0 || seteuid(0) == 0)
ATTEMPT(mounts, BIT(FOLDER), unshare(CLONE_NEWNS) == 0)
ATTEMPT(raises_limits, 0, raises_its_limits())

/* ---- After the second step ---- */

static bool takes_memory(void) {
    const size_t size = 2 * KILN_SANDBOX_GROWTH_BYTES;
    return mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

/* The other fences hold alone. */
static void leave_calls(kiln_sandbox *sandbox) { sandbox->fences &= ~BIT(SECCOMP); }

#define ATTEMPT_WHEN_SHUT(name, fences, escaped)                                \
    static void try_##name(void) {                                              \
        kiln_sandbox sandbox = confine(fences);                                 \
        leave_calls(&sandbox);                                                  \
        kiln_sandbox_shut(&sandbox, &(kiln_sandbox_bounds){.cpu_seconds = 10}); \
        kiln_sandbox_exit((escaped) ? ESCAPED : DENIED);                        \
    }                                                                           \
    static void name(void **state) {                                            \
        (void)state;                                                            \
        expect_denied(try_##name);                                              \
    }

ATTEMPT_WHEN_SHUT(starts_a_process, BIT(PROCESSES), forks())
ATTEMPT_WHEN_SHUT(starts_a_process_in_a_session_of_its_own, BIT(PROCESSES), leaves_its_group())
ATTEMPT_WHEN_SHUT(takes_more_memory, BIT(MEMORY), takes_memory())
ATTEMPT_WHEN_SHUT(opens_a_descriptor, 0, dup(KILN_SANDBOX_SOCKET) >= 0)

static void try_system_call(void) {
    kiln_sandbox sandbox = confine(BIT(SECCOMP));
    kiln_sandbox_shut(&sandbox, &(kiln_sandbox_bounds){.cpu_seconds = 10});
    kiln_sandbox_exit(getpid() > 0 ? ESCAPED : DENIED);
}

static void any_other_system_call_is_deadly(void **state) {
    (void)state;
    int how = run_in_child(try_system_call);
    if (WIFEXITED(how) && WEXITSTATUS(how) == NOT_FENCED)
        skip_because("this machine has no filters of system calls");
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGSYS);
}

/* ---- What its parent alone decides ---- */

/* Says when it is confined, and ends when it is told to. */
KILN_NORETURN static void live(int told_fd, int ready_fd) {
    kiln_sandbox sandbox;
    char byte;
    kiln_sandbox_confine(NULL, &sandbox);
    _exit(write(ready_fd, "", 1) == 1 && read(told_fd, &byte, 1) == 1 ? DENIED : ESCAPED);
}

static void a_request_to_end_is_no_matter_of_its(void **state) {
    (void)state;
    int told[2], ready[2], how = 0;
    char byte;
    assert_true(pipe2(told, O_CLOEXEC) == 0 && pipe2(ready, O_CLOEXEC) == 0);
    pid_t child = fork(); /* the one that is confined, or its guard */
    if (child == 0) live(told[0], ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(write(told[1], "", 1), 1);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == DENIED);
    for (int end = 0; end < 2; end++) {
        close(told[end]);
        close(ready[end]);
    }
}

/* ---- Honesty ---- */

static void say_fences(void) {
    kiln_sandbox sandbox;
    kiln_sandbox_confine(NULL, &sandbox);
    _exit((int)sandbox.fences);
}

static void unshare_network(void) { _exit(unshare(CLONE_NEWNET) == 0); }

static void what_this_machine_allows_is_used(void **state) {
    (void)state;
    int how = run_in_child(say_fences);
    assert_true(WIFEXITED(how));
    uint32_t fences = (uint32_t)WEXITSTATUS(how);
    assert_int_equal((fences & BIT(UID)) != 0, geteuid() == 0);
    bool allowed = WEXITSTATUS(run_in_child(unshare_network)) == 1;
    if (KILN_SANITIZED) allowed = false; /* sanitizers need files, and no fork */
    if (allowed) assert_true(fences & BIT(NETWORK) && fences & BIT(FOLDER));
}

static int open_listener(void **state) {
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    the_listener =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof the_listener;
    the_test = getpid();
    return fd < 0 || bind(fd, (const struct sockaddr *)&the_listener, size) != 0 ||
           listen(fd, 1) != 0 || getsockname(fd, (struct sockaddr *)&the_listener, &size) != 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_files_of_others),
        cmocka_unit_test(sees_other_processes),
        cmocka_unit_test(climbs_out_of_its_folder),
        cmocka_unit_test(creates_a_file_elsewhere),
        cmocka_unit_test(writes_a_byte_to_a_file),
        cmocka_unit_test(reaches_the_machines_network),
        cmocka_unit_test(starts_a_process),
        cmocka_unit_test(starts_a_process_in_a_session_of_its_own),
        cmocka_unit_test(stops_its_parent),
        cmocka_unit_test(stops_everybody),
        cmocka_unit_test(reads_its_parents_memory),
        cmocka_unit_test(copies_its_parents_memory),
        cmocka_unit_test(takes_its_parents_descriptor),
        cmocka_unit_test(becomes_root_again),
        cmocka_unit_test(mounts),
        cmocka_unit_test(raises_limits),
        cmocka_unit_test(takes_more_memory),
        cmocka_unit_test(opens_a_descriptor),
        cmocka_unit_test(any_other_system_call_is_deadly),
        cmocka_unit_test(a_request_to_end_is_no_matter_of_its),
        cmocka_unit_test(what_this_machine_allows_is_used),
    };
    return cmocka_run_group_tests_name("rpc-server/sandbox", tests, open_listener, NULL);
}
