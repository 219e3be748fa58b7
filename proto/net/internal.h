/* Shared by the files of proto/net and nobody else: here libuv shows. */
#ifndef KILN_PROTO_NET_INTERNAL_H
#define KILN_PROTO_NET_INTERNAL_H

#include <uv.h>

#include "base/vec.h"
#include "proto/net.h"
#include "proto/net/rate_limit.h"

#define KILN_NET_READ_BYTES ((size_t)64 << 10)
/* Reads from strangers in one turn of the loop: a TLS handshake takes two, and some 0.2 ms. */
#define KILN_NET_HANDSHAKES_PER_TURN 16u
/* Connections accepted in one turn: each costs some 20 us, and the loop goes on in between. */
#define KILN_NET_ACCEPTS_PER_TURN 64u
/* Bytes of messages compressed in one turn, at 0.3 GB/s; the others go out as they are. */
#define KILN_NET_COMPRESS_PER_TURN ((size_t)512 << 10)
/* Connections written to, and bytes, at each end of a turn: a write costs some 8 us, a MiB over TLS
 * 1 ms. What is left goes in the next turn. */
#define KILN_NET_WRITES_AT_ONCE 256u
#define KILN_NET_WRITE_BYTES_AT_ONCE ((size_t)1 << 20)
#define KILN_NET_STRANGERS_TRIM \
    256u /* handshakes of so many leave memory that is worth giving back */

typedef struct kiln_loop_signal kiln_loop_signal;

/* Which strangers go first when places run out. */
typedef enum kiln_rank {
    KILN_RANK_SUSPECT, /* of an address that has begun too many connections */
    KILN_RANK_SILENT,  /* nothing came from it */
    KILN_RANK_SPEAKS,  /* or comes from where others were let in */
    KILN_RANK_COUNT
} kiln_rank;

/* Connections that were accepted, oldest first. */
typedef struct kiln_conn_list {
    kiln_conn *oldest, *newest;
    uint32_t count;
} kiln_conn_list;

/* loop_times.c: one turn. */
typedef struct kiln_turn {
    uint64_t wall_ns, cpu_ns;
    kiln_thread_work work;
    const char *handler; /* that took most of it */
    uint64_t handler_ns;
    const char *cpu_handler; /* the same in CPU time, among those that took SLOW_NS; may be NULL */
    uint64_t cpu_handler_ns;
} kiln_turn;

/* Says no more than one warning in ten seconds. */
typedef struct kiln_turn_warner {
    uint64_t said_ns;
    uint32_t unsaid;
} kiln_turn_warner;

void kiln_loop_times_add(kiln_loop_times *times, const kiln_turn *turn);
/* A handler took so much CPU; less than KILN_TURN_NS is not noted. `handler` lasts. */
void kiln_loop_times_note(kiln_loop_times *times, const char *handler, uint64_t cpu_ns);
/* Logs a turn that took KILN_TURN_WARN_NS; whether it did. */
bool kiln_turn_warns(kiln_turn_warner *warner, const kiln_turn *turn, uint64_t now_ns);

/* read_scheduler.c: connections that are read from. */
typedef struct kiln_read_set {
    int epoll;
    uint32_t count;
    bool for_strangers;
    uv_poll_t poll;
} kiln_read_set;

struct kiln_loop {
    uv_loop_t uv;
    uv_async_t wake;
    void (*on_wake)(void *context);
    void *wake_context;
    kiln_loop_signal *signals;
    kiln_arena message;           /* of the message being handled; handlers do not nest */
    kiln_strbuf body;             /* of the frame being handled, when it came compressed */
    kiln_strbuf plain;            /* of the read being handled, decrypted */
    struct kiln_tls_context *tls; /* made with the first key */
    kiln_conn_list by_rank[KILN_RANK_COUNT], accepted; /* before and after their handshake */
    kiln_rate_limit *rate_limit;                       /* made with the first listener */
    kiln_listener *listeners;
    uint64_t descriptors_for_peers; /* those above are the reserve */
    kiln_net_stats stats, told;     /* now, and when it was last told */
    uint64_t told_ns;
    KILN_VEC(kiln_conn *) unwritten; /* have frames pending */
    uv_prepare_t before_poll;        /* the two ends of a turn, at which that is written */
    uv_check_t after_poll;
    uv_idle_t hurry;            /* while the next turn must not wait for anything */
    KILN_VEC(kiln_timer *) due; /* timers whose time has come, that read first */
    size_t compress_left;       /* bytes of messages to compress in this turn */
    uint32_t strangers_most;    /* most strangers since there was none */
    uint32_t accepts_left;      /* in this turn */
    uint32_t waiting;           /* listeners with a connection to accept in the next turn */
    bool reads_paused;
    kiln_read_set known, strangers; /* known peers, strangers */
    uint64_t last_conn_id;
    kiln_loop_times times;
    kiln_turn_warner warner;
    kiln_turn turn;                              /* the one under way: its worst handler */
    const char *handler;                         /* of the call under way */
    uint32_t depth;                              /* calls under way, one in another */
    uint64_t part_ns;                            /* when it got this name */
    uint64_t timed_cpu_ns;                       /* when CPU time was last read in this turn */
    uint64_t turn_ns, turn_idle_ns, turn_cpu_ns; /* when it began */
    kiln_thread_work turn_work;
    struct work_item *bulk_first, *bulk_last; /* waits for its turn */
    uint32_t bulk_running;
    bool is_program, has_run;              /* both: it says at its end how long its turns were */
    char read_buffer[KILN_NET_READ_BYTES]; /* of the read being handled */
};

/* Every call from the loop into the program stands between these two; `name` lasts. A call may name
 * itself better meanwhile, in loop->handler. */
uint64_t kiln_loop_enter(kiln_loop *loop, const char *name);
void kiln_loop_leave(kiln_loop *loop, uint64_t entered_ns);
/* The next turn waits for nothing. */
void kiln_loop_hurry(kiln_loop *loop);

/* UNAVAILABLE, PERMISSION_DENIED, ... for a libuv error number, with "WHAT: reason". */
KILN_MUST_USE kiln_status kiln_net_error(int uv_code, const char *format, ...) KILN_PRINTF(2, 3);

/* dial.c: takes over a stream handle that the listener accepted. */
typedef union kiln_socket {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
} kiln_socket;
void kiln_conn_accept(kiln_loop *loop, const kiln_listen_options *options, kiln_socket *socket);
/* conn.c */
/* `compressed`: the same bytes, compressed, where that is agreed on and worth it; else empty. */
void kiln_conn_send_data(kiln_conn *conn, uint32_t stream, kiln_str bytes, kiln_str compressed,
                         bool end);
bool kiln_conn_takes_compressed(const kiln_conn *conn); /* the peer takes compressed frames */
kiln_loop *kiln_conn_loop(kiln_conn *conn);
/* Stops to read from an open connection, or goes on: its memory is full. */
void kiln_conn_pause(kiln_conn *conn, bool pause);
void kiln_conn_set_blobs(kiln_conn *conn, kiln_blobs *blobs);

/* listen.c: a new turn. */
void kiln_listeners_go_on(kiln_loop *loop);

/* handshake.c: closes the accepted connections whose key is no longer in `ring`. */
void kiln_handshake_check_keys(kiln_loop *loop, const kiln_keyring *ring);
/* keyring.c: what day it is; closes who comes with a key whose last day is over. Called twice a
 * second. */
void kiln_keyring_set_day(kiln_keyring *ring, uint32_t today);
/* Why a key is not taken, for the log. */
kiln_status kiln_keyring_refusal(const kiln_keyring *ring, const kiln_key *name);
/* A generation that the node with this key is to take; NULL. */
const kiln_key *kiln_keyring_offer(const kiln_keyring *ring, const kiln_key *key);
/* Writes into the file what came of an offer, on the pool. One at a time: what is not written now
 * is written when the key is next used. */
void kiln_keyring_settle(kiln_keyring *ring, const kiln_key *name, kiln_key_state outcome,
                         const char *why);
/* NULL when there is none that is good today. */
const kiln_key *kiln_keyring_find(const kiln_keyring *ring, const kiln_key *name);
/* loop.c: made when it is first asked for; errors of kiln_tls_context_create. */
KILN_MUST_USE kiln_status kiln_loop_tls(kiln_loop *loop, struct kiln_tls_context **out_context);

/* blobs.c: called by the connection. */
bool kiln_blobs_message(kiln_blobs *blobs,
                        const kiln_message *message); /* true: it was one of ours */
/* DATA_LOSS: no transfer on that stream, or more bytes than announced. */
KILN_MUST_USE kiln_status kiln_blobs_data(kiln_blobs *blobs, uint32_t stream, kiln_str bytes,
                                          bool end);
bool kiln_blobs_is_sending(const kiln_blobs *blobs);
void kiln_blobs_drained(kiln_blobs *blobs); /* there is room in the output queue */
void kiln_blobs_destroy(kiln_blobs *blobs); /* ends every transfer with UNAVAILABLE */

/* loop.c: kiln_loop_work for what reads and writes files, which may take long: in order, and few at
 * a time, so that threads of the pool are left for what somebody waits for. */
void kiln_loop_bulk_named(kiln_loop *loop, const char *name, void (*run)(void *context),
                          void (*done)(void *context), void *context);
#define kiln_loop_bulk(loop, run, done, context) \
    kiln_loop_bulk_named(loop, #done, run, done, context)

/* blob_sink.c: a blob that comes in over a connection, written and hashed on the pool. */
typedef struct kiln_blob_sink kiln_blob_sink;
typedef struct kiln_blob_sink_events {
    void (*written)(void *context, size_t bytes);     /* these are off our memory */
    void (*ended)(void *context, kiln_status status); /* NULL: the blob is whole and visible. The
                                                         sink is gone when it returns */
} kiln_blob_sink_events;
/* The events come from the loop, never from inside a call. Errors of kiln_blob_writer_* end it. */
kiln_blob_sink *kiln_blob_sink_open(kiln_loop *loop, kiln_blob_store *store,
                                    const kiln_msg_blob_put *put, kiln_blob_sink_events events,
                                    void *context);
void kiln_blob_sink_add(kiln_blob_sink *sink, kiln_str bytes); /* copies them */
void kiln_blob_sink_finish(kiln_blob_sink *sink);              /* that was all */
/* Ends it without a word; `keep` as in kiln_blob_writer_abandon. NULL is fine. */
void kiln_blob_sink_drop(kiln_blob_sink *sink, bool keep);

/* blob_source.c: a blob that goes out, read and compressed on the pool. */
typedef struct kiln_blob_source kiln_blob_source;
/* From the loop: the blob is open, or more of it can be had. `status` is the callee's: NOT_FOUND;
 * DATA_LOSS when the file is damaged. */
typedef void (*kiln_blob_source_ready)(void *context, kiln_status status);
kiln_blob_source *kiln_blob_source_open(kiln_loop *loop, kiln_blob_store *store,
                                        const kiln_digest *digest, bool compresses,
                                        kiln_blob_source_ready ready, void *context);
uint64_t kiln_blob_source_size(const kiln_blob_source *source); /* after `ready` */
typedef struct kiln_blob_part {
    kiln_str bytes;      /* at most KILN_FRAME_DATA_MAX */
    kiln_str compressed; /* the same, compressed; empty: it is to be sent as it is */
} kiln_blob_part;
/* What a frame may hold from `offset` on, at most `size_max` bytes; empty: it is being read, and
 * `ready` comes. Lasts until the next call. */
kiln_blob_part kiln_blob_source_at(kiln_blob_source *source, uint64_t offset, uint64_t size_max);
void kiln_blob_source_drop(kiln_blob_source *source); /* NULL is fine */

/* blob_store.c: blobs in pieces. Any thread; each writer one at a time. All of it may wait for the
 * disk, and for others that use the store. */
/* Opens a blob for reading and marks its use. NOT_FOUND. */
KILN_MUST_USE kiln_status kiln_blob_store_reader(kiln_blob_store *store, const kiln_digest *digest,
                                                 int *out_fd, uint64_t *out_size);
/* A writer of this blob is about to be abandoned (`leaves`), or was: what asks for its half waits
 * in between. Does not wait for the disk itself. */
void kiln_blob_store_leaving(kiln_blob_store *store, const kiln_digest *digest, bool leaves);
typedef struct kiln_blob_writer kiln_blob_writer;
/* Bytes of the blob that a transfer which broke off left behind; 0: none, or another transfer is at
 * it. */
uint64_t kiln_blob_store_half(kiln_blob_store *store, const kiln_digest *digest);
/* Goes on at `offset`, which is 0 or what kiln_blob_store_half said; ABORTED when that is no longer
 * so. */
KILN_MUST_USE kiln_status kiln_blob_writer_open(kiln_blob_store *store, const kiln_digest *digest,
                                                uint64_t size, uint64_t offset,
                                                kiln_blob_writer **out_writer);
KILN_MUST_USE kiln_status kiln_blob_writer_add(kiln_blob_writer *writer, kiln_str bytes);
/* Checks the digest and makes the blob visible; DATA_LOSS when it is another content. Frees the
 * writer either way. */
KILN_MUST_USE kiln_status kiln_blob_writer_finish(kiln_blob_writer *writer);
/* `keep`: another transfer may go on with what is there. NULL is fine. */
void kiln_blob_writer_abandon(kiln_blob_writer *writer, bool keep);

#endif
