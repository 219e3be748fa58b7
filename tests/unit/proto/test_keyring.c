#include "proto/net/keyring.h"

#include "tests/support/test.h"
#include "tests/unit/proto/locked.h"

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* 20000 is 2024-10-04. */
static void only_keys_that_are_good_today_are_found(void **state) {
    (void)state;
    kiln_keyring ring = {.today = 20000};
    kiln_key name;
    expect_ok(kiln_keys_parse(KILN_STR("kiln-keys 1\nboard/a/1 " SECRET "\nboard/b/1 " SECRET),
                              &ring.keys));
    ring.keys.key.data[1].last_day = 20000;
    assert_int_equal(kiln_keyring_count(&ring), 2);
    expect_ok(kiln_key_name_parse(KILN_STR("board/b/1"), &name));
    assert_ptr_equal(kiln_keyring_find(&ring, &name), &ring.keys.key.data[1]);
    ring.today++;
    assert_null(kiln_keyring_find(&ring, &name));
    expect_error(kiln_keyring_refusal(&ring, &name), UNAUTHENTICATED,
                 "board/b/1 was valid until 2024-10-04");
    expect_ok(kiln_key_name_parse(KILN_STR("board/a/1"), &name));
    assert_ptr_equal(kiln_keyring_find(&ring, &name), &ring.keys.key.data[0]);
    assert_null(kiln_keyring_offer(&ring, &name));
    expect_ok(kiln_key_name_parse(KILN_STR("board/c/1"), &name));
    assert_null(kiln_keyring_find(&ring, &name));
    expect_error(kiln_keyring_refusal(&ring, &name), UNAUTHENTICATED,
                 "no key of ours: 'board/c/1'");
    kiln_keys_deinit(&ring.keys);
}

static void expect_turned_away(locked *l, const char *why) {
    pair_listen(&l->p);
    pair_dial(&l->p);
    pair_run_until(&l->p, &l->p.client.closed);
    assert_int_equal(l->p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(l->p.client.why_text, "does not accept the key tuner/tuna/1");
    pair_run_until_count(&l->p, &l->p.refused_count, 1);
    expect_contains(l->p.refused_why, why);
}

static void an_expired_key_does_not_come_in(void **state) {
    locked l;
    locked_init(&l, *state);
    l.keys.key.data[0].last_day = 1;
    expect_ok(kiln_keys_write(l.path, &l.keys));
    kiln_keyring_reload(l.ring);
    expect_turned_away(&l, "was valid until 1970-01-02");
    locked_deinit(&l);
}

static void a_revoked_key_is_called_so_in_the_log_only(void **state) {
    locked l;
    locked_init(&l, *state);
    kiln_key name = l.p.credentials.key;
    assert_int_equal(kiln_keys_revoke(&l.keys, &name), 1);
    expect_ok(kiln_keys_write(l.path, &l.keys));
    kiln_keyring_reload(l.ring);
    assert_int_equal(kiln_keyring_count(l.ring), 0);
    expect_turned_away(&l, "tuner/tuna/1 was revoked");
    locked_deinit(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_keys_that_are_good_today_are_found),
        test_with_arena(an_expired_key_does_not_come_in),
        test_with_arena(a_revoked_key_is_called_so_in_the_log_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
