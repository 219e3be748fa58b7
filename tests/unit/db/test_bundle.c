/* Records on the move between databases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/mpack.h"
#include "base/rand.h"
#include "db/bundle.h"
#include "tests/unit/db/support.h"

typedef struct fixture {
    void *folder;
    kiln_db *from, *to;
    kiln_strbuf bytes;
    kiln_arena arena;
} fixture;

static fixture the_fixture;

static int set_up(void **state) {
    fixture *f = &the_fixture;
    *f = (fixture){0};
    folder_create(&f->folder);
    f->from = open_records(place(&f->folder, 0));
    f->to = open_records(place(&f->folder, 1));
    kiln_arena_init(&f->arena, 0);
    put_parents(f->from);
    put_record(f->from, 1, 500);
    put_record(f->from, 2, 300);
    expect_ok(kiln_db_commit(f->from));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_db_close(f->from);
    kiln_db_close(f->to);
    kiln_strbuf_deinit(&f->bytes);
    kiln_arena_deinit(&f->arena);
    folder_remove(&f->folder);
    return 0;
}

static uint32_t count_in(fixture *f, kiln_db *db) {
    kiln_db_filter all = {.whose = KILN_DB_ANY};
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    expect_ok(kiln_db_records(db, &all, &f->arena, &record, &count));
    return count;
}

/* Imports f->bytes; *out_count: records read. */
static kiln_status import(fixture *f, kiln_str bytes, uint32_t *out_count) {
    kiln_db_import_counts counts = {0};
    kiln_status st = kiln_bundle_import(f->to, bytes, NULL, &counts);
    *out_count = counts.records;
    return st;
}

static void export_all(fixture *f) {
    kiln_db_filter all = {.whose = KILN_DB_ANY};
    kiln_strbuf_reset(&f->bytes);
    expect_ok(kiln_bundle_export(f->from, &all, 1, &f->bytes));
}

static void records_arrive_with_their_parents(void **state) {
    fixture *f = *state;
    uint32_t count = 0;
    export_all(f);
    expect_ok(import(f, kiln_strbuf_view(&f->bytes), &count));
    assert_int_equal(count, 2);
    kiln_db_filter fastest = {.order = KILN_DB_FASTEST, .limit = 1};
    kiln_db_record *a = NULL, *b = NULL;
    expect_ok(kiln_db_records(f->from, &fastest, &f->arena, &a, &count));
    fastest.whose = KILN_DB_HINTS; /* nobody signed them */
    expect_ok(kiln_db_records(f->to, &fastest, &f->arena, &b, &count));
    assert_true(kiln_str_equal(a->trial_id, b->trial_id));
    assert_true(kiln_str_equal(a->trace, b->trace));
    assert_int_equal(a->samples_ns.count, b->samples_ns.count);
    assert_memory_equal(a->samples_ns.data, b->samples_ns.data,
                        a->samples_ns.count * sizeof(double));
    kiln_db_task task;
    bool found = false;
    expect_ok(kiln_db_find_task(f->to, a->task_key, &f->arena, &task, &found));
    assert_true(found);
}

static void importing_twice_stores_once(void **state) {
    fixture *f = *state;
    uint32_t count = 0;
    export_all(f);
    expect_ok(import(f, kiln_strbuf_view(&f->bytes), &count));
    expect_ok(import(f, kiln_strbuf_view(&f->bytes), &count));
    assert_int_equal(count_in(f, f->to), 2);
}

static void filters_choose_what_travels(void **state) {
    fixture *f = *state;
    uint32_t count = 0;
    kiln_db_filter nothing = {.task_key = KILN_STR("no such task")};
    expect_ok(kiln_bundle_export(f->from, &nothing, 1, &f->bytes));
    expect_ok(import(f, kiln_strbuf_view(&f->bytes), &count));
    assert_int_equal(count, 0);
    assert_int_equal(count_in(f, f->to), 0);
}

static void a_cut_bundle_stores_nothing(void **state) {
    fixture *f = *state;
    export_all(f);
    for (size_t size = 0; size < f->bytes.size; size += 7) {
        uint32_t count = 0;
        expect_error(import(f, kiln_str_slice(kiln_strbuf_view(&f->bytes), 0, size), &count),
                     DATA_LOSS, "importing records");
        assert_int_equal(count_in(f, f->to), 0);
    }
}

static void records_that_never_ran_travel_without_a_board(void **state) {
    fixture *f = *state;
    uint32_t count = 0;
    kiln_db_record record = record_of(3, 500);
    record.device_id = record.fingerprint_id = (kiln_str){0};
    expect_ok(kiln_db_put_record(f->from, &record));
    expect_ok(kiln_db_commit(f->from));
    export_all(f);
    expect_ok(import(f, kiln_strbuf_view(&f->bytes), &count));
    assert_int_equal(count, 3);
}

/* Of boards that are alike, the first gives the fingerprint its device; the records are another's.
 */
static void a_fingerprint_of_another_board_brings_that_board(void **state) {
    fixture *f = *state;
    uint32_t count = 0;
    kiln_db_record record = record_of(3, 500);
    kiln_db_filter its = {.task_key = KILN_STR("t2")};
    expect_ok(kiln_db_put_task(
        f->from, &(kiln_db_task){.key = KILN_STR("t2"), .op = KILN_STR("conv2d"), .flops = 1}));
    expect_ok(kiln_db_put_device(
        f->from, &(kiln_db_device){.id = KILN_STR("d2"), .name = KILN_STR("other")}));
    record.task_key = KILN_STR("t2");
    record.device_id = KILN_STR("d2");
    expect_ok(kiln_db_put_record(f->from, &record));
    expect_ok(kiln_db_commit(f->from));
    expect_ok(kiln_bundle_export(f->from, &its, 1, &f->bytes));
    expect_ok(import(f, kiln_strbuf_view(&f->bytes), &count));
    assert_int_equal(count, 1);
}

static void what_is_no_bundle_is_refused(void **state) {
    fixture *f = *state;
    uint32_t count = 0;
    kiln_mpack_write_array(&f->bytes, KILN_BUNDLE_ROWS_MAX + 1);
    for (uint32_t i = 0; i <= KILN_BUNDLE_ROWS_MAX; i++) kiln_strbuf_char(&f->bytes, 0);
    expect_error(import(f, kiln_strbuf_view(&f->bytes), &count), DATA_LOSS, "at most");
    export_all(f);
    kiln_strbuf_char(&f->bytes, 'x');
    expect_error(import(f, kiln_strbuf_view(&f->bytes), &count), DATA_LOSS, "after the last row");
    static const char *const table[] = {"tracker_epoch", "no_table"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        kiln_strbuf_reset(&f->bytes);
        kiln_mpack_write_array(&f->bytes, 1);
        kiln_mpack_write_array(&f->bytes, 2);
        kiln_mpack_write_str(&f->bytes, kiln_str_from(table[i]));
        kiln_mpack_write_map(&f->bytes, 0);
        expect_error(import(f, kiln_strbuf_view(&f->bytes), &count), DATA_LOSS,
                     "row 0: no table of records");
    }
    kiln_strbuf_reset(&f->bytes);
    kiln_mpack_write_array(&f->bytes, 1);
    kiln_mpack_write_array(&f->bytes, 3);
    kiln_mpack_write_str(&f->bytes, KILN_STR("task"));
    expect_error(import(f, kiln_strbuf_view(&f->bytes), &count), DATA_LOSS, "row 0");
    assert_int_equal(count_in(f, f->to), 0);
}

static kiln_status count_row(void *context, kiln_db_table table, const void *row) {
    uint32_t *count = context;
    assert_non_null(row);
    count[table]++;
    return count[KILN_DB_TABLE_RECORD] == 9 ? KILN_ERROR(CANCELLED, "enough") : KILN_OK;
}

static void rows_of_a_bundle_are_read_without_a_database(void **state) {
    fixture *f = *state;
    uint32_t count[KILN_DB_TABLE_COUNT] = {0};
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    export_all(f);
    const kiln_str bytes = kiln_strbuf_view(&f->bytes);
    expect_ok(kiln_bundle_each(bytes, &arena, count_row, count));
    assert_int_equal(count[KILN_DB_TABLE_RECORD], count_in(f, f->from));
    assert_int_equal(count[KILN_DB_TABLE_TASK], 1);
    for (size_t size = 0; size < bytes.size; size += 7) {
        memset(count, 0, sizeof count);
        expect_error(kiln_bundle_each(kiln_str_slice(bytes, 0, size), &arena, count_row, count),
                     DATA_LOSS, "");
    }
    memset(count, 0, sizeof count);
    count[KILN_DB_TABLE_RECORD] = 8;
    expect_error(kiln_bundle_each(bytes, &arena, count_row, count), CANCELLED, "enough");
    kiln_arena_deinit(&arena);
}

static void a_damaged_bundle_ends_in_an_error_or_whole_rows(void **state) {
    fixture *f = *state;
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    for (unsigned i = 0; i < 300; i++) {
        export_all(f);
        f->bytes.data[kiln_rand_below(&rand, f->bytes.size)] = (char)kiln_rand_u64(&rand);
        uint32_t count = 0;
        kiln_status_free(import(f, kiln_strbuf_view(&f->bytes), &count)); /* either is fine */
        assert_false(kiln_db_pending(f->to));
    }
}

int main(int argc, char **argv) {
    choose_place(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_arrive_with_their_parents, set_up, tear_down),
        cmocka_unit_test_setup_teardown(importing_twice_stores_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(filters_choose_what_travels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cut_bundle_stores_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(records_that_never_ran_travel_without_a_board, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_fingerprint_of_another_board_brings_that_board, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_bundle_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_of_a_bundle_are_read_without_a_database, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_bundle_ends_in_an_error_or_whole_rows, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
