/* Drops the rights of a process. */
#include <errno.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/isolated/isolated.h"
#include "base/macros.h"

#define NOBODY 65534u /* root's user after the change */
#define DESCRIPTORS_MORE                                                     \
    2 /* that are open at once beyond those that are kept: a file of a model \
       */

extern char **environ;

static kiln_status refused(const char *what) {
    return KILN_ERROR(INTERNAL, "giving up rights: %s: %s", what, strerror(errno));
}

static kiln_status limit(int resource, uint64_t value, const char *what) {
    struct rlimit now;
    if (getrlimit(resource, &now) != 0) return refused(what);
    const rlim_t wanted = KILN_MIN((rlim_t)value, now.rlim_max);
    /* The system kills a second after SIGXCPU, which tells the reason. */
    const rlim_t most = resource == RLIMIT_CPU && wanted < now.rlim_max ? wanted + 1 : wanted;
    return setrlimit(resource, &(struct rlimit){wanted, most}) == 0 ? KILN_OK : refused(what);
}

static kiln_status leave_root(void) {
    if (geteuid() != 0) return KILN_OK;
    if (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) != 0)
        /* A container may have no other user than root; the other steps work there, too. */
        return errno == EPERM || errno == EINVAL ? KILN_OK : refused("leaving root");
    return KILN_OK;
}

/* Also wipes the strings, which a hijacked process could read. */
static void empty_environment(void) {
    for (char **variable = environ; variable && *variable; variable++)
        kiln_wipe(*variable, strlen(*variable));
    clearenv();
}

/* Calls for all profiles: memory, time, open descriptors, exit. */
static const int calls_of_all[] = {SCMP_SYS(read),
                                   SCMP_SYS(pread64),
                                   SCMP_SYS(readv),
                                   SCMP_SYS(write),
                                   SCMP_SYS(writev),
                                   SCMP_SYS(sendmsg),
                                   SCMP_SYS(recvmsg),
                                   SCMP_SYS(close),
                                   SCMP_SYS(lseek),
                                   SCMP_SYS(_llseek),
                                   SCMP_SYS(fstat),
                                   SCMP_SYS(fstat64),
                                   SCMP_SYS(newfstatat),
                                   SCMP_SYS(fstatat64),
                                   SCMP_SYS(statx),
                                   SCMP_SYS(munmap),
                                   SCMP_SYS(mremap),
                                   SCMP_SYS(madvise),
                                   SCMP_SYS(brk),
                                   SCMP_SYS(futex),
                                   SCMP_SYS(futex_time64),
                                   SCMP_SYS(sched_yield),
                                   SCMP_SYS(getrandom),
                                   SCMP_SYS(clock_gettime),
                                   SCMP_SYS(gettimeofday),
                                   SCMP_SYS(time),
                                   SCMP_SYS(clock_gettime64),
                                   SCMP_SYS(getpid),
                                   SCMP_SYS(gettid),
                                   SCMP_SYS(rt_sigaction),
                                   SCMP_SYS(sysinfo),
                                   SCMP_SYS(getrusage),
                                   SCMP_SYS(rt_sigprocmask),
                                   SCMP_SYS(rt_sigreturn),
                                   SCMP_SYS(sigreturn),
                                   SCMP_SYS(sigaltstack),
                                   SCMP_SYS(restart_syscall),
                                   SCMP_SYS(exit),
                                   SCMP_SYS(exit_group)};

static const int calls_of_compilers[] = {SCMP_SYS(mmap),
                                         SCMP_SYS(mmap2),
                                         SCMP_SYS(mprotect),
                                         SCMP_SYS(set_robust_list),
                                         SCMP_SYS(rseq),
                                         SCMP_SYS(sched_getaffinity),
                                         SCMP_SYS(sched_setaffinity),
                                         SCMP_SYS(clock_nanosleep),
                                         SCMP_SYS(nanosleep),
                                         SCMP_SYS(clock_nanosleep_time64),
                                         SCMP_SYS(poll),
                                         SCMP_SYS(ppoll),
                                         SCMP_SYS(membarrier),
                                         SCMP_SYS(prctl),
                                         SCMP_SYS(uname),
                                         SCMP_SYS(cacheflush),
                                         SCMP_SYS(riscv_flush_icache)};

static int allow_all(scmp_filter_ctx filter, const int *call, size_t count) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, call[i], 0);
    return rc;
}

/* Allows `call` if no bit of `bits` is set in argument `index`. */
static int allow_without(scmp_filter_ctx filter, int call, unsigned index, uint64_t bits) {
    const struct scmp_arg_cmp none = {index, SCMP_CMP_MASKED_EQ, bits, 0};
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &none);
}

static int add_rules(scmp_filter_ctx filter, kiln_isolated_profile profile) {
    int rc = allow_all(filter, calls_of_all, KILN_ARRAY_COUNT(calls_of_all));
    if (rc == 0) /* abort, of itself */
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                              SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0));
    if (profile == KILN_ISOLATED_PARSE) {
        if (rc == 0) rc = allow_without(filter, SCMP_SYS(mmap), 2, PROT_EXEC);
        if (rc == 0) rc = allow_without(filter, SCMP_SYS(mmap2), 2, PROT_EXEC);
        if (rc == 0) rc = allow_without(filter, SCMP_SYS(mprotect), 2, PROT_EXEC);
        return rc;
    }
    if (rc == 0) rc = allow_all(filter, calls_of_compilers, KILN_ARRAY_COUNT(calls_of_compilers));
    /* base/target_native.c requests the state of AMX tiles; without it this process' "native" would
     * differ from the caller's. */
    enum { ARCH_REQ_XCOMP_PERM = 0x1023 };
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(arch_prctl), 1,
                              SCMP_A0(SCMP_CMP_EQ, ARCH_REQ_XCOMP_PERM, 0));
    /* Allows threads, not processes. Filters cannot see the flags of clone3, so it fails and libc
     * uses clone. */
    const struct scmp_arg_cmp thread = {0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD};
    if (rc == 0) rc = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, &thread);
    if (rc == 0) rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return rc;
}

static kiln_status install_filter(kiln_isolated_profile profile) {
    uint32_t action = SECCOMP_RET_ERRNO;
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0) return KILN_OK;
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int rc = filter ? add_rules(filter, profile) : -ENOMEM;
    if (rc == 0) rc = seccomp_load(filter);
    seccomp_release(filter);
    errno = -rc;
    return rc == 0 ? KILN_OK : refused("the filter of system calls");
}

kiln_status kiln_isolated_drop_rights(kiln_isolated_profile profile, int keep_fd_max,
                                      const kiln_isolated_limits *limits) {
    const uint64_t memory =
        limits->memory_bytes ? limits->memory_bytes : KILN_ISOLATED_MEMORY_BYTES;
    empty_environment();
    if (close_range((unsigned)keep_fd_max + 1, ~0U, 0) != 0) return refused("closing descriptors");
    kiln_status st = leave_root();
    if (!st && prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) st = refused("ending with the parent");
    if (!st && prctl(PR_SET_DUMPABLE, 0) != 0) st = refused("core dumps");
    if (!st && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) st = refused("new privileges");
    if (!st) st = limit(RLIMIT_CORE, 0, "core dumps");
    /* The result is a file in memory. */
    if (!st) st = limit(RLIMIT_FSIZE, profile == KILN_ISOLATED_COMPILE ? 0 : memory, "files");
    if (!st) st = limit(RLIMIT_NOFILE, (uint64_t)keep_fd_max + 1 + DESCRIPTORS_MORE, "descriptors");
    if (!st && profile == KILN_ISOLATED_PARSE) st = limit(RLIMIT_NPROC, 0, "processes");
    if (!st && limits->cpu_s) st = limit(RLIMIT_CPU, limits->cpu_s, "processor time");
    /* Sanitizers map more memory than any limit. */
    if (!st && !KILN_SANITIZED) st = limit(RLIMIT_DATA, memory, "memory");
    return st ? st : install_filter(profile);
}
