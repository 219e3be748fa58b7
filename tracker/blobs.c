/* Which peer uploaded which blob, and when it was last used. Uploads of people have rows on disk,
 * so that a client need not upload again after the tracker restarts; rows are written in groups,
 * and a row that a kill loses costs an upload. Uploads of programs (thousands of artefacts) are
 * remembered in memory only, because jobs name those that are needed later. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "tracker/state.h"

#define DAY_MS UINT64_C(86400000)
#define USED_MS UINT64_C(3600000) /* after this time a later use is written again */
#define ROWS_A_TICK 1024u         /* about 2 ms */

static kiln_str key_of(const kiln_digest *digest) {
    return (kiln_str){(const char *)digest->byte, sizeof digest->byte};
}

/* The role of people is left out, because one person uses several programs. */
static uint64_t hash_name(kiln_str name, kiln_peer_role role) {
    return kiln_hash64(name.data, name.size, (uint64_t)role);
}

static uint64_t who_of(const kiln_tracker_peer *peer) {
    return kiln_tracker_is_person(peer) ? hash_name(kiln_str_from(peer->person), 0)
                                        : hash_name(kiln_str_from(peer->node), peer->role);
}

static kiln_tracker_put *first_of(const kiln_tracker *t, const kiln_digest *digest) {
    return kiln_tracker_find(&t->blobs.of_digest, key_of(digest));
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
    put->older = t->blobs.newest;
    put->newer = NULL;
    *(put->older ? &put->older->newer : &t->blobs.oldest) = put;
    t->blobs.newest = put;
}

static void take_out(kiln_tracker *t, kiln_tracker_put *put) {
    *(put->older ? &put->older->newer : &t->blobs.oldest) = put->newer;
    *(put->newer ? &put->newer->older : &t->blobs.newest) = put->older;
}

/* Has its row written or removed in one of the next ticks. */
static void change(kiln_tracker *t, kiln_tracker_put *put) {
    if (!put->person || put->changed) return;
    put->changed = true;
    kiln_vec_push(&t->blobs.changed, ((kiln_tracker_put_change){put->digest, put->person}));
}

static void forget(kiln_tracker *t, kiln_tracker_put *put) {
    kiln_tracker_put *first = first_of(t, &put->digest);
    if (first != put) {
        while (first->same != put) first = first->same;
        first->same = put->same;
    } else if (put->same) {
        kiln_map_put(&t->blobs.of_digest, key_of(&put->digest), (uintptr_t)put->same);
    } else {
        kiln_map_remove(&t->blobs.of_digest, key_of(&put->digest));
    }
    take_out(t, put);
    change(t, put);
    t->blobs.count--;
    if (put->person) put->person->blobs.bytes -= put->size;
    kiln_free(put);
}

static kiln_tracker_put *add(kiln_tracker *t, const kiln_tracker_put *what) {
    kiln_tracker_put *put = kiln_alloc(sizeof *put);
    *put = *what;
    put->same = first_of(t, &put->digest);
    kiln_map_put(&t->blobs.of_digest, key_of(&put->digest), (uintptr_t)put);
    append(t, put);
    t->blobs.count++;
    if (put->person) put->person->blobs.bytes += put->size;
    return put;
}

/* ---- What happens ---- */

void kiln_tracker_put_use(kiln_tracker *t, kiln_tracker_put *put) {
    take_out(t, put);
    append(t, put);
    if (kiln_tracker_wall_ms(t) - put->used_ms < USED_MS) return;
    put->used_ms = kiln_tracker_wall_ms(t);
    change(t, put);
}

void kiln_tracker_put_add(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_digest *digest,
                          uint64_t size) {
    kiln_tracker_put *put = kiln_tracker_put_find(t, peer, digest);
    if (put) {
        kiln_tracker_put_use(t, put);
        return;
    }
    const uint64_t now_ms = kiln_tracker_wall_ms(t);
    put = add(
        t, &(kiln_tracker_put){.digest = *digest,
                               .who = who_of(peer),
                               .person = peer->known && peer->known->name[0] ? peer->known : NULL,
                               .size = size,
                               .put_ms = now_ms,
                               .used_ms = now_ms});
    change(t, put);
    /* If the blob of the oldest is still needed, it is uploaded again. */
    if (t->blobs.count > KILN_TRACKER_PUTS_MAX) forget(t, t->blobs.oldest);
}

void kiln_tracker_blobs_gone(kiln_tracker *t, const kiln_digest *digest, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        for (kiln_tracker_put *put; (put = first_of(t, &digest[i]));) forget(t, put);
}

void kiln_tracker_each_blob(const kiln_tracker *t,
                            void (*visit)(void *context, const kiln_digest *digest,
                                          uint64_t used_ms),
                            void *context) {
    for (const kiln_tracker_put *put = t->blobs.oldest; put; put = put->newer)
        visit(context, &put->digest, put->used_ms);
}

/* ---- The bound of a person's blobs ---- */

/* Lists the blobs that kept jobs and current leases name. */
static void list_needed(kiln_tracker *t, kiln_map *out) {
    kiln_digest digest[KILN_TRACKER_JOB_BLOBS_MAX];
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        const uint32_t count =
            kiln_tracker_job_blobs(t, kiln_str_from(t->jobs.all.data[i]->id), digest);
        for (uint32_t n = 0; n < count; n++) kiln_map_put(out, key_of(&digest[n]), 1);
    }
    for (uint32_t i = 0; i < t->leases.all.count; i++)
        for (uint32_t n = 0; n < t->leases.all.data[i]->blob.count; n++)
            kiln_map_put(out, key_of(&t->leases.all.data[i]->blob.data[n]), 1);
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

/* Counts the bytes that the person needs. With `drops`, drops unneeded blobs above the bound,
 * ROWS_A_TICK at most. */
static void count_needed(kiln_tracker *t, kiln_tracker_person *person, bool drops) {
    kiln_map needed;
    uint32_t dropped = 0;
    kiln_map_init(&needed);
    list_needed(t, &needed);
    person->blobs.needed_bytes = 0;
    person->blobs.needed_ns = t->effects.now_ns;
    for (kiln_tracker_put *put = t->blobs.oldest, *newer = NULL; put; put = newer) {
        newer = put->newer;
        if (put->person != person) continue;
        if (is_needed(&needed, put)) {
            person->blobs.needed_bytes += put->size;
        } else if (drops && dropped < ROWS_A_TICK &&
                   person->blobs.bytes > t->blobs.bytes_of_person_max) {
            drop(t, put);
            dropped++;
        }
    }
    if (drops) person->blobs.is_over = dropped == ROWS_A_TICK;
    kiln_map_deinit(&needed);
}

bool kiln_tracker_put_fits(kiln_tracker *t, kiln_tracker_person *person, uint64_t size) {
    const uint64_t most = t->blobs.bytes_of_person_max;
    if (!most || person->blobs.bytes + size <= most) return true;
    if (t->effects.now_ns - person->blobs.needed_ns >= KILN_TRACKER_TICK_NS)
        count_needed(t, person, false);
    return size <= most && person->blobs.needed_bytes <= most - size;
}

/* One person a tick, because it walks over all uploads. */
static void limit_one(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->people.all.count; i++) {
        kiln_tracker_person *person = t->people.all.data[i];
        if (!person->blobs.is_over) continue;
        person->blobs.is_over = false;
        if (!t->blobs.bytes_of_person_max || person->blobs.bytes <= t->blobs.bytes_of_person_max)
            continue;
        count_needed(t, person, true);
        return;
    }
}

void kiln_tracker_limit_blobs(kiln_tracker *t, uint64_t bytes_of_person) {
    t->blobs.bytes_of_person_max = bytes_of_person;
}

/* ---- Rows ---- */

/* The row of a change, in `arena`. */
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
    kiln_tracker_row_fill(&row, KILN_RECORD_kept_blob, &kept, &body);
    row.body = (kiln_str){kiln_arena_copy(arena, body.data, body.size), body.size};
    kiln_strbuf_deinit(&body);
    return row;
}

void kiln_tracker_puts_tick(kiln_tracker *t) {
    limit_one(t);
    const uint32_t count = KILN_MIN(t->blobs.changed.count, ROWS_A_TICK);
    if (count == 0) return;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_tracker_row *row = KILN_ARENA_ARRAY(&arena, kiln_tracker_row, count);
    for (uint32_t i = 0; i < count; i++) row[i] = row_of(t, &t->blobs.changed.data[i], &arena);
    kiln_tracker_persist_later(t, row, count);
    kiln_arena_deinit(&arena);
    t->blobs.changed.count -= count;
    memmove(t->blobs.changed.data, t->blobs.changed.data + count,
            t->blobs.changed.count * sizeof *t->blobs.changed.data);
}

/* Counts the upload to the person's bytes of that day (KILN_TRACKER_PUT_BYTES_A_DAY). */
static void count_today(const kiln_tracker_put *put) {
    const uint64_t day = put->put_ms / DAY_MS;
    if (day < put->person->blobs.day) return;
    if (day > put->person->blobs.day) put->person->blobs.day_bytes = 0;
    put->person->blobs.day = day;
    put->person->blobs.day_bytes += put->size;
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
    for (kiln_tracker_put *put = t->blobs.oldest; put; put = put->newer) kiln_vec_push(&all, put);
    if (all.count) qsort(all.data, all.count, sizeof(kiln_tracker_put *), by_use);
    t->blobs.oldest = t->blobs.newest = NULL;
    for (uint32_t i = 0; i < all.count; i++) append(t, all.data[i]);
    kiln_vec_deinit(&all);
    while (t->blobs.count > KILN_TRACKER_PUTS_MAX) forget(t, t->blobs.oldest);
}

void kiln_tracker_blobs_init(kiln_tracker *t) { kiln_map_init(&t->blobs.of_digest); }

void kiln_tracker_puts_free(kiln_tracker *t) {
    while (t->blobs.oldest) {
        kiln_tracker_put *put = t->blobs.oldest;
        t->blobs.oldest = put->newer;
        kiln_free(put);
    }
    kiln_vec_deinit(&t->blobs.changed);
    kiln_map_deinit(&t->blobs.of_digest);
}

/* ---- Invariants ---- */

void kiln_tracker_blobs_check(const kiln_tracker *t) {
    uint32_t count = 0;
    const kiln_tracker_put *older = NULL;
    for (const kiln_tracker_put *put = t->blobs.oldest; put; older = put, put = put->newer) {
        KILN_CHECK(put->older == older);
        KILN_CHECK(find(t, &put->digest, put->who) == put);
        count++;
    }
    KILN_CHECK(older == t->blobs.newest && count == t->blobs.count);
}
