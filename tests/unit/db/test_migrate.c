/* Schema versions, and that the schema holds what rows.def says. */
#include <stdio.h>
#include <string.h>

#include "db/backend.h"
#include "db/sqlite.h"
#include "tests/unit/db/old_file.h"
#include "tests/unit/db/support.h"

static sqlite3 *open_raw(const char *path) {
    sqlite3 *handle = NULL;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    return handle;
}

static void run_raw(const char *path, const char *sql) {
    sqlite3 *handle = open_raw(path);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(handle);
}

static int64_t number_of(sqlite3 *handle, const char *sql) {
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

static void a_newer_schema_is_refused_and_left_alone(void **state) {
    const char *path = path_in(state, "a.db");
    kiln_db_close(open_records(path));
    run_raw(path, "PRAGMA user_version = 999");
    kiln_db *db = NULL;
    expect_error(kiln_db_open(path, KILN_DB_RECORDS, KILN_DB_WRITE, &db), FAILED_PRECONDITION,
                 "newer Kiln");
    expect_error(kiln_db_open(path, KILN_DB_RECORDS, KILN_DB_READ, &db), FAILED_PRECONDITION,
                 "newer Kiln");
    sqlite3 *handle = open_raw(path);
    assert_int_equal(number_of(handle, "PRAGMA user_version"), 999);
    sqlite3_close(handle);
}

static void the_other_kind_of_database_is_refused(void **state) {
    const char *path = path_in(state, "a.db");
    kiln_db_close(open_records(path));
    kiln_db *db = NULL;
    expect_error(kiln_db_open(path, KILN_DB_TRACKER, KILN_DB_WRITE, &db), FAILED_PRECONDITION,
                 "a records database");
    const char *foreign = path_in(state, "foreign.db");
    run_raw(foreign, "CREATE TABLE of_somebody_else (x)");
    expect_error(kiln_db_open(foreign, KILN_DB_RECORDS, KILN_DB_WRITE, &db), FAILED_PRECONDITION,
                 "another program");
    sqlite3 *handle = open_raw(foreign);
    assert_int_equal(number_of(handle, "SELECT count(*) FROM sqlite_schema"), 1);
    sqlite3_close(handle);
}

static const char *const three_scripts[] = {
    "CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (1);",
    "ALTER TABLE a ADD COLUMN y INTEGER; UPDATE a SET y = x + 1;",
    "CREATE TABLE b (z INTEGER) STRICT; INSERT INTO b SELECT y FROM a;",
};

/* Opens for writing with the first `count` of `script`, and closes. */
static void migrate(const char *path, const char *const *script, uint32_t count) {
    kiln_db *db = NULL;
    expect_ok(kiln_db_open_with(path, KILN_DB_RECORDS, KILN_DB_WRITE,
                                &(kiln_db_migrations){script, count}, &db));
    assert_int_equal(number_of(kiln_db_sqlite_handle(db), "PRAGMA user_version"), count);
    kiln_db_close(db);
}

static void every_earlier_version_arrives_at_the_newest(void **state) {
    for (uint32_t from = 0; from <= 3; from++) {
        const char *path = path_in(state, (const char *[]){"0.db", "1.db", "2.db", "3.db"}[from]);
        migrate(path, three_scripts, from);
        migrate(path, three_scripts, 3);
        sqlite3 *handle = open_raw(path);
        assert_int_equal(number_of(handle, "SELECT z FROM b"), 2);
        sqlite3_close(handle);
    }
}

static void a_failing_script_leaves_the_version_before_it(void **state) {
    const char *path = path_in(state, "a.db");
    const char *const scripts[] = {
        three_scripts[0], "CREATE TABLE c (x INTEGER) STRICT; INSERT INTO nowhere VALUES (1);"};
    kiln_db *db = NULL;
    expect_error(kiln_db_open_with(path, KILN_DB_RECORDS, KILN_DB_WRITE,
                                   &(kiln_db_migrations){scripts, 2}, &db),
                 INTERNAL, "nowhere");
    sqlite3 *handle = open_raw(path);
    assert_int_equal(number_of(handle, "PRAGMA user_version"), 1);
    assert_int_equal(number_of(handle, "SELECT count(*) FROM sqlite_schema WHERE name = 'c'"), 0);
    sqlite3_close(handle);
}

static void reading_an_older_schema_asks_for_one_opening_for_writing(void **state) {
    const char *path = path_in(state, "a.db");
    migrate(path, three_scripts, 1);
    kiln_db *db = NULL;
    expect_error(kiln_db_open_with(path, KILN_DB_RECORDS, KILN_DB_READ,
                                   &(kiln_db_migrations){three_scripts, 2}, &db),
                 FAILED_PRECONDITION, "open it once for writing");
}

/* The table's columns as SQLite has them: "name TYPE,..." */
static void schema_columns(sqlite3 *handle, const char *table, kiln_strbuf *out) {
    sqlite3_stmt *statement = NULL;
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(&sql, "SELECT name, type FROM pragma_table_info('%s') ORDER BY cid", table);
    assert_int_equal(sqlite3_prepare_v2(handle, sql.data, -1, &statement, NULL), SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW)
        kiln_strbuf_printf(out, "%s %s,", sqlite3_column_text(statement, 0),
                           sqlite3_column_text(statement, 1));
    sqlite3_finalize(statement);
    kiln_strbuf_deinit(&sql);
}

static void rows_def_and_the_schema_list_the_same_columns(void **state) {
    static const char *const type_name[] = {
        [KILN_DB_TEXT] = "TEXT", [KILN_DB_BLOB] = "BLOB",    [KILN_DB_INT] = "INTEGER",
        [KILN_DB_REAL] = "REAL", [KILN_DB_SAMPLES] = "BLOB",
    };
    kiln_db *db[2] = {0};
    expect_ok(
        kiln_db_open(path_in(state, "r.db"), KILN_DB_RECORDS, KILN_DB_WRITE, &db[KILN_DB_RECORDS]));
    expect_ok(
        kiln_db_open(path_in(state, "t.db"), KILN_DB_TRACKER, KILN_DB_WRITE, &db[KILN_DB_TRACKER]));
    for (unsigned table = 0; table < KILN_DB_TABLE_COUNT; table++) {
        const kiln_db_table_info *info = kiln_db_table_info_of((kiln_db_table)table);
        kiln_strbuf wanted = {0}, found = {0};
        for (uint32_t i = 0; i < info->column_count; i++)
            kiln_strbuf_printf(&wanted, "%s %s,", info->column[i].name,
                               type_name[info->column[i].type]);
        schema_columns(kiln_db_sqlite_handle(db[info->kind]), info->name, &found);
        assert_string_equal(found.data ? found.data : "(no such table)", wanted.data);
        kiln_strbuf_deinit(&wanted);
        kiln_strbuf_deinit(&found);
    }
    for (int kind = 0; kind < 2; kind++) {
        int64_t tables = number_of(kiln_db_sqlite_handle(db[kind]),
                                   "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"
                                   " AND name <> 'record_stat'"); /* kept by a trigger */
        for (unsigned table = 0; table < KILN_DB_TABLE_COUNT; table++)
            tables -= (int)kiln_db_table_info_of((kiln_db_table)table)->kind == kind;
        assert_int_equal(tables, 0);
        kiln_db_close(db[kind]);
    }
}

static void a_database_is_durable_and_checks_its_references(void **state) {
    kiln_db *db = open_records(path_in(state, "a.db"));
    assert_int_equal(number_of(kiln_db_sqlite_handle(db), "PRAGMA foreign_keys"), 1);
    assert_int_equal(number_of(kiln_db_sqlite_handle(db), "PRAGMA synchronous"), 2); /* FULL */
    assert_int_equal(number_of(kiln_db_sqlite_handle(db),
                               "SELECT journal_mode = 'wal' FROM pragma_journal_mode"),
                     1);
    assert_int_equal(number_of(kiln_db_sqlite_handle(db),
                               "SELECT count(*) FROM pragma_table_list WHERE schema = 'main'"
                               " AND name NOT LIKE 'sqlite_%' AND NOT strict"),
                     0);
    kiln_db_close(db);
}

static void not_even_another_program_changes_a_record(void **state) {
    const char *path = path_in(state, "a.db");
    kiln_db *db = open_records(path);
    put_parents(db);
    put_record(db, 1, 500);
    expect_ok(kiln_db_commit(db));
    kiln_db_close(db);
    sqlite3 *handle = open_raw(path);
    assert_int_equal(sqlite3_exec(handle, "UPDATE record SET median_ns = 1", NULL, NULL, NULL),
                     SQLITE_CONSTRAINT);
    assert_int_equal(
        sqlite3_exec(handle, "UPDATE record SET median_ns = 1, standing = 3", NULL, NULL, NULL),
        SQLITE_CONSTRAINT);
    assert_int_equal(sqlite3_exec(handle, "DELETE FROM record", NULL, NULL, NULL),
                     SQLITE_CONSTRAINT);
    sqlite3_close(handle);
    assert_int_equal(count_records(path), 1);
}

/* A file's name, until the next call. */
static const char *numbered(int kind, uint32_t version) {
    static char name[32];
    snprintf(name, sizeof name, "%d-%u.db", kind, version);
    return name;
}

/* Every version that there ever was, of both kinds, with a row in each table that it had. */
static void files_of_every_earlier_version_keep_all_they_hold(void **state) {
    for (int kind = 0; kind < 2; kind++)
        for (uint32_t version = 1; version <= kiln_db_sqlite_migrations[kind].count; version++) {
            const char *path = path_in(state, numbered(kind, version));
            make_old_file(path, (kiln_db_kind)kind, version);
            kiln_db *db = NULL;
            expect_ok(kiln_db_open(path, (kiln_db_kind)kind, KILN_DB_WRITE, &db));
            expect_old_rows(db, (kiln_db_kind)kind, version);
            assert_int_equal(number_of(kiln_db_sqlite_handle(db),
                                       "SELECT count(*) FROM pragma_integrity_check"
                                       " WHERE integrity_check = 'ok'"),
                             1);
            assert_int_equal(number_of(kiln_db_sqlite_handle(db),
                                       "SELECT count(*) FROM pragma_foreign_key_check"),
                             0);
            kiln_db_close(db);
        }
}

/* Records from before there were counts are counted, and what is asked of them is answered. */
static void records_of_every_earlier_version_are_counted(void **state) {
    for (uint32_t version = 1; version <= kiln_db_sqlite_migrations[KILN_DB_RECORDS].count;
         version++) {
        const char *path = path_in(state, numbered(KILN_DB_RECORDS, version));
        make_old_file(path, KILN_DB_RECORDS, version);
        kiln_db *db = open_records(path);
        kiln_db_stat *stat = NULL;
        uint32_t count = 0;
        kiln_arena arena;
        kiln_arena_init(&arena, 0);
        expect_ok(kiln_db_stats(db, &arena, &stat, &count));
        assert_int_equal(count, 1);
        assert_int_equal(stat->record_count + stat->final_count, 1);
        assert_int_equal(stat->raced_count, version > 1); /* the column's value in old_file.c */
        assert_true(stat->sampled_ns == 5);
        assert_true(stat->best_ns == (version > 1 ? 0 : 2.5));
        kiln_arena_deinit(&arena);
        kiln_db_close(db);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_create, folder_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_newer_schema_is_refused_and_left_alone),
        TEST(the_other_kind_of_database_is_refused),
        TEST(every_earlier_version_arrives_at_the_newest),
        TEST(a_failing_script_leaves_the_version_before_it),
        TEST(reading_an_older_schema_asks_for_one_opening_for_writing),
        TEST(rows_def_and_the_schema_list_the_same_columns),
        TEST(files_of_every_earlier_version_keep_all_they_hold),
        TEST(records_of_every_earlier_version_are_counted),
        TEST(not_even_another_program_changes_a_record),
        TEST(a_database_is_durable_and_checks_its_references),
    };
    return cmocka_run_group_tests_name("db/migrate", tests, NULL, NULL);
}
