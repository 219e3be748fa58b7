#include "tracker/shell.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/identity.h"
#include "base/log.h"
#include "base/map.h"
#include "base/trace.h"
#include "db/db.h"
#include "proto/event_queue.h"
#include "tracker/audit.h"
#include "tracker/blob_files.h"
#include "tracker/key_list.h"
#include "tracker/listeners.h"
#include "tracker/pages.h"
#include "tracker/persistence.h"
#include "tracker/tracker.h"

#define EXPIRE_AUDIT_NS (UINT64_C(3600) * KILN_NS_PER_S)
#define SOFTWARE "kiln-tracker 0.1.0"
#define GOAWAY_MS 0u
#define LEAD_NS UINT64_C(200000000) /* between two checks which tracker leads */

struct kiln_tracker_shell {
    kiln_loop *loop;
    kiln_tracker_shell_options options;
    kiln_arena arena; /* of the whole run */
    char boot[KILN_HASH128_TEXT];
    int lock_fd;
    kiln_db *db;
    kiln_tracker_blob_files *blobs;
    uint64_t expire_audit_ns; /* when old lines are looked for again */
    kiln_tracker_key_list *keys;
    kiln_audit *audit;
    kiln_tracker_pages *pages;
    kiln_tracker_listeners *listeners; /* NULL: another tracker leads, this one stands by */

    kiln_tracker *tracker;
    kiln_tracker_actions actions;
    kiln_event_queue *events; /* NULL: the shell is being destroyed, nothing is decided any more */
    kiln_tracker_persistence *persistence;
    kiln_map conns; /* kiln_conn_id to kiln_conn */
    kiln_timer *lead;
    kiln_status failure; /* why the run ends */
};

/* Makes the step from the rows that the last tracker left. */
static kiln_status create_tracker(kiln_tracker_shell *shell) {
    kiln_arena arena;
    kiln_tracker_row *rows = NULL;
    uint32_t count = 0;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_tracker_rows_read(shell->db, &arena, &rows, &count);
    if (!st) st = kiln_tracker_create(rows, count, kiln_loop_now_ns(shell->loop), &shell->tracker);
    if (!st) kiln_tracker_set_wall(shell->tracker, kiln_clock_wall_ns());
    if (!st) kiln_tracker_blob_files_set_tracker(shell->blobs, shell->tracker);
    if (!st) kiln_tracker_blob_files_pin(shell->blobs, rows, count);
    if (!st) kiln_tracker_require_fences(shell->tracker, shell->options.fences);
    if (!st) kiln_tracker_forget_boards_after(shell->tracker, shell->options.forget_lost_ns);
    if (!st) kiln_tracker_know_keys(shell->tracker, kiln_tracker_key_list_find, shell->keys);
    if (!st) kiln_tracker_know_tokens(shell->tracker, kiln_tracker_key_list_token, shell->keys);
    if (!st) kiln_tracker_limit_blobs(shell->tracker, shell->options.person_blob_bytes);
    if (!st && count > 0) kiln_log(KILN_LOG_INFO, "goes on with %u rows of the last run", count);
    kiln_arena_deinit(&arena);
    return st;
}

/* ---- Events in, actions out ---- */

static void keep_event(void *event, kiln_arena *arena) {
    kiln_tracker_event *e = event;
    e->failure = kiln_event_keep_text(e->failure, arena);
    e->message = kiln_event_keep_message(e->message, arena);
    if (e->hello)
        e->hello = &kiln_event_keep_message(
                        &(kiln_message){.type = KILN_MSG_HELLO, .hello = *e->hello}, arena)
                        ->hello;
}

static kiln_str key_of(const uint64_t *peer) {
    return (kiln_str){(const char *)peer, sizeof *peer};
}

static kiln_conn *find_conn(kiln_tracker_shell *shell, uint64_t peer) {
    uint64_t conn = 0;
    return kiln_map_find(&shell->conns, key_of(&peer), &conn) ? (kiln_conn *)(uintptr_t)conn : NULL;
}

static void send_message(kiln_tracker_shell *shell, uint64_t peer, const kiln_message *message) {
    kiln_conn *conn = find_conn(shell, peer);
    if (message->type == KILN_MSG_LEASE_GRANT) kiln_fail_pass(KILN_FAIL_TRACKER_GRANT);
    if (message->type == KILN_MSG_TRIAL) kiln_fail_pass(KILN_FAIL_TRACKER_TRIAL);
    if (message->type == KILN_MSG_TRIAL_RESULT) kiln_fail_pass(KILN_FAIL_TRACKER_RESULT);
    if (message->type == KILN_MSG_TRIAL_ACK) kiln_fail_pass(KILN_FAIL_TRACKER_ACK);
    if (message->type == KILN_MSG_JOB_DONE) kiln_fail_pass(KILN_FAIL_TRACKER_DONE);
    kiln_status st = conn ? kiln_conn_send(conn, message) : NULL;
    if (st)
        kiln_log(KILN_LOG_ERROR, "sending %s: %s", kiln_message_name(message->type),
                 kiln_status_text(st));
    kiln_status_free(st);
    if (message->type == KILN_MSG_LEASE_GRANT) kiln_fail_pass(KILN_FAIL_TRACKER_GRANTED);
    if (message->type == KILN_MSG_JOB_ASSIGN) kiln_fail_pass(KILN_FAIL_TRACKER_ASSIGNED);
}

static void close_peer(kiln_tracker_shell *shell, const kiln_tracker_action *action) {
    kiln_conn *conn = find_conn(shell, action->peer);
    if (!conn) return;
    kiln_status why = kiln_status_make(action->code, __FILE__, __LINE__, "%s", action->text);
    if (action->code == KILN_PERMISSION_DENIED) /* the peer is not what it claims to be */
        kiln_audit_refused(shell->audit, kiln_conn_peer(conn), why, kiln_loop_now_ns(shell->loop));
    kiln_conn_close(conn, why);
}

/* Ends the run with `failure`, which is taken. */
static void give_up(kiln_tracker_shell *shell, kiln_status failure) {
    if (shell->failure)
        kiln_status_free(failure); /* the first failure is reported */
    else
        shell->failure = failure;
    kiln_loop_stop(shell->loop);
}

/* Writes the note to the log, and to the trace if its kind is traced. */
static void write_note(kiln_tracker_shell *shell, const kiln_tracker_note *note) {
    enum { KILN_TRACE_NONE = KILN_TRACE_NAME_COUNT };
    static const struct {
        kiln_log_level level;
        const char *text;
        unsigned trace;
        kiln_trace_phase phase;
    } row[] = {
#define X(NAME, level, text, trace, phase, id) \
    {KILN_LOG_##level, text, KILN_TRACE_##trace, KILN_TRACE_##phase},
#include "tracker/journal.def"
#undef X
    };
    char number[24] = "";
    if (note->lease) snprintf(number, sizeof number, "%llu", (unsigned long long)note->lease);
    kiln_str job = note->job, board = note->board, trial = note->trial, text = note->text,
             lease = kiln_str_from(number), id = {0};
    switch (note->what) {
#define X(NAME, level, text, trace, phase, field) \
    case KILN_TRACKER_##NAME: id = field; break;
#include "tracker/journal.def"
#undef X
    }
    const kiln_log_field field[] = {{"job", job},     {"trial", trial},       {"lease", lease},
                                    {"board", board}, {"tuner", note->tuner}, {"text", text}};
    kiln_log_event(row[note->what].level, row[note->what].text, field, KILN_ARRAY_COUNT(field));
    if (row[note->what].trace != KILN_TRACE_NONE)
        kiln_trace_event(row[note->what].phase, (kiln_trace_name)row[note->what].trace, id,
                         kiln_loop_now_ns(shell->loop), field, KILN_ARRAY_COUNT(field));
}

static void audit_sign_in(kiln_tracker_shell *shell, const kiln_tracker_note *note) {
    const bool is_wrong = note->what == KILN_TRACKER_SIGN_IN_REFUSED;
    const kiln_conn *conn = find_conn(shell, note->peer);
    if (conn && (is_wrong || note->what == KILN_TRACKER_SIGNED_IN))
        kiln_audit_sign_in(shell->audit, kiln_conn_peer(conn), note->text, !is_wrong,
                           kiln_loop_now_ns(shell->loop));
}

static void carry_out(kiln_tracker_shell *shell, const kiln_tracker_action *action) {
    switch (action->kind) {
    case KILN_TRACKER_SEND: send_message(shell, action->peer, &action->message); break;
    case KILN_TRACKER_CLOSE: close_peer(shell, action); break;
    case KILN_TRACKER_PERSIST:
        kiln_tracker_blob_files_pin(shell->blobs, action->row, action->row_count);
        kiln_tracker_persistence_add(shell->persistence, action);
        break;
    case KILN_TRACKER_LOG:
        write_note(shell, action->note);
        audit_sign_in(shell, action->note);
        break;
    case KILN_TRACKER_DROP_BLOB: kiln_tracker_blob_files_drop(shell->blobs, &action->blob); break;
    }
}

static void decide(void *context, const void *event) {
    kiln_tracker_shell *shell = context;
    if (shell->failure) return;
    kiln_tracker_actions_reset(&shell->actions);
    kiln_tracker_step(shell->tracker, kiln_loop_now_ns(shell->loop), event, &shell->actions);
    for (uint32_t i = 0; i < shell->actions.list.count; i++)
        carry_out(shell, &shell->actions.list.data[i]);
}

static uint64_t next_ns(void *context) {
    const kiln_tracker_shell *shell = context;
    return kiln_tracker_next_ns(shell->tracker);
}

/* While events are left no peer is read, so that the queue does not grow. */
static void end_turn(void *context, bool is_empty) {
    kiln_tracker_shell *shell = context;
    kiln_tracker_persistence_turn(shell->persistence);
    kiln_loop_pause_reading(shell->loop, !is_empty);
}

/* Decides the PERSISTED events of a group that is durable or has failed. A tracker that has lost
 * the lead decides nothing more, nor does one that stops. */
static void on_kept(void *context, uint64_t first, uint64_t last, kiln_status failure) {
    kiln_tracker_shell *shell = context;
    if (!shell->events) {
        kiln_status_free(failure);
        return;
    }
    if (kiln_status_code(failure) == KILN_ABORTED) {
        give_up(shell, failure);
        return;
    }
    if (failure) kiln_log(KILN_LOG_ERROR, "cannot keep the state: %s", kiln_status_text(failure));
    kiln_tracker_event event = {.kind = KILN_TRACKER_PERSISTED,
                                .failure = failure ? kiln_status_text(failure) : NULL};
    for (event.persist = first; event.persist <= last; event.persist++) decide(shell, &event);
    kiln_status_free(failure);
    kiln_tracker_persistence_turn(shell->persistence);
    kiln_event_queue_set_tick(shell->events);
}

static void on_tick(void *context) {
    kiln_tracker_shell *shell = context;
    kiln_tracker_persistence_commit(shell->persistence);
    kiln_tracker_blob_files_tick(shell->blobs);
    if (kiln_loop_now_ns(shell->loop) >= shell->expire_audit_ns) {
        kiln_audit_expire(shell->audit, shell->options.keep_audit_days);
        shell->expire_audit_ns = kiln_loop_now_ns(shell->loop) + EXPIRE_AUDIT_NS;
    }
    kiln_event_queue_post(shell->events, &(kiln_tracker_event){.kind = KILN_TRACKER_TICK});
}

/* ---- Connections ---- */

/* An --insecure tracker, too, treats only a proven user as its owner. */
static kiln_tracker_who who_of(const kiln_peer *peer) {
    return (kiln_tracker_who){.is_owner = peer->is_owner,
                              .is_admin = peer->is_admin,
                              .is_proven = peer->is_owner || peer->key[0] || peer->by_web ||
                                           peer->uid != KILN_UID_UNKNOWN,
                              .has_key = peer->key[0] && !peer->by_web,
                              .person = peer->person};
}

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)welcome;
    kiln_tracker_shell *shell = context;
    uint64_t peer = kiln_conn_id(conn);
    kiln_map_put(&shell->conns, key_of(&peer), (uint64_t)(uintptr_t)conn);
    kiln_tracker_blob_files_attach(shell->blobs, conn);
    const kiln_peer *who = kiln_conn_peer(conn);
    kiln_log(KILN_LOG_INFO, "%s %.*s connected%s%s%s%s", kiln_peer_role_name(who->role),
             KILN_STR_ARG(hello->name.size > 0 ? hello->name : hello->node),
             who->key[0] ? " with key " : "", who->key, who->by_web ? " for " : "",
             who->by_web ? who->person : "");
    kiln_msg_hello as = *hello; /* a web server's connection has the role of its person */
    as.role = who->role;
    kiln_event_queue_post(shell->events, &(kiln_tracker_event){.kind = KILN_TRACKER_CONNECTED,
                                                               .peer = peer,
                                                               .hello = &as,
                                                               .who = who_of(who)});
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    kiln_tracker_shell *shell = context;
    if (kiln_audit_is_recorded(message))
        kiln_audit_act(shell->audit, kiln_conn_peer(conn), message);
    if (message->type == KILN_MSG_BOARD_UP) kiln_fail_pass(KILN_FAIL_TRACKER_BOARD);
    if (message->type == KILN_MSG_JOB_OPEN) kiln_fail_pass(KILN_FAIL_TRACKER_OPEN);
    if (message->type == KILN_MSG_LEASE_REQ) kiln_fail_pass(KILN_FAIL_TRACKER_REQUEST);
    kiln_event_queue_post(shell->events, &(kiln_tracker_event){.kind = KILN_TRACKER_MESSAGE,
                                                               .peer = kiln_conn_id(conn),
                                                               .message = message});
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    kiln_tracker_shell *shell = context;
    uint64_t peer = kiln_conn_id(conn);
    kiln_log(KILN_LOG_DEBUG, "peer %llu is gone: %s", (unsigned long long)peer,
             kiln_status_text(why));
    if (kiln_map_remove(&shell->conns, key_of(&peer)))
        kiln_event_queue_post(shell->events,
                              &(kiln_tracker_event){.kind = KILN_TRACKER_CLOSED, .peer = peer});
}

static void on_refused(void *context, const kiln_peer *peer, kiln_status why) {
    kiln_tracker_shell *shell = context;
    kiln_audit_refused(shell->audit, peer, why, kiln_loop_now_ns(shell->loop));
}

static kiln_status find_person(void *context, const kiln_peer *peer, bool *out_admin) {
    const kiln_tracker_shell *shell = context;
    const bool is_member = kiln_tracker_is_member(shell->tracker, kiln_str_from(peer->person));
    return kiln_tracker_key_list_admit(shell->keys, peer, is_member, out_admin);
}

static void on_losses(void *context, const kiln_net_stats *since) {
    (void)context;
    kiln_log(
        KILN_LOG_WARN,
        "too many connections: of %llu accepted, %llu completed their handshake; %llu silent ones "
        "were closed for others, %llu had no descriptor, %llu could not be accepted (`ulimit "
        "-n` shows the number of descriptors)",
        (unsigned long long)since->accepted, (unsigned long long)since->welcomed,
        (unsigned long long)since->crowded_out, (unsigned long long)since->no_descriptor,
        (unsigned long long)since->accept_errors);
}

static const kiln_conn_handler conn_handler = {on_opened, on_message, on_closed};

static kiln_status listen_to_peers(kiln_tracker_shell *shell) {
    const kiln_listen_options common = {.boot = shell->boot,
                                        .software = SOFTWARE,
                                        .insecure = shell->options.insecure,
                                        .keyring = kiln_tracker_key_list_keyring(shell->keys),
                                        .origins = &shell->options.origins,
                                        .handler = &conn_handler,
                                        .context = shell,
                                        .refused = on_refused,
                                        .find_person = find_person,
                                        .on_losses = on_losses};
    return kiln_tracker_listeners_open(shell->loop, &shell->options, &common, &shell->listeners);
}

static void on_key_file(void *context) {
    kiln_tracker_shell *shell = context;
    kiln_tracker_listeners_set_keyring(shell->listeners,
                                       kiln_tracker_key_list_keyring(shell->keys));
}

static void on_hangup(void *context, int number) {
    (void)number;
    kiln_tracker_shell *shell = context;
    kiln_tracker_key_list_reload(shell->keys);
}

/* ---- Life ---- */

static kiln_status open_parts(kiln_tracker_shell *shell) {
    const kiln_tracker_shell_options *own = &shell->options;
    const char *state = own->state_folder, *db_path = own->db_path;
    kiln_status st = kiln_folder_create(state, 0700);
    if (!st) st = kiln_folder_lock(state, &shell->lock_fd);
    if (!st)
        st =
            kiln_audit_open(kiln_arena_printf(&shell->arena, "%s/audit.log", state), &shell->audit);
    if (!st) kiln_loop_on_signal(shell->loop, SIGHUP, on_hangup, shell);
    if (!st)
        st = kiln_tracker_key_list_open(shell->loop, own->keys, own->home, shell->audit,
                                        &shell->keys);
    if (!st) kiln_tracker_key_list_on_opened(shell->keys, on_key_file, shell);
    if (!st) st = kiln_identity_create(shell->boot);
    if (!st)
        st = kiln_tracker_blob_files_open(shell->loop, state, own->blobs, own->keep_blobs_ns,
                                          &shell->blobs);
    if (!db_path) db_path = kiln_arena_printf(&shell->arena, "%s/tracker.db", state);
    if (!st) st = kiln_db_open(db_path, KILN_DB_TRACKER, KILN_DB_WRITE, &shell->db);
    if (!st)
        shell->persistence =
            kiln_tracker_persistence_create(shell->loop, shell->db, on_kept, shell);
    if (!st)
        st = kiln_tracker_pages_open(shell->loop, own->http, own->insecure, own->http_port_file,
                                     &shell->pages);
    if (!st) kiln_tracker_pages_set_site(shell->pages, state, shell->keys);
    return st;
}

static kiln_status serve(kiln_tracker_shell *shell) {
    kiln_status st = kiln_fail_at(KILN_FAIL_TRACKER_LEAD);
    if (!st) st = create_tracker(shell);
    if (!st) st = kiln_fail_at(KILN_FAIL_TRACKER_SERVE);
    if (!st) st = listen_to_peers(shell);
    if (!st) kiln_tracker_pages_set_tracker(shell->pages, shell->tracker);
    if (!st) on_tick(shell);
    return st;
}

/* Takes the lead when it is free, and fails when this tracker has lost it. */
static kiln_status check_lead(kiln_tracker_shell *shell) {
    bool leads = false;
    kiln_status st = kiln_db_lead(shell->db, &leads);
    if (!st && leads && !shell->listeners) st = serve(shell);
    return st;
}

static void on_lead(void *context) {
    kiln_tracker_shell *shell = context;
    /* A commit under way uses the database, and fails if the lead is lost. */
    kiln_status st =
        kiln_tracker_persistence_is_busy(shell->persistence) ? NULL : check_lead(shell);
    /* A tracker that stands by survives a restart of the database's server. */
    if (!shell->listeners && kiln_status_code(st) == KILN_UNAVAILABLE) {
        kiln_log(KILN_LOG_WARN, "stands by: %s", kiln_status_text(st));
        kiln_status_free(st);
        st = NULL;
    }
    if (st)
        give_up(shell, st);
    else
        kiln_timer_start(shell->lead, LEAD_NS);
}

kiln_status kiln_tracker_shell_create(const kiln_tracker_shell_options *options,
                                      kiln_tracker_shell **out_shell) {
    KILN_CHECK(options->address_count >= 1 && options->address_count <= KILN_TRACKER_ADDRESSES_MAX);
    kiln_tracker_shell *shell = kiln_alloc(sizeof *shell);
    shell->options = *options;
    shell->lock_fd = -1;
    kiln_arena_init(&shell->arena, 0);
    kiln_map_init(&shell->conns);
    kiln_status st = kiln_loop_create_stoppable(&shell->loop);
    if (!st) {
        shell->events = kiln_event_queue_create(
            &(kiln_event_queue_options){.loop = shell->loop,
                                        .event_bytes = sizeof(kiln_tracker_event),
                                        .keep = keep_event,
                                        .decide = decide,
                                        .end_turn = end_turn,
                                        .next_ns = next_ns,
                                        .tick = on_tick,
                                        .context = shell});
        shell->lead = kiln_timer_create(shell->loop, on_lead, shell);
        st = open_parts(shell);
    }
    if (!st) st = check_lead(shell);
    if (st) {
        kiln_tracker_shell_destroy(shell);
        return st;
    }
    if (!shell->listeners) kiln_log(KILN_LOG_INFO, "another tracker leads; standing by");
    kiln_timer_start(shell->lead, LEAD_NS);
    *out_shell = shell;
    return NULL;
}

kiln_status kiln_tracker_shell_run(kiln_tracker_shell *shell) {
    kiln_loop_run(shell->loop);
    kiln_status st = shell->failure;
    shell->failure = NULL;
    return st;
}

static void close_connections(kiln_tracker_shell *shell) {
    kiln_message goaway = {
        .type = KILN_MSG_GOAWAY,
        .goaway = {.reason = KILN_STR("the tracker stops"), .drain_ms = GOAWAY_MS}};
    kiln_tracker_listeners_close(shell->listeners);
    uint32_t cursor = 0;
    kiln_str key;
    uint64_t conn = 0;
    while (kiln_map_next(&shell->conns, &cursor, &key, &conn)) {
        kiln_status_free(
            kiln_conn_send((kiln_conn *)(uintptr_t)conn, &goaway)); /* it may be closed already */
        kiln_conn_close((kiln_conn *)(uintptr_t)conn, NULL);
    }
}

void kiln_tracker_shell_destroy(kiln_tracker_shell *shell) {
    if (!shell) return;
    close_connections(shell);
    kiln_event_queue_destroy(shell->events);
    shell->events = NULL;
    kiln_timer_destroy(shell->lead);
    kiln_tracker_pages_close(shell->pages);
    kiln_tracker_key_list_close(shell->keys);
    kiln_loop_destroy(shell->loop);
    kiln_status st = kiln_tracker_persistence_destroy(shell->persistence);
    if (st) kiln_log(KILN_LOG_ERROR, "cannot keep the state: %s", kiln_status_text(st));
    kiln_status_free(st); /* no peer was told of these rows */
    kiln_db_close(shell->db);
    kiln_audit_close(shell->audit);
    if (shell->tracker) kiln_tracker_destroy(shell->tracker);
    kiln_status_free(shell->failure);
    kiln_tracker_actions_deinit(&shell->actions);
    kiln_tracker_blob_files_close(shell->blobs);
    if (shell->lock_fd >= 0) close(shell->lock_fd);
    kiln_map_deinit(&shell->conns);
    kiln_arena_deinit(&shell->arena);
    kiln_free(shell);
}
