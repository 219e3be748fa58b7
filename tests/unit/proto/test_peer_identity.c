#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "proto/net/peer_identity.h"
#include "tests/support/test.h"
#include "tests/unit/proto/locked.h"
#include "tests/unit/proto/raw.h"

static void a_user_has_the_name_in_passwd(void **state) {
    (void)state;
    const kiln_str passwd = KILN_STR("root:x:0:0:root:/root:/bin/bash\n"
                                     "no line at all\n\n:x:7:7::/:\n"
                                     "ann:x:1000:1000:Ann,,,:/home/ann:/bin/sh\n"
                                     "other:x:1000:1000::/:/bin/sh\n"
                                     "last:x:1001");
    static const struct {
        uint32_t uid;
        const char *name;
    } row[] = {
        {0, "root"}, {1000, "ann"}, {1001, "last"}, {7, "uid-7"}, {4294967294u, "uid-4294967294"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        char name[KILN_PERSON_MAX + 1];
        kiln_peer_user_name(passwd, row[i].uid, name);
        assert_string_equal(name, row[i].name);
    }
}

static void a_long_name_is_cut(void **state) {
    (void)state;
    char text[200], name[KILN_PERSON_MAX + 1];
    memset(text, 'x', 100);
    memcpy(text + 100, ":x:5:", 6);
    kiln_peer_user_name(kiln_str_from(text), 5, name);
    assert_int_equal(strlen(name), KILN_PERSON_MAX);
}

static const char *own_name(void) {
    const struct passwd *own = getpwuid(geteuid());
    return own ? own->pw_name : NULL;
}

static void expect_own(const kiln_peer *peer, kiln_peer_role role) {
    const bool is_person = role == KILN_PEER_CLIENT || role == KILN_PEER_ADMIN;
    assert_true(peer->is_owner);
    if (!is_person)
        assert_string_equal(peer->person, "");
    else if (own_name())
        assert_string_equal(peer->person, own_name());
}

static void who_comes_by_a_unix_socket_is_known_by_its_user(void **state) {
    for (kiln_peer_role role = KILN_PEER_BOARD; role < KILN_PEER_COUNT; role++) {
        char *folder = make_folder(*state);
        pair p;
        pair_init(&p);
        pair_set_address(&p, kiln_arena_printf(*state, "unix:%s/s", folder));
        p.dial.role = role;
        pair_open(&p);
        expect_own(kiln_conn_peer(p.server.conn), role);
        assert_int_equal(kiln_conn_peer(p.server.conn)->uid, geteuid());
        pair_deinit(&p);
        remove_folder(folder);
    }
}

static void who_knows_the_token_is_the_trackers_user(void **state) {
    (void)state;
    for (kiln_peer_role role = KILN_PEER_BOARD; role < KILN_PEER_COUNT; role++) {
        pair p;
        pair_init(&p);
        p.dial.role = role;
        pair_open(&p);
        expect_own(kiln_conn_peer(p.server.conn), role);
        assert_int_equal(kiln_conn_peer(p.server.conn)->uid, KILN_UID_UNKNOWN);
        pair_deinit(&p);
    }
}

static void who_shows_nothing_is_nobody(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    p.listen.insecure = true;
    p.credentials = (kiln_credentials){.insecure = true};
    p.dial.role = KILN_PEER_CLIENT;
    pair_open(&p);
    const kiln_peer *peer = kiln_conn_peer(p.server.conn);
    assert_false(peer->is_owner);
    assert_int_equal(peer->uid, KILN_UID_UNKNOWN);
    assert_string_equal(peer->person, "");
    pair_deinit(&p);
}

static void a_key_names_its_person_and_no_owner(void **state) {
    static const struct {
        const char *key, *person;
        kiln_peer_role role;
    } row[] = {
        {"client/ann", "ann", KILN_PEER_CLIENT},
        {"admin/bob", "bob", KILN_PEER_ADMIN},
        {"admin/bob", "bob", KILN_PEER_CLIENT},
        {"board/rpi", "", KILN_PEER_BOARD},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        locked l;
        locked_init(&l, *state);
        locked_show(&l, locked_add_key(&l, row[i].key, 8));
        kiln_keyring_reload(l.ring);
        l.p.dial.role = row[i].role;
        pair_open(&l.p);
        const kiln_peer *peer = kiln_conn_peer(l.p.server.conn);
        assert_string_equal(peer->person, row[i].person);
        assert_false(peer->is_owner);
        assert_int_equal(peer->uid, KILN_UID_UNKNOWN);
        locked_deinit(&l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_user_has_the_name_in_passwd),
        cmocka_unit_test(a_long_name_is_cut),
        test_with_arena(who_comes_by_a_unix_socket_is_known_by_its_user),
        cmocka_unit_test(who_knows_the_token_is_the_trackers_user),
        cmocka_unit_test(who_shows_nothing_is_nobody),
        test_with_arena(a_key_names_its_person_and_no_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
