#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "proto/net/keyring.h"
#include "proto/net/loop_state.h"
#include "tests/support/test.h"
#include "tests/unit/proto/locked.h"

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

typedef struct fixture {
    kiln_arena *arena;
    char *folder, *path;
    kiln_loop *loop;
    kiln_keyring *ring;
    uint32_t changes;
    kiln_code last;
} fixture;

static void on_changed(void *context, kiln_status status) {
    fixture *f = context;
    f->changes++;
    f->last = kiln_status_code(status);
}

static void set_up(fixture *f, kiln_arena *arena) {
    *f = (fixture){.arena = arena, .folder = make_folder(arena)};
    f->path = kiln_arena_printf(arena, "%s/keys", f->folder);
    expect_ok(kiln_loop_create(&f->loop));
}

static void tear_down(fixture *f) {
    kiln_keyring_close(f->ring);
    kiln_loop_destroy(f->loop);
    remove_folder(f->folder);
}

static void write_file(const fixture *f, const char *text) {
    expect_ok(kiln_file_write(f->path, kiln_str_from(text), 0600));
}

static void a_file_that_others_can_read_is_no_secret(void **state) {
    fixture f;
    kiln_keys keys = {0};
    set_up(&f, *state);
    expect_ok(kiln_file_write(f.path, KILN_STR("kiln-keys 1\n"), 0640));
    expect_error(kiln_keys_read(f.path, &keys), PERMISSION_DENIED, "chmod 600");
    kiln_code code = kiln_tls_supported() ? KILN_PERMISSION_DENIED : KILN_UNIMPLEMENTED;
    kiln_status st = kiln_keyring_open(f.loop, f.path, NULL, NULL, &f.ring);
    assert_int_equal(kiln_status_code(st), code);
    kiln_status_free(st);
    tear_down(&f);
}

static void a_missing_file_is_named(void **state) {
    if (!kiln_tls_supported()) skip_because("this build has no OpenSSL");
    fixture f;
    set_up(&f, *state);
    expect_error(kiln_keyring_open(f.loop, f.path, NULL, NULL, &f.ring), NOT_FOUND, f.path);
    tear_down(&f);
}

static void a_changed_file_is_read_again(void **state) {
    if (!kiln_tls_supported()) skip_because("this build has no OpenSSL");
    fixture f;
    set_up(&f, *state);
    write_file(&f, "kiln-keys 1\n");
    expect_ok(kiln_keyring_open(f.loop, f.path, on_changed, &f, &f.ring));
    assert_int_equal(kiln_keyring_count(f.ring), 0);
    kiln_loop_run_once(f.loop); /* looks, and sees nothing new */
    assert_int_equal(f.changes, 0);
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\n");
    while (f.changes == 0) kiln_loop_run_once(f.loop);
    assert_int_equal(f.last, KILN_OK);
    assert_int_equal(kiln_keyring_count(f.ring), 1);
    kiln_keyring_reload(f.ring); /* unasked it would see no reason */
    assert_int_equal(f.changes, 2);
    tear_down(&f);
}

static void a_broken_file_leaves_the_keys_as_they_were(void **state) {
    if (!kiln_tls_supported()) skip_because("this build has no OpenSSL");
    fixture f;
    set_up(&f, *state);
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\n");
    expect_ok(kiln_keyring_open(f.loop, f.path, on_changed, &f, &f.ring));
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\nboard/b/1 00\n");
    kiln_keyring_reload(f.ring);
    assert_int_equal(f.last, KILN_DATA_LOSS);
    assert_int_equal(kiln_keyring_count(f.ring), 1);
    tear_down(&f);
}

static void keys_that_cannot_be_read_stay_in_force(void **state) {
    if (!kiln_tls_supported()) skip_because("this build has no OpenSSL");
    fixture f;
    set_up(&f, *state);
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\n");
    expect_ok(kiln_keyring_open(f.loop, f.path, on_changed, &f, &f.ring));
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\nboard/b/1 " SECRET "\n");
    f.last = KILN_INTERNAL;
    for (uint64_t nth = 1; f.last != KILN_OK; nth++) {
        assert_int_equal(kiln_keyring_count(f.ring), 1);
        kiln_fail_io_nth(nth);
        kiln_keyring_reload(f.ring);
        kiln_fail_io_nth(0);
        assert_int_equal(f.changes, nth);
    }
    assert_true(f.changes >= 3); /* open and read failed */
    assert_int_equal(kiln_keyring_count(f.ring), 2);
    tear_down(&f);
}

static void a_reading_that_lacked_a_descriptor_is_tried_again(void **state) {
    if (!kiln_tls_supported()) skip_because("this build has no OpenSSL");
    fixture f;
    set_up(&f, *state);
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\n");
    expect_ok(kiln_keyring_open(f.loop, f.path, on_changed, &f, &f.ring));
    write_file(&f, "kiln-keys 1\n");
    kiln_fail_io_nth(1);
    while (f.changes == 0) kiln_loop_run_once(f.loop);
    kiln_fail_io_nth(0);
    assert_int_equal(f.last, KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(kiln_keyring_count(f.ring), 1);
    while (f.changes == 1) kiln_loop_run_once(f.loop);
    assert_int_equal(f.last, KILN_OK);
    assert_int_equal(kiln_keyring_count(f.ring), 0);
    tear_down(&f);
}

/* ---- Connections whose key goes ---- */

static void a_revoked_key_is_cut_at_the_next_look(void **state) {
    _Static_assert(2 * KILN_NET_KEYS_NS <= KILN_NS_PER_S, "within a second");
    locked l;
    locked_init(&l, *state);
    pair_open(&l.p);
    kiln_key name = l.p.credentials.key;
    assert_int_equal(kiln_keys_revoke(&l.keys, &name), 1);
    expect_ok(kiln_keys_write(l.path, &l.keys));
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(l.p.client.why_text, "revoked");
    pair_run_until(&l.p, &l.p.server.closed);
    locked_deinit(&l);
}

static void a_revoked_key_cuts_nobody_else(void **state) {
    locked l;
    locked_init(&l, *state);
    kiln_key tuna = l.p.credentials.key;
    pair_open(&l.p);
    kiln_conn *doomed = l.p.client.conn;
    locked_show(&l, locked_add_key(&l, "client/ann", 8));
    kiln_keyring_reload(l.ring);
    l.p.dial.role = KILN_PEER_CLIENT;
    l.p.client.opened = false;
    pair_dial(&l.p);
    pair_run_until(&l.p, &l.p.client.opened);
    l.p.credentials = (kiln_credentials){.has_token = true};
    memcpy(l.p.credentials.token, l.p.listen.token, KILN_TOKEN_BYTES);
    kiln_conn *by_key = l.p.client.conn;
    l.p.client.opened = l.p.server.opened = false;
    pair_dial(&l.p);
    pair_run_until(&l.p, &l.p.client.opened);
    pair_run_until(&l.p, &l.p.server.opened);
    assert_ptr_not_equal(l.p.client.conn, by_key);
    kiln_keys_revoke(&l.keys, &tuna);
    expect_ok(kiln_keys_write(l.path, &l.keys));
    kiln_conn *last = l.p.client.conn;
    pair_run_until(&l.p, &l.p.client.closed); /* the doomed one; the pair notes one at a time */
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    pair_run_until(&l.p, &l.p.server.closed);
    l.p.client.closed = l.p.server.closed = false;
    assert_ptr_not_equal(doomed, last);
    for (int i = 0; i < 2; i++) {
        kiln_conn_close(i ? last : by_key, KILN_OK);
        pair_run_until(&l.p, &l.p.client.closed);
        assert_int_equal(l.p.client.why, KILN_CANCELLED);
        pair_run_until(&l.p, &l.p.server.closed);
        l.p.client.closed = l.p.server.closed = false;
    }
    locked_deinit(&l);
}

/* Made anew by hand, between two looks: what was known under that name is none any more. */
static void a_key_made_anew_under_its_old_name_is_another(void **state) {
    locked l;
    locked_init(&l, *state);
    pair_open(&l.p);
    l.keys.key.data[0].secret[0] ^= 1;
    expect_ok(kiln_keys_write(l.path, &l.keys));
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    pair_run_until(&l.p, &l.p.server.closed);
    locked_deinit(&l);
}

/* ---- Days ---- */

static void a_key_is_good_on_its_last_day_and_cut_when_that_is_over(void **state) {
    locked l;
    locked_init(&l, *state);
    l.keys.key.data[0].last_day = 40000;
    expect_ok(kiln_keys_write(l.path, &l.keys));
    kiln_keyring_reload(l.ring);
    kiln_keyring_set_day(l.ring, 40000);
    pair_open(&l.p);
    assert_false(l.p.client.closed);
    kiln_keyring_set_day(l.ring, 40001);
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(l.p.client.why_text, "the key tuner/tuna/1 was valid until 2079-07-08");
    pair_run_until(&l.p, &l.p.server.closed);
    locked_deinit(&l);
}

/* The secret is proven, the name is not yet said. */
static void a_key_that_goes_during_the_handshake_opens_nothing(void **state) {
    locked l;
    locked_init(&l, *state);
    pair_listen(&l.p);
    pair_dial(&l.p);
    const kiln_conn *conn = NULL;
    while (!conn || !conn->tls || !kiln_tls_key(conn->tls)) {
        kiln_loop_run_once(l.p.loop);
        conn = l.p.loop->conns.by_rank[KILN_RANK_SPEAKS].oldest;
    }
    kiln_key name = l.p.credentials.key;
    assert_int_equal(kiln_keys_revoke(&l.keys, &name), 1);
    expect_ok(kiln_keys_write(l.path, &l.keys));
    kiln_keyring_reload(l.ring);
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(l.p.client.why_text,
                    "the tracker refused the connection"); /* as any stranger */
    pair_run_until_count(&l.p, &l.p.refused_count, 1);
    expect_contains(l.p.refused_why, "revoked");
    assert_false(l.p.server.opened);
    locked_deinit(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_file_that_others_can_read_is_no_secret),
        test_with_arena(a_missing_file_is_named),
        test_with_arena(a_changed_file_is_read_again),
        test_with_arena(a_broken_file_leaves_the_keys_as_they_were),
        test_with_arena(keys_that_cannot_be_read_stay_in_force),
        test_with_arena(a_reading_that_lacked_a_descriptor_is_tried_again),
        test_with_arena(a_revoked_key_is_cut_at_the_next_look),
        test_with_arena(a_revoked_key_cuts_nobody_else),
        test_with_arena(a_key_made_anew_under_its_old_name_is_another),
        test_with_arena(a_key_is_good_on_its_last_day_and_cut_when_that_is_over),
        test_with_arena(a_key_that_goes_during_the_handshake_opens_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
