#include "cli/backup_archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#define BLOCK ((size_t)512)
#define PIECE ((size_t)1 << 20)
#define OCTAL_MAX UINT64_C(077777777777) /* of the field `size`; above it the number is binary */

/* The header of a file: 512 bytes, numbers in octal digits. */
typedef struct tar_header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
    char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155];
    char unused[12];
} tar_header;
_Static_assert(sizeof(tar_header) == BLOCK, "as POSIX has it");

bool kiln_backup_archive_is_name(const char *path) {
    return kiln_str_ends(kiln_str_from(path), ".tar");
}

/* The sum of all bytes, those of `checksum` taken as blanks. */
static unsigned sum_of(const tar_header *header) {
    const unsigned char *bytes = (const unsigned char *)header;
    const size_t from = offsetof(tar_header, checksum);
    unsigned sum = 0;
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= from && i < from + sizeof header->checksum ? ' ' : bytes[i];
    return sum;
}

/* ---- writing ---- */

static void put_size(tar_header *header, uint64_t size) {
    if (size <= OCTAL_MAX) {
        snprintf(header->size, sizeof header->size, "%011llo", (unsigned long long)size);
        return;
    }
    for (size_t i = 0; i < 8; i++) header->size[11 - i] = (char)(size >> (8 * i));
    header->size[0] = (char)0x80;
}

static void fill_header(tar_header *header, const char *name, uint64_t size, uint32_t mode) {
    memset(header, 0, sizeof *header);
    memcpy(header->name, name, KILN_MIN(strlen(name), sizeof header->name - 1));
    snprintf(header->mode, sizeof header->mode, "%07o", mode & 0777u);
    snprintf(header->uid, sizeof header->uid, "%07o", 0u);
    snprintf(header->gid, sizeof header->gid, "%07o", 0u);
    put_size(header, size);
    snprintf(header->mtime, sizeof header->mtime, "%011o", 0u);
    header->type = '0';
    memcpy(header->magic, "ustar", 6);
    memcpy(header->version, "00", 2);
    snprintf(header->checksum, sizeof header->checksum, "%06o", sum_of(header));
    header->checksum[7] = ' ';
}

/* Appends the content of an open file, filled up to whole blocks. False: `errno` says why. */
static bool append_content(int to, int from, uint64_t size) {
    char *piece = kiln_alloc(PIECE);
    bool is_right = true;
    for (uint64_t left = size; is_right && left;) {
        const ssize_t got = read(from, piece, (size_t)KILN_MIN(left, PIECE));
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = EIO; /* it became shorter */
        is_right = got > 0 && kiln_file_write_fully(to, (kiln_str){piece, (size_t)got});
        left -= is_right ? (uint64_t)got : 0;
    }
    memset(piece, 0, BLOCK);
    const size_t rest = (size_t)(size % BLOCK);
    if (is_right && rest) is_right = kiln_file_write_fully(to, (kiln_str){piece, BLOCK - rest});
    kiln_free(piece);
    return is_right;
}

static kiln_status append_file(const kiln_backup *backup, const char *name, uint32_t mode, int to,
                               const char *archive) {
    tar_header header;
    struct stat info;
    const char *path = kiln_arena_printf(backup->arena, "%s/%s", backup->folder, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        kiln_status st = KILN_SYSTEM_ERROR(errno, "opening", path);
        if (fd >= 0) close(fd);
        return st;
    }
    fill_header(&header, name, (uint64_t)info.st_size, mode);
    const bool is_right = kiln_file_write_fully(to, (kiln_str){(const char *)&header, BLOCK}) &&
                          append_content(to, fd, (uint64_t)info.st_size);
    kiln_status st = is_right ? KILN_OK : KILN_SYSTEM_ERROR(errno, "writing", archive);
    close(fd);
    return st;
}

static kiln_status append_all(const kiln_backup *backup, int to, const char *archive) {
    static const char end[2 * BLOCK];
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < backup->files.count; i++)
        st = append_file(backup, backup->files.data[i].name, backup->files.data[i].mode, to,
                         archive);
    if (!st) st = append_file(backup, KILN_BACKUP_MANIFEST, 0600, to, archive);
    if (!st && !kiln_file_write_fully(to, (kiln_str){end, sizeof end}))
        st = KILN_SYSTEM_ERROR(errno, "writing", archive);
    if (!st && fsync(to) != 0) st = KILN_SYSTEM_ERROR(errno, "syncing", archive);
    return st;
}

kiln_status kiln_backup_archive_write(const kiln_backup *backup, const char *path) {
    const char *partial = kiln_arena_printf(backup->arena, "%s.partial", path);
    if (kiln_file_exists(path))
        return KILN_ERROR(ALREADY_EXISTS, "%s exists already; name another file", path);
    const int to = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0) return KILN_SYSTEM_ERROR(errno, "making", partial);
    kiln_status st = append_all(backup, to, path);
    close(to);
    if (!st && rename(partial, path) != 0) st = KILN_SYSTEM_ERROR(errno, "making", path);
    if (st) unlink(partial);
    if (!st) kiln_file_sync_folder(path);
    return st;
}

/* ---- reading ---- */

/* A number in octal digits; false: it is none. */
static bool read_octal(const char *field, size_t size, uint64_t *out_number) {
    uint64_t number = 0;
    size_t i = 0;
    while (i < size && field[i] >= '0' && field[i] <= '7')
        number = number * 8 + (uint64_t)(field[i++] - '0');
    const bool is_right = i > 0 && i <= 12 && (i == size || field[i] == 0 || field[i] == ' ');
    if (is_right) *out_number = number;
    return is_right;
}

static bool read_size(const tar_header *header, uint64_t *out_size) {
    if (!((unsigned char)header->size[0] & 0x80))
        return read_octal(header->size, sizeof header->size, out_size);
    uint64_t size = 0;
    for (size_t i = 4; i < sizeof header->size; i++)
        size = size << 8 | (unsigned char)header->size[i];
    *out_size = size;
    return size <= INT64_MAX;
}

static kiln_status check_header(const tar_header *header, const char *archive, uint64_t left,
                                uint64_t *out_size, uint32_t *out_mode) {
    uint64_t sum = 0, mode = 0;
    const bool is_header = memcmp(header->magic, "ustar", 5) == 0 &&
                           read_octal(header->checksum, sizeof header->checksum, &sum) &&
                           sum == sum_of(header) && header->name[sizeof header->name - 1] == 0;
    if (!is_header) return KILN_ERROR(DATA_LOSS, "%s is no archive, or damaged", archive);
    if ((header->type != '0' && header->type != 0) || !kiln_backup_is_name(header->name))
        return KILN_ERROR(DATA_LOSS, "%s has something that is no file of a backup", archive);
    if (!read_size(header, out_size) || !read_octal(header->mode, sizeof header->mode, &mode) ||
        *out_size > left)
        return KILN_ERROR(DATA_LOSS, "%s ends within the file %s", archive, header->name);
    *out_mode = (uint32_t)mode & 0777u;
    return KILN_OK;
}

static kiln_status unpack_file(const kiln_mapping *archive, size_t at, uint64_t size, uint32_t mode,
                               const char *to) {
    const int fd =
        open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, (mode_t)(mode | 0600u));
    const kiln_str content = {(const char *)archive->data + at, (size_t)size};
    if (fd < 0) return KILN_SYSTEM_ERROR(errno, "making", to);
    kiln_status st =
        kiln_file_write_fully(fd, content) ? KILN_OK : KILN_SYSTEM_ERROR(errno, "writing", to);
    close(fd);
    return st;
}

static bool is_end(const tar_header *header) {
    const char *bytes = (const char *)header;
    for (size_t i = 0; i < BLOCK; i++)
        if (bytes[i]) return false;
    return true;
}

static kiln_status unpack(const kiln_mapping *archive, const char *path, const char *folder,
                          kiln_arena *arena) {
    size_t at = 0;
    tar_header header;
    for (;;) {
        uint64_t size = 0;
        uint32_t mode = 0;
        if (archive->size - at < BLOCK)
            return KILN_ERROR(DATA_LOSS, "%s ends before its end", path);
        memcpy(&header, (const char *)archive->data + at, BLOCK);
        if (is_end(&header)) return KILN_OK;
        at += BLOCK;
        kiln_status st = check_header(&header, path, archive->size - at, &size, &mode);
        if (!st)
            st = unpack_file(archive, at, size, mode,
                             kiln_arena_printf(arena, "%s/%s", folder, header.name));
        if (st) return st;
        const size_t rest = (size_t)(size % BLOCK);
        at += (size_t)KILN_MIN(size + (rest ? BLOCK - rest : 0), archive->size - at);
    }
}

kiln_status kiln_backup_archive_read(const char *path, const char *folder, kiln_arena *arena) {
    kiln_mapping archive = {0};
    kiln_status st = kiln_file_map(path, &archive);
    if (!st)
        st = kiln_folder_create(kiln_arena_printf(arena, "%s/" KILN_BACKUP_BLOB_FOLDER, folder),
                                0700);
    if (!st) st = unpack(&archive, path, folder, arena);
    kiln_file_unmap(&archive);
    return st;
}
