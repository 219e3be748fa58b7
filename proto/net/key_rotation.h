/* Key rotation (`kiln key rotate`): the tracker gives a node its next key over a connection that
 * the present key has secured. A node that connects with the generation before an offered one is
 * sent the offer, writes it into its key file, confirms it, and connects again with it. That ends
 * the older generation. Over TLS, or to a page: then the secret is masked with the present secret,
 * as a proxy may read the connection. */
#ifndef KILN_PROTO_NET_KEY_ROTATION_H
#define KILN_PROTO_NET_KEY_ROTATION_H

#include "proto/net.h"

/* Inputs of the mask and the proof of an offer to a page. */
typedef struct kiln_offer_terms {
    const uint8_t *secret;                     /* [KILN_KEY_BYTES] the present one */
    const uint8_t *peer_nonce, *tracker_nonce; /* [KILN_NONCE_BYTES] of CHALLENGE */
    uint32_t generation, last_day;
} kiln_offer_terms;
/* The masked next secret, and the proof that its sender knows the present one. Masking the result
 * again gives the secret. Pure; the bytes are described at KEY_OFFER in proto/messages.def. */
void kiln_offer_mask(const kiln_offer_terms *terms, const uint8_t secret[KILN_KEY_BYTES],
                     uint8_t out_masked[KILN_KEY_BYTES]);
void kiln_offer_prove(const kiln_offer_terms *terms, const uint8_t masked[KILN_KEY_BYTES],
                      kiln_digest *out_proof);

/* Listening: sends KEY_OFFER if the peer's key has an offer, once for each generation. */
void kiln_key_rotation_offer(kiln_conn *conn);
/* Listening. PERMISSION_DENIED: HELLO's signer is neither the list's nor its signed successor. */
KILN_MUST_USE kiln_status kiln_key_rotation_check_signer(const kiln_key *key,
                                                         const kiln_msg_hello *hello);
/* Listening: HELLO came with a proven key. If it was offered, the older generations end. A new
 * signer goes into the list. */
void kiln_key_rotation_proven(kiln_conn *conn, const kiln_msg_hello *hello);
/* KEY_OFFER on the dialling side, KEY_TAKEN on the listening one. False: another message. */
bool kiln_key_rotation_message(kiln_conn *conn, const kiln_message *message);

#endif
