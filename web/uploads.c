#include "web/uploads_state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rand.h"

#define SWEEP_NS (UINT64_C(600) * KILN_NS_PER_S)

/* ---- models ---------------------------------------------------------------------------------- */

/* A person's folder has a name that any file system takes. */
static void folder_of(const char *person, char out_name[KILN_HASH128_TEXT]) {
    kiln_hash128_print(kiln_hash128_of(person, strlen(person)), out_name);
}

static uint64_t wall_s(void) { return kiln_clock_wall_ns() / KILN_NS_PER_S; }

static kiln_model_file *add_model(kiln_uploads *u, const char *folder, const char *name) {
    kiln_digest digest;
    struct stat info;
    kiln_arena arena;
    if (!kiln_digest_parse(kiln_str_from(name), &digest)) return NULL;
    kiln_arena_init(&arena, 0);
    const char *path = kiln_arena_printf(&arena, "%s/models/%s/%s", u->state, folder, name);
    kiln_model_file *m = NULL;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        m = kiln_alloc(sizeof *m);
        *m = (kiln_model_file){.digest = digest,
                               .size = (uint64_t)info.st_size,
                               .used_s = (uint64_t)info.st_mtim.tv_sec,
                               .path = memcpy(kiln_alloc(strlen(path) + 1), path, strlen(path) + 1),
                               .next = u->models};
        memcpy(m->folder, folder, sizeof m->folder);
        u->models = m;
    }
    kiln_arena_deinit(&arena);
    return m;
}

static void free_model(kiln_model_file *m) {
    kiln_free(m->path);
    kiln_free(m);
}

static void remove_model(kiln_uploads *u, kiln_model_file *m) {
    kiln_model_file **at = &u->models;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    unlink(m->path);
    free_model(m);
}

static uint64_t bytes_of(const kiln_uploads *u, const char *folder) {
    uint64_t bytes = 0;
    for (const kiln_model_file *m = u->models; m; m = m->next)
        if (!folder || strcmp(m->folder, folder) == 0) bytes += m->size;
    return bytes;
}

/* The one of the folder (NULL: of all) that was used longest ago and is not held. */
static kiln_model_file *find_oldest(const kiln_uploads *u, const char *folder) {
    kiln_model_file *oldest = NULL;
    for (kiln_model_file *m = u->models; m; m = m->next)
        if (!m->holders && (!folder || strcmp(m->folder, folder) == 0) &&
            (!oldest || m->used_s < oldest->used_s))
            oldest = m;
    return oldest;
}

static kiln_status make_room(kiln_uploads *u, const char *folder, uint64_t size) {
    while (bytes_of(u, folder) + size > KILN_MODELS_OF_PERSON_BYTES ||
           bytes_of(u, NULL) + size > KILN_MODELS_BYTES) {
        const bool is_own = bytes_of(u, folder) + size > KILN_MODELS_OF_PERSON_BYTES;
        kiln_model_file *oldest = find_oldest(u, is_own ? folder : NULL);
        if (!oldest)
            return KILN_ERROR(RESOURCE_EXHAUSTED,
                              "there is no room for the model beside those in use");
        remove_model(u, oldest);
    }
    return KILN_OK;
}

kiln_model_file *kiln_uploads_find(kiln_uploads *u, const char *person, const kiln_digest *digest) {
    char folder[KILN_HASH128_TEXT];
    folder_of(person, folder);
    for (kiln_model_file *m = u->models; m; m = m->next) {
        if (!kiln_digest_equal(&m->digest, digest) || strcmp(m->folder, folder) != 0) continue;
        m->used_s = wall_s();
        utimensat(AT_FDCWD, m->path, NULL, 0); /* so that the next start knows, too */
        return m;
    }
    return NULL;
}

kiln_status kiln_uploads_keep(kiln_uploads *u, const char *person, kiln_spool *spool,
                              const kiln_digest *digest, kiln_model_file **out_model) {
    char folder[KILN_HASH128_TEXT], name[KILN_DIGEST_TEXT];
    kiln_model_file *known = kiln_uploads_find(u, person, digest);
    if (known) {
        *out_model = known;
        return KILN_OK;
    }
    folder_of(person, folder);
    kiln_digest_print(digest, name);
    kiln_status st = make_room(u, folder, kiln_spool_size(spool));
    if (st) return st;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    const char *place = kiln_arena_printf(&arena, "%s/models/%s", u->state, folder);
    st = kiln_folder_create(place, 0700);
    if (!st) st = kiln_spool_keep(spool, kiln_arena_printf(&arena, "%s/%s", place, name));
    kiln_arena_deinit(&arena);
    if (st) return st;
    *out_model = add_model(u, folder, name);
    return *out_model ? KILN_OK : KILN_ERROR(DATA_LOSS, "the model is gone");
}

const char *kiln_model_file_path(const kiln_model_file *model) { return model->path; }
void kiln_model_file_hold(kiln_model_file *model) { model->holders++; }
void kiln_model_file_release(kiln_model_file *model) {
    if (model) model->holders--;
}

/* ---- uploads --------------------------------------------------------------------------------- */

kiln_status kiln_uploads_spool(kiln_uploads *u, kiln_spool **out_spool) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    const char *path = kiln_arena_printf(&arena, "%s/uploads/%llu", u->state,
                                         (unsigned long long)u->spool_number++);
    kiln_status st = kiln_spool_create(u->loop, path, out_spool);
    kiln_arena_deinit(&arena);
    return st;
}

kiln_upload *kiln_upload_find(const kiln_uploads *u, const char *person, kiln_str id) {
    char folder[KILN_HASH128_TEXT];
    folder_of(person, folder);
    for (kiln_upload *one = u->uploads; one; one = one->next)
        if (kiln_str_is(id, one->id) && strcmp(one->folder, folder) == 0) return one;
    return NULL;
}

uint64_t kiln_upload_offset(const kiln_upload *upload) {
    return upload->spool ? kiln_spool_size(upload->spool) : upload->size;
}

void kiln_upload_touch(kiln_upload *upload) { upload->touched_s = wall_s(); }

static const char *upload_path(const kiln_upload *one, kiln_arena *arena) {
    return kiln_arena_printf(arena, "%s/uploads/%s/%s.%llu", one->uploads->state, one->folder,
                             one->id, (unsigned long long)one->size);
}

/* Of the empty file that says that it is whole. */
static const char *whole_path(const kiln_upload *one, const kiln_digest *digest,
                              kiln_arena *arena) {
    char name[KILN_DIGEST_TEXT];
    kiln_digest_print(digest, name);
    return kiln_arena_printf(arena, "%s.%s", upload_path(one, arena), name);
}

/* Of the folder (NULL: of all). */
static uint32_t count_uploads(const kiln_uploads *u, const char *folder) {
    uint32_t count = 0;
    for (const kiln_upload *one = u->uploads; one; one = one->next)
        count += !folder || strcmp(one->folder, folder) == 0;
    return count;
}

/* Of the folder (NULL: of all) the whole one that was touched longest ago. */
static kiln_upload *find_oldest_whole(const kiln_uploads *u, const char *folder) {
    kiln_upload *oldest = NULL;
    for (kiln_upload *one = u->uploads; one; one = one->next)
        if (one->is_whole && !one->call && (!folder || strcmp(one->folder, folder) == 0) &&
            (!oldest || one->touched_s < oldest->touched_s))
            oldest = one;
    return oldest;
}

/* Those that are whole make room: their models stay. */
static bool has_room_for_upload(kiln_uploads *u, const char *folder, uint32_t max) {
    while (count_uploads(u, folder) >= max) {
        kiln_upload *oldest = find_oldest_whole(u, folder);
        if (!oldest) return false;
        kiln_upload_remove(oldest);
    }
    return true;
}

static kiln_status make_upload(kiln_uploads *u, const char *folder, uint64_t size,
                               kiln_upload **out_upload) {
    kiln_hash128 id;
    kiln_status st = kiln_rand_system(&id, sizeof id);
    if (st) return st;
    kiln_upload *one = kiln_alloc(sizeof *one);
    *one = (kiln_upload){.uploads = u, .size = size, .touched_s = wall_s()};
    kiln_hash128_print(id, one->id);
    memcpy(one->folder, folder, sizeof one->folder);
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    st = kiln_folder_create(kiln_arena_printf(&arena, "%s/uploads/%s", u->state, folder), 0700);
    if (!st) st = kiln_spool_create(u->loop, upload_path(one, &arena), &one->spool);
    kiln_arena_deinit(&arena);
    if (st) {
        kiln_free(one);
        return st;
    }
    one->next = u->uploads;
    u->uploads = one;
    *out_upload = one;
    return KILN_OK;
}

kiln_status kiln_upload_create(kiln_uploads *u, const char *person, uint64_t size,
                               kiln_upload **out_upload) {
    char folder[KILN_HASH128_TEXT];
    folder_of(person, folder);
    if (!has_room_for_upload(u, folder, KILN_UPLOADS_OF_PERSON_MAX))
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "%u uploads of yours are open: finish or delete one first",
                          KILN_UPLOADS_OF_PERSON_MAX);
    if (!has_room_for_upload(u, NULL, KILN_UPLOADS_MAX))
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%u uploads are open at this server: try again later",
                          KILN_UPLOADS_MAX);
    return make_upload(u, folder, size, out_upload);
}

/* Forgets it, and leaves its files. */
static void forget_upload(kiln_upload *upload) {
    kiln_upload **at = &upload->uploads->uploads;
    while (*at != upload) at = &(*at)->next;
    *at = upload->next;
    kiln_free(upload);
}

void kiln_upload_remove(kiln_upload *upload) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    if (upload->is_whole) unlink(whole_path(upload, &upload->digest, &arena));
    kiln_arena_deinit(&arena);
    kiln_spool_destroy(upload->spool);
    forget_upload(upload);
}

/* The note comes first: if the server is killed in between, the bytes are still there, and count.
 */
kiln_status kiln_upload_finish(kiln_upload *upload, const char *person, const kiln_digest *digest) {
    kiln_arena arena;
    kiln_model_file *model = NULL;
    kiln_arena_init(&arena, 0);
    const int fd = open(whole_path(upload, digest, &arena), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    kiln_status st =
        fd >= 0 ? KILN_OK
                : KILN_ERROR(RESOURCE_EXHAUSTED, "the upload cannot be kept: %s", strerror(errno));
    if (fd >= 0) close(fd);
    if (!st) st = kiln_uploads_keep(upload->uploads, person, upload->spool, digest, &model);
    kiln_arena_deinit(&arena);
    if (st) return st;
    kiln_spool_destroy(upload->spool); /* the file was moved, or is one that the person has */
    upload->spool = NULL;
    upload->is_whole = true;
    upload->digest = *digest;
    return KILN_OK;
}

kiln_status kiln_uploads_resolve(kiln_uploads *u, const char *person, kiln_str name,
                                 kiln_model_file **out_model) {
    kiln_digest digest;
    if (!kiln_digest_parse(name, &digest)) {
        const kiln_upload *one = kiln_upload_find(u, person, name);
        if (!one) return KILN_ERROR(NOT_FOUND, "you have no such upload or model");
        if (!one->is_whole)
            return KILN_ERROR(FAILED_PRECONDITION, "the upload has %llu of %llu bytes",
                              (unsigned long long)kiln_upload_offset(one),
                              (unsigned long long)one->size);
        digest = one->digest;
    }
    kiln_model_file *model = kiln_uploads_find(u, person, &digest);
    if (!model) return KILN_ERROR(NOT_FOUND, "you have no such upload or model");
    *out_model = model;
    return KILN_OK;
}

const kiln_digest *kiln_model_file_digest(const kiln_model_file *model) { return &model->digest; }

/* ---- all of it ------------------------------------------------------------------------------- */

static void sweep(void *context) {
    kiln_uploads *u = context;
    const uint64_t now_s = wall_s();
    for (kiln_upload *one = u->uploads, *next = NULL; one; one = next) {
        next = one->next;
        if (!one->call && now_s > one->touched_s && now_s - one->touched_s > KILN_UPLOAD_IDLE_S)
            kiln_upload_remove(one);
    }
    for (kiln_model_file *m = u->models, *next = NULL; m; m = next) {
        next = m->next;
        if (!m->holders && now_s > m->used_s && now_s - m->used_s > KILN_MODELS_UNUSED_S)
            remove_model(u, m);
    }
    kiln_timer_start(u->timer, SWEEP_NS);
}

static kiln_status find_models(kiln_uploads *u, kiln_arena *arena) {
    char **folder = NULL, **name = NULL;
    size_t folder_count = 0, count = 0;
    const char *models = kiln_arena_printf(arena, "%s/models", u->state);
    kiln_status st = kiln_folder_list(models, arena, &folder, &folder_count);
    for (size_t i = 0; !st && i < folder_count; i++) {
        if (strlen(folder[i]) != KILN_HASH128_TEXT - 1) continue;
        st = kiln_folder_list(kiln_arena_printf(arena, "%s/%s", models, folder[i]), arena, &name,
                              &count);
        for (size_t k = 0; !st && k < count; k++) add_model(u, folder[i], name[k]);
    }
    return st;
}

/* ID.SIZE or ID.SIZE.SHA256, with the folder already set. */
static bool read_upload_name(kiln_str name, kiln_upload *out) {
    kiln_hash128 id;
    const kiln_str id_text = kiln_str_cut(&name, '.');
    if (!kiln_hash128_parse(id_text, &id) || !kiln_str_to_u64(kiln_str_cut(&name, '.'), &out->size))
        return false;
    kiln_hash128_print(id, out->id);
    out->is_whole = name.size > 0;
    return !out->is_whole || kiln_digest_parse(name, &out->digest);
}

/* The answer to the last bytes may not have been sent, so that they are taken as missing: the
 * client sends the last one again, and the upload ends as any other. */
static kiln_status open_upload(const kiln_upload *one, const char *path, uint64_t size,
                               kiln_spool **out_spool) {
    if (size > 0 && size >= one->size && truncate(path, (off_t)one->size - 1) != 0)
        return KILN_ERROR(DATA_LOSS, "%s: %s", path, strerror(errno));
    return kiln_spool_open(one->uploads->loop, path, out_spool);
}

/* Continues an upload of an earlier server. False: the file is none, or is of no use. */
static bool restore_upload(kiln_uploads *u, const char *folder, const char *name,
                           const char *path) {
    struct stat info;
    kiln_upload read = {.uploads = u};
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    if (!read_upload_name(kiln_str_from(name), &read)) return false;
    memcpy(read.folder, folder, sizeof read.folder);
    read.touched_s = (uint64_t)info.st_mtim.tv_sec;
    if (!read.is_whole) {
        kiln_status st = open_upload(&read, path, (uint64_t)info.st_size, &read.spool);
        kiln_status_free(st); /* its client is told that there is no such upload */
        if (st) return false;
    }
    kiln_upload *one = kiln_alloc(sizeof *one);
    *one = read;
    one->next = u->uploads;
    u->uploads = one;
    return true;
}

/* Names are sorted, so that the bytes of an upload come before the note that it is whole. */
static kiln_status find_uploads_of(kiln_uploads *u, const char *folder, const char *place,
                                   kiln_arena *arena) {
    char **name = NULL;
    size_t count = 0;
    kiln_status st = kiln_folder_list(place, arena, &name, &count);
    for (size_t i = 0; !st && i < count; i++) {
        const char *path = kiln_arena_printf(arena, "%s/%s", place, name[i]);
        const bool is_known =
            u->uploads && strncmp(name[i], u->uploads->id, KILN_HASH128_TEXT - 1) == 0;
        if (is_known || !restore_upload(u, folder, name[i], path)) unlink(path);
    }
    rmdir(place); /* if nothing is left in it */
    return st;
}

static kiln_status find_uploads(kiln_uploads *u, kiln_arena *arena) {
    char **folder = NULL;
    size_t count = 0;
    const char *uploads = kiln_arena_printf(arena, "%s/uploads", u->state);
    kiln_status st = kiln_folder_list(uploads, arena, &folder, &count);
    for (size_t i = 0; !st && i < count; i++) {
        const char *place = kiln_arena_printf(arena, "%s/%s", uploads, folder[i]);
        if (!kiln_file_is_folder(place))
            unlink(place); /* a body that came in one piece */
        else if (strlen(folder[i]) == KILN_HASH128_TEXT - 1)
            st = find_uploads_of(u, folder[i], place, arena);
    }
    return st;
}

kiln_status kiln_uploads_create(kiln_loop *loop, const char *state_folder,
                                kiln_uploads **out_uploads) {
    kiln_uploads *u = kiln_alloc(sizeof *u);
    kiln_arena arena;
    *u = (kiln_uploads){.loop = loop, .state = state_folder};
    kiln_arena_init(&arena, 0);
    const char *uploads = kiln_arena_printf(&arena, "%s/uploads", state_folder);
    kiln_status st = kiln_folder_create(uploads, 0700);
    if (!st) st = kiln_folder_create(kiln_arena_printf(&arena, "%s/models", state_folder), 0700);
    if (!st) st = find_models(u, &arena);
    if (!st) st = find_uploads(u, &arena);
    kiln_arena_deinit(&arena);
    u->timer = kiln_timer_create(loop, sweep, u);
    if (st) {
        kiln_uploads_destroy(u);
        return st;
    }
    kiln_timer_start(u->timer, 0);
    *out_uploads = u;
    return KILN_OK;
}

void kiln_uploads_destroy(kiln_uploads *u) {
    if (!u) return;
    while (u->uploads) {
        kiln_spool_leave(u->uploads->spool);
        forget_upload(u->uploads);
    }
    while (u->models) {
        kiln_model_file *next = u->models->next;
        free_model(u->models);
        u->models = next;
    }
    kiln_timer_destroy(u->timer);
    kiln_free(u);
}
