#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "proto/net/handshake.h"
#include "proto/net/peer_identity.h"
#include "proto/net/stranger_limit.h"
#include "tests/support/test.h"
#include "tests/unit/proto/locked.h"
#include "tests/unit/proto/raw.h"
#include "tests/unit/proto/sample.h"

static void expect_refused(locked *l, kiln_code code, const char *client, const char *server) {
    if (!l->p.listener) pair_listen(&l->p);
    pair_dial(&l->p);
    pair_run_until(&l->p, &l->p.client.closed);
    assert_int_equal(l->p.client.why, code);
    expect_contains(l->p.client.why_text, client);
    pair_run_until_count(&l->p, &l->p.refused_count, 1);
    expect_contains(l->p.refused_why, server);
    assert_false(l->p.server.opened);
}

static void who_holds_a_key_speaks_over_tls_under_its_name(void **state) {
    locked l;
    locked_init(&l, *state);
    pair_open(&l.p);
    assert_string_equal(l.p.server.peer_node, "tuna"); /* not what the options said */
    const kiln_peer *peer = kiln_conn_peer(l.p.server.conn);
    assert_string_equal(peer->key, "tuner/tuna/1");
    assert_int_equal(peer->role, KILN_PEER_TUNER);
    assert_true(peer->is_loopback);
    expect_contains(peer->address, "127.0.0.1:");
    for (uint64_t i = 0; i < 100; i++)
        expect_ok(kiln_conn_send(l.p.client.conn,
                                 &(kiln_message){.type = KILN_MSG_PING, .ping = {.t_ns = i}}));
    pair_run_until_count(&l.p, &l.p.server.message_count, 100);
    assert_int_equal(l.p.server.t_ns[99], 99);
    locked_deinit(&l);
}

static void the_token_still_does_on_loopback(void **state) {
    locked l;
    locked_init(&l, *state);
    l.p.credentials = (kiln_credentials){.has_token = true};
    memcpy(l.p.credentials.token, l.p.listen.token, KILN_TOKEN_BYTES);
    pair_open(&l.p);
    assert_string_equal(kiln_conn_peer(l.p.server.conn)->key, "");
    locked_deinit(&l);
}

static void a_wrong_secret_is_refused(void **state) {
    locked l;
    locked_init(&l, *state);
    l.p.credentials.key.secret[31] ^= 1;
    expect_refused(&l, KILN_UNAUTHENTICATED, "does not accept the key tuner/tuna/1",
                   "a wrong secret for the key tuner/tuna/1");
    assert_string_equal(l.p.refused.key, "tuner/tuna/1");
    locked_deinit(&l);
}

static void an_unknown_key_is_refused_and_its_name_is_noted(void **state) {
    locked l;
    locked_init(&l, *state);
    l.p.credentials.key.generation = 9;
    expect_refused(&l, KILN_UNAUTHENTICATED, "does not accept the key", "no key of ours");
    assert_string_equal(l.p.refused.key, "tuner/tuna/9");
    expect_contains(l.p.refused.address, "127.0.0.1:");
    locked_deinit(&l);
}

static void a_key_lets_speak_in_its_own_role_only(void **state) {
    locked l;
    locked_init(&l, *state);
    pair_listen(&l.p);
    kiln_conn *conn = pair_dial(&l.p);
    conn->dial.role = KILN_PEER_ADMIN; /* as no program of ours would */
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(l.p.client.why_text, "the tracker refused the connection");
    pair_run_until_count(&l.p, &l.p.refused_count, 1);
    expect_contains(l.p.refused_why, "speak as admin");
    locked_deinit(&l);
}

static void a_key_of_another_role_is_not_even_shown(void **state) {
    locked l;
    locked_init(&l, *state);
    l.p.dial.role = KILN_PEER_ADMIN;
    pair_listen(&l.p);
    pair_dial(&l.p);
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_PERMISSION_DENIED);
    expect_contains(l.p.client.why_text, "the key of a tuner does not let it speak as admin");
    assert_int_equal(kiln_strangers_count(l.p.loop), 0);
    locked_deinit(&l);
}

static void an_admin_may_speak_as_client(void **state) {
    locked l;
    locked_init(&l, *state);
    locked_show(&l, locked_add_key(&l, "admin/ann", 8));
    kiln_keyring_reload(l.ring);
    l.p.dial.role = KILN_PEER_CLIENT;
    pair_open(&l.p);
    assert_string_equal(kiln_conn_peer(l.p.server.conn)->key, "admin/ann/1");
    locked_deinit(&l);
}

static void both_generations_are_valid_while_a_key_is_replaced(void **state) {
    for (int newer = 0; newer < 2; newer++) {
        locked l;
        locked_init(&l, *state);
        kiln_key old = l.p.credentials.key;
        kiln_key young = *locked_add_key(&l, "tuner/tuna", 9);
        kiln_keyring_reload(l.ring);
        locked_show(&l, newer ? &young : &old);
        pair_open(&l.p);
        locked_deinit(&l);
    }
}

static void a_key_lets_speak_under_its_own_name_only(void **state) {
    locked l;
    locked_init(&l, *state);
    pair_listen(&l.p);
    kiln_conn *conn = pair_dial(&l.p);
    conn->dial.node = "somebody-else"; /* as no program of ours would */
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(l.p.client.why_text, "the tracker refused the connection");
    pair_run_until_count(&l.p, &l.p.refused_count, 1);
    expect_contains(l.p.refused_why, "the key of tuna does not let it speak as somebody-else");
    locked_deinit(&l);
}

static void an_insecure_tracker_takes_whoever_is_on_this_machine(void **state) {
    (void)state;
    for (kiln_peer_role role = KILN_PEER_BOARD; role < KILN_PEER_WEB;
         role++) { /* test_web_people */
        pair p;
        pair_init(&p);
        p.listen.token = NULL;
        p.listen.insecure = true;
        p.listen.heartbeat_ms = 500;
        p.credentials = (kiln_credentials){.insecure = true};
        p.dial.role = role;
        pair_open(&p);
        assert_int_equal(kiln_conn_peer(p.server.conn)->role, role);
        pair_deinit(&p);
    }
}

static void a_listener_with_keys_alone_takes_no_plain_text(void **state) {
    locked l;
    locked_init(&l, *state);
    l.p.listen.token = NULL;
    l.p.credentials = (kiln_credentials){0};
    expect_refused(&l, KILN_UNAUTHENTICATED, "one of its keys", "without the token");
    locked_deinit(&l);
}

static void from_afar_only_a_key_will_do(void **state) {
    static const char *const from[][2] = {
        {"192.0.2.7", "false"},       {"127.0.0.9", "true"},         {"::1", "true"},
        {"::ffff:127.0.0.1", "true"}, {"::ffff:192.0.2.7", "false"}, {"2001:db8::1", "false"},
    };
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(from); i++) {
        struct sockaddr_storage address = {0};
        bool is_v6 = strchr(from[i][0], ':') != NULL;
        assert_int_equal(is_v6 ? uv_ip6_addr(from[i][0], 7, (struct sockaddr_in6 *)&address)
                               : uv_ip4_addr(from[i][0], 7, (struct sockaddr_in *)&address),
                         0);
        kiln_peer peer = {0};
        kiln_peer_set_address(&peer, &address);
        assert_int_equal(peer.is_loopback, from[i][1][0] == 't');
        expect_contains(peer.address, from[i][0]);
        expect_contains(peer.address, is_v6 ? "]:7" : ":7");
        kiln_msg_hello hello = {.role = KILN_PEER_ADMIN};
        kiln_listen_options options = {.insecure = true};
        kiln_status st = kiln_peer_check_plain(&peer, &options, &hello);
        assert_int_equal(kiln_status_code(st), peer.is_loopback ? KILN_OK : KILN_UNAUTHENTICATED);
        kiln_status_free(st);
        hello.role = KILN_PEER_BOARD;
        expect_ok(kiln_peer_check_plain(&peer, &options, &hello));
        options.insecure = false;
        expect_error(kiln_peer_check_plain(&peer, &options, &hello), UNAUTHENTICATED,
                     peer.is_loopback ? "without the token" : "from another machine");
    }
}

static void a_tracker_without_keys_says_so(void **state) {
    locked l;
    locked_init(&l, *state);
    l.p.listen.keyring = NULL;
    expect_refused(&l, KILN_UNAUTHENTICATED, "started with --keys", "not Kiln's protocol");
    locked_deinit(&l);
}

static void who_does_not_know_the_key_is_no_tracker(void **state) {
    locked l, other;
    locked_init(&l, *state);
    locked_init(&other, *state);
    locked_add_key(&other, "tuner/tuna", 70); /* an impostor has a file of its own */
    kiln_keyring_reload(other.ring);
    kiln_key name = l.p.credentials.key;
    kiln_keys_revoke(&other.keys, &name);
    locked_add_key(&other, "tuner/tuna", 71);
    locked_show(&other, &l.p.credentials.key);
    other.p.credentials.key.generation = 3;
    kiln_keyring_reload(other.ring);
    expect_refused(&other, KILN_UNAUTHENTICATED, "does not accept", "wrong secret");
    locked_deinit(&other);
    locked_deinit(&l);
}

/* ---- Strangers ---- */

static void hostile_tls_is_dropped_before_it_costs(void **state) {
    const struct {
        kiln_str bytes;
        const char *why;
    } hostile[] = {
        {KILN_STR("\x16\x03\x01\xff\xff\x01\x00\xff\xff"), "a record of 65540 bytes"},
        {KILN_STR("\x16\x03\x01\x00\x08\x01\x01\xff\xff\0\0\0\0"), "a handshake in pieces"},
        {KILN_STR("\x16\x03\x01\x00\x02\x01\x00"), "a handshake in pieces"},
        {KILN_STR("\x16\x03\x01\x00\x00\x16\x03\x01\x00\x00"), "a handshake in pieces"},
        {KILN_STR("\x16\x03\x01\x00\x06\x01\x00\x00\x02\x03\x03"), "no key of ours"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(hostile); i++) {
        locked l;
        locked_init(&l, *state);
        pair_listen(&l.p);
        raw_peer r;
        raw_dial(&r, &l.p);
        raw_send(&r, hostile[i].bytes);
        pair_run_until_count(&l.p, &l.p.refused_count, 1);
        expect_contains(l.p.refused_why, hostile[i].why);
        raw_close(&r);
        locked_deinit(&l);
    }
}

/* What malloc has given out; 0 under a sanitizer, which has its own. */
static size_t bytes_in_use(void) { return mallinfo2().uordblks; }

/* The ClientHello of who holds a key, and then silence: the listener has answered it. */
static void a_stranger_costs_at_most_64_kilobytes(void **state) {
    enum { STRANGERS = 64 };
    static raw_peer r[STRANGERS];
    locked l;
    kiln_str hello = {0};
    locked_init(&l, *state);
    expect_ok(kiln_file_write(l.path,
                              KILN_STR("kiln-keys 1\nboard/a/1 00112233445566778899aabbccddee"
                                       "ff00112233445566778899aabbccddeeff\n"),
                              0600)); /* whose ClientHello it is */
    kiln_keyring_reload(l.ring);
    expect_ok(kiln_file_read("tests/fuzz/corpus/tls/known", 4096, *state, &hello));
    pair_listen(&l.p);
    size_t before = bytes_in_use();
    for (int i = 0; i < STRANGERS; i++) {
        raw_dial(&r[i], &l.p);
        raw_send(&r[i], kiln_str_slice(hello, 1, hello.size));
        raw_wait(&r[i]);
    }
    printf("# a stranger costs %zu bytes\n", (bytes_in_use() - before) / STRANGERS);
    assert_int_equal(l.p.refused_count, 0);
    assert_true(bytes_in_use() - before < STRANGERS * KILN_NET_STRANGER_BYTES);
    for (int i = 0; i < STRANGERS; i++) raw_close(&r[i]);
    pair_run_until_count(&l.p, &l.p.refused_count, STRANGERS);
    locked_deinit(&l);
}

static void an_idle_connection_over_tls_costs_at_most_24_kilobytes(void **state) {
    enum { PAIRS = 64 };
    locked l;
    locked_init(&l, *state);
    pair_open(&l.p); /* what is made once */
    size_t before = bytes_in_use();
    kiln_conn *first_client = l.p.client.conn, *first_server = l.p.server.conn;
    kiln_conn *client[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        l.p.client.opened = l.p.server.opened = false;
        pair_dial(&l.p);
        pair_run_until(&l.p, &l.p.client.opened);
        pair_run_until(&l.p, &l.p.server.opened);
        client[i] = l.p.client.conn;
    }
    size_t each = (bytes_in_use() - before) / (2 * PAIRS); /* both sides are in this process */
    printf("# an idle connection over TLS costs %zu bytes\n", each);
    assert_true(each <= 24 << 10);
    for (int i = 0; i < PAIRS; i++) {
        l.p.client.closed = l.p.server.closed = false;
        kiln_conn_close(client[i], KILN_OK);
        pair_run_until(&l.p, &l.p.client.closed);
        pair_run_until(&l.p, &l.p.server.closed);
    }
    l.p.client.closed = l.p.server.closed = false;
    l.p.client.conn = first_client;
    l.p.server.conn = first_server;
    locked_deinit(&l);
}

static void count_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                         const kiln_msg_welcome *welcome) {
    (void)conn, (void)hello, (void)welcome;
    ++*(uint32_t *)context;
}

static void take_message(void *context, kiln_conn *conn, const kiln_message *message) {
    (void)context;
    kiln_message pong = {.type = KILN_MSG_PONG, .stream = message->stream};
    expect_ok(kiln_conn_send(conn, &pong));
}

static void take_end(void *context, kiln_conn *conn, kiln_status why) {
    (void)context, (void)conn, (void)why;
}

static void a_crowd_that_comes_at_once_waits_for_those_who_are_known(void **state) {
    (void)state;
    enum { CROWD = 3 * KILN_NET_HANDSHAKES_PER_TURN };
    static const kiln_conn_handler handler = {count_opened, take_message, take_end};
    pair p;
    raw_peer known, stranger[CROWD];
    uint32_t opened = 0;
    pair_init(&p);
    p.listen.handler = &handler;
    p.listen.context = &opened;
    pair_listen(&p);
    raw_dial(&known, &p);
    raw_hello(&known, KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    for (uint32_t i = 0; i < CROWD; i++) {
        raw_dial(&stranger[i], &p);
        raw_say_hello(&stranger[i], KILN_PEER_CLIENT, KILN_PROTO_PROVES_TOKEN - 1);
    }
    uint32_t most = 0, turns = 0;
    kiln_timer_start(p.deadline, PAIR_DEADLINE_NS);
    while (opened < 1 + CROWD) {
        uint32_t before = opened;
        kiln_loop_run_once(p.loop);
        assert_false(p.late);
        most = KILN_MAX(most, opened - before);
        turns++;
    }
    assert_in_range(most, 1, KILN_NET_HANDSHAKES_PER_TURN);
    assert_true(turns >= CROWD / KILN_NET_HANDSHAKES_PER_TURN);
    raw_say(&known, &(kiln_message){.type = KILN_MSG_PING, .ping = {.t_ns = 1}});
    raw_expect(&known, KILN_MSG_PONG);
    for (uint32_t i = 0; i < CROWD; i++) raw_close(&stranger[i]);
    raw_close(&known);
    pair_deinit(&p);
}

static void a_crowd_of_silent_peers_keeps_nobody_out(void **state) {
    enum { MOST = 128, CROWD = 200 };
    static raw_peer r[CROWD];
    (void)state;
    pair p;
    pair_init(&p);
    p.listen.strangers_max = MOST;
    pair_listen(&p);
    for (unsigned i = 0; i < CROWD; i++) {
        raw_dial(&r[i], &p);
        kiln_loop_run_once(p.loop); /* the queue of the listener is not what is tested */
    }
    pair_dial(&p);
    pair_run_until(&p, &p.client.opened);
    assert_true(p.refused_count >= CROWD - MOST);
    expect_contains(p.refused_why, "to make room for newer");
    for (unsigned i = 0; i < CROWD; i++) raw_close(&r[i]);
    pair_run_until_count(&p, &p.refused_count, CROWD);
    pair_deinit(&p);
}

/* ---- Who may send what ---- */

/* Every message from every role over a connection of its own: what the table does not allow is
 * answered by PERMISSION_DENIED and not delivered, everything else is delivered. */
static void check_role(kiln_peer_role role, kiln_arena *arena) {
    pair p;
    pair_init(&p);
    p.dial.role = role;
    pair_open(&p);
    uint32_t delivered = 0, refused = 0;
    kiln_message_type type = 0;
    while ((type = kiln_message_next(type))) {
        if (type == KILN_MSG_KEY_TAKEN) continue; /* the connection's own (test_key_rotation.c) */
        kiln_message message = sample_message(type, SAMPLE_EMPTY, arena);
        p.client.last_error = KILN_OK;
        expect_ok(kiln_conn_send(p.client.conn, &message));
        if (kiln_message_may_send(type, role)) {
            pair_run_until_count(&p, &p.server.message_count, ++delivered);
            assert_int_equal(p.server.type[delivered - 1], type);
        } else {
            pair_run_until_count(&p, &p.client.message_count, ++refused);
            assert_int_equal(p.client.last_error, KILN_PERMISSION_DENIED);
        }
    }
    assert_int_equal(p.server.message_count, delivered);
    assert_int_equal(p.client.message_count, refused);
    assert_true(refused > 0);
    pair_deinit(&p);
}

static void the_table_of_permissions_holds_on_the_wire(void **state) {
    for (kiln_peer_role role = KILN_PEER_BOARD; role < KILN_PEER_COUNT; role++)
        check_role(role, *state);
}

static void nobody_dials_as_a_tracker(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    p.dial.role = KILN_PEER_TRACKER;
    pair_listen(&p);
    pair_dial(&p);
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, KILN_INVALID_ARGUMENT);
    pair_deinit(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(who_holds_a_key_speaks_over_tls_under_its_name),
        test_with_arena(the_token_still_does_on_loopback),
        test_with_arena(a_wrong_secret_is_refused),
        test_with_arena(an_unknown_key_is_refused_and_its_name_is_noted),
        test_with_arena(a_key_lets_speak_in_its_own_role_only),
        test_with_arena(a_key_of_another_role_is_not_even_shown),
        test_with_arena(an_admin_may_speak_as_client),
        test_with_arena(both_generations_are_valid_while_a_key_is_replaced),
        test_with_arena(a_key_lets_speak_under_its_own_name_only),
        cmocka_unit_test(an_insecure_tracker_takes_whoever_is_on_this_machine),
        test_with_arena(a_listener_with_keys_alone_takes_no_plain_text),
        cmocka_unit_test(from_afar_only_a_key_will_do),
        test_with_arena(a_tracker_without_keys_says_so),
        test_with_arena(who_does_not_know_the_key_is_no_tracker),
        test_with_arena(hostile_tls_is_dropped_before_it_costs),
        test_with_arena(a_stranger_costs_at_most_64_kilobytes),
        test_with_arena(an_idle_connection_over_tls_costs_at_most_24_kilobytes),
        cmocka_unit_test(a_crowd_that_comes_at_once_waits_for_those_who_are_known),
        cmocka_unit_test(a_crowd_of_silent_peers_keeps_nobody_out),
        test_with_arena(the_table_of_permissions_holds_on_the_wire),
        cmocka_unit_test(nobody_dials_as_a_tracker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
