#include "rpc-server/privilege.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/macros.h"
#include "base/str.h"
#include "rpc-server/driver.h"
#include "rpc-server/sandbox.h"

extern char **environ;

#define PASSWD_BYTES_MAX ((size_t)8 << 20)
#define DEPTH_MAX 16

/* ---- The user ---- */

/* NAME:PASSWORD:UID:GID:... */
static bool read_line(kiln_str line, const char *name, kiln_privilege_user *out_user) {
    uint64_t uid = 0, gid = 0;
    if (!kiln_str_is(kiln_str_cut(&line, ':'), name)) return false;
    kiln_str_cut(&line, ':');
    if (!kiln_str_to_u64(kiln_str_cut(&line, ':'), &uid) ||
        !kiln_str_to_u64(kiln_str_cut(&line, ':'), &gid))
        return false;
    if (uid == 0 || gid == 0 || uid >= UINT32_MAX || gid >= UINT32_MAX) return false;
    if (uid == KILN_SANDBOX_USER || gid == KILN_SANDBOX_USER) return false;
    *out_user = (kiln_privilege_user){(uid_t)uid, (gid_t)gid};
    return true;
}

kiln_privilege_user kiln_privilege_find_user(const char *passwd) {
    static const char *const names[] = {"kiln-board", "kiln"};
    kiln_privilege_user user = {KILN_PRIVILEGE_USER, KILN_PRIVILEGE_USER};
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_str text = {0};
    kiln_status_free(kiln_file_read(passwd, PASSWD_BYTES_MAX, &arena, &text)); /* nobody is named */
    bool found = false;
    for (size_t i = 0; !found && i < KILN_ARRAY_COUNT(names); i++)
        for (kiln_str rest = text; !found && rest.size > 0;)
            found = read_line(kiln_str_cut(&rest, '\n'), names[i], &user);
    kiln_arena_deinit(&arena);
    return user;
}

/* ---- The folder ---- */

static kiln_status failure(const char *doing, const char *name) {
    return kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__, "%s %s: %s", doing,
                            name, strerror(errno));
}

static kiln_status give_entries(int folder, kiln_privilege_user user, int depth);

/* Closes `fd`. Changes the entries first: while the folder is ours, the user cannot change them. */
static kiln_status give_folder(int fd, const char *name, kiln_privilege_user user, int depth) {
    kiln_status st = depth < DEPTH_MAX ? give_entries(fd, user, depth)
                                       : KILN_ERROR(FAILED_PRECONDITION, "%s lies too deep", name);
    if (!st && fchown(fd, user.uid, user.gid) != 0) st = failure("taking over", name);
    close(fd);
    return st;
}

static kiln_status give_entry(int folder, const char *name, kiln_privilege_user user, int depth) {
    struct stat info;
    const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &info) == 0) {
        if (S_ISDIR(info.st_mode)) return give_folder(fd, name, user, depth + 1);
        const bool own = S_ISREG(info.st_mode) && info.st_nlink == 1;
        const bool given = own && fchown(fd, user.uid, user.gid) == 0;
        close(fd);
        if (own) return given ? NULL : failure("taking over", name);
    }
    return unlinkat(folder, name, 0) == 0 ? NULL : failure("removing", name);
}

static kiln_status give_entries(int folder, kiln_privilege_user user, int depth) {
    const int copy = dup(folder);
    DIR *entries = copy >= 0 ? fdopendir(copy) : NULL;
    kiln_status st = entries ? NULL : failure("reading", "a folder");
    if (!entries && copy >= 0) close(copy);
    for (struct dirent *entry; !st && (entry = readdir(entries));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            st = give_entry(folder, entry->d_name, user, depth);
    if (entries) closedir(entries);
    return st;
}

kiln_status kiln_privilege_take_folder(const char *path, kiln_privilege_user user) {
    struct stat info;
    int lock_fd = -1;
    kiln_status st = kiln_folder_create(path, 0700);
    if (st) return st;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        st = KILN_ERROR(PERMISSION_DENIED, "%s: %s; --state names a folder, not a link to one",
                        path, strerror(errno));
    } else if (info.st_uid == user.uid) {
        close(fd);
        return NULL;
    } else if (info.st_uid != geteuid()) {
        st = KILN_ERROR(PERMISSION_DENIED,
                        "%s belongs to user %u, neither to the one that starts this server nor to "
                        "%u, who the server runs as",
                        path, (unsigned)info.st_uid, (unsigned)user.uid);
    }
    if (!st) st = kiln_folder_lock(path, &lock_fd); /* a running server holds it */
    kiln_fd_close(&lock_fd);
    if (!st) return kiln_status_note(give_folder(fd, path, user, 0), "%s", path);
    if (fd >= 0) close(fd);
    return st;
}

/* ---- Rights ---- */

static bool has_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (syscall(SYS_capget, &header, data) != 0) return true;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(data); i++)
        if (data[i].effective || data[i].permitted || data[i].inheritable) return true;
    return false;
}

kiln_status kiln_privilege_leave_root(kiln_privilege_user user) {
    int asked = 0;
    prctl(PR_GET_PDEATHSIG, &asked);
    if (setgroups(0, NULL) != 0 || setresgid(user.gid, user.gid, user.gid) != 0)
        return KILN_ERROR(PERMISSION_DENIED, "becoming user %u: %s", (unsigned)user.uid,
                          strerror(errno));
    for (unsigned long right = 0; right <= CAP_LAST_CAP; right++)
        (void)prctl(PR_CAPBSET_DROP, right, 0, 0, 0); /* fails for one that was dropped before */
    if (setresuid(user.uid, user.uid, user.uid) != 0) {
        kiln_status st = KILN_ERROR(PERMISSION_DENIED, "becoming user %u: %s", (unsigned)user.uid,
                                    strerror(errno));
        (void)!setresgid(0, 0, 0);
        return st;
    }
    /* Inheritable capabilities survive a change of user. */
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    syscall(SYS_capset, &header, none);
    /* The change of user cleared it. */
    prctl(PR_SET_PDEATHSIG, asked);
    if (setuid(0) == 0 || setgid(0) == 0 || has_capabilities())
        return KILN_ERROR(INTERNAL, "the process still has root's rights");
    return NULL;
}

void kiln_privilege_clean_environment(void) {
    char **kept = environ;
    for (char **variable = environ; variable && *variable; variable++) {
        if (strncmp(*variable, "KILN_", 5) == 0 || kiln_driver_keeps(*variable) ||
            strstr(*variable, "SAN_OPTIONS="))
            *kept++ = *variable;
        else
            explicit_bzero(*variable, strlen(*variable));
    }
    if (kept) *kept = NULL;
}

void kiln_privilege_hide(void) {
    if (!KILN_SANITIZED) (void)prctl(PR_SET_DUMPABLE, 0); /* a leak checker traces itself */
}

/* ---- System calls ---- */

static const int refused_calls[] = {
    /* Access to other processes. */
    SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(kcmp),
    SCMP_SYS(pidfd_getfd), SCMP_SYS(perf_event_open),
    /* Users and rights. */
    SCMP_SYS(setuid), SCMP_SYS(setreuid), SCMP_SYS(setresuid), SCMP_SYS(setgid), SCMP_SYS(setregid),
    SCMP_SYS(setresgid), SCMP_SYS(setgroups), SCMP_SYS(setfsuid), SCMP_SYS(setfsgid),
    SCMP_SYS(capset), SCMP_SYS(personality), SCMP_SYS(keyctl), SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    /* The same of 32-bit processors. */
    SCMP_SYS(setuid32), SCMP_SYS(setreuid32), SCMP_SYS(setresuid32), SCMP_SYS(setgid32),
    SCMP_SYS(setregid32), SCMP_SYS(setresgid32), SCMP_SYS(setgroups32), SCMP_SYS(setfsuid32),
    SCMP_SYS(setfsgid32), SCMP_SYS(clock_settime64), SCMP_SYS(clock_adjtime64),
    /* Namespaces and file systems. */
    SCMP_SYS(unshare), SCMP_SYS(setns), SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root),
    SCMP_SYS(chroot), SCMP_SYS(fsopen), SCMP_SYS(fsconfig), SCMP_SYS(fsmount), SCMP_SYS(fspick),
    SCMP_SYS(move_mount), SCMP_SYS(open_tree), SCMP_SYS(mount_setattr), SCMP_SYS(mknod),
    SCMP_SYS(mknodat), SCMP_SYS(open_by_handle_at), SCMP_SYS(quotactl), SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    /* The kernel. */
    SCMP_SYS(bpf), SCMP_SYS(userfaultfd), SCMP_SYS(io_uring_setup), SCMP_SYS(init_module),
    SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(acct), SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime), SCMP_SYS(adjtimex), SCMP_SYS(clock_adjtime), SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname), SCMP_SYS(syslog), SCMP_SYS(iopl), SCMP_SYS(ioperm)};

static const uint64_t namespaces[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                      CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};

static int refuse(scmp_filter_ctx filter, int call) {
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0);
}

/* Calls that this processor lacks get no rule. */
static void add_rules(scmp_filter_ctx filter, bool may_start) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(refused_calls); i++)
        (void)refuse(filter, refused_calls[i]);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(namespaces); i++)
        (void)seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                               SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]));
    /* Filters cannot read clone3's flags in memory; the C library then uses clone. */
    (void)seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    if (may_start) return;
    (void)refuse(filter, SCMP_SYS(execve));
    (void)refuse(filter, SCMP_SYS(execveat));
}

void kiln_privilege_shut(bool may_start) {
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    kiln_privilege_hide();
    if (KILN_SANITIZED) return; /* a leak checker traces itself */
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter) return;
    add_rules(filter, may_start);
    (void)seccomp_load(filter); /* without filters in the kernel the other fences remain */
    seccomp_release(filter);
}
