#include "rpc-server/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"

#define PATH_BYTES 256
#define EMPTY_FILES 64u
#define EMPTY_BYTES ((uint64_t)1 << 20)
#define DRIVER_FILES 16384u /* files that it may write, and mount points */

static bool write_file(const char *path, const char *content, int size) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, content, (size_t)size) == size;
    kiln_fd_close(&fd);
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

/* Makes a file system outside of the machine's tree, so that no path leads back to that. -1:
 * refused. */
static int mount_empty(uint64_t size_bytes, uint32_t files, uid_t owner, unsigned attributes) {
    char size[32], user[32], inodes[32];
    snprintf(size, sizeof size, "%llu", (unsigned long long)size_bytes);
    snprintf(inodes, sizeof inodes, "%u", files);
    snprintf(user, sizeof user, "%u", (unsigned)owner);
    int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (context < 0) return -1;
    bool set = fsconfig(context, FSCONFIG_SET_STRING, "size", size, 0) == 0 &&
               fsconfig(context, FSCONFIG_SET_STRING, "nr_inodes", inodes, 0) == 0 &&
               fsconfig(context, FSCONFIG_SET_STRING, "mode", "0700", 0) == 0 &&
               fsconfig(context, FSCONFIG_SET_STRING, "uid", user, 0) == 0 &&
               fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0;
    int root = set ? fsmount(context, FSMOUNT_CLOEXEC, attributes) : -1;
    close(context);
    return root;
}

bool kiln_namespace_files(uint64_t size_bytes, uid_t owner) {
    if (unshare(CLONE_NEWNS) != 0) return false;
    const unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    int root = mount_empty(size_bytes, EMPTY_FILES, owner, attributes);
    bool entered = root >= 0 && fchdir(root) == 0 && chroot(".") == 0;
    kiln_fd_close(&root);
    return entered;
}

/* ---- Files of a driver ---- */

/* Makes `path`, relative to the working folder, as a folder or an empty file to mount on. */
static bool make_place(const char *path, bool is_folder) {
    char part[PATH_BYTES];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdir(part, 0755) != 0 && errno != EEXIST) return false;
    }
    if (is_folder) return mkdir(path, 0755) == 0 || errno == EEXIST;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    kiln_fd_close(&fd);
    return fd >= 0;
}

/* Copies a symbolic link; its target needs a row of its own. */
static bool copy_link(const char *from, const char *to) {
    char target[PATH_BYTES];
    const ssize_t size = readlink(from, target, sizeof target - 1);
    if (size < 0) return false;
    target[size] = '\0';
    return symlink(target, to) == 0 || errno == EEXIST;
}

/* Mounts /proc of the child's own namespace. Without one, or if the kernel refuses, there is no
 * /proc, so that the machine's processes stay hidden. */
static void show_processes(const char *place) {
    const unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    int context = getpid() == 1 ? fsopen("proc", FSOPEN_CLOEXEC) : -1;
    const bool made = context >= 0 && fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0;
    int tree = made ? fsmount(context, FSMOUNT_CLOEXEC, attributes) : -1;
    if (tree >= 0 && make_place(place, true))
        (void)move_mount(tree, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH);
    kiln_fd_close(&tree);
    kiln_fd_close(&context);
}

/* Mounts the file at the same path below the working folder, the new root. */
static bool show(const kiln_driver_file *file) {
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_NOSUID |
                                                (file->is_device ? 0 : MOUNT_ATTR_RDONLY)};
    const char *place = file->path + 1;
    struct stat info;
    if (strcmp(file->path, "/proc") == 0) {
        show_processes(place);
        return true;
    }
    if (lstat(place, &info) == 0) return true; /* below another row's folder */
    if (lstat(file->path, &info) != 0 || strlen(file->path) >= PATH_BYTES)
        return true; /* the machine has none, or the path is too long */
    if (S_ISLNK(info.st_mode)) return copy_link(file->path, place);
    const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE;
    if (!make_place(place, S_ISDIR(info.st_mode))) return false;
    int tree = open_tree(AT_FDCWD, file->path, flags);
    const bool shown = tree >= 0 &&
                       mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes,
                                     sizeof attributes) == 0 &&
                       move_mount(tree, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH) == 0;
    kiln_fd_close(&tree);
    return shown;
}

static bool show_all(const kiln_driver *driver) {
    kiln_driver_file file;
    bool shown = mkdir("tmp", 0700) == 0;
    for (uint32_t at = 0; shown && kiln_driver_next_file(driver, &at, &file);) shown = show(&file);
    return shown;
}

bool kiln_namespace_driver_files(const kiln_driver *driver, uid_t owner) {
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return false;
    const uint64_t bytes = driver->folder_bytes + EMPTY_BYTES;
    int root = mount_empty(bytes, DRIVER_FILES, owner, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    const bool entered = root >= 0 &&
                         move_mount(root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) == 0 &&
                         fchdir(root) == 0;
    kiln_fd_close(&root);
    /* Puts the old root below the new one and unmounts it. */
    return entered && show_all(driver) && chown("tmp", owner, (gid_t)-1) == 0 &&
           syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 &&
           chdir("/") == 0;
}

bool kiln_namespace_processes(pid_t *out_child) {
    *out_child = 0;
    if (getpid() == 1) return true; /* the zygote started it in one */
    if (unshare(CLONE_NEWPID) != 0) return false;
    *out_child = fork();
    return *out_child >= 0;
}

void kiln_namespace_leave_rights(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    syscall(SYS_capset, &header, none); /* giving up is always allowed */
}
