#include "tracker/http.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

typedef struct fixture {
    kiln_loop *loop;
    kiln_http *http;
    uint32_t asked, begun, ended;
    uint32_t slices;       /* of /long that were made */
    uint64_t turn, in_one; /* the turn of the last slice, and most slices of one turn */
} fixture;

static bool print_short(void *context, kiln_strbuf *out) {
    (void)context;
    kiln_strbuf_text(out, "kiln_up 1\n");
    return false;
}

#define SLICES 50u

/* Of more bytes than a socket takes at once. */
static bool print_long(void *context, kiln_strbuf *out) {
    fixture *f = context;
    for (uint32_t i = 0; i < 20000; i++) kiln_strbuf_text(out, "xxxxxxxxxx");
    const uint64_t turn = kiln_loop_times_get(f->loop)->wall.count;
    f->in_one = turn == f->turn ? f->in_one + 1 : KILN_MAX(f->in_one, 1u);
    f->turn = turn;
    if (++f->slices % SLICES != 0) return true;
    kiln_strbuf_text(out, "the end\n");
    return false;
}

static void end_page(void *context) { ((fixture *)context)->ended++; }

static bool begin(void *context, const char *path, kiln_http_page *out_page) {
    fixture *f = context;
    f->asked++;
    const bool is_long = strcmp(path, "/long") == 0;
    if (!is_long && strcmp(path, "/metrics") != 0) return false;
    f->begun++;
    *out_page = (kiln_http_page){"text/plain; version=0.0.4", f, is_long ? print_long : print_short,
                                 end_page};
    return true;
}

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = &the_fixture;
    *f = (fixture){0};
    expect_ok(kiln_loop_create(&f->loop));
    kiln_http_options options = {.address = "0", .begin = begin, .context = f};
    expect_ok(kiln_http_create(f->loop, &options, &f->http));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_http_destroy(f->http);
    kiln_loop_destroy(f->loop);
    return 0;
}

static int dial(fixture *f) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)kiln_http_port(f->http)),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* What comes back until the server closes. */
static kiln_strbuf answer_on(fixture *f, int fd) {
    kiln_strbuf answer = {0};
    for (;;) {
        char part[4096];
        ssize_t size = read(fd, part, sizeof part);
        if (size > 0) kiln_strbuf_append(&answer, part, (size_t)size);
        if (size == 0) break;
        if (size < 0) assert_true(kiln_loop_run_once(f->loop));
    }
    close(fd);
    return answer;
}

static void expect_answer(fixture *f, const char *request, const char *begins, const char *ends) {
    int fd = dial(f);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    kiln_strbuf answer = answer_on(f, fd);
    assert_true(kiln_str_starts(kiln_strbuf_view(&answer), begins));
    assert_true(kiln_str_ends(kiln_strbuf_view(&answer), ends));
    kiln_strbuf_deinit(&answer);
}

#define CLOSE "Host: x\r\nConnection: close\r\n\r\n"

static void a_page_is_served(void **state) {
    expect_answer(*state, "GET /metrics HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200 OK",
                  "\r\n\r\nkiln_up 1\n");
}

static void a_head_has_no_body(void **state) {
    expect_answer(*state, "HEAD /metrics HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200 OK", "\r\n\r\n");
}

static void other_pages_and_methods_are_refused(void **state) {
    fixture *f = *state;
    expect_answer(f, "GET /../etc/passwd HTTP/1.1\r\n" CLOSE, "HTTP/1.1 404", "no such page\n");
    uint32_t asked = f->asked;
    expect_answer(f, "POST /metrics HTTP/1.1\r\nContent-Length: 4\r\n" CLOSE "body", "HTTP/1.1 405",
                  "only GET and HEAD\n");
    expect_answer(f, "DELETE /metrics HTTP/1.1\r\n" CLOSE, "HTTP/1.1 405", "only GET and HEAD\n");
    assert_int_equal(f->asked, asked);
}

static void a_head_without_end_is_cut_off(void **state) {
    fixture *f = *state;
    int fd = dial(f);
    char line[1024];
    memset(line, 'x', sizeof line);
    memcpy(line, "X: ", 3);
    memcpy(line + sizeof line - 2, "\r\n", 2);
    assert_true(write(fd, "GET /metrics HTTP/1.1\r\n", 23) == 23);
    for (int i = 0; i < 64; i++) { /* twice what is allowed */
        if (write(fd, line, sizeof line) < 0) break;
        kiln_loop_run_once(f->loop);
    }
    kiln_strbuf answer = answer_on(f, fd);
    assert_int_equal(f->asked, 0);
    kiln_strbuf_deinit(&answer);
}

static void silent_connections_keep_nobody_waiting(void **state) {
    fixture *f = *state;
    int silent[KILN_HTTP_CONNECTIONS_MAX / 2];
    for (size_t i = 0; i < KILN_ARRAY_COUNT(silent); i++) silent[i] = dial(f);
    expect_answer(f, "GET /metrics HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200 OK", "kiln_up 1\n");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(silent); i++) close(silent[i]);
}

/* Each turn makes one slice, however many ask; all get the whole page. */
static void a_long_page_is_made_a_slice_a_turn(void **state) {
    enum { READERS = 3 };
    static const char request[] = "GET /long HTTP/1.1\r\n" CLOSE;
    fixture *f = *state;
    int fd[READERS];
    for (int i = 0; i < READERS; i++) {
        fd[i] = dial(f);
        assert_int_equal(write(fd[i], request, strlen(request)), strlen(request));
    }
    expect_answer(f, "GET /metrics HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200 OK", "kiln_up 1\n");
    for (int i = 0; i < READERS; i++) {
        kiln_strbuf answer = answer_on(f, fd[i]);
        assert_true(answer.size > SLICES * 200000);
        expect_contains(answer.data, "Content-Length: 10000008\r\n");
        assert_true(kiln_str_ends(kiln_strbuf_view(&answer), "the end\n"));
        kiln_strbuf_deinit(&answer);
    }
    assert_int_equal(f->in_one, 1);
    assert_int_equal(f->slices, READERS * SLICES);
    assert_int_equal(f->ended, f->begun);
}

/* The reader goes while its page is made; and the server while others wait for theirs. */
static void pages_that_nobody_waits_for_end(void **state) {
    static const char request[] = "GET /long HTTP/1.1\r\n" CLOSE;
    fixture *f = *state;
    int gone = dial(f), waits = dial(f);
    assert_int_equal(write(gone, request, strlen(request)), strlen(request));
    assert_int_equal(write(waits, request, strlen(request)), strlen(request));
    while (f->begun < 2 || f->slices < 3) assert_true(kiln_loop_run_once(f->loop));
    close(gone);
    while (f->slices < SLICES + 3) assert_true(kiln_loop_run_once(f->loop));
    kiln_http_destroy(f->http);
    f->http = NULL;
    assert_int_equal(f->ended, 2);
    close(waits);
}

static void only_loopback_is_listened_on_unasked(void **state) {
    fixture *f = *state;
    kiln_http *http = NULL;
    kiln_http_options options = {.address = "0.0.0.0:0", .begin = begin, .context = f};
    expect_error(kiln_http_create(f->loop, &options, &http), PERMISSION_DENIED, "--insecure");
    options.anywhere = true;
    expect_ok(kiln_http_create(f->loop, &options, &http));
    kiln_http_destroy(http);
    options = (kiln_http_options){.address = "[::1]:0", .begin = begin, .context = f};
    kiln_status st = kiln_http_create(f->loop, &options, &http); /* where there is IPv6 */
    if (!st) kiln_http_destroy(http);
    kiln_status_free(st);
}

static void bad_and_busy_addresses_are_named(void **state) {
    fixture *f = *state;
    kiln_http *http = NULL;
    char busy[32];
    snprintf(busy, sizeof busy, "127.0.0.1:%u", kiln_http_port(f->http));
    kiln_http_options options = {.address = busy, .begin = begin, .context = f};
    expect_error(kiln_http_create(f->loop, &options, &http), ALREADY_EXISTS, busy);
    options.address = "unix:/tmp/x";
    expect_error(kiln_http_create(f->loop, &options, &http), INVALID_ARGUMENT, "port");
    options.address = "nonsense";
    expect_error(kiln_http_create(f->loop, &options, &http), INVALID_ARGUMENT, "--http");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_page_is_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_head_has_no_body, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_pages_and_methods_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_head_without_end_is_cut_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(silent_connections_keep_nobody_waiting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_long_page_is_made_a_slice_a_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_that_nobody_waits_for_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_loopback_is_listened_on_unasked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_and_busy_addresses_are_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
