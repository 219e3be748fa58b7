#include "rpc-server/namespaces.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"

static bool write_file(const char *path, const char *content, int size) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, content, (size_t)size) == size;
    if (fd >= 0) close(fd);
    return written;
}

bool kiln_namespace_user(void) {
    if (geteuid() == 0) return true;
    char user[64], group[64];
    int user_size = snprintf(user, sizeof user, "%d %d 1", (int)geteuid(), (int)geteuid());
    int group_size = snprintf(group, sizeof group, "%d %d 1", (int)getegid(), (int)getegid());
    return unshare(CLONE_NEWUSER) == 0 && write_file("/proc/self/uid_map", user, user_size) &&
           write_file("/proc/self/setgroups", "deny", 4) &&
           write_file("/proc/self/gid_map", group, group_size);
}

bool kiln_namespace_network(void) { return unshare(CLONE_NEWNET | CLONE_NEWIPC) == 0; }

/* A file system that hangs nowhere in the machine's tree, so that no path leads back. -1: refused.
 */
static int mount_empty(uint64_t size_bytes, uid_t owner) {
    char size[32], user[32];
    snprintf(size, sizeof size, "%llu", (unsigned long long)size_bytes);
    snprintf(user, sizeof user, "%u", (unsigned)owner);
    int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (context < 0) return -1;
    bool set = fsconfig(context, FSCONFIG_SET_STRING, "size", size, 0) == 0 &&
               fsconfig(context, FSCONFIG_SET_STRING, "nr_inodes", "64", 0) == 0 &&
               fsconfig(context, FSCONFIG_SET_STRING, "mode", "0700", 0) == 0 &&
               fsconfig(context, FSCONFIG_SET_STRING, "uid", user, 0) == 0 &&
               fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0;
    const unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    int root = set ? fsmount(context, FSMOUNT_CLOEXEC, attributes) : -1;
    close(context);
    return root;
}

bool kiln_namespace_files(uint64_t size_bytes, uid_t owner) {
    if (unshare(CLONE_NEWNS) != 0) return false;
    int root = mount_empty(size_bytes, owner);
    bool entered = root >= 0 && fchdir(root) == 0 && chroot(".") == 0;
    if (root >= 0) close(root);
    return entered;
}

bool kiln_namespace_processes(pid_t *out_guard) {
    *out_guard = 0;
    if (getpid() == 1) return true; /* a zygote's copy is born into one */
    if (unshare(CLONE_NEWPID) != 0) return false;
    *out_guard = fork();
    return *out_guard >= 0;
}

void kiln_namespace_leave_rights(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    syscall(SYS_capset, &header, none); /* giving up is always allowed */
}
