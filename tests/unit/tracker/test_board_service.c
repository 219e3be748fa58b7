#include "base/reading.h"
#include "tests/unit/tracker/fleet.h"

#define ADMIN 33u

static const uint64_t everybody[] = {10, 20, 30, ADMIN, 0};

/* A running job, and somebody who may give orders. */
static void set_up(fleet *f) {
    fleet_running_job(f);
    fleet_connect(f, ADMIN, KILN_PEER_ADMIN, "admin", "admin-1");
}

static kiln_message order(const char *board, kiln_board_service service, const char *why) {
    return (kiln_message){.type = KILN_MSG_BOARD_ORDER,
                          .stream = 7,
                          .board_order = {.board = kiln_str_from(board),
                                          .service = (uint32_t)service,
                                          .text = kiln_str_from(why)}};
}

static const kiln_msg_board_row *say_order(fleet *f, const char *board,
                                           kiln_board_service service) {
    kiln_message message = order(board, service, "because");
    fleet_say(f, ADMIN, &message);
    const kiln_message *answer = fleet_take(f, ADMIN, KILN_MSG_ANSWER);
    assert_non_null(answer);
    assert_int_equal(answer->stream, 7);
    assert_int_equal(answer->answer.boards.count, 1);
    return &answer->answer.boards.item[0];
}

static bool is_granted(fleet *f, uint64_t request) {
    kiln_message ask = fleet_request("j", request);
    fleet_say(f, 20, &ask);
    return fleet_take(f, 20, KILN_MSG_LEASE_GRANT) != NULL;
}

static void release(fleet *f, uint64_t lease) {
    kiln_message message = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}};
    fleet_say(f, 20, &message);
}

/* The board's trial ends so. */
static void give_result(fleet *f, uint64_t lease, const char *id, kiln_outcome outcome,
                        kiln_blame blame) {
    kiln_message trial = {
        .type = KILN_MSG_TRIAL,
        .trial = {.trial = kiln_str_from(id), .attempt = 1, .lease = lease, .job = KILN_STR("j")}};
    kiln_message result = {.type = KILN_MSG_TRIAL_RESULT,
                           .trial_result = {.trial = kiln_str_from(id),
                                            .attempt = 1,
                                            .lease = lease,
                                            .outcome = (uint32_t)outcome,
                                            .blame = (uint32_t)blame}};
    fleet_say(f, 20, &trial);
    fleet_say(f, 10, &result);
    fleet_say(f, 10, &result); /* a board repeats itself until it is heard */
}

/* Trials of one lease each, all the board's fault. */
static void fault(fleet *f, uint32_t count) {
    static uint64_t request = 100;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t lease = fleet_lease(f, ++request);
        give_result(f, lease, "t", KILN_OUTCOME_INFRA, KILN_BLAME_BOARD);
        release(f, lease);
    }
}

static void a_drained_board_ends_what_it_has_and_gets_no_more(void **state) {
    fleet *f = *state;
    set_up(f);
    uint64_t lease = fleet_lease(f, 1);
    expect_str(say_order(f, "board", KILN_BOARD_DRAINED)->state, "draining");
    const kiln_message *less = fleet_take(f, 20, KILN_MSG_LEASE_GRANT); /* the same for one trial */
    assert_int_equal(less->lease_grant.lease, lease);
    assert_int_equal(less->lease_grant.trials, 1);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_LOST));
    give_result(f, lease, "t", KILN_OUTCOME_OK, KILN_BLAME_NONE);
    assert_non_null(fleet_take(f, 20, KILN_MSG_TRIAL_RESULT));
    release(f, lease);
    assert_false(is_granted(f, 2));
    const kiln_msg_board_row *row = say_order(f, "board", KILN_BOARD_DRAINED);
    expect_str(row->state, "drained");
    expect_str(row->text, "because");
    expect_str(say_order(f, "board", KILN_BOARD_IN_SERVICE)->state, "leased");
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)); /* request 2 */
}

static void a_quarantined_board_loses_its_lease_at_once(void **state) {
    fleet *f = *state;
    set_up(f);
    uint64_t lease = fleet_lease(f, 1);
    expect_str(say_order(f, "board", KILN_BOARD_QUARANTINED)->state, "quarantined");
    assert_int_equal(fleet_take(f, 20, KILN_MSG_LEASE_LOST)->lease_lost.lease, lease);
    assert_false(is_granted(f, 2));
    fleet_wait(f, 3600 * FLEET_S, everybody); /* a person's order does not end by itself */
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
}

static void an_order_outlives_tracker_and_board(void **state) {
    fleet *f = *state;
    set_up(f);
    say_order(f, "board", KILN_BOARD_DRAINED);
    fleet_restart(f);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    fleet_connect(f, ADMIN, KILN_PEER_ADMIN, "admin", "admin-1");
    fleet_open_job(f, 30, "j", false);
    fleet_board(f, 10, "board", 1);
    assert_false(is_granted(f, 1));
    expect_str(say_order(f, "board", KILN_BOARD_IN_SERVICE)->state, "leased");
}

static void an_order_is_on_disk_before_it_is_answered(void **state) {
    fleet *f = *state;
    set_up(f);
    f->hold_disk = true;
    kiln_message message = order("board", KILN_BOARD_DRAINED, "");
    fleet_say(f, ADMIN, &message);
    assert_null(fleet_take(f, ADMIN, KILN_MSG_ANSWER));
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_ABORTED);
    fleet_persist(f, "the disk is full");
    const kiln_message *error = fleet_take(f, ADMIN, KILN_MSG_ERROR);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
}

static void a_client_gives_no_orders(void **state) {
    fleet *f = *state;
    set_up(f);
    kiln_message message = order("board", KILN_BOARD_DRAINED, "");
    fleet_say(f, 30, &message);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_ERROR)->error.code, KILN_PERMISSION_DENIED);
    assert_true(is_granted(f, 1));
}

static void an_order_for_nobody_or_several_is_refused(void **state) {
    fleet *f = *state;
    set_up(f);
    kiln_message message = order("stranger", KILN_BOARD_DRAINED, "");
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
    for (uint64_t i = 0; i < 2; i++) {
        fleet_connect(f, 40 + i, KILN_PEER_BOARD, i ? "node-1" : "node-0", "boot");
        kiln_message up = {
            .type = KILN_MSG_BOARD_UP,
            .board_up = {.key = KILN_STR("twin"), .target = KILN_STR(FLEET_TARGET), .slots = 1}};
        fleet_say(f, 40 + i, &up);
    }
    message = order("twin", KILN_BOARD_DRAINED, "");
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
    expect_str(say_order(f, "node-1", KILN_BOARD_DRAINED)->state, "drained");
}

static void faults_in_a_row_quarantine_a_board_for_a_while(void **state) {
    fleet *f = *state;
    set_up(f);
    fault(f, KILN_TRACKER_FAULTS_MAX - 1);
    uint64_t lease = fleet_lease(f, 1);
    give_result(f, lease, "t", KILN_OUTCOME_INFRA, KILN_BLAME_BOARD);
    assert_non_null(fleet_take(f, 20, KILN_MSG_TRIAL_RESULT)); /* which is told all the same */
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 0);
    assert_false(is_granted(f, 2));
    fleet_restart(f); /* also over a restart */
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    kiln_message open = fleet_job("k", true);
    fleet_say(f, 30, &open);
    fleet_board(f, 10, "board", 1);
    fleet_forget_sent(f);
    fleet_wait(f, KILN_TRACKER_PROBATION_NS - FLEET_S, everybody);
    assert_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    fleet_wait(f, 2 * FLEET_S, everybody);
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
}

static void a_good_result_forgives_the_faults_before(void **state) {
    fleet *f = *state;
    set_up(f);
    for (int i = 0; i < 3; i++) {
        fault(f, KILN_TRACKER_FAULTS_MAX - 1);
        uint64_t lease = fleet_lease(f, (uint64_t)i + 1);
        give_result(f, lease, "t", KILN_OUTCOME_OK, KILN_BLAME_NONE);
        release(f, lease);
    }
    assert_true(is_granted(f, 9));
}

static void a_candidates_fault_is_not_its_boards(void **state) {
    fleet *f = *state;
    set_up(f);
    for (uint64_t i = 1; i < 20; i++) {
        uint64_t lease = fleet_lease(f, i);
        give_result(f, lease, "t", KILN_OUTCOME_CRASH, KILN_BLAME_CANDIDATE);
        release(f, lease);
    }
    assert_true(is_granted(f, 30));
}

/* A board goes three times while a trial is on its way to it, and comes back. */
static void go_under_trials(fleet *f, bool says_so) {
    set_up(f);
    static const char *const boot[] = {"first", "second", "third", "fourth"};
    for (uint32_t i = 0; i < 4; i++) {
        fleet_disconnect(f, i ? 40 + i - 1 : 10);
        fleet_connect(f, 40 + i, KILN_PEER_BOARD, "board", boot[i]);
        kiln_message up = {
            .type = KILN_MSG_BOARD_UP,
            .board_up = {.key = KILN_STR("board"), .target = KILN_STR(FLEET_TARGET), .slots = 1}};
        fleet_say(f, 40 + i, &up);
        if (i == 3) break;
        fleet_forget_sent(f); /* among it that the lease before winds down */
        uint64_t lease = fleet_lease(f, i + 1);
        kiln_message trial = {.type = KILN_MSG_TRIAL,
                              .trial = {.trial = KILN_STR("t"), .attempt = 1, .lease = lease}};
        kiln_message away = {.type = KILN_MSG_GOAWAY, .goaway = {.reason = KILN_STR("stopping")}};
        if (says_so) fleet_say(f, 40 + i, &away);
        fleet_say(f, 20, &trial);
    }
}

static void a_board_that_dies_under_trials_is_quarantined(void **state) {
    fleet *f = *state;
    go_under_trials(f, false);
    assert_false(is_granted(f, 9));
    expect_str(say_order(f, "board", KILN_BOARD_IN_SERVICE)->state, "leased");
}

static void a_board_that_goes_under_a_lease_without_trials_is_not_at_fault(void **state) {
    fleet *f = *state;
    set_up(f);
    fleet_lease(f, 1);
    fleet_disconnect(f, 10);
    fleet_connect(f, 40, KILN_PEER_BOARD, "board", "second");
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("board"), .target = KILN_STR(FLEET_TARGET), .slots = 1}};
    fleet_say(f, 40, &up);
    assert_int_equal(kiln_tracker_board_find(f->t, KILN_STR("board"))->faults, 0);
}

/* A trial may cross its farewell. */
static void a_board_that_says_it_goes_is_not_at_fault(void **state) {
    fleet *f = *state;
    go_under_trials(f, true);
    fleet_forget_sent(f);
    assert_true(is_granted(f, 9));
}

static void a_row_tells_a_boards_history_and_noise(void **state) {
    fleet *f = *state;
    set_up(f);
    uint64_t lease = fleet_lease(f, 1), samples[] = {100, 110, 90, 100, 100, 120, 80, 100};
    kiln_message trial = {.type = KILN_MSG_TRIAL,
                          .trial = {.trial = KILN_STR("t"), .attempt = 1, .lease = lease}};
    kiln_message result = {.type = KILN_MSG_TRIAL_RESULT,
                           .trial_result = {.trial = KILN_STR("t"),
                                            .attempt = 1,
                                            .lease = lease,
                                            .samples_ns = {samples, 8},
                                            .drift = 1.25}};
    fleet_say(f, 20, &trial);
    fleet_say(f, 10, &result);
    fleet_wait(f, 2 * FLEET_S, everybody);
    kiln_message query = {.type = KILN_MSG_QUERY,
                          .query = {.topic = KILN_TOPIC_BOARD, .id = KILN_STR("board")}};
    fleet_say(f, 30, &query);
    const kiln_msg_board_row *row = &fleet_take(f, 30, KILN_MSG_ANSWER)->answer.boards.item[0];
    assert_int_equal(row->trials, 1);
    assert_int_equal(row->ok, 1);
    const double ns[] = {100, 110, 90, 100, 100, 120, 80, 100};
    assert_true(row->noise == kiln_reading_of(&(kiln_samples){.ns = ns, .count = 8}).doubt);
    assert_true(row->drift == 1.25);
    assert_int_equal(row->held_ms, 2000);
    assert_int_equal(row->eta_ms, 1); /* held for longer than usual: at any moment */
    expect_str(row->job, "j");
    const double noise = row->noise;
    fleet_disconnect(f, 10); /* writes what results said */
    fleet_restart(f);
    assert_true(kiln_tracker_board_find(f->t, KILN_STR("board"))->noise == noise);
}

/* What the board's row tells of the past: "came, lost, ..." and the last event's text. */
static char *past_of(fleet *f, kiln_str *out_last) {
    kiln_message query = {.type = KILN_MSG_QUERY,
                          .query = {.topic = KILN_TOPIC_BOARD, .id = KILN_STR("board")}};
    fleet_say(f, 30, &query);
    const kiln_msg_board_row *row = &fleet_take(f, 30, KILN_MSG_ANSWER)->answer.boards.item[0];
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < row->history.count; i++) {
        if (i) assert_true(row->history.item[i].wall_ms >= row->history.item[i - 1].wall_ms);
        kiln_strbuf_str(&text, row->history.item[i].what);
        kiln_strbuf_text(&text, i + 1 < row->history.count ? " " : "");
        *out_last = row->history.item[i].text;
    }
    char *copy = kiln_str_dup(&f->arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static void what_happened_to_a_board_is_told_also_by_the_next_tracker(void **state) {
    fleet *f = *state;
    kiln_str last = {0};
    set_up(f);
    kiln_tracker_set_wall(f->t, UINT64_C(1700000000) * FLEET_S);
    assert_string_equal(past_of(f, &last), "came");
    say_order(f, "board", KILN_BOARD_DRAINED);
    assert_string_equal(past_of(f, &last), "came drained");
    expect_str(last, "by admin: because");
    fleet_disconnect(f, 10);
    assert_string_equal(past_of(f, &last), "came drained lost");
    const uint64_t nobody[] = {30, ADMIN, 0};
    fleet_wait(f, FLEET_S, nobody); /* came and went are written with the next tick */
    fleet_restart(f);
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    assert_string_equal(past_of(f, &last), "came drained lost");
    for (int i = 0; i < 20; i++) {
        fleet_board(f, 10, "board", 1);
        fleet_disconnect(f, 10);
    }
    assert_string_equal(past_of(f, &last), "came lost came lost came lost came lost");
}

static uint32_t boards_known(fleet *f) {
    kiln_message query = {.type = KILN_MSG_QUERY, .query = {.topic = KILN_TOPIC_FLEET}};
    fleet_say(f, 30, &query);
    return fleet_take(f, 30, KILN_MSG_ANSWER)->answer.total;
}

static bool is_on_disk(fleet *f, const char *board) {
    bool there = false;
    for (uint32_t i = 0; i < f->rows.count; i++) {
        const kiln_tracker_row *row = &f->rows.data[i];
        if (row->kind == KILN_TRACKER_ROW_BOARD && kiln_str_is(row->id, board))
            there = !row->removed;
    }
    return there;
}

static void boards_that_are_lost_for_long_are_forgotten_also_over_a_restart(void **state) {
    const uint64_t day = 24 * 3600 * FLEET_S, wall = UINT64_C(1700000000) * FLEET_S;
    const uint64_t nobody[] = {30, ADMIN, 0};
    fleet *f = *state;
    set_up(f);
    kiln_tracker_set_wall(f->t, wall);
    fleet_board(f, 11, "kept", 1);
    say_order(f, "kept", KILN_BOARD_DRAINED);
    fleet_board(f, 12, "here", 1);
    fleet_disconnect(f, 10);
    fleet_disconnect(f, 11);
    fleet_wait(f, FLEET_S, nobody);
    kiln_tracker_forget_boards_after(f->t, day);
    const uint64_t alive[] = {12, 30, ADMIN, 0};
    fleet_wait(f, 3600 * FLEET_S, alive);
    assert_int_equal(boards_known(f), 3);
    fleet_restart(f); /* half a day later, by the wall clock */
    kiln_tracker_set_wall(f->t, wall + day / 2);
    kiln_tracker_forget_boards_after(f->t, day);
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    fleet_connect(f, ADMIN, KILN_PEER_ADMIN, "admin", "admin-1");
    fleet_board(f, 12, "here", 1);
    fleet_wait(f, FLEET_S, alive);
    assert_int_equal(boards_known(f), 3);
    kiln_tracker_set_wall(f->t, wall + day + day / 4);
    fleet_wait(f, FLEET_S, alive);
    assert_int_equal(boards_known(f), 2); /* one is here, the other's order holds */
    assert_false(is_on_disk(f, "board"));
    assert_true(is_on_disk(f, "kept"));
    fleet_board(f, 10, "board", 1); /* it is a board as any other when it comes back */
    assert_int_equal(boards_known(f), 3);
}

static void a_lost_board_is_forgotten_by_an_order(void **state) {
    fleet *f = *state;
    const uint64_t nobody[] = {30, ADMIN, 0};
    set_up(f);
    kiln_message forget = order("board", KILN_BOARD_IN_SERVICE, "");
    forget.board_order.forget = true;
    fleet_say(f, ADMIN, &forget);
    const kiln_message *error = fleet_take(f, ADMIN, KILN_MSG_ERROR);
    assert_non_null(error); /* it is here */
    assert_int_equal(error->error.code, KILN_FAILED_PRECONDITION);
    say_order(f, "board", KILN_BOARD_DRAINED);
    fleet_disconnect(f, 10);
    fleet_wait(f, FLEET_S, nobody);
    f->hold_disk = true;
    fleet_say(f, ADMIN, &forget);
    assert_null(fleet_take(f, ADMIN, KILN_MSG_ANSWER)); /* before it is on disk */
    fleet_persist(f, "full");
    assert_non_null(fleet_take(f, ADMIN, KILN_MSG_ERROR));
    assert_int_equal(boards_known(f), 1);
    fleet_say(f, ADMIN, &forget);
    fleet_board(f, 10, "board", 1); /* comes back meanwhile, and stays */
    while (f->persists.count) fleet_persist(f, NULL);
    assert_non_null(fleet_take(f, ADMIN, KILN_MSG_ANSWER));
    assert_int_equal(boards_known(f), 1);
    f->hold_disk = false;
    fleet_disconnect(f, 10);
    fleet_wait(f, FLEET_S, nobody);
    fleet_say(f, ADMIN, &forget);
    assert_non_null(fleet_take(f, ADMIN, KILN_MSG_ANSWER));
    assert_int_equal(boards_known(f), 0);
    assert_false(is_on_disk(f, "board"));
}

static void faults_and_what_the_tracker_does_about_them_are_told(void **state) {
    fleet *f = *state;
    kiln_str last = {0};
    set_up(f);
    fault(f, KILN_TRACKER_FAULTS_MAX);
    assert_string_equal(past_of(f, &last), "came fault fault fault quarantined");
    assert_true(kiln_str_equal(kiln_str_slice(last, 0, 16), KILN_STR("by the tracker: ")));
    fleet_wait(f, KILN_TRACKER_PROBATION_NS + FLEET_S, everybody);
    assert_string_equal(past_of(f, &last), "came fault fault fault quarantined released");
    expect_str(last, "by the tracker");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_drained_board_ends_what_it_has_and_gets_no_more),
        test_with_fleet(a_quarantined_board_loses_its_lease_at_once),
        test_with_fleet(an_order_outlives_tracker_and_board),
        test_with_fleet(an_order_is_on_disk_before_it_is_answered),
        test_with_fleet(a_client_gives_no_orders),
        test_with_fleet(an_order_for_nobody_or_several_is_refused),
        test_with_fleet(faults_in_a_row_quarantine_a_board_for_a_while),
        test_with_fleet(a_good_result_forgives_the_faults_before),
        test_with_fleet(a_candidates_fault_is_not_its_boards),
        test_with_fleet(a_board_that_dies_under_trials_is_quarantined),
        test_with_fleet(a_board_that_goes_under_a_lease_without_trials_is_not_at_fault),
        test_with_fleet(a_board_that_says_it_goes_is_not_at_fault),
        test_with_fleet(a_row_tells_a_boards_history_and_noise),
        test_with_fleet(what_happened_to_a_board_is_told_also_by_the_next_tracker),
        test_with_fleet(boards_that_are_lost_for_long_are_forgotten_also_over_a_restart),
        test_with_fleet(a_lost_board_is_forgotten_by_an_order),
        test_with_fleet(faults_and_what_the_tracker_does_about_them_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
