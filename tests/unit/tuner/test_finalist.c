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

/* ---- Judgements within the search ---- */

/* As plain, of a board that spent 2 s on it: 60 ms of judgements for each. */
static const kiln_msg_trial_result slow = {
    .outcome = KILN_OUTCOME_OK, .checked = true, .times_ns = {.run = 2 * SHOP_S}};

/* Answers `count` trials of a search, the default in 2000 ns, all others in 1500, or 1000 where
 * `index` says so; finals are left. */
static void answer_trials(shop *s, uint32_t count, uint32_t fast) {
    while (count > 0) {
        const kiln_msg_trial *trial = shop_next_trial(s);
        assert_int_equal(trial->rivals.count, 0);
        const uint32_t index = trial->artefact.digest.byte[2];
        const uint64_t run_ns = index == 0 ? 2000 : index == fast ? 1000 : 1500;
        shop_answer_with(s, trial, run_ns, &slow);
        count--;
    }
}

/* The judgement that was asked for last: the tests' boards get it behind the trials that wait. */
static const kiln_msg_trial *next_judgement(shop *s) {
    for (;;) {
        const kiln_msg_trial *trial = shop_next_trial(s);
        if (trial->rivals.count) return trial;
        shop_answer_with(s, trial, 1500, &slow);
    }
}

static uint32_t count_finals_recorded(const shop *s) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->done.count; i++)
        count +=
            s->done.data[i].kind == KILN_TUNER_RECORD && s->done.data[i].index == KILN_TUNER_FINAL;
    return count;
}

/* Samples of those that stand, in turns. */
static void judge(shop *s, const kiln_msg_trial *final, uint64_t base_ns,
                  const uint64_t *rival_ns) {
    enum { PAIRS = 15 };
    uint64_t base[PAIRS], own[KILN_MESSAGES_RIVALS][PAIRS];
    kiln_msg_rival_result rival[KILN_MESSAGES_RIVALS];
    kiln_message result = {.type = KILN_MSG_TRIAL_RESULT,
                           .trial_result = {.trial = final->trial,
                                            .attempt = final->attempt,
                                            .lease = final->lease,
                                            .runs = 1,
                                            .checked = true,
                                            .samples_ns = {base, PAIRS},
                                            .times_ns = {.run = 150 * SHOP_MS}}};
    for (uint32_t i = 0; i < PAIRS; i++) base[i] = base_ns + i;
    for (uint32_t r = 0; r < final->rivals.count; r++) {
        for (uint32_t i = 0; i < PAIRS; i++) own[r][i] = rival_ns[r] + i;
        rival[r] = (kiln_msg_rival_result){
            .outcome = KILN_OUTCOME_OK, .runs = 1, .samples_ns = {own[r], PAIRS}, .checked = true};
    }
    result.trial_result.rivals.item = rival;
    result.trial_result.rivals.count = final->rivals.count;
    shop_say(s, &result);
}

static void a_doubtful_best_is_judged_after_a_part_of_the_search(void **state) {
    shop *s = *state;
    s->finalists = 2;
    shop_begin(s, 96, 1);
    answer_trials(s, 23, 1);
    assert_int_equal(shop_count(s, KILN_TUNER_GATHER), 0); /* a quarter is 24 */
    answer_trials(s, 1, 1);
    const kiln_tuner_action *gather = shop_take(s, KILN_TUNER_GATHER);
    assert_non_null(gather);
    assert_true(gather->early);
    const kiln_msg_trial *final = next_judgement(s);
    assert_int_equal(final->policy.samples_max, kiln_tuner_judge_policy.samples_max);
    judge(s, final, 2000, (uint64_t[]){1400});
    assert_int_equal(count_finals_recorded(s), 1);
    const kiln_tuner_job_task *task = &s->t->job.data[0]->task[0];
    assert_true(task->final.best_ns >= 1400 &&
                task->final.best_ns < 1410); /* not the 1000 that it took alone */
    assert_true(task->final.gain_low > 1.2 && task->final.state == KILN_TUNER_FINAL_NONE);
}

/* The luckiest was no faster than the default: neither it nor its time is told any more, and only
 * who looks clearly faster than the judged one takes its place. */
static void a_judged_loser_is_the_best_no_more(void **state) {
    shop *s = *state;
    s->finalists = 2;
    shop_begin(s, 96, 1);
    answer_trials(s, 24, 1);
    judge(s, next_judgement(s), 1500, (uint64_t[]){1501});
    kiln_tuner_job_task *task = &s->t->job.data[0]->task[0];
    assert_true(task->final.best_ns == task->given.default_ns && task->final.gain_low == 1);
    kiln_tuner_best_take(task, task->final.judged_ns * 0.99);
    assert_true(task->final.best_ns == task->final.judged_ns && task->final.gain_low == 1);
    kiln_tuner_best_take(task, task->final.judged_ns * 0.9);
    assert_true(task->final.best_ns == task->final.judged_ns * 0.9 && task->final.gain_low == 0);
}

static void judgements_take_no_more_than_their_share(void **state) {
    shop *s = *state;
    s->finalists = 2;
    shop_begin(s, 400, 1);
    uint32_t judged = 0;
    for (uint32_t i = 0; i < 390; i++) { /* each faster than all before it */
        const kiln_msg_trial *trial = shop_next_trial(s);
        if (trial->rivals.count) {
            judge(s, trial, 500000, (uint64_t[]){400000 - 1000 * i});
            judged++;
        } else {
            kiln_msg_trial_result quick = slow;
            quick.times_ns.run = 50 * SHOP_MS;
            shop_answer_with(s, trial, i ? 390000 - 1000 * i : 500000, &quick);
        }
    }
    const kiln_tuner_job *job = s->t->job.data[0];
    assert_in_range(judged, 1, 4);
    assert_true(job->spent.judging_ns == judged * 150.0 * SHOP_MS);
    assert_true(job->spent.judging_ns <= 0.05 * job->spent.trials_ns);
}

static void the_final_is_left_out_where_the_judgement_holds(void **state) {
    shop *s = *state;
    s->finalists = 2;
    shop_begin(s, 32, 1);
    answer_trials(s, 16, 1);
    judge(s, next_judgement(s), 2000, (uint64_t[]){1000});
    s->finalists = 0; /* nobody looks faster: tuner/final.c */
    while (!shop_count_sent(s, KILN_MSG_JOB_DONE)) {
        const kiln_msg_trial *trial = shop_next_trial(s);
        assert_int_equal(trial->rivals.count, 0);
        shop_answer_with(s, trial, 1500, &slow);
    }
    const kiln_msg_task_state *task = shop_done(s)->tasks.item;
    assert_int_equal(task->done, 32);
    assert_int_equal(task->rest, KILN_REST_NONE);
    assert_true(task->gain_low > 1.5);
}

/* Proposals depend on observed results alone: a judgement under way holds up nothing. */
static void proposals_do_not_wait_for_a_judgement(void **state) {
    shop *s = *state;
    s->finalists = 2;
    shop_begin(s, 96, 1);
    answer_trials(s, 24, 1);
    const kiln_msg_trial *final = next_judgement(s);
    const uint32_t before = s->t->job.data[0]->task[0].next_observe;
    for (uint32_t i = 0; i < 8; i++) shop_answer_with(s, shop_next_trial(s), 1500, &slow);
    assert_int_equal(s->t->job.data[0]->task[0].next_observe, before + 8);
    judge(s, final, 2000, (uint64_t[]){1400});
    assert_true(s->t->job.data[0]->task[0].final.gain_low > 1);
}

static void another_judgement_has_another_identity(void **state) {
    shop *s = *state;
    s->finalists = 2;
    shop_begin(s, 96, 1);
    answer_trials(s, 24, 1);
    const kiln_msg_trial *first = next_judgement(s);
    judge(s, first, 2000, (uint64_t[]){1600});
    s->finalists = 3;
    kiln_tuner_best_take(&s->t->job.data[0]->task[0], 900);
    const kiln_msg_trial *second = next_judgement(s);
    assert_int_equal(second->rivals.count, 2);
    assert_false(kiln_str_equal(first->trial, second->trial));
}

static void a_disturbed_judgement_is_neither_counted_nor_repeated(void **state) {
    shop *s = *state;
    s->finalists = 2;
    shop_begin(s, 96, 1);
    answer_trials(s, 24, 1);
    const kiln_msg_trial *final = next_judgement(s);
    kiln_msg_trial_result drifted = plain;
    drifted.out_of_band = true;
    kiln_msg_rival_result rival = {.outcome = KILN_OUTCOME_OK, .runs = 1};
    uint64_t sample[5] = {1, 2, 3, 4, 5};
    rival.samples_ns = (kiln_u64s){sample, 5};
    drifted.rivals.item = &rival;
    drifted.rivals.count = 1;
    shop_answer_with(s, final, 1000, &drifted);
    const kiln_tuner_job_task *task = &s->t->job.data[0]->task[0];
    assert_true(task->final.state == KILN_TUNER_FINAL_NONE && task->final.judged_ns == 0);
    assert_int_equal(count_finals_recorded(s), 0);
}

static void a_job_that_is_stopped_drops_its_judgement(void **state) {
    shop *s = *state;
    s->finalists = 2;
    shop_begin(s, 96, 1);
    answer_trials(s, 24, 1);
    next_judgement(s);
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    shop_say(s, &cancel);
    assert_int_equal(shop_done(s)->tasks.item[0].rest, KILN_REST_NO_FINAL);
}

/* It was faster in most rounds, and slower in too many for that to be sure. */
static void who_is_faster_now_and_then_does_not_win(void **state) {
    (void)state;
    uint64_t base[15], own[15];
    for (uint64_t i = 0; i < 15; i++) {
        base[i] = 1000;
        own[i] = i % 2 ? 1300 : 800;
    }
    kiln_msg_rival_result rival = {.outcome = KILN_OUTCOME_OK, .runs = 1, .samples_ns = {own, 15}};
    const kiln_msg_trial_result result = {
        .outcome = KILN_OUTCOME_OK, .runs = 1, .samples_ns = {base, 15}, .rivals = {&rival, 1}};
    assert_true(kiln_tuner_standing_of(&result, 1).median_ns < 1000);
    assert_true(kiln_tuner_standing_of(&result, 1).gain_low < 1);
    assert_int_equal(kiln_tuner_winner(&result), 0);
}

static void a_judgement_comes_too_late_for_a_job_that_ended(void **state) {
    shop *s = *state;
    s->finalists = 2;
    s->gather_hangs = true;
    shop_begin(s, 96, 1);
    answer_trials(s, 24, 1);
    const kiln_message cancel = {.type = KILN_MSG_CANCEL,
                                 .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    shop_say(s, &cancel);
    const kiln_msg_blob_ref finalist[] = {{{{7, 0, 0}}, 100}, {{{7, 0, 1}}, 100}};
    const uint32_t trials = s->t->job.data[0]->trial.count;
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_GATHERED,
                                     .job = s->job,
                                     .finalist = finalist,
                                     .finalist_count = 2});
    assert_int_equal(s->t->job.data[0]->trial.count, trials);
}

static void the_one_that_won_is_the_fastest_that_pairs_show(void **state) {
    (void)state;
    uint64_t base[15], faster[15], fastest[15];
    for (uint64_t i = 0; i < 15; i++) {
        base[i] = 1000 + 7 * i;
        faster[i] = base[i] - 40;
        fastest[i] = base[i] - 60;
    }
    kiln_msg_rival_result rival[] = {
        {.outcome = KILN_OUTCOME_OK, .runs = 1, .samples_ns = {faster, 15}},
        {.outcome = KILN_OUTCOME_OK, .runs = 1, .samples_ns = {fastest, 15}}};
    const kiln_msg_trial_result result = {
        .outcome = KILN_OUTCOME_OK, .runs = 1, .samples_ns = {base, 15}, .rivals = {rival, 2}};
    assert_int_equal(kiln_tuner_winner(&result), 2);
    const kiln_msg_rival_result first = rival[0];
    rival[0] = rival[1];
    rival[1] = first;
    assert_int_equal(kiln_tuner_winner(&result), 1);
    rival[1] = rival[0];
    rival[0] = first;
    assert_true(kiln_tuner_standing_of(&result, 1).gain_low > 1);
    assert_true(kiln_tuner_standing_beside(&result, 1, 2).gain_low < 1);
    assert_true(kiln_tuner_standing_beside(&result, 2, 1).gain_low > 1);
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
        test_with_shop(a_doubtful_best_is_judged_after_a_part_of_the_search),
        test_with_shop(a_judged_loser_is_the_best_no_more),
        test_with_shop(judgements_take_no_more_than_their_share),
        test_with_shop(the_final_is_left_out_where_the_judgement_holds),
        test_with_shop(proposals_do_not_wait_for_a_judgement),
        test_with_shop(another_judgement_has_another_identity),
        test_with_shop(a_disturbed_judgement_is_neither_counted_nor_repeated),
        test_with_shop(a_job_that_is_stopped_drops_its_judgement),
        cmocka_unit_test(who_is_faster_now_and_then_does_not_win),
        test_with_shop(a_judgement_comes_too_late_for_a_job_that_ended),
        cmocka_unit_test(the_one_that_won_is_the_fastest_that_pairs_show),
    };
    return cmocka_run_group_tests_name("tuner/finalist", tests, NULL, NULL);
}
