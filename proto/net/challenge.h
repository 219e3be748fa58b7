/* Challenge and response on loopback, and with pages: both ends prove that they know the token, or
 * the secret of the page's key, and neither sends it. A proof covers both nonces, so that it is
 * fresh; role and node of HELLO; and the address at which this connection reaches the tracker, so
 * that a relay on another port cannot use it. The tracker proves first, so an impostor gets only a
 * nonce. */
#ifndef KILN_PROTO_NET_CHALLENGE_H
#define KILN_PROTO_NET_CHALLENGE_H

#include "proto/net/conn.h"

typedef enum kiln_prover { KILN_PROVER_TRACKER, KILN_PROVER_PEER } kiln_prover;

typedef struct kiln_proof_terms {
    const uint8_t *peer_nonce, *tracker_nonce; /* [KILN_NONCE_BYTES] each */
    uint32_t role;
    kiln_str node;
    const char *address; /* of the tracker's end: kiln_endpoint_print, or a page's kiln_ws_host */
} kiln_proof_terms;

/* The proof of one end that it knows the token: CHALLENGE in proto/messages.def. Pure. */
void kiln_prove(const uint8_t token[KILN_TOKEN_BYTES], kiln_prover who,
                const kiln_proof_terms *terms, kiln_digest *out_proof);

#define KILN_ENDPOINT_TEXT 64
/* "127.0.0.1:9477", "[::1]:9477"; an IPv4 address mapped into IPv6 is printed as IPv4, because only
 * one end of a connection may see it mapped. */
void kiln_endpoint_print(const struct sockaddr_storage *address, char out_text[KILN_ENDPOINT_TEXT]);

/* Whether this dialling connection takes only a tracker that knows the token. */
bool kiln_conn_wants_proof(const kiln_conn *conn);
/* Dialling: draws the nonce of HELLO. RESOURCE_EXHAUSTED: no random bytes. */
KILN_MUST_USE kiln_status kiln_challenge_draw(kiln_conn *conn);
/* Dialling: checks the tracker's proof, and answers by our own.
 * UNAUTHENTICATED: the listener does not know the token, or relays another's proof. */
KILN_MUST_USE kiln_status kiln_challenge_answer(kiln_conn *conn,
                                                const kiln_msg_challenge *challenge);
/* Listening: sends CHALLENGE and keeps `hello`. A page with an unknown key gets a challenge that
 * cannot be answered, so that it does not learn which keys exist. Errors of kiln_challenge_draw. */
KILN_MUST_USE kiln_status kiln_challenge_send(kiln_conn *conn, const kiln_msg_hello *hello);
/* Listening. UNAUTHENTICATED: the peer does not know the token, or its key's secret. */
KILN_MUST_USE kiln_status kiln_challenge_check(kiln_conn *conn, const kiln_msg_proof *proof);
/* Whether `key` has the proven secret. */
bool kiln_shown_is(const kiln_shown_key *shown, const kiln_key *key);

#endif
