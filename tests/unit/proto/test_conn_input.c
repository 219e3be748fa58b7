#include "proto/net/conn_input.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/unit/proto/raw.h"

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

static void expect_refusal(kiln_str bytes, const char *why) {
    pair p;
    raw_peer r;
    kiln_frame frame;
    pair_init(&p);
    pair_listen(&p);
    raw_dial(&r, &p);
    raw_send(&r, bytes);
    const kiln_message error = raw_expect(&r, KILN_MSG_ERROR);
    expect_contains(kiln_str_dup(&r.arena, error.error.text), why);
    assert_false(raw_read(&r, &frame)); /* and it is cut */
    assert_false(p.server.opened);
    raw_close(&r);
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

static void misbehave(kiln_str bytes, kiln_code code, const char *why) {
    pair p;
    raw_peer r;
    kiln_frame frame;
    pair_init(&p);
    pair_listen(&p);
    raw_dial(&r, &p);
    raw_hello(&r, KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    raw_send(&r, bytes);
    pair_run_until(&p, &p.server.closed);
    assert_int_equal(p.server.why, code);
    expect_contains(p.server.why_text, why);
    assert_true(raw_read(&r, &frame) && frame.type == KILN_MSG_ERROR && frame.stream == 0);
    raw_close(&r);
    pair_deinit(&p);
}

static void who_breaks_the_protocol_is_told_and_cut(void **state) {
    (void)state;
    misbehave(KILN_STR("KLN1\x7f\x01\0\0\x01\0\0\0\x01\0\0\0x"), KILN_DATA_LOSS,
              "without a transfer");
    misbehave(KILN_STR("KLN1\x03\0\0\0\0\0\0\0\x01\0\0\0\xc1"), KILN_DATA_LOSS, "PING");
    misbehave(KILN_STR("KLN1\x03\0\0\0\0\0\0\0\x02\0\0\0\x80\x80"), KILN_DATA_LOSS,
              "followed by 1 more");
    misbehave(KILN_STR("JUNKJUNKJUNKJUNK"), KILN_DATA_LOSS, "not Kiln's protocol");
}

static void a_message_of_tomorrow_is_refused_and_the_connection_lives(void **state) {
    (void)state;
    pair p;
    raw_peer r;
    pair_init(&p);
    pair_listen(&p);
    raw_dial(&r, &p);
    raw_hello(&r, KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    raw_send(&r, KILN_STR("KLN1\x7d\0\0\0\x09\0\0\0\x01\0\0\0\x80"));
    kiln_message error = raw_expect(&r, KILN_MSG_ERROR);
    assert_int_equal(error.stream, 9);
    assert_int_equal(error.error.code, KILN_UNIMPLEMENTED);
    raw_say(&r, &(kiln_message){.type = KILN_MSG_PING});
    pair_run_until_count(&p, &p.server.message_count, 1);
    raw_close(&r);
    pair_run_until(&p, &p.server.closed);
    pair_deinit(&p);
}

static void the_last_words_of_a_peer_are_why_it_closed(void **state) {
    (void)state;
    pair p;
    raw_peer r;
    pair_init(&p);
    pair_listen(&p);
    raw_dial(&r, &p);
    raw_hello(&r, KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    kiln_message words = kiln_message_error(KILN_ABORTED, 0, "first");
    raw_say(&r, &words);
    words = kiln_message_error(KILN_RESOURCE_EXHAUSTED, 0, "my disk is full");
    raw_say(&r, &words);
    raw_close(&r);
    pair_run_until(&p, &p.server.closed);
    assert_int_equal(p.server.why, KILN_RESOURCE_EXHAUSTED);
    expect_contains(p.server.why_text, "my disk is full");
    pair_deinit(&p);
}

static void a_peer_that_resets_the_connection_is_unavailable(void **state) {
    (void)state;
    pair p;
    raw_peer r;
    pair_init(&p);
    pair_listen(&p);
    raw_dial(&r, &p);
    raw_hello(&r, KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    const struct linger at_once = {.l_onoff = 1};
    assert_int_equal(setsockopt(r.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    raw_close(&r); /* RST */
    pair_run_until(&p, &p.server.closed);
    assert_int_equal(p.server.why, KILN_UNAVAILABLE);
    expect_contains(p.server.why_text, "reading from the peer");
    pair_deinit(&p);
}

static void expect_disbelief(kiln_str answer, kiln_code code, const char *why) {
    pair p;
    raw_peer r;
    pair_init(&p);
    p.credentials = (kiln_credentials){.insecure = true};
    int listener = raw_listen(&p);
    pair_dial(&p);
    raw_accept(&r, &p, listener);
    raw_send(&r, answer);
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, code);
    expect_contains(p.client.why_text, why);
    assert_false(p.client.opened);
    raw_close(&r);
    close(listener);
    pair_deinit(&p);
}

static void who_answers_hello_wrongly_is_no_tracker(void **state) {
    (void)state;
    kiln_strbuf pong = {0}, error = {0}, welcome = {0};
    expect_ok(kiln_frame_write_message(&pong, &(kiln_message){.type = KILN_MSG_PONG}));
    expect_disbelief(kiln_strbuf_view(&pong), KILN_DATA_LOSS,
                     "HELLO is answered by WELCOME, not PONG");
    kiln_message no = kiln_message_error(KILN_PERMISSION_DENIED, 0, "go away");
    expect_ok(kiln_frame_write_message(&error, &no));
    expect_disbelief(kiln_strbuf_view(&error), KILN_PERMISSION_DENIED, "go away");
    kiln_message from_tomorrow = {.type = KILN_MSG_WELCOME,
                                  .welcome = {.version = KILN_PROTO_VERSION_MAX + 1,
                                              .boot = KILN_STR("b"),
                                              .heartbeat_ms = 1}};
    expect_ok(kiln_frame_write_message(&welcome, &from_tomorrow));
    expect_disbelief(kiln_strbuf_view(&welcome), KILN_FAILED_PRECONDITION, "upgrade this side");
    expect_disbelief(KILN_STR("SSH-2.0-OpenSSH_9.2\r\n"), KILN_DATA_LOSS, "not Kiln's protocol");
    kiln_strbuf_deinit(&pong);
    kiln_strbuf_deinit(&error);
    kiln_strbuf_deinit(&welcome);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_of_another_role_is_refused_and_not_delivered),
        cmocka_unit_test(strangers_are_told_why_and_dropped),
        cmocka_unit_test(who_breaks_the_protocol_is_told_and_cut),
        cmocka_unit_test(a_message_of_tomorrow_is_refused_and_the_connection_lives),
        cmocka_unit_test(the_last_words_of_a_peer_are_why_it_closed),
        cmocka_unit_test(a_peer_that_resets_the_connection_is_unavailable),
        cmocka_unit_test(who_answers_hello_wrongly_is_no_tracker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
