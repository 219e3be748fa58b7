/* An upgrade of the fleet: which boards get the new release when, and what became of it
 * (docs/decisions/0153-rolling-upgrades.md has the states). One upgrade at a time; the last one
 * stays for questions. Its row and one per board are on disk, each before a board is told. */
#ifndef KILN_TRACKER_UPGRADES_H
#define KILN_TRACKER_UPGRADES_H

#include "tracker/board_link.h"

#define KILN_TRACKER_UPGRADE_WAIT_S 120u /* for the new version, when the order says nothing */
/* A board that takes longer to prepare has failed, one that takes longer to drain is skipped.
 * Archives are fetched in seconds, leases end in about 20. */
#define KILN_TRACKER_UPGRADE_PREPARE_NS (UINT64_C(600) * 1000000000)
#define KILN_TRACKER_UPGRADE_DRAIN_NS (UINT64_C(600) * 1000000000)
/* Beyond the time of the new version: to end what the board has, and to start the old one. */
#define KILN_TRACKER_UPGRADE_RETURN_NS (UINT64_C(60) * 1000000000)

/* A board of an upgrade. The tracker knows it: the entry goes with the board. */
typedef struct kiln_tracker_upgrading {
    kiln_tracker_text node;
    uint32_t place; /* in kiln_tracker_upgrades.all */
    kiln_upgrade_stage stage;
    uint64_t until_ns; /* when it has failed, in stages that have a bound */
    uint64_t persist;  /* the board is told when that is on disk; 0: nothing waits */
    char text[KILN_MESSAGES_NAME + 1]; /* why it failed or was skipped */
} kiln_tracker_upgrading;

/* All zero at first. */
typedef struct kiln_tracker_upgrades {
    kiln_arena arena;         /* of `row` and `release` */
    kiln_msg_upgrade_row row; /* without the counts; number 0: there was no upgrade */
    kiln_msg_release_statement release[KILN_MESSAGES_RELEASES];
    uint32_t release_count;
    KILN_VEC(kiln_tracker_upgrading *) all; /* in the order in which they are chosen */
    kiln_map of_node;
    uint32_t active;         /* of these: preparing, draining or restarting */
    bool look;               /* something happened after which a board may be chosen */
    uint64_t boards_removed; /* kiln_tracker_boards.removed, as of the last step */
} kiln_tracker_upgrades;

void kiln_tracker_upgrades_free(kiln_tracker *t);

/* ---- For orders ---- */
/* Replaces the last upgrade, which is not running, and returns the PERSIST of the new row. `row`
 * lacks its number; it and the statements are copied. Boards follow by kiln_tracker_upgrades_add.
 */
uint64_t kiln_tracker_upgrades_begin(kiln_tracker *t, const kiln_msg_upgrade_row *row,
                                     const kiln_msg_release_statement *release, uint32_t count);
void kiln_tracker_upgrades_add(kiln_tracker *t, const kiln_tracker_board *board);
/* Ends a running upgrade: no board is chosen any more, and those that have not been told to restart
 * are told to forget it. Returns the PERSIST. */
uint64_t kiln_tracker_upgrades_end(kiln_tracker *t, kiln_upgrade_state state, const char *why);
/* The row with its counts; O(boards). */
kiln_msg_upgrade_row kiln_tracker_upgrades_row(const kiln_tracker *t);

/* ---- Events ---- */
void kiln_tracker_upgraded(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message);
/* The board has sent BOARD_UP; it was lost. */
void kiln_tracker_upgrades_board_up(kiln_tracker *t, kiln_tracker_board *board);
void kiln_tracker_upgrades_board_lost(kiln_tracker *t, kiln_tracker_board *board);
void kiln_tracker_upgrades_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
void kiln_tracker_upgrades_tick(kiln_tracker *t);
/* Called at the end of each step: tells boards that were drained to restart, drops boards that were
 * removed, chooses the next ones. O(1) when there is nothing to do. */
void kiln_tracker_upgrades_advance(kiln_tracker *t);

KILN_MUST_USE kiln_status kiln_tracker_upgrades_restore(kiln_tracker *t,
                                                        const kiln_tracker_row *row);
/* All rows are restored. */
void kiln_tracker_upgrades_restored(kiln_tracker *t);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_upgrades_check(const kiln_tracker *t);

#endif
