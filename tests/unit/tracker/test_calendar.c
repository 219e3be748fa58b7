/* Reserved boards, and maintenance windows. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/tracker/fleet.h"

enum { BOARD = 10, OTHER = 11, TUNER = 20, OWNER = 30, ANN = 31, BOB = 32 };

#define HOUR UINT64_C(3600)
#define DAY (24 * HOUR)
#define MONDAY (UINT64_C(19674) * DAY) /* 2023-11-13 */

static const uint64_t everybody[] = {BOARD, OTHER, TUNER, OWNER, ANN, BOB, 0};

static void connect_as(fleet *f, uint64_t peer, const char *person) {
    f->who = (kiln_tracker_who){.is_proven = true, .person = person};
    fleet_connect(f, peer, KILN_PEER_CLIENT, person, person);
}

/* A board with one slot, a tuner, the owner, ann and bob; jobs "a" and "b" of ann and bob run. */
static void set_up(fleet *f) {
    kiln_tracker_set_wall(f->t, MONDAY * FLEET_S);
    fleet_board(f, BOARD, "board", 1);
    fleet_tuner(f, TUNER, "tuner", "tuner-1");
    fleet_connect(f, OWNER, KILN_PEER_ADMIN, "owner", "owner");
    connect_as(f, ANN, "ann");
    connect_as(f, BOB, "bob");
    fleet_open_job(f, ANN, "a", true);
    fleet_open_job(f, BOB, "b", true);
}

static kiln_code reserve(fleet *f, uint64_t peer, const char *board, uint32_t seconds) {
    fleet_forget_sent(f);
    fleet_say(f, peer,
              &(kiln_message){.type = KILN_MSG_RESERVE,
                              .stream = 7,
                              .reserve = {.board = kiln_str_from(board),
                                          .seconds = seconds,
                                          .text = KILN_STR("a paper")}});
    const kiln_message *error = fleet_take(f, peer, KILN_MSG_ERROR);
    return error ? (kiln_code)error->error.code : KILN_OK;
}

/* The number of the request that got a lease; 0: none. */
static uint64_t granted(fleet *f) {
    const kiln_message *grant = fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT);
    return grant ? grant->lease_grant.request : 0;
}

static void request(fleet *f, const char *job, uint64_t number) {
    const kiln_message ask = fleet_request(job, number);
    fleet_say(f, TUNER, &ask);
}

static void release(fleet *f, uint64_t number) {
    fleet_say(
        f, TUNER,
        &(kiln_message){.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.request = number}});
}

static const kiln_msg_board_row *row_of(fleet *f, uint64_t peer, const char *board) {
    fleet_forget_sent(f);
    fleet_say(f, peer,
              &(kiln_message){.type = KILN_MSG_QUERY,
                              .query = {.topic = KILN_TOPIC_BOARD, .id = kiln_str_from(board)}});
    const kiln_message *answer = fleet_take(f, peer, KILN_MSG_ANSWER);
    assert_non_null(answer);
    return &answer->answer.boards.item[0];
}

static void expect_state(fleet *f, const char *state) {
    assert_true(kiln_str_is(row_of(f, OWNER, "board")->state, state));
}

/* ---- Reservations ---- */

static void a_reserved_board_is_for_one_persons_jobs(void **state) {
    fleet *f = *state;
    set_up(f);
    assert_int_equal(reserve(f, ANN, "board", 3600), KILN_OK);
    const kiln_message *answer = fleet_take(f, ANN, KILN_MSG_ANSWER);
    assert_int_equal(answer->stream, 7);
    const kiln_msg_board_row *row = &answer->answer.boards.item[0];
    assert_true(kiln_str_is(row->reserved_by, "ann") && kiln_str_is(row->state, "reserved"));
    assert_true(kiln_str_is(row->reserved_why, "a paper"));
    assert_int_equal(row->reserved_ms, 3600000);
    request(f, "b", 1);
    assert_int_equal(granted(f), 0);
    request(f, "a", 2);
    assert_int_equal(granted(f), 2);
    release(f, 2);
    assert_int_equal(granted(f), 0);
    assert_int_equal(reserve(f, ANN, "board", 0), KILN_OK);
    assert_int_equal(granted(f), 1); /* who waited */
    assert_int_equal(row_of(f, OWNER, "board")->reserved_by.size, 0);
}

static const kiln_msg_job_row *job_row_of(fleet *f, const char *job) {
    fleet_forget_sent(f);
    fleet_say(f, OWNER,
              &(kiln_message){.type = KILN_MSG_QUERY,
                              .query = {.topic = KILN_TOPIC_JOB, .id = kiln_str_from(job)}});
    const kiln_message *answer = fleet_take(f, OWNER, KILN_MSG_ANSWER);
    assert_non_null(answer);
    return &answer->answer.jobs.item[0];
}

static void a_job_says_that_a_reservation_holds_it_up(void **state) {
    fleet *f = *state;
    set_up(f);
    assert_int_equal(reserve(f, ANN, "board", 3600), KILN_OK);
    fleet_wait(f, FLEET_S, everybody);
    assert_int_equal(job_row_of(f, "b")->text.size, 0); /* it asks for no board */
    request(f, "b", 1);
    fleet_forget_sent(f);
    fleet_wait(f, FLEET_S, everybody);
    const kiln_message *told = fleet_take(f, BOB, KILN_MSG_JOB_STATE);
    assert_non_null(told);
    const char *why = "board is reserved by ann until 2023-11-13 01:00 UTC: a paper";
    expect_str(told->job_state.text, why);
    fleet_wait(f, 20 * FLEET_S, everybody);
    assert_null(fleet_take(f, BOB, KILN_MSG_JOB_STATE)); /* once */
    expect_str(job_row_of(f, "b")->text, why);
    assert_int_equal(job_row_of(f, "a")->text.size, 0);
    fleet_board(f, OTHER, "other", 1); /* which it may have */
    fleet_wait(f, FLEET_S, everybody); /* and then it says so at once */
    assert_int_equal(job_row_of(f, "b")->boards, 1);
    assert_int_equal(job_row_of(f, "b")->text.size, 0);
}

static void a_job_says_that_maintenance_holds_it_up(void **state) {
    fleet *f = *state;
    set_up(f);
    kiln_message window = {.type = KILN_MSG_MAINTENANCE_ORDER};
    window.maintenance_order.window.board = KILN_STR("board");
    window.maintenance_order.window.when = KILN_STR("Mon 00:00-02:00");
    window.maintenance_order.window.text = KILN_STR("new fans");
    fleet_say(f, OWNER, &window);
    request(f, "b", 1);
    fleet_wait(f, FLEET_S, everybody);
    expect_str(job_row_of(f, "b")->text,
               "board is in maintenance until 2023-11-13 02:00 UTC (Mon 00:00-02:00: new fans)");
    fleet_wait(f, 2 * HOUR * FLEET_S, everybody);
    assert_int_equal(job_row_of(f, "b")->boards, 1);
    assert_int_equal(job_row_of(f, "b")->text.size, 0);
}

static void a_job_names_few_of_the_boards_that_are_held(void **state) {
    fleet *f = *state;
    static const char *const node[] = {"board", "c", "d", "e", "f"};
    set_up(f);
    for (uint32_t i = 1; i < KILN_ARRAY_COUNT(node); i++) fleet_board(f, 50 + i, node[i], 1);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(node); i++)
        assert_int_equal(reserve(f, ANN, node[i], 3600), KILN_OK);
    request(f, "b", 1);
    fleet_wait(f, FLEET_S, everybody);
    const kiln_str text = job_row_of(f, "b")->text;
    assert_true(kiln_str_starts(text, "board is reserved by ann"));
    assert_true(kiln_str_ends(text, "; and 2 more boards"));
}

static void a_reservation_ends_by_itself(void **state) {
    fleet *f = *state;
    set_up(f);
    assert_int_equal(reserve(f, ANN, "board", 60), KILN_OK);
    request(f, "b", 1);
    fleet_wait(f, 59 * FLEET_S, everybody);
    assert_int_equal(granted(f), 0);
    fleet_wait(f, 2 * FLEET_S, everybody);
    assert_int_equal(granted(f), 1);
    expect_state(f, "leased");
}

static void a_lease_of_another_ends_in_its_own_time(void **state) {
    fleet *f = *state;
    set_up(f);
    request(f, "b", 1);
    assert_int_equal(granted(f), 1);
    assert_int_equal(reserve(f, ANN, "board", 3600), KILN_OK);
    const kiln_message *grant = fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT);
    assert_int_equal(grant->lease_grant.trials, 1); /* no more than it has begun */
    assert_null(fleet_take(f, TUNER, KILN_MSG_LEASE_LOST));
    request(f, "b", 2);
    release(f, 1);
    assert_int_equal(granted(f), 0);
}

static void who_may_reserve_and_end_that(void **state) {
    fleet *f = *state;
    set_up(f);
    assert_int_equal(reserve(f, ANN, "nowhere", 60), KILN_NOT_FOUND);
    assert_int_equal(reserve(f, ANN, "board", 0), KILN_FAILED_PRECONDITION);
    assert_int_equal(reserve(f, ANN, "board", 60), KILN_OK);
    assert_int_equal(reserve(f, ANN, "board", 120), KILN_OK); /* longer */
    assert_int_equal(reserve(f, BOB, "board", 60), KILN_FAILED_PRECONDITION);
    assert_int_equal(reserve(f, BOB, "board", 0), KILN_FAILED_PRECONDITION);
    assert_int_equal(reserve(f, OWNER, "board", 60), KILN_FAILED_PRECONDITION);
    assert_int_equal(reserve(f, OWNER, "board", 0), KILN_OK);
    f->who = (kiln_tracker_who){0};
    fleet_connect(f, 40, KILN_PEER_CLIENT, "stranger", "stranger");
    assert_int_equal(reserve(f, 40, "board", 60), KILN_PERMISSION_DENIED);
    /* Who may open no jobs has nothing to reserve for. */
    kiln_msg_setting none = {KILN_STR("everyone"), KILN_MEMBER_NONE};
    kiln_message set = {.type = KILN_MSG_PROJECT_ORDER,
                        .project_order = {.project = KILN_STR("default"), .act = KILN_PROJECT_SET}};
    set.project_order.settings.item = &none;
    set.project_order.settings.count = 1;
    fleet_say(f, OWNER, &set);
    connect_as(f, 41, "eve");
    assert_int_equal(reserve(f, 41, "board", 60), KILN_PERMISSION_DENIED);
}

static void a_person_reserves_some_boards_and_no_more(void **state) {
    fleet *f = *state;
    char name[16];
    set_up(f);
    f->who = (kiln_tracker_who){.is_owner = true, .is_proven = true, .person = "owner"};
    for (uint32_t i = 0; i <= KILN_TRACKER_RESERVED_MAX; i++) {
        snprintf(name, sizeof name, "b%u", i);
        fleet_board(f, 100 + i, name, 1);
        assert_int_equal(reserve(f, ANN, name, 60),
                         i < KILN_TRACKER_RESERVED_MAX ? KILN_OK : KILN_RESOURCE_EXHAUSTED);
    }
    assert_int_equal(reserve(f, OWNER, name, 60), KILN_OK);
}

static void reservations_are_kept_over_a_restart(void **state) {
    fleet *f = *state;
    set_up(f);
    assert_int_equal(reserve(f, ANN, "board", 3600), KILN_OK);
    fleet_restart(f);
    kiln_tracker_set_wall(f->t, MONDAY * FLEET_S + 60 * FLEET_S);
    f->who = (kiln_tracker_who){.is_owner = true, .is_proven = true, .person = "owner"};
    fleet_board(f, BOARD, "board", 1);
    fleet_connect(f, OWNER, KILN_PEER_ADMIN, "owner", "owner");
    const kiln_msg_board_row *row = row_of(f, OWNER, "board");
    assert_true(kiln_str_is(row->reserved_by, "ann"));
    assert_int_equal(row->reserved_ms, 3540000);
    assert_int_equal(reserve(f, OWNER, "board", 0), KILN_OK); /* which is kept as well */
    fleet_restart(f);
    fleet_board(f, BOARD, "board", 1);
    fleet_connect(f, OWNER, KILN_PEER_ADMIN, "owner", "owner");
    assert_int_equal(row_of(f, OWNER, "board")->reserved_by.size, 0);
}

static void an_order_is_answered_when_it_is_on_disk(void **state) {
    fleet *f = *state;
    set_up(f);
    f->hold_disk = true;
    assert_int_equal(reserve(f, ANN, "board", 60), KILN_OK);
    assert_null(fleet_take(f, ANN, KILN_MSG_ANSWER));
    fleet_persist(f, "the disk is full");
    const kiln_message *error = fleet_take(f, ANN, KILN_MSG_ERROR);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
    expect_contains(error->error.text.data, "the disk is full");
}

/* ---- Maintenance windows ---- */

static const kiln_message *window(fleet *f, uint64_t peer, const char *board, const char *when) {
    fleet_forget_sent(f);
    fleet_say(f, peer,
              &(kiln_message){.type = KILN_MSG_MAINTENANCE_ORDER,
                              .stream = 5,
                              .maintenance_order = {.window = {.board = kiln_str_from(board),
                                                               .when = kiln_str_from(when),
                                                               .text = KILN_STR("new fans")}}});
    const kiln_message *answer = fleet_take(f, peer, KILN_MSG_MAINTENANCE);
    return answer ? answer : fleet_take(f, peer, KILN_MSG_ERROR);
}

static void remove_window(fleet *f, uint64_t number) {
    fleet_forget_sent(f);
    fleet_say(f, OWNER,
              &(kiln_message){.type = KILN_MSG_MAINTENANCE_ORDER,
                              .maintenance_order = {.remove = number}});
}

static void no_lease_runs_into_a_window_and_none_is_given_in_it(void **state) {
    fleet *f = *state;
    set_up(f);
    const kiln_message *answer = window(f, OWNER, "board", "Mon 00:05-00:10");
    assert_int_equal(answer->type, KILN_MSG_MAINTENANCE);
    assert_int_equal(answer->maintenance.windows.count, 1);
    const kiln_msg_maintenance_row *made = &answer->maintenance.windows.item[0];
    assert_int_equal(made->begin_ms, (MONDAY + 300) * 1000);
    assert_int_equal(made->end_ms, (MONDAY + 600) * 1000);
    assert_true(kiln_str_is(made->by, "owner"));
    const kiln_msg_board_row *row = row_of(f, OWNER, "board");
    assert_true(kiln_str_is(row->maintenance, "Mon 00:05-00:10: new fans"));
    assert_int_equal(row->maintenance_ms, 300000);
    request(f, "a", 1);
    assert_int_equal(granted(f), 1); /* there is time */
    release(f, 1);
    fleet_wait(f, 290 * FLEET_S, everybody);
    request(f, "a", 2); /* 10 s before it */
    assert_int_equal(granted(f), 0);
    fleet_wait(f, 20 * FLEET_S, everybody);
    assert_int_equal(granted(f), 0);
    expect_state(f, "maintenance");
    request(f, "a", 2);
    fleet_wait(f, 288 * FLEET_S, everybody);
    assert_int_equal(granted(f), 0);
    fleet_wait(f, 5 * FLEET_S, everybody);
    assert_int_equal(granted(f), 2);
}

static void a_lease_that_is_left_ends_when_the_window_opens(void **state) {
    fleet *f = *state;
    set_up(f);
    window(f, OWNER, "board", "Mon 00:01-00:10");
    request(f, "a", 1);
    assert_int_equal(granted(f), 1);
    for (uint32_t i = 0; i < 12; i++) {
        fleet_say(f, TUNER, &(kiln_message){.type = KILN_MSG_LEASE_RENEW, .lease_renew = {1}});
        fleet_wait(f, 5 * FLEET_S - FLEET_MS, everybody);
    }
    assert_null(fleet_take(f, TUNER, KILN_MSG_LEASE_LOST));
    fleet_wait(f, FLEET_S, everybody);
    const kiln_message *lost = fleet_take(f, TUNER, KILN_MSG_LEASE_LOST);
    assert_non_null(lost);
    expect_contains(lost->lease_lost.text.data, "maintenance");
}

static void other_boards_work_on(void **state) {
    fleet *f = *state;
    set_up(f);
    f->who = (kiln_tracker_who){.is_owner = true, .is_proven = true, .person = "owner"};
    fleet_board(f, OTHER, "other", 1);
    window(f, OWNER, "board", "Mon 00:00-01:00");
    expect_state(f, "maintenance");
    request(f, "a", 1);
    const kiln_message *grant = fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT);
    assert_true(kiln_str_is(grant->lease_grant.board, "other"));
}

static void a_window_of_labels_is_for_boards_that_have_them(void **state) {
    fleet *f = *state;
    set_up(f);
    f->who = (kiln_tracker_who){.is_owner = true, .is_proven = true, .person = "owner"};
    fleet_connect(f, OTHER, KILN_PEER_BOARD, "other", "boot");
    kiln_msg_label label = {KILN_STR("room"), KILN_STR("lab")};
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("other"), .target = KILN_STR(FLEET_TARGET), .slots = 1}};
    up.board_up.labels.item = &label;
    up.board_up.labels.count = 1;
    fleet_say(f, OTHER, &up);
    kiln_message order = {.type = KILN_MSG_MAINTENANCE_ORDER,
                          .maintenance_order = {.window = {.when = KILN_STR("daily 00:00-24:00")}}};
    order.maintenance_order.window.labels.item = &label;
    order.maintenance_order.window.labels.count = 1;
    fleet_say(f, OWNER, &order);
    assert_true(kiln_str_is(row_of(f, OWNER, "other")->state, "maintenance"));
    expect_state(f, "free");
}

static void a_removed_window_gives_its_boards_back(void **state) {
    fleet *f = *state;
    set_up(f);
    window(f, OWNER, "board", "Mon 00:00-01:00");
    request(f, "a", 1);
    assert_int_equal(granted(f), 0);
    remove_window(f, 1);
    assert_int_equal(granted(f), 1);
    assert_int_equal(fleet_take(f, OWNER, KILN_MSG_MAINTENANCE)->maintenance.total, 0);
    remove_window(f, 1);
    assert_int_equal(fleet_take(f, OWNER, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
}

static void windows_are_kept_over_a_restart_and_keep_their_numbers(void **state) {
    fleet *f = *state;
    set_up(f);
    window(f, OWNER, "board", "Tue 00:00-01:00");
    window(f, OWNER, "board", "Mon 00:00-01:00");
    remove_window(f, 1);
    fleet_restart(f);
    kiln_tracker_set_wall(f->t, MONDAY * FLEET_S + 60 * FLEET_S);
    f->who = (kiln_tracker_who){.is_owner = true, .is_proven = true, .person = "owner"};
    fleet_connect(f, OWNER, KILN_PEER_ADMIN, "owner", "owner");
    fleet_board(f, BOARD, "board", 1);
    fleet_wait(f, FLEET_S, everybody);
    expect_state(f, "maintenance");
    const kiln_message *answer = window(f, OWNER, "board", "Wed 00:00-01:00");
    assert_int_equal(answer->maintenance.windows.item[0].number, 3);
    fleet_forget_sent(f);
    fleet_say(f, OWNER, &(kiln_message){.type = KILN_MSG_MAINTENANCE_QUERY, .stream = 1});
    const kiln_msg_maintenance *all = &fleet_take(f, OWNER, KILN_MSG_MAINTENANCE)->maintenance;
    assert_int_equal(all->total, 2);
    assert_int_equal(all->windows.item[0].number, 2);
}

/* A board whose node and key differ, with two labels. */
static void labelled_board(fleet *f, const char *node, const char *key) {
    kiln_msg_label label[] = {{KILN_STR("room"), KILN_STR("lab")},
                              {KILN_STR("rack"), KILN_STR("2")}};
    f->who = (kiln_tracker_who){.is_owner = true, .is_proven = true, .person = "owner"};
    fleet_connect(f, OTHER, KILN_PEER_BOARD, node, "boot");
    const kiln_message up = {.type = KILN_MSG_BOARD_UP,
                             .board_up = {.key = kiln_str_from(key),
                                          .target = KILN_STR(FLEET_TARGET),
                                          .slots = 1,
                                          .labels = {label, KILN_ARRAY_COUNT(label)}}};
    fleet_say(f, OTHER, &up);
}

static void labels_window(fleet *f, const char *key, const char *value) {
    kiln_msg_label label[] = {{KILN_STR("room"), KILN_STR("lab")},
                              {kiln_str_from(key), kiln_str_from(value)}};
    const kiln_message order = {
        .type = KILN_MSG_MAINTENANCE_ORDER,
        .maintenance_order = {.window = {.when = KILN_STR("daily 00:00-24:00"),
                                         .labels = {label, KILN_ARRAY_COUNT(label)}}}};
    fleet_say(f, OWNER, &order);
}

static void a_window_is_for_boards_that_have_all_its_labels(void **state) {
    fleet *f = *state;
    set_up(f);
    labelled_board(f, "n1", "k1");
    labels_window(f, "rack", "3");
    labels_window(f, "desk", "2");
    labels_window(f, "lab", "room");
    assert_true(kiln_str_is(row_of(f, OWNER, "n1")->state, "free"));
    labels_window(f, "rack", "2");
    assert_true(kiln_str_is(row_of(f, OWNER, "n1")->state, "maintenance"));
}

static void a_window_names_its_board_by_node_or_key(void **state) {
    static const char *const name[] = {"n1", "k1"};
    fleet *f = *state;
    set_up(f);
    labelled_board(f, "n1", "k1");
    for (uint64_t i = 0; i < 2; i++) {
        window(f, OWNER, name[i], "Mon 00:00-01:00");
        assert_true(kiln_str_is(row_of(f, OWNER, "n1")->state, "maintenance"));
        remove_window(f, i + 1);
        assert_true(kiln_str_is(row_of(f, OWNER, "n1")->state, "free"));
    }
}

static void a_row_shows_the_window_that_opens_first(void **state) {
    fleet *f = *state;
    set_up(f);
    window(f, OWNER, "board", "Wed 00:00-01:00");
    window(f, OWNER, "board", "Tue 00:00-01:00");
    window(f, OWNER, "board", "Thu 00:00-01:00");
    assert_true(kiln_str_is(row_of(f, OWNER, "board")->maintenance, "Tue 00:00-01:00: new fans"));
}

static void the_window_of_one_day_closes_for_good(void **state) {
    fleet *f = *state;
    set_up(f);
    window(f, OWNER, "board", "2023-11-13 00:01-00:02");
    fleet_wait(f, 61 * FLEET_S, everybody);
    expect_state(f, "maintenance");
    fleet_wait(f, 60 * FLEET_S, everybody);
    const kiln_msg_board_row *row = row_of(f, OWNER, "board");
    assert_true(kiln_str_is(row->state, "free"));
    assert_int_equal(row->maintenance.size, 0);
    const kiln_tracker_board *board = kiln_tracker_board_find(f->t, KILN_STR("board"));
    uint32_t turns = 0;
    for (uint32_t i = 0; i < board->past_count; i++)
        turns += board->past[i].what == KILN_TRACKER_PAST_MAINTENANCE;
    assert_int_equal(turns, 2); /* it began, and was over */
    request(f, "a", 1);
    assert_int_equal(granted(f), 1);
    fleet_forget_sent(f);
    fleet_say(f, OWNER, &(kiln_message){.type = KILN_MSG_MAINTENANCE_QUERY, .stream = 1});
    const kiln_msg_maintenance *all = &fleet_take(f, OWNER, KILN_MSG_MAINTENANCE)->maintenance;
    assert_int_equal(all->windows.item[0].begin_ms, 0);
    assert_int_equal(all->windows.item[0].end_ms, 0);
}

static void a_long_reason_is_cut_in_the_boards_row(void **state) {
    char text[KILN_MESSAGES_NAME + 1];
    fleet *f = *state;
    set_up(f);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const kiln_message order = {
        .type = KILN_MSG_MAINTENANCE_ORDER,
        .maintenance_order = {.window = {.board = KILN_STR("board"),
                                         .when = KILN_STR("Tue 00:00-01:00"),
                                         .text = kiln_str_from(text)}}};
    fleet_say(f, OWNER, &order);
    assert_int_equal(row_of(f, OWNER, "board")->maintenance.size, KILN_MESSAGES_NAME);
}

static void rows_of_the_disk_with_unknown_names_are_refused(void **state) {
    char id[sizeof "board/" + KILN_MESSAGES_TEXT + 1] = "board/";
    const char *const name[] = {"shelf/1", id};
    fleet *f = *state;
    memset(id + strlen(id), 'x', KILN_MESSAGES_TEXT + 1);
    id[sizeof id - 1] = '\0';
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) {
        const kiln_tracker_row row = {.kind = KILN_TRACKER_ROW_CALENDAR,
                                      .id = kiln_str_from(name[i])};
        expect_error(kiln_tracker_calendar_restore(f->t, &row), DATA_LOSS, "unknown name");
    }
    id[sizeof id - 2] = '\0'; /* the longest name of a board */
    const kiln_tracker_row empty = {.kind = KILN_TRACKER_ROW_CALENDAR, .id = kiln_str_from(id)};
    kiln_status st = kiln_tracker_calendar_restore(f->t, &empty);
    assert_non_null(st);
    assert_null(strstr(kiln_status_text(st), "unknown name"));
    kiln_status_free(st);
}

static void what_is_no_window_is_refused(void **state) {
    fleet *f = *state;
    set_up(f);
    assert_int_equal(window(f, OWNER, "nowhere", "Mon 00:00-01:00")->error.code, KILN_NOT_FOUND);
    assert_int_equal(window(f, OWNER, "board", "soon")->error.code, KILN_INVALID_ARGUMENT);
    assert_int_equal(window(f, OWNER, "", "Mon 00:00-01:00")->error.code, KILN_INVALID_ARGUMENT);
    assert_int_equal(window(f, ANN, "board", "Mon 00:00-01:00")->error.code,
                     KILN_PERMISSION_DENIED);
    fleet_forget_sent(f);
    fleet_say(f, ANN, &(kiln_message){.type = KILN_MSG_MAINTENANCE_QUERY, .stream = 1});
    assert_int_equal(fleet_take(f, ANN, KILN_MSG_MAINTENANCE)->maintenance.total, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_reserved_board_is_for_one_persons_jobs),
        test_with_fleet(a_job_says_that_a_reservation_holds_it_up),
        test_with_fleet(a_job_says_that_maintenance_holds_it_up),
        test_with_fleet(a_job_names_few_of_the_boards_that_are_held),
        test_with_fleet(a_reservation_ends_by_itself),
        test_with_fleet(a_lease_of_another_ends_in_its_own_time),
        test_with_fleet(who_may_reserve_and_end_that),
        test_with_fleet(a_person_reserves_some_boards_and_no_more),
        test_with_fleet(reservations_are_kept_over_a_restart),
        test_with_fleet(an_order_is_answered_when_it_is_on_disk),
        test_with_fleet(no_lease_runs_into_a_window_and_none_is_given_in_it),
        test_with_fleet(a_lease_that_is_left_ends_when_the_window_opens),
        test_with_fleet(other_boards_work_on),
        test_with_fleet(a_window_of_labels_is_for_boards_that_have_them),
        test_with_fleet(a_removed_window_gives_its_boards_back),
        test_with_fleet(windows_are_kept_over_a_restart_and_keep_their_numbers),
        test_with_fleet(a_window_is_for_boards_that_have_all_its_labels),
        test_with_fleet(a_window_names_its_board_by_node_or_key),
        test_with_fleet(a_row_shows_the_window_that_opens_first),
        test_with_fleet(the_window_of_one_day_closes_for_good),
        test_with_fleet(a_long_reason_is_cut_in_the_boards_row),
        test_with_fleet(rows_of_the_disk_with_unknown_names_are_refused),
        test_with_fleet(what_is_no_window_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
