#include "web/uploads_state.h"

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
    for (kiln_upload *one = u->uploads; one; one = one->next)
        if (kiln_str_is(id, one->id) && strcmp(one->person, person) == 0) return one;
    return NULL;
}

kiln_status kiln_upload_create(kiln_uploads *u, const char *person, uint64_t size,
                               kiln_upload **out_upload) {
    uint32_t own = 0, all = 0;
    kiln_hash128 id;
    for (const kiln_upload *one = u->uploads; one; one = one->next) {
        own += strcmp(one->person, person) == 0;
        all++;
    }
    if (own >= KILN_UPLOADS_OF_PERSON_MAX || all >= KILN_UPLOADS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "%u uploads of yours are open: finish or delete one first", own);
    kiln_status st = kiln_rand_system(&id, sizeof id);
    if (st) return st;
    kiln_upload *one = kiln_alloc(sizeof *one);
    *one = (kiln_upload){.uploads = u, .size = size, .touched_ns = kiln_clock_ns()};
    kiln_hash128_print(id, one->id);
    memcpy(one->person, person, strlen(person) + 1);
    st = kiln_uploads_spool(u, &one->spool);
    if (st) {
        kiln_free(one);
        return st;
    }
    one->next = u->uploads;
    u->uploads = one;
    *out_upload = one;
    return KILN_OK;
}

void kiln_upload_remove(kiln_upload *upload) {
    kiln_upload **at = &upload->uploads->uploads;
    while (*at != upload) at = &(*at)->next;
    *at = upload->next;
    kiln_spool_destroy(upload->spool);
    kiln_free(upload);
}

kiln_status kiln_uploads_resolve(kiln_uploads *u, const char *person, kiln_str name,
                                 kiln_model_file **out_model) {
    kiln_digest digest;
    if (!kiln_digest_parse(name, &digest)) {
        const kiln_upload *one = kiln_upload_find(u, person, name);
        if (!one) return KILN_ERROR(NOT_FOUND, "you have no such upload or model");
        if (!one->is_whole)
            return KILN_ERROR(FAILED_PRECONDITION, "the upload has %llu of %llu bytes",
                              (unsigned long long)kiln_spool_size(one->spool),
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
    const uint64_t now_ns = kiln_clock_ns(), now_s = wall_s();
    for (kiln_upload *one = u->uploads, *next = NULL; one; one = next) {
        next = one->next;
        if (!one->call && now_ns - one->touched_ns > KILN_UPLOAD_IDLE_S * KILN_NS_PER_S)
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

kiln_status kiln_uploads_create(kiln_loop *loop, const char *state_folder,
                                kiln_uploads **out_uploads) {
    kiln_uploads *u = kiln_alloc(sizeof *u);
    kiln_arena arena;
    *u = (kiln_uploads){.loop = loop, .state = state_folder};
    kiln_arena_init(&arena, 0);
    const char *uploads = kiln_arena_printf(&arena, "%s/uploads", state_folder);
    kiln_status st = kiln_file_exists(uploads) ? kiln_folder_remove(uploads) : KILN_OK;
    if (!st) st = kiln_folder_create(uploads, 0700);
    if (!st) st = kiln_folder_create(kiln_arena_printf(&arena, "%s/models", state_folder), 0700);
    if (!st) st = find_models(u, &arena);
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
    while (u->uploads) kiln_upload_remove(u->uploads);
    while (u->models) {
        kiln_model_file *next = u->models->next;
        free_model(u->models);
        u->models = next;
    }
    kiln_timer_destroy(u->timer);
    kiln_free(u);
}
