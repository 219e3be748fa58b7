#include "cli/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/opt.h"
#include "base/version.h"

bool kiln_backup_part_find(kiln_str name, kiln_backup_part *out_part) {
    static const char *const names[] = {
#define PART(ID, name, what) [KILN_BACKUP_##ID] = name,
#include "cli/backup_items.def"
#undef PART
    };
    for (unsigned i = 0; i < KILN_BACKUP_PART_COUNT; i++) {
        if (!kiln_str_is(name, names[i])) continue;
        *out_part = (kiln_backup_part)i;
        return true;
    }
    return false;
}

kiln_status kiln_backup_place_find(const kiln_backup_options *options, kiln_arena *arena,
                                   kiln_backup_place *out_place) {
    char *home = NULL;
    kiln_status st = kiln_home(arena, &home);
    if (st) return st;
    const char *state =
        options->state ? options->state : kiln_arena_printf(arena, "%s/tracker", home);
#define STATE state
#define HOME home
    *out_place = (kiln_backup_place){
        .item =
            {
#define ITEM(ID, name, part, content, folder, file) \
    {name, KILN_BACKUP_##part, KILN_BACKUP_##content, kiln_arena_printf(arena, "%s/" file, folder)},
#include "cli/backup_items.def"
#undef ITEM
            },
        .state = state,
        .tuner_state = kiln_arena_printf(arena, "%s/tuner", home),
        .blobs = options->blobs ? options->blobs : kiln_arena_printf(arena, "%s/blobs", state)};
#undef HOME
#undef STATE
    kiln_backup_item *item = out_place->item;
    if (options->tracker_db) item[KILN_BACKUP_ITEM_TRACKER_DB].path = options->tracker_db;
    if (options->records_db) item[KILN_BACKUP_ITEM_RECORDS_DB].path = options->records_db;
    if (options->keys) item[KILN_BACKUP_ITEM_KEYS].path = options->keys;
    return KILN_OK;
}

/* ---- one file ---- */

static const char *made_now(kiln_arena *arena) {
    const time_t seconds = (time_t)(kiln_clock_wall_ns() / KILN_NS_PER_S);
    struct tm parts;
    char text[32] = "";
    if (gmtime_r(&seconds, &parts)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return kiln_str_dup(arena, kiln_str_from(text));
}

/* Adds the row of a file that was copied into the folder being made. */
static kiln_status add_row(kiln_backup *backup, const char *name, uint32_t mode) {
    const char *path = kiln_arena_printf(backup->arena, "%s/%s", backup->folder, name);
    kiln_backup_file file = {.name = name};
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return KILN_SYSTEM_ERROR(errno, "opening", path);
    kiln_status st = kiln_backup_file_sum(fd, path, &file);
    close(fd);
    if (st) return st;
    file.mode = mode;
    kiln_vec_push_in(backup->arena, &backup->files, file);
    backup->size_bytes += file.size_bytes;
    return KILN_OK;
}

/* *out_found false: it is not there. */
static kiln_status copy_file(kiln_backup *backup, const char *from, const char *name,
                             bool *out_found) {
    const char *to = kiln_arena_printf(backup->arena, "%s/%s", backup->folder, name);
    struct stat info;
    uint64_t size = 0;
    int fd = open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    *out_found = fd >= 0;
    if (fd < 0) return errno == ENOENT ? KILN_OK : KILN_SYSTEM_ERROR(errno, "opening", from);
    kiln_status st = fstat(fd, &info) == 0 ? KILN_OK : KILN_SYSTEM_ERROR(errno, "reading", from);
    const uint32_t mode = st ? 0 : (uint32_t)info.st_mode & 0777u;
    if (!st) st = kiln_file_copy(fd, to, mode | 0400u, &size);
    close(fd);
    return st ? st : add_row(backup, name, mode);
}

static kiln_status copy_database(kiln_backup *backup, const kiln_backup_item *item) {
    const kiln_db_kind kind =
        item->content == KILN_BACKUP_TRACKER_DATABASE ? KILN_DB_TRACKER : KILN_DB_RECORDS;
    const char *to = kiln_arena_printf(backup->arena, "%s/%s", backup->folder, item->name);
    struct stat info = {.st_mode = 0600};
    if (!kiln_db_is_there(item->path)) return KILN_OK;
    kiln_status st = kiln_db_copy(item->path, kind, to, &backup->schema[kind]);
    if (st) return st;
    const bool is_known = stat(item->path, &info) == 0;
    return add_row(backup, item->name, is_known ? (uint32_t)info.st_mode & 0777u : 0600u);
}

static kiln_status copy_item(kiln_backup *backup, const kiln_backup_item *item) {
    bool found = false;
    return item->content == KILN_BACKUP_FILE ? copy_file(backup, item->path, item->name, &found)
                                             : copy_database(backup, item);
}

/* ---- blobs ---- */

/* Copies those that the backup lacks. A blob that is removed meanwhile was not needed. */
static kiln_status copy_blobs(kiln_backup *backup, const char *folder) {
    const char *to =
        kiln_arena_printf(backup->arena, "%s/" KILN_BACKUP_BLOB_FOLDER, backup->folder);
    char **names = NULL;
    size_t count = 0;
    if (!kiln_file_is_folder(folder)) return KILN_OK;
    kiln_status st = kiln_folder_create(to, 0700);
    if (!st) st = kiln_folder_list(folder, backup->arena, &names, &count);
    for (size_t i = 0; !st && i < count; i++) {
        kiln_digest digest;
        bool found = false;
        if (!kiln_digest_parse(kiln_str_from(names[i]), &digest)) continue; /* a part of one */
        const char *name =
            kiln_arena_printf(backup->arena, KILN_BACKUP_BLOB_FOLDER "/%s", names[i]);
        if (kiln_file_exists(kiln_arena_printf(backup->arena, "%s/%s", backup->folder, name)))
            continue;
        st = copy_file(backup, kiln_arena_printf(backup->arena, "%s/%s", folder, names[i]), name,
                       &found);
    }
    return st;
}

/* ---- all ---- */

static kiln_status copy_parts(const kiln_backup_place *place, kiln_backup *backup) {
    const bool with_blobs = !place->without[KILN_BACKUP_BLOBS];
    kiln_status st = with_blobs ? copy_blobs(backup, place->blobs) : KILN_OK;
    for (unsigned i = 0; !st && i < KILN_BACKUP_ITEM_COUNT; i++)
        if (!place->without[place->item[i].part]) st = copy_item(backup, &place->item[i]);
    if (!st && with_blobs) st = copy_blobs(backup, place->blobs);
    if (!st && backup->files.count == 0)
        st = KILN_ERROR(NOT_FOUND,
                        "there is nothing to back up: no tracker's folder at %s, no records at %s, "
                        "no keys at %s",
                        place->state, place->item[KILN_BACKUP_ITEM_RECORDS_DB].path,
                        place->item[KILN_BACKUP_ITEM_KEYS].path);
    return st;
}

/* Of the files alone: other programs may have much to write to the same file system. */
static kiln_status sync_files(const kiln_backup *backup) {
    for (uint32_t i = 0; i < backup->files.count; i++) {
        const char *path =
            kiln_arena_printf(backup->arena, "%s/%s", backup->folder, backup->files.data[i].name);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        const bool is_synced = fd >= 0 && fsync(fd) == 0;
        kiln_status st = is_synced ? KILN_OK : KILN_SYSTEM_ERROR(errno, "syncing", path);
        if (fd >= 0) close(fd);
        if (st) return st;
    }
    return KILN_OK;
}

/* Everything is on disk before the manifest, and the manifest before the folder's name. */
static kiln_status finish(kiln_backup *backup, const char *folder) {
    const char *manifest =
        kiln_arena_printf(backup->arena, "%s/" KILN_BACKUP_MANIFEST, backup->folder);
    kiln_status st = sync_files(backup);
    if (!st) st = kiln_backup_manifest_write(backup, manifest);
    if (!st && rename(backup->folder, folder) != 0) st = KILN_SYSTEM_ERROR(errno, "making", folder);
    if (!st) kiln_file_sync_folder(folder);
    return st;
}

kiln_status kiln_backup_make(const kiln_backup_place *place, const char *folder, kiln_arena *arena,
                             kiln_backup *out_backup) {
    kiln_str name = kiln_str_from(folder);
    while (name.size > 1 && name.data[name.size - 1] == '/') name.size--;
    folder = kiln_str_dup(arena, name);
    kiln_backup backup = {.folder = kiln_arena_printf(arena, "%s.partial", folder),
                          .program = kiln_version_text,
                          .made = made_now(arena),
                          .arena = arena};
    if (kiln_file_exists(folder))
        return KILN_ERROR(ALREADY_EXISTS,
                          "%s exists already; a backup is a new folder, name another", folder);
    kiln_status st = kiln_file_exists(backup.folder) /* of one that was interrupted */
                         ? kiln_folder_remove(backup.folder)
                         : KILN_OK;
    if (!st) st = kiln_folder_create(backup.folder, 0700);
    if (!st) st = copy_parts(place, &backup);
    if (!st) st = finish(&backup, folder);
    if (st) {
        kiln_status_free(
            kiln_folder_remove(backup.folder)); /* the first error is the one to show */
        return st;
    }
    backup.folder = folder;
    *out_backup = backup;
    return KILN_OK;
}
