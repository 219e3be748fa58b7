#include "tracker/upgrades.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/sign/release.h"
#include "tracker/state.h"

#define SPEAKS_OF_UPGRADES 6u /* version of the protocol */
#define ID_UPGRADE "upgrade"  /* of the row of the upgrade; boards have "board/NODE" */
#define ID_BOARD "board/"

/* The board of such a stage is connected, the upgrade is running, and the board works as before if
 * it is told to forget the release. */
static bool is_before_restart(kiln_upgrade_stage stage) {
    return stage == KILN_UPGRADE_STAGE_PREPARING || stage == KILN_UPGRADE_STAGE_DRAINING;
}

static bool is_active(kiln_upgrade_stage stage) {
    return is_before_restart(stage) || stage == KILN_UPGRADE_STAGE_RESTARTING;
}

static bool is_running(const kiln_tracker *t) {
    return t->upgrades.row.state == KILN_UPGRADE_RUNNING;
}

static kiln_tracker_upgrading *find(const kiln_tracker *t, const kiln_tracker_board *board) {
    return kiln_tracker_find(&t->upgrades.of_node, kiln_str_from(board->node));
}

/* It is known, as entries of boards that are removed go at the end of the same step. */
static kiln_tracker_board *board_of(kiln_tracker *t, const kiln_tracker_upgrading *u) {
    kiln_tracker_board *board = kiln_tracker_board_find(t, kiln_str_from(u->node));
    KILN_CHECK(board);
    return board;
}

/* ---- On disk ---- */

static uint64_t persist_upgrade(kiln_tracker *t) {
    kiln_tracker_upgrades *own = &t->upgrades;
    kiln_msg_kept_upgrade kept = {.row = own->row, .releases = {own->release, own->release_count}};
    const kiln_tracker_row row = {.kind = KILN_TRACKER_ROW_UPGRADE, .id = KILN_STR(ID_UPGRADE)};
    return kiln_tracker_persist_record(t, row, KILN_RECORD_kept_upgrade, &kept);
}

static uint64_t persist_board(kiln_tracker *t, const kiln_tracker_upgrading *u, bool removed) {
    char id[sizeof ID_BOARD + KILN_MESSAGES_TEXT];
    snprintf(id, sizeof id, ID_BOARD "%s", u->node);
    const kiln_msg_upgrade_board kept = {.node = kiln_str_from(u->node),
                                         .stage = u->stage,
                                         .text = kiln_str_from(u->text),
                                         .place = u->place};
    const kiln_tracker_row row = {
        .kind = KILN_TRACKER_ROW_UPGRADE, .removed = removed, .id = kiln_str_from(id)};
    return kiln_tracker_persist_record(t, row, KILN_RECORD_upgrade_board, &kept);
}

/* ---- Stages ---- */

/* Shows the stage in the board's row, and keeps leases from a board that drains or restarts. */
static void show(kiln_tracker *t, kiln_tracker_board *board, const kiln_tracker_upgrading *u) {
    snprintf(board->upgrade, sizeof board->upgrade, "to %.*s: %s%s%.100s",
             KILN_STR_ARG(t->upgrades.row.version), kiln_upgrade_stage_name(u->stage),
             u->text[0] ? ": " : "", u->text);
    board->upgrading =
        u->stage == KILN_UPGRADE_STAGE_DRAINING || u->stage == KILN_UPGRADE_STAGE_RESTARTING;
    kiln_tracker_board_refresh(t, board);
}

static uint64_t bound_of(const kiln_tracker *t, kiln_upgrade_stage stage) {
    switch ((int)stage) {
    case KILN_UPGRADE_STAGE_PREPARING: return t->effects.now_ns + KILN_TRACKER_UPGRADE_PREPARE_NS;
    case KILN_UPGRADE_STAGE_DRAINING: return t->effects.now_ns + KILN_TRACKER_UPGRADE_DRAIN_NS;
    case KILN_UPGRADE_STAGE_RESTARTING:
        return t->effects.now_ns + t->upgrades.row.wait_s * KILN_NS_PER_S +
               KILN_TRACKER_UPGRADE_RETURN_NS;
    default: return UINT64_MAX;
    }
}

/* Puts the entry into the stage without writing it. */
static void set_stage(kiln_tracker *t, kiln_tracker_upgrading *u, kiln_upgrade_stage stage) {
    t->upgrades.active -= is_active(u->stage);
    t->upgrades.active += is_active(stage);
    u->stage = stage;
    u->until_ns = bound_of(t, stage);
    u->persist = 0;
    t->upgrades.look = true;
}

/* Enters the stage; returns the PERSIST of the entry's row. `why`: "" or a reason. */
static uint64_t enter(kiln_tracker *t, kiln_tracker_upgrading *u, kiln_upgrade_stage stage,
                      kiln_str why) {
    kiln_tracker_board *board = board_of(t, u);
    set_stage(t, u, stage);
    kiln_tracker_copy_text(u->text, sizeof u->text, why);
    show(t, board, u);
    if (!is_active(stage))
        kiln_tracker_board_happened(t, board, KILN_TRACKER_PAST_UPGRADE, board->upgrade);
    kiln_tracker_log(t, &(kiln_tracker_note){.what = KILN_TRACKER_BOARD_UPGRADE,
                                             .board = kiln_str_from(board->node),
                                             .text = kiln_str_from(board->upgrade)});
    return persist_board(t, u, false);
}

/* Nothing is sent to a board that is not connected. */
static void tell(kiln_tracker *t, const kiln_tracker_board *board, kiln_upgrade_step step) {
    kiln_tracker_upgrades *own = &t->upgrades;
    kiln_message message = {
        .type = KILN_MSG_UPGRADE,
        .upgrade = {.number = own->row.number, .step = step, .wait_s = own->row.wait_s}};
    if (step != KILN_UPGRADE_FORGET) {
        message.upgrade.releases.item = own->release;
        message.upgrade.releases.count = own->release_count;
    }
    kiln_tracker_send(t, board->peer, &message);
}

/* Tells the board what its stage asks of it, unless that is not on disk yet. */
static void tell_stage(kiln_tracker *t, const kiln_tracker_upgrading *u) {
    if (u->persist) return;
    if (is_before_restart(u->stage)) tell(t, board_of(t, u), KILN_UPGRADE_PREPARE);
    if (u->stage == KILN_UPGRADE_STAGE_RESTARTING) tell(t, board_of(t, u), KILN_UPGRADE_RESTART);
}

static void fail(kiln_tracker *t, kiln_tracker_upgrading *u, kiln_str why) {
    char text[2 * KILN_MESSAGES_NAME];
    const kiln_tracker_board *board = board_of(t, u);
    if (is_before_restart(u->stage)) tell(t, board, KILN_UPGRADE_FORGET);
    enter(t, u, KILN_UPGRADE_STAGE_FAILED, why);
    snprintf(text, sizeof text, "board %.*s failed: %s", KILN_STR_ARG(board->up.key), u->text);
    if (is_running(t)) kiln_tracker_upgrades_end(t, KILN_UPGRADE_STOPPED, text);
}

/* ---- Choosing ---- */

/* Why the board cannot take any release; NULL: it can. */
static const char *unfit(const kiln_tracker_board *board) {
    if (board->peer->version < SPEAKS_OF_UPGRADES)
        return "its program is too old for upgrades: install a newer one by hand";
    if (!board->up.upgrades) return "it takes no releases: start it with --release-keys FILE";
    return NULL;
}

/* How many boards may be chosen now. */
static uint32_t room(const kiln_tracker *t) {
    const kiln_tracker_upgrades *own = &t->upgrades;
    uint32_t done = 0;
    for (uint32_t i = 0; i < own->all.count; i++)
        done += own->all.data[i]->stage == KILN_UPGRADE_STAGE_DONE;
    const uint32_t most = done < own->row.canaries ? own->row.canaries - done : own->row.at_once;
    return most - KILN_MIN(most, own->active);
}

/* A board that is not connected is passed over until it comes back. */
static void choose(kiln_tracker *t) {
    kiln_tracker_upgrades *own = &t->upgrades;
    uint32_t left = room(t), waiting = 0;
    for (uint32_t i = 0; i < own->all.count; i++) {
        kiln_tracker_upgrading *u = own->all.data[i];
        const kiln_tracker_board *board = board_of(t, u);
        if (u->stage != KILN_UPGRADE_STAGE_WAITING) continue;
        if (left == 0 || !board->peer) {
            waiting++;
            continue;
        }
        const char *why = unfit(board);
        if (why) {
            enter(t, u, KILN_UPGRADE_STAGE_SKIPPED, kiln_str_from(why));
            continue;
        }
        u->persist = enter(t, u, KILN_UPGRADE_STAGE_PREPARING, (kiln_str){0});
        left--;
    }
    if (waiting + own->active == 0) kiln_tracker_upgrades_end(t, KILN_UPGRADE_DONE, "");
}

static void restart_drained(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->upgrades.all.count; i++) {
        kiln_tracker_upgrading *u = t->upgrades.all.data[i];
        if (u->stage == KILN_UPGRADE_STAGE_DRAINING && !board_of(t, u)->busy)
            u->persist = enter(t, u, KILN_UPGRADE_STAGE_RESTARTING, (kiln_str){0});
    }
}

/* Removes the entries of boards that the tracker has removed. */
static void drop_removed(kiln_tracker *t) {
    kiln_tracker_upgrades *own = &t->upgrades;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < own->all.count; i++) {
        kiln_tracker_upgrading *u = own->all.data[i];
        if (kiln_tracker_board_find(t, kiln_str_from(u->node))) {
            u->place = kept;
            own->all.data[kept++] = u;
            continue;
        }
        own->active -= is_active(u->stage);
        persist_board(t, u, true);
        kiln_map_remove(&own->of_node, kiln_str_from(u->node));
        kiln_free(u);
    }
    own->all.count = kept;
}

void kiln_tracker_upgrades_advance(kiln_tracker *t) {
    kiln_tracker_upgrades *own = &t->upgrades;
    own->look |= own->boards_removed != t->boards.removed;
    own->boards_removed = t->boards.removed;
    if (own->active) restart_drained(t);
    while (own->look) {
        own->look = false;
        drop_removed(t);
        if (is_running(t)) choose(t);
    }
}

/* ---- Orders ---- */

static void forget_boards(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->upgrades.all.count; i++) {
        kiln_tracker_upgrading *u = t->upgrades.all.data[i];
        kiln_tracker_board *board = board_of(t, u);
        persist_board(t, u, true);
        board->upgrade[0] = '\0';
        kiln_tracker_board_refresh(t, board);
        kiln_free(u);
    }
    t->upgrades.all.count = 0;
    kiln_map_reset(&t->upgrades.of_node);
}

/* Copies the row and the statements into the arena. */
static void take(kiln_tracker *t, const kiln_msg_upgrade_row *row,
                 const kiln_msg_release_statement *release, uint32_t count) {
    kiln_tracker_upgrades *own = &t->upgrades;
    KILN_CHECK(count <= KILN_MESSAGES_RELEASES);
    kiln_arena_reset(&own->arena);
    own->row = *row;
    kiln_record_copy(KILN_RECORD_upgrade_row, &own->row, &own->arena);
    own->release_count = count;
    kiln_digest archive[KILN_MESSAGES_RELEASES];
    uint32_t archives = 0;
    for (uint32_t i = 0; i < count; i++) {
        kiln_release read;
        const kiln_str text = release[i].text;
        own->release[i].text = (kiln_str){kiln_str_dup(&own->arena, text), text.size};
        kiln_status st = kiln_release_parse(text, &read);
        if (!st) archive[archives++] = read.digest;
        kiln_status_free(st); /* orders were checked; of a stored one no archive is offered */
    }
    kiln_tracker_boards_offer_releases(t, archive, archives);
}

uint64_t kiln_tracker_upgrades_begin(kiln_tracker *t, const kiln_msg_upgrade_row *row,
                                     const kiln_msg_release_statement *release, uint32_t count) {
    kiln_msg_upgrade_row next = *row;
    KILN_CHECK(!is_running(t));
    KILN_CHECK(!t->upgrades.active); /* so that no board is `upgrading` */
    forget_boards(t);
    next.number = t->upgrades.row.number + 1;
    next.state = KILN_UPGRADE_RUNNING;
    next.begun_ms = kiln_tracker_wall_ms(t);
    take(t, &next, release, count);
    t->upgrades.look = true;
    return persist_upgrade(t);
}

static kiln_tracker_upgrading *append(kiln_tracker *t, kiln_str node) {
    kiln_tracker_upgrading *u = kiln_alloc(sizeof *u);
    *u = (kiln_tracker_upgrading){.place = t->upgrades.all.count, .until_ns = UINT64_MAX};
    kiln_tracker_set_text(u->node, node);
    kiln_vec_push(&t->upgrades.all, u);
    kiln_map_put(&t->upgrades.of_node, node, (uintptr_t)u);
    return u;
}

void kiln_tracker_upgrades_add(kiln_tracker *t, const kiln_tracker_board *board) {
    if (find(t, board)) return;
    persist_board(t, append(t, kiln_str_from(board->node)), false);
}

uint64_t kiln_tracker_upgrades_end(kiln_tracker *t, kiln_upgrade_state state, const char *why) {
    kiln_tracker_upgrades *own = &t->upgrades;
    own->row.state = state;
    own->row.text = kiln_str_from(kiln_str_dup(&own->arena, kiln_str_from(why)));
    for (uint32_t i = 0; i < own->all.count; i++) {
        kiln_tracker_upgrading *u = own->all.data[i];
        if (!is_before_restart(u->stage) && !u->persist) continue;
        tell(t, board_of(t, u), KILN_UPGRADE_FORGET);
        enter(t, u, KILN_UPGRADE_STAGE_CANCELLED, (kiln_str){0});
    }
    kiln_tracker_log(
        t, &(kiln_tracker_note){.what = KILN_TRACKER_UPGRADE_ENDED,
                                .text = own->row.text.size
                                            ? own->row.text
                                            : kiln_str_from(kiln_upgrade_state_name(state))});
    return persist_upgrade(t);
}

kiln_msg_upgrade_row kiln_tracker_upgrades_row(const kiln_tracker *t) {
    kiln_msg_upgrade_row row = t->upgrades.row;
    row.boards = t->upgrades.all.count;
    for (uint32_t i = 0; i < t->upgrades.all.count; i++) {
        const kiln_upgrade_stage stage = t->upgrades.all.data[i]->stage;
        row.done += stage == KILN_UPGRADE_STAGE_DONE;
        row.failed += stage == KILN_UPGRADE_STAGE_FAILED;
        row.skipped += stage == KILN_UPGRADE_STAGE_SKIPPED;
    }
    return row;
}

/* ---- Events ---- */

static void on_ready(kiln_tracker *t, kiln_tracker_upgrading *u, kiln_tracker_board *board) {
    if (u->stage == KILN_UPGRADE_STAGE_PREPARING && !u->persist) {
        enter(t, u, KILN_UPGRADE_STAGE_DRAINING, (kiln_str){0});
        kiln_tracker_board_wind_down(t, board);
    } else if (u->stage == KILN_UPGRADE_STAGE_RESTARTING) {
        tell_stage(t, u); /* the order to restart was lost with a connection */
    } else if (!is_active(u->stage)) {
        tell(t, board, KILN_UPGRADE_FORGET);
    }
}

void kiln_tracker_upgraded(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    const kiln_msg_upgraded *said = &message->upgraded;
    kiln_tracker_upgrading *u = peer->board ? find(t, peer->board) : NULL;
    if (!u || said->number != t->upgrades.row.number) return; /* of an upgrade that was replaced */
    switch ((kiln_upgrade_report)said->report) {
    case KILN_UPGRADE_IS_READY: on_ready(t, u, peer->board); break;
    case KILN_UPGRADE_IS_RESTARTING:
        /* Also of a board that restarted before it heard that it shall not. */
        if (u->stage != KILN_UPGRADE_STAGE_DONE && u->stage != KILN_UPGRADE_STAGE_RESTARTING)
            enter(t, u, KILN_UPGRADE_STAGE_RESTARTING, (kiln_str){0});
        break;
    case KILN_UPGRADE_IS_DONE:
        if (u->stage != KILN_UPGRADE_STAGE_DONE)
            enter(t, u, KILN_UPGRADE_STAGE_DONE, (kiln_str){0});
        break;
    case KILN_UPGRADE_IS_FAILED:
        if (u->stage != KILN_UPGRADE_STAGE_FAILED) fail(t, u, said->text);
        break;
    case KILN_UPGRADE_IS_REFUSED:
        if (is_active(u->stage)) enter(t, u, KILN_UPGRADE_STAGE_SKIPPED, said->text);
        break;
    case KILN_UPGRADE_REPORT_COUNT: break;
    }
}

void kiln_tracker_upgrades_board_up(kiln_tracker *t, kiln_tracker_board *board) {
    const kiln_tracker_upgrading *u = find(t, board);
    if (!u) return;
    t->upgrades.look = true;
    /* One that restarts says itself what became of it; if it knows nothing, it restarts now. */
    tell_stage(t, u);
}

void kiln_tracker_upgrades_board_lost(kiln_tracker *t, kiln_tracker_board *board) {
    kiln_tracker_upgrading *u = find(t, board);
    if (u && is_before_restart(u->stage)) enter(t, u, KILN_UPGRADE_STAGE_WAITING, (kiln_str){0});
}

void kiln_tracker_upgrades_persisted(kiln_tracker *t, uint64_t persist, const char *failure) {
    for (uint32_t i = 0; t->upgrades.active && i < t->upgrades.all.count; i++) {
        kiln_tracker_upgrading *u = t->upgrades.all.data[i];
        if (u->persist != persist) continue;
        u->persist = 0;
        if (failure)
            fail(t, u, KILN_STR("the tracker cannot write its state"));
        else
            tell_stage(t, u);
        return;
    }
}

/* A board that is in use for long says nothing about the new version. */
static void end_overdue(kiln_tracker *t, kiln_tracker_upgrading *u) {
    if (u->stage == KILN_UPGRADE_STAGE_PREPARING) {
        fail(t, u, KILN_STR("it did not get ready in 10 minutes"));
    } else if (u->stage == KILN_UPGRADE_STAGE_RESTARTING) {
        fail(t, u, KILN_STR("it did not come back after its restart"));
    } else {
        tell(t, board_of(t, u), KILN_UPGRADE_FORGET);
        enter(t, u, KILN_UPGRADE_STAGE_SKIPPED,
              KILN_STR("its leases did not end in 10 minutes: upgrade it when it is free"));
    }
}

void kiln_tracker_upgrades_tick(kiln_tracker *t) {
    for (uint32_t i = 0; t->upgrades.active && i < t->upgrades.all.count; i++) {
        kiln_tracker_upgrading *u = t->upgrades.all.data[i];
        if (t->effects.now_ns >= u->until_ns) end_overdue(t, u);
    }
}

/* ---- Life ---- */

void kiln_tracker_upgrades_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->upgrades.all.count; i++) kiln_free(t->upgrades.all.data[i]);
    kiln_vec_deinit(&t->upgrades.all);
    kiln_map_deinit(&t->upgrades.of_node);
    kiln_arena_deinit(&t->upgrades.arena);
}

static kiln_status restore_board(kiln_tracker *t, kiln_str body, kiln_arena *scratch) {
    kiln_msg_upgrade_board kept = {0};
    kiln_status st = kiln_record_decode(KILN_RECORD_upgrade_board, body, scratch, &kept);
    if (st) return st;
    if (kiln_tracker_find(&t->upgrades.of_node, kept.node))
        return KILN_ERROR(DATA_LOSS, "board %.*s is there twice", KILN_STR_ARG(kept.node));
    kiln_tracker_upgrading *u = append(t, kept.node);
    u->place = kept.place;
    kiln_tracker_copy_text(u->text, sizeof u->text, kept.text);
    u->stage = (kiln_upgrade_stage)kept.stage;
    return KILN_OK;
}

kiln_status kiln_tracker_upgrades_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    kiln_arena scratch = {0};
    kiln_msg_kept_upgrade kept = {0};
    kiln_status st = KILN_OK;
    if (kiln_str_is(row->id, ID_UPGRADE)) {
        st = kiln_record_decode(KILN_RECORD_kept_upgrade, row->body, &scratch, &kept);
        if (!st) take(t, &kept.row, kept.releases.item, kept.releases.count);
    } else {
        st = restore_board(t, row->body, &scratch);
    }
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "stored upgrade %.*s", KILN_STR_ARG(row->id));
}

static int by_place(const void *a, const void *b) {
    const kiln_tracker_upgrading *x = *(kiln_tracker_upgrading *const *)a;
    const kiln_tracker_upgrading *y = *(kiln_tracker_upgrading *const *)b;
    return (x->place > y->place) - (x->place < y->place);
}

/* Boards that were preparing or draining begin again: nothing of that has to be undone. One that
 * was told to restart has its time once more. */
void kiln_tracker_upgrades_restored(kiln_tracker *t) {
    kiln_tracker_upgrades *own = &t->upgrades;
    if (own->all.count) qsort(own->all.data, own->all.count, sizeof *own->all.data, by_place);
    for (uint32_t i = 0; i < own->all.count; i++) {
        kiln_tracker_upgrading *u = own->all.data[i];
        kiln_upgrade_stage stage = u->stage;
        u->stage = KILN_UPGRADE_STAGE_WAITING; /* is not counted as active */
        if (is_before_restart(stage))
            stage = is_running(t) ? KILN_UPGRADE_STAGE_WAITING : KILN_UPGRADE_STAGE_CANCELLED;
        set_stage(t, u, stage);
        kiln_tracker_board *board = kiln_tracker_board_find(t, kiln_str_from(u->node));
        if (board) show(t, board, u); /* else the first step drops the entry */
    }
    own->look = true;
}

void kiln_tracker_upgrades_check(const kiln_tracker *t) {
    uint32_t active = 0;
    for (uint32_t i = 0; i < t->upgrades.all.count; i++) {
        const kiln_tracker_upgrading *u = t->upgrades.all.data[i];
        const kiln_tracker_board *board =
            kiln_tracker_find(&t->boards.of_node, kiln_str_from(u->node));
        active += is_active(u->stage);
        KILN_CHECK(u->place == i);
        KILN_CHECK(is_active(u->stage) || !u->persist);
        KILN_CHECK(board);
        KILN_CHECK(board->peer || !is_before_restart(u->stage));
        KILN_CHECK(is_running(t) || !is_before_restart(u->stage));
        KILN_CHECK(kiln_tracker_find(&t->upgrades.of_node, kiln_str_from(u->node)) == u);
    }
    KILN_CHECK(active == t->upgrades.active);
    KILN_CHECK(kiln_map_count(&t->upgrades.of_node) == t->upgrades.all.count);
}
