#include "tests/fuzz/http_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"

/* From one of many addresses: each has its own ports, of which those of the last minute are not
 * free. */
static int dial(http_peer *peer) {
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK + 1 + peer->dialled++ % 60000)}};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)peer->port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    KILN_CHECK(fd >= 0);
    KILN_CHECK(bind(fd, (struct sockaddr *)&from, sizeof from) == 0);
    KILN_CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    KILN_CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

/* False: the server has closed. */
static bool send_all(http_peer *peer, int fd, kiln_str bytes) {
    while (bytes.size) {
        ssize_t size = send(fd, bytes.data, bytes.size, MSG_NOSIGNAL);
        if (size < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (size > 0) bytes = kiln_str_slice(bytes, (size_t)size, bytes.size);
        if (bytes.size) kiln_loop_run_once(peer->loop);
    }
    return true;
}

/* What comes until the server closes, or, unless it is `waited` for, until nothing more is there.
 */
static kiln_strbuf answer_of(http_peer *peer, int fd, bool waited) {
    kiln_strbuf answer = {0};
    for (;;) {
        char part[4096];
        ssize_t size = read(fd, part, sizeof part);
        if (size > 0) kiln_strbuf_append(&answer, part, (size_t)size);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) break;
        if (size < 0 && !waited) break;
        if (size < 0) kiln_loop_run_once(peer->loop);
    }
    return answer;
}

static void reset(int fd) {
    struct linger at_once = {.l_onoff = 1};
    KILN_CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
    close(fd);
}

static void check_served(http_peer *peer) {
    int fd = dial(peer);
    KILN_CHECK(send_all(peer, fd, kiln_str_from(peer->good)));
    kiln_strbuf answer = answer_of(peer, fd, true);
    KILN_CHECK(kiln_str_starts(kiln_strbuf_view(&answer), "HTTP/1.1 200 "));
    kiln_strbuf_deinit(&answer);
    close(fd);
}

kiln_strbuf http_peer_send(http_peer *peer, const uint8_t *data, size_t size) {
    const kiln_str input = {(const char *)data + (size > 0), size - (size > 0)};
    const size_t step = size ? 1 + 16 * (size_t)data[0] : 1;
    const int fd = dial(peer), half = dial(peer), gone = dial(peer);
    send_all(peer, half, kiln_str_slice(input, 0, input.size / 2));
    send_all(peer, gone, input);
    reset(gone);
    for (size_t at = 0; at < input.size; at += step)
        if (!send_all(peer, fd, kiln_str_slice(input, at, at + step))) break;
    check_served(peer);
    const kiln_strbuf answer = answer_of(peer, fd, false);
    const kiln_str view = kiln_strbuf_view(&answer);
    KILN_CHECK(view.size == 0 || kiln_str_starts(view, "HTTP/1."));
    reset(half);
    reset(fd);
    return answer;
}
