/* What comes in over a connection: bytes to frames to messages, and each to its handler. */
#ifndef KILN_PROTO_NET_CONN_INPUT_H
#define KILN_PROTO_NET_CONN_INPUT_H

#include "proto/net.h"

/* Bytes came in; none: the peer has closed, or reading failed as libuv says. */
void kiln_conn_take(kiln_conn *conn, kiln_str bytes, int uv_code);

#endif
