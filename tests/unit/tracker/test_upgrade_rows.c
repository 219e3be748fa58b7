/* Boards that leave an upgrade, and what of it is on disk. */
#include "tests/unit/tracker/upgrading.h"

static void forget(fleet *f, const char *node) {
    const kiln_message message = {.type = KILN_MSG_BOARD_ORDER,
                                  .board_order = {.board = kiln_str_from(node), .forget = true}};
    fleet_say(f, ADMIN, &message);
    assert_null(kiln_tracker_board_find(f->t, kiln_str_from(node)));
}

/* The row of that identity; the test fails where there is none. */
static kiln_tracker_row *row_of(fleet *f, const char *id) {
    for (uint32_t i = 0; i < f->rows.count; i++)
        if (f->rows.data[i].kind == KILN_TRACKER_ROW_UPGRADE && kiln_str_is(f->rows.data[i].id, id))
            return &f->rows.data[i];
    fail_msg("there is no row %s", id);
    return NULL;
}

/* How many rows of upgrades the disk holds: one of the upgrade itself, one per board. */
static uint32_t rows_on_disk(const fleet *f) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->rows.count; i++)
        count += f->rows.data[i].kind == KILN_TRACKER_ROW_UPGRADE;
    return count;
}

static void a_board_that_is_forgotten_leaves_the_upgrade(void **state) {
    fleet *f = *state;
    upgrade_start(f, 3, 0, 3);
    fleet_disconnect(f, BOARD(1));
    assert_int_equal(rows_on_disk(f), 4);
    forget(f, "b1");
    assert_true(upgrade_is_told(f, 1, KILN_UPGRADE_PREPARE)); /* before */
    const kiln_msg_upgrades *upgrades = upgrade_status(f);
    assert_int_equal(upgrades->boards.count, 2);
    expect_str(upgrades->boards.item[0].node, "b0");
    expect_str(upgrades->boards.item[1].node, "b2");
    assert_int_equal(upgrades->boards.item[1].place, 1);
    assert_int_equal(rows_on_disk(f), 3);
    upgrade_board_up(f, 1, "old", true); /* as a board that is not in it */
    assert_null(fleet_take(f, BOARD(1), KILN_MSG_UPGRADE));
    upgrade_one(f, 0);
    upgrade_one(f, 2);
    assert_state(f, DONE);
}

static void an_upgrade_ends_when_its_last_board_is_forgotten(void **state) {
    fleet *f = *state;
    upgrade_start(f, 2, 0, 2);
    upgrade_one(f, 0);
    fleet_disconnect(f, BOARD(1));
    assert_state(f, RUNNING);
    forget(f, "b1");
    assert_state(f, DONE);
    assert_int_equal(upgrade_status(f)->upgrade.boards, 1);
}

static void a_forgotten_board_that_restarted_is_not_waited_for(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 2);
    const kiln_message message = upgrade_begin(0, 2);
    upgrade_order(f, &message);
    upgrade_report(f, 1, KILN_UPGRADE_IS_READY, "");
    upgrade_report(f, 0, KILN_UPGRADE_IS_FAILED, "signature");
    fleet_disconnect(f, BOARD(1));
    assert_stage(f, 1, RESTARTING);
    forget(f, "b1");
    assert_int_equal(upgrade_order(f, &message)->upgrade.boards, 1); /* is not refused */
}

static void a_board_that_is_lost_for_long_leaves_the_upgrade(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 2);
    kiln_tracker_forget_boards_after(f->t, 60 * FLEET_S);
    const kiln_message message = upgrade_begin(0, 2);
    upgrade_order(f, &message);
    upgrade_one(f, 0);
    fleet_disconnect(f, BOARD(1));
    const uint64_t others[] = {20, 30, ADMIN, BOARD(0), 0};
    fleet_wait(f, 59 * FLEET_S, others);
    assert_state(f, RUNNING);
    fleet_wait(f, 2 * FLEET_S, others);
    assert_state(f, DONE);
}

/* The tracker is killed after it removed the board's own row. */
static void a_board_without_a_row_leaves_the_upgrade_after_a_restart(void **state) {
    fleet *f = *state;
    upgrade_start(f, 2, 0, 1);
    fleet_disconnect(f, BOARD(1));
    for (uint32_t i = 0; i < f->rows.count; i++)
        if (f->rows.data[i].kind == KILN_TRACKER_ROW_BOARD && kiln_str_is(f->rows.data[i].id, "b1"))
            f->rows.data[i] = f->rows.data[--f->rows.count];
    fleet_restart(f);
    upgrade_people(f);
    assert_int_equal(upgrade_status(f)->upgrade.boards, 1);
    assert_int_equal(rows_on_disk(f), 2);
    upgrade_board_up(f, 0, "old", true);
    upgrade_one(f, 0);
    assert_state(f, DONE);
}

/* The tracker is killed after it wrote the row of the upgrade, and before those of its boards. */
static void an_upgrade_without_boards_ends_after_a_restart(void **state) {
    fleet *f = *state;
    upgrade_start(f, 1, 0, 1);
    fleet_disconnect(f, BOARD(0));
    kiln_tracker_row *row = row_of(f, "board/b0");
    *row = f->rows.data[--f->rows.count];
    fleet_restart(f);
    upgrade_people(f);
    assert_state(f, DONE);
}

static void a_board_that_describes_itself_wrongly_waits_again(void **state) {
    fleet *f = *state;
    upgrade_start(f, 2, 0, 1);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_PREPARE));
    const kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {
            .key = KILN_STR("b0"), .target = KILN_STR("nonsense"), .slots = 1, .upgrades = true}};
    fleet_say(f, BOARD(0), &up); /* its connection is closed */
    assert_int_equal(f->dropped, BOARD(0));
    assert_stage(f, 0, WAITING);
    upgrade_one(f, 1);
}

static void it_goes_on_after_a_restart_of_the_tracker(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 4);
    kiln_message message = upgrade_begin(1, 2);
    upgrade_order(f, &message);
    upgrade_one(f, 0);
    assert_true(upgrade_is_told(f, 1, KILN_UPGRADE_PREPARE));
    upgrade_report(f, 1, KILN_UPGRADE_IS_READY, ""); /* restarts */
    fleet_restart(f);
    upgrade_people(f);
    assert_state(f, RUNNING);
    assert_stage(f, 0, DONE);
    assert_stage(f, 1, RESTARTING);
    assert_stage(f, 2, WAITING);
    upgrade_board_up(f, 2, "old", true);
    assert_true(upgrade_is_told(f, 2, KILN_UPGRADE_PREPARE));
    upgrade_board_up(f, 1, "old", true); /* it never heard that it shall restart */
    assert_true(upgrade_is_told(f, 1, KILN_UPGRADE_RESTART));
    upgrade_restart(f, 1);
    upgrade_report(f, 1, KILN_UPGRADE_IS_DONE, "");
    upgrade_report(f, 2, KILN_UPGRADE_IS_READY, "");
    upgrade_restart(f, 2);
    upgrade_report(f, 2, KILN_UPGRADE_IS_DONE, "");
    upgrade_board_up(f, 3, "old", true);
    upgrade_one(f, 3);
    assert_state(f, DONE);
    message.upgrade_order.canaries = 0;
    upgrade_order(f, &message); /* which runs it already */
    assert_int_equal(upgrade_status(f)->upgrade.number, 2);
}

static void boards_are_listed_by_pages(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, KILN_MESSAGES_PAGE + 1);
    kiln_message message = upgrade_begin(0, 1);
    const kiln_msg_upgrades *first = upgrade_order(f, &message);
    assert_int_equal(first->boards.count, KILN_MESSAGES_PAGE);
    expect_str(first->boards.item[0].node, "b0");
    expect_str(first->boards.item[0].key, "b0");
    expect_str(first->boards.item[0].software, "test 1");
    const kiln_message query = {.type = KILN_MSG_UPGRADE_QUERY,
                                .stream = 7,
                                .upgrade_query = {.offset = KILN_MESSAGES_PAGE}};
    assert_int_equal(upgrade_order(f, &query)->boards.count, 1);
}

static void the_boards_row_tells_version_and_upgrade(void **state) {
    fleet *f = *state;
    upgrade_start(f, 1, 0, 1);
    const kiln_message query = {.type = KILN_MSG_QUERY, .query = {.topic = KILN_TOPIC_FLEET}};
    fleet_say(f, ADMIN, &query);
    const kiln_message *answer = fleet_take(f, ADMIN, KILN_MSG_ANSWER);
    expect_str(answer->answer.boards.item[0].upgrade, "to 0.2.0: preparing");
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    fleet_say(f, ADMIN, &query);
    answer = fleet_take(f, ADMIN, KILN_MSG_ANSWER);
    expect_str(answer->answer.boards.item[0].state, "upgrading");
}

/* Answered by UPGRADES, as the disk is not held. */
static kiln_message begin_for(kiln_msg_board_name *board, uint32_t count) {
    kiln_message message = upgrade_begin(0, 1);
    message.upgrade_order.boards.item = board;
    message.upgrade_order.boards.count = count;
    return message;
}

static void boards_keep_their_order_over_a_restart_of_the_tracker(void **state) {
    fleet *f = *state;
    kiln_msg_board_name board[] = {
        {KILN_STR("b2")}, {KILN_STR("b0")}, {KILN_STR("b2")}, {KILN_STR("b1")}};
    upgrade_set_up(f, 3);
    const kiln_message message = begin_for(board, KILN_ARRAY_COUNT(board));
    upgrade_order(f, &message);
    for (int round = 0; round < 2; round++) {
        const kiln_msg_upgrades *upgrades = upgrade_status(f);
        assert_int_equal(upgrades->boards.count, 3); /* the one that is named twice counts once */
        expect_str(upgrades->boards.item[0].node, "b2");
        expect_str(upgrades->boards.item[1].node, "b0");
        expect_str(upgrades->boards.item[2].node, "b1");
        for (uint32_t i = 0; i < 3; i++) assert_int_equal(upgrades->boards.item[i].place, i);
        fleet_restart(f);
        upgrade_people(f);
    }
}

static void the_next_upgrade_takes_the_place_of_the_last(void **state) {
    fleet *f = *state;
    kiln_msg_board_name board = {KILN_STR("b1")};
    upgrade_set_up(f, 3);
    kiln_message message = upgrade_begin(0, 3);
    upgrade_order(f, &message);
    for (uint32_t i = 0; i < 3; i++) upgrade_report(f, i, KILN_UPGRADE_IS_FAILED, "");
    kiln_tracker_board *first = kiln_tracker_board_find(f->t, KILN_STR("b0"));
    const kiln_tracker_board *last = kiln_tracker_board_find(f->t, KILN_STR("b2"));
    assert_string_equal(first->upgrade, "to 0.2.0: failed");
    assert_int_equal(rows_on_disk(f), 4);
    const uint64_t changed = first->changed;
    message = begin_for(&board, 1);
    const kiln_msg_upgrades *upgrades = upgrade_order(f, &message);
    assert_int_equal(upgrades->upgrade.boards, 1);
    assert_int_equal(upgrades->upgrade.begun_ms, kiln_tracker_wall_ms(f->t));
    assert_int_equal(rows_on_disk(f), 2);
    assert_string_equal(first->upgrade, "");
    assert_string_equal(last->upgrade, "");
    assert_true(first->changed > changed); /* watchers are told */
}

static void what_a_board_has_to_do_is_shown_after_a_restart_of_the_tracker(void **state) {
    fleet *f = *state;
    upgrade_start(f, 2, 0, 2);
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    upgrade_report(f, 1, KILN_UPGRADE_IS_REFUSED, "no archive");
    fleet_restart(f);
    const kiln_tracker_board *restarts = kiln_tracker_board_find(f->t, KILN_STR("b0"));
    assert_string_equal(restarts->upgrade, "to 0.2.0: restarting");
    assert_true(restarts->upgrading);
    const kiln_tracker_board *skipped = kiln_tracker_board_find(f->t, KILN_STR("b1"));
    assert_string_equal(skipped->upgrade, "to 0.2.0: skipped: no archive");
    assert_false(skipped->upgrading);
}

static void a_board_that_restarts_has_its_time_again_after_a_restart_of_the_tracker(void **state) {
    fleet *f = *state;
    upgrade_start(f, 1, 0, 1);
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    fleet_wait(f, 80 * FLEET_S, upgrade_alive(1));
    fleet_restart(f);
    upgrade_people(f);
    const uint64_t others[] = {20, 30, ADMIN, 0};
    fleet_wait(f, 30 * FLEET_S + KILN_TRACKER_UPGRADE_RETURN_NS - FLEET_S, others);
    assert_stage(f, 0, RESTARTING);
    fleet_wait(f, 2 * FLEET_S, others);
    assert_stage(f, 0, FAILED);
}

static void a_restart_that_is_not_on_disk_yet_can_be_cancelled(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 1);
    kiln_message message = upgrade_begin(0, 1);
    upgrade_order(f, &message);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_PREPARE));
    f->hold_disk = true;
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    message = (kiln_message){
        .type = KILN_MSG_UPGRADE_ORDER, .stream = 7, .upgrade_order = {.act = KILN_UPGRADE_CANCEL}};
    fleet_say(f, ADMIN, &message);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_FORGET));
    while (f->persists.count) fleet_persist(f, NULL);
    assert_stage(f, 0, CANCELLED);
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE));
}

static void a_cancelled_upgrade_is_cancelled_after_a_restart_of_the_tracker(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 1);
    kiln_message message = upgrade_begin(0, 1);
    upgrade_order(f, &message);
    f->hold_disk = true;
    /* The row of the upgrade is written, that of the board is lost with the tracker. */
    message = (kiln_message){
        .type = KILN_MSG_UPGRADE_ORDER, .stream = 7, .upgrade_order = {.act = KILN_UPGRADE_CANCEL}};
    const kiln_tracker_row before = *row_of(f, "board/b0");
    fleet_say(f, ADMIN, &message);
    *row_of(f, "board/b0") = before;
    f->hold_disk = false;
    fleet_restart(f);
    upgrade_people(f);
    assert_state(f, CANCELLED);
    assert_stage(f, 0, CANCELLED);
}

static void damaged_rows_are_data_loss(void **state) {
    fleet *f = *state;
    kiln_tracker *t = NULL;
    upgrade_start(f, 2, 0, 1);
    kiln_tracker_row *row = row_of(f, "board/b1");
    const kiln_str body = row->body;
    row->body = row_of(f, "board/b0")->body;
    expect_error(kiln_tracker_create(f->rows.data, f->rows.count, f->now_ns, &t), DATA_LOSS,
                 "board b0 is there twice");
    row->body = KILN_STR("damaged");
    expect_error(kiln_tracker_create(f->rows.data, f->rows.count, f->now_ns, &t), DATA_LOSS,
                 "stored upgrade board/b1");
    row->body = body;
    row_of(f, "upgrade")->body = KILN_STR("damaged");
    expect_error(kiln_tracker_create(f->rows.data, f->rows.count, f->now_ns, &t), DATA_LOSS,
                 "stored upgrade upgrade");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_board_that_is_forgotten_leaves_the_upgrade),
        test_with_fleet(an_upgrade_ends_when_its_last_board_is_forgotten),
        test_with_fleet(a_forgotten_board_that_restarted_is_not_waited_for),
        test_with_fleet(a_board_that_is_lost_for_long_leaves_the_upgrade),
        test_with_fleet(a_board_without_a_row_leaves_the_upgrade_after_a_restart),
        test_with_fleet(an_upgrade_without_boards_ends_after_a_restart),
        test_with_fleet(a_board_that_describes_itself_wrongly_waits_again),
        test_with_fleet(it_goes_on_after_a_restart_of_the_tracker),
        test_with_fleet(boards_are_listed_by_pages),
        test_with_fleet(the_boards_row_tells_version_and_upgrade),
        test_with_fleet(boards_keep_their_order_over_a_restart_of_the_tracker),
        test_with_fleet(the_next_upgrade_takes_the_place_of_the_last),
        test_with_fleet(what_a_board_has_to_do_is_shown_after_a_restart_of_the_tracker),
        test_with_fleet(a_board_that_restarts_has_its_time_again_after_a_restart_of_the_tracker),
        test_with_fleet(a_restart_that_is_not_on_disk_yet_can_be_cancelled),
        test_with_fleet(a_cancelled_upgrade_is_cancelled_after_a_restart_of_the_tracker),
        test_with_fleet(damaged_rows_are_data_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
