/* The life of a request: from libmicrohttpd to its handler, and back with the answer. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "web/http_state.h"

/* ---- Life ---- */

/* Whether somebody besides the connection still uses it. */
static bool is_awaited(const kiln_http_request *r) {
    return r->is_held || r->piece_waits || (r->stage == HTTP_WHOLE && !r->is_answered) ||
           (r->is_late && !r->is_answered);
}

static void free_if_unused(kiln_http_request *r) {
    if (r->connection || is_awaited(r)) return;
    kiln_http_server *server = r->server;
    if (r->server->options.handler->ended)
        r->server->options.handler->ended(r->server->options.context, r);
    if (r->before)
        r->before->next = r->next;
    else
        r->server->requests = r->next;
    if (r->next) r->next->before = r->before;
    if (r->response) MHD_destroy_response(r->response);
    kiln_strbuf_deinit(&r->body);
    kiln_strbuf_deinit(&r->out);
    kiln_arena_deinit(&r->arena);
    kiln_free(r);
    if (server->is_closed && !server->requests) kiln_free(server);
}

void *kiln_http_on_uri(void *server, const char *uri, struct MHD_Connection *connection) {
    kiln_http_server *s = server;
    kiln_http_request *r = kiln_alloc(sizeof *r);
    r->server = s;
    r->connection = connection;
    r->link =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    kiln_arena_init(&r->arena, 4096);
    r->uri = kiln_str_copy(&r->arena, kiln_str_from(uri));
    r->next = s->requests;
    if (r->next) r->next->before = r;
    s->requests = r;
    return r;
}

static void end_stream(kiln_http_request *r) {
    if (!r->stream.step) return;
    r->stream.step = NULL;
    r->stream.end(r->stream.state);
}

void kiln_http_on_completed(void *server, struct MHD_Connection *connection, void **state,
                            enum MHD_RequestTerminationCode how) {
    (void)server, (void)connection, (void)how;
    kiln_http_request *r = *state;
    if (!r) return;
    *state = NULL;
    kiln_http_set_idle(r->link);
    r->connection = NULL;
    r->link = NULL;
    end_stream(r);
    free_if_unused(r);
}

void kiln_http_suspend(kiln_http_request *r) {
    KILN_CHECK(!r->is_suspended);
    r->is_suspended = true;
    kiln_http_set_link_deadline(r->link, UINT64_MAX);
    MHD_suspend_connection(r->connection);
}

void kiln_http_resume(kiln_http_request *r) {
    if (!r->is_suspended) return;
    r->is_suspended = false;
    kiln_http_set_link_deadline(r->link,
                                r->stage <= HTTP_BODY ? KILN_HTTP_BODY_NS : KILN_HTTP_SENT_NS);
    MHD_resume_connection(r->connection);
    kiln_http_run_soon(r->server->runner);
}

void kiln_http_let_go(kiln_http_request *r) {
    end_stream(r);
    r->step = KILN_HTTP_END;
    if (!r->is_suspended) return;
    r->is_suspended = false;
    MHD_resume_connection(r->connection);
}

/* ---- From libmicrohttpd ---- */

static enum MHD_Result hand_over(kiln_http_request *r) {
    enum MHD_Result queued = MHD_queue_response(r->connection, r->status, r->response);
    MHD_destroy_response(r->response);
    r->response = NULL;
    r->stage = HTTP_SENT;
    kiln_http_set_link_deadline(r->link, KILN_HTTP_SENT_NS);
    return queued;
}

static enum MHD_Result hand_over_or_wait(kiln_http_request *r) {
    if (r->response) return hand_over(r);
    kiln_http_suspend(r);
    return MHD_YES;
}

static bool has_body(const kiln_http_request *r, uint64_t *out_size) {
    *out_size = 0;
    if (kiln_http_header(r, MHD_HTTP_HEADER_TRANSFER_ENCODING).size) return true;
    const kiln_str length = kiln_http_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length.size && kiln_str_to_u64(length, out_size) && *out_size > 0;
}

static kiln_status too_large(const kiln_http_request *r) {
    return KILN_ERROR(OUT_OF_RANGE, "the request's body has more than %llu bytes",
                      (unsigned long long)r->body_max);
}

static void refuse_body(kiln_http_request *r) {
    uint64_t size = 0;
    if (r->response || !has_body(r, &size)) return;
    if (!r->takes_whole && !r->piece)
        kiln_http_answer_error(r, KILN_ERROR(INVALID_ARGUMENT, "this request takes no body"));
    else if (size > r->body_max)
        kiln_http_answer_error_as(r, MHD_HTTP_CONTENT_TOO_LARGE, too_large(r));
}

/* The head was handed over. */
static enum MHD_Result after_head(kiln_http_request *r) {
    if (r->is_held && !r->is_late) {
        kiln_http_suspend(r);
        return MHD_YES;
    }
    refuse_body(r);
    /* The connection closes after an answer to a part of a request. */
    uint64_t size = 0;
    if (r->response && has_body(r, &size)) return hand_over(r);
    r->stage = HTTP_BODY;
    return MHD_YES;
}

static enum MHD_Result begin(kiln_http_request *r, const char *method) {
    kiln_str name = kiln_str_from(method);
    if (name.size >= sizeof r->method) name.size = sizeof r->method - 1;
    memcpy(r->method, name.data, name.size);
    r->stage = HTTP_HEAD;
    r->link->is_busy = true;
    r->deadline_ns = kiln_loop_now_ns(r->server->loop) + KILN_HTTP_ANSWER_NS;
    kiln_http_set_link_deadline(r->link, KILN_HTTP_BODY_NS);
    r->server->options.handler->head(r->server->options.context, r);
    return after_head(r);
}

/* A client that sends slowly is closed; a steady one has as long as it needs. */
static void count_body(kiln_http_request *r, size_t size) {
    r->body_bytes += size;
    if (r->body_bytes - r->counted_bytes < KILN_HTTP_BODY_BYTES) return;
    r->counted_bytes = r->body_bytes;
    kiln_http_set_link_deadline(r->link, KILN_HTTP_BODY_NS);
}

/* libmicrohttpd accepts no answer while a body comes, so that one that is too large is read on for
 * a while and then cut off. */
static enum MHD_Result take_body(kiln_http_request *r, kiln_str piece) {
    count_body(r, piece.size);
    if (r->body_bytes > r->body_max + KILN_HTTP_WHOLE_BYTES_MAX) return MHD_NO;
    if (r->body_bytes > r->body_max) r->is_too_large = true;
    if (r->is_too_large || r->response) return MHD_YES;
    if (r->takes_whole) {
        kiln_strbuf_str(&r->body, piece);
    } else if (r->piece && !r->piece(r->piece_context, r, piece)) {
        r->piece_waits = true;
        kiln_http_suspend(r);
    }
    return MHD_YES;
}

static enum MHD_Result end_body(kiln_http_request *r) {
    if (r->is_too_large && !r->response)
        kiln_http_answer_error_as(r, MHD_HTTP_CONTENT_TOO_LARGE, too_large(r));
    if (r->response) return hand_over(r);
    r->stage = HTTP_WHOLE;
    r->deadline_ns = kiln_loop_now_ns(r->server->loop) + KILN_HTTP_ANSWER_NS;
    r->server->options.handler->whole(r->server->options.context, r);
    return hand_over_or_wait(r);
}

enum MHD_Result kiln_http_on_request(void *server, struct MHD_Connection *connection,
                                     const char *path, const char *method, const char *version,
                                     const char *upload, size_t *upload_size, void **state) {
    (void)server, (void)connection, (void)path, (void)version;
    kiln_http_request *r = *state;
    if (!r) return MHD_NO;
    if (r->stage == HTTP_NEW) return begin(r, method);
    if (r->stage == HTTP_HEAD && *upload_size == 0) return after_head(r); /* it was held */
    if (r->stage == HTTP_WHOLE) return hand_over_or_wait(r);
    r->stage = HTTP_BODY;
    const kiln_str piece = {upload, *upload_size};
    *upload_size = 0;
    return piece.size ? take_body(r, piece) : end_body(r);
}

/* ---- Of its handler ---- */

const char *kiln_http_method(const kiln_http_request *r) { return r->method; }
kiln_str kiln_http_uri(const kiln_http_request *r) { return r->uri; }
kiln_str kiln_http_body(const kiln_http_request *r) { return kiln_strbuf_view(&r->body); }
kiln_arena *kiln_http_arena(kiln_http_request *r) { return &r->arena; }
void kiln_http_set_user(kiln_http_request *r, void *user) { r->user = user; }
void *kiln_http_user(const kiln_http_request *r) { return r->user; }
bool kiln_http_is_over(const kiln_http_request *r) { return !r->connection || r->is_late; }
const char *kiln_http_peer(const kiln_http_request *r) { return r->link ? r->link->peer : ""; }
bool kiln_http_is_tls(const kiln_http_request *r) { return r->server->options.cert_pem != NULL; }

kiln_str kiln_http_header(const kiln_http_request *r, const char *name) {
    if (!r->connection) return (kiln_str){0};
    return kiln_str_from(MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name));
}

void kiln_http_hold(kiln_http_request *r) {
    KILN_CHECK(r->stage == HTTP_HEAD);
    r->is_held = true;
}

void kiln_http_go_on(kiln_http_request *r) {
    KILN_CHECK(r->is_held);
    r->is_held = false;
    if (r->is_late) r->is_answered = true;
    if (kiln_http_is_over(r)) {
        free_if_unused(r);
        return;
    }
    r->server->options.handler->head(r->server->options.context, r);
    if (!r->is_held) kiln_http_resume(r);
}

void kiln_http_take_whole(kiln_http_request *r, size_t bytes_max) {
    r->takes_whole = true;
    r->body_max = KILN_MIN(bytes_max, KILN_HTTP_WHOLE_BYTES_MAX);
}

void kiln_http_take_pieces(kiln_http_request *r, uint64_t bytes_max,
                           bool (*piece)(void *context, kiln_http_request *r, kiln_str piece),
                           void *context) {
    r->body_max = bytes_max;
    r->piece = piece;
    r->piece_context = context;
}

void kiln_http_more(kiln_http_request *r) {
    KILN_CHECK(r->piece_waits);
    r->piece_waits = false;
    if (r->connection)
        kiln_http_resume(r);
    else
        free_if_unused(r);
}

void kiln_http_set_deadline(kiln_http_request *r, uint64_t after_ns) {
    const uint64_t now_ns = kiln_loop_now_ns(r->server->loop);
    r->deadline_ns = after_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + after_ns;
}

void kiln_http_check_deadline(kiln_http_request *r, uint64_t now_ns) {
    const bool is_due = r->is_suspended && now_ns >= r->deadline_ns && !r->is_late &&
                        (r->is_held || (r->stage == HTTP_WHOLE && !r->is_answered));
    if (!is_due) return;
    kiln_http_answer_error(
        r, KILN_ERROR(DEADLINE_EXCEEDED, "the request took too long; try again later"));
    r->is_late = true;
    r->is_answered = false; /* its handler still will */
}

void kiln_http_set_response(kiln_http_request *r, unsigned status, const char *type,
                            struct MHD_Response *response) {
    KILN_CHECK(!r->is_answered);
    KILN_CHECK(response != NULL);
    r->is_answered = true;
    if (kiln_http_is_over(r)) {
        end_stream(r);
        MHD_destroy_response(response);
        free_if_unused(r);
        return;
    }
    if (type) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (uint32_t i = 0; i < r->headers.count; i += 2)
        MHD_add_response_header(response, r->headers.data[i].data, r->headers.data[i + 1].data);
    r->status = status;
    r->response = response;
    kiln_http_resume(r);
}
