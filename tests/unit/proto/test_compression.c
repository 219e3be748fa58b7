#include "proto/net/compression.h"

#include <string.h>

#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/unit/proto/raw.h"

#define needs_zstd() \
    if (!kiln_compression_supported()) skip_because("this build has no zstd")

static void what_repeats_gets_shorter_and_comes_back(void **state) {
    (void)state;
    needs_zstd();
    static char text[60000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = "kernel"[i % 6];
    kiln_strbuf out = {0}, back = {0};
    assert_true(kiln_compress((kiln_str){text, sizeof text}, &out));
    assert_true(out.size < sizeof text / 100);
    expect_ok(kiln_decompress(kiln_strbuf_view(&out), sizeof text, &back));
    assert_int_equal(back.size, sizeof text);
    assert_memory_equal(back.data, text, sizeof text);
    kiln_strbuf_deinit(&back);
    expect_error(kiln_decompress(kiln_strbuf_view(&out), sizeof text - 1, &back), DATA_LOSS,
                 "more than");
    for (size_t size = 0; size < out.size; size++)
        expect_error(kiln_decompress((kiln_str){out.data, size}, sizeof text, &back), DATA_LOSS,
                     "");
    assert_int_equal(back.size, 0);
    kiln_strbuf_deinit(&out);
}

static void noise_stays_as_it_is(void **state) {
    (void)state;
    needs_zstd();
    uint64_t noise[1000];
    kiln_rand r;
    kiln_strbuf out = {0};
    kiln_rand_init(&r, 1);
    for (size_t i = 0; i < 1000; i++) noise[i] = kiln_rand_u64(&r);
    assert_false(kiln_compress((kiln_str){(const char *)noise, sizeof noise}, &out));
    assert_int_equal(out.size, 0);
}

static void a_size_that_is_not_said_is_refused(void **state) {
    (void)state;
    needs_zstd();
    kiln_strbuf back = {0};
    /* A frame whose header leaves the size out, and one that claims 2^60 bytes. */
    expect_error(kiln_decompress(KILN_STR("\x28\xb5\x2f\xfd\x00\x58\x01\x00\x00"), 1 << 16, &back),
                 DATA_LOSS, "of no size");
    expect_error(
        kiln_decompress(KILN_STR("\x28\xb5\x2f\xfd\xe0\0\0\0\0\0\0\0\x10\x01\0\0"), 1 << 16, &back),
        DATA_LOSS, "more than");
}

/* HELLO with compression, then QUERY-sized prose both ways. */
static void frames_are_compressed_between_peers_that_agree(void **state) {
    (void)state;
    needs_zstd();
    static char prose[KILN_MESSAGES_PROSE];
    memset(prose, 'x', sizeof prose);
    pair p;
    raw_peer r;
    kiln_frame frame;
    pair_init(&p);
    p.listen.insecure = true;
    pair_listen(&p);
    raw_dial(&r, &p);
    kiln_message hello = {.type = KILN_MSG_HELLO,
                          .hello = {.version_min = 1,
                                    .version_max = 2,
                                    .role = KILN_PEER_CLIENT,
                                    .node = KILN_STR("n"),
                                    .boot = KILN_STR("b"),
                                    .features = KILN_WIRE_ZSTD | 1u << 20}};
    raw_say(&r, &hello);
    assert_int_equal(raw_expect(&r, KILN_MSG_WELCOME).welcome.features, KILN_WIRE_ZSTD);
    pair_run_until(&p, &p.server.opened);
    kiln_message away = {.type = KILN_MSG_GOAWAY, .goaway = {.reason = {prose, sizeof prose}}};
    expect_ok(kiln_conn_send(p.server.conn, &away));
    assert_true(raw_read(&r, &frame));
    assert_int_equal(frame.flags, KILN_FRAME_ZSTD);
    assert_true(frame.body.size < 200);
    kiln_strbuf again = {0};
    kiln_frame_write(&again, frame.type, frame.flags, 0, frame.body); /* back as it came */
    raw_send(&r, kiln_strbuf_view(&again));
    pair_run_until_count(&p, &p.server.message_count, 1);
    assert_int_equal(p.server.type[0], KILN_MSG_GOAWAY);
    kiln_strbuf_reset(&again);
    kiln_frame_write(&again, KILN_MSG_PING, KILN_FRAME_ZSTD, 0, KILN_STR("junk"));
    raw_send(&r, kiln_strbuf_view(&again));
    pair_run_until(&p, &p.server.closed);
    assert_int_equal(p.server.why, KILN_DATA_LOSS);
    kiln_strbuf_deinit(&again);
    raw_close(&r);
    pair_deinit(&p);
}

/* More messages than a turn compresses: all arrive, the last ones as they are. */
static void a_turn_compresses_so_much_and_no_more(void **state) {
    enum { BYTES_MAX = 512 << 10, COUNT = 3 * BYTES_MAX / KILN_MESSAGES_PROSE };
    (void)state;
    needs_zstd();
    static char prose[KILN_MESSAGES_PROSE];
    memset(prose, 'x', sizeof prose);
    pair p;
    pair_init(&p);
    pair_open(&p);
    const kiln_message away = {.type = KILN_MSG_GOAWAY,
                               .goaway = {.reason = {prose, sizeof prose}}};
    const kiln_thread_work before = *kiln_thread_work_here();
    for (int i = 0; i < COUNT; i++) expect_ok(kiln_conn_send(p.client.conn, &away));
    const uint64_t compressed = kiln_thread_work_since(&before).compressed_bytes;
    assert_true(compressed > 0 && compressed <= BYTES_MAX);
    pair_run_until_count(&p, &p.server.message_count, COUNT);
    pair_deinit(&p);
}

static void who_did_not_agree_gets_and_may_send_none(void **state) {
    (void)state;
    static char prose[KILN_MESSAGES_PROSE];
    memset(prose, 'x', sizeof prose);
    pair p;
    raw_peer r;
    kiln_frame frame;
    pair_init(&p);
    pair_listen(&p);
    raw_dial(&r, &p);
    raw_hello(&r, KILN_PEER_CLIENT, 2);
    pair_run_until(&p, &p.server.opened);
    kiln_message away = {.type = KILN_MSG_GOAWAY, .goaway = {.reason = {prose, sizeof prose}}};
    expect_ok(kiln_conn_send(p.server.conn, &away));
    assert_true(raw_read(&r, &frame));
    assert_int_equal(frame.flags, 0);
    kiln_strbuf compressed = {0};
    kiln_frame_write(&compressed, KILN_MSG_PING, KILN_FRAME_ZSTD, 0, KILN_STR("x"));
    raw_send(&r, kiln_strbuf_view(&compressed));
    pair_run_until(&p, &p.server.closed);
    expect_contains(p.server.why_text, "not agreed on");
    kiln_strbuf_deinit(&compressed);
    raw_close(&r);
    pair_deinit(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_repeats_gets_shorter_and_comes_back),
        cmocka_unit_test(noise_stays_as_it_is),
        cmocka_unit_test(a_size_that_is_not_said_is_refused),
        cmocka_unit_test(frames_are_compressed_between_peers_that_agree),
        cmocka_unit_test(a_turn_compresses_so_much_and_no_more),
        cmocka_unit_test(who_did_not_agree_gets_and_may_send_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
