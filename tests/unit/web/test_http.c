#include "web/http.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/support/test.h"
#include "tests/unit/web/client.h"

/* A server whose handler does what the path says. */
typedef struct fixture {
    kiln_loop *loop;
    kiln_http_server *server;
    unsigned port;
    kiln_http_request *kept; /* to be answered later, or held */
    uint32_t heads, wholes, ended, stream_ends;
    uint64_t piece_bytes;
    bool pieces_wait;
    uint32_t steps;
    uint32_t connections_max;
} fixture;

static bool path_is(const kiln_http_request *r, const char *path) {
    return kiln_str_is(kiln_http_uri(r), path);
}

static bool take_piece(void *context, kiln_http_request *r, kiln_str piece) {
    fixture *f = context;
    f->piece_bytes += piece.size;
    if (f->pieces_wait) f->kept = r;
    return !f->pieces_wait;
}

static void on_head(void *context, kiln_http_request *r) {
    fixture *f = context;
    f->heads++;
    if (path_is(r, "/held") && !f->kept) {
        f->kept = r;
        kiln_http_hold(r);
    } else if (path_is(r, "/refused")) {
        kiln_http_answer_error(r, KILN_ERROR(UNAUTHENTICATED, "sign in"));
    } else if (path_is(r, "/whole")) {
        kiln_http_take_whole(r, 1000);
    } else if (path_is(r, "/pieces")) {
        kiln_http_take_pieces(r, 1u << 20, take_piece, f);
    }
}

static kiln_http_step step(void *context, kiln_strbuf *out) {
    fixture *f = context;
    if (f->steps == 0) return KILN_HTTP_WAIT;
    kiln_strbuf_printf(out, "step %u\n", f->steps);
    if (--f->steps == 1) return KILN_HTTP_WAIT;
    return f->steps ? KILN_HTTP_MORE : KILN_HTTP_END;
}

static void end_stream(void *context) { ((fixture *)context)->stream_ends++; }

static void on_whole(void *context, kiln_http_request *r) {
    fixture *f = context;
    kiln_strbuf body = {0};
    f->wholes++;
    if (path_is(r, "/later")) {
        f->kept = r;
    } else if (path_is(r, "/stream")) {
        const kiln_http_stream stream = {"text/plain", f, step, end_stream};
        f->kept = r;
        kiln_http_answer_stream(r, 200, &stream);
    } else {
        kiln_strbuf_printf(&body, "%s has %zu bytes\n", kiln_http_method(r),
                           kiln_http_body(r).size);
        kiln_http_answer(r, 200, "text/plain", &body);
    }
}

static void on_ended(void *context, kiln_http_request *r) {
    (void)r;
    ((fixture *)context)->ended++;
}

static const kiln_http_handler handler = {on_head, on_whole, on_ended};

static void start(fixture *f) {
    kiln_http_server_options options = {
        .handler = &handler, .context = f, .connections_max = f->connections_max};
    expect_ok(kiln_loop_create(&f->loop));
    expect_ok(kiln_http_address_parse("0", &options.address));
    expect_ok(kiln_http_server_create(f->loop, &options, &f->server));
    f->port = kiln_http_server_port(f->server);
}

static int set_up(void **state) {
    static fixture the_fixture;
    the_fixture = (fixture){0};
    start(&the_fixture);
    *state = &the_fixture;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_http_server_destroy(f->server);
    kiln_loop_destroy(f->loop);
    return 0;
}

static void expect(fixture *f, const char *request, const char *begins, const char *contains) {
    client_expect(f->loop, f->port, request, begins, contains);
}

static void a_request_is_answered(void **state) {
    fixture *f = *state;
    expect(f, "GET /x HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200", "\r\n\r\nGET has 0 bytes\n");
    expect(f, "GET /x HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200", "X-Content-Type-Options: nosniff");
    expect(f, "HEAD /x HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200", "Cache-Control: no-store");
    assert_int_equal(f->ended, 3);
}

static void a_refused_head_is_not_handed_over(void **state) {
    fixture *f = *state;
    expect(f, "POST /refused HTTP/1.1\r\nContent-Length: 999999999\r\n" CLOSE, "HTTP/1.1 401",
           "{\"error\":{\"code\":\"UNAUTHENTICATED\",\"message\":\"sign in\"}}");
    expect(f, "GET /refused HTTP/1.1\r\n" CLOSE, "HTTP/1.1 401", "WWW-Authenticate: Bearer");
    assert_int_equal(f->wholes, 0);
    assert_int_equal(f->ended, 2);
}

static void a_connection_serves_many_requests(void **state) {
    fixture *f = *state;
    const int fd = client_dial(f->port);
    static const char *const path[] = {"/x", "/refused", "/x"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(path); i++) {
        kiln_strbuf request = {0};
        kiln_strbuf_printf(&request, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path[i]);
        assert_true(client_send(f->loop, fd, kiln_strbuf_view(&request)));
        kiln_strbuf answer = client_receive_until(f->loop, fd, i == 1 ? "}}" : "bytes\n");
        expect_contains(answer.data, i == 1 ? "HTTP/1.1 401" : "HTTP/1.1 200");
        kiln_strbuf_deinit(&answer);
        kiln_strbuf_deinit(&request);
    }
    assert_int_equal(kiln_http_server_connections(f->server), 1);
    close(fd);
}

static void bodies_are_bounded(void **state) {
    fixture *f = *state;
    expect(f, "POST /x HTTP/1.1\r\nContent-Length: 4\r\n" CLOSE "body", "HTTP/1.1 400",
           "takes no body");
    expect(f, "POST /whole HTTP/1.1\r\nContent-Length: 4\r\n" CLOSE "body", "HTTP/1.1 200",
           "POST has 4 bytes");
    expect(f, "POST /whole HTTP/1.1\r\nContent-Length: 1001\r\n" CLOSE, "HTTP/1.1 413",
           "more than 1000 bytes");
    assert_int_equal(f->wholes, 1);
}

static void a_chunked_body_is_bounded_too(void **state) {
    fixture *f = *state;
    kiln_strbuf request = {0};
    kiln_strbuf_text(&request, "POST /whole HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" CLOSE);
    for (int i = 0; i < 3; i++) {
        kiln_strbuf_text(&request, "190\r\n");
        for (int k = 0; k < 400; k++) kiln_strbuf_char(&request, 'x');
        kiln_strbuf_text(&request, "\r\n");
    }
    kiln_strbuf_text(&request, "0\r\n\r\n");
    expect(f, request.data, "HTTP/1.1 413", "more than 1000 bytes");
    assert_int_equal(f->wholes, 0);
    kiln_strbuf_deinit(&request);
}

static void a_body_without_end_is_cut_off(void **state) {
    fixture *f = *state;
    const int fd = client_dial(f->port);
    static char chunk[65536 + 10];
    int size = snprintf(chunk, sizeof chunk, "10000\r\n%065536d\r\n", 0);
    assert_true(client_send(
        f->loop, fd, KILN_STR("POST /whole HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" CLOSE)));
    int sent = 0;
    while (sent < 1000 && client_send(f->loop, fd, (kiln_str){chunk, (size_t)size})) {
        kiln_loop_run_once(f->loop);
        sent++;
    }
    assert_in_range(sent, 4, 999);
    close(fd);
    assert_int_equal(f->wholes, 0);
}

static void an_answer_may_come_later(void **state) {
    fixture *f = *state;
    const int fd = client_dial(f->port);
    kiln_strbuf body = {0};
    assert_true(client_send(f->loop, fd, KILN_STR("GET /later HTTP/1.1\r\n" CLOSE)));
    while (!f->kept) kiln_loop_run_once(f->loop);
    kiln_http_add_header(f->kept, "X-Later", "yes");
    kiln_strbuf_text(&body, "at last\n");
    kiln_http_answer(f->kept, 200, "text/plain", &body);
    kiln_strbuf answer = client_receive(f->loop, fd);
    expect_contains(answer.data, "X-Later: yes");
    assert_true(kiln_str_ends(kiln_strbuf_view(&answer), "at last\n"));
    kiln_strbuf_deinit(&answer);
    assert_int_equal(f->ended, 1);
}

/* The handler answers although the server has gone. */
static void a_server_that_ends_waits_for_no_handler(void **state) {
    fixture *f = *state;
    const int fd = client_dial(f->port);
    assert_true(client_send(f->loop, fd, KILN_STR("GET /later HTTP/1.1\r\n" CLOSE)));
    while (!f->kept) kiln_loop_run_once(f->loop);
    kiln_http_server_destroy(f->server);
    f->server = NULL;
    assert_int_equal(f->ended, 0);
    assert_true(kiln_http_is_over(f->kept));
    kiln_http_answer_empty(f->kept, 204);
    assert_int_equal(f->ended, 1);
    close(fd);
}

static void a_late_handler_is_answered_for(void **state) {
    fixture *f = *state;
    const int fd = client_dial(f->port);
    assert_true(client_send(f->loop, fd, KILN_STR("GET /later HTTP/1.1\r\n" CLOSE)));
    while (!f->kept) kiln_loop_run_once(f->loop);
    kiln_http_set_deadline(f->kept, 0);
    kiln_strbuf answer = client_receive(f->loop, fd);
    expect_contains(answer.data, "HTTP/1.1 504");
    assert_int_equal(f->ended, 0);
    kiln_http_answer_empty(f->kept, 204);
    assert_int_equal(f->ended, 1);
    kiln_strbuf_deinit(&answer);
}

static void a_late_decision_about_a_head_is_answered_for(void **state) {
    fixture *f = *state;
    static const char *const request[] = {
        "GET /held HTTP/1.1\r\n" CLOSE,
        "POST /held HTTP/1.1\r\nContent-Length: 4\r\n" CLOSE "body",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(request); i++) {
        const int fd = client_dial(f->port);
        f->kept = NULL;
        assert_true(client_send(f->loop, fd, kiln_str_from(request[i])));
        while (!f->kept) kiln_loop_run_once(f->loop);
        kiln_http_set_deadline(f->kept, 0);
        kiln_strbuf answer = client_receive(f->loop, fd);
        expect_contains(answer.data, "HTTP/1.1 504");
        assert_int_equal(f->ended, i);
        kiln_http_go_on(f->kept);
        assert_int_equal(f->ended, i + 1);
        kiln_strbuf_deinit(&answer);
    }
    assert_int_equal(f->wholes, 0);
}

static void a_held_head_goes_on(void **state) {
    fixture *f = *state;
    static const char *const request[] = {
        "GET /held HTTP/1.1\r\n" CLOSE,
        "POST /held HTTP/1.1\r\nContent-Length: 4\r\n" CLOSE "body",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(request); i++) {
        const int fd = client_dial(f->port);
        f->kept = NULL;
        assert_true(client_send(f->loop, fd, kiln_str_from(request[i])));
        while (!f->kept) kiln_loop_run_once(f->loop);
        kiln_http_go_on(f->kept);
        kiln_strbuf answer = client_receive(f->loop, fd);
        expect_contains(answer.data, i == 0 ? "GET has 0 bytes" : "takes no body");
        kiln_strbuf_deinit(&answer);
    }
    assert_int_equal(f->heads, 4);
}

static void pieces_come_only_when_they_are_wanted(void **state) {
    fixture *f = *state;
    const int fd = client_dial(f->port);
    kiln_strbuf request = {0};
    f->pieces_wait = true;
    kiln_strbuf_text(&request, "POST /pieces HTTP/1.1\r\nContent-Length: 200000\r\n" CLOSE);
    for (int i = 0; i < 200000; i++) kiln_strbuf_char(&request, 'x');
    assert_true(send(fd, request.data, request.size / 2, MSG_NOSIGNAL) > 0);
    while (!f->kept) kiln_loop_run_once(f->loop);
    const uint64_t first = f->piece_bytes;
    assert_in_range(first, 1, 199999);
    f->pieces_wait = false;
    kiln_http_more(f->kept);
    assert_true(client_send(
        f->loop, fd, kiln_str_slice(kiln_strbuf_view(&request), request.size / 2, request.size)));
    kiln_strbuf answer = client_receive(f->loop, fd);
    expect_contains(answer.data, "POST has 0 bytes");
    assert_int_equal(f->piece_bytes, 200000);
    kiln_strbuf_deinit(&answer);
    kiln_strbuf_deinit(&request);
}

static void a_stream_is_sent_as_it_is_made(void **state) {
    fixture *f = *state;
    const int fd = client_dial(f->port);
    f->steps = 3;
    assert_true(client_send(f->loop, fd, KILN_STR("GET /stream HTTP/1.1\r\n" CLOSE)));
    kiln_strbuf first = client_receive_until(f->loop, fd, "step 2\n\r\n");
    assert_int_equal(f->stream_ends, 0);
    kiln_http_wake(f->kept);
    kiln_strbuf rest = client_receive(f->loop, fd);
    expect_contains(rest.data, "step 1\n");
    assert_int_equal(f->stream_ends, 1);
    kiln_strbuf_deinit(&first);
    kiln_strbuf_deinit(&rest);
}

static void a_stream_ends_when_its_client_leaves(void **state) {
    fixture *f = *state;
    const int fd = client_dial(f->port);
    f->steps = 2;
    assert_true(client_send(f->loop, fd, KILN_STR("GET /stream HTTP/1.1\r\n" CLOSE)));
    kiln_strbuf first = client_receive_until(f->loop, fd, "step 2\n\r\n");
    close(fd);
    while (f->stream_ends == 0) {
        f->steps = 3;
        kiln_http_wake(f->kept);
        kiln_loop_run_once(f->loop);
    }
    assert_int_equal(f->ended, 1);
    kiln_strbuf_deinit(&first);
}

static void a_head_without_end_is_cut_off(void **state) {
    fixture *f = *state;
    const int fd = client_dial(f->port);
    char line[1024];
    memset(line, 'x', sizeof line);
    memcpy(line, "X: ", 3);
    memcpy(line + sizeof line - 2, "\r\n", 2);
    assert_true(client_send(f->loop, fd, KILN_STR("GET /x HTTP/1.1\r\n")));
    for (int i = 0; i < 64; i++) { /* twice what is allowed */
        if (!client_send(f->loop, fd, (kiln_str){line, sizeof line})) break;
        kiln_loop_run_once(f->loop);
    }
    kiln_strbuf answer = client_receive(f->loop, fd);
    assert_int_equal(f->heads, 0);
    kiln_strbuf_deinit(&answer);
}

static int set_up_few(void **state) {
    static fixture the_fixture;
    the_fixture = (fixture){.connections_max = 16};
    start(&the_fixture);
    *state = &the_fixture;
    return 0;
}

static void silent_connections_make_room_for_others(void **state) {
    fixture *f = *state;
    int silent[200];
    for (size_t i = 0; i < KILN_ARRAY_COUNT(silent); i++) {
        silent[i] = client_dial(f->port);
        expect(f, "GET /x HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200", "GET has 0 bytes");
        assert_in_range(kiln_http_server_connections(f->server), 0, 16);
    }
    for (size_t i = 0; i < KILN_ARRAY_COUNT(silent); i++) close(silent[i]);
}

static void a_server_beyond_loopback_needs_tls(void **state) {
    fixture *f = *state;
    kiln_http_server *other = NULL;
    kiln_http_server_options options = {.handler = &handler, .context = f};
    expect_ok(kiln_http_address_parse("0.0.0.0:0", &options.address));
    expect_error(kiln_http_server_create(f->loop, &options, &other), PERMISSION_DENIED,
                 "--insecure");
    options.anywhere = true;
    expect_ok(kiln_http_server_create(f->loop, &options, &other));
    kiln_http_server_destroy(other);
    options.cert_pem = options.key_pem = "no certificate";
    expect_error(kiln_http_server_create(f->loop, &options, &other), INVALID_ARGUMENT,
                 "certificate");
}

static void a_port_in_use_is_refused(void **state) {
    fixture *f = *state;
    kiln_http_server *other = NULL;
    kiln_http_server_options options = {.handler = &handler, .context = f};
    char text[16];
    snprintf(text, sizeof text, "%u", f->port);
    expect_ok(kiln_http_address_parse(text, &options.address));
    expect_error(kiln_http_server_create(f->loop, &options, &other), ALREADY_EXISTS, "in use");
    expect_error(kiln_http_address_parse("nowhere", &options.address), INVALID_ARGUMENT, "");
}

static void every_code_has_a_status(void **state) {
    (void)state;
    for (unsigned number = 0; number < 64; number++) {
        kiln_code code;
        if (!kiln_code_from_wire(number, &code)) continue;
        assert_in_range(kiln_http_status_of(code), code == KILN_OK ? 200 : 400, 599);
    }
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_answered),
        TEST(a_refused_head_is_not_handed_over),
        TEST(a_connection_serves_many_requests),
        TEST(bodies_are_bounded),
        TEST(a_chunked_body_is_bounded_too),
        TEST(a_body_without_end_is_cut_off),
        TEST(an_answer_may_come_later),
        TEST(a_server_that_ends_waits_for_no_handler),
        TEST(a_late_handler_is_answered_for),
        TEST(a_late_decision_about_a_head_is_answered_for),
        TEST(a_held_head_goes_on),
        TEST(pieces_come_only_when_they_are_wanted),
        TEST(a_stream_is_sent_as_it_is_made),
        TEST(a_stream_ends_when_its_client_leaves),
        TEST(a_head_without_end_is_cut_off),
        cmocka_unit_test_setup_teardown(silent_connections_make_room_for_others, set_up_few,
                                        tear_down),
        TEST(a_server_beyond_loopback_needs_tls),
        TEST(a_port_in_use_is_refused),
        TEST(every_code_has_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
