#include "tracker/http.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "proto/net.h"

struct kiln_http {
    kiln_loop *loop;
    kiln_http_options options;
    struct MHD_Daemon *daemon;
    kiln_watch *watch;
    kiln_timer *timer; /* when a connection times out */
};

/* ---- Pages ---- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              kiln_str body) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body.size, (void *)body.data, MHD_RESPMEM_MUST_COPY);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    enum MHD_Result sent = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return sent;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *upload, size_t *upload_size, void **request) {
    (void)version, (void)upload;
    kiln_http *http = context;
    if (!*request) { /* the head is here, the body may follow; answered at the next call */
        *request = http;
        return MHD_YES;
    }
    if (*upload_size) { /* a body is swallowed before it is answered */
        *upload_size = 0;
        return MHD_YES;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain",
                      KILN_STR("only GET and HEAD\n"));
    kiln_strbuf body = {0};
    const char *type = "text/plain";
    bool found = http->options.page(http->options.context, path, &body, &type);
    enum MHD_Result sent =
        found ? answer(connection, MHD_HTTP_OK, type, kiln_strbuf_view(&body))
              : answer(connection, MHD_HTTP_NOT_FOUND, "text/plain", KILN_STR("no such page\n"));
    kiln_strbuf_deinit(&body);
    return sent;
}

/* ---- On the loop ---- */

static void run(kiln_http *http) {
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    MHD_run(http->daemon);
    if (MHD_get_timeout(http->daemon, &wait_ms) == MHD_YES)
        kiln_timer_start(http->timer, (uint64_t)wait_ms * UINT64_C(1000000));
}

static void on_ready(void *context, unsigned ready_for) {
    (void)ready_for;
    run(context);
}

static void on_timer(void *context) { run(context); }

/* ---- Life ---- */

typedef union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} socket_address;

/* Numbers only: a name would be asked of the network. */
static kiln_status parse_address(const kiln_http_options *options, socket_address *out) {
    kiln_address address;
    bool bare = strspn(options->address, "0123456789") == strlen(options->address);
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%s%s", bare ? "127.0.0.1:" : "", options->address);
    kiln_status st = kiln_address_parse(kiln_strbuf_view(&text), &address);
    kiln_strbuf_deinit(&text);
    if (st) return st;
    if (address.is_unix)
        return KILN_ERROR(INVALID_ARGUMENT, "%s: HTTP needs a port, not a socket file",
                          options->address);
    if (!address.is_loopback && !options->anywhere)
        return KILN_ERROR(PERMISSION_DENIED,
                          "%s is plain text for everybody who reaches it; listen on loopback, or "
                          "say --insecure",
                          options->address);
    const char *host = strcmp(address.host, "localhost") == 0 ? "127.0.0.1" : address.host;
    *out = (socket_address){0};
    if (inet_pton(AF_INET, host, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(address.port);
    } else if (inet_pton(AF_INET6, host, &out->v6.sin6_addr) == 1) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons(address.port);
    } else {
        return KILN_ERROR(INVALID_ARGUMENT, "%s is no IP address", address.host);
    }
    return KILN_OK;
}

static kiln_status start(kiln_http *http, const socket_address *address) {
    unsigned flags = MHD_USE_EPOLL;
    if (address->any.sa_family == AF_INET6) flags |= MHD_USE_IPv6;
    http->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, http, MHD_OPTION_SOCK_ADDR,
                                    &address->any, MHD_OPTION_CONNECTION_LIMIT,
                                    KILN_HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
                                    KILN_HTTP_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                    KILN_HTTP_REQUEST_BYTES_MAX, MHD_OPTION_END);
    if (!http->daemon)
        return KILN_ERROR(ALREADY_EXISTS,
                          "cannot listen for HTTP on %s: the port is in use, or "
                          "may not be used",
                          http->options.address);
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    KILN_CHECK(info != NULL);
    http->timer = kiln_timer_create(http->loop, on_timer, http);
    http->watch = kiln_watch_create(http->loop, info->epoll_fd, KILN_WATCH_READ, on_ready, http);
    return KILN_OK;
}

kiln_status kiln_http_create(kiln_loop *loop, const kiln_http_options *options,
                             kiln_http **out_http) {
    socket_address address;
    kiln_status st = parse_address(options, &address);
    if (st) return kiln_status_note(st, "--http");
    kiln_http *http = kiln_alloc(sizeof *http);
    http->loop = loop;
    http->options = *options;
    st = start(http, &address);
    if (st) {
        kiln_http_destroy(http);
        return st;
    }
    *out_http = http;
    return KILN_OK;
}

unsigned kiln_http_port(const kiln_http *http) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : 0;
}

void kiln_http_destroy(kiln_http *http) {
    if (!http) return;
    kiln_watch_destroy(http->watch);
    kiln_timer_destroy(http->timer);
    if (http->daemon) MHD_stop_daemon(http->daemon);
    kiln_free(http);
}
