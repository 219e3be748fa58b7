/* Fuzzes what strangers send to kiln-web's port, on real sockets: the input goes in pieces over one
 * connection, while a second one stops half-way and a third is reset. The first byte chooses the
 * pieces. The handler holds heads, takes bodies whole and in pieces, and answers later, as the path
 * says. Whatever comes back is HTTP, every request that was handed over ends, and the next stranger
 * is served. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "tests/fuzz/fuzz.h"
#include "web/http.h"

#define GOOD "GET /good HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
#define WAITING_MAX 64u

typedef struct server {
    kiln_loop *loop;
    kiln_http_server *http;
    kiln_timer *timer;
    uint32_t dialled, begun, ended;
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
    return &s;
}

/* From one of many addresses: each has its own ports, of which those of the last minute are not
 * free. */
static int dial(server *s) {
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK + 1 + s->dialled++ % 60000)}};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)kiln_http_server_port(s->http)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    KILN_CHECK(fd >= 0);
    KILN_CHECK(bind(fd, (struct sockaddr *)&from, sizeof from) == 0);
    KILN_CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    KILN_CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

/* False: the server has closed. */
static bool send_all(server *s, int fd, kiln_str bytes) {
    while (bytes.size) {
        ssize_t size = send(fd, bytes.data, bytes.size, MSG_NOSIGNAL);
        if (size < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (size > 0) bytes = kiln_str_slice(bytes, (size_t)size, bytes.size);
        if (bytes.size) kiln_loop_run_once(s->loop);
    }
    return true;
}

static kiln_strbuf answer_of(server *s, int fd, bool waited) {
    kiln_strbuf answer = {0};
    for (;;) {
        char part[4096];
        ssize_t size = read(fd, part, sizeof part);
        if (size > 0) kiln_strbuf_append(&answer, part, (size_t)size);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) break;
        if (size < 0 && !waited) break;
        if (size < 0) kiln_loop_run_once(s->loop);
    }
    return answer;
}

static void reset(int fd) {
    struct linger at_once = {.l_onoff = 1};
    KILN_CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
    close(fd);
}

static void check_served(server *s) {
    int fd = dial(s);
    KILN_CHECK(send_all(s, fd, KILN_STR(GOOD)));
    kiln_strbuf answer = answer_of(s, fd, true);
    KILN_CHECK(kiln_str_starts(kiln_strbuf_view(&answer), "HTTP/1.1 200 "));
    kiln_strbuf_deinit(&answer);
    close(fd);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    server *s = the_server();
    kiln_str input = {(const char *)data + (size > 0), size - (size > 0)};
    size_t step = size ? 1 + 16 * (size_t)data[0] : 1;
    int fd = dial(s), half = dial(s), gone = dial(s);
    send_all(s, half, kiln_str_slice(input, 0, input.size / 2));
    send_all(s, gone, input);
    reset(gone);
    for (size_t at = 0; at < input.size; at += step)
        if (!send_all(s, fd, kiln_str_slice(input, at, at + step))) break;
    check_served(s); /* by then what came before is decided */
    kiln_strbuf answer = answer_of(s, fd, false);
    const kiln_str view = kiln_strbuf_view(&answer);
    KILN_CHECK(view.size == 0 || kiln_str_starts(view, "HTTP/1."));
    kiln_strbuf_deinit(&answer);
    reset(half);
    reset(fd);
    while (s->ended < s->begun) kiln_loop_run_once(s->loop);
    return 0;
}
