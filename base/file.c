#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/opt.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/vec.h"

#ifdef __ANDROID__
#define program_invocation_short_name getprogname()
#endif

#define SYSTEM_FILE_MAX ((size_t)1 << 20)
#define OPEN_FOLDERS_MAX 16 /* descriptors that removing a tree may hold at once */

#define READING (O_RDONLY | O_CLOEXEC | O_NONBLOCK) /* opening a named pipe must not block */

/* Takes `fd` only if it is a regular file, and finds its size. */
static kiln_status take_regular(int fd, const char *path, int *out_fd, size_t *out_size) {
    struct stat info;
    kiln_status st = KILN_OK;
    if (fstat(fd, &info) != 0)
        st = KILN_SYSTEM_ERROR(errno, "looking at", path);
    else if (!S_ISREG(info.st_mode))
        st = KILN_ERROR(INVALID_ARGUMENT, "%s is not a regular file", path);
    if (st) {
        close(fd);
        return st;
    }
    *out_fd = fd;
    *out_size = (size_t)info.st_size;
    return KILN_OK;
}

/* Opens a regular file for reading and finds its size. */
static kiln_status open_regular(const char *path, int *out_fd, size_t *out_size) {
    int fd = kiln_fail_io() ? -1 : open(path, READING);
    if (fd < 0 && errno == ENXIO) /* a socket, or a device that is not there */
        return KILN_ERROR(INVALID_ARGUMENT, "%s is not a regular file", path);
    if (fd < 0) return KILN_SYSTEM_ERROR(errno, "opening", path);
    return take_regular(fd, path, out_fd, out_size);
}

static kiln_status inside_error(int error, const char *folder, const char *path) {
    switch (error) {
    case ENOENT: return KILN_ERROR(NOT_FOUND, "%s is not in %s", path, folder);
    case ELOOP:
    case ENOTDIR:
        return KILN_ERROR(INVALID_ARGUMENT,
                          "%s goes through a link or a file: put the file itself into %s", path,
                          folder);
    case ENXIO: return KILN_ERROR(INVALID_ARGUMENT, "%s is not a regular file", path);
    default: errno = error; return KILN_SYSTEM_ERROR(errno, "opening", path);
    }
}

/* Opens component by component without following links, so that no name can leave the folder. */
kiln_status kiln_file_open_inside(const char *folder, const char *path, int *out_fd,
                                  size_t *out_size) {
    kiln_str rest = kiln_str_from(path);
    if (path[0] == '/') return KILN_ERROR(INVALID_ARGUMENT, "%s is an absolute path", path);
    int at = kiln_fail_io() ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (at >= 0 && rest.size) {
        kiln_str part = kiln_str_cut(&rest, '/');
        char name[256];
        if (part.size == 0 || kiln_str_is(part, ".")) continue;
        if (kiln_str_is(part, "..") || part.size >= sizeof name) {
            close(at);
            return KILN_ERROR(INVALID_ARGUMENT, "%s leaves %s", path, folder);
        }
        memcpy(name, part.data, part.size);
        name[part.size] = 0;
        int next = openat(at, name, READING | O_NOFOLLOW | (rest.size ? O_DIRECTORY : 0));
        int error = errno;
        close(at);
        errno = error;
        at = next;
    }
    return at < 0 ? inside_error(errno, folder, path) : take_regular(at, path, out_fd, out_size);
}

/* Bytes read; fewer than `size` at the end of the file or after an error (errno set, else 0). */
static size_t read_fully(int fd, char *data, size_t size) {
    size_t done = 0;
    errno = 0;
    while (done < size) {
        ssize_t got = kiln_fail_io() ? -1 : read(fd, data + done, size - done);
        if (got < 0 && errno == EINTR) {
            errno = 0;
            continue;
        }
        if (got <= 0) break;
        done += (size_t)got;
    }
    return done;
}

kiln_status kiln_file_read(const char *path, size_t max_bytes, kiln_arena *arena,
                           kiln_str *out_content) {
    int fd = -1;
    size_t size = 0;
    kiln_status st = open_regular(path, &fd, &size);
    if (st) return st;
    if (size > max_bytes) {
        st = KILN_ERROR(OUT_OF_RANGE, "%s has %zu bytes; at most %zu are read", path, size,
                        max_bytes);
    } else {
        char *data = kiln_arena_alloc(arena, size + 1);
        size_t got = read_fully(fd, data, size);
        if (got == size)
            *out_content = (kiln_str){data, size};
        else
            st =
                KILN_ERROR(DATA_LOSS, "reading %s stopped after %zu of %zu bytes", path, got, size);
    }
    close(fd);
    return st;
}

kiln_status kiln_file_read_system(const char *path, kiln_arena *arena, kiln_str *out_content) {
    int fd = -1;
    size_t ignored = 0;
    kiln_status st = open_regular(path, &fd, &ignored);
    if (st) return st;
    kiln_strbuf content = {0};
    char piece[4096];
    size_t got = sizeof piece;
    while (got == sizeof piece && content.size < SYSTEM_FILE_MAX) {
        got = read_fully(fd, piece, sizeof piece);
        kiln_strbuf_append(&content, piece, got);
    }
    if (errno)
        st = KILN_SYSTEM_ERROR(errno, "reading", path);
    else
        *out_content = (kiln_str){kiln_str_dup(arena, kiln_strbuf_view(&content)), content.size};
    kiln_strbuf_deinit(&content);
    close(fd);
    return st;
}

bool kiln_file_write_fully(int fd, kiln_str content) {
    for (size_t done = 0; done < content.size;) {
        ssize_t put = kiln_fail_io() ? -1 : write(fd, content.data + done, content.size - done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return false;
        done += (size_t)put;
    }
    return true;
}

void kiln_file_sync_folder(const char *path) {
    kiln_arena scratch = {0};
    char *folder = kiln_str_dup(&scratch, kiln_str_from(path));
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = '\0';
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    kiln_arena_deinit(&scratch);
}

/* How kiln_file_write treats an existing path. */
typedef enum destination {
    REPLACED, /* a regular file, a link, or nothing yet */
    IN_PLACE, /* a device or a pipe */
    REFUSED,
} destination;

static destination destination_of(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) return REPLACED;
    return S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode) ? IN_PLACE : REFUSED;
}

#define BESIDE_TRIES 16

/* Creates a file with a free name beside `path`, using open for the umask: mkostemp would make it
 * 0600. -1 and errno on failure. */
static int create_beside(const char *path, mode_t mode, kiln_arena *scratch, char **out_beside) {
    int fd = -1;
    errno = EEXIST;
    for (int i = 0; i < BESIDE_TRIES && fd < 0 && errno == EEXIST; i++) {
        uint32_t number = 0;
        kiln_status_free(kiln_rand_system(&number, sizeof number)); /* on failure 0 is tried */
        *out_beside = kiln_arena_printf(scratch, "%s.%06x", path, number & 0xffffffu);
        fd = open(*out_beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    }
    return fd;
}

/* Whether others have no access; then the umask is not applied. */
static bool is_secret(unsigned mode) { return (mode & (S_IRWXG | S_IRWXO)) == 0; }

static kiln_status replace(const char *path, kiln_str content, unsigned mode) {
    kiln_arena scratch = {0};
    char *beside = NULL;
    kiln_status st = KILN_OK;
    int fd = kiln_fail_io() ? -1 : create_beside(path, (mode_t)mode, &scratch, &beside);
    if (fd < 0) {
        st = KILN_SYSTEM_ERROR(errno, "creating a file beside", path);
    } else {
        size_t half = content.size / 2;
        bool whole = kiln_file_write_fully(fd, kiln_str_slice(content, 0, half));
        kiln_fail_pass(KILN_FAIL_FILE_HALF);
        whole = whole && kiln_file_write_fully(fd, kiln_str_slice(content, half, content.size)) &&
                (!is_secret(mode) || fchmod(fd, (mode_t)mode) == 0) && !kiln_fail_io() &&
                fsync(fd) == 0;
        if (!whole) st = KILN_SYSTEM_ERROR(errno, "writing", path);
        if (close(fd) != 0 && !st) st = KILN_SYSTEM_ERROR(errno, "closing", path);
        if (!st) st = kiln_fail_at(KILN_FAIL_FILE_REPLACE);
        if (!st && (kiln_fail_io() || rename(beside, path) != 0))
            st = KILN_SYSTEM_ERROR(errno, "replacing", path);
        if (st)
            unlink(beside);
        else
            kiln_file_sync_folder(path);
    }
    kiln_arena_deinit(&scratch);
    return st;
}

static kiln_status write_in_place(const char *path, kiln_str content) {
    kiln_status st = KILN_OK;
    int fd = kiln_fail_io() ? -1 : open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return KILN_SYSTEM_ERROR(errno, "opening", path);
    if (!kiln_file_write_fully(fd, content)) st = KILN_SYSTEM_ERROR(errno, "writing", path);
    if (close(fd) != 0 && !st) st = KILN_SYSTEM_ERROR(errno, "closing", path);
    return st;
}

static kiln_status refuse_destination(const char *path) {
    return KILN_ERROR(INVALID_ARGUMENT, "%s is %s; name a file", path,
                      kiln_file_is_folder(path) ? "a folder" : "no file");
}

kiln_status kiln_file_write(const char *path, kiln_str content, unsigned mode) {
    switch (destination_of(path)) {
    case REPLACED: return replace(path, content, mode);
    case IN_PLACE: return write_in_place(path, content);
    case REFUSED: break;
    }
    return refuse_destination(path);
}

kiln_status kiln_file_check_writable(const char *path) {
    kiln_arena scratch = {0};
    char *beside = NULL;
    kiln_status st = KILN_OK;
    int fd = -1;
    switch (destination_of(path)) {
    case REFUSED: return refuse_destination(path);
    case IN_PLACE:
        return access(path, W_OK) == 0 ? KILN_OK : KILN_SYSTEM_ERROR(errno, "opening", path);
    case REPLACED: break;
    }
    fd = kiln_fail_io() ? -1 : create_beside(path, 0600, &scratch, &beside);
    if (fd < 0) {
        st = KILN_SYSTEM_ERROR(errno, "creating a file beside", path);
    } else {
        close(fd);
        unlink(beside);
    }
    kiln_arena_deinit(&scratch);
    return st;
}

bool kiln_file_exists(const char *path) {
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool kiln_file_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static kiln_status create_one(const char *path, mode_t mode) {
    if (kiln_file_is_folder(path)) return KILN_OK;
    if (!kiln_fail_io() && (mkdir(path, mode) == 0 || kiln_file_is_folder(path))) return KILN_OK;
    return KILN_SYSTEM_ERROR(errno, "creating folder", path);
}

kiln_status kiln_folder_create(const char *path, unsigned mode) {
    kiln_arena scratch = {0};
    char *part = kiln_str_dup(&scratch, kiln_str_from(path));
    kiln_status st = KILN_OK;
    for (char *slash = strchr(part + (part[0] == '/'), '/'); slash && !st;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (part[0]) st = create_one(part, (mode_t)mode);
        *slash = '/';
    }
    if (!st) st = create_one(path, (mode_t)mode);
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_folder_create_temp(const char *prefix, kiln_arena *arena, char **out_path) {
    const char *parent = kiln_env("TMPDIR");
    char *path = kiln_arena_printf(arena, "%s/%s-XXXXXX", parent ? parent : "/tmp", prefix);
    if (kiln_fail_io() || !mkdtemp(path))
        return KILN_SYSTEM_ERROR(errno, "creating temporary folder", path);
    *out_path = path;
    return KILN_OK;
}

static int hold(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    close(fd);
    return -1;
}

#define UNIQUE "XXXXXX" /* what mkdtemp replaces */

static bool is_ours(int fd) {
    struct stat info;
    return fstat(fd, &info) == 0 && info.st_uid == geteuid();
}

/* Removes unlocked folders of earlier processes. Ignores failures, other users' folders (who could
 * replace them while root removes them), and other names with the same beginning. */
static void sweep(const char *parent, const char *prefix) {
    kiln_arena scratch = {0};
    char **name = NULL;
    size_t count = 0;
    kiln_str start = kiln_str_printf(&scratch, "%s-", prefix);
    kiln_status_free(kiln_folder_list(parent, &scratch, &name, &count));
    for (size_t i = 0; i < count; i++) {
        if (!kiln_str_starts(kiln_str_from(name[i]), start.data) ||
            strlen(name[i]) != start.size + strlen(UNIQUE))
            continue;
        char *path = kiln_arena_printf(&scratch, "%s/%s", parent, name[i]);
        int fd = hold(path);
        if (fd < 0) continue;
        if (is_ours(fd)) kiln_status_free(kiln_folder_remove(path));
        close(fd);
    }
    kiln_arena_deinit(&scratch);
}

/* The folder gets its name once it is locked, so that no other process removes it before. */
kiln_status kiln_folder_hold_temp(const char *prefix, size_t path_max, kiln_arena *arena,
                                  char **out_path, int *out_fd) {
    const char *parent = kiln_env("TMPDIR");
    if (!parent || strlen(parent) + strlen(prefix) + sizeof UNIQUE + 1 > path_max) parent = "/tmp";
    sweep(parent, prefix);
    char *made = kiln_arena_printf(arena, "%s/.%s-%s", parent, prefix, UNIQUE);
    if (kiln_fail_io() || !mkdtemp(made))
        return KILN_SYSTEM_ERROR(errno, "creating temporary folder", made);
    char *path = kiln_arena_printf(arena, "%s/%s", parent, strrchr(made, '/') + 2);
    int fd = hold(made);
    if (fd < 0 || rename(made, path) != 0) {
        kiln_status st = KILN_SYSTEM_ERROR(errno, "holding temporary folder", made);
        if (fd >= 0) close(fd);
        rmdir(made);
        return st;
    }
    *out_path = path;
    *out_fd = fd;
    return KILN_OK;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at) {
    (void)info, (void)type, (void)at;
    return remove(path);
}

kiln_status kiln_folder_remove(const char *path) {
    if (nftw(path, remove_entry, OPEN_FOLDERS_MAX, FTW_DEPTH | FTW_PHYS) != 0)
        return KILN_SYSTEM_ERROR(errno, "removing", path);
    return KILN_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

#define HOLDER_BYTES_MAX 64

/* The text has "kiln-tuner (process 12)", as written by the lock's holder. */
static kiln_status refuse_lock(const char *path, int fd) {
    char text[HOLDER_BYTES_MAX];
    ssize_t got = pread(fd, text, sizeof text, 0);
    kiln_str rest = {text, got > 0 ? (size_t)got : 0};
    kiln_str holder = kiln_str_cut(&rest, '\n');
    if (!holder.size || !kiln_text_is_printable(holder, KILN_TEXT_LINE))
        holder = KILN_STR("another process");
    return KILN_ERROR(FAILED_PRECONDITION, "%s is in use by %.*s; stop it, or name another folder",
                      path, KILN_STR_ARG(holder));
}

/* Writes this process' name for others that want the lock. A failure does not matter. */
static void name_holder(int fd) {
    char text[HOLDER_BYTES_MAX];
    int size = snprintf(text, sizeof text, "%s (process %ld)\n", program_invocation_short_name,
                        (long)getpid());
    if (size <= 0 || (size_t)size >= sizeof text) return;
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)size, 0) < 0) return;
}

kiln_status kiln_folder_lock(const char *path, int *out_fd) {
    kiln_strbuf name = {0};
    kiln_strbuf_printf(&name, "%s/lock", path);
    int fd = kiln_fail_io() ? -1 : open(name.data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    kiln_status st = NULL;
    if (fd < 0)
        st = KILN_SYSTEM_ERROR(errno, "opening", name.data);
    else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        st = refuse_lock(path, fd);
    if (st && fd >= 0) close(fd);
    if (!st) {
        name_holder(fd);
        *out_fd = fd;
    }
    kiln_strbuf_deinit(&name);
    return st;
}

kiln_status kiln_file_lock(const char *path, int *out_fd) {
    kiln_strbuf name = {0};
    kiln_status st = KILN_OK;
    kiln_strbuf_printf(&name, "%s.lock", path);
    int fd = kiln_fail_io() ? -1 : open(name.data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) st = KILN_SYSTEM_ERROR(errno, "opening", name.data);
    while (fd >= 0 && flock(fd, LOCK_EX) != 0) {
        if (errno == EINTR) continue;
        st = KILN_SYSTEM_ERROR(errno, "locking", name.data);
        close(fd);
        fd = -1;
    }
    if (!st) *out_fd = fd;
    kiln_strbuf_deinit(&name);
    return st;
}

kiln_status kiln_folder_list(const char *path, kiln_arena *arena, char ***out_names,
                             size_t *out_count) {
    DIR *folder = opendir(path);
    if (!folder) return KILN_SYSTEM_ERROR(errno, "listing", path);
    KILN_VEC(char *) names = {0};
    kiln_status st = KILN_OK;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(folder);
        if (!entry) {
            if (errno) st = KILN_SYSTEM_ERROR(errno, "listing", path);
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        kiln_vec_push_in(arena, &names, kiln_str_dup(arena, kiln_str_from(entry->d_name)));
    }
    closedir(folder);
    if (st) return st;
    if (names.count) qsort(names.data, names.count, sizeof *names.data, by_name);
    *out_names = names.data;
    *out_count = names.count;
    return KILN_OK;
}

static kiln_status map_open(int fd, size_t size, const char *name, kiln_mapping *out_mapping) {
    void *data =
        size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL; /* empty maps are refused */
    if (data == MAP_FAILED) return KILN_SYSTEM_ERROR(errno, "mapping", name);
    *out_mapping = (kiln_mapping){data, size};
    return KILN_OK;
}

kiln_status kiln_file_map(const char *path, kiln_mapping *out_mapping) {
    int fd = -1;
    size_t size = 0;
    kiln_status st = open_regular(path, &fd, &size);
    if (st) return st;
    st = map_open(fd, size, path, out_mapping);
    close(fd);
    return st;
}

kiln_status kiln_file_map_fd(int fd, const char *name, kiln_mapping *out_mapping) {
    struct stat info;
    if (fstat(fd, &info) != 0) return KILN_SYSTEM_ERROR(errno, "reading", name);
    if (!S_ISREG(info.st_mode)) return KILN_ERROR(INVALID_ARGUMENT, "%s is no regular file", name);
    return map_open(fd, (size_t)info.st_size, name, out_mapping);
}

void kiln_file_unmap(kiln_mapping *mapping) {
    if (mapping->size) munmap((void *)(uintptr_t)mapping->data, mapping->size);
    *mapping = (kiln_mapping){0};
}

void kiln_fd_close(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

uint64_t kiln_descriptors_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (before != limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
    return (uint64_t)limit.rlim_cur;
}
