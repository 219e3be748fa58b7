#include "tests/unit/tuner/shop.h"

static void lose(shop *s, uint64_t lease, kiln_code code) {
    kiln_message lost = {.type = KILN_MSG_LEASE_LOST,
                         .lease_lost = {.lease = lease, .code = (uint32_t)code}};
    shop_say(s, &lost);
}

static void note_started(shop *s, const kiln_msg_trial *trial) {
    kiln_message event = {.type = KILN_MSG_TRIAL_EVENT,
                          .trial_event = {.trial = trial->trial,
                                          .attempt = trial->attempt,
                                          .lease = trial->lease,
                                          .phase = KILN_PHASE_LOAD}};
    shop_say(s, &event);
}

static void a_board_has_a_few_trials_at_a_time(void **state) {
    shop *s = *state;
    shop_begin(s, 16, 1);
    shop_grant(s);
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), KILN_TUNER_BOARD_DEPTH);
    shop_answer(s, shop_next_trial(s), KILN_OUTCOME_OK);
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), KILN_TUNER_BOARD_DEPTH);
}

static void it_asks_for_as_many_boards_as_it_can_keep_busy(void **state) {
    shop *s = *state;
    shop_begin(s, 7, 1);
    assert_int_equal(shop_count_sent(s, KILN_MSG_LEASE_REQ), 3); /* ceil(7 / 3) */
}

static void a_request_is_repeated_until_it_is_answered(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    const kiln_message *first = shop_take_sent(s, KILN_MSG_LEASE_REQ);
    shop_tick(s, KILN_TUNER_RESEND_NS);
    const kiln_message *second = shop_take_sent(s, KILN_MSG_LEASE_REQ);
    assert_int_equal(second->lease_req.request, first->lease_req.request);
    shop_close(s);
    shop_tick(s, SHOP_S);
    shop_open(s);
    assert_int_equal(shop_take_sent(s, KILN_MSG_LEASE_REQ)->lease_req.request,
                     first->lease_req.request);
}

static void a_refused_request_is_asked_again_later(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    const kiln_message *first = shop_take_sent(s, KILN_MSG_LEASE_REQ);
    kiln_message error = kiln_message_error(KILN_RESOURCE_EXHAUSTED, 0, "the disk is full");
    error.error.about = KILN_STR("j");
    error.error.lease = first->lease_req.request;
    shop_say(s, &error);
    assert_int_equal(shop_count_sent(s, KILN_MSG_LEASE_REQ), 0);
    shop_tick(s, KILN_TUNER_RESEND_NS);
    assert_true(shop_take_sent(s, KILN_MSG_LEASE_REQ)->lease_req.request >
                first->lease_req.request);
}

static void a_lease_is_renewed_in_time(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    uint64_t lease = shop_grant(s);
    shop_skip(s);
    for (int i = 0; i < 10; i++) {
        shop_tick(s, 5 * SHOP_S);
        shop_say(s, &(kiln_message){.type = KILN_MSG_PONG});
        assert_int_equal(shop_take_sent(s, KILN_MSG_LEASE_RENEW)->lease_renew.lease, lease);
    }
}

static void a_grant_that_nobody_waits_for_goes_back(void **state) {
    shop *s = *state;
    shop_open(s);
    kiln_message grant = {
        .type = KILN_MSG_LEASE_GRANT,
        .lease_grant = {
            .request = 99, .lease = 5, .board = KILN_STR("b"), .trials = 1, .ttl_ms = 1000}};
    shop_say(s, &grant);
    assert_int_equal(shop_take_sent(s, KILN_MSG_LEASE_RELEASE)->lease_release.lease, 5);
}

static void a_used_up_lease_goes_back_and_another_is_asked_for(void **state) {
    shop *s = *state;
    shop_begin(s, 100, 1);
    shop_run_dry(s);
    s->seen = 0;
    uint32_t released = 0;
    while (shop_take_sent(s, KILN_MSG_LEASE_RELEASE)) released++;
    assert_true(released >= 1);
    s->seen = 0;
    assert_non_null(shop_take_sent(s, KILN_MSG_JOB_DONE));
}

static void an_idle_board_goes_back_after_a_second(void **state) {
    shop *s = *state;
    shop_begin(s, 7, 1);
    shop_grant(s);
    shop_grant(s);
    uint64_t idle = shop_grant(s); /* 3 + 3 + 1 */
    s->seen = 0;
    const kiln_msg_trial *trial = shop_next_trial(s);
    while (trial->lease != idle) trial = shop_next_trial(s);
    shop_answer(s, trial, KILN_OUTCOME_OK);
    shop_skip(s);
    assert_true(kiln_tuner_next_ns(s->t) <= s->now_ns + KILN_TUNER_IDLE_NS);
    shop_tick(s, KILN_TUNER_IDLE_NS);
    assert_int_equal(shop_take_sent(s, KILN_MSG_LEASE_RELEASE)->lease_release.lease, idle);
}

static void an_idle_board_that_builds_will_need_is_kept(void **state) {
    shop *s = *state;
    s->builders_hang = true;
    shop_begin(s, 3, 1);
    shop_grant(s);
    shop_skip(s);
    for (int i = 0; i < 3; i++) shop_tick(s, KILN_TUNER_IDLE_NS);
    assert_null(shop_take_sent(s, KILN_MSG_LEASE_RELEASE));
}

static void a_lost_lease_gives_its_trials_back_and_a_late_result_is_refused(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    uint64_t lease = shop_grant(s);
    const kiln_msg_trial *trial = shop_next_trial(s);
    lose(s, lease, KILN_DEADLINE_EXCEEDED);
    shop_answer(s, trial, KILN_OUTCOME_OK);
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 0);
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL_ACK), 0);
    shop_grant(s);
    const kiln_msg_trial *again = shop_next_trial(s);
    assert_true(kiln_str_equal(again->trial, trial->trial));
    assert_int_equal(again->attempt, 1); /* it had not begun */
    shop_answer(s, again, KILN_OUTCOME_OK);
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 1);
}

static void a_trial_that_takes_three_boards_down_is_recorded_as_that(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    for (uint32_t i = 1; i <= KILN_TUNER_ATTEMPTS_MAX; i++) {
        uint64_t lease = shop_grant(s);
        const kiln_msg_trial *trial = shop_next_trial(s);
        assert_int_equal(trial->attempt, i);
        note_started(s, trial);
        assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 0);
        lose(s, lease, KILN_UNAVAILABLE);
    }
    const kiln_tuner_action *record = shop_take(s, KILN_TUNER_RECORD);
    assert_int_equal(record->outcome, KILN_OUTCOME_BOARD_LOST);
    assert_int_equal(record->blame, KILN_BLAME_BOARD);
    assert_int_equal(record->attempt, KILN_TUNER_ATTEMPTS_MAX);
}

static void results_that_showed_nothing_are_no_falls_of_boards(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    uint64_t lease = shop_grant(s);
    for (uint32_t i = 1; i < KILN_TUNER_ATTEMPTS_MAX; i++)
        shop_answer(s, shop_next_trial(s), KILN_OUTCOME_INFRA);
    note_started(s, shop_next_trial(s));
    lose(s, lease, KILN_UNAVAILABLE);
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 0);
    shop_grant(s);
    shop_answer(s, shop_next_trial(s), KILN_OUTCOME_OK);
    assert_int_equal(shop_take(s, KILN_TUNER_RECORD)->outcome, KILN_OUTCOME_OK);
}

static void a_trial_whose_leases_are_lost_for_ever_ends_as_infra(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    for (uint32_t i = 0; i <= KILN_TUNER_LOSSES_MAX; i++) {
        assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 0);
        lose(s, shop_grant(s), KILN_ABORTED);
    }
    assert_int_equal(shop_take(s, KILN_TUNER_RECORD)->outcome, KILN_OUTCOME_INFRA);
}

static void a_boards_trouble_is_tried_again_with_fresh_blobs(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    shop_grant(s);
    const kiln_msg_trial *trial = shop_next_trial(s);
    shop_answer(s, trial, KILN_OUTCOME_INFRA);
    assert_int_equal(shop_count(s, KILN_TUNER_UPLOAD), 2);
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 0);
    const kiln_message *ack =
        shop_take_sent(s, KILN_MSG_TRIAL_ACK); /* the board may forget this attempt */
    assert_int_equal(ack->trial_ack.attempt, 1);
    const kiln_msg_trial *again = shop_next_trial(s);
    assert_int_equal(again->attempt, 2);
    shop_answer(s, again, KILN_OUTCOME_INFRA);
    again = shop_next_trial(s);
    assert_int_equal(again->attempt, 3);
    shop_answer(s, again, KILN_OUTCOME_INFRA);
    assert_int_equal(shop_take(s, KILN_TUNER_RECORD)->outcome, KILN_OUTCOME_INFRA);
}

/* The database would refuse such a record, and the job would end with that. */
static void a_board_that_says_what_cannot_be_is_not_believed(void **state) {
    shop *s = *state;
    const struct {
        uint64_t run_ns;
        kiln_msg_trial_result says;
    } lie[] = {{1000, {.drift = -1}},
               {1000, {.drift_memory = -1}},
               {1000, {.peak_flops = -1}},
               {0, {.outcome = KILN_OUTCOME_OK}}};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(lie); i++) {
        shop_hire(s, 4);
        shop_begin(s, 1, 1);
        shop_answer_with(s, shop_next_trial(s), lie[i].run_ns, &lie[i].says);
        assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 0);
        shop_answer_with(s, shop_next_trial(s), 1000, &(kiln_msg_trial_result){0});
        const kiln_tuner_action *record = shop_take(s, KILN_TUNER_RECORD);
        assert_int_equal(record->outcome, KILN_OUTCOME_OK);
        assert_int_equal(record->attempt, 2);
    }
}

static void a_result_is_acknowledged_after_its_commit_and_again_when_it_repeats(void **state) {
    shop *s = *state;
    shop_begin(s, 2, 1);
    shop_grant(s);
    const kiln_msg_trial *trial = shop_next_trial(s);
    s->by_hand = true;
    shop_answer(s, trial, KILN_OUTCOME_OK);
    shop_answer(s, trial,
                KILN_OUTCOME_OK); /* the board repeats itself while the commit is under way */
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 1);
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL_ACK), 0);
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_RECORDED, .job = s->job});
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL_ACK), 1);
    shop_answer(s, trial, KILN_OUTCOME_OK); /* that one got lost */
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL_ACK), 2);
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 1);
}

static void after_a_reconnect_leases_are_renewed_and_trials_repeated(void **state) {
    shop *s = *state;
    shop_begin(s, 2, 1);
    uint64_t lease = shop_grant(s);
    shop_close(s);
    shop_skip(s);
    shop_tick(s, SHOP_S);
    shop_open(s);
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), 2);
    assert_int_equal(shop_next_trial(s)->lease, lease);
    s->seen = 0;
    assert_int_equal(shop_count_sent(s, KILN_MSG_LEASE_RENEW), 1);
}

static void a_board_without_news_is_given_up(void **state) {
    shop *s = *state;
    shop_begin(s, 1, 1);
    uint64_t lease = shop_grant(s);
    shop_skip(s);
    for (uint64_t waited = 0; waited < KILN_TUNER_SILENCE_NS; waited += 5 * SHOP_S) {
        shop_say(s, &(kiln_message){.type = KILN_MSG_PONG});
        shop_tick(s, 5 * SHOP_S);
    }
    assert_int_equal(shop_take_sent(s, KILN_MSG_LEASE_RELEASE)->lease_release.lease, lease);
    assert_non_null(shop_take_sent(s, KILN_MSG_LEASE_REQ));
}

/* Two boards for the oldest two requests. */
static void grant_two(shop *s, uint64_t lease[2]) {
    s->board = "b0";
    lease[0] = shop_grant(s);
    s->board = "b1";
    lease[1] = shop_grant(s);
}

static void a_task_stays_on_the_board_that_began_it(void **state) {
    shop *s = *state;
    uint64_t lease[2];
    shop_begin(s, 16, 2);
    grant_two(s, lease);
    s->seen = 0;
    uint32_t sent_to[2] = {0};
    for (uint32_t i = 0; i < 10; i++) {
        const kiln_msg_trial *trial = shop_next_trial(s);
        assert_non_null(trial);
        uint32_t task = trial->reference.digest.byte[1];
        assert_int_equal(trial->lease, lease[task]);
        sent_to[task]++;
        shop_answer(s, trial, KILN_OUTCOME_OK);
    }
    assert_true(sent_to[0] >= 3 && sent_to[1] >= 3);
}

static void a_grant_repeated_for_fewer_trials_winds_the_lease_down(void **state) {
    shop *s = *state;
    shop_begin(s, 40, 1);
    uint64_t lease = shop_grant(s);
    kiln_message less = {.type = KILN_MSG_LEASE_GRANT};
    for (s->seen = 0; less.lease_grant.request == 0;)
        less.lease_grant.request = shop_take_sent(s, KILN_MSG_LEASE_REQ)->lease_req.request;
    less.lease_grant.lease = lease;
    less.lease_grant.board = kiln_str_from(s->board);
    less.lease_grant.target = KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3");
    less.lease_grant.trials = KILN_TUNER_BOARD_DEPTH;
    less.lease_grant.ttl_ms = KILN_TUNER_LEASE_TTL_MS;
    shop_say(s, &less);
    s->seen = 0;
    for (uint32_t i = 0; i < KILN_TUNER_BOARD_DEPTH; i++)
        shop_answer(s, shop_next_trial(s), KILN_OUTCOME_OK);
    s->seen = 0;
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), KILN_TUNER_BOARD_DEPTH);
    bool released = false;
    s->seen = 0;
    for (const kiln_message *back; (back = shop_take_sent(s, KILN_MSG_LEASE_RELEASE));)
        released |= back->lease_release.lease == lease;
    assert_true(released);
}

static void a_task_asks_for_the_board_that_began_it(void **state) {
    shop *s = *state;
    shop_begin(s, 200, 1);
    s->board = "b0";
    uint64_t lease = shop_grant(s);
    uint32_t asked = 0, liked = 0;
    s->seen = 0;
    lose(s, lease, KILN_DEADLINE_EXCEEDED); /* its board is free again, and known */
    for (const kiln_message *ask; (ask = shop_take_sent(s, KILN_MSG_LEASE_REQ));) {
        asked += ask->lease_req.board.size == 0;
        liked += kiln_str_is(ask->lease_req.board, "b0");
    }
    assert_true(asked > 0); /* before it was granted */
    assert_int_equal(liked, 1);
}

static void a_task_goes_on_with_the_board_that_took_it_over(void **state) {
    shop *s = *state;
    shop_begin(s, 200, 1);
    s->board = "b0";
    lose(s, shop_grant(s), KILN_DEADLINE_EXCEEDED);
    s->board = "b1";
    const uint64_t second = shop_grant(s);
    shop_skip(s);
    lose(s, second, KILN_DEADLINE_EXCEEDED);
    expect_str(shop_take_sent(s, KILN_MSG_LEASE_REQ)->lease_req.board, "b1");
}

static void no_board_waits_while_there_is_work(void **state) {
    shop *s = *state;
    uint64_t lease[2];
    shop_begin(s, 8, 1);
    grant_two(s, lease);
    s->seen = 0;
    uint32_t sent_to[2] = {0};
    for (uint32_t i = 0; i < 6; i++) sent_to[shop_next_trial(s)->lease == lease[1]]++;
    assert_int_equal(sent_to[0], KILN_TUNER_BOARD_DEPTH);
    assert_int_equal(sent_to[1], KILN_TUNER_BOARD_DEPTH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_shop(a_board_has_a_few_trials_at_a_time),
        test_with_shop(it_asks_for_as_many_boards_as_it_can_keep_busy),
        test_with_shop(a_request_is_repeated_until_it_is_answered),
        test_with_shop(a_refused_request_is_asked_again_later),
        test_with_shop(a_lease_is_renewed_in_time),
        test_with_shop(a_grant_that_nobody_waits_for_goes_back),
        test_with_shop(a_used_up_lease_goes_back_and_another_is_asked_for),
        test_with_shop(an_idle_board_goes_back_after_a_second),
        test_with_shop(an_idle_board_that_builds_will_need_is_kept),
        test_with_shop(a_lost_lease_gives_its_trials_back_and_a_late_result_is_refused),
        test_with_shop(a_trial_that_takes_three_boards_down_is_recorded_as_that),
        test_with_shop(results_that_showed_nothing_are_no_falls_of_boards),
        test_with_shop(a_trial_whose_leases_are_lost_for_ever_ends_as_infra),
        test_with_shop(a_boards_trouble_is_tried_again_with_fresh_blobs),
        test_with_shop(a_board_that_says_what_cannot_be_is_not_believed),
        test_with_shop(a_result_is_acknowledged_after_its_commit_and_again_when_it_repeats),
        test_with_shop(after_a_reconnect_leases_are_renewed_and_trials_repeated),
        test_with_shop(a_board_without_news_is_given_up),
        test_with_shop(a_task_stays_on_the_board_that_began_it),
        test_with_shop(a_grant_repeated_for_fewer_trials_winds_the_lease_down),
        test_with_shop(a_task_asks_for_the_board_that_began_it),
        test_with_shop(a_task_goes_on_with_the_board_that_took_it_over),
        test_with_shop(no_board_waits_while_there_is_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
