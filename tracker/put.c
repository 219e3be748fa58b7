/* Who put which blob, and when it was last used. What people put has a row on disk, so that a
 * client whose tracker is started anew need not hand in again; rows are written in groups, and one
 * that a kill loses costs an upload. What programs put (artefacts, by the thousand) is remembered
 * in memory only: what of it is wanted later, jobs name. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "tracker/state.h"

#define DAY_MS UINT64_C(86400000)
#define USED_MS UINT64_C(3600000) /* a use is written down again so long after the last one */
#define ROWS_A_TICK 1024u         /* about 2 ms */

static uint64_t wall_ms(const kiln_tracker *t) {
    return (t->now_ns + t->wall_offset_ns) / KILN_NS_PER_MS;
}

static kiln_str key_of(const kiln_digest *digest) {
    return (kiln_str){(const char *)digest->byte, sizeof digest->byte};
}

/* People have no role: the same person comes with several programs. */
static uint64_t hash_name(kiln_str name, kiln_peer_role role) {
    return kiln_hash64(name.data, name.size, (uint64_t)role);
}

static uint64_t who_of(const kiln_tracker_peer *peer) {
    return kiln_tracker_is_person(peer) ? hash_name(kiln_str_from(peer->person), 0)
                                        : hash_name(kiln_str_from(peer->node), peer->role);
}

static kiln_tracker_put *first_of(const kiln_tracker *t, const kiln_digest *digest) {
    uint64_t found = 0;
    kiln_map_find(&t->put_of_digest, key_of(digest), &found);
    return (kiln_tracker_put *)(uintptr_t)found;
}

static kiln_tracker_put *find(const kiln_tracker *t, const kiln_digest *digest, uint64_t who) {
    kiln_tracker_put *put = first_of(t, digest);
    while (put && put->who != who) put = put->same;
    return put;
}

kiln_tracker_put *kiln_tracker_put_find(const kiln_tracker *t, const kiln_tracker_peer *peer,
                                        const kiln_digest *digest) {
    return find(t, digest, who_of(peer));
}

/* ---- In order of use ---- */

static void append(kiln_tracker *t, kiln_tracker_put *put) {
    put->older = t->put_newest;
    put->newer = NULL;
    *(put->older ? &put->older->newer : &t->put_oldest) = put;
    t->put_newest = put;
}

static void take_out(kiln_tracker *t, kiln_tracker_put *put) {
    *(put->older ? &put->older->newer : &t->put_oldest) = put->newer;
    *(put->newer ? &put->newer->older : &t->put_newest) = put->older;
}

/* Its row is written, or removed, in one of the next ticks. */
static void change(kiln_tracker *t, kiln_tracker_put *put) {
    if (!put->person || put->changed) return;
    put->changed = true;
    kiln_vec_push(&t->put_changed, ((kiln_tracker_put_change){put->digest, put->person}));
}

static void forget(kiln_tracker *t, kiln_tracker_put *put) {
    kiln_tracker_put *first = first_of(t, &put->digest);
    if (first != put) {
        while (first->same != put) first = first->same;
        first->same = put->same;
    } else if (put->same) {
        kiln_map_put(&t->put_of_digest, key_of(&put->digest), (uintptr_t)put->same);
    } else {
        kiln_map_remove(&t->put_of_digest, key_of(&put->digest));
    }
    take_out(t, put);
    change(t, put);
    t->put_count--;
    if (put->person) put->person->blob_bytes -= put->size;
    kiln_free(put);
}

static kiln_tracker_put *add(kiln_tracker *t, const kiln_tracker_put *what) {
    kiln_tracker_put *put = kiln_alloc(sizeof *put);
    *put = *what;
    put->same = first_of(t, &put->digest);
    kiln_map_put(&t->put_of_digest, key_of(&put->digest), (uintptr_t)put);
    append(t, put);
    t->put_count++;
    if (put->person) put->person->blob_bytes += put->size;
    return put;
}

/* ---- What happens ---- */

void kiln_tracker_put_use(kiln_tracker *t, kiln_tracker_put *put) {
    take_out(t, put);
    append(t, put);
    if (wall_ms(t) - put->used_ms < USED_MS) return;
    put->used_ms = wall_ms(t);
    change(t, put);
}

void kiln_tracker_put_add(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_digest *digest,
                          uint64_t size) {
    kiln_tracker_put *put = kiln_tracker_put_find(t, peer, digest);
    if (put) {
        kiln_tracker_put_use(t, put);
        return;
    }
    const uint64_t now_ms = wall_ms(t);
    put = add(
        t, &(kiln_tracker_put){.digest = *digest,
                               .who = who_of(peer),
                               .person = peer->known && peer->known->name[0] ? peer->known : NULL,
                               .size = size,
                               .put_ms = now_ms,
                               .used_ms = now_ms});
    change(t, put);
    /* Should the blob of the oldest still be wanted, it is put again. */
    if (t->put_count > KILN_TRACKER_PUTS_MAX) forget(t, t->put_oldest);
}

void kiln_tracker_blobs_gone(kiln_tracker *t, const kiln_digest *digest, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        for (kiln_tracker_put *put; (put = first_of(t, &digest[i]));) forget(t, put);
}

void kiln_tracker_each_blob(const kiln_tracker *t,
                            void (*visit)(void *context, const kiln_digest *digest,
                                          uint64_t used_ms),
                            void *context) {
    for (const kiln_tracker_put *put = t->put_oldest; put; put = put->newer)
        visit(context, &put->digest, put->used_ms);
}

/* ---- What a person may have at once ---- */

/* What kept jobs and leases that hold name. */
static void list_needed(kiln_tracker *t, kiln_map *out) {
    kiln_digest digest[KILN_TRACKER_JOB_BLOBS_MAX];
    for (uint32_t i = 0; i < t->job.count; i++) {
        const uint32_t count = kiln_tracker_job_blobs(t, kiln_str_from(t->job.data[i]->id), digest);
        for (uint32_t n = 0; n < count; n++) kiln_map_put(out, key_of(&digest[n]), 1);
    }
    for (uint32_t i = 0; i < t->lease.count; i++)
        for (uint32_t n = 0; n < t->lease.data[i]->blob.count; n++)
            kiln_map_put(out, key_of(&t->lease.data[i]->blob.data[n]), 1);
}

static bool is_needed(const kiln_map *needed, const kiln_tracker_put *put) {
    uint64_t one = 0;
    return kiln_map_find(needed, key_of(&put->digest), &one);
}

static void drop(kiln_tracker *t, kiln_tracker_put *put) {
    const kiln_digest digest = put->digest;
    forget(t, put);
    if (!first_of(t, &digest)) kiln_tracker_drop_blob(t, &digest);
}

/* Looks at what the person has; with `drops`, what is too much goes, so much of it a tick. */
static void look_at(kiln_tracker *t, kiln_tracker_person *person, bool drops) {
    kiln_map needed;
    uint32_t dropped = 0;
    kiln_map_init(&needed);
    list_needed(t, &needed);
    person->needed_bytes = 0;
    person->needed_ns = t->now_ns;
    for (kiln_tracker_put *put = t->put_oldest, *newer = NULL; put; put = newer) {
        newer = put->newer;
        if (put->person != person) continue;
        if (is_needed(&needed, put)) {
            person->needed_bytes += put->size;
        } else if (drops && dropped < ROWS_A_TICK && person->blob_bytes > t->blob_bytes_max) {
            drop(t, put);
            dropped++;
        }
    }
    if (drops) person->is_over = dropped == ROWS_A_TICK;
    kiln_map_deinit(&needed);
}

bool kiln_tracker_put_fits(kiln_tracker *t, kiln_tracker_person *person, uint64_t size) {
    const uint64_t most = t->blob_bytes_max;
    if (!most || person->blob_bytes + size <= most) return true;
    if (t->now_ns - person->needed_ns >= KILN_TRACKER_TICK_NS) look_at(t, person, false);
    return size <= most && person->needed_bytes <= most - size;
}

/* One person a tick: it takes a walk over all that was put. */
static void limit_one(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->person.count; i++) {
        kiln_tracker_person *person = t->person.data[i];
        if (!person->is_over) continue;
        person->is_over = false;
        if (!t->blob_bytes_max || person->blob_bytes <= t->blob_bytes_max) continue;
        look_at(t, person, true);
        return;
    }
}

void kiln_tracker_limit_blobs(kiln_tracker *t, uint64_t bytes_of_person) {
    t->blob_bytes_max = bytes_of_person;
}

/* ---- Rows ---- */

/* Of the change, in `arena`. */
static kiln_tracker_row row_of(kiln_tracker *t, const kiln_tracker_put_change *changed,
                               kiln_arena *arena) {
    char digest[KILN_DIGEST_TEXT];
    kiln_digest_print(&changed->digest, digest);
    const kiln_str name = kiln_str_from(changed->person->name);
    kiln_tracker_row row = {.kind = KILN_TRACKER_ROW_BLOB,
                            .id = kiln_str_printf(arena, "%s/%.*s", digest, KILN_STR_ARG(name))};
    kiln_tracker_put *put = find(t, &changed->digest, hash_name(name, 0));
    row.removed = !put;
    if (!put) return row;
    put->changed = false;
    const kiln_msg_kept_blob kept = {
        .size = put->size, .put_ms = put->put_ms, .used_ms = put->used_ms};
    kiln_strbuf body = {0};
    kiln_status st = kiln_record_encode(KILN_RECORD_kept_blob, &kept, &body);
    KILN_CHECK(st == NULL); /* three numbers */
    row.body = (kiln_str){kiln_arena_copy(arena, body.data, body.size), body.size};
    kiln_strbuf_deinit(&body);
    return row;
}

void kiln_tracker_puts_tick(kiln_tracker *t) {
    limit_one(t);
    const uint32_t count = KILN_MIN(t->put_changed.count, ROWS_A_TICK);
    if (count == 0) return;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_tracker_row *row = KILN_ARENA_ARRAY(&arena, kiln_tracker_row, count);
    for (uint32_t i = 0; i < count; i++) row[i] = row_of(t, &t->put_changed.data[i], &arena);
    kiln_tracker_persist_later(t, row, count);
    kiln_arena_deinit(&arena);
    t->put_changed.count -= count;
    memmove(t->put_changed.data, t->put_changed.data + count,
            t->put_changed.count * sizeof *t->put_changed.data);
}

/* What it handed in that day counts again (KILN_TRACKER_PUT_BYTES_A_DAY). */
static void count_today(const kiln_tracker_put *put) {
    const uint64_t day = put->put_ms / DAY_MS;
    if (day < put->person->put_day) return;
    if (day > put->person->put_day) put->person->put_bytes = 0;
    put->person->put_day = day;
    put->person->put_bytes += put->size;
}

kiln_status kiln_tracker_put_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    kiln_digest digest;
    kiln_msg_kept_blob kept = {0};
    kiln_arena scratch;
    const size_t digits = KILN_DIGEST_TEXT - 1;
    if (row->id.size < digits + 2 ||
        !kiln_digest_parse(kiln_str_slice(row->id, 0, digits), &digest))
        return KILN_ERROR(DATA_LOSS, "stored row of blob %.*s", KILN_STR_ARG(row->id));
    kiln_arena_init(&scratch, 256);
    kiln_status st = kiln_record_decode(KILN_RECORD_kept_blob, row->body, &scratch, &kept);
    kiln_arena_deinit(&scratch);
    if (st) return kiln_status_note(st, "stored row of blob %.*s", KILN_STR_ARG(row->id));
    const kiln_str name = kiln_str_slice(row->id, digits + 1, row->id.size);
    count_today(add(t, &(kiln_tracker_put){.digest = digest,
                                           .who = hash_name(name, 0),
                                           .person = kiln_tracker_person_named(t, name),
                                           .size = kept.size,
                                           .put_ms = kept.put_ms,
                                           .used_ms = kept.used_ms}));
    return KILN_OK;
}

static int by_use(const void *a, const void *b) {
    const kiln_tracker_put *left = *(kiln_tracker_put *const *)a,
                           *right = *(kiln_tracker_put *const *)b;
    return left->used_ms < right->used_ms ? -1 : left->used_ms > right->used_ms;
}

void kiln_tracker_puts_restored(kiln_tracker *t) {
    KILN_VEC(kiln_tracker_put *) all = {0};
    for (kiln_tracker_put *put = t->put_oldest; put; put = put->newer) kiln_vec_push(&all, put);
    if (all.count) qsort(all.data, all.count, sizeof(kiln_tracker_put *), by_use);
    t->put_oldest = t->put_newest = NULL;
    for (uint32_t i = 0; i < all.count; i++) append(t, all.data[i]);
    kiln_vec_deinit(&all);
    while (t->put_count > KILN_TRACKER_PUTS_MAX) forget(t, t->put_oldest);
}

void kiln_tracker_puts_free(kiln_tracker *t) {
    while (t->put_oldest) {
        kiln_tracker_put *put = t->put_oldest;
        t->put_oldest = put->newer;
        kiln_free(put);
    }
    kiln_vec_deinit(&t->put_changed);
    kiln_map_deinit(&t->put_of_digest);
}
