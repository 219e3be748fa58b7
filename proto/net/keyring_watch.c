/* The key file of a keyring: read again when it changes, written when a rotation ends. */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "proto/net/conn.h"
#include "proto/net/event_loop.h"
#include "proto/net/keyring.h"

typedef struct kiln_key_settling {
    kiln_keyring *ring; /* NULL: it was closed meanwhile */
    struct kiln_key_settling *next;
    kiln_key name; /* no secret */
    kiln_key_state outcome;
    kiln_arena arena; /* of the texts */
    const char *path, *why;
    kiln_status status;
} settling;

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mode == b->st_mode &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* On an error the keys stay as they were: half a file must not lock out every node. */
static kiln_status read_again(kiln_keyring *ring) {
    kiln_keys keys = {0};
    kiln_status st = kiln_fail_at(KILN_FAIL_KEYS_RELOAD);
    if (!st) st = kiln_keys_read(ring->path, &keys);
    if (st) return st;
    kiln_keys_deinit(&ring->keys);
    ring->keys = keys;
    return KILN_OK;
}

/* Connections whose key is gone must close. */
static void recheck(kiln_keyring *ring) {
    if (ring->recheck) ring->recheck(ring->loop, ring);
}

void kiln_keyring_reload(kiln_keyring *ring) {
    kiln_status st = read_again(ring);
    if (!st) recheck(ring);
    if (ring->changed) ring->changed(ring->context, st);
    /* Descriptors may be free again without a change of the file: try again at the next check. */
    if (kiln_status_code(st) == KILN_RESOURCE_EXHAUSTED) ring->seen = (struct stat){0};
    kiln_status_free(st);
}

void kiln_keyring_set_day(kiln_keyring *ring, uint32_t today) {
    if (ring->today == today) return;
    ring->today = today;
    recheck(ring);
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
    kiln_tls_context *tls = NULL;
    kiln_status st = kiln_loop_tls(loop, &tls);
    if (!st && stat(path, &seen) != 0)
        memset(&seen, 0, sizeof seen); /* reading it returns the error */
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

static void free_settling(settling *s) {
    kiln_status_free(s->status);
    kiln_arena_deinit(&s->arena);
    kiln_free(s);
}

static void forget_waiting(settling *first) {
    while (first->next) {
        settling *s = first->next;
        first->next = s->next;
        free_settling(s);
    }
}

void kiln_keyring_close(kiln_keyring *ring) {
    if (!ring) return;
    kiln_timer_destroy(ring->timer);
    if (ring->settling) {
        forget_waiting(ring->settling);
        ring->settling->ring = NULL;
    }
    kiln_keys_deinit(&ring->keys);
    kiln_arena_deinit(&ring->arena);
    kiln_free(ring);
}

void kiln_keyring_on_settled(kiln_keyring *ring, kiln_keyring_settled settled) {
    ring->settled = settled;
}

void kiln_keyring_on_recheck(kiln_keyring *ring, kiln_keyring_recheck check) {
    ring->recheck = check;
}

/* ---- Rotation ---- */

/* Under the lock, as `kiln key` may change the file, too. */
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
    if (ring) ring->settling = s->next;
    if (ring && ring->settling) kiln_loop_work(ring->loop, settle, on_settled, ring->settling);
    if (ring && ring->settled)
        ring->settled(ring->context, &s->name, s->status ? KILN_KEY_OFFERED : s->outcome,
                      s->status ? kiln_status_text(s->status) : s->why);
    if (ring && !s->status) kiln_keyring_reload(ring);
    free_settling(s);
}

static bool is_of(const settling *s, const kiln_key *name, kiln_key_state outcome) {
    return s->outcome == outcome && s->name.role == name->role &&
           s->name.generation == name->generation && strcmp(s->name.node, name->node) == 0;
}

void kiln_keyring_settle(kiln_keyring *ring, const kiln_key *name, kiln_key_state outcome,
                         const char *why) {
    settling **end = &ring->settling;
    for (; *end; end = &(*end)->next)
        if (is_of(*end, name, outcome)) return; /* the node has connected twice */
    settling *s = *end = kiln_alloc(sizeof *s);
    kiln_arena_init(&s->arena, 512);
    s->ring = ring;
    s->outcome = outcome;
    s->name = *name;
    s->path = kiln_str_dup(&s->arena, kiln_str_from(ring->path));
    s->why = kiln_str_dup(&s->arena, kiln_str_from(why));
    if (ring->settling == s) kiln_loop_work(ring->loop, settle, on_settled, s);
}
