/* The blobs run for real in test_isolated and in the shell; here: what is made of their results. */
#include "rpc-server/golden.h"

#include <string.h>

#include "base/file.h"
#include "base/manifest.h"
#include "base/reference.h"
#include "tests/support/test.h"

typedef struct fixture {
    kiln_arena arena;
    char *folder;
    kiln_golden golden;
} fixture;

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = &the_fixture;
    *f = (fixture){0};
    kiln_arena_init(&f->arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-golden-test", &f->arena, &f->folder));
    expect_ok(kiln_golden_open(f->folder, NULL, &f->arena, &f->golden));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    expect_ok(kiln_folder_remove(f->folder));
    kiln_arena_deinit(&f->arena);
    return 0;
}

static const char *judge(fixture *f, uint64_t run_ns) {
    uint64_t samples[] = {run_ns * 30, run_ns * 10, run_ns * 20};
    const kiln_msg_trial_result result = {
        .outcome = KILN_OUTCOME_OK, .samples_ns = {samples, 3}, .runs = 10};
    return kiln_golden_judge(&f->golden, &result, &f->arena);
}

static void its_blobs_are_whole(void **state) {
    fixture *f = *state;
    kiln_str bytes;
    kiln_artefact artefact;
    kiln_mapping mapping = {0};
    kiln_reference reference;
    expect_ok(kiln_file_read(f->golden.artefact, KILN_ARTEFACT_BYTES_MAX, &f->arena, &bytes));
    expect_ok(kiln_artefact_decode(bytes, &f->arena, &artefact));
    assert_true(artefact.payload.size > 0 && artefact.manifest.arg_count == 3);
    expect_ok(kiln_file_map(f->golden.reference, &mapping));
    expect_ok(kiln_reference_decode((kiln_str){mapping.data, mapping.size}, &reference));
    assert_int_equal(reference.output_count, 1);
    kiln_file_unmap(&mapping);
}

static void the_least_time_counts_and_the_best_is_remembered(void **state) {
    fixture *f = *state;
    assert_null(judge(f, 1000));
    assert_true(f->golden.best_ns == 1000);
    assert_null(judge(f, 1900));
    assert_true(f->golden.best_ns == 1000);
    assert_null(judge(f, 800));
    kiln_golden again;
    expect_ok(kiln_golden_open(f->folder, NULL, &f->arena, &again));
    assert_true(again.best_ns == 800);
}

static void a_board_much_slower_than_it_was_fails(void **state) {
    fixture *f = *state;
    assert_null(judge(f, 1000));
    const char *failure = judge(f, 3100);
    assert_non_null(failure);
    expect_contains(failure, "took 3100 ns; its best time was 1000");
    expect_contains(failure, "best-ns"); /* what to do when that is how it shall be */
}

static void a_board_that_computes_wrong_fails(void **state) {
    fixture *f = *state;
    const kiln_msg_trial_result wrong = {.outcome = KILN_OUTCOME_WRONG_RESULT,
                                         .text = KILN_STR("element 7")};
    const char *failure = kiln_golden_judge(&f->golden, &wrong, &f->arena);
    assert_non_null(failure);
    expect_contains(failure, "wrong_result: element 7");
}

static void rubbish_in_its_memory_is_as_good_as_none(void **state) {
    fixture *f = *state;
    expect_ok(kiln_file_write(f->golden.memory, KILN_STR("-7\n"), 0600));
    expect_ok(kiln_golden_open(f->folder, NULL, &f->arena, &f->golden));
    assert_true(f->golden.best_ns == 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(its_blobs_are_whole),
        TEST(the_least_time_counts_and_the_best_is_remembered),
        TEST(a_board_much_slower_than_it_was_fails),
        TEST(a_board_that_computes_wrong_fails),
        TEST(rubbish_in_its_memory_is_as_good_as_none),
    };
    return cmocka_run_group_tests_name("rpc-server/golden", tests, NULL, NULL);
}
