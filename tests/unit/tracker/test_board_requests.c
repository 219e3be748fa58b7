/* What people ask of boards: pings, and logs. */
#include "tests/unit/tracker/fleet.h"
#include "tracker/quotas.h"

static const uint64_t everybody[] = {10, 11, 30, 0};

static kiln_message probe(const char *board) {
    return (kiln_message){.type = KILN_MSG_PROBE,
                          .stream = 7,
                          .probe = {.board = kiln_str_from(board), .wait_ms = 1000}};
}

static kiln_message tail(const char *board, uint64_t since, bool stop) {
    return (kiln_message){.type = KILN_MSG_TAIL,
                          .stream = 9,
                          .tail = {.board = kiln_str_from(board), .since = since, .stop = stop}};
}

/* Boards 10 and 11, an administrator 30. */
static void two_boards(fleet *f) {
    fleet_board(f, 10, "one", 1);
    fleet_board(f, 11, "two", 1);
    fleet_connect(f, 30, KILN_PEER_ADMIN, "admin", "admin-1");
    fleet_forget_sent(f);
}

/* The board answers the PING that it got; `wall_ns` 0: it does not say what its clock shows. */
static void answer(fleet *f, uint64_t board, uint64_t wall_ns) {
    const kiln_message *ping = fleet_take(f, board, KILN_MSG_PING);
    assert_non_null(ping);
    kiln_message pong = {.type = KILN_MSG_PONG, .pong = {ping->ping.t_ns, wall_ns}};
    fleet_say(f, board, &pong);
}

static const kiln_msg_probed *take_probed(fleet *f) {
    const kiln_message *message = fleet_take(f, 30, KILN_MSG_PROBED);
    assert_non_null(message);
    assert_int_equal(message->stream, 7);
    return &message->probed;
}

static void every_board_is_told_of_when_it_answers(void **state) {
    fleet *f = *state;
    two_boards(f);
    kiln_tracker_set_wall(f->t, 1000 * FLEET_S);
    kiln_message ask = probe("");
    fleet_say(f, 30, &ask);
    f->now_ns += 2 * FLEET_MS;
    answer(f, 11, 1000 * FLEET_S + 501 * FLEET_MS);
    const kiln_msg_probed *first = take_probed(f);
    expect_str(first->boards.item[0].key, "two");
    assert_true(first->boards.item[0].answered && !first->last);
    assert_int_equal(first->boards.item[0].round_trip_ns, 2 * FLEET_MS);
    assert_true(first->boards.item[0].clock);
    assert_true(first->boards.item[0].ahead_ms > 499 && first->boards.item[0].ahead_ms < 501);
    assert_int_equal(first->boards.item[0].version, KILN_PROTO_VERSION_MAX);
    answer(f, 10, 0);
    const kiln_msg_probed *second = take_probed(f);
    expect_str(second->boards.item[0].key, "one");
    assert_true(second->boards.item[0].answered && !second->boards.item[0].clock && second->last);
}

static void who_does_not_answer_in_time_is_named(void **state) {
    fleet *f = *state;
    two_boards(f);
    kiln_message ask = probe("");
    fleet_say(f, 30, &ask);
    answer(f, 10, 0);
    take_probed(f);
    fleet_wait(f, 2 * FLEET_S, everybody);
    const kiln_msg_probed *silent = take_probed(f);
    expect_str(silent->boards.item[0].key, "two");
    assert_true(!silent->boards.item[0].answered && silent->last);
    expect_str(silent->boards.item[0].text, "none came in 1000 ms");
    assert_null(fleet_take(f, 30, KILN_MSG_PROBED));
    answer(f, 11, 0); /* too late: nobody waits */
    assert_null(fleet_take(f, 30, KILN_MSG_PROBED));
}

static void who_goes_does_not_answer_any_more(void **state) {
    fleet *f = *state;
    two_boards(f);
    kiln_message ask = probe("two");
    fleet_say(f, 30, &ask);
    fleet_disconnect(f, 11);
    const kiln_msg_probed *gone = take_probed(f);
    assert_true(!gone->boards.item[0].answered && gone->last);
    fleet_say(f, 30, &ask); /* it is known, and away */
    gone = take_probed(f);
    assert_false(gone->boards.item[0].answered);
    expect_str(gone->boards.item[0].text, "it is not connected");
    assert_true(take_probed(f)->last);
    fleet_disconnect(f, 30); /* who asked may go as well */
    fleet_wait(f, 2 * FLEET_S, everybody);
}

static void pings_under_way_are_bounded_for_a_person_and_for_all(void **state) {
    fleet *f = *state;
    two_boards(f);
    const kiln_message ask = probe("one");
    const uint32_t people =
        KILN_TRACKER_BOARD_REQUESTS_MAX / KILN_TRACKER_BOARD_REQUESTS_OF_PERSON_MAX;
    for (uint32_t person = 0; person <= people; person++) {
        f->who.person = kiln_arena_printf(&f->arena, "person %u", person);
        const uint64_t peer = 50 + person;
        fleet_connect(f, peer, KILN_PEER_ADMIN, f->who.person, f->who.person);
        fleet_forget_sent(f);
        for (uint32_t i = 0; person < people && i < KILN_TRACKER_BOARD_REQUESTS_OF_PERSON_MAX; i++)
            fleet_say(f, peer, &ask);
        assert_null(fleet_take(f, peer, KILN_MSG_ERROR));
        fleet_say(f, peer, &ask);
        assert_int_equal(fleet_take(f, peer, KILN_MSG_ERROR)->error.code, KILN_RESOURCE_EXHAUSTED);
    }
}

static void nobody_is_called_that(void **state) {
    fleet *f = *state;
    two_boards(f);
    kiln_message ask = probe("three");
    fleet_say(f, 30, &ask);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
    assert_null(fleet_take(f, 10, KILN_MSG_PING));
}

static void a_page_of_the_log_comes_for_each_question(void **state) {
    fleet *f = *state;
    two_boards(f);
    kiln_message ask = tail("one", 0, false);
    fleet_say(f, 30, &ask);
    const kiln_message *asked = fleet_take(f, 10, KILN_MSG_TAIL);
    assert_non_null(asked);
    const uint64_t reader = asked->tail.reader;
    assert_true(reader > 0);
    kiln_msg_log_line line = {1, KILN_STR("info it began")};
    kiln_message lines = {.type = KILN_MSG_LINES, .lines = {.newest = 1, .reader = reader}};
    lines.lines.lines.item = &line;
    lines.lines.lines.count = 1;
    fleet_say(f, 11, &lines); /* of another board: nobody asked it */
    assert_null(fleet_take(f, 30, KILN_MSG_LINES));
    fleet_say(f, 10, &lines);
    const kiln_message *got = fleet_take(f, 30, KILN_MSG_LINES);
    assert_int_equal(got->stream, 9);
    expect_str(got->lines.lines.item[0].text, "info it began");
    ask = tail("one", 1, false);
    fleet_say(f, 30, &ask);
    asked = fleet_take(f, 10, KILN_MSG_TAIL);
    assert_int_equal(asked->tail.reader, reader);
    assert_int_equal(asked->tail.since, 1);
}

static void a_reader_that_stops_or_goes_is_forgotten_by_the_board(void **state) {
    fleet *f = *state;
    two_boards(f);
    kiln_message ask = tail("one", 0, false), stop = tail("", 0, true);
    fleet_say(f, 30, &ask);
    fleet_take(f, 10, KILN_MSG_TAIL);
    fleet_say(f, 30, &stop);
    assert_true(fleet_take(f, 10, KILN_MSG_TAIL)->tail.stop);
    fleet_say(f, 30, &stop); /* again: there is none */
    assert_null(fleet_take(f, 10, KILN_MSG_TAIL));
    fleet_say(f, 30, &ask);
    fleet_take(f, 10, KILN_MSG_TAIL);
    fleet_disconnect(f, 30);
    assert_true(fleet_take(f, 10, KILN_MSG_TAIL)->tail.stop);
}

static void a_log_that_cannot_be_read_is_refused_with_the_reason(void **state) {
    fleet *f = *state;
    two_boards(f);
    kiln_message ask = tail("three", 0, false);
    fleet_say(f, 30, &ask);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
    f->version = 2;
    fleet_board(f, 12, "old", 1);
    ask = tail("old", 0, false);
    fleet_say(f, 30, &ask);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_ERROR)->error.code, KILN_UNIMPLEMENTED);
    ask = tail("one", 0, false);
    fleet_say(f, 30, &ask);
    fleet_disconnect(f, 10);
    const kiln_message *lost = fleet_take(f, 30, KILN_MSG_ERROR);
    assert_int_equal(lost->error.code, KILN_UNAVAILABLE);
    assert_int_equal(lost->stream, 9);
    fleet_say(f, 30, &ask);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_ERROR)->error.code, KILN_UNAVAILABLE);
}

static void only_administrators_read_logs(void **state) {
    fleet *f = *state;
    two_boards(f);
    fleet_connect(f, 31, KILN_PEER_CLIENT, "client", "client-1");
    kiln_message ask = tail("one", 0, false);
    fleet_say(f, 31, &ask);
    assert_int_equal(fleet_take(f, 31, KILN_MSG_ERROR)->error.code, KILN_PERMISSION_DENIED);
    assert_null(fleet_take(f, 10, KILN_MSG_TAIL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(every_board_is_told_of_when_it_answers),
        test_with_fleet(who_does_not_answer_in_time_is_named),
        test_with_fleet(who_goes_does_not_answer_any_more),
        test_with_fleet(pings_under_way_are_bounded_for_a_person_and_for_all),
        test_with_fleet(nobody_is_called_that),
        test_with_fleet(a_page_of_the_log_comes_for_each_question),
        test_with_fleet(a_reader_that_stops_or_goes_is_forgotten_by_the_board),
        test_with_fleet(a_log_that_cannot_be_read_is_refused_with_the_reason),
        test_with_fleet(only_administrators_read_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
