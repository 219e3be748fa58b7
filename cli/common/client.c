#include "cli/common/client.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/opt.h"
#include "base/rand.h"
#include "cli/common/names.h"

#define ASKED_MAX 5 /* times that a question is asked: it may be what its tracker dies of */
#define RETRY_NS (UINT64_C(50) * KILN_NS_PER_MS)
#define TOKEN_WAIT_NS (UINT64_C(2) * KILN_NS_PER_S)
#define TOKEN_LOOK_NS (UINT64_C(20) * KILN_NS_PER_MS)

struct kiln_client {
    kiln_client_options options;
    kiln_arena *process;
    kiln_loop *loop;
    kiln_addresses tracker;
    char *home;
    char node[KILN_HASH128_TEXT];
    kiln_conn *conn;
    bool open, was_open, woken, stopped;
    uint64_t lost_since_ns; /* 0: connected */
    bool said_lost;         /* and it was said so */
    kiln_status why;        /* of the last failed connection */
    kiln_timer *redial, *alarm, *beat;
    char *folder; /* of the blob store */
    int folder_fd;
    kiln_blob_store *store;
    kiln_blobs *blobs;
    uint32_t asked_stream; /* 0: no question is open */
    kiln_arena *answer_arena;
    kiln_arena message; /* the one that is being handled */
    kiln_message *answer;
    bool answered, transferred;
    kiln_status transfer; /* how it ended, until somebody took that */
};

/* ---- the connection -------------------------------------------------------------------------- */

void kiln_client_wake(kiln_client *client) {
    client->woken = true;
    kiln_loop_stop(client->loop);
}

void kiln_client_stop(kiln_client *client) {
    client->stopped = true;
    kiln_client_wake(client);
}

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)hello;
    (void)welcome;
    kiln_client *c = context;
    bool again = c->was_open;
    c->open = c->was_open = true;
    c->lost_since_ns = 0;
    c->blobs = kiln_blobs_attach(conn, c->store);
    kiln_timer_start(c->beat, KILN_LINK_HEARTBEAT_NS);
    if (again && c->options.message) c->options.message(c->options.context, NULL);
    kiln_client_wake(c);
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    kiln_client *c = context;
    if (message->type == KILN_MSG_PING) {
        kiln_message pong = {
            .type = KILN_MSG_PONG, .stream = message->stream, .pong = {.t_ns = message->ping.t_ns}};
        kiln_status_free(kiln_conn_send(conn, &pong)); /* a connection that closes says so itself */
        return;
    }
    if (c->asked_stream && message->stream == c->asked_stream) {
        *c->answer = kiln_message_printable(message, c->answer_arena);
        c->asked_stream = 0;
        c->answered = true;
        kiln_client_wake(c);
    } else if (c->options.message) {
        kiln_message printable = kiln_message_printable(message, &c->message);
        c->options.message(c->options.context, &printable);
        kiln_arena_reset(&c->message);
    }
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    kiln_client *c = context;
    if (conn != c->conn) return;
    c->conn = NULL;
    c->blobs = NULL;
    c->open = false;
    if (c->lost_since_ns == 0) c->lost_since_ns = kiln_clock_ns();
    kiln_status_free(c->why);
    c->why =
        kiln_status_make(kiln_status_code(why), __FILE__, __LINE__, "%s", kiln_status_text(why));
    kiln_timer_start(c->redial, RETRY_NS);
    kiln_client_wake(c);
}

static const kiln_conn_handler handler = {on_opened, on_message, on_closed};

/* The tracker gives a web server's connection the role of its person. */
static kiln_peer_role role_of(const kiln_client_options *options) {
    if (options->person) return KILN_PEER_WEB;
    return options->admin ? KILN_PEER_ADMIN : KILN_PEER_CLIENT;
}

static void dial(void *context) {
    kiln_client *c = context;
    if (c->conn) return;
    const kiln_address *address = kiln_addresses_next(&c->tracker);
    kiln_credentials credentials = {0};
    kiln_status st = kiln_credentials_load(address, c->home, c->options.key_file,
                                           c->options.insecure, &credentials);
    kiln_status_free(st); /* it was there at the start; the tracker refuses, and says so */
    kiln_dial_options options = {.address = *address,
                                 .role = role_of(&c->options),
                                 .person = c->options.person,
                                 .node = c->node,
                                 .boot = c->node,
                                 .name = kiln_user_name(c->process),
                                 .software = "kiln " KILN_VERSION,
                                 .credentials = &credentials,
                                 .handler = &handler,
                                 .context = c};
    c->conn = kiln_net_dial(c->loop, &options);
}

/* A peer that says nothing is taken for dead. */
static void on_beat(void *context) {
    kiln_client *c = context;
    if (!c->open) return;
    kiln_status_free(
        kiln_conn_send(c->conn, &(kiln_message){.type = KILN_MSG_PING})); /* or closed */
    kiln_timer_start(c->beat, KILN_LINK_HEARTBEAT_NS);
}

static void on_alarm(void *context) { kiln_loop_stop(((kiln_client *)context)->loop); }

/* Runs the loop until something happened or the time is over. */
static void run_for(kiln_client *c, uint64_t wait_ns) {
    c->woken = false;
    kiln_timer_start(c->alarm, wait_ns);
    kiln_loop_run(c->loop);
    kiln_timer_stop(c->alarm);
}

/* Whether trying again makes no sense, or has been done for long enough. */
static kiln_status check_lost(kiln_client *c) {
    if (c->lost_since_ns == 0) return KILN_OK;
    kiln_code code = kiln_status_code(c->why);
    bool hopeless = code == KILN_UNAUTHENTICATED || code == KILN_FAILED_PRECONDITION ||
                    code == KILN_PERMISSION_DENIED;
    if (!hopeless && kiln_clock_ns() - c->lost_since_ns < KILN_CLIENT_PATIENCE_NS) return KILN_OK;
    return kiln_status_make(hopeless ? code : KILN_UNAVAILABLE, __FILE__, __LINE__,
                            "the tracker at %s: %s", c->options.tracker, kiln_status_text(c->why));
}

/* ---- what is said of a tracker that is away -------------------------------------------------- */

#define SAY_LOST_NS \
    (UINT64_C(300) * KILN_NS_PER_MS) /* a tracker that is started anew is back by then */
#define LINE_BYTES_MAX 512u

static void say_lost(kiln_client *c) {
    const uint64_t lost_ns = kiln_clock_ns() - c->lost_since_ns;
    if (c->options.quiet || !c->options.waits || lost_ns < SAY_LOST_NS ||
        lost_ns > KILN_CLIENT_PATIENCE_NS)
        return;
    char line[LINE_BYTES_MAX];
    const uint64_t left_s = (KILN_CLIENT_PATIENCE_NS - lost_ns) / KILN_NS_PER_S + 1;
    const char *why = c->why ? kiln_status_text(c->why) : "no answer yet";
    snprintf(line, sizeof line, "trying for %llu s more to reach the tracker at %s: %s",
             (unsigned long long)left_s, c->options.tracker, why);
    c->options.waits(c->options.waits_context, line);
    c->said_lost = true;
}

static void unsay_lost(kiln_client *c) {
    if (c->said_lost) c->options.waits(c->options.waits_context, "");
    c->said_lost = false;
}

kiln_status kiln_client_wait(kiln_client *client, uint64_t wait_ns) {
    run_for(client, client->open ? wait_ns : KILN_MIN(wait_ns, RETRY_NS));
    kiln_status st = check_lost(client);
    if (!st && client->lost_since_ns)
        say_lost(client);
    else
        unsay_lost(client);
    return st;
}

/* ---- life ------------------------------------------------------------------------------------ */

const char kiln_tracker_help[] =
    "HOST:PORT or unix:PATH (default $KILN_TRACKER, or where this user's tracker listens)";
const char kiln_key_file_help[] =
    "key file for a tracker on another machine (default $KILN_HOME/key)";
const char kiln_person_help[] =
    "act as this person, with the key of a web server or as the tracker's user";
const char kiln_insecure_help[] = "connect in plain text, without a key";

/* Who names no tracker means the one of the environment, or that of this user and machine. */
static kiln_status find_tracker(kiln_client *c) {
    if (!c->options.tracker) c->options.tracker = kiln_env("KILN_TRACKER");
    if (c->options.tracker) return KILN_OK;
    kiln_str text = {0};
    kiln_status st =
        kiln_file_read(kiln_arena_printf(c->process, "%s/" KILN_TRACKER_ADDRESS_FILE, c->home),
                       KILN_ADDRESS_TEXT_MAX, c->process, &text);
    kiln_status_free(st); /* no tracker of this user listens here */
    if (st)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--tracker HOST:PORT or --tracker unix:PATH is missing: $KILN_TRACKER "
                          "names none, and no tracker of yours listens on this machine");
    c->options.tracker = kiln_str_dup(c->process, kiln_str_cut(&text, '\n'));
    return KILN_OK;
}

/* A tracker that was started just before may not have made its token yet. */
static kiln_status check_credentials(const kiln_client *c) {
    const uint64_t end_ns = kiln_clock_ns() + TOKEN_WAIT_NS;
    for (;;) {
        kiln_status st =
            kiln_credentials_check(&c->tracker, c->home, c->options.key_file, c->options.insecure);
        const bool may_come = kiln_status_code(st) == KILN_NOT_FOUND && !c->options.key_file;
        if (!may_come || kiln_clock_ns() >= end_ns) return st;
        kiln_status_free(st);
        kiln_clock_wait_until(kiln_clock_ns() + TOKEN_LOOK_NS);
    }
}

static kiln_status prepare(kiln_client *c) {
    kiln_hash128 identity;
    kiln_status st = kiln_home(c->process, &c->home);
    if (!st) st = find_tracker(c);
    if (!st) st = kiln_addresses_parse(kiln_str_from(c->options.tracker), &c->tracker);
    if (!st) st = check_credentials(c);
    if (!st) st = kiln_rand_system(&identity, sizeof identity);
    if (!st) kiln_hash128_print(identity, c->node);
    if (!st)
        st = kiln_folder_hold_temp(KILN_COMMAND_FOLDER, SIZE_MAX, c->process, &c->folder,
                                   &c->folder_fd);
    if (!st) st = kiln_blob_store_open(&(kiln_blob_store_options){.folder = c->folder}, &c->store);
    if (!st) st = kiln_loop_create(&c->loop);
    return st;
}

kiln_status kiln_client_open(const kiln_client_options *options, kiln_arena *process,
                             kiln_client **out_client) {
    kiln_client *c = kiln_alloc(sizeof *c);
    c->options = *options;
    c->process = process;
    kiln_status st = prepare(c);
    if (!st) {
        c->redial = kiln_timer_create(c->loop, dial, c);
        c->alarm = kiln_timer_create(c->loop, on_alarm, c);
        c->beat = kiln_timer_create(c->loop, on_beat, c);
        c->lost_since_ns = kiln_clock_ns();
        dial(c);
    }
    while (!st && !c->open) st = kiln_client_wait(c, KILN_CLIENT_PATIENCE_NS);
    c->options.quiet = false;
    if (st) {
        kiln_client_close(c);
        return st;
    }
    *out_client = c;
    return KILN_OK;
}

void kiln_client_close(kiln_client *c) {
    if (!c) return;
    kiln_conn *conn = c->conn;
    c->conn = NULL;
    if (conn) kiln_conn_close(conn, KILN_OK);
    kiln_timer_destroy(c->redial);
    kiln_timer_destroy(c->alarm);
    kiln_timer_destroy(c->beat);
    kiln_loop_destroy(c->loop);
    kiln_blob_store_close(c->store);
    if (c->folder) {
        /* A temporary folder that stays harms nobody. */
        kiln_status_free(kiln_folder_remove(c->folder));
        close(c->folder_fd);
    }
    kiln_status_free(c->why);
    kiln_status_free(c->transfer);
    kiln_arena_deinit(&c->message);
    kiln_free(c);
}

kiln_loop *kiln_client_loop(kiln_client *client) { return client->loop; }

/* ---- questions and blobs --------------------------------------------------------------------- */

void kiln_client_send(kiln_client *client, const kiln_message *message) {
    if (client->open)
        kiln_status_free(
            kiln_conn_send(client->conn, message)); /* a closing connection says so itself */
}

uint32_t kiln_client_stream(kiln_client *client) {
    return client->open ? kiln_conn_stream(client->conn) : 0;
}

uint32_t kiln_client_version(const kiln_client *client) {
    return client->open ? kiln_conn_version(client->conn) : 0;
}

/* Asks once, over one connection; not answered when that is lost. */
static kiln_status ask_once(kiln_client *c, const kiln_message *question) {
    kiln_status st = KILN_OK;
    while (!st && !c->open && !c->stopped) st = kiln_client_wait(c, RETRY_NS);
    if (!st && c->stopped) st = KILN_ERROR(CANCELLED, "stopped");
    if (st) return st;
    kiln_message message = *question;
    uint64_t asked = kiln_conn_id(c->conn);
    message.stream = kiln_conn_stream(c->conn);
    c->asked_stream = message.stream;
    st = kiln_conn_send(c->conn, &message);
    while (!st && !c->answered && !c->stopped && c->open && kiln_conn_id(c->conn) == asked)
        st = kiln_client_wait(c, KILN_CLIENT_PATIENCE_NS);
    c->asked_stream = 0;
    return st;
}

kiln_status kiln_client_ask(kiln_client *client, const kiln_message *question, kiln_arena *arena,
                            kiln_message *out_answer) {
    kiln_status st = KILN_OK;
    client->answer = out_answer;
    client->answer_arena = arena;
    client->answered = false;
    for (int i = 0; !st && !client->answered && i < ASKED_MAX; i++) st = ask_once(client, question);
    if (!st && !client->answered)
        st = KILN_ERROR(UNAVAILABLE,
                        "the connection to the tracker was lost %d times before it answered",
                        ASKED_MAX);
    if (!st && out_answer->type == KILN_MSG_ERROR) st = kiln_status_from_error(&out_answer->error);
    return st;
}

static void on_transferred(void *context, const kiln_digest *digest, kiln_status status) {
    (void)digest;
    kiln_client *c = context;
    c->transferred = true;
    kiln_status_free(c->transfer);
    c->transfer = status;
    if (c->conn) kiln_client_wake(c); /* a loop that is being destroyed is not stopped */
}

/* Starts a transfer and waits for its end, which says `*out_came`. */
static kiln_status transfer_once(kiln_client *c, const kiln_digest *digest,
                                 void (*start)(kiln_blobs *, const kiln_digest *, kiln_blobs_done,
                                               void *),
                                 kiln_status *out_came) {
    kiln_status st = KILN_OK;
    while (!st && !c->open && !c->stopped) st = kiln_client_wait(c, RETRY_NS);
    c->transferred = false;
    if (!st && !c->stopped) start(c->blobs, digest, on_transferred, c);
    while (!st && !c->transferred && !c->stopped) st = kiln_client_wait(c, KILN_CLIENT_PATIENCE_NS);
    if (!st && !c->transferred) st = KILN_ERROR(CANCELLED, "stopped");
    if (st) return st;
    *out_came = c->transfer;
    c->transfer = NULL;
    return KILN_OK;
}

/* Repeats a transfer that a lost connection interrupted: also one that the tracker ended because
 * nothing was heard. */
static kiln_status transfer(kiln_client *c, const kiln_digest *digest,
                            void (*start)(kiln_blobs *, const kiln_digest *, kiln_blobs_done,
                                          void *)) {
    for (;;) {
        kiln_status came = KILN_OK, st = transfer_once(c, digest, start, &came);
        if (st) return st;
        const kiln_code code = kiln_status_code(came);
        const bool is_lost = code == KILN_UNAVAILABLE || code == KILN_DEADLINE_EXCEEDED;
        if (!came || !is_lost || c->open) return came;
        kiln_status_free(came);
    }
}

kiln_status kiln_client_put(kiln_client *client, kiln_str content, kiln_digest *out_digest) {
    return kiln_client_put_parts(client, &content, 1, out_digest);
}

/* On its way to the client's store. */
typedef struct storing {
    kiln_client *client;
    const kiln_str *part;
    uint32_t count;
    kiln_digest digest;
    kiln_status status;
    bool is_done;
} storing;

static void run_storing(void *context) {
    storing *s = context;
    s->status = kiln_blob_store_put_parts(s->client->store, s->part, s->count, &s->digest);
}

static void on_stored(void *context) {
    storing *s = context;
    s->is_done = true;
    kiln_client_wake(s->client);
}

/* The loop goes on meanwhile: hashing and writing gigabytes takes longer than a tracker waits for a
 * sign of life. */
static kiln_status store_parts(kiln_client *client, const kiln_str *part, uint32_t count,
                               kiln_digest *out_digest) {
    storing s = {.client = client, .part = part, .count = count};
    kiln_loop_work(client->loop, run_storing, on_stored, &s);
    while (!s.is_done) run_for(client, KILN_CLIENT_PATIENCE_NS);
    if (!s.status) *out_digest = s.digest;
    return s.status;
}

kiln_status kiln_client_put_parts(kiln_client *client, const kiln_str *part, uint32_t count,
                                  kiln_digest *out_digest) {
    uint64_t size = 0;
    for (uint32_t i = 0; i < count; i++) size += part[i].size;
    if (size > KILN_BLOB_BYTES_MAX) /* said before it is copied */
        return KILN_ERROR(OUT_OF_RANGE, "%llu bytes, and a tracker takes at most %llu at once",
                          (unsigned long long)size, (unsigned long long)KILN_BLOB_BYTES_MAX);
    kiln_status st = store_parts(client, part, count, out_digest);
    return st ? st
              : kiln_status_note(transfer(client, out_digest, kiln_blobs_upload), "sending a blob");
}

kiln_status kiln_client_get(kiln_client *client, const kiln_digest *digest, kiln_arena *arena,
                            kiln_str *out_content) {
    kiln_status st =
        kiln_status_note(transfer(client, digest, kiln_blobs_fetch), "fetching a blob");
    return st ? st : kiln_blob_store_get(client->store, digest, arena, out_content);
}
