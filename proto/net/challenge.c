#include "proto/net/challenge.h"

#include <string.h>

#include "base/rand.h"
#include "proto/net/keyring.h"
#include "proto/net/peer_identity.h"

void kiln_prove(const uint8_t token[KILN_TOKEN_BYTES], kiln_prover who,
                const kiln_proof_terms *terms, kiln_digest *out_proof) {
    static const kiln_str word[] = {
        [KILN_PROVER_TRACKER] = {"kiln tracker", sizeof "kiln tracker"}, /* each with its NUL */
        [KILN_PROVER_PEER] = {"kiln peer", sizeof "kiln peer"},
    };
    const char role = (char)terms->role;
    const kiln_str part[] = {
        word[who],
        {(const char *)terms->peer_nonce, KILN_NONCE_BYTES},
        {(const char *)terms->tracker_nonce, KILN_NONCE_BYTES},
        {&role, 1},
        terms->node,
        {"", 1},
        kiln_str_from(terms->address),
    };
    kiln_hmac_of_parts((kiln_str){(const char *)token, KILN_TOKEN_BYTES}, part,
                       KILN_ARRAY_COUNT(part), out_proof);
}

void kiln_endpoint_print(const struct sockaddr_storage *address,
                         char out_text[KILN_ENDPOINT_TEXT]) {
    static const uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct sockaddr_storage plain = *address;
    struct sockaddr_in6 v6;
    memcpy(&v6, address, sizeof v6);
    if (address->ss_family == AF_INET6 && memcmp(&v6.sin6_addr, mapped, sizeof mapped) == 0) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6.sin6_port};
        memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + sizeof mapped, sizeof v4.sin_addr);
        memcpy(&plain, &v4, sizeof v4);
    }
    kiln_peer peer = {0};
    kiln_peer_set_address(&peer, &plain);
    memcpy(out_text, peer.address, KILN_ENDPOINT_TEXT);
}

/* The tracker's end of the connection. */
static void tracker_endpoint(const kiln_conn *conn, char out_text[KILN_ENDPOINT_TEXT]) {
    struct sockaddr_storage address = {0};
    struct sockaddr *at = (struct sockaddr *)&address;
    int size = sizeof address;
    int code = conn->dialled ? uv_tcp_getpeername(&conn->socket->tcp, at, &size)
                             : uv_tcp_getsockname(&conn->socket->tcp, at, &size);
    out_text[0] = '\0';
    if (code == 0) kiln_endpoint_print(&address, out_text);
}

bool kiln_conn_wants_proof(const kiln_conn *conn) {
    return conn->credentials.has_token && !conn->tls && !conn->dial.address.is_unix;
}

kiln_status kiln_challenge_draw(kiln_conn *conn) {
    return kiln_rand_system(conn->dialled ? conn->peer_nonce : conn->tracker_nonce,
                            KILN_NONCE_BYTES);
}

static const uint8_t *secret_of(const kiln_conn *conn) {
    if (conn->dialled) return conn->credentials.token;
    return conn->shown ? conn->shown->key.secret : conn->listen.token;
}

static void prove(const kiln_conn *conn, kiln_prover who, kiln_digest *out_proof) {
    char address[KILN_ENDPOINT_TEXT];
    tracker_endpoint(conn, address);
    const kiln_proof_terms terms = {
        .peer_nonce = conn->peer_nonce,
        .tracker_nonce = conn->tracker_nonce,
        .role = conn->dialled ? (uint32_t)conn->dial.role : conn->asked->role,
        .node = conn->dialled ? kiln_str_from(conn->dial.node) : conn->asked->node,
        .address = conn->web ? kiln_ws_host(conn->web) : address};
    kiln_prove(secret_of(conn), who, &terms, out_proof);
}

kiln_status kiln_challenge_answer(kiln_conn *conn, const kiln_msg_challenge *challenge) {
    kiln_digest expected;
    kiln_message answer = {.type = KILN_MSG_PROOF};
    if (!kiln_conn_wants_proof(conn) || conn->proven || challenge->nonce.size != KILN_NONCE_BYTES)
        return KILN_ERROR(DATA_LOSS, "a CHALLENGE that was not asked for");
    memcpy(conn->tracker_nonce, challenge->nonce.data, KILN_NONCE_BYTES);
    prove(conn, KILN_PROVER_TRACKER, &expected);
    if (!kiln_digest_equal_secret(&expected, &challenge->proof))
        return KILN_ERROR(UNAUTHENTICATED,
                          "the program at %s does not know the token in this user's KILN_HOME: it "
                          "is not this user's tracker, runs with another KILN_HOME, or is reached "
                          "through a forwarded port",
                          conn->peer.address);
    conn->proven = true;
    prove(conn, KILN_PROVER_PEER, &answer.proof.proof);
    return kiln_conn_put(conn, &answer);
}

/* Keeps the key that a page shows, with our secret or a random one. */
static kiln_status look_up_key(kiln_conn *conn, kiln_str name) {
    kiln_shown_key *shown = kiln_arena_alloc(&conn->arena, sizeof *shown);
    kiln_status st = kiln_key_name_parse(name, &shown->key);
    const kiln_key *ours = st ? NULL : kiln_keyring_find(conn->listen.keyring, &shown->key);
    kiln_status_free(st); /* an invalid name is an unknown key */
    conn->shown = shown;
    memcpy(conn->peer.key, name.data, KILN_MIN(name.size, sizeof conn->peer.key - 1));
    if (!ours) return kiln_rand_system(shown->key.secret, sizeof shown->key.secret);
    shown->key = *ours;
    return KILN_OK;
}

bool kiln_shown_is(const kiln_shown_key *shown, const kiln_key *key) {
    kiln_digest digest;
    kiln_digest_of(key->secret, sizeof key->secret, &digest);
    return kiln_digest_equal_secret(&digest, &shown->secret_digest);
}

kiln_status kiln_challenge_send(kiln_conn *conn, const kiln_msg_hello *hello) {
    kiln_message challenge = {.type = KILN_MSG_CHALLENGE};
    kiln_status st = kiln_challenge_draw(conn);
    if (!st && conn->web) st = look_up_key(conn, hello->key);
    if (st) return st;
    kiln_message kept =
        kiln_message_copy(&(kiln_message){.type = KILN_MSG_HELLO, .hello = *hello}, &conn->arena);
    conn->asked = kiln_arena_copy(&conn->arena, &kept.hello, sizeof kept.hello);
    memcpy(conn->peer_nonce, hello->nonce.data, KILN_NONCE_BYTES);
    challenge.challenge.nonce = (kiln_str){(const char *)conn->tracker_nonce, KILN_NONCE_BYTES};
    prove(conn, KILN_PROVER_TRACKER, &challenge.challenge.proof);
    return kiln_conn_put(conn, &challenge);
}

/* Later its digest is compared, not the secret. */
static void keep_proven(kiln_conn *conn) {
    kiln_shown_key *shown = conn->shown;
    kiln_key_name_print(&shown->key, conn->peer.key);
    kiln_digest_of(shown->key.secret, sizeof shown->key.secret, &shown->secret_digest);
    explicit_bzero(shown->key.secret, sizeof shown->key.secret);
    shown->is_proven = true;
}

kiln_status kiln_challenge_check(kiln_conn *conn, const kiln_msg_proof *proof) {
    kiln_digest expected;
    prove(conn, KILN_PROVER_PEER, &expected);
    if (!kiln_digest_equal_secret(&expected, &proof->proof))
        return KILN_ERROR(UNAUTHENTICATED, "a wrong proof of the %s",
                          conn->shown ? "key's secret" : "token");
    if (conn->shown) keep_proven(conn);
    return KILN_OK;
}
