#include <stdio.h>
#include <string.h>

#include "tests/unit/tuner/shop.h"

static void cancel(shop *s) {
    const kiln_message cancel = {
        .type = KILN_MSG_CANCEL,
        .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j"), .reason = KILN_STR("enough")}};
    shop_say(s, &cancel);
}

static void a_job_goes_from_assignment_to_its_end(void **state) {
    shop *s = *state;
    shop_open(s);
    shop_assign(s, 10);
    const kiln_tuner_action *prepare = shop_take(s, KILN_TUNER_PREPARE);
    assert_string_equal(prepare->text, "j");
    shop_prepare(s, 2, NULL, 0);
    shop_run_dry(s);
    s->seen = 0;
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->code, KILN_OK);
    assert_int_equal(done->trials, 10);
    assert_int_equal(done->records.byte[0], 77);
    assert_int_equal(done->tasks.count, 2);
    assert_int_equal(done->tasks.item[0].planned, 5);
    assert_true(done->tasks.item[0].best_ns == 1000); /* of one run */
    assert_true(done->tasks.item[0].default_ns >= 1000);
    kiln_message close = {.type = KILN_MSG_JOB_CLOSE, .job_close = {.job = KILN_STR("j")}};
    shop_say(s, &close);
    assert_non_null(shop_take(s, KILN_TUNER_FORGET));
    assert_int_equal(s->t->job.count, 0);
}

static void whom_the_project_trusts_goes_with_the_job(void **state) {
    shop *s = *state;
    char halves[2 * KILN_MESSAGES_SIGNER];
    memset(halves, 7, sizeof halves);
    kiln_message assign = {
        .type = KILN_MSG_JOB_ASSIGN,
        .job_assign = {.job = KILN_STR("j"),
                       .spec = {.target = KILN_STR("cpu:x"), .searcher = KILN_STR("random")},
                       .trusted = {halves, sizeof halves}}};
    shop_open(s);
    shop_say(s, &assign);
    memset(halves, 0, sizeof halves);
    const kiln_str trusted = shop_take(s, KILN_TUNER_PREPARE)->trusted;
    assert_int_equal(trusted.size, sizeof halves);
    assert_int_equal(trusted.data[0], 7);
    assert_int_equal(trusted.data[sizeof halves - 1], 7);
}

/* What is not measured goes back, and what is stored counts when the job is ours again. */
static void a_job_that_another_tuner_claims_begins_anew(void **state) {
    shop *s = *state;
    shop_begin(s, 10, 1);
    const kiln_msg_trial *first = shop_next_trial(s);
    assert_non_null(first);
    shop_answer(s, first, KILN_OUTCOME_OK);
    shop_skip(s);
    const uint64_t before = s->job;
    const uint32_t leases = s->t->job.data[0]->lease.count;
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_CLAIM_LOST, .job = before});
    assert_int_equal(shop_count_sent(s, KILN_MSG_LEASE_RELEASE), leases);
    assert_int_equal(shop_count_sent(s, KILN_MSG_JOB_DONE), 0);
    assert_null(shop_take(s, KILN_TUNER_FORGET)->text);
    assert_string_equal(shop_take(s, KILN_TUNER_PREPARE)->text, "j");
    assert_true(s->job != before);
    shop_tick(s, 60 * SHOP_S);
    assert_int_equal(shop_count_sent(s, KILN_MSG_LEASE_REQ), 0);
    const kiln_tuner_result stored = {
        .outcome = KILN_OUTCOME_OK, .median_ns = 1000, .least_ns = 1000};
    shop_prepare(s, 1, &stored, 1);
    shop_run_dry(s);
    s->seen = 0;
    assert_int_equal(shop_done(s)->trials, 10);
    /* What is over stays so. */
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_CLAIM_LOST, .job = s->job});
    assert_int_equal(s->t->job.data[0]->state, KILN_TUNER_JOB_ENDED);
    kiln_message close = {.type = KILN_MSG_JOB_CLOSE, .job_close = {.job = KILN_STR("j")}};
    shop_skip(s);
    shop_say(s, &close);
    assert_string_equal(shop_take(s, KILN_TUNER_FORGET)->text, "done");
}

static kiln_message assign_run(const char *run) {
    return (kiln_message){.type = KILN_MSG_JOB_ASSIGN,
                          .job_assign = {.job = KILN_STR("nightly"),
                                         .spec = {.target = KILN_STR("cpu:x"), .trials = 4},
                                         .run = kiln_str_from(run)}};
}

/* Each has records and an age of its own, under one name. */
static void runs_of_a_job_are_kept_apart(void **state) {
    shop *s = *state;
    kiln_message first = assign_run("1"), second = assign_run("2"), unknown = assign_run("");
    char trial[2][KILN_HASH128_TEXT];
    shop_open(s);
    shop_say(s, &first);
    assert_string_equal(shop_take(s, KILN_TUNER_PREPARE)->text, "nightly.1");
    shop_prepare(s, 1, NULL, 0);
    snprintf(trial[0], sizeof trial[0], "%s", s->t->job.data[0]->trial.data[0]->id);
    shop_run_dry(s);
    assert_int_equal(s->t->job.data[0]->state, KILN_TUNER_JOB_ENDED);
    shop_skip(s);
    shop_say(s, &first);
    shop_say(s, &unknown); /* of a tracker of the release before */
    assert_int_equal(shop_count(s, KILN_TUNER_PREPARE), 0);
    shop_say(s, &second);
    assert_string_equal(shop_take(s, KILN_TUNER_FORGET)->text, "done");
    assert_string_equal(shop_take(s, KILN_TUNER_PREPARE)->text, "nightly.2");
    shop_prepare(s, 1, NULL, 0);
    snprintf(trial[1], sizeof trial[1], "%s", s->t->job.data[0]->trial.data[0]->id);
    assert_string_not_equal(trial[0], trial[1]);
    shop_run_dry(s);
    s->seen = 0;
    expect_str(shop_done(s)->job, "nightly");
}

/* What the tracker says counts: it may have ended the job while it was out of reach. */
static void a_jobs_row_says_how_it_ended(void **state) {
    shop *s = *state;
    kiln_message close = {.type = KILN_MSG_JOB_CLOSE,
                          .job_close = {.job = KILN_STR("j"), .state = KILN_JOB_CANCELLED}};
    shop_begin(s, 10, 1);
    shop_say(s, &close);
    assert_string_equal(shop_take(s, KILN_TUNER_FORGET)->text, "cancelled");
    close.job_close.state = 0;
    shop_assign(s, 10);
    shop_say(s, &close);
    assert_null(shop_take(s, KILN_TUNER_FORGET)->text);
    close.job_close.state = KILN_JOB_RUNNING; /* its end was not heard */
    shop_assign(s, 10);
    cancel(s);
    shop_say(s, &close);
    assert_string_equal(shop_take(s, KILN_TUNER_FORGET)->text, "cancelled");
}

static void a_job_that_is_stopping_ended_as_it_was_told_to(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    const kiln_msg_trial *trial = shop_next_trial(s);
    s->by_hand = true;
    shop_answer(s, trial, KILN_OUTCOME_OK); /* RECORD is under way */
    cancel(s);
    assert_int_equal(s->t->job.data[0]->state, KILN_TUNER_JOB_STOPPING);
    shop_say(s, &(kiln_message){.type = KILN_MSG_JOB_CLOSE, .job_close = {.job = KILN_STR("j")}});
    assert_string_equal(shop_take(s, KILN_TUNER_FORGET)->text, "cancelled");
}

static void the_end_waits_for_records_whose_upload_failed(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    const kiln_msg_trial *trial = shop_next_trial(s);
    s->by_hand = true;
    shop_answer(s, trial, KILN_OUTCOME_OK);
    shop_skip(s);
    s->seen = 0;
    shop_recorded(s, shop_take(s, KILN_TUNER_RECORD), KILN_OK, NULL);
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_GATHERED, .job = s->job});
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_EXPORTED, .job = s->job, .digest = {{77}}});
    assert_non_null(shop_take(s, KILN_TUNER_UPLOAD));
    const kiln_tuner_event failed = {.kind = KILN_TUNER_UPLOADED,
                                     .digest = s->t->job.data[0]->records,
                                     .code = KILN_INTERNAL,
                                     .failure = "no room"};
    shop_step(s, &failed);
    shop_skip(s);
    shop_say(s, &(kiln_message){.type = KILN_MSG_PONG});
    shop_tick(s, KILN_TUNER_RETRY_NS);
    assert_int_equal(shop_count(s, KILN_TUNER_UPLOAD), 1);
    assert_int_equal(shop_count_sent(s, KILN_MSG_JOB_DONE), 0);
}

static void what_was_best_before_the_job_is_known_from_its_beginning(void **state) {
    shop *s = *state;
    const kiln_tuner_task task = {
        .key = KILN_STR("t0"), .op = KILN_STR("conv"), .weight = 1, .best_ns = 500};
    s->by_hand = true;
    shop_begin_tasks(s, 0, 8, &task, 1);
    assert_true(s->t->job.data[0]->task[0].final.alone_ns == 500);
}

static uint64_t budget_with(shop *s, const kiln_tuner_task *task) {
    s->by_hand = true;
    shop_begin_tasks(s, 0, 11, task, 3);
    return s->t->job.data[0]->budget;
}

static void what_is_stored_of_a_share_is_not_measured_again(void **state) {
    shop *s = *state;
    const kiln_tuner_task task[3] = {{.key = KILN_STR("a")},
                                     {.key = KILN_STR("b"), .stored_count = 3},
                                     {.key = KILN_STR("c"), .stored_count = 9}};
    assert_int_equal(budget_with(s, task), 5); /* 11 = 4 + 4 + 3, less 3 and 3 */
    assert_false(s->t->job.data[0]->task[0].closed);
    assert_true(s->t->job.data[0]->task[2].closed);
}

/* Shares of the first call were not equal; the second measures nothing all the same. */
static void an_identical_job_measures_nothing(void **state) {
    shop *s = *state;
    const kiln_tuner_task task[3] = {{.key = KILN_STR("a"), .repeat_count = 9},
                                     {.key = KILN_STR("b"), .repeat_count = 1},
                                     {.key = KILN_STR("c"), .repeat_count = 1}};
    assert_int_equal(budget_with(s, task), 0);
}

/* A schedule written by hand has a trial of its own, also where the share is used up. */
static void what_is_written_by_hand_is_measured_beside_the_share(void **state) {
    shop *s = *state;
    const kiln_tuner_task task[3] = {{.key = KILN_STR("a"), .stored_count = 4},
                                     {.key = KILN_STR("b"), .stored_count = 4, .by_hand_count = 1},
                                     {.key = KILN_STR("c"), .stored_count = 3}};
    assert_int_equal(budget_with(s, task), 1);
    assert_false(s->t->job.data[0]->task[1].closed);
    assert_true(s->t->job.data[0]->task[0].closed);
    assert_int_equal(shop_take(s, KILN_TUNER_PROPOSE)->task, 1);
    assert_null(shop_take(s, KILN_TUNER_PROPOSE));
}

static void seconds_alone_bound_the_time_only(void **state) {
    shop *s = *state;
    shop_begin_for(s, 5, 0, 1);
    for (uint32_t i = 0; i < 3 * KILN_TUNER_TRIALS_DEFAULT; i++)
        shop_answer(s, shop_next_trial(s), KILN_OUTCOME_OK);
    assert_int_equal(s->t->job.data[0]->state, KILN_TUNER_JOB_RUNNING);
    shop_tick(s, 5 * SHOP_S + 1);
    shop_run_dry(s);
    assert_int_equal(s->t->job.data[0]->state, KILN_TUNER_JOB_ENDED);
}

/* A kernel of a million operations in 1050 ns, on a board that can do `peak_flops`. */
static uint32_t trials_of(shop *s, double seconds, uint32_t trials, double peak_flops) {
    const kiln_tuner_task task = {.key = KILN_STR("a"), .flops = 1e6, .least_flops = 1e6};
    const kiln_msg_trial_result result = {
        .outcome = KILN_OUTCOME_OK, .checked = true, .peak_flops = peak_flops};
    shop_begin_tasks(s, seconds, trials, &task, 1);
    uint32_t count = 0;
    while (count < 2000 && !shop_count_sent(s, KILN_MSG_JOB_DONE)) {
        shop_answer_with(s, shop_next_trial(s), 1050, &result);
        count++;
    }
    return count;
}

static void at_the_peak_time_is_not_used_up(void **state) {
    shop *s = *state;
    uint32_t count = trials_of(s, 3600, 0, 1e12); /* 1000 ns at its peak */
    assert_true(count > 100 && count < 2000);
    assert_int_equal(shop_done(s)->tasks.item[0].rest, KILN_REST_AT_PEAK);
}

static void far_from_the_peak_it_is(void **state) {
    assert_int_equal(trials_of(*state, 3600, 0, 1e14), 2000);
}

static void trials_that_were_asked_for_are_made_even_at_the_peak(void **state) {
    assert_int_equal(trials_of(*state, 0, 1900, 1e12), 1900);
}

static void without_a_budget_each_task_gets_the_default(void **state) {
    shop *s = *state;
    shop_begin(s, 0, 1);
    assert_int_equal(shop_take_sent(s, KILN_MSG_JOB_EVENT)->job_event.tasks.item[0].planned,
                     KILN_TUNER_TRIALS_DEFAULT);
}

static void a_job_whose_share_is_stored_measures_nothing(void **state) {
    shop *s = *state;
    const kiln_tuner_task task = {.key = KILN_STR("a"), .stored_count = 4};
    shop_begin_tasks(s, 0, 4, &task, 1);
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->code, KILN_OK);
    assert_int_equal(done->trials, 0);
    assert_int_equal(done->tasks.item[0].rest, KILN_REST_STORED);
    s->seen = 0;
    assert_int_equal(shop_count(s, KILN_TUNER_PROPOSE), 0);
    assert_int_equal(shop_count_sent(s, KILN_MSG_LEASE_REQ), 0);
}

/* A kernel that does what two others do: each of the three is weighed against the others. */
static void tasks_know_what_they_stand_against(void **state) {
    shop *s = *state;
    const kiln_tuner_task task[3] = {{.key = KILN_STR("a"), .weight = 1},
                                     {.key = KILN_STR("b"), .weight = 1},
                                     {.key = KILN_STR("c"), .weight = 1}};
    const kiln_tuner_alternative joined = {.task = 2, .count = 2, .instead_of = {0, 1}, .times = 1};
    s->by_hand = true;
    shop_open(s);
    shop_assign(s, 9);
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_PREPARED,
                                     .job = s->job,
                                     .task_list = task,
                                     .task_count = 3,
                                     .alternative = &joined,
                                     .alternative_count = 1});
    const kiln_tuner_job_task *made = s->t->job.data[0]->task;
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(made[i].stats.substitute_count, 1);
    assert_ptr_equal(made[1].stats.substitutes[0]->apart[1], &made[1].stats);
    assert_ptr_equal(made[1].stats.substitutes[0]->joined, &made[2].stats);
}

static void what_cannot_be_prepared_ends_with_its_reason(void **state) {
    shop *s = *state;
    shop_open(s);
    shop_assign(s, 4);
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_PREPARED,
                                     .job = s->job,
                                     .code = KILN_UNIMPLEMENTED,
                                     .failure = "unknown operator Foo"});
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->code, KILN_UNIMPLEMENTED);
    expect_str(done->text, "unknown operator Foo");
}

static void the_end_is_repeated_until_it_is_heard(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    shop_run_dry(s);
    shop_skip(s);
    shop_tick(s, KILN_TUNER_RESEND_NS);
    (void)shop_done(s);
    shop_close(s);
    shop_tick(s, KILN_TUNER_RESEND_NS);
    assert_int_equal(shop_count_sent(s, KILN_MSG_JOB_DONE), 0);
    shop_open(s);
    (void)shop_done(s);
    shop_assign(s, 1); /* the tracker lost it: the same job is not done anew */
    assert_int_equal(shop_count(s, KILN_TUNER_PREPARE), 0);
}

static void cancel_hands_in_what_is_recorded(void **state) {
    shop *s = *state;
    shop_begin(s, 8, 1);
    uint64_t lease = shop_grant(s);
    shop_answer(s, shop_next_trial(s), KILN_OUTCOME_OK);
    shop_skip(s);
    cancel(s);
    assert_int_equal(shop_take_sent(s, KILN_MSG_LEASE_RELEASE)->lease_release.lease, lease);
    assert_int_equal(s->t->job.data[0]->lease.count, 0);
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->code, KILN_CANCELLED);
    expect_str(done->text, "enough");
    assert_int_equal(done->trials, 1);
    assert_int_equal(done->records.byte[0], 77);
}

/* A job whose first result is being recorded. */
static const kiln_tuner_action *begin_to_record(shop *s) {
    shop_begin(s, 8, 1);
    shop_grant(s);
    const kiln_msg_trial *trial = shop_next_trial(s);
    s->by_hand = true;
    shop_answer(s, trial, KILN_OUTCOME_OK);
    return shop_take(s, KILN_TUNER_RECORD);
}

static void cancel_waits_for_a_record_under_way(void **state) {
    shop *s = *state;
    const kiln_tuner_action *record = begin_to_record(s);
    cancel(s);
    assert_int_equal(shop_count(s, KILN_TUNER_EXPORT), 0);
    shop_recorded(s, record, KILN_OK, NULL);
    assert_int_equal(shop_count(s, KILN_TUNER_EXPORT), 1);
}

static void a_full_disk_ends_the_job(void **state) {
    shop *s = *state;
    const kiln_tuner_action *record = begin_to_record(s);
    s->by_hand = false;
    shop_recorded(s, record, KILN_RESOURCE_EXHAUSTED, "the disk is full");
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL_ACK),
                     0); /* nothing that is not kept is acknowledged */
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->code, KILN_RESOURCE_EXHAUSTED);
    expect_str(done->text, "the disk is full");
}

static void when_the_time_is_up_only_what_boards_have_is_finished(void **state) {
    shop *s = *state;
    shop_begin_for(s, 5, 1000, 1);
    assert_true(kiln_tuner_next_ns(s->t) <= s->now_ns + 5 * SHOP_S + 1);
    shop_grant(s);
    shop_tick(s, 5 * SHOP_S + 1);
    shop_run_dry(s);
    s->seen = 0;
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->code, KILN_OK);
    assert_int_equal(done->trials, KILN_TUNER_BOARD_DEPTH);
    assert_int_equal(done->tasks.item[0].planned, KILN_TUNER_BOARD_DEPTH);
}

static void progress_is_told_but_not_too_often(void **state) {
    shop *s = *state;
    shop_begin(s, 64, 1);
    assert_int_equal(shop_count_sent(s, KILN_MSG_JOB_EVENT), 1);
    shop_run_dry(s);
    s->seen = 0;
    assert_int_equal(shop_count_sent(s, KILN_MSG_JOB_EVENT), 1); /* no time has passed */
}

static void too_many_jobs_are_refused(void **state) {
    shop *s = *state;
    shop_open(s);
    for (uint32_t i = 0; i <= KILN_TUNER_JOBS_MAX; i++) {
        kiln_message assign = {
            .type = KILN_MSG_JOB_ASSIGN,
            .job_assign = {.job = kiln_str_from(kiln_arena_printf(&s->arena, "j%u", i)),
                           .spec = {.target = KILN_STR("cpu:x")}}};
        shop_say(s, &assign);
    }
    assert_int_equal(s->t->job.count, KILN_TUNER_JOBS_MAX);
    assert_int_equal(shop_done(s)->code, KILN_RESOURCE_EXHAUSTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_shop(a_job_goes_from_assignment_to_its_end),
        test_with_shop(whom_the_project_trusts_goes_with_the_job),
        test_with_shop(a_job_that_another_tuner_claims_begins_anew),
        test_with_shop(a_jobs_row_says_how_it_ended),
        test_with_shop(a_job_that_is_stopping_ended_as_it_was_told_to),
        test_with_shop(the_end_waits_for_records_whose_upload_failed),
        test_with_shop(what_was_best_before_the_job_is_known_from_its_beginning),
        test_with_shop(runs_of_a_job_are_kept_apart),
        test_with_shop(what_is_stored_of_a_share_is_not_measured_again),
        test_with_shop(an_identical_job_measures_nothing),
        test_with_shop(what_is_written_by_hand_is_measured_beside_the_share),
        test_with_shop(seconds_alone_bound_the_time_only),
        test_with_shop(at_the_peak_time_is_not_used_up),
        test_with_shop(far_from_the_peak_it_is),
        test_with_shop(trials_that_were_asked_for_are_made_even_at_the_peak),
        test_with_shop(without_a_budget_each_task_gets_the_default),
        test_with_shop(a_job_whose_share_is_stored_measures_nothing),
        test_with_shop(tasks_know_what_they_stand_against),
        test_with_shop(what_cannot_be_prepared_ends_with_its_reason),
        test_with_shop(the_end_is_repeated_until_it_is_heard),
        test_with_shop(cancel_hands_in_what_is_recorded),
        test_with_shop(cancel_waits_for_a_record_under_way),
        test_with_shop(a_full_disk_ends_the_job),
        test_with_shop(when_the_time_is_up_only_what_boards_have_is_finished),
        test_with_shop(progress_is_told_but_not_too_often),
        test_with_shop(too_many_jobs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
