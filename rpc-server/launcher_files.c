/* How the launcher replaces the program on disk (rpc-server/launcher.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/macros.h"
#include "rpc-server/launcher.h"
#include "rpc-server/release_archive.h"

#define NAME "kiln-board"
#define MEMBER "bin/kiln-rpc-server"
#define PIECE ((size_t)64 << 10)

static kiln_status error_of(const char *what, const char *path) {
    const int code = errno;
    const kiln_code kind = code == ENOSPC || code == EDQUOT ? KILN_RESOURCE_EXHAUSTED
                           : code == ENOENT                 ? KILN_NOT_FOUND
                                                            : KILN_PERMISSION_DENIED;
    return kiln_status_make(kind, __FILE__, __LINE__, "%s %s: %s", what, path, strerror(code));
}

kiln_status kiln_launcher_read_keys(const char *path, kiln_release_keys *out_keys) {
    kiln_arena arena;
    kiln_str text;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_file_read(path, KILN_RELEASE_KEYS_TEXT_MAX, &arena, &text);
    if (!st) st = kiln_release_keys_parse(text, out_keys);
    kiln_arena_deinit(&arena);
    return kiln_status_note(st, "release keys %s", path);
}

/* Copies all of `from`, but not much more than the release has, and hashes it. */
static kiln_status copy_and_hash(int from, int to, const kiln_release *release, uint64_t *out_size,
                                 kiln_digest *out_digest) {
    char *piece = kiln_alloc(PIECE);
    kiln_hasher hasher;
    kiln_status st = KILN_OK;
    uint64_t size = 0;
    ssize_t got = 1;
    kiln_hasher_begin(&hasher);
    while (!st && got > 0 && size <= release->size_bytes) {
        got = pread(from, piece, PIECE, (off_t)size);
        if (got < 0) st = error_of("reading", "the archive");
        if (got <= 0) break;
        kiln_hasher_add(&hasher, piece, (size_t)got);
        size += (uint64_t)got;
        if (!kiln_file_write_fully(to, (kiln_str){piece, (size_t)got}))
            st = error_of("copying", "the archive");
    }
    kiln_hasher_end(&hasher, out_digest);
    *out_size = size;
    kiln_free(piece);
    return st;
}

/* Copies the archive into a file that the server's user cannot change, and checks its hash. */
static kiln_status copy_archive(int from, int to, const kiln_release *release) {
    kiln_digest digest;
    uint64_t size = 0;
    kiln_status st = copy_and_hash(from, to, release, &size, &digest);
    if (!st && (size != release->size_bytes || !kiln_digest_equal(&digest, &release->digest)))
        st = KILN_ERROR(DATA_LOSS, "the archive is not the one that was signed");
    return st;
}

/* A file without a name beside the program. */
static kiln_status open_nameless(const char *next, int *out_fd) {
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s.archive", next) >= sizeof path)
        return KILN_ERROR(INVALID_ARGUMENT, "the path of the program is too long");
    unlink(path);
    *out_fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*out_fd < 0) return error_of("making", path);
    unlink(path);
    return KILN_OK;
}

/* The new program gets owner, group and mode of the present one. */
static kiln_status unpack(const char *program, const char *next, const kiln_release *release,
                          int archive) {
    struct stat present;
    if (stat(program, &present) != 0) return error_of("looking at", program);
    unlink(next);
    int fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return error_of("making", next);
    kiln_status st = KILN_OK;
    if (lseek(archive, 0, SEEK_SET) != 0) st = error_of("reading", "the archive");
    if (!st) st = kiln_release_unpack(archive, release, MEMBER, fd);
    if (!st && present.st_uid != geteuid() && fchown(fd, present.st_uid, present.st_gid) != 0)
        st = error_of("giving away", next);
    if (!st && fchmod(fd, (present.st_mode & 0777) | 0100) != 0)
        st = error_of("making executable", next);
    if (!st && (kiln_fail_io() || fsync(fd) != 0)) st = error_of("writing", next);
    close(fd);
    if (st) unlink(next);
    return st;
}

kiln_status kiln_launcher_install(const char *program, const char *next,
                                  const kiln_release_keys *keys, kiln_str statement,
                                  int archive_fd) {
    kiln_release release;
    int copy = -1;
    kiln_status st = kiln_release_check(statement, keys, &release);
    if (!st && strcmp(release.name, NAME) != 0)
        st = KILN_ERROR(INVALID_ARGUMENT, "%s is no release for boards", release.name);
    if (!st && strcmp(release.arch, kiln_release_arch()) != 0)
        st = KILN_ERROR(INVALID_ARGUMENT, "the release is for %s, and this is %s", release.arch,
                        kiln_release_arch());
    if (!st) st = open_nameless(next, &copy);
    if (!st) st = copy_archive(archive_fd, copy, &release);
    if (!st) st = unpack(program, next, &release, copy);
    if (copy >= 0) close(copy);
    return st;
}

/* Each step leaves a program that runs at `program`. */
kiln_status kiln_launcher_commit(const char *program, const char *next) {
    char previous[4096], link_path[4096];
    if ((size_t)snprintf(previous, sizeof previous, "%s.previous", program) >= sizeof previous ||
        (size_t)snprintf(link_path, sizeof link_path, "%s.link", next) >= sizeof link_path)
        return KILN_ERROR(INVALID_ARGUMENT, "the path of the program is too long");
    unlink(link_path);
    if (kiln_fail_io() || link(program, link_path) != 0) return error_of("linking", program);
    kiln_status st = KILN_OK;
    if (kiln_fail_io() || rename(link_path, previous) != 0) st = error_of("making", previous);
    if (!st && (kiln_fail_io() || rename(next, program) != 0)) st = error_of("replacing", program);
    unlink(link_path); /* also where both are the same file, which rename leaves alone */
    if (!st) kiln_file_sync_folder(program);
    return st;
}
