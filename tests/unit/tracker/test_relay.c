#include "tests/unit/tracker/fleet.h"

static kiln_message trial(uint64_t lease, const char *id) {
    return (kiln_message){
        .type = KILN_MSG_TRIAL,
        .trial = {.trial = kiln_str_from(id), .attempt = 1, .lease = lease, .job = KILN_STR("j")}};
}

static kiln_message result(uint64_t lease, const char *id) {
    return (kiln_message){
        .type = KILN_MSG_TRIAL_RESULT,
        .trial_result = {.trial = kiln_str_from(id), .attempt = 1, .lease = lease}};
}

static void trials_and_answers_pass_under_a_lease_that_holds(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    kiln_message down = trial(lease, "t"), up = result(lease, "t");
    down.stream = 99;
    fleet_say(f, 20, &down);
    const kiln_message *got = fleet_take(f, 10, KILN_MSG_TRIAL);
    assert_non_null(got);
    assert_int_equal(got->stream, 0); /* streams belong to one connection */
    kiln_message event = {.type = KILN_MSG_TRIAL_EVENT,
                          .trial_event = {.trial = KILN_STR("t"), .attempt = 1, .lease = lease}};
    fleet_say(f, 10, &event);
    assert_non_null(fleet_take(f, 20, KILN_MSG_TRIAL_EVENT));
    fleet_say(f, 10, &up);
    assert_non_null(fleet_take(f, 20, KILN_MSG_TRIAL_RESULT));
    kiln_message ack = {.type = KILN_MSG_TRIAL_ACK,
                        .trial_ack = {.trial = KILN_STR("t"), .attempt = 1, .lease = lease}};
    fleet_say(f, 20, &ack);
    assert_non_null(fleet_take(f, 10, KILN_MSG_TRIAL_ACK));
    kiln_message cancel = {
        .type = KILN_MSG_CANCEL,
        .cancel = {.scope = KILN_CANCEL_TRIAL, .id = KILN_STR("t"), .lease = lease}};
    fleet_say(f, 20, &cancel);
    assert_non_null(fleet_take(f, 10, KILN_MSG_CANCEL));
    cancel.cancel = (kiln_msg_cancel){.scope = KILN_CANCEL_LEASE, .lease = lease};
    fleet_say(f, 20, &cancel);
    assert_int_equal(fleet_take(f, 10, KILN_MSG_CANCEL)->cancel.scope, KILN_CANCEL_LEASE);
}

static void a_lease_is_good_for_its_trials_and_repeats_are_free(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    kiln_message first = trial(lease, "t1"), second = trial(lease, "t2"),
                 third = trial(lease, "t3");
    fleet_say(f, 20, &first);
    fleet_say(f, 20, &first);
    fleet_say(f, 20, &second);
    assert_null(fleet_take(f, 20, KILN_MSG_ERROR));
    fleet_say(f, 20, &third);
    const kiln_message *error = fleet_take(f, 20, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
    expect_str(error->error.about, "t3");
}

static void a_board_forgets_an_answer_that_nobody_asked_for(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    const uint64_t lease = fleet_lease(f, 1);
    const kiln_message up = result(lease, "stranger");
    fleet_say(f, 10, &up);
    assert_null(fleet_take(f, 20, KILN_MSG_TRIAL_RESULT));
    const kiln_message *ack = fleet_take(f, 10, KILN_MSG_TRIAL_ACK);
    assert_non_null(ack);
    expect_str(ack->trial_ack.trial, "stranger");
    assert_int_equal(ack->trial_ack.lease, lease);
}

static void nobody_uses_anothers_lease(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    fleet_tuner(f, 21, "thief", "thief-1");
    fleet_board(f, 11, "liar", 1);
    kiln_message down = trial(lease, "t"), up = result(lease, "t");
    kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = lease}};
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}};
    fleet_say(f, 21, &down);
    assert_null(fleet_take(f, 10, KILN_MSG_TRIAL));
    fleet_say(f, 21, &renew);
    assert_null(fleet_take(f, 21, KILN_MSG_LEASE_RENEW));
    fleet_say(f, 21, &release);
    fleet_say(f, 11, &up);
    assert_null(fleet_take(f, 20, KILN_MSG_TRIAL_RESULT));
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 1);
}

/* Else the tuner would wait for its result until it takes the board for stuck. */
static void what_comes_before_its_board_is_back_after_a_restart_waits_for_it(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    fleet_restart(f);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    kiln_message first = trial(lease, "t1"), second = trial(lease, "t2");
    fleet_say(f, 20, &first);
    fleet_say(f, 20, &second);
    fleet_board(f, 10, "board", 1);
    expect_str(fleet_take(f, 10, KILN_MSG_TRIAL)->trial.trial, "t1");
    expect_str(fleet_take(f, 10, KILN_MSG_TRIAL)->trial.trial, "t2");
    kiln_message up = result(lease, "t2");
    fleet_say(f, 10, &up);
    assert_non_null(fleet_take(f, 20, KILN_MSG_TRIAL_RESULT));
    assert_null(fleet_take(f, 10, KILN_MSG_TRIAL));
}

static void so_much_waits_for_a_board_and_no_more(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    fleet_restart(f);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    kiln_message down = trial(lease, "t");
    for (uint32_t i = 0; i < KILN_TRACKER_HELD_BACK_MAX + 9; i++) fleet_say(f, 20, &down);
    fleet_board(f, 10, "board", 1);
    uint32_t count = 0;
    while (fleet_take(f, 10, KILN_MSG_TRIAL)) count++;
    assert_int_equal(count, KILN_TRACKER_HELD_BACK_MAX);
}

/* ---- Clients that send their own ---- */

/* A board (10), a client (30) with a job "j" of its own; the number of its lease. */
static uint64_t lease_by_client(fleet *f) {
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    kiln_message open = fleet_job("j", false);
    open.job_open.spec.by_client = true;
    fleet_say(f, 30, &open);
    assert_non_null(fleet_take(f, 30, KILN_MSG_JOB_ASSIGN));
    kiln_message ask = fleet_request("j", 1);
    ask.lease_req.exclusive = true;
    fleet_say(f, 30, &ask);
    const kiln_message *grant = fleet_take(f, 30, KILN_MSG_LEASE_GRANT);
    assert_non_null(grant);
    return grant->lease_grant.lease;
}

static kiln_message module_trial(uint64_t lease) {
    kiln_message message = trial(lease, "t");
    message.trial.module.threads = 1;
    return message;
}

static void a_client_runs_its_own_trial_under_a_lease_of_its_own(void **state) {
    fleet *f = *state;
    fleet_board(f, 10, "board", 2);
    const uint64_t lease = lease_by_client(f);
    assert_int_equal(kiln_tracker_board_find(f->t, KILN_STR("board"))->busy, 2); /* all of it */
    kiln_message down = module_trial(lease), up = result(lease, "t");
    fleet_say(f, 30, &down);
    assert_non_null(fleet_take(f, 10, KILN_MSG_TRIAL));
    fleet_say(f, 10, &up);
    assert_non_null(fleet_take(f, 30, KILN_MSG_TRIAL_RESULT));
    kiln_message done = {.type = KILN_MSG_JOB_DONE,
                         .job_done = {.job = KILN_STR("j"), .trials = 1}};
    fleet_say(f, 30, &done);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_JOB_DONE)->job_done.code, KILN_OK);
    assert_non_null(fleet_take(f, 10, KILN_MSG_LEASE_LOST)); /* it may forget the trial */
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 0);
}

static void a_board_is_free_at_once_when_its_client_cancels_or_goes(void **state) {
    fleet *f = *state;
    static const uint64_t board[] = {10, 0};
    fleet_board(f, 10, "board", 1);
    kiln_message down = module_trial(lease_by_client(f));
    fleet_say(f, 30, &down);
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    fleet_say(f, 30, &cancel);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_JOB_DONE)->job_done.code, KILN_CANCELLED);
    assert_non_null(fleet_take(f, 10, KILN_MSG_LEASE_LOST));
    fleet_disconnect(f, 30);
    kiln_message open = fleet_job("k", false), ask = fleet_request("k", 2);
    open.job_open.spec.by_client = true;
    fleet_connect(f, 31, KILN_PEER_CLIENT, "other", "other-1");
    fleet_say(f, 31, &open);
    fleet_say(f, 31, &ask);
    const kiln_message *grant = fleet_take(f, 31, KILN_MSG_LEASE_GRANT);
    assert_non_null(grant);
    down = module_trial(grant->lease_grant.lease);
    fleet_say(f, 31, &down);
    fleet_disconnect(f, 31);
    fleet_wait(f, FLEET_S, board);
    assert_non_null(fleet_take(f, 10, KILN_MSG_LEASE_LOST));
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 0);
    assert_int_equal(kiln_tracker_counts_of(f->t).jobs_open, 0);
}

static void a_client_hears_of_a_board_that_is_lost(void **state) {
    fleet *f = *state;
    fleet_board(f, 10, "board", 1);
    const uint64_t lease = lease_by_client(f);
    kiln_message down = module_trial(lease);
    fleet_say(f, 30, &down);
    fleet_disconnect(f, 10);
    const kiln_message *lost = fleet_take(f, 30, KILN_MSG_LEASE_LOST);
    assert_non_null(lost);
    assert_int_equal(lost->lease_lost.lease, lease);
}

static void a_board_of_an_older_version_is_not_sent_a_module(void **state) {
    fleet *f = *state;
    f->version = 2;
    fleet_board(f, 10, "board", 1);
    f->version = 0;
    kiln_message down = module_trial(lease_by_client(f));
    fleet_say(f, 30, &down);
    assert_null(fleet_take(f, 10, KILN_MSG_TRIAL));
    const kiln_message *error = fleet_take(f, 30, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->error.code, KILN_UNIMPLEMENTED);
}

static void a_board_before_version_6_is_sent_no_blob_above_one_gib(void **state) {
    fleet *f = *state;
    f->version = 5;
    fleet_board(f, 10, "board", 1);
    f->version = 0;
    const uint64_t lease = lease_by_client(f);
    for (int large = 0; large < 2; large++) {
        kiln_message down = module_trial(lease);
        down.trial.artefact.size = KILN_BLOB_BYTES_BEFORE + (uint64_t)large;
        if (large) down.trial.trial = KILN_STR("another");
        fleet_say(f, 30, &down);
        assert_int_equal(fleet_take(f, 10, KILN_MSG_TRIAL) != NULL, !large);
    }
    const kiln_message *error = fleet_take(f, 30, KILN_MSG_ERROR);
    assert_int_equal(error->error.code, KILN_UNIMPLEMENTED);
    expect_contains(error->error.text.data, "too old for blobs of more than 1 GiB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(trials_and_answers_pass_under_a_lease_that_holds),
        test_with_fleet(a_lease_is_good_for_its_trials_and_repeats_are_free),
        test_with_fleet(a_board_forgets_an_answer_that_nobody_asked_for),
        test_with_fleet(nobody_uses_anothers_lease),
        test_with_fleet(what_comes_before_its_board_is_back_after_a_restart_waits_for_it),
        test_with_fleet(so_much_waits_for_a_board_and_no_more),
        test_with_fleet(a_client_runs_its_own_trial_under_a_lease_of_its_own),
        test_with_fleet(a_board_is_free_at_once_when_its_client_cancels_or_goes),
        test_with_fleet(a_client_hears_of_a_board_that_is_lost),
        test_with_fleet(a_board_of_an_older_version_is_not_sent_a_module),
        test_with_fleet(a_board_before_version_6_is_sent_no_blob_above_one_gib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
