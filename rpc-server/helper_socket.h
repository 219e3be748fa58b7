/* Messages with descriptors over a SOCK_SEQPACKET Unix socket; for rpc-server/helper.c,
 * and helper_serve.c. */
#ifndef KILN_RPC_SERVER_HELPER_SOCKET_H
#define KILN_RPC_SERVER_HELPER_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KILN_HELPER_SOCKET_FDS_MAX 4u

/* Sends all of it at once, with `fd_count` descriptors; waits while the socket is full. False: the
 * other end is gone. */
bool kiln_helper_socket_send(int socket, const void *bytes, size_t size, const int *fd,
                             uint32_t fd_count);
/* The next message, of any size, of which at most `size_max` bytes are kept, and its descriptors,
 * which are the caller's. Waits. 0: the other end is gone. SIZE_MAX: longer than that, or with more
 * descriptors than there is room for: then none is left. */
size_t kiln_helper_socket_receive(int socket, void *bytes, size_t size_max,
                                  int fd[KILN_HELPER_SOCKET_FDS_MAX], uint32_t *out_fd_count);

#endif
