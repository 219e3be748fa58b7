/* Backups: one folder with the databases of a tracker and a tuner, the tracker's blobs, and the
 * keys, as they were at one moment, while the programs go on. Its manifest names each file with its
 * size, mode and checksum, and is written last. For `kiln admin`; docs/how-to/backup.md describes
 * the folder.
 *
 * What is consistent: each database is the content of one moment. The tracker's is copied first, so
 * that the records of each job that has ended there are in the other. Blobs are copied before and
 * after it, so that none that it names is missing. */
#ifndef KILN_CLI_BACKUP_H
#define KILN_CLI_BACKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/vec.h"
#include "db/db.h"

#define KILN_BACKUP_FORMAT 1
#define KILN_BACKUP_MANIFEST "manifest.json"
#define KILN_BACKUP_BLOB_FOLDER "blobs"
#define KILN_BACKUP_FILES_MAX 4000000u

typedef enum kiln_backup_part {
#define PART(ID, name, what) KILN_BACKUP_##ID,
#include "cli/backup_items.def"
#undef PART
    KILN_BACKUP_PART_COUNT
} kiln_backup_part;
bool kiln_backup_part_find(kiln_str name, kiln_backup_part *out_part);

typedef enum kiln_backup_content {
    KILN_BACKUP_TRACKER_DATABASE,
    KILN_BACKUP_RECORDS_DATABASE,
    KILN_BACKUP_FILE,
} kiln_backup_content;

typedef enum kiln_backup_item_id {
#define ITEM(ID, name, part, content, folder, file) KILN_BACKUP_ITEM_##ID,
#include "cli/backup_items.def"
#undef ITEM
    KILN_BACKUP_ITEM_COUNT
} kiln_backup_item_id;

typedef struct kiln_backup_item {
    const char *name; /* in the backup */
    kiln_backup_part part;
    kiln_backup_content content;
    const char *path; /* on this machine */
} kiln_backup_item;

/* Where everything lies on this machine. */
typedef struct kiln_backup_place {
    kiln_backup_item item[KILN_BACKUP_ITEM_COUNT];
    const char *state, *tuner_state; /* folders that running programs lock */
    const char *blobs;
    bool without[KILN_BACKUP_PART_COUNT];
} kiln_backup_place;

/* A file of a backup. */
typedef struct kiln_backup_file {
    const char *name;             /* of an item, or blobs/DIGEST */
    const kiln_backup_item *item; /* NULL: a blob */
    uint64_t size_bytes;
    uint32_t mode;
    kiln_hash128 hash; /* XXH3, against damage; it is no signature */
} kiln_backup_file;

typedef struct kiln_backup {
    const char *folder, *program, *made; /* the version that made it; UTC */
    uint32_t schema[2];                  /* by kiln_db_kind; 0: there is no such database */
    KILN_VEC(kiln_backup_file) files;    /* in the arena */
    uint64_t size_bytes;                 /* of all */
    kiln_arena *arena;
} kiln_backup;

/* The place that options name; NULL: the usual one below $KILN_HOME. Texts are kept, not copied. */
typedef struct kiln_backup_options {
    const char *state, *tracker_db, *records_db, *blobs, *keys;
} kiln_backup_options;
KILN_MUST_USE kiln_status kiln_backup_place_find(const kiln_backup_options *options,
                                                 kiln_arena *arena, kiln_backup_place *out_place);

/* Makes the folder, which must not exist yet; nothing is left of one that fails.
 * ALREADY_EXISTS        there is such a file or folder
 * NOT_FOUND             there is nothing to back up
 * UNIMPLEMENTED         a database is on a server; the text says what to use
 * RESOURCE_EXHAUSTED    the disk is full
 * others                as kiln_db_copy */
KILN_MUST_USE kiln_status kiln_backup_make(const kiln_backup_place *place, const char *folder,
                                           kiln_arena *arena, kiln_backup *out_backup);
/* Reads the manifest and compares every file with it.
 * NOT_FOUND             no backup, or one that was not finished
 * FAILED_PRECONDITION   a newer Kiln made it
 * DATA_LOSS             it is damaged: the text names the first such file, and says how many there
 * are */
KILN_MUST_USE kiln_status kiln_backup_verify(const char *folder, kiln_arena *arena,
                                             kiln_backup *out_backup);
/* Puts a verified backup in place. Either all files are replaced or, up to the last moment, none.
 * Lease numbers go on far above those of the backup, so that boards refuse what was leased since.
 * ALREADY_EXISTS        there is data in its place, and not `replace`
 * FAILED_PRECONDITION   a tracker or tuner runs there */
KILN_MUST_USE kiln_status kiln_backup_restore(const kiln_backup *backup,
                                              const kiln_backup_place *place, bool replace,
                                              uint32_t *out_count);

/* backup_manifest.c, for the others. */
KILN_MUST_USE kiln_status kiln_backup_manifest_write(const kiln_backup *backup, const char *path);
KILN_MUST_USE kiln_status kiln_backup_manifest_read(const char *folder, kiln_arena *arena,
                                                    kiln_backup *out_backup);
/* Whether a file of this name may be in a backup: an item, a blob, the manifest. */
bool kiln_backup_is_name(const char *name);
/* Size, mode and checksum of a file, for its row. `fd` stays open. */
KILN_MUST_USE kiln_status kiln_backup_file_sum(int fd, const char *name, kiln_backup_file *file);

#endif
