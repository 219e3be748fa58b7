/* Fuzzes records on the move (db/bundle.h): what is refused leaves the database as it was, what is
 * accepted can be read, and comes out again as a bundle that brings nothing new. */
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "db/bundle.h"
#include "tests/fuzz/fuzz.h"

#define ROWS_MAX 4096u /* then a new database */

typedef struct store {
    kiln_db *db;
    uint32_t count; /* of records */
} store;

/* Kept over inputs, as making one costs more than an input. Nothing of it has a name. */
static store *the_store(void) {
    static store s;
    if (s.db && s.count < ROWS_MAX) return &s;
    kiln_arena arena = {0};
    char *folder = NULL;
    kiln_db_close(s.db);
    s = (store){0};
    kiln_status st = kiln_folder_create_temp("kiln-fuzz", &arena, &folder);
    if (!st)
        st = kiln_db_open(kiln_arena_printf(&arena, "%s/t.db", folder), KILN_DB_RECORDS,
                          KILN_DB_WRITE, &s.db);
    if (!st) st = kiln_folder_remove(folder);
    KILN_CHECK(st == NULL);
    kiln_arena_deinit(&arena);
    return &s;
}

static uint32_t count_in(kiln_db *db) {
    kiln_arena arena = {0};
    kiln_db_filter all = {.whose = KILN_DB_ANY};
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_status st = kiln_db_records(db, &all, &arena, &record, &count);
    KILN_CHECK(st == NULL);
    kiln_arena_deinit(&arena);
    return count;
}

/* What is there is a bundle that the same database has already. */
static void check_round_trip(store *s) {
    kiln_db_filter all = {.whose = KILN_DB_ANY};
    kiln_strbuf bytes = {0};
    kiln_db_import_counts read = {0};
    kiln_status st = kiln_bundle_export(s->db, &all, 1, &bytes);
    if (!st) st = kiln_bundle_import(s->db, kiln_strbuf_view(&bytes), NULL, &read);
    KILN_CHECK(st == NULL);
    KILN_CHECK(read.records == s->count && count_in(s->db) == s->count);
    kiln_strbuf_deinit(&bytes);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    store *s = the_store();
    kiln_db_import_counts read = {0};
    uint32_t before = s->count;
    kiln_status st = kiln_bundle_import(s->db, (kiln_str){(const char *)data, size}, NULL, &read);
    s->count = count_in(s->db);
    KILN_CHECK(s->count >= before);
    KILN_CHECK(st ? s->count == before : s->count - before <= read.records);
    if (s->count > before) check_round_trip(s);
    kiln_status_free(st);
    return 0;
}
