/* A folder that several machines mount: PATH/<first two digits>/<SHA-256>. A file is written under
 * another name, synced and renamed, so that no locks are needed, which network file systems support
 * badly: two writers of one blob replace it by the same bytes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rand.h"
#include "proto/depot/parts.h"

#define PIECE_BYTES ((size_t)256 << 10)
#define COMING_PREFIX ".coming-"
#define COMING_KEPT_S (24 * 3600) /* then its writer is gone */

typedef struct folder_depot {
    kiln_depot depot;
    kiln_arena arena;
    char *path;
} folder_depot;

static folder_depot *of(kiln_depot *depot) { return (folder_depot *)depot; }

static kiln_status open_folder(kiln_str rest, kiln_depot **out_depot) {
    if (rest.size == 0) return KILN_ERROR(INVALID_ARGUMENT, "folder: needs a path");
    folder_depot *self = kiln_alloc(sizeof *self);
    *self = (folder_depot){.depot.row = &kiln_depot_folder};
    kiln_arena_init(&self->arena, 256);
    self->path = kiln_str_dup(&self->arena, rest);
    *out_depot = &self->depot;
    return KILN_OK;
}

static void close_folder(kiln_depot *depot) {
    kiln_arena_deinit(&of(depot)->arena);
    kiln_free(depot);
}

static void print_path(const folder_depot *self, const kiln_digest *digest, kiln_strbuf *out) {
    char name[KILN_DIGEST_TEXT];
    kiln_digest_print(digest, name);
    kiln_strbuf_printf(out, "%s/%.2s/%s", self->path, name, name);
}

/* Copies the open file `from` into the sink. */
static kiln_status copy(int from, const char *path, kiln_depot_sink *sink) {
    char *piece = kiln_alloc(PIECE_BYTES);
    kiln_status st = KILN_OK;
    for (;;) {
        ssize_t size = read(from, piece, PIECE_BYTES);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) st = KILN_SYSTEM_ERROR(errno, "reading", path);
        if (size <= 0 || !kiln_depot_sink_write(sink, piece, (size_t)size)) break;
    }
    kiln_free(piece);
    return st;
}

static kiln_status copy_file(const char *from, const kiln_digest *digest, uint64_t bytes_max,
                             const char *to) {
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return KILN_SYSTEM_ERROR(errno, "opening", from);
    kiln_depot_sink sink;
    kiln_depot_sink_begin(&sink, to, bytes_max);
    kiln_status st = copy(fd, from, &sink);
    close(fd);
    return kiln_depot_sink_end(&sink, digest, st);
}

static kiln_status sync_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kiln_status st =
        fd >= 0 && fsync(fd) == 0 ? KILN_OK : KILN_SYSTEM_ERROR(errno, "syncing", path);
    if (fd >= 0) close(fd);
    return st;
}

static kiln_status put(kiln_depot *depot, const kiln_digest *digest, const char *path) {
    folder_depot *self = of(depot);
    kiln_strbuf whole = {0}, folder = {0}, coming = {0};
    uint64_t number = 0;
    print_path(self, digest, &whole);
    kiln_strbuf_append(&folder, whole.data, whole.size - (KILN_DIGEST_TEXT - 1) - 1);
    kiln_status st = KILN_OK;
    if (!kiln_file_exists(whole.data)) {
        st = kiln_folder_create(folder.data, 0700);
        if (!st) st = kiln_rand_system(&number, sizeof number);
        kiln_strbuf_printf(&coming, "%s/" COMING_PREFIX "%016llx", folder.data,
                           (unsigned long long)number);
        if (!st) st = copy_file(path, digest, UINT64_MAX, coming.data);
        if (!st && rename(coming.data, whole.data) != 0) {
            st = KILN_SYSTEM_ERROR(errno, "renaming", coming.data);
            unlink(coming.data);
        }
        if (!st) st = sync_folder(folder.data);
    }
    kiln_strbuf_deinit(&coming);
    kiln_strbuf_deinit(&folder);
    kiln_strbuf_deinit(&whole);
    return st;
}

static kiln_status get(kiln_depot *depot, const kiln_digest *digest, uint64_t bytes_max,
                       const char *path) {
    kiln_strbuf whole = {0};
    print_path(of(depot), digest, &whole);
    kiln_status st = copy_file(whole.data, digest, bytes_max, path);
    kiln_strbuf_deinit(&whole);
    return st;
}

static kiln_status remove_blob(kiln_depot *depot, const kiln_digest *digest) {
    kiln_strbuf whole = {0};
    print_path(of(depot), digest, &whole);
    kiln_status st = unlink(whole.data) == 0 || errno == ENOENT
                         ? KILN_OK
                         : KILN_SYSTEM_ERROR(errno, "removing", whole.data);
    kiln_strbuf_deinit(&whole);
    return st;
}

/* Left by a transfer whose program was killed. */
static void remove_if_stale(const char *path, const struct stat *info) {
    if ((uint64_t)info->st_mtime + COMING_KEPT_S < kiln_clock_wall_ns() / KILN_NS_PER_S)
        (void)unlink(path);
}

static kiln_status visit_file(const char *folder, const char *name, kiln_depot_visit visit,
                              void *context) {
    kiln_strbuf path = {0};
    kiln_depot_blob blob = {0};
    struct stat info;
    kiln_status st = KILN_OK;
    kiln_strbuf_printf(&path, "%s/%s", folder, name);
    if (stat(path.data, &info) == 0) { /* else another tracker removed it just now */
        if (kiln_str_starts(kiln_str_from(name), COMING_PREFIX)) {
            remove_if_stale(path.data, &info);
        } else if (kiln_digest_parse(kiln_str_from(name), &blob.digest)) {
            blob.size = (uint64_t)info.st_size;
            blob.stored_s = info.st_mtime;
            st = visit(context, &blob);
        }
    }
    kiln_strbuf_deinit(&path);
    return st;
}

static kiln_status each(kiln_depot *depot, kiln_depot_visit visit, void *context) {
    folder_depot *self = of(depot);
    kiln_arena arena = {0};
    char **folders = NULL, **names = NULL;
    size_t folder_count = 0, name_count = 0;
    if (!kiln_file_exists(self->path)) return KILN_OK; /* nothing was stored yet */
    kiln_status st = kiln_folder_list(self->path, &arena, &folders, &folder_count);
    for (size_t i = 0; !st && i < folder_count; i++) {
        char *path = kiln_arena_printf(&arena, "%s/%s", self->path, folders[i]);
        if (strlen(folders[i]) != 2 || !kiln_file_is_folder(path)) continue;
        st = kiln_folder_list(path, &arena, &names, &name_count);
        for (size_t n = 0; !st && n < name_count; n++)
            st = visit_file(path, names[n], visit, context);
    }
    kiln_arena_deinit(&arena);
    return st;
}

const kiln_depot_row kiln_depot_folder = {
    .prefix = "folder:",
    .form = "folder:PATH",
    .open = open_folder,
    .close = close_folder,
    .put = put,
    .get = get,
    .remove = remove_blob,
    .each = each,
};
