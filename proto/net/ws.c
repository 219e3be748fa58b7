#include "proto/net/ws.h"

#include <openssl/evp.h>
#include <string.h>
#include <wslay/wslay.h>

#include "base/alloc.h"
#include "base/check.h"
#include "proto/net/ws_request.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455, 1.3 */
#define SHA1_BYTES 20u
#define ACCEPT_BYTES 28u /* of them in base64 */

struct kiln_ws {
    const kiln_origins *origins;
    kiln_strbuf request; /* bytes so far; empty once it is answered */
    char host[KILN_WS_HOST_MAX + 1];
    wslay_event_context_ptr frames; /* NULL: the request is not answered */
    bool in_message;                /* the frame under way is of a message, not of control */
    /* Of the call under way. */
    kiln_str input;
    kiln_strbuf *plain, *wire;
};

bool kiln_ws_supported(void) { return true; }

kiln_ws *kiln_ws_accept(const kiln_origins *origins) {
    kiln_ws *ws = kiln_alloc(sizeof *ws);
    ws->origins = origins;
    return ws;
}

void kiln_ws_destroy(kiln_ws *ws) {
    if (!ws) return;
    if (ws->frames) wslay_event_context_free(ws->frames);
    kiln_strbuf_deinit(&ws->request);
    kiln_free(ws);
}

/* ---- Frames ---- */

static ssize_t take_input(wslay_event_context_ptr frames, uint8_t *out, size_t size, int flags,
                          void *user) {
    (void)flags;
    kiln_ws *ws = user;
    const size_t taken = KILN_MIN(size, ws->input.size);
    if (taken == 0) {
        wslay_event_set_error(frames, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(out, ws->input.data, taken);
    ws->input = kiln_str_slice(ws->input, taken, ws->input.size);
    return (ssize_t)taken;
}

static ssize_t put_output(wslay_event_context_ptr frames, const uint8_t *bytes, size_t size,
                          int flags, void *user) {
    (void)frames, (void)flags;
    kiln_ws *ws = user;
    kiln_strbuf_append(ws->wire, (const char *)bytes, size);
    return (ssize_t)size;
}

/* Messages are binary. */
static void on_frame(wslay_event_context_ptr frames,
                     const struct wslay_event_on_frame_recv_start_arg *frame, void *user) {
    kiln_ws *ws = user;
    ws->in_message = !wslay_is_ctrl_frame(frame->opcode);
    if (frame->opcode != WSLAY_TEXT_FRAME) return;
    const int code = wslay_event_queue_close(frames, WSLAY_CODE_UNSUPPORTED_DATA, NULL, 0);
    KILN_CHECK(code == 0 || code == WSLAY_ERR_NO_MORE_MSG);
    wslay_event_shutdown_read(frames);
    ws->in_message = false;
}

static void on_payload(wslay_event_context_ptr frames,
                       const struct wslay_event_on_frame_recv_chunk_arg *chunk, void *user) {
    (void)frames;
    kiln_ws *ws = user;
    if (ws->in_message)
        kiln_strbuf_append(ws->plain, (const char *)chunk->data, chunk->data_length);
}

static kiln_status receive_frames(kiln_ws *ws) {
    if (wslay_event_recv(ws->frames) != 0 || wslay_event_send(ws->frames) != 0)
        return KILN_ERROR(DATA_LOSS, "no frame of a WebSocket");
    if (wslay_event_get_close_received(ws->frames))
        return KILN_ERROR(UNAVAILABLE, "the page closed the connection");
    if (!wslay_event_get_read_enabled(ws->frames))
        return KILN_ERROR(DATA_LOSS, "no frame of a WebSocket that a page may send here (%u)",
                          (unsigned)wslay_event_get_status_code_sent(ws->frames));
    return KILN_OK;
}

/* ---- The request ---- */

static void refuse(kiln_ws *ws, const char *status, kiln_status why) {
    kiln_strbuf_printf(ws->wire,
                       "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nConnection: close\r\n"
                       "Sec-WebSocket-Version: 13\r\nContent-Length: %zu\r\n\r\n%s\n",
                       status, strlen(kiln_status_text(why)) + 1, kiln_status_text(why));
}

static kiln_status check_origin(const kiln_origins *origins, kiln_str origin) {
    for (uint32_t i = 0; i < origins->count; i++)
        if (kiln_str_is(origin, origins->item[i])) return KILN_OK;
    if (origin.size == 0) return KILN_OK;
    return KILN_ERROR(PERMISSION_DENIED, "pages of %.*s are refused; --ws-origin %.*s accepts them",
                      KILN_STR_ARG(origin), KILN_STR_ARG(origin));
}

static void print_accept(kiln_str key, kiln_strbuf *out) {
    uint8_t digest[SHA1_BYTES];
    uint8_t text[ACCEPT_BYTES + 1];
    char both[KILN_WS_KEY_BYTES + sizeof GUID];
    memcpy(both, key.data, KILN_WS_KEY_BYTES);
    memcpy(both + KILN_WS_KEY_BYTES, GUID, sizeof GUID);
    KILN_CHECK(EVP_Digest(both, sizeof both - 1, digest, NULL, EVP_sha1(), NULL) == 1);
    KILN_CHECK(EVP_EncodeBlock(text, digest, SHA1_BYTES) == (int)ACCEPT_BYTES);
    kiln_strbuf_append(out, (const char *)text, ACCEPT_BYTES);
}

static void accept_request(kiln_ws *ws, const kiln_ws_request *request) {
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = take_input,
        .send_callback = put_output,
        .on_frame_recv_start_callback = on_frame,
        .on_frame_recv_chunk_callback = on_payload,
    };
    KILN_CHECK(wslay_event_context_server_init(&ws->frames, &callbacks, ws) == 0);
    wslay_event_config_set_no_buffering(ws->frames, 1);
    wslay_event_config_set_max_recv_msg_length(ws->frames, KILN_WS_MESSAGE_MAX);
    memcpy(ws->host, request->host.data, request->host.size);
    kiln_strbuf_text(ws->wire, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                               "Connection: Upgrade\r\nSec-WebSocket-Accept: ");
    print_accept(request->key, ws->wire);
    kiln_strbuf_text(ws->wire, "\r\n\r\n");
}

/* Takes the bytes of the request from the input. */
static kiln_status receive_request(kiln_ws *ws) {
    kiln_ws_request request;
    const size_t had = ws->request.size;
    const kiln_str now = kiln_str_slice(ws->input, 0, KILN_WS_REQUEST_MAX - had);
    kiln_strbuf_append(&ws->request, now.data, now.size);
    const size_t size = kiln_ws_request_size(kiln_strbuf_view(&ws->request));
    kiln_status st = KILN_OK;
    if (size == 0 && ws->request.size < KILN_WS_REQUEST_MAX) {
        ws->input = (kiln_str){0};
        return KILN_OK;
    }
    if (size == 0)
        st = KILN_ERROR(DATA_LOSS, "a request of more than %zu bytes", KILN_WS_REQUEST_MAX);
    else
        st = kiln_ws_request_parse(kiln_str_slice(kiln_strbuf_view(&ws->request), 0, size),
                                   &request);
    if (st) {
        refuse(ws, "400 Bad Request", st);
        return st;
    }
    st = check_origin(ws->origins, request.origin);
    if (st) {
        refuse(ws, "403 Forbidden", st);
        return st;
    }
    ws->input = kiln_str_slice(ws->input, size - had, ws->input.size);
    accept_request(ws, &request);
    kiln_strbuf_deinit(&ws->request);
    return KILN_OK;
}

/* ---- Both ---- */

kiln_status kiln_ws_receive(kiln_ws *ws, kiln_str wire, kiln_strbuf *out_plain,
                            kiln_strbuf *out_wire) {
    ws->input = wire;
    ws->plain = out_plain;
    ws->wire = out_wire;
    kiln_status st = ws->frames ? KILN_OK : receive_request(ws);
    return st || !ws->frames ? st : receive_frames(ws);
}

bool kiln_ws_ready(const kiln_ws *ws) { return ws->frames != NULL; }

void kiln_ws_send(kiln_ws *ws, kiln_str plain, kiln_strbuf *out_wire) {
    const struct wslay_event_msg message = {
        .opcode = WSLAY_BINARY_FRAME, .msg = (const uint8_t *)plain.data, .msg_length = plain.size};
    ws->wire = out_wire;
    KILN_CHECK(wslay_event_queue_msg(ws->frames, &message) == 0);
    KILN_CHECK(wslay_event_send(ws->frames) == 0);
}

const char *kiln_ws_host(const kiln_ws *ws) { return ws->host; }
