#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tracker/state.h"
#include "tracker/tracker.h"

/* ---- Peers ---- */

/* Ends what depends on the connection. The entry itself is removed when CLOSED comes. */
static void end_dependents(kiln_tracker *t, kiln_tracker_peer *peer, const char *why) {
    kiln_tracker_board_requests_peer_gone(t, peer);
    kiln_tracker_record_questions_peer_gone(t, peer);
    kiln_tracker_board *board = peer->board;
    if (board) kiln_tracker_board_lost(t, board, why);
    if (board) kiln_tracker_upgrades_board_lost(t, board);
    kiln_tracker_jobs_peer_gone(t, peer);
    kiln_tracker_watches_peer_gone(t, peer);
    if (peer->role == KILN_PEER_TUNER) kiln_tracker_set_fleet_changed(t);
}

/* Closes the older connection of a program that has connected again, which must be dead. People and
 * web servers may have several connections. */
static void replace_older(kiln_tracker *t, kiln_tracker_peer *newer) {
    if (kiln_tracker_is_person(newer) || newer->role == KILN_PEER_WEB) return;
    kiln_tracker_peer *older = kiln_tracker_peer_replace(t, newer);
    if (!older) return;
    kiln_tracker_drop(t, older, KILN_ABORTED,
                      "a newer connection of the same node replaces this one");
    end_dependents(t, older, "it connected again");
}

/* A peer can state any boot. It may not hold leases if its boot is that of another node that is
 * connected or holds leases; but a tuner takes precedence over a person. */
static bool may_be_holder(kiln_tracker *t, const kiln_tracker_peer *peer) {
    const kiln_tracker_peer *holder = kiln_tracker_holder_by_boot(t, peer->boot);
    if (peer->role != KILN_PEER_TUNER && !kiln_tracker_is_person(peer)) return false;
    kiln_thread_walks(t->leases.all.count);
    for (uint32_t i = 0; i < t->leases.all.count; i++)
        if (strcmp(t->leases.all.data[i]->tuner, peer->boot) == 0 &&
            t->leases.all.data[i]->node[0] && strcmp(t->leases.all.data[i]->node, peer->node) != 0)
            return false;
    return !holder || strcmp(holder->node, peer->node) == 0 ||
           (peer->role == KILN_PEER_TUNER && kiln_tracker_is_person(holder));
}

static void on_connected(kiln_tracker *t, uint64_t id, const kiln_msg_hello *hello,
                         const kiln_tracker_who *who) {
    kiln_tracker_peer *peer = kiln_tracker_peer_add(t, id, hello, who);
    if (kiln_tracker_is_person(peer))
        kiln_tracker_peer_set_person(peer, kiln_tracker_person_get(t, peer));
    if (peer->role == KILN_PEER_TRACKER || peer->role >= KILN_PEER_COUNT || !peer->node[0] ||
        !peer->boot[0]) {
        kiln_tracker_drop(t, peer, KILN_INVALID_ARGUMENT,
                          "HELLO must say a role, a node and a boot");
        return;
    }
    if (peer->role == KILN_PEER_BOARD && kiln_tracker_board_refuses(t, peer, (kiln_str){0})) return;
    replace_older(t, peer);
    if (may_be_holder(t, peer)) kiln_tracker_peer_may_hold(t, peer);
    if (peer->role != KILN_PEER_TUNER) return;
    kiln_tracker_leases_tuner_up(t, peer);
    kiln_tracker_jobs_tuner_up(t, peer);
    kiln_tracker_set_fleet_changed(t);
}

static void on_closed(kiln_tracker *t, uint64_t id) {
    kiln_tracker_peer *peer = kiln_tracker_peer_find(t, id);
    if (!peer) return;
    kiln_tracker_peer_closed(peer);
    end_dependents(t, peer, "its connection closed");
    kiln_tracker_peer_remove(t, peer);
}

static void drop_silent_peers(kiln_tracker *t) {
    kiln_tracker_peers_excuse(t);
    kiln_thread_walks(t->peers.all.count);
    for (uint32_t i = 0; i < t->peers.all.count; i++) {
        kiln_tracker_peer *peer = t->peers.all.data[i];
        if (peer->closing || t->effects.now_ns - peer->heard_ns < KILN_LINK_SILENCE_NS) continue;
        kiln_tracker_drop(t, peer, KILN_DEADLINE_EXCEEDED, "no sign of life for 6 s");
        end_dependents(t, peer, "it gave no sign of life for 6 s");
    }
}

/* ---- Kicks ---- */

/* Whether a person calls the peer so: by its node or name, or by the name of its board. */
static bool is_named(const kiln_tracker_peer *peer, kiln_str text) {
    return kiln_tracker_is_named(text, kiln_str_from(peer->node), kiln_str_from(peer->name)) ||
           (peer->board && kiln_str_equal(peer->board->up.key, text));
}

/* The connected peer with this name, other than `asker`; NULL: there is none, or several
 * (`*out_several`). */
static kiln_tracker_peer *find_kicked(kiln_tracker *t, const kiln_tracker_peer *asker,
                                      kiln_str text, bool *out_several) {
    kiln_tracker_peer *found = NULL;
    *out_several = false;
    kiln_thread_walks(t->peers.all.count);
    for (uint32_t i = 0; i < t->peers.all.count; i++) {
        kiln_tracker_peer *peer = t->peers.all.data[i];
        if (peer == asker || peer->closing || !is_named(peer, text)) continue;
        *out_several |=
            found && (found->role != peer->role || strcmp(found->node, peer->node) != 0);
        found = peer;
    }
    return *out_several ? NULL : found;
}

/* Closes all connections of the peer, as one person may have several. */
static void on_kick(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message) {
    const kiln_str text = message->kick.peer;
    bool several = false;
    const kiln_tracker_peer *found = find_kicked(t, client, text, &several);
    if (!found) {
        kiln_tracker_send_error(t, client, message->stream,
                                several ? KILN_INVALID_ARGUMENT : KILN_NOT_FOUND, (kiln_str){0}, 0,
                                several ? "several peers are called %.*s: name one by its node"
                                        : "no peer %.*s is connected",
                                KILN_STR_ARG(text));
        return;
    }
    kiln_message reply = {.type = KILN_MSG_KICKED,
                          .stream = message->stream,
                          .kicked = {.role = (uint32_t)found->role,
                                     .node = kiln_str_from(found->node),
                                     .name = kiln_str_from(found->name)}};
    const kiln_peer_role role = found->role;
    const char *node = found->node;
    for (uint32_t i = 0; i < t->peers.all.count; i++) {
        kiln_tracker_peer *peer = t->peers.all.data[i];
        if (peer == client || peer->closing || peer->role != role || strcmp(peer->node, node) != 0)
            continue;
        reply.kicked.count++;
        kiln_tracker_drop(t, peer, KILN_CANCELLED, "an administrator closed the connection");
        end_dependents(t, peer, "an administrator closed its connection");
    }
    kiln_tracker_send(t, client, &reply);
}

/* ---- Messages ---- */

typedef void (*message_rule)(kiln_tracker *, kiln_tracker_peer *, const kiln_message *);

static void on_ping(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    /* A tuner reports its leases as soon as it reconnects, and sends its first PING a heartbeat
     * later. */
    if (peer->role == KILN_PEER_TUNER) kiln_tracker_leases_tuner_settled(t, peer);
    kiln_message pong = {
        .type = KILN_MSG_PONG, .stream = message->stream, .pong = {.t_ns = message->ping.t_ns}};
    kiln_tracker_send(t, peer, &pong);
}

static void on_board_up(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    kiln_tracker_board *before = peer->board;
    kiln_tracker_board_up(t, peer, message);
    if (peer->board)
        kiln_tracker_upgrades_board_up(t, peer->board);
    else if (before) /* it was refused, and is lost */
        kiln_tracker_upgrades_board_lost(t, before);
}

static void on_nothing(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    (void)t, (void)peer, (void)message; /* receiving it is enough: the peer was heard */
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

/* The handler of each message. Messages that only the tracker sends, and blobs, which the shell
 * handles, have none. */
static const message_rule rule_table[] = {
    [KILN_MSG_PING] = on_ping,
    [KILN_MSG_PONG] = kiln_tracker_pong,
    [KILN_MSG_ERROR] = on_nothing,
    [KILN_MSG_GOAWAY] = kiln_tracker_board_goaway,
    [KILN_MSG_BOARD_UP] = on_board_up,
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
    [KILN_MSG_TAIL] = kiln_tracker_log_request,
    [KILN_MSG_LINES] = kiln_tracker_log_lines,
    [KILN_MSG_PROJECT_ORDER] = kiln_tracker_project_order,
    [KILN_MSG_PROJECT_QUERY] = kiln_tracker_project_query,
    [KILN_MSG_KICK] = on_kick,
    [KILN_MSG_SIGN_IN] = kiln_tracker_sign_in,
    [KILN_MSG_JOB_ORDER] = kiln_tracker_job_order,
    [KILN_MSG_RESERVE] = kiln_tracker_reserve,
    [KILN_MSG_MAINTENANCE_ORDER] = kiln_tracker_maintenance_order,
    [KILN_MSG_MAINTENANCE_QUERY] = kiln_tracker_maintenance_query,
    [KILN_MSG_RECORDS_ASK] = kiln_tracker_records_ask,
    [KILN_MSG_RECORDS_PAGE] = kiln_tracker_records_page,
    [KILN_MSG_UPGRADE_ORDER] = kiln_tracker_upgrade_order,
    [KILN_MSG_UPGRADE_QUERY] = kiln_tracker_upgrade_query,
    [KILN_MSG_UPGRADED] = kiln_tracker_upgraded,
};

static message_rule find_rule(kiln_message_type type) {
    return (unsigned)type < KILN_ARRAY_COUNT(rule_table) ? rule_table[type] : NULL;
}

static void on_message(kiln_tracker *t, uint64_t id, const kiln_message *message) {
    kiln_tracker_peer *peer = kiln_tracker_peer_find(t, id);
    if (!peer || peer->closing) return;
    kiln_tracker_peer_heard(t, peer);
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
    if (!kiln_tracker_take_tick(t)) return;
    drop_silent_peers(t);
    kiln_tracker_leases_tick(t);
    kiln_tracker_quotas_tick(t);
    kiln_tracker_board_service_tick(t);
    kiln_tracker_calendar_tick(t);
    kiln_tracker_upgrades_tick(t); /* before boards are removed, as it needs those it has */
    kiln_tracker_boards_tick(t);
    kiln_tracker_boards_write_events(t);
    if (kiln_tracker_shares_begin(t)) {
        kiln_tracker_leases_tell_cost(t);
        kiln_tracker_shares_keep(t);
    }
    kiln_tracker_puts_tick(t);
    kiln_tracker_jobs_tick(t);
    kiln_tracker_watches_tick(t);
    kiln_tracker_board_requests_tick(t);
    kiln_tracker_record_questions_tick(t);
}

void kiln_tracker_step(kiln_tracker *t, uint64_t now_ns, const kiln_tracker_event *event,
                       kiln_tracker_actions *actions) {
    kiln_tracker_effects_begin(t, now_ns, actions);
    switch (event->kind) {
    case KILN_TRACKER_CONNECTED: on_connected(t, event->peer, event->hello, &event->who); break;
    case KILN_TRACKER_CLOSED: on_closed(t, event->peer); break;
    case KILN_TRACKER_MESSAGE: on_message(t, event->peer, event->message); break;
    case KILN_TRACKER_PERSISTED:
        if (kiln_tracker_lease_persisted(t, event->persist, event->failure)) break;
        kiln_tracker_cancel_persisted(t, event->persist, event->failure);
        if (!kiln_tracker_assignment_persisted(t, event->persist, event->failure))
            kiln_tracker_job_persisted(t, event->persist, event->failure);
        kiln_tracker_order_persisted(t, event->persist, event->failure);
        kiln_tracker_calendar_persisted(t, event->persist, event->failure);
        kiln_tracker_project_persisted(t, event->persist, event->failure);
        kiln_tracker_upgrades_persisted(t, event->persist, event->failure);
        kiln_tracker_upgrade_order_persisted(t, event->persist, event->failure);
        break;
    case KILN_TRACKER_TICK: on_tick(t); break;
    }
    kiln_tracker_upgrades_advance(t);
    if (kiln_tracker_take_fleet_changed(t)) kiln_tracker_jobs_tick(t);
    kiln_tracker_grant(t);
    kiln_tracker_effects_end(t);
#ifdef KILN_CHECK_INVARIANTS
    kiln_tracker_check(t);
#endif
}

/* ---- Life ---- */

static kiln_status restore(kiln_tracker *t, const kiln_tracker_row *row) {
    switch (row->kind) {
    case KILN_TRACKER_ROW_PERSON:
    case KILN_TRACKER_ROW_PROJECT:
    case KILN_TRACKER_ROW_MEMBER:
    case KILN_TRACKER_ROW_QUOTA:
    case KILN_TRACKER_ROW_SHARE:
    case KILN_TRACKER_ROW_SIGNER: return kiln_tracker_project_restore(t, row);
    case KILN_TRACKER_ROW_FIGURES: return kiln_tracker_figures_restore(t, row);
    case KILN_TRACKER_ROW_BLOB: return kiln_tracker_put_restore(t, row);
    case KILN_TRACKER_ROW_JOB: return kiln_tracker_job_restore(t, row);
    case KILN_TRACKER_ROW_BOARD: return kiln_tracker_board_restore(t, row);
    case KILN_TRACKER_ROW_CALENDAR: return kiln_tracker_calendar_restore(t, row);
    case KILN_TRACKER_ROW_UPGRADE: return kiln_tracker_upgrades_restore(t, row);
    case KILN_TRACKER_ROW_LEASE: return kiln_tracker_lease_restore(t, row);
    case KILN_TRACKER_ROW_EPOCH: kiln_tracker_epoch_restore(t, row); return KILN_OK;
    case KILN_TRACKER_ROW_KIND_COUNT: break;
    }
    return KILN_ERROR(DATA_LOSS, "a stored row of kind %d", (int)row->kind);
}

kiln_status kiln_tracker_create(const kiln_tracker_row *row, uint32_t row_count, uint64_t now_ns,
                                kiln_tracker **out_tracker) {
    kiln_tracker *t = kiln_alloc(sizeof *t);
    kiln_tracker_effects_init(t, now_ns);
    kiln_tracker_peers_init(t, now_ns);
    kiln_tracker_people_init(t);
    kiln_tracker_projects_init(t);
    kiln_tracker_boards_init(t);
    kiln_tracker_jobs_init(t);
    kiln_tracker_queue_init(t);
    kiln_tracker_leases_init(t);
    kiln_tracker_blobs_init(t);
    kiln_tracker_calendar_init(t);
    kiln_status st = KILN_OK;
    /* In the order of the kinds, because a lease refers to its job, board and share. */
    for (unsigned kind = 0; kind < KILN_TRACKER_ROW_KIND_COUNT; kind++)
        for (uint32_t i = 0; !st && i < row_count; i++)
            if (row[i].kind == (kiln_tracker_row_kind)kind) st = restore(t, &row[i]);
    if (st) {
        kiln_tracker_destroy(t);
        return st;
    }
    kiln_tracker_puts_restored(t);
    kiln_tracker_upgrades_restored(t);
    *out_tracker = t;
    return KILN_OK;
}

void kiln_tracker_destroy(kiln_tracker *t) {
    if (!t) return;
    kiln_tracker_upgrades_free(t);
    kiln_tracker_record_questions_free(t);
    kiln_tracker_board_requests_free(t);
    kiln_tracker_watches_free(t);
    kiln_tracker_calendar_orders_free(t);
    kiln_tracker_calendar_free(t);
    kiln_tracker_project_orders_free(t);
    kiln_tracker_cancels_free(t);
    kiln_tracker_puts_free(t);
    kiln_tracker_leases_free(t);
    kiln_tracker_requests_free(t);
    kiln_tracker_jobs_free(t);
    kiln_tracker_boards_free(t);
    kiln_tracker_projects_free(t);
    kiln_tracker_people_free(t);
    kiln_tracker_peers_free(t);
    kiln_free(t);
}

void kiln_tracker_check(const kiln_tracker *t) {
    if (t->boards.all.count > KILN_TRACKER_CHECKED_BOARDS) return;
    kiln_tracker_peers_check(t);
    kiln_tracker_sign_ins_check(t);
    kiln_tracker_calendar_check(t);
    kiln_tracker_projects_check(t);
    kiln_tracker_boards_check(t);
    kiln_tracker_jobs_check(t);
    kiln_tracker_queue_check(t);
    kiln_tracker_leases_check(t);
    kiln_tracker_blobs_check(t);
    kiln_tracker_upgrades_check(t);
}
