/* Rows in and out, and the questions about them. */
#include <string.h>

#include "base/thread_work.h"
#include "tests/unit/db/support.h"

typedef struct fixture {
    void *folder;
    kiln_db *db;
    kiln_arena arena;
} fixture;

static fixture the_fixture;

static int set_up(void **state) {
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
    folder_remove(&f->folder);
    return 0;
}

/* The trial ids that a filter finds: "r1 r2 ". */
static const char *found_by(fixture *f, const kiln_db_filter *filter) {
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    expect_ok(kiln_db_records(f->db, filter, &f->arena, &record, &count));
    char *text = kiln_arena_printf(&f->arena, "%s", "");
    for (uint32_t i = 0; i < count; i++)
        text = kiln_arena_printf(&f->arena, "%s%.*s ", text, KILN_STR_ARG(record[i].trial_id));
    return text;
}

static const char *best_of(fixture *f, const kiln_db_filter *filter) {
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    expect_ok(kiln_db_best(f->db, filter, &f->arena, &record, &count));
    char *text = kiln_arena_printf(&f->arena, "%s", "");
    for (uint32_t i = 0; i < count; i++)
        text = kiln_arena_printf(&f->arena, "%s%.*s=%g ", text, KILN_STR_ARG(record[i].trial_id),
                                 record[i].median_ns);
    return text;
}

static void a_record_comes_back_as_it_was_put(void **state) {
    fixture *f = *state;
    kiln_db_record put = record_of(7, 500);
    const double sample[] = {5, 3, 4, 9, 1};
    put.samples_ns = (kiln_db_samples){sample, 5};
    put.median_ns = 123; /* derived, so this is ignored */
    put.detail = (kiln_str){NULL, 0};
    expect_ok(kiln_db_put_record(f->db, &put));
    kiln_db_record *got = NULL;
    uint32_t count = 0;
    expect_ok(kiln_db_records(f->db, &(kiln_db_filter){0}, &f->arena, &got, &count));
    assert_int_equal(count, 1);
    assert_true(kiln_str_equal(got->trial_id, put.trial_id));
    assert_true(kiln_str_equal(got->trace, put.trace)); /* holds a zero byte */
    assert_int_equal(got->detail.size, 0);
    assert_int_equal(got->runs_per_sample, 3);
    assert_int_equal(got->samples_ns.count, 5);
    assert_memory_equal(got->samples_ns.data, sample, sizeof sample);
    assert_true(got->median_ns == 3 && got->min_ns == 1 && got->error == 0.25);
}

static void rows_that_are_read_are_counted(void **state) {
    fixture *f = *state;
    kiln_db_record *got = NULL;
    uint32_t count = 0;
    for (unsigned i = 0; i < 5; i++) put_record(f->db, i, 500);
    expect_ok(kiln_db_settle(f->db));
    const uint64_t before = kiln_thread_work_here()->rows;
    expect_ok(kiln_db_records(f->db, &(kiln_db_filter){0}, &f->arena, &got, &count));
    assert_int_equal(kiln_thread_work_here()->rows - before, 5);
}

static void the_same_trial_and_attempt_is_stored_once(void **state) {
    fixture *f = *state;
    put_record(f->db, 1, 500);
    put_record(f->db, 1, 100); /* a late duplicate */
    assert_string_equal(best_of(f, &(kiln_db_filter){0}), "r1=500 ");
    kiln_db_record again = record_of(1, 400);
    again.attempt = 2;
    expect_ok(kiln_db_put_record(f->db, &again));
    assert_string_equal(best_of(f, &(kiln_db_filter){0}), "r1=400 ");
}

static void only_checked_right_results_can_be_best(void **state) {
    fixture *f = *state;
    put_record(f->db, 1, 500);
    kiln_db_record unchecked = record_of(2, 10);
    unchecked.checked = 0;
    expect_ok(kiln_db_put_record(f->db, &unchecked));
    kiln_db_record wrong = record_of(3, 10);
    wrong.outcome = KILN_STR("wrong_result");
    wrong.blame = KILN_STR("candidate");
    expect_ok(kiln_db_put_record(f->db, &wrong));
    assert_string_equal(best_of(f, &(kiln_db_filter){0}), "r1=500 ");
    assert_string_equal(found_by(f, &(kiln_db_filter){.order = KILN_DB_FASTEST}), "r1 ");
}

static void best_is_per_task_and_target_and_layouts(void **state) {
    fixture *f = *state;
    expect_ok(
        kiln_db_put_task(f->db, &(kiln_db_task){.key = KILN_STR("t2"), .op = KILN_STR("dense")}));
    expect_ok(kiln_db_put_target(f->db, &(kiln_db_target){.target = KILN_STR("cpu:z")}));
    put_record(f->db, 1, 500);
    put_record(f->db, 2, 300);
    put_record(f->db, 3, 300); /* a tie: the first stored wins */
    kiln_db_record other = record_of(4, 900);
    other.task_key = KILN_STR("t2");
    expect_ok(kiln_db_put_record(f->db, &other));
    other = record_of(5, 50);
    other.target = KILN_STR("cpu:z");
    expect_ok(kiln_db_put_record(f->db, &other));
    other = record_of(6, 200);
    other.layout_in = KILN_STR("d0,d1/16,d2,d3,d1%16;row");
    expect_ok(kiln_db_put_record(f->db, &other));

    assert_string_equal(best_of(f, &(kiln_db_filter){0}), "r6=200 r5=50 r4=900 ");
    assert_string_equal(
        best_of(f, &(kiln_db_filter){.task_key = KILN_STR("t1"),
                                     .target =
                                         KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3")}),
        "r6=200 ");
    assert_string_equal(
        best_of(f,
                &(kiln_db_filter){.target = KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"),
                                  .by_layout = true}),
        "r2=300 r4=900 ");
    assert_string_equal(
        best_of(f, &(kiln_db_filter){.by_layout = true, .layout_in = other.layout_in}), "r6=200 ");
}

static void records_come_in_the_order_that_was_asked(void **state) {
    fixture *f = *state;
    put_record(f->db, 1, 500);
    put_record(f->db, 2, 300);
    put_record(f->db, 3, 400);
    assert_string_equal(found_by(f, &(kiln_db_filter){.order = KILN_DB_OLDEST}), "r1 r2 r3 ");
    assert_string_equal(found_by(f, &(kiln_db_filter){.order = KILN_DB_NEWEST, .limit = 2}),
                        "r3 r2 ");
    assert_string_equal(found_by(f, &(kiln_db_filter){.order = KILN_DB_FASTEST, .limit = 2}),
                        "r2 r3 ");
    assert_string_equal(found_by(f, &(kiln_db_filter){.trace_hash = KILN_STR("r2"),
                                                      .codegen_version = KILN_STR("1")}),
                        "r2 ");
    assert_string_equal(found_by(f, &(kiln_db_filter){.trace_hash = KILN_STR("r2"),
                                                      .codegen_version = KILN_STR("2")}),
                        "");
    assert_string_equal(found_by(f, &(kiln_db_filter){.job_id = KILN_STR("j2")}), "");
}

static void broken_records_are_refused(void **state) {
    fixture *f = *state;
    kiln_db_record bad = record_of(1, 500);
    bad.outcome = KILN_STR("great");
    expect_error(put_now(f->db, &bad), INVALID_ARGUMENT, "outcome");
    bad = record_of(1, 500);
    bad.samples_ns.count = 0; /* ok without a sample */
    expect_error(put_now(f->db, &bad), INVALID_ARGUMENT, "record");
    bad = record_of(1, 500);
    bad.trial_id = KILN_STR("");
    expect_error(put_now(f->db, &bad), INVALID_ARGUMENT, "trial_id");
    bad = record_of(1, 500);
    bad.detail.size = KILN_DB_TEXT_MAX + 1;
    expect_error(put_now(f->db, &bad), INVALID_ARGUMENT, "detail");
    assert_string_equal(found_by(f, &(kiln_db_filter){0}), "");
}

static kiln_status discard(void *context, uint32_t count, const kiln_db_cell *cell) {
    (void)cell;
    *(uint32_t *)context += count;
    return NULL;
}

static void a_job_is_replaced_and_keeps_its_records(void **state) {
    fixture *f = *state;
    put_record(f->db, 1, 500);
    kiln_db_job job = {.id = KILN_STR("j1"),
                       .target = KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"),
                       .state = KILN_STR("done"),
                       .seed = 9};
    expect_ok(kiln_db_put_job(f->db, &job));
    bool found = false;
    kiln_db_job got;
    expect_ok(kiln_db_find_job(f->db, KILN_STR("j1"), &f->arena, &got, &found));
    assert_true(found && kiln_str_is(got.state, "done") && got.seed == 9);
    expect_ok(kiln_db_find_job(f->db, KILN_STR("j2"), &f->arena, &got, &found));
    assert_false(found);
    assert_string_equal(found_by(f, &(kiln_db_filter){.job_id = KILN_STR("j1")}), "r1 ");
}

/* A record of the trace that `trace` names. */
static void put_one(fixture *f, unsigned number, const char *trace, double sample_ns, bool raced,
                    double gain_low) {
    kiln_db_record record = record_of(number, sample_ns);
    record.trace_hash = kiln_str_from(trace);
    record.raced = raced;
    record.final = gain_low > 0;
    record.gain_low = gain_low;
    expect_ok(kiln_db_put_record(f->db, &record));
}

static void a_raced_out_record_is_never_best(void **state) {
    fixture *f = *state;
    put_one(f, 1, "a", 500, false, 0);
    put_one(f, 2, "b", 400, true, 0);
    assert_string_equal(best_of(f, &(kiln_db_filter){0}), "r1=500 ");
    assert_string_equal(found_by(f, &(kiln_db_filter){.order = KILN_DB_FASTEST}), "r1 ");
    assert_string_equal(found_by(f, &(kiln_db_filter){0}), "r1 r2 ");
}

static void finals_come_before_what_was_measured_alone(void **state) {
    fixture *f = *state;
    put_one(f, 1, "default", 520, false, 0);
    put_one(f, 2, "lucky", 300, false, 0);
    put_one(f, 3, "steady", 310, false, 0);
    put_one(f, 4, "no finalist", 320, false, 0);
    put_one(f, 5, "default", 510, false, 1);
    put_one(f, 6, "lucky", 360, false, 1.3);
    put_one(f, 7, "steady", 330, false, 1.4);
    assert_string_equal(best_of(f, &(kiln_db_filter){0}), "r7=330 ");
    assert_string_equal(found_by(f, &(kiln_db_filter){.order = KILN_DB_FASTEST}), "r7 r6 r5 r4 ");
    put_one(f, 8, "steady", 340, false, 1.4); /* in a later job */
    assert_string_equal(found_by(f, &(kiln_db_filter){.order = KILN_DB_FASTEST}), "r8 r6 r5 r4 ");
}

static void a_final_that_its_default_beats_is_not_best(void **state) {
    fixture *f = *state;
    put_one(f, 1, "default", 310, false, 0);
    put_one(f, 2, "lucky", 300, false, 0);
    put_one(f, 3, "default", 305, false, 1);
    put_one(f, 4, "lucky", 304, false, 0.99);
    assert_string_equal(best_of(f, &(kiln_db_filter){0}), "r3=305 ");
    kiln_db_stat *stat = NULL;
    uint32_t count = 0;
    expect_ok(kiln_db_stats(f->db, &f->arena, &stat, &count));
    assert_int_equal(count, 1);
    assert_true(stat->best_ns == 305);
    assert_int_equal(stat->final_count, 2);
}

/* Nor does a final that came later take its trace's place. */
static void what_was_stored_later_can_be_left_out(void **state) {
    fixture *f = *state;
    static const struct {
        const char *trace;
        double sample_ns;
        bool final;
    } row[] = {{"a", 300, false}, {"b", 200, false}, {"c", 100, false}, {"b", 250, true}};
    for (unsigned i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_db_record record = record_of(i + 1, row[i].sample_ns);
        record.trace_hash = kiln_str_from(row[i].trace);
        record.final = row[i].final;
        record.gain_low = row[i].final ? 1.1 : 0;
        record.stored_wall_ns = 10 + i;
        expect_ok(kiln_db_put_record(f->db, &record));
    }
    kiln_db_filter filter = {.order = KILN_DB_FASTEST};
    assert_string_equal(found_by(f, &filter), "r4 r3 r1 ");
    filter.before_wall_ns = 12;
    assert_string_equal(found_by(f, &filter), "r2 r1 ");
    filter.before_wall_ns = 13;
    assert_string_equal(found_by(f, &filter), "r3 r2 r1 ");
    filter.order = KILN_DB_NEWEST;
    filter.before_wall_ns = 11;
    assert_string_equal(found_by(f, &filter), "r1 ");
}

/* Of the direct form errors are not asked: nothing is more exact. Whoever never heard of budgets
 * wrote no error. */
static void budgets_leave_records_out(void **state) {
    fixture *f = *state;
    static const struct {
        const char *algorithm;
        double sample_ns, relative_error;
    } row[] = {{"direct", 300, 1e-3},
               {"winograd_2x2_3x3", 200, 1e-6},
               {"winograd_2x2_3x3", 100, 1e-4},
               {"bf16", 50, 3e-3},
               {"winograd_2x2_3x3", 250, 0}};
    for (unsigned i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_db_record record = record_of(i + 1, row[i].sample_ns);
        char hash[2] = {(char)('a' + i), 0};
        record.trace_hash = kiln_str_from(hash);
        record.algorithm = kiln_str_from(row[i].algorithm);
        record.relative_error = row[i].relative_error;
        expect_ok(kiln_db_put_record(f->db, &record));
    }
    kiln_db_filter filter = {.order = KILN_DB_FASTEST};
    assert_string_equal(found_by(f, &filter), "r4 r3 r2 r5 r1 ");
    filter.allowed = (kiln_db_allowed){KILN_STR("direct,winograd_2x2_3x3"), 1e-4};
    assert_string_equal(found_by(f, &filter), "r3 r2 r5 r1 ");
    filter.allowed.error_max = 1e-5;
    assert_string_equal(found_by(f, &filter), "r2 r5 r1 ");
    assert_string_equal(best_of(f, &filter), "r2=200 ");
    filter.allowed = (kiln_db_allowed){KILN_STR("direct"), 1e-4};
    assert_string_equal(found_by(f, &filter), "r1 ");
    filter.allowed = (kiln_db_allowed){KILN_STR("direct,winograd_2x2_3x3,bf16"), 2e-2};
    assert_string_equal(best_of(f, &filter), "r4=50 ");
}

static void stats_count_outcomes_per_task_and_target(void **state) {
    fixture *f = *state;
    put_record(f->db, 1, 500);
    put_record(f->db, 2, 300);
    kiln_db_record crash = record_of(3, 1);
    crash.samples_ns.count = 0;
    crash.outcome = KILN_STR("crash");
    crash.blame = KILN_STR("candidate");
    expect_ok(kiln_db_put_record(f->db, &crash));
    expect_ok(kiln_db_put_record(f->db, &crash)); /* the same record: stored once, counted once */
    put_one(f, 4, "slow", 900, true, 0);
    kiln_db_stat *stat = NULL;
    uint32_t count = 0;
    expect_ok(kiln_db_stats(f->db, &f->arena, &stat, &count));
    assert_int_equal(count, 1);
    assert_true(kiln_str_is(stat->op, "conv2d"));
    assert_int_equal(stat->record_count, 4);
    assert_int_equal(stat->raced_count, 1);
    assert_int_equal(stat->outcome_count[KILN_OUTCOME_OK], 3);
    assert_int_equal(stat->outcome_count[KILN_OUTCOME_CRASH], 1);
    assert_true(stat->best_ns == 300 && stat->sampled_ns == 5 * 1700);
    assert_int_equal(stat->first_wall_ns, 1001);
    assert_int_equal(stat->last_wall_ns, 1004);
}

static kiln_status put_into(void *context, kiln_db_table table, const void *row) {
    return kiln_db_put(context, table, row);
}

static void rows_of_one_database_can_be_put_into_another(void **state) {
    fixture *f = *state;
    put_record(f->db, 1, 500);
    put_record(f->db, 2, 300);
    kiln_db *copy = open_records(place(&f->folder, 1));
    for (int round = 0; round < 2; round++) /* a second import changes nothing */
        for (unsigned table = 0; table < KILN_DB_TABLE_COUNT; table++)
            if (kiln_db_table_info_of((kiln_db_table)table)->kind == KILN_DB_RECORDS)
                expect_ok(kiln_db_each(f->db, (kiln_db_table)table, put_into, copy));
    expect_ok(kiln_db_commit(copy));
    fixture other = {.db = copy, .arena = f->arena};
    assert_string_equal(found_by(&other, &(kiln_db_filter){.order = KILN_DB_FASTEST}), "r2 r1 ");
    f->arena = other.arena;
    kiln_db_close(copy);
}

static kiln_status keep_text(void *context, uint32_t count, const kiln_db_cell *cell) {
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(context, "%s=%s;", cell[i].name, cell[i].text ? cell[i].text : "NULL");
    return NULL;
}

static void sql_reads_and_prints_every_type(void **state) {
    fixture *f = *state;
    put_record(f->db, 1, 500);
    kiln_strbuf text = {0};
    expect_ok(kiln_db_sql(
        f->db, KILN_STR("SELECT trial_id, attempt, median_ns, trace, detail FROM record;"),
        keep_text, &text));
    assert_string_equal(text.data,
                        on_server()
                            ? "trial_id=r1;attempt=1;median_ns=500;trace=8101007a;detail=NULL;"
                            : "trial_id=r1;attempt=1;median_ns=500.0;trace=8101007a;detail=NULL;");
    kiln_strbuf_deinit(&text);
}

static void sql_changes_nothing(void **state) {
    fixture *f = *state;
    put_record(f->db, 1, 500);
    const char *const refused[] = {
        "DELETE FROM job",
        "UPDATE task SET op = 'x'",
        "DROP TABLE record",
        "ATTACH '/tmp/x.db' AS x",
        "PRAGMA journal_mode = DELETE",
        "CREATE TABLE x (y)",
        "SELECT 1; DELETE FROM job",
        "SELEC 1",
        "",
        "COMMIT",
    };
    uint32_t cells = 0;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(refused); i++)
        expect_error(kiln_db_sql(f->db, kiln_str_from(refused[i]), discard, &cells),
                     INVALID_ARGUMENT, "");
    assert_int_equal(cells, 0);
    assert_true(kiln_db_pending(f->db));
    assert_string_equal(found_by(f, &(kiln_db_filter){0}), "r1 ");
}

static void identities_are_found_by_their_beginning(void **state) {
    fixture *f = *state;
    kiln_db_record row = record_of(1, 500);
    kiln_str id = {0};
    row.trial_id = KILN_STR("abcd01");
    expect_ok(put_now(f->db, &row));
    row.attempt = 2; /* the same trial once more */
    expect_ok(put_now(f->db, &row));
    row.trial_id = KILN_STR("abcd0123");
    expect_ok(put_now(f->db, &row));
    row.trial_id = KILN_STR("abce");
    expect_ok(put_now(f->db, &row));
    kiln_identity_search search = {.typed = KILN_STR("abcd"), .arena = &f->arena};
    expect_ok(kiln_db_try_identities(f->db, KILN_DB_OF_TRIAL, &search));
    assert_int_equal(search.count, 2);
    search = (kiln_identity_search){.typed = KILN_STR("abcd01"), .arena = &f->arena};
    expect_ok(kiln_db_try_identities(f->db, KILN_DB_OF_TRIAL, &search));
    expect_ok(kiln_identity_found(&search, "trial", &id));
    expect_str(id, "abcd01");
    search = (kiln_identity_search){.typed = KILN_STR("xbcd"), .arena = &f->arena};
    for (unsigned kind = 0; kind < KILN_DB_IDENTITY_COUNT; kind++)
        expect_ok(kiln_db_try_identities(f->db, (kiln_db_identity)kind, &search));
    assert_int_equal(search.count, 0);
    search =
        (kiln_identity_search){.typed = kiln_str_slice(row.task_key, 0, 4), .arena = &f->arena};
    expect_ok(kiln_db_try_identities(f->db, KILN_DB_OF_TASK, &search));
    expect_ok(kiln_identity_found(&search, "task", &id));
    assert_true(kiln_str_equal(id, row.task_key));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    choose_place(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(a_record_comes_back_as_it_was_put),
        TEST(rows_that_are_read_are_counted),
        TEST(the_same_trial_and_attempt_is_stored_once),
        TEST(only_checked_right_results_can_be_best),
        TEST(best_is_per_task_and_target_and_layouts),
        TEST(records_come_in_the_order_that_was_asked),
        TEST(broken_records_are_refused),
        TEST(a_job_is_replaced_and_keeps_its_records),
        TEST(a_raced_out_record_is_never_best),
        TEST(finals_come_before_what_was_measured_alone),
        TEST(a_final_that_its_default_beats_is_not_best),
        TEST(what_was_stored_later_can_be_left_out),
        TEST(budgets_leave_records_out),
        TEST(stats_count_outcomes_per_task_and_target),
        TEST(rows_of_one_database_can_be_put_into_another),
        TEST(sql_reads_and_prints_every_type),
        TEST(sql_changes_nothing),
        TEST(identities_are_found_by_their_beginning),
    };
    return cmocka_run_group_tests_name("db/query", tests, NULL, NULL);
}
