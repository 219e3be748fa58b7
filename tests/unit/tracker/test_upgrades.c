/* Rolling upgrades as the tracker decides them (docs/decisions/0153-rolling-upgrades.md). */
#include <stdio.h>

#include "tests/unit/tracker/fleet.h"

#define ADMIN 33u
#define BOARD(i) (100u + (i))

#define HEX64 "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"
#define STATEMENT(version, arch)                                                                 \
    "kiln release 1\nname kiln-board\nversion " version "\narch " arch "\nsize 7\nsha256 " HEX64 \
    "\nkey " HEX64 "\nsignature " HEX64 HEX64 "\n"

static kiln_msg_release_statement x86 = {
    .text = {STATEMENT("0.2.0", "x86_64"), sizeof STATEMENT("0.2.0", "x86_64") - 1}};

/* All peers of a fleet with `boards` boards. */
static const uint64_t *alive(uint32_t boards) {
    static uint64_t peer[32];
    uint32_t count = 0;
    peer[count++] = 20;
    peer[count++] = 30;
    peer[count++] = ADMIN;
    for (uint32_t i = 0; i < boards; i++) peer[count++] = BOARD(i);
    peer[count] = 0;
    return peer;
}

static void board_up(fleet *f, uint32_t i, const char *boot, bool upgrades) {
    static char name[16];
    snprintf(name, sizeof name, "b%u", i);
    fleet_connect(f, BOARD(i), KILN_PEER_BOARD, name, boot);
    kiln_message up = {.type = KILN_MSG_BOARD_UP,
                       .board_up = {.key = kiln_str_from(name),
                                    .target = KILN_STR(FLEET_TARGET),
                                    .slots = 1,
                                    .upgrades = upgrades}};
    fleet_say(f, BOARD(i), &up);
}

static void people(fleet *f) {
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    fleet_connect(f, ADMIN, KILN_PEER_ADMIN, "admin", "admin-1");
}

static void set_up(fleet *f, uint32_t boards) {
    people(f);
    for (uint32_t i = 0; i < boards; i++) board_up(f, i, "old", true);
    fleet_forget_sent(f);
}

static kiln_message begin(uint32_t canaries, uint32_t at_once) {
    return (kiln_message){
        .type = KILN_MSG_UPGRADE_ORDER,
        .stream = 7,
        .upgrade_order = {
            .releases = {&x86, 1}, .canaries = canaries, .at_once = at_once, .wait_s = 30}};
}

static const kiln_msg_upgrades *order(fleet *f, const kiln_message *message) {
    fleet_say(f, ADMIN, message);
    const kiln_message *answer = fleet_take(f, ADMIN, KILN_MSG_UPGRADES);
    assert_non_null(answer);
    assert_int_equal(answer->stream, 7);
    return &answer->upgrades;
}

static const kiln_msg_upgrades *status(fleet *f) {
    const kiln_message query = {.type = KILN_MSG_UPGRADE_QUERY, .stream = 7};
    return order(f, &query);
}

static kiln_upgrade_stage stage_of(fleet *f, uint32_t i) {
    char name[16];
    snprintf(name, sizeof name, "b%u", i);
    const kiln_msg_upgrades *upgrades = status(f);
    for (uint32_t k = 0; k < upgrades->boards.count; k++)
        if (kiln_str_is(upgrades->boards.item[k].node, name))
            return (kiln_upgrade_stage)upgrades->boards.item[k].stage;
    fail_msg("board %s is not in the upgrade", name);
    return KILN_UPGRADE_STAGE_COUNT;
}

#define assert_stage(f, i, STAGE) assert_int_equal(stage_of(f, i), KILN_UPGRADE_STAGE_##STAGE)
#define assert_state(f, STATE) assert_int_equal(status(f)->upgrade.state, KILN_UPGRADE_##STATE)

static void report(fleet *f, uint32_t i, kiln_upgrade_report what, const char *text) {
    const kiln_message message = {.type = KILN_MSG_UPGRADED,
                                  .upgraded = {.number = f->t->upgrades.row.number,
                                               .report = (uint32_t)what,
                                               .text = kiln_str_from(text)}};
    fleet_say(f, BOARD(i), &message);
}

/* The step that the board was told last and has not been asked for yet. */
static bool is_told(fleet *f, uint32_t i, kiln_upgrade_step step) {
    const kiln_message *message = fleet_take(f, BOARD(i), KILN_MSG_UPGRADE);
    return message && message->upgrade.step == (uint32_t)step &&
           message->upgrade.number == f->t->upgrades.row.number;
}

/* The board restarts, and connects as a new run. */
static void restart(fleet *f, uint32_t i) {
    report(f, i, KILN_UPGRADE_IS_RESTARTING, "");
    fleet_disconnect(f, BOARD(i));
    board_up(f, i, "new", true);
}

static void upgrade(fleet *f, uint32_t i) {
    assert_true(is_told(f, i, KILN_UPGRADE_PREPARE));
    report(f, i, KILN_UPGRADE_IS_READY, "");
    assert_true(is_told(f, i, KILN_UPGRADE_RESTART));
    restart(f, i);
    report(f, i, KILN_UPGRADE_IS_DONE, "");
    assert_stage(f, i, DONE);
}

static void canaries_go_first_and_then_a_bounded_number(void **state) {
    fleet *f = *state;
    set_up(f, 4);
    const kiln_message message = begin(1, 2);
    const kiln_msg_upgrades *first = order(f, &message);
    assert_int_equal(first->upgrade.state, KILN_UPGRADE_RUNNING);
    assert_int_equal(first->upgrade.boards, 4);
    expect_str(first->upgrade.version, "0.2.0");
    assert_stage(f, 1, WAITING);
    assert_null(fleet_take(f, BOARD(1), KILN_MSG_UPGRADE));
    upgrade(f, 0);
    assert_stage(f, 1, PREPARING);
    assert_stage(f, 2, PREPARING);
    assert_stage(f, 3, WAITING);
    upgrade(f, 1);
    upgrade(f, 2);
    assert_state(f, RUNNING);
    upgrade(f, 3);
    assert_state(f, DONE);
    assert_int_equal(status(f)->upgrade.done, 4);
}

static void the_order_is_on_disk_before_it_is_answered_or_a_board_is_told(void **state) {
    fleet *f = *state;
    set_up(f, 1);
    fleet_wait(f, FLEET_S, alive(1)); /* events of boards are written */
    f->hold_disk = true;
    fleet_open_job(f, 30, "j", false); /* written before it */
    const uint32_t others = f->persists.count;
    assert_true(others > 0);
    const kiln_message message = begin(1, 1);
    fleet_say(f, ADMIN, &message);
    for (uint32_t i = 0; i < others; i++) fleet_persist(f, NULL);
    assert_null(fleet_take(f, ADMIN, KILN_MSG_UPGRADES));
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE));
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_ABORTED);
    while (f->persists.count) fleet_persist(f, NULL);
    assert_non_null(fleet_take(f, ADMIN, KILN_MSG_UPGRADES));
    assert_true(is_told(f, 0, KILN_UPGRADE_PREPARE));
    report(f, 0, KILN_UPGRADE_IS_READY, "");
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE));
    fleet_disconnect(f, BOARD(0));
    board_up(f, 0, "old", true);
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE)); /* also not when it connects */
    while (f->persists.count) fleet_persist(f, NULL);
    assert_true(is_told(f, 0, KILN_UPGRADE_RESTART));
}

static void a_full_disk_stops_the_upgrade(void **state) {
    fleet *f = *state;
    set_up(f, 1);
    fleet_wait(f, FLEET_S, alive(1));
    f->hold_disk = true;
    const kiln_message message = begin(1, 1);
    fleet_say(f, ADMIN, &message);
    while (f->persists.count) fleet_persist(f, "no space");
    const kiln_message *error = fleet_take(f, ADMIN, KILN_MSG_ERROR);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(error->error.lease, 0);
    expect_contains(error->error.text.data, "no space");
    assert_true(is_told(f, 0, KILN_UPGRADE_FORGET));
    f->hold_disk = false;
    assert_state(f, STOPPED);
}

static void a_board_ends_its_leases_before_it_restarts_and_gets_no_more(void **state) {
    fleet *f = *state;
    set_up(f, 1);
    fleet_open_job(f, 30, "j", false);
    const uint64_t lease = fleet_lease(f, 1);
    const kiln_message message = begin(0, 1);
    order(f, &message);
    assert_true(is_told(f, 0, KILN_UPGRADE_PREPARE));
    fleet_forget_sent(f);
    report(f, 0, KILN_UPGRADE_IS_READY, "");
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
    assert_true(is_told(f, 0, KILN_UPGRADE_RESTART));
    restart(f, 0);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)); /* it is on trial */
    report(f, 0, KILN_UPGRADE_IS_DONE, "");
    assert_int_equal(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)->lease_grant.request, 2);
    assert_int_equal(kiln_tracker_board_find(f->t, KILN_STR("b0"))->faults, 0);
}

static void a_failed_canary_stops_the_upgrade(void **state) {
    fleet *f = *state;
    set_up(f, 3);
    const kiln_message message = begin(1, 3);
    order(f, &message);
    assert_true(is_told(f, 0, KILN_UPGRADE_PREPARE));
    report(f, 0, KILN_UPGRADE_IS_READY, "");
    restart(f, 0);
    fleet_forget_sent(f);
    report(f, 0, KILN_UPGRADE_IS_FAILED, "its self-check failed");
    assert_null(fleet_take(f, BOARD(0), KILN_MSG_UPGRADE)); /* it knows */
    const kiln_tracker_board *failed = kiln_tracker_board_find(f->t, KILN_STR("b0"));
    assert_int_equal(failed->past[failed->past_count - 1].what, KILN_TRACKER_PAST_UPGRADE);
    assert_state(f, STOPPED);
    assert_stage(f, 0, FAILED);
    expect_str(status(f)->upgrade.text, "board b0 failed: its self-check failed");
    fleet_wait(f, 20 * FLEET_S, alive(3));
    assert_null(fleet_take(f, BOARD(1), KILN_MSG_UPGRADE));
    assert_stage(f, 1, WAITING);
    assert_false(kiln_tracker_board_find(f->t, KILN_STR("b0"))->upgrading); /* the old one works */
}

static void a_failure_calls_back_those_that_prepare_and_leaves_those_that_restart(void **state) {
    fleet *f = *state;
    set_up(f, 4);
    const kiln_message message = begin(0, 3);
    order(f, &message);
    for (uint32_t i = 0; i < 3; i++) assert_true(is_told(f, i, KILN_UPGRADE_PREPARE));
    report(f, 1, KILN_UPGRADE_IS_READY, "");
    assert_true(is_told(f, 1, KILN_UPGRADE_RESTART));
    report(f, 0, KILN_UPGRADE_IS_FAILED, "signature");
    assert_true(is_told(f, 2, KILN_UPGRADE_FORGET));
    assert_stage(f, 2, CANCELLED);
    assert_stage(f, 1, RESTARTING);
    assert_stage(f, 3, WAITING);
    assert_null(fleet_take(f, BOARD(1), KILN_MSG_UPGRADE));
    const kiln_message again = begin(0, 3);
    fleet_say(f, ADMIN, &again); /* not before the last one has come back */
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_FAILED_PRECONDITION);
    restart(f, 1);
    report(f, 1, KILN_UPGRADE_IS_DONE, "");
    assert_stage(f, 1, DONE);
    assert_state(f, STOPPED);
    order(f, &again);
    assert_stage(f, 0, PREPARING);
}

static void boards_that_cannot_take_it_are_skipped(void **state) {
    fleet *f = *state;
    people(f);
    board_up(f, 0, "old", false);
    f->version = 5;
    board_up(f, 1, "old", true);
    f->version = 0;
    board_up(f, 2, "old", true);
    board_up(f, 3, "old", true);
    const kiln_message message = begin(1, 1);
    order(f, &message);
    assert_stage(f, 0, SKIPPED);
    assert_stage(f, 1, SKIPPED);
    assert_true(is_told(f, 2, KILN_UPGRADE_PREPARE));
    report(f, 2, KILN_UPGRADE_IS_REFUSED, "no archive for aarch64");
    assert_stage(f, 2, SKIPPED);
    upgrade(f, 3); /* the canary in their place */
    assert_state(f, DONE);
    assert_int_equal(status(f)->upgrade.skipped, 3);
}

static void a_lost_board_waits_and_goes_on_when_it_is_back(void **state) {
    fleet *f = *state;
    set_up(f, 2);
    const kiln_message message = begin(0, 1);
    order(f, &message);
    assert_true(is_told(f, 0, KILN_UPGRADE_PREPARE));
    fleet_disconnect(f, BOARD(0));
    assert_stage(f, 0, WAITING);
    upgrade(f, 1); /* nobody waits for it */
    assert_state(f, RUNNING);
    board_up(f, 0, "old", true);
    upgrade(f, 0);
    assert_state(f, DONE);
}

static void a_board_that_does_not_come_back_has_failed(void **state) {
    fleet *f = *state;
    set_up(f, 2);
    const kiln_message message = begin(1, 1);
    order(f, &message);
    report(f, 0, KILN_UPGRADE_IS_READY, "");
    report(f, 0, KILN_UPGRADE_IS_RESTARTING, "");
    fleet_disconnect(f, BOARD(0));
    const uint64_t others[] = {20, 30, ADMIN, BOARD(1), 0};
    fleet_wait(f, 30 * FLEET_S + KILN_TRACKER_UPGRADE_RETURN_NS - FLEET_S, others);
    assert_stage(f, 0, RESTARTING);
    fleet_wait(f, 2 * FLEET_S, others);
    assert_stage(f, 0, FAILED);
    assert_state(f, STOPPED);
    board_up(f, 0, "new", true); /* late, and with the new version after all */
    report(f, 0, KILN_UPGRADE_IS_DONE, "");
    assert_stage(f, 0, DONE);
    assert_state(f, STOPPED);
}

static void a_board_that_never_gets_ready_has_failed(void **state) {
    fleet *f = *state;
    set_up(f, 1);
    const kiln_message message = begin(0, 1);
    order(f, &message);
    fleet_forget_sent(f);
    fleet_wait(f, KILN_TRACKER_UPGRADE_PREPARE_NS - FLEET_S, alive(1));
    assert_stage(f, 0, PREPARING);
    fleet_wait(f, 2 * FLEET_S, alive(1));
    assert_stage(f, 0, FAILED);
    assert_true(is_told(f, 0, KILN_UPGRADE_FORGET));
}

static void a_board_whose_lease_does_not_end_is_skipped(void **state) {
    fleet *f = *state;
    set_up(f, 1);
    fleet_open_job(f, 30, "j", false);
    const uint64_t lease = fleet_lease(f, 1);
    const kiln_message message = begin(0, 1);
    order(f, &message);
    report(f, 0, KILN_UPGRADE_IS_READY, "");
    const uint64_t end_ns = f->now_ns + KILN_TRACKER_UPGRADE_DRAIN_NS + FLEET_S;
    const kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = lease}};
    while (f->now_ns < end_ns) {
        fleet_say(f, 20, &renew);
        fleet_wait(f, FLEET_S, alive(1));
    }
    assert_stage(f, 0, SKIPPED);
    assert_true(is_told(f, 0, KILN_UPGRADE_PREPARE));
    assert_true(is_told(f, 0, KILN_UPGRADE_FORGET));
    assert_false(kiln_tracker_board_find(f->t, KILN_STR("b0"))->upgrading);
    assert_null(fleet_take(f, 30, KILN_MSG_JOB_DONE)); /* its job did not end for want of boards */
    assert_state(f, DONE); /* a busy board says nothing about the new version */
}

static void cancelling_calls_back_all_that_have_not_restarted(void **state) {
    fleet *f = *state;
    set_up(f, 3);
    kiln_message message = begin(0, 2);
    order(f, &message);
    report(f, 1, KILN_UPGRADE_IS_READY, "");
    fleet_forget_sent(f);
    message = (kiln_message){
        .type = KILN_MSG_UPGRADE_ORDER,
        .stream = 7,
        .upgrade_order = {.act = KILN_UPGRADE_CANCEL, .reason = KILN_STR("too early")}};
    order(f, &message);
    assert_state(f, CANCELLED);
    expect_str(status(f)->upgrade.text, "too early");
    assert_true(is_told(f, 0, KILN_UPGRADE_FORGET));
    assert_stage(f, 0, CANCELLED);
    assert_stage(f, 1, RESTARTING);
    restart(f, 1);
    report(f, 1, KILN_UPGRADE_IS_DONE, "");
    assert_stage(f, 1, DONE);
    assert_stage(f, 2, WAITING);
    assert_state(f, CANCELLED);
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_FAILED_PRECONDITION);
}

/* The board's message crosses the tracker's. */
static void a_board_that_restarted_before_it_heard_of_the_end_is_followed(void **state) {
    fleet *f = *state;
    set_up(f, 2);
    const kiln_message message = begin(0, 2);
    order(f, &message);
    report(f, 1, KILN_UPGRADE_IS_READY, "");
    report(f, 0, KILN_UPGRADE_IS_FAILED, "signature");
    assert_stage(f, 1, RESTARTING);
    fleet_restart(f);
    people(f);
    board_up(f, 1, "new", true);
    report(f, 1, KILN_UPGRADE_IS_RESTARTING, "");
    assert_true(kiln_tracker_board_find(f->t, KILN_STR("b1"))->upgrading);
    report(f, 1, KILN_UPGRADE_IS_DONE, "");
    assert_stage(f, 1, DONE);
    assert_false(kiln_tracker_board_find(f->t, KILN_STR("b1"))->upgrading);
}

static void it_goes_on_after_a_restart_of_the_tracker(void **state) {
    fleet *f = *state;
    set_up(f, 4);
    kiln_message message = begin(1, 2);
    order(f, &message);
    upgrade(f, 0);
    assert_true(is_told(f, 1, KILN_UPGRADE_PREPARE));
    report(f, 1, KILN_UPGRADE_IS_READY, ""); /* restarts */
    fleet_restart(f);
    people(f);
    assert_state(f, RUNNING);
    assert_stage(f, 0, DONE);
    assert_stage(f, 1, RESTARTING);
    assert_stage(f, 2, WAITING);
    board_up(f, 2, "old", true);
    assert_true(is_told(f, 2, KILN_UPGRADE_PREPARE));
    board_up(f, 1, "old", true); /* it never heard that it shall restart */
    assert_true(is_told(f, 1, KILN_UPGRADE_RESTART));
    restart(f, 1);
    report(f, 1, KILN_UPGRADE_IS_DONE, "");
    report(f, 2, KILN_UPGRADE_IS_READY, "");
    restart(f, 2);
    report(f, 2, KILN_UPGRADE_IS_DONE, "");
    board_up(f, 3, "old", true);
    upgrade(f, 3);
    assert_state(f, DONE);
    message.upgrade_order.canaries = 0;
    order(f, &message); /* which runs it already */
    assert_int_equal(status(f)->upgrade.number, 2);
}

static void reports_of_another_upgrade_or_of_strangers_change_nothing(void **state) {
    fleet *f = *state;
    set_up(f, 2);
    kiln_message message = begin(0, 1);
    message.upgrade_order.boards.item = &(kiln_msg_board_name){KILN_STR("b0")};
    message.upgrade_order.boards.count = 1;
    order(f, &message);
    kiln_message old = {.type = KILN_MSG_UPGRADED,
                        .upgraded = {.number = 77, .report = KILN_UPGRADE_IS_DONE}};
    fleet_say(f, BOARD(0), &old);
    assert_stage(f, 0, PREPARING);
    report(f, 1, KILN_UPGRADE_IS_FAILED, "a board that is not in it");
    assert_state(f, RUNNING);
    report(f, 0, KILN_UPGRADE_IS_READY, "");
    report(f, 0, KILN_UPGRADE_IS_READY, ""); /* repeated */
    assert_stage(f, 0, RESTARTING);
}

static void wrong_orders_are_refused(void **state) {
    fleet *f = *state;
    set_up(f, 1);
    kiln_msg_release_statement two[2] = {x86, x86};
    kiln_message message = begin(0, 1);
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
    message = begin(0, 1);
    message.upgrade_order.boards.item = &(kiln_msg_board_name){KILN_STR("stranger")};
    message.upgrade_order.boards.count = 1;
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
    message = begin(0, 1);
    message.upgrade_order.labels.item = &(kiln_msg_label){KILN_STR("rack"), KILN_STR("2")};
    message.upgrade_order.labels.count = 1;
    fleet_say(f, ADMIN, &message);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
    message = begin(0, 1);
    fleet_say(f, 30, &message); /* a client, not an administrator */
    assert_int_equal(fleet_take(f, 30, KILN_MSG_ERROR)->error.code, KILN_PERMISSION_DENIED);
    assert_state(f, NONE);
    order(f, &message);
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
    set_up(f, 1);
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
    kiln_message message = begin(0, 1);
    message.upgrade_order.labels.item = label;
    message.upgrade_order.labels.count = KILN_ARRAY_COUNT(label);
    const kiln_msg_upgrades *chosen = order(f, &message);
    assert_int_equal(chosen->boards.count, 1);
    expect_str(chosen->boards.item[0].node, "b2");
    report(f, 2, KILN_UPGRADE_IS_FAILED, "");
    message = begin(0, 1);
    assert_int_equal(order(f, &message)->boards.count, 2); /* of all that are known */
}

static void the_upgrade_names_the_person_that_ordered_it(void **state) {
    fleet *f = *state;
    set_up(f, 1);
    f->who.person = "olga";
    fleet_connect(f, 34, KILN_PEER_ADMIN, "olgas-pc", "admin-2");
    const kiln_message message = begin(0, 1);
    fleet_say(f, 34, &message);
    expect_str(fleet_take(f, 34, KILN_MSG_UPGRADES)->upgrades.upgrade.by, "olga");
}

static void a_board_that_is_forgotten_stays_in_the_list_without_its_key(void **state) {
    fleet *f = *state;
    set_up(f, 2);
    kiln_message message = begin(0, 2);
    order(f, &message);
    fleet_disconnect(f, BOARD(1));
    message = (kiln_message){.type = KILN_MSG_BOARD_ORDER,
                             .board_order = {.board = KILN_STR("b1"), .forget = true}};
    fleet_say(f, ADMIN, &message);
    assert_null(kiln_tracker_board_find(f->t, KILN_STR("b1")));
    const kiln_msg_upgrades *upgrades = status(f);
    assert_int_equal(upgrades->boards.count, 2);
    expect_str(upgrades->boards.item[1].node, "b1");
    assert_int_equal(upgrades->boards.item[1].key.size, 0);
    report(f, 0, KILN_UPGRADE_IS_READY, "");
    assert_stage(f, 1, WAITING);
}

static void boards_are_listed_by_pages(void **state) {
    fleet *f = *state;
    set_up(f, KILN_MESSAGES_PAGE + 1);
    kiln_message message = begin(0, 1);
    const kiln_msg_upgrades *first = order(f, &message);
    assert_int_equal(first->boards.count, KILN_MESSAGES_PAGE);
    expect_str(first->boards.item[0].node, "b0");
    expect_str(first->boards.item[0].key, "b0");
    expect_str(first->boards.item[0].software, "test 1");
    const kiln_message query = {.type = KILN_MSG_UPGRADE_QUERY,
                                .stream = 7,
                                .upgrade_query = {.offset = KILN_MESSAGES_PAGE}};
    assert_int_equal(order(f, &query)->boards.count, 1);
}

static void a_board_gets_the_statements_that_the_order_had(void **state) {
    fleet *f = *state;
    set_up(f, 1);
    const kiln_message message = begin(0, 1);
    order(f, &message);
    const kiln_message *told = fleet_take(f, BOARD(0), KILN_MSG_UPGRADE);
    assert_int_equal(told->upgrade.releases.count, 1);
    assert_true(kiln_str_equal(told->upgrade.releases.item[0].text, x86.text));
}

static void boards_may_get_the_archives_and_no_others(void **state) {
    fleet *f = *state;
    kiln_digest archive, other = {{1}};
    assert_true(kiln_digest_parse(KILN_STR(HEX64), &archive));
    people(f);
    f->who = (kiln_tracker_who){.is_proven = true, .has_key = true};
    board_up(f, 0, "old", true);
    assert_false(kiln_tracker_may_get(f->t, BOARD(0), &archive));
    const kiln_message message = begin(0, 1);
    order(f, &message);
    assert_true(kiln_tracker_may_get(f->t, BOARD(0), &archive));
    assert_false(kiln_tracker_may_get(f->t, BOARD(0), &other));
}

static void the_boards_row_tells_version_and_upgrade(void **state) {
    fleet *f = *state;
    set_up(f, 1);
    const kiln_message message = begin(0, 1);
    order(f, &message);
    const kiln_message query = {.type = KILN_MSG_QUERY, .query = {.topic = KILN_TOPIC_FLEET}};
    fleet_say(f, ADMIN, &query);
    const kiln_message *answer = fleet_take(f, ADMIN, KILN_MSG_ANSWER);
    expect_str(answer->answer.boards.item[0].upgrade, "to 0.2.0: preparing");
    report(f, 0, KILN_UPGRADE_IS_READY, "");
    fleet_say(f, ADMIN, &query);
    answer = fleet_take(f, ADMIN, KILN_MSG_ANSWER);
    expect_str(answer->answer.boards.item[0].state, "upgrading");
}

static void percent_is_of_the_boards_and_at_least_one(void **state) {
    fleet *f = *state;
    set_up(f, 5);
    kiln_message message = begin(0, 0);
    message.upgrade_order.percent = 50;
    assert_int_equal(order(f, &message)->upgrade.at_once, 2);
    report(f, 0, KILN_UPGRADE_IS_FAILED, "");
    report(f, 1, KILN_UPGRADE_IS_FAILED, "");
    message.upgrade_order.percent = 1;
    assert_int_equal(order(f, &message)->upgrade.at_once, 1);
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
        test_with_fleet(a_board_that_does_not_come_back_has_failed),
        test_with_fleet(a_board_that_never_gets_ready_has_failed),
        test_with_fleet(a_board_whose_lease_does_not_end_is_skipped),
        test_with_fleet(cancelling_calls_back_all_that_have_not_restarted),
        test_with_fleet(a_board_that_restarted_before_it_heard_of_the_end_is_followed),
        test_with_fleet(it_goes_on_after_a_restart_of_the_tracker),
        test_with_fleet(reports_of_another_upgrade_or_of_strangers_change_nothing),
        test_with_fleet(wrong_orders_are_refused),
        test_with_fleet(labels_choose_boards_that_have_introduced_themselves),
        test_with_fleet(the_upgrade_names_the_person_that_ordered_it),
        test_with_fleet(a_board_that_is_forgotten_stays_in_the_list_without_its_key),
        test_with_fleet(boards_are_listed_by_pages),
        test_with_fleet(a_board_gets_the_statements_that_the_order_had),
        test_with_fleet(boards_may_get_the_archives_and_no_others),
        test_with_fleet(the_boards_row_tells_version_and_upgrade),
        test_with_fleet(percent_is_of_the_boards_and_at_least_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
