/* Rows of the database as JSON lines: what is exported can be imported, and nothing else can. */
#include "cli/rows_json.h"
#include "db/canonical.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/db/support.h"

typedef struct copying {
    kiln_db *to;
    kiln_arena *scratch;
    uint32_t rows;
} copying;

/* The caller frees it. */
static char *line_of(kiln_db_table table, const void *row) {
    char *line = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&line, &size);
    kiln_row_print(table, row, out);
    fclose(out);
    return line;
}

static kiln_status import_line(kiln_db *db, kiln_str line, kiln_arena *scratch) {
    kiln_db_import *import = NULL;
    kiln_db_import_counts counts;
    kiln_db_import_begin(db, NULL, &import);
    return kiln_db_import_end(import, kiln_row_import(import, line, scratch), &counts);
}

static kiln_status copy_row(void *context, kiln_db_table table, const void *row) {
    copying *c = context;
    char *line = line_of(table, row);
    kiln_status st = import_line(c->to, kiln_str_from(line), c->scratch);
    free(line);
    c->rows++;
    return st;
}

static kiln_status append_row(void *context, kiln_db_table table, const void *row) {
    char *line = line_of(table, row);
    kiln_strbuf_text(context, line);
    free(line);
    return KILN_OK;
}

static void export_all(kiln_db *db, kiln_strbuf *out) {
    for (uint32_t t = 0; t < KILN_DB_TABLE_COUNT; t++)
        if (kiln_db_table_info_of((kiln_db_table)t)->kind == KILN_DB_RECORDS)
            expect_ok(kiln_db_each(db, (kiln_db_table)t, append_row, out));
}

static kiln_db *new_db(void) { return open_records(":memory:"); }

static void every_table_comes_back_as_it_was(void **state) {
    kiln_db *from = new_db(), *to = new_db();
    copying c = {.to = to, .scratch = *state};
    const uint8_t seed[KILN_SIGN_SEED_BYTES] = {1};
    kiln_signer *signer = NULL;
    expect_ok(kiln_signer_create(seed, &signer));
    put_parents(from);
    expect_ok(kiln_db_put_job(from, &(kiln_db_job){.id = KILN_STR("j1"),
                                                   .target = record_of(0, 1).target,
                                                   .state = KILN_STR("done"),
                                                   .origin = KILN_STR("imported")}));
    for (unsigned i = 0; i < 3; i++) {
        kiln_db_record record = record_of(i, 1000.0 / 3 + i);
        record.detail = KILN_STR("a \"quoted\" line,\nand \xc3\xa4");
        record.outcome = i ? KILN_STR("wrong_result") : KILN_STR("ok");
        record.blame = i ? KILN_STR("candidate") : KILN_STR("none");
        record.stored_wall_ns = INT64_MAX - i;
        expect_ok(kiln_record_sign(signer, *state, &record));
        record.origin = KILN_STR("imported"); /* as it is there */
        record.standing = KILN_DB_HINT;
        expect_ok(kiln_db_put_record(from, &record));
    }
    kiln_signer_destroy(signer);
    for (uint32_t t = 0; t < KILN_DB_TABLE_COUNT; t++)
        if (kiln_db_table_info_of((kiln_db_table)t)->kind == KILN_DB_RECORDS)
            expect_ok(kiln_db_each(from, (kiln_db_table)t, copy_row, &c));
    assert_true(c.rows >= 8); /* one of each, and three records */

    kiln_strbuf before = {0}, after = {0};
    export_all(from, &before);
    export_all(to, &after);
    assert_string_equal(after.data, before.data);
    kiln_strbuf_deinit(&before);
    kiln_strbuf_deinit(&after);
    kiln_db_close(from);
    kiln_db_close(to);
}

static void errors_without_bound_survive(void **state) {
    kiln_db *from = new_db(), *to = new_db();
    copying c = {.to = to, .scratch = *state};
    kiln_db_record *record, first = record_of(1, 1000);
    uint32_t count;
    put_parents(from);
    put_parents(to);
    first.outcome = KILN_STR("wrong_result");
    first.blame = KILN_STR("candidate");
    first.error = INFINITY;
    first.max_abs_error = -INFINITY;
    expect_ok(kiln_db_put_record(from, &first));
    expect_ok(kiln_db_each(from, KILN_DB_TABLE_RECORD, copy_row, &c));
    expect_ok(
        kiln_db_records(to, &(kiln_db_filter){.whose = KILN_DB_ANY}, *state, &record, &count));
    assert_int_equal(count, 1);
    assert_true(isinf(record[0].error) && record[0].error > 0);
    assert_true(isinf(record[0].max_abs_error) && record[0].max_abs_error < 0);
    kiln_db_close(from);
    kiln_db_close(to);
}

static void a_line_imported_twice_is_there_once(void **state) {
    kiln_db *db = new_db();
    const kiln_str line = KILN_STR("{\"table\":\"target\",\"target\":\"cpu:x\"}");
    kiln_strbuf text = {0};
    expect_ok(import_line(db, line, *state));
    expect_ok(import_line(db, line, *state));
    export_all(db, &text);
    assert_string_equal(text.data, "{\"table\":\"target\",\"target\":\"cpu:x\"}\n");
    kiln_strbuf_deinit(&text);
    kiln_db_close(db);
}

static void lines_that_are_no_rows_are_refused(void **state) {
    static const struct {
        const char *line, *why;
    } row[] = {
        {"", "column"},
        {"nonsense", "column"},
        {"{\"table\":\"task\"", "column"},
        {"{\"table\":\"task\",\"key\":\"a\",\"key\":\"b\"}", "column"},
        {"[]", "\"table\""},
        {"7", "column"},
        {"{}", "\"table\""},
        {"{\"table\":7}", "\"table\""},
        {"{\"table\":\"sqlite_master\"}", "\"table\""},
        {"{\"table\":\"tracker_lease\",\"id\":\"1\"}", "\"table\""},
        {"{\"table\":\"task\",\"key\":7}", "\"key\""},
        {"{\"table\":\"task\",\"key\":\"k\",\"flops\":\"many\"}", "\"flops\""},
        {"{\"table\":\"record\",\"attempt\":1.5}", "\"attempt\""},
        {"{\"table\":\"record\",\"trace\":\"0\"}", "\"trace\""},
        {"{\"table\":\"record\",\"trace\":\"0g\"}", "\"trace\""},
        {"{\"table\":\"record\",\"trace\":\"AB\"}", "\"trace\""},
        {"{\"table\":\"record\",\"trace\":17}", "\"trace\""},
        {"{\"table\":\"record\",\"samples_ns\":7}", "\"samples_ns\""},
        {"{\"table\":\"record\",\"samples_ns\":[1,\"2\"]}", "\"samples_ns\""},
        {"{\"table\":\"record\",\"trial_id\":null}", "\"trial_id\""},
    };
    kiln_db *db = new_db();
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_error(import_line(db, kiln_str_from(row[i].line), *state), INVALID_ARGUMENT,
                     row[i].why);
    assert_false(kiln_db_pending(db));
    kiln_db_close(db);
}

static void a_row_that_breaks_the_schema_is_refused(void **state) {
    kiln_db *db = new_db();
    expect_error(import_line(db, KILN_STR("{\"table\":\"task\",\"key\":\"k\"}"), *state),
                 INVALID_ARGUMENT, "");
    kiln_db_close(db);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_table_comes_back_as_it_was),
        test_with_arena(errors_without_bound_survive),
        test_with_arena(a_line_imported_twice_is_there_once),
        test_with_arena(lines_that_are_no_rows_are_refused),
        test_with_arena(a_row_that_breaks_the_schema_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
