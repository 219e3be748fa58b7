/* Boards: who is here, what it is, how it fares. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tracker/state.h"

kiln_tracker_board *kiln_tracker_board_find(kiln_tracker *t, kiln_str node) {
    uint64_t value = 0;
    return kiln_map_find(&t->board_of_node, node, &value) ? (kiln_tracker_board *)(uintptr_t)value
                                                          : NULL;
}

static bool holds_lease(const kiln_tracker_board *board) {
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++)
        if (board->slot[i]) return true;
    return false;
}

/* Makes room by forgetting the board that is lost for longest. False when all are here. */
static bool forget_one(kiln_tracker *t) {
    uint32_t oldest = UINT32_MAX;
    for (uint32_t i = 0; i < t->board.count; i++) {
        const kiln_tracker_board *board = t->board.data[i];
        if (board->peer || holds_lease(board)) continue;
        if (oldest == UINT32_MAX || board->lost_ns < t->board.data[oldest]->lost_ns) oldest = i;
    }
    if (oldest == UINT32_MAX) return false;
    kiln_tracker_board *board = t->board.data[oldest];
    kiln_map_remove(&t->board_of_node, kiln_str_from(board->node));
    memmove(&t->board.data[oldest], &t->board.data[oldest + 1],
            (--t->board.count - oldest) * sizeof(board));
    kiln_tracker_board_free(board);
    return true;
}

kiln_tracker_board *kiln_tracker_board_get(kiln_tracker *t, kiln_str node) {
    kiln_tracker_board *board = kiln_tracker_board_find(t, node);
    if (board) return board;
    if (t->board.count >= KILN_TRACKER_BOARDS_MAX && !forget_one(t)) return NULL;
    board = kiln_alloc(sizeof *board);
    kiln_tracker_set_text(board->node, node);
    board->lost_ns = t->now_ns;
    kiln_arena_init(&board->arena, KILN_TRACKER_ARENA_BYTES);
    kiln_vec_push(&t->board, board);
    kiln_map_put(&t->board_of_node, node, (uintptr_t)board);
    return board;
}

void kiln_tracker_board_free(kiln_tracker_board *board) {
    kiln_arena_deinit(&board->arena);
    kiln_free(board);
}

static kiln_status describe(kiln_tracker_board *board, const kiln_message *message) {
    kiln_arena_reset(&board->arena);
    board->known = false;
    board->up = kiln_message_copy(message, &board->arena).board_up;
    if (board->up.slots == 0) return KILN_ERROR(INVALID_ARGUMENT, "a board has at least one slot");
    kiln_status st = kiln_target_parse(board->up.target, &board->arena, &board->target);
    if (st) return kiln_status_note(st, "board %.*s", KILN_STR_ARG(board->up.key));
    board->known = true;
    return KILN_OK;
}

/* A trial that the board still has belongs to a lease that holds, or is told to end. */
static void reattach(kiln_tracker *t, kiln_tracker_board *board) {
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        kiln_tracker_lease *lease =
            board->slot[i] ? kiln_tracker_lease_find(t, board->slot[i]) : NULL;
        if (!lease) continue;
        if (i < board->up.slots)
            lease->board_due_ns = 0;
        else
            kiln_tracker_lease_end(t, lease, KILN_UNAVAILABLE,
                                   "the board came back with fewer slots");
    }
    for (uint32_t i = 0; i < board->up.running.count; i++) {
        uint64_t number = board->up.running.item[i].lease;
        const kiln_tracker_lease *lease = kiln_tracker_lease_find(t, number);
        if (lease && lease->board == board) continue;
        kiln_message lost = {.type = KILN_MSG_LEASE_LOST,
                             .lease_lost = {.lease = number, .code = KILN_ABORTED}};
        kiln_tracker_send(t, board->peer, &lost);
    }
}

void kiln_tracker_board_up(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    kiln_tracker_board *board = kiln_tracker_board_get(t, kiln_str_from(peer->node));
    if (!board) {
        kiln_tracker_drop(t, peer, KILN_RESOURCE_EXHAUSTED,
                          "this tracker has as many boards as it can hold");
        return;
    }
    kiln_status st = describe(board, message);
    if (st) {
        kiln_tracker_drop(t, peer, kiln_status_code(st), kiln_status_text(st));
        kiln_status_free(st);
        return;
    }
    board->peer = peer;
    board->sick = board->leaving = false;
    board->env = board->up.env;
    board->env.governor = (kiln_str){0};
    peer->board = board;
    reattach(t, board);
    t->fleet_changed = t->slots_changed = true;
}

static void end_leases(kiln_tracker *t, kiln_tracker_board *board, const char *why) {
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        kiln_tracker_lease *lease =
            board->slot[i] ? kiln_tracker_lease_find(t, board->slot[i]) : NULL;
        if (lease) kiln_tracker_lease_end(t, lease, KILN_UNAVAILABLE, why);
    }
}

void kiln_tracker_board_state(kiln_tracker *t, kiln_tracker_peer *peer,
                              const kiln_message *message) {
    kiln_tracker_board *board = peer->board;
    board->env = message->board_state.env;
    board->env.governor = (kiln_str){0};
    if (board->sick == message->board_state.sick) return;
    board->sick = message->board_state.sick;
    if (board->sick) end_leases(t, board, "the board says that it is sick");
    t->fleet_changed = t->slots_changed = true;
}

void kiln_tracker_board_lost(kiln_tracker *t, kiln_tracker_board *board, const char *why) {
    if (board->peer) board->peer->board = NULL;
    board->peer = NULL;
    board->lost_ns = t->now_ns;
    end_leases(t, board, why);
    t->fleet_changed = t->slots_changed = true;
}

static bool has_label(const kiln_msg_board_up *up, const kiln_msg_label *label) {
    for (uint32_t i = 0; i < up->labels.count; i++)
        if (kiln_str_equal(up->labels.item[i].key, label->key) &&
            kiln_str_equal(up->labels.item[i].value, label->value))
            return true;
    return false;
}

bool kiln_tracker_board_fits(const kiln_tracker_board *board, const kiln_target *target,
                             const kiln_msg_lease_req *want) {
    if (!board->peer || board->peer->closing || !board->known || board->sick || board->leaving)
        return false;
    for (uint32_t i = 0; want && i < want->labels.count; i++)
        if (!has_label(&board->up, &want->labels.item[i])) return false;
    kiln_strbuf reason = {0};
    bool fits = kiln_target_runs_on(target, &board->target, &reason);
    kiln_strbuf_deinit(&reason);
    return fits;
}
