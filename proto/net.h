/* Front header of proto/net: connections that carry messages (proto/proto.h) and blobs over TCP and
 * Unix sockets. The tracker listens, everybody else dials. TCP_NODELAY always, one write per frame,
 * and at most KILN_NET_QUEUE_MAX bytes wait for a peer that does not read; then the connection
 * closes.
 *
 * A connection opens with HELLO and WELCOME: versions and, on TCP, the token (or, later, a key).
 * Everything runs on the loop's thread. Callbacks may send, close and dial; they may not destroy
 * the loop. */
#ifndef KILN_PROTO_NET_H
#define KILN_PROTO_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/str.h"
#include "proto/loop.h"
#include "proto/proto.h"

#define KILN_NET_QUEUE_MAX ((size_t)4 << 20) /* bytes waiting for one peer */
#define KILN_NET_BLOB_WINDOW \
    ((size_t)256 << 10) /* blob bytes queued at a time: a message waits behind no more */
#define KILN_NET_HANDSHAKE_NS UINT64_C(5000000000)
#define KILN_NET_DIAL_NS UINT64_C(5000000000)
#define KILN_TOKEN_BYTES 32

/* ---- Addresses: "HOST:PORT" (HOST:0 picks a port; [::1]:PORT) or "unix:PATH". ---- */
typedef struct kiln_address {
    bool is_unix;
    bool is_loopback; /* 127.0.0.0/8, ::1, localhost, or a Unix socket */
    char host[256];   /* or the path of the socket */
    uint16_t port;
} kiln_address;

/* INVALID_ARGUMENT: neither form; the note says what is wrong and shows both. */
KILN_MUST_USE kiln_status kiln_address_parse(kiln_str text, kiln_address *out_address);
void kiln_address_print(const kiln_address *address, kiln_strbuf *out);

/* Where a tracker may be: "ADDR" or "ADDR,ADDR,..." when others stand by for it. Who dials takes
 * the next one each time. */
#define KILN_ADDRESSES_MAX 4u
typedef struct kiln_addresses {
    kiln_address item[KILN_ADDRESSES_MAX];
    uint32_t count, turn;
} kiln_addresses;

/* INVALID_ARGUMENT: as for one address, or more than KILN_ADDRESSES_MAX. */
KILN_MUST_USE kiln_status kiln_addresses_parse(kiln_str text, kiln_addresses *out_addresses);
const kiln_address *kiln_addresses_next(kiln_addresses *addresses);
/* Whether one of them is reached over TCP. */
bool kiln_addresses_need_token(const kiln_addresses *addresses);

/* ---- The loopback token: a file that only this user can read. ---- */
/* Reads `home`/token; `create` makes it (0600, random) when it is missing. NOT_FOUND: no tracker of
 * this user ever ran here. PERMISSION_DENIED: others can read the file, or we cannot. */
KILN_MUST_USE kiln_status kiln_token_read(const char *home, bool create,
                                          uint8_t out_token[KILN_TOKEN_BYTES]);

/* ---- Connections ---- */
typedef struct kiln_conn kiln_conn;
typedef struct kiln_listener kiln_listener;

typedef struct kiln_conn_handler {
    /* The handshake is done. `hello` on the listening side, `welcome` on the dialling one, the
     * other is NULL; both last until it returns. Set kiln_conn_set_user here. Required. */
    void (*opened)(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                   const kiln_msg_welcome *welcome);
    /* A message. Its views last until it returns. Messages that the peer's role may not send never
     * get here. Blob messages do not either once a kiln_blobs is attached. Required. */
    void (*message)(void *context, kiln_conn *conn, const kiln_message *message);
    /* The connection is gone, or (dialling) could not be made: then `opened` was not called. `why`
     * is owned by the caller and never NULL: UNAVAILABLE refused, closed or timed out;
     * UNAUTHENTICATED bad token; DATA_LOSS the peer broke the protocol; CANCELLED kiln_conn_close.
     * `conn` is freed after it returns. Called exactly once per connection that was opened or
     * dialled. Required. */
    void (*closed)(void *context, kiln_conn *conn, kiln_status why);
} kiln_conn_handler;

/* Place for TLS: turns bytes for the wire into others and back. All members NULL is the identity.
 */
typedef struct kiln_conn_filter {
    void *(*create)(void *config, bool dialled);
    /* Appends to `out`; `out_reply` gets bytes that must go to the peer first (handshakes). */
    kiln_status (*encrypt)(void *filter, kiln_str plain, kiln_strbuf *out);
    kiln_status (*decrypt)(void *filter, kiln_str cipher, kiln_strbuf *out_plain,
                           kiln_strbuf *out_reply);
    void (*destroy)(void *filter);
    void *config;
} kiln_conn_filter;

typedef struct kiln_listen_options {
    kiln_address address;
    const char *boot, *software; /* for WELCOME */
    uint32_t heartbeat_ms;       /* 0: 2000 */
    const uint8_t *token; /* [KILN_TOKEN_BYTES], checked on TCP; NULL only with `insecure` or on
                             Unix sockets */
    bool insecure;        /* TCP without token, and plaintext beyond loopback */
    kiln_conn_filter filter;
    const kiln_conn_handler
        *handler; /* outlives the listener and its connections, like `context` */
    void *context;
} kiln_listen_options;

/* Listens. A Unix socket file is made 0600; a stale one of a dead program is replaced.
 * ALREADY_EXISTS      the port or path is in use; the note names it
 * PERMISSION_DENIED   plaintext beyond loopback without `insecure`, or the system says no
 * UNAVAILABLE         the host name does not resolve */
KILN_MUST_USE kiln_status kiln_net_listen(kiln_loop *loop, const kiln_listen_options *options,
                                          kiln_listener **out_listener);
/* The address with the real port. */
const kiln_address *kiln_listener_address(const kiln_listener *listener);
/* Stops listening; its connections live on. NULL is fine. */
void kiln_listener_close(kiln_listener *listener);

typedef struct kiln_dial_options {
    kiln_address address;
    kiln_peer_role role;
    const char *node, *boot, *name, *software; /* for HELLO; name and software may be NULL */
    const uint8_t *token;                      /* sent on loopback TCP only; may be NULL */
    bool insecure;
    kiln_conn_filter filter;
    const kiln_conn_handler *handler;
    void *context;
} kiln_dial_options;

/* Starts to connect; `opened` or `closed` is called later, never from inside. Never NULL. */
kiln_conn *kiln_net_dial(kiln_loop *loop, const kiln_dial_options *options);

void kiln_conn_set_user(kiln_conn *conn, void *user);
void *kiln_conn_user(const kiln_conn *conn);
/* Number that no other connection of this process has had; what step functions call a peer. */
uint64_t kiln_conn_id(const kiln_conn *conn);
/* The next free stream of our parity. */
uint32_t kiln_conn_stream(kiln_conn *conn);
/* Sends. A message that breaks a limit is a bug of the sender and is answered by OUT_OF_RANGE; a
 * connection that is closing swallows it. Over KILN_NET_QUEUE_MAX the connection closes. */
KILN_MUST_USE kiln_status kiln_conn_send(kiln_conn *conn, const kiln_message *message);
size_t kiln_conn_queued_bytes(const kiln_conn *conn);
/* Sends `why` as ERROR on stream 0 when it is not NULL (ownership passes), flushes, closes;
 * `closed` follows. */
void kiln_conn_close(kiln_conn *conn, kiln_status why);

/* ---- Blobs ---- */

/* Content-addressed files in one folder; the name of a file is its SHA-256, and a file with such a
 * name is whole and verified. Safe for several processes. */
typedef struct kiln_blob_store kiln_blob_store;

typedef struct kiln_blob_store_options {
    const char *folder; /* created 0700 */
    uint64_t bytes_max; /* oldest used go first above it; 0: no limit */
    bool durable;       /* sync each blob before it is visible */
} kiln_blob_store_options;

/* PERMISSION_DENIED, RESOURCE_EXHAUSTED: the folder cannot be made. Unfinished
 * transfers older than a day are removed. */
KILN_MUST_USE kiln_status kiln_blob_store_open(const kiln_blob_store_options *options,
                                               kiln_blob_store **out_store);
void kiln_blob_store_close(kiln_blob_store *store); /* NULL is fine */
bool kiln_blob_store_has(kiln_blob_store *store, const kiln_digest *digest);
/* RESOURCE_EXHAUSTED when the disk is full. */
KILN_MUST_USE kiln_status kiln_blob_store_put(kiln_blob_store *store, kiln_str content,
                                              kiln_digest *out_digest);
/* Whole content in `arena`. NOT_FOUND; DATA_LOSS when the disk changed it. */
KILN_MUST_USE kiln_status kiln_blob_store_get(kiln_blob_store *store, const kiln_digest *digest,
                                              kiln_arena *arena, kiln_str *out_content);
/* Path of a stored blob in `arena` (for a child process to map). NOT_FOUND. */
KILN_MUST_USE kiln_status kiln_blob_store_path(kiln_blob_store *store, const kiln_digest *digest,
                                               kiln_arena *arena, char **out_path);

/* Moves blobs over one connection, both ways, and answers the peer's BLOB_* messages from `store`.
 * Attach it in `opened`; it goes with the connection. Transfers under way when the connection
 * closes end with UNAVAILABLE (just before `closed` is called; by then no new ones may start). What
 * a store has is never sent again. */
typedef struct kiln_blobs kiln_blobs;
kiln_blobs *kiln_blobs_attach(kiln_conn *conn, kiln_blob_store *store);
/* Makes sure that the peer has the blob, which is in the store: asks, sends when missing. `done`
 * gets an owned status: NULL when the peer has it; NOT_FOUND when our store has not. It is called
 * once, from the loop, never from inside these calls. */
typedef void (*kiln_blobs_done)(void *context, const kiln_digest *digest, kiln_status status);
void kiln_blobs_upload(kiln_blobs *blobs, const kiln_digest *digest, kiln_blobs_done done,
                       void *context);
/* Makes sure that our store has the blob. NOT_FOUND: the peer has it not. Two fetches of one blob
 * share the transfer. */
void kiln_blobs_fetch(kiln_blobs *blobs, const kiln_digest *digest, kiln_blobs_done done,
                      void *context);

#endif
