#include "tracker/shell.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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
#include "base/vec.h"
#include "db/db.h"
#include "proto/event_queue.h"
#include "tracker/audit.h"
#include "tracker/http.h"
#include "tracker/net_metrics.h"
#include "tracker/persistence.h"
#include "tracker/tracker.h"

#define SOFTWARE "kiln-tracker 0.1.0"
#define GOAWAY_MS 0u
#define LEAD_NS UINT64_C(200000000) /* between two looks at who leads */
#define COLLECT_S INT64_C(86400)    /* between two looks at all blobs, also over restarts */
#define COLLECT_LOOK_NS (UINT64_C(3600) * KILN_NS_PER_S) /* whether it is time for that */
#define GONE_A_TICK 1024u

/* Files of blobs that go: work of the pool. */
typedef struct cleaning {
    kiln_tracker_shell *shell;
    KILN_VEC(kiln_digest) drop;
    int64_t before_s; /* and all that was last used before; 0: only these */
    KILN_VEC(kiln_blob_use) use;
    kiln_status status;
} cleaning;

struct kiln_tracker_shell {
    kiln_loop *loop;
    kiln_tracker_shell_options options;
    kiln_arena arena; /* of the whole run */
    char boot[KILN_HASH128_TEXT];
    int lock_fd;
    kiln_db *db;
    kiln_depot *depot; /* NULL: none */
    kiln_blob_store *store;
    kiln_keyring *keyring; /* NULL: nobody comes from other machines, or everybody */
    kiln_audit *audit;
    kiln_http *http;
    kiln_listener *listener[KILN_TRACKER_ADDRESSES_MAX];

    kiln_tracker *tracker;
    kiln_tracker_actions actions;
    kiln_event_queue *events; /* NULL: the shell is being destroyed, nothing is decided any more */
    kiln_tracker_persistence *persistence;
    kiln_map conns; /* kiln_conn_id to kiln_conn */
    kiln_timer *lead;
    const char *address; /* what stands in the file of it; NULL: nothing does */
    bool serving;        /* else another tracker leads, and this one stands by */
    cleaning *cleaning;  /* what is collected for the next one; NULL: nothing */
    bool cleans;         /* one is under way */
    uint64_t collect_ns; /* when the age of blobs is looked at again */
    kiln_status failure; /* why it cannot go on */
};

/* Jobs that are kept pin their blobs. */
static void pin(kiln_tracker_shell *shell, const kiln_tracker_row *row, uint32_t count) {
    kiln_digest digest[KILN_TRACKER_JOB_BLOBS_MAX];
    for (uint32_t i = 0; i < count; i++)
        if (row[i].kind == KILN_TRACKER_ROW_JOB)
            kiln_blob_store_pin(shell->store, row[i].id, digest,
                                kiln_tracker_job_blobs(shell->tracker, row[i].id, digest));
}

/* Looks in the list of keys (kiln_tracker_find_key). A node without a role is a tuner. */
static bool find_key(void *context, kiln_str node, const kiln_sign_public *half,
                     kiln_tracker_known_key *out_key) {
    const kiln_tracker_shell *shell = context;
    kiln_key name = {0};
    kiln_strbuf text = {0};
    if (!shell->keyring) return false;
    kiln_strbuf_str(&text, node);
    if (node.size && !memchr(node.data, '/', node.size)) {
        kiln_strbuf_reset(&text);
        kiln_strbuf_printf(&text, "tuner/%.*s", KILN_STR_ARG(node));
    }
    kiln_status st = node.size ? kiln_key_name_parse(kiln_strbuf_view(&text), &name) : KILN_OK;
    const kiln_key *key =
        st ? NULL : kiln_keyring_signer(shell->keyring, node.size ? &name : NULL, half);
    kiln_status_free(st); /* what is no name is no key's */
    kiln_strbuf_deinit(&text);
    if (!key) return false;
    /* Of no generation: a key that was rotated is still that node's. */
    snprintf(out_key->node, sizeof out_key->node, "%s/%s", kiln_peer_role_name(key->role),
             key->node);
    out_key->half = key->public_half;
    return true;
}

/* A machine that goes on where the last one stopped. */
static kiln_status create_tracker(kiln_tracker_shell *shell) {
    kiln_arena arena;
    kiln_tracker_row *rows = NULL;
    uint32_t count = 0;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_tracker_rows_read(shell->db, &arena, &rows, &count);
    if (!st) st = kiln_tracker_create(rows, count, kiln_loop_now_ns(shell->loop), &shell->tracker);
    if (!st) kiln_tracker_set_wall(shell->tracker, kiln_clock_wall_ns());
    if (!st) pin(shell, rows, count);
    if (!st) kiln_tracker_require_fences(shell->tracker, shell->options.fences);
    if (!st) kiln_tracker_forget_boards_after(shell->tracker, shell->options.forget_lost_ns);
    if (!st) kiln_tracker_know_keys(shell->tracker, find_key, shell);
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
    if (action->code == KILN_PERMISSION_DENIED) /* it is not what it says it is */
        kiln_audit_refused(shell->audit, kiln_conn_peer(conn), why, kiln_loop_now_ns(shell->loop));
    kiln_conn_close(conn, why);
}

/* Ends the run with `failure`, which is taken. */
static void give_up(kiln_tracker_shell *shell, kiln_status failure) {
    if (shell->failure)
        kiln_status_free(failure); /* the first says why */
    else
        shell->failure = failure;
    kiln_loop_stop(shell->loop);
}

/* Into the log, and into the trace, where what it is about has one. */
static void note_down(kiln_tracker_shell *shell, const kiln_tracker_note *note) {
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
    kiln_str job = note->job, board = note->board, trial = note->trial,
             lease = kiln_str_from(number), id = {0};
    switch (note->what) {
#define X(NAME, level, text, trace, phase, field) \
    case KILN_TRACKER_##NAME: id = field; break;
#include "tracker/journal.def"
#undef X
    }
    const kiln_log_field field[] = {{"job", job},     {"trial", trial},       {"lease", lease},
                                    {"board", board}, {"tuner", note->tuner}, {"text", note->text}};
    kiln_log_event(row[note->what].level, row[note->what].text, field, KILN_ARRAY_COUNT(field));
    if (row[note->what].trace != KILN_TRACE_NONE)
        kiln_trace_event(row[note->what].phase, (kiln_trace_name)row[note->what].trace, id,
                         kiln_loop_now_ns(shell->loop), field, KILN_ARRAY_COUNT(field));
}

/* ---- Blobs that go ---- */

static cleaning *next_cleaning(kiln_tracker_shell *shell) {
    if (shell->cleaning) return shell->cleaning;
    shell->cleaning = kiln_alloc(sizeof *shell->cleaning);
    shell->cleaning->shell = shell;
    return shell->cleaning;
}

static void free_cleaning(cleaning *c) {
    if (!c) return;
    kiln_vec_deinit(&c->drop);
    kiln_vec_deinit(&c->use);
    kiln_free(c);
}

/* Whether no tracker of this state folder has looked for a day; from then on this one has. */
static kiln_status begin_collection(const kiln_tracker_shell *shell, bool *out_begins) {
    kiln_strbuf path = {0};
    struct stat info;
    kiln_strbuf_printf(&path, "%s/blobs-collected", shell->options.state_folder);
    const int64_t now_s = (int64_t)(kiln_clock_wall_ns() / KILN_NS_PER_S);
    const bool is_early =
        stat(path.data, &info) == 0 && info.st_mtime <= now_s && now_s - info.st_mtime < COLLECT_S;
    kiln_status st = is_early ? KILN_OK : kiln_file_write(path.data, (kiln_str){0}, 0600);
    kiln_strbuf_deinit(&path);
    *out_begins = !is_early;
    return st;
}

static void run_cleaning(void *context) {
    cleaning *c = context;
    kiln_blob_store *store = c->shell->store;
    bool begins = false;
    for (uint32_t i = 0; !c->status && i < c->drop.count; i++)
        c->status = kiln_blob_store_remove(store, &c->drop.data[i]);
    if (!c->status && c->before_s) c->status = begin_collection(c->shell, &begins);
    if (!c->status && begins)
        c->status = kiln_blob_store_collect(store, c->before_s, c->use.data, c->use.count);
}

static void on_cleaned(void *context) {
    cleaning *c = context;
    c->shell->cleans = false;
    if (c->status) kiln_log(KILN_LOG_WARN, "removing blobs: %s", kiln_status_text(c->status));
    kiln_status_free(c->status); /* what is left goes another day */
    free_cleaning(c);
}

static void add_use(void *context, const kiln_digest *digest, uint64_t used_ms) {
    cleaning *c = context;
    kiln_vec_push(&c->use, ((kiln_blob_use){*digest, (int64_t)(used_ms / 1000)}));
}

/* Files follow what the tracker knows, and the other way round. */
static void clean(kiln_tracker_shell *shell) {
    const uint64_t now_ns = kiln_loop_now_ns(shell->loop), keep_ns = shell->options.keep_blobs_ns;
    kiln_digest gone[GONE_A_TICK];
    kiln_tracker_blobs_gone(shell->tracker, gone,
                            kiln_blob_store_gone(shell->store, gone, GONE_A_TICK));
    if (keep_ns && keep_ns < kiln_clock_wall_ns() && now_ns >= shell->collect_ns) {
        cleaning *c = next_cleaning(shell);
        shell->collect_ns = now_ns + COLLECT_LOOK_NS;
        c->before_s = (int64_t)((kiln_clock_wall_ns() - keep_ns) / KILN_NS_PER_S);
        c->use.count = 0;
        kiln_tracker_each_blob(shell->tracker, add_use, c);
    }
    if (!shell->cleaning || shell->cleans) return;
    shell->cleans = true;
    kiln_loop_work(shell->loop, run_cleaning, on_cleaned, shell->cleaning);
    shell->cleaning = NULL;
}

static void carry_out(kiln_tracker_shell *shell, const kiln_tracker_action *action) {
    switch (action->kind) {
    case KILN_TRACKER_SEND: send_message(shell, action->peer, &action->message); break;
    case KILN_TRACKER_CLOSE: close_peer(shell, action); break;
    case KILN_TRACKER_PERSIST:
        pin(shell, action->row, action->row_count);
        kiln_tracker_persistence_add(shell->persistence, action);
        break;
    case KILN_TRACKER_LOG: note_down(shell, action->note); break;
    case KILN_TRACKER_DROP_BLOB: kiln_vec_push(&next_cleaning(shell)->drop, action->blob); break;
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

/* Decides what a group that is durable lets go, or one that cannot be kept ends. Who lost the lead
 * says nothing more: another decides now; nor does who stops. */
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
    clean(shell);
    kiln_event_queue_post(shell->events, &(kiln_tracker_event){.kind = KILN_TRACKER_TICK});
}

/* ---- Connections ---- */

/* Also a tracker that takes anybody takes only those for its user who prove it. */
static kiln_tracker_who who_of(const kiln_peer *peer) {
    return (kiln_tracker_who){.is_owner = peer->is_owner,
                              .is_admin = kiln_str_starts(kiln_str_from(peer->key), "admin/"),
                              .is_proven =
                                  peer->is_owner || peer->key[0] || peer->uid != KILN_UID_UNKNOWN,
                              .has_key = peer->key[0] != '\0',
                              .person = peer->person};
}

static bool may_get(void *context, kiln_conn *conn, const kiln_digest *digest) {
    kiln_tracker_shell *shell = context;
    return kiln_tracker_may_get(shell->tracker, kiln_conn_id(conn), digest);
}

static kiln_status may_put(void *context, kiln_conn *conn, const kiln_digest *digest,
                           uint64_t size) {
    (void)digest;
    kiln_tracker_shell *shell = context;
    return kiln_tracker_may_put(shell->tracker, kiln_conn_id(conn), size);
}

static void was_put(void *context, kiln_conn *conn, const kiln_digest *digest, uint64_t size) {
    kiln_tracker_shell *shell = context;
    kiln_digest gone[GONE_A_TICK]; /* it may have gone before it came again */
    for (uint32_t count; (count = kiln_blob_store_gone(shell->store, gone, GONE_A_TICK)) > 0;)
        kiln_tracker_blobs_gone(shell->tracker, gone, count);
    kiln_tracker_was_put(shell->tracker, kiln_conn_id(conn), digest, size);
}

static const kiln_blob_guard blob_guard = {may_get, may_put, was_put};

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)welcome;
    kiln_tracker_shell *shell = context;
    uint64_t peer = kiln_conn_id(conn);
    kiln_map_put(&shell->conns, key_of(&peer), (uint64_t)(uintptr_t)conn);
    kiln_blobs_set_guard(kiln_blobs_attach(conn, shell->store), &blob_guard, shell);
    const char *key = kiln_conn_peer(conn)->key;
    kiln_log(KILN_LOG_INFO, "%s %.*s connected%s%s",
             kiln_peer_role_name((kiln_peer_role)hello->role),
             KILN_STR_ARG(hello->name.size > 0 ? hello->name : hello->node),
             key[0] ? " with key " : "", key);
    kiln_event_queue_post(shell->events,
                          &(kiln_tracker_event){.kind = KILN_TRACKER_CONNECTED,
                                                .peer = peer,
                                                .hello = hello,
                                                .who = who_of(kiln_conn_peer(conn))});
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    kiln_tracker_shell *shell = context;
    if (kiln_audit_wants(message)) kiln_audit_act(shell->audit, kiln_conn_peer(conn), message);
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

static void on_losses(void *context, const kiln_net_stats *since) {
    (void)context;
    kiln_log(KILN_LOG_WARN,
             "more connections than places: of %llu accepted, %llu were let in; %llu silent ones "
             "made place, %llu found no descriptor, %llu could not be accepted (`ulimit -n` says "
             "how many descriptors there are)",
             (unsigned long long)since->accepted, (unsigned long long)since->welcomed,
             (unsigned long long)since->crowded_out, (unsigned long long)since->no_descriptor,
             (unsigned long long)since->accept_errors);
}

/* ---- Keys ---- */

static void on_keys(void *context, kiln_status status) {
    kiln_tracker_shell *shell = context;
    uint32_t count = kiln_keyring_count(shell->keyring);
    if (status)
        kiln_log(KILN_LOG_ERROR, "the key file changed, its %u keys stay in force: %s", count,
                 kiln_status_text(status));
    else
        kiln_log(KILN_LOG_INFO, "%u keys are in force", count);
    kiln_audit_keys(shell->audit, count, status);
}

static void on_settled(void *context, const kiln_key *name, kiln_key_state outcome,
                       const char *why) {
    char text[KILN_KEY_NAME_BYTES];
    (void)context;
    kiln_key_name_print(name, text);
    if (outcome == KILN_KEY_IN_FORCE)
        kiln_log(KILN_LOG_INFO, "%s was taken by its node; the keys before it are revoked", text);
    else if (outcome == KILN_KEY_DECLINED)
        kiln_log(KILN_LOG_WARN, "%s was not taken by its node: %s", text, why);
    else
        kiln_log(KILN_LOG_ERROR, "%s: what became of it is not in the key file: %s", text, why);
}

/* The named file must be there; the usual one need not: then there is no keyring. */
static kiln_status open_keys(kiln_tracker_shell *shell) {
    const char *path = shell->options.keys;
    kiln_strbuf usual = {0};
    kiln_strbuf_printf(&usual, "%s/keys", shell->options.home);
    if (!path && kiln_file_exists(usual.data) && kiln_tls_supported()) path = usual.data;
    kiln_status st =
        path ? kiln_keyring_open(shell->loop, path, on_keys, shell, &shell->keyring) : KILN_OK;
    kiln_strbuf_deinit(&usual);
    if (shell->keyring) kiln_keyring_on_settled(shell->keyring, on_settled);
    if (kiln_status_code(st) != KILN_NOT_FOUND) return st;
    return kiln_status_note(st, "there are no keys yet, `kiln key new ROLE/NODE` makes them");
}

/* A file that was missing at the start may be there now. */
static void open_keys_late(kiln_tracker_shell *shell) {
    kiln_status st = open_keys(shell);
    if (st)
        kiln_log(KILN_LOG_ERROR, "the key file is there now, and is not taken: %s",
                 kiln_status_text(st));
    kiln_status_free(st);
    if (!shell->keyring) return;
    for (uint32_t i = 0; i < shell->options.address_count; i++)
        if (shell->listener[i]) kiln_listener_set_keyring(shell->listener[i], shell->keyring);
    on_keys(shell, KILN_OK);
}

static void on_hangup(void *context, int number) {
    (void)number;
    kiln_tracker_shell *shell = context;
    if (shell->keyring)
        kiln_keyring_reload(shell->keyring);
    else
        open_keys_late(shell);
}

static const kiln_conn_handler conn_handler = {on_opened, on_message, on_closed};

/* ---- Addresses ---- */

static kiln_status listen_on(kiln_tracker_shell *shell, uint32_t index) {
    const kiln_tracker_shell_options *options = &shell->options;
    kiln_listen_options listen = {
        .address = options->address[index],
        .boot = shell->boot,
        .software = SOFTWARE,
        .insecure = options->insecure,
        .keyring = shell->keyring,
        .origins = &options->origins,
        .handler = &conn_handler,
        .context = shell,
        .refused = on_refused,
        .on_losses = on_losses,
    };
    uint8_t token[KILN_TOKEN_BYTES]; /* the listener keeps a copy */
    kiln_status st = KILN_OK;
    if (!listen.address.is_unix) {
        st = kiln_token_read(options->home, true, token);
        if (st && !options->insecure) return st;
        if (!st) listen.token = token;
        kiln_status_free(st); /* an insecure tracker takes those without the token, too */
    }
    st = kiln_net_listen(shell->loop, &listen, &shell->listener[index]);
    explicit_bzero(token, sizeof token);
    if (st) return st;
    kiln_strbuf text = {0};
    kiln_address_print(kiln_listener_address(shell->listener[index]), &text);
    kiln_log(KILN_LOG_INFO, "listening on %s", text.data);
    kiln_strbuf_deinit(&text);
    return NULL;
}

/* For whoever waits for it; by rename, so that it is whole. */
static kiln_status write_port(kiln_tracker_shell *shell, const char *path, unsigned port) {
    if (!path) return NULL;
    return kiln_file_write(path, kiln_str_from(kiln_arena_printf(&shell->arena, "%u\n", port)),
                           0644);
}

static bool is_for_programs(const kiln_address *address) {
    return !address->is_unix && !address->is_web;
}

/* The port of the first TCP address. */
static kiln_status write_port_file(kiln_tracker_shell *shell) {
    unsigned port = 0;
    for (uint32_t i = 0; port == 0 && i < shell->options.address_count; i++) {
        const kiln_address *address = kiln_listener_address(shell->listener[i]);
        if (is_for_programs(address)) port = address->port;
    }
    return write_port(shell, shell->options.port_file, port);
}

/* For this user's programs on this machine, which are then told no address. */
static void write_address_file(kiln_tracker_shell *shell) {
    uint32_t at = 0;
    while (at < shell->options.address_count &&
           !is_for_programs(kiln_listener_address(shell->listener[at])))
        at++;
    if (at == shell->options.address_count) return; /* that of a fleet of one command */
    kiln_address address = *kiln_listener_address(shell->listener[at]);
    const bool is_any = strcmp(address.host, "0.0.0.0") == 0 || strcmp(address.host, "::") == 0;
    if (is_any) snprintf(address.host, sizeof address.host, "localhost");
    kiln_strbuf text = {0};
    kiln_address_print(&address, &text);
    shell->address = kiln_arena_printf(&shell->arena, "%s\n", text.data);
    kiln_strbuf_deinit(&text);
    kiln_status st = kiln_folder_create(shell->options.home, 0700);
    if (!st)
        st = kiln_file_write(
            kiln_arena_printf(&shell->arena, "%s/" KILN_TRACKER_ADDRESS_FILE, shell->options.home),
            kiln_str_from(shell->address), 0600);
    if (st) kiln_log(KILN_LOG_INFO, "programs must be told the address: %s", kiln_status_text(st));
    kiln_status_free(st); /* a convenience */
}

/* Unless another tracker wrote its own since. */
static void remove_address_file(kiln_tracker_shell *shell) {
    if (!shell->address) return;
    kiln_str text = {0};
    const char *path =
        kiln_arena_printf(&shell->arena, "%s/" KILN_TRACKER_ADDRESS_FILE, shell->options.home);
    kiln_status st = kiln_file_read(path, KILN_ADDRESS_TEXT_MAX, &shell->arena, &text);
    if (!st && kiln_str_is(text, shell->address)) unlink(path);
    kiln_status_free(st); /* somebody removed it */
}

/* ---- HTTP ---- */

typedef struct metrics_page {
    kiln_tracker_shell *shell;
    kiln_tracker_page *page;
} metrics_page;

static bool print_health(void *context, kiln_strbuf *out) {
    const kiln_tracker_shell *shell = context;
    kiln_strbuf_text(out, shell->serving ? "serving\n" : "standing by\n");
    return false;
}

static bool print_state(void *context, kiln_strbuf *out) {
    return kiln_tracker_page_step(context, out);
}

static void end_state(void *context) { kiln_tracker_page_destroy(context); }

static bool print_metrics(void *context, kiln_strbuf *out) {
    const metrics_page *m = context;
    kiln_net_stats stats;
    if (kiln_tracker_page_step(m->page, out)) return true;
    kiln_loop_net_stats(m->shell->loop, &stats);
    kiln_loop_times_print(kiln_loop_times_get(m->shell->loop), out);
    kiln_tracker_print_net_metrics(&stats, out);
    return false;
}

static void end_metrics(void *context) {
    metrics_page *m = context;
    kiln_tracker_page_destroy(m->page);
    kiln_free(m);
}

/* A tracker that stands by is healthy, and counts nothing. */
static bool begin_page(void *context, const char *path, kiln_http_page *out_page) {
    kiln_tracker_shell *shell = context;
    if (strcmp(path, "/healthz") == 0) {
        *out_page = (kiln_http_page){.type = "text/plain", .state = shell, .step = print_health};
        return true;
    }
    if (!shell->serving) return false;
    if (strcmp(path, "/metrics") == 0) {
        metrics_page *m = kiln_alloc(sizeof *m);
        m->shell = shell;
        m->page = kiln_tracker_page_create(shell->tracker, KILN_TRACKER_PAGE_METRICS);
        *out_page = (kiln_http_page){"text/plain; version=0.0.4", m, print_metrics, end_metrics};
        return true;
    }
    if (strcmp(path, "/state") != 0) return false;
    *out_page = (kiln_http_page){"application/json",
                                 kiln_tracker_page_create(shell->tracker, KILN_TRACKER_PAGE_STATE),
                                 print_state, end_state};
    return true;
}

static kiln_status open_http(kiln_tracker_shell *shell) {
    if (!shell->options.http) return NULL;
    kiln_http_options options = {.address = shell->options.http,
                                 .anywhere = shell->options.insecure,
                                 .begin = begin_page,
                                 .context = shell};
    kiln_status st = kiln_http_create(shell->loop, &options, &shell->http);
    if (st) return st;
    kiln_log(KILN_LOG_INFO, "/metrics and /state on port %u", kiln_http_port(shell->http));
    return write_port(shell, shell->options.http_port_file, kiln_http_port(shell->http));
}

/* ---- Life ---- */

static kiln_status open_blobs(kiln_tracker_shell *shell) {
    const char *where = shell->options.blobs;
    bool is_depot = where && kiln_depot_is_named(kiln_str_from(where));
    kiln_blob_store_options options = {
        .folder = where, .bytes_max = KILN_TRACKER_BLOB_BYTES_MAX, .durable = true};
    if (!where || is_depot)
        options.folder = kiln_arena_printf(&shell->arena, "%s/blobs", shell->options.state_folder);
    kiln_status st = is_depot ? kiln_depot_open(kiln_str_from(where), &shell->depot) : KILN_OK;
    options.depot = shell->depot;
    return st ? kiln_status_note(st, "--blobs") : kiln_blob_store_open(&options, &shell->store);
}

static kiln_status open_parts(kiln_tracker_shell *shell) {
    const char *state = shell->options.state_folder;
    kiln_status st = kiln_folder_create(state, 0700);
    if (!st) st = kiln_folder_lock(state, &shell->lock_fd);
    if (!st)
        st =
            kiln_audit_open(kiln_arena_printf(&shell->arena, "%s/audit.log", state), &shell->audit);
    if (!st) kiln_loop_on_signal(shell->loop, SIGHUP, on_hangup, shell);
    if (!st) st = open_keys(shell);
    if (!st) st = kiln_identity_create(shell->boot);
    if (!st) st = open_blobs(shell);
    const char *db_path = shell->options.db_path;
    if (!db_path) db_path = kiln_arena_printf(&shell->arena, "%s/tracker.db", state);
    if (!st) st = kiln_db_open(db_path, KILN_DB_TRACKER, KILN_DB_WRITE, &shell->db);
    if (!st)
        shell->persistence =
            kiln_tracker_persistence_create(shell->loop, shell->db, on_kept, shell);
    if (!st) st = open_http(shell);
    return st;
}

static kiln_status serve(kiln_tracker_shell *shell) {
    kiln_status st = kiln_fail_at(KILN_FAIL_TRACKER_LEAD);
    if (!st) st = create_tracker(shell);
    if (!st) st = kiln_fail_at(KILN_FAIL_TRACKER_SERVE);
    for (uint32_t i = 0; !st && i < shell->options.address_count; i++) st = listen_on(shell, i);
    if (!st) write_address_file(shell);
    if (!st) st = write_port_file(shell);
    if (!st) shell->serving = true;
    if (!st) on_tick(shell);
    return st;
}

/* Takes the lead when it is free, and makes sure that it is still ours. */
static kiln_status look_who_leads(kiln_tracker_shell *shell) {
    bool leads = false;
    kiln_status st = kiln_db_lead(shell->db, &leads);
    if (!st && leads && !shell->serving) st = serve(shell);
    return st;
}

static void on_lead(void *context) {
    kiln_tracker_shell *shell = context;
    /* A commit under way has the database, and finds out as well. */
    kiln_status st =
        kiln_tracker_persistence_is_busy(shell->persistence) ? NULL : look_who_leads(shell);
    /* A server that restarts is no reason for a standby to end. */
    if (!shell->serving && kiln_status_code(st) == KILN_UNAVAILABLE) {
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
    if (!st) st = look_who_leads(shell);
    if (st) {
        kiln_tracker_shell_destroy(shell);
        return st;
    }
    if (!shell->serving) kiln_log(KILN_LOG_INFO, "another tracker leads; standing by");
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
    for (uint64_t i = 0; i < KILN_TRACKER_ADDRESSES_MAX; i++)
        kiln_listener_close(shell->listener[i]);
    uint32_t cursor = 0;
    kiln_str key;
    uint64_t conn = 0;
    while (kiln_map_next(&shell->conns, &cursor, &key, &conn)) {
        kiln_status_free(
            kiln_conn_send((kiln_conn *)(uintptr_t)conn, &goaway)); /* it may be gone already */
        kiln_conn_close((kiln_conn *)(uintptr_t)conn, NULL);
    }
}

void kiln_tracker_shell_destroy(kiln_tracker_shell *shell) {
    if (!shell) return;
    close_connections(shell);
    remove_address_file(shell);
    kiln_event_queue_destroy(shell->events);
    shell->events = NULL;
    kiln_timer_destroy(shell->lead);
    kiln_http_destroy(shell->http);
    kiln_keyring_close(shell->keyring);
    kiln_loop_destroy(shell->loop);
    free_cleaning(shell->cleaning);
    kiln_status st = kiln_tracker_persistence_destroy(shell->persistence);
    if (st) kiln_log(KILN_LOG_ERROR, "cannot keep the state: %s", kiln_status_text(st));
    kiln_status_free(st); /* nobody was told of it: it never happened */
    kiln_db_close(shell->db);
    kiln_audit_close(shell->audit);
    if (shell->tracker) kiln_tracker_destroy(shell->tracker);
    kiln_status_free(shell->failure);
    kiln_tracker_actions_deinit(&shell->actions);
    kiln_blob_store_close(shell->store);
    kiln_depot_close(shell->depot);
    if (shell->lock_fd >= 0) close(shell->lock_fd);
    kiln_map_deinit(&shell->conns);
    kiln_arena_deinit(&shell->arena);
    kiln_free(shell);
}
