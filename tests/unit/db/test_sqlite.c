/* Files: what is refused at opening, full disks, killed writers. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "db/sqlite.h"
#include "tests/unit/db/old_file.h"
#include "tests/unit/db/support.h"

static void a_full_disk_undoes_the_group_and_loses_nothing_before_it(void **state) {
    const char *path = path_in(state, "a.db");
    kiln_db *db = open_records(path);
    put_parents(db);
    put_record(db, 0, 500);
    expect_ok(kiln_db_commit(db));

    /* SQLite's own limit stands for the disk's: the same code, SQLITE_FULL, at the same places. */
    assert_int_equal(
        sqlite3_exec(kiln_db_sqlite_handle(db), "PRAGMA max_page_count = 40", NULL, NULL, NULL),
        SQLITE_OK);
    kiln_status st = NULL;
    unsigned stored = 0;
    while (!st && stored < 10000) {
        kiln_db_record record = record_of(++stored, 500);
        st = kiln_db_put_record(db, &record);
    }
    expect_error(st, RESOURCE_EXHAUSTED, "disk is full");
    assert_false(kiln_db_pending(db));
    assert_int_equal(count_records(path), 1);

    /* With room again, the same handle goes on. */
    assert_int_equal(
        sqlite3_exec(kiln_db_sqlite_handle(db), "PRAGMA max_page_count = 100000", NULL, NULL, NULL),
        SQLITE_OK);
    for (unsigned i = 1; i <= stored; i++) put_record(db, i, 500);
    expect_ok(kiln_db_commit(db));
    kiln_db_close(db);
    assert_int_equal(count_records(path), stored + 1);
}

static void a_copy_is_what_was_committed_and_delays_no_writer(void **state) {
    const char *path = path_in(state, "a.db"), *to = path_in(state, "copy.db");
    uint32_t schema = 0;
    kiln_db *db = open_records(path);
    put_parents(db);
    put_record(db, 0, 500);
    expect_ok(kiln_db_commit(db));
    put_record(db, 1, 500); /* in a group that is open */
    expect_ok(kiln_db_copy(path, KILN_DB_RECORDS, to, &schema));
    assert_int_equal(schema, kiln_db_newest_schema(KILN_DB_RECORDS));
    expect_ok(kiln_db_commit(db));
    assert_int_equal(count_records(to), 1);
    assert_int_equal(count_records(path), 2);
    kiln_db *copy = open_records(to);
    put_record(copy, 2, 500);
    expect_ok(kiln_db_commit(copy));
    assert_int_equal(count_records(to), 2);
    kiln_db_close(copy);
    expect_error(kiln_db_copy(path, KILN_DB_RECORDS, to, &schema), ALREADY_EXISTS, to);
    expect_error(kiln_db_copy(path, KILN_DB_TRACKER, path_in(state, "b.db"), &schema),
                 FAILED_PRECONDITION, "a records database, not a tracker's");
    expect_error(
        kiln_db_copy(path_in(state, "none.db"), KILN_DB_RECORDS, path_in(state, "c.db"), &schema),
        NOT_FOUND, "there is no such database");
    expect_error(kiln_db_copy(path, KILN_DB_RECORDS, path_in(state, "no/c.db"), &schema),
                 PERMISSION_DENIED, "unable to open");
    kiln_db_close(db);
}

static void databases_of_each_older_schema_are_copied_as_they_are(void **state) {
    for (int kind = 0; kind < 2; kind++)
        for (uint32_t version = 1; version <= kiln_db_newest_schema((kiln_db_kind)kind);
             version++) {
            char name[32], copy[40];
            uint32_t schema = 0;
            snprintf(name, sizeof name, "old-%d-%u.db", kind, version);
            snprintf(copy, sizeof copy, "copy-%d-%u.db", kind, version);
            make_old_file(path_in(state, name), (kiln_db_kind)kind, version);
            const char *to = path_in(state, copy);
            expect_ok(kiln_db_copy(path_in(state, name), (kiln_db_kind)kind, to, &schema));
            assert_int_equal(schema, version);
            kiln_db *db = NULL;
            expect_ok(kiln_db_open(to, (kiln_db_kind)kind, KILN_DB_WRITE, &db));
            expect_old_rows(db, (kiln_db_kind)kind, version);
            kiln_db_close(db);
        }
}

/* Stores groups of three until it is killed; says after each commit how many records are
 * acknowledged. */
static void write_until_killed(const char *path, int acknowledge) {
    kiln_db *db = open_records(path);
    for (unsigned number = 0;; number += 3) {
        for (unsigned i = 0; i < 3; i++) put_record(db, number + i, 500);
        expect_ok(kiln_db_commit(db));
        unsigned count = number + 3;
        if (write(acknowledge, &count, sizeof count) != sizeof count) _exit(1);
    }
}

static void a_killed_writer_loses_nothing_acknowledged_and_tears_no_group(void **state) {
    const char *path = path_in(state, "a.db");
    kiln_db *parents = open_records(path);
    put_parents(parents);
    kiln_db_close(parents);

    int pipe_ends[2];
    assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) write_until_killed(path, pipe_ends[1]);
    close(pipe_ends[1]);
    unsigned acknowledged = 0;
    while (acknowledged < 300)
        assert_int_equal(read(pipe_ends[0], &acknowledged, sizeof acknowledged),
                         sizeof acknowledged);
    kill(child, SIGKILL); /* it is somewhere inside a group now */
    assert_int_equal(waitpid(child, NULL, 0), child);
    unsigned count;
    while (read(pipe_ends[0], &count, sizeof count) == sizeof count) acknowledged = count;
    close(pipe_ends[0]);

    kiln_db *db = open_records(path);
    put_record(db, 100000, 500); /* the writer's place is free again */
    expect_ok(kiln_db_commit(db));
    kiln_db_close(db);
    uint32_t found = count_records(path) - 1;
    assert_int_equal(found % 3, 0);
    assert_in_range(found, acknowledged, acknowledged + 3);
}

static void a_second_writer_is_told_who_is_in_its_way(void **state) {
    const char *path = path_in(state, "a.db");
    kiln_db *first = open_records(path), *second = open_records(path);
    put_parents(first);
    put_record(first, 1, 500);
    sqlite3_busy_timeout(kiln_db_sqlite_handle(second), 1);
    kiln_db_record record = record_of(2, 500);
    expect_error(kiln_db_put_record(second, &record), UNAVAILABLE, "another program is writing");
    expect_ok(kiln_db_commit(first));
    expect_ok(kiln_db_put_record(second, &record));
    expect_ok(kiln_db_commit(second));
    kiln_db_close(first);
    kiln_db_close(second);
    assert_int_equal(count_records(path), 2);
}

static void opening_says_what_is_wrong(void **state) {
    kiln_db *db = NULL;
    expect_error(kiln_db_open(path_in(state, "none.db"), KILN_DB_RECORDS, KILN_DB_READ, &db),
                 NOT_FOUND, "none.db");
    expect_error(kiln_db_open(path_in(state, "no/folder.db"), KILN_DB_RECORDS, KILN_DB_WRITE, &db),
                 NOT_FOUND, "no/folder.db");
    expect_error(kiln_db_open(path_in(state, "."), KILN_DB_RECORDS, KILN_DB_WRITE, &db),
                 PERMISSION_DENIED, "is a folder");

    const char *text = path_in(state, "text.db");
    char line[4096];
    memset(line, 'x', sizeof line);
    expect_ok(kiln_file_write(text, (kiln_str){line, sizeof line}, 0600));
    expect_error(kiln_db_open(text, KILN_DB_RECORDS, KILN_DB_WRITE, &db), DATA_LOSS,
                 "not a database");
    assert_null(db);
}

static void files_that_may_not_be_written_are_refused_at_opening(void **state) {
    const char *path = path_in(state, "a.db");
    kiln_db_close(open_records(path));
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(path_in(state, "."), 0555), 0);
    uid_t user = geteuid();
    /* Root may write everything: be somebody else for a moment. */
    if (user == 0)
        assert_int_equal(chown(path_in(state, "."), 65534, 65534) | chown(path, 65534, 65534) |
                             seteuid(65534),
                         0);
    kiln_db *db = NULL;
    kiln_status old_file = kiln_db_open(path, KILN_DB_RECORDS, KILN_DB_WRITE, &db);
    kiln_status new_file =
        kiln_db_open(path_in(state, "b.db"), KILN_DB_RECORDS, KILN_DB_WRITE, &db);
    if (user == 0) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(path_in(state, "."), 0755), 0);
    expect_error(old_file, PERMISSION_DENIED, "a.db");
    expect_error(new_file, PERMISSION_DENIED, "b.db");
}

/* A file system of our own, gone with this process. False where that is not allowed. */
static bool mount_small(const char *folder) {
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", folder, "tmpfs", 0, "size=1500k") == 0;
}

static void a_file_system_that_is_full_is_called_so_and_keeps_what_it_has(void **state) {
    const char *folder = path_in(state, "small");
    assert_int_equal(mkdir(folder, 0700), 0);
    if (!mount_small(folder)) skip_because("only root may mount a file system");
    const char *path = path_in(state, "small/a.db");
    kiln_db *db = open_records(path);
    put_parents(db);
    kiln_status st = NULL;
    unsigned stored = 0;
    for (unsigned number = 0; !st && number < 100000; number++) {
        kiln_db_record record = record_of(number, 500);
        st = kiln_db_put_record(db, &record);
        if (!st) st = kiln_db_commit(db);
        stored += !st;
    }
    expect_error(st, RESOURCE_EXHAUSTED, "the disk is full; nothing of it was stored");
    kiln_db_close(db);
    assert_true(stored > 0);
    assert_int_equal(count_records(path), stored);
    umount(folder);
}

static void the_lead_needs_a_folder_to_write_to(void **state) {
    bool leads = false;
    kiln_db *memory = open_records(":memory:");
    expect_ok(kiln_db_lead(memory, &leads)); /* nobody else can see it */
    assert_true(leads);
    kiln_db_close(memory);
    const char *path = path_in(state, "a.db");
    kiln_db *db = open_records(path);
    assert_int_equal(mkdir(path_in(state, "a.db-leader"), 0700), 0);
    expect_error(kiln_db_lead(db, &leads), INVALID_ARGUMENT, "a.db-leader");
    kiln_db_close(db);
}

static kiln_status count_cells(void *context, uint32_t count, const kiln_db_cell *cell) {
    (void)cell;
    *(uint32_t *)context += count;
    return *(uint32_t *)context > 1000 ? KILN_ERROR(CANCELLED, "enough") : NULL;
}

static void a_person_may_ask_for_the_schema_and_stop(void **state) {
    kiln_db *db = open_records(path_in(state, "a.db"));
    uint32_t cells = 0;
    expect_ok(kiln_db_sql(db, KILN_STR("PRAGMA table_info(record)"), count_cells, &cells));
    expect_ok(kiln_db_sql(db, KILN_STR("PRAGMA index_list(record)"), count_cells, &cells));
    expect_ok(kiln_db_sql(db, KILN_STR("PRAGMA user_version"), count_cells, &cells));
    assert_true(cells > 0);
    const char *endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
                          " SELECT x FROM n";
    expect_error(kiln_db_sql(db, kiln_str_from(endless), count_cells, &cells), CANCELLED, "enough");
    expect_error(kiln_db_sql(db, KILN_STR("SELECT abs(-9223372036854775808)"), count_cells, &cells),
                 INTERNAL, "overflow");
    kiln_db_close(db);
}

/* Steps of SQLite's machine for the ten best of the task. */
static int steps_of_best(kiln_db *db) {
    kiln_db_filter filter = {.task_key = record_of(0, 1).task_key,
                             .target = record_of(0, 1).target,
                             .order = KILN_DB_FASTEST,
                             .limit = 10};
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    int steps = 0, scanned = 0;
    for (int round = 0; round < 2; round++) { /* the first prepares */
        steps = scanned = 0;
        sqlite3_stmt *stmt = NULL;
        if (round == 0) expect_ok(kiln_db_records(db, &filter, &arena, &record, &count));
        while ((stmt = sqlite3_next_stmt(kiln_db_sqlite_handle(db), stmt))) {
            sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, 1);
            sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_FULLSCAN_STEP, 1);
        }
        expect_ok(kiln_db_records(db, &filter, &arena, &record, &count));
        while ((stmt = sqlite3_next_stmt(kiln_db_sqlite_handle(db), stmt))) {
            steps += sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, 1);
            scanned += sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_FULLSCAN_STEP, 1);
        }
    }
    assert_int_equal(count, 10);
    assert_int_equal(scanned, 0);
    kiln_arena_deinit(&arena);
    return steps;
}

static void questions_about_a_task_read_no_other_rows(void **state) {
    kiln_db *db = open_records(path_in(state, "a.db"));
    put_parents(db);
    for (unsigned i = 0; i < 20; i++) put_record(db, i, 500 + i);
    expect_ok(kiln_db_commit(db));
    int few = steps_of_best(db);
    for (unsigned i = 20; i < 4000; i++) put_record(db, i, 500 + i);
    expect_ok(kiln_db_commit(db));
    int many = steps_of_best(db);
    assert_true(few > 0 && many <= few + few / 4);
    kiln_db_close(db);
}

static void a_file_grants_every_claim(void **state) {
    kiln_db *db = open_records(path_in(state, "a.db"));
    for (int i = 0; i < 2; i++) {
        bool has = false;
        expect_ok(kiln_db_claim(db, KILN_STR("j1"), i ? KILN_STR("a") : KILN_STR("b"), &has));
        assert_true(has);
    }
    expect_ok(kiln_db_unclaim(db, KILN_STR("j1"), KILN_STR("a")));
    kiln_db_close(db);
}

/* A build without libpq must not make a file that is called like a server. */
static void an_address_that_nobody_takes_is_no_file(void **state) {
    (void)state;
    kiln_db *db = NULL;
    expect_error(kiln_db_open("mysql://me:secret@host/x", KILN_DB_RECORDS, KILN_DB_WRITE, &db),
                 UNIMPLEMENTED, "mysql://host/x: ");
    assert_null(db);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_create, folder_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_full_disk_undoes_the_group_and_loses_nothing_before_it),
        TEST(a_copy_is_what_was_committed_and_delays_no_writer),
        TEST(databases_of_each_older_schema_are_copied_as_they_are),
        TEST(a_killed_writer_loses_nothing_acknowledged_and_tears_no_group),
        TEST(a_second_writer_is_told_who_is_in_its_way),
        TEST(opening_says_what_is_wrong),
        TEST(files_that_may_not_be_written_are_refused_at_opening),
        TEST(a_file_system_that_is_full_is_called_so_and_keeps_what_it_has),
        TEST(the_lead_needs_a_folder_to_write_to),
        TEST(a_person_may_ask_for_the_schema_and_stop),
        TEST(questions_about_a_task_read_no_other_rows),
        TEST(a_file_grants_every_claim),
        TEST(an_address_that_nobody_takes_is_no_file),
    };
    return cmocka_run_group_tests_name("db/sqlite", tests, NULL, NULL);
}
