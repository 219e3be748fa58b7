/* Fuzzes what strangers send to the tracker's HTTP port, on real sockets: the input goes in pieces
 * over one connection, while a second one stops half-way and a third is
 * reset. The first byte chooses the pieces. Whatever comes back is HTTP, a page is answered with
 * 200 only where there is one, and the next stranger is served. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/check.h"
#include "tests/fuzz/fuzz.h"
#include "tracker/http.h"

#define GOOD "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

typedef struct server {
    kiln_loop *loop;
    kiln_http *http;
    uint32_t dialled, pages;
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
    return &s;
}

/* From one of many addresses: each has its own ports, of which those of the last minute are not
 * free. */
static int dial(server *s) {
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK + 1 + s->dialled++ % 60000)}};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)kiln_http_port(s->http)),
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

/* What comes until the server closes, or, unless it is `waited` for, until nothing more is there.
 */
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
    uint32_t pages = s->pages;
    send_all(s, half, kiln_str_slice(input, 0, input.size / 2));
    send_all(s, gone, input);
    reset(gone);
    for (size_t at = 0; at < input.size; at += step)
        if (!send_all(s, fd, kiln_str_slice(input, at, at + step))) break;
    check_served(s); /* by then what came before is decided */
    bool asked = s->pages > pages + 1;
    kiln_strbuf answer = answer_of(s, fd, false);
    kiln_str view = kiln_strbuf_view(&answer);
    KILN_CHECK(view.size == 0 || kiln_str_starts(view, "HTTP/1."));
    KILN_CHECK(asked || !kiln_str_starts(view, "HTTP/1.1 200 "));
    kiln_strbuf_deinit(&answer);
    reset(half);
    reset(fd);
    return 0;
}
