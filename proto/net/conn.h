/* One connection: its socket, its output queue, the lists it is in, and its end. What comes in is
 * read by conn_input.c; dial.c and listen.c make connections. */
#ifndef KILN_PROTO_NET_CONN_H
#define KILN_PROTO_NET_CONN_H

#include "proto/net/read_scheduler.h"
#include "proto/net/tls.h"
#include "proto/net/ws.h"

/* Bytes of messages compressed in one turn, at 0.3 GB/s; the others go out as they are. */
#define KILN_NET_COMPRESS_PER_TURN ((size_t)512 << 10)
/* Connections written to, and bytes, at each end of a turn: a write costs some 8 us, a MiB over TLS
 * 1 ms. The rest goes out in the next turn. */
#define KILN_NET_WRITES_AT_ONCE 256u
#define KILN_NET_WRITE_BYTES_AT_ONCE ((size_t)1 << 20)

typedef union kiln_socket {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
} kiln_socket;

typedef enum kiln_conn_state {
    KILN_CONN_DIALLING,
    KILN_CONN_HANDSHAKE,
    KILN_CONN_OPEN,
    KILN_CONN_FLUSHING,
    KILN_CONN_CLOSED
} kiln_conn_state;

/* Which strangers go first when places run out. */
typedef enum kiln_rank {
    KILN_RANK_SUSPECT, /* of an address that has begun too many connections */
    KILN_RANK_SILENT,  /* nothing came from it */
    KILN_RANK_SPEAKS,  /* or of an address where a handshake succeeded */
    KILN_RANK_COUNT
} kiln_rank;

/* A key that a page shows, and proves by CHALLENGE. */
typedef struct kiln_shown_key {
    kiln_key key; /* its secret only until it is proven; a random one where the key is not ours */
    bool is_proven;
    kiln_digest secret_digest; /* from then on */
} kiln_shown_key;

/* What a connection tells the blobs that move over it (blobs.c). */
typedef struct kiln_blob_events {
    bool (*is_sending)(const kiln_blobs *blobs);
    void (*drained)(kiln_blobs *blobs); /* there is room in the output queue */
    void (*closed)(kiln_blobs *blobs);  /* frees them */
} kiln_blob_events;

/* Work on the pool for a connection, which may be gone before it ends. */
typedef struct kiln_conn_ref {
    kiln_conn *conn; /* NULL: it is gone */
} kiln_conn_ref;

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
    void *context;
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
    kiln_blobs *blobs;      /* NULL: none are attached */
    const kiln_blob_events *blob_events;
    /* Dialling. */
    kiln_arena arena; /* of the strings of `dial`, and of `asked` */
    kiln_dial_options dial;
    kiln_credentials credentials;
    bool proven;               /* the tracker knows the token */
    kiln_conn_ref *key_taking; /* a new key is being written; NULL: none */
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

/* Connections that were accepted, oldest first. */
typedef struct kiln_conn_list {
    kiln_conn *oldest, *newest;
    uint32_t count;
} kiln_conn_list;

/* What the connections of a loop share. */
typedef struct kiln_conns {
    kiln_conn_list by_rank[KILN_RANK_COUNT], accepted; /* before and after their handshake */
    KILN_VEC(kiln_conn *) unwritten;                   /* have frames pending */
    size_t compress_left; /* bytes of messages to compress in this turn */
    uint64_t last_id;
    kiln_tls_context *tls; /* made with the first key */
    kiln_net_stats stats;
    kiln_arena message; /* of the message being handled; handlers do not nest */
    kiln_strbuf body;   /* of the frame being handled, when it came compressed */
    kiln_strbuf plain;  /* of the read being handled, decrypted */
} kiln_conns;

/* Made when it is first asked for; errors of kiln_tls_context_create. */
KILN_MUST_USE kiln_status kiln_loop_tls(kiln_loop *loop, kiln_tls_context **out_context);

kiln_socket *kiln_socket_create(kiln_loop *loop, bool is_unix);
void kiln_socket_close(kiln_socket *socket); /* and frees it */

kiln_conn *kiln_conn_make(kiln_loop *loop, const kiln_conn_handler *handler, void *context);
void kiln_conn_set_socket(kiln_conn *conn, kiln_socket *socket);
/* Reads from the socket from here on. */
void kiln_conn_read(kiln_conn *conn);
/* Stops reading from an open connection whose memory is full, or starts again. */
void kiln_conn_pause(kiln_conn *conn, bool pause);
/* Enters the list of its rank, or of known peers; leaves it. Of accepted connections. */
void kiln_conn_enlist(kiln_conn *conn);
void kiln_conn_delist(kiln_conn *conn);
/* The key that the peer has proven, without its secret; NULL: none. */
const kiln_key *kiln_conn_key(const kiln_conn *conn);
void kiln_conn_set_blobs(kiln_conn *conn, kiln_blobs *blobs, const kiln_blob_events *events);

/* Closes now, for that reason. */
void kiln_conn_fail(kiln_conn *conn, kiln_status why);
/* Tells the peer why, then closes when that is out. */
void kiln_conn_fail_telling(kiln_conn *conn, kiln_status why);
/* The same, but tells it `said`, where it is not NULL, instead of why (both are taken). */
void kiln_conn_fail_saying(kiln_conn *conn, kiln_status why, kiln_status said);
void kiln_conn_release(kiln_conn *conn); /* calls `closed` and frees: no handle is left */

/* Sends in any state in which bytes can go out. */
KILN_MUST_USE kiln_status kiln_conn_put(kiln_conn *conn, const kiln_message *message);
/* The same for what holds a secret, only over TLS: at once, and no copy is left in memory. */
KILN_MUST_USE kiln_status kiln_conn_put_secret(kiln_conn *conn, const kiln_message *message);
void kiln_conn_put_raw(kiln_conn *conn, kiln_strbuf *bytes); /* as they are; empties it */
/* A DATA frame of an open connection. `compressed`: the same bytes, compressed, where that is
 * agreed on and worth it; else empty. */
void kiln_conn_send_data(kiln_conn *conn, uint32_t stream, kiln_str bytes, kiln_str compressed,
                         bool end);
bool kiln_conn_takes_compressed(const kiln_conn *conn); /* the peer takes compressed frames */
/* UNIMPLEMENTED: the version that both sides speak does not have this message. */
KILN_MUST_USE kiln_status kiln_conn_check_version(const kiln_conn *conn, kiln_message_type type);
/* RESOURCE_EXHAUSTED: the peer does not read, and is let go. */
kiln_status kiln_conn_too_slow(const kiln_conn *conn);
/* Writes what the turn has gathered for its connections. */
void kiln_conns_flush(kiln_loop *loop);

#endif
