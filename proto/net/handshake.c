#include "proto/net/handshake.h"

#include <string.h>

#include "base/clock.h"
#include "proto/net/challenge.h"
#include "proto/net/compression.h"
#include "proto/net/key_rotation.h"
#include "proto/net/keyring.h"
#include "proto/net/loop_state.h"
#include "proto/net/peer_identity.h"

/* UNAUTHENTICATED: the proven key was removed meanwhile, or has another secret. */
static kiln_status check_in_force(const kiln_conn *conn) {
    const kiln_key *proven = kiln_conn_key(conn);
    const kiln_key *now = kiln_keyring_find(conn->listen.keyring, proven);
    const bool is_same =
        now && (conn->tls ? kiln_tls_has_proven(conn->tls, now) : kiln_shown_is(conn->shown, now));
    if (is_same) return KILN_OK;
    if (now) return KILN_ERROR(UNAUTHENTICATED, "the key %s has a new secret", conn->peer.key);
    return kiln_keyring_refusal(conn->listen.keyring, proven);
}

void kiln_handshake_check_keys(kiln_loop *loop, const kiln_keyring *ring) {
    for (kiln_conn *conn = loop->conns.accepted.oldest, *next; conn; conn = next) {
        next = conn->newer;
        if (conn->listen.keyring != ring || !(kiln_conn_key(conn) || conn->peer.by_web)) continue;
        kiln_status st = kiln_conn_key(conn) ? check_in_force(conn) : KILN_OK;
        if (!st) st = kiln_conn_check_person(conn);
        if (st)
            kiln_conn_fail_telling(conn, st);
        else
            kiln_key_rotation_offer(conn);
    }
}

/* ---- First messages ---- */

static uint64_t own_features(void) { return kiln_compression_supported() ? KILN_WIRE_ZSTD : 0; }

static kiln_str bytes_of(const uint8_t *byte, size_t size) {
    return (kiln_str){(const char *)byte, size};
}

/* The node's signer: over TLS that of its key, and the one before it. */
static void say_signer(const kiln_conn *conn, kiln_msg_hello *hello) {
    const kiln_key *key = &conn->credentials.key;
    const kiln_sign_public *half =
        conn->tls && key->has_public ? &key->public_half : conn->dial.signer;
    if (half) hello->signer = bytes_of(half->byte, sizeof half->byte);
    if (!conn->tls || !key->has_before) return;
    const kiln_succession *said = &key->succession;
    hello->signer_before = bytes_of(said->before.byte, sizeof said->before.byte);
    hello->signer_proof = bytes_of(said->proof.byte, sizeof said->proof.byte);
}

static void say_hello(kiln_conn *conn) {
    const kiln_dial_options *dial = &conn->dial;
    kiln_message hello = {
        .type = KILN_MSG_HELLO,
        .hello = {.version_min = KILN_PROTO_VERSION_MIN,
                  .version_max = KILN_PROTO_VERSION_MAX,
                  .role = dial->role,
                  .node = kiln_str_from(dial->node),
                  .boot = kiln_str_from(dial->boot),
                  .name = kiln_str_from(dial->name),
                  .software = kiln_str_from(dial->software),
                  .person = kiln_str_from(dial->person),
                  .signed_in = kiln_str_from(dial->signed_in),
                  .features = own_features(),
                  .clock_ns = kiln_clock_ns()},
    };
    kiln_status st = KILN_OK;
    say_signer(conn, &hello.hello);
    if (kiln_conn_wants_proof(conn)) {
        st = kiln_challenge_draw(conn);
        hello.hello.nonce = (kiln_str){(const char *)conn->peer_nonce, KILN_NONCE_BYTES};
    }
    if (!st) st = kiln_conn_put(conn, &hello);
    if (st) kiln_conn_fail(conn, st);
}

static void greet(kiln_conn *conn) {
    if (!conn->dialled) return;
    if (!conn->tls) {
        say_hello(conn);
        return;
    }
    kiln_strbuf wire = {0};
    kiln_status st = kiln_tls_begin(conn->tls, &wire);
    if (wire.size) kiln_conn_put_raw(conn, &wire);
    kiln_strbuf_deinit(&wire);
    if (st) kiln_conn_fail(conn, st);
}

void kiln_handshake_start(kiln_conn *conn) {
    conn->state = KILN_CONN_HANDSHAKE;
    kiln_timer_start(conn->timer, KILN_NET_HANDSHAKE_NS);
    if (conn->socket->handle.type == UV_TCP) {
        uv_tcp_nodelay(&conn->socket->tcp, 1);
        uv_tcp_keepalive(&conn->socket->tcp, 1, 30);
    }
    kiln_peer_learn_address(conn);
    kiln_conn_read(conn);
    if (conn->state == KILN_CONN_HANDSHAKE) greet(conn);
}

void kiln_handshake_secured(kiln_conn *conn) {
    kiln_key_name_print(kiln_tls_key(conn->tls), conn->peer.key);
    if (conn->dialled) say_hello(conn);
}

void kiln_handshake_recognise(kiln_conn *conn, kiln_str bytes) {
    kiln_tls_context *tls = NULL;
    if ((uint8_t)bytes.data[0] != KILN_TLS_FIRST_BYTE || !conn->listen.keyring || conn->web) return;
    kiln_status st = kiln_loop_tls(conn->loop, &tls);
    if (st)
        kiln_conn_fail(conn, st);
    else
        conn->tls = kiln_tls_accept(tls, conn->listen.keyring);
}

/* ---- HELLO and WELCOME ---- */

/* Takes the same time wherever the difference is. */
static bool same_token(kiln_str given, const uint8_t *token) {
    uint8_t difference = 0;
    if (given.size != KILN_TOKEN_BYTES) return false;
    for (size_t i = 0; i < KILN_TOKEN_BYTES; i++)
        difference |= (uint8_t)((uint8_t)given.data[i] ^ token[i]);
    return difference == 0;
}

/* Refuses a stranger. Only the log has the reason, so that it does not learn how close it came. */
static void refuse(kiln_conn *conn, kiln_status why) {
    kiln_status said =
        KILN_ERROR(UNAUTHENTICATED,
                   "the tracker refused the connection: use one of its keys (--key-file F), or, on "
                   "its own machine, the token in its user's KILN_HOME");
    kiln_conn_fail_saying(conn, why, said);
}

kiln_status kiln_peer_check_plain(const kiln_peer *peer, const kiln_listen_options *listen,
                                  const kiln_msg_hello *hello) {
    if (listen->address.is_unix) return KILN_OK;
    if (listen->address.is_web && !listen->insecure)
        return KILN_ERROR(UNAUTHENTICATED, "a page without a key");
    if (listen->insecure && (hello->role != KILN_PEER_ADMIN || peer->is_loopback)) return KILN_OK;
    if (!peer->is_loopback)
        return KILN_ERROR(UNAUTHENTICATED,
                          listen->insecure ? "an administrator from another machine without a key"
                                           : "plain text from another machine");
    return KILN_ERROR(UNAUTHENTICATED, hello->token.size ? "a token that is not this tracker's"
                                                         : "plain text without the token");
}

/* Programs up to version 4 sent the token itself. */
static bool shows_token(const kiln_conn *conn, const kiln_msg_hello *hello) {
    return conn->version < KILN_PROTO_PROVES_TOKEN && !conn->listen.address.is_unix && !conn->web &&
           conn->listen.token && conn->peer.is_loopback &&
           same_token(hello->token, conn->listen.token);
}

static bool asks_for_challenge(const kiln_conn *conn, const kiln_msg_hello *hello) {
    if (conn->web)
        return conn->listen.keyring && hello->key.size && hello->nonce.size == KILN_NONCE_BYTES;
    return conn->version >= KILN_PROTO_PROVES_TOKEN && !conn->tls &&
           !conn->listen.address.is_unix && conn->listen.token && conn->peer.is_loopback &&
           hello->nonce.size == KILN_NONCE_BYTES;
}

/* Whether the proven key is in force and fits HELLO. */
static kiln_status check_key(const kiln_conn *conn, const kiln_msg_hello *hello) {
    kiln_status st = check_in_force(conn);
    if (!st) st = kiln_key_check_hello(kiln_conn_key(conn), hello);
    return st ? st : kiln_key_rotation_check_signer(kiln_conn_key(conn), hello);
}

static void opened(kiln_conn *conn, const kiln_msg_hello *hello, const kiln_msg_welcome *welcome) {
    kiln_status st = conn->dialled ? KILN_OK : kiln_read_scheduler_know(conn);
    if (st) {
        kiln_conn_fail(conn, st);
        return;
    }
    conn->state = KILN_CONN_OPEN;
    explicit_bzero(conn->credentials.token, sizeof conn->credentials.token); /* no longer needed */
    if (conn->dialled)
        conn->was_opened = true;
    else
        kiln_strangers_pass(conn);
    kiln_timer_stop(conn->timer);
    conn->handler->opened(conn->context, conn, hello, welcome);
    kiln_key_rotation_offer(conn);
}

/* A web server speaks for others, so it must have a key, or be the tracker's user's. It is told why
 * a person is refused. */
static bool admit(kiln_conn *conn, const kiln_msg_hello *hello, bool knows_token) {
    kiln_peer *peer = &conn->peer;
    peer->role = (kiln_peer_role)hello->role;
    kiln_conn_identify(conn, knows_token);
    if (peer->role == KILN_PEER_WEB && !peer->key[0] && !peer->is_owner) {
        refuse(conn, KILN_ERROR(UNAUTHENTICATED, "a web server without a key"));
        return false;
    }
    kiln_status st = kiln_conn_admit_web(conn, hello);
    if (st) kiln_conn_fail_telling(conn, st);
    return !st;
}

/* Errors that every peer may be told. */
static kiln_status check_words(kiln_conn *conn, const kiln_message *message) {
    if (message->type != KILN_MSG_HELLO)
        return KILN_ERROR(DATA_LOSS, "a connection starts with HELLO, not %s",
                          kiln_message_name(message->type));
    kiln_status st =
        kiln_version_agree(message->hello.version_min, message->hello.version_max, &conn->version);
    if (!st && message->hello.role == KILN_PEER_TRACKER)
        st = KILN_ERROR(INVALID_ARGUMENT, "trackers do not dial each other");
    if (!st && conn->web && message->hello.role != KILN_PEER_BOARD)
        st = KILN_ERROR(PERMISSION_DENIED, "a page is a board, not a %s",
                        kiln_peer_role_name((kiln_peer_role)message->hello.role));
    return st;
}

static void welcome(kiln_conn *conn, const kiln_msg_hello *hello, bool knows_token) {
    if (!admit(conn, hello, knows_token)) return;
    kiln_message message = {
        .type = KILN_MSG_WELCOME,
        .welcome = {.version = conn->version,
                    .boot = kiln_str_from(conn->listen.boot),
                    .heartbeat_ms = conn->listen.heartbeat_ms ? conn->listen.heartbeat_ms : 2000,
                    .software = kiln_str_from(conn->listen.software),
                    .features = hello->features & own_features(),
                    .session = conn->id,
                    .clock_ns = kiln_clock_ns()},
    };
    kiln_status st = kiln_conn_put(conn, &message);
    if (st) {
        kiln_conn_fail(conn, st);
        return;
    }
    conn->features = message.welcome.features;
    opened(conn, hello, NULL);
}

static void on_hello(kiln_conn *conn, const kiln_message *message) {
    const kiln_msg_hello *hello = &message->hello;
    kiln_status st = check_words(conn, message);
    if (st) {
        kiln_conn_fail_telling(conn, st);
    } else if (asks_for_challenge(conn, hello)) {
        st = kiln_challenge_send(conn, hello);
        if (st) kiln_conn_fail(conn, st);
    } else if (shows_token(conn, hello)) {
        welcome(conn, hello, true);
    } else {
        st = conn->tls ? check_key(conn, hello)
                       : kiln_peer_check_plain(&conn->peer, &conn->listen, hello);
        if (!st && conn->tls) kiln_key_rotation_proven(conn, hello);
        if (st)
            refuse(conn, st);
        else
            welcome(conn, hello, false);
    }
}

static void on_proof(kiln_conn *conn, const kiln_message *message) {
    if (message->type != KILN_MSG_PROOF) {
        kiln_conn_fail_telling(conn, KILN_ERROR(DATA_LOSS, "CHALLENGE is answered by PROOF, not %s",
                                                kiln_message_name(message->type)));
        return;
    }
    kiln_status st = kiln_challenge_check(conn, &message->proof);
    if (!st && conn->shown) st = check_key(conn, conn->asked);
    if (!st && conn->shown) kiln_key_rotation_proven(conn, conn->asked);
    if (st)
        refuse(conn, st);
    else
        welcome(conn, conn->asked, !conn->shown);
}

/* An ERROR in place of CHALLENGE: an older tracker that expects the token itself. */
static kiln_status refusal(const kiln_conn *conn, const kiln_msg_error *error) {
    kiln_status st = kiln_status_from_error(error);
    if (!kiln_conn_wants_proof(conn) || conn->proven || error->code != KILN_UNAUTHENTICATED)
        return st;
    return kiln_status_note(st, "the tracker is of an older release that expects the token itself, "
                                "which is no longer sent: update the tracker");
}

static void on_welcome(kiln_conn *conn, const kiln_msg_welcome *message) {
    kiln_status st = KILN_OK;
    if (kiln_conn_wants_proof(conn) && !conn->proven)
        st = KILN_ERROR(UNAUTHENTICATED,
                        "the program at %s has not proven that it knows the token in this user's "
                        "KILN_HOME: it is not this user's tracker, or of an older release (update "
                        "the tracker)",
                        conn->peer.address);
    if (!st) st = kiln_version_agree(message->version, message->version, &conn->version);
    if (st) {
        kiln_conn_fail_telling(conn, st);
        return;
    }
    conn->features = message->features & own_features();
    opened(conn, NULL, message);
}

static void on_answer(kiln_conn *conn, const kiln_message *message) {
    if (message->type == KILN_MSG_ERROR) {
        kiln_conn_fail(conn, refusal(conn, &message->error));
    } else if (message->type == KILN_MSG_CHALLENGE) {
        kiln_status st = kiln_challenge_answer(conn, &message->challenge);
        if (st) kiln_conn_fail_telling(conn, st);
    } else if (message->type == KILN_MSG_WELCOME) {
        on_welcome(conn, &message->welcome);
    } else {
        kiln_conn_fail_telling(conn, KILN_ERROR(DATA_LOSS, "HELLO is answered by WELCOME, not %s",
                                                kiln_message_name(message->type)));
    }
}

void kiln_handshake_message(kiln_conn *conn, const kiln_message *message) {
    if (conn->dialled)
        on_answer(conn, message);
    else if (conn->asked)
        on_proof(conn, message);
    else
        on_hello(conn, message);
}
