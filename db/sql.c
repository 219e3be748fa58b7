/* A person's own read-only statement over the database (`kiln db sql`). */
#include <string.h>

#include "base/vec.h"
#include "db/internal.h"

/* Reading needs nothing else; ATTACH would open other files, and a PRAGMA with an argument changes
 * things. */
static int allow_reading(void *context, int action, const char *first, const char *second,
                         const char *database, const char *trigger) {
    (void)context, (void)database, (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_FUNCTION:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_PRAGMA:
        return !second || strncmp(first, "table_", 6) == 0 || strncmp(first, "index_", 6) == 0
                   ? SQLITE_OK
                   : SQLITE_DENY;
    default: return SQLITE_DENY;
    }
}

/* A blob as hex in `row_arena`; anything else as SQLite prints it. */
static const char *cell_text(sqlite3_stmt *statement, int index, kiln_arena *row_arena) {
    int type = sqlite3_column_type(statement, index);
    if (type == SQLITE_NULL) return NULL;
    if (type != SQLITE_BLOB) return (const char *)sqlite3_column_text(statement, index);
    kiln_str bytes = kiln_db_column_bytes(statement, index);
    char *hex = kiln_arena_alloc(row_arena, bytes.size * 2 + 1);
    static const char digit[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes.size; i++) {
        hex[2 * i] = digit[(uint8_t)bytes.data[i] >> 4];
        hex[2 * i + 1] = digit[(uint8_t)bytes.data[i] & 15];
    }
    return hex;
}

static kiln_status visit_rows(kiln_db *db, sqlite3_stmt *statement, kiln_arena *arena,
                              kiln_db_sql_row row, void *context) {
    uint32_t count = (uint32_t)sqlite3_column_count(statement);
    const char **names = KILN_ARENA_ARRAY(arena, const char *, count);
    const char **cells = KILN_ARENA_ARRAY(arena, const char *, count);
    for (uint32_t i = 0; i < count; i++) names[i] = sqlite3_column_name(statement, (int)i);
    kiln_arena row_arena;
    kiln_arena_init(&row_arena, 0);
    kiln_status st = NULL;
    int rc = SQLITE_DONE;
    while (!st && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        kiln_arena_reset(&row_arena);
        for (uint32_t i = 0; i < count; i++) cells[i] = cell_text(statement, (int)i, &row_arena);
        st = row(context, count, names, cells);
    }
    if (!st && rc != SQLITE_DONE)
        st = kiln_db_error(db->handle, db->path, rc, "running the statement");
    kiln_arena_deinit(&row_arena);
    return st;
}

static kiln_status prepare_reading(kiln_db *db, kiln_str sql, sqlite3_stmt **out_statement) {
    if (sql.size > KILN_DB_TEXT_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "the statement is too long");
    const char *rest = NULL;
    sqlite3_stmt *statement = NULL;
    sqlite3_set_authorizer(db->handle, allow_reading, NULL);
    int rc = sqlite3_prepare_v2(db->handle, sql.data, (int)sql.size, &statement, &rest);
    sqlite3_set_authorizer(db->handle, NULL, NULL);
    if (rc == SQLITE_AUTH)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "only reading is possible here; the statement would change something");
    if (rc != SQLITE_OK) return KILN_ERROR(INVALID_ARGUMENT, "%s", sqlite3_errmsg(db->handle));

    kiln_str left = kiln_str_trim((kiln_str){rest, (size_t)(sql.data + sql.size - rest)});
    kiln_status st = NULL;
    if (!statement)
        st = KILN_ERROR(INVALID_ARGUMENT, "there is no statement");
    else if (left.size > 0)
        st = KILN_ERROR(INVALID_ARGUMENT, "one statement at a time: \"%.*s\" is left",
                        KILN_STR_ARG(left));
    if (st)
        sqlite3_finalize(statement);
    else
        *out_statement = statement;
    return st;
}

kiln_status kiln_db_sql(kiln_db *db, kiln_str sql, kiln_db_sql_row row, void *context) {
    sqlite3_stmt *statement = NULL;
    kiln_status st = prepare_reading(db, sql, &statement);
    if (st) return st;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    st = visit_rows(db, statement, &arena, row, context);
    sqlite3_finalize(statement);
    kiln_arena_deinit(&arena);
    return st;
}
