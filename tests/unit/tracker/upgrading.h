/* Steps of a rolling upgrade, for tests of the tracker's part in it
 * (docs/decisions/0153-rolling-upgrades.md). */
#ifndef KILN_TESTS_TRACKER_UPGRADING_H
#define KILN_TESTS_TRACKER_UPGRADING_H

#include "tests/unit/tracker/fleet.h"

#define ADMIN 33u /* the peer that gives orders */
#define BOARD(i) (100u + (i))

#define HEX64 "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"
#define STATEMENT(version, arch)                                                                 \
    "kiln release 1\nname kiln-board\nversion " version "\narch " arch "\nsize 7\nsha256 " HEX64 \
    "\nkey " HEX64 "\nsignature " HEX64 HEX64 "\n"

/* Version 0.2.0 for x86_64. */
extern kiln_msg_release_statement upgrade_release;

/* All peers of a fleet with `boards` boards, for fleet_wait. */
const uint64_t *upgrade_alive(uint32_t boards);
/* Board "b<i>" connects as peer BOARD(i); `upgrades`: it takes releases. */
void upgrade_board_up(fleet *f, uint32_t i, const char *boot, bool upgrades);
/* A tuner (20), a client (30) and an administrator. */
void upgrade_people(fleet *f);
/* These and so many boards. */
void upgrade_set_up(fleet *f, uint32_t boards);
/* An order for all boards. */
kiln_message upgrade_begin(uint32_t canaries, uint32_t at_once);
/* Sends it as the administrator, who is not refused. */
const kiln_msg_upgrades *upgrade_order(fleet *f, const kiln_message *message);
/* A fleet of so many boards, and an order for all of them. */
void upgrade_start(fleet *f, uint32_t boards, uint32_t canaries, uint32_t at_once);
const kiln_msg_upgrades *upgrade_status(fleet *f);
kiln_upgrade_stage upgrade_stage_of(fleet *f, uint32_t i);
#define assert_stage(f, i, STAGE) \
    assert_int_equal(upgrade_stage_of(f, i), KILN_UPGRADE_STAGE_##STAGE)
#define assert_state(f, STATE) \
    assert_int_equal(upgrade_status(f)->upgrade.state, KILN_UPGRADE_##STATE)
/* The board reports on the upgrade of now. */
void upgrade_report(fleet *f, uint32_t i, kiln_upgrade_report what, const char *text);
/* Whether the step is what the board was told next and was not asked for yet. */
bool upgrade_is_told(fleet *f, uint32_t i, kiln_upgrade_step step);
/* The board restarts, and connects as a new run. */
void upgrade_restart(fleet *f, uint32_t i);
/* A board that was chosen prepares, restarts and is done. */
void upgrade_one(fleet *f, uint32_t i);

#endif
