#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/net/loop_state.h"
#include "tests/support/test.h"
#include "tests/unit/proto/locked.h"
#include "tests/unit/proto/raw.h"

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

static void both_ends_count_the_same_bytes(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_open(&p);
    const uint64_t before = kiln_conn_wire_bytes(p.client.conn);
    for (uint64_t i = 0; i < 10; i++) send_ping(p.client.conn, i);
    pair_run_until_count(&p, &p.server.message_count, 10);
    /* Who sent hears of it a turn of the loop later. */
    const uint64_t end_ns = kiln_clock_ns() + PAIR_DEADLINE_NS;
    while (kiln_conn_wire_bytes(p.client.conn) != kiln_conn_wire_bytes(p.server.conn)) {
        assert_true(kiln_clock_ns() < end_ns);
        kiln_loop_run_once(p.loop);
    }
    assert_true(kiln_conn_wire_bytes(p.client.conn) >= before + 10 * KILN_FRAME_HEADER_BYTES);
    pair_deinit(&p);
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
    int nobody = raw_bind(&p);
    pair_dial(&p);
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, KILN_UNAVAILABLE);
    expect_contains(p.client.why_text, "no tracker listens there");
    close(nobody);
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

static void a_peer_that_does_not_read_costs_a_bounded_queue(void **state) {
    (void)state;
    pair p;
    raw_peer r;
    pair_init(&p);
    pair_listen(&p);
    raw_dial(&r, &p);
    raw_hello(&r, KILN_PEER_CLIENT, 1);
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
    raw_close(&r);
    pair_deinit(&p);
}

/* What waits without having been posted, as an answer of TLS's own, is bounded too. */
static void what_goes_out_raw_to_who_does_not_read_is_bounded(void **state) {
    (void)state;
    pair p;
    raw_peer r;
    static char piece[KILN_NET_READ_BYTES];
    pair_init(&p);
    pair_listen(&p);
    raw_dial(&r, &p);
    raw_hello(&r, KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    kiln_conn *conn = p.server.conn;
    for (int i = 0; i < 1000 && conn->state == KILN_CONN_OPEN; i++) {
        kiln_strbuf bytes = {0};
        kiln_strbuf_append(&bytes, piece, sizeof piece);
        kiln_conn_put_raw(conn, &bytes);
        kiln_strbuf_deinit(&bytes);
        assert_true(conn->queued_bytes <= KILN_NET_QUEUE_MAX + sizeof piece);
    }
    pair_run_until(&p, &p.server.closed);
    assert_int_equal(p.server.why, KILN_RESOURCE_EXHAUSTED);
    raw_close(&r);
    pair_deinit(&p);
}

/* ---- More than the system takes at once ---- */

/* As long as a message's text may be, and nothing that compresses. */
static void send_filler(kiln_conn *conn, kiln_rand *rand) {
    char text[KILN_MESSAGES_PROSE];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)kiln_rand_range(rand, 1, 255);
    kiln_message away = {.type = KILN_MSG_GOAWAY, .goaway = {.reason = {text, sizeof text}}};
    expect_ok(kiln_conn_send(conn, &away));
}

static void set_room(kiln_conn *conn, int which) {
    const int room = 16 << 10;
    int fd = -1;
    assert_int_equal(uv_fileno(&conn->socket->handle, &fd), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, which, &room, sizeof room), 0);
}

/* Some of it goes at once, less than `most`, and the rest when there is room; every byte arrives,
 * in its place. */
static void check_pieces(pair *p, uint64_t count, uint64_t most) {
    kiln_rand rand;
    kiln_conn *conn = p->client.conn;
    kiln_rand_init(&rand, 1);
    set_room(conn, SO_SNDBUF);
    set_room(p->server.conn, SO_RCVBUF);
    const uint64_t before = kiln_conn_wire_bytes(conn);
    for (uint64_t i = 0; i < count; i++) {
        send_filler(conn, &rand);
        send_ping(conn, i);
    }
    const uint64_t at_once = kiln_conn_wire_bytes(conn) - before; /* the turn is not over */
    assert_true(at_once > 0 && at_once < most);
    assert_true(kiln_conn_queued_bytes(conn) > 0);
    pair_run_until_count(p, &p->server.message_count, 2 * (uint32_t)count);
    for (uint64_t i = 0; i < count; i++) assert_int_equal(p->server.t_ns[2 * i + 1], i);
    kiln_timer_start(p->deadline, PAIR_DEADLINE_NS);
    while (kiln_conn_queued_bytes(conn) && !p->late) kiln_loop_run_once(p->loop);
    assert_int_equal(kiln_conn_queued_bytes(conn), 0);
    assert_int_equal(kiln_conn_wire_bytes(conn), kiln_conn_wire_bytes(p->server.conn));
}

static void what_the_system_takes_in_pieces_arrives_whole(void **state) {
    pair p;
    pair_init(&p);
    char *folder = make_folder(*state);
    pair_set_address(&p, kiln_arena_printf(*state, "unix:%s/s", folder));
    pair_open(&p);
    check_pieces(&p, 30, 64 << 10); /* the first write has more, and is taken in part */
    pair_deinit(&p);
    remove_folder(folder);
}

static void and_over_tls(void **state) {
    locked l;
    locked_init(&l, *state);
    pair_open(&l.p);
    check_pieces(&l.p, 900, UINT64_MAX); /* more than both ends' buffers hold */
    locked_deinit(&l);
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

static void streams_begin_anew_behind_the_last(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_open(&p);
    p.client.conn->next_stream = UINT32_MAX;
    p.server.conn->next_stream = UINT32_MAX - 1;
    assert_int_equal(kiln_conn_stream(p.client.conn), UINT32_MAX);
    assert_int_equal(kiln_conn_stream(p.client.conn), 1);
    assert_int_equal(kiln_conn_stream(p.server.conn), UINT32_MAX - 1);
    assert_int_equal(kiln_conn_stream(p.server.conn), 2);
    pair_deinit(&p);
}

/* Each end of a turn writes to so many connections, and so many bytes; the others keep theirs. */
static void a_turn_writes_to_so_many_and_no_more(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_open(&p);
    for (uint32_t i = 0; i < KILN_NET_WRITES_AT_ONCE + 5; i++)
        kiln_vec_push(&p.loop->conns.unwritten, p.client.conn);
    kiln_conns_flush(p.loop);
    assert_int_equal(p.loop->conns.unwritten.count, 5);
    send_ping(p.client.conn, 1); /* it stands last */
    kiln_conns_flush(p.loop);
    assert_int_equal(p.loop->conns.unwritten.count, 0);
    pair_run_until_count(&p, &p.server.message_count, 1);
    static char prose[KILN_MESSAGES_PROSE];
    memset(prose, 'x', sizeof prose);
    const kiln_message away = {.type = KILN_MSG_GOAWAY,
                               .goaway = {.reason = {prose, sizeof prose}}};
    kiln_strbuf many = {0};
    while (many.size < KILN_NET_WRITE_BYTES_AT_ONCE)
        expect_ok(kiln_frame_write_message(&many, &away));
    const uint64_t sent = kiln_conn_wire_bytes(p.client.conn);
    p.client.conn->pending = many;
    p.client.conn->queued_bytes += many.size;
    kiln_vec_push(&p.loop->conns.unwritten, p.client.conn);
    send_ping(p.server.conn, 2);
    kiln_conns_flush(p.loop);
    assert_true(kiln_conn_wire_bytes(p.client.conn) > sent);
    assert_int_equal(p.loop->conns.unwritten.count, 1);
    assert_true(p.server.conn->unwritten);
    pair_run_until_count(&p, &p.client.message_count, 1);
    pair_deinit(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_go_both_ways_in_order_over_tcp),
        test_with_arena(and_over_a_unix_socket_without_a_token),
        cmocka_unit_test(both_ends_count_the_same_bytes),
        cmocka_unit_test(a_wrong_token_is_refused_with_a_reason),
        cmocka_unit_test(no_token_is_refused_too),
        cmocka_unit_test(dialling_nobody_says_so),
        cmocka_unit_test(plaintext_never_leaves_the_machine_unasked),
        cmocka_unit_test(closing_with_a_reason_tells_it),
        cmocka_unit_test(what_was_sent_before_closing_arrives),
        cmocka_unit_test(a_peer_that_does_not_read_costs_a_bounded_queue),
        cmocka_unit_test(what_goes_out_raw_to_who_does_not_read_is_bounded),
        test_with_arena(what_the_system_takes_in_pieces_arrives_whole),
        test_with_arena(and_over_tls),
        cmocka_unit_test(streams_are_odd_for_who_dials_and_even_for_who_listens),
        cmocka_unit_test(streams_begin_anew_behind_the_last),
        cmocka_unit_test(a_turn_writes_to_so_many_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
