/* Rolling upgrades as the tracker decides them (docs/decisions/0153-rolling-upgrades.md). */
#include "tests/unit/tracker/upgrading.h"

static void canaries_go_first_and_then_a_bounded_number(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 4);
    const kiln_message message = upgrade_begin(1, 2);
    const kiln_msg_upgrades *first = upgrade_order(f, &message);
    assert_int_equal(first->upgrade.state, KILN_UPGRADE_RUNNING);
    assert_int_equal(first->upgrade.boards, 4);
    expect_str(first->upgrade.version, "0.2.0");
    assert_stage(f, 1, WAITING);
    assert_null(fleet_take(f, BOARD(1), KILN_MSG_UPGRADE));
    upgrade_one(f, 0);
    assert_stage(f, 1, PREPARING);
    assert_stage(f, 2, PREPARING);
    assert_stage(f, 3, WAITING);
    upgrade_one(f, 1);
    upgrade_one(f, 2);
    assert_state(f, RUNNING);
    upgrade_one(f, 3);
    assert_state(f, DONE);
    assert_int_equal(upgrade_status(f)->upgrade.done, 4);
}

static void the_order_is_on_disk_before_it_is_answered_or_a_board_is_told(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 1);
    fleet_wait(f, FLEET_S, upgrade_alive(1)); /* events of boards are written */
    f->hold_disk = true;
    fleet_open_job(f, 30, "j", false); /* written before it */
    const uint32_t others = f->persists.count;
    assert_true(others > 0);
    const kiln_message message = upgrade_begin(1, 1);
    fleet_say(f, ADMIN, &message);
    for (uint32_t i = 0; i < others; i++) fleet_persist(f, NULL);
    assert_null(fleet_take(f, ADMIN, KILN_MSG_UPGRADES));
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE));
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_ABORTED);
    while (f->persists.count) fleet_persist(f, NULL);
    assert_non_null(fleet_take(f, ADMIN, KILN_MSG_UPGRADES));
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_PREPARE));
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE));
    fleet_disconnect(f, BOARD(0));
    upgrade_board_up(f, 0, "old", true);
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE)); /* also not when it connects */
    while (f->persists.count) fleet_persist(f, NULL);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_RESTART));
}

static void a_full_disk_stops_the_upgrade(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 1);
    fleet_wait(f, FLEET_S, upgrade_alive(1));
    f->hold_disk = true;
    const kiln_message message = upgrade_begin(1, 1);
    fleet_say(f, ADMIN, &message);
    while (f->persists.count) fleet_persist(f, "no space");
    const kiln_message *error = fleet_take(f, ADMIN, KILN_MSG_ERROR);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(error->error.lease, 0);
    expect_contains(error->error.text.data, "no space");
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_FORGET));
    f->hold_disk = false;
    assert_state(f, STOPPED);
}

static void a_board_ends_its_leases_before_it_restarts_and_gets_no_more(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 1);
    fleet_open_job(f, 30, "j", false);
    const uint64_t lease = fleet_lease(f, 1);
    const kiln_message message = upgrade_begin(0, 1);
    upgrade_order(f, &message);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_PREPARE));
    fleet_forget_sent(f);
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    assert_stage(f, 0, DRAINING);
    assert_true(kiln_tracker_board_find(f->t, KILN_STR("b0"))->upgrading);
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)); /* for fewer trials */
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_LOST));
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE));
    const kiln_message ask = fleet_request("j", 2);
    fleet_say(f, 20, &ask);
    const kiln_message release = {.type = KILN_MSG_LEASE_RELEASE,
                                  .lease_release = {.lease = lease}};
    fleet_say(f, 20, &release);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_RESTART));
    upgrade_restart(f, 0);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)); /* it is on trial */
    upgrade_report(f, 0, KILN_UPGRADE_IS_DONE, "");
    assert_int_equal(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)->lease_grant.request, 2);
    assert_int_equal(kiln_tracker_board_find(f->t, KILN_STR("b0"))->faults, 0);
}

static void a_failed_canary_stops_the_upgrade(void **state) {
    fleet *f = *state;
    upgrade_start(f, 3, 1, 3);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_PREPARE));
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    upgrade_restart(f, 0);
    fleet_forget_sent(f);
    upgrade_report(f, 0, KILN_UPGRADE_IS_FAILED, "its self-check failed");
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE)); /* it knows */
    const kiln_tracker_board *failed = kiln_tracker_board_find(f->t, KILN_STR("b0"));
    assert_int_equal(failed->past[failed->past_count - 1].what, KILN_TRACKER_PAST_UPGRADE);
    assert_state(f, STOPPED);
    assert_stage(f, 0, FAILED);
    expect_str(upgrade_status(f)->upgrade.text, "board b0 failed: its self-check failed");
    assert_int_equal(upgrade_status(f)->upgrade.failed, 1);
    fleet_wait(f, 20 * FLEET_S, upgrade_alive(3));
    assert_null(fleet_take(f, BOARD(1), KILN_MSG_UPGRADE));
    assert_stage(f, 1, WAITING);
    assert_false(kiln_tracker_board_find(f->t, KILN_STR("b0"))->upgrading); /* the old one works */
}

static void a_failure_calls_back_those_that_prepare_and_leaves_those_that_restart(void **state) {
    fleet *f = *state;
    upgrade_start(f, 4, 0, 3);
    for (uint32_t i = 0; i < 3; i++) assert_true(upgrade_is_told(f, i, KILN_UPGRADE_PREPARE));
    upgrade_report(f, 1, KILN_UPGRADE_IS_READY, "");
    assert_true(upgrade_is_told(f, 1, KILN_UPGRADE_RESTART));
    upgrade_report(f, 0, KILN_UPGRADE_IS_FAILED, "signature");
    assert_true(upgrade_is_told(f, 2, KILN_UPGRADE_FORGET));
    assert_stage(f, 2, CANCELLED);
    assert_stage(f, 1, RESTARTING);
    assert_stage(f, 3, WAITING);
    assert_null(fleet_take(f, BOARD(1), KILN_MSG_UPGRADE));
    const kiln_message again = upgrade_begin(0, 3);
    fleet_say(f, ADMIN, &again); /* not before the last one has come back */
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_FAILED_PRECONDITION);
    upgrade_restart(f, 1);
    upgrade_report(f, 1, KILN_UPGRADE_IS_DONE, "");
    assert_stage(f, 1, DONE);
    assert_state(f, STOPPED);
    upgrade_order(f, &again);
    assert_stage(f, 0, PREPARING);
}

static void boards_that_cannot_take_it_are_skipped(void **state) {
    fleet *f = *state;
    upgrade_people(f);
    upgrade_board_up(f, 0, "old", false);
    f->version = 5;
    upgrade_board_up(f, 1, "old", true);
    f->version = 0;
    upgrade_board_up(f, 2, "old", true);
    upgrade_board_up(f, 3, "old", true);
    const kiln_message message = upgrade_begin(1, 1);
    upgrade_order(f, &message);
    assert_stage(f, 0, SKIPPED);
    assert_stage(f, 1, SKIPPED);
    assert_true(upgrade_is_told(f, 2, KILN_UPGRADE_PREPARE));
    upgrade_report(f, 2, KILN_UPGRADE_IS_REFUSED, "no archive for aarch64");
    assert_stage(f, 2, SKIPPED);
    upgrade_one(f, 3); /* the canary in their place */
    assert_state(f, DONE);
    assert_int_equal(upgrade_status(f)->upgrade.skipped, 3);
}

static void a_lost_board_waits_and_goes_on_when_it_is_back(void **state) {
    fleet *f = *state;
    upgrade_start(f, 2, 0, 1);
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_PREPARE));
    fleet_disconnect(f, BOARD(0));
    assert_stage(f, 0, WAITING);
    upgrade_one(f, 1); /* nobody waits for it */
    assert_state(f, RUNNING);
    upgrade_board_up(f, 0, "old", true);
    upgrade_one(f, 0);
    assert_state(f, DONE);
}

static void a_board_that_is_lost_before_its_stage_is_on_disk_waits(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 1);
    const kiln_message message = upgrade_begin(0, 1);
    f->hold_disk = true;
    fleet_say(f, ADMIN, &message);
    fleet_disconnect(f, BOARD(0));
    while (f->persists.count) fleet_persist(f, NULL);
    assert_stage(f, 0, WAITING);
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE));
}

static void any_board_that_is_done_is_the_canary(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 3);
    fleet_disconnect(f, BOARD(0));
    fleet_disconnect(f, BOARD(1));
    const kiln_message message = upgrade_begin(1, 2);
    upgrade_order(f, &message);
    upgrade_one(f, 2);
    upgrade_board_up(f, 0, "old", true);
    upgrade_board_up(f, 1, "old", true);
    assert_stage(f, 0, PREPARING);
    assert_stage(f, 1, PREPARING);
}

static void boards_that_wait_may_wait_for_long(void **state) {
    fleet *f = *state;
    upgrade_start(f, 3, 1, 1);
    fleet_wait(f, KILN_TRACKER_UPGRADE_PREPARE_NS - FLEET_S, upgrade_alive(3));
    assert_stage(f, 0, PREPARING);
    assert_stage(f, 1, WAITING);
    assert_stage(f, 2, WAITING);
}

static void a_board_that_does_not_come_back_has_failed(void **state) {
    fleet *f = *state;
    upgrade_start(f, 2, 1, 1);
    upgrade_report(f, 0, KILN_UPGRADE_IS_READY, "");
    upgrade_report(f, 0, KILN_UPGRADE_IS_RESTARTING, "");
    fleet_disconnect(f, BOARD(0));
    const uint64_t others[] = {20, 30, ADMIN, BOARD(1), 0};
    fleet_wait(f, 30 * FLEET_S + KILN_TRACKER_UPGRADE_RETURN_NS - FLEET_S, others);
    assert_stage(f, 0, RESTARTING);
    fleet_wait(f, 2 * FLEET_S, others);
    assert_stage(f, 0, FAILED);
    assert_state(f, STOPPED);
    upgrade_board_up(f, 0, "new", true); /* late, and with the new version after all */
    upgrade_report(f, 0, KILN_UPGRADE_IS_DONE, "");
    assert_stage(f, 0, DONE);
    assert_state(f, STOPPED);
}

static void cancelling_calls_back_all_that_have_not_restarted(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 3);
    kiln_message message = upgrade_begin(0, 2);
    upgrade_order(f, &message);
    upgrade_report(f, 1, KILN_UPGRADE_IS_READY, "");
    fleet_forget_sent(f);
    message = (kiln_message){
        .type = KILN_MSG_UPGRADE_ORDER,
        .stream = 7,
        .upgrade_order = {.act = KILN_UPGRADE_CANCEL, .reason = KILN_STR("too early")}};
    upgrade_order(f, &message);
    assert_state(f, CANCELLED);
    expect_str(upgrade_status(f)->upgrade.text, "too early");
    assert_true(upgrade_is_told(f, 0, KILN_UPGRADE_FORGET));
    assert_stage(f, 0, CANCELLED);
    assert_stage(f, 1, RESTARTING);
    upgrade_restart(f, 1);
    upgrade_report(f, 1, KILN_UPGRADE_IS_DONE, "");
    assert_stage(f, 1, DONE);
    assert_stage(f, 2, WAITING);
    assert_state(f, CANCELLED);
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_FAILED_PRECONDITION);
}

static void wrong_orders_are_refused(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 1);
    kiln_msg_release_statement two[2] = {upgrade_release, upgrade_release};
    kiln_message message = upgrade_begin(0, 1);
    message.upgrade_order.releases.count = 0;
    fleet_say(f, ADMIN, &message);
    const kiln_msg_error *error = &fleet_take(f, ADMIN, KILN_MSG_ERROR)->error;
    assert_int_equal(error->code, KILN_INVALID_ARGUMENT);
    assert_int_equal(error->lease, 0);
    message.upgrade_order.releases.item = two;
    message.upgrade_order.releases.count = 2;
    fleet_say(f, ADMIN, &message);
    expect_contains(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.text.data, "two releases");
    two[1].text = KILN_STR(STATEMENT("0.3.0", "aarch64"));
    fleet_say(f, ADMIN, &message);
    expect_contains(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.text.data, "different versions");
    two[0].text = KILN_STR("kiln release 2\n");
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_INVALID_ARGUMENT);
    message = upgrade_begin(0, 1);
    message.upgrade_order.boards.item = &(kiln_msg_board_name){KILN_STR("stranger")};
    message.upgrade_order.boards.count = 1;
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
    message = upgrade_begin(0, 1);
    message.upgrade_order.labels.item = &(kiln_msg_label){KILN_STR("rack"), KILN_STR("2")};
    message.upgrade_order.labels.count = 1;
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
    message = upgrade_begin(0, 1);
    message.upgrade_order.reason = KILN_STR("two\nlines");
    fleet_say(f, ADMIN, &message);
    expect_contains(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.text.data, "one line");
    message = upgrade_begin(0, 1);
    fleet_say(f, 30, &message); /* a client, not an administrator */
    assert_int_equal(fleet_take(f, 30, KILN_MSG_ERROR)->error.code, KILN_PERMISSION_DENIED);
    assert_state(f, NONE);
    upgrade_order(f, &message);
    fleet_say(f, ADMIN, &message);
    const kiln_message *refused = fleet_take(f, ADMIN, KILN_MSG_ERROR);
    assert_int_equal(refused->error.code, KILN_FAILED_PRECONDITION);
    expect_contains(refused->error.text.data, "the upgrade to 0.2.0 is under way");
    message.upgrade_order.releases.count = 0; /* what is wrong with the order comes first */
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_INVALID_ARGUMENT);
}

static void labels_choose_boards_that_have_introduced_themselves(void **state) {
    kiln_msg_label label[] = {{KILN_STR("room"), KILN_STR("lab")},
                              {KILN_STR("rack"), KILN_STR("2")}};
    fleet *f = *state;
    upgrade_set_up(f, 1);
    kiln_message up = {.type = KILN_MSG_BOARD_UP,
                       .board_up = {.key = KILN_STR("b1"),
                                    .target = KILN_STR("nonsense"), /* which is refused */
                                    .slots = 1,
                                    .upgrades = true,
                                    .labels = {label, KILN_ARRAY_COUNT(label)}}};
    fleet_connect(f, BOARD(1), KILN_PEER_BOARD, "b1", "old");
    fleet_say(f, BOARD(1), &up);
    fleet_connect(f, BOARD(2), KILN_PEER_BOARD, "b2", "old");
    up.board_up.key = KILN_STR("b2");
    up.board_up.target = KILN_STR(FLEET_TARGET);
    fleet_say(f, BOARD(2), &up);
    kiln_message message = upgrade_begin(0, 1);
    message.upgrade_order.labels.item = label;
    message.upgrade_order.labels.count = KILN_ARRAY_COUNT(label);
    const kiln_msg_upgrades *chosen = upgrade_order(f, &message);
    assert_int_equal(chosen->boards.count, 1);
    expect_str(chosen->boards.item[0].node, "b2");
    upgrade_report(f, 2, KILN_UPGRADE_IS_FAILED, "");
    message = upgrade_begin(0, 1);
    assert_int_equal(upgrade_order(f, &message)->boards.count, 2); /* of all that are known */
}

static void the_upgrade_names_the_person_that_ordered_it(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 1);
    f->who.person = "olga";
    fleet_connect(f, 34, KILN_PEER_ADMIN, "olgas-pc", "admin-2");
    const kiln_message message = upgrade_begin(0, 1);
    fleet_say(f, 34, &message);
    expect_str(fleet_take(f, 34, KILN_MSG_UPGRADES)->upgrades.upgrade.by, "olga");
}

static void a_board_gets_the_statements_that_the_order_had(void **state) {
    fleet *f = *state;
    upgrade_start(f, 1, 0, 1);
    const kiln_message *told = fleet_take(f, BOARD(0), KILN_MSG_UPGRADE);
    assert_int_equal(told->upgrade.releases.count, 1);
    assert_true(kiln_str_equal(told->upgrade.releases.item[0].text, upgrade_release.text));
}

static void boards_may_get_the_archives_and_no_others(void **state) {
    fleet *f = *state;
    kiln_digest archive, other = {{1}};
    assert_true(kiln_digest_parse(KILN_STR(HEX64), &archive));
    upgrade_people(f);
    f->who = (kiln_tracker_who){.is_proven = true, .has_key = true};
    upgrade_board_up(f, 0, "old", true);
    assert_false(kiln_tracker_may_get(f->t, BOARD(0), &archive));
    const kiln_message message = upgrade_begin(0, 1);
    upgrade_order(f, &message);
    assert_true(kiln_tracker_may_get(f->t, BOARD(0), &archive));
    assert_false(kiln_tracker_may_get(f->t, BOARD(0), &other));
    assert_int_equal(f->t->boards.release_count, 1);
}

static void percent_is_of_the_boards_and_at_least_one(void **state) {
    fleet *f = *state;
    upgrade_set_up(f, 5);
    kiln_message message = upgrade_begin(0, 0);
    message.upgrade_order.percent = 50;
    assert_int_equal(upgrade_order(f, &message)->upgrade.at_once, 2);
    upgrade_report(f, 0, KILN_UPGRADE_IS_FAILED, "");
    upgrade_report(f, 1, KILN_UPGRADE_IS_FAILED, "");
    message.upgrade_order.percent = 1;
    assert_int_equal(upgrade_order(f, &message)->upgrade.at_once, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(canaries_go_first_and_then_a_bounded_number),
        test_with_fleet(the_order_is_on_disk_before_it_is_answered_or_a_board_is_told),
        test_with_fleet(a_full_disk_stops_the_upgrade),
        test_with_fleet(a_board_ends_its_leases_before_it_restarts_and_gets_no_more),
        test_with_fleet(a_failed_canary_stops_the_upgrade),
        test_with_fleet(a_failure_calls_back_those_that_prepare_and_leaves_those_that_restart),
        test_with_fleet(boards_that_cannot_take_it_are_skipped),
        test_with_fleet(a_lost_board_waits_and_goes_on_when_it_is_back),
        test_with_fleet(a_board_that_is_lost_before_its_stage_is_on_disk_waits),
        test_with_fleet(any_board_that_is_done_is_the_canary),
        test_with_fleet(boards_that_wait_may_wait_for_long),
        test_with_fleet(a_board_that_does_not_come_back_has_failed),
        test_with_fleet(cancelling_calls_back_all_that_have_not_restarted),
        test_with_fleet(wrong_orders_are_refused),
        test_with_fleet(labels_choose_boards_that_have_introduced_themselves),
        test_with_fleet(the_upgrade_names_the_person_that_ordered_it),
        test_with_fleet(a_board_gets_the_statements_that_the_order_had),
        test_with_fleet(boards_may_get_the_archives_and_no_others),
        test_with_fleet(percent_is_of_the_boards_and_at_least_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
