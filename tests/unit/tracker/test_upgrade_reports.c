/* What boards say during an upgrade, or do not say in time. */
#include "tests/unit/tracker/upgrading.h"

/* The board's message crosses the tracker's. */
static void a_board_that_restarted_before_it_heard_of_the_end_is_followed(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 2);
    const kiln_message message = upgrade_begin(0, 2);
    upgrade_order(f, &message);
    upgrade_report(f, 1, KILN_UPGRADE_IS_READY, "");
    upgrade_report(f, 0, KILN_UPGRADE_IS_FAILED, "signature");
    assert_stage(f, 1, RESTARTING);
    fleet_restart(f);
    upgrade_people(f);
    upgrade_board_up(f, 1, "new", true);
    upgrade_report(f, 1, KILN_UPGRADE_IS_RESTARTING, "");
    assert_true(kiln_tracker_board_find(f->t, KILN_STR("b1"))->upgrading);
    upgrade_report(f, 1, KILN_UPGRADE_IS_DONE, "");
    assert_stage(f, 1, DONE);
    assert_false(kiln_tracker_board_find(f->t, KILN_STR("b1"))->upgrading);
}

static void reports_of_another_upgrade_or_of_strangers_change_nothing(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 2);
    kiln_message message = upgrade_begin(0, 1);
    message.upgrade_order.boards.item = &(kiln_msg_board_name){KILN_STR("b0")};
    message.upgrade_order.boards.count = 1;
    upgrade_order(f, &message);
    kiln_message old = {.type = KILN_MSG_UPGRADED,
                        .upgraded = {.number = 77, .report = KILN_UPGRADE_IS_DONE}};
    fleet_say(f, BOARD(0), &old);
    assert_stage(f, 0, PREPARING);
    upgrade_report(f, 1, KILN_UPGRADE_IS_FAILED, "a board that is not in it");
    fleet_connect(f, 40, KILN_PEER_BOARD, "b9", "old"); /* it has not introduced itself */
    old.upgraded.number = f->t->upgrades.row.number;
    fleet_say(f, 40, &old);
    assert_state(f, RUNNING);
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, ""); /* repeated */
    assert_stage(f, 0, RESTARTING);
}

static void a_board_that_never_gets_ready_has_failed(void **state) {
    fleet *f = *state;
    upgrade_start(f, 1, 0, 1);
    fleet_forget_sent(f);
    fleet_wait(f, KILN_TRACKER_UPGRADE_PREPARE_NS - 250 * FLEET_MS, upgrade_alive(1));
    assert_stage(f, 0, PREPARING);
    fleet_wait(f, 250 * FLEET_MS, upgrade_alive(1));
    assert_stage(f, 0, FAILED);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_FORGET));
}

static void a_board_whose_lease_does_not_end_is_skipped(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 1);
    fleet_open_job(f, 30, "j", false);
    const uint64_t lease = fleet_lease(f, 1);
    const kiln_message message = upgrade_begin(0, 1);
    upgrade_order(f, &message);
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    const uint64_t end_ns = f->now_ns + KILN_TRACKER_UPGRADE_DRAIN_NS + FLEET_S;
    const kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = lease}};
    while (f->now_ns < end_ns) {
        fleet_say(f, 20, &renew);
        upgrade_report(f, 0, KILN_UPGRADE_IS_READY, ""); /* repeated: it gains no time */
        fleet_wait(f, FLEET_S, upgrade_alive(1));
    }
    assert_stage(f, 0, SKIPPED);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_PREPARE));
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_FORGET));
    assert_false(kiln_tracker_board_find(f->t, KILN_STR("b0"))->upgrading);
    assert_null(fleet_take(f, 30, KILN_MSG_JOB_DONE)); /* its job did not end for want of boards */
    assert_state(f, DONE); /* a busy board says nothing about the new version */
}

static kiln_message cancel_order(void) {
    return (kiln_message){
        .type = KILN_MSG_UPGRADE_ORDER, .stream = 7, .upgrade_order = {.act = KILN_UPGRADE_CANCEL}};
}

/* A fleet of one board, which prepares for the upgrade. */
static void set_up_preparing(fleet *f) {
    upgrade_start(f, 1, 0, 1);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_PREPARE));
}

static void a_board_that_is_ready_waits_for_the_disk(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 1);
    const kiln_message message = upgrade_begin(0, 1);
    f->hold_disk = true;
    fleet_say(f, ADMIN, &message);
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, ""); /* it has the archive already */
    assert_stage(f, 0, PREPARING);
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE));
    while (f->persists.count) fleet_persist(f, NULL);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_PREPARE));
}

static void a_board_that_missed_the_order_to_restart_gets_it_again(void **state) {
    fleet *f = *state;
    set_up_preparing(f);
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_RESTART));
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_RESTART));
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE));
}

static void a_board_that_gets_ready_after_the_end_is_called_back(void **state) {
    fleet *f = *state;
    set_up_preparing(f);
    const kiln_message message = cancel_order();
    upgrade_order(f, &message);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_FORGET));
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_FORGET));
    assert_stage(f, 0, CANCELLED);
}

static void a_board_that_restarts_after_the_end_is_followed(void **state) {
    fleet *f = *state;
    set_up_preparing(f);
    const kiln_message message = cancel_order();
    upgrade_order(f, &message);
    upgrade_report(f, 0, KILN_UPGRADE_IS_RESTARTING, "");
    assert_stage(f, 0, RESTARTING);
    upgrade_report(f, 0, KILN_UPGRADE_IS_DONE, "");
    upgrade_report(f, 0, KILN_UPGRADE_IS_RESTARTING, ""); /* late: it is done */
    assert_stage(f, 0, DONE);
}

static void a_board_that_repeats_that_it_restarts_gains_no_time(void **state) {
    fleet *f = *state;
    set_up_preparing(f);
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    fleet_wait(f, 60 * FLEET_S, upgrade_alive(1));
    upgrade_report(f, 0, KILN_UPGRADE_IS_RESTARTING, "");
    fleet_wait(f, KILN_TRACKER_UPGRADE_RETURN_NS - 31 * FLEET_S, upgrade_alive(1));
    assert_stage(f, 0, RESTARTING);
    fleet_wait(f, 2 * FLEET_S, upgrade_alive(1));
    assert_stage(f, 0, FAILED);
}

static void a_repeated_report_is_one_event_of_the_board(void **state) {
    fleet *f = *state;
    set_up_preparing(f);
    upgrade_report(f, 0, KILN_UPGRADE_IS_REFUSED, "no archive");
    assert_stage(f, 0, SKIPPED);
    upgrade_report(f, 0, KILN_UPGRADE_IS_FAILED, "signature");
    assert_stage(f, 0, FAILED);
    const kiln_tracker_board *board = kiln_tracker_board_find(f->t, KILN_STR("b0"));
    const uint32_t count = board->past_count;
    upgrade_report(f, 0, KILN_UPGRADE_IS_FAILED, "signature");
    upgrade_report(f, 0, KILN_UPGRADE_IS_REFUSED, "no archive");
    assert_int_equal(board->past_count, count);
    assert_stage(f, 0, FAILED);
    upgrade_report(f, 0, KILN_UPGRADE_IS_DONE, "");
    upgrade_report(f, 0, KILN_UPGRADE_IS_DONE, "");
    assert_int_equal(board->past_count, count + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_board_that_restarted_before_it_heard_of_the_end_is_followed),
        test_with_fleet(reports_of_another_upgrade_or_of_strangers_change_nothing),
        test_with_fleet(a_board_that_never_gets_ready_has_failed),
        test_with_fleet(a_board_whose_lease_does_not_end_is_skipped),
        test_with_fleet(a_board_that_is_ready_waits_for_the_disk),
        test_with_fleet(a_board_that_missed_the_order_to_restart_gets_it_again),
        test_with_fleet(a_board_that_gets_ready_after_the_end_is_called_back),
        test_with_fleet(a_board_that_restarts_after_the_end_is_followed),
        test_with_fleet(a_board_that_repeats_that_it_restarts_gains_no_time),
        test_with_fleet(a_repeated_report_is_one_event_of_the_board),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
