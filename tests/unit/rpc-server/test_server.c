/* What a server decides about its tracker, its leases and itself. */
#include "rpc-server/health.h"
#include "tests/unit/rpc-server/bench.h"

static void it_dials_and_introduces_itself(void **state) {
    bench *b = *state;
    bench_tick_after(b, 0);
    assert_non_null(bench_find(b, KILN_SERVER_DIAL));
    bench_connect_to_tracker(b);
    const kiln_message *up = bench_find_sent(b, KILN_MSG_BOARD_UP);
    assert_non_null(up);
    assert_int_equal(up->board_up.slots, 2);
    assert_int_equal(up->board_up.running.count, 0);
}

static void slots_of_all_targets_run_trials(void **state) {
    bench *b = *state;
    kiln_msg_board_target other = {.target = KILN_STR("opencl:x"), .slots = 1};
    const kiln_msg_board_up up = {
        .key = KILN_STR("b"), .target = KILN_STR("cpu:x"), .slots = 2, .targets = {&other, 1}};
    static const uint32_t disturbs[3] = {0};
    kiln_server_destroy(b->server);
    b->server = kiln_server_create(
        &(kiln_server_options){.board = &up, .disturbs = disturbs, .seed = 1}, b->now_ns);
    bench_connect_to_tracker(b);
    const kiln_message *said = bench_find_sent(b, KILN_MSG_BOARD_UP);
    assert_int_equal(said->board_up.targets.count, 1);
    expect_str(said->board_up.targets.item[0].target, "opencl:x");
    bench_send_trial(b, "a", 7, 0);
    bench_send_trial(b, "c", 8, 2);
    assert_int_equal(kiln_server_counts_of(b->server).running, 2); /* beside each other */
    const kiln_message none = bench_trial("d", 9, 3);
    bench_say(b, &none);
    assert_int_equal(kiln_server_counts_of(b->server).running, 2);
    expect_contains(bench_find_sent(b, KILN_MSG_ERROR)->error.text.data, "no such slot");
}

static void a_result_is_sent_again_until_it_is_acknowledged(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_finish(b, 0);
    const kiln_message *result = bench_find_sent(b, KILN_MSG_TRIAL_RESULT);
    assert_non_null(result);
    expect_str(result->trial_result.trial, "a");
    assert_int_equal(result->trial_result.lease, 7);
    assert_int_equal(result->trial_result.samples_ns.count, 3);
    bench_tick_after(b, KILN_SERVER_RESEND_NS - 1);
    assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
    bench_tick_after(b, 1);
    assert_non_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
    kiln_message ack = {.type = KILN_MSG_TRIAL_ACK,
                        .trial_ack = {.trial = KILN_STR("a"), .attempt = 1, .lease = 7}};
    bench_say(b, &ack);
    assert_int_equal(kiln_server_counts_of(b->server).kept, 0);
    bench_tick_after(b, KILN_SERVER_RESEND_NS);
    assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
}

static void after_a_reconnect_it_says_what_it_has_and_sends_results_at_once(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
    bench_finish(b, 0);
    assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
    bench_tick_after(b, BENCH_S);
    assert_non_null(bench_find(b, KILN_SERVER_DIAL));
    bench_connect_to_tracker(b);
    const kiln_message *up = bench_find_sent(b, KILN_MSG_BOARD_UP);
    assert_int_equal(up->board_up.running.count, 1);
    expect_str(up->board_up.running.item[0].trial, "a");
    assert_int_equal(up->board_up.running.item[0].lease, 7);
    assert_non_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
    assert_null(bench_find(b, KILN_SERVER_FETCH)); /* it has the blobs */
}

static void trials_whose_lease_is_over_are_not_told_after_a_reconnect(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_send_trial(b, "b", 8, 1);
    bench_say(b, &(kiln_message){.type = KILN_MSG_LEASE_LOST, .lease_lost = {.lease = 7}});
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED}); /* a dies yet */
    bench_tick_after(b, BENCH_S);
    bench_connect_to_tracker(b);
    const kiln_msg_board_up *up = &bench_find_sent(b, KILN_MSG_BOARD_UP)->board_up;
    assert_int_equal(up->running.count, 1);
    expect_str(up->running.item[0].trial, "b");
}

static void a_board_that_fell_sick_alone_says_so_when_it_connects(void **state) {
    bench *b = *state;
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_READING, .failure = "too hot"});
    bench_tick_after(b, BENCH_S);
    bench_connect_to_tracker(b);
    const kiln_message *told = bench_find_sent(b, KILN_MSG_BOARD_STATE);
    assert_non_null(told);
    assert_true(told->board_state.sick);
    expect_str(told->board_state.text, "too hot");
}

static void a_repeated_trial_does_not_run_again(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_finish(b, 0);
    kiln_message again = bench_trial("a", 7, 0);
    bench_say(b, &again);
    assert_null(bench_find(b, KILN_SERVER_FETCH));
    assert_null(bench_find(b, KILN_SERVER_START));
    assert_non_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT)); /* but its answer is repeated */
}

/* Whoever had the board before, and whatever became of what it sent. */
static void a_newer_lease_ends_all_that_came_under_older_ones(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "k", 6, 0);
    bench_finish(b, 0); /* kept until it is acknowledged */
    bench_send_trial(b, "a", 7, 0);
    const uint64_t run = b->run;
    bench_send_trial(b, "w", 7, 0); /* waits for its slot */
    kiln_message fetching = bench_trial("f", 7, 0), elsewhere = bench_trial("o", 7, 1);
    bench_say(b, &fetching);
    bench_say(b, &elsewhere); /* fences are per slot */
    kiln_server_counts counts = kiln_server_counts_of(b->server);
    assert_int_equal(counts.waiting, 3);
    assert_int_equal(counts.running, 1);
    kiln_message newer = bench_trial("n", 8, 0);
    bench_say(b, &newer);
    const kiln_server_action *kill = bench_find(b, KILN_SERVER_KILL);
    assert_non_null(kill);
    assert_int_equal(kill->run, run);
    counts = kiln_server_counts_of(b->server);
    assert_int_equal(counts.kept, 0);
    assert_int_equal(counts.waiting, 2); /* the newer one, and that of the other slot */
    assert_int_equal(counts.running, 1); /* which dies */
    bench_die(b, 0, "signal 9");
    assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
    bench_fetched(b, 'n', NULL);
    bench_fetched(b, 1, NULL);
    expect_str(bench_find(b, KILN_SERVER_START)->trial->trial, "n");
    bench_finish(b, 0);
    expect_str(bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.trial, "n");
    assert_int_equal(kiln_server_counts_of(b->server).kept, 1); /* that of k is forgotten */
}

static void an_older_lease_is_refused_and_a_newer_one_ends_it(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_send_trial(b, "b", 8, 0);
    kiln_message newer = bench_trial("c", 9, 0);
    bench_say(b, &newer);
    assert_int_equal(kiln_server_counts_of(b->server).running, 1); /* a, which dies */
    kiln_message older = bench_trial("d", 7, 0);
    bench_say(b, &older);
    const kiln_message *error = bench_find_sent(b, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->error.code, KILN_ABORTED);
    assert_int_equal(error->error.lease, 7);
    assert_int_equal(error->stream, 0); /* a TRIAL asks for no answer on a stream */
    expect_str(error->error.about, "d");
    kiln_message other_slot = bench_trial("e", 7, 1); /* fences are per slot */
    bench_say(b, &other_slot);
    assert_null(bench_find_sent(b, KILN_MSG_ERROR));
}

static void a_lost_lease_kills_its_child_and_is_forgotten_silently(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_send_trial(b, "b", 7, 0);
    kiln_message lost = {.type = KILN_MSG_LEASE_LOST, .lease_lost = {.lease = 7}};
    bench_say(b, &lost);
    assert_non_null(bench_find(b, KILN_SERVER_KILL));
    assert_int_equal(bench_find(b, KILN_SERVER_KILL)->run, b->run);
    bench_die(b, 0, "signal 9");
    assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
    kiln_server_counts counts = kiln_server_counts_of(b->server);
    assert_int_equal(counts.waiting + counts.running + counts.kept, 0);
}

static void events_of_an_earlier_run_are_ignored(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_finish(b, 0);
    uint64_t old = b->run;
    bench_send_trial(b, "b", 7, 0);
    bench_step(
        b, &(kiln_server_event){.kind = KILN_SERVER_DIED, .slot = 0, .run = old, .text = "late"});
    assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
    assert_int_equal(kiln_server_counts_of(b->server).running, 1);
}

static void nothing_is_measured_beside_a_child_that_does_not_die(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_tick_after(b, 2000 * BENCH_MS);
    assert_non_null(bench_find(b, KILN_SERVER_KILL));
    bench_tick_after(b, KILN_SERVER_KILL_NS);
    assert_true(bench_find_sent(b, KILN_MSG_BOARD_STATE)->board_state.sick);
    bench_send_trial(b, "b", 8, 1);
    assert_null(bench_find(b, KILN_SERVER_START));
    bench_die(b, 0, "gone at last");
    assert_false(bench_find_sent(b, KILN_MSG_BOARD_STATE)->board_state.sick);
    assert_non_null(bench_find(b, KILN_SERVER_START));
}

static void a_sick_board_starts_nothing_until_it_is_well(void **state) {
    bench *b = *state;
    kiln_msg_env env = {.temperature_mc = 90000, .governor = KILN_STR("performance")};
    bench_connect_to_tracker(b);
    bench_step(
        b, &(kiln_server_event){.kind = KILN_SERVER_READING, .failure = "too hot", .env = &env});
    const kiln_message *told = bench_find_sent(b, KILN_MSG_BOARD_STATE);
    assert_true(told->board_state.sick);
    expect_str(told->board_state.text, "too hot");
    assert_int_equal(told->board_state.env.temperature_mc, 90000);
    assert_int_equal(told->board_state.env.governor.size, 0); /* BOARD_UP said it */
    bench_send_trial(b, "a", 7, 0);
    assert_null(bench_find(b, KILN_SERVER_START));
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_READING, .env = &env});
    assert_non_null(bench_find(b, KILN_SERVER_START));
    env.temperature_mc = 40000;
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_READING, .env = &env});
    told = bench_find_sent(b, KILN_MSG_BOARD_STATE); /* of a board that is well, too */
    assert_non_null(told);
    assert_int_equal(told->board_state.env.temperature_mc, 40000);
}

static void it_checks_itself_alone_and_before_anything_else(void **state) {
    bench *b = *state;
    bench_check_itself(b);
    const kiln_server_action *check = bench_find(b, KILN_SERVER_CHECK);
    assert_non_null(check);
    uint64_t run = check->run;
    bench_send_trial(b, "a", 7, 0);
    assert_null(bench_find(b, KILN_SERVER_START));
    bench_checked(b, run + 1, NULL); /* of another */
    assert_null(bench_find(b, KILN_SERVER_START));
    bench_checked(b, run, NULL);
    assert_non_null(bench_find(b, KILN_SERVER_START));
    /* A kill: the other slot's trial ends first, then it looks at itself, then the next begins. */
    bench_send_trial(b, "c", 7, 1);
    uint64_t other = b->run;
    bench_tick_heard(b, 2 * BENCH_S);
    b->run = other - 1;
    bench_die(b, 0, "signal 9");
    bench_send_trial(b, "d", 7, 0);
    assert_null(bench_find(b, KILN_SERVER_START));
    b->run = other;
    bench_die(b, 1, "signal 9");
    assert_non_null(bench_find(b, KILN_SERVER_CHECK));
    assert_null(bench_find(b, KILN_SERVER_START));
    bench_checked(b, bench_find(b, KILN_SERVER_CHECK)->run, NULL);
    assert_non_null(bench_find(b, KILN_SERVER_START));
}

static void a_board_that_fails_its_check_says_so_and_asks_for_help(void **state) {
    bench *b = *state;
    bench_check_itself(b);
    for (uint32_t i = 0; i < 4; i++) {
        const kiln_server_action *check = bench_find(b, KILN_SERVER_CHECK);
        assert_non_null(check);
        assert_null(bench_find(b, KILN_SERVER_POWER_CYCLE));
        bench_checked(b, check->run, "one bit is wrong");
        const kiln_message *told = bench_find_sent(b, KILN_MSG_BOARD_STATE);
        assert_true(i != 1 || (told && told->board_state.sick));
        if (i < 3) bench_tick_heard(b, BENCH_S / 2 << i);
    }
    const kiln_server_action *cycle = bench_find(b, KILN_SERVER_POWER_CYCLE);
    assert_non_null(cycle);
    assert_string_equal(cycle->text, "one bit is wrong");
    bench_tick_heard(b, BENCH_S);
    assert_null(bench_find(b, KILN_SERVER_POWER_CYCLE)); /* help needs time */
}

/* BOARD_UP said the governor. */
static void before_the_first_reading_it_tells_the_surroundings_of_its_start(void **state) {
    static const kiln_msg_board_up up = {
        .key = {"b", 1},
        .target = {"cpu:x", 5},
        .slots = 1,
        .env = {.temperature_mc = 40000, .governor = {"performance", 11}}};
    bench *b = *state;
    kiln_server_destroy(b->server);
    b->server = kiln_server_create(
        &(kiln_server_options){.board = &up, .seed = 1, .check_ns = KILN_HEALTH_CHECK_NS},
        b->now_ns);
    bench_connect_to_tracker(b);
    bench_checked(b, bench_find(b, KILN_SERVER_CHECK)->run, "one bit is wrong");
    bench_tick_heard(b, KILN_HEALTH_RETRY_NS);
    bench_checked(b, bench_find(b, KILN_SERVER_CHECK)->run, "one bit is wrong");
    const kiln_message *told = bench_find_sent(b, KILN_MSG_BOARD_STATE);
    assert_non_null(told);
    assert_int_equal(told->board_state.env.temperature_mc, 40000);
    assert_int_equal(told->board_state.env.governor.size, 0);
}

static void a_check_that_hangs_is_killed(void **state) {
    bench *b = *state;
    bench_check_itself(b);
    uint64_t run = bench_find(b, KILN_SERVER_CHECK)->run;
    for (int i = 0; i < 10; i++) bench_tick_heard(b, BENCH_S);
    assert_non_null(bench_find(b, KILN_SERVER_KILL));
    assert_int_equal(bench_find(b, KILN_SERVER_KILL)->run, run);
    assert_true(bench_find_sent(b, KILN_MSG_BOARD_STATE)->board_state.sick);
}

static void cancel_ends_a_waiting_and_a_running_trial(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_send_trial(b, "b", 7, 0);
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_TRIAL, .id = KILN_STR("b"), .lease = 7}};
    bench_say(b, &cancel);
    assert_int_equal(bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.outcome,
                     KILN_OUTCOME_INFRA);
    cancel.cancel.id = KILN_STR("a");
    bench_say(b, &cancel);
    assert_non_null(bench_find(b, KILN_SERVER_KILL));
    bench_say(b, &cancel); /* once more changes nothing */
    assert_null(bench_find(b, KILN_SERVER_KILL));
    bench_die(b, 0, "signal 9");
    const kiln_msg_trial_result *result = &bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result;
    expect_str(result->text, "cancelled");
    assert_int_equal(result->outcome, KILN_OUTCOME_INFRA);
}

static void cancel_ends_a_trial_that_fetches(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    const kiln_message trial = bench_trial("a", 7, 0);
    bench_say(b, &trial);
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("a"), .lease = 7}};
    bench_say(b, &cancel); /* of a job, which a board does not know */
    assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
    cancel.cancel.scope = KILN_CANCEL_TRIAL;
    bench_say(b, &cancel);
    assert_int_equal(bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.outcome,
                     KILN_OUTCOME_INFRA);
}

static void what_is_not_for_a_running_trial_leaves_it_alone(void **state) {
    bench *b = *state;
    const kiln_message said[] = {
        /* There is no result yet that it could be about. */
        {.type = KILN_MSG_TRIAL_ACK,
         .trial_ack = {.trial = KILN_STR("a"), .attempt = 1, .lease = 7}},
        /* The number of an upgrade is none of a lease. */
        {.type = KILN_MSG_UPGRADE, .upgrade = {.number = 7, .step = KILN_UPGRADE_FORGET}},
    };
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(said); i++) {
        bench_say(b, &said[i]);
        assert_null(bench_find(b, KILN_SERVER_KILL));
        assert_int_equal(kiln_server_counts_of(b->server).running, 1);
    }
    bench_finish(b, 0);
    assert_non_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
}

static void a_ping_and_nothing_else_is_answered_with_a_pong(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_say(b, &(kiln_message){.type = KILN_MSG_PING, .stream = 3, .ping = {.t_ns = 9}});
    const kiln_message *pong = bench_find_sent(b, KILN_MSG_PONG);
    assert_non_null(pong);
    assert_int_equal(pong->stream, 3);
    assert_int_equal(pong->pong.t_ns, 9);
    bench_say(b, &(kiln_message){.type = KILN_MSG_LEASE_LOST, .lease_lost = {.lease = 7}});
    assert_int_equal(b->actions.list.count, 0);
}

/* A fetch that fails with its connection is no fault of the blob. */
static void after_a_reconnect_it_fetches_again_as_if_for_the_first_time(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    const kiln_message trial = bench_trial("a", 7, 0);
    bench_say(b, &trial);
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
    bench_fetched(b, 'a', "the connection closed");
    bench_connect_to_tracker(b);
    const kiln_server_action *fetch = bench_find(b, KILN_SERVER_FETCH);
    assert_non_null(fetch);
    assert_int_equal(fetch->digest.byte[0], 'a');
    bench_fetched(b, 'a', "no space left on the device");
    assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
}

static void cancelling_a_lease_ends_all_its_trials_and_no_other(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_send_trial(b, "b", 7, 0);
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_LEASE, .lease = 6}};
    bench_say(b, &cancel);
    assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
    assert_null(bench_find(b, KILN_SERVER_KILL));
    cancel.cancel.lease = 7;
    bench_say(b, &cancel);
    expect_str(bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.trial, "b"); /* it waited */
    assert_non_null(bench_find(b, KILN_SERVER_KILL));
    bench_die(b, 0, "signal 9");
    expect_str(bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.text, "cancelled");
}

static void a_slot_that_does_not_exist_is_refused(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    kiln_message message = bench_trial("a", 7, 2);
    bench_say(b, &message);
    assert_int_equal(bench_find_sent(b, KILN_MSG_ERROR)->error.code, KILN_INVALID_ARGUMENT);
    assert_int_equal(b->actions.list.count, 1);
    assert_int_equal(kiln_server_counts_of(b->server).waiting, 0);
}

static void more_trials_than_it_can_hold_are_refused(void **state) {
    bench *b = *state;
    char id[8];
    bench_connect_to_tracker(b);
    for (uint32_t i = 0; i <= KILN_SERVER_TRIALS_MAX; i++) {
        kiln_strbuf text = {0};
        kiln_strbuf_printf(&text, "t%u", i);
        for (size_t c = 0; c <= text.size; c++) id[c] = text.data[c];
        kiln_strbuf_deinit(&text);
        kiln_message message = bench_trial(id, 7, 0);
        bench_say(b, &message);
    }
    assert_int_equal(bench_find_sent(b, KILN_MSG_ERROR)->error.code, KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(kiln_server_counts_of(b->server).waiting, KILN_SERVER_TRIALS_MAX);
}

static void a_silent_tracker_is_hung_up_and_dialled_again(void **state) {
    bench *b = *state;
    bench_tick_after(b, 0);
    bench_connect_to_tracker(b);
    bool pinged = false, hung_up = false, dialled = false;
    for (int i = 0; i < 10 && !dialled; i++) {
        bench_tick_after(b, kiln_server_next_ns(b->server) - b->now_ns);
        pinged |= bench_find_sent(b, KILN_MSG_PING) != NULL;
        hung_up |= bench_find(b, KILN_SERVER_HANG_UP) != NULL;
        dialled |= hung_up && bench_find(b, KILN_SERVER_DIAL) != NULL;
    }
    assert_true(pinged);
    assert_true(dialled);
    assert_true(b->now_ns - 50 * BENCH_S < 8 * BENCH_S);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_bench(it_dials_and_introduces_itself),
        test_with_bench(slots_of_all_targets_run_trials),
        test_with_bench(a_result_is_sent_again_until_it_is_acknowledged),
        test_with_bench(after_a_reconnect_it_says_what_it_has_and_sends_results_at_once),
        test_with_bench(trials_whose_lease_is_over_are_not_told_after_a_reconnect),
        test_with_bench(a_board_that_fell_sick_alone_says_so_when_it_connects),
        test_with_bench(a_repeated_trial_does_not_run_again),
        test_with_bench(a_newer_lease_ends_all_that_came_under_older_ones),
        test_with_bench(an_older_lease_is_refused_and_a_newer_one_ends_it),
        test_with_bench(a_lost_lease_kills_its_child_and_is_forgotten_silently),
        test_with_bench(events_of_an_earlier_run_are_ignored),
        test_with_bench(nothing_is_measured_beside_a_child_that_does_not_die),
        test_with_bench(a_sick_board_starts_nothing_until_it_is_well),
        test_with_bench(it_checks_itself_alone_and_before_anything_else),
        test_with_bench(a_board_that_fails_its_check_says_so_and_asks_for_help),
        test_with_bench(before_the_first_reading_it_tells_the_surroundings_of_its_start),
        test_with_bench(a_check_that_hangs_is_killed),
        test_with_bench(cancel_ends_a_waiting_and_a_running_trial),
        test_with_bench(cancel_ends_a_trial_that_fetches),
        test_with_bench(what_is_not_for_a_running_trial_leaves_it_alone),
        test_with_bench(a_ping_and_nothing_else_is_answered_with_a_pong),
        test_with_bench(after_a_reconnect_it_fetches_again_as_if_for_the_first_time),
        test_with_bench(cancelling_a_lease_ends_all_its_trials_and_no_other),
        test_with_bench(a_slot_that_does_not_exist_is_refused),
        test_with_bench(more_trials_than_it_can_hold_are_refused),
        test_with_bench(a_silent_tracker_is_hung_up_and_dialled_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
