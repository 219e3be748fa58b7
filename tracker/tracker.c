#include "tracker/tracker.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tracker/state.h"

/* ---- Actions ---- */

static kiln_tracker_action *add_action(kiln_tracker *t, kiln_tracker_action_kind kind) {
    kiln_tracker_action action = {.kind = kind};
    kiln_vec_push(&t->actions->list, action);
    return &kiln_vec_last(&t->actions->list);
}

void kiln_tracker_send(kiln_tracker *t, const kiln_tracker_peer *peer,
                       const kiln_message *message) {
    if (!peer || peer->closing) return;
    kiln_tracker_action *action = add_action(t, KILN_TRACKER_SEND);
    action->peer = peer->id;
    action->message = kiln_message_copy(message, &t->actions->arena);
}

void kiln_tracker_send_error(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                             kiln_code code, kiln_str about, uint64_t lease, const char *format,
                             ...) {
    kiln_strbuf text = {0};
    va_list args;
    va_start(args, format);
    kiln_strbuf_vprintf(&text, format, args);
    va_end(args);
    kiln_message message = kiln_message_error(code, stream, text.data);
    message.error.about = about;
    message.error.lease = lease;
    kiln_tracker_send(t, peer, &message);
    kiln_strbuf_deinit(&text);
}

void kiln_tracker_drop(kiln_tracker *t, kiln_tracker_peer *peer, kiln_code code, const char *text) {
    if (peer->closing) return;
    peer->closing = true;
    kiln_tracker_action *action = add_action(t, KILN_TRACKER_CLOSE);
    action->peer = peer->id;
    action->code = code;
    action->text = kiln_str_dup(&t->actions->arena, kiln_str_from(text));
}

kiln_tracker_row kiln_tracker_row_copy(const kiln_tracker_row *row, kiln_arena *arena) {
    kiln_tracker_row copy = *row;
    kiln_str *text[] = {&copy.id,    &copy.state, &copy.body, &copy.board,
                        &copy.tuner, &copy.node,  &copy.job};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        text[i]->data = kiln_arena_copy(arena, text[i]->data, text[i]->size);
    return copy;
}

uint64_t kiln_tracker_persist(kiln_tracker *t, const kiln_tracker_row *row, uint32_t count) {
    kiln_arena *arena = &t->actions->arena;
    kiln_tracker_row *copy = KILN_ARENA_ARRAY(arena, kiln_tracker_row, count);
    for (uint32_t i = 0; i < count; i++) copy[i] = kiln_tracker_row_copy(&row[i], arena);
    kiln_tracker_action *action = add_action(t, KILN_TRACKER_PERSIST);
    action->row = copy;
    action->row_count = count;
    action->persist = ++t->persist;
    return action->persist;
}

void kiln_tracker_persist_later(kiln_tracker *t, const kiln_tracker_row *row, uint32_t count) {
    kiln_tracker_persist(t, row, count);
    kiln_vec_last(&t->actions->list).may_wait = true;
}

void kiln_tracker_drop_blob(kiln_tracker *t, const kiln_digest *digest) {
    add_action(t, KILN_TRACKER_DROP_BLOB)->blob = *digest;
}

void kiln_tracker_log(kiln_tracker *t, const kiln_tracker_note *note) {
    kiln_arena *arena = &t->actions->arena;
    kiln_tracker_note *copy = kiln_arena_copy(arena, note, sizeof *note);
    kiln_str *text[] = {&copy->job, &copy->board, &copy->trial, &copy->tuner, &copy->text};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        text[i]->data = kiln_arena_copy(arena, text[i]->data, text[i]->size);
    add_action(t, KILN_TRACKER_LOG)->note = copy;
}

void kiln_tracker_actions_reset(kiln_tracker_actions *actions) {
    kiln_arena_reset(&actions->arena);
    actions->list.count = 0;
}

void kiln_tracker_actions_deinit(kiln_tracker_actions *actions) {
    kiln_arena_deinit(&actions->arena);
    kiln_vec_deinit(&actions->list);
}

/* ---- Peers ---- */

static kiln_str id_key(const uint64_t *id) { return (kiln_str){(const char *)id, sizeof *id}; }

kiln_tracker_peer *kiln_tracker_peer_find(kiln_tracker *t, uint64_t id) {
    uint64_t value = 0;
    return kiln_map_find(&t->peer_of_id, id_key(&id), &value)
               ? (kiln_tracker_peer *)(uintptr_t)value
               : NULL;
}

void kiln_tracker_set_text(kiln_tracker_text out, kiln_str text) {
    size_t size = KILN_MIN(text.size, (size_t)KILN_MESSAGES_TEXT);
    if (size) memcpy(out, text.data, size);
    out[size] = 0;
}

kiln_tracker_peer *kiln_tracker_holder_by_boot(kiln_tracker *t, const char *boot) {
    uint64_t value = 0;
    if (!kiln_map_find(&t->holder_of_boot, kiln_str_from(boot), &value)) return NULL;
    kiln_tracker_peer *holder = (kiln_tracker_peer *)(uintptr_t)value;
    return holder->closing ? NULL : holder;
}

kiln_tracker_peer *kiln_tracker_tuner_by_node(kiln_tracker *t, const char *node) {
    for (uint32_t i = 0; i < t->tuner.count; i++) {
        kiln_tracker_peer *tuner = t->tuner.data[i];
        if (!tuner->closing && strcmp(tuner->node, node) == 0) return tuner;
    }
    return NULL;
}

/* Forgets what stood and fell with the connection. The entry itself goes when CLOSED comes. */
static void let_go(kiln_tracker *t, kiln_tracker_peer *peer, const char *why) {
    kiln_tracker_asks_peer_gone(t, peer);
    if (peer->board) kiln_tracker_board_lost(t, peer->board, why);
    kiln_tracker_jobs_peer_gone(t, peer);
    kiln_tracker_watches_peer_gone(t, peer);
    t->fleet_changed |= peer->role == KILN_PEER_TUNER;
}

bool kiln_tracker_is_person(const kiln_tracker_peer *peer) {
    return peer->role == KILN_PEER_CLIENT || peer->role == KILN_PEER_ADMIN;
}

static kiln_str node_key(const kiln_tracker_peer *peer, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%d/%s", (int)peer->role, peer->node);
    return kiln_strbuf_view(out);
}

/* The same program connected again: its older connection is dead, whatever the network says. A
 * tuner that was started anew does not know the leases of its former run. One person may well run
 * two commands. */
static void replace_older(kiln_tracker *t, kiln_tracker_peer *newer) {
    kiln_strbuf name = {0};
    uint64_t value = 0;
    if (kiln_tracker_is_person(newer)) return;
    kiln_str key = node_key(newer, &name);
    bool found = kiln_map_find(&t->peer_of_node, key, &value);
    kiln_map_put(&t->peer_of_node, key, (uintptr_t)newer);
    kiln_strbuf_deinit(&name);
    kiln_tracker_peer *older = found ? (kiln_tracker_peer *)(uintptr_t)value : NULL;
    if (!older || older->closing) return;
    kiln_tracker_drop(t, older, KILN_ABORTED,
                      "a newer connection of the same node replaces this one");
    let_go(t, older, "it connected again");
}

/* Takes it from where it is found. */
static void remove_peer(kiln_tracker *t, const kiln_tracker_peer *peer) {
    kiln_strbuf name = {0};
    uint64_t value = 0;
    kiln_str key = node_key(peer, &name);
    if (kiln_map_find(&t->peer_of_node, key, &value) && value == (uintptr_t)peer)
        kiln_map_remove(&t->peer_of_node, key);
    kiln_strbuf_deinit(&name);
    key = kiln_str_from(peer->boot);
    if (kiln_map_find(&t->holder_of_boot, key, &value) && value == (uintptr_t)peer)
        kiln_map_remove(&t->holder_of_boot, key);
    kiln_map_remove(&t->peer_of_id, id_key(&peer->id));
    kiln_tracker_peer *last = kiln_vec_pop(&t->peer);
    t->peer.data[peer->index] = last; /* which may be itself */
    last->index = peer->index;
    if (peer->role == KILN_PEER_TUNER) kiln_tracker_remove(&t->tuner, peer);
}

/* A boot is what a peer says itself: who says that of another node, which holds leases or is here,
 * lies; but a tuner goes before a person. */
static bool may_be_holder(kiln_tracker *t, const kiln_tracker_peer *peer) {
    const kiln_tracker_peer *holder = kiln_tracker_holder_by_boot(t, peer->boot);
    if (peer->role != KILN_PEER_TUNER && !kiln_tracker_is_person(peer)) return false;
    kiln_thread_walks(t->lease.count);
    for (uint32_t i = 0; i < t->lease.count; i++)
        if (strcmp(t->lease.data[i]->tuner, peer->boot) == 0 && t->lease.data[i]->node[0] &&
            strcmp(t->lease.data[i]->node, peer->node) != 0)
            return false;
    return !holder || strcmp(holder->node, peer->node) == 0 ||
           (peer->role == KILN_PEER_TUNER && kiln_tracker_is_person(holder));
}

static void on_connected(kiln_tracker *t, uint64_t id, const kiln_msg_hello *hello,
                         const kiln_tracker_who *who) {
    KILN_CHECK(kiln_tracker_peer_find(t, id) == NULL);
    kiln_tracker_peer *peer = kiln_alloc(sizeof *peer);
    peer->is_owner = who->is_owner;
    peer->is_admin = who->is_admin;
    peer->is_proven = who->is_proven;
    peer->has_key = who->has_key;
    kiln_tracker_set_text(peer->person, kiln_str_from(who->person));
    peer->id = id;
    peer->role = (kiln_peer_role)hello->role;
    peer->heard_ns = t->now_ns;
    kiln_tracker_set_text(peer->node, hello->node);
    kiln_tracker_set_text(peer->boot, hello->boot);
    kiln_tracker_set_text(peer->name, hello->name);
    if (kiln_tracker_is_person(peer)) peer->known = kiln_tracker_person_get(t, peer);
    peer->version = KILN_MIN(hello->version_max, KILN_PROTO_VERSION_MAX);
    const size_t size = KILN_MIN(hello->software.size, sizeof peer->software - 1);
    if (size) memcpy(peer->software, hello->software.data, size);
    peer->signs = hello->signer.size == sizeof peer->signer.byte;
    if (peer->signs) memcpy(peer->signer.byte, hello->signer.data, sizeof peer->signer.byte);
    peer->index = t->peer.count;
    kiln_vec_push(&t->peer, peer);
    if (peer->role == KILN_PEER_TUNER) kiln_vec_push(&t->tuner, peer);
    kiln_map_put(&t->peer_of_id, id_key(&id), (uintptr_t)peer);
    if (peer->role == KILN_PEER_TRACKER || peer->role >= KILN_PEER_COUNT || !peer->node[0] ||
        !peer->boot[0]) {
        kiln_tracker_drop(t, peer, KILN_INVALID_ARGUMENT,
                          "HELLO must say a role, a node and a boot");
        return;
    }
    if (peer->role == KILN_PEER_BOARD && kiln_tracker_board_refuses(t, peer, (kiln_str){0})) return;
    replace_older(t, peer);
    if (may_be_holder(t, peer))
        kiln_map_put(&t->holder_of_boot, kiln_str_from(peer->boot), (uintptr_t)peer);
    if (peer->role != KILN_PEER_TUNER) return;
    kiln_tracker_leases_tuner_up(t, peer);
    kiln_tracker_jobs_tuner_up(t, peer);
    t->fleet_changed = true;
}

static void on_closed(kiln_tracker *t, uint64_t id) {
    kiln_tracker_peer *peer = kiln_tracker_peer_find(t, id);
    if (!peer) return;
    peer->closing = true; /* it is no tuner to be found any more */
    let_go(t, peer, "its connection closed");
    remove_peer(t, peer);
    kiln_free(peer);
}

/* Silence counts while the tracker itself was there to hear: what held it up (a busy machine, a
 * suspended one) held up the peers' words too. */
static void drop_silent_peers(kiln_tracker *t) {
    uint64_t held_up_ns = t->now_ns - t->ticked_ns;
    if (held_up_ns > KILN_LINK_HEARTBEAT_NS)
        for (uint32_t i = 0; i < t->peer.count; i++)
            t->peer.data[i]->heard_ns = KILN_MIN(t->peer.data[i]->heard_ns + held_up_ns, t->now_ns);
    t->ticked_ns = t->now_ns;
    kiln_thread_walks(t->peer.count);
    for (uint32_t i = 0; i < t->peer.count; i++) {
        kiln_tracker_peer *peer = t->peer.data[i];
        if (peer->closing || t->now_ns - peer->heard_ns < KILN_LINK_SILENCE_NS) continue;
        kiln_tracker_drop(t, peer, KILN_DEADLINE_EXCEEDED, "no sign of life for 6 s");
        let_go(t, peer, "it gave no sign of life for 6 s");
    }
}

/* ---- Messages ---- */

typedef void (*message_rule)(kiln_tracker *, kiln_tracker_peer *, const kiln_message *);

static void on_ping(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    /* A tuner says what it holds as soon as it is back, and a heartbeat later at the earliest
     * pings. */
    if (peer->role == KILN_PEER_TUNER) kiln_tracker_leases_tuner_settled(t, peer);
    kiln_message pong = {
        .type = KILN_MSG_PONG, .stream = message->stream, .pong = {.t_ns = message->ping.t_ns}};
    kiln_tracker_send(t, peer, &pong);
}

static void on_nothing(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    (void)t, (void)peer, (void)message; /* that it came is all there is to know */
}

static void on_goaway(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    (void)message;
    if (!peer->board) return;
    peer->board->leaving = true;
    kiln_tracker_board_happened(t, peer->board, KILN_TRACKER_PAST_GOES, "it ends what it has");
    kiln_tracker_board_refresh(t, peer->board);
    kiln_tracker_board_wind_down(t, peer->board);
}

static void on_cancel(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    if (message->cancel.scope == KILN_CANCEL_JOB && kiln_tracker_is_person(peer))
        kiln_tracker_job_cancel(t, peer, message);
    else if (message->cancel.scope != KILN_CANCEL_JOB && peer->role == KILN_PEER_TUNER)
        kiln_tracker_trial_down(t, peer, message);
    else
        kiln_tracker_send_error(t, peer, message->stream, KILN_PERMISSION_DENIED,
                                message->cancel.id, 0, "a %s cannot cancel that",
                                kiln_peer_role_name(peer->role));
}

/* What the tracker does with each message; those that only it sends, and blobs, which the shell
 * moves, have no row. */
static const message_rule rule_table[] = {
    [KILN_MSG_PING] = on_ping,
    [KILN_MSG_PONG] = kiln_tracker_pong,
    [KILN_MSG_ERROR] = on_nothing,
    [KILN_MSG_GOAWAY] = on_goaway,
    [KILN_MSG_BOARD_UP] = kiln_tracker_board_up,
    [KILN_MSG_BOARD_STATE] = kiln_tracker_board_state,
    [KILN_MSG_JOB_OPEN] = kiln_tracker_job_open,
    [KILN_MSG_JOB_EVENT] = kiln_tracker_job_event,
    [KILN_MSG_JOB_DONE] = kiln_tracker_job_done,
    [KILN_MSG_JOB_CLOSE] = kiln_tracker_job_close,
    [KILN_MSG_LEASE_REQ] = kiln_tracker_lease_req,
    [KILN_MSG_LEASE_RENEW] = kiln_tracker_lease_renew,
    [KILN_MSG_LEASE_RELEASE] = kiln_tracker_lease_release,
    [KILN_MSG_TRIAL] = kiln_tracker_trial_down,
    [KILN_MSG_TRIAL_ACK] = kiln_tracker_trial_down,
    [KILN_MSG_TRIAL_EVENT] = kiln_tracker_trial_up,
    [KILN_MSG_TRIAL_RESULT] = kiln_tracker_trial_up,
    [KILN_MSG_CANCEL] = on_cancel,
    [KILN_MSG_QUERY] = kiln_tracker_query,
    [KILN_MSG_WATCH] = kiln_tracker_watch,
    [KILN_MSG_BOARD_ORDER] = kiln_tracker_board_order,
    [KILN_MSG_PROBE] = kiln_tracker_probe_boards,
    [KILN_MSG_TAIL] = kiln_tracker_tail_ask,
    [KILN_MSG_LINES] = kiln_tracker_tail_lines,
    [KILN_MSG_PROJECT_ORDER] = kiln_tracker_project_order,
    [KILN_MSG_PROJECT_QUERY] = kiln_tracker_project_query,
};

static message_rule find_rule(kiln_message_type type) {
    return (unsigned)type < KILN_ARRAY_COUNT(rule_table) ? rule_table[type] : NULL;
}

static void on_message(kiln_tracker *t, uint64_t id, const kiln_message *message) {
    kiln_tracker_peer *peer = kiln_tracker_peer_find(t, id);
    if (!peer || peer->closing) return;
    peer->heard_ns = t->now_ns;
    message_rule rule = find_rule(message->type);
    bool is_board = peer->role == KILN_PEER_BOARD;
    if (!rule || !kiln_message_may_send(message->type, peer->role))
        kiln_tracker_send_error(t, peer, message->stream, KILN_PERMISSION_DENIED, (kiln_str){0}, 0,
                                "a %s may not send %s", kiln_peer_role_name(peer->role),
                                kiln_message_name(message->type));
    else if (is_board && !peer->board &&
             (message->type == KILN_MSG_BOARD_STATE || rule == kiln_tracker_trial_up))
        kiln_tracker_send_error(t, peer, message->stream, KILN_FAILED_PRECONDITION, (kiln_str){0},
                                0, "a board sends BOARD_UP before %s",
                                kiln_message_name(message->type));
    else if (kiln_tracker_is_allowed(t, peer, message))
        rule(t, peer, message);
}

/* ---- The step ---- */

static void on_tick(kiln_tracker *t) {
    if (t->now_ns < t->next_tick_ns) return;
    t->next_tick_ns = t->now_ns + KILN_TRACKER_TICK_NS;
    drop_silent_peers(t);
    kiln_tracker_leases_tick(t);
    kiln_tracker_quotas_tick(t);
    kiln_tracker_duties_tick(t);
    kiln_tracker_boards_tick(t);
    kiln_tracker_history_tick(t);
    kiln_tracker_shares_tick(t);
    kiln_tracker_puts_tick(t);
    kiln_tracker_jobs_tick(t);
    kiln_tracker_watches_tick(t);
    kiln_tracker_asks_tick(t);
}

void kiln_tracker_step(kiln_tracker *t, uint64_t now_ns, const kiln_tracker_event *event,
                       kiln_tracker_actions *actions) {
    KILN_CHECK(now_ns >= t->now_ns);
    t->now_ns = now_ns;
    t->actions = actions;
    switch (event->kind) {
    case KILN_TRACKER_CONNECTED: on_connected(t, event->peer, event->hello, &event->who); break;
    case KILN_TRACKER_CLOSED: on_closed(t, event->peer); break;
    case KILN_TRACKER_MESSAGE: on_message(t, event->peer, event->message); break;
    case KILN_TRACKER_PERSISTED:
        if (kiln_tracker_lease_persisted(t, event->persist, event->failure)) break;
        kiln_tracker_cancel_persisted(t, event->persist, event->failure);
        kiln_tracker_job_persisted(t, event->persist, event->failure);
        kiln_tracker_order_persisted(t, event->persist, event->failure);
        kiln_tracker_project_persisted(t, event->persist, event->failure);
        break;
    case KILN_TRACKER_TICK: on_tick(t); break;
    }
    if (t->fleet_changed) {
        t->fleet_changed = false;
        kiln_tracker_jobs_tick(t);
    }
    kiln_tracker_grant(t);
    t->actions = NULL;
}

uint64_t kiln_tracker_next_ns(const kiln_tracker *t) { return t->next_tick_ns; }

/* ---- Life ---- */

static kiln_status restore(kiln_tracker *t, const kiln_tracker_row *row) {
    switch (row->kind) {
    case KILN_TRACKER_ROW_PERSON:
    case KILN_TRACKER_ROW_PROJECT:
    case KILN_TRACKER_ROW_MEMBER:
    case KILN_TRACKER_ROW_QUOTA:
    case KILN_TRACKER_ROW_SIGNER: return kiln_tracker_project_restore(t, row);
    case KILN_TRACKER_ROW_FIGURES: return kiln_tracker_figures_restore(t, row);
    case KILN_TRACKER_ROW_BLOB: return kiln_tracker_put_restore(t, row);
    case KILN_TRACKER_ROW_JOB: return kiln_tracker_job_restore(t, row);
    case KILN_TRACKER_ROW_SHARE: return kiln_tracker_share_restore(t, row);
    case KILN_TRACKER_ROW_BOARD: return kiln_tracker_board_restore(t, row);
    case KILN_TRACKER_ROW_LEASE: return kiln_tracker_lease_restore(t, row);
    case KILN_TRACKER_ROW_EPOCH: t->epoch = KILN_MAX(t->epoch, row->epoch); return KILN_OK;
    case KILN_TRACKER_ROW_KIND_COUNT: break;
    }
    return KILN_ERROR(DATA_LOSS, "a stored row of kind %d", (int)row->kind);
}

kiln_status kiln_tracker_create(const kiln_tracker_row *row, uint32_t row_count, uint64_t now_ns,
                                kiln_tracker **out_tracker) {
    kiln_tracker *t = kiln_alloc(sizeof *t);
    t->now_ns = t->next_tick_ns = t->ticked_ns = now_ns;
    t->change = t->first_change = now_ns + 1; /* 0 is before all */
    kiln_map *map[] = {&t->peer_of_id,       &t->peer_of_node,     &t->holder_of_boot,
                       &t->board_of_node,    &t->board_of_name,    &t->want_of_text,
                       &t->project_of_name,  &t->request_of_key,   &t->lease_of_number,
                       &t->lease_of_request, &t->lease_of_persist, &t->job_of_id,
                       &t->person_of_name,   &t->put_of_digest};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(map); i++) kiln_map_init(map[i]);
    kiln_status st = KILN_OK;
    /* In the order of the kinds: a lease names its job and its board, and takes from its share. */
    for (unsigned kind = 0; kind < KILN_TRACKER_ROW_KIND_COUNT; kind++)
        for (uint32_t i = 0; !st && i < row_count; i++)
            if (row[i].kind == (kiln_tracker_row_kind)kind) st = restore(t, &row[i]);
    if (st) {
        kiln_tracker_destroy(t);
        return st;
    }
    kiln_tracker_puts_restored(t);
    *out_tracker = t;
    return KILN_OK;
}

void kiln_tracker_destroy(kiln_tracker *t) {
    if (!t) return;
    for (uint32_t i = 0; i < t->peer.count; i++) kiln_free(t->peer.data[i]);
    kiln_tracker_requests_free(t);
    kiln_tracker_leases_free(t);
    kiln_tracker_jobs_free(t);
    kiln_tracker_boards_free(t);
    kiln_tracker_projects_free(t);
    kiln_tracker_wants_free(t);
    kiln_tracker_watches_free(t);
    kiln_tracker_asks_free(t);
    kiln_vec_deinit(&t->peer);
    kiln_vec_deinit(&t->tuner);
    kiln_map_deinit(&t->peer_of_id);
    kiln_map_deinit(&t->peer_of_node);
    kiln_map_deinit(&t->holder_of_boot);
    for (uint32_t i = 0; i < t->person.count; i++) kiln_free(t->person.data[i]);
    kiln_vec_deinit(&t->person);
    kiln_vec_deinit(&t->figures);
    kiln_map_deinit(&t->person_of_name);
    kiln_vec_deinit(&t->project_change);
    kiln_vec_deinit(&t->cancel);
    kiln_tracker_puts_free(t);
    kiln_free(t);
}
