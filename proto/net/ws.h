/* The listening side of WebSocket (RFC 6455), which is all that pages can dial, on bytes, without
 * sockets. A page asks by HTTP to upgrade the connection; then frames of proto/wire travel as one
 * stream of bytes inside binary messages, whose borders mean nothing. ws.c uses libwslay and
 * OpenSSL; ws_none.c replaces it in builds without. One object per connection, which keeps at most
 * KILN_WS_REQUEST_MAX bytes, of the request only. */
#ifndef KILN_PROTO_NET_WS_H
#define KILN_PROTO_NET_WS_H

#include "proto/net.h"

#define KILN_WS_MESSAGE_MAX KILN_NET_QUEUE_MAX /* bytes of one message of a page */

typedef struct kiln_ws kiln_ws;

/* Accepts pages of `origins`, which outlives it. */
kiln_ws *kiln_ws_accept(const kiln_origins *origins);
void kiln_ws_destroy(kiln_ws *ws); /* NULL is fine */

/* Takes bytes of the page: appends the payload to `out_plain`, and an answer to `out_wire` (also
 * when it fails, as it tells the page). PERMISSION_DENIED: a page of another origin. DATA_LOSS: no
 * request to upgrade, or bytes that break RFC 6455. UNAVAILABLE: the page has closed. */
KILN_MUST_USE kiln_status kiln_ws_receive(kiln_ws *ws, kiln_str wire, kiln_strbuf *out_plain,
                                          kiln_strbuf *out_wire);
/* The request is answered: both sides can send. */
bool kiln_ws_ready(const kiln_ws *ws);
/* One binary message. Only when ready. */
void kiln_ws_send(kiln_ws *ws, kiln_str plain, kiln_strbuf *out_wire);
/* The request's Host: the address that the page dialled. Only when ready. */
const char *kiln_ws_host(const kiln_ws *ws);

#endif
