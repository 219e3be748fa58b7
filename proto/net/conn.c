#include "proto/net/conn.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/log.h"
#include "proto/net/compression.h"
#include "proto/net/loop_state.h"

#define FLUSH_NS UINT64_C(1000000000)  /* for the last messages of a connection that closes */
#define SECRET_BYTES_MAX ((size_t)256) /* of a frame with one */
#define GATHER_MAX ((size_t)64 << 10)  /* pending bytes that do not wait for the turn's end */

typedef struct write_request {
    uv_write_t uv;
    kiln_conn *conn;
    kiln_strbuf bytes;
    size_t left; /* of them, when it was made */
} write_request;

/* ---- The end ---- */

static void report_refusal(kiln_conn *conn) {
    const kiln_key *key = conn->tls ? kiln_tls_key(conn->tls) : NULL;
    if (conn->tls && !key) {
        kiln_str claim = kiln_str_from(kiln_tls_claim(conn->tls));
        memcpy(conn->peer.key, claim.data, claim.size + 1);
    } else if (key) {
        kiln_key_name_print(key, conn->peer.key);
    }
    kiln_log(KILN_LOG_DEBUG, "%s was refused: %s", conn->peer.address, kiln_status_text(conn->why));
    conn->loop->conns.stats.refused++;
    if (conn->listen.refused) conn->listen.refused(conn->context, &conn->peer, conn->why);
}

static void forget_unwritten(kiln_conn *conn) {
    for (uint32_t i = 0; conn->unwritten && i < conn->loop->conns.unwritten.count; i++)
        if (conn->loop->conns.unwritten.data[i] == conn) conn->loop->conns.unwritten.data[i] = NULL;
    kiln_strbuf_deinit(&conn->pending);
}

void kiln_conn_release(kiln_conn *conn) {
    if (conn->blobs) conn->blob_events->closed(conn->blobs);
    conn->blobs = NULL;
    KILN_CHECK(conn->why != NULL);
    if (conn->dialled || conn->was_opened)
        conn->handler->closed(conn->context, conn, conn->why);
    else
        report_refusal(conn);
    if (!conn->dialled) kiln_conn_delist(conn);
    if (conn->key_taking) conn->key_taking->conn = NULL;
    kiln_tls_destroy(conn->tls);
    kiln_ws_destroy(conn->web);
    if (conn->shown) explicit_bzero(&conn->shown->key, sizeof conn->shown->key);
    if (conn->found) uv_freeaddrinfo(conn->found);
    kiln_status_free(conn->why);
    kiln_status_free(conn->last_words);
    kiln_frame_reader_deinit(&conn->reader);
    forget_unwritten(conn);
    kiln_arena_deinit(&conn->arena);
    explicit_bzero(&conn->credentials, sizeof conn->credentials);
    kiln_timer_destroy(conn->timer);
    kiln_free(conn);
}

static void on_socket_closed(uv_handle_t *handle) {
    kiln_conn *conn = handle->data;
    kiln_free(handle);
    if (conn) kiln_conn_release(conn);
}

static void on_timer(void *context);

/* Closes now. kiln_conn_release follows from the loop, never from inside. */
static void close_now(kiln_conn *conn) {
    if (conn->state == KILN_CONN_CLOSED) return;
    conn->state = KILN_CONN_CLOSED;
    kiln_read_scheduler_remove(conn);
    kiln_timer_stop(conn->timer);
    if (conn->socket)
        uv_close(&conn->socket->handle, on_socket_closed);
    else if (!conn->resolving)
        kiln_timer_start(conn->timer, 0); /* there is no handle with a close callback */
    else
        uv_cancel((uv_req_t *)&conn->resolve);
}

/* The first reason stands. */
static void set_reason(kiln_conn *conn, kiln_status why) {
    if (conn->why)
        kiln_status_free(why);
    else
        conn->why = why;
}

void kiln_conn_fail(kiln_conn *conn, kiln_status why) {
    set_reason(conn, why);
    close_now(conn);
}

static void post(kiln_conn *conn, kiln_strbuf *frame);
static void flush(kiln_conn *conn);

static void tell(kiln_conn *conn, kiln_status said) {
    kiln_message message = kiln_message_from_status(said, 0);
    kiln_strbuf frame = {0};
    kiln_status st = kiln_frame_write_message(&frame, &message);
    if (!st) post(conn, &frame);
    flush(conn);
    kiln_status_free(st); /* a last message that does not fit is dropped */
    kiln_strbuf_deinit(&frame);
}

void kiln_conn_fail_saying(kiln_conn *conn, kiln_status why, kiln_status said) {
    if (conn->state == KILN_CONN_HANDSHAKE || conn->state == KILN_CONN_OPEN)
        tell(conn, said ? said : why);
    kiln_status_free(said);
    set_reason(conn, why);
    if (conn->state == KILN_CONN_CLOSED) return;
    if (conn->queued_bytes == 0 || conn->state == KILN_CONN_DIALLING) {
        close_now(conn);
        return;
    }
    conn->state = KILN_CONN_FLUSHING;
    kiln_read_scheduler_remove(conn);
    kiln_timer_start(conn->timer, FLUSH_NS);
}

void kiln_conn_fail_telling(kiln_conn *conn, kiln_status why) {
    kiln_conn_fail_saying(conn, why, NULL);
}

void kiln_conn_close(kiln_conn *conn, kiln_status why) {
    if (why)
        kiln_conn_fail_telling(conn, why);
    else if (conn->state != KILN_CONN_FLUSHING && conn->state != KILN_CONN_CLOSED) {
        flush(conn);
        if (!conn->why) conn->why = KILN_ERROR(CANCELLED, "closed on our side");
        if (conn->queued_bytes && conn->state == KILN_CONN_OPEN) {
            conn->state = KILN_CONN_FLUSHING;
            kiln_read_scheduler_remove(conn);
            kiln_timer_start(conn->timer, FLUSH_NS);
        } else {
            close_now(conn);
        }
    }
}

static void on_timer(void *context) {
    kiln_conn *conn = context;
    switch (conn->state) {
    case KILN_CONN_DIALLING:
        kiln_conn_fail(conn, KILN_ERROR(UNAVAILABLE, "the tracker does not answer"));
        return;
    case KILN_CONN_HANDSHAKE:
        kiln_conn_fail_telling(conn, KILN_ERROR(UNAVAILABLE, "no handshake within 5 s"));
        return;
    case KILN_CONN_OPEN: return;
    case KILN_CONN_FLUSHING: close_now(conn); return;
    case KILN_CONN_CLOSED: kiln_conn_release(conn); return;
    }
}

/* ---- Output ---- */

static void on_written(uv_write_t *uv, int status) {
    write_request *request = (write_request *)(void *)uv;
    kiln_conn *conn = request->conn;
    kiln_loop *loop = conn->loop;
    conn->queued_bytes -= request->left;
    if (status == 0) conn->sent_bytes += request->left;
    kiln_strbuf_deinit(&request->bytes);
    kiln_free(request);
    if (conn->state == KILN_CONN_CLOSED) return;
    uint64_t entered_ns = kiln_loop_enter(loop, "a write that ended");
    if (status < 0)
        kiln_conn_fail(conn, kiln_net_error(status, "sending to the peer"));
    else if (conn->state == KILN_CONN_FLUSHING && conn->queued_bytes == 0)
        close_now(conn);
    else if (conn->state == KILN_CONN_OPEN && conn->blobs)
        conn->blob_events->drained(conn->blobs);
    kiln_loop_leave(loop, entered_ns);
}

/* Bytes that the system takes at once need no request, and no turn of the loop to end it. Transfers
 * of blobs need that turn, to continue. An error shows again in the request. */
static size_t write_at_once(kiln_conn *conn, kiln_str bytes) {
    if (conn->blobs && conn->blob_events->is_sending(conn->blobs)) return 0;
    uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)bytes.data, (unsigned)bytes.size);
    int written = uv_try_write(&conn->socket->stream, &buffer, 1);
    return written > 0 ? (size_t)written : 0;
}

kiln_status kiln_conn_too_slow(const kiln_conn *conn) {
    return KILN_ERROR(RESOURCE_EXHAUSTED, "the peer reads too slowly: %zu bytes wait for it",
                      conn->queued_bytes);
}

void kiln_conn_put_raw(kiln_conn *conn, kiln_strbuf *bytes) {
    size_t written = write_at_once(conn, kiln_strbuf_view(bytes));
    conn->sent_bytes += written;
    if (written == bytes->size) {
        kiln_strbuf_deinit(bytes);
        return;
    }
    if (conn->queued_bytes > KILN_NET_QUEUE_MAX) { /* as TLS's own answers do not pass post() */
        kiln_strbuf_deinit(bytes);
        kiln_conn_fail(conn, kiln_conn_too_slow(conn));
        return;
    }
    write_request *request = kiln_alloc(sizeof *request);
    request->conn = conn;
    request->bytes = *bytes;
    request->left = bytes->size - written;
    *bytes = (kiln_strbuf){0};
    conn->queued_bytes += request->left;
    uv_buf_t buffer = uv_buf_init(request->bytes.data + written, (unsigned)request->left);
    int code = uv_write(&request->uv, &conn->socket->stream, &buffer, 1, on_written);
    if (code == 0) return;
    conn->queued_bytes -= request->left;
    kiln_strbuf_deinit(&request->bytes);
    kiln_free(request);
    kiln_conn_fail(conn, kiln_net_error(code, "sending to the peer"));
}

/* Writes the pending frames; over TLS they share records, to a page one message. */
static void flush(kiln_conn *conn) {
    kiln_strbuf plain = conn->pending, cipher = {0};
    bool may_write = conn->state == KILN_CONN_HANDSHAKE || conn->state == KILN_CONN_OPEN;
    if (plain.size == 0) return;
    conn->pending = (kiln_strbuf){0};
    conn->queued_bytes -= plain.size;
    if (may_write && conn->web) {
        kiln_ws_send(conn->web, kiln_strbuf_view(&plain), &cipher);
        kiln_conn_put_raw(conn, &cipher);
    } else if (may_write && !conn->tls) {
        kiln_conn_put_raw(conn, &plain);
    } else if (may_write) {
        kiln_status st = kiln_tls_send(conn->tls, kiln_strbuf_view(&plain), &cipher);
        if (st)
            kiln_conn_fail(conn, st);
        else
            kiln_conn_put_raw(conn, &cipher);
    }
    kiln_strbuf_deinit(&plain);
    kiln_strbuf_deinit(&cipher);
}

void kiln_conns_flush(kiln_loop *loop) {
    uint32_t done = 0;
    for (size_t bytes = 0; done < loop->conns.unwritten.count && done < KILN_NET_WRITES_AT_ONCE &&
                           bytes < KILN_NET_WRITE_BYTES_AT_ONCE;
         done++) {
        kiln_conn *conn = loop->conns.unwritten.data[done];
        if (!conn) continue; /* it has closed */
        bytes += conn->pending.size;
        conn->unwritten = false;
        flush(conn);
    }
    if (done == 0) return;
    loop->conns.unwritten.count -= done;
    memmove(loop->conns.unwritten.data, loop->conns.unwritten.data + done,
            loop->conns.unwritten.count * sizeof *loop->conns.unwritten.data);
    if (loop->conns.unwritten.count > 0) kiln_loop_hurry(loop);
}

/* Sends a frame (and empties it) at the end of this turn. */
static void post(kiln_conn *conn, kiln_strbuf *frame) {
    if (conn->state != KILN_CONN_HANDSHAKE && conn->state != KILN_CONN_OPEN) return;
    if (conn->queued_bytes + frame->size > KILN_NET_QUEUE_MAX) {
        kiln_conn_fail(conn, kiln_conn_too_slow(conn));
        return;
    }
    if (conn->tls && !kiln_tls_ready(conn->tls)) return; /* never in plain text */
    if (conn->web && !kiln_ws_ready(conn->web)) return;
    conn->queued_bytes += frame->size;
    if (!conn->unwritten) kiln_vec_push(&conn->loop->conns.unwritten, conn);
    conn->unwritten = true;
    if (conn->pending.size == 0) {
        conn->pending = *frame;
        *frame = (kiln_strbuf){0};
    } else {
        kiln_strbuf_append(&conn->pending, frame->data, frame->size);
    }
    if (conn->pending.size >= GATHER_MAX) flush(conn);
}

bool kiln_conn_takes_compressed(const kiln_conn *conn) { return conn->features & KILN_WIRE_ZSTD; }

/* Replaces the frame by its compressed form where that is agreed on and worth it. */
static void compress(const kiln_conn *conn, kiln_strbuf *bytes) {
    kiln_strbuf body = {0}, shorter = {0};
    if (!kiln_conn_takes_compressed(conn) || bytes->size < KILN_COMPRESSION_MIN) return;
    if (bytes->size > conn->loop->conns.compress_left) return; /* the turn has compressed enough */
    conn->loop->conns.compress_left -= bytes->size;
    kiln_frame frame = kiln_frame_of(kiln_strbuf_view(bytes));
    if (kiln_compress(frame.body, &body)) {
        kiln_frame_write(&shorter, frame.type, frame.flags | KILN_FRAME_ZSTD, frame.stream,
                         kiln_strbuf_view(&body));
        kiln_strbuf_deinit(bytes);
        *bytes = shorter;
    }
    kiln_strbuf_deinit(&body);
}

kiln_status kiln_conn_put(kiln_conn *conn, const kiln_message *message) {
    kiln_strbuf frame = {0};
    kiln_status st = kiln_frame_write_message(&frame, message);
    if (!st) compress(conn, &frame);
    if (!st) post(conn, &frame);
    kiln_strbuf_deinit(&frame);
    return st;
}

kiln_status kiln_conn_put_secret(kiln_conn *conn, const kiln_message *message) {
    kiln_strbuf frame = {0}, cipher = {0};
    KILN_CHECK(conn->tls != NULL);
    flush(conn);
    if (conn->state != KILN_CONN_OPEN) return KILN_OK;
    kiln_strbuf_reserve(&frame, SECRET_BYTES_MAX);
    kiln_status st = kiln_frame_write_message(&frame, message);
    KILN_CHECK(frame.size <= SECRET_BYTES_MAX);
    if (!st) st = kiln_tls_send(conn->tls, kiln_strbuf_view(&frame), &cipher);
    if (!st) kiln_conn_put_raw(conn, &cipher);
    kiln_strbuf_wipe(&frame);
    kiln_strbuf_deinit(&cipher);
    return st;
}

kiln_status kiln_conn_check_version(const kiln_conn *conn, kiln_message_type type) {
    if (kiln_message_since(type) <= conn->version) return KILN_OK;
    return KILN_ERROR(UNIMPLEMENTED,
                      "%s is not in version %u of the protocol, which is spoken here",
                      kiln_message_name(type), conn->version);
}

kiln_status kiln_conn_send(kiln_conn *conn, const kiln_message *message) {
    if (conn->state != KILN_CONN_OPEN) return KILN_OK;
    kiln_status st = kiln_conn_check_version(conn, message->type);
    return st ? st : kiln_conn_put(conn, message);
}

void kiln_conn_send_data(kiln_conn *conn, uint32_t stream, kiln_str bytes, kiln_str compressed,
                         bool end) {
    kiln_strbuf frame = {0};
    const unsigned flags =
        (end ? KILN_FRAME_END : 0u) | (compressed.size > 0 ? KILN_FRAME_ZSTD : 0u);
    kiln_frame_write(&frame, KILN_MSG_DATA, (uint8_t)flags, stream,
                     compressed.size > 0 ? compressed : bytes);
    if (conn->state == KILN_CONN_OPEN) post(conn, &frame);
    kiln_strbuf_deinit(&frame);
}

/* ---- Input ---- */

void kiln_conn_read(kiln_conn *conn) {
    kiln_status st = kiln_read_scheduler_add(conn);
    if (st) kiln_conn_fail(conn, st);
}

void kiln_conn_pause(kiln_conn *conn, bool pause) {
    if (conn->paused == pause || conn->state != KILN_CONN_OPEN) return;
    conn->paused = pause;
    if (pause)
        kiln_read_scheduler_remove(conn);
    else
        kiln_conn_read(conn);
}

/* ---- Lists ---- */

static kiln_conn_list *list_of(kiln_conn *conn) {
    kiln_conns *conns = &conn->loop->conns;
    return conn->was_opened ? &conns->accepted : &conns->by_rank[conn->rank];
}

void kiln_conn_delist(kiln_conn *conn) {
    kiln_conn_list *list = list_of(conn);
    *(conn->older ? &conn->older->newer : &list->oldest) = conn->newer;
    *(conn->newer ? &conn->newer->older : &list->newest) = conn->older;
    conn->older = conn->newer = NULL;
    list->count--;
}

void kiln_conn_enlist(kiln_conn *conn) {
    kiln_conn_list *list = list_of(conn);
    conn->older = list->newest;
    *(conn->older ? &conn->older->newer : &list->oldest) = conn;
    list->newest = conn;
    list->count++;
}

/* ---- Making one ---- */

kiln_status kiln_loop_tls(kiln_loop *loop, kiln_tls_context **out_context) {
    kiln_status st = loop->conns.tls ? KILN_OK : kiln_tls_context_create(&loop->conns.tls);
    if (!st) *out_context = loop->conns.tls;
    return st;
}

kiln_socket *kiln_socket_create(kiln_loop *loop, bool is_unix) {
    kiln_socket *socket = kiln_alloc(sizeof *socket);
    int code =
        is_unix ? uv_pipe_init(&loop->uv, &socket->pipe, 0) : uv_tcp_init(&loop->uv, &socket->tcp);
    KILN_CHECK(code == 0);
    return socket;
}

static void free_socket(uv_handle_t *handle) { kiln_free(handle); }

void kiln_socket_close(kiln_socket *socket) { uv_close(&socket->handle, free_socket); }

void kiln_conn_set_socket(kiln_conn *conn, kiln_socket *socket) {
    conn->socket = socket;
    socket->handle.data = conn;
}

kiln_conn *kiln_conn_make(kiln_loop *loop, const kiln_conn_handler *handler, void *context) {
    kiln_conn *conn = kiln_alloc(sizeof *conn);
    conn->loop = loop;
    conn->id = ++loop->conns.last_id;
    conn->peer.uid = KILN_UID_UNKNOWN;
    conn->handler = handler;
    conn->context = context;
    conn->timer = kiln_timer_create(loop, on_timer, conn);
    kiln_arena_init(&conn->arena, 512);
    return conn;
}

const kiln_key *kiln_conn_key(const kiln_conn *conn) {
    if (conn->tls) return kiln_tls_key(conn->tls);
    return conn->shown && conn->shown->is_proven ? &conn->shown->key : NULL;
}

const kiln_peer *kiln_conn_peer(const kiln_conn *conn) { return &conn->peer; }

uint32_t kiln_conn_version(const kiln_conn *conn) { return conn->version; }

uint64_t kiln_conn_id(const kiln_conn *conn) { return conn->id; }

uint32_t kiln_conn_stream(kiln_conn *conn) {
    uint32_t stream = conn->next_stream;
    /* Wraps after the largest number of this side, and skips 0. */
    conn->next_stream = stream + 2 > stream ? stream + 2 : (conn->dialled ? 1 : 2);
    return stream;
}

size_t kiln_conn_queued_bytes(const kiln_conn *conn) { return conn->queued_bytes; }

uint64_t kiln_conn_wire_bytes(const kiln_conn *conn) {
    return conn->sent_bytes + conn->received_bytes;
}

void kiln_conn_set_blobs(kiln_conn *conn, kiln_blobs *blobs, const kiln_blob_events *events) {
    KILN_CHECK(conn->blobs == NULL);
    conn->blobs = blobs;
    conn->blob_events = events;
}
