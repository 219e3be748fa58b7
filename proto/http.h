/* What the HTTP servers of the programs share: where they listen, and libmicrohttpd on the loop.
 * Used by tracker/http.c and web/http_server.c. */
#ifndef KILN_PROTO_HTTP_H
#define KILN_PROTO_HTTP_H

#include "base/status.h"
#include "proto/loop.h"
#include "proto/net.h"

/* As kiln_address_parse; a port alone is one of loopback. */
KILN_MUST_USE kiln_status kiln_http_address_parse(const char *text, kiln_address *out_address);

/* Opens a socket that listens there and does not block; the caller closes it, and removes the file
 * of a Unix socket, which only programs of this user reach. A socket file whose server has ended is
 * replaced. Hosts are numbers or `localhost`, because resolving a name would block.
 * INVALID_ARGUMENT: no such address; ALREADY_EXISTS: it is in use; errors of the system. */
KILN_MUST_USE kiln_status kiln_http_listen(const kiln_address *address, int *out_fd);
/* 0: it has none, as a Unix socket. */
unsigned kiln_http_listener_port(int fd);

/* Runs a daemon of libmicrohttpd, started with MHD_USE_EPOLL and without a thread of its own,
 * whenever its sockets are ready or its timeout has passed. */
typedef struct kiln_http_runner kiln_http_runner;
struct MHD_Daemon;

/* The daemon is the caller's, and outlives the runner. */
kiln_http_runner *kiln_http_runner_create(kiln_loop *loop, struct MHD_Daemon *daemon);
void kiln_http_runner_destroy(kiln_http_runner *runner); /* NULL is fine */
/* Runs it now; after a connection was resumed. */
void kiln_http_run(kiln_http_runner *runner);
/* The same in the next turn of the loop, for callers that the daemon itself has called. */
void kiln_http_run_soon(kiln_http_runner *runner);

#endif
