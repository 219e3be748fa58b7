#include "rpc-server/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc-server/sandbox.h"

#define DEPTH_MAX 64
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static kiln_status failure(const char *name) {
    return kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__, "removing %s: %s",
                            name, strerror(errno));
}

/* Folders of root are neither the server's nor a child's. */
static bool may_empty(int fd, uid_t owner) {
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISDIR(info.st_mode)) return false;
    return info.st_uid == owner || (geteuid() == 0 && info.st_uid == KILN_SANDBOX_USER);
}

static kiln_status empty(int folder, uid_t owner, int depth);

static kiln_status remove_entry(int folder, const char *name, uid_t owner, int depth) {
    if (unlinkat(folder, name, 0) == 0) return NULL;
    const int fd = openat(folder, name, FOLDER_FLAGS);
    kiln_status st = NULL;
    if (fd >= 0 && depth < DEPTH_MAX && may_empty(fd, owner)) st = empty(fd, owner, depth + 1);
    if (fd >= 0) close(fd);
    if (!st && unlinkat(folder, name, AT_REMOVEDIR) != 0) st = failure(name);
    return st;
}

static kiln_status empty(int folder, uid_t owner, int depth) {
    const int own = openat(folder, ".", FOLDER_FLAGS);
    DIR *entries = own >= 0 ? fdopendir(own) : NULL;
    kiln_status first = NULL;
    if (!entries) {
        first = failure("a child's folder");
        if (own >= 0) close(own);
        return first;
    }
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        kiln_status st = remove_entry(folder, entry->d_name, owner, depth);
        if (first)
            kiln_status_free(st);
        else
            first = st;
    }
    closedir(entries);
    return first;
}

kiln_status kiln_leftovers_remove(int folder, uid_t owner) {
    struct stat info;
    if (fstat(folder, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != owner)
        return KILN_ERROR(PERMISSION_DENIED, "the folder to empty belongs to another user");
    return empty(folder, owner, 0);
}
