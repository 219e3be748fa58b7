/* Races, repeated measurements and finals of a job. */
#include "tests/unit/tuner/shop.h"

static const kiln_msg_trial_result plain = {.outcome = KILN_OUTCOME_OK, .checked = true};

/* Answers trials of the search, each 100 ns slower than the one before, until `count` are done. */
static void search(shop *s, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        shop_answer_with(s, shop_next_trial(s), 1000 + 100 * i, &plain);
}

/* A job of so many trials, searched to its end; returns its final, with one rival less than
 * `finalists`. */
static const kiln_msg_trial *search_to_final(shop *s, uint32_t trials, uint32_t finalists) {
    s->finalists = finalists;
    shop_begin(s, trials, 1);
    search(s, trials);
    assert_int_equal(shop_count_sent(s, KILN_MSG_JOB_DONE), 0);
    return shop_next_trial(s);
}

static void trials_carry_a_bound_once_enough_is_known(void **state) {
    shop *s = *state;
    shop_begin(s, 12, 1);
    shop_grant(s);
    const kiln_msg_trial *first = shop_next_trial(s);
    assert_true(first->race_ns == 0 && first->rivals.count == 0);
    shop_answer_with(s, first, 1000, &plain);
    search(s, 8);
    assert_true(shop_next_trial(s)->race_ns == 1001 * 2); /* the median's */
}

static void a_raced_out_result_is_no_best_and_is_counted_apart(void **state) {
    shop *s = *state;
    shop_begin(s, 2, 1);
    shop_grant(s);
    const kiln_msg_trial *first = shop_next_trial(s);
    const kiln_msg_trial *second = shop_next_trial(s);
    kiln_msg_trial_result raced = plain;
    raced.stop = KILN_STOP_RACED;
    shop_answer_with(s, first, 500, &raced);
    shop_answer_with(s, second, 900, &plain);
    const kiln_tuner_action *seen = shop_take(s, KILN_TUNER_OBSERVE);
    assert_true(seen->raced && seen->least_ns == 500);
    const kiln_msg_task_state *task = shop_done(s)->tasks.item;
    assert_int_equal(task->done, 2);
    assert_int_equal(task->raced, 1);
    assert_int_equal(task->failed, 0);
    assert_true(task->best_ns == 901);
}

static void samples_out_of_band_are_taken_again(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    shop_grant(s);
    kiln_msg_trial_result drifted = plain;
    drifted.out_of_band = true;
    for (uint32_t attempt = 1; attempt <= KILN_TUNER_ATTEMPTS_MAX; attempt++) {
        assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 0);
        const kiln_msg_trial *trial = shop_next_trial(s);
        assert_int_equal(trial->attempt, attempt);
        shop_answer_with(s, trial, 500, &drifted);
    }
    /* Three times is no accident: then they are what there is, and marked. */
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 1);
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), 0);
}

static void finalists_are_measured_in_turns_when_all_trials_are_observed(void **state) {
    shop *s = *state;
    const kiln_msg_trial *final = search_to_final(s, 6, 4);
    assert_int_equal(final->rivals.count, 3);
    assert_int_equal(final->artefact.digest.byte[0], 7);
    assert_true(final->race_ns == 0 && final->policy.interval == 0.005);
    shop_answer(s, final, KILN_OUTCOME_OK);
    const kiln_tuner_action *record = shop_take(s, KILN_TUNER_RECORD);
    assert_int_equal(record->index, KILN_TUNER_FINAL);
    const kiln_msg_task_state *task = shop_done(s)->tasks.item;
    assert_int_equal(task->done, 6);       /* a final is no trial */
    assert_true(task->default_ns == 1000); /* of the faster half of its rounds */
    assert_true(task->best_ns < 1000 && task->best_ns > 900);
}

static void a_final_that_fails_leaves_what_was_measured_alone(void **state) {
    shop *s = *state;
    const kiln_msg_trial *final = search_to_final(s, 3, 4);
    shop_answer(s, final, KILN_OUTCOME_CRASH);
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 0);
    const kiln_message *ack = shop_take_sent(s, KILN_MSG_TRIAL_ACK);
    assert_non_null(ack);
    const kiln_msg_task_state *task = shop_done(s)->tasks.item;
    assert_true(task->best_ns == 1001);
}

static void without_rivals_in_the_answer_there_is_no_final(void **state) {
    shop *s = *state; /* a board of an older version measures the first artefact only */
    const kiln_msg_trial *final = search_to_final(s, 1, 2);
    shop_answer_with(s, final, 10, &plain);
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 0);
    assert_int_equal(shop_count_sent(s, KILN_MSG_JOB_DONE), 1);
}

/* The rest of the budget is what the finals of the tasks measured so far will take. */
static void time_is_kept_for_finals(void **state) {
    shop *s = *state;
    s->finalists = 4;
    shop_begin_for(s, 5, 0, 2);
    search(s, 20); /* a board that has begun a task does not leave it for another at once */
    uint64_t reserve_ns = kiln_tuner_finals_reserve_ns(s->t->job.data[0]);
    assert_true(reserve_ns > SHOP_S / 4 && reserve_ns < SHOP_S);
    shop_tick(s, 5 * SHOP_S - reserve_ns);
    for (uint32_t i = 0; i < KILN_TUNER_BOARD_DEPTH; i++)
        shop_answer_with(s, shop_next_trial(s), 2000, &plain);
    assert_int_equal(shop_count(s, KILN_TUNER_GATHER), 2);
    for (uint32_t i = 0; i < 2; i++) {
        const kiln_msg_trial *final = shop_next_trial(s);
        assert_int_equal(final->rivals.count, 3);
        shop_answer(s, final, KILN_OUTCOME_OK);
    }
    assert_int_equal(shop_count_sent(s, KILN_MSG_JOB_DONE), 1);
}

static void finals_get_no_more_than_their_share(void **state) {
    shop *s = *state;
    shop_begin_for(s, 0.5, 0, 4);
    search(s, 30);
    assert_int_equal(kiln_tuner_finals_reserve_ns(s->t->job.data[0]),
                     (uint64_t)(0.5 * KILN_TUNER_FINALS_SHARE * 1e9));
}

/* Time for one final of two: the network gains most by the second task. */
static void finals_that_promise_most_come_first_and_late_ones_not_at_all(void **state) {
    shop *s = *state;
    s->finalists = 4;
    shop_begin_for(s, 5, 0, 2);
    for (uint32_t i = 0; i < 20; i++) {
        const kiln_msg_trial *trial = shop_next_trial(s);
        bool base = trial->artefact.digest.byte[2] == 0, second = trial->artefact.digest.byte[1];
        shop_answer_with(s, trial, base ? 5000 : second ? 1000 : 4900, &plain);
    }
    shop_tick(s, 4650 * SHOP_MS);
    for (uint32_t i = 0; i < KILN_TUNER_BOARD_DEPTH; i++)
        shop_answer_with(s, shop_next_trial(s), 6000, &plain);
    assert_int_equal(shop_count(s, KILN_TUNER_GATHER), 1);
    assert_int_equal(shop_take(s, KILN_TUNER_GATHER)->task, 1);
    const kiln_msg_trial *final = shop_next_trial(s);
    shop_tick(s, 200 * SHOP_MS);
    shop_answer(s, final, KILN_OUTCOME_OK);
    assert_int_equal(shop_count(s, KILN_TUNER_GATHER), 0);
    assert_int_equal(shop_done(s)->tasks.item[0].rest, KILN_REST_NO_FINAL);
}

/* A final that no board has taken when the time is up is dropped. */
static void the_job_ends_in_time_without_a_board(void **state) {
    shop *s = *state;
    s->finalists = 4;
    shop_begin_for(s, 5, 3, 1);
    search(s, 3);
    assert_int_equal(shop_count(s, KILN_TUNER_GATHER), 1);
    kiln_message lost = {.type = KILN_MSG_LEASE_LOST, .lease_lost = {.lease = s->last_lease}};
    shop_say(s, &lost);
    assert_true(kiln_tuner_next_ns(s->t) <= s->now_ns + 5 * SHOP_S);
    assert_int_equal(shop_count_sent(s, KILN_MSG_JOB_DONE), 0);
    shop_tick(s, 5 * SHOP_S);
    assert_int_equal(shop_count_sent(s, KILN_MSG_JOB_DONE), 1);
}

static void a_job_that_measured_nothing_has_no_final(void **state) {
    shop *s = *state;
    s->finalists = 4;
    shop_begin(s, 2, 1);
    shop_grant(s);
    for (int i = 0; i < 2; i++) shop_answer(s, shop_next_trial(s), KILN_OUTCOME_CRASH);
    assert_int_equal(shop_count(s, KILN_TUNER_GATHER), 0);
    assert_int_equal(shop_count_sent(s, KILN_MSG_JOB_DONE), 1);
}

static void only_a_gain_that_pairs_show_counts(void **state) {
    (void)state;
    uint64_t base[20], noisy[20], faster[20];
    for (uint64_t i = 0; i < 20; i++) {
        base[i] = 1000 + 7 * i;
        noisy[i] = i % 2 ? base[i] - 40 : base[i] + 45;
        faster[i] = base[i] - 40; /* always, at the same moment */
    }
    kiln_msg_rival_result rival[] = {
        {.outcome = KILN_OUTCOME_OK, .runs = 1, .samples_ns = {noisy, 20}},
        {.outcome = KILN_OUTCOME_OK, .runs = 1, .samples_ns = {faster, 20}},
        {.outcome = KILN_OUTCOME_WRONG_RESULT, .runs = 1, .samples_ns = {faster, 20}}};
    const kiln_msg_trial_result result = {
        .outcome = KILN_OUTCOME_OK, .runs = 1, .samples_ns = {base, 20}, .rivals = {rival, 3}};
    assert_true(kiln_tuner_standing_of(&result, 0).gain_low == 1);
    assert_true(kiln_tuner_standing_of(&result, 1).gain_low < 1);
    assert_true(kiln_tuner_standing_of(&result, 2).gain_low > 1);
    assert_true(kiln_tuner_standing_of(&result, 3).median_ns == 0);
    /* A machine that is twice as slow for half of the rounds is so for both. */
    for (uint64_t i = 0; i < 20; i += 2) base[i] *= 2, faster[i] *= 2;
    assert_true(kiln_tuner_standing_of(&result, 2).gain_low > 1);
}

/* A neighbour that is busy in some rounds slows all who stand; the other rounds say how long each
 * takes. */
static void figures_are_those_of_quiet_rounds(void **state) {
    (void)state;
    uint64_t base[20], faster[20];
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t slow = i % 5 < 2 ? 130 : 100; /* 8 of 20 rounds */
        base[i] = 10 * slow + i % 3;
        faster[i] = 9 * slow + i % 2;
    }
    kiln_msg_rival_result rival = {
        .outcome = KILN_OUTCOME_OK, .runs = 1, .samples_ns = {faster, 20}};
    const kiln_msg_trial_result result = {
        .outcome = KILN_OUTCOME_OK, .runs = 1, .samples_ns = {base, 20}, .rivals = {&rival, 1}};
    assert_true(kiln_tuner_standing_of(&result, 0).median_ns < 1005);
    assert_true(kiln_tuner_standing_of(&result, 1).median_ns < 905);
}

static void a_final_on_a_disturbed_machine_is_measured_again(void **state) {
    shop *s = *state;
    s->finalists = 4;
    shop_begin(s, 3, 1);
    for (uint32_t i = 0; i < 3; i++) shop_answer_with(s, shop_next_trial(s), 900, &plain);
    for (uint32_t attempt = 1; attempt <= KILN_TUNER_ATTEMPTS_MAX; attempt++) {
        const kiln_msg_trial *final = shop_next_trial(s);
        assert_int_equal(final->attempt, attempt);
        assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 0);
        shop_answer(s, final, KILN_OUTCOME_OK); /* the default in 1050 */
    }
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 1);
    assert_int_equal(shop_count_sent(s, KILN_MSG_JOB_DONE), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_shop(trials_carry_a_bound_once_enough_is_known),
        test_with_shop(a_raced_out_result_is_no_best_and_is_counted_apart),
        test_with_shop(samples_out_of_band_are_taken_again),
        test_with_shop(finalists_are_measured_in_turns_when_all_trials_are_observed),
        test_with_shop(a_final_that_fails_leaves_what_was_measured_alone),
        test_with_shop(without_rivals_in_the_answer_there_is_no_final),
        test_with_shop(time_is_kept_for_finals),
        test_with_shop(finals_get_no_more_than_their_share),
        test_with_shop(finals_that_promise_most_come_first_and_late_ones_not_at_all),
        test_with_shop(the_job_ends_in_time_without_a_board),
        test_with_shop(a_job_that_measured_nothing_has_no_final),
        cmocka_unit_test(only_a_gain_that_pairs_show_counts),
        cmocka_unit_test(figures_are_those_of_quiet_rounds),
        test_with_shop(a_final_on_a_disturbed_machine_is_measured_again),
    };
    return cmocka_run_group_tests_name("tuner/finalist", tests, NULL, NULL);
}
