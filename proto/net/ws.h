/* The listening side of WebSocket (RFC 6455) on bytes: no socket here. Pages can dial nothing else.
 * A page asks by HTTP to upgrade the connection; from then on frames of proto/wire travel as one
 * stream of bytes inside binary messages, whose borders mean nothing. ws.c does it with libwslay
 * and OpenSSL; ws_none.c stands in for it in builds without. One object per connection, which keeps
 * at most KILN_WS_REQUEST_MAX bytes of the request and then none. */
#ifndef KILN_PROTO_NET_WS_H
#define KILN_PROTO_NET_WS_H

#include "proto/net.h"

#define KILN_WS_MESSAGE_MAX KILN_NET_QUEUE_MAX /* bytes of one message of a page */

typedef struct kiln_ws kiln_ws;

/* Which pages may come: `origins` outlives it. */
kiln_ws *kiln_ws_accept(const kiln_origins *origins);
void kiln_ws_destroy(kiln_ws *ws); /* NULL is fine */

/* Takes what came in: appends what is for the reader to `out_plain`, and what must be answered to
 * `out_wire` (also when it fails: it tells the peer).
 * PERMISSION_DENIED: a page of another origin. DATA_LOSS: no request to upgrade, or bytes that
 * break RFC 6455. UNAVAILABLE: the page has closed. */
KILN_MUST_USE kiln_status kiln_ws_receive(kiln_ws *ws, kiln_str wire, kiln_strbuf *out_plain,
                                          kiln_strbuf *out_wire);
/* The request is answered: bytes can go both ways. */
bool kiln_ws_ready(const kiln_ws *ws);
/* One binary message. Only when ready. */
void kiln_ws_send(kiln_ws *ws, kiln_str plain, kiln_strbuf *out_wire);
/* The request's Host: where the page thinks that it has dialled to. Only when ready. */
const char *kiln_ws_host(const kiln_ws *ws);

#endif
