/* The tracker's rows on disk: what comes back is what was put, all of a commit or nothing of it. */
#include "tracker/persistence.h"

#include <string.h>

#include "base/fail.h"
#include "tests/support/test.h"

#define TEXT(literal) {literal, sizeof(literal) - 1}
static const kiln_tracker_row the_rows[] = {
    {.kind = KILN_TRACKER_ROW_PERSON, .id = TEXT("ann"), .body = TEXT("a person")},
    {.kind = KILN_TRACKER_ROW_PROJECT, .id = TEXT("p"), .body = TEXT("a project")},
    {.kind = KILN_TRACKER_ROW_MEMBER, .id = TEXT("p/ann"), .body = TEXT("a member")},
    {.kind = KILN_TRACKER_ROW_QUOTA, .id = TEXT("p"), .body = TEXT("quotas")},
    {.kind = KILN_TRACKER_ROW_SIGNER, .id = TEXT("p/00ff"), .body = TEXT("a signer")},
    {.kind = KILN_TRACKER_ROW_FIGURES, .id = TEXT("cpu:t"), .body = TEXT("figures")},
    {.kind = KILN_TRACKER_ROW_BLOB, .id = TEXT("d/ann"), .body = TEXT("a blob")},
    {.kind = KILN_TRACKER_ROW_JOB,
     .id = TEXT("j"),
     .state = TEXT("running"),
     .body = TEXT("a job")},
    {.kind = KILN_TRACKER_ROW_BOARD, .id = TEXT("n"), .body = TEXT("a board")},
    {.kind = KILN_TRACKER_ROW_UPGRADE, .id = TEXT("board/n"), .body = TEXT("an upgrade")},
    {.kind = KILN_TRACKER_ROW_CALENDAR, .id = TEXT("window/1"), .body = TEXT("a window")},
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
     .request = 3,
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
    for (size_t i = 0; !st && i < ROWS; i++) st = kiln_tracker_row_put(db, &the_rows[i]);
    if (!st) st = kiln_db_commit(db);
    if (st) kiln_db_rollback(db);
    return st;
}

static uint32_t read_all(const char *folder, kiln_arena *arena, kiln_tracker_row **out_rows) {
    uint32_t count = 0;
    kiln_db *db = open_db(folder, arena);
    expect_ok(kiln_tracker_rows_read(db, arena, out_rows, &count));
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
        assert_int_equal(row[i].request, the_rows[i].request);
    }
    db = open_db(folder, arena);
    for (size_t i = 0; i < ROWS; i++) {
        kiln_tracker_row gone = the_rows[i];
        gone.removed = true;
        expect_ok(kiln_tracker_row_put(db, &gone));
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

/* ---- The persistence ---- */

typedef struct fixture {
    kiln_arena *arena;
    char *folder;
    kiln_loop *loop;
    kiln_db *db;
    kiln_tracker_persistence *persistence;
    uint64_t added;        /* last PERSIST */
    uint64_t told, groups; /* up to which it was told how it went, in so many groups */
    uint64_t failed;       /* groups */
} fixture;

static void on_kept(void *context, uint64_t first, uint64_t last, kiln_status failure) {
    fixture *f = context;
    assert_int_equal(first, f->told + 1);
    assert_true(last >= first && last <= f->added);
    f->told = last;
    f->groups++;
    f->failed += failure != NULL;
    kiln_status_free(failure);
}

static void begin(fixture *f, void **state) {
    *f = (fixture){.arena = *state};
    f->folder = make_folder(f->arena);
    f->db = open_db(f->folder, f->arena);
    expect_ok(kiln_loop_create(&f->loop));
    f->persistence = kiln_tracker_persistence_create(f->loop, f->db, on_kept, f);
}

/* Its number is what tells the rows of one identity apart. */
static kiln_tracker_row lease_row(fixture *f, uint64_t slot, uint64_t epoch) {
    kiln_tracker_row row = the_rows[ROWS - 2]; /* a lease */
    row.id = kiln_str_from(kiln_arena_printf(f->arena, "n/%llu", (unsigned long long)slot));
    row.epoch = epoch;
    return row;
}

static void add(fixture *f, kiln_tracker_row row, bool may_wait) {
    kiln_tracker_persistence_add(f->persistence,
                                 &(kiln_tracker_action){.kind = KILN_TRACKER_PERSIST,
                                                        .persist = ++f->added,
                                                        .row = &row,
                                                        .row_count = 1,
                                                        .may_wait = may_wait});
}

static void run_until_told(fixture *f) {
    while (f->told < f->added) {
        assert_true(kiln_tracker_persistence_is_busy(f->persistence));
        kiln_loop_run_once(f->loop);
    }
    assert_false(kiln_tracker_persistence_is_busy(f->persistence));
}

static void end(fixture *f) {
    kiln_loop_destroy(f->loop);
    expect_ok(kiln_tracker_persistence_destroy(f->persistence));
    kiln_db_close(f->db);
}

/* Ends it and reads what is on disk: the epochs of its leases, in any order, summed. */
static uint64_t end_and_sum(fixture *f, uint32_t count) {
    kiln_tracker_row *row = NULL;
    uint64_t sum = 0;
    end(f);
    assert_int_equal(read_all(f->folder, f->arena, &row), count);
    for (uint32_t i = 0; i < count; i++) sum += row[i].epoch;
    remove_folder(f->folder);
    return sum;
}

static void rows_that_come_while_a_group_is_written_go_with_the_next(void **state) {
    fixture f;
    begin(&f, state);
    add(&f, lease_row(&f, 0, 1), false);
    kiln_tracker_persistence_turn(f.persistence);
    assert_true(kiln_tracker_persistence_is_busy(f.persistence));
    for (uint64_t i = 1; i < 5; i++) {
        add(&f, lease_row(&f, i, 10 * i), false);
        kiln_tracker_persistence_turn(f.persistence);
    }
    run_until_told(&f);
    assert_int_equal(f.groups, 2);
    assert_int_equal(f.failed, 0);
    assert_int_equal(end_and_sum(&f, 5), 101);
}

static void what_nobody_waits_for_goes_with_what_somebody_does(void **state) {
    fixture f;
    begin(&f, state);
    add(&f, lease_row(&f, 0, 1), true);
    kiln_tracker_persistence_turn(f.persistence);
    assert_false(kiln_tracker_persistence_is_busy(f.persistence));
    add(&f, lease_row(&f, 1, 2), false);
    kiln_tracker_persistence_turn(f.persistence);
    run_until_told(&f);
    assert_int_equal(f.groups, 1);
    add(&f, lease_row(&f, 2, 4), true);
    kiln_tracker_persistence_commit(f.persistence);
    run_until_told(&f);
    assert_int_equal(f.groups, 2);
    assert_int_equal(end_and_sum(&f, 3), 7);
}

static void of_rows_of_one_identity_the_last_stands(void **state) {
    fixture f;
    begin(&f, state);
    kiln_tracker_row gone = lease_row(&f, 1, 8);
    gone.removed = true;
    for (uint64_t epoch = 1; epoch <= 4; epoch++) add(&f, lease_row(&f, 0, epoch), false);
    add(&f, lease_row(&f, 1, 8), false);
    add(&f, gone, false);
    add(&f, lease_row(&f, 2, 16), false);
    kiln_tracker_persistence_turn(f.persistence);
    run_until_told(&f);
    assert_int_equal(f.groups, 1);
    assert_int_equal(end_and_sum(&f, 2), 20);
}

/* Of a share: the name of its project, which its client chose. */
static void a_row_has_the_longest_name_that_there_is(void **state) {
    fixture f;
    kiln_tracker_row *row = NULL;
    char name[KILN_MESSAGES_NAME];
    memset(name, 'x', sizeof name);
    begin(&f, state);
    kiln_tracker_row share = {
        .kind = KILN_TRACKER_ROW_SHARE,
        .id = kiln_str_from(kiln_arena_printf(f.arena, "project/%.*s", (int)sizeof name, name)),
        .body = KILN_STR("a share")};
    assert_int_equal(share.id.size, KILN_TRACKER_ROW_ID_MAX);
    add(&f, share, false);
    kiln_tracker_persistence_turn(f.persistence);
    run_until_told(&f);
    assert_int_equal(f.failed, 0);
    end(&f);
    assert_int_equal(read_all(f.folder, f.arena, &row), 1);
    assert_true(kiln_str_equal(row[0].id, share.id));
    assert_true(kiln_str_equal(row[0].body, share.body));
    remove_folder(f.folder);
}

static void a_group_that_cannot_be_written_fails_whole_and_the_next_is_tried(void **state) {
    const char *plan[] = {"DB_PUT:2=error", "DB_COMMIT=error"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(plan); i++) {
        fixture f;
        begin(&f, state);
        expect_ok(kiln_fail_arm(plan[i]));
        add(&f, lease_row(&f, 0, 1), false);
        add(&f, lease_row(&f, 1, 2), false);
        kiln_tracker_persistence_turn(f.persistence);
        add(&f, lease_row(&f, 2, 4), false);
        kiln_tracker_persistence_turn(f.persistence);
        run_until_told(&f);
        expect_ok(kiln_fail_arm(NULL));
        assert_int_equal(f.groups, 2);
        assert_int_equal(f.failed, 1);
        assert_int_equal(end_and_sum(&f, 1), 4);
    }
}

static void what_is_collected_at_the_end_is_written(void **state) {
    fixture f;
    begin(&f, state);
    add(&f, lease_row(&f, 0, 1), false);
    kiln_tracker_persistence_turn(f.persistence); /* the loop's end waits for it */
    add(&f, lease_row(&f, 1, 2), true);
    assert_int_equal(end_and_sum(&f, 2), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(what_was_put_comes_back_until_it_is_removed),
        test_with_arena(whichever_write_fails_all_or_nothing_is_there),
        test_with_arena(rows_that_come_while_a_group_is_written_go_with_the_next),
        test_with_arena(what_nobody_waits_for_goes_with_what_somebody_does),
        test_with_arena(of_rows_of_one_identity_the_last_stands),
        test_with_arena(a_row_has_the_longest_name_that_there_is),
        test_with_arena(a_group_that_cannot_be_written_fails_whole_and_the_next_is_tried),
        test_with_arena(what_is_collected_at_the_end_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
