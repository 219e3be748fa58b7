#include "tracker/persistence.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/fail.h"
#include "base/map.h"
#include "base/vec.h"

#define ENTRY_BYTES ((size_t)512) /* usual size of a row */
#define ENTRIES_KEPT 64u          /* kept for the next group */

static const kiln_db_table table_of[] = {
    [KILN_TRACKER_ROW_JOB] = KILN_DB_TABLE_TRACKER_JOB,
    [KILN_TRACKER_ROW_SHARE] = KILN_DB_TABLE_TRACKER_SHARE,
    [KILN_TRACKER_ROW_BOARD] = KILN_DB_TABLE_TRACKER_BOARD,
    [KILN_TRACKER_ROW_LEASE] = KILN_DB_TABLE_TRACKER_LEASE,
    [KILN_TRACKER_ROW_EPOCH] = KILN_DB_TABLE_TRACKER_EPOCH,
    [KILN_TRACKER_ROW_PERSON] = KILN_DB_TABLE_TRACKER_PERSON,
    [KILN_TRACKER_ROW_PROJECT] = KILN_DB_TABLE_TRACKER_PROJECT,
    [KILN_TRACKER_ROW_MEMBER] = KILN_DB_TABLE_TRACKER_MEMBER,
    [KILN_TRACKER_ROW_QUOTA] = KILN_DB_TABLE_TRACKER_QUOTA,
    [KILN_TRACKER_ROW_SIGNER] = KILN_DB_TABLE_TRACKER_SIGNER,
    [KILN_TRACKER_ROW_FIGURES] = KILN_DB_TABLE_TRACKER_FIGURES,
    [KILN_TRACKER_ROW_BLOB] = KILN_DB_TABLE_TRACKER_BLOB,
    [KILN_TRACKER_ROW_UPGRADE] = KILN_DB_TABLE_TRACKER_UPGRADE,
    [KILN_TRACKER_ROW_CALENDAR] = KILN_DB_TABLE_TRACKER_CALENDAR,
};
_Static_assert(KILN_ARRAY_COUNT(table_of) == KILN_TRACKER_ROW_KIND_COUNT, "one table per kind");

/* Tables of rows with an identity and a record. */
#define BODY_TABLES(X)  \
    X(PERSON, person)   \
    X(PROJECT, project) \
    X(MEMBER, member)   \
    X(QUOTA, quota)     \
    X(SIGNER, signer)   \
    X(FIGURES, figures) \
    X(BLOB, blob)       \
    X(SHARE, share)     \
    X(BOARD, board)     \
    X(UPGRADE, upgrade) \
    X(CALENDAR, calendar)

static kiln_status put_lease(kiln_db *db, const kiln_tracker_row *row) {
    return kiln_db_put_tracker_lease(db,
                                     &(kiln_db_tracker_lease){.id = row->id,
                                                              .board = row->board,
                                                              .tuner = row->tuner,
                                                              .job = row->job,
                                                              .epoch = (int64_t)row->epoch,
                                                              .slot = row->slot,
                                                              .trials = row->trials,
                                                              .ttl_ms = row->ttl_ms,
                                                              .node = row->node,
                                                              .whole = row->whole,
                                                              .request = (int64_t)row->request});
}

kiln_status kiln_tracker_row_put(kiln_db *db, const kiln_tracker_row *row) {
    if (row->removed) return kiln_db_remove(db, table_of[row->kind], row->id);
    switch (row->kind) {
    case KILN_TRACKER_ROW_JOB:
        return kiln_db_put_tracker_job(db, &(kiln_db_tracker_job){row->id, row->state, row->body});
    case KILN_TRACKER_ROW_LEASE: return put_lease(db, row);
#define X(NAME, name)             \
    case KILN_TRACKER_ROW_##NAME: \
        return kiln_db_put_tracker_##name(db, &(kiln_db_tracker_##name){row->id, row->body});
        BODY_TABLES(X)
#undef X
    case KILN_TRACKER_ROW_EPOCH:
        return kiln_db_put_tracker_epoch(db,
                                         &(kiln_db_tracker_epoch){row->id, (int64_t)row->epoch});
    case KILN_TRACKER_ROW_KIND_COUNT: break;
    }
    return KILN_ERROR(INTERNAL, "a row of unknown kind %d", (int)row->kind);
}

/* ---- Reading ---- */

typedef struct reader {
    kiln_arena *arena;
    KILN_VEC(kiln_tracker_row) rows;
} reader;

static kiln_tracker_row row_of(kiln_db_table table, const void *data) {
    if (table == KILN_DB_TABLE_TRACKER_JOB) {
        const kiln_db_tracker_job *job = data;
        return (kiln_tracker_row){
            .kind = KILN_TRACKER_ROW_JOB, .id = job->id, .state = job->state, .body = job->body};
    }
#define X(NAME, name)                                                               \
    if (table == KILN_DB_TABLE_TRACKER_##NAME) {                                    \
        const kiln_db_tracker_##name *found = data;                                 \
        return (kiln_tracker_row){                                                  \
            .kind = KILN_TRACKER_ROW_##NAME, .id = found->id, .body = found->body}; \
    }
    BODY_TABLES(X)
#undef X
    if (table == KILN_DB_TABLE_TRACKER_EPOCH) {
        const kiln_db_tracker_epoch *epoch = data;
        return (kiln_tracker_row){
            .kind = KILN_TRACKER_ROW_EPOCH, .id = epoch->id, .epoch = (uint64_t)epoch->epoch};
    }
    const kiln_db_tracker_lease *lease = data;
    return (kiln_tracker_row){.kind = KILN_TRACKER_ROW_LEASE,
                              .id = lease->id,
                              .board = lease->board,
                              .tuner = lease->tuner,
                              .node = lease->node,
                              .job = lease->job,
                              .epoch = (uint64_t)lease->epoch,
                              .slot = (uint32_t)lease->slot,
                              .trials = (uint32_t)lease->trials,
                              .ttl_ms = (uint32_t)lease->ttl_ms,
                              .whole = lease->whole != 0,
                              .request = (uint64_t)lease->request};
}

static kiln_status read_row(void *context, kiln_db_table table, const void *data) {
    reader *r = context;
    kiln_tracker_row row = row_of(table, data);
    kiln_vec_push_in(r->arena, &r->rows, kiln_tracker_row_copy(&row, r->arena));
    return KILN_OK;
}

kiln_status kiln_tracker_rows_read(kiln_db *db, kiln_arena *arena, kiln_tracker_row **out_rows,
                                   uint32_t *out_count) {
    reader r = {.arena = arena};
    kiln_status st = KILN_OK;
    for (unsigned kind = 0; !st && kind < KILN_TRACKER_ROW_KIND_COUNT; kind++)
        st = kiln_db_each(db, table_of[kind], read_row, &r);
    *out_rows = r.rows.data;
    *out_count = r.rows.count;
    return st;
}

/* ---- The persistence ---- */

/* A collected row. It has its own arena, because a later row with its identity overwrites it. */
typedef struct entry {
    kiln_tracker_row row;
    kiln_arena arena;
} entry;

typedef struct group {
    KILN_VEC(entry *)
    entry; /* the first `count` are collected; the others are reused by later groups */
    uint32_t count;
    kiln_map entry_of;    /* kind and id -> index */
    uint64_t first, last; /* PERSIST actions; 0: none */
    bool awaited;
} group;

struct kiln_tracker_persistence {
    kiln_loop *loop;
    kiln_db *db;
    kiln_tracker_persisted kept;
    void *context;
    group group[2];
    unsigned collecting; /* index of the group that collects; the other belongs to the pool while
                            `busy` */
    bool busy;
    bool again;         /* commit the collected rows when the group under way is done */
    kiln_status status; /* of the group under way */
};

kiln_tracker_persistence *kiln_tracker_persistence_create(kiln_loop *loop, kiln_db *db,
                                                          kiln_tracker_persisted kept,
                                                          void *context) {
    kiln_tracker_persistence *persistence = kiln_alloc(sizeof *persistence);
    *persistence =
        (kiln_tracker_persistence){.loop = loop, .db = db, .kept = kept, .context = context};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(persistence->group); i++)
        kiln_map_init(&persistence->group[i].entry_of);
    return persistence;
}

static void free_entry(entry *e) {
    kiln_arena_deinit(&e->arena);
    kiln_free(e);
}

static entry *new_entry(group *g) {
    if (g->count == g->entry.count) {
        entry *made = kiln_alloc(sizeof *made);
        kiln_arena_init(&made->arena, ENTRY_BYTES);
        kiln_vec_push(&g->entry, made);
    }
    return g->entry.data[g->count++];
}

static void add_row(group *g, const kiln_tracker_row *row) {
    char name[KILN_TRACKER_ROW_ID_MAX + 16];
    int size = snprintf(name, sizeof name, "%d/%.*s", (int)row->kind, KILN_STR_ARG(row->id));
    KILN_CHECK(size > 0 && (size_t)size < sizeof name);
    kiln_str key = {name, (size_t)size};
    uint64_t at = g->count;
    entry *e = kiln_map_find(&g->entry_of, key, &at) ? g->entry.data[at] : new_entry(g);
    kiln_map_put(&g->entry_of, key, at);
    kiln_arena_reset(&e->arena);
    e->row = kiln_tracker_row_copy(row, &e->arena);
}

void kiln_tracker_persistence_add(kiln_tracker_persistence *persistence,
                                  const kiln_tracker_action *persist) {
    group *g = &persistence->group[persistence->collecting];
    KILN_CHECK(g->first == 0 || persist->persist == g->last + 1);
    if (g->first == 0) g->first = persist->persist;
    g->last = persist->persist;
    g->awaited |= !persist->may_wait;
    for (uint32_t i = 0; i < persist->row_count; i++) add_row(g, &persist->row[i]);
}

/* Writes all of the group or nothing. */
static kiln_status write_group(kiln_db *db, const group *g) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < g->count; i++)
        st = kiln_tracker_row_put(db, &g->entry.data[i]->row);
    if (!st) return kiln_db_commit(db);
    kiln_db_rollback(db);
    return st;
}

/* Empties the group; frees memory that a burst needed. */
static void empty(group *g) {
    while (g->entry.count > ENTRIES_KEPT) free_entry(kiln_vec_pop(&g->entry));
    g->first = g->last = 0;
    g->awaited = false;
    g->count = 0;
    kiln_map_reset(&g->entry_of);
}

/* On a thread of the pool. */
static void run_commit(void *context) {
    kiln_tracker_persistence *persistence = context;
    persistence->status =
        write_group(persistence->db, &persistence->group[!persistence->collecting]);
}

static void on_committed(void *context) {
    kiln_tracker_persistence *persistence = context;
    group *g = &persistence->group[!persistence->collecting];
    uint64_t first = g->first, last = g->last;
    kiln_status st = persistence->status;
    persistence->status = NULL;
    persistence->busy = false;
    empty(g);
    if (!st) kiln_fail_pass(KILN_FAIL_TRACKER_KEPT);
    if (persistence->again)
        kiln_tracker_persistence_commit(
            persistence); /* before the callback, so that the disk is not idle meanwhile */
    persistence->kept(persistence->context, first, last, st);
}

void kiln_tracker_persistence_commit(kiln_tracker_persistence *persistence) {
    bool is_empty = persistence->group[persistence->collecting].first == 0;
    persistence->again = persistence->busy && !is_empty;
    if (persistence->busy || is_empty) return;
    persistence->collecting = !persistence->collecting;
    persistence->busy = true;
    kiln_loop_work(persistence->loop, run_commit, on_committed, persistence);
}

void kiln_tracker_persistence_turn(kiln_tracker_persistence *persistence) {
    if (persistence->group[persistence->collecting].awaited)
        kiln_tracker_persistence_commit(persistence);
}

bool kiln_tracker_persistence_is_busy(const kiln_tracker_persistence *persistence) {
    return persistence->busy;
}

static void free_group(group *g) {
    while (g->entry.count > 0) free_entry(kiln_vec_pop(&g->entry));
    kiln_vec_deinit(&g->entry);
    kiln_map_deinit(&g->entry_of);
}

kiln_status kiln_tracker_persistence_destroy(kiln_tracker_persistence *persistence) {
    if (!persistence) return KILN_OK;
    KILN_CHECK(!persistence->busy);
    kiln_status st = write_group(persistence->db, &persistence->group[persistence->collecting]);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(persistence->group); i++)
        free_group(&persistence->group[i]);
    kiln_free(persistence);
    return st;
}
