/* Handing a node its next key over the connection that its present one has secured (`kiln key
 * rotate`). The tracker's list says that a generation is offered; whoever comes with the one before
 * is sent it, writes it into its key file, says so, and comes back with it. That ends the older
 * one. Over TLS, or to a page: then the secret is masked by what only the holder of the present one
 * can compute, as what lies between a page and here (a proxy, loopback) may read it. */
#ifndef KILN_PROTO_NET_KEY_ROTATION_H
#define KILN_PROTO_NET_KEY_ROTATION_H

#include "proto/net.h"

/* What an offer to a page is masked and proven with. */
typedef struct kiln_offer_terms {
    const uint8_t *secret;                     /* [KILN_KEY_BYTES] the present one */
    const uint8_t *peer_nonce, *tracker_nonce; /* [KILN_NONCE_BYTES] of CHALLENGE */
    uint32_t generation, last_day;
} kiln_offer_terms;
/* The next secret, masked, and the proof that it is from who knows the present one; a second call
 * on `out_masked` gives the secret again. Pure; the bytes are described at KEY_OFFER in
 * proto/messages.def. */
void kiln_offer_mask(const kiln_offer_terms *terms, const uint8_t secret[KILN_KEY_BYTES],
                     uint8_t out_masked[KILN_KEY_BYTES]);
void kiln_offer_prove(const kiln_offer_terms *terms, const uint8_t masked[KILN_KEY_BYTES],
                      kiln_digest *out_proof);

/* Listening: sends KEY_OFFER where there is something to offer, once for each generation. */
void kiln_key_rotation_offer(kiln_conn *conn);
/* Listening: what HELLO says that the node signs with must be what the list says, or what that one
 * has signed over to. PERMISSION_DENIED. */
KILN_MUST_USE kiln_status kiln_key_rotation_check_signer(const kiln_key *key,
                                                         const kiln_msg_hello *hello);
/* Listening: HELLO came under a key that was proven. One that was offered is now the node's: the
 * older ones end, and what the node signs with from now on goes into the list. */
void kiln_key_rotation_proven(kiln_conn *conn, const kiln_msg_hello *hello);
/* KEY_OFFER on the dialling side, KEY_TAKEN on the listening one. False: another message. */
bool kiln_key_rotation_message(kiln_conn *conn, const kiln_message *message);

#endif
