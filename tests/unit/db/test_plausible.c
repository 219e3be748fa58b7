/* Each bound of db/plausible.h, just kept and just broken. */
#include "db/plausible.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/unit/db/support.h"

#define NOW INT64_C(1800000000000000000)
#define DAY_NS INT64_C(86400000000000)

static kiln_db_task the_task;

static kiln_db_record honest(void) {
    the_task = (kiln_db_task){.key = KILN_STR("t1"), .flops = 2e3};
    return record_of(1, 500); /* 4 GFLOP/s */
}

/* With the task's row, and with no row of it. */
static void expect_why(const kiln_db_record *record, const char *why) {
    the_task.flops = record->flops;
    for (int with_task = 0; with_task < 2; with_task++) {
        const char *found = kiln_record_implausible(record, with_task ? &the_task : NULL, NOW);
        if (why && found)
            assert_string_equal(found, why);
        else
            assert_true(why == found);
    }
}

static void an_honest_record_is_taken(void **state) {
    (void)state;
    kiln_db_record record = honest();
    expect_why(&record, NULL);
}

static void samples_are_times(void **state) {
    (void)state;
    static const struct {
        double ns;
        const char *ok, *failed; /* why not, by outcome */
    } row[] = {
        {1, NULL, NULL},
        {0.999, "a run took less than a nanosecond", NULL},
        {0, "a run took less than a nanosecond", NULL},
        {-1, "its samples are not times", "its samples are not times"},
        {NAN, "its samples are not times", "its samples are not times"},
        {INFINITY, "its samples are not times", "its samples are not times"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const double samples[] = {500, 500, row[i].ns, 500};
        kiln_db_record record = honest();
        record.samples_ns = (kiln_db_samples){samples, 4};
        expect_why(&record, row[i].ok);
        record.outcome = KILN_STR("timeout");
        expect_why(&record, row[i].failed);
    }
}

static void samples_have_a_number(void **state) {
    (void)state;
    const size_t most = KILN_PLAUSIBLE_SAMPLES_MAX;
    double *samples = kiln_alloc((most + 1) * sizeof *samples);
    for (size_t i = 0; i <= most; i++) samples[i] = 500;
    kiln_db_record record = honest();
    record.samples_ns = (kiln_db_samples){samples, most};
    expect_why(&record, NULL);
    record.samples_ns.count++;
    expect_why(&record, "it has too many samples");
    record.samples_ns.count = 0;
    expect_why(&record, "it has no samples");
    record.outcome = KILN_STR("timeout");
    expect_why(&record, NULL);
    kiln_free(samples);
}

static void figures_are_numbers(void **state) {
    (void)state;
    static const char *const name[] = {"flops",    "peak_flops", "build_ns",
                                       "gain_low", "search_ns",  "train_ns",
                                       "board_ns", "drift",      "drift_memory"};
    static const double wrong[] = {-1, -1e-300, NAN, INFINITY, -INFINITY};
    const kiln_db_table_info *info = kiln_db_table_info_of(KILN_DB_TABLE_RECORD);
    size_t found = 0;
    for (uint32_t i = 0; i < info->column_count; i++)
        for (size_t k = 0; k < KILN_ARRAY_COUNT(name); k++) {
            if (strcmp(info->column[i].name, name[k]) != 0) continue;
            found++;
            for (size_t w = 0; w < KILN_ARRAY_COUNT(wrong); w++) {
                kiln_db_record record = honest();
                *(double *)(void *)((char *)&record + info->column[i].offset) = wrong[w];
                expect_why(&record, "a figure is not a number, or negative");
            }
        }
    assert_int_equal(found, KILN_ARRAY_COUNT(name));
}

static void numbers_of_an_assembler_are_none_below_zero(void **state) {
    (void)state;
    kiln_db_record record = honest();
    kiln_record_set_assembled(&record, &(kiln_assembled){168, 0, 8, 4096});
    expect_why(&record, NULL);
    kiln_assembled said = kiln_record_assembled(&record);
    assert_int_equal(said.registers, 168);
    assert_int_equal(said.shared_bytes, 4096);
    record.registers = -1;
    record.stack_bytes = INT64_MAX;
    expect_why(&record, "a figure is not a number, or negative");
    said = kiln_record_assembled(&record);
    assert_int_equal(said.registers, 0);
    assert_int_equal(said.stack_bytes, KILN_ASSEMBLED_MAX);
}

static void boards_are_at_most_a_hundred_times_slower(void **state) {
    (void)state;
    kiln_db_record record = honest();
    record.drift = record.drift_memory = 100;
    expect_why(&record, NULL);
    record.drift = 100.1;
    expect_why(&record, "its board was a hundred times slower than usual");
    record.drift = 0;
    record.drift_memory = 100.1;
    expect_why(&record, "its board was a hundred times slower than usual");
}

static void a_checked_result_is_right(void **state) {
    (void)state;
    static const double wrong[] = {1.001, NAN, INFINITY};
    kiln_db_record record = honest();
    record.error = 1;
    expect_why(&record, NULL);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++) {
        record = honest();
        record.error = wrong[i];
        expect_why(&record, "its result is wrong, by its own figure");
        record.checked = 0;
        expect_why(&record, NULL);
        record.checked = 1;
        record.outcome = KILN_STR("wrong_result");
        expect_why(&record, NULL);
    }
}

static void targets_are_known_and_have_threads(void **state) {
    (void)state;
    kiln_db_record record = honest();
    record.target = KILN_STR("abacus:beads");
    expect_why(&record, "its target is unknown to this version");
    record.target = KILN_STR("");
    expect_why(&record, "its target is unknown to this version");
    record = honest();
    record.threads = 2;
    expect_why(&record, "its threads are not those of its target");
    record.target = KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3,threads=2");
    expect_why(&record, NULL);
    record.threads = INT64_C(1) << 32 | 2;
    expect_why(&record, "its threads are not those of its target");
}

static void operations_are_those_of_the_task(void **state) {
    (void)state;
    kiln_db_record record = honest();
    record.flops = 2.1e3;
    const char *why = kiln_record_implausible(&record, &the_task, NOW);
    assert_string_equal(why, "its operations are not those of its task's shape");
    assert_null(kiln_record_implausible(&record, NULL, NOW));
    record.flops = 1.9e3;
    assert_non_null(kiln_record_implausible(&record, &the_task, NOW));
    record.flops = 2e3 * (1 + 1e-9); /* printed and read again */
    assert_null(kiln_record_implausible(&record, &the_task, NOW));
}

static void peaks_are_those_of_machines(void **state) {
    (void)state;
    static const struct {
        const char *target;
        double most;
        int64_t threads;
    } row[] = {
        {"cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3", KILN_PLAUSIBLE_CORE_FLOPS, 1},
        {"cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3,threads=4", 4 * KILN_PLAUSIBLE_CORE_FLOPS, 4},
        {"cuda:sm_90", KILN_PLAUSIBLE_DEVICE_FLOPS, 1},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_db_record record = honest();
        record.target = kiln_str_from(row[i].target);
        record.threads = row[i].threads;
        record.peak_flops = row[i].most;
        expect_why(&record, NULL);
        record.peak_flops *= 1.001;
        expect_why(&record, "no such machine computes at its peak");
        record.samples_ns.count = 0;
        record.outcome = KILN_STR("timeout");
        expect_why(&record, "no such machine computes at its peak");

        /* One sample is enough, and one that did not end well says nothing. */
        record = honest();
        record.target = kiln_str_from(row[i].target);
        record.threads = row[i].threads;
        double samples[] = {500, 500, 500, 100};
        record.samples_ns = (kiln_db_samples){samples, 4};
        record.flops = row[i].most * 99e-9;
        expect_why(&record, NULL);
        record.flops = row[i].most * 101e-9;
        expect_why(&record, "it is faster than any such machine");
        record.algorithm = KILN_STR("direct");
        expect_why(&record, "it is faster than any such machine");
        record.algorithm = KILN_STR("winograd");
        expect_why(&record, NULL);
        record.flops *= KILN_PLAUSIBLE_SAVING;
        expect_why(&record, "it is faster than any such machine");
        record.outcome = KILN_STR("timeout");
        expect_why(&record, NULL);
    }
}

static void kernels_keep_below_the_peak_of_their_board(void **state) {
    (void)state;
    const double rate = 4e9;
    kiln_db_record record = honest();
    record.peak_flops = rate / KILN_PLAUSIBLE_PEAK_RATIO * 1.001;
    expect_why(&record, NULL);
    record.peak_flops = rate / KILN_PLAUSIBLE_PEAK_RATIO * 0.999;
    expect_why(&record, "it is faster than the peak of its board");
    record.algorithm = KILN_STR("direct");
    expect_why(&record, "it is faster than the peak of its board");
    record.algorithm = KILN_STR("winograd");
    expect_why(&record, NULL);
    record.peak_flops /= KILN_PLAUSIBLE_SAVING;
    expect_why(&record, "it is faster than the peak of its board");
}

static void nothing_was_stored_in_the_future(void **state) {
    (void)state;
    kiln_db_record record = honest();
    record.stored_wall_ns = NOW + DAY_NS;
    expect_why(&record, NULL);
    record.stored_wall_ns++;
    expect_why(&record, "it was stored in the future");
    assert_null(kiln_record_implausible(&record, NULL, 0));
    record.stored_wall_ns = INT64_MAX;
    expect_why(&record, "it was stored in the future");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_honest_record_is_taken),
        cmocka_unit_test(samples_are_times),
        cmocka_unit_test(samples_have_a_number),
        cmocka_unit_test(figures_are_numbers),
        cmocka_unit_test(numbers_of_an_assembler_are_none_below_zero),
        cmocka_unit_test(boards_are_at_most_a_hundred_times_slower),
        cmocka_unit_test(a_checked_result_is_right),
        cmocka_unit_test(targets_are_known_and_have_threads),
        cmocka_unit_test(operations_are_those_of_the_task),
        cmocka_unit_test(peaks_are_those_of_machines),
        cmocka_unit_test(kernels_keep_below_the_peak_of_their_board),
        cmocka_unit_test(nothing_was_stored_in_the_future),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
