/* The server that keeps the rows of trackers: transactions that are whole or not at all, and a lock
 * that one session at a time holds. */
#include <string.h>

#include "base/alloc.h"
#include "tests/sim/database.h"

typedef struct stored_row {
    kiln_arena arena;
    kiln_tracker_row row;
} stored_row;

struct sim_database {
    KILN_VEC(stored_row *) row;
    uint64_t last_session, leader; /* 0: nobody leads */
};

sim_database *sim_database_create(void) { return kiln_alloc(sizeof(sim_database)); }

static void free_row(stored_row *row) {
    kiln_arena_deinit(&row->arena);
    kiln_free(row);
}

void sim_database_destroy(sim_database *db) {
    for (uint32_t i = 0; i < db->row.count; i++) free_row(db->row.data[i]);
    kiln_vec_deinit(&db->row);
    kiln_free(db);
}

uint64_t sim_database_open(sim_database *db) { return ++db->last_session; }

void sim_database_close(sim_database *db, uint64_t session) {
    if (db->leader == session) db->leader = 0;
}

bool sim_database_lead(sim_database *db, uint64_t session) {
    if (db->leader == 0) db->leader = session;
    return db->leader == session;
}

bool sim_database_leads(const sim_database *db, uint64_t session) { return db->leader == session; }

static void write_row(sim_database *db, const kiln_tracker_row *row) {
    uint32_t at = 0;
    while (at < db->row.count && !(db->row.data[at]->row.kind == row->kind &&
                                   kiln_str_equal(db->row.data[at]->row.id, row->id)))
        at++;
    if (at < db->row.count) {
        free_row(db->row.data[at]);
        memmove(&db->row.data[at], &db->row.data[at + 1],
                (--db->row.count - at) * sizeof db->row.data[0]);
    }
    if (row->removed) return;
    stored_row *stored = kiln_alloc(sizeof *stored);
    kiln_arena_init(&stored->arena, 1024);
    stored->row = kiln_tracker_row_copy(row, &stored->arena);
    kiln_vec_push(&db->row, stored);
}

bool sim_database_write(sim_database *db, uint64_t session, const kiln_tracker_row *row,
                        uint32_t row_count) {
    if (session != db->leader) return false;
    for (uint32_t i = 0; i < row_count; i++) write_row(db, &row[i]);
    return true;
}

uint32_t sim_database_read(const sim_database *db, kiln_arena *arena, kiln_tracker_row **out_rows) {
    kiln_tracker_row *rows = KILN_ARENA_ARRAY(arena, kiln_tracker_row, db->row.count);
    for (uint32_t i = 0; i < db->row.count; i++) rows[i] = db->row.data[i]->row;
    *out_rows = rows;
    return db->row.count;
}

bool sim_database_has_lease(const sim_database *db, uint64_t lease) {
    for (uint32_t i = 0; i < db->row.count; i++)
        if (db->row.data[i]->row.kind == KILN_TRACKER_ROW_LEASE &&
            db->row.data[i]->row.epoch == lease)
            return true;
    return false;
}
