/* Replaces ws.c in a build without libwslay or OpenSSL: no listeners for pages. */
#include "base/check.h"
#include "proto/net/ws.h"

bool kiln_ws_supported(void) { return false; }

kiln_ws *kiln_ws_accept(const kiln_origins *origins) {
    KILN_CHECK(origins == NULL); /* kiln_net_listen has refused */
    return NULL;
}

void kiln_ws_destroy(kiln_ws *ws) { KILN_CHECK(ws == NULL); }

kiln_status kiln_ws_receive(kiln_ws *ws, kiln_str wire, kiln_strbuf *out_plain,
                            kiln_strbuf *out_wire) {
    (void)ws, (void)wire, (void)out_plain, (void)out_wire;
    return KILN_ERROR(UNIMPLEMENTED, "this program was built without WebSockets");
}

bool kiln_ws_ready(const kiln_ws *ws) { return ws != NULL; }

void kiln_ws_send(kiln_ws *ws, kiln_str plain, kiln_strbuf *out_wire) {
    (void)plain, (void)out_wire;
    KILN_CHECK(ws != NULL);
}

const char *kiln_ws_host(const kiln_ws *ws) {
    KILN_CHECK(ws != NULL);
    return NULL;
}
