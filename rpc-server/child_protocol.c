#include "rpc-server/child_protocol.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define READY_MS 10000
#define DEVICE_MS 60000 /* drivers of GPUs take seconds to start */

/* Room for the descriptors that travel with an order. */
typedef union order_control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int) * KILN_CHILD_FDS_MAX)];
} order_control;

uint32_t kiln_child_file_count(const kiln_child_order *order) {
    return order->kernel_count + (order->module.is_asked ? 1u : 0u);
}

static size_t fd_bytes_of(const kiln_child_order *order) {
    return sizeof(int) * (KILN_CHILD_ARTEFACT + kiln_child_file_count(order));
}

static bool is_sound(const kiln_child_order *order) {
    if (order->magic != KILN_CHILD_MAGIC || (order->kernel_count == 0) != (order->asks != 0))
        return false;
    return order->module.is_asked
               ? order->kernel_count == 1 && order->module.input_count <= KILN_CHILD_INPUTS_MAX
               : order->kernel_count <= KILN_CHILD_KERNELS_MAX;
}

kiln_status kiln_child_send_order(int socket, const kiln_child_order *order, const int *fd) {
    const size_t fd_bytes = fd_bytes_of(order);
    order_control control = {.header = {.cmsg_len = CMSG_LEN(fd_bytes),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.header), fd, fd_bytes);
    struct iovec part = {(void *)(uintptr_t)order, sizeof *order}; /* only read */
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(fd_bytes)};
    if (sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof *order) return NULL;
    return KILN_ERROR(UNAVAILABLE, "the contained child does not listen: %s", strerror(errno));
}

kiln_status kiln_child_let_time(int socket) {
    const uint32_t word = KILN_CHILD_MAGIC;
    if (send(socket, &word, sizeof word, MSG_NOSIGNAL) == sizeof word) return NULL;
    return KILN_ERROR(UNAVAILABLE, "the contained child does not listen: %s", strerror(errno));
}

bool kiln_child_await_turn(int socket) {
    uint32_t word = 0;
    ssize_t size;
    do size = recv(socket, &word, sizeof word, 0);
    while (size < 0 && errno == EINTR);
    return size == sizeof word && word == KILN_CHILD_MAGIC;
}

kiln_child_got kiln_child_read_note(int socket, kiln_child_note *out_note) {
    ssize_t got = recv(socket, out_note, sizeof *out_note, MSG_DONTWAIT | MSG_TRUNC);
    if (got == 0) return KILN_CHILD_GOT_END;
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? KILN_CHILD_GOT_NOTHING : KILN_CHILD_GOT_END;
    return got == sizeof *out_note ? KILN_CHILD_GOT_NOTE : KILN_CHILD_GOT_RUBBISH;
}

static kiln_status await_note(int socket, int limit_ms) {
    struct pollfd ready = {.fd = socket, .events = POLLIN};
    int count;
    do count = poll(&ready, 1, limit_ms);
    while (count < 0 && errno == EINTR);
    if (count == 0)
        return KILN_ERROR(DEADLINE_EXCEEDED, "a contained child was not ready after %d ms",
                          limit_ms);
    return NULL;
}

kiln_status kiln_child_await_ready(int socket, uint32_t *out_fences) {
    kiln_child_note note;
    kiln_status st = await_note(socket, READY_MS);
    if (st) return st;
    ssize_t got = recv(socket, &note, sizeof note, MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC);
    if (got != sizeof note || note.said != KILN_CHILD_READY)
        return KILN_ERROR(UNAVAILABLE, "a contained child ended before it was ready");
    *out_fences = note.code;
    return NULL;
}

kiln_status kiln_child_ask_device(int socket, int folder_fd, uint32_t executor, uint32_t index,
                                  kiln_child_device *out_device) {
    const kiln_child_order order = {
        .magic = KILN_CHILD_MAGIC, .executor = executor, .device = index, .asks = 1};
    const int fd[KILN_CHILD_ARTEFACT] = {[KILN_CHILD_OUTPUTS] = socket, /* unused */
                                         [KILN_CHILD_FOLDER] = folder_fd};
    kiln_child_note note;
    kiln_child_got got = KILN_CHILD_GOT_NOTE;
    kiln_status st = kiln_child_send_order(socket, &order, fd);
    for (note.said = KILN_CHILD_READY; !st && note.said == KILN_CHILD_READY;) {
        st = await_note(socket, DEVICE_MS);
        if (!st) got = kiln_child_read_note(socket, &note);
        if (!st && got != KILN_CHILD_GOT_NOTE)
            st = KILN_ERROR(UNAVAILABLE, "the child that opened the device ended");
    }
    if (st) return st;
    if (note.said == KILN_CHILD_REFUSED)
        return kiln_status_make((kiln_code)note.code, __FILE__, __LINE__, "%s", note.text);
    if (note.said != KILN_CHILD_DEVICE)
        return KILN_ERROR(UNAVAILABLE, "the child that opened the device did not describe it");
    *out_device = note.device;
    return NULL;
}

bool kiln_child_read_order(int socket, kiln_child_order *out_order,
                           int out_fd[KILN_CHILD_FDS_MAX]) {
    order_control control;
    struct iovec part = {out_order, sizeof *out_order};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
    if (size != sizeof *out_order || !is_sound(out_order) || !passed ||
        passed->cmsg_len != CMSG_LEN(fd_bytes_of(out_order)))
        return false;
    memcpy(out_fd, CMSG_DATA(passed), fd_bytes_of(out_order));
    return true;
}

bool kiln_child_send_note(int socket, const kiln_child_note *note) {
    return send(socket, note, sizeof *note, MSG_NOSIGNAL) == sizeof *note;
}
