#include "rpc-server/server.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"
#include "rpc-server/state.h"

/* ---- The board's health ---- */

static bool is_sick(const kiln_server *s) { return kiln_health_is_sick(&s->health); }

static void tell_state(kiln_server *s) {
    s->told_sick = is_sick(s);
    kiln_message message = {
        .type = KILN_MSG_BOARD_STATE,
        .board_state = {.env = s->env,
                        .sick = s->told_sick,
                        .text = kiln_str_from(kiln_health_text(&s->health))},
    };
    kiln_server_send(s, &message);
}

static void on_checked(kiln_server *s, const kiln_server_event *event) {
    if (event->run == s->check_run) kiln_health_checked(&s->health, event->failure, s->now_ns);
}

static void tick_health(kiln_server *s) {
    if (kiln_health_check_is_over(&s->health, s->now_ns))
        kiln_server_act(s, KILN_SERVER_KILL)->run = s->check_run;
    if (!kiln_health_wants_cycle(&s->health, s->now_ns)) return;
    kiln_health_cycled(&s->health, s->now_ns);
    kiln_server_act(s, KILN_SERVER_POWER_CYCLE)->text =
        kiln_str_dup(&s->actions->arena, kiln_str_from(kiln_health_text(&s->health)));
}

static void on_reading(kiln_server *s, const kiln_server_event *event) {
    kiln_health_reading(&s->health, event->failure);
    if (event->env) s->env = *event->env;
    s->env.governor = (kiln_str){0}; /* borrowed from the caller; BOARD_UP already said it */
    tell_state(s);
}

/* ---- Messages ---- */

static void refuse(kiln_server *s, const kiln_msg_trial *trial, kiln_code code, const char *text) {
    kiln_message error = kiln_message_error(code, 0, text);
    error.error.about = trial->trial;
    error.error.lease = trial->lease;
    kiln_server_send(s, &error);
}

/* Refuses leases that are older than the newest one that the slot has seen. A newer lease ends the
 * slot's trials of older ones. */
static bool pass_fence(kiln_server *s, const kiln_msg_trial *trial) {
    uint64_t *newest = &s->slot_lease[trial->slot];
    if (trial->lease < *newest) return false;
    *newest = trial->lease;
    for (uint32_t i = s->entry.count; i-- > 0;) {
        kiln_server_entry *e = s->entry.data[i];
        if (e->trial.slot == trial->slot && e->trial.lease < trial->lease) kiln_server_void(s, e);
    }
    return true;
}

/* Whether the memory that a run of a module needs at least fits into its slot's share. */
static bool fits_memory(const kiln_server *s, const kiln_msg_trial *trial) {
    const uint64_t share = s->board.memory_bytes / 4 * 3 / s->slots;
    const uint64_t wanted =
        trial->artefact.size + trial->reference.size + trial->module.output_bytes;
    return trial->module.threads == 0 || s->board.memory_bytes == 0 || wanted <= share;
}

static void on_trial(kiln_server *s, const kiln_message *message) {
    const kiln_msg_trial *trial = &message->trial;
    if (trial->slot >= s->slots) {
        refuse(s, trial, KILN_INVALID_ARGUMENT, "the board has no such slot");
        return;
    }
    kiln_server_entry *known = kiln_server_find(s, trial->trial, trial->attempt, trial->lease);
    if (known) { /* a repeated TRIAL; its result may have been lost */
        if (known->state == KILN_ENTRY_KEPT) kiln_server_send_result(s, known);
        return;
    }
    if (!pass_fence(s, trial)) {
        refuse(s, trial, KILN_ABORTED, "the slot has seen a newer lease");
        return;
    }
    if (s->entry.count >= KILN_SERVER_TRIALS_MAX) {
        refuse(s, trial, KILN_RESOURCE_EXHAUSTED, "too many trials on this board");
        return;
    }
    kiln_server_take(
        s, message,
        fits_memory(s, trial)
            ? NULL
            : "module, inputs and outputs need more memory than a slot of this board has");
}

static void on_ack(kiln_server *s, const kiln_msg_trial_ack *ack) {
    kiln_server_entry *e = kiln_server_find(s, ack->trial, ack->attempt, ack->lease);
    if (e && e->state == KILN_ENTRY_KEPT) kiln_server_forget(s, e);
}

static void on_cancel(kiln_server *s, const kiln_msg_cancel *cancel) {
    bool whole_lease = cancel->scope == KILN_CANCEL_LEASE;
    if (cancel->scope != KILN_CANCEL_TRIAL && !whole_lease) return;
    for (uint32_t i = s->entry.count; i-- > 0;) {
        kiln_server_entry *e = s->entry.data[i];
        if (e->trial.lease != cancel->lease) continue;
        if (!whole_lease && !kiln_str_equal(e->trial.trial, cancel->id)) continue;
        if (e->state == KILN_ENTRY_RUNNING)
            kiln_server_kill(s, e, KILN_OUTCOME_INFRA, "cancelled");
        else if (e->state == KILN_ENTRY_FETCHING || e->state == KILN_ENTRY_BUILDING ||
                 e->state == KILN_ENTRY_READY)
            kiln_server_fail(s, e, KILN_OUTCOME_INFRA, "cancelled");
    }
}

static void on_message(kiln_server *s, const kiln_message *message) {
    kiln_link_heard(&s->link, s->now_ns);
    switch ((int)message->type) {
    case KILN_MSG_TRIAL: on_trial(s, message); break;
    case KILN_MSG_TRIAL_ACK: on_ack(s, &message->trial_ack); break;
    case KILN_MSG_CANCEL: on_cancel(s, &message->cancel); break;
    case KILN_MSG_UPGRADE: kiln_server_upgrade_ordered(s, &message->upgrade); break;
    case KILN_MSG_LEASE_LOST: kiln_server_void_lease(s, message->lease_lost.lease); break;
    case KILN_MSG_PING: {
        kiln_message pong = {
            .type = KILN_MSG_PONG, .stream = message->stream, .pong = {.t_ns = message->ping.t_ns}};
        kiln_server_send(s, &pong);
        break;
    }
    default: break; /* PONG, ERROR, GOAWAY: only their arrival matters */
    }
}

/* ---- The connection ---- */

static void introduce(kiln_server *s) {
    kiln_message up = {.type = KILN_MSG_BOARD_UP, .board_up = s->board};
    kiln_msg_running *running =
        KILN_ARENA_ARRAY(&s->actions->arena, kiln_msg_running, s->entry.count);
    up.board_up.running.item = running;
    for (uint32_t i = 0; i < s->entry.count; i++) {
        const kiln_msg_trial *trial = &s->entry.data[i]->trial;
        if (s->entry.data[i]->is_void) continue;
        running[up.board_up.running.count++] =
            (kiln_msg_running){trial->trial, trial->attempt, trial->lease};
    }
    kiln_server_send(s, &up);
    if (is_sick(s)) tell_state(s);
    kiln_server_upgrade_opened(s);
    for (uint32_t i = 0; i < s->entry.count; i++) {
        kiln_server_entry *e = s->entry.data[i];
        if (e->state == KILN_ENTRY_KEPT) kiln_server_send_result(s, e);
        if (e->state != KILN_ENTRY_FETCHING) continue;
        kiln_server_excuse_fetches(e);
        kiln_server_fetch(s, e);
    }
}

static void on_closed(kiln_server *s) {
    kiln_link_closed(&s->link, s->now_ns);
    for (uint32_t i = 0; i < s->entry.count; i++) kiln_server_excuse_fetches(s->entry.data[i]);
}

static void tick_link(kiln_server *s) {
    kiln_link_want want = kiln_link_tick(&s->link, s->now_ns);
    if (want == KILN_LINK_DIAL) kiln_server_act(s, KILN_SERVER_DIAL);
    if (want == KILN_LINK_HANG_UP) kiln_server_act(s, KILN_SERVER_HANG_UP);
    if (want == KILN_LINK_PING) {
        kiln_message ping = {.type = KILN_MSG_PING, .ping = {.t_ns = s->now_ns}};
        kiln_server_send(s, &ping);
    }
}

/* ---- Time ---- */

uint64_t kiln_server_next_ns(const kiln_server *s) {
    uint64_t next =
        KILN_MIN(kiln_link_next_ns(&s->link), kiln_health_next_ns(&s->health, s->now_ns));
    next = KILN_MIN(next, kiln_server_upgrade_next_ns(s));
    for (uint32_t i = 0; i < s->entry.count; i++)
        next = KILN_MIN(next, kiln_server_entry_next_ns(s, s->entry.data[i]));
    return next;
}

void kiln_server_step(kiln_server *s, uint64_t now_ns, const kiln_server_event *event,
                      kiln_server_actions *actions) {
    KILN_CHECK(now_ns >= s->now_ns);
    s->now_ns = now_ns;
    s->actions = actions;
    switch (event->kind) {
    case KILN_SERVER_OPENED:
        kiln_link_opened(&s->link, now_ns);
        introduce(s);
        break;
    case KILN_SERVER_CLOSED: on_closed(s); break;
    case KILN_SERVER_MESSAGE: on_message(s, event->message); break;
    case KILN_SERVER_FETCHED:
        kiln_server_on_fetched(s, event);
        kiln_server_upgrade_fetched(s, event);
        break;
    case KILN_SERVER_BUILT: kiln_server_on_built(s, event); break;
    case KILN_SERVER_LOADED: kiln_server_on_loaded(s, event); break;
    case KILN_SERVER_PHASE: kiln_server_on_phase(s, event); break;
    case KILN_SERVER_VACATED:
    case KILN_SERVER_FINISHED:
    case KILN_SERVER_DIED: kiln_server_on_gone(s, event); break;
    case KILN_SERVER_CHECKED: on_checked(s, event); break;
    case KILN_SERVER_READING: on_reading(s, event); break;
    case KILN_SERVER_LAUNCHER: kiln_server_upgrade_answered(s, event->failure); break;
    case KILN_SERVER_TICK: break;
    }
    tick_link(s);
    for (uint32_t i = 0; i < s->entry.count; i++) kiln_server_tick_entry(s, s->entry.data[i]);
    kiln_server_upgrade_tick(s);
    kiln_server_start(s);
    tick_health(s);
    if (is_sick(s) != s->told_sick) tell_state(s);
    s->actions = NULL;
}

/* ---- Life ---- */

uint32_t kiln_board_up_slots(const kiln_msg_board_up *board) {
    uint32_t slots = board->slots;
    for (uint32_t i = 0; i < board->targets.count; i++) slots += board->targets.item[i].slots;
    return slots;
}

kiln_server *kiln_server_create(const kiln_server_options *options, uint64_t now_ns) {
    kiln_server *s = kiln_alloc(sizeof *s);
    kiln_arena_init(&s->arena, 1024);
    kiln_message up = {.type = KILN_MSG_BOARD_UP, .board_up = *options->board};
    s->board = kiln_message_copy(&up, &s->arena).board_up;
    s->board.running.count = 0;
    kiln_server_upgrade_init(&s->upgrade, options);
    s->board.upgrades = s->upgrade.keys.count > 0;
    s->slots = kiln_board_up_slots(&s->board);
    KILN_CHECK(s->slots > 0);
    KILN_CHECK(s->slots <= KILN_SERVER_SLOTS_MAX);
    const uint32_t all = (1U << s->slots) - 1;
    for (uint32_t slot = 0; slot < s->slots; slot++)
        s->disturbs[slot] = (options->disturbs ? options->disturbs[slot] : all) & ~(1U << slot);
    s->env = s->board.env;
    s->env.governor = (kiln_str){0};
    s->now_ns = now_ns;
    kiln_health_init(&s->health, options->check_ns, now_ns);
    kiln_link_init(&s->link, now_ns, options->seed);
    return s;
}

void kiln_server_destroy(kiln_server *s) {
    if (!s) return;
    while (s->entry.count) kiln_server_forget(s, s->entry.data[0]);
    kiln_vec_deinit(&s->entry);
    kiln_arena_deinit(&s->arena);
    kiln_health_deinit(&s->health);
    kiln_server_upgrade_deinit(&s->upgrade);
    kiln_free(s);
}

kiln_server_counts kiln_server_counts_of(const kiln_server *s) {
    kiln_server_counts counts = {.sick = is_sick(s)};
    for (uint32_t i = 0; i < s->entry.count; i++) {
        const kiln_server_entry *e = s->entry.data[i];
        counts.waiting += e->state == KILN_ENTRY_FETCHING || e->state == KILN_ENTRY_BUILDING ||
                          e->state == KILN_ENTRY_READY;
        counts.running += kiln_server_has_child(e) || e->state == KILN_ENTRY_JUDGING;
        counts.kept += e->state == KILN_ENTRY_KEPT;
    }
    return counts;
}
