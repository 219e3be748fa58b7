/* Key files: reading, writing, watching; and which credentials a program shows. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/rand.h"
#include "proto/net/internal.h"

kiln_status kiln_keys_read(const char *path, kiln_keys *out_keys) {
    struct stat info;
    if (stat(path, &info) == 0 && (info.st_mode & 077))
        return KILN_ERROR(PERMISSION_DENIED, "%s can be read by others; chmod 600 %s", path, path);
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_str text = {0};
    kiln_status st = kiln_file_read(path, KILN_KEY_FILE_MAX, &arena, &text);
    if (!st) st = kiln_status_note(kiln_keys_parse(text, out_keys), "%s", path);
    if (text.size) explicit_bzero((char *)(uintptr_t)text.data, text.size);
    kiln_arena_deinit(&arena);
    return st;
}

kiln_status kiln_keys_write(const char *path, const kiln_keys *keys) {
    kiln_strbuf text = {0};
    kiln_keys_print(keys, &text);
    kiln_status st = kiln_file_write(path, kiln_strbuf_view(&text), 0600);
    kiln_strbuf_wipe(&text);
    return st;
}

/* A seed of the node's own, which nobody else has seen, and the word of the one before for it. */
static kiln_status draw_signer(const kiln_key *before, kiln_key *next) {
    next->has_seed = before->has_seed;
    if (!before->has_seed) return KILN_OK;
    if (!kiln_sign_supported()) {
        memcpy(next->seed, before->seed, sizeof next->seed);
        return KILN_OK;
    }
    next->has_public = next->has_before = true;
    kiln_status st = kiln_rand_system(next->seed, sizeof next->seed);
    if (!st) st = kiln_sign_public_of(next->seed, &next->public_half);
    if (!st) st = kiln_succession_sign(before->seed, &next->public_half, &next->succession);
    return st;
}

kiln_status kiln_key_take(const char *path, const kiln_key *next) {
    kiln_keys own = {0}, replaced = {0};
    kiln_key taken = *next;
    const kiln_key *key = NULL, *added = NULL;
    kiln_status st = kiln_keys_read(path, &own);
    if (!st) st = kiln_keys_newest(&own, NULL, &key);
    if (!st && (key->role != next->role || strcmp(key->node, next->node) != 0))
        st = KILN_ERROR(FAILED_PRECONDITION, "%s is the key of another node", path);
    if (!st && key->generation < next->generation) {
        st = draw_signer(key, &taken);
        if (!st) st = kiln_keys_add(&replaced, &taken, &added);
        if (!st) replaced.key.data[0].generation = next->generation;
        if (!st) st = kiln_keys_write(path, &replaced);
    }
    explicit_bzero(&taken, sizeof taken);
    kiln_keys_deinit(&own);
    kiln_keys_deinit(&replaced);
    return st;
}

/* ---- A file that is watched ---- */

typedef struct settling {
    kiln_keyring *ring; /* NULL: it was closed meanwhile */
    kiln_key name;      /* no secret */
    kiln_key_state outcome;
    kiln_arena arena; /* of the texts */
    const char *path, *why;
    kiln_status status;
} settling;

struct kiln_keyring {
    kiln_loop *loop;
    char *path;
    kiln_arena arena;
    kiln_keys keys;
    uint32_t today; /* keys whose last day is before it are no longer good */
    struct stat seen;
    kiln_timer *timer;
    kiln_keyring_changed changed;
    kiln_keyring_settled settled;
    void *context;
    settling *settling; /* under way; NULL: none is */
};

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mode == b->st_mode &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* On an error the keys stay what they were: half a file must not lock everybody out. */
static kiln_status read_again(kiln_keyring *ring) {
    kiln_keys keys = {0};
    kiln_status st = kiln_fail_at(KILN_FAIL_KEYS_RELOAD);
    if (!st) st = kiln_keys_read(ring->path, &keys);
    if (st) return st;
    kiln_keys_deinit(&ring->keys);
    ring->keys = keys;
    return KILN_OK;
}

void kiln_keyring_reload(kiln_keyring *ring) {
    kiln_status st = read_again(ring);
    if (!st) kiln_handshake_check_keys(ring->loop, ring);
    if (ring->changed) ring->changed(ring->context, st);
    /* Descriptors may be free again without a change of the file: the next look tries once more. */
    if (kiln_status_code(st) == KILN_RESOURCE_EXHAUSTED) ring->seen = (struct stat){0};
    kiln_status_free(st);
}

void kiln_keyring_set_day(kiln_keyring *ring, uint32_t today) {
    if (ring->today == today) return;
    ring->today = today;
    kiln_handshake_check_keys(ring->loop, ring);
}

static void look(void *context) {
    kiln_keyring *ring = context;
    struct stat now = {0};
    kiln_keyring_set_day(ring, kiln_day_of(kiln_clock_wall_ns()));
    kiln_timer_start(ring->timer, KILN_NET_KEYS_NS);
    if (stat(ring->path, &now) != 0) memset(&now, 0, sizeof now);
    if (is_same(&now, &ring->seen)) return;
    ring->seen = now;
    kiln_keyring_reload(ring);
}

kiln_status kiln_keyring_open(kiln_loop *loop, const char *path, kiln_keyring_changed changed,
                              void *context, kiln_keyring **out_ring) {
    kiln_keys keys = {0};
    struct stat seen = {0};
    struct kiln_tls_context *tls = NULL;
    kiln_status st = kiln_loop_tls(loop, &tls);
    if (!st && stat(path, &seen) != 0) memset(&seen, 0, sizeof seen); /* reading says why */
    if (!st) st = kiln_keys_read(path, &keys);
    if (st) return st;
    kiln_keyring *ring = kiln_alloc(sizeof *ring);
    *ring = (kiln_keyring){.loop = loop,
                           .keys = keys,
                           .today = kiln_day_of(kiln_clock_wall_ns()),
                           .seen = seen,
                           .changed = changed,
                           .context = context};
    kiln_arena_init(&ring->arena, 256);
    ring->path = kiln_str_dup(&ring->arena, kiln_str_from(path));
    ring->timer = kiln_timer_create(loop, look, ring);
    kiln_timer_start(ring->timer, KILN_NET_KEYS_NS);
    *out_ring = ring;
    return KILN_OK;
}

uint32_t kiln_keyring_count(const kiln_keyring *ring) { return kiln_keys_in_force(&ring->keys); }

const kiln_key *kiln_keyring_find(const kiln_keyring *ring, const kiln_key *name) {
    const kiln_key *key = kiln_keys_find(&ring->keys, name);
    return key && !kiln_key_has_expired(key, ring->today) ? key : NULL;
}

const kiln_key *kiln_keyring_signer(const kiln_keyring *ring, const kiln_key *name,
                                    const kiln_sign_public *half) {
    return kiln_keys_signer(&ring->keys, name, half, ring->today);
}

kiln_status kiln_keyring_refusal(const kiln_keyring *ring, const kiln_key *name) {
    char text[KILN_KEY_NAME_BYTES], day[KILN_DAY_TEXT];
    const kiln_key *key = kiln_keys_find(&ring->keys, name);
    kiln_key_name_print(name, text);
    if (key && kiln_key_has_expired(key, ring->today)) {
        kiln_day_print(key->last_day, day);
        return KILN_ERROR(UNAUTHENTICATED, "the key %s was valid until %s", text, day);
    }
    if (!key && kiln_keys_was_revoked(&ring->keys, name))
        return KILN_ERROR(UNAUTHENTICATED, "the key %s was revoked", text);
    return KILN_ERROR(UNAUTHENTICATED, "no key of ours: '%s'", text);
}

void kiln_keyring_close(kiln_keyring *ring) {
    if (!ring) return;
    kiln_timer_destroy(ring->timer);
    if (ring->settling) ring->settling->ring = NULL;
    kiln_keys_deinit(&ring->keys);
    kiln_arena_deinit(&ring->arena);
    kiln_free(ring);
}

void kiln_keyring_on_settled(kiln_keyring *ring, kiln_keyring_settled settled) {
    ring->settled = settled;
}

/* ---- Rotation ---- */

const kiln_key *kiln_keyring_offer(const kiln_keyring *ring, const kiln_key *key) {
    return kiln_keys_offer(&ring->keys, key);
}

/* `kiln key` may change the file, too: whoever changes it has the lock. */
static void settle(void *context) {
    settling *s = context;
    kiln_keys keys = {0};
    int lock = -1;
    s->status = kiln_file_lock(s->path, &lock);
    if (!s->status) s->status = kiln_keys_read(s->path, &keys);
    kiln_keys_settle(&keys, &s->name, s->outcome);
    if (!s->status) s->status = kiln_keys_write(s->path, &keys);
    kiln_keys_deinit(&keys);
    if (lock >= 0) close(lock);
}

static void on_settled(void *context) {
    settling *s = context;
    kiln_keyring *ring = s->ring;
    if (ring) ring->settling = NULL;
    if (ring && ring->settled)
        ring->settled(ring->context, &s->name, s->status ? KILN_KEY_OFFERED : s->outcome,
                      s->status ? kiln_status_text(s->status) : s->why);
    if (ring && !s->status) kiln_keyring_reload(ring);
    kiln_status_free(s->status);
    kiln_arena_deinit(&s->arena);
    kiln_free(s);
}

void kiln_keyring_settle(kiln_keyring *ring, const kiln_key *name, kiln_key_state outcome,
                         const char *why) {
    if (ring->settling) return;
    settling *s = ring->settling = kiln_alloc(sizeof *s);
    kiln_arena_init(&s->arena, 512);
    s->ring = ring;
    s->outcome = outcome;
    s->name = *name;
    s->path = kiln_str_dup(&s->arena, kiln_str_from(ring->path));
    s->why = kiln_str_dup(&s->arena, kiln_str_from(why));
    kiln_loop_work(ring->loop, settle, on_settled, s);
}

/* ---- Credentials ---- */

/* Who dials says the public half and signs nothing. */
static kiln_status forget_seed(kiln_key *key) {
    kiln_status st = KILN_OK;
    if (key->has_seed && !key->has_public && kiln_sign_supported()) {
        st = kiln_sign_public_of(key->seed, &key->public_half);
        key->has_public = !st;
    }
    key->has_seed = false;
    explicit_bzero(key->seed, sizeof key->seed);
    return st;
}

static kiln_status load_key(const char *path, kiln_credentials *credentials) {
    kiln_keys keys = {0};
    const kiln_key *key = NULL;
    kiln_status st = kiln_keys_read(path, &keys);
    if (!st) st = kiln_status_note(kiln_keys_newest(&keys, NULL, &key), "%s", path);
    if (!st && kiln_key_has_expired(key, kiln_day_of(kiln_clock_wall_ns()))) {
        char name[KILN_KEY_NAME_BYTES], day[KILN_DAY_TEXT];
        kiln_key_name_print(key, name);
        kiln_day_print(key->last_day, day);
        st = KILN_ERROR(PERMISSION_DENIED,
                        "the key %s in %s was valid until %s: the tracker's administrator makes "
                        "another with `kiln key new`",
                        name, path, day);
    }
    if (!st) {
        credentials->key = *key;
        credentials->has_key = true;
        st = forget_seed(&credentials->key);
    }
    if (!st) {
        if (strlen(path) <= KILN_KEY_PATH_MAX)
            memcpy(credentials->key_path, path, strlen(path) + 1);
    }
    kiln_keys_deinit(&keys);
    return st;
}

kiln_status kiln_credentials_load(const kiln_address *address, const char *home,
                                  const char *key_file, bool insecure,
                                  kiln_credentials *out_credentials) {
    kiln_credentials found = {.insecure = insecure};
    kiln_status st = KILN_OK;
    if (!address->is_unix && key_file) {
        st = load_key(key_file, &found);
    } else if (!address->is_unix && !insecure) {
        kiln_strbuf path = {0};
        kiln_strbuf_printf(&path, "%s/key", home);
        bool has_file = kiln_file_exists(path.data);
        if (address->is_loopback) st = kiln_token_read(home, false, found.token);
        found.has_token = address->is_loopback && !st;
        if (has_file && !found.has_token) {
            kiln_status_free(st); /* the key will do */
            st = load_key(path.data, &found);
        } else if (!found.has_token && !st) {
            st = KILN_ERROR(PERMISSION_DENIED,
                            "%s is another machine and there is no key for it in %s: an "
                            "administrator makes one with `kiln key new`; or --insecure, in the "
                            "clear",
                            address->host, path.data);
        }
        kiln_strbuf_deinit(&path);
    }
    if (!st) *out_credentials = found;
    explicit_bzero(&found, sizeof found);
    return st;
}

kiln_status kiln_credentials_check(const kiln_addresses *addresses, const char *home,
                                   const char *key_file, bool insecure) {
    kiln_credentials found = {0};
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < addresses->count; i++)
        st = kiln_credentials_load(&addresses->item[i], home, key_file, insecure, &found);
    explicit_bzero(&found, sizeof found);
    return st;
}
