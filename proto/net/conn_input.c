#include "proto/net/conn_input.h"

#include "base/fail.h"
#include "proto/net/blobs.h"
#include "proto/net/compression.h"
#include "proto/net/handshake.h"
#include "proto/net/key_rotation.h"
#include "proto/net/loop_state.h"

#define HELLO_BYTES_MAX ((size_t)4096) /* bytes kept of the message of an unknown peer */

static void refuse(kiln_conn *conn, uint32_t stream, kiln_status why) {
    kiln_message error = kiln_message_from_status(why, stream);
    kiln_status st = kiln_conn_put(conn, &error);
    kiln_status_free(why);
    if (st) kiln_conn_fail(conn, st);
}

static void on_open_message(kiln_conn *conn, const kiln_message *message) {
    kiln_status st = kiln_conn_check_version(conn, message->type);
    if (!st && !kiln_message_may_send(message->type, conn->peer.role))
        st = KILN_ERROR(PERMISSION_DENIED, "a %s may not send %s",
                        kiln_peer_role_name(conn->peer.role), kiln_message_name(message->type));
    if (st) {
        refuse(conn, message->stream, st);
        return;
    }
    if (conn->blobs && kiln_blobs_message(conn->blobs, message)) return;
    if (kiln_key_rotation_message(conn, message)) return;
    if (message->type == KILN_MSG_ERROR && message->stream == 0) {
        kiln_status_free(conn->last_words);
        conn->last_words = kiln_status_from_error(&message->error);
    }
    conn->handler->message(conn->context, conn, message);
}

/* Restores a compressed body, which then lies in the loop. */
static kiln_status decompress(kiln_conn *conn, kiln_frame *frame) {
    if (!(frame->flags & KILN_FRAME_ZSTD)) return KILN_OK;
    if (!(conn->features & KILN_WIRE_ZSTD))
        return KILN_ERROR(DATA_LOSS, "a compressed frame, which was not agreed on");
    kiln_strbuf *body = &conn->loop->conns.body;
    kiln_strbuf_reset(body);
    kiln_status st = kiln_decompress(frame->body, kiln_frame_body_max(frame->type), body);
    frame->body = kiln_strbuf_view(body);
    return st;
}

/* For the loop's times. */
static const char *name_of(const kiln_frame *frame) {
    const char *name = kiln_message_name(frame->type);
    return name ? name : frame->type == KILN_MSG_DATA ? "DATA" : "an unknown message";
}

static void on_frame(kiln_conn *conn, kiln_frame *frame) {
    conn->loop->clock.handler = name_of(frame);
    kiln_status st = decompress(conn, frame);
    if (st) {
        kiln_conn_fail_telling(conn, st);
        return;
    }
    if (frame->type == KILN_MSG_DATA) {
        if (conn->state != KILN_CONN_OPEN || !conn->blobs)
            st = KILN_ERROR(DATA_LOSS, "DATA without a transfer of blobs");
        else
            st = kiln_blobs_data(conn->blobs, frame->stream, frame->body,
                                 frame->flags & KILN_FRAME_END);
        if (st) kiln_conn_fail_telling(conn, st);
        return;
    }
    kiln_message message;
    kiln_arena_reset(&conn->loop->conns.message);
    st = kiln_message_decode(frame->type, frame->stream, frame->body, &conn->loop->conns.message,
                             &message);
    if (kiln_status_code(st) == KILN_UNIMPLEMENTED && conn->state == KILN_CONN_OPEN)
        refuse(conn, frame->stream, st);
    else if (st)
        kiln_conn_fail_telling(conn, st);
    else if (conn->state == KILN_CONN_OPEN)
        on_open_message(conn, &message);
    else
        kiln_handshake_message(conn, &message);
}

static void on_plain(kiln_conn *conn, kiln_str input) {
    while (conn->state == KILN_CONN_HANDSHAKE || conn->state == KILN_CONN_OPEN) {
        kiln_frame frame;
        bool ready = false;
        kiln_status st = kiln_frame_read(&conn->reader, &input, &frame, &ready);
        if (!st && conn->state == KILN_CONN_HANDSHAKE && conn->reader.need > HELLO_BYTES_MAX)
            st = KILN_ERROR(DATA_LOSS, "a HELLO of %zu bytes", conn->reader.need);
        if (st)
            kiln_conn_fail_telling(conn, st);
        else if (ready)
            on_frame(conn, &frame);
        if (st || !ready) return;
    }
}

static void on_cipher(kiln_conn *conn, kiln_str input) {
    kiln_strbuf *plain = &conn->loop->conns.plain, reply = {0};
    bool was_ready = kiln_tls_ready(conn->tls);
    kiln_strbuf_reset(plain);
    kiln_status st = kiln_tls_receive(conn->tls, input, plain, &reply);
    if (reply.size) kiln_conn_put_raw(conn, &reply);
    kiln_strbuf_deinit(&reply);
    if (st) {
        kiln_conn_fail(conn, st);
        return;
    }
    if (!kiln_tls_ready(conn->tls)) kiln_fail_pass(KILN_FAIL_TLS_HALF);
    if (!was_ready && kiln_tls_ready(conn->tls)) kiln_handshake_secured(conn);
    on_plain(conn, kiln_strbuf_view(plain));
}

static void on_web(kiln_conn *conn, kiln_str input) {
    kiln_strbuf *plain = &conn->loop->conns.plain, reply = {0};
    kiln_strbuf_reset(plain);
    kiln_status st = kiln_ws_receive(conn->web, input, plain, &reply);
    if (reply.size) kiln_conn_put_raw(conn, &reply);
    kiln_strbuf_deinit(&reply);
    if (!st && conn->state == KILN_CONN_HANDSHAKE && conn->queued_bytes > KILN_NET_STRANGER_BYTES)
        st = kiln_conn_too_slow(conn); /* WebSocket pings of strangers are answered, too */
    if (st)
        kiln_conn_fail(conn, st);
    else
        on_plain(conn, kiln_strbuf_view(plain));
}

static void on_bytes(kiln_conn *conn, kiln_str input) {
    if (!conn->heard && !conn->dialled) {
        kiln_strangers_speaks(conn);
        kiln_handshake_recognise(conn, input);
    }
    conn->heard = true;
    if (conn->state == KILN_CONN_CLOSED) return;
    if (conn->tls)
        on_cipher(conn, input);
    else if (conn->web)
        on_web(conn, input);
    else
        on_plain(conn, input);
}

void kiln_conn_take(kiln_conn *conn, kiln_str bytes, int uv_code) {
    conn->received_bytes += bytes.size;
    if (bytes.size) {
        on_bytes(conn, bytes);
        return;
    }
    kiln_status why = conn->last_words;
    conn->last_words = NULL;
    if (!why && uv_code)
        why = kiln_net_error(uv_code, "reading from the peer");
    else if (!why)
        why = KILN_ERROR(UNAVAILABLE, "the peer closed the connection");
    kiln_conn_fail(conn, why);
}
