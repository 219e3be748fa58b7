/* One connection: bytes to frames to messages, the handshake, the bounded output queue. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/log.h"
#include "proto/net/internal.h"

#define FLUSH_NS                                                                                  \
    UINT64_C(1000000000)               /* time a closing connection has to get its last words out \
                                        */
#define HELLO_BYTES_MAX ((size_t)4096) /* what an unknown peer may make us keep */

typedef enum conn_state {
    CONN_DIALLING,
    CONN_SHAKING,
    CONN_OPEN,
    CONN_FLUSHING,
    CONN_CLOSED
} conn_state;

struct kiln_conn {
    kiln_loop *loop;
    kiln_socket *socket; /* NULL while a name is resolved and between two tries */
    conn_state state;
    bool dialled, was_opened;
    uint64_t id;
    uint32_t next_stream;
    kiln_peer_role peer_role;
    const kiln_conn_handler *handler;
    void *context, *user;
    kiln_conn_filter filter;
    void *filter_state;
    kiln_frame_reader reader;
    kiln_strbuf plain; /* decrypted, when there is a filter */
    size_t queued_bytes;
    kiln_timer *timer;      /* of dialling, handshake, flushing */
    kiln_status why;        /* why it closes; the first reason stands */
    kiln_status last_words; /* ERROR on stream 0 that the peer sent */
    kiln_blobs *blobs;
    /* Dialling. */
    kiln_arena arena; /* of the strings of `dial` */
    kiln_dial_options dial;
    uv_getaddrinfo_t resolve;
    bool resolving;
    struct addrinfo *found, *next_address;
    uv_connect_t connect;
    /* Listening. */
    kiln_listen_options listen;
};

typedef struct write_request {
    uv_write_t uv;
    kiln_conn *conn;
    kiln_strbuf bytes;
} write_request;

/* ---- The end ---- */

static void release(kiln_conn *conn) {
    if (conn->blobs) kiln_blobs_destroy(conn->blobs);
    conn->blobs = NULL;
    KILN_CHECK(conn->why != NULL);
    if (conn->dialled || conn->was_opened)
        conn->handler->closed(conn->context, conn, conn->why);
    else
        kiln_log(KILN_LOG_DEBUG, "a peer without handshake: %s", kiln_status_text(conn->why));
    if (conn->filter_state && conn->filter.destroy) conn->filter.destroy(conn->filter_state);
    if (conn->found) uv_freeaddrinfo(conn->found);
    kiln_status_free(conn->why);
    kiln_status_free(conn->last_words);
    kiln_frame_reader_deinit(&conn->reader);
    kiln_strbuf_deinit(&conn->plain);
    kiln_arena_deinit(&conn->arena);
    kiln_timer_destroy(conn->timer);
    kiln_free(conn);
}

static void on_socket_closed(uv_handle_t *handle) {
    kiln_conn *conn = handle->data;
    kiln_free(handle);
    if (conn) release(conn);
}

static void on_timer(void *context);

/* Closes now. `released` follows from the loop, never from inside. */
static void close_now(kiln_conn *conn) {
    if (conn->state == CONN_CLOSED) return;
    conn->state = CONN_CLOSED;
    kiln_timer_stop(conn->timer);
    if (conn->socket)
        uv_close(&conn->socket->handle, on_socket_closed);
    else if (!conn->resolving)
        kiln_timer_start(conn->timer, 0); /* no handle whose close could call back */
    else
        uv_cancel((uv_req_t *)&conn->resolve);
}

static void fail(kiln_conn *conn, kiln_status why) {
    if (conn->why)
        kiln_status_free(why);
    else
        conn->why = why;
    close_now(conn);
}

static void post(kiln_conn *conn, kiln_strbuf *frame);

/* Says why, then closes when that is out. */
static void fail_telling(kiln_conn *conn, kiln_status why) {
    if (conn->state == CONN_SHAKING || conn->state == CONN_OPEN) {
        kiln_arena scratch;
        kiln_arena_init(&scratch, 1024);
        kiln_message message = kiln_message_from_status(why, 0, &scratch);
        kiln_strbuf frame = {0};
        kiln_status st = kiln_frame_write_message(&frame, &message);
        if (!st) post(conn, &frame);
        kiln_status_free(st); /* last words that do not fit are not said */
        kiln_strbuf_deinit(&frame);
        kiln_arena_deinit(&scratch);
    }
    if (conn->why)
        kiln_status_free(why);
    else
        conn->why = why;
    if (conn->state == CONN_CLOSED) return;
    if (conn->queued_bytes == 0 || conn->state == CONN_DIALLING) {
        close_now(conn);
        return;
    }
    conn->state = CONN_FLUSHING;
    uv_read_stop(&conn->socket->stream);
    kiln_timer_start(conn->timer, FLUSH_NS);
}

void kiln_conn_close(kiln_conn *conn, kiln_status why) {
    if (why)
        fail_telling(conn, why);
    else if (conn->state != CONN_FLUSHING && conn->state != CONN_CLOSED) {
        if (!conn->why) conn->why = KILN_ERROR(CANCELLED, "closed on our side");
        if (conn->queued_bytes && conn->state == CONN_OPEN) {
            conn->state = CONN_FLUSHING;
            uv_read_stop(&conn->socket->stream);
            kiln_timer_start(conn->timer, FLUSH_NS);
        } else {
            close_now(conn);
        }
    }
}

static void on_timer(void *context) {
    kiln_conn *conn = context;
    switch (conn->state) {
    case CONN_DIALLING: fail(conn, KILN_ERROR(UNAVAILABLE, "the tracker does not answer")); return;
    case CONN_SHAKING:
        fail_telling(conn, KILN_ERROR(UNAVAILABLE, "no handshake within 5 s"));
        return;
    case CONN_OPEN: return;
    case CONN_FLUSHING: close_now(conn); return;
    case CONN_CLOSED: release(conn); return;
    }
}

/* ---- Output ---- */

static void on_written(uv_write_t *uv, int status) {
    write_request *request = (write_request *)(void *)uv;
    kiln_conn *conn = request->conn;
    conn->queued_bytes -= request->bytes.size;
    kiln_strbuf_deinit(&request->bytes);
    kiln_free(request);
    if (conn->state == CONN_CLOSED) return;
    if (status < 0)
        fail(conn, kiln_net_error(status, "sending to the peer"));
    else if (conn->state == CONN_FLUSHING && conn->queued_bytes == 0)
        close_now(conn);
    else if (conn->state == CONN_OPEN && conn->blobs)
        kiln_blobs_drained(conn->blobs);
}

static void write_bytes(kiln_conn *conn, kiln_strbuf *bytes) {
    write_request *request = kiln_alloc(sizeof *request);
    request->conn = conn;
    request->bytes = *bytes;
    *bytes = (kiln_strbuf){0};
    conn->queued_bytes += request->bytes.size;
    uv_buf_t buffer = uv_buf_init(request->bytes.data, (unsigned)request->bytes.size);
    int code = uv_write(&request->uv, &conn->socket->stream, &buffer, 1, on_written);
    if (code == 0) return;
    conn->queued_bytes -= request->bytes.size;
    kiln_strbuf_deinit(&request->bytes);
    kiln_free(request);
    fail(conn, kiln_net_error(code, "sending to the peer"));
}

/* Sends a frame (and empties it): one write per frame. A peer that does not read is let go. */
static void post(kiln_conn *conn, kiln_strbuf *frame) {
    if (conn->state != CONN_SHAKING && conn->state != CONN_OPEN) return;
    if (conn->queued_bytes + frame->size > KILN_NET_QUEUE_MAX) {
        fail(conn,
             KILN_ERROR(RESOURCE_EXHAUSTED, "the peer reads too slowly: %zu bytes wait for it",
                        conn->queued_bytes));
        return;
    }
    if (!conn->filter.encrypt) {
        write_bytes(conn, frame);
        return;
    }
    kiln_strbuf cipher = {0};
    kiln_status st = conn->filter.encrypt(conn->filter_state, kiln_strbuf_view(frame), &cipher);
    kiln_strbuf_deinit(frame);
    if (st)
        fail(conn, st);
    else
        write_bytes(conn, &cipher);
    kiln_strbuf_deinit(&cipher);
}

static kiln_status send_message(kiln_conn *conn, const kiln_message *message) {
    kiln_strbuf frame = {0};
    kiln_status st = kiln_frame_write_message(&frame, message);
    if (!st) post(conn, &frame);
    kiln_strbuf_deinit(&frame);
    return st;
}

kiln_status kiln_conn_send(kiln_conn *conn, const kiln_message *message) {
    return conn->state == CONN_OPEN ? send_message(conn, message) : KILN_OK;
}

void kiln_conn_send_data(kiln_conn *conn, uint32_t stream, kiln_str bytes, bool end) {
    kiln_strbuf frame = {0};
    kiln_frame_write(&frame, KILN_MSG_DATA, end ? KILN_FRAME_END : 0, stream, bytes);
    if (conn->state == CONN_OPEN) post(conn, &frame);
    kiln_strbuf_deinit(&frame);
}

/* ---- The handshake ---- */

static void opened(kiln_conn *conn, const kiln_msg_hello *hello, const kiln_msg_welcome *welcome) {
    conn->state = CONN_OPEN;
    conn->was_opened = true;
    kiln_timer_stop(conn->timer);
    conn->handler->opened(conn->context, conn, hello, welcome);
}

/* Compares in a time that does not depend on where the difference is. */
static bool same_token(kiln_str given, const uint8_t *token) {
    uint8_t difference = 0;
    if (given.size != KILN_TOKEN_BYTES) return false;
    for (size_t i = 0; i < KILN_TOKEN_BYTES; i++)
        difference |= (uint8_t)((uint8_t)given.data[i] ^ token[i]);
    return difference == 0;
}

static kiln_status check_hello(const kiln_conn *conn, const kiln_msg_hello *hello,
                               uint32_t *out_version) {
    kiln_status st = kiln_version_agree(hello->version_min, hello->version_max, out_version);
    if (st) return st;
    if (hello->role == KILN_PEER_TRACKER)
        return KILN_ERROR(INVALID_ARGUMENT, "trackers do not dial each other");
    const kiln_listen_options *listen = &conn->listen;
    if (listen->address.is_unix || listen->insecure) return KILN_OK;
    if (listen->token && same_token(hello->token, listen->token)) return KILN_OK;
    if (hello->token.size)
        return KILN_ERROR(UNAUTHENTICATED,
                          "the token is not this tracker's; do both run with the same KILN_HOME?");
    return KILN_ERROR(UNAUTHENTICATED, "this tracker wants the token in its user's KILN_HOME");
}

static void on_hello(kiln_conn *conn, const kiln_message *message) {
    uint32_t version = 0;
    if (message->type != KILN_MSG_HELLO) {
        fail_telling(conn, KILN_ERROR(DATA_LOSS, "a connection starts with HELLO, not %s",
                                      kiln_message_name(message->type)));
        return;
    }
    kiln_status st = check_hello(conn, &message->hello, &version);
    if (st) {
        fail_telling(conn, st);
        return;
    }
    kiln_message welcome = {
        .type = KILN_MSG_WELCOME,
        .welcome = {.version = version,
                    .boot = kiln_str_from(conn->listen.boot),
                    .heartbeat_ms = conn->listen.heartbeat_ms ? conn->listen.heartbeat_ms : 2000,
                    .software = kiln_str_from(conn->listen.software)},
    };
    st = send_message(conn, &welcome);
    if (st) {
        fail(conn, st);
        return;
    }
    conn->peer_role = (kiln_peer_role)message->hello.role;
    opened(conn, &message->hello, NULL);
}

static void on_welcome(kiln_conn *conn, const kiln_message *message) {
    if (message->type == KILN_MSG_ERROR)
        fail(conn, kiln_status_from_error(&message->error));
    else if (message->type != KILN_MSG_WELCOME)
        fail_telling(conn, KILN_ERROR(DATA_LOSS, "HELLO is answered by WELCOME, not %s",
                                      kiln_message_name(message->type)));
    else
        opened(conn, NULL, &message->welcome);
}

static void say_hello(kiln_conn *conn) {
    const kiln_dial_options *dial = &conn->dial;
    kiln_message hello = {
        .type = KILN_MSG_HELLO,
        .hello = {.version_min = KILN_PROTO_VERSION_MIN,
                  .version_max = KILN_PROTO_VERSION_MAX,
                  .role = dial->role,
                  .node = kiln_str_from(dial->node),
                  .boot = kiln_str_from(dial->boot),
                  .name = kiln_str_from(dial->name),
                  .software = kiln_str_from(dial->software)},
    };
    /* The token never leaves the machine. */
    if (dial->token && !dial->address.is_unix && dial->address.is_loopback)
        hello.hello.token = (kiln_str){(const char *)dial->token, KILN_TOKEN_BYTES};
    kiln_status st = send_message(conn, &hello);
    if (st) fail(conn, st);
}

/* ---- Input ---- */

static void refuse(kiln_conn *conn, uint32_t stream, kiln_status why) {
    kiln_message error = kiln_message_from_status(why, stream, &conn->loop->message);
    kiln_status_free(why);
    kiln_status st = send_message(conn, &error);
    if (st) fail(conn, st);
}

static void on_open_message(kiln_conn *conn, const kiln_message *message) {
    if (!kiln_message_may_send(message->type, conn->peer_role)) {
        refuse(conn, message->stream,
               KILN_ERROR(PERMISSION_DENIED, "a %s may not send %s",
                          kiln_peer_role_name(conn->peer_role), kiln_message_name(message->type)));
        return;
    }
    if (conn->blobs && kiln_blobs_message(conn->blobs, message)) return;
    if (message->type == KILN_MSG_ERROR && message->stream == 0) {
        kiln_status_free(conn->last_words);
        conn->last_words = kiln_status_from_error(&message->error);
    }
    conn->handler->message(conn->context, conn, message);
}

static void on_frame(kiln_conn *conn, const kiln_frame *frame) {
    kiln_status st = KILN_OK;
    if (frame->type == KILN_MSG_DATA) {
        if (conn->state != CONN_OPEN || !conn->blobs)
            st = KILN_ERROR(DATA_LOSS, "DATA that nobody asked for");
        else
            st = kiln_blobs_data(conn->blobs, frame->stream, frame->body,
                                 frame->flags & KILN_FRAME_END);
        if (st) fail_telling(conn, st);
        return;
    }
    kiln_message message;
    kiln_arena_reset(&conn->loop->message);
    st = kiln_message_decode(frame->type, frame->stream, frame->body, &conn->loop->message,
                             &message);
    if (kiln_status_code(st) == KILN_UNIMPLEMENTED && conn->state == CONN_OPEN)
        refuse(conn, frame->stream, st);
    else if (st)
        fail_telling(conn, st);
    else if (conn->state == CONN_OPEN)
        on_open_message(conn, &message);
    else if (conn->dialled)
        on_welcome(conn, &message);
    else
        on_hello(conn, &message);
}

static void on_plain(kiln_conn *conn, kiln_str input) {
    while (conn->state == CONN_SHAKING || conn->state == CONN_OPEN) {
        kiln_frame frame;
        bool ready = false;
        kiln_status st = kiln_frame_read(&conn->reader, &input, &frame, &ready);
        if (!st && conn->state == CONN_SHAKING && conn->reader.need > HELLO_BYTES_MAX)
            st = KILN_ERROR(DATA_LOSS, "a HELLO of %zu bytes", conn->reader.need);
        if (st)
            fail_telling(conn, st);
        else if (ready)
            on_frame(conn, &frame);
        if (st || !ready) return;
    }
}

static void on_bytes(kiln_conn *conn, kiln_str input) {
    if (!conn->filter.decrypt) {
        on_plain(conn, input);
        return;
    }
    kiln_strbuf reply = {0};
    kiln_strbuf_reset(&conn->plain);
    kiln_status st = conn->filter.decrypt(conn->filter_state, input, &conn->plain, &reply);
    if (reply.size) write_bytes(conn, &reply);
    kiln_strbuf_deinit(&reply);
    if (st)
        fail(conn, st);
    else
        on_plain(conn, kiln_strbuf_view(&conn->plain));
}

static void lend_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *out) {
    (void)suggested;
    kiln_conn *conn = handle->data;
    *out = uv_buf_init(conn->loop->read_buffer, sizeof conn->loop->read_buffer);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    kiln_conn *conn = stream->data;
    if (size >= 0) {
        on_bytes(conn, (kiln_str){buffer->base, (size_t)size});
        return;
    }
    kiln_status why = conn->last_words;
    conn->last_words = NULL;
    if (!why && size == UV_EOF) why = KILN_ERROR(UNAVAILABLE, "the peer closed the connection");
    if (!why) why = kiln_net_error((int)size, "reading from the peer");
    fail(conn, why);
}

/* ---- Making one ---- */

static void start(kiln_conn *conn) {
    conn->state = CONN_SHAKING;
    kiln_timer_start(conn->timer, KILN_NET_HANDSHAKE_NS);
    if (conn->socket->handle.type == UV_TCP) {
        uv_tcp_nodelay(&conn->socket->tcp, 1);
        uv_tcp_keepalive(&conn->socket->tcp, 1, 30);
    }
    if (conn->filter.create)
        conn->filter_state = conn->filter.create(conn->filter.config, conn->dialled);
    int code = uv_read_start(&conn->socket->stream, lend_buffer, on_read);
    if (code)
        fail(conn, kiln_net_error(code, "reading from the peer"));
    else if (conn->dialled)
        say_hello(conn);
}

static kiln_conn *make_conn(kiln_loop *loop, const kiln_conn_handler *handler, void *context,
                            const kiln_conn_filter *filter) {
    kiln_conn *conn = kiln_alloc(sizeof *conn);
    conn->loop = loop;
    conn->id = ++loop->last_conn_id;
    conn->handler = handler;
    conn->context = context;
    conn->filter = *filter;
    conn->timer = kiln_timer_create(loop, on_timer, conn);
    kiln_arena_init(&conn->arena, 1024);
    return conn;
}

void kiln_conn_accept(kiln_loop *loop, const kiln_listen_options *options, kiln_socket *socket) {
    kiln_conn *conn = make_conn(loop, options->handler, options->context, &options->filter);
    conn->listen = *options;
    conn->next_stream = 2;
    conn->socket = socket;
    socket->handle.data = conn;
    start(conn);
}

static void try_next(kiln_conn *conn, int last_code);

static void free_socket(uv_handle_t *handle) { kiln_free(handle); }

static void on_connected(uv_connect_t *connect, int code) {
    kiln_conn *conn = connect->data;
    if (conn->state == CONN_CLOSED) return;
    if (code == 0) {
        start(conn);
        return;
    }
    uv_close(&conn->socket->handle, free_socket);
    conn->socket = NULL;
    try_next(conn, code);
}

static kiln_status dial_error(const kiln_conn *conn, int code) {
    kiln_strbuf address = {0};
    kiln_address_print(&conn->dial.address, &address);
    kiln_status st = kiln_net_error(code, "dialling %s", address.data);
    kiln_strbuf_deinit(&address);
    if (code == UV_ECONNREFUSED || code == UV_ENOENT)
        st = kiln_status_note(st, "no tracker listens there");
    return st;
}

/* A name may have several addresses (IPv4 and IPv6): the first that answers is taken. */
static void try_next(kiln_conn *conn, int last_code) {
    struct addrinfo *address = conn->next_address;
    if (!address) {
        fail(conn, dial_error(conn, last_code));
        return;
    }
    conn->next_address = address->ai_next;
    conn->socket = kiln_alloc(sizeof *conn->socket);
    KILN_CHECK(uv_tcp_init(&conn->loop->uv, &conn->socket->tcp) == 0);
    conn->socket->handle.data = conn;
    conn->connect.data = conn;
    int code = uv_tcp_connect(&conn->connect, &conn->socket->tcp, address->ai_addr, on_connected);
    if (code) on_connected(&conn->connect, code);
}

static void on_resolved(uv_getaddrinfo_t *resolve, int code, struct addrinfo *found) {
    kiln_conn *conn = resolve->data;
    conn->resolving = false;
    conn->found = conn->next_address = found;
    if (conn->state == CONN_CLOSED)
        release(conn); /* closed meanwhile */
    else
        try_next(conn, code ? code : UV_EAI_NONAME);
}

static void dial_tcp(kiln_conn *conn) {
    const kiln_address *address = &conn->dial.address;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    kiln_strbuf port = {0};
    kiln_strbuf_printf(&port, "%u", address->port);
    conn->resolve.data = conn;
    int code = uv_getaddrinfo(&conn->loop->uv, &conn->resolve, on_resolved, address->host,
                              port.data, &hints);
    kiln_strbuf_deinit(&port);
    conn->resolving = code == 0;
    if (code) fail(conn, dial_error(conn, code));
}

static void dial_unix(kiln_conn *conn) {
    conn->socket = kiln_alloc(sizeof *conn->socket);
    KILN_CHECK(uv_pipe_init(&conn->loop->uv, &conn->socket->pipe, 0) == 0);
    conn->socket->handle.data = conn;
    conn->connect.data = conn;
    uv_pipe_connect(&conn->connect, &conn->socket->pipe, conn->dial.address.host, on_connected);
}

static const char *keep(kiln_conn *conn, const char *text) {
    return text ? kiln_str_dup(&conn->arena, kiln_str_from(text)) : NULL;
}

kiln_conn *kiln_net_dial(kiln_loop *loop, const kiln_dial_options *options) {
    kiln_conn *conn = make_conn(loop, options->handler, options->context, &options->filter);
    conn->dialled = true;
    conn->next_stream = 1;
    conn->peer_role = KILN_PEER_TRACKER;
    conn->dial = *options;
    conn->dial.node = keep(conn, options->node);
    conn->dial.boot = keep(conn, options->boot);
    conn->dial.name = keep(conn, options->name);
    conn->dial.software = keep(conn, options->software);
    if (options->token)
        conn->dial.token = kiln_arena_copy(&conn->arena, options->token, KILN_TOKEN_BYTES);
    kiln_timer_start(conn->timer, KILN_NET_DIAL_NS);
    bool plaintext = !options->filter.encrypt && !options->insecure;
    if (plaintext && !options->address.is_loopback)
        fail(conn,
             KILN_ERROR(PERMISSION_DENIED,
                        "%s is not this machine and there is no key for it; --insecure talks in "
                        "the clear",
                        options->address.host));
    else if (options->address.is_unix)
        dial_unix(conn);
    else
        dial_tcp(conn);
    return conn;
}

void kiln_conn_set_user(kiln_conn *conn, void *user) { conn->user = user; }

void *kiln_conn_user(const kiln_conn *conn) { return conn->user; }

uint64_t kiln_conn_id(const kiln_conn *conn) { return conn->id; }

uint32_t kiln_conn_stream(kiln_conn *conn) {
    uint32_t stream = conn->next_stream;
    /* Wraps past the largest number of our parity, leaving out 0. */
    conn->next_stream = stream + 2 > stream ? stream + 2 : (conn->dialled ? 1 : 2);
    return stream;
}

size_t kiln_conn_queued_bytes(const kiln_conn *conn) { return conn->queued_bytes; }

kiln_loop *kiln_conn_loop(kiln_conn *conn) { return conn->loop; }

void kiln_conn_set_blobs(kiln_conn *conn, kiln_blobs *blobs) {
    KILN_CHECK(conn->blobs == NULL);
    conn->blobs = blobs;
}
