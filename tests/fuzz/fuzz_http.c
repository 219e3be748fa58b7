/* Fuzzes what strangers send to the tracker's HTTP port (tests/fuzz/http_peer.h). Whatever comes
 * back is HTTP, a page is answered with 200 only where there is one, and the next stranger is
 * served. */
#include <string.h>

#include "base/check.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/http_peer.h"
#include "tracker/http.h"

#define GOOD "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

typedef struct server {
    kiln_loop *loop;
    kiln_http *http;
    http_peer peer;
    uint32_t pages;
} server;

/* In two slices. */
static bool print_page(void *context, kiln_strbuf *out) {
    (void)context;
    kiln_strbuf_text(out, "kiln_up 1\n");
    return out->size <= strlen("kiln_up 1\n");
}

static bool begin_page(void *context, const char *path, kiln_http_page *out_page) {
    server *s = context;
    if (strcmp(path, "/metrics") != 0) return false;
    s->pages++;
    *out_page = (kiln_http_page){.type = "text/plain", .state = s, .step = print_page};
    return true;
}

/* Made once: an input costs less than a server. */
static server *the_server(void) {
    static server s;
    if (s.loop) return &s;
    kiln_http_options options = {.address = "0", .begin = begin_page, .context = &s};
    kiln_status st = kiln_loop_create(&s.loop);
    if (!st) st = kiln_http_create(s.loop, &options, &s.http);
    KILN_CHECK(st == NULL);
    s.peer = (http_peer){s.loop, kiln_http_port(s.http), GOOD, 0};
    return &s;
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    server *s = the_server();
    const uint32_t pages = s->pages;
    kiln_strbuf answer = http_peer_send(&s->peer, data, size);
    const bool asked = s->pages > pages + 1; /* besides the good one */
    KILN_CHECK(asked || !kiln_str_starts(kiln_strbuf_view(&answer), "HTTP/1.1 200 "));
    kiln_strbuf_deinit(&answer);
    return 0;
}
