#include <stdio.h>
#include <string.h>

#include "base/fence.h"
#include "tracker/state.h"

bool kiln_tracker_board_refuses(kiln_tracker *t, kiln_tracker_peer *peer, kiln_str name) {
    kiln_tracker_board *victim = kiln_tracker_board_taken_for(t, peer, name);
    char text[KILN_MESSAGES_NAME];
    if (!victim) return false;
    if (name.size == 0) name = kiln_str_from(peer->node);
    snprintf(text, sizeof text, "node %s called itself %.*s", peer->node, KILN_STR_ARG(name));
    const uint32_t last = victim->past_count - 1; /* one line, however often it tries */
    if (victim->past_count == 0 || victim->past[last].what != KILN_TRACKER_PAST_IMPOSTOR)
        kiln_tracker_board_happened(t, victim, KILN_TRACKER_PAST_IMPOSTOR, text);
    if (peer->board) {
        kiln_tracker_board_requests_peer_gone(t, peer);
        kiln_tracker_board_lost(t, peer->board, "it called itself by another board's name");
        kiln_tracker_peer_set_board(peer, NULL);
    }
    snprintf(text, sizeof text,
             "the name %.*s is that of the board with node %s: give this one another name (--key), "
             "or forget that one (kiln fleet forget)",
             (int)KILN_MIN(name.size, 64), name.data, victim->node);
    kiln_tracker_drop(t, peer, KILN_PERMISSION_DENIED, text);
    return true;
}

/* Tells once per connection that the board lacks required fences. */
static void say_lacking(kiln_tracker *t, kiln_tracker_board *board) {
    kiln_strbuf fences = {0};
    if (!board->lacking) return;
    kiln_fences_print(board->lacking, &fences);
    if (board->service == KILN_BOARD_IN_SERVICE)
        snprintf(board->text, sizeof board->text,
                 "no work for this board without the fences %s (kiln-tracker --require-fences); "
                 "kiln-rpc-server --doctor says why it lacks them",
                 fences.data);
    kiln_tracker_board_happened(t, board, KILN_TRACKER_PAST_UNFENCED, fences.data);
    kiln_strbuf_deinit(&fences);
}

/* Whether each device has as many slots as before, so that leases keep their slots. */
static bool has_same_slots(const kiln_tracker_board *board, const kiln_msg_board_up *up) {
    if (board->device_count != up->targets.count + 1) return false;
    if (board->device[0].reported->slots != up->slots) return false;
    for (uint32_t i = 1; i < board->device_count; i++)
        if (board->device[i].reported->slots != up->targets.item[i - 1].slots) return false;
    return true;
}

/* Delivers what was held back for the board, and denies the leases of its running trials that do
 * not hold. */
static void reattach(kiln_tracker *t, kiln_tracker_board *board) {
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        kiln_tracker_lease *lease = kiln_tracker_lease_find(t, board->slot[i]);
        if (lease) kiln_tracker_lease_hand_over(t, lease);
    }
    for (uint32_t i = 0; i < board->up.running.count; i++) {
        uint64_t number = board->up.running.item[i].lease;
        const kiln_tracker_lease *lease = kiln_tracker_lease_find(t, number);
        if (!lease || lease->board != board) kiln_tracker_lease_deny(t, board->peer, number);
    }
}

/* Whether BOARD_UP differs from the board's row on disk. */
static bool is_news(const kiln_tracker_board *board, const kiln_message *message) {
    const kiln_msg_board_up *a = &board->up, *b = &message->board_up;
    if (!board->known || a->slots != b->slots || a->memory_bytes != b->memory_bytes ||
        !kiln_str_equal(a->key, b->key) || !kiln_str_equal(a->target, b->target) ||
        !kiln_str_equal(a->device, b->device) || !kiln_str_equal(a->firmware, b->firmware) ||
        a->labels.count != b->labels.count)
        return true;
    for (uint32_t i = 0; i < a->labels.count; i++)
        if (!kiln_str_equal(a->labels.item[i].key, b->labels.item[i].key) ||
            !kiln_str_equal(a->labels.item[i].value, b->labels.item[i].value))
            return true;
    if (a->targets.count != b->targets.count) return true;
    for (uint32_t i = 0; i < a->targets.count; i++)
        if (a->targets.item[i].slots != b->targets.item[i].slots ||
            !kiln_str_equal(a->targets.item[i].target, b->targets.item[i].target) ||
            !kiln_str_equal(a->targets.item[i].device, b->targets.item[i].device))
            return true;
    return false;
}

void kiln_tracker_board_up(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    if (kiln_tracker_board_refuses(t, peer, message->board_up.key)) return;
    kiln_tracker_board *board = kiln_tracker_board_get(t, kiln_str_from(peer->node));
    if (!board) {
        kiln_tracker_drop(t, peer, KILN_RESOURCE_EXHAUSTED,
                          "this tracker has as many boards as it can hold");
        return;
    }
    bool restarted = strcmp(board->boot, peer->boot) != 0,
         news = is_news(board, message) || (board->proven[0] != 0) != peer->has_key;
    board->peer = NULL; /* until the new description is accepted */
    kiln_tracker_board_refresh(t, board);
    if (board->known && !has_same_slots(board, &message->board_up))
        kiln_tracker_leases_end_of_board(t, board, "the board came back with other slots");
    kiln_status st = kiln_tracker_board_describe(t, board, message, peer->has_key);
    if (st) {
        kiln_tracker_board_requests_peer_gone(t, peer);
        if (peer->board) kiln_tracker_board_lost(t, board, kiln_status_text(st));
        kiln_tracker_peer_set_board(peer, NULL);
        kiln_tracker_drop(t, peer, kiln_status_code(st), kiln_status_text(st));
        kiln_status_free(st);
        return;
    }
    board->peer = peer;
    kiln_tracker_figures_hear(t, board);
    board->sick = board->leaving = false;
    board->env = board->up.env;
    board->env.governor = (kiln_str){0};
    kiln_tracker_peer_set_board(peer, board);
    kiln_tracker_set_text(board->boot, kiln_str_from(peer->boot));
    reattach(t, board);
    kiln_tracker_log(t, &(kiln_tracker_note){.what = KILN_TRACKER_BOARD_UP,
                                             .board = kiln_str_from(board->node),
                                             .text = board->up.key});
    kiln_tracker_board_happened(t, board, KILN_TRACKER_PAST_CAME,
                                restarted ? "it was started" : "it connected again");
    if (board->lost_busy && restarted)
        kiln_tracker_board_fault(t, board, "it went away while a trial ran, and was started anew");
    else if (news)
        kiln_tracker_board_persist(t, board);
    board->lost_busy = false;
    say_lacking(t, board);
    kiln_tracker_board_refresh(t, board);
    if (board->lacking)
        kiln_tracker_leases_end_of_board(t, board, "the board came back with fewer fences");
}

void kiln_tracker_board_state(kiln_tracker *t, kiln_tracker_peer *peer,
                              const kiln_message *message) {
    kiln_tracker_board *board = peer->board;
    board->env = message->board_state.env;
    board->env.governor = (kiln_str){0};
    board->changed = kiln_tracker_next_change(t);
    if (board->sick == message->board_state.sick) return;
    board->sick = message->board_state.sick;
    kiln_str text = message->board_state.text;
    if (board->service == KILN_BOARD_IN_SERVICE)
        kiln_tracker_copy_text(board->text, sizeof board->text, text);
    kiln_tracker_board_happened(t, board,
                                board->sick ? KILN_TRACKER_PAST_SICK : KILN_TRACKER_PAST_WELL,
                                board->sick ? board->text : "");
    kiln_tracker_board_refresh(t, board);
    if (board->sick) kiln_tracker_leases_end_of_board(t, board, "the board says that it is sick");
}

void kiln_tracker_board_lost(kiln_tracker *t, kiln_tracker_board *board, const char *why) {
    if (board->peer) kiln_tracker_peer_set_board(board->peer, NULL);
    board->peer = NULL;
    board->lost_ns = t->effects.now_ns;
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        const kiln_tracker_lease *lease = kiln_tracker_lease_find(t, board->slot[i]);
        board->lost_busy |= !board->leaving && lease && lease->trial.count > 0;
    }
    kiln_tracker_log(t, &(kiln_tracker_note){.what = KILN_TRACKER_BOARD_LOST,
                                             .board = kiln_str_from(board->node),
                                             .text = kiln_str_from(why)});
    kiln_tracker_board_happened(t, board, KILN_TRACKER_PAST_LOST, why);
    kiln_tracker_board_refresh(t, board);
    kiln_tracker_leases_end_of_board(t, board, why);
    if (board->results != board->kept_results) kiln_tracker_board_persist(t, board);
}

void kiln_tracker_board_goaway(kiln_tracker *t, kiln_tracker_peer *peer,
                               const kiln_message *message) {
    (void)message;
    if (!peer->board) return;
    peer->board->leaving = true;
    kiln_tracker_board_happened(t, peer->board, KILN_TRACKER_PAST_GOES, "it ends what it has");
    kiln_tracker_board_refresh(t, peer->board);
    kiln_tracker_board_wind_down(t, peer->board);
}
