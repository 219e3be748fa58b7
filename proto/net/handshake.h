/* The handshake: which peer is at the other end, and whether it may come in. */
#ifndef KILN_PROTO_NET_HANDSHAKE_H
#define KILN_PROTO_NET_HANDSHAKE_H

#include "proto/net/conn.h"

/* The socket is connected: reads from it; the dialling side speaks first. */
void kiln_handshake_start(kiln_conn *conn);
/* The first bytes of a peer that dialled us: TLS or plain text. */
void kiln_handshake_recognise(kiln_conn *conn, kiln_str bytes);
/* Both ends have proven the key: over TLS the dialling side sends HELLO now. */
void kiln_handshake_secured(kiln_conn *conn);
/* A message before the connection is open. */
void kiln_handshake_message(kiln_conn *conn, const kiln_message *message);

/* Closes the accepted connections whose key is no longer in `ring`; offers the others a new one. */
void kiln_handshake_check_keys(kiln_loop *loop, const kiln_keyring *ring);
/* Whether a peer may come in that says this in plain text from there, and has not proven the token.
 * UNAUTHENTICATED: why not, for the log. */
KILN_MUST_USE kiln_status kiln_peer_check_plain(const kiln_peer *peer,
                                                const kiln_listen_options *listen,
                                                const kiln_msg_hello *hello);

#endif
