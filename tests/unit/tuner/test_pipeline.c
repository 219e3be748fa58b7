#include "tests/unit/tuner/shop.h"

static void built(shop *s, const kiln_tuner_action *build, kiln_outcome outcome) {
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_BUILT,
                                     .job = build->job,
                                     .task = build->task,
                                     .index = build->index,
                                     .outcome = outcome,
                                     .artefact = {{{9}}, 100},
                                     .assembled = {.registers = 255, .spill_bytes = 160},
                                     .text = "why"});
}

/* A job of one trial, by hand up to what its builder says. */
static void build_one(shop *s, kiln_outcome outcome) {
    s->by_hand = true;
    shop_begin(s, 1, 1);
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_PROPOSED, .job = s->job});
    built(s, shop_take(s, KILN_TUNER_BUILD), outcome);
}

static void upload_ended(shop *s, const kiln_digest *digest, kiln_code code, const char *failure) {
    shop_step(
        s, &(kiln_tuner_event){
               .kind = KILN_TUNER_UPLOADED, .digest = *digest, .code = code, .failure = failure});
}

static void proposals_lead_observations_by_the_lag(void **state) {
    shop *s = *state;
    shop_begin(s, 100, 1);
    shop_run_dry(s);
    uint32_t observed = 0, proposed = 0;
    for (uint32_t i = 0; i < s->done.count; i++) {
        const kiln_tuner_action *action = &s->done.data[i];
        uint32_t lag = kiln_tuner_lag(action->index);
        if (action->kind == KILN_TUNER_PROPOSE) {
            assert_int_equal(action->index, proposed++);
            assert_true(observed + lag > action->index);
            /* No later than it may: nothing is observed before what could be proposed without. */
            assert_true(observed == 0 || observed + lag - 1 <= action->index);
        }
        if (action->kind == KILN_TUNER_OBSERVE) assert_int_equal(action->index, observed++);
    }
    assert_int_equal(proposed, 100);
    assert_int_equal(observed, 100);
}

static void results_are_observed_in_order_however_they_come(void **state) {
    shop *s = *state;
    shop_begin(s, 3, 1);
    shop_grant(s);
    const kiln_msg_trial *trial[3];
    for (int i = 0; i < 3; i++) trial[i] = shop_next_trial(s);
    shop_answer(s, trial[2], KILN_OUTCOME_OK);
    shop_answer(s, trial[1], KILN_OUTCOME_OK);
    assert_int_equal(shop_count(s, KILN_TUNER_OBSERVE), 0);
    shop_answer(s, trial[0], KILN_OUTCOME_WRONG_RESULT);
    const kiln_tuner_action *observe = shop_take(s, KILN_TUNER_OBSERVE);
    assert_int_equal(observe->index, 0);
    assert_int_equal(observe->outcome, KILN_OUTCOME_WRONG_RESULT);
    assert_true(observe->least_ns == 0);
    assert_int_equal(shop_take(s, KILN_TUNER_OBSERVE)->index, 1);
    assert_true(shop_take(s, KILN_TUNER_OBSERVE)->least_ns == 1000);
}

static void a_search_space_that_ends_ends_the_task(void **state) {
    shop *s = *state;
    s->exhausted = 1u << 0;
    shop_begin(s, 10, 1);
    s->seen = 0;
    assert_int_equal(shop_count(s, KILN_TUNER_EXPORT), 1);
    assert_int_equal(shop_count(s, KILN_TUNER_BUILD), 0);
}

static void no_more_builds_than_builders_are_out(void **state) {
    shop *s = *state;
    s->by_hand = true;
    shop_begin(s, 10, 1);
    for (uint32_t i = 0; i < 10; i++)
        shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_PROPOSED, .job = s->job, .index = i});
    assert_int_equal(shop_count(s, KILN_TUNER_BUILD), 4);
    built(s, shop_take(s, KILN_TUNER_BUILD), KILN_OUTCOME_OK);
    assert_int_equal(shop_count(s, KILN_TUNER_BUILD), 4); /* three are out and one is new */
}

static void jobs_share_the_builders(void **state) {
    shop *s = *state;
    shop_hire(s, 1);
    s->builders_hang = true;
    shop_begin(s, 5, 1);
    s->seen = 0;
    const kiln_tuner_action *build = shop_take(s, KILN_TUNER_BUILD);
    shop_say(s,
             &(kiln_message){.type = KILN_MSG_JOB_ASSIGN,
                             .job_assign = {.job = KILN_STR("k"),
                                            .spec = {.target = KILN_STR("cpu:x"), .trials = 5}}});
    shop_prepare(s, 1, NULL, 0);
    shop_skip(s);
    built(s, build, KILN_OUTCOME_OK);
    assert_int_equal(shop_count(s, KILN_TUNER_BUILD), 1);
    assert_int_equal(shop_count(s, KILN_TUNER_REFERENCE), 0); /* a builder makes it, too */
}

static void a_candidate_that_does_not_compile_is_recorded_without_a_board(void **state) {
    shop *s = *state;
    build_one(s, KILN_OUTCOME_BUILD_ERROR);
    const kiln_tuner_action *record = shop_take(s, KILN_TUNER_RECORD);
    assert_int_equal(record->outcome, KILN_OUTCOME_BUILD_ERROR);
    assert_int_equal(record->blame, KILN_BLAME_CANDIDATE);
    assert_string_equal(record->text, "why");
    assert_int_equal(record->assembled.registers, 255);
    assert_int_equal(record->assembled.spill_bytes, 160);
    assert_null(record->result);
    assert_null(record->grant);
    char id[KILN_HASH128_TEXT];
    kiln_trial_identity(KILN_STR("j"), KILN_STR("t0"), 0, id);
    assert_string_equal(record->trial, id);
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_RECORDED, .job = s->job});
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL_ACK), 0);
    assert_int_equal(shop_take(s, KILN_TUNER_OBSERVE)->assembled.registers, 255);
}

/* Of the only task, once all that it needs is with the tracker, and not before. */
static const kiln_msg_trial *first_trial(shop *s) {
    build_one(s, KILN_OUTCOME_OK);
    const kiln_tuner_action *first = shop_take(s, KILN_TUNER_UPLOAD),
                            *second = shop_take(s, KILN_TUNER_UPLOAD);
    assert_non_null(second);
    s->seen = 0;
    shop_grant(s);
    upload_ended(s, &first->digest, KILN_OK, NULL);
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), 0);
    upload_ended(s, &second->digest, KILN_OK, NULL);
    return shop_next_trial(s);
}

static void a_trial_is_ready_when_artefact_and_reference_are_with_the_tracker(void **state) {
    const kiln_msg_trial *trial = first_trial(*state);
    assert_int_equal(trial->artefact.digest.byte[0], 9);
    assert_int_equal(trial->reference.digest.byte[0], 8);
    assert_int_equal(trial->seed, 4);
    assert_int_equal(trial->policy.samples_min, 5);
    assert_int_equal(trial->deadlines_ms.run, 10000);
    assert_int_equal(trial->attempt, 1);
}

static void under_an_emulator_few_samples_are_enough_and_time_is_not_short(void **state) {
    shop *s = *state;
    s->target = "rpi4,emulated,threads=2";
    const kiln_msg_trial *trial = first_trial(s);
    assert_int_equal(trial->policy.samples_min, 2);
    assert_int_equal(trial->deadlines_ms.run, 120000);
}

/* No task waits for the references of others. */
static void a_reference_is_made_before_the_first_candidate_of_its_task(void **state) {
    shop *s = *state;
    shop_begin(s, 6, 2);
    shop_run_dry(s);
    s->seen = 0;
    assert_int_equal(shop_count(s, KILN_TUNER_REFERENCE), 2);
    bool made[2] = {false};
    for (uint32_t i = 0; i < s->done.count; i++) {
        const kiln_tuner_action *action = &s->done.data[i];
        if (action->kind == KILN_TUNER_REFERENCE) made[action->task] = true;
        if (action->kind == KILN_TUNER_BUILD) assert_true(made[action->task]);
        if (action->kind == KILN_TUNER_BUILD && action->task == 0 && action->index == 0)
            assert_false(made[1]);
    }
}

static void expect_fault(const kiln_msg_job_done *done, const char *task, const char *text) {
    uint32_t i = 0;
    while (i < done->faults.count && !kiln_str_is(done->faults.item[i].key, task)) i++;
    assert_true(i < done->faults.count);
    expect_str(done->faults.item[i].text, text);
}

static void a_reference_that_cannot_be_made_ends_its_task_only(void **state) {
    shop *s = *state;
    s->unreferenced = 1u << 0;
    s->finalists = 2;
    shop_begin(s, 6, 2);
    shop_run_dry(s);
    shop_tick(s, SHOP_S);
    shop_run_dry(s);
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->code, KILN_OK);
    assert_int_equal(done->tasks.count, 2);
    expect_fault(done, "t0", "no memory for it");
    assert_int_equal(done->tasks.item[0].done, 0);
    assert_int_equal(done->tasks.item[0].rest, KILN_REST_NONE);
    assert_int_equal(done->faults.count, 1);
    assert_int_equal(done->tasks.item[1].done, 6); /* it has the trials of both */
    s->seen = 0;
    assert_int_equal(shop_count(s, KILN_TUNER_REFERENCE), 2);
}

static void a_job_without_any_reference_ends(void **state) {
    shop *s = *state;
    s->unreferenced = 3;
    shop_begin(s, 6, 2);
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->code, KILN_INTERNAL);
    expect_str(done->text, "no memory for it");
    expect_fault(done, "t0", "no memory for it");
    expect_fault(done, "t1", "no memory for it");
}

static void a_final_without_a_reference_ends_and_the_job_goes_on(void **state) {
    shop *s = *state;
    kiln_tuner_result stored[2] = {
        {.task = 0, .index = 0, .outcome = KILN_OUTCOME_OK, .median_ns = 1000, .least_ns = 1000},
        {.task = 0, .index = 1, .outcome = KILN_OUTCOME_OK, .median_ns = 900, .least_ns = 900}};
    s->unreferenced = 1u << 0;
    s->finalists = 2;
    shop_open(s);
    shop_assign(s, 4);
    shop_prepare(s, 2, stored, 2);
    shop_run_dry(s);
    shop_tick(s, SHOP_S);
    shop_run_dry(s);
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->code, KILN_OK);
    expect_fault(done, "t0", "no memory for it");
    assert_int_equal(done->tasks.item[0].done, 2);
    assert_true(done->tasks.item[1].done >= 2);
}

static void a_task_that_cannot_be_searched_leaves_its_trials_to_others(void **state) {
    shop *s = *state;
    const kiln_tuner_task task[2] = {
        {.key = KILN_STR("t0"), .op = KILN_STR("a"), .error = KILN_STR("it has no schedule")},
        {.key = KILN_STR("t1"), .op = KILN_STR("b")}};
    shop_begin_tasks(s, 0, 5, task, 2);
    shop_run_dry(s);
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->code, KILN_OK);
    expect_fault(done, "t0", "it has no schedule");
    assert_int_equal(done->tasks.item[1].done, 5);
    s->seen = 0;
    for (uint32_t i = 0; i < s->done.count; i++)
        if (s->done.data[i].kind == KILN_TUNER_PROPOSE) assert_int_equal(s->done.data[i].task, 1);
}

static void an_upload_that_fails_is_repeated_and_given_up_in_the_end(void **state) {
    shop *s = *state;
    build_one(s, KILN_OUTCOME_OK);
    const kiln_digest artefact = {{9}};
    for (uint32_t i = 1; i < KILN_TUNER_UPLOADS_MAX; i++) {
        shop_skip(s);
        upload_ended(s, &artefact, KILN_RESOURCE_EXHAUSTED, "full");
        assert_int_equal(shop_count(s, KILN_TUNER_UPLOAD), 0);
        shop_tick(s, KILN_TUNER_RETRY_NS);
        assert_int_equal(shop_count(s, KILN_TUNER_UPLOAD), 1);
    }
    upload_ended(s, &artefact, KILN_RESOURCE_EXHAUSTED, "full");
    const kiln_tuner_action *record = shop_take(s, KILN_TUNER_RECORD);
    assert_int_equal(record->outcome, KILN_OUTCOME_INFRA);
    assert_string_equal(record->text, "full");
}

static void an_upload_that_lost_its_connection_is_never_given_up(void **state) {
    shop *s = *state;
    build_one(s, KILN_OUTCOME_OK);
    for (uint32_t i = 0; i < 3 * KILN_TUNER_UPLOADS_MAX; i++) {
        upload_ended(s, &(kiln_digest){{9}}, KILN_UNAVAILABLE, "closed");
        shop_close(s);
        shop_tick(s, SHOP_S);
        shop_open(s);
    }
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 0);
}

static void stored_results_are_proposed_and_observed_but_not_measured(void **state) {
    shop *s = *state;
    static const kiln_tuner_result stored[] = {
        {.index = 2, .outcome = KILN_OUTCOME_CRASH},
        {.index = 0,
         .outcome = KILN_OUTCOME_OK,
         .median_ns = 500,
         .least_ns = 480,
         .assembled = {.registers = 96}},
        {.task = 7, .outcome = KILN_OUTCOME_OK, .median_ns = 1},
        {.index = 99, .outcome = KILN_OUTCOME_OK, .median_ns = 1},
    };
    shop_open(s);
    shop_assign(s, 4);
    shop_prepare(s, 1, stored, 4);
    shop_run_dry(s);
    s->seen = 0;
    assert_int_equal(shop_count(s, KILN_TUNER_PROPOSE), 4);
    assert_int_equal(shop_count(s, KILN_TUNER_OBSERVE), 4);
    assert_int_equal(shop_count(s, KILN_TUNER_BUILD), 2);
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 2);
    const kiln_tuner_action *first = shop_take(s, KILN_TUNER_OBSERVE);
    assert_true(first->least_ns == 480);
    assert_int_equal(first->assembled.registers, 96);
    s->seen = 0;
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->trials, 4);
    assert_true(done->tasks.item[0].best_ns == 500);
}

/* Job "j" of one task to its end; what an earlier run recorded and how long it took. */
static kiln_msg_task_state summary_of(shop *s, double seconds, uint32_t trials,
                                      const kiln_tuner_result *stored, uint32_t count,
                                      uint64_t spent_ns) {
    const kiln_tuner_task task = {.key = KILN_STR("t0")};
    shop_assign_for(s, seconds, trials);
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_PREPARED,
                                     .job = s->job,
                                     .task_list = &task,
                                     .task_count = 1,
                                     .stored = stored,
                                     .stored_count = count,
                                     .spent_ns = spent_ns});
    shop_tick(s, SHOP_MS);
    shop_run_dry(s);
    s->seen = 0;
    const kiln_msg_job_done done = *shop_done(s);
    assert_int_equal(done.tasks.count, 1);
    assert_int_equal(done.trials, done.tasks.item[0].done);
    kiln_message close = {.type = KILN_MSG_JOB_CLOSE, .job_close = {.job = KILN_STR("j")}};
    shop_say(s, &close);
    s->done.count = s->seen = s->asked = 0;
    return done.tasks.item[0];
}

static void a_summary_does_not_tell_whether_the_tuner_was_restarted(void **state) {
    shop *s = *state;
    shop_open(s);
    kiln_msg_task_state whole = summary_of(s, 0, 6, NULL, 0, 0);
    assert_int_equal(whole.done, 6);
    kiln_tuner_result stored[6];
    for (uint32_t i = 0; i < 6; i++)
        stored[i] =
            (kiln_tuner_result){.index = i, .outcome = KILN_OUTCOME_OK, .median_ns = whole.best_ns};
    for (uint32_t count = 1; count <= 6; count++) {
        kiln_msg_task_state parted = summary_of(s, 0, 6, stored, count, SHOP_S);
        assert_int_equal(parted.done, whole.done);
        assert_int_equal(parted.planned, whole.planned);
        assert_int_equal(parted.failed, whole.failed);
        assert_true(parted.best_ns == whole.best_ns);
        assert_true(parted.default_ns == whole.default_ns);
    }
}

static void a_job_that_is_past_its_time_reports_what_was_recorded(void **state) {
    shop *s = *state;
    static const kiln_tuner_result stored[] = {
        {.index = 0, .outcome = KILN_OUTCOME_OK, .median_ns = 900, .least_ns = 880},
        {.index = 1, .outcome = KILN_OUTCOME_CRASH},
        {.index = 2, .outcome = KILN_OUTCOME_OK, .median_ns = 500, .least_ns = 480},
        {.index = 4, .outcome = KILN_OUTCOME_OK, .median_ns = 400, .raced = true},
    };
    shop_open(s);
    kiln_msg_task_state summary = summary_of(s, 10, 0, stored, 4, 11 * SHOP_S);
    assert_int_equal(summary.done, 4);
    assert_int_equal(summary.planned, 4);
    assert_int_equal(summary.failed, 1);
    assert_int_equal(summary.raced, 1);
    assert_true(summary.best_ns == 500);
}

static void tasks_take_turns_while_nothing_is_known(void **state) {
    shop *s = *state;
    shop_open(s);
    shop_assign(s, 40);
    s->by_hand = true;
    shop_prepare(s, 4, NULL, 0);
    uint32_t count[4] = {0};
    for (uint32_t i = 0; i < s->done.count; i++)
        if (s->done.data[i].kind == KILN_TUNER_PROPOSE) count[s->done.data[i].task]++;
    for (int i = 0; i < 4; i++) assert_int_equal(count[i], KILN_TUNER_WINDOW / 4);
}

/* Whatever else promises more: no task was measured yet. */
static void tasks_with_schedules_written_by_hand_go_first(void **state) {
    shop *s = *state;
    const kiln_tuner_task task[3] = {
        {.key = KILN_STR("a")},
        {.key = KILN_STR("b"), .by_hand_count = 2},
        {.key = KILN_STR("c"), .repeat_count = 9, .best_ns = 1, .by_hand_count = 1}};
    s->by_hand = true;
    shop_begin_tasks(s, 0, 12, task, 3);
    static const uint32_t order[] = {1, 1, 2};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(order); i++)
        assert_int_equal(shop_take(s, KILN_TUNER_PROPOSE)->task, order[i]);
    assert_int_equal(shop_take(s, KILN_TUNER_PROPOSE)->task, 0);
}

/* Observations follow the order of proposals over all tasks, so the choice of tasks does not depend
 * on which board was faster. */
static void the_order_of_answers_does_not_change_what_is_proposed(void **state) {
    (void)state;
    uint32_t task[2][60];
    for (int turn = 0; turn < 2; turn++) {
        void *fresh = NULL;
        shop_set_up(&fresh);
        shop *s = fresh;
        shop_begin(s, 60, 3);
        shop_grant(s);
        for (;;) { /* of the trials that are out, the oldest or the newest is answered */
            if (!shop_count_sent(s, KILN_MSG_TRIAL)) break;
            const kiln_msg_trial *trial = shop_next_trial(s), *next = NULL;
            if (turn && shop_count_sent(s, KILN_MSG_TRIAL)) next = shop_next_trial(s);
            if (next) shop_answer(s, next, KILN_OUTCOME_OK);
            shop_answer(s, trial, KILN_OUTCOME_OK);
        }
        uint32_t count = 0;
        for (uint32_t i = 0; i < s->done.count && count < 60; i++)
            if (s->done.data[i].kind == KILN_TUNER_PROPOSE)
                task[turn][count++] = s->done.data[i].task << 16 | s->done.data[i].index;
        assert_int_equal(count, 60);
        shop_tear_down(&fresh);
    }
    assert_memory_equal(task[0], task[1], sizeof task[0]);
}

/* The budget of a task whose space ends goes to the others. */
static void trials_of_an_exhausted_task_go_to_others(void **state) {
    shop *s = *state;
    s->exhausted = 1u << 0;
    shop_begin(s, 6, 2);
    shop_run_dry(s);
    s->seen = 0;
    assert_int_equal(shop_count(s, KILN_TUNER_OBSERVE), 6);
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->tasks.item[0].planned, 0);
    assert_int_equal(done->tasks.item[1].planned, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_shop(proposals_lead_observations_by_the_lag),
        test_with_shop(results_are_observed_in_order_however_they_come),
        test_with_shop(a_search_space_that_ends_ends_the_task),
        test_with_shop(no_more_builds_than_builders_are_out),
        test_with_shop(jobs_share_the_builders),
        test_with_shop(a_candidate_that_does_not_compile_is_recorded_without_a_board),
        test_with_shop(a_trial_is_ready_when_artefact_and_reference_are_with_the_tracker),
        test_with_shop(under_an_emulator_few_samples_are_enough_and_time_is_not_short),
        test_with_shop(a_reference_is_made_before_the_first_candidate_of_its_task),
        test_with_shop(a_reference_that_cannot_be_made_ends_its_task_only),
        test_with_shop(a_job_without_any_reference_ends),
        test_with_shop(a_final_without_a_reference_ends_and_the_job_goes_on),
        test_with_shop(a_task_that_cannot_be_searched_leaves_its_trials_to_others),
        test_with_shop(an_upload_that_fails_is_repeated_and_given_up_in_the_end),
        test_with_shop(an_upload_that_lost_its_connection_is_never_given_up),
        test_with_shop(stored_results_are_proposed_and_observed_but_not_measured),
        test_with_shop(a_summary_does_not_tell_whether_the_tuner_was_restarted),
        test_with_shop(a_job_that_is_past_its_time_reports_what_was_recorded),
        test_with_shop(tasks_take_turns_while_nothing_is_known),
        test_with_shop(tasks_with_schedules_written_by_hand_go_first),
        cmocka_unit_test(the_order_of_answers_does_not_change_what_is_proposed),
        test_with_shop(trials_of_an_exhausted_task_go_to_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
