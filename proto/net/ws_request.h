/* The request of a page to upgrade its connection to WebSocket: text only. */
#ifndef KILN_PROTO_NET_WS_REQUEST_H
#define KILN_PROTO_NET_WS_REQUEST_H

#include "base/status.h"
#include "base/str.h"

#define KILN_WS_REQUEST_MAX ((size_t)8192) /* with the cookies of a page's host */
#define KILN_WS_HOST_MAX 255u              /* bytes of Host */
#define KILN_WS_KEY_BYTES 24u              /* of Sec-WebSocket-Key: 16 bytes in base64 */

/* Views into the request. */
typedef struct kiln_ws_request {
    kiln_str host;
    kiln_str origin; /* empty: none, so not from a page */
    kiln_str key;
} kiln_ws_request;

/* Bytes of `text` up to the end of the request's empty line; 0: incomplete. O(n). */
size_t kiln_ws_request_size(kiln_str text);
/* `text` up to its empty line. DATA_LOSS: not a request of RFC 6455 (4.2.1), and why. */
KILN_MUST_USE kiln_status kiln_ws_request_parse(kiln_str text, kiln_ws_request *out_request);

#endif
