/* Dialling: how a program connects to a tracker. */
#include <string.h>

#include "proto/net/handshake.h"
#include "proto/net/loop_state.h"

static void try_next(kiln_conn *conn, int last_code);

static void on_connected(uv_connect_t *connect, int code) {
    kiln_conn *conn = connect->data;
    if (conn->state == KILN_CONN_CLOSED) return;
    if (code == 0) {
        kiln_handshake_start(conn);
        return;
    }
    kiln_socket_close(conn->socket);
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

/* A name may have several addresses (IPv4 and IPv6): takes the first that answers. */
static void try_next(kiln_conn *conn, int last_code) {
    struct addrinfo *address = conn->next_address;
    if (!address) {
        kiln_conn_fail(conn, dial_error(conn, last_code));
        return;
    }
    conn->next_address = address->ai_next;
    kiln_conn_set_socket(conn, kiln_socket_create(conn->loop, false));
    conn->connect.data = conn;
    int code = uv_tcp_connect(&conn->connect, &conn->socket->tcp, address->ai_addr, on_connected);
    if (code) on_connected(&conn->connect, code);
}

static void on_resolved(uv_getaddrinfo_t *resolve, int code, struct addrinfo *found) {
    kiln_conn *conn = resolve->data;
    conn->resolving = false;
    conn->found = conn->next_address = found;
    if (conn->state == KILN_CONN_CLOSED)
        kiln_conn_release(conn); /* it was closed meanwhile */
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
    if (code) kiln_conn_fail(conn, dial_error(conn, code));
}

static void dial_unix(kiln_conn *conn) {
    kiln_conn_set_socket(conn, kiln_socket_create(conn->loop, true));
    conn->connect.data = conn;
    if (conn->dial.socket_fd > 0)
        on_connected(&conn->connect,
                     uv_pipe_open(&conn->socket->pipe, (uv_file)conn->dial.socket_fd));
    else
        uv_pipe_connect(&conn->connect, &conn->socket->pipe, conn->dial.address.host, on_connected);
}

static const char *keep(kiln_conn *conn, const char *text) {
    return text ? kiln_str_dup(&conn->arena, kiln_str_from(text)) : NULL;
}

/* PERMISSION_DENIED: dialling there would send plain text to another machine. */
static kiln_status check_dial(const kiln_dial_options *options,
                              const kiln_credentials *credentials) {
    if (options->address.is_unix || options->address.is_loopback || credentials->insecure ||
        credentials->has_key)
        return KILN_OK;
    return KILN_ERROR(PERMISSION_DENIED,
                      "%s is not this machine and there is no key for it: --key-file F names one "
                      "(`kiln key new` makes it), --insecure sends plain text",
                      options->address.host);
}

/* The caller's copy is wiped. */
static void move_credentials(kiln_conn *conn, kiln_credentials *credentials) {
    conn->credentials = *credentials;
    explicit_bzero(credentials, sizeof *credentials);
}

/* Over TLS the key names our node, and only TLS keeps its secret. */
static kiln_status take_credentials(kiln_conn *conn, const kiln_dial_options *options) {
    kiln_tls_context *tls = NULL;
    if (options->credentials) move_credentials(conn, options->credentials);
    kiln_status st = check_dial(options, &conn->credentials);
    if (st || options->address.is_unix || !conn->credentials.has_key) return st;
    st = kiln_key_check_role(&conn->credentials.key, options->role);
    if (!st) st = kiln_loop_tls(conn->loop, &tls);
    if (st) return st;
    conn->tls = kiln_tls_dial(tls, &conn->credentials.key);
    explicit_bzero(conn->credentials.key.secret, sizeof conn->credentials.key.secret);
    conn->dial.node = conn->credentials.key.node;
    return KILN_OK;
}

kiln_conn *kiln_net_dial(kiln_loop *loop, const kiln_dial_options *options) {
    kiln_conn *conn = kiln_conn_make(loop, options->handler, options->context);
    conn->dialled = true;
    conn->next_stream = 1;
    conn->peer.role = KILN_PEER_TRACKER;
    conn->dial = *options;
    conn->dial.node = keep(conn, options->node);
    conn->dial.boot = keep(conn, options->boot);
    conn->dial.name = keep(conn, options->name);
    conn->dial.software = keep(conn, options->software);
    conn->dial.person = keep(conn, options->person);
    conn->dial.signed_in = keep(conn, options->signed_in);
    kiln_timer_start(conn->timer, KILN_NET_DIAL_NS);
    kiln_status st = take_credentials(conn, options);
    if (st)
        kiln_conn_fail(conn, st);
    else if (options->address.is_unix)
        dial_unix(conn);
    else
        dial_tcp(conn);
    return conn;
}
