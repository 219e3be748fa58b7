#include "rpc-server/helper_socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int) * KILN_HELPER_SOCKET_FDS_MAX)];
} control;

static void wait_for(int socket, short events) {
    struct pollfd ready = {.fd = socket, .events = events};
    poll(&ready, 1, -1);
}

bool kiln_helper_socket_send(int socket, const void *bytes, size_t size, const int *fd,
                             uint32_t fd_count) {
    const size_t fd_bytes = sizeof *fd * fd_count;
    control passed = {.header = {.cmsg_len = CMSG_LEN(fd_bytes),
                                 .cmsg_level = SOL_SOCKET,
                                 .cmsg_type = SCM_RIGHTS}};
    if (fd_count) memcpy(CMSG_DATA(&passed.header), fd, fd_bytes);
    struct iovec part = {(void *)(uintptr_t)bytes, size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = fd_count ? &passed : NULL,
                             .msg_controllen = fd_count ? CMSG_SPACE(fd_bytes) : 0};
    for (;;) {
        if (sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)size) return true;
        if (errno == EAGAIN)
            wait_for(socket, POLLOUT);
        else if (errno != EINTR)
            return false;
    }
}

/* Takes the descriptors of one part; closes those that do not fit and returns false. */
static bool take_fds(const struct cmsghdr *passed, int fd[KILN_HELPER_SOCKET_FDS_MAX],
                     uint32_t *count) {
    const size_t bytes = passed->cmsg_len - CMSG_LEN(0);
    bool fits = true;
    for (size_t at = 0; at + sizeof *fd <= bytes; at += sizeof *fd) {
        int one;
        memcpy(&one, CMSG_DATA(passed) + at, sizeof one);
        if (*count < KILN_HELPER_SOCKET_FDS_MAX) {
            fd[(*count)++] = one;
        } else {
            close(one);
            fits = false;
        }
    }
    return fits;
}

size_t kiln_helper_socket_receive(int socket, void *bytes, size_t size_max,
                                  int fd[KILN_HELPER_SOCKET_FDS_MAX], uint32_t *out_fd_count) {
    control space;
    struct iovec part = {bytes, size_max};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t size;
    for (;;) {
        message.msg_control = &space;
        message.msg_controllen = sizeof space;
        size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
        if (size >= 0) break;
        if (errno == EAGAIN)
            wait_for(socket, POLLIN);
        else if (errno != EINTR)
            return 0;
    }
    bool whole = !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    *out_fd_count = 0;
    for (struct cmsghdr *passed = CMSG_FIRSTHDR(&message); passed;
         passed = CMSG_NXTHDR(&message, passed))
        if (passed->cmsg_level == SOL_SOCKET && passed->cmsg_type == SCM_RIGHTS)
            whole &= take_fds(passed, fd, out_fd_count);
    if (whole) return (size_t)size;
    for (uint32_t i = 0; i < *out_fd_count; i++) close(fd[i]);
    *out_fd_count = 0;
    return SIZE_MAX;
}
