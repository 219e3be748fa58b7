/* The tracker's rows on disk: what comes back is what was put, all of a commit or nothing of it. */
#include "tracker/keep.h"

#include "base/fail.h"
#include "tests/support/test.h"

#define TEXT(literal) {literal, sizeof(literal) - 1}
static const kiln_tracker_row the_rows[] = {
    {.kind = KILN_TRACKER_ROW_JOB,
     .id = TEXT("j"),
     .state = TEXT("running"),
     .body = TEXT("a job")},
    {.kind = KILN_TRACKER_ROW_BOARD, .id = TEXT("n"), .body = TEXT("a board")},
    {.kind = KILN_TRACKER_ROW_LEASE,
     .id = TEXT("n/1"),
     .board = TEXT("n"),
     .tuner = TEXT("boot"),
     .node = TEXT("tuner"),
     .job = TEXT("j"),
     .epoch = 7,
     .slot = 1,
     .trials = 64,
     .ttl_ms = 15000,
     .whole = true},
    {.kind = KILN_TRACKER_ROW_EPOCH, .id = TEXT("epoch"), .epoch = 7},
};
#define ROWS KILN_ARRAY_COUNT(the_rows)

static kiln_db *open_db(const char *folder, kiln_arena *arena) {
    kiln_db *db = NULL;
    expect_ok(kiln_db_open(kiln_arena_printf(arena, "%s/t.db", folder), KILN_DB_TRACKER,
                           KILN_DB_WRITE, &db));
    return db;
}

static kiln_status put_all(kiln_db *db) {
    kiln_status st = NULL;
    for (size_t i = 0; !st && i < ROWS; i++) st = kiln_tracker_keep_put(db, &the_rows[i]);
    if (!st) st = kiln_db_commit(db);
    if (st) kiln_db_rollback(db);
    return st;
}

static uint32_t read_all(const char *folder, kiln_arena *arena, kiln_tracker_row **out_rows) {
    uint32_t count = 0;
    kiln_db *db = open_db(folder, arena);
    expect_ok(kiln_tracker_keep_read(db, arena, out_rows, &count));
    kiln_db_close(db);
    return count;
}

static void what_was_put_comes_back_until_it_is_removed(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    kiln_tracker_row *row = NULL;
    kiln_db *db = open_db(folder, arena);
    expect_ok(put_all(db));
    expect_ok(put_all(db)); /* again: the same rows */
    kiln_db_close(db);
    assert_int_equal(read_all(folder, arena, &row), ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        assert_int_equal(row[i].kind, the_rows[i].kind);
        assert_true(kiln_str_equal(row[i].id, the_rows[i].id));
        assert_true(kiln_str_equal(row[i].state, the_rows[i].state));
        assert_true(kiln_str_equal(row[i].body, the_rows[i].body));
        assert_true(kiln_str_equal(row[i].tuner, the_rows[i].tuner));
        assert_true(kiln_str_equal(row[i].node, the_rows[i].node));
        assert_true(kiln_str_equal(row[i].job, the_rows[i].job));
        assert_int_equal(row[i].epoch, the_rows[i].epoch);
        assert_int_equal(row[i].slot, the_rows[i].slot);
        assert_int_equal(row[i].trials, the_rows[i].trials);
        assert_int_equal(row[i].ttl_ms, the_rows[i].ttl_ms);
        assert_int_equal(row[i].whole, the_rows[i].whole);
    }
    db = open_db(folder, arena);
    for (size_t i = 0; i < ROWS; i++) {
        kiln_tracker_row gone = the_rows[i];
        gone.removed = true;
        expect_ok(kiln_tracker_keep_put(db, &gone));
    }
    expect_ok(kiln_db_commit(db));
    kiln_db_close(db);
    assert_int_equal(read_all(folder, arena, &row), 0);
    remove_folder(folder);
}

/* Fails at each row and at the commit in turn, in a database that goes on. */
static void whichever_write_fails_all_or_nothing_is_there(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    kiln_tracker_row *row = NULL;
    expect_ok(kiln_fail_arm(NULL));
    for (size_t nth = 1; nth <= ROWS + 1; nth++) {
        kiln_db *db = open_db(folder, arena);
        const char *plan =
            nth > ROWS ? "DB_COMMIT=error" : kiln_arena_printf(arena, "DB_PUT:%zu=error", nth);
        expect_ok(kiln_fail_arm(plan));
        expect_error(put_all(db), RESOURCE_EXHAUSTED, "KILN_FAIL");
        expect_ok(kiln_fail_arm(NULL));
        assert_int_equal(read_all(folder, arena, &row), 0);
        kiln_db_close(db);
    }
    kiln_db *db = open_db(folder, arena);
    expect_ok(put_all(db));
    kiln_db_close(db);
    assert_int_equal(read_all(folder, arena, &row), ROWS);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(what_was_put_comes_back_until_it_is_removed),
        test_with_arena(whichever_write_fails_all_or_nothing_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
