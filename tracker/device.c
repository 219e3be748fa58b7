/* Boards: who is here, what it is, how it fares. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/fence.h"
#include "tracker/state.h"

kiln_tracker_board *kiln_tracker_board_find(kiln_tracker *t, kiln_str node) {
    uint64_t value = 0;
    return kiln_map_find(&t->board_of_node, node, &value) ? (kiln_tracker_board *)(uintptr_t)value
                                                          : NULL;
}

kiln_tracker_board *kiln_tracker_board_named(kiln_tracker *t, kiln_str name) {
    kiln_tracker_board *found = kiln_tracker_board_find(t, name);
    if (found && !found->known) return NULL;
    kiln_thread_walks(t->board.count);
    for (uint32_t i = 0; !found && i < t->board.count; i++)
        if (t->board.data[i]->known && kiln_str_equal(t->board.data[i]->up.key, name))
            found = t->board.data[i];
    kiln_thread_walks(t->board.count);
    for (uint32_t i = 0; found && i < t->board.count; i++) {
        const kiln_tracker_board *other = t->board.data[i];
        if (other != found && other->known && kiln_str_equal(other->up.key, name) &&
            !kiln_str_is(name, found->node))
            return NULL;
    }
    return found;
}

static void free_devices(kiln_tracker_board *board) {
    for (uint32_t i = 0; i < board->device_count; i++) kiln_vec_deinit(&board->device[i].fits);
    kiln_free(board->device);
    board->device = NULL;
    board->device_count = 0;
}

static void free_board(kiln_tracker_board *board) {
    free_devices(board);
    kiln_arena_deinit(&board->arena);
    kiln_free(board);
}

void kiln_tracker_boards_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->board.count; i++) free_board(t->board.data[i]);
    kiln_vec_deinit(&t->board);
    kiln_vec_deinit(&t->idle);
    kiln_vec_deinit(&t->offered);
    kiln_vec_deinit(&t->unkept);
    kiln_map_deinit(&t->board_of_node);
    kiln_map_deinit(&t->board_of_name);
}

/* Of a board that is not available: none of them is idle. */
static void withdraw_offers(kiln_tracker *t, kiln_tracker_board *board) {
    for (uint32_t i = 0; i < board->device_count; i++) {
        if (board->device[i].offered) kiln_tracker_remove(&t->offered, &board->device[i]);
        board->device[i].offered = false;
    }
}

/* ---- Names ---- */

static kiln_tracker_board *holder_of(const kiln_tracker *t, kiln_str name) {
    uint64_t value = 0;
    return kiln_map_find(&t->board_of_name, name, &value) ? (kiln_tracker_board *)(uintptr_t)value
                                                          : NULL;
}

static void hold_name(kiln_tracker *t, kiln_tracker_board *board) {
    if (!holder_of(t, board->up.key))
        kiln_map_put(&t->board_of_name, board->up.key, (uintptr_t)board);
}

static void release_name(kiln_tracker *t, const kiln_tracker_board *board) {
    if (board->known && holder_of(t, board->up.key) == board)
        kiln_map_remove(&t->board_of_name, board->up.key);
}

/* The board that a peer would be taken for, if it were let in under this name: one whose node it
 * has without its key; one whose node is that name; or one that has the name already. Boards
 * without keys are all the tracker's user's own, and may share a name. NULL: none. */
static kiln_tracker_board *taken_for(kiln_tracker *t, const kiln_tracker_peer *peer,
                                     kiln_str name) {
    kiln_tracker_board *own = kiln_tracker_board_find(t, kiln_str_from(peer->node));
    kiln_tracker_board *other = kiln_tracker_board_find(t, name);
    if (own && own->proven[0] && !peer->has_key) return own;
    if (other && other != own && other->proven[0]) return other;
    other = holder_of(t, name);
    return other && other != own && (other->proven[0] || peer->has_key) ? other : NULL;
}

bool kiln_tracker_board_refuses(kiln_tracker *t, kiln_tracker_peer *peer, kiln_str name) {
    kiln_tracker_board *victim = taken_for(t, peer, name);
    char text[KILN_MESSAGES_NAME];
    if (!victim) return false;
    if (name.size == 0) name = kiln_str_from(peer->node);
    snprintf(text, sizeof text, "node %s called itself %.*s", peer->node, KILN_STR_ARG(name));
    const uint32_t last = victim->past_count - 1; /* one line is enough for many tries */
    if (victim->past_count == 0 || victim->past[last].what != KILN_TRACKER_PAST_IMPOSTOR)
        kiln_tracker_board_happened(t, victim, KILN_TRACKER_PAST_IMPOSTOR, text);
    if (peer->board) {
        kiln_tracker_asks_peer_gone(t, peer);
        kiln_tracker_board_lost(t, peer->board, "it called itself by another board's name");
        peer->board = NULL;
    }
    snprintf(text, sizeof text,
             "the name %.*s is that of the board with node %s: give this one another name (--key), "
             "or forget that one (kiln fleet forget)",
             (int)KILN_MIN(name.size, 64), name.data, victim->node);
    kiln_tracker_drop(t, peer, KILN_PERMISSION_DENIED, text);
    return true;
}

static void remove_board(kiln_tracker *t, kiln_tracker_board *board) {
    release_name(t, board);
    kiln_map_remove(&t->board_of_node, kiln_str_from(board->node));
    kiln_tracker_remove(&t->board, board);
    withdraw_offers(t, board);
    kiln_tracker_history_forget(t, board);
    free_board(board);
}

static uint64_t remove_row(kiln_tracker *t, const kiln_tracker_board *board) {
    kiln_tracker_row row = {
        .kind = KILN_TRACKER_ROW_BOARD, .removed = true, .id = kiln_str_from(board->node)};
    return kiln_tracker_persist(t, &row, 1);
}

/* Nothing is lost with it that anybody needs: no lease, and no order, which must outlive it. */
static bool may_be_forgotten(const kiln_tracker_board *board) {
    return !board->peer && !board->busy && !board->order && board->duty == KILN_DUTY_IN_SERVICE;
}

void kiln_tracker_forget_boards_after(kiln_tracker *t, uint64_t lost_ns) {
    t->forget_lost_ns = lost_ns;
}

void kiln_tracker_boards_tick(kiln_tracker *t) {
    for (uint32_t i = t->forget_lost_ns ? t->board.count : 0; i-- > 0;) {
        kiln_tracker_board *board = t->board.data[i];
        if (!may_be_forgotten(board)) continue;
        if (kiln_tracker_history_lost_ns(t, board) < t->forget_lost_ns) continue;
        remove_row(t, board);
        remove_board(t, board);
    }
}

uint64_t kiln_tracker_board_forget(kiln_tracker *t, kiln_tracker_board *board) {
    board->forgotten = true;
    kiln_tracker_history_forget(t, board);
    return remove_row(t, board);
}

void kiln_tracker_board_forgotten(kiln_tracker *t, kiln_tracker_board *board, bool failed) {
    bool goes = board->forgotten && !failed && !board->peer && !board->busy;
    board->forgotten = false;
    if (goes) remove_board(t, board);
}

/* Makes room by forgetting the board that is lost for longest. False when all are here. */
static bool forget_one(kiln_tracker *t) {
    uint32_t oldest = UINT32_MAX;
    if (!t->actions) return false; /* nothing can be taken from the disk yet */
    kiln_thread_walks(t->board.count);
    for (uint32_t i = 0; i < t->board.count; i++) {
        const kiln_tracker_board *board = t->board.data[i];
        if (!may_be_forgotten(board)) continue;
        if (oldest == UINT32_MAX || board->lost_ns < t->board.data[oldest]->lost_ns) oldest = i;
    }
    if (oldest == UINT32_MAX) return false;
    remove_row(t, t->board.data[oldest]);
    remove_board(t, t->board.data[oldest]);
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
    board->number = ++t->last_row;
    kiln_map_put(&t->board_of_node, node, (uintptr_t)board);
    return board;
}

/* ---- Whether it may be leased ---- */

static void leave_idle(kiln_tracker *t, kiln_tracker_device *device) {
    kiln_tracker_device *last = kiln_vec_pop(&t->idle);
    if (last != device) {
        t->idle.data[device->idle_at - 1] = last;
        last->idle_at = device->idle_at;
    }
    device->idle_at = 0;
}

static bool is_available(const kiln_tracker_board *board) {
    return board->peer && !board->peer->closing && board->known && !board->sick &&
           !board->leaving && board->duty == KILN_DUTY_IN_SERVICE && !board->lacking;
}

static void refresh_device(kiln_tracker *t, kiln_tracker_device *device, bool available) {
    const uint64_t *slot = &device->board->slot[device->first_slot];
    device->said->busy = 0;
    for (uint32_t i = 0; i < device->said->slots; i++) device->said->busy += slot[i] != 0;
    if (!available && device->reserved) {
        device->reserved->reserving = NULL;
        device->reserved = NULL;
    }
    bool has_room = available && device->said->busy < device->said->slots;
    bool idle = has_room && !device->reserved;
    if (device->idle_at && !idle) leave_idle(t, device);
    if (!device->idle_at && idle) {
        kiln_vec_push(&t->idle, device);
        device->idle_at = t->idle.count;
    }
    if (device->offered || !has_room || (device->reserved && device->said->busy > 0)) return;
    device->offered = true;
    kiln_vec_push(&t->offered, device);
}

void kiln_tracker_require_fences(kiln_tracker *t, uint32_t fences) { t->fences = fences; }

/* Said once a connection: a board that brings less than it must does so until its owner acts. */
static void say_lacking(kiln_tracker *t, kiln_tracker_board *board) {
    kiln_strbuf fences = {0};
    if (!board->lacking) return;
    kiln_fences_print(board->lacking, &fences);
    if (board->duty == KILN_DUTY_IN_SERVICE)
        snprintf(board->text, sizeof board->text,
                 "no work here without the fences %s (kiln-tracker --require-fences); "
                 "kiln-rpc-server --doctor says why the board lacks them",
                 fences.data);
    kiln_tracker_board_happened(t, board, KILN_TRACKER_PAST_UNFENCED, fences.data);
    kiln_strbuf_deinit(&fences);
}

void kiln_tracker_board_refresh(kiln_tracker *t, kiln_tracker_board *board) {
    board->changed = ++t->change;
    bool available = is_available(board);
    if (available != board->available) kiln_tracker_wants_count(t, board, available);
    board->available = available;
    for (uint32_t i = 0; i < board->device_count; i++)
        refresh_device(t, &board->device[i], available);
}

/* ---- What it is ---- */

uint32_t kiln_tracker_board_slots(const kiln_tracker_board *board) {
    uint32_t slots = 0;
    for (uint32_t i = 0; i < board->device_count; i++) slots += board->device[i].said->slots;
    return slots;
}

kiln_tracker_device *kiln_tracker_board_device(const kiln_tracker_board *board, uint32_t slot) {
    for (uint32_t i = 0; i < board->device_count; i++)
        if (slot - board->device[i].first_slot < board->device[i].said->slots)
            return &board->device[i];
    return NULL;
}

static void bind_to_key(kiln_tracker_board *board, bool has_key) {
    board->proven[0] = 0;
    if (has_key) snprintf(board->proven, sizeof board->proven, "board/%s", board->node);
}

/* Devices of `up`, which lies in the board's arena. */
static kiln_status make_devices(kiln_tracker_board *board) {
    const kiln_msg_board_up *up = &board->up;
    const uint32_t count = up->targets.count + 1;
    kiln_msg_board_target *said = KILN_ARENA_ARRAY(&board->arena, kiln_msg_board_target, count);
    said[0] = (kiln_msg_board_target){.target = up->target,
                                      .slots = up->slots,
                                      .device = up->device,
                                      .memory_bytes = up->memory_bytes};
    for (uint32_t i = 1; i < count; i++) said[i] = up->targets.item[i - 1];
    board->device = kiln_alloc(count * sizeof *board->device);
    board->device_count = count;
    uint32_t slots = 0;
    for (uint32_t i = 0; i < count; i++) {
        kiln_tracker_device *device = &board->device[i];
        device->board = board;
        device->said = &said[i];
        device->first_slot = slots;
        slots += said[i].slots;
        if (said[i].slots == 0)
            return KILN_ERROR(INVALID_ARGUMENT, "a board has at least one slot for each target");
        kiln_status st = kiln_target_parse(said[i].target, &board->arena, &device->target);
        if (st) return st;
    }
    if (slots > KILN_TRACKER_SLOTS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "a board has at most %u slots, not %u",
                          KILN_TRACKER_SLOTS_MAX, slots);
    return KILN_OK;
}

static void forget_devices(kiln_tracker *t, kiln_tracker_board *board) {
    release_name(t, board);
    board->known = false;
    withdraw_offers(t, board);
    free_devices(board);
}

/* The board is not available: nothing of it is idle or counted. */
static kiln_status describe(kiln_tracker *t, kiln_tracker_board *board,
                            const kiln_message *message) {
    forget_devices(t, board);
    kiln_arena_reset(&board->arena);
    board->up = kiln_message_copy(message, &board->arena).board_up;
    kiln_status st = make_devices(board);
    if (st) {
        forget_devices(t, board);
        return kiln_status_note(st, "board %.*s", KILN_STR_ARG(board->up.key));
    }
    board->known = true;
    hold_name(t, board);
    board->lacking = t->fences & ~kiln_fences_known(board->up.fences);
    return KILN_OK;
}

/* Whether each target has the slots that it had, so that leases still stand where they stood. */
static bool has_same_slots(const kiln_tracker_board *board, const kiln_msg_board_up *up) {
    if (board->device_count != up->targets.count + 1) return false;
    if (board->device[0].said->slots != up->slots) return false;
    for (uint32_t i = 1; i < board->device_count; i++)
        if (board->device[i].said->slots != up->targets.item[i - 1].slots) return false;
    return true;
}

/* A trial that the board still has belongs to a lease that holds, or is told to end. */
static void reattach(kiln_tracker *t, kiln_tracker_board *board) {
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        kiln_tracker_lease *lease = kiln_tracker_lease_find(t, board->slot[i]);
        if (lease) kiln_tracker_lease_hand_over(t, lease);
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

/* Whether the row on disk says something else. */
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
    board->peer = NULL; /* until it is known what it is */
    kiln_tracker_board_refresh(t, board);
    if (board->known && !has_same_slots(board, &message->board_up))
        kiln_tracker_board_end_leases(t, board, "the board came back with other slots");
    kiln_status st = describe(t, board, message);
    if (st) {
        kiln_tracker_asks_peer_gone(t, peer);
        if (peer->board) kiln_tracker_board_lost(t, board, kiln_status_text(st));
        peer->board = NULL;
        kiln_tracker_drop(t, peer, kiln_status_code(st), kiln_status_text(st));
        kiln_status_free(st);
        return;
    }
    board->peer = peer;
    bind_to_key(board, peer->has_key);
    kiln_tracker_figures_hear(t, board);
    board->sick = board->leaving = false;
    board->env = board->up.env;
    board->env.governor = (kiln_str){0};
    peer->board = board;
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
        kiln_tracker_board_keep(t, board);
    board->lost_busy = false;
    say_lacking(t, board);
    kiln_tracker_board_refresh(t, board);
    if (board->lacking)
        kiln_tracker_board_end_leases(t, board, "the board came back with fewer fences");
}

void kiln_tracker_board_end_leases(kiln_tracker *t, kiln_tracker_board *board, const char *why) {
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        kiln_tracker_lease *lease = kiln_tracker_lease_find(t, board->slot[i]);
        if (lease) kiln_tracker_lease_end(t, lease, KILN_UNAVAILABLE, why);
    }
}

void kiln_tracker_board_state(kiln_tracker *t, kiln_tracker_peer *peer,
                              const kiln_message *message) {
    kiln_tracker_board *board = peer->board;
    board->env = message->board_state.env;
    board->env.governor = (kiln_str){0};
    board->changed = ++t->change;
    if (board->sick == message->board_state.sick) return;
    board->sick = message->board_state.sick;
    kiln_str text = message->board_state.text;
    if (board->duty == KILN_DUTY_IN_SERVICE)
        snprintf(board->text, sizeof board->text, "%.*s",
                 (int)KILN_MIN(text.size, sizeof board->text - 1), text.size ? text.data : "");
    kiln_tracker_board_happened(t, board,
                                board->sick ? KILN_TRACKER_PAST_SICK : KILN_TRACKER_PAST_WELL,
                                board->sick ? board->text : "");
    kiln_tracker_board_refresh(t, board);
    if (board->sick) kiln_tracker_board_end_leases(t, board, "the board says that it is sick");
}

void kiln_tracker_board_lost(kiln_tracker *t, kiln_tracker_board *board, const char *why) {
    if (board->peer) board->peer->board = NULL;
    board->peer = NULL;
    board->lost_ns = t->now_ns;
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        const kiln_tracker_lease *lease = kiln_tracker_lease_find(t, board->slot[i]);
        board->lost_busy |= !board->leaving && lease && lease->trial.count > 0;
    }
    kiln_tracker_log(t, &(kiln_tracker_note){.what = KILN_TRACKER_BOARD_LOST,
                                             .board = kiln_str_from(board->node),
                                             .text = kiln_str_from(why)});
    kiln_tracker_board_happened(t, board, KILN_TRACKER_PAST_LOST, why);
    kiln_tracker_board_refresh(t, board);
    kiln_tracker_board_end_leases(t, board, why);
    if (board->results != board->kept_results) kiln_tracker_board_keep(t, board);
}

/* ---- On disk ---- */

kiln_status kiln_tracker_board_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    kiln_tracker_board *board = kiln_tracker_board_get(t, row->id);
    kiln_msg_kept_board kept = {0};
    kiln_status st = KILN_OK;
    if (!board || board->known) st = KILN_ERROR(DATA_LOSS, "it is there twice, or one too many");
    if (!st) st = kiln_record_decode(KILN_RECORD_kept_board, row->body, &board->arena, &kept);
    if (st) return kiln_status_note(st, "stored board %.*s", KILN_STR_ARG(row->id));
    kiln_record_copy(KILN_RECORD_kept_board, &kept, &board->arena); /* row->body goes away */
    board->up = (kiln_msg_board_up){.key = kept.key,
                                    .target = kept.target,
                                    .slots = kept.slots,
                                    .device = kept.device,
                                    .memory_bytes = kept.memory_bytes,
                                    .firmware = kept.firmware};
    board->up.labels.item = kept.labels.item;
    board->up.labels.count = kept.labels.count;
    board->up.targets.item = kept.targets.item;
    board->up.targets.count = kept.targets.count;
    st = make_devices(board);
    if (st) {
        kiln_status made = KILN_ERROR(DATA_LOSS, "stored board %.*s: %s", KILN_STR_ARG(row->id),
                                      kiln_status_text(st));
        kiln_status_free(st);
        return made;
    }
    board->known = true;
    bind_to_key(board, kept.bound);
    hold_name(t, board);
    board->changed = ++t->change;
    board->duty = (kiln_duty)kept.duty;
    snprintf(board->text, sizeof board->text, "%.*s", (int)kept.text.size,
             kept.text.size ? kept.text.data : "");
    board->results = board->kept_results = kept.results;
    board->ok = kept.ok;
    board->faults = kept.faults;
    board->fault_run = kept.fault_run;
    board->noise = kept.noise;
    board->drift = kept.drift;
    kiln_tracker_history_restore(board, &kept);
    /* A quarantine of ours, not a person's, begins anew: how long the tracker was away is unknown.
     */
    if (board->duty == KILN_DUTY_QUARANTINED && board->fault_run >= KILN_TRACKER_FAULTS_MAX)
        board->probation_ns = t->now_ns + KILN_TRACKER_PROBATION_NS;
    return KILN_OK;
}
