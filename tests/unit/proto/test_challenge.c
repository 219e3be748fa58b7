#include <string.h>
#include <unistd.h>

#include "proto/net/challenge.h"
#include "proto/net/conn.h"
#include "tests/support/test.h"
#include "tests/unit/proto/raw.h"

static const uint8_t token[KILN_TOKEN_BYTES] = {9, 8, 7};
static const uint8_t nonces[2][KILN_NONCE_BYTES] = {{1}, {2}};

static kiln_proof_terms sample_terms(void) {
    return (kiln_proof_terms){.peer_nonce = nonces[0],
                              .tracker_nonce = nonces[1],
                              .role = KILN_PEER_CLIENT,
                              .node = KILN_STR("ann"),
                              .address = "127.0.0.1:9477"};
}

/* The bytes are on the wire: computed once by Python's hmac from the words of messages.def. */
static void a_proof_is_the_documented_hmac(void **state) {
    (void)state;
    static const char *const expected[] = {
        "a6011fe8c5f3416bcf982f7b430c7cae1d0ea2472ab059d2064899ecd2df5f10",
        "680de71d66b959eaea9a98dfb593be4b67e3d1ec098f59e831a3d73ae835fc0a",
    };
    kiln_proof_terms terms = sample_terms();
    for (kiln_prover who = KILN_PROVER_TRACKER; who <= KILN_PROVER_PEER; who++) {
        kiln_digest proof;
        char text[KILN_DIGEST_TEXT];
        kiln_prove(token, who, &terms, &proof);
        kiln_digest_print(&proof, text);
        assert_string_equal(text, expected[who]);
    }
}

static void a_proof_depends_on_all_its_terms(void **state) {
    (void)state;
    static const uint8_t other[KILN_TOKEN_BYTES] = {9, 8, 6};
    kiln_digest proof[8];
    uint32_t count = 0;
    for (int change = 0; change < 8; change++) {
        kiln_proof_terms terms = sample_terms();
        if (change == 1) terms.peer_nonce = nonces[1];
        if (change == 2) terms.tracker_nonce = nonces[0];
        if (change == 3) terms.role = KILN_PEER_ADMIN;
        if (change == 4) terms.node = KILN_STR("an");
        if (change == 5) terms.address = "127.0.0.1:9478";
        kiln_prove(change == 6 ? other : token,
                   change == 7 ? KILN_PROVER_PEER : KILN_PROVER_TRACKER, &terms, &proof[count++]);
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < i; k++) assert_false(kiln_digest_equal(&proof[i], &proof[k]));
}

static void both_ends_print_the_same_address(void **state) {
    (void)state;
    static const char *const row[][2] = {
        {"127.0.0.1", "127.0.0.1:9"}, {"::ffff:127.0.0.1", "127.0.0.1:9"}, {"::1", "[::1]:9"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        struct sockaddr_storage address = {0};
        char text[KILN_ENDPOINT_TEXT];
        int code = strchr(row[i][0], ':')
                       ? uv_ip6_addr(row[i][0], 9, (struct sockaddr_in6 *)&address)
                       : uv_ip4_addr(row[i][0], 9, (struct sockaddr_in *)&address);
        assert_int_equal(code, 0);
        kiln_endpoint_print(&address, text);
        assert_string_equal(text, row[i][1]);
    }
}

/* ---- Over sockets ---- */

/* All that a dialling end has sent to who listens in a tracker's place, until it hung up. */
static kiln_str all_that_was_sent(raw_peer *r) {
    kiln_strbuf all = {0};
    kiln_frame frame;
    while (raw_read(r, &frame)) kiln_strbuf_str(&all, frame.body);
    kiln_str copy = {kiln_arena_copy(&r->arena, all.data, all.size), all.size};
    kiln_strbuf_deinit(&all);
    return copy;
}

static bool contains(kiln_str text, const void *part, size_t size) {
    return memmem(text.data, text.size, part, size) != NULL;
}

static void expect_impostor(const kiln_message *answer, const char *why) {
    pair p;
    raw_peer r;
    pair_init(&p);
    int listener = raw_listen(&p);
    pair_dial(&p);
    raw_accept(&r, &p, listener);
    raw_say(&r, answer);
    kiln_str sent = all_that_was_sent(&r);
    assert_true(sent.size > KILN_NONCE_BYTES); /* a HELLO at least */
    assert_false(contains(sent, p.listen.token, KILN_TOKEN_BYTES));
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(p.client.why_text, why);
    assert_false(p.client.opened);
    raw_close(&r);
    close(listener);
    pair_deinit(&p);
}

static void an_impostor_gets_no_secret_and_no_connection(void **state) {
    (void)state;
    const kiln_message welcome = {
        .type = KILN_MSG_WELCOME,
        .welcome = {.version = KILN_PROTO_VERSION_MAX, .boot = KILN_STR("b"), .heartbeat_ms = 1}};
    kiln_message old = welcome;
    old.welcome.version = 4;
    const kiln_message challenge = {.type = KILN_MSG_CHALLENGE,
                                    .challenge = {.nonce = {(const char *)nonces[0], 32}}};
    const kiln_message no =
        kiln_message_error(KILN_UNAUTHENTICATED, 0, "this tracker wants the token");
    expect_impostor(&welcome, "has not proven");
    expect_impostor(&old, "update the tracker");
    expect_impostor(&challenge, "does not know the token");
    expect_impostor(&no, "update the tracker");
}

/* It stands between a peer that dials it and the tracker on its own port, and changes nothing. */
static void a_relay_on_another_port_is_noticed(void **state) {
    (void)state;
    pair p;
    raw_peer to_peer, to_tracker;
    kiln_frame frame;
    pair_init(&p);
    pair_listen(&p);
    raw_dial(&to_tracker, &p);
    int listener = raw_listen(&p); /* changes the port that is dialled */
    pair_dial(&p);
    raw_accept(&to_peer, &p, listener);
    assert_true(raw_read(&to_peer, &frame));
    kiln_strbuf bytes = {0};
    kiln_frame_write(&bytes, frame.type, frame.flags, frame.stream, frame.body);
    raw_send(&to_tracker, kiln_strbuf_view(&bytes));
    kiln_message challenge = raw_expect(&to_tracker, KILN_MSG_CHALLENGE);
    raw_say(&to_peer, &challenge);
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(p.client.why_text, "forwarded port");
    assert_true(raw_read(&to_peer, &frame));
    assert_int_equal(frame.type, KILN_MSG_ERROR); /* and no PROOF */
    assert_false(p.server.opened);
    kiln_strbuf_deinit(&bytes);
    raw_close(&to_peer);
    raw_close(&to_tracker);
    close(listener);
    pair_deinit(&p);
}

/* What strangers are told does not say how far they came. */
static void expect_turned_away(uint32_t version, kiln_str hello_token, kiln_str nonce,
                               const kiln_message *then, const char *logged) {
    static char first[KILN_MESSAGES_PROSE];
    pair p;
    raw_peer r;
    pair_init(&p);
    pair_listen(&p);
    raw_dial(&r, &p);
    kiln_message hello = {.type = KILN_MSG_HELLO,
                          .hello = {.version_min = 1,
                                    .version_max = version,
                                    .role = KILN_PEER_ADMIN,
                                    .node = KILN_STR("raw"),
                                    .boot = KILN_STR("raw-1"),
                                    .token = hello_token,
                                    .nonce = nonce}};
    raw_say(&r, &hello);
    if (then) {
        raw_expect(&r, KILN_MSG_CHALLENGE);
        raw_say(&r, then);
    }
    kiln_message error = raw_expect(&r, KILN_MSG_ERROR);
    assert_int_equal(error.error.code, KILN_UNAUTHENTICATED);
    if (!first[0]) memcpy(first, error.error.text.data, error.error.text.size);
    expect_str(error.error.text, first);
    pair_run_until_count(&p, &p.refused_count, 1);
    expect_contains(p.refused_why, logged);
    assert_false(p.server.opened);
    raw_close(&r);
    pair_deinit(&p);
}

static void strangers_are_all_told_the_same(void **state) {
    (void)state;
    const kiln_str wrong = {(const char *)nonces[0], 32}, nonce = {(const char *)nonces[1], 32};
    const kiln_message proof = {.type = KILN_MSG_PROOF};
    expect_turned_away(4, (kiln_str){0}, (kiln_str){0}, NULL, "without the token");
    expect_turned_away(4, wrong, (kiln_str){0}, NULL, "not this tracker's");
    expect_turned_away(4, wrong, nonce, NULL, "not this tracker's");
    expect_turned_away(5, (kiln_str){0}, (kiln_str){0}, NULL, "without the token");
    expect_turned_away(5, (kiln_str){0}, kiln_str_slice(nonce, 0, 31), NULL, "without the token");
    expect_turned_away(5, (kiln_str){0}, nonce, &proof, "a wrong proof");
}

static void a_challenge_is_answered_by_nothing_but_proof(void **state) {
    (void)state;
    pair p;
    raw_peer r;
    pair_init(&p);
    pair_listen(&p);
    for (int twice = 0; twice < 2; twice++) {
        raw_dial(&r, &p);
        raw_say_hello(&r, KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
        raw_expect(&r, KILN_MSG_CHALLENGE);
        if (twice)
            raw_say_hello(&r, KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
        else
            raw_say(&r, &(kiln_message){.type = KILN_MSG_PING});
        assert_int_equal(raw_expect(&r, KILN_MSG_ERROR).error.code, KILN_DATA_LOSS);
        raw_close(&r);
    }
    pair_run_until_count(&p, &p.refused_count, 2);
    assert_false(p.server.opened);
    pair_deinit(&p);
}

/* The token itself is taken from programs of before, and from no other. */
static void a_token_that_is_sent_is_taken_from_version_4_only(void **state) {
    (void)state;
    for (uint32_t version = 1; version < KILN_PROTO_PROVES_TOKEN; version++) {
        pair p;
        raw_peer r;
        pair_init(&p);
        pair_listen(&p);
        raw_dial(&r, &p);
        raw_hello(&r, KILN_PEER_CLIENT, version);
        pair_run_until(&p, &p.server.opened);
        assert_true(kiln_conn_peer(p.server.conn)->is_owner);
        raw_close(&r);
        pair_run_until(&p, &p.server.closed);
        pair_deinit(&p);
    }
    pair p;
    pair_init(&p);
    expect_turned_away(5, (kiln_str){(const char *)p.listen.token, KILN_TOKEN_BYTES}, (kiln_str){0},
                       NULL, "not this tracker's");
    pair_deinit(&p);
}

static void an_insecure_tracker_that_knows_the_token_proves_it(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    p.listen.insecure = true;
    pair_open(&p);
    assert_true(p.client.conn->proven);
    assert_true(kiln_conn_peer(p.server.conn)->is_owner);
    pair_deinit(&p);
}

static void a_challenge_that_nobody_asked_for_is_refused(void **state) {
    (void)state;
    pair p;
    raw_peer r;
    pair_init(&p);
    p.credentials = (kiln_credentials){.insecure = true};
    int listener = raw_listen(&p);
    pair_dial(&p);
    raw_accept(&r, &p, listener);
    raw_say(&r, &(kiln_message){.type = KILN_MSG_CHALLENGE,
                                .challenge = {.nonce = {(const char *)nonces[0], 32}}});
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, KILN_DATA_LOSS);
    raw_close(&r);
    close(listener);
    pair_deinit(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proof_is_the_documented_hmac),
        cmocka_unit_test(a_proof_depends_on_all_its_terms),
        cmocka_unit_test(both_ends_print_the_same_address),
        cmocka_unit_test(an_impostor_gets_no_secret_and_no_connection),
        cmocka_unit_test(a_relay_on_another_port_is_noticed),
        cmocka_unit_test(strangers_are_all_told_the_same),
        cmocka_unit_test(a_challenge_is_answered_by_nothing_but_proof),
        cmocka_unit_test(a_token_that_is_sent_is_taken_from_version_4_only),
        cmocka_unit_test(an_insecure_tracker_that_knows_the_token_proves_it),
        cmocka_unit_test(a_challenge_that_nobody_asked_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
