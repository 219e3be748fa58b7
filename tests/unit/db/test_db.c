/* Opening, groups, statements, leadership: what every back end promises. Runs over files, and in
 * tests/unit/db/contract.py over a server. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "db/backend.h"
#include "tests/unit/db/support.h"

static kiln_status keep_text(void *context, uint32_t count, const kiln_db_cell *cell) {
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(context, "%s=%s;", cell[i].name, cell[i].text ? cell[i].text : "NULL");
    return NULL;
}

static kiln_status stop_after(void *context, kiln_db_table table, const void *row) {
    (void)table, (void)row;
    uint32_t *left = context;
    return --*left > 0 ? NULL : KILN_ERROR(CANCELLED, "enough");
}

static void what_was_committed_is_there_after_reopening(void **state) {
    kiln_db *db = open_records(place(state, 0));
    put_parents(db);
    put_record(db, 1, 500);
    assert_true(kiln_db_pending(db));
    expect_ok(kiln_db_commit(db));
    assert_false(kiln_db_pending(db));
    expect_ok(kiln_db_commit(db)); /* nothing is open: nothing happens */
    put_record(db, 2, 500);        /* not committed: closing forgets it */
    kiln_db_close(db);
    assert_int_equal(count_records(place(state, 0)), 1);
}

static void a_reader_beside_the_writer_sees_whole_groups_only(void **state) {
    kiln_db *db = open_records(place(state, 0));
    put_parents(db);
    for (unsigned i = 0; i < 10; i++) put_record(db, i, 500);
    assert_int_equal(count_records(place(state, 0)), 0);
    expect_ok(kiln_db_commit(db));
    assert_int_equal(count_records(place(state, 0)), 10);
    kiln_db_close(db);
}

static void a_refused_row_leaves_the_group_as_it_was(void **state) {
    kiln_db *db = open_records(place(state, 0));
    put_parents(db);
    put_record(db, 1, 500);
    kiln_db_record orphan = record_of(2, 500);
    orphan.task_key = KILN_STR("unknown");
    expect_error(put_now(db, &orphan), INVALID_ARGUMENT, "record: ");
    put_record(db, 3, 500);
    expect_ok(kiln_db_commit(db));
    kiln_db_close(db);
    assert_int_equal(count_records(place(state, 0)), 2);
}

/* What is refused among many parts from the rest, whether it is known row by row or later. */
static void of_many_rows_only_the_bad_ones_are_refused(void **state) {
    kiln_db *db = open_records(place(state, 0));
    put_parents(db);
    uint32_t refused = 0;
    for (unsigned i = 0; i < 600; i++) {
        kiln_db_record row = record_of(i, 500);
        if (i % 100 == 7) row.task_key = KILN_STR("unknown");
        kiln_status st = kiln_db_put_record(db, &row);
        if (i % 200 == 199 && !st) st = kiln_db_settle(db);
        if (!st) continue;
        expect_error(st, INVALID_ARGUMENT, "record: ");
        refused++;
    }
    assert_int_equal(refused, on_server() ? 3 : 6); /* the first of each settling */
    expect_ok(kiln_db_settle(db));
    expect_ok(kiln_db_commit(db));
    assert_int_equal(count_records(place(state, 0)), 594);
    expect_ok(kiln_db_settle(db)); /* nothing is open: nothing happens */
    kiln_db_close(db);
}

/* Offered to a commit, a bad row takes its group with it; a file refuses it before. */
static void a_bad_row_never_reaches_the_disk(void **state) {
    kiln_db *db = open_records(place(state, 0));
    put_parents(db);
    put_record(db, 1, 500);
    expect_ok(kiln_db_commit(db));
    put_record(db, 2, 500);
    kiln_db_record orphan = record_of(3, 500);
    orphan.task_key = KILN_STR("unknown");
    kiln_status st = kiln_db_put_record(db, &orphan);
    uint32_t left = st ? 2 : 1;
    if (!st)
        st = kiln_db_commit(db);
    else
        expect_ok(kiln_db_commit(db));
    expect_error(st, INVALID_ARGUMENT, "record: ");
    assert_false(kiln_db_pending(db));
    assert_int_equal(count_records(place(state, 0)), left);
    put_record(db, 2, 500); /* stored once in both cases */
    expect_ok(kiln_db_commit(db));
    kiln_db_close(db);
    assert_int_equal(count_records(place(state, 0)), 2);
}

/* What a read in a group sees is that group, sent or not. */
static void a_group_reads_its_own_rows(void **state) {
    kiln_db *db = open_records(place(state, 0));
    put_parents(db);
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (unsigned i = 1; i <= 3; i++) {
        kiln_db_record *record = NULL;
        uint32_t count = 0;
        put_record(db, i, 500);
        expect_ok(kiln_db_records(db, &(kiln_db_filter){0}, &arena, &record, &count));
        assert_int_equal(count, i);
    }
    kiln_db_rollback(db);
    kiln_arena_deinit(&arena);
    kiln_db_close(db);
    assert_int_equal(count_records(place(state, 0)), 0);
}

static void a_group_that_is_taken_back_leaves_nothing(void **state) {
    kiln_db *db = open_records(place(state, 0));
    put_parents(db);
    put_record(db, 1, 500);
    kiln_db_rollback(db);
    assert_false(kiln_db_pending(db));
    kiln_db_rollback(db);
    put_record(db, 2, 500);
    expect_ok(kiln_db_commit(db));
    kiln_db_close(db);
    assert_int_equal(count_records(place(state, 0)), 1);
}

static void several_writers_take_turns(void **state) {
    kiln_db *one = open_records(place(state, 0)), *other = open_records(place(state, 0));
    put_parents(one);
    for (unsigned i = 0; i < 20; i++) {
        kiln_db *db = i % 2 ? one : other;
        put_record(db, i, 500);
        put_record(db, i / 2, 500); /* stored already, maybe by the other */
        expect_ok(kiln_db_commit(db));
    }
    kiln_db_close(one);
    kiln_db_close(other);
    assert_int_equal(count_records(place(state, 0)), 20);
}

static void reading_what_is_not_there_says_so(void **state) {
    kiln_db *db = NULL;
    expect_error(kiln_db_open(place(state, 0), KILN_DB_RECORDS, KILN_DB_READ, &db), NOT_FOUND,
                 "there is no");
    assert_int_equal(kiln_db_is_there(place(state, 0)), on_server()); /* only opening can tell */
    kiln_db_close(open_records(place(state, 0)));
    assert_true(kiln_db_is_there(place(state, 0)));
    kiln_db_close(open_as(place(state, 0), KILN_DB_READ));
}

/* A program that opens the new database, stores a target of its own, and ends with 0 or an error.
 */
static int open_and_put(const char *path, unsigned number) {
    char name[2] = {(char)('a' + number), 0};
    kiln_db *db = NULL;
    kiln_status st = kiln_db_open(path, KILN_DB_RECORDS, KILN_DB_WRITE, &db);
    if (!st) st = kiln_db_put_target(db, &(kiln_db_target){kiln_str_from(name)});
    if (!st) st = kiln_db_commit(db);
    if (st) fprintf(stderr, "%s\n", kiln_status_text(st));
    kiln_db_close(db);
    return kiln_code_exit(kiln_status_code(st));
}

static void programs_that_open_a_new_database_at_once_all_get_in(void **state) {
    place(state, 0); /* empties it, once */
    pid_t child[6];
    for (unsigned i = 0; i < KILN_ARRAY_COUNT(child); i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0) _exit(open_and_put(place(state, 0), i));
    }
    for (unsigned i = 0; i < KILN_ARRAY_COUNT(child); i++) {
        int status = -1;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    kiln_db *db = open_as(place(state, 0), KILN_DB_READ);
    uint32_t left = KILN_ARRAY_COUNT(child) + 1;
    expect_ok(kiln_db_each(db, KILN_DB_TABLE_TARGET, stop_after, &left));
    assert_int_equal(left, 1);
    kiln_db_close(db);
}

static void only_one_leads_until_it_closes(void **state) {
    kiln_db *first = open_records(place(state, 0)), *second = open_records(place(state, 0));
    bool leads = false;
    expect_ok(kiln_db_lead(first, &leads));
    assert_true(leads);
    expect_ok(kiln_db_lead(second, &leads));
    assert_false(leads);
    expect_ok(kiln_db_lead(first, &leads)); /* stays so */
    assert_true(leads);
    put_parents(second); /* writing is another thing */
    kiln_db_close(first);
    leads = false;
    const uint64_t end_ns = kiln_clock_ns() + 300 * KILN_NS_PER_S;
    while (!leads && kiln_clock_ns() < end_ns) { /* a server notices soon */
        expect_ok(kiln_db_lead(second, &leads));
        kiln_clock_wait_until(kiln_clock_ns() + KILN_NS_PER_MS);
    }
    assert_true(leads);
    kiln_db_close(second);
}

static void rows_that_are_replaced_keep_their_place_and_can_be_removed(void **state) {
    kiln_db *db = NULL;
    expect_ok(kiln_db_open(place(state, 0), KILN_DB_TRACKER, KILN_DB_WRITE, &db));
    kiln_db_tracker_job job = {KILN_STR("a"), KILN_STR("open"), KILN_STR("\0\1")};
    expect_ok(kiln_db_put_tracker_job(db, &job));
    job.id = KILN_STR("b");
    expect_ok(kiln_db_put_tracker_job(db, &job));
    job = (kiln_db_tracker_job){KILN_STR("a"), KILN_STR("done"), KILN_STR("\2")};
    expect_ok(kiln_db_put_tracker_job(db, &job));
    expect_ok(kiln_db_remove(db, KILN_DB_TABLE_TRACKER_JOB, KILN_STR("b")));
    expect_ok(kiln_db_remove(db, KILN_DB_TABLE_TRACKER_JOB, KILN_STR("never there")));
    kiln_db_tracker_signer signer = {KILN_STR("p/00ff"), KILN_STR("\3")};
    expect_ok(kiln_db_put_tracker_signer(db, &signer));
    signer.id = KILN_STR("q/00ff");
    expect_ok(kiln_db_put_tracker_signer(db, &signer));
    expect_ok(kiln_db_remove(db, KILN_DB_TABLE_TRACKER_SIGNER, KILN_STR("p/00ff")));
    expect_ok(kiln_db_commit(db));
    expect_ok(kiln_db_remove(db, KILN_DB_TABLE_TRACKER_JOB, KILN_STR("a")));
    kiln_db_rollback(db); /* it is there again */
    kiln_strbuf cells = {0};
    expect_ok(
        kiln_db_sql(db, KILN_STR("SELECT id, state, body FROM tracker_job"), keep_text, &cells));
    assert_string_equal(cells.data, "id=a;state=done;body=02;");
    kiln_strbuf_reset(&cells);
    expect_ok(kiln_db_sql(db, KILN_STR("SELECT id, body FROM tracker_signer"), keep_text, &cells));
    assert_string_equal(cells.data, "id=q/00ff;body=03;");
    kiln_strbuf_deinit(&cells);
    kiln_db_close(db);
}

static void the_fence_of_a_tracker_never_goes_back(void **state) {
    kiln_db *db = NULL;
    expect_ok(kiln_db_open(place(state, 0), KILN_DB_TRACKER, KILN_DB_WRITE, &db));
    kiln_db_tracker_epoch row = {.id = KILN_STR("epoch"), .epoch = 7};
    expect_ok(kiln_db_put_tracker_epoch(db, &row));
    row.epoch = 6;
    kiln_status st = kiln_db_put_tracker_epoch(db, &row);
    if (!st) st = kiln_db_settle(db);
    expect_error(st, INVALID_ARGUMENT, "only grows");
    row.epoch = 8;
    expect_ok(kiln_db_put_tracker_epoch(db, &row));
    expect_ok(kiln_db_commit(db));
    kiln_db_close(db);
}

static void a_visitor_that_stops_is_heard(void **state) {
    kiln_db *db = open_records(place(state, 0));
    put_parents(db);
    for (unsigned i = 0; i < 5; i++) put_record(db, i, 500);
    expect_ok(kiln_db_commit(db));
    uint32_t left = 3;
    expect_error(kiln_db_each(db, KILN_DB_TABLE_RECORD, stop_after, &left), CANCELLED, "enough");
    assert_int_equal(left, 0);
    put_record(db, 9, 500); /* the handle is as good as before */
    expect_ok(kiln_db_commit(db));
    kiln_db_close(db);
    assert_int_equal(count_records(place(state, 0)), 6);
}

/* More questions than statements are kept: the oldest make room, and are prepared anew. */
static void any_number_of_different_questions_can_be_asked(void **state) {
    kiln_db *db = open_records(place(state, 0));
    put_parents(db);
    put_record(db, 1, 500);
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t limit = 1; limit <= KILN_DB_STATEMENTS_MAX + 3; limit++) {
            kiln_db_record *record = NULL;
            uint32_t count = 0;
            expect_ok(
                kiln_db_records(db, &(kiln_db_filter){.limit = limit}, &arena, &record, &count));
            assert_int_equal(count, 1);
        }
    kiln_arena_deinit(&arena);
    kiln_db_close(db);
}

static void commits_and_rows_that_fail_undo_the_group(void **state) {
    static const char *const plan[] = {"DB_PUT=error", "DB_COMMIT=error"};
    kiln_db *db = open_records(place(state, 0));
    put_parents(db);
    for (unsigned i = 0; i < KILN_ARRAY_COUNT(plan); i++) {
        expect_ok(kiln_fail_arm(plan[i]));
        kiln_db_record record = record_of(i, 500);
        kiln_status st = kiln_db_put_record(db, &record);
        if (!st) st = kiln_db_commit(db);
        expect_error(st, RESOURCE_EXHAUSTED, "KILN_FAIL");
        assert_false(kiln_db_pending(db));
        expect_ok(kiln_fail_arm(NULL));
    }
    put_record(db, 7, 500);
    expect_ok(kiln_db_commit(db));
    kiln_db_close(db);
    assert_int_equal(count_records(place(state, 0)), 1);
}

static void what_is_too_long_is_refused(void **state) {
    kiln_db *db = open_records(place(state, 0));
    kiln_str sql = {"", KILN_DB_TEXT_MAX + 1}; /* its length is looked at first */
    expect_error(kiln_db_sql(db, sql, keep_text, NULL), INVALID_ARGUMENT, "too long");
    kiln_db_close(db);
}

static void an_address_is_shown_without_its_secrets(void **state) {
    (void)state;
    static const char *const shown[][2] = {
        {"/a/b.db", "/a/b.db"},
        {"postgres:///kiln", "postgres:///kiln"},
        {"postgres://me@host:1/kiln", "postgres://host:1/kiln"},
        {"postgres://me:p@ss@host/kiln?password=x", "postgres://host/kiln"},
        {"postgresql://me:secret@host/kiln?a@b", "postgresql://host/kiln"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(shown); i++) {
        kiln_strbuf text = {0};
        kiln_db_print_path(shown[i][0], &text);
        assert_string_equal(text.data, shown[i][1]);
        kiln_strbuf_deinit(&text);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_create, folder_remove)

int main(int argc, char **argv) {
    choose_place(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(what_was_committed_is_there_after_reopening),
        TEST(a_reader_beside_the_writer_sees_whole_groups_only),
        TEST(a_refused_row_leaves_the_group_as_it_was),
        TEST(of_many_rows_only_the_bad_ones_are_refused),
        TEST(a_bad_row_never_reaches_the_disk),
        TEST(a_group_reads_its_own_rows),
        TEST(a_group_that_is_taken_back_leaves_nothing),
        TEST(several_writers_take_turns),
        TEST(reading_what_is_not_there_says_so),
        TEST(programs_that_open_a_new_database_at_once_all_get_in),
        TEST(only_one_leads_until_it_closes),
        TEST(rows_that_are_replaced_keep_their_place_and_can_be_removed),
        TEST(the_fence_of_a_tracker_never_goes_back),
        TEST(a_visitor_that_stops_is_heard),
        TEST(any_number_of_different_questions_can_be_asked),
        TEST(commits_and_rows_that_fail_undo_the_group),
        TEST(what_is_too_long_is_refused),
        TEST(an_address_is_shown_without_its_secrets),
    };
    return cmocka_run_group_tests_name("db", tests, NULL, NULL);
}
