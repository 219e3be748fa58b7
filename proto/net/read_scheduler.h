/* Who is read from, and in which order. Connections wait in two epoll sets, known peers in one and
 * strangers in the other, and libuv watches the sets. A turn reads from known peers for 2 ms and
 * from KILN_NET_HANDSHAKES_PER_TURN strangers, once from each; the rest stays with the system, in
 * the order in which it came. So neither a sender of gigabytes nor thousands who speak at once make
 * a turn long, and no crowd keeps those who are known from being heard.
 *
 * (libuv alone asks all sockets that have bytes, up to 48 times 1,024 in a turn, and one that may
 * not be read yet costs as much as one that is.) */
#ifndef KILN_PROTO_NET_READ_SCHEDULER_H
#define KILN_PROTO_NET_READ_SCHEDULER_H

#include "proto/net/internal.h"

/* 0, or what libuv says. */
int kiln_read_scheduler_start(kiln_loop *loop);
/* When all connections are closed; the loop has to run once more for its handles. */
void kiln_read_scheduler_end(kiln_loop *loop);

/* Reads from an open socket: kiln_conn_take gets what comes. */
KILN_MUST_USE kiln_status kiln_read_scheduler_add(kiln_conn *conn);
/* The peer is a stranger no more. On failure it is not read from. */
KILN_MUST_USE kiln_status kiln_read_scheduler_know(kiln_conn *conn);
/* Reads no more, before the socket is closed at the latest. Nothing happens where it is not read.
 */
void kiln_read_scheduler_remove(kiln_conn *conn);

#endif
