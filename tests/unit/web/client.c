#include "tests/unit/web/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

int client_dial(unsigned port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

bool client_send(kiln_loop *loop, int fd, kiln_str text) {
    while (text.size) {
        const ssize_t size = send(fd, text.data, text.size, MSG_NOSIGNAL);
        if (size < 0 && errno != EAGAIN) return false;
        if (size < 0)
            assert_true(kiln_loop_run_once(loop));
        else
            text = kiln_str_slice(text, (size_t)size, text.size);
    }
    return true;
}

/* False: the server has closed. */
static bool read_some(kiln_loop *loop, int fd, kiln_strbuf *out) {
    char part[65536];
    const ssize_t size = read(fd, part, sizeof part);
    if (size > 0) kiln_strbuf_append(out, part, (size_t)size);
    if (size == 0 || (size < 0 && errno != EAGAIN)) return false;
    if (size < 0) assert_true(kiln_loop_run_once(loop));
    return true;
}

kiln_strbuf client_receive(kiln_loop *loop, int fd) {
    kiln_strbuf answer = {0};
    while (read_some(loop, fd, &answer)) {}
    close(fd);
    return answer;
}

kiln_strbuf client_receive_until(kiln_loop *loop, int fd, const char *end) {
    kiln_strbuf answer = {0};
    while (!kiln_str_ends(kiln_strbuf_view(&answer), end))
        assert_true(read_some(loop, fd, &answer));
    return answer;
}

void client_expect(kiln_loop *loop, unsigned port, const char *request, const char *begins,
                   const char *contains) {
    int fd = client_dial(port);
    assert_true(client_send(loop, fd, kiln_str_from(request)));
    kiln_strbuf answer = client_receive(loop, fd);
    assert_non_null(answer.data);
    kiln_strbuf head = {0};
    kiln_strbuf_str(&head, kiln_str_slice(kiln_strbuf_view(&answer), 0, strlen(begins)));
    assert_string_equal(head.data, begins);
    expect_contains(answer.data, contains);
    kiln_strbuf_deinit(&head);
    kiln_strbuf_deinit(&answer);
}
