/* TLS on bytes: two ends in one process, and what happens to the bytes between them. */
#include "proto/net/tls.h"

#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

typedef struct wires {
    kiln_loop *loop;
    kiln_keyring *ring;
    kiln_tls_context *context;
    char *folder;
    kiln_key key;
    kiln_tls *dialled, *accepted;
    kiln_strbuf to_tracker, to_node; /* under way */
    kiln_strbuf at_tracker, at_node; /* arrived, decrypted */
} wires;

static void set_up(wires *w, kiln_arena *arena) {
    if (!kiln_tls_supported()) skip_because("this build has no OpenSSL");
    *w = (wires){.folder = make_folder(arena)};
    char *path = kiln_arena_printf(arena, "%s/keys", w->folder);
    kiln_keys keys = {0};
    expect_ok(kiln_file_write(path, KILN_STR("kiln-keys 1\nboard/a/1 " SECRET "\n"), 0600));
    expect_ok(kiln_keys_read(path, &keys));
    w->key = keys.key.data[0];
    kiln_keys_deinit(&keys);
    expect_ok(kiln_loop_create(&w->loop));
    expect_ok(kiln_keyring_open(w->loop, path, NULL, NULL, &w->ring));
    expect_ok(kiln_tls_context_create(&w->context));
    w->accepted = kiln_tls_accept(w->context, w->ring);
    w->dialled = kiln_tls_dial(w->context, &w->key);
    expect_ok(kiln_tls_begin(w->dialled, &w->to_tracker));
}

static void tear_down(wires *w) {
    kiln_tls_destroy(w->dialled);
    kiln_tls_destroy(w->accepted);
    kiln_tls_context_destroy(w->context);
    kiln_keyring_close(w->ring);
    kiln_loop_destroy(w->loop);
    kiln_strbuf *buffer[] = {&w->to_tracker, &w->to_node, &w->at_tracker, &w->at_node};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(buffer); i++) kiln_strbuf_deinit(buffer[i]);
    remove_folder(w->folder);
}

/* Carries everything that is under way to one side, in pieces of `step` bytes. */
static kiln_status carry(kiln_tls *to, kiln_strbuf *wire, kiln_strbuf *plain, kiln_strbuf *reply,
                         size_t step) {
    kiln_strbuf now = *wire;
    kiln_status st = KILN_OK;
    *wire = (kiln_strbuf){0};
    for (size_t at = 0; !st && at < now.size; at += step)
        st = kiln_tls_receive(to, kiln_str_slice(kiln_strbuf_view(&now), at, at + step), plain,
                              reply);
    kiln_strbuf_deinit(&now);
    return st;
}

static kiln_status to_tracker(wires *w, size_t step) {
    return carry(w->accepted, &w->to_tracker, &w->at_tracker, &w->to_node, step);
}

static kiln_status to_node(wires *w, size_t step) {
    return carry(w->dialled, &w->to_node, &w->at_node, &w->to_tracker, step);
}

static void exchange(wires *w, size_t step) {
    expect_ok(to_tracker(w, step));
    expect_ok(to_node(w, step));
    assert_true(kiln_tls_ready(w->dialled));
    expect_ok(to_tracker(w, step));
    assert_true(kiln_tls_ready(w->accepted));
}

static void both_ends_get_what_was_sent_whatever_the_pieces(void **state) {
    static const size_t step[] = {1, 7, 100, 1 << 20};
    static char large[200000];
    for (size_t i = 0; i < KILN_ARRAY_COUNT(step); i++) {
        wires w;
        set_up(&w, *state);
        exchange(&w, step[i]);
        assert_string_equal(kiln_tls_key(w.accepted)->node, "a");
        assert_string_equal(kiln_tls_claim(w.accepted), "board/a/1");
        for (size_t k = 0; k < sizeof large; k++) large[k] = (char)(k * 7);
        expect_ok(kiln_tls_send(w.dialled, (kiln_str){large, sizeof large}, &w.to_tracker));
        expect_ok(kiln_tls_send(w.accepted, KILN_STR("short"), &w.to_node));
        expect_ok(to_tracker(&w, step[i]));
        expect_ok(to_node(&w, step[i]));
        assert_int_equal(w.at_tracker.size, sizeof large);
        assert_memory_equal(w.at_tracker.data, large, sizeof large);
        assert_string_equal(w.at_node.data, "short");
        tear_down(&w);
    }
}

static void what_follows_the_handshake_at_once_is_not_lost(void **state) {
    wires w;
    set_up(&w, *state);
    expect_ok(to_tracker(&w, 1 << 20));
    expect_ok(to_node(&w, 1 << 20)); /* the dialling side is ready and speaks in the same write */
    expect_ok(kiln_tls_send(w.dialled, KILN_STR("hello"), &w.to_tracker));
    expect_ok(to_tracker(&w, 1 << 20));
    assert_string_equal(w.at_tracker.data, "hello");
    tear_down(&w);
}

/* ---- New keys on a long connection ---- */

static uint32_t record_count(const kiln_strbuf *wire) {
    uint32_t count = 0;
    for (size_t at = 0; at < wire->size; count++) {
        const uint8_t *head = (const uint8_t *)wire->data + at;
        assert_int_equal(head[0], 0x17); /* encrypted */
        at += 5 + ((size_t)head[3] << 8 | head[4]);
    }
    return count;
}

/* Records that one short message from each side takes: with KeyUpdate there is one more. */
static void expect_records(wires *w, uint32_t of_node, uint32_t of_tracker) {
    kiln_strbuf_reset(&w->at_tracker);
    kiln_strbuf_reset(&w->at_node);
    expect_ok(kiln_tls_send(w->dialled, KILN_STR("ping"), &w->to_tracker));
    assert_int_equal(record_count(&w->to_tracker), of_node);
    expect_ok(to_tracker(w, 7));
    assert_string_equal(w->at_tracker.data, "ping");
    expect_ok(kiln_tls_send(w->accepted, KILN_STR("pong"), &w->to_node));
    assert_int_equal(record_count(&w->to_node), of_tracker);
    expect_ok(to_node(w, 7));
    assert_string_equal(w->at_node.data, "pong");
}

static void both_directions_get_new_keys_after_so_many_bytes(void **state) {
    static char piece[1000];
    wires w;
    kiln_tls_context *patient = NULL; /* the tracker's: it only answers */
    set_up(&w, *state);
    expect_ok(kiln_tls_context_create(&patient));
    kiln_tls_destroy(w.accepted);
    w.accepted = kiln_tls_accept(patient, w.ring);
    exchange(&w, 1000);
    expect_records(&w, 1, 1);
    kiln_tls_context_set_rekey(w.context, 10000, UINT64_MAX);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++) {
            expect_ok(kiln_tls_send(w.dialled, (kiln_str){piece, sizeof piece}, &w.to_tracker));
            assert_int_equal(record_count(&w.to_tracker), 1);
            expect_ok(to_tracker(&w, 1 << 20));
        }
        for (int i = 0; i < 3; i++) {
            expect_ok(kiln_tls_send(w.dialled, (kiln_str){piece, sizeof piece}, &w.to_tracker));
            const bool updates = record_count(&w.to_tracker) == 2;
            expect_ok(to_tracker(&w, 1 << 20));
            if (updates) break;
            assert_int_not_equal(i, 2);
        }
        /* The tracker answers by new keys of its own, and both go on. */
        expect_records(&w, 1, 2);
        expect_records(&w, 1, 1);
    }
    tear_down(&w);
    kiln_tls_context_destroy(patient);
}

static void and_after_so_long(void **state) {
    wires w;
    set_up(&w, *state);
    exchange(&w, 1000);
    kiln_tls_context_set_rekey(w.context, UINT64_MAX, 1); /* a nanosecond */
    expect_records(&w, 2, 2);
    kiln_tls_context_set_rekey(w.context, UINT64_MAX, UINT64_MAX);
    kiln_strbuf_reset(&w.at_tracker);
    tear_down(&w);
}

/* An unknown name, an old generation, a wrong secret: to who shows it they are one. */
static void a_refusal_does_not_say_which_keys_there_are(void **state) {
    static const char *const name[] = {"board/a/1", "board/a/2", "board/b/1", "admin/a/1"};
    char first[64] = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) {
        wires w;
        kiln_key key;
        set_up(&w, *state);
        kiln_tls_destroy(w.dialled);
        kiln_strbuf_reset(&w.to_tracker);
        expect_ok(kiln_key_name_parse(kiln_str_from(name[i]), &key));
        memset(key.secret, 9, sizeof key.secret);
        w.dialled = kiln_tls_dial(w.context, &key);
        expect_ok(kiln_tls_begin(w.dialled, &w.to_tracker));
        kiln_status st = to_tracker(&w, 1 << 20);
        assert_int_equal(kiln_status_code(st), KILN_UNAUTHENTICATED);
        expect_contains(kiln_status_text(st), i == 0 ? "a wrong secret" : "no key of ours");
        kiln_status_free(st);
        assert_in_range(w.to_node.size, 1, sizeof first);
        if (i == 0) memcpy(first, w.to_node.data, w.to_node.size);
        assert_memory_equal(first, w.to_node.data, w.to_node.size); /* the alert */
        assert_int_equal(first[w.to_node.size], 0);
        tear_down(&w);
    }
}

static void nothing_is_readable_on_the_wire(void **state) {
    wires w;
    set_up(&w, *state);
    exchange(&w, 1000);
    expect_ok(kiln_tls_send(w.dialled, KILN_STR("a secret of the trade"), &w.to_tracker));
    assert_null(memmem(w.to_tracker.data, w.to_tracker.size, "secret", 6));
    tear_down(&w);
}

static void a_changed_byte_is_found_out(void **state) {
    wires w;
    set_up(&w, *state);
    exchange(&w, 1000);
    expect_ok(kiln_tls_send(w.dialled, KILN_STR("pay 1"), &w.to_tracker));
    w.to_tracker.data[w.to_tracker.size - 3] ^= 1;
    expect_error(to_tracker(&w, 1000), DATA_LOSS, "TLS");
    assert_int_equal(w.at_tracker.size, 0);
    assert_true(w.to_node.size > 0); /* the peer is told */
    expect_error(to_node(&w, 1000), DATA_LOSS, "bad record mac");
    tear_down(&w);
}

static void a_record_that_comes_twice_is_found_out(void **state) {
    wires w;
    set_up(&w, *state);
    exchange(&w, 1000);
    expect_ok(kiln_tls_send(w.dialled, KILN_STR("pay 1"), &w.to_tracker));
    kiln_str once = kiln_strbuf_view(&w.to_tracker);
    char *copy = kiln_arena_copy(*state, once.data, once.size);
    expect_ok(to_tracker(&w, 1000));
    kiln_strbuf_append(&w.to_tracker, copy, once.size);
    expect_error(to_tracker(&w, 1000), DATA_LOSS, "TLS");
    tear_down(&w);
}

static void a_changed_handshake_is_found_out_by_both(void **state) {
    wires w;
    set_up(&w, *state);
    w.to_tracker.data[20] ^= 1; /* a byte of the client's random: what the key signs */
    expect_error(to_tracker(&w, 1000), UNAUTHENTICATED, "wrong secret");
    assert_false(kiln_tls_ready(w.accepted));
    expect_error(to_node(&w, 1000), UNAUTHENTICATED, "does not accept the key board/a/1");
    tear_down(&w);
}

static void an_impostor_cannot_answer(void **state) {
    wires w, other;
    set_up(&w, *state);
    set_up(&other, *state);
    other.key.secret[0] ^= 1; /* same name, another secret: of a tracker that is none of ours */
    kiln_tls_destroy(other.dialled);
    other.dialled = kiln_tls_dial(other.context, &other.key);
    kiln_strbuf_reset(&other.to_tracker);
    expect_ok(kiln_tls_begin(other.dialled, &other.to_tracker));
    expect_error(to_tracker(&other, 1000), UNAUTHENTICATED, "wrong secret");
    /* An honest answer to somebody else's ClientHello does not fit ours either. */
    expect_ok(to_tracker(&w, 1000));
    kiln_status st = carry(other.dialled, &w.to_node, &other.at_node, &other.to_tracker, 1000);
    assert_non_null(st);
    assert_false(kiln_tls_ready(other.dialled));
    kiln_status_free(st);
    tear_down(&other);
    tear_down(&w);
}

static void a_name_that_is_none_is_shown_harmlessly(void **state) {
    wires w;
    set_up(&w, *state);
    kiln_tls_destroy(w.dialled);
    memcpy(w.key.node, "a\x1b[2J b", 8);
    w.dialled = kiln_tls_dial(w.context, &w.key);
    kiln_strbuf_reset(&w.to_tracker);
    expect_ok(kiln_tls_begin(w.dialled, &w.to_tracker));
    expect_error(to_tracker(&w, 1000), UNAUTHENTICATED, "no key of ours");
    assert_string_equal(kiln_tls_claim(w.accepted), "board/a?[2J?b/1");
    assert_null(kiln_tls_key(w.accepted));
    tear_down(&w);
}

static void a_plain_answer_says_that_the_tracker_has_no_keys(void **state) {
    wires w;
    set_up(&w, *state);
    kiln_strbuf_str(&w.to_node, KILN_STR("KLN1\x05 and more"));
    expect_error(to_node(&w, 3), UNAUTHENTICATED, "started with --keys");
    tear_down(&w);
}

static void a_record_that_is_too_large_for_a_stranger_is_refused(void **state) {
    wires w;
    set_up(&w, *state);
    kiln_strbuf_reset(&w.to_tracker);
    kiln_strbuf_str(&w.to_tracker, KILN_STR("\x16\x03\x01\x20\x00\x01\x00\x1f\xfc"));
    expect_error(to_tracker(&w, 2), DATA_LOSS, "a record of 8197 bytes");
    tear_down(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(both_ends_get_what_was_sent_whatever_the_pieces),
        test_with_arena(what_follows_the_handshake_at_once_is_not_lost),
        test_with_arena(both_directions_get_new_keys_after_so_many_bytes),
        test_with_arena(and_after_so_long),
        test_with_arena(a_refusal_does_not_say_which_keys_there_are),
        test_with_arena(nothing_is_readable_on_the_wire),
        test_with_arena(a_changed_byte_is_found_out),
        test_with_arena(a_record_that_comes_twice_is_found_out),
        test_with_arena(a_changed_handshake_is_found_out_by_both),
        test_with_arena(an_impostor_cannot_answer),
        test_with_arena(a_name_that_is_none_is_shown_harmlessly),
        test_with_arena(a_plain_answer_says_that_the_tracker_has_no_keys),
        test_with_arena(a_record_that_is_too_large_for_a_stranger_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
