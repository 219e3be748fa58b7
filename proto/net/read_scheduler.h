/* Decides which connections a turn reads from. Connections wait in two epoll sets, known peers in
 * one and strangers in the other, and libuv watches the sets. A turn reads from known peers for 2
 * ms and from KILN_NET_HANDSHAKES_PER_TURN strangers, once from each; the rest waits in the system
 * in the order of arrival. So no sender of gigabytes and no thousand peers at once make a turn
 * long, and strangers do not delay known peers.
 *
 * (libuv alone polls all sockets that have bytes, up to 48 times 1,024 in a turn, and a socket that
 * may not be read yet costs as much as one that is.) */
#ifndef KILN_PROTO_NET_READ_SCHEDULER_H
#define KILN_PROTO_NET_READ_SCHEDULER_H

#include "proto/net.h"
#include "proto/net/event_loop.h"

#define KILN_NET_READ_BYTES ((size_t)64 << 10)
/* Reads from strangers in one turn of the loop: a TLS handshake takes two, and some 0.2 ms. */
#define KILN_NET_HANDSHAKES_PER_TURN 16u

/* Connections that are read from. */
typedef struct kiln_read_set {
    int epoll;
    uint32_t count;
    bool for_strangers;
    uv_poll_t poll;
} kiln_read_set;

/* Bytes came in; none: the peer has closed, or reading failed as libuv says. */
typedef void (*kiln_bytes_read)(kiln_conn *conn, kiln_str bytes, int uv_code);

typedef struct kiln_read_scheduler {
    kiln_read_set known, strangers;
    kiln_bytes_read read;
    bool is_paused;
    char buffer[KILN_NET_READ_BYTES]; /* of the read being handled */
} kiln_read_scheduler;

/* 0, or libuv's error. */
int kiln_read_scheduler_start(kiln_loop *loop, kiln_bytes_read read);
/* After all connections are closed; the loop has to run once more for its handles. */
void kiln_read_scheduler_end(kiln_loop *loop);

/* Reads from an open socket. */
KILN_MUST_USE kiln_status kiln_read_scheduler_add(kiln_conn *conn);
/* The peer is no longer a stranger. On failure it is not read from. */
KILN_MUST_USE kiln_status kiln_read_scheduler_know(kiln_conn *conn);
/* Stops reading; needed before the socket is closed. No effect when it is not read from. */
void kiln_read_scheduler_remove(kiln_conn *conn);

#endif
