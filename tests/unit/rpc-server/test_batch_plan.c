/* What passes of a folder of trials, and what does not. */
#include "rpc-server/batch_plan.h"

#include <string.h>

#include "tests/support/test.h"

#define LINE(id) KILN_BATCH_LINE_BEGINS id "\",\"trace\":\"00\"}\n"
#define ROWS "{\"table\":\"task\",\"key\":\"k\"}\n{\"table\":\"record\",\"trial_id\":\"ee\"}\n"

typedef struct fixture {
    kiln_arena arena;
    kiln_strbuf trials;
    kiln_batch_plan plan;
} fixture;

static kiln_msg_trial a_trial(const char *id) {
    return (kiln_msg_trial){.trial = kiln_str_from(id),
                            .attempt = 1,
                            .lease = 1,
                            .job = KILN_STR("job"),
                            .artefact = {.size = 10},
                            .reference = {.size = 20}};
}

static void add(fixture *f, const kiln_msg_trial *trial) {
    expect_ok(kiln_frame_write_message(&f->trials,
                                       &(kiln_message){.type = KILN_MSG_TRIAL, .trial = *trial}));
}

static void begin(fixture *f, uint32_t trials) {
    kiln_strbuf_reset(&f->trials);
    expect_ok(kiln_frame_write_message(&f->trials,
                                       &(kiln_message){.type = KILN_MSG_LEASE_REQ,
                                                       .lease_req = {.request = 1,
                                                                     .job = KILN_STR("job"),
                                                                     .target = KILN_STR("null"),
                                                                     .trials = trials}}));
}

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = &the_fixture;
    *f = (fixture){0};
    kiln_arena_init(&f->arena, 0);
    const kiln_msg_trial first = a_trial("aa"), second = a_trial("bb");
    begin(f, 2);
    add(f, &first);
    add(f, &second);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_strbuf_deinit(&f->trials);
    kiln_batch_plan_deinit(&f->plan);
    kiln_arena_deinit(&f->arena);
    return 0;
}

static kiln_status read_plan(fixture *f, const char *records, const char *rows) {
    kiln_batch_plan_deinit(&f->plan);
    f->plan = (kiln_batch_plan){0};
    return kiln_batch_plan_read(kiln_strbuf_view(&f->trials), kiln_str_from(records),
                                kiln_str_from(rows), &f->arena, &f->plan);
}

static void refuse(fixture *f, const char *records, const char *rows, const char *text) {
    expect_error(read_plan(f, records, rows), DATA_LOSS, text);
}

static void trials_and_their_records_are_read(void **state) {
    fixture *f = *state;
    expect_ok(read_plan(f, LINE("aa") LINE("bb"), ROWS));
    assert_int_equal(f->plan.count, 2);
    assert_true(kiln_str_is(f->plan.target, "null"));
    assert_true(kiln_str_is(f->plan.trial[1].trial.trial, "bb"));
    assert_true(kiln_str_ends(f->plan.trial[1].record, "\"00\""));
}

static void parts_that_do_not_belong_together_are_refused(void **state) {
    fixture *f = *state;
    refuse(f, LINE("bb") LINE("aa"), ROWS, "line 1 is not the record of trial 0");
    refuse(f, LINE("aa"), ROWS, "1 lines for 2 trials");
    refuse(f, LINE("aa") LINE("bb") LINE("cc"), ROWS, "line 3");
    refuse(f, LINE("aa") LINE("bb") "{", ROWS, "2 lines for 2 trials");
    refuse(f, LINE("aa") "{\"table\":\"record\",\"trial_id\":\"bb\n", ROWS, "line 2");
    refuse(f, LINE("aa") LINE("bb"), LINE("aa"), "rows.jsonl: line 1");
    refuse(f, LINE("aa") LINE("bb"), "no row\n", "rows.jsonl: line 1");
    refuse(f, LINE("aa") LINE("bb"), "{}\n{\"a\":\"\x1b[2J\"}\n", "rows.jsonl: line 2");
    refuse(f, LINE("aa") LINE("bb"), "{}\n{}", "line 2 does not end");
}

static void other_frames_than_trials_are_refused(void **state) {
    fixture *f = *state;
    kiln_msg_trial trial = a_trial("aa");
    f->trials.size -= 3;
    refuse(f, LINE("aa") LINE("bb"), ROWS, "ends after 1 of 2 trials");
    f->trials.size = 0;
    refuse(f, "", "", "ends after 0 of 0");
    add(f, &trial);
    refuse(f, LINE("aa"), ROWS, "does not name a target");
    begin(f, 2);
    add(f, &trial);
    add(f, &trial);
    refuse(f, LINE("aa") LINE("aa"), ROWS, "trial 1 appears twice");
    begin(f, 1);
    add(f, &trial);
    trial = a_trial("bb");
    add(f, &trial);
    refuse(f, LINE("aa") LINE("bb"), ROWS, "not one of the 1 trials");
    begin(f, 1);
    trial = a_trial("a\"");
    add(f, &trial);
    refuse(f, LINE("aa"), ROWS, "not a hexadecimal number");
    begin(f, 1);
    trial = a_trial("aa");
    trial.artefact.size = 0;
    add(f, &trial);
    refuse(f, LINE("aa"), ROWS, "no artefact");
    begin(f, 1);
    trial = a_trial("aa");
    trial.module.threads = 1;
    add(f, &trial);
    expect_error(read_plan(f, LINE("aa"), ROWS), UNIMPLEMENTED, "only artefacts");
}

static void expect_resumed(const fixture *f, const char *results, size_t size, bool first,
                           bool second) {
    bool done[2] = {true, true}; /* of another folder */
    size_t kept = 1;
    expect_ok(kiln_batch_plan_resume(&f->plan, kiln_str_from(results), done, &kept));
    assert_int_equal(kept, size);
    assert_int_equal(done[0], first);
    assert_int_equal(done[1], second);
}

static void results_are_gone_on_with_after_their_last_whole_line(void **state) {
    fixture *f = *state;
    bool done[2];
    size_t kept = 0;
    expect_ok(read_plan(f, LINE("aa") LINE("bb"), ROWS));
    expect_resumed(f, "", 0, false, false);
    expect_resumed(f, "{\"table\":\"ta", 0, false, false);
    expect_resumed(f, ROWS, strlen(ROWS), false, false);
    expect_resumed(f, ROWS "{\"table\":\"device\"}\n" LINE("bb") "{\"table\":\"rec",
                   strlen(ROWS "{\"table\":\"device\"}\n" LINE("bb")), false, true);
    expect_error(kiln_batch_plan_resume(&f->plan, KILN_STR(ROWS LINE("cc")), done, &kept),
                 DATA_LOSS, "trial cc is not in this folder");
    expect_error(kiln_batch_plan_resume(&f->plan, KILN_STR("else\n"), done, &kept), DATA_LOSS,
                 "belong to another folder");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(trials_and_their_records_are_read),
        TEST(parts_that_do_not_belong_together_are_refused),
        TEST(other_frames_than_trials_are_refused),
        TEST(results_are_gone_on_with_after_their_last_whole_line),
    };
    return cmocka_run_group_tests_name("rpc-server/batch_plan", tests, NULL, NULL);
}
