/* The order in which peers are read from. */
#include "base/alloc.h"
#include "proto/net/conn.h"
#include "proto/net/read_scheduler.h"
#include "tests/support/test.h"
#include "tests/unit/proto/raw.h"

#define PEERS 3u

/* What a listener heard, by the order in which its peers became known. */
typedef struct room {
    pair p;
    raw_peer peer[PEERS];
    kiln_conn *conn[PEERS];
    uint32_t opened, closed, said[PEERS];
    bool ends_others;            /* who speaks first ends the others */
    uint32_t said_before[PEERS]; /* of the first, when this one first spoke */
} room;

static void count_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                         const kiln_msg_welcome *welcome) {
    (void)hello, (void)welcome;
    room *r = context;
    if (r->opened < PEERS) r->conn[r->opened] = conn;
    r->opened++;
}

static void take_message(void *context, kiln_conn *conn, const kiln_message *message) {
    (void)message;
    room *r = context;
    for (uint32_t i = 0; i < PEERS; i++) {
        if (r->conn[i] == conn && r->said[i]++ == 0) r->said_before[i] = r->said[0];
        if (r->conn[i] != conn && r->ends_others)
            kiln_conn_close(r->conn[i], KILN_ERROR(ABORTED, "another spoke"));
    }
}

static void take_end(void *context, kiln_conn *conn, kiln_status why) {
    (void)conn, (void)why;
    ((room *)context)->closed++;
}

static void open_room(room *r) {
    static const kiln_conn_handler handler = {count_opened, take_message, take_end};
    *r = (room){0};
    pair_init(&r->p);
    r->p.listen.handler = &handler;
    r->p.listen.context = r;
    pair_listen(&r->p);
    for (uint32_t i = 0; i < PEERS; i++) {
        raw_dial(&r->peer[i], &r->p);
        raw_hello(&r->peer[i], KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    }
}

static void close_room(room *r) {
    for (uint32_t i = 0; i < PEERS; i++) raw_close(&r->peer[i]);
    pair_deinit(&r->p);
}

static void say_ping(raw_peer *peer) { raw_say(peer, &(kiln_message){.type = KILN_MSG_PING}); }

static void known_peers_are_heard_in_a_crowd(void **state) {
    (void)state;
    enum { CROWD = 8 * KILN_NET_HANDSHAKES_PER_TURN };
    raw_peer stranger[CROWD];
    room r;
    open_room(&r);
    for (uint32_t i = 0; i < CROWD; i++) {
        raw_dial(&stranger[i], &r.p);
        raw_say_hello(&stranger[i], KILN_PEER_CLIENT, KILN_PROTO_PROVES_TOKEN - 1);
    }
    while (r.opened == PEERS) kiln_loop_run_once(r.p.loop); /* until some of them are let in */
    for (uint32_t i = 0; i < PEERS; i++) say_ping(&r.peer[i]);
    kiln_loop_run_once(r.p.loop);
    for (uint32_t i = 0; i < PEERS; i++) assert_int_equal(r.said[i], 1);
    assert_in_range(r.opened, PEERS + 1, PEERS + CROWD - 1); /* others still wait */
    for (uint32_t i = 0; i < CROWD; i++) raw_close(&stranger[i]);
    close_room(&r);
}

static void who_says_much_is_read_in_turns_with_the_others(void **state) {
    (void)state;
    room r;
    open_room(&r);
    enum { PINGS = 40000 }; /* several reads */
    kiln_strbuf much = {0};
    const kiln_message ping = {.type = KILN_MSG_PING};
    for (uint32_t i = 0; i < PINGS; i++) expect_ok(kiln_frame_write_message(&much, &ping));
    const uint32_t in_a_read = (uint32_t)(KILN_NET_READ_BYTES / (much.size / PINGS));
    assert_true(much.size > 4 * KILN_NET_READ_BYTES);
    raw_send(&r.peer[0], kiln_strbuf_view(&much));
    for (uint32_t i = 1; i < PEERS; i++) say_ping(&r.peer[i]);
    while (r.said[0] < PINGS) kiln_loop_run_once(r.p.loop);
    for (uint32_t i = 1; i < PEERS; i++) {
        assert_int_equal(r.said[i], 1);
        assert_true(r.said_before[i] <= 2 * in_a_read);
    }
    kiln_strbuf_deinit(&much);
    close_room(&r);
}

static void who_was_ended_in_this_turn_is_not_read(void **state) {
    (void)state;
    room r;
    open_room(&r);
    r.ends_others = true;
    for (uint32_t i = 0; i < PEERS; i++) say_ping(&r.peer[i]);
    while (r.closed < PEERS - 1) kiln_loop_run_once(r.p.loop);
    assert_int_equal(r.said[0] + r.said[1] + r.said[2], 1);
    close_room(&r);
}

static void a_peer_that_is_not_read_is_read_later(void **state) {
    (void)state;
    room r;
    open_room(&r);
    kiln_conn_pause(r.conn[1], true);
    for (uint32_t i = 0; i < PEERS; i++) say_ping(&r.peer[i]);
    while (r.said[0] == 0 || r.said[2] == 0) kiln_loop_run_once(r.p.loop);
    kiln_loop_hurry(r.p.loop);
    kiln_loop_run_once(r.p.loop);
    assert_int_equal(r.said[1], 0);
    kiln_conn_pause(r.conn[1], false);
    while (r.said[1] == 0) kiln_loop_run_once(r.p.loop);
    close_room(&r);
}

static void nobody_is_read_while_the_loop_pauses(void **state) {
    (void)state;
    room r;
    open_room(&r);
    kiln_loop_pause_reading(r.p.loop, true);
    for (uint32_t i = 0; i < PEERS; i++) say_ping(&r.peer[i]);
    kiln_timer_start(r.p.deadline, KILN_NS_PER_MS);
    while (!r.p.late) kiln_loop_run_once(r.p.loop);
    assert_int_equal(r.said[0] + r.said[1] + r.said[2], 0);
    kiln_loop_pause_reading(r.p.loop, false);
    while (r.said[0] + r.said[1] + r.said[2] < PEERS) kiln_loop_run_once(r.p.loop);
    close_room(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_peers_are_heard_in_a_crowd),
        cmocka_unit_test(who_says_much_is_read_in_turns_with_the_others),
        cmocka_unit_test(who_was_ended_in_this_turn_is_not_read),
        cmocka_unit_test(a_peer_that_is_not_read_is_read_later),
        cmocka_unit_test(nobody_is_read_while_the_loop_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
