/* What a tuner was told is stored stays stored: power cuts at any operation, failing operations,
 * full disks, failing allocations, under the real db/ and SQLite on a disk in memory.
 *
 *   test-db-powercut [--runs COUNT] [--seed S]
 *
 * runs COUNT seeds from S on (./dev powercut 20000 is the long form); a failure prints its seed. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/vec.h"
#include "db/backend.h"
#include "db/bundle.h"
#include "db/sqlite.h"
#include "tests/unit/db/disk.h"
#include "tests/unit/db/old_file.h"
#include "tests/unit/db/support.h"

#define PATH "disk.db"
#define RECORDS_MAX 400
#define GROUP_MAX 12
#define TRACE_MAX 9000

static uint64_t run_count = 300, first_seed = 1;

/* ---- What should be there ---- */

typedef enum fate { ABSENT, UNSURE, STORED } fate;

typedef struct world {
    kiln_rand rand;
    uint64_t seed;
    fate fate[RECORDS_MAX];
    uint32_t group[RECORDS_MAX]; /* which group it was offered in last */
    uint32_t group_count, record_count;
    uint64_t commits;
    const char *careless; /* a setting that must lose records; NULL: none */
    bool lost;            /* and it did */
} world;

static void expect_at(world *w, bool held, const char *what) {
    if (held) return;
    if (w->careless) {
        w->lost = true;
        return;
    }
    fprintf(stderr, "seed %llu: %s\n", (unsigned long long)w->seed, what);
    fail_msg("reproduce with: test-db-powercut --runs 1 --seed %llu", (unsigned long long)w->seed);
}

static kiln_status put_numbered(kiln_db *db, unsigned number) {
    static char trace[TRACE_MAX];
    kiln_db_record record = record_of(number, 500 + number);
    /* The same record has the same trace each time that it is offered. */
    record.trace =
        (kiln_str){trace, 1 + (number * 2654435761u >> 8) % (number % 5 ? 300 : TRACE_MAX)};
    return kiln_db_put_record(db, &record);
}

/* Offers records [first, first + count) as one group. A group that failed may be there or not, and
 * whole, if power is lost now; the caller offers it again. */
static kiln_status put_group(world *w, kiln_db *db, uint32_t first, uint32_t count) {
    uint32_t group = ++w->group_count;
    kiln_status st = NULL;
    for (uint32_t i = first; !st && i < first + count; i++) st = put_numbered(db, i);
    if (!st) st = kiln_db_commit(db);
    for (uint32_t i = first; i < first + count; i++) {
        if (w->fate[i] == STORED) continue;
        w->fate[i] = st ? UNSURE : STORED;
        w->group[i] = group;
    }
    w->commits += !st;
    if (st) expect_at(w, !kiln_db_pending(db), "a group that failed is still open");
    return st;
}

static int64_t number_in(kiln_db *db, const char *sql) {
    sqlite3_stmt *statement = NULL;
    int64_t number = -1;
    if (sqlite3_prepare_v2(kiln_db_sqlite_handle(db), sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

static kiln_status see_record(void *context, kiln_db_table table, const void *row) {
    (void)table;
    bool *seen = context;
    int64_t number = ((const kiln_db_record *)row)->trial_index;
    if (number < 0 || number >= RECORDS_MAX || seen[number])
        return KILN_ERROR(DATA_LOSS, "a record that nobody stored");
    seen[number] = true;
    return NULL;
}

/* Every acknowledged record is there, groups are whole, counts agree, the file is sound. */
static void check(world *w, kiln_db *db) {
    bool seen[RECORDS_MAX] = {0};
    kiln_status st = kiln_db_each(db, KILN_DB_TABLE_RECORD, see_record, seen);
    expect_at(w, !st, "the records cannot be read");
    kiln_status_free(st);
    expect_at(w,
              number_in(db, "SELECT count(*) FROM pragma_integrity_check"
                            " WHERE integrity_check = 'ok'") == 1,
              "the file is damaged");
    expect_at(w, number_in(db, "SELECT count(*) FROM pragma_foreign_key_check") == 0,
              "a record lost its parents");
    expect_at(w,
              number_in(db, "SELECT count(*) FROM record") ==
                  number_in(db, "SELECT coalesce(sum(record_count), 0) FROM record_stat"),
              "the counts are not those of the records");
    for (uint32_t i = 0; i < w->record_count; i++) {
        expect_at(w, seen[i] || w->fate[i] != STORED, "an acknowledged record is lost");
        for (uint32_t j = i + 1; j < w->record_count && j < i + GROUP_MAX; j++)
            expect_at(w,
                      seen[i] == seen[j] || w->group[i] != w->group[j] || w->fate[i] != UNSURE ||
                          w->fate[j] != UNSURE,
                      "a group is there in part");
    }
    for (uint32_t i = 0; i < w->record_count; i++) w->fate[i] = seen[i] ? STORED : ABSENT;
}

/* ---- Power cuts ---- */

static kiln_db *open_after_reboot(world *w) {
    kiln_db *db = NULL;
    kiln_status st = kiln_db_open(PATH, KILN_DB_RECORDS, KILN_DB_WRITE, &db);
    if (st && !w->careless) fprintf(stderr, "%s\n", kiln_status_text(st));
    expect_at(w, !st, "it does not open again");
    kiln_status_free(st);
    return db;
}

/* Offers groups, each until it is stored, with operations that fail now and then, until the power
 * goes or enough was done. */
static void write_some(world *w, kiln_db *db) {
    uint32_t groups = 1 + (uint32_t)kiln_rand_below(&w->rand, 6);
    for (uint32_t i = 0; i < groups; i++) {
        uint32_t count = 1 + (uint32_t)kiln_rand_below(&w->rand, GROUP_MAX);
        if (w->record_count + count > RECORDS_MAX) return;
        uint32_t first = w->record_count;
        w->record_count += count;
        for (uint32_t tries = 0; tries < 3; tries++) {
            kiln_status st = put_group(w, db, first, count);
            bool stored = !st;
            kiln_status_free(st);
            if (stored) break;
        }
    }
}

static void arm(world *w) {
    static const disk_fault fault[] = {DISK_CUT, DISK_CUT,  DISK_CUT,
                                       DISK_CUT, DISK_FULL, DISK_BROKEN};
    uint64_t reach = kiln_rand_below(&w->rand, 2) ? 20 : 200;
    disk_fail(1 + kiln_rand_below(&w->rand, reach),
              fault[kiln_rand_below(&w->rand, KILN_ARRAY_COUNT(fault))],
              kiln_rand_below(&w->rand, 2) != 0);
}

/* One life of a database: rounds of writing, each ended by a loss of power. */
static void live(world *w, bool from_nothing) {
    if (from_nothing)
        disk_format();
    else
        disk_restore();
    uint32_t rounds = 1 + (uint32_t)kiln_rand_below(&w->rand, 3);
    bool has_parents = !from_nothing;
    for (uint32_t round = 0; round < rounds && !w->lost; round++) {
        kiln_db *db = NULL;
        if (from_nothing || kiln_rand_below(&w->rand, 4) == 0) arm(w); /* while it opens */
        kiln_status st = kiln_db_open(PATH, KILN_DB_RECORDS, KILN_DB_WRITE, &db);
        bool opened = !st;
        kiln_status_free(st);
        if (opened && has_parents) {
            static const char *const checkpoint[] = {"PRAGMA wal_autocheckpoint = 1",
                                                     "PRAGMA wal_autocheckpoint = 20",
                                                     "PRAGMA wal_autocheckpoint = 1000"};
            sqlite3_exec(kiln_db_sqlite_handle(db),
                         checkpoint[kiln_rand_below(&w->rand, KILN_ARRAY_COUNT(checkpoint))], NULL,
                         NULL, NULL);
            if (w->careless) sqlite3_exec(kiln_db_sqlite_handle(db), w->careless, NULL, NULL, NULL);
            arm(w);
            write_some(w, db);
        }
        kiln_db_close(db); /* as the end of the process would: nothing of it may be needed */
        disk_reboot(&w->rand);
        db = open_after_reboot(w);
        if (!db) return;
        if (!has_parents) {
            put_parents(db);
            has_parents = true;
        }
        check(w, db);
        kiln_db_close(db);
        disk_reboot(&w->rand);
    }
}

static void prepare_disk(void) {
    disk_format();
    kiln_db *db = open_records(PATH);
    put_parents(db);
    kiln_db_close(db);
    disk_save();
}

static void no_acknowledged_record_is_lost_when_power_is(void **state) {
    (void)state;
    prepare_disk();
    uint64_t commits = 0, operations = 0;
    for (uint64_t seed = first_seed; seed < first_seed + run_count; seed++) {
        static world w;
        w = (world){.seed = seed};
        kiln_rand_init(&w.rand, seed);
        live(&w, seed % 8 == 0);
        commits += w.commits;
        operations += disk_operations();
    }
    printf("# %llu lives, %llu groups acknowledged, %llu operations\n",
           (unsigned long long)run_count, (unsigned long long)commits,
           (unsigned long long)operations);
    assert_true(commits >= run_count / 2); /* else nothing was put to the test */
}

/* The test itself is put to the test: settings that SQLite calls unsafe must be found out. */
static void settings_that_lose_records_are_found_out(void **state) {
    (void)state;
    static const char *const careless[] = {"PRAGMA synchronous = NORMAL",
                                           "PRAGMA synchronous = OFF"};
    prepare_disk();
    for (size_t i = 0; i < KILN_ARRAY_COUNT(careless); i++) {
        static world w;
        uint64_t seed = 0;
        do {
            w = (world){.seed = ++seed, .careless = careless[i]};
            kiln_rand_init(&w.rand, seed);
            live(&w, false);
        } while (!w.lost && seed < 1000);
        assert_true(w.lost);
    }
}

static void stop_migration(uint32_t version, disk_fault fault) {
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        static world w;
        w = (world){.seed = nth};
        kiln_rand_init(&w.rand, nth);
        disk_restore();
        disk_fail(nth, fault, true);
        kiln_db *db = NULL;
        kiln_status st = kiln_db_open(PATH, KILN_DB_RECORDS, KILN_DB_WRITE, &db);
        failed = disk_failed();
        kiln_status_free(st);
        kiln_db_close(db);
        disk_reboot(&w.rand);
        db = open_after_reboot(&w);
        expect_old_rows(db, KILN_DB_RECORDS, version);
        kiln_db_close(db);
    }
}

/* An old file loses power, or meets an error, at each operation of being opened by today's program.
 */
static void a_migration_that_stops_anywhere_leaves_an_old_or_a_new_file(void **state) {
    (void)state;
    static const disk_fault faults[] = {DISK_CUT, DISK_BROKEN, DISK_FULL};
    for (uint32_t version = 1; version < kiln_db_sqlite_migrations[KILN_DB_RECORDS].count;
         version++) {
        disk_format();
        make_old_file(PATH, KILN_DB_RECORDS, version);
        disk_save();
        for (size_t fault = 0; fault < KILN_ARRAY_COUNT(faults); fault++)
            stop_migration(version, faults[fault]);
    }
}

/* ---- The n-th operation, the n-th allocation ---- */

static kiln_status ignore_row(void *context, kiln_db_table table, const void *row) {
    (void)context, (void)table, (void)row;
    return NULL;
}

static kiln_status ignore_cells(void *context, uint32_t count, const kiln_db_cell *cell) {
    (void)context, (void)count, (void)cell;
    return NULL;
}

/* Every question that there is; its first error. */
static kiln_status ask_everything(world *w, kiln_db *db) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_strbuf bundle = {0};
    const kiln_db_filter all = {.order = KILN_DB_FASTEST};
    kiln_db_record *record = NULL;
    kiln_db_stat *stat = NULL;
    kiln_db_job job;
    kiln_db_task task;
    uint32_t count = 0;
    bool found = false;
    kiln_status st = kiln_db_best(db, &all, &arena, &record, &count);
    if (!st) expect_at(w, count == 1, "there is no best record");
    if (!st) st = kiln_db_stats(db, &arena, &stat, &count);
    if (!st) st = kiln_db_records(db, &all, &arena, &record, &count);
    if (!st) st = kiln_db_find_job(db, KILN_STR("j1"), &arena, &job, &found);
    if (!st) st = kiln_db_find_task(db, KILN_STR("t1"), &arena, &task, &found);
    if (!st) st = kiln_db_each(db, KILN_DB_TABLE_RECORD, ignore_row, NULL);
    if (!st) st = kiln_bundle_export(db, &all, 1, &bundle);
    if (!st)
        st = kiln_db_sql(db, KILN_STR("SELECT trial_id, trace FROM record"), ignore_cells, NULL);
    kiln_strbuf_deinit(&bundle);
    kiln_arena_deinit(&arena);
    return st;
}

/* Sessions from opening to closing, one that writes and one that only reads; says what went wrong
 * first, NULL if nothing did. */
static kiln_status session(world *w) {
    kiln_db *db = NULL;
    kiln_status st = kiln_db_open(PATH, KILN_DB_RECORDS, KILN_DB_WRITE, &db);
    for (uint32_t group = 0; !st && group < 3; group++) {
        w->record_count += 4;
        st = put_group(w, db, w->record_count - 4, 4);
    }
    if (!st) st = kiln_db_remove(db, KILN_DB_TABLE_DEVICE, KILN_STR("never there"));
    if (!st) st = kiln_db_commit(db);
    if (!st) st = ask_everything(w, db);
    kiln_db_close(db);
    db = NULL;
    if (!st) st = kiln_db_open(PATH, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) st = ask_everything(w, db);
    kiln_db_close(db);
    return st;
}

static void check_what_is_left(world *w) {
    kiln_db *db = open_after_reboot(w);
    check(w, db);
    kiln_db_close(db);
}

static void each_operation_that_fails_is_told_and_loses_nothing(void **state) {
    (void)state;
    /* NOT_FOUND: a file that cannot be opened is looked for on the real disk, to say why. */
    static const struct {
        disk_fault fault;
        kiln_code code[4];
    } kinds[] = {
        {DISK_FULL,
         {KILN_RESOURCE_EXHAUSTED, KILN_PERMISSION_DENIED, KILN_DATA_LOSS, KILN_NOT_FOUND}},
        {DISK_BROKEN, {KILN_DATA_LOSS, KILN_PERMISSION_DENIED, KILN_DATA_LOSS, KILN_NOT_FOUND}},
    };
    prepare_disk();
    for (size_t kind = 0; kind < 2 * KILN_ARRAY_COUNT(kinds); kind++) {
        bool lasting = kind % 2, told = false, failed = true;
        for (uint64_t nth = 1; failed; nth++) {
            static world w;
            w = (world){.seed = nth};
            disk_restore();
            disk_fail(nth, kinds[kind / 2].fault, lasting);
            kiln_status st = session(&w);
            failed = disk_failed();
            kiln_code code = kiln_status_code(st);
            bool fits = !st;
            for (int i = 0; i < 4; i++) fits |= code == kinds[kind / 2].code[i];
            if (!fits) fprintf(stderr, "%s\n", kiln_status_text(st));
            expect_at(&w, fits, "the error is of another kind");
            told |= st != NULL;
            kiln_status_free(st);
            disk_fail(0, DISK_FINE, false);
            check_what_is_left(&w);
        }
        assert_true(told);
    }
}

static void a_full_disk_is_called_so_once_and_room_again_is_enough(void **state) {
    (void)state;
    static world w;
    w = (world){0};
    prepare_disk();
    disk_restore();
    kiln_db *db = open_records(PATH);
    w.record_count = 20;
    expect_ok(put_group(&w, db, 0, 10));
    disk_fail(1, DISK_FULL, true);
    kiln_status st = put_group(&w, db, 10, 10);
    expect_error(st, RESOURCE_EXHAUSTED, "the disk is full; nothing of it was stored");
    disk_fail(0, DISK_FINE, false);
    expect_ok(put_group(&w, db, 10, 10));
    check(&w, db);
    kiln_db_close(db);
}

/* SQLite's allocator with a counter in front. */
static sqlite3_mem_methods libc_memory;
static uint64_t allocations_left; /* 0: none fails */
static bool allocation_failed;

static bool fails_now(void) {
    if (allocations_left == 0 || --allocations_left > 0) return false;
    allocation_failed = true;
    return true;
}
static void *counted_malloc(int size) { return fails_now() ? NULL : libc_memory.xMalloc(size); }
static void *counted_realloc(void *memory, int size) {
    return fails_now() ? NULL : libc_memory.xRealloc(memory, size);
}

static void each_allocation_that_fails_is_told_and_loses_nothing(void **state) {
    (void)state;
    prepare_disk();
    bool told = false;
    allocation_failed = true;
    /* Every one of the first, then ever fewer: a session makes thousands, mostly alike. */
    uint64_t sparse = run_count >= 10000 ? UINT64_MAX : 40;
    for (uint64_t nth = 1; allocation_failed; nth += 1 + nth / sparse) {
        static world w;
        w = (world){.seed = nth};
        disk_restore();
        int64_t used = sqlite3_memory_used();
        allocation_failed = false;
        allocations_left = nth;
        kiln_status st = session(&w);
        allocations_left = 0;
        if (st && kiln_status_code(st) != KILN_RESOURCE_EXHAUSTED) {
            fprintf(stderr, "%s\n", kiln_status_text(st));
            expect_at(&w, false, "the error is not of memory");
        }
        told |= st != NULL;
        kiln_status_free(st);
        expect_at(&w, sqlite3_memory_used() == used, "memory leaked");
        check_what_is_left(&w);
    }
    assert_true(told);
}

static bool take_options(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *value = strcmp(argv[i], "--runs") == 0   ? &run_count
                          : strcmp(argv[i], "--seed") == 0 ? &first_seed
                                                           : NULL;
        if (!value || !kiln_str_to_u64(kiln_str_from(argv[i + 1]), value)) return false;
    }
    return argc % 2 == 1;
}

int main(int argc, char **argv) {
    if (!take_options(argc, argv)) {
        fprintf(stderr, "usage: test-db-powercut [--runs COUNT] [--seed S]\n");
        return 2;
    }
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &libc_memory);
    sqlite3_mem_methods counted = libc_memory;
    counted.xMalloc = counted_malloc;
    counted.xRealloc = counted_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &counted);
    disk_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_acknowledged_record_is_lost_when_power_is),
        cmocka_unit_test(settings_that_lose_records_are_found_out),
        cmocka_unit_test(a_migration_that_stops_anywhere_leaves_an_old_or_a_new_file),
        cmocka_unit_test(each_operation_that_fails_is_told_and_loses_nothing),
        cmocka_unit_test(a_full_disk_is_called_so_once_and_room_again_is_enough),
        cmocka_unit_test(each_allocation_that_fails_is_told_and_loses_nothing),
    };
    return cmocka_run_group_tests_name("db/powercut", tests, NULL, NULL);
}
