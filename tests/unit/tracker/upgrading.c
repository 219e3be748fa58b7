#include "tests/unit/tracker/upgrading.h"

#include <stdio.h>

kiln_msg_release_statement upgrade_release = {
    .text = {STATEMENT("0.2.0", "x86_64"), sizeof STATEMENT("0.2.0", "x86_64") - 1}};

const uint64_t *upgrade_alive(uint32_t boards) {
    static uint64_t peer[32];
    uint32_t count = 0;
    peer[count++] = 20;
    peer[count++] = 30;
    peer[count++] = ADMIN;
    for (uint32_t i = 0; i < boards; i++) peer[count++] = BOARD(i);
    peer[count] = 0;
    return peer;
}

void upgrade_board_up(fleet *f, uint32_t i, const char *boot, bool upgrades) {
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

void upgrade_people(fleet *f) {
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    fleet_connect(f, ADMIN, KILN_PEER_ADMIN, "admin", "admin-1");
}

void upgrade_set_up(fleet *f, uint32_t boards) {
    upgrade_people(f);
    for (uint32_t i = 0; i < boards; i++) upgrade_board_up(f, i, "old", true);
    fleet_forget_sent(f);
}

kiln_message upgrade_begin(uint32_t canaries, uint32_t at_once) {
    return (kiln_message){.type = KILN_MSG_UPGRADE_ORDER,
                          .stream = 7,
                          .upgrade_order = {.releases = {&upgrade_release, 1},
                                            .canaries = canaries,
                                            .at_once = at_once,
                                            .wait_s = 30}};
}

const kiln_msg_upgrades *upgrade_order(fleet *f, const kiln_message *message) {
    fleet_say(f, ADMIN, message);
    const kiln_message *answer = fleet_take(f, ADMIN, KILN_MSG_UPGRADES);
    assert_non_null(answer);
    assert_int_equal(answer->stream, 7);
    return &answer->upgrades;
}

void upgrade_start(fleet *f, uint32_t boards, uint32_t canaries, uint32_t at_once) {
    const kiln_message message = upgrade_begin(canaries, at_once);
    upgrade_set_up(f, boards);
    upgrade_order(f, &message);
}

const kiln_msg_upgrades *upgrade_status(fleet *f) {
    const kiln_message query = {.type = KILN_MSG_UPGRADE_QUERY, .stream = 7};
    return upgrade_order(f, &query);
}

kiln_upgrade_stage upgrade_stage_of(fleet *f, uint32_t i) {
    char name[16];
    snprintf(name, sizeof name, "b%u", i);
    const kiln_msg_upgrades *upgrades = upgrade_status(f);
    for (uint32_t k = 0; k < upgrades->boards.count; k++)
        if (kiln_str_is(upgrades->boards.item[k].node, name))
            return (kiln_upgrade_stage)upgrades->boards.item[k].stage;
    fail_msg("board %s is not in the upgrade", name);
    return KILN_UPGRADE_STAGE_COUNT;
}

void upgrade_report(fleet *f, uint32_t i, kiln_upgrade_report what, const char *text) {
    const kiln_message message = {.type = KILN_MSG_UPGRADED,
                                  .upgraded = {.number = f->t->upgrades.row.number,
                                               .report = (uint32_t)what,
                                               .text = kiln_str_from(text)}};
    fleet_say(f, BOARD(i), &message);
}

bool upgrade_is_told(fleet *f, uint32_t i, kiln_upgrade_step step) {
    const kiln_message *message = fleet_take(f, BOARD(i), KILN_MSG_UPGRADE);
    return message && message->upgrade.step == (uint32_t)step &&
           message->upgrade.number == f->t->upgrades.row.number;
}

void upgrade_restart(fleet *f, uint32_t i) {
    upgrade_report(f, i, KILN_UPGRADE_IS_RESTARTING, "");
    fleet_disconnect(f, BOARD(i));
    upgrade_board_up(f, i, "new", true);
}

void upgrade_one(fleet *f, uint32_t i) {
    assert_true(upgrade_is_told(f, i, KILN_UPGRADE_PREPARE));
    upgrade_report(f, i, KILN_UPGRADE_IS_READY, "");
    assert_true(upgrade_is_told(f, i, KILN_UPGRADE_RESTART));
    upgrade_restart(f, i);
    upgrade_report(f, i, KILN_UPGRADE_IS_DONE, "");
    assert_stage(f, i, DONE);
}
