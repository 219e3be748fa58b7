#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"

#define PIECE_BYTES ((size_t)1 << 20)

/* Copies to the end of `fd`; the system's error, or 0. */
static int copy_bytes(int fd, int to, char *piece, uint64_t *out_size) {
    for (;;) {
        const ssize_t got = kiln_fail_io() ? -1 : read(fd, piece, PIECE_BYTES);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) return 0;
        if (!kiln_file_write_fully(to, (kiln_str){piece, (size_t)got})) return errno;
        *out_size += (uint64_t)got;
    }
}

kiln_status kiln_file_copy(int fd, const char *to, unsigned mode, uint64_t *out_size) {
    uint64_t size = 0;
    const int target =
        kiln_fail_io() ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (target < 0) return KILN_SYSTEM_ERROR(errno, "making", to);
    char *piece = kiln_alloc(PIECE_BYTES);
    int error = copy_bytes(fd, target, piece, &size);
    if (!error && fchmod(target, (mode_t)mode) != 0) error = errno;
    if (close(target) != 0 && !error) error = errno;
    kiln_free(piece);
    if (error) {
        unlink(to);
        return KILN_SYSTEM_ERROR(error, "writing", to);
    }
    *out_size = size;
    return KILN_OK;
}

kiln_status kiln_file_map_copy(kiln_str bytes, kiln_mapping *out_mapping) {
    kiln_arena scratch;
    char *folder = NULL;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_folder_create_temp("kiln-copy", &scratch, &folder);
    const char *path = st ? NULL : kiln_arena_printf(&scratch, "%s/bytes", folder);
    int fd = -1;
    if (!st) {
        fd = kiln_fail_io() ? -1 : open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0) st = KILN_SYSTEM_ERROR(errno, "making", path);
        unlink(path);
        rmdir(folder);
    }
    if (!st && !kiln_file_write_fully(fd, bytes)) st = KILN_SYSTEM_ERROR(errno, "writing", path);
    if (!st) st = kiln_file_map_fd(fd, path, out_mapping);
    if (fd >= 0) close(fd);
    kiln_arena_deinit(&scratch);
    return st;
}
