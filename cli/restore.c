/* Putting a backup in place: every file is copied beside the one that it will replace, and only
 * when all are there and on disk they are renamed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/opt.h"
#include "cli/backup.h"

#define STAGED ".restored"
/* The tracker that the backup is of may have given out leases since. Boards refuse a lease older
 * than the newest that they have seen, so that numbers go on above all that can have been given. */
#define LEASES_SINCE (INT64_C(1) << 40)

typedef struct restored_file {
    const kiln_backup_file *file;
    const char *path, *staged;
} restored_file;

typedef struct restoring {
    const kiln_backup *backup;
    const kiln_backup_place *place;
    restored_file *file;
    uint32_t count, staged;
    kiln_arena *arena;
} restoring;

static bool is_database(const kiln_backup_file *file) {
    return file->item && file->item->content != KILN_BACKUP_FILE;
}

/* ---- which files ---- */

static void choose(restoring *r) {
    r->file = KILN_ARENA_ARRAY(r->arena, restored_file, r->backup->files.count + 1);
    for (uint32_t i = 0; i < r->backup->files.count; i++) {
        const kiln_backup_file *file = &r->backup->files.data[i];
        const char *path = NULL;
        if (r->place->without[file->item ? file->item->part : KILN_BACKUP_BLOBS]) continue;
        for (unsigned k = 0; file->item && k < KILN_BACKUP_ITEM_COUNT; k++)
            if (strcmp(r->place->item[k].name, file->name) == 0) path = r->place->item[k].path;
        if (!file->item)
            path = kiln_arena_printf(r->arena, "%s/%s", r->place->blobs,
                                     file->name + strlen(KILN_BACKUP_BLOB_FOLDER "/"));
        r->file[r->count++] =
            (restored_file){file, path, kiln_arena_printf(r->arena, "%s" STAGED, path)};
    }
}

/* A blob that is there already is the same, as its name says. */
static kiln_status refuse_existing(const restoring *r) {
    for (uint32_t i = 0; i < r->count; i++)
        if (r->file[i].file->item && kiln_file_exists(r->file[i].path))
            return KILN_ERROR(ALREADY_EXISTS,
                              "%s exists already: name another place with $KILN_HOME, or replace "
                              "it with --replace",
                              r->file[i].path);
    return KILN_OK;
}

static kiln_status refuse_servers(const restoring *r) {
    for (uint32_t i = 0; i < r->count; i++)
        if (is_database(r->file[i].file) && strstr(r->file[i].path, "://"))
            return KILN_ERROR(UNIMPLEMENTED,
                              "a database in a file cannot be restored to a server: pg_restore "
                              "restores what pg_dump wrote, and `kiln db import` takes records");
    return KILN_OK;
}

/* ---- copying ---- */

static kiln_status make_parent(const char *path, kiln_arena *arena) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return KILN_OK;
    return kiln_folder_create(kiln_str_dup(arena, (kiln_str){path, (size_t)(slash - path)}), 0700);
}

typedef struct epoch_reader {
    kiln_arena *arena;
    kiln_db_tracker_epoch epoch;
} epoch_reader;

/* kiln_db_visit: there is one row at most. */
static kiln_status read_epoch(void *context, kiln_db_table table, const void *row) {
    epoch_reader *reader = context;
    const kiln_db_tracker_epoch *epoch = kiln_db_copy_row(table, row, reader->arena);
    reader->epoch = *epoch;
    return KILN_OK;
}

/* Brings the copy's schema up to date, and its lease numbers above all others. */
static kiln_status prepare_tracker(const char *path, kiln_arena *arena) {
    kiln_db *db = NULL;
    epoch_reader reader = {arena, {.id = KILN_STR("epoch")}};
    kiln_status st = kiln_db_open(path, KILN_DB_TRACKER, KILN_DB_WRITE, &db);
    if (!st) st = kiln_db_each(db, KILN_DB_TABLE_TRACKER_EPOCH, read_epoch, &reader);
    if (!st) {
        reader.epoch.epoch += LEASES_SINCE;
        st = kiln_db_put_tracker_epoch(db, &reader.epoch);
    }
    if (!st) st = kiln_db_commit(db);
    kiln_db_close(db);
    return st;
}

static kiln_status stage(restoring *r, const restored_file *one) {
    size_t size = 0;
    uint64_t copied = 0;
    int fd = -1;
    kiln_status st = make_parent(one->path, r->arena);
    if (st) return st;
    unlink(one->staged); /* of a restore that was interrupted */
    st = kiln_file_open_inside(r->backup->folder, one->file->name, &fd, &size);
    if (st) return st;
    st = kiln_file_copy(fd, one->staged, one->file->mode, &copied);
    close(fd);
    if (!st) r->staged++;
    if (!st && copied != one->file->size_bytes)
        st = KILN_ERROR(DATA_LOSS, "%s changed while it was restored", one->file->name);
    if (!st && one->file->item && one->file->item->content == KILN_BACKUP_TRACKER_DATABASE)
        st = prepare_tracker(one->staged, r->arena);
    return st;
}

static void sync_all(const restoring *r) {
    for (uint32_t i = 0; i < r->count; i++) {
        const int fd = open(r->file[i].staged, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) fsync(fd);
        if (fd >= 0) close(fd);
    }
}

static kiln_status stage_all(restoring *r) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < r->count; i++) st = stage(r, &r->file[i]);
    if (!st) {
        sync_all(r);
        return KILN_OK;
    }
    for (uint32_t i = 0; i < r->staged; i++) unlink(r->file[i].staged);
    return st;
}

/* ---- in place ---- */

/* What SQLite left beside an old database belongs to that one. */
static void remove_logs(const char *path, kiln_arena *arena) {
    static const char *const beside[] = {"-wal", "-shm", "-journal"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(beside); i++)
        unlink(kiln_arena_printf(arena, "%s%s", path, beside[i]));
}

static kiln_status put_in_place(const restoring *r) {
    for (uint32_t i = 0; i < r->count; i++) {
        const restored_file *one = &r->file[i];
        if (is_database(one->file)) remove_logs(one->path, r->arena);
        if (rename(one->staged, one->path) != 0)
            return kiln_status_note(KILN_SYSTEM_ERROR(errno, "replacing", one->path),
                                    "%u of %u files are in place; repeat it", i, r->count);
        kiln_file_sync_folder(one->path);
    }
    return KILN_OK;
}

/* *out_fd -1: the part is left out, or nobody can run there. */
static kiln_status lock(const restoring *r, kiln_backup_part part, const char *folder,
                        int *out_fd) {
    if (r->place->without[part]) return KILN_OK;
    kiln_status st = kiln_folder_create(folder, 0700);
    if (!st) st = kiln_folder_lock(folder, out_fd);
    return kiln_status_note(st, "stop it before its data are replaced");
}

kiln_status kiln_backup_restore(const kiln_backup *backup, const kiln_backup_place *place,
                                bool replace, uint32_t *out_count) {
    restoring r = {.backup = backup, .place = place, .arena = backup->arena};
    int tracker = -1, tuner = -1;
    choose(&r);
    if (r.count == 0) return KILN_ERROR(NOT_FOUND, "%s has none of these parts", backup->folder);
    kiln_status st = refuse_servers(&r);
    if (!st && !replace) st = refuse_existing(&r);
    if (!st) st = lock(&r, KILN_BACKUP_TRACKER, place->state, &tracker);
    if (!st) st = lock(&r, KILN_BACKUP_RECORDS, place->tuner_state, &tuner);
    if (!st) st = stage_all(&r);
    if (!st) st = put_in_place(&r);
    kiln_fd_close(&tracker);
    kiln_fd_close(&tuner);
    if (!st) *out_count = r.count;
    return st;
}
