/* Front header of proto/net: connections that carry messages (proto/proto.h) and blobs over TCP and
 * Unix sockets. The tracker listens, all other programs dial. TCP_NODELAY always; the messages to a
 * peer of one turn of the loop go out in one write at its end. At most KILN_NET_QUEUE_MAX bytes
 * wait for a peer that does not read; then the connection closes.
 *
 * A listener accepts: on a Unix socket every peer that can open it; on loopback peers that know the
 * token, which both ends prove and neither sends (challenge and response); from anywhere peers with
 * a key (proto/keys.h), over TLS 1.3; on a "ws:" address pages of an allowed origin that prove a
 * board's key by challenge. Other peers, in plain text, only with `insecure`. The first byte tells
 * TLS from plain text. A stranger is a peer before its handshake is done. Each costs at most
 * KILN_NET_STRANGER_BYTES and KILN_NET_HANDSHAKE_NS. There are at most KILN_NET_STRANGERS_MAX of
 * them, fewer where the system allows few descriptors. Beyond that the oldest silent one is closed,
 * first those of addresses that begin many connections.
 *
 * A connection opens with HELLO and WELCOME. Everything runs on the loop's thread. Callbacks may
 * send, close and dial; they may not destroy the loop. */
#ifndef KILN_PROTO_NET_H
#define KILN_PROTO_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/sign/sign.h"
#include "base/status.h"
#include "base/str.h"
#include "proto/depot.h"
#include "proto/keys.h"
#include "proto/loop.h"
#include "proto/proto.h"

#define KILN_NET_QUEUE_MAX ((size_t)4 << 20) /* bytes waiting for one peer */
#define KILN_NET_BLOB_WINDOW \
    ((size_t)256 << 10) /* blob bytes queued at a time: a message waits behind no more */
#define KILN_NET_HANDSHAKE_NS UINT64_C(5000000000)
#define KILN_NET_DIAL_NS UINT64_C(5000000000)
#define KILN_NET_STRANGER_BYTES ((size_t)64 << 10)
#define KILN_NET_STRANGERS_MAX 16384u        /* more than any fleet that comes back at once */
#define KILN_NET_KEYS_NS UINT64_C(500000000) /* between two checks of a key file */
#define KILN_TOKEN_BYTES 32

/* ---- Addresses: "HOST:PORT" (HOST:0 picks a port; [::1]:PORT) or "unix:PATH". ---- */
typedef struct kiln_address {
    bool is_unix;
    bool is_web;      /* "ws:HOST:PORT": pages dial it by WebSocket; of listeners only */
    bool is_loopback; /* 127.0.0.0/8, ::1, localhost, or a Unix socket */
    char host[256];   /* or the path of the socket */
    uint16_t port;
} kiln_address;

/* INVALID_ARGUMENT: neither form; the error shows both. */
KILN_MUST_USE kiln_status kiln_address_parse(kiln_str text, kiln_address *out_address);
/* Also takes "ws:HOST:PORT", for listeners. */
KILN_MUST_USE kiln_status kiln_address_parse_listener(kiln_str text, kiln_address *out_address);
void kiln_address_print(const kiln_address *address, kiln_strbuf *out);

/* "ADDR", or "ADDR,ADDR,..." for a tracker with stand-by trackers. Each dial takes the next one. */
#define KILN_ADDRESSES_MAX 4u
typedef struct kiln_addresses {
    kiln_address item[KILN_ADDRESSES_MAX];
    uint32_t count, turn;
} kiln_addresses;

/* INVALID_ARGUMENT: as for one address, or more than KILN_ADDRESSES_MAX. */
KILN_MUST_USE kiln_status kiln_addresses_parse(kiln_str text, kiln_addresses *out_addresses);
const kiln_address *kiln_addresses_next(kiln_addresses *addresses);

/* The file in $KILN_HOME with the address of this user's tracker, for programs without --tracker;
 * and its longest line. */
#define KILN_TRACKER_ADDRESS_FILE "address"
#define KILN_ADDRESS_TEXT_MAX ((size_t)512)

/* ---- The loopback token: a file that only this user can read. ---- */
/* Reads `home`/token; `create` makes it (0600, random) when it is missing. NOT_FOUND: no tracker of
 * this user has run here. PERMISSION_DENIED: others can read the file, or this user cannot. */
KILN_MUST_USE kiln_status kiln_token_read(const char *home, bool create,
                                          uint8_t out_token[KILN_TOKEN_BYTES]);

/* ---- Key files ---- */

/* Whether this build speaks TLS (meson option `tls`); without it keys are refused. */
bool kiln_tls_supported(void);

/* NOT_FOUND; PERMISSION_DENIED: others can read it, or this user cannot; DATA_LOSS:
 * kiln_keys_parse. */
KILN_MUST_USE kiln_status kiln_keys_read(const char *path, kiln_keys *out_keys);
/* Replaces the file atomically, 0600. */
KILN_MUST_USE kiln_status kiln_keys_write(const char *path, const kiln_keys *keys);

/* Replaces the key in a node's own file by a newer generation. The node draws a new seed for
 * signatures, which the old one signs; a build without signatures keeps its seed.
 * FAILED_PRECONDITION: the key is of another node. Errors of kiln_keys_read and _write. */
KILN_MUST_USE kiln_status kiln_key_take(const char *path, const kiln_key *next);

/* The keys of a listener, from a file that is checked every KILN_NET_KEYS_NS. Connections whose key
 * was removed are closed then. */
typedef struct kiln_keyring kiln_keyring;
/* The changed file was read; with an error the keys stay as they were. `status` is the caller's. */
typedef void (*kiln_keyring_changed)(void *context, kiln_status status);
/* `changed` may be NULL. Errors as kiln_keys_read; UNIMPLEMENTED without TLS. */
KILN_MUST_USE kiln_status kiln_keyring_open(kiln_loop *loop, const char *path,
                                            kiln_keyring_changed changed, void *context,
                                            kiln_keyring **out_ring);
/* Reads the file now, changed or not (SIGHUP). */
void kiln_keyring_reload(kiln_keyring *ring);
/* Outcome of a generation that was offered to its node (`kiln key rotate`): KILN_KEY_IN_FORCE, the
 * node has connected with it; KILN_KEY_DECLINED, and why. For the log. */
typedef void (*kiln_keyring_settled)(void *context, const kiln_key *name, kiln_key_state outcome,
                                     const char *why);
void kiln_keyring_on_settled(kiln_keyring *ring, kiln_keyring_settled settled);
/* Calls `visit` for each key that is in the file, also one that has expired. */
void kiln_keyring_each(const kiln_keyring *ring, void (*visit)(void *context, const kiln_key *key),
                       void *context);
uint32_t kiln_keyring_count(const kiln_keyring *ring);
/* kiln_keys_of_person and kiln_keys_token of its keys, today; the key is valid until the file is
 * read again. */
kiln_person_keys kiln_keyring_person(const kiln_keyring *ring, kiln_str person);
const kiln_key *kiln_keyring_token(const kiln_keyring *ring, kiln_str person, kiln_str secret);
/* Whether the token of this name is in force and the person's. */
bool kiln_keyring_has_token(const kiln_keyring *ring, kiln_str person, kiln_str name);
/* kiln_keys_signer of its keys, today; valid until the file is read again. */
const kiln_key *kiln_keyring_signer(const kiln_keyring *ring, const kiln_key *name,
                                    const kiln_sign_public *half);
/* After the listeners that use it are closed and before the loop is destroyed. NULL is fine. */
void kiln_keyring_close(kiln_keyring *ring);

/* ---- Credentials: what a program proves to a tracker ---- */

#define KILN_KEY_PATH_MAX 255u

typedef struct kiln_credentials {
    bool insecure; /* plain text to anywhere */
    bool has_token, has_key;
    uint8_t token[KILN_TOKEN_BYTES];      /* proven on loopback, never sent */
    char key_path[KILN_KEY_PATH_MAX + 1]; /* file of the key; "": its path is longer */
    kiln_key key; /* for TLS on TCP; HELLO has its node and public half; no seed */
} kiln_credentials;

/* Finds them, in this order: none for a Unix socket; the newest key in `key_file` when that is not
 * NULL; none with `insecure`; on loopback the token in `home`; the key in `home`/key. Cheap enough
 * for every dial, so that a replaced key is used at once.
 * NOT_FOUND, PERMISSION_DENIED, DATA_LOSS: the file; PERMISSION_DENIED also without a key for
 * another machine: the error says how to get one. */
KILN_MUST_USE kiln_status kiln_credentials_load(const kiln_address *address, const char *home,
                                                const char *key_file, bool insecure,
                                                kiln_credentials *out_credentials);
/* OK when there are some for each address; errors of kiln_credentials_load. */
KILN_MUST_USE kiln_status kiln_credentials_check(const kiln_addresses *addresses, const char *home,
                                                 const char *key_file, bool insecure);

/* ---- Connections ---- */
typedef struct kiln_conn kiln_conn;
typedef struct kiln_listener kiln_listener;

/* Whether this build has listeners for pages (meson option `websocket`, and `tls`). */
bool kiln_ws_supported(void);
/* Origins of pages that may connect, as browsers send them ("https://fleet.example"). A peer
 * without an origin is no page, and proves its key as pages do. */
#define KILN_ORIGINS_MAX 16u
typedef struct kiln_origins {
    const char *item[KILN_ORIGINS_MAX];
    uint32_t count;
} kiln_origins;
/* INVALID_ARGUMENT: not SCHEME://HOST or SCHEME://HOST:PORT. */
KILN_MUST_USE kiln_status kiln_origin_check(kiln_str text);

typedef struct kiln_conn_handler {
    /* The handshake is done. `hello` on the listening side, `welcome` on the dialling one, the
     * other is NULL; valid until it returns. Required. */
    void (*opened)(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                   const kiln_msg_welcome *welcome);
    /* A message. Its views are valid until it returns. Not called for messages that the peer's role
     * may not send, and, once a kiln_blobs is attached, for those about blobs. Required. */
    void (*message)(void *context, kiln_conn *conn, const kiln_message *message);
    /* The connection has closed, or (dialling) could not be made: then `opened` was not called.
     * `why` is owned by the caller and never NULL: UNAVAILABLE refused, closed or timed out;
     * UNAUTHENTICATED one end does not know the other's token or key; DATA_LOSS the peer broke the
     * protocol; CANCELLED kiln_conn_close. `conn` is freed after it returns. Called exactly once
     * per connection that was opened or dialled. Required. */
    void (*closed)(void *context, kiln_conn *conn, kiln_status why);
} kiln_conn_handler;

#define KILN_UID_UNKNOWN UINT32_MAX
#define KILN_PERSON_MAX KILN_MESSAGES_TEXT

/* The peer of a connection. */
typedef struct kiln_peer {
    char address[64];              /* "192.0.2.1:40000", "unix" */
    char key[KILN_KEY_NAME_BYTES]; /* proven; of a refused peer the one it claimed; or "" */
    kiln_peer_role role;           /* of HELLO; TRACKER before */
    bool is_loopback;              /* or a Unix socket */
    bool is_owner; /* the user that runs the tracker, or root: by its Unix socket or the token */
    uint32_t uid;  /* of the peer of a Unix socket; else KILN_UID_UNKNOWN */
    char person[KILN_PERSON_MAX + 1]; /* clients and admins: node of the key, or name of the local
                                         user; "": a program, or unknown */
    bool is_admin;                    /* it has the rights of an `admin` key */
    bool
        by_web; /* a web server speaks for the person; `role` is the person's, `key` the server's */
    char signed_in[KILN_KEY_NAME_BYTES]; /* token with which the person signed in there; or "" */
} kiln_peer;

/* Counts of the listeners of a loop since it was made: X(name, doc). */
#define KILN_NET_COUNTS(X)                                                  \
    X(accepted, "connections accepted")                                     \
    X(welcomed, "connections whose handshake succeeded")                    \
    X(refused, "connections refused, or closed during their handshake")     \
    X(crowded_out, "silent connections closed to make room for others")     \
    X(over_rate, "connections accepted from addresses that began too many") \
    X(no_descriptor, "connections closed because descriptors run out")      \
    X(accept_errors, "connections that the system failed to accept")

typedef struct kiln_net_stats {
#define X(name, doc) uint64_t name;
    KILN_NET_COUNTS(X)
#undef X
    uint32_t strangers, known; /* there now */
} kiln_net_stats;
void kiln_loop_net_stats(const kiln_loop *loop, kiln_net_stats *out_stats);

typedef struct kiln_listen_options {
    kiln_address address;
    const char *boot, *software; /* for WELCOME */
    uint32_t heartbeat_ms;       /* 0: 2000 */
    uint32_t strangers_max;      /* 0: KILN_NET_STRANGERS_MAX, or what the descriptors allow */
    const uint8_t *token;  /* [KILN_TOKEN_BYTES], proven by both ends on loopback; NULL only with
                              `insecure`, with a keyring, or on Unix sockets */
    bool insecure;         /* TCP without token, and plain text beyond loopback */
    kiln_keyring *keyring; /* TCP: peers with one of its keys may connect from anywhere; NULL: none.
                              Outlives the listener and its connections */
    const kiln_origins *origins; /* of a "ws:" address, never NULL there; outlives them too */
    const kiln_conn_handler
        *handler; /* outlives the listener and its connections, like `context` */
    void *context;
    /* A peer was refused before `opened`. For the audit log; may be NULL. */
    void (*refused)(void *context, const kiln_peer *peer, kiln_status why);
    /* A web server speaks for `peer->person`; asked in its handshake, and again when the keyring
     * changes. `*out_admin`: the person has every right. UNAUTHENTICATED: there is no such person,
     * or no token `peer->signed_in`. NULL: web servers may speak for no person. */
    kiln_status (*find_person)(void *context, const kiln_peer *peer, bool *out_admin);
    /* Connections were lost: `since` has the counts since the last call; at most once a minute. For
     * a warning; may be NULL. */
    void (*on_losses)(void *context, const kiln_net_stats *since);
} kiln_listen_options;

/* Listens, with as many descriptors as the system allows this process (the soft limit is raised to
 * the hard one). A Unix socket file is made 0600; a stale one of a dead program is replaced.
 * ALREADY_EXISTS      the port or path is in use; the note names it
 * PERMISSION_DENIED   beyond loopback with neither keys nor `insecure`; for pages, without keys or
 *                     beyond loopback without `insecure`; or the system refuses
 * UNIMPLEMENTED       for pages, in a build without WebSockets
 * UNAVAILABLE         the host name does not resolve */
KILN_MUST_USE kiln_status kiln_net_listen(kiln_loop *loop, const kiln_listen_options *options,
                                          kiln_listener **out_listener);
/* The address with the real port. */
const kiln_address *kiln_listener_address(const kiln_listener *listener);
/* From here on peers with one of its keys may connect, too. The listener had no keyring. */
void kiln_listener_set_keyring(kiln_listener *listener, kiln_keyring *keyring);
/* Stops listening. Open connections stay; those in their handshake are refused. NULL is fine. */
void kiln_listener_close(kiln_listener *listener);

typedef struct kiln_dial_options {
    kiln_address address;
    kiln_peer_role role;
    const char *node, *boot, *name, *software; /* for HELLO; name and software may be NULL */
    const char *person, *signed_in; /* of role WEB: speaks for this person, who signed in with this
                                       token (HELLO); NULL: none */
    kiln_credentials *credentials;  /* moved into the connection: wiped here; NULL: none */
    int socket_fd;                  /* of a Unix address: a connected socket, taken over; 0: none */
    const kiln_sign_public *signer; /* for HELLO, when the key has none; outlives the connection;
                                       NULL: none */
    /* Replaces our key by the one that the tracker offers (kiln_key_take), at once, for a program
     * that may not write its key file itself; NULL: the pool does it. */
    kiln_status (*take_key)(void *context, const kiln_key *next);
    const kiln_conn_handler *handler;
    void *context;
} kiln_dial_options;

/* Starts to connect; `opened` or `closed` is called later, never from inside. Never NULL. */
kiln_conn *kiln_net_dial(kiln_loop *loop, const kiln_dial_options *options);

/* Lives as long as the connection. */
const kiln_peer *kiln_conn_peer(const kiln_conn *conn);
/* Version that both sides speak; 0 before `opened`. */
uint32_t kiln_conn_version(const kiln_conn *conn);
/* Unique in this process; step functions name a peer by it. */
uint64_t kiln_conn_id(const kiln_conn *conn);
/* The next free stream of this side: odd when it dialled, else even. */
uint32_t kiln_conn_stream(kiln_conn *conn);
/* Sends. A closing connection drops the message. Over KILN_NET_QUEUE_MAX the connection closes.
 * OUT_OF_RANGE: the message breaks a limit, which is a bug of the sender. UNIMPLEMENTED: the peer's
 * version does not have this message. */
KILN_MUST_USE kiln_status kiln_conn_send(kiln_conn *conn, const kiln_message *message);
size_t kiln_conn_queued_bytes(const kiln_conn *conn);
/* Bytes over the wire so far, both ways; the system has taken what counts as sent. */
uint64_t kiln_conn_wire_bytes(const kiln_conn *conn);
/* Sends `why` (taken; may be NULL) as ERROR on stream 0, flushes, closes; `closed` follows. */
void kiln_conn_close(kiln_conn *conn, kiln_status why);

/* ---- Blobs ---- */

/* Content-addressed files in one folder; the name of a file is its SHA-256, and a file with such a
 * name is complete and verified. Safe for several processes. */
typedef struct kiln_blob_store kiln_blob_store;

typedef struct kiln_blob_store_options {
    const char *folder; /* created 0700 */
    uint64_t bytes_max; /* above it the least recently used are removed, and, in a store that is not
                           durable, when the disk is full; 0: no limit */
    bool durable;       /* sync each blob before it is visible */
    kiln_depot *depot;  /* gets a copy of each blob before it is visible here, and returns blobs
                           that the folder lacks; NULL: none. Outlives the store */
} kiln_blob_store_options;

/* PERMISSION_DENIED, RESOURCE_EXHAUSTED: the folder cannot be made. Unfinished transfers older than
 * a day are removed. With a depot, calls that read or finish a blob may take as long as a transfer,
 * and may return the depot's errors. */
KILN_MUST_USE kiln_status kiln_blob_store_open(const kiln_blob_store_options *options,
                                               kiln_blob_store **out_store);
void kiln_blob_store_close(kiln_blob_store *store); /* NULL is fine */
/* In the folder; a depot is not asked. Counts as a use of the blob. */
bool kiln_blob_store_has(kiln_blob_store *store, const kiln_digest *digest);
/* RESOURCE_EXHAUSTED when the disk is full. */
KILN_MUST_USE kiln_status kiln_blob_store_put(kiln_blob_store *store, kiln_str content,
                                              kiln_digest *out_digest);
/* The same of parts, one after the other: large content need not be one piece of memory. */
KILN_MUST_USE kiln_status kiln_blob_store_put_parts(kiln_blob_store *store, const kiln_str *part,
                                                    uint32_t count, kiln_digest *out_digest);
/* All of the content, in `arena`. NOT_FOUND; DATA_LOSS when the disk changed it. */
KILN_MUST_USE kiln_status kiln_blob_store_get(kiln_blob_store *store, const kiln_digest *digest,
                                              kiln_arena *arena, kiln_str *out_content);
/* Path of a stored blob in `arena` (for a child process to map). NOT_FOUND. */
KILN_MUST_USE kiln_status kiln_blob_store_path(kiln_blob_store *store, const kiln_digest *digest,
                                               kiln_arena *arena, char **out_path);

/* Keeps the blobs that `holder` (a job) needs, however full the store gets. Replaces its earlier
 * pins; `count` 0: the holder is gone. On the loop; does not wait for the disk. */
#define KILN_BLOB_PINS_MAX 4u
void kiln_blob_store_pin(kiln_blob_store *store, kiln_str holder, const kiln_digest *digest,
                         uint32_t count);

/* The last use of a blob that a program knows of, beside the time of the file. */
typedef struct kiln_blob_use {
    kiln_digest digest;
    int64_t used_s; /* since 1970 */
} kiln_blob_use;
/* Removes blobs that were last used before `before_s` and are not pinned, here and in the depot. A
 * blob that another store with the same depot uses must be among the `count` uses. Blocks; for a
 * pool. After an error of the folder or the depot some blobs may be left. */
KILN_MUST_USE kiln_status kiln_blob_store_collect(kiln_blob_store *store, int64_t before_s,
                                                  const kiln_blob_use *use, uint32_t count);
/* Removes the blob here and in the depot unless it is pinned. Blocks. An absent one is fine. */
KILN_MUST_USE kiln_status kiln_blob_store_remove(kiln_blob_store *store, const kiln_digest *digest);
/* At most `max` of the blobs that were removed for age or for lack of space and that no depot has,
 * each once. Returns how many. Does not wait for the disk. */
#define KILN_BLOB_GONE_MAX 65536u /* later ones are not reported */
uint32_t kiln_blob_store_gone(kiln_blob_store *store, kiln_digest *out_digest, uint32_t max);

/* Moves blobs over one connection, both ways, and answers the peer's BLOB_* messages from `store`.
 * Attach it in `opened`; it is freed with the connection. Transfers in progress when the connection
 * closes end with UNAVAILABLE (just before `closed` is called; from then on none may start). A blob
 * that the receiving store has is not sent again. */
typedef struct kiln_blobs kiln_blobs;
kiln_blobs *kiln_blobs_attach(kiln_conn *conn, kiln_blob_store *store);

/* What the peer of a connection may do with blobs. Asked on the loop, answered at once. */
typedef struct kiln_blob_guard {
    /* Whether it may read the blob. For a peer that may not, the blob does not exist: it can only
     * upload the content itself. Required. */
    bool (*may_get)(void *context, kiln_conn *conn, const kiln_digest *digest);
    /* NULL when it may upload this blob, else why not (owned by the caller), which it is told.
     * Required. */
    kiln_status (*may_put)(void *context, kiln_conn *conn, const kiln_digest *digest,
                           uint64_t size);
    /* It has uploaded the blob, which is complete and visible now. Required. */
    void (*was_put)(void *context, kiln_conn *conn, const kiln_digest *digest, uint64_t size);
} kiln_blob_guard;
/* `guard` outlives the connection. Without one the peer may read and upload every blob. Not asked
 * about transfers that this side starts. */
void kiln_blobs_set_guard(kiln_blobs *blobs, const kiln_blob_guard *guard, void *context);

/* Makes sure that the peer has the blob of our store: asks, and sends it when it is missing. `done`
 * gets an owned status: NULL when the peer has it; NOT_FOUND when our store does not. It is called
 * once, from the loop, never from inside these calls. */
typedef void (*kiln_blobs_done)(void *context, const kiln_digest *digest, kiln_status status);
void kiln_blobs_upload(kiln_blobs *blobs, const kiln_digest *digest, kiln_blobs_done done,
                       void *context);
/* Makes sure that our store has the blob. NOT_FOUND: the peer does not have it. Two fetches of one
 * blob share the transfer. */
void kiln_blobs_fetch(kiln_blobs *blobs, const kiln_digest *digest, kiln_blobs_done done,
                      void *context);

#endif
