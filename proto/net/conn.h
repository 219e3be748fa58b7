/* One connection, shared by conn.c (bytes, frames, its end), handshake.c (who is there) and dial.c
 * (how it is made). */
#ifndef KILN_PROTO_NET_CONN_H
#define KILN_PROTO_NET_CONN_H

#include "proto/net/internal.h"
#include "proto/net/tls.h"
#include "proto/net/ws.h"

typedef enum kiln_conn_state {
    KILN_CONN_DIALLING,
    KILN_CONN_HANDSHAKE,
    KILN_CONN_OPEN,
    KILN_CONN_FLUSHING,
    KILN_CONN_CLOSED
} kiln_conn_state;

/* A key that a page shows, and proves by CHALLENGE. */
typedef struct kiln_shown_key {
    kiln_key key; /* its secret only until it is proven; a random one where the key is not ours */
    bool is_proven;
    kiln_digest secret_digest; /* from then on */
} kiln_shown_key;

struct kiln_conn {
    kiln_loop *loop;
    kiln_socket *socket; /* NULL while a name is resolved and between two tries */
    kiln_conn_state state;
    bool dialled, was_opened;
    bool heard;              /* a byte came in */
    bool paused;             /* nothing is read until blobs are written */
    kiln_read_set *read_set; /* it is in; NULL: not read from */
    uint64_t id;
    uint32_t next_stream, version;
    uint64_t features; /* that both sides have: kiln_wire_feature */
    kiln_peer peer;
    const kiln_conn_handler *handler;
    void *context, *user;
    kiln_tls *tls; /* NULL: plain text */
    kiln_ws *web;  /* NULL: not dialled by a page; then no TLS of ours */
    kiln_frame_reader reader;
    kiln_strbuf pending; /* frames of this turn of the loop, for one write at its end */
    bool unwritten;      /* it is in the loop's list of those */
    size_t queued_bytes; /* those too */
    uint64_t sent_bytes, received_bytes; /* on the wire, TLS and all */
    kiln_timer *timer;                   /* of dialling, handshake, flushing */
    kiln_status why;                     /* why it closes; the first reason stands */
    uint8_t peer_nonce[KILN_NONCE_BYTES], tracker_nonce[KILN_NONCE_BYTES]; /* challenge.h */
    kiln_status last_words; /* ERROR on stream 0 that the peer sent */
    kiln_blobs *blobs;
    /* Dialling. */
    kiln_arena arena; /* of the strings of `dial`, and of `asked` */
    kiln_dial_options dial;
    kiln_credentials credentials;
    bool proven;                    /* the tracker knows the token */
    struct kiln_key_taking *taking; /* a new key is being written */
    uv_getaddrinfo_t resolve;
    bool resolving;
    struct addrinfo *found, *next_address;
    uv_connect_t connect;
    /* Listening. */
    kiln_listen_options listen;
    kiln_msg_hello *asked; /* HELLO that waits for its PROOF; in `arena` */
    kiln_shown_key *shown; /* the key that it proves by that; in `arena`; NULL: the token, or TLS */
    kiln_rank rank;
    uint32_t offered;         /* generation of the key that was sent to it; 0: none */
    uint64_t rate_key;        /* of its address; 0: a Unix socket */
    kiln_conn *older, *newer; /* in the loop's list of its rank, or of known peers */
};

/* conn.c */
kiln_conn *kiln_conn_make(kiln_loop *loop, const kiln_conn_handler *handler, void *context);
/* The socket is connected: reads, and waits for the handshake. */
void kiln_conn_start(kiln_conn *conn);
/* Closes now, for that reason. */
void kiln_conn_fail(kiln_conn *conn, kiln_status why);
/* Says why, then closes when that is out. */
void kiln_conn_fail_telling(kiln_conn *conn, kiln_status why);
/* The same, but says `said`, where it is not NULL, instead of why (both are taken). */
void kiln_conn_fail_saying(kiln_conn *conn, kiln_status why, kiln_status said);
/* Sends in any state in which bytes can go out. */
KILN_MUST_USE kiln_status kiln_conn_put(kiln_conn *conn, const kiln_message *message);
/* The same for what holds a secret, only over TLS: at once, and no copy is left in memory. */
KILN_MUST_USE kiln_status kiln_conn_put_secret(kiln_conn *conn, const kiln_message *message);
void kiln_conn_put_raw(kiln_conn *conn, kiln_strbuf *bytes); /* as they are; empties it */
/* Writes what the turn has gathered for its connections. */
void kiln_conns_flush(kiln_loop *loop);
/* Bytes came in; none: the peer has closed, or reading failed as libuv says. */
void kiln_conn_take(kiln_conn *conn, kiln_str bytes, int uv_code);
void kiln_conn_release(kiln_conn *conn); /* calls `closed` and frees: no handle is left */

/* handshake.c */
/* The socket is there; the dialling side speaks first. */
void kiln_handshake_greet(kiln_conn *conn);
/* Keys are proven: over TLS the dialling side says HELLO now. */
void kiln_handshake_secured(kiln_conn *conn);
/* The first bytes from who dialled us: TLS or plain text? */
void kiln_handshake_recognise(kiln_conn *conn, kiln_str bytes);
/* The key that the peer has proven, without its secret; NULL: none. */
const kiln_key *kiln_conn_key(const kiln_conn *conn);
/* A message before the connection is open. */
void kiln_handshake_message(kiln_conn *conn, const kiln_message *message);
void kiln_conn_learn_address(kiln_conn *conn);
/* Its text, and whether it is this machine's. */
void kiln_peer_set_address(kiln_peer *peer, const struct sockaddr_storage *address);
/* Whether who says this in plain text from there may, without having proven the token.
 * UNAUTHENTICATED: why not, for the log. */
KILN_MUST_USE kiln_status kiln_peer_check_plain(const kiln_peer *peer,
                                                const kiln_listen_options *listen,
                                                const kiln_msg_hello *hello);

#endif
