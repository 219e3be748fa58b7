#include <stdio.h>

#include "tests/unit/proto/sample.h"
#include "tests/unit/tracker/fleet.h"

static void a_ping_is_answered_on_its_stream(void **state) {
    fleet *f = *state;
    fleet_connect(f, 1, KILN_PEER_CLIENT, "n", "b");
    fleet_say(f, 1, &(kiln_message){.type = KILN_MSG_PING, .stream = 7, .ping = {.t_ns = 42}});
    const kiln_message *pong = fleet_take(f, 1, KILN_MSG_PONG);
    assert_non_null(pong);
    assert_int_equal(pong->stream, 7);
    assert_int_equal(pong->pong.t_ns, 42);
}

static void a_silent_peer_is_noticed_within_seven_seconds(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {2, 0};
    fleet_board(f, 1, "silent", 1);
    fleet_board(f, 2, "alive", 1);
    fleet_wait(f, 5 * FLEET_S, alive);
    assert_int_equal(f->dropped, 0);
    fleet_wait(f, 2 * FLEET_S, alive);
    assert_int_equal(f->dropped, 1);
    assert_int_equal(f->drop_code, KILN_DEADLINE_EXCEEDED);
    assert_int_equal(kiln_tracker_counts_of(f->t).boards_connected, 1);
}

static void a_peer_without_identity_is_dropped(void **state) {
    fleet *f = *state;
    fleet_connect(f, 1, KILN_PEER_TRACKER, "n", "b");
    assert_int_equal(f->dropped, 1);
    fleet_connect(f, 2, KILN_PEER_BOARD, "", "b");
    assert_int_equal(f->dropped, 2);
    fleet_connect(f, 3, KILN_PEER_BOARD, "n", "");
    assert_int_equal(f->dropped, 3);
    fleet_say(f, 3, &(kiln_message){.type = KILN_MSG_PING}); /* nothing from it counts any more */
    assert_null(fleet_take(f, 3, KILN_MSG_PONG));
}

/* Every message of the table from every role: refused or answered, and the tracker goes on. */
static void whatever_a_role_may_not_send_is_refused(void **state) {
    fleet *f = *state;
    for (kiln_peer_role role = KILN_PEER_BOARD; role < KILN_PEER_COUNT; role++) {
        kiln_message_type type = 0;
        while ((type = kiln_message_next(type))) {
            uint64_t peer = 100u * role + type;
            kiln_message empty = {.type = type, .stream = 5};
            fleet_connect(f, peer, role, "n", "b");
            fleet_say(f, peer, &empty);
            if (!kiln_message_may_send(type, role)) {
                const kiln_message *error = fleet_take(f, peer, KILN_MSG_ERROR);
                assert_non_null(error);
                assert_int_equal(error->error.code, KILN_PERMISSION_DENIED);
            }
            fleet_disconnect(f, peer);
        }
    }
}

static void a_board_introduces_itself_first(void **state) {
    fleet *f = *state;
    fleet_connect(f, 1, KILN_PEER_BOARD, "n", "b");
    fleet_say(f, 1, &(kiln_message){.type = KILN_MSG_BOARD_STATE});
    assert_int_equal(fleet_take(f, 1, KILN_MSG_ERROR)->error.code, KILN_FAILED_PRECONDITION);
    fleet_say(f, 1, &(kiln_message){.type = KILN_MSG_TRIAL_RESULT});
    assert_int_equal(fleet_take(f, 1, KILN_MSG_ERROR)->error.code, KILN_FAILED_PRECONDITION);
}

static void a_tracker_that_was_held_up_itself_takes_nobody_for_dead(void **state) {
    fleet *f = *state;
    fleet_board(f, 1, "unread", 1);
    fleet_wait(f, FLEET_S, NULL);
    f->now_ns += 60 * FLEET_S; /* no tick came: what the board said meanwhile waits in its socket */
    fleet_wait(f, 4 * FLEET_S, NULL);
    assert_int_equal(f->dropped, 0);
    fleet_wait(f, 3 * FLEET_S, NULL);
    assert_int_equal(f->dropped, 1); /* it was silent for 7 s of listening */
}

static void a_newer_connection_replaces_the_older_of_its_node_only(void **state) {
    fleet *f = *state;
    for (uint64_t peer = 1; peer <= 3; peer++)
        fleet_connect(f, peer, KILN_PEER_BOARD, peer == 2 ? "other" : "same", "boot");
    assert_int_equal(f->dropped, 1);
    fleet_disconnect(f, 1); /* its end is no end of the newer one */
    f->dropped = 0;
    fleet_connect(f, 4, KILN_PEER_BOARD, "same", "boot");
    assert_int_equal(f->dropped, 3);
    f->dropped = 0;
    fleet_connect(f, 5, KILN_PEER_TUNER, "other", "boot"); /* another role is another program */
    assert_int_equal(f->dropped, 0);
}

static void a_person_may_run_two_commands(void **state) {
    fleet *f = *state;
    fleet_connect(f, 1, KILN_PEER_CLIENT, "n", "b1");
    fleet_connect(f, 2, KILN_PEER_CLIENT, "n", "b2");
    assert_int_equal(f->dropped, 0);
    assert_int_equal(kiln_tracker_counts_of(f->t).clients, 2);
}

static void an_unknown_peers_end_is_no_surprise(void **state) {
    fleet *f = *state;
    fleet_disconnect(f, 77);
    fleet_say(f, 77, &(kiln_message){.type = KILN_MSG_PING});
    assert_int_equal(f->sent.count, 0);
}

/* ---- The longest of everything ---- */

/* A valid target as long as one may be. */
static kiln_str long_target(fleet *f) {
    const char *form = "cpu:x86_64-%0*d-linux-gnu,mcpu=x86-64-v3";
    const int rest = snprintf(NULL, 0, form, 1, 0) - 1;
    return kiln_str_from(kiln_arena_printf(&f->arena, form, KILN_MESSAGES_TARGET - rest, 0));
}

/* An identity as long as one may be. */
static char *long_identity(fleet *f, uint32_t number) {
    return kiln_arena_printf(&f->arena, "%0*u", KILN_MESSAGES_TEXT, number);
}

static void connect_long(fleet *f, uint64_t peer, kiln_peer_role role) {
    char *identity = long_identity(f, (uint32_t)peer);
    fleet_connect(f, peer, role, identity, identity);
}

static void open_long_jobs(fleet *f, uint32_t count) {
    kiln_message open = sample_message(KILN_MSG_JOB_OPEN, SAMPLE_FULL, &f->arena);
    open.job_open.spec.target = long_target(f);
    open.job_open.spec.by_client = false;
    for (uint32_t i = 0; i < count; i++) {
        open.job_open.job = kiln_str_from(long_identity(f, i));
        fleet_say(f, 30, &open);
    }
}

static void bring_long_boards(fleet *f, uint32_t count) {
    kiln_message up = sample_message(KILN_MSG_BOARD_UP, SAMPLE_FULL, &f->arena);
    kiln_message state = sample_message(KILN_MSG_BOARD_STATE, SAMPLE_FULL, &f->arena);
    up.board_up.target = long_target(f);
    up.board_up.slots = 1;
    kiln_msg_board_target *other =
        KILN_ARENA_ARRAY(&f->arena, kiln_msg_board_target, up.board_up.targets.count);
    for (uint32_t i = 0; i < up.board_up.targets.count; i++) {
        other[i] = up.board_up.targets.item[i];
        other[i].target =
            kiln_str_from(kiln_arena_printf(&f->arena, "opencl:%0*u", KILN_MESSAGES_NAME - 7, i));
        other[i].slots = 2;
    }
    up.board_up.targets.item = other;
    for (uint32_t i = 0; i < count; i++) {
        connect_long(f, 100 + i, KILN_PEER_BOARD);
        fleet_say(f, 100 + i, &up);
        state.board_state.sick = true;
        fleet_say(f, 100 + i, &state);
        state.board_state.sick = false;
        fleet_say(f, 100 + i, &state);
    }
}

/* Progress of all tasks that a job may have, then its end. */
static void work_long(fleet *f, uint32_t job) {
    kiln_message done = sample_message(KILN_MSG_JOB_DONE, SAMPLE_FULL, &f->arena);
    kiln_message event = sample_message(KILN_MSG_JOB_EVENT, SAMPLE_FULL, &f->arena);
    done.job_done.job = event.job_event.job = kiln_str_from(long_identity(f, job));
    for (uint32_t i = 0; i < done.job_done.tasks.count; i++)
        done.job_done.tasks.item[i].key =
            kiln_str_from(kiln_arena_printf(&f->arena, "%0*u", KILN_MESSAGES_KEY, i));
    event.job_event.tasks.item = done.job_done.tasks.item;
    event.job_event.tasks.count = done.job_done.tasks.count;
    fleet_say(f, 20, &event);
    fleet_say(f, 20, &done);
}

static void ask_for_all(fleet *f) {
    kiln_message query = {.type = KILN_MSG_QUERY, .stream = 9};
    for (unsigned topic = 0; topic < KILN_TOPIC_COUNT; topic++) {
        query.query.topic = topic;
        query.query.id = kiln_str_from(long_identity(f, topic == KILN_TOPIC_BOARD ? 100 : 0));
        fleet_say(f, 30, &query);
        const kiln_message *answer = fleet_take(f, 30, KILN_MSG_ANSWER);
        assert_non_null(answer);
        assert_true(answer->answer.boards.count + answer->answer.jobs.count > 0);
    }
}

/* What fits the messages that come in fits those that go out, and the rows (fleet.c looks). */
static void whatever_is_as_long_as_it_may_be_is_told_and_kept(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {20, 30, 100, 0};
    const uint32_t count = KILN_MESSAGES_PAGE + 1;
    bring_long_boards(f, count);
    connect_long(f, 20, KILN_PEER_TUNER);
    connect_long(f, 30, KILN_PEER_ADMIN);
    open_long_jobs(f, count);
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    kiln_message order = sample_message(KILN_MSG_BOARD_ORDER, SAMPLE_FULL, &f->arena);
    order.board_order.board = kiln_str_from(long_identity(f, 101));
    fleet_say(f, 30, &order);
    kiln_message ask = sample_message(KILN_MSG_LEASE_REQ, SAMPLE_FULL, &f->arena);
    ask.lease_req.job = kiln_str_from(long_identity(f, 0));
    ask.lease_req.target = long_target(f);
    ask.lease_req.ttl_ms = KILN_TRACKER_LEASE_TTL_MAX_MS;
    fleet_say(f, 20, &ask);
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    fleet_wait(f, 3 * FLEET_S, alive); /* shares are written */
    assert_true(f->writes[KILN_TRACKER_ROW_SHARE] > 0);
    ask_for_all(f);
    for (uint32_t i = 0; i < count; i++) work_long(f, i);
    assert_non_null(fleet_take(f, 30, KILN_MSG_JOB_DONE));
    ask_for_all(f);
    fleet_restart(f);
    connect_long(f, 30, KILN_PEER_ADMIN);
    assert_int_equal(f->t->jobs.all.count, count);
    assert_int_equal(f->t->boards.all.count, count);
    ask_for_all(f);
}

static const kiln_message *say_kick(fleet *f, uint64_t peer, const char *whom,
                                    kiln_message_type expected) {
    kiln_message kick = {.type = KILN_MSG_KICK, .stream = 9, .kick = {kiln_str_from(whom)}};
    fleet_say(f, peer, &kick);
    const kiln_message *answer = fleet_take(f, peer, expected);
    assert_non_null(answer);
    assert_int_equal(answer->stream, 9);
    return answer;
}

static void a_kicked_board_loses_its_leases_and_may_come_back(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_connect(f, 33, KILN_PEER_ADMIN, "admin", "admin-1");
    kiln_message ask = fleet_request("j", 1);
    fleet_say(f, 20, &ask);
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    say_kick(f, 33, "nobody", KILN_MSG_ERROR);
    const kiln_message *kicked = say_kick(f, 33, "board", KILN_MSG_KICKED);
    assert_int_equal(kicked->kicked.role, KILN_PEER_BOARD);
    expect_str(kicked->kicked.node, "board");
    assert_int_equal(kicked->kicked.count, 1);
    assert_int_equal(f->dropped, 10);
    assert_int_equal(f->drop_code, KILN_CANCELLED);
    assert_int_equal(kiln_tracker_counts_of(f->t).boards_connected, 0);
    fleet_disconnect(f, 10);
    say_kick(f, 33, "board", KILN_MSG_ERROR); /* it is not connected any more */
    const uint64_t alive[] = {20, 30, 33, 0};
    fleet_wait(f, 10 * FLEET_S, alive); /* more than a lost board has to come back to a lease */
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_LOST));
    fleet_board(f, 11, "board", 1);
    assert_int_equal(kiln_tracker_counts_of(f->t).boards_connected, 1);
}

static void a_kick_is_for_one_node_and_not_for_the_asker(void **state) {
    fleet *f = *state;
    fleet_connect(f, 1, KILN_PEER_CLIENT, "ann", "boot-1");
    fleet_connect(f, 2, KILN_PEER_CLIENT, "ann", "boot-2");
    fleet_connect(f, 3, KILN_PEER_TUNER, "bob", "boot-3");
    fleet_connect(f, 4, KILN_PEER_CLIENT, "bob", "boot-4");
    fleet_connect(f, 33, KILN_PEER_ADMIN, "admin", "boot-5");
    assert_int_equal(say_kick(f, 33, "ann", KILN_MSG_KICKED)->kicked.count, 2);
    const uint64_t dropped = f->dropped;
    assert_int_equal(say_kick(f, 33, "bob", KILN_MSG_ERROR)->error.code, KILN_INVALID_ARGUMENT);
    assert_int_equal(say_kick(f, 33, "admin", KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
    assert_int_equal(say_kick(f, 33, "", KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
    assert_int_equal(say_kick(f, 4, "ann", KILN_MSG_ERROR)->error.code, KILN_PERMISSION_DENIED);
    assert_int_equal(f->dropped, dropped);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_ping_is_answered_on_its_stream),
        test_with_fleet(a_silent_peer_is_noticed_within_seven_seconds),
        test_with_fleet(a_peer_without_identity_is_dropped),
        test_with_fleet(whatever_a_role_may_not_send_is_refused),
        test_with_fleet(a_board_introduces_itself_first),
        test_with_fleet(a_tracker_that_was_held_up_itself_takes_nobody_for_dead),
        test_with_fleet(a_newer_connection_replaces_the_older_of_its_node_only),
        test_with_fleet(a_person_may_run_two_commands),
        test_with_fleet(an_unknown_peers_end_is_no_surprise),
        test_with_fleet(whatever_is_as_long_as_it_may_be_is_told_and_kept),
        test_with_fleet(a_kicked_board_loses_its_leases_and_may_come_back),
        test_with_fleet(a_kick_is_for_one_node_and_not_for_the_asker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
