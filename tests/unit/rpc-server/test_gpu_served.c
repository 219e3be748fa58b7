/* Trials of a device whose child lives on: planted candidates for the null device through the real
 * contained child, which serves one after the other until something goes wrong. This program is its
 * own helper and child. */
#include <string.h>

#include "base/file.h"
#include "base/reference.h"
#include "tests/support/null_artefact.h"
#include "tests/unit/rpc-server/served.h"

#define ELEMENTS NULL_ARTEFACT_ELEMENTS
#define SEED 7

/* y[i] = x[i] + x[i] for `count` elements, `times` times over. */
static const char *write_artefact(served *f, int64_t count, int64_t times) {
    kiln_null_instruction code[] = {
        {KILN_NULL_SET, 6, 0, 0, 0, 0},          {KILN_NULL_LOOP, 9, 0, 0, 0, 0},
        {KILN_NULL_LOOP, 7, 0, 0, 0, 0},         {KILN_NULL_LOAD, 8, 6, 7, 0, 1},
        {KILN_NULL_ADD, 8, 8, 8, 0, 0},          {KILN_NULL_STORE, 8, 6, 7, 1, 1},
        {KILN_NULL_LOOP_END, 7, 0, 0, 0, count}, {KILN_NULL_LOOP_END, 9, 0, 0, 0, times},
        {KILN_NULL_END, 0, 0, 0, 0, 0},
    };
    const kiln_str bytes =
        null_artefact_encode(&(null_artefact){.target = "null",
                                              .dtype = KILN_I32,
                                              .count = ELEMENTS,
                                              .instruction_count = KILN_ARRAY_COUNT(code),
                                              .instruction = code},
                             &f->arena);
    const char *path = kiln_arena_printf(&f->arena, "%s/artefact-%lld-%lld", f->folder,
                                         (long long)count, (long long)times);
    expect_ok(kiln_file_write(path, bytes, 0600));
    return path;
}

/* What y must be, in a file of that name: a store names blobs by their content. */
static const char *write_reference(served *f, const char *name) {
    uint32_t x[ELEMENTS], y[ELEMENTS];
    kiln_strbuf bytes = {0};
    kiln_fill_data(x, KILN_I32, ELEMENTS, kiln_input_seed(SEED, 0), KILN_FILL_UNIFORM);
    for (uint32_t i = 0; i < ELEMENTS; i++) y[i] = x[i] + x[i];
    const kiln_reference reference = {
        .output_count = 1,
        .output = {{.dtype = KILN_I32, .shape = {.rank = 1, .dim = {ELEMENTS}}, .value = y}}};
    const char *path = kiln_arena_printf(&f->arena, "%s/%s", f->folder, name);
    kiln_reference_encode(&reference, &bytes);
    expect_ok(kiln_file_write(path, kiln_strbuf_view(&bytes), 0600));
    kiln_strbuf_deinit(&bytes);
    return path;
}

static const kiln_msg_trial the_trial = {
    .seed = SEED,
    .policy = {.samples_min = 1, .samples_max = 5, .interval = 0.01, .total_ns = 1000000}};

static void run_candidate(served *f, int64_t count, int64_t times) {
    served_run(f, &the_trial, write_artefact(f, count, times), write_reference(f, "reference"));
}

static void expect_right(served *f) {
    run_candidate(f, ELEMENTS, 1);
    served_expect(f, KILN_OUTCOME_OK, KILN_BLAME_NONE, "");
    assert_true(f->result.checked);
}

static void one_child_serves_trial_after_trial(void **state) {
    served *f = *state;
    expect_right(f);
    const uint64_t child = served_by(f);
    assert_int_equal(served_children(f), f->idle + 1);
    for (uint32_t i = 0; i < 5; i++) {
        expect_right(f);
        assert_int_equal(served_by(f), child);
    }
}

/* The right result of the trial before was in this memory. */
static void what_the_trial_before_left_does_not_count(void **state) {
    served *f = *state;
    expect_right(f);
    const uint64_t child = served_by(f);
    run_candidate(f, ELEMENTS - 1, 1);
    served_expect(f, KILN_OUTCOME_WRONG_RESULT, KILN_BLAME_CANDIDATE, "1 of 16 elements");
    expect_right(f);
    assert_int_equal(served_by(f), child); /* it did nothing to the device */
}

static void a_fault_ends_the_child_and_the_next_trial_gets_a_fresh_one(void **state) {
    served *f = *state;
    expect_right(f);
    const uint64_t child = served_by(f);
    run_candidate(f, ELEMENTS + 1, 1);
    served_expect(f, KILN_OUTCOME_CRASH, KILN_BLAME_CANDIDATE, "the kernel returned an error: ");
    assert_int_equal(served_children(f), f->idle);
    expect_right(f);
    assert_true(served_by(f) != child);
}

static void what_is_refused_leaves_the_child_in_place(void **state) {
    served *f = *state;
    expect_right(f);
    const uint64_t child = served_by(f);
    kiln_null_instruction endless[] = {{KILN_NULL_LOOP, 9, 0, 0, 0, 0}};
    const char *broken = kiln_arena_printf(&f->arena, "%s/broken", f->folder);
    const kiln_str bytes = null_artefact_encode(&(null_artefact){.target = "null",
                                                                 .dtype = KILN_I32,
                                                                 .count = ELEMENTS,
                                                                 .instruction_count = 1,
                                                                 .instruction = endless},
                                                &f->arena);
    expect_ok(kiln_file_write(broken, bytes, 0600));
    served_run(f, &the_trial, broken, write_reference(f, "reference"));
    served_expect(f, KILN_OUTCOME_LINK_ERROR, KILN_BLAME_CANDIDATE, "");
    expect_right(f);
    assert_int_equal(served_by(f), child);
}

static void an_endless_kernel_is_killed_with_its_child(void **state) {
    served *f = *state;
    expect_right(f);
    f->is_hasty = true;
    run_candidate(f, ELEMENTS, INT64_C(1) << 34);
    f->is_hasty = false;
    assert_true(f->died);
    assert_int_equal(served_children(f), f->idle);
    expect_right(f);
}

static void another_reference_gets_another_child(void **state) {
    served *f = *state;
    expect_right(f);
    const uint64_t child = served_by(f);
    served_run(f, &the_trial, write_artefact(f, ELEMENTS, 1), write_reference(f, "another"));
    served_expect(f, KILN_OUTCOME_OK, KILN_BLAME_NONE, "");
    assert_true(served_by(f) != child);
    assert_int_equal(served_children(f), f->idle + 1); /* the other one is gone */
}

static void a_child_that_ends_while_it_waits_is_replaced(void **state) {
    served *f = *state;
    expect_right(f);
    served_kill(served_by(f));
    expect_right(f);
}

/* No code of the candidate ran: what came before may have spoilt the device. */
static void one_that_ends_while_it_links_is_the_boards_fault(void **state) {
    served *f = *state;
    expect_right(f);
    f->is_killed_loaded = true;
    run_candidate(f, ELEMENTS, 1);
    f->is_killed_loaded = false;
    served_expect(f, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD,
                  "the child had served 1 trials: signal 9");
    expect_right(f);
}

static void a_child_serves_a_bounded_number_of_trials(void **state) {
    served *f = *state;
    const char *artefact = write_artefact(f, ELEMENTS, 1),
               *reference = write_reference(f, "reference");
    for (uint32_t i = 1; i <= KILN_SUPERVISOR_SERVES_MAX; i++) {
        served_run(f, &the_trial, artefact, reference);
        served_expect(f, KILN_OUTCOME_OK, KILN_BLAME_NONE, "");
        assert_int_equal(served_children(f), f->idle + (i < KILN_SUPERVISOR_SERVES_MAX));
    }
    expect_right(f);
}

static int set_up(void **state) {
    static served the_served;
    *state = &the_served;
    served_open(&the_served, KILN_TARGET_NULL, NULL);
    return 0;
}

static int tear_down(void **state) {
    served_close(*state);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    if (kiln_helper_is_asked(argc, argv)) kiln_helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(one_child_serves_trial_after_trial),
        TEST(what_the_trial_before_left_does_not_count),
        TEST(a_fault_ends_the_child_and_the_next_trial_gets_a_fresh_one),
        TEST(what_is_refused_leaves_the_child_in_place),
        TEST(an_endless_kernel_is_killed_with_its_child),
        TEST(another_reference_gets_another_child),
        TEST(a_child_that_ends_while_it_waits_is_replaced),
        TEST(one_that_ends_while_it_links_is_the_boards_fault),
        TEST(a_child_serves_a_bounded_number_of_trials),
    };
    return cmocka_run_group_tests_name("rpc-server/gpu_served", tests, NULL, NULL);
}
