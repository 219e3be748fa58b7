/* Handing a node its next key over the connection that its present one has secured (`kiln key
 * rotate`). The tracker's list says that a generation is offered; whoever comes with the one before
 * is sent it, writes it into its key file, says so, and comes back with it. That ends the older
 * one. Only over TLS. */
#ifndef KILN_PROTO_NET_ROTATE_H
#define KILN_PROTO_NET_ROTATE_H

#include "proto/net/internal.h"

/* Listening: sends KEY_OFFER where there is something to offer, once for each generation. */
void kiln_rotate_offer(kiln_conn *conn);
/* Listening: what HELLO says that the node signs with must be what the list says, or what that one
 * has signed over to. PERMISSION_DENIED. */
KILN_MUST_USE kiln_status kiln_rotate_check_signer(const kiln_key *key,
                                                   const kiln_msg_hello *hello);
/* Listening: HELLO came under a key that was proven. One that was offered is now the node's: the
 * older ones end, and what the node signs with from now on goes into the list. */
void kiln_rotate_proven(kiln_conn *conn, const kiln_msg_hello *hello);
/* KEY_OFFER on the dialling side, KEY_TAKEN on the listening one. False: another message. */
bool kiln_rotate_message(kiln_conn *conn, const kiln_message *message);
/* The connection goes. */
void kiln_rotate_forget(kiln_conn *conn);

#endif
