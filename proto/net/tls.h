/* TLS 1.3 with pre-shared keys, on bytes, without sockets. tls.c uses OpenSSL; tls_none.c replaces
 * it in builds without. One object per connection; OpenSSL reads and writes the caller's buffers,
 * so that an idle connection holds none. */
#ifndef KILN_PROTO_NET_TLS_H
#define KILN_PROTO_NET_TLS_H

#include "proto/net.h"

#define KILN_TLS_HELLO_MAX ((size_t)4096) /* a record before the peer has proven a key */
#define KILN_TLS_FIRST_BYTE 0x16          /* every TLS connection begins with it, no frame does */

typedef struct kiln_tls_context kiln_tls_context; /* shared by the connections of a loop */
typedef struct kiln_tls kiln_tls;

/* UNIMPLEMENTED: this build has no TLS. RESOURCE_EXHAUSTED: OpenSSL could not be set up. */
KILN_MUST_USE kiln_status kiln_tls_context_create(kiln_tls_context **out_context);
void kiln_tls_context_destroy(kiln_tls_context *context); /* NULL is fine */

/* Both directions get new traffic keys (KeyUpdate) after so many bytes or so long, whichever comes
 * first: a leaked key then opens only a part of a long connection. */
#define KILN_TLS_REKEY_BYTES ((uint64_t)1 << 30)
#define KILN_TLS_REKEY_NS (UINT64_C(3600) * 1000000000)
void kiln_tls_context_set_rekey(kiln_tls_context *context, uint64_t bytes, uint64_t ns);

/* Listening: accepts every key of `ring`, which outlives it. */
kiln_tls *kiln_tls_accept(kiln_tls_context *context, const kiln_keyring *ring);
/* Dialling: shows `key` (copied), and accepts only a peer that has it too. */
kiln_tls *kiln_tls_dial(kiln_tls_context *context, const kiln_key *key);
void kiln_tls_destroy(kiln_tls *tls); /* NULL is fine */

/* Appends what the dialling side sends first. */
KILN_MUST_USE kiln_status kiln_tls_begin(kiln_tls *tls, kiln_strbuf *out_wire);
/* Takes bytes of the peer: appends the decrypted ones to `out_plain`, and an answer to `out_wire`
 * (also when it fails, as it tells the peer).
 * UNAUTHENTICATED: the peer has not proven a key. DATA_LOSS: changed on the way, or not TLS.
 * UNAVAILABLE: the peer has closed. */
KILN_MUST_USE kiln_status kiln_tls_receive(kiln_tls *tls, kiln_str wire, kiln_strbuf *out_plain,
                                           kiln_strbuf *out_wire);
/* Both sides have proven the key. */
bool kiln_tls_ready(const kiln_tls *tls);
/* Only when ready. */
KILN_MUST_USE kiln_status kiln_tls_send(kiln_tls *tls, kiln_str plain, kiln_strbuf *out_wire);
/* The key of this connection as in the handshake, without its secret when ready; before that the
 * key that the peer claims, NULL when it is none of ours. */
const kiln_key *kiln_tls_key(const kiln_tls *tls);
/* Whether `key` has the secret that both sides have proven. Only when ready. */
bool kiln_tls_has_proven(const kiln_tls *tls, const kiln_key *key);
/* The key name that the peer sent, unchecked (for the audit log). */
const char *kiln_tls_claim(const kiln_tls *tls);

#endif
