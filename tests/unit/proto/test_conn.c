#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/test.h"
#include "tests/unit/proto/pair.h"

static void send_ping(kiln_conn *conn, uint64_t t_ns) {
    expect_ok(kiln_conn_send(conn, &(kiln_message){.type = KILN_MSG_PING,
                                                   .stream = kiln_conn_stream(conn),
                                                   .ping = {.t_ns = t_ns}}));
}

static void check_both_ways(pair *p) {
    pair_open(p);
    assert_string_equal(p->server.peer_node, "tuner-node");
    for (uint64_t i = 0; i < 1000; i++) send_ping(p->client.conn, i);
    pair_run_until_count(p, &p->server.message_count, 1000);
    for (uint64_t i = 0; i < 1000; i++) assert_int_equal(p->server.t_ns[i], i);
    send_ping(p->server.conn, 77);
    pair_run_until_count(p, &p->client.message_count, 1);
    assert_int_equal(p->client.t_ns[0], 77);
}

static void messages_go_both_ways_in_order_over_tcp(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    check_both_ways(&p);
    pair_deinit(&p);
}

static void and_over_a_unix_socket_without_a_token(void **state) {
    pair p;
    pair_init(&p);
    char *folder = make_folder(*state);
    pair_set_address(&p, kiln_arena_printf(*state, "unix:%s/s", folder));
    p.listen.token = NULL;
    p.credentials.has_token = false;
    check_both_ways(&p);
    pair_deinit(&p);
    remove_folder(folder);
}

static void a_wrong_token_is_refused_with_a_reason(void **state) {
    (void)state;
    static const uint8_t wrong[KILN_TOKEN_BYTES] = {1, 2, 4};
    pair p;
    pair_init(&p);
    memcpy(p.credentials.token, wrong, sizeof wrong);
    pair_listen(&p);
    pair_dial(&p);
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(p.client.why_text, "KILN_HOME");
    assert_false(p.client.opened);
    assert_false(p.server.opened);
    assert_false(p.server.closed);
    pair_deinit(&p);
}

static void no_token_is_refused_too(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    p.credentials.has_token = false;
    pair_listen(&p);
    pair_dial(&p);
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, KILN_UNAUTHENTICATED);
    pair_deinit(&p);
}

static void dialling_nobody_says_so(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_listen(&p); /* a port that was free, and is again */
    kiln_listener_close(p.listener);
    p.listener = NULL;
    kiln_loop_run_once(p.loop);
    pair_dial(&p);
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, KILN_UNAVAILABLE);
    expect_contains(p.client.why_text, "no tracker listens there");
    pair_deinit(&p);
}

static void plaintext_never_leaves_the_machine_unasked(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    expect_ok(kiln_address_parse(KILN_STR("192.0.2.1:9"), &p.dial.address));
    pair_dial(&p);
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, KILN_PERMISSION_DENIED);
    expect_contains(p.client.why_text, "--insecure");
    pair_deinit(&p);
}

static void closing_with_a_reason_tells_it(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_open(&p);
    kiln_conn_close(p.server.conn, KILN_ERROR(ABORTED, "a newer connection replaces this one"));
    pair_run_until(&p, &p.client.closed);
    pair_run_until(&p, &p.server.closed);
    assert_int_equal(p.client.why, KILN_ABORTED);
    expect_contains(p.client.why_text, "a newer connection");
    assert_int_equal(p.server.why, KILN_ABORTED);
    pair_deinit(&p);
}

static void what_was_sent_before_closing_arrives(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_open(&p);
    for (uint64_t i = 0; i < 100; i++) send_ping(p.client.conn, i);
    kiln_conn_close(p.client.conn, KILN_OK);
    p.client.conn = NULL;
    pair_run_until(&p, &p.server.closed);
    assert_int_equal(p.server.message_count, 100);
    assert_int_equal(p.server.why, KILN_UNAVAILABLE);
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, KILN_CANCELLED);
    pair_deinit(&p);
}

static void a_message_of_another_role_is_refused_and_not_delivered(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_open(&p);
    /* A tuner may not speak as a board. */
    kiln_message up = {.type = KILN_MSG_BOARD_UP,
                       .stream = 9,
                       .board_up = {.key = KILN_STR("k"), .target = KILN_STR("t"), .slots = 1}};
    expect_ok(kiln_conn_send(p.client.conn, &up));
    pair_run_until_count(&p, &p.client.message_count, 1);
    assert_int_equal(p.client.last_error, KILN_PERMISSION_DENIED);
    assert_int_equal(p.server.message_count, 0);
    pair_deinit(&p);
}

/* A peer of bytes: connects to the listener by hand. */
static int dial_raw(const pair *p) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(p->dial.address.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Runs the loop until the other side closed; what it said is left in `out`. */
static size_t read_to_end(pair *p, int fd, char *out, size_t size) {
    size_t got = 0;
    kiln_timer_start(p->deadline, 20 * KILN_NS_PER_S);
    while (!p->late) {
        ssize_t n = recv(fd, out + got, size - got, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN)) break;
        if (n > 0)
            got += (size_t)n;
        else
            kiln_loop_run_once(p->loop);
    }
    kiln_timer_stop(p->deadline);
    assert_false(p->late);
    return got;
}

static void expect_refusal(kiln_str bytes, const char *needle) {
    pair p;
    pair_init(&p);
    pair_listen(&p);
    int fd = dial_raw(&p);
    char said[8192] = {0};
    assert_int_equal(send(fd, bytes.data, bytes.size, MSG_NOSIGNAL), bytes.size);
    size_t got = read_to_end(&p, fd, said, sizeof said - 1);
    assert_true(memmem(said, got, needle, strlen(needle)) != NULL);
    assert_false(p.server.opened);
    close(fd);
    pair_deinit(&p);
}

static void strangers_are_told_why_and_dropped(void **state) {
    (void)state;
    expect_refusal(KILN_STR("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "not Kiln's protocol");
    expect_refusal(KILN_STR("KLN1\x01\0\0\0\0\0\0\0\0\0\x04\0"), "a HELLO of 262160 bytes");
    kiln_strbuf ping = {0};
    expect_ok(kiln_frame_write_message(&ping, &(kiln_message){.type = KILN_MSG_PING}));
    expect_refusal(kiln_strbuf_view(&ping), "a connection starts with HELLO, not PING");
    kiln_strbuf_deinit(&ping);
    kiln_strbuf old = {0};
    kiln_message hello = {.type = KILN_MSG_HELLO,
                          .hello = {.version_min = 90, .version_max = 91, .role = KILN_PEER_BOARD}};
    expect_ok(kiln_frame_write_message(&old, &hello));
    expect_refusal(kiln_strbuf_view(&old), "the peer speaks protocol 90 to 91");
    kiln_strbuf_deinit(&old);
}

static void a_peer_that_does_not_read_costs_a_bounded_queue(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    p.listen.insecure = true;
    pair_listen(&p);
    int fd = dial_raw(&p);
    kiln_strbuf bytes = {0};
    kiln_message hello = {.type = KILN_MSG_HELLO,
                          .hello = {.version_min = 1,
                                    .version_max = 1,
                                    .role = KILN_PEER_CLIENT,
                                    .node = KILN_STR("n"),
                                    .boot = KILN_STR("b")}};
    expect_ok(kiln_frame_write_message(&bytes, &hello));
    assert_int_equal(send(fd, bytes.data, bytes.size, MSG_NOSIGNAL), bytes.size);
    kiln_strbuf_deinit(&bytes);
    pair_run_until(&p, &p.server.opened);
    static char text[KILN_MESSAGES_PROSE];
    memset(text, 'x', sizeof text);
    kiln_message away = {.type = KILN_MSG_GOAWAY, .goaway = {.reason = {text, sizeof text}}};
    size_t most = 0;
    kiln_conn *conn = p.server.conn;
    for (int i = 0; i < 100000 && !p.server.closed; i++) {
        expect_ok(kiln_conn_send(conn, &away)); /* a closing connection swallows it */
        if (kiln_conn_queued_bytes(conn) > most) most = kiln_conn_queued_bytes(conn);
        if (most + 2 * sizeof text > KILN_NET_QUEUE_MAX) break;
    }
    expect_ok(kiln_conn_send(conn, &away));
    expect_ok(kiln_conn_send(conn, &away));
    pair_run_until(&p, &p.server.closed);
    assert_int_equal(p.server.why, KILN_RESOURCE_EXHAUSTED);
    assert_true(most <= KILN_NET_QUEUE_MAX);
    close(fd);
    pair_deinit(&p);
}

static void streams_are_odd_for_who_dials_and_even_for_who_listens(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_open(&p);
    assert_int_equal(kiln_conn_stream(p.client.conn), 1);
    assert_int_equal(kiln_conn_stream(p.client.conn), 3);
    assert_int_equal(kiln_conn_stream(p.server.conn), 2);
    assert_int_equal(kiln_conn_stream(p.server.conn), 4);
    assert_true(kiln_conn_id(p.client.conn) != kiln_conn_id(p.server.conn));
    pair_deinit(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_go_both_ways_in_order_over_tcp),
        test_with_arena(and_over_a_unix_socket_without_a_token),
        cmocka_unit_test(a_wrong_token_is_refused_with_a_reason),
        cmocka_unit_test(no_token_is_refused_too),
        cmocka_unit_test(dialling_nobody_says_so),
        cmocka_unit_test(plaintext_never_leaves_the_machine_unasked),
        cmocka_unit_test(closing_with_a_reason_tells_it),
        cmocka_unit_test(what_was_sent_before_closing_arrives),
        cmocka_unit_test(a_message_of_another_role_is_refused_and_not_delivered),
        cmocka_unit_test(strangers_are_told_why_and_dropped),
        cmocka_unit_test(a_peer_that_does_not_read_costs_a_bounded_queue),
        cmocka_unit_test(streams_are_odd_for_who_dials_and_even_for_who_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
