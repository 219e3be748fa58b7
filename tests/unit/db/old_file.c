#include "tests/unit/db/old_file.h"

#include <sqlite3.h>
#include <string.h>

#include "base/vec.h"
#include "db/backend.h"
#include "db/sqlite.h"
#include "tests/unit/db/support.h"

/* Texts with a meaning: identities and what refers to them, and names that the schema knows. */
static const char *text_of(const kiln_db_table_info *table, const char *column) {
    static const struct {
        const char *table, *column, *text; /* table NULL: any */
    } known[] = {
        {"task", "key", "t1"},
        {NULL, "task_key", "t1"},
        {NULL, "target", "cpu:x"},
        {"device", "id", "d1"},
        {NULL, "device_id", "d1"},
        {"fingerprint", "id", "f1"},
        {NULL, "fingerprint_id", "f1"},
        {"job", "id", "j1"},
        {NULL, "job_id", "j1"},
        {NULL, "outcome", "ok"},
        {NULL, "blame", "none"},
        {"signer", "trust", "own"},
        {"tombstone", "state", "forgotten"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(known); i++)
        if ((!known[i].table || strcmp(known[i].table, table->name) == 0) &&
            strcmp(known[i].column, column) == 0)
            return known[i].text;
    return column;
}

/* The value of a column as SQL; 1 and 2.5 are allowed wherever there is a rule. */
static void append_value(const kiln_db_table_info *table, const kiln_db_column *column,
                         kiln_strbuf *sql) {
    switch (column->type) {
    case KILN_DB_TEXT: kiln_strbuf_printf(sql, "'%s'", text_of(table, column->name)); break;
    case KILN_DB_BLOB: kiln_strbuf_text(sql, "x'00ff01'"); break;
    case KILN_DB_INT: kiln_strbuf_text(sql, "1"); break;
    case KILN_DB_REAL: kiln_strbuf_text(sql, "2.5"); break;
    case KILN_DB_SAMPLES: kiln_strbuf_text(sql, "x'00000000000004400000000000000440'"); break;
    }
}

static bool has_value(const kiln_db_table_info *table, const kiln_db_column *column,
                      const void *row) {
    static const double samples[] = {2.5, 2.5};
    const void *member = (const char *)row + column->offset;
    switch (column->type) {
    case KILN_DB_TEXT: return kiln_str_is(*(const kiln_str *)member, text_of(table, column->name));
    case KILN_DB_BLOB: return kiln_str_equal(*(const kiln_str *)member, KILN_STR("\0\xff\1"));
    case KILN_DB_INT: return *(const int64_t *)member == 1;
    case KILN_DB_REAL: return *(const double *)member == 2.5;
    case KILN_DB_SAMPLES: {
        const kiln_db_samples *found = member;
        return found->count == KILN_ARRAY_COUNT(samples) &&
               memcmp(found->data, samples, sizeof samples) == 0;
    }
    }
    return false;
}

static bool has_column(sqlite3 *handle, const char *table, const char *column) {
    sqlite3_stmt *statement = NULL;
    const char *sql = "SELECT 1 FROM pragma_table_info(?) WHERE name = ?";
    assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), SQLITE_OK);
    sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, column, -1, SQLITE_STATIC);
    bool found = sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return found;
}

/* "INSERT INTO t (a, b) VALUES (1, 2)" over the columns that are there; empty without any. */
static void append_insert(sqlite3 *handle, const kiln_db_table_info *table, kiln_strbuf *sql) {
    kiln_strbuf names = {0}, values = {0};
    for (uint32_t i = 0; i < table->column_count; i++) {
        const kiln_db_column *column = &table->column[i];
        if (!has_column(handle, table->name, column->name)) continue;
        kiln_strbuf_printf(&names, "%s\"%s\"", names.size ? ", " : "", column->name);
        if (values.size) kiln_strbuf_text(&values, ", ");
        append_value(table, column, &values);
    }
    if (names.size)
        kiln_strbuf_printf(sql, "INSERT INTO \"%s\" (%s) VALUES (%s);", table->name, names.data,
                           values.data);
    kiln_strbuf_deinit(&names);
    kiln_strbuf_deinit(&values);
}

void make_old_file(const char *path, kiln_db_kind kind, uint32_t version) {
    kiln_db *db = NULL;
    const kiln_db_migrations upto = {kiln_db_sqlite_migrations[kind].script, version};
    expect_ok(kiln_db_open_with(path, kind, KILN_DB_WRITE, &upto, &db));
    sqlite3 *handle = kiln_db_sqlite_handle(db);
    kiln_strbuf sql = {0};
    for (unsigned i = 0; i < KILN_DB_TABLE_COUNT; i++) {
        const kiln_db_table_info *table = kiln_db_table_info_of((kiln_db_table)i);
        if (table->kind == kind) append_insert(handle, table, &sql);
    }
    assert_int_equal(sqlite3_exec(handle, sql.data, NULL, NULL, NULL), SQLITE_OK);
    kiln_strbuf_deinit(&sql);
    kiln_db_close(db);
}

typedef struct comparison {
    sqlite3 *old;
    uint32_t rows, values;
} comparison;

static kiln_status compare_row(void *context, kiln_db_table table, const void *row) {
    comparison *c = context;
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    c->rows++;
    for (uint32_t i = 0; i < info->column_count; i++) {
        if (!has_column(c->old, info->name, info->column[i].name)) continue;
        c->values++;
        if (!has_value(info, &info->column[i], row))
            return KILN_ERROR(DATA_LOSS, "%s.%s changed", info->name, info->column[i].name);
    }
    return NULL;
}

void expect_old_rows(kiln_db *db, kiln_db_kind kind, uint32_t version) {
    sqlite3 *old = NULL; /* to ask what there was then */
    assert_int_equal(sqlite3_open(":memory:", &old), SQLITE_OK);
    for (uint32_t i = 0; i < version; i++) {
        const char *script = kiln_db_sqlite_migrations[kind].script[i];
        assert_int_equal(sqlite3_exec(old, script, NULL, NULL, NULL), SQLITE_OK);
    }
    for (unsigned i = 0; i < KILN_DB_TABLE_COUNT; i++) {
        const kiln_db_table_info *table = kiln_db_table_info_of((kiln_db_table)i);
        if (table->kind != kind) continue;
        comparison c = {.old = old};
        expect_ok(kiln_db_each(db, (kiln_db_table)i, compare_row, &c));
        bool was_there = has_column(old, table->name, table->column[0].name);
        assert_int_equal(c.rows, was_there);
        if (was_there) assert_true(c.values >= table->identity_count);
    }
    sqlite3_close(old);
}
