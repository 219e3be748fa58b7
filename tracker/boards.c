#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/fence.h"
#include "tracker/state.h"

/* Most boards whose events are written in one tick, so that a large fleet that reconnects does not
 * hold the loop. */
#define EVENTS_PER_TICK 256u

kiln_tracker_board *kiln_tracker_board_find(kiln_tracker *t, kiln_str node) {
    return kiln_tracker_find(&t->boards.of_node, node);
}

kiln_tracker_board *kiln_tracker_board_named(kiln_tracker *t, kiln_str name) {
    kiln_tracker_board *found = kiln_tracker_board_find(t, name);
    if (found && !found->known) return NULL;
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; !found && i < t->boards.all.count; i++)
        if (t->boards.all.data[i]->known && kiln_str_equal(t->boards.all.data[i]->up.key, name))
            found = t->boards.all.data[i];
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; found && i < t->boards.all.count; i++) {
        const kiln_tracker_board *other = t->boards.all.data[i];
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

void kiln_tracker_boards_init(kiln_tracker *t) {
    kiln_map_init(&t->boards.of_node);
    kiln_map_init(&t->boards.of_name);
    kiln_map_init(&t->boards.requirement_of_text);
}

void kiln_tracker_boards_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->boards.all.count; i++) free_board(t->boards.all.data[i]);
    kiln_vec_deinit(&t->boards.all);
    kiln_vec_deinit(&t->boards.idle);
    kiln_vec_deinit(&t->boards.offered);
    kiln_vec_deinit(&t->boards.unkept);
    kiln_map_deinit(&t->boards.of_node);
    kiln_map_deinit(&t->boards.of_name);
    kiln_vec_deinit(&t->boards.figures);
    kiln_tracker_requirements_free(t);
}

/* Takes the devices of an unavailable board from the list of offered ones; none of them is idle. */
static void withdraw_offers(kiln_tracker *t, kiln_tracker_board *board) {
    for (uint32_t i = 0; i < board->device_count; i++) {
        if (board->device[i].offered) kiln_tracker_remove(&t->boards.offered, &board->device[i]);
        board->device[i].offered = false;
    }
}

/* ---- Names ---- */

static kiln_tracker_board *holder_of(const kiln_tracker *t, kiln_str name) {
    return kiln_tracker_find(&t->boards.of_name, name);
}

static void hold_name(kiln_tracker *t, kiln_tracker_board *board) {
    if (!holder_of(t, board->up.key))
        kiln_map_put(&t->boards.of_name, board->up.key, (uintptr_t)board);
}

static void release_name(kiln_tracker *t, const kiln_tracker_board *board) {
    if (board->known && holder_of(t, board->up.key) == board)
        kiln_map_remove(&t->boards.of_name, board->up.key);
}

kiln_tracker_board *kiln_tracker_board_taken_for(kiln_tracker *t, const kiln_tracker_peer *peer,
                                                 kiln_str name) {
    kiln_tracker_board *own = kiln_tracker_board_find(t, kiln_str_from(peer->node));
    kiln_tracker_board *other = kiln_tracker_board_find(t, name);
    if (own && own->proven[0] && !peer->has_key) return own;
    if (other && other != own && other->proven[0]) return other;
    other = holder_of(t, name);
    return other && other != own && (other->proven[0] || peer->has_key) ? other : NULL;
}

/* ---- Slots ---- */

uint32_t kiln_tracker_board_slots(const kiln_tracker_board *board) {
    uint32_t slots = 0;
    for (uint32_t i = 0; i < board->device_count; i++) slots += board->device[i].reported->slots;
    return slots;
}

kiln_tracker_device *kiln_tracker_board_device(const kiln_tracker_board *board, uint32_t slot) {
    for (uint32_t i = 0; i < board->device_count; i++)
        if (slot - board->device[i].first_slot < board->device[i].reported->slots)
            return &board->device[i];
    return NULL;
}

bool kiln_tracker_board_shares_device(const kiln_tracker_board *board, uint32_t slot,
                                      uint32_t other) {
    const kiln_tracker_device *device = kiln_tracker_board_device(board, slot);
    return device && device == kiln_tracker_board_device(board, other);
}

void kiln_tracker_board_hold(kiln_tracker_board *board, uint64_t lease, uint32_t slot, bool whole) {
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        if (i != slot && !(whole && kiln_tracker_board_shares_device(board, slot, i))) continue;
        board->slot[i] = lease;
        board->busy++;
    }
}

void kiln_tracker_board_release(kiln_tracker_board *board, uint64_t lease) {
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        if (board->slot[i] != lease) continue;
        board->slot[i] = 0;
        board->busy--;
    }
}

void kiln_tracker_board_learn_trial_time(kiln_tracker_board *board, uint64_t held_ns,
                                         uint32_t trials) {
    if (trials == 0 || held_ns == 0) return;
    double trial_ns = (double)held_ns / trials;
    board->trial_ns = board->trial_ns > 0 ? (board->trial_ns + trial_ns) / 2 : trial_ns;
}

/* ---- Whether it may be leased ---- */

void kiln_tracker_device_reserve(kiln_tracker_device *device,
                                 kiln_tracker_reservation *reservation) {
    device->reserved = reservation;
    reservation->device = device;
}

void kiln_tracker_device_unreserve(kiln_tracker_device *device) {
    device->reserved->device = NULL;
    device->reserved = NULL;
}

static void leave_idle(kiln_tracker *t, kiln_tracker_device *device) {
    kiln_tracker_device *last = kiln_vec_pop(&t->boards.idle);
    if (last != device) {
        t->boards.idle.data[device->idle_at - 1] = last;
        last->idle_at = device->idle_at;
    }
    device->idle_at = 0;
}

static bool is_available(const kiln_tracker_board *board) {
    return board->peer && !board->peer->closing && board->known && !board->sick &&
           !board->leaving && board->service == KILN_BOARD_IN_SERVICE && !board->lacking;
}

static void refresh_device(kiln_tracker *t, kiln_tracker_device *device, bool available) {
    const uint64_t *slot = &device->board->slot[device->first_slot];
    device->reported->busy = 0;
    for (uint32_t i = 0; i < device->reported->slots; i++) device->reported->busy += slot[i] != 0;
    if (!available && device->reserved) kiln_tracker_device_unreserve(device);
    bool has_room = available && device->reported->busy < device->reported->slots;
    bool idle = has_room && !device->reserved;
    if (device->idle_at && !idle) leave_idle(t, device);
    if (!device->idle_at && idle) {
        kiln_vec_push(&t->boards.idle, device);
        device->idle_at = t->boards.idle.count;
    }
    if (device->offered || !has_room || (device->reserved && device->reported->busy > 0)) return;
    device->offered = true;
    kiln_vec_push(&t->boards.offered, device);
}

void kiln_tracker_require_fences(kiln_tracker *t, uint32_t fences) { t->boards.fences = fences; }

void kiln_tracker_board_refresh(kiln_tracker *t, kiln_tracker_board *board) {
    board->changed = kiln_tracker_next_change(t);
    bool available = is_available(board);
    if (available != board->available) kiln_tracker_requirements_count(t, board, available);
    board->available = available;
    for (uint32_t i = 0; i < board->device_count; i++)
        refresh_device(t, &board->device[i], available && !board->upgrading);
}

void kiln_tracker_offer_idle(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->boards.idle.count; i++) {
        if (t->boards.idle.data[i]->offered) continue;
        t->boards.idle.data[i]->offered = true;
        kiln_vec_push(&t->boards.offered, t->boards.idle.data[i]);
    }
}

void kiln_tracker_boards_offer_releases(kiln_tracker *t, const kiln_digest *release,
                                        uint32_t count) {
    KILN_CHECK(count <= KILN_MESSAGES_RELEASES);
    if (count) memcpy(t->boards.release, release, count * sizeof *release);
    t->boards.release_count = count;
}

bool kiln_tracker_boards_is_release(const kiln_tracker *t, const kiln_digest *digest) {
    for (uint32_t i = 0; i < t->boards.release_count; i++)
        if (kiln_digest_equal(&t->boards.release[i], digest)) return true;
    return false;
}

kiln_tracker_device *kiln_tracker_boards_take_offered(kiln_tracker *t) {
    if (t->boards.offered.count == 0) return NULL;
    kiln_tracker_device *device = kiln_vec_pop(&t->boards.offered);
    device->offered = false;
    return device;
}

/* ---- Descriptions ---- */

static void bind_to_key(kiln_tracker_board *board, bool has_key) {
    board->proven[0] = 0;
    if (has_key) snprintf(board->proven, sizeof board->proven, "board/%s", board->node);
}

/* Makes the devices of `up`, which lies in the board's arena. */
static kiln_status make_devices(kiln_tracker_board *board) {
    const kiln_msg_board_up *up = &board->up;
    const uint32_t count = up->targets.count + 1;
    kiln_msg_board_target *reported = KILN_ARENA_ARRAY(&board->arena, kiln_msg_board_target, count);
    reported[0] = (kiln_msg_board_target){.target = up->target,
                                          .slots = up->slots,
                                          .device = up->device,
                                          .memory_bytes = up->memory_bytes};
    for (uint32_t i = 1; i < count; i++) reported[i] = up->targets.item[i - 1];
    board->device = kiln_alloc(count * sizeof *board->device);
    board->device_count = count;
    uint32_t slots = 0;
    for (uint32_t i = 0; i < count; i++) {
        kiln_tracker_device *device = &board->device[i];
        device->board = board;
        device->reported = &reported[i];
        device->first_slot = slots;
        slots += reported[i].slots;
        if (reported[i].slots == 0)
            return KILN_ERROR(INVALID_ARGUMENT, "a board has at least one slot for each target");
        kiln_status st = kiln_target_parse(reported[i].target, &board->arena, &device->target);
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

kiln_status kiln_tracker_board_describe(kiln_tracker *t, kiln_tracker_board *board,
                                        const kiln_message *message, bool has_key) {
    forget_devices(t, board);
    kiln_arena_reset(&board->arena);
    board->up = kiln_message_copy(message, &board->arena).board_up;
    kiln_status st = make_devices(board);
    if (st) {
        forget_devices(t, board);
        return kiln_status_note(st, "board %.*s", KILN_STR_ARG(board->up.key));
    }
    board->known = true;
    bind_to_key(board, has_key);
    hold_name(t, board);
    board->lacking = t->boards.fences & ~kiln_fences_known(board->up.fences);
    return KILN_OK;
}

/* ---- Coming and going ---- */

static void remove_board(kiln_tracker *t, kiln_tracker_board *board) {
    release_name(t, board);
    kiln_map_remove(&t->boards.of_node, kiln_str_from(board->node));
    kiln_tracker_remove(&t->boards.all, board);
    withdraw_offers(t, board);
    kiln_tracker_history_forget(t, board);
    free_board(board);
    t->boards.removed++;
}

static uint64_t remove_row(kiln_tracker *t, const kiln_tracker_board *board) {
    kiln_tracker_row row = {
        .kind = KILN_TRACKER_ROW_BOARD, .removed = true, .id = kiln_str_from(board->node)};
    return kiln_tracker_persist(t, &row, 1);
}

/* Whether the board has no lease, and no order keeps it out of service. */
static bool may_be_forgotten(const kiln_tracker_board *board) {
    return !board->peer && !board->busy && !board->order.persist &&
           board->service == KILN_BOARD_IN_SERVICE;
}

void kiln_tracker_forget_boards_after(kiln_tracker *t, uint64_t lost_ns) {
    t->boards.forget_lost_ns = lost_ns;
}

void kiln_tracker_boards_tick(kiln_tracker *t) {
    for (uint32_t i = t->boards.forget_lost_ns ? t->boards.all.count : 0; i-- > 0;) {
        kiln_tracker_board *board = t->boards.all.data[i];
        if (!may_be_forgotten(board)) continue;
        if (kiln_tracker_history_lost_ns(t, board) < t->boards.forget_lost_ns) continue;
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

/* Makes room by forgetting the board that is lost the longest. False: there is none to forget. */
static bool forget_one(kiln_tracker *t) {
    uint32_t oldest = UINT32_MAX;
    if (!t->effects.actions) return false; /* no row can be removed before the first step */
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        const kiln_tracker_board *board = t->boards.all.data[i];
        if (!may_be_forgotten(board)) continue;
        if (oldest == UINT32_MAX || board->lost_ns < t->boards.all.data[oldest]->lost_ns)
            oldest = i;
    }
    if (oldest == UINT32_MAX) return false;
    remove_row(t, t->boards.all.data[oldest]);
    remove_board(t, t->boards.all.data[oldest]);
    return true;
}

kiln_tracker_board *kiln_tracker_board_get(kiln_tracker *t, kiln_str node) {
    kiln_tracker_board *board = kiln_tracker_board_find(t, node);
    if (board) return board;
    if (t->boards.all.count >= KILN_TRACKER_BOARDS_MAX && !forget_one(t)) return NULL;
    board = kiln_alloc(sizeof *board);
    kiln_tracker_set_text(board->node, node);
    board->lost_ns = t->effects.now_ns;
    kiln_arena_init(&board->arena, KILN_TRACKER_ARENA_BYTES);
    kiln_vec_push(&t->boards.all, board);
    board->number = kiln_tracker_next_row(t);
    kiln_map_put(&t->boards.of_node, node, (uintptr_t)board);
    return board;
}

/* ---- On disk ---- */

uint64_t kiln_tracker_board_persist(kiln_tracker *t, kiln_tracker_board *board) {
    if (!board->known) return 0; /* only a lease names it so far; its BOARD_UP will describe it */
    kiln_msg_kept_board kept = {
        .key = board->up.key,
        .target = board->up.target,
        .slots = board->up.slots,
        .device = board->up.device,
        .memory_bytes = board->up.memory_bytes,
        .firmware = board->up.firmware,
        .service = board->service,
        .results = board->results,
        .ok = board->ok,
        .faults = board->faults,
        .fault_run = board->fault_run,
        .noise = board->noise,
        .drift = board->drift,
        .bound = board->proven[0] != 0,
    };
    kiln_msg_board_event past[KILN_TRACKER_PAST_MAX];
    kiln_tracker_history_list(board, past);
    kept.history.item = past;
    kept.history.count = board->past_count;
    if (board->service != KILN_BOARD_IN_SERVICE) kept.text = kiln_str_from(board->text);
    kept.labels.item = board->up.labels.item;
    kept.labels.count = board->up.labels.count;
    kept.targets.item = board->up.targets.item;
    kept.targets.count = board->up.targets.count;
    const kiln_tracker_row row = {.kind = KILN_TRACKER_ROW_BOARD, .id = kiln_str_from(board->node)};
    const uint64_t persist = kiln_tracker_persist_record(t, row, KILN_RECORD_kept_board, &kept);
    board->kept_results = board->results;
    kiln_tracker_history_forget(t, board);
    return persist;
}

void kiln_tracker_boards_write_events(kiln_tracker *t) {
    for (uint32_t i = 0; t->boards.unkept.count && i < EVENTS_PER_TICK; i++) {
        kiln_tracker_board *board = t->boards.unkept.data[0];
        kiln_tracker_history_forget(t, board);
        kiln_tracker_board_persist(t, board);
    }
}

kiln_status kiln_tracker_board_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    kiln_tracker_board *board = kiln_tracker_board_get(t, row->id);
    kiln_msg_kept_board kept = {0};
    kiln_status st = KILN_OK;
    if (!board || board->known)
        st = KILN_ERROR(DATA_LOSS, "there are two of it, or too many boards");
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
    board->changed = kiln_tracker_next_change(t);
    board->service = (kiln_board_service)kept.service;
    kiln_tracker_copy_text(board->text, sizeof board->text, kept.text);
    board->results = board->kept_results = kept.results;
    board->ok = kept.ok;
    board->faults = kept.faults;
    board->fault_run = kept.fault_run;
    board->noise = kept.noise;
    board->drift = kept.drift;
    kiln_tracker_history_restore(board, &kept);
    /* A quarantine by the tracker, not by a person, begins anew, because it is unknown how long the
     * tracker was away.
     */
    if (board->service == KILN_BOARD_QUARANTINED && board->fault_run >= KILN_TRACKER_FAULTS_MAX)
        board->probation_ns = t->effects.now_ns + KILN_TRACKER_PROBATION_NS;
    return KILN_OK;
}

/* ---- Invariants ---- */

static void check_device(const kiln_tracker *t, const kiln_tracker_device *device) {
    const bool has_room = device->board->available && !device->board->upgrading &&
                          device->reported->busy < device->reported->slots;
    KILN_CHECK((device->idle_at != 0) == (has_room && !device->reserved));
    KILN_CHECK(!device->idle_at || t->boards.idle.data[device->idle_at - 1] == device);
    KILN_CHECK(!device->reserved || device->reserved->device == device);
    KILN_CHECK(!device->reserved || (device->board->available && !device->board->upgrading));
}

static void check_requirement(const kiln_tracker *t, kiln_tracker_requirement *required) {
    uint32_t devices = 0, slots = 0;
    KILN_CHECK(required->users > 0);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        const kiln_tracker_board *board = t->boards.all.data[i];
        for (uint32_t d = 0; board->available && d < board->device_count; d++) {
            if (!kiln_tracker_requirement_fits(required, &board->device[d])) continue;
            devices++;
            slots += board->device[d].reported->slots;
        }
    }
    KILN_CHECK(required->devices == devices && required->slots == slots);
}

void kiln_tracker_boards_check(const kiln_tracker *t) {
    uint32_t idle = 0;
    for (uint32_t i = 0; i < t->boards.offered.count; i++)
        KILN_CHECK(t->boards.offered.data[i]->offered);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        const kiln_tracker_board *board = t->boards.all.data[i];
        uint32_t busy = 0;
        for (uint32_t slot = 0; slot < KILN_TRACKER_SLOTS_MAX; slot++)
            busy += board->slot[slot] != 0;
        KILN_CHECK(board->busy == busy);
        KILN_CHECK(board->available == is_available(board));
        KILN_CHECK(!board->peer || board->peer->board == board);
        for (uint32_t d = 0; d < board->device_count; d++) {
            check_device(t, &board->device[d]);
            idle += board->device[d].idle_at != 0;
        }
    }
    KILN_CHECK(idle == t->boards.idle.count);
    for (uint32_t i = 0; i < t->boards.requirements.count; i++)
        if (t->boards.requirements.data[i]) check_requirement(t, t->boards.requirements.data[i]);
}
