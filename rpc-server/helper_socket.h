/* Messages with descriptors over a SOCK_SEQPACKET Unix socket, for the helper and the zygote. */
#ifndef KILN_RPC_SERVER_HELPER_SOCKET_H
#define KILN_RPC_SERVER_HELPER_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KILN_HELPER_SOCKET_FDS_MAX 4u

/* Sends one message with `fd_count` descriptors; waits while the socket is full. False: the other
 * end is closed. */
bool kiln_helper_socket_send(int socket, const void *bytes, size_t size, const int *fd,
                             uint32_t fd_count);
/* Waits for a message of at most `size_max` bytes and its descriptors, which the caller owns.
 * Returns its size. 0: the other end is closed. SIZE_MAX: it was larger or had more descriptors
 * than fit; all were closed. */
size_t kiln_helper_socket_receive(int socket, void *bytes, size_t size_max,
                                  int fd[KILN_HELPER_SOCKET_FDS_MAX], uint32_t *out_fd_count);

#endif
