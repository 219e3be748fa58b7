#include "rpc-server/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/proc.h"
#include "rpc-server/namespaces.h"

#define ORDER_BYTES ((uint64_t)4096) /* written to a device file at once */

/* System calls of sanitizers' runtimes: for memory, for the signal stack before a noreturn
 * function, and in ThreadSanitizer's own thread. */
#if KILN_SANITIZED
#define RUNTIME_CALLS                                                                              \
    SCMP_SYS(sigaltstack), SCMP_SYS(gettimeofday), SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep), \
        SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(madvise),
#else
#define RUNTIME_CALLS
#endif

static bool have_seccomp(void) {
    uint32_t action = SECCOMP_RET_KILL_PROCESS;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

/* Ends the process: a half-built sandbox must not be used. */
static void must(int result, const char *doing) {
    if (result == 0) return;
    dprintf(STDERR_FILENO, "kiln-rpc-server --child: %s: %s\n", doing, strerror(errno));
    kiln_sandbox_exit(KILN_INTERNAL);
}

static void limit(int resource, uint64_t value, const char *doing) {
    struct rlimit now;
    must(getrlimit(resource, &now), doing);
    rlim_t wanted = KILN_MIN((rlim_t)value, now.rlim_max);
    must(setrlimit(resource, &(struct rlimit){wanted, wanted}), doing);
}

/* ---- Trying limits: qemu-user accepts some and ignores them ---- */

/* Whether `denied` returns true with a soft limit of 0 for `resource`. */
static bool limit_holds(int resource, bool (*denied)(void)) {
    struct rlimit now;
    must(getrlimit(resource, &now), "reading a limit");
    bool holds = setrlimit(resource, &(struct rlimit){0, now.rlim_max}) == 0 && denied();
    must(setrlimit(resource, &now), "resetting a limit");
    return holds;
}

bool kiln_sandbox_cannot_fork(void) {
    pid_t child = fork();
    if (child == 0) kiln_sandbox_exit(0);
    if (child > 0) waitpid(child, NULL, 0);
    return child < 0;
}

static bool cannot_map(void) {
    const size_t size = (size_t)1 << 20;
    void *data = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data != MAP_FAILED) munmap(data, size);
    return data == MAP_FAILED;
}

/* ---- The first step ---- */

static bool leave_root(void) {
    if (geteuid() != 0) return false;
    must(setgroups(0, NULL), "leaving root's groups");
    must(setresgid(KILN_SANDBOX_USER, KILN_SANDBOX_USER, KILN_SANDBOX_USER),
         "leaving root's group");
    must(setresuid(KILN_SANDBOX_USER, KILN_SANDBOX_USER, KILN_SANDBOX_USER), "leaving root");
    return true;
}

/* Restrictions for the computing process and for the one that waits for it. */
static bool bind_to_parent(const kiln_driver *driver) {
    bool left_root = leave_root();
    kiln_namespace_leave_rights();
    /* after the change of user, which clears it */
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the helper's end kills the child, too */
    /* /proc entries of a process that is not dumpable belong to root, but NVIDIA's driver writes
     * its threads' names there. */
    const bool dumpable = driver && kiln_driver_sees(driver, "/proc");
    must(prctl(PR_SET_DUMPABLE, dumpable), "setting whether the child is dumpable");
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbidding new privileges");
    limit(RLIMIT_CORE, 0, "limiting core dumps");
    const bool writes = driver && kiln_driver_has_files(driver);
    limit(RLIMIT_FSIZE, writes ? driver->folder_bytes + ORDER_BYTES : 0, "limiting files");
    return left_root;
}

/* Waits for the first process of the namespace and ends with the same status. */
KILN_NORETURN static void guard(pid_t child) {
    int status = 0;
    close_range(0, ~0U, 0); /* the socket must end with the child */
    bind_to_parent(NULL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        kill(getpid(), WTERMSIG(status));
    }
    kiln_sandbox_exit(WEXITSTATUS(status));
}

/* An emulator ends by sending itself its program's signal. The first process of a namespace ignores
 * such signals and would wait forever. */
static bool is_emulated(void) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    const bool emulated = kiln_proc_emulator(&arena) != NULL;
    kiln_arena_deinit(&arena);
    return emulated;
}

/* Enters namespaces for files, processes and the network, unless a sanitizer must read /proc and
 * map files. */
static uint32_t enter_namespaces(const kiln_driver *driver) {
    uint32_t fences = 0;
    pid_t child = 0;
    if (KILN_SANITIZED || !kiln_namespace_user()) return 0;
    const uid_t owner = geteuid() == 0 ? KILN_SANDBOX_USER : geteuid();
    if (kiln_namespace_network()) fences |= 1U << KILN_FENCE_NETWORK;
    if (!is_emulated() && kiln_namespace_processes(&child)) fences |= 1U << KILN_FENCE_PIDS;
    if (child > 0) guard(child);
    if (driver && kiln_driver_has_files(driver)
            ? kiln_namespace_driver_files(driver, owner)
            : kiln_namespace_files(KILN_SANDBOX_FOLDER_BYTES, owner))
        fences |= 1U << KILN_FENCE_FOLDER;
    return fences;
}

void kiln_sandbox_confine(const kiln_driver *driver, kiln_sandbox *out_sandbox) {
    int memory_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    kiln_child_leave_stopping(); /* before guard() forks */
    uint32_t fences = enter_namespaces(driver);
    const bool starts = driver && driver->starts, bounded = !driver || driver->bounded;
    if (bind_to_parent(driver)) fences |= 1U << KILN_FENCE_UID;
    if (!KILN_SANITIZED && !starts && limit_holds(RLIMIT_NPROC, kiln_sandbox_cannot_fork))
        fences |= 1U << KILN_FENCE_PROCESSES;
    if (!KILN_SANITIZED && bounded && limit_holds(RLIMIT_AS, cannot_map))
        fences |= 1U << KILN_FENCE_MEMORY;
    if (have_seccomp()) fences |= 1U << KILN_FENCE_SECCOMP;
    *out_sandbox = (kiln_sandbox){fences, memory_fd, driver};
}

/* The server gave up root, so it cannot change the folder's owner. */
void kiln_sandbox_let_write(int folder_fd) { (void)fchmod(folder_fd, S_ISVTX | 0733); }

/* ---- The second step ---- */

/* Address space in use now, in bytes. */
static uint64_t address_space(int memory_fd) {
    char line[128];
    ssize_t size = pread(memory_fd, line, sizeof line, 0);
    must(size > 0 ? 0 : -1, "reading the size of the process");
    uint64_t pages = 0;
    kiln_str text = {line, (size_t)size};
    must(kiln_str_to_u64(kiln_str_cut(&text, ' '), &pages) ? 0 : -1,
         "reading the size of the process");
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int allow(scmp_filter_ctx filter, int call) {
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0);
}

/* The system calls of a process that computes. */
static int add_rules(scmp_filter_ctx filter) {
    static const int calls[] = {SCMP_SYS(exit),
                                SCMP_SYS(exit_group),
                                SCMP_SYS(futex),
                                SCMP_SYS(sched_yield),
                                SCMP_SYS(clock_gettime),
                                SCMP_SYS(rt_sigreturn),
                                SCMP_SYS(restart_syscall),
                                RUNTIME_CALLS};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < KILN_ARRAY_COUNT(calls); i++) rc = allow(filter, calls[i]);
    /* Only to the parent: no address, no other descriptor. */
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sendto), 2,
                              SCMP_A0(SCMP_CMP_EQ, KILN_SANDBOX_SOCKET, 0),
                              SCMP_A4(SCMP_CMP_EQ, 0, 0));
    /* To make packed constants read-only; nothing can become writable or executable. */
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                              SCMP_A2(SCMP_CMP_EQ, PROT_READ, 0));
    return rc;
}

/* Calls that this processor lacks get no rule. */
static int add_driver_rules(scmp_filter_ctx filter, const kiln_driver *driver) {
    int rc = 0, call = 0;
    for (uint32_t at = 0; rc == 0 && kiln_driver_next_call(driver, &at, &call);)
        rc = allow(filter, call);
    return rc;
}

/* Drivers try calls and do without those that fail. */
static void install_filter(const kiln_driver *driver) {
    scmp_filter_ctx filter = seccomp_init(driver ? SCMP_ACT_ERRNO(ENOSYS) : SCMP_ACT_KILL_PROCESS);
    must(filter ? 0 : -1, "making the system call filter");
    int rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1); /* for the pool's threads, too */
    if (rc == 0) rc = driver ? add_driver_rules(filter, driver) : add_rules(filter);
    if (rc == 0) rc = seccomp_load(filter);
    errno = -rc;
    must(rc, "installing the system call filter");
    seccomp_release(filter);
}

/* A library's handler of such a signal would use forbidden calls. */
static void reset_fault_signals(void) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(faults); i++) signal(faults[i], SIG_DFL);
}

KILN_NORETURN void kiln_sandbox_exit(int code) {
    for (;;) syscall(SYS_exit_group, code);
}

/* Sets only the soft limit, because the next trial raises it again. */
void kiln_sandbox_allow_time(uint64_t cpu_seconds) {
    const uint64_t spent = kiln_clock_process_ns() / KILN_NS_PER_S + 1;
    struct rlimit now;
    must(getrlimit(RLIMIT_CPU, &now), "reading a limit");
    now.rlim_cur = KILN_MIN((rlim_t)(spent + cpu_seconds), now.rlim_max);
    must(setrlimit(RLIMIT_CPU, &now), "limiting processor time");
}

static void shut_beside_driver(const kiln_sandbox *sandbox, const kiln_sandbox_bounds *bounds) {
    const kiln_driver *driver = sandbox->driver;
    kiln_sandbox_allow_time(bounds->cpu_seconds);
    if (!KILN_SANITIZED && driver->bounded)
        limit(RLIMIT_AS, address_space(sandbox->memory_fd) + bounds->memory_bytes,
              "limiting memory");
    if (!driver->starts) limit(RLIMIT_NPROC, 0, "limiting processes");
    close(sandbox->memory_fd);
}

static void shut_all(const kiln_sandbox *sandbox, const kiln_sandbox_bounds *bounds) {
    limit(RLIMIT_CPU, bounds->cpu_seconds, "limiting processor time");
    if (!KILN_SANITIZED)
        limit(RLIMIT_AS, address_space(sandbox->memory_fd) + KILN_SANDBOX_GROWTH_BYTES,
              "limiting memory");
    limit(RLIMIT_NPROC, 0, "limiting processes");
    must(close_range(KILN_SANDBOX_SOCKET + 1, ~0U, 0), "closing descriptors");
    limit(RLIMIT_NOFILE, KILN_SANDBOX_SOCKET + 1, "limiting descriptors");
}

void kiln_sandbox_shut(const kiln_sandbox *sandbox, const kiln_sandbox_bounds *bounds) {
    if (sandbox->driver)
        shut_beside_driver(sandbox, bounds);
    else
        shut_all(sandbox, bounds);
    reset_fault_signals();
    if (sandbox->fences & 1U << KILN_FENCE_SECCOMP) install_filter(sandbox->driver);
}
