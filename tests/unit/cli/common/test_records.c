/* Which records are compared. */
#include "cli/common/records.h"

#include "tests/support/test.h"

static kiln_db_record default_of(const char *job, bool final, double median_ns) {
    return (kiln_db_record){.searcher = KILN_STR("default"),
                            .outcome = KILN_STR("ok"),
                            .checked = 1,
                            .job_id = kiln_str_from(job),
                            .final = final,
                            .median_ns = median_ns};
}

static void a_best_is_compared_with_the_default_that_ran_beside_it(void **state) {
    (void)state;
    kiln_db_record row[] = {default_of("a", false, 1), default_of("a", true, 2),
                            default_of("b", true, 3), default_of("c", false, 4),
                            default_of("d", true, 0)}; /* the last did not run right */
    kiln_db_record best = {.job_id = KILN_STR("a"), .final = 1};
    assert_ptr_equal(kiln_record_default(row, 5, &best), &row[1]); /* in turns with it */
    best.job_id = KILN_STR("x");
    assert_ptr_equal(kiln_record_default(row, 5, &best), &row[2]); /* of another final */
    assert_ptr_equal(kiln_record_default(row, 5, NULL), &row[2]);
    row[1].final = row[2].final = 0;
    assert_ptr_equal(kiln_record_default(row, 5, &best), &row[3]); /* the last */
    row[3].searcher = KILN_STR("sa");
    row[2].checked = 0;
    assert_ptr_equal(kiln_record_default(row, 5, &best), &row[1]);
    assert_null(kiln_record_default(row, 0, &best));
    /* A job may have several finals; the records of one are stored at one time. */
    kiln_db_record of_job[] = {default_of("a", true, 1), default_of("a", true, 2)};
    of_job[0].stored_wall_ns = best.stored_wall_ns = 5;
    of_job[1].stored_wall_ns = 6;
    best.job_id = KILN_STR("a");
    assert_ptr_equal(kiln_record_default(of_job, 2, &best), &of_job[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_best_is_compared_with_the_default_that_ran_beside_it),
    };
    return cmocka_run_group_tests_name("cli/common/records", tests, NULL, NULL);
}
