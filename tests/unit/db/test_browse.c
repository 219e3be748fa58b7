/* What pages and copies read: trials from a row on, tables in pages, and what a person may see. */
#include "db/browse.h"

#include <math.h>
#include <string.h>

#include "tests/unit/db/support.h"

typedef struct fixture {
    void *folder;
    kiln_db *db;
    kiln_arena arena;
    kiln_strbuf seen;
    int64_t last;
} fixture;

static fixture the_fixture;

static int set_up(void **state) {
    the_fixture = (fixture){0};
    folder_create(&the_fixture.folder);
    the_fixture.db = open_records(place(&the_fixture.folder, 0));
    kiln_arena_init(&the_fixture.arena, 0);
    put_parents(the_fixture.db);
    *state = &the_fixture;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_db_close(f->db);
    kiln_arena_deinit(&f->arena);
    kiln_strbuf_deinit(&f->seen);
    folder_remove(&f->folder);
    return 0;
}

/* Trial `number` of a project, with times that grow by it. */
static void put_of(fixture *f, unsigned number, const char *project) {
    kiln_db_record record = record_of(number, 100 + number);
    record.project = kiln_str_from(project);
    expect_ok(put_now(f->db, &record));
}

static kiln_status see(void *context, const kiln_db_trial *trial) {
    fixture *f = context;
    kiln_strbuf_printf(&f->seen, "%.*s=%g ", KILN_STR_ARG(trial->trial_id), trial->median_ns);
    f->last = trial->row;
    return KILN_OK;
}

static const char *trials_of(fixture *f, const kiln_db_trial_filter *filter) {
    kiln_strbuf_reset(&f->seen);
    kiln_strbuf_text(&f->seen, "");
    expect_ok(kiln_db_trials(f->db, filter, see, f));
    return f->seen.data;
}

static const kiln_str project_a[] = {{"a", 1}};
static const kiln_str quoted[] = {{"a' OR 1=1 --", 11}};
static const kiln_db_projects only_a = {project_a, 1}, hostile = {quoted, 1}, nothing = {NULL, 0};

static void trials_continue_after_a_row(void **state) {
    fixture *f = *state;
    kiln_db_trial_filter filter = {.job_id = KILN_STR("j1"), .limit = 2};
    assert_string_equal(trials_of(f, &filter), "");
    for (unsigned i = 1; i <= 3; i++) put_of(f, i, "a");
    assert_string_equal(trials_of(f, &filter), "r1=101 r2=102 ");
    filter.after_row = f->last;
    assert_string_equal(trials_of(f, &filter), "r3=103 ");
    filter.after_row = f->last;
    assert_string_equal(trials_of(f, &filter), "");
    put_of(f, 4, "a");
    assert_string_equal(trials_of(f, &filter), "r4=104 ");
}

static void trials_are_of_what_was_asked(void **state) {
    fixture *f = *state;
    put_of(f, 1, "a");
    put_of(f, 2, "b");
    kiln_db_record failed = record_of(3, 0);
    failed.outcome = KILN_STR("crash");
    failed.blame = KILN_STR("candidate");
    failed.samples_ns.count = 0;
    failed.project = KILN_STR("a");
    expect_ok(put_now(f->db, &failed));
    const kiln_db_trial_filter task = {.task_key = KILN_STR("t1"), .limit = 9};
    kiln_db_trial_filter other = {.task_key = KILN_STR("t2"), .limit = 9};
    kiln_db_trial_filter mine = task;
    assert_string_equal(trials_of(f, &task), "r1=101 r2=102 r3=0 ");
    assert_string_equal(trials_of(f, &other), "");
    mine.projects = &only_a;
    assert_string_equal(trials_of(f, &mine), "r1=101 r3=0 ");
    mine.projects = &hostile;
    assert_string_equal(trials_of(f, &mine), "");
    mine.projects = &nothing;
    assert_string_equal(trials_of(f, &mine), "");
}

static void put_run(fixture *f, const char *id, int64_t opened_wall_ns) {
    expect_ok(kiln_db_put_job(
        f->db, &(kiln_db_job){.id = kiln_str_from(id),
                              .target = KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"),
                              .state = KILN_STR("running"),
                              .opened_wall_ns = opened_wall_ns}));
}

static void expect_run(fixture *f, const char *job, const char *expected) {
    kiln_str id;
    expect_ok(kiln_db_newest_run(f->db, kiln_str_from(job), &f->arena, &id));
    assert_string_equal(kiln_str_dup(&f->arena, id), expected);
}

static void the_newest_run_of_a_job_is_found(void **state) {
    fixture *f = *state;
    expect_run(f, "nightly", "nightly");
    put_run(f, "nightly", 5);
    expect_run(f, "nightly", "nightly");
    put_run(f, "nightly.0b", 7);
    put_run(f, "nightly.0a", 6);
    put_run(f, "nightly-two.0c", 8);
    expect_run(f, "nightly", "nightly.0b");
    expect_run(f, "nightly.0a", "nightly.0a");
    expect_run(f, "night", "night");
}

static void put_reading(fixture *f, unsigned n, const char *project, double drift) {
    kiln_db_record record = record_of(n, 100 + n);
    record.device_id = KILN_STR("d1");
    record.project = kiln_str_from(project);
    record.stored_wall_ns = 1000 - (int64_t)n; /* not in the order of storing */
    record.drift = drift;
    record.drift_memory = 2;
    record.throttled = n == 1;
    expect_ok(put_now(f->db, &record));
}

static void expect_readings(fixture *f, const char *device, const kiln_db_projects *projects,
                            uint32_t limit, const char *expected) {
    kiln_db_reading *reading = NULL;
    uint32_t count = 0;
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "");
    expect_ok(kiln_db_readings(f->db, kiln_str_from(device), projects, limit, &f->arena, &reading,
                               &count));
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(&text, "%lld:%.3g/%.3g%s ", (long long)reading[i].stored_wall_ns,
                           reading[i].drift, reading[i].drift_memory,
                           reading[i].is_throttled ? "!" : "");
    assert_string_equal(text.data, expected);
    kiln_strbuf_deinit(&text);
}

static void readings_are_of_one_device_in_the_order_of_time(void **state) {
    fixture *f = *state;
    put_reading(f, 1, "a", 1.25);
    put_reading(f, 2, "b", 1.5);
    put_reading(f, 3, "a", 0); /* not known */
    put_reading(f, 4, "a", 1);
    expect_readings(f, "d1", NULL, 9, "996:1/2 998:1.5/2 999:1.25/2! ");
    expect_readings(f, "d1", NULL, 2, "998:1.5/2 999:1.25/2! ");
    expect_readings(f, "d1", &only_a, 9, "996:1/2 999:1.25/2! ");
    expect_readings(f, "d1", &hostile, 9, "");
    expect_readings(f, "d1", &nothing, 9, "");
    expect_readings(f, "d2", NULL, 9, "");
    expect_readings(f, "", NULL, 9, "");
}

static kiln_status refuse(void *context, const kiln_db_trial *trial) {
    (void)context, (void)trial;
    return KILN_ERROR(CANCELLED, "enough");
}

static void a_visitor_ends_the_reading(void **state) {
    fixture *f = *state;
    put_of(f, 1, "a");
    const kiln_db_trial_filter filter = {.job_id = KILN_STR("j1"), .limit = 9};
    expect_error(kiln_db_trials(f->db, &filter, refuse, f), CANCELLED, "enough");
    assert_string_equal(trials_of(f, &filter), "r1=101 ");
}

static void records_and_counts_are_of_the_projects(void **state) {
    fixture *f = *state;
    kiln_db_record *record = NULL;
    kiln_db_stat *stat = NULL;
    uint32_t count = 0;
    put_of(f, 1, "b");
    put_of(f, 2, "a");
    put_of(f, 3, "a");
    put_of(f, 4, "");
    kiln_db_filter filter = {.order = KILN_DB_FASTEST, .projects = &only_a};
    expect_ok(kiln_db_records(f->db, &filter, &f->arena, &record, &count));
    assert_int_equal(count, 2);
    expect_str(record[0].trial_id, "r2");
    expect_ok(kiln_db_best(f->db, &filter, &f->arena, &record, &count));
    assert_int_equal(count, 1);
    expect_str(record[0].trial_id, "r2");
    expect_ok(kiln_db_stats_of(f->db, &only_a, &f->arena, &stat, &count));
    assert_int_equal(count, 1);
    assert_int_equal(stat->record_count, 2);
    assert_true(stat->best_ns == 102);
    expect_ok(kiln_db_stats(f->db, &f->arena, &stat, &count));
    assert_int_equal(stat->record_count, 4);
    assert_true(stat->best_ns == 101);
    filter.projects = &hostile;
    expect_ok(kiln_db_best(f->db, &filter, &f->arena, &record, &count));
    assert_int_equal(count, 0);
    expect_ok(kiln_db_stats_of(f->db, &nothing, &f->arena, &stat, &count));
    assert_int_equal(count, 0);
}

static void a_hidden_final_supersedes_nothing(void **state) {
    fixture *f = *state;
    kiln_db_record *record = NULL;
    kiln_db_stat *stat = NULL;
    uint32_t count = 0;
    put_of(f, 1, "a");
    kiln_db_record later = record_of(2, 50);
    later.trace_hash = KILN_STR("r1");
    later.final = 1;
    later.gain_low = 0.5; /* slower than its default: never best */
    later.project = KILN_STR("b");
    expect_ok(put_now(f->db, &later));
    kiln_db_filter filter = {.order = KILN_DB_FASTEST};
    expect_ok(kiln_db_records(f->db, &filter, &f->arena, &record, &count));
    assert_int_equal(count, 0);
    filter.projects = &only_a;
    filter.task_key = KILN_STR("t1");
    expect_ok(kiln_db_records(f->db, &filter, &f->arena, &record, &count));
    assert_int_equal(count, 1);
    expect_ok(kiln_db_best(f->db, &filter, &f->arena, &record, &count));
    assert_int_equal(count, 1);
    expect_str(record[0].trial_id, "r1");
    expect_ok(kiln_db_stats_of(f->db, &only_a, &f->arena, &stat, &count));
    assert_true(count == 1 && stat->best_ns == 101);
}

static void a_list_is_continued_by_an_offset(void **state) {
    fixture *f = *state;
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    for (unsigned i = 1; i <= 3; i++) put_of(f, i, "a");
    kiln_db_filter filter = {.order = KILN_DB_FASTEST, .limit = 2, .offset = 2};
    expect_ok(kiln_db_records(f->db, &filter, &f->arena, &record, &count));
    assert_int_equal(count, 1);
    expect_str(record[0].trial_id, "r3");
    filter = (kiln_db_filter){.trial_id = KILN_STR("r2")};
    expect_ok(kiln_db_records(f->db, &filter, &f->arena, &record, &count));
    assert_int_equal(count, 1);
    expect_str(record[0].trial_id, "r2");
}

static kiln_status see_row(void *context, kiln_db_table table, const void *row) {
    fixture *f = context;
    (void)row;
    kiln_strbuf_printf(&f->seen, "%s ", kiln_db_table_info_of(table)->name);
    return KILN_OK;
}

static const char *pages_of(fixture *f, kiln_db_table table, const kiln_db_projects *projects) {
    kiln_db_page page = {.table = table, .projects = projects, .limit = 2};
    kiln_strbuf_reset(&f->seen);
    kiln_strbuf_text(&f->seen, "");
    expect_ok(kiln_db_newest_row(f->db, table, &page.last_row));
    do expect_ok(kiln_db_visit_page(f->db, &page, see_row, f, &page.after_row));
    while (page.after_row);
    return f->seen.data;
}

static void a_small_cache_changes_no_answer(void **state) {
    fixture *f = *state;
    put_of(f, 1, "a");
    kiln_db_bound_cache(f->db, 64 << 10);
    const kiln_db_trial_filter filter = {.job_id = KILN_STR("j1"), .limit = 9};
    assert_string_equal(trials_of(f, &filter), "r1=101 ");
}

static void tables_are_read_in_pages(void **state) {
    fixture *f = *state;
    for (unsigned i = 1; i <= 3; i++) put_of(f, i, i == 2 ? "b" : "a");
    assert_string_equal(pages_of(f, KILN_DB_TABLE_RECORD, NULL), "record record record ");
    assert_string_equal(pages_of(f, KILN_DB_TABLE_RECORD, &only_a), "record record ");
    assert_string_equal(pages_of(f, KILN_DB_TABLE_TASK, &only_a), "task ");
    assert_string_equal(pages_of(f, KILN_DB_TABLE_TASK, &nothing), "");
    assert_string_equal(pages_of(f, KILN_DB_TABLE_JOB, NULL), "job ");
    assert_string_equal(pages_of(f, KILN_DB_TABLE_JOB, &only_a), ""); /* it names no project */
    assert_string_equal(pages_of(f, KILN_DB_TABLE_TARGET, &nothing), "target ");
    assert_string_equal(pages_of(f, KILN_DB_TABLE_TOMBSTONE, NULL), "");
}

static void later_rows_are_left_out_of_a_copy(void **state) {
    fixture *f = *state;
    int64_t last = 0;
    kiln_db_page page = {.table = KILN_DB_TABLE_RECORD, .limit = 9};
    put_of(f, 1, "a");
    expect_ok(kiln_db_newest_row(f->db, KILN_DB_TABLE_RECORD, &page.last_row));
    put_of(f, 2, "a");
    expect_ok(kiln_db_visit_page(f->db, &page, see_row, f, &last));
    assert_string_equal(f->seen.data, "record ");
    assert_int_equal(last, page.last_row);
}

static void texts_and_numbers_become_json(void **state) {
    (void)state;
    kiln_strbuf out = {0};
    kiln_db_text_print_json((kiln_str){"a\"\\\n\x7f\xc3\xa9\xf0\x9f\x98\x80\xff", 12}, &out);
    assert_string_equal(out.data, "\"a\\\"\\\\\\u000a\\u007f\\u00e9\\ud83d\\ude00\\ufffd\"");
    kiln_strbuf_reset(&out);
    const double values[] = {0.1, INFINITY, -INFINITY, NAN, 3};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(values); i++) {
        kiln_db_real_print_json(values[i], &out);
        kiln_strbuf_char(&out, ' ');
    }
    assert_string_equal(out.data, "0.10000000000000001 \"inf\" \"-inf\" \"nan\" 3 ");
    kiln_strbuf_deinit(&out);
}

static void a_row_is_one_object(void **state) {
    (void)state;
    const double samples[] = {1, 2.5};
    kiln_strbuf out = {0};
    kiln_db_record record = record_of(1, 500);
    record.samples_ns = (kiln_db_samples){samples, 2};
    record.searcher = KILN_STR("</script>\n");
    kiln_db_row_print_json(KILN_DB_TABLE_RECORD, &record, &out);
    assert_non_null(strstr(out.data, "{\"table\":\"record\",\"trial_id\":\"r1\",\"attempt\":1,"));
    assert_non_null(strstr(out.data, "\"trace\":\"8101007a\""));
    assert_non_null(strstr(out.data, "\"samples_ns\":[1,2.5]"));
    assert_non_null(strstr(out.data, "\"searcher\":\"</script>\\u000a\""));
    assert_int_equal(out.data[out.size - 1], '}');
    kiln_strbuf_reset(&out);
    kiln_db_row_print_brief_json(KILN_DB_TABLE_RECORD, &record, &out);
    assert_non_null(strstr(out.data, "\"searcher\":\"</script>\\u000a\""));
    static const char *const absent[] = {"\"trace\"", "\"samples_ns\"", "\"signature\""};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(absent); i++) assert_null(strstr(out.data, absent[i]));
    kiln_strbuf_deinit(&out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    choose_place(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(trials_continue_after_a_row),
        TEST(trials_are_of_what_was_asked),
        TEST(the_newest_run_of_a_job_is_found),
        TEST(readings_are_of_one_device_in_the_order_of_time),
        TEST(a_visitor_ends_the_reading),
        TEST(records_and_counts_are_of_the_projects),
        TEST(a_hidden_final_supersedes_nothing),
        TEST(a_list_is_continued_by_an_offset),
        TEST(a_small_cache_changes_no_answer),
        TEST(tables_are_read_in_pages),
        TEST(later_rows_are_left_out_of_a_copy),
        cmocka_unit_test(texts_and_numbers_become_json),
        cmocka_unit_test(a_row_is_one_object),
    };
    return cmocka_run_group_tests_name("db/browse", tests, NULL, NULL);
}
