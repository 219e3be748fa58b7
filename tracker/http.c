#include "tracker/http.h"

#include <microhttpd.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "proto/http.h"

/* A request, from its head to the end of its answer. */
typedef struct request {
    kiln_http *http;
    struct MHD_Connection *connection;
    bool begun; /* `page` is begun and not ended */
    bool whole; /* the page is complete */
    kiln_http_page page;
    kiln_strbuf body;
    struct request *next; /* in the list of pages that are being made */
} request;

struct kiln_http {
    kiln_loop *loop;
    kiln_http_options options;
    struct MHD_Daemon *daemon;
    int listener;
    kiln_http_runner *runner;
    request *first, **last; /* requests whose pages are being made, oldest first; their connections
                               are suspended */
    kiln_timer *slice;      /* makes the next slice */
};

/* ---- Pages ---- */

/* Takes `response`, which may be NULL. */
static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status, const char *type,
                               struct MHD_Response *response) {
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    enum MHD_Result sent = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return sent;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status,
                              const char *text) {
    return respond(connection, status, "text/plain",
                   MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
                                                   MHD_RESPMEM_PERSISTENT));
}

/* The body is handed over, not copied, because it may be megabytes. */
static enum MHD_Result answer(request *r) {
    const kiln_strbuf body = r->body;
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(body.size, body.data, kiln_free);
    if (response) r->body = (kiln_strbuf){0};
    return respond(r->connection, MHD_HTTP_OK, r->page.type, response);
}

static void end_page(request *r) {
    if (r->begun && r->page.end) r->page.end(r->page.state);
    r->begun = false;
}

/* Suspends the connection until the page is made. */
static void make_later(request *r) {
    kiln_http *http = r->http;
    MHD_suspend_connection(r->connection);
    if (!http->first) kiln_timer_start(http->slice, 0);
    *http->last = r;
    http->last = &r->next;
}

static enum MHD_Result begin_page(request *r, const char *path, const char *method) {
    const kiln_http_options *options = &r->http->options;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return refuse(r->connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    r->begun = options->begin(options->context, path, &r->page);
    if (!r->begun) return refuse(r->connection, MHD_HTTP_NOT_FOUND, "no such page\n");
    make_later(r);
    return MHD_YES;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *upload, size_t *upload_size, void **state) {
    (void)version, (void)upload;
    request *r = *state;
    if (!r) { /* the head has arrived; the next call may bring a body, or asks for the answer */
        *state = r = kiln_alloc(sizeof *r);
        r->http = context;
        r->connection = connection;
        return MHD_YES;
    }
    if (*upload_size) { /* a body is read and ignored */
        *upload_size = 0;
        return MHD_YES;
    }
    return r->whole ? answer(r) : begin_page(r, path, method);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode how) {
    (void)context, (void)connection, (void)how;
    request *r = *state;
    if (!r) return;
    end_page(r);
    kiln_strbuf_deinit(&r->body);
    kiln_free(r);
}

/* ---- On the loop ---- */

/* Resumes the connection of the oldest request. */
static void resume_first(kiln_http *http) {
    request *r = http->first;
    http->first = r->next;
    if (!http->first) http->last = &http->first;
    MHD_resume_connection(r->connection);
}

static void make_slice(void *context) {
    kiln_http *http = context;
    request *r = http->first;
    if (!r->page.step(r->page.state, &r->body)) {
        r->whole = true;
        end_page(r);
        resume_first(http);
        kiln_http_run(http->runner);
    }
    if (http->first) kiln_timer_start(http->slice, 0);
}

/* ---- Life ---- */

static kiln_status parse_address(const kiln_http_options *options, kiln_address *out) {
    kiln_status st = kiln_http_address_parse(options->address, out);
    if (st) return st;
    if (out->is_unix)
        return KILN_ERROR(INVALID_ARGUMENT, "%s: HTTP needs a port, not a socket file",
                          options->address);
    if (!out->is_loopback && !options->anywhere)
        return KILN_ERROR(PERMISSION_DENIED,
                          "%s is plain text for everybody who reaches it; listen on loopback, or "
                          "say --insecure",
                          options->address);
    return KILN_OK;
}

static kiln_status start(kiln_http *http, const kiln_address *address) {
    kiln_status st = kiln_http_listen(address, &http->listener);
    if (st) return st;
    http->daemon =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, http,
                         MHD_OPTION_LISTEN_SOCKET, http->listener, MHD_OPTION_CONNECTION_LIMIT,
                         KILN_HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, KILN_HTTP_IDLE_S,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, KILN_HTTP_REQUEST_BYTES_MAX,
                         MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_END);
    if (!http->daemon) {
        kiln_fd_close(&http->listener);
        return KILN_ERROR(UNAVAILABLE, "the HTTP server cannot be started");
    }
    http->runner = kiln_http_runner_create(http->loop, http->daemon);
    http->slice = kiln_timer_create(http->loop, make_slice, http);
    return KILN_OK;
}

kiln_status kiln_http_create(kiln_loop *loop, const kiln_http_options *options,
                             kiln_http **out_http) {
    kiln_address address;
    kiln_status st = parse_address(options, &address);
    if (st) return kiln_status_note(st, "--http");
    kiln_http *http = kiln_alloc(sizeof *http);
    http->loop = loop;
    http->options = *options;
    http->last = &http->first;
    st = start(http, &address);
    if (st) {
        kiln_http_destroy(http);
        return kiln_status_note(st, "--http");
    }
    *out_http = http;
    return KILN_OK;
}

unsigned kiln_http_port(const kiln_http *http) { return kiln_http_listener_port(http->listener); }

void kiln_http_destroy(kiln_http *http) {
    if (!http) return;
    kiln_http_runner_destroy(http->runner);
    kiln_timer_destroy(http->slice);
    while (http->first) resume_first(http);
    if (http->daemon) MHD_stop_daemon(http->daemon);
    kiln_free(http);
}
