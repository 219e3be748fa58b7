#include "proto/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"

#define BACKLOG 1024

/* ---- Addresses ---- */

kiln_status kiln_http_address_parse(const char *text, kiln_address *out_address) {
    const bool bare = *text && strspn(text, "0123456789") == strlen(text);
    kiln_strbuf whole = {0};
    kiln_strbuf_printf(&whole, "%s%s", bare ? "127.0.0.1:" : "", text);
    kiln_status st = kiln_address_parse(kiln_strbuf_view(&whole), out_address);
    kiln_strbuf_deinit(&whole);
    return st;
}

typedef union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
} socket_address;

static kiln_status convert(const kiln_address *address, socket_address *out, socklen_t *out_size) {
    *out = (socket_address){0};
    const char *host = strcmp(address->host, "localhost") == 0 ? "127.0.0.1" : address->host;
    if (address->is_unix) {
        if (strlen(address->host) >= sizeof out->local.sun_path)
            return KILN_ERROR(INVALID_ARGUMENT,
                              "unix:%s: the path of a socket has at most %zu "
                              "characters",
                              address->host, sizeof out->local.sun_path - 1);
        out->local.sun_family = AF_UNIX;
        memcpy(out->local.sun_path, address->host, strlen(address->host));
        *out_size = sizeof out->local;
    } else if (inet_pton(AF_INET, host, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(address->port);
        *out_size = sizeof out->v4;
    } else if (inet_pton(AF_INET6, host, &out->v6.sin6_addr) == 1) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons(address->port);
        *out_size = sizeof out->v6;
    } else {
        return KILN_ERROR(INVALID_ARGUMENT, "%s is no IP address", address->host);
    }
    return KILN_OK;
}

/* ---- The socket ---- */

/* The socket file of a server that has ended is in the way. */
static void remove_stale(const socket_address *address, socklen_t size) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, &address->any, size) < 0 && errno == ECONNREFUSED)
        unlink(address->local.sun_path);
    if (fd >= 0) close(fd);
}

/* False: `errno` has the cause. */
static bool bind_and_listen(int fd, const socket_address *address, socklen_t size) {
    const int on = 1;
    const bool is_unix = address->any.sa_family == AF_UNIX;
    const mode_t mask = umask(0177); /* no program of another user connects to a Unix socket */
    const bool listens =
        (is_unix || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0) &&
        bind(fd, &address->any, size) == 0 && listen(fd, BACKLOG) == 0;
    const int error = errno;
    umask(mask);
    errno = error;
    return listens;
}

kiln_status kiln_http_listen(const kiln_address *address, int *out_fd) {
    socket_address converted;
    socklen_t size = 0;
    kiln_strbuf text = {0};
    kiln_status st = convert(address, &converted, &size);
    if (st) return st;
    if (address->is_unix) remove_stale(&converted, size);
    int fd = socket(converted.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind_and_listen(fd, &converted, size)) {
        *out_fd = fd;
        return KILN_OK;
    }
    const int error = errno;
    kiln_fd_close(&fd);
    kiln_address_print(address, &text);
    st = error == EADDRINUSE
             ? KILN_ERROR(ALREADY_EXISTS, "cannot listen on %s: it is in use", text.data)
             : KILN_SYSTEM_ERROR(error, "listening on", text.data);
    kiln_strbuf_deinit(&text);
    return st;
}

unsigned kiln_http_listener_port(int fd) {
    socket_address address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, &address.any, &size) < 0) return 0;
    if (address.any.sa_family == AF_INET) return ntohs(address.v4.sin_port);
    return address.any.sa_family == AF_INET6 ? ntohs(address.v6.sin6_port) : 0;
}

/* ---- On the loop ---- */

struct kiln_http_runner {
    struct MHD_Daemon *daemon;
    kiln_watch *watch;
    kiln_timer *timer; /* when a connection times out */
};

void kiln_http_run(kiln_http_runner *runner) {
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    MHD_run(runner->daemon);
    if (MHD_get_timeout(runner->daemon, &wait_ms) == MHD_YES)
        kiln_timer_start(runner->timer, (uint64_t)wait_ms * KILN_NS_PER_MS);
}

void kiln_http_run_soon(kiln_http_runner *runner) { kiln_timer_start(runner->timer, 0); }

static void on_ready(void *context, unsigned ready_for) {
    (void)ready_for;
    kiln_http_run(context);
}

static void on_timer(void *context) { kiln_http_run(context); }

kiln_http_runner *kiln_http_runner_create(kiln_loop *loop, struct MHD_Daemon *daemon) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    KILN_CHECK(info != NULL);
    kiln_http_runner *runner = kiln_alloc(sizeof *runner);
    runner->daemon = daemon;
    runner->timer = kiln_timer_create(loop, on_timer, runner);
    runner->watch = kiln_watch_create(loop, info->epoll_fd, KILN_WATCH_READ, on_ready, runner);
    return runner;
}

void kiln_http_runner_destroy(kiln_http_runner *runner) {
    if (!runner) return;
    kiln_watch_destroy(runner->watch);
    kiln_timer_destroy(runner->timer);
    kiln_free(runner);
}
