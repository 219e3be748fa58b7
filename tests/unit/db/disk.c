#include "tests/unit/db/disk.h"

#include <sqlite3.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/str.h"
#include "base/vec.h"

#define FILES_MAX 16
#define NAME_MAX_BYTES 64
#define SECTOR 512
#define SHM_REGIONS_MAX 64

/* A change that was not synced yet. */
typedef struct change {
    int64_t offset;
    size_t size;
    char *data; /* NULL: the file was cut to `offset` bytes */
} change;

typedef struct content {
    char *data;
    size_t size;
} content;

typedef struct disk_file {
    char name[NAME_MAX_BYTES]; /* empty: free, or temporary */
    bool used, temporary;
    bool exists, exists_durably;
    content now, durable;
    KILN_VEC(change) changes;
    char *shm[SHM_REGIONS_MAX];
} disk_file;

typedef struct handle {
    sqlite3_file base;
    disk_file *file;
    bool sync_folder; /* with the next sync, as SQLite does for logs that it made */
} handle;

static struct {
    sqlite3_vfs vfs;
    disk_file file[FILES_MAX];
    struct {
        char name[NAME_MAX_BYTES];
        content content;
    } saved[FILES_MAX];
    bool lasting, failed, off;
    disk_fault fault;
    uint64_t countdown, operations, random;
} disk;

/* ---- Contents ---- */

static void resize(content *c, size_t size) {
    c->data = kiln_realloc(c->data, size ? size : 1);
    if (size > c->size) memset(c->data + c->size, 0, size - c->size);
    c->size = size;
}

static void copy(content *to, const content *from) {
    resize(to, from->size);
    if (from->size > 0) memcpy(to->data, from->data, from->size);
}

static void apply(content *c, const change *one, size_t begin, size_t end) {
    if (!one->data) {
        resize(c, (size_t)one->offset);
        return;
    }
    if (c->size < (size_t)one->offset + end) resize(c, (size_t)one->offset + end);
    memcpy(c->data + one->offset + begin, one->data + begin, end - begin);
}

static void forget_changes(disk_file *f) {
    for (uint32_t i = 0; i < f->changes.count; i++) kiln_free(f->changes.data[i].data);
    f->changes.count = 0;
}

static void remove_file(disk_file *f) {
    forget_changes(f);
    kiln_vec_deinit(&f->changes);
    kiln_free(f->now.data);
    kiln_free(f->durable.data);
    for (int i = 0; i < SHM_REGIONS_MAX; i++) kiln_free(f->shm[i]);
    *f = (disk_file){0};
}

static disk_file *find_file(const char *name) {
    for (int i = 0; i < FILES_MAX; i++)
        if (disk.file[i].used && strcmp(disk.file[i].name, name) == 0) return &disk.file[i];
    return NULL;
}

static disk_file *make_file(const char *name) {
    int i = 0;
    while (disk.file[i].used) KILN_CHECK(++i < FILES_MAX);
    disk_file *f = &disk.file[i];
    f->used = true;
    f->temporary = !name;
    if (name) memcpy(f->name, name, strlen(name) + 1);
    return f;
}

/* What was made and removed in it is so for good. */
static void sync_folder(void) {
    for (int i = 0; i < FILES_MAX; i++) {
        disk_file *f = &disk.file[i];
        f->exists_durably = f->exists;
        if (f->used && !f->exists) resize(&f->durable, 0);
    }
}

/* ---- Faults ---- */

/* What this operation meets. */
static disk_fault meet(void) {
    disk.operations++;
    if (disk.off) return DISK_CUT;
    if (disk.countdown == 0 || --disk.countdown > 0) return DISK_FINE;
    disk.failed = true;
    if (disk.lasting) disk.countdown = 1;
    if (disk.fault == DISK_CUT) disk.off = true;
    return disk.fault;
}

/* ---- Files ---- */

static disk_file *file_of(sqlite3_file *base) { return ((handle *)base)->file; }

static int disk_close(sqlite3_file *base) {
    if (file_of(base)->temporary) remove_file(file_of(base));
    return SQLITE_OK;
}

static int disk_read(sqlite3_file *base, void *out, int size, sqlite3_int64 offset) {
    const content *now = &file_of(base)->now;
    disk_fault fault = meet();
    if (fault == DISK_BROKEN || fault == DISK_CUT) return SQLITE_IOERR_READ;
    size_t there = (size_t)offset < now->size ? now->size - (size_t)offset : 0;
    size_t read = KILN_MIN(there, (size_t)size);
    if (read > 0) memcpy(out, now->data + offset, read);
    if (read == (size_t)size) return SQLITE_OK;
    memset((char *)out + read, 0, (size_t)size - read);
    return SQLITE_IOERR_SHORT_READ;
}

static int disk_write(sqlite3_file *base, const void *data, int size, sqlite3_int64 offset) {
    disk_file *f = file_of(base);
    bool was_off = disk.off;
    disk_fault fault = meet();
    if (was_off || fault == DISK_BROKEN) return SQLITE_IOERR_WRITE;
    if (fault == DISK_FULL) return SQLITE_FULL;
    /* Power that is lost while this is written may leave a part of it: it waits like all else. */
    change one = {offset, (size_t)size, memcpy(kiln_alloc((size_t)size), data, (size_t)size)};
    kiln_vec_push(&f->changes, one);
    apply(&f->now, &one, 0, one.size);
    return fault == DISK_CUT ? SQLITE_IOERR_WRITE : SQLITE_OK;
}

static int disk_truncate(sqlite3_file *base, sqlite3_int64 size) {
    disk_file *f = file_of(base);
    if (meet() != DISK_FINE) return SQLITE_IOERR_TRUNCATE;
    change one = {.offset = size};
    kiln_vec_push(&f->changes, one);
    apply(&f->now, &one, 0, 0);
    return SQLITE_OK;
}

static int disk_sync(sqlite3_file *base, int flags) {
    (void)flags;
    disk_file *f = file_of(base);
    disk_fault fault = meet();
    if (fault == DISK_CUT) return SQLITE_IOERR_FSYNC;
    if (fault != DISK_FINE) { /* the system gave up, and will not try these pages again */
        forget_changes(f);
        return SQLITE_IOERR_FSYNC;
    }
    /* Pages that an earlier sync threw away are still not on the disk. */
    for (uint32_t i = 0; i < f->changes.count; i++)
        apply(&f->durable, &f->changes.data[i], 0, f->changes.data[i].size);
    forget_changes(f);
    if (((handle *)base)->sync_folder) sync_folder();
    ((handle *)base)->sync_folder = false;
    return SQLITE_OK;
}

static int disk_size(sqlite3_file *base, sqlite3_int64 *out_size) {
    *out_size = (sqlite3_int64)file_of(base)->now.size;
    return SQLITE_OK;
}

static int disk_lock(sqlite3_file *base, int level) {
    (void)base, (void)level;
    return SQLITE_OK;
}

static int disk_is_reserved(sqlite3_file *base, int *out_reserved) {
    (void)base;
    *out_reserved = 0;
    return SQLITE_OK;
}

static int disk_control(sqlite3_file *base, int what, void *argument) {
    (void)base, (void)what, (void)argument;
    return SQLITE_NOTFOUND;
}

static int disk_sector(sqlite3_file *base) {
    (void)base;
    return SECTOR;
}

static int disk_character(sqlite3_file *base) {
    (void)base;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int disk_shm_map(sqlite3_file *base, int region, int size, int extend,
                        void volatile **out_memory) {
    disk_file *f = file_of(base);
    KILN_CHECK(region < SHM_REGIONS_MAX);
    if (!f->shm[region] && extend) f->shm[region] = kiln_alloc((size_t)size);
    *out_memory = f->shm[region];
    return SQLITE_OK;
}

static int disk_shm_lock(sqlite3_file *base, int offset, int count, int flags) {
    (void)base, (void)offset, (void)count, (void)flags;
    return SQLITE_OK;
}

static void disk_shm_barrier(sqlite3_file *base) { (void)base; }

static int disk_shm_unmap(sqlite3_file *base, int remove) {
    disk_file *f = file_of(base);
    for (int i = 0; remove && i < SHM_REGIONS_MAX; i++) {
        kiln_free(f->shm[i]);
        f->shm[i] = NULL;
    }
    return SQLITE_OK;
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = disk_close,
    .xRead = disk_read,
    .xWrite = disk_write,
    .xTruncate = disk_truncate,
    .xSync = disk_sync,
    .xFileSize = disk_size,
    .xLock = disk_lock,
    .xUnlock = disk_lock,
    .xCheckReservedLock = disk_is_reserved,
    .xFileControl = disk_control,
    .xSectorSize = disk_sector,
    .xDeviceCharacteristics = disk_character,
    .xShmMap = disk_shm_map,
    .xShmLock = disk_shm_lock,
    .xShmBarrier = disk_shm_barrier,
    .xShmUnmap = disk_shm_unmap,
};

/* ---- The folder ---- */

static int disk_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags,
                     int *out_flags) {
    (void)vfs;
    handle *h = (handle *)base;
    *h = (handle){0};
    disk_file *f = name ? find_file(name) : NULL;
    if ((!f || !f->exists) && !(flags & SQLITE_OPEN_CREATE)) return SQLITE_CANTOPEN;
    if (meet() != DISK_FINE) return SQLITE_CANTOPEN;
    if (!f) f = make_file(name);
    /* What an older file of this name holds on the disk is no part of the new one. */
    change anew = {.offset = 0};
    if (!f->exists && f->durable.size > 0) kiln_vec_push(&f->changes, anew);
    f->exists = true;
    bool is_log = flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL);
    *h = (handle){{&methods}, f, is_log && (flags & SQLITE_OPEN_CREATE)};
    if (out_flags) *out_flags = flags;
    return SQLITE_OK;
}

static int disk_delete(sqlite3_vfs *vfs, const char *name, int durably) {
    (void)vfs;
    disk_file *f = find_file(name);
    if (meet() != DISK_FINE) return SQLITE_IOERR_DELETE;
    if (!f || !f->exists) return SQLITE_IOERR_DELETE_NOENT;
    f->exists = false;
    forget_changes(f);
    resize(&f->now, 0);
    if (durably) sync_folder();
    return SQLITE_OK;
}

static int disk_access(sqlite3_vfs *vfs, const char *name, int flags, int *out_yes) {
    (void)vfs, (void)flags;
    const disk_file *f = find_file(name);
    *out_yes = f && f->exists;
    return SQLITE_OK;
}

static int disk_full_path(sqlite3_vfs *vfs, const char *name, int size, char *out) {
    (void)vfs;
    KILN_CHECK(strlen(name) < (size_t)size && strlen(name) < NAME_MAX_BYTES - 8);
    memcpy(out, name, strlen(name) + 1);
    return SQLITE_OK;
}

static int disk_randomness(sqlite3_vfs *vfs, int size, char *out) {
    (void)vfs;
    for (int i = 0; i < size; i++)
        out[i] = (char)((disk.random = disk.random * UINT64_C(6364136223846793005) + 1) >> 56);
    return size;
}

static int disk_sleep(sqlite3_vfs *vfs, int microseconds) {
    (void)vfs;
    return microseconds;
}

static int disk_time(sqlite3_vfs *vfs, double *out_days) {
    (void)vfs;
    *out_days = 2460000;
    return SQLITE_OK;
}

static int disk_error(sqlite3_vfs *vfs, int size, char *out) {
    (void)vfs, (void)size, (void)out;
    return 0;
}

void disk_install(void) {
    disk.vfs = (sqlite3_vfs){.iVersion = 1,
                             .szOsFile = sizeof(handle),
                             .mxPathname = NAME_MAX_BYTES,
                             .zName = "disk",
                             .xOpen = disk_open,
                             .xDelete = disk_delete,
                             .xAccess = disk_access,
                             .xFullPathname = disk_full_path,
                             .xRandomness = disk_randomness,
                             .xSleep = disk_sleep,
                             .xCurrentTime = disk_time,
                             .xGetLastError = disk_error};
    KILN_CHECK(sqlite3_vfs_register(&disk.vfs, 1) == SQLITE_OK);
}

void disk_format(void) {
    for (int i = 0; i < FILES_MAX; i++) remove_file(&disk.file[i]);
    disk.operations = disk.random = 0;
    disk_fail(0, DISK_FINE, false);
    disk.off = false;
}

void disk_fail(uint64_t nth, disk_fault fault, bool lasting) {
    disk.countdown = nth;
    disk.fault = fault;
    disk.lasting = lasting;
    disk.failed = false;
}

bool disk_failed(void) { return disk.failed; }
uint64_t disk_operations(void) { return disk.operations; }

/* ---- Power ---- */

/* Parts of one change that reached the disk, sector by sector. */
static void tear(disk_file *f, const change *one, kiln_rand *rand) {
    if (!one->data) {
        if (kiln_rand_below(rand, 2)) apply(&f->durable, one, 0, 0);
        return;
    }
    for (size_t begin = 0; begin < one->size;) {
        size_t in_sector = SECTOR - ((size_t)one->offset + begin) % SECTOR;
        size_t end = KILN_MIN(one->size, begin + in_sector);
        uint64_t fate = kiln_rand_below(rand, 8);
        if (fate < 4) apply(&f->durable, one, begin, end);
        if (fate == 4) apply(&f->durable, one, begin, begin + kiln_rand_below(rand, end - begin));
        if (fate == 5) { /* rubbish, of these bytes alone */
            apply(&f->durable, one, begin, end);
            for (size_t i = begin; i < end; i++)
                f->durable.data[(size_t)one->offset + i] = (char)kiln_rand_u64(rand);
        }
        begin = end;
    }
}

static void lose(disk_file *f, kiln_rand *rand) {
    /* All, none, the first ones, or any parts of what waited for a sync. */
    uint64_t how = kiln_rand_below(rand, 4);
    uint64_t first = kiln_rand_below(rand, (uint64_t)f->changes.count + 1);
    for (uint32_t i = 0; i < f->changes.count; i++) {
        const change *one = &f->changes.data[i];
        if (how == 0 || (how == 1 && i < first))
            apply(&f->durable, one, 0, one->size);
        else if (how == 2 || (how == 1 && i == first))
            tear(f, one, rand);
    }
    forget_changes(f);
    if (f->exists != f->exists_durably)
        f->exists = f->exists_durably = kiln_rand_below(rand, 2) != 0;
    if (!f->exists) resize(&f->durable, 0);
    copy(&f->now, &f->durable);
}

void disk_reboot(kiln_rand *rand) {
    disk.off = false;
    disk_fail(0, DISK_FINE, false);
    for (int i = 0; i < FILES_MAX; i++) {
        disk_file *f = &disk.file[i];
        if (f->temporary)
            remove_file(f);
        else if (f->used)
            lose(f, rand);
        for (int region = 0; region < SHM_REGIONS_MAX; region++) {
            kiln_free(f->shm[region]);
            f->shm[region] = NULL;
        }
    }
}

void disk_save(void) {
    for (int i = 0; i < FILES_MAX; i++) {
        const disk_file *f = &disk.file[i];
        kiln_free(disk.saved[i].content.data);
        disk.saved[i].content = (content){0};
        if (!f->used || !f->exists) continue;
        memcpy(disk.saved[i].name, f->name, sizeof f->name);
        copy(&disk.saved[i].content, &f->now);
    }
}

void disk_restore(void) {
    disk_format();
    for (int i = 0; i < FILES_MAX; i++) {
        if (!disk.saved[i].content.data) continue;
        disk_file *f = make_file(disk.saved[i].name);
        f->exists = f->exists_durably = true;
        copy(&f->now, &disk.saved[i].content);
        copy(&f->durable, &disk.saved[i].content);
    }
}
