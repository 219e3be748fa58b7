/* Listening sockets. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/file.h"
#include "base/rand.h"
#include "proto/net/handshake.h"
#include "proto/net/keyring.h"
#include "proto/net/loop_state.h"

#define BACKLOG 65535

struct kiln_listener {
    kiln_loop *loop;
    kiln_socket socket;
    kiln_listen_options options;
    kiln_arena arena; /* of the strings and the token in `options` */
    kiln_listener *next;
    bool waiting; /* a connection is to be accepted in the next turn */
};

static void on_closed(uv_handle_t *handle) {
    kiln_listener *listener = handle->data;
    if (listener->options.token)
        explicit_bzero((uint8_t *)(uintptr_t)listener->options.token, KILN_TOKEN_BYTES);
    kiln_arena_deinit(&listener->arena);
    kiln_free(listener);
}

static void accept_conn(kiln_loop *loop, const kiln_listen_options *options, kiln_socket *socket) {
    kiln_conn *conn = kiln_conn_make(loop, options->handler, options->context);
    conn->listen = *options;
    if (options->address.is_web) conn->web = kiln_ws_accept(options->origins);
    conn->next_stream = 2;
    kiln_conn_set_socket(conn, socket);
    kiln_strangers_enter(conn);
    kiln_handshake_start(conn);
}

static void take(kiln_listener *listener) {
    kiln_loop *loop = listener->loop;
    kiln_socket *socket = kiln_socket_create(loop, listener->options.address.is_unix);
    int code = uv_accept(&listener->socket.stream, &socket->stream);
    const bool has_descriptor = code == 0 && kiln_strangers_has_descriptor(loop, socket);
    loop->conns.stats.accept_errors += code != 0;
    loop->conns.stats.no_descriptor += code == 0 && !has_descriptor;
    if (has_descriptor)
        accept_conn(loop, &listener->options, socket);
    else
        kiln_socket_close(socket);
    kiln_strangers_warn(loop, &listener->options);
}

/* libuv accepts no further connection until the last one was taken. */
static void on_connection(uv_stream_t *stream, int status) {
    kiln_listener *listener = stream->data;
    kiln_loop *loop = listener->loop;
    if (status < 0) { /* out of descriptors, or closed again: the next may succeed */
        loop->conns.stats.accept_errors++;
        kiln_strangers_warn(loop, &listener->options);
    } else if (loop->listeners.accepts_left == 0) {
        listener->waiting = true;
        loop->listeners.waiting++;
        kiln_loop_hurry(loop);
    } else {
        uint64_t entered_ns = kiln_loop_enter(loop, "a new connection");
        loop->listeners.accepts_left--;
        take(listener);
        kiln_loop_leave(loop, entered_ns);
    }
}

void kiln_listeners_go_on(kiln_loop *loop) {
    loop->listeners.accepts_left = KILN_NET_ACCEPTS_PER_TURN;
    for (kiln_listener *listener = loop->listeners.first; listener; listener = listener->next) {
        if (!listener->waiting) continue;
        listener->waiting = false;
        loop->listeners.waiting--;
        take(listener);
    }
}

/* As many descriptors as the system lets us have, and how they are shared out. */
static void plan_places(kiln_listener *listener) {
    kiln_loop *loop = listener->loop;
    const uint64_t descriptors = kiln_descriptors_raise();
    const uint32_t places = kiln_strangers_places(descriptors);
    const uint32_t reserve = kiln_strangers_reserve(descriptors);
    uint32_t *most = &listener->options.strangers_max;
    *most = *most ? KILN_MIN(*most, places) : places;
    loop->strangers.descriptors_for_peers = descriptors > reserve ? descriptors - reserve : 0;
    if (!loop->strangers.rate_limit) {
        uint64_t seed = 0;
        kiln_status_free(kiln_rand_system(&seed, sizeof seed)); /* then the seed can be guessed */
        loop->strangers.rate_limit = kiln_rate_limit_create(seed, *most, KILN_RATE_LIMIT_RATE);
    }
}

/* Whether a program listens on this Unix socket, perhaps with a full queue. If not, the file is
 * left over from a program that was killed. */
static bool is_alive(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return true;
    bool alive = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 || errno == EAGAIN;
    close(fd);
    return alive;
}

static int bind_unix(kiln_listener *listener) {
    const char *path = listener->options.address.host;
    struct stat info;
    if (stat(path, &info) == 0) {
        if (!S_ISSOCK(info.st_mode) || is_alive(path)) return UV_EADDRINUSE;
        unlink(path);
    }
    /* Made without rights for others: changing the mode after binding would leave a gap. */
    mode_t before = umask(0177);
    int code = uv_pipe_bind(&listener->socket.pipe, path);
    umask(before);
    return code;
}

static int bind_tcp(kiln_listener *listener) {
    kiln_address *address = &listener->options.address;
    const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC, .ai_flags = AI_PASSIVE};
    kiln_strbuf port = {0};
    kiln_strbuf_printf(&port, "%u", address->port);
    uv_getaddrinfo_t resolve;
    int code =
        uv_getaddrinfo(&listener->loop->uv, &resolve, NULL, address->host, port.data, &hints);
    kiln_strbuf_deinit(&port);
    if (code) return code;
    code = uv_tcp_bind(&listener->socket.tcp, resolve.addrinfo->ai_addr, 0);
    uv_freeaddrinfo(resolve.addrinfo);
    return code;
}

static void learn_port(kiln_listener *listener) {
    struct sockaddr_storage name = {0};
    int size = sizeof name;
    if (uv_tcp_getsockname(&listener->socket.tcp, (struct sockaddr *)&name, &size)) return;
    struct sockaddr_in v4; /* the port is at the same place in both kinds */
    memcpy(&v4, &name, sizeof v4);
    listener->options.address.port = ntohs(v4.sin_port);
}

/* Pages do not speak our TLS; a proxy on this machine provides TLS for them. */
static kiln_status check_web(const kiln_listen_options *options) {
    if (!kiln_ws_supported())
        return KILN_ERROR(UNIMPLEMENTED,
                          "this program was built without WebSockets (meson options `websocket` "
                          "and `tls`)");
    if (options->insecure) return KILN_OK;
    if (!options->address.is_loopback)
        return KILN_ERROR(PERMISSION_DENIED,
                          "ws:%s is plain text for other machines: listen on loopback and put a "
                          "proxy with TLS before it",
                          options->address.host);
    if (!options->keyring)
        return KILN_ERROR(PERMISSION_DENIED,
                          "pages prove a key: --keys F accepts pages with one (`kiln key new` "
                          "makes them)");
    return KILN_OK;
}

static kiln_status check_secure(const kiln_listen_options *options) {
    if (options->address.is_web) return check_web(options);
    if (options->address.is_unix || options->insecure || options->keyring) return KILN_OK;
    if (!options->address.is_loopback)
        return KILN_ERROR(
            PERMISSION_DENIED,
            "%s can be reached from other machines: --keys F accepts peers with a key (`kiln key "
            "new` makes them), --insecure accepts all peers",
            options->address.host);
    if (!options->token) return KILN_ERROR(PERMISSION_DENIED, "listening on TCP needs a token");
    return KILN_OK;
}

static void keep_options(kiln_listener *listener, const kiln_listen_options *options) {
    kiln_arena_init(&listener->arena, 1024);
    listener->options = *options;
    listener->options.boot = kiln_str_dup(&listener->arena, kiln_str_from(options->boot));
    listener->options.software = kiln_str_dup(&listener->arena, kiln_str_from(options->software));
    if (options->token)
        listener->options.token =
            kiln_arena_copy(&listener->arena, options->token, KILN_TOKEN_BYTES);
}

kiln_status kiln_net_listen(kiln_loop *loop, const kiln_listen_options *options,
                            kiln_listener **out_listener) {
    kiln_status st = check_secure(options);
    if (st) return st;
    kiln_listener *listener = kiln_alloc(sizeof *listener);
    listener->loop = loop;
    keep_options(listener, options);
    if (options->keyring) kiln_keyring_on_recheck(options->keyring, kiln_handshake_check_keys);
    plan_places(listener);
    bool is_unix = options->address.is_unix;
    int code = is_unix ? uv_pipe_init(&loop->uv, &listener->socket.pipe, 0)
                       : uv_tcp_init(&loop->uv, &listener->socket.tcp);
    KILN_CHECK(code == 0);
    listener->socket.handle.data = listener;
    code = is_unix ? bind_unix(listener) : bind_tcp(listener);
    if (code == 0) code = uv_listen(&listener->socket.stream, BACKLOG, on_connection);
    if (code) {
        kiln_strbuf address = {0};
        kiln_address_print(&options->address, &address);
        st = kiln_net_error(code, "listening on %s", address.data);
        kiln_strbuf_deinit(&address);
        kiln_listener_close(listener);
        return st;
    }
    if (!is_unix) learn_port(listener);
    listener->next = loop->listeners.first;
    loop->listeners.first = listener;
    *out_listener = listener;
    return KILN_OK;
}

const kiln_address *kiln_listener_address(const kiln_listener *listener) {
    return &listener->options.address;
}

void kiln_listener_set_keyring(kiln_listener *listener, kiln_keyring *keyring) {
    KILN_CHECK(!listener->options.keyring);
    listener->options.keyring = keyring;
    kiln_keyring_on_recheck(keyring, kiln_handshake_check_keys);
}

void kiln_listener_close(kiln_listener *listener) {
    if (!listener) return;
    kiln_listener **link = &listener->loop->listeners.first;
    while (*link && *link != listener) link = &(*link)->next;
    if (*link) *link = listener->next; /* else it never listened */
    if (listener->waiting) listener->loop->listeners.waiting--;
    kiln_strangers_drop(listener->loop, &listener->options);
    uv_close(&listener->socket.handle, on_closed);
}
