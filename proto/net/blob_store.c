#include "proto/net/blob_store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/map.h"
#include "base/vec.h"

/* half-DIGEST: locked by its writer, kept when a transfer is interrupted. */
#define HALF_PREFIX "half-"
#define HALF_KEPT_S (24 * 3600)         /* then no transfer will continue it */
#define SYNC_BYTES ((uint64_t)32 << 20) /* written between syncs, so that the last one is quick */
#define HASH_BYTES ((size_t)256 << 10)  /* of a half that is read again */

typedef struct pins {
    kiln_digest digest[KILN_BLOB_PINS_MAX];
    uint32_t count;
} pins;

struct kiln_blob_store {
    char *folder;
    kiln_arena arena;
    uint64_t bytes_max;
    bool durable;
    kiln_depot *depot;            /* NULL: none */
    pthread_mutex_t lock;         /* of `bytes` and of eviction; held over scans of the folder */
    uint64_t bytes;               /* that this process knows of, including `coming` */
    uint64_t coming;              /* being written */
    pthread_cond_t came;          /* `coming` has decreased */
    pthread_mutex_t pin_lock;     /* of pins; never held for long */
    kiln_map pinned;              /* digest -> how many hold it */
    kiln_map holder;              /* -> its pins, owned */
    KILN_VEC(kiln_digest) gone;   /* under pin_lock: not yet returned by kiln_blob_store_gone */
    pthread_mutex_t leaving_lock; /* of `leaving`; never held for long */
    pthread_cond_t left;
    KILN_VEC(kiln_digest) leaving; /* whose writers are about to be abandoned */
};

struct kiln_blob_writer {
    kiln_blob_store *store;
    kiln_digest digest;
    char *path;
    int fd;
    uint64_t size, written, unsynced;
    kiln_hasher hasher; /* of what is written */
    bool is_hashed;     /* `digest` was made from the very bytes: they are not hashed again */
};

/* Whether the open file is still at `path`: the previous holder of the lock may have renamed it. */
static bool is_at(int fd, const char *path) {
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
           open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}

/* Opens the half file and locks it; -1 when another transfer has it, or on an error (`errno`). */
static int open_half(const char *path, int flags) {
    int fd = kiln_fail_io() ? -1 : open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd < 0) return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, path)) return fd;
    close(fd);
    errno = EWOULDBLOCK;
    return -1;
}

/* ---- The folder ---- */

typedef struct stored_file {
    char *path;
    uint64_t size;
    struct timespec used;
    bool is_half;
    kiln_digest digest; /* of a whole one */
} stored_file;

/* Left by a transfer that was interrupted long ago. */
static bool is_stale(const struct stat *info) {
    return (uint64_t)info->st_mtime + HALF_KEPT_S < kiln_clock_wall_ns() / KILN_NS_PER_S;
}

/* Lists complete blobs and halves into `arena`; removes stale halves. */
static kiln_status scan(kiln_blob_store *store, kiln_arena *arena, stored_file **out_files,
                        size_t *out_count) {
    char **names = NULL;
    size_t count = 0, kept = 0;
    kiln_status st = kiln_folder_list(store->folder, arena, &names, &count);
    if (st) return st;
    stored_file *files = KILN_ARENA_ARRAY(arena, stored_file, count);
    for (size_t i = 0; i < count; i++) {
        char *path = kiln_arena_printf(arena, "%s/%s", store->folder, names[i]);
        kiln_digest digest = {{0}};
        struct stat info;
        if (stat(path, &info)) continue;
        bool is_half = kiln_str_starts(kiln_str_from(names[i]), HALF_PREFIX);
        if (is_half && is_stale(&info) && unlink(path) == 0) continue;
        if (!is_half && !kiln_digest_parse(kiln_str_from(names[i]), &digest)) continue;
        files[kept++] = (stored_file){.path = path,
                                      .size = (uint64_t)info.st_size,
                                      .used = info.st_mtim,
                                      .is_half = is_half,
                                      .digest = digest};
    }
    *out_files = files;
    *out_count = kept;
    return KILN_OK;
}

static int by_use(const void *a, const void *b) {
    const struct timespec *left = &((const stored_file *)a)->used,
                          *right = &((const stored_file *)b)->used;
    if (left->tv_sec != right->tv_sec) return left->tv_sec < right->tv_sec ? -1 : 1;
    return left->tv_nsec < right->tv_nsec ? -1 : left->tv_nsec > right->tv_nsec;
}

/* ---- Pins ---- */

static kiln_str key_of(const kiln_digest *digest) {
    return (kiln_str){(const char *)digest->byte, sizeof digest->byte};
}

static void count_pin(kiln_blob_store *store, const kiln_digest *digest, int by) {
    uint64_t count = 0;
    kiln_map_find(&store->pinned, key_of(digest), &count);
    count += (uint64_t)(int64_t)by;
    if (count > 0)
        kiln_map_put(&store->pinned, key_of(digest), count);
    else
        kiln_map_remove(&store->pinned, key_of(digest));
}

static pins *pins_of(const kiln_blob_store *store, kiln_str holder) {
    uint64_t found = 0;
    kiln_map_find(&store->holder, holder, &found);
    return (pins *)(uintptr_t)found;
}

void kiln_blob_store_pin(kiln_blob_store *store, kiln_str holder, const kiln_digest *digest,
                         uint32_t count) {
    KILN_CHECK(count <= KILN_BLOB_PINS_MAX);
    pthread_mutex_lock(&store->pin_lock);
    pins *own = pins_of(store, holder);
    if (!own && count > 0) {
        own = kiln_alloc(sizeof *own);
        kiln_map_put(&store->holder, holder, (uint64_t)(uintptr_t)own);
    }
    for (uint32_t i = 0; i < count; i++) count_pin(store, &digest[i], 1);
    for (uint32_t i = 0; own && i < own->count; i++) count_pin(store, &own->digest[i], -1);
    if (count > 0) {
        memcpy(own->digest, digest, count * sizeof *digest);
        own->count = count;
    } else if (own) {
        kiln_map_remove(&store->holder, holder);
        kiln_free(own);
    }
    pthread_mutex_unlock(&store->pin_lock);
}

static void deinit_pins(kiln_blob_store *store) {
    uint32_t cursor = 0;
    kiln_str holder;
    uint64_t own = 0;
    while (kiln_map_next(&store->holder, &cursor, &holder, &own)) kiln_free((void *)(uintptr_t)own);
    kiln_map_deinit(&store->holder);
    kiln_map_deinit(&store->pinned);
    kiln_vec_deinit(&store->gone);
    pthread_mutex_destroy(&store->pin_lock);
}

static bool is_pinned(kiln_blob_store *store, const kiln_digest *digest) {
    uint64_t count = 0;
    pthread_mutex_lock(&store->pin_lock);
    kiln_map_find(&store->pinned, key_of(digest), &count);
    pthread_mutex_unlock(&store->pin_lock);
    return count > 0;
}

static void tell_gone(kiln_blob_store *store, const kiln_digest *digest) {
    pthread_mutex_lock(&store->pin_lock);
    if (store->gone.count < KILN_BLOB_GONE_MAX) kiln_vec_push(&store->gone, *digest);
    pthread_mutex_unlock(&store->pin_lock);
}

uint32_t kiln_blob_store_gone(kiln_blob_store *store, kiln_digest *out_digest, uint32_t max) {
    pthread_mutex_lock(&store->pin_lock);
    const uint32_t count = KILN_MIN(store->gone.count, max);
    for (uint32_t i = 0; i < count; i++) out_digest[i] = kiln_vec_pop(&store->gone);
    pthread_mutex_unlock(&store->pin_lock);
    return count;
}

/* Removes it unless a transfer writes it, or a job needs it. */
static bool evict(kiln_blob_store *store, const stored_file *file) {
    if (!file->is_half && is_pinned(store, &file->digest)) return false;
    int fd = file->is_half ? open_half(file->path, 0) : -1;
    bool gone = (fd >= 0 || !file->is_half) && unlink(file->path) == 0;
    if (fd >= 0) close(fd);
    if (gone && !file->is_half && !store->depot) tell_gone(store, &file->digest);
    return gone;
}

/* Removes the least recently used of these files, which have `bytes` in all, until at most `most`
 * are left, or no more can be removed. Returns what is left. */
static uint64_t shrink(kiln_blob_store *store, stored_file *files, size_t count, uint64_t bytes,
                       uint64_t most) {
    qsort(files, count, sizeof *files, by_use);
    for (size_t i = 0; i < count && bytes > most; i++)
        if (evict(store, &files[i])) bytes -= files[i].size;
    return bytes;
}

static uint64_t sum_sizes(const stored_file *files, size_t count) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += files[i].size;
    return bytes;
}

/* Counts the stored bytes. When they and the coming ones are above the limit, removes the least
 * recently used blobs, down to 7/8 of it. */
static kiln_status fit(kiln_blob_store *store) {
    const uint64_t coming = store->coming;
    kiln_arena arena = {0};
    stored_file *files = NULL;
    size_t count = 0;
    kiln_status st = scan(store, &arena, &files, &count);
    uint64_t bytes = st ? 0 : sum_sizes(files, count);
    const uint64_t most = store->bytes_max / 8 * 7;
    if (!st && store->bytes_max && bytes + coming > store->bytes_max)
        bytes = shrink(store, files, count, bytes, most - KILN_MIN(most, coming));
    if (!st) store->bytes = bytes + coming;
    kiln_arena_deinit(&arena);
    return st;
}

kiln_status kiln_blob_store_open(const kiln_blob_store_options *options,
                                 kiln_blob_store **out_store) {
    kiln_status st = kiln_folder_create(options->folder, 0700);
    if (st) return st;
    kiln_blob_store *store = kiln_alloc(sizeof *store);
    kiln_arena_init(&store->arena, 512);
    store->folder = kiln_str_dup(&store->arena, kiln_str_from(options->folder));
    store->bytes_max = options->bytes_max;
    store->durable = options->durable;
    store->depot = options->depot;
    kiln_map_init(&store->pinned);
    kiln_map_init(&store->holder);
    KILN_CHECK(pthread_mutex_init(&store->pin_lock, NULL) == 0);
    KILN_CHECK(pthread_mutex_init(&store->lock, NULL) == 0);
    KILN_CHECK(pthread_mutex_init(&store->leaving_lock, NULL) == 0);
    KILN_CHECK(pthread_cond_init(&store->left, NULL) == 0);
    KILN_CHECK(pthread_cond_init(&store->came, NULL) == 0);
    st = fit(store);
    if (st) {
        kiln_blob_store_close(store);
        return kiln_status_note(st, "opening the blob store %s", options->folder);
    }
    *out_store = store;
    return KILN_OK;
}

void kiln_blob_store_close(kiln_blob_store *store) {
    if (!store) return;
    deinit_pins(store);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->leaving_lock);
    pthread_cond_destroy(&store->left);
    pthread_cond_destroy(&store->came);
    kiln_vec_deinit(&store->leaving);
    kiln_arena_deinit(&store->arena);
    kiln_free(store);
}

/* Of the blob, or with HALF_PREFIX of what a transfer has brought of it. Points into `out`. */
static const char *path_of(const kiln_blob_store *store, const char *prefix,
                           const kiln_digest *digest, kiln_strbuf *out) {
    char name[KILN_DIGEST_TEXT];
    kiln_digest_print(digest, name);
    kiln_strbuf_printf(out, "%s/%s%s", store->folder, prefix, name);
    return out->data;
}

bool kiln_blob_store_has(kiln_blob_store *store, const kiln_digest *digest) {
    kiln_strbuf path = {0};
    bool has = utimensat(AT_FDCWD, path_of(store, "", digest, &path), NULL, 0) == 0;
    kiln_strbuf_deinit(&path);
    return has;
}

/* ---- By age ---- */

typedef struct collection {
    kiln_blob_store *store;
    int64_t before_s;
    kiln_map used_s;           /* digest -> kiln_blob_use.used_s */
    KILN_VEC(kiln_digest) old; /* in the depot */
} collection;

static bool is_old(const collection *c, const kiln_digest *digest, int64_t used_s) {
    uint64_t told = 0;
    kiln_map_find(&c->used_s, key_of(digest), &told);
    return KILN_MAX(used_s, (int64_t)told) < c->before_s && !is_pinned(c->store, digest);
}

static kiln_status collect_here(collection *c) {
    kiln_blob_store *store = c->store;
    kiln_arena arena = {0};
    stored_file *files = NULL;
    size_t count = 0;
    pthread_mutex_lock(&store->lock);
    kiln_status st = scan(store, &arena, &files, &count);
    for (size_t i = 0; !st && i < count; i++)
        if (!files[i].is_half && is_old(c, &files[i].digest, files[i].used.tv_sec) &&
            evict(store, &files[i]))
            store->bytes -= KILN_MIN(store->bytes, files[i].size);
    pthread_mutex_unlock(&store->lock);
    kiln_arena_deinit(&arena);
    return st;
}

/* When the file here was last used; 0: there is none. */
static int64_t used_here(const kiln_blob_store *store, const kiln_digest *digest) {
    kiln_strbuf path = {0};
    struct stat info;
    const bool is_here = stat(path_of(store, "", digest, &path), &info) == 0;
    kiln_strbuf_deinit(&path);
    return is_here ? info.st_mtime : 0;
}

static kiln_status visit_depot(void *context, const kiln_depot_blob *blob) {
    collection *c = context;
    if (is_old(c, &blob->digest, blob->stored_s)) kiln_vec_push(&c->old, blob->digest);
    return KILN_OK;
}

/* Uses during the listing of the depot count, too. */
static kiln_status collect_depot(collection *c) {
    kiln_depot *depot = c->store->depot;
    kiln_status st = depot->row->each(depot, visit_depot, c);
    for (uint32_t i = 0; !st && i < c->old.count; i++) {
        const kiln_digest *digest = &c->old.data[i];
        if (!is_old(c, digest, used_here(c->store, digest))) continue;
        st = depot->row->remove(depot, digest);
        if (!st) tell_gone(c->store, digest);
    }
    return st;
}

kiln_status kiln_blob_store_collect(kiln_blob_store *store, int64_t before_s,
                                    const kiln_blob_use *use, uint32_t count) {
    collection c = {.store = store, .before_s = before_s};
    kiln_map_init(&c.used_s);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t before = 0;
        kiln_map_find(&c.used_s, key_of(&use[i].digest), &before);
        kiln_map_put(&c.used_s, key_of(&use[i].digest),
                     KILN_MAX(before, (uint64_t)KILN_MAX(use[i].used_s, 0)));
    }
    kiln_status st = collect_here(&c);
    if (!st && store->depot) st = collect_depot(&c);
    /* Known blobs that were removed without a report. */
    for (uint32_t i = 0; !st && !store->depot && i < count; i++)
        if (is_old(&c, &use[i].digest, used_here(store, &use[i].digest)))
            tell_gone(store, &use[i].digest);
    kiln_vec_deinit(&c.old);
    kiln_map_deinit(&c.used_s);
    return st;
}

kiln_status kiln_blob_store_remove(kiln_blob_store *store, const kiln_digest *digest) {
    kiln_strbuf path = {0};
    struct stat info;
    if (is_pinned(store, digest)) return KILN_OK;
    path_of(store, "", digest, &path);
    kiln_status st = store->depot ? store->depot->row->remove(store->depot, digest) : KILN_OK;
    pthread_mutex_lock(&store->lock);
    if (!st && stat(path.data, &info) == 0 && unlink(path.data) == 0)
        store->bytes -= KILN_MIN(store->bytes, (uint64_t)info.st_size);
    pthread_mutex_unlock(&store->lock);
    kiln_strbuf_deinit(&path);
    return st;
}

static kiln_status make_room(kiln_blob_store *store, size_t size);
static void came(kiln_blob_store *store, size_t size);

/* Copies the blob from the depot, under a name that is removed later should we be killed. */
static kiln_status bring_back(kiln_blob_store *store, const kiln_digest *digest, const char *path) {
    kiln_strbuf coming = {0};
    struct stat info;
    kiln_strbuf_printf(&coming, "%s/" HALF_PREFIX "%ld-%llx", store->folder, (long)getpid(),
                       (unsigned long long)kiln_clock_ns());
    uint64_t most = store->bytes_max ? store->bytes_max : KILN_BLOB_BYTES_MAX;
    kiln_status st = store->depot->row->get(store->depot, digest, most, coming.data);
    bool is_here = !st;
    if (!st && stat(coming.data, &info) != 0) st = KILN_SYSTEM_ERROR(errno, "reading", coming.data);
    if (!st) {
        st = make_room(store, (size_t)info.st_size);
        came(store, (size_t)info.st_size);
    }
    if (!st && rename(coming.data, path) != 0)
        st = KILN_SYSTEM_ERROR(errno, "renaming", coming.data);
    if (st && is_here) unlink(coming.data);
    kiln_strbuf_deinit(&coming);
    return st;
}

kiln_status kiln_blob_store_path(kiln_blob_store *store, const kiln_digest *digest,
                                 kiln_arena *arena, char **out_path) {
    kiln_strbuf text = {0};
    kiln_status st = KILN_OK;
    char *path = kiln_str_dup(arena, kiln_str_from(path_of(store, "", digest, &text)));
    kiln_strbuf_deinit(&text);
    /* Marks the use, for eviction, and checks that the file exists. */
    if (utimensat(AT_FDCWD, path, NULL, 0) != 0)
        st = errno == ENOENT && store->depot ? bring_back(store, digest, path)
                                             : KILN_SYSTEM_ERROR(errno, "blob", path);
    if (!st) *out_path = path;
    return st;
}

kiln_status kiln_blob_store_reader(kiln_blob_store *store, const kiln_digest *digest, int *out_fd,
                                   uint64_t *out_size) {
    kiln_arena scratch;
    struct stat info;
    char *path = NULL;
    int fd = -1;
    kiln_arena_init(&scratch, 512);
    kiln_status st = kiln_blob_store_path(store, digest, &scratch, &path);
    if (!st) fd = open(path, O_RDONLY | O_CLOEXEC);
    if (!st && (fd < 0 || fstat(fd, &info) != 0)) st = KILN_SYSTEM_ERROR(errno, "opening", path);
    kiln_arena_deinit(&scratch);
    if (st) {
        if (fd >= 0) close(fd);
        return st;
    }
    *out_fd = fd;
    *out_size = (uint64_t)info.st_size;
    return KILN_OK;
}

kiln_status kiln_blob_store_get(kiln_blob_store *store, const kiln_digest *digest,
                                kiln_arena *arena, kiln_str *out_content) {
    char *path = NULL;
    kiln_str content = {0};
    kiln_status st = kiln_blob_store_path(store, digest, arena, &path);
    if (!st) st = kiln_file_read(path, KILN_BLOB_BYTES_MAX, arena, &content);
    if (st) return st;
    kiln_digest real;
    kiln_digest_of(content.data, content.size, &real);
    if (!kiln_digest_equal(&real, digest)) {
        unlink(path); /* it can be uploaded again */
        return KILN_ERROR(DATA_LOSS, "blob %s was damaged on disk; it is removed", path);
    }
    *out_content = content;
    return KILN_OK;
}

kiln_status kiln_blob_store_put(kiln_blob_store *store, kiln_str content, kiln_digest *out_digest) {
    return kiln_blob_store_put_parts(store, &content, 1, out_digest);
}

kiln_status kiln_blob_store_put_parts(kiln_blob_store *store, const kiln_str *part, uint32_t count,
                                      kiln_digest *out_digest) {
    kiln_digest digest;
    kiln_digest_of_parts(part, count, &digest);
    kiln_status st = KILN_OK;
    uint64_t size = 0;
    for (uint32_t i = 0; i < count; i++) size += part[i].size;
    if (!kiln_blob_store_has(store, &digest)) {
        kiln_blob_writer *writer = NULL;
        st = kiln_blob_writer_open(store, &digest, size, 0, &writer);
        if (!st) writer->is_hashed = true;
        for (uint32_t i = 0; !st && i < count; i++) st = kiln_blob_writer_add(writer, part[i]);
        if (st)
            kiln_blob_writer_abandon(writer, false);
        else
            st = kiln_blob_writer_finish(writer);
    }
    if (!st) *out_digest = digest;
    return st;
}

/* ---- Writing ---- */

void kiln_blob_store_leaving(kiln_blob_store *store, const kiln_digest *digest, bool leaves) {
    pthread_mutex_lock(&store->leaving_lock);
    if (leaves) {
        kiln_vec_push(&store->leaving, *digest);
    } else {
        uint32_t at = 0;
        while (!kiln_digest_equal(&store->leaving.data[at], digest)) at++;
        store->leaving.data[at] = kiln_vec_pop(&store->leaving);
        pthread_cond_broadcast(&store->left);
    }
    pthread_mutex_unlock(&store->leaving_lock);
}

static bool is_leaving(const kiln_blob_store *store, const kiln_digest *digest) {
    for (uint32_t i = 0; i < store->leaving.count; i++)
        if (kiln_digest_equal(&store->leaving.data[i], digest)) return true;
    return false;
}

static void wait_until_left(kiln_blob_store *store, const kiln_digest *digest) {
    pthread_mutex_lock(&store->leaving_lock);
    while (is_leaving(store, digest)) pthread_cond_wait(&store->left, &store->leaving_lock);
    pthread_mutex_unlock(&store->leaving_lock);
}

uint64_t kiln_blob_store_half(kiln_blob_store *store, const kiln_digest *digest) {
    wait_until_left(store, digest);
    kiln_strbuf path = {0};
    struct stat info = {0};
    int fd = open_half(path_of(store, HALF_PREFIX, digest, &path), 0);
    if (fd >= 0) {
        if (fstat(fd, &info) != 0) info.st_size = 0;
        close(fd);
    }
    kiln_strbuf_deinit(&path);
    return (uint64_t)info.st_size;
}

static kiln_status cannot_go_on(uint64_t offset) {
    return KILN_ERROR(ABORTED, "a blob cannot continue at byte %llu; ask again",
                      (unsigned long long)offset);
}

/* Leaves the file with exactly the bytes before `offset`. */
static kiln_status seek_to(const kiln_blob_writer *writer, uint64_t offset) {
    struct stat info;
    if (fstat(writer->fd, &info) != 0) return KILN_SYSTEM_ERROR(errno, "reading", writer->path);
    if (offset && (uint64_t)info.st_size != offset) return cannot_go_on(offset);
    if (kiln_fail_io() || ftruncate(writer->fd, (off_t)offset) != 0 ||
        lseek(writer->fd, (off_t)offset, SEEK_SET) < 0)
        return KILN_SYSTEM_ERROR(errno, "writing", writer->path);
    return KILN_OK;
}

/* Hashes the bytes of an earlier transfer. */
static kiln_status hash_half(kiln_blob_writer *writer) {
    char *bytes = kiln_alloc(HASH_BYTES);
    kiln_status st = KILN_OK;
    uint64_t done = 0;
    while (!st && done < writer->written) {
        const size_t want = (size_t)KILN_MIN(writer->written - done, (uint64_t)HASH_BYTES);
        const ssize_t got = pread(writer->fd, bytes, want, (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) st = KILN_SYSTEM_ERROR(got ? errno : EIO, "reading", writer->path);
        if (got > 0) kiln_hasher_add(&writer->hasher, bytes, (size_t)got);
        done += got > 0 ? (uint64_t)got : 0;
    }
    kiln_free(bytes);
    return st;
}

kiln_status kiln_blob_writer_open(kiln_blob_store *store, const kiln_digest *digest, uint64_t size,
                                  uint64_t offset, kiln_blob_writer **out_writer) {
    const uint64_t most =
        store->bytes_max ? KILN_MIN(store->bytes_max, KILN_BLOB_BYTES_MAX) : KILN_BLOB_BYTES_MAX;
    if (size > most)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "a blob of %llu bytes: the store takes at most %llu",
                          (unsigned long long)size, (unsigned long long)most);
    if (offset > size) return KILN_ERROR(DATA_LOSS, "a blob that continues behind its end");
    kiln_strbuf path = {0};
    int fd = open_half(path_of(store, HALF_PREFIX, digest, &path), O_CREAT);
    if (fd < 0 && errno == EWOULDBLOCK && offset == 0) {
        /* Another connection or program uploads it, too; the first complete one is kept. */
        kiln_strbuf_printf(&path, "-%ld-%llx", (long)getpid(), (unsigned long long)kiln_clock_ns());
        fd = open_half(path.data, O_CREAT);
    }
    if (fd < 0) {
        kiln_status st = errno == EWOULDBLOCK ? cannot_go_on(offset)
                                              : KILN_SYSTEM_ERROR(errno, "creating", path.data);
        kiln_strbuf_deinit(&path);
        return st;
    }
    kiln_blob_writer *writer = kiln_alloc(sizeof *writer);
    *writer = (kiln_blob_writer){.store = store,
                                 .digest = *digest,
                                 .path = path.data,
                                 .fd = fd,
                                 .size = size,
                                 .written = offset};
    kiln_hasher_begin(&writer->hasher);
    kiln_status st = seek_to(writer, offset);
    if (!st) st = hash_half(writer);
    if (st)
        kiln_blob_writer_abandon(writer, true);
    else
        *out_writer = writer;
    return st;
}

/* Counts bytes that will be written, and evicts others for them. Bytes that another thread is
 * writing count twice, in its file too; so nothing is refused before that thread is done. */
static kiln_status make_room(kiln_blob_store *store, size_t size) {
    kiln_status st = KILN_OK;
    bool fits = true;
    pthread_mutex_lock(&store->lock);
    while (true) {
        store->bytes += size;
        store->coming += size;
        if (store->bytes_max && store->bytes > store->bytes_max) st = fit(store);
        fits = store->bytes_max == 0 || store->bytes <= store->bytes_max;
        if (st || fits || store->coming == size) break;
        store->bytes -= size; /* others must not wait for a waiting thread */
        store->coming -= size;
        pthread_cond_wait(&store->came, &store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    if (st) return st;
    return fits ? KILN_OK
                : KILN_ERROR(RESOURCE_EXHAUSTED, "the quota of %llu bytes for blobs is used up",
                             (unsigned long long)store->bytes_max);
}

/* The disk is full before the quota. A cache (a store that is not durable) removes `size` bytes or
 * an eighth of its content. False: there is nothing to remove. */
static bool give_place(kiln_blob_store *store, size_t size) {
    kiln_arena arena = {0};
    stored_file *files = NULL;
    size_t count = 0;
    bool gave = false;
    if (store->durable || store->bytes_max == 0) return false;
    pthread_mutex_lock(&store->lock);
    kiln_status st = scan(store, &arena, &files, &count);
    if (!st) {
        const uint64_t bytes = sum_sizes(files, count), part = KILN_MAX(bytes / 8, size);
        const uint64_t left = shrink(store, files, count, bytes, bytes - KILN_MIN(bytes, part));
        gave = left < bytes;
        store->bytes = left + store->coming;
    }
    pthread_mutex_unlock(&store->lock);
    kiln_status_free(st); /* then there is no space */
    kiln_arena_deinit(&arena);
    return gave;
}

static void came(kiln_blob_store *store, size_t size) {
    pthread_mutex_lock(&store->lock);
    store->coming -= size;
    pthread_cond_broadcast(&store->came);
    pthread_mutex_unlock(&store->lock);
}

static kiln_status write_all(kiln_blob_writer *writer, kiln_str bytes) {
    while (bytes.size) {
        ssize_t size = kiln_fail_io() ? -1 : write(writer->fd, bytes.data, bytes.size);
        const int error = size < 0 ? errno : 0;
        if (error == EINTR || (error == ENOSPC && give_place(writer->store, bytes.size))) continue;
        if (error) return KILN_SYSTEM_ERROR(error, "writing", writer->path);
        bytes = kiln_str_slice(bytes, (size_t)size, bytes.size);
    }
    if (!writer->store->durable || writer->unsynced < SYNC_BYTES) return KILN_OK;
    writer->unsynced = 0;
    if (kiln_fail_io() || fdatasync(writer->fd) != 0)
        return KILN_SYSTEM_ERROR(errno, "syncing", writer->path);
    return KILN_OK;
}

kiln_status kiln_blob_writer_add(kiln_blob_writer *writer, kiln_str bytes) {
    if (bytes.size > writer->size - writer->written)
        return KILN_ERROR(DATA_LOSS, "more than the announced %llu bytes of a blob",
                          (unsigned long long)writer->size);
    kiln_status st = make_room(writer->store, bytes.size);
    if (!st) st = kiln_fail_at(KILN_FAIL_BLOB_WRITE);
    if (!st) {
        writer->written += bytes.size;
        writer->unsynced += bytes.size;
        if (!writer->is_hashed) kiln_hasher_add(&writer->hasher, bytes.data, bytes.size);
        st = write_all(writer, bytes);
    }
    came(writer->store, bytes.size);
    return st;
}

static void close_writer(kiln_blob_writer *writer) {
    close(writer->fd); /* and with it the lock */
    kiln_free(writer->path);
    kiln_free(writer);
}

static kiln_status check_content(kiln_blob_writer *writer) {
    if (writer->written != writer->size)
        return KILN_ERROR(DATA_LOSS, "a blob ended after %llu of %llu bytes",
                          (unsigned long long)writer->written, (unsigned long long)writer->size);
    if (writer->is_hashed) return KILN_OK;
    kiln_digest real;
    kiln_hasher_end(&writer->hasher, &real);
    if (kiln_digest_equal(&real, &writer->digest)) return KILN_OK;
    char wanted[KILN_DIGEST_TEXT], got[KILN_DIGEST_TEXT];
    kiln_digest_print(&writer->digest, wanted);
    kiln_digest_print(&real, got);
    return KILN_ERROR(DATA_LOSS, "the content of blob %s has digest %s", wanted, got);
}

kiln_status kiln_blob_writer_finish(kiln_blob_writer *writer) {
    kiln_blob_store *store = writer->store;
    kiln_strbuf text = {0};
    const char *path = path_of(store, "", &writer->digest, &text);
    kiln_status st = check_content(writer);
    if (!st && store->durable && (kiln_fail_io() || fsync(writer->fd) != 0))
        st = KILN_SYSTEM_ERROR(errno, "syncing", writer->path);
    if (!st && store->depot)
        st = store->depot->row->put(store->depot, &writer->digest, writer->path);
    if (!st) st = kiln_fail_at(KILN_FAIL_BLOB_RENAME);
    if (!st && (kiln_fail_io() || rename(writer->path, path) != 0))
        st = KILN_SYSTEM_ERROR(errno, "renaming", writer->path);
    if (!st && store->durable) kiln_file_sync_folder(path);
    if (!st) kiln_fail_pass(KILN_FAIL_BLOB_KEPT);
    kiln_strbuf_deinit(&text);
    if (st)
        kiln_blob_writer_abandon(writer, false);
    else
        close_writer(writer);
    return st;
}

void kiln_blob_writer_abandon(kiln_blob_writer *writer, bool keep) {
    if (!writer) return;
    pthread_mutex_lock(&writer->store->lock);
    if (!keep && unlink(writer->path) == 0)
        writer->store->bytes -= KILN_MIN(writer->store->bytes, writer->written);
    pthread_mutex_unlock(&writer->store->lock);
    close_writer(writer);
}
