#include "tracker/keep.h"

#include "base/vec.h"

static const kiln_db_table table_of[] = {
    [KILN_TRACKER_ROW_JOB] = KILN_DB_TABLE_TRACKER_JOB,
    [KILN_TRACKER_ROW_SHARE] = KILN_DB_TABLE_TRACKER_SHARE,
    [KILN_TRACKER_ROW_BOARD] = KILN_DB_TABLE_TRACKER_BOARD,
    [KILN_TRACKER_ROW_LEASE] = KILN_DB_TABLE_TRACKER_LEASE,
    [KILN_TRACKER_ROW_EPOCH] = KILN_DB_TABLE_TRACKER_EPOCH,
};
_Static_assert(KILN_ARRAY_COUNT(table_of) == KILN_TRACKER_ROW_KIND_COUNT, "one table per kind");

static kiln_status put_lease(kiln_db *db, const kiln_tracker_row *row) {
    return kiln_db_put_tracker_lease(db, &(kiln_db_tracker_lease){.id = row->id,
                                                                  .board = row->board,
                                                                  .tuner = row->tuner,
                                                                  .job = row->job,
                                                                  .epoch = (int64_t)row->epoch,
                                                                  .slot = row->slot,
                                                                  .trials = row->trials,
                                                                  .ttl_ms = row->ttl_ms,
                                                                  .node = row->node,
                                                                  .whole = row->whole});
}

kiln_status kiln_tracker_keep_put(kiln_db *db, const kiln_tracker_row *row) {
    if (row->removed) return kiln_db_remove(db, table_of[row->kind], row->id);
    switch (row->kind) {
    case KILN_TRACKER_ROW_JOB:
        return kiln_db_put_tracker_job(db, &(kiln_db_tracker_job){row->id, row->state, row->body});
    case KILN_TRACKER_ROW_SHARE:
        return kiln_db_put_tracker_share(db, &(kiln_db_tracker_share){row->id, row->body});
    case KILN_TRACKER_ROW_BOARD:
        return kiln_db_put_tracker_board(db, &(kiln_db_tracker_board){row->id, row->body});
    case KILN_TRACKER_ROW_LEASE: return put_lease(db, row);
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
    if (table == KILN_DB_TABLE_TRACKER_SHARE) {
        const kiln_db_tracker_share *share = data;
        return (kiln_tracker_row){
            .kind = KILN_TRACKER_ROW_SHARE, .id = share->id, .body = share->body};
    }
    if (table == KILN_DB_TABLE_TRACKER_BOARD) {
        const kiln_db_tracker_board *board = data;
        return (kiln_tracker_row){
            .kind = KILN_TRACKER_ROW_BOARD, .id = board->id, .body = board->body};
    }
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
                              .whole = lease->whole != 0};
}

static kiln_status read_row(void *context, kiln_db_table table, const void *data) {
    reader *r = context;
    kiln_tracker_row row = row_of(table, data);
    kiln_vec_push_in(r->arena, &r->rows, kiln_tracker_row_copy(&row, r->arena));
    return KILN_OK;
}

kiln_status kiln_tracker_keep_read(kiln_db *db, kiln_arena *arena, kiln_tracker_row **out_rows,
                                   uint32_t *out_count) {
    reader r = {.arena = arena};
    kiln_status st = KILN_OK;
    for (unsigned kind = 0; !st && kind < KILN_TRACKER_ROW_KIND_COUNT; kind++)
        st = kiln_db_each(db, table_of[kind], read_row, &r);
    *out_rows = r.rows.data;
    *out_count = r.rows.count;
    return st;
}
