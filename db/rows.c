/* Tables as data: one generic writer and reader over the columns of rows.def. */
#include <string.h>

#include "base/check.h"
#include "base/stats.h"
#include "db/internal.h"

#define COLUMN(R, type, name, meaning) {#name, meaning, KILN_DB_##type, offsetof(R, name)},
#define TABLE(NAME, name, kind, conflict, identity, columns) \
    static const kiln_db_column name##_column[] = {columns(COLUMN, kiln_db_##name)};
#include "db/rows.def"
#undef TABLE

static const kiln_db_table_info table_info[] = {
#define TABLE(NAME, name, kind, conflict, identity, columns)   \
    [KILN_DB_TABLE_##NAME] = {#name,                           \
                              KILN_DB_##kind,                  \
                              KILN_DB_##conflict,              \
                              name##_column,                   \
                              KILN_ARRAY_COUNT(name##_column), \
                              identity,                        \
                              sizeof(kiln_db_##name)},
#include "db/rows.def"
#undef TABLE
};

#define TABLE(NAME, name, kind, conflict, identity, columns)                 \
    kiln_status kiln_db_put_##name(kiln_db *db, const kiln_db_##name *row) { \
        return kiln_db_put(db, KILN_DB_TABLE_##NAME, row);                   \
    }
#include "db/rows.def"
#undef TABLE

const kiln_db_table_info *kiln_db_table_info_of(kiln_db_table table) {
    KILN_CHECK((unsigned)table < KILN_DB_TABLE_COUNT);
    return &table_info[table];
}

bool kiln_db_table_find(kiln_str name, kiln_db_table *out_table) {
    for (size_t i = 0; i < KILN_DB_TABLE_COUNT; i++) {
        if (!kiln_str_is(name, table_info[i].name)) continue;
        *out_table = (kiln_db_table)i;
        return true;
    }
    return false;
}

void kiln_db_column_list(const kiln_db_table_info *table, const char *prefix, kiln_strbuf *out) {
    for (uint32_t i = 0; i < table->column_count; i++)
        kiln_strbuf_printf(out, "%s%s\"%s\"", i ? ", " : "", prefix, table->column[i].name);
}

/* "(a, b) DO NOTHING" or "(a) DO UPDATE SET b = excluded.b, ..." */
static void append_conflict(const kiln_db_table_info *table, kiln_strbuf *sql) {
    for (uint32_t i = 0; i < table->identity_count; i++)
        kiln_strbuf_printf(sql, "%s\"%s\"", i ? ", " : "(", table->column[i].name);
    if (table->conflict == KILN_DB_KEEP || table->identity_count == table->column_count) {
        kiln_strbuf_text(sql, ") DO NOTHING");
        return;
    }
    kiln_strbuf_text(sql, ") DO UPDATE SET ");
    for (uint32_t i = table->identity_count; i < table->column_count; i++)
        kiln_strbuf_printf(sql, "%s\"%s\" = excluded.\"%s\"", i > table->identity_count ? ", " : "",
                           table->column[i].name, table->column[i].name);
}

static kiln_status prepare_put(kiln_db *db, kiln_db_table table) {
    if (db->put[table]) return NULL;
    const kiln_db_table_info *info = &table_info[table];
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(&sql, "INSERT INTO \"%s\" (", info->name);
    kiln_db_column_list(info, "", &sql);
    for (uint32_t i = 0; i < info->column_count; i++)
        kiln_strbuf_text(&sql, i ? ", ?" : ") VALUES (?");
    kiln_strbuf_text(&sql, ") ON CONFLICT ");
    append_conflict(info, &sql);
    kiln_status st = kiln_db_prepare(db, sql.data, &db->put[table]);
    kiln_strbuf_deinit(&sql);
    return st;
}

void kiln_db_bind_text(sqlite3_stmt *statement, int index, kiln_str text) {
    if (text.size > 0)
        sqlite3_bind_text(statement, index, text.data, (int)text.size, SQLITE_STATIC);
    else
        sqlite3_bind_null(statement, index);
}

static void bind_column(sqlite3_stmt *statement, int index, const kiln_db_column *column,
                        const void *member) {
    switch (column->type) {
    case KILN_DB_TEXT: kiln_db_bind_text(statement, index, *(const kiln_str *)member); break;
    case KILN_DB_BLOB: {
        kiln_str bytes = *(const kiln_str *)member;
        if (bytes.size > 0)
            sqlite3_bind_blob(statement, index, bytes.data, (int)bytes.size, SQLITE_STATIC);
        break;
    }
    case KILN_DB_INT: sqlite3_bind_int64(statement, index, *(const int64_t *)member); break;
    case KILN_DB_REAL: sqlite3_bind_double(statement, index, *(const double *)member); break;
    case KILN_DB_SAMPLES: {
        kiln_db_samples samples = *(const kiln_db_samples *)member;
        if (samples.count > 0)
            sqlite3_bind_blob(statement, index, samples.data, (int)(samples.count * sizeof(double)),
                              SQLITE_STATIC);
        break;
    }
    }
}

/* Bytes of a column of variable size, for the limit. */
static size_t bytes_of(const kiln_db_column *column, const void *member) {
    switch (column->type) {
    case KILN_DB_TEXT:
    case KILN_DB_BLOB: return ((const kiln_str *)member)->size;
    case KILN_DB_SAMPLES: return ((const kiln_db_samples *)member)->count * sizeof(double);
    case KILN_DB_INT:
    case KILN_DB_REAL: break;
    }
    return 0;
}

static const void *member_of(const void *row, const kiln_db_column *column) {
    return (const char *)row + column->offset;
}

/* Median and minimum belong to the samples; nobody else may say what they are. */
static void derive_record(kiln_db_record *record) {
    record->median_ns = record->min_ns = 0;
    if (record->samples_ns.count == 0) return;
    kiln_stats stats = kiln_stats_of(record->samples_ns.data, record->samples_ns.count);
    record->median_ns = stats.median;
    record->min_ns = stats.minimum;
}

kiln_status kiln_db_put(kiln_db *db, kiln_db_table table, const void *row) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    KILN_CHECK(info->kind == db->kind);
    kiln_db_record derived;
    if (table == KILN_DB_TABLE_RECORD) {
        derived = *(const kiln_db_record *)row;
        derive_record(&derived);
        row = &derived;
    }
    for (uint32_t i = 0; i < info->column_count; i++)
        if (bytes_of(&info->column[i], member_of(row, &info->column[i])) > KILN_DB_TEXT_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "%s.%s is longer than %zu bytes", info->name,
                              info->column[i].name, KILN_DB_TEXT_MAX);

    kiln_status st = prepare_put(db, table);
    if (!st) st = kiln_db_begin(db);
    if (st) return st;
    for (uint32_t i = 0; i < info->column_count; i++)
        bind_column(db->put[table], (int)i + 1, &info->column[i], member_of(row, &info->column[i]));
    return kiln_db_run(db, db->put[table], info->name);
}

kiln_status kiln_db_remove(kiln_db *db, kiln_db_table table, kiln_str identity) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    KILN_CHECK(info->kind == db->kind && info->conflict == KILN_DB_REPLACE);
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(&sql, "DELETE FROM \"%s\" WHERE \"%s\" = ?", info->name,
                       info->column[0].name);
    sqlite3_stmt *statement = NULL;
    kiln_status st = kiln_db_prepare(db, sql.data, &statement);
    if (!st) st = kiln_db_begin(db);
    if (!st) {
        kiln_db_bind_text(statement, 1, identity);
        st = kiln_db_run(db, statement, info->name);
    }
    sqlite3_finalize(statement);
    kiln_strbuf_deinit(&sql);
    return st;
}

kiln_str kiln_db_column_bytes(sqlite3_stmt *statement, int index) {
    const void *data = sqlite3_column_blob(statement, index); /* before the size, says SQLite */
    return (kiln_str){data, (size_t)sqlite3_column_bytes(statement, index)};
}

static void read_column(sqlite3_stmt *statement, int index, const kiln_db_column *column,
                        kiln_arena *arena, void *member) {
    switch (column->type) {
    case KILN_DB_TEXT:
    case KILN_DB_BLOB: {
        kiln_str bytes = kiln_db_column_bytes(statement, index);
        *(kiln_str *)member = (kiln_str){kiln_str_dup(arena, bytes), bytes.size};
        break;
    }
    case KILN_DB_INT: *(int64_t *)member = sqlite3_column_int64(statement, index); break;
    case KILN_DB_REAL: *(double *)member = sqlite3_column_double(statement, index); break;
    case KILN_DB_SAMPLES: {
        kiln_str bytes = kiln_db_column_bytes(statement, index);
        size_t count = bytes.size / sizeof(double);
        *(kiln_db_samples *)member =
            (kiln_db_samples){kiln_arena_copy(arena, bytes.data, count * sizeof(double)), count};
        break;
    }
    }
}

void kiln_db_row_read(sqlite3_stmt *statement, const kiln_db_table_info *table, kiln_arena *arena,
                      void *row) {
    for (uint32_t i = 0; i < table->column_count; i++)
        read_column(statement, (int)i, &table->column[i], arena,
                    (char *)row + table->column[i].offset);
}

kiln_status kiln_db_each(kiln_db *db, kiln_db_table table, kiln_db_visit visit, void *context) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    KILN_CHECK(info->kind == db->kind);
    kiln_strbuf sql = {0};
    kiln_strbuf_text(&sql, "SELECT ");
    kiln_db_column_list(info, "", &sql);
    kiln_strbuf_printf(&sql, " FROM \"%s\" ORDER BY rowid", info->name);
    sqlite3_stmt *statement = NULL;
    kiln_status st = kiln_db_prepare(db, sql.data, &statement);
    kiln_strbuf_deinit(&sql);

    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    int rc = SQLITE_DONE;
    while (!st && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        kiln_arena_reset(&scratch);
        void *row = kiln_arena_alloc(&scratch, info->row_size);
        kiln_db_row_read(statement, info, &scratch, row);
        st = visit(context, table, row);
    }
    if (!st && rc != SQLITE_DONE) st = kiln_db_error(db->handle, db->path, rc, info->name);
    sqlite3_finalize(statement);
    kiln_arena_deinit(&scratch);
    return st;
}
