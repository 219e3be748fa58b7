/* The server of web/http.h: its socket, connections and their deadlines, and libmicrohttpd on the
 * loop. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "web/http_state.h"

#define TICK_NS KILN_NS_PER_S
#define SPARE_CONNECTIONS 8u /* an eighth of them is kept free by closing idle ones */
#define TLS_PRIORITIES "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* ---- Connections ---- */

void kiln_http_set_link_deadline(http_connection *link, uint64_t after_ns) {
    link->deadline_ns =
        after_ns == UINT64_MAX ? UINT64_MAX : kiln_loop_now_ns(link->server->loop) + after_ns;
}

static void unlink_connection(http_connection *c) {
    kiln_http_server *s = c->server;
    if (c->before)
        c->before->next = c->next;
    else
        s->first_connection = c->next;
    if (c->next)
        c->next->before = c->before;
    else
        s->last_connection = c->before;
}

static void append_connection(http_connection *c) {
    kiln_http_server *s = c->server;
    c->next = NULL;
    c->before = s->last_connection;
    if (c->before)
        c->before->next = c;
    else
        s->first_connection = c;
    s->last_connection = c;
}

void kiln_http_set_idle(http_connection *link) {
    link->is_busy = false;
    kiln_http_set_link_deadline(link, KILN_HTTP_IDLE_S * KILN_NS_PER_S);
    unlink_connection(link);
    append_connection(link);
}

/* libmicrohttpd notices the end of the socket, and closes it. */
static void cut_off(http_connection *c) {
    c->is_busy = true; /* so that it is not chosen again */
    c->deadline_ns = UINT64_MAX;
    shutdown(c->fd, SHUT_RDWR);
}

static void make_room(kiln_http_server *s) {
    const uint32_t max = s->options.connections_max;
    if (s->connection_count < max - max / SPARE_CONNECTIONS) return;
    http_connection *oldest = s->first_connection;
    while (oldest && oldest->is_busy) oldest = oldest->next;
    if (oldest) cut_off(oldest);
}

static void print_peer(const struct sockaddr *address, char *out, size_t size) {
    char host[INET6_ADDRSTRLEN] = "";
    if (address && address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, host, sizeof host);
    } else if (address && address->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, host, sizeof host);
    }
    snprintf(out, size, "%s", host[0] ? host : "unix");
}

static void on_connection(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code) {
    kiln_http_server *s = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        http_connection *c = kiln_alloc(sizeof *c);
        c->server = s;
        c->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        print_peer(
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr,
            c->peer, sizeof c->peer);
        kiln_http_set_link_deadline(c, KILN_HTTP_HEAD_NS);
        make_room(s);
        append_connection(c);
        s->connection_count++;
        *state = c;
    } else if (*state) {
        unlink_connection(*state);
        s->connection_count--;
        kiln_free(*state);
        *state = NULL;
    }
}

uint32_t kiln_http_server_connections(const kiln_http_server *server) {
    return server->connection_count;
}

/* ---- On the loop ---- */

static void on_tick(void *context) {
    kiln_http_server *s = context;
    const uint64_t now_ns = kiln_loop_now_ns(s->loop);
    for (kiln_http_request *r = s->requests; r; r = r->next) kiln_http_check_deadline(r, now_ns);
    for (http_connection *c = s->first_connection; c; c = c->next)
        if (now_ns >= c->deadline_ns) cut_off(c);
    kiln_timer_start(s->tick, TICK_NS);
}

/* ---- Life ---- */

static kiln_status start_daemon(kiln_http_server *s) {
    const bool tls = s->options.cert_pem != NULL;
    const struct MHD_OptionItem with_tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)s->options.cert_pem},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)s->options.key_pem},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem without[] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
    if (tls) flags |= MHD_USE_TLS;
    s->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, kiln_http_on_request, s, MHD_OPTION_LISTEN_SOCKET, s->listener,
        MHD_OPTION_CONNECTION_LIMIT, s->options.connections_max, MHD_OPTION_CONNECTION_TIMEOUT,
        KILN_HTTP_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, KILN_HTTP_HEAD_BYTES_MAX,
        MHD_OPTION_NOTIFY_COMPLETED, kiln_http_on_completed, s, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, s, MHD_OPTION_URI_LOG_CALLBACK, kiln_http_on_uri, s, MHD_OPTION_ARRAY,
        tls ? with_tls : without, MHD_OPTION_END);
    if (s->daemon) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT,
                      tls ? "the certificate or its key cannot be used: both must be PEM, and "
                            "belong together"
                          : "the HTTP server cannot be started");
}

static kiln_status start(kiln_http_server *s) {
    kiln_status st = kiln_http_listen(&s->options.address, &s->listener);
    if (!st) st = start_daemon(s);
    if (st) return st;
    s->runner = kiln_http_runner_create(s->loop, s->daemon);
    s->tick = kiln_timer_create(s->loop, on_tick, s);
    kiln_timer_start(s->tick, TICK_NS);
    return KILN_OK;
}

kiln_status kiln_http_server_create(kiln_loop *loop, const kiln_http_server_options *options,
                                    kiln_http_server **out_server) {
    const kiln_address *address = &options->address;
    if (!address->is_loopback && !options->cert_pem && !options->anywhere)
        return KILN_ERROR(PERMISSION_DENIED,
                          "%s is reached from other machines, and without --cert everything is "
                          "sent in plain text; listen on loopback, or say --insecure",
                          address->host);
    kiln_descriptors_raise();
    kiln_http_server *s = kiln_alloc(sizeof *s);
    s->loop = loop;
    s->options = *options;
    s->listener = -1;
    if (!s->options.connections_max) s->options.connections_max = KILN_HTTP_CONNECTIONS_MAX;
    kiln_status st = start(s);
    if (st) {
        kiln_http_server_destroy(s);
        return st;
    }
    *out_server = s;
    return KILN_OK;
}

unsigned kiln_http_server_port(const kiln_http_server *server) {
    return kiln_http_listener_port(server->listener);
}

void kiln_http_server_destroy(kiln_http_server *server) {
    if (!server) return;
    kiln_http_runner_destroy(server->runner);
    kiln_timer_destroy(server->tick);
    if (server->daemon) {
        for (kiln_http_request *r = server->requests; r; r = r->next) kiln_http_let_go(r);
        MHD_stop_daemon(server->daemon); /* closes the listener */
        if (server->options.address.is_unix) unlink(server->options.address.host);
    } else if (server->listener >= 0) {
        close(server->listener);
    }
    server->is_closed = true;
    if (!server->requests) kiln_free(server);
}
