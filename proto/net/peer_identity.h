/* The address, the user and the person that a peer is; rights are granted to these. */
#ifndef KILN_PROTO_NET_PEER_IDENTITY_H
#define KILN_PROTO_NET_PEER_IDENTITY_H

#include "proto/net/conn.h"

/* The name of a user of this machine as `passwd` (text of /etc/passwd) has it, cut at
 * KILN_PERSON_MAX; "uid-1000" where it has none. Pure. */
void kiln_peer_user_name(kiln_str passwd, uint32_t uid, char out_name[KILN_PERSON_MAX + 1]);

/* The peer's user on a Unix socket; KILN_UID_UNKNOWN where the system does not tell it. */
uint32_t kiln_socket_uid(const uv_pipe_t *pipe);

/* Fills in the text of an address, and whether it is this machine's. */
void kiln_peer_set_address(kiln_peer *peer, const struct sockaddr_storage *address);
/* The same from the connection's socket. */
void kiln_peer_learn_address(kiln_conn *conn);

/* Fills in is_owner, uid and person at the end of the handshake, from the proven key, else the user
 * of a Unix socket, else `knows_token`, as only the tracker's own user can read the token. */
void kiln_conn_identify(kiln_conn *conn, bool knows_token);

/* Then makes the connection of a web server that names a person one of that person. The tracker's
 * user has every right if the web server is that user's. UNAUTHENTICATED: there is no such person,
 * or the person's token is no longer in force. */
KILN_MUST_USE kiln_status kiln_conn_admit_web(kiln_conn *conn, const kiln_msg_hello *hello);
/* Whether that still holds with the keys of now. UNAUTHENTICATED: it does not. */
KILN_MUST_USE kiln_status kiln_conn_check_person(const kiln_conn *conn);

#endif
