/* Where HTTP servers listen, and libmicrohttpd on the loop. */
#include "proto/http.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/test.h"

static kiln_address address_of(const char *text) {
    kiln_address address;
    expect_ok(kiln_http_address_parse(text, &address));
    return address;
}

static void a_port_alone_is_one_of_loopback(void **state) {
    (void)state;
    kiln_address address = address_of("8080");
    assert_string_equal(address.host, "127.0.0.1");
    assert_true(address.port == 8080 && address.is_loopback && !address.is_unix);
    assert_false(address_of("0.0.0.0:80").is_loopback);
    assert_true(address_of("unix:/a").is_unix);
    static const char *const bad[] = {"", "nowhere", "1.2.3.4", "99999", "1x"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        expect_error_at(kiln_http_address_parse(bad[i], &address), KILN_INVALID_ARGUMENT, "",
                        bad[i], (int)i);
}

static void a_socket_listens_on_a_free_port(void **state) {
    (void)state;
    static const char *const text[] = {"0", "localhost:0", "127.0.0.1:0"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        kiln_address address = address_of(text[i]);
        int fd = -1, other = -1;
        expect_ok(kiln_http_listen(&address, &fd));
        address.port = (uint16_t)kiln_http_listener_port(fd);
        assert_int_not_equal(address.port, 0);
        assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
        expect_error(kiln_http_listen(&address, &other), ALREADY_EXISTS, "it is in use");
        assert_int_equal(other, -1);
        close(fd);
    }
}

static void a_name_of_a_host_is_not_looked_up(void **state) {
    (void)state;
    const kiln_address address = {.host = "board.example", .port = 80};
    int fd = -1;
    expect_error(kiln_http_listen(&address, &fd), INVALID_ARGUMENT,
                 "board.example is no IP address");
}

static void a_socket_file_is_of_this_user_and_replaced_when_its_server_has_ended(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const kiln_address address = address_of(kiln_arena_printf(arena, "unix:%s/s", folder));
    struct stat info;
    int fd = -1, other = -1;
    expect_ok(kiln_http_listen(&address, &fd));
    assert_int_equal(stat(address.host, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(kiln_http_listener_port(fd), 0);
    expect_error(kiln_http_listen(&address, &other), ALREADY_EXISTS, "it is in use");
    close(fd); /* as a server that is killed: the file stays */
    expect_ok(kiln_http_listen(&address, &other));
    close(other);
    remove_folder(folder);
}

static void a_path_that_no_socket_takes_is_refused(void **state) {
    (void)state;
    kiln_address address = {.is_unix = true};
    int fd = -1;
    memset(address.host, 'a', 120);
    expect_error(kiln_http_listen(&address, &fd), INVALID_ARGUMENT, "characters");
}

/* ---- On the loop ---- */

typedef struct fixture {
    kiln_loop *loop;
    kiln_http_runner *runner;
    struct MHD_Connection *suspended;
    bool is_asked;
} fixture;

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *upload, size_t *upload_size, void **state) {
    (void)path, (void)method, (void)version, (void)upload, (void)upload_size, (void)state;
    fixture *f = context;
    static char text[] = "good\n";
    if (!f->is_asked) { /* answered by the loop, later */
        f->is_asked = true;
        f->suspended = connection;
        MHD_suspend_connection(connection);
        kiln_loop_stop(f->loop);
        return MHD_YES;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_PERSISTENT);
    const enum MHD_Result sent = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return sent;
}

static void a_daemon_runs_on_the_loop(void **state) {
    (void)state;
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    const kiln_address address = address_of("0");
    fixture f = {.loop = NULL};
    char answer[512] = "";
    int listener = -1;
    expect_ok(kiln_loop_create(&f.loop));
    expect_ok(kiln_http_listen(&address, &listener));
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, &f,
        MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_TIMEOUT, 60u, MHD_OPTION_END);
    assert_non_null(daemon);
    f.runner = kiln_http_runner_create(f.loop, daemon);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)kiln_http_listener_port(listener)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    kiln_loop_run(f.loop);
    assert_non_null(f.suspended);
    MHD_resume_connection(f.suspended);
    kiln_http_run_soon(f.runner);
    while (read(fd, answer, sizeof answer - 1) < 0) kiln_loop_run_once(f.loop);
    expect_contains(answer, "HTTP/1.1 200");
    close(fd);
    kiln_http_runner_destroy(f.runner);
    MHD_stop_daemon(daemon);
    kiln_loop_destroy(f.loop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_alone_is_one_of_loopback),
        cmocka_unit_test(a_socket_listens_on_a_free_port),
        cmocka_unit_test(a_name_of_a_host_is_not_looked_up),
        test_with_arena(a_socket_file_is_of_this_user_and_replaced_when_its_server_has_ended),
        cmocka_unit_test(a_path_that_no_socket_takes_is_refused),
        cmocka_unit_test(a_daemon_runs_on_the_loop),
    };
    return cmocka_run_group_tests_name("proto/http", tests, NULL, NULL);
}
