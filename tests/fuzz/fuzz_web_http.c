/* Fuzzes what strangers send to kiln-web's port (tests/fuzz/http_peer.h). The handler holds heads,
 * takes bodies whole and in pieces, and answers later, as the path says. Whatever comes back is
 * HTTP, every request that was handed over ends, and the next stranger is served. */
#include "base/check.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/http_peer.h"
#include "web/http.h"

#define GOOD "GET /good HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
#define WAITING_MAX 64u

typedef struct server {
    kiln_loop *loop;
    kiln_http_server *http;
    kiln_timer *timer;
    http_peer peer;
    uint32_t begun, ended;
    kiln_http_request *held[WAITING_MAX], *waiting[WAITING_MAX], *paused[WAITING_MAX];
    uint32_t held_count, waiting_count, paused_count;
} server;

static char path_of(const kiln_http_request *r) {
    const kiln_str uri = kiln_http_uri(r);
    return uri.size > 1 ? uri.data[1] : 0;
}

static void on_timer(void *context) {
    server *s = context;
    while (s->held_count) kiln_http_go_on(s->held[--s->held_count]);
    while (s->paused_count) kiln_http_more(s->paused[--s->paused_count]);
    while (s->waiting_count) kiln_http_answer_empty(s->waiting[--s->waiting_count], 204);
}

static bool take_piece(void *context, kiln_http_request *r, kiln_str piece) {
    server *s = context;
    if (piece.size % 2 || s->paused_count == WAITING_MAX) return true;
    s->paused[s->paused_count++] = r;
    kiln_timer_start(s->timer, 0);
    return false;
}

static void on_head(void *context, kiln_http_request *r) {
    server *s = context;
    const char path = path_of(r);
    if (!kiln_http_user(r)) s->begun++;
    if (path == 'h' && !kiln_http_user(r) && s->held_count < WAITING_MAX) {
        s->held[s->held_count++] = r;
        kiln_http_hold(r);
        kiln_timer_start(s->timer, 0);
    } else if (path == 'w') {
        kiln_http_take_whole(r, 16);
    } else if (path == 'p') {
        kiln_http_take_pieces(r, 4096, take_piece, s);
    } else if (path == 'n') {
        kiln_http_answer_error(r, KILN_ERROR(NOT_FOUND, "no such thing"));
    }
    kiln_http_set_user(r, s);
}

static void on_whole(void *context, kiln_http_request *r) {
    server *s = context;
    KILN_CHECK(kiln_http_body(r).size <= 16);
    if (path_of(r) == 'l' && s->waiting_count < WAITING_MAX) {
        s->waiting[s->waiting_count++] = r;
        kiln_timer_start(s->timer, 0);
    } else {
        kiln_http_answer_constant(r, 200, "text/plain", KILN_STR("good\n"));
    }
}

static void on_ended(void *context, kiln_http_request *r) {
    server *s = context;
    if (kiln_http_user(r)) s->ended++;
}

/* Made once: an input costs less than a server. */
static server *the_server(void) {
    static const kiln_http_handler handler = {on_head, on_whole, on_ended};
    static server s;
    if (s.loop) return &s;
    kiln_http_server_options options = {.handler = &handler, .context = &s};
    kiln_status st = kiln_loop_create(&s.loop);
    if (!st) st = kiln_http_address_parse("0", &options.address);
    if (!st) st = kiln_http_server_create(s.loop, &options, &s.http);
    KILN_CHECK(st == NULL);
    s.timer = kiln_timer_create(s.loop, on_timer, &s);
    s.peer = (http_peer){s.loop, kiln_http_server_port(s.http), GOOD, 0};
    return &s;
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    server *s = the_server();
    kiln_strbuf answer = http_peer_send(&s->peer, data, size);
    kiln_strbuf_deinit(&answer);
    while (s->ended < s->begun) kiln_loop_run_once(s->loop);
    return 0;
}
