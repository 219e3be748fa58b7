#include "proto/net/read_scheduler.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "proto/net/loop_state.h"

#define READ_NS (2 * KILN_NS_PER_MS) /* of a turn: the rest is for other work */
#define BATCH KILN_NET_HANDSHAKES_PER_TURN

/* ---- Reading ---- */

static int socket_of(const kiln_conn *conn) {
    uv_os_fd_t socket = -1;
    KILN_CHECK(uv_fileno(&conn->socket->handle, &socket) == 0);
    return socket;
}

static void read_once(kiln_conn *conn) {
    if (!conn->read_set) return; /* an earlier one of the batch has closed it */
    kiln_loop *loop = conn->loop;
    uint64_t entered_ns = kiln_loop_enter(loop, "bytes of a peer");
    const ssize_t size = read(socket_of(conn), loop->reads.buffer, sizeof loop->reads.buffer);
    if (size >= 0)
        loop->reads.read(conn, (kiln_str){loop->reads.buffer, (size_t)size}, 0);
    else if (errno != EAGAIN && errno != EINTR)
        loop->reads.read(conn, (kiln_str){0}, uv_translate_sys_error(errno));
    kiln_loop_leave(loop, entered_ns);
}

/* The system moves reported sockets behind the others. */
static void on_ready(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    const kiln_read_set *set = poll->data;
    const uint64_t end_ns = kiln_clock_ns() + (set->for_strangers ? 0 : READ_NS);
    struct epoll_event ready[BATCH];
    int count = 0;
    do {
        count = epoll_wait(set->epoll, ready, BATCH, 0);
        for (int i = 0; i < count; i++) read_once(ready[i].data.ptr);
    } while (count == BATCH && kiln_clock_ns() < end_ns);
}

/* ---- The two sets ---- */

static kiln_status add(kiln_conn *conn, kiln_read_set *set) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    if (epoll_ctl(set->epoll, EPOLL_CTL_ADD, socket_of(conn), &event) != 0)
        return kiln_net_error(uv_translate_sys_error(errno), "reading from the peer");
    conn->read_set = set;
    if (set->count++ == 0) uv_ref((uv_handle_t *)&set->poll);
    return KILN_OK;
}

kiln_status kiln_read_scheduler_add(kiln_conn *conn) {
    const bool is_known = conn->dialled || conn->was_opened;
    return add(conn, is_known ? &conn->loop->reads.known : &conn->loop->reads.strangers);
}

kiln_status kiln_read_scheduler_know(kiln_conn *conn) {
    kiln_read_scheduler_remove(conn);
    return add(conn, &conn->loop->reads.known);
}

void kiln_read_scheduler_remove(kiln_conn *conn) {
    kiln_read_set *set = conn->read_set;
    if (!set) return;
    KILN_CHECK(epoll_ctl(set->epoll, EPOLL_CTL_DEL, socket_of(conn), NULL) == 0);
    conn->read_set = NULL;
    if (--set->count == 0) uv_unref((uv_handle_t *)&set->poll);
}

static void pause_set(kiln_read_set *set, bool pause) {
    const int code =
        pause ? uv_poll_stop(&set->poll) : uv_poll_start(&set->poll, UV_READABLE, on_ready);
    KILN_CHECK(code == 0);
}

void kiln_loop_pause_reading(kiln_loop *loop, bool is_paused) {
    if (loop->reads.is_paused == is_paused) return;
    loop->reads.is_paused = is_paused;
    pause_set(&loop->reads.known, is_paused);
    pause_set(&loop->reads.strangers, is_paused);
}

/* ---- Life ---- */

static int start(kiln_loop *loop, kiln_read_set *set) {
    set->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (set->epoll < 0) return uv_translate_sys_error(errno);
    int code = uv_poll_init(&loop->uv, &set->poll, set->epoll);
    if (code == 0) code = uv_poll_start(&set->poll, UV_READABLE, on_ready);
    set->poll.data = set;
    uv_unref((uv_handle_t *)&set->poll); /* the loop runs while the set is not empty */
    return code;
}

int kiln_read_scheduler_start(kiln_loop *loop, kiln_bytes_read read) {
    loop->reads.read = read;
    loop->reads.strangers.for_strangers = true;
    int code = start(loop, &loop->reads.known);
    return code ? code : start(loop, &loop->reads.strangers);
}

static void on_closed(uv_handle_t *handle) {
    const kiln_read_set *set = handle->data;
    close(set->epoll);
}

void kiln_read_scheduler_end(kiln_loop *loop) {
    uv_close((uv_handle_t *)&loop->reads.known.poll, on_closed);
    uv_close((uv_handle_t *)&loop->reads.strangers.poll, on_closed);
}
