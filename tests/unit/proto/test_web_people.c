/* Connections of web servers that speak for people. */
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/unit/proto/locked.h"

/* What the listening program knows of people. */
typedef struct people {
    const char *known; /* NULL: nobody */
    bool is_admin;
    uint32_t asked;
    char signed_in[KILN_KEY_NAME_BYTES];
} people;

static people of_test; /* the context of a listener is the pair's end */

static kiln_status find_person(void *context, const kiln_peer *peer, bool *out_admin) {
    (void)context;
    of_test.asked++;
    memcpy(of_test.signed_in, peer->signed_in, sizeof of_test.signed_in);
    if (!of_test.known || strcmp(peer->person, of_test.known) != 0)
        return KILN_ERROR(UNAUTHENTICATED, "there is no person %s", peer->person);
    *out_admin = of_test.is_admin;
    return KILN_OK;
}

/* A web server with the key "web/lab". */
static void set_up(locked *l, kiln_arena *arena, const char *person) {
    of_test = (people){.known = "ann"};
    locked_init(l, arena);
    locked_show(l, locked_add_key(l, "web/lab", 8));
    kiln_keyring_reload(l->ring);
    l->p.dial.role = KILN_PEER_WEB;
    l->p.dial.person = person;
    l->p.listen.find_person = find_person;
}

static void a_web_server_speaks_for_a_person_with_its_role(void **state) {
    for (int is_admin = 0; is_admin < 2; is_admin++) {
        locked l;
        set_up(&l, *state, "ann");
        of_test.is_admin = is_admin;
        l.p.dial.signed_in = "client/ann/web/2";
        pair_open(&l.p);
        const kiln_peer *peer = kiln_conn_peer(l.p.server.conn);
        assert_int_equal(peer->role, is_admin ? KILN_PEER_ADMIN : KILN_PEER_CLIENT);
        assert_int_equal(peer->is_admin, is_admin);
        assert_string_equal(peer->person, "ann");
        assert_string_equal(peer->key, "web/lab/1");
        assert_string_equal(of_test.signed_in, "client/ann/web/2");
        assert_true(peer->by_web && !peer->is_owner);
        assert_string_equal(l.p.server.peer_node, "lab");
        locked_deinit(&l);
    }
}

static void without_a_person_it_is_a_web_server_only(void **state) {
    locked l;
    set_up(&l, *state, NULL);
    pair_open(&l.p);
    const kiln_peer *peer = kiln_conn_peer(l.p.server.conn);
    assert_int_equal(peer->role, KILN_PEER_WEB);
    assert_string_equal(peer->person, "");
    assert_false(peer->by_web || peer->is_admin);
    assert_int_equal(of_test.asked, 0);
    /* It may say nothing that people say. */
    expect_ok(
        kiln_conn_send(l.p.client.conn, &(kiln_message){.type = KILN_MSG_QUERY, .stream = 1}));
    pair_run_until_count(&l.p, &l.p.client.message_count, 1);
    assert_int_equal(l.p.client.last_error, KILN_PERMISSION_DENIED);
    assert_int_equal(l.p.server.message_count, 0);
    locked_deinit(&l);
}

static void a_person_may_do_what_people_do(void **state) {
    locked l;
    set_up(&l, *state, "ann");
    pair_open(&l.p);
    expect_ok(
        kiln_conn_send(l.p.client.conn, &(kiln_message){.type = KILN_MSG_QUERY, .stream = 1}));
    pair_run_until_count(&l.p, &l.p.server.message_count, 1);
    assert_int_equal(l.p.server.type[0], KILN_MSG_QUERY);
    kiln_message kick = {.type = KILN_MSG_KICK, .stream = 3, .kick = {.peer = KILN_STR("x")}};
    expect_ok(kiln_conn_send(l.p.client.conn, &kick)); /* of administrators only */
    pair_run_until_count(&l.p, &l.p.client.message_count, 1);
    assert_int_equal(l.p.client.last_error, KILN_PERMISSION_DENIED);
    locked_deinit(&l);
}

static void expect_refused(pair *p, const char *why) {
    pair_listen(p);
    pair_dial(p);
    pair_run_until(p, &p->client.closed);
    assert_int_equal(p->client.why, KILN_UNAUTHENTICATED);
    expect_contains(p->client.why_text, why);
    assert_false(p->server.opened);
}

static void an_unknown_person_is_refused_with_the_reason(void **state) {
    locked l;
    set_up(&l, *state, "eve");
    expect_refused(&l.p, "there is no person eve");
    assert_string_equal(l.p.refused.person, "eve");
    locked_deinit(&l);
    set_up(&l, *state, "ann");
    l.p.listen.find_person = NULL;
    expect_refused(&l.p, "cannot speak for people");
    locked_deinit(&l);
}

static void other_keys_do_not_speak_as_web_servers(void **state) {
    locked l;
    set_up(&l, *state, "ann");
    locked_show(&l, locked_add_key(&l, "client/ann", 9));
    kiln_keyring_reload(l.ring);
    pair_listen(&l.p);
    pair_dial(&l.p);
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_PERMISSION_DENIED); /* before anything is sent */
    locked_deinit(&l);
}

static void a_token_opens_no_connection(void **state) {
    locked l;
    set_up(&l, *state, NULL);
    locked_show(&l, locked_add_key(&l, "client/ann/web", 9));
    kiln_keyring_reload(l.ring);
    l.p.dial.role = KILN_PEER_CLIENT;
    pair_listen(&l.p);
    pair_dial(&l.p);
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    assert_false(l.p.server.opened);
    locked_deinit(&l);
}

static void a_person_whose_token_or_rights_end_is_cut(void **state) {
    for (int gone = 0; gone < 2; gone++) {
        locked l;
        set_up(&l, *state, "ann");
        of_test.is_admin = true;
        pair_open(&l.p);
        kiln_keyring_reload(l.ring); /* nothing has changed */
        assert_false(l.p.client.closed);
        if (gone)
            of_test.known = NULL;
        else
            of_test.is_admin = false;
        kiln_keyring_reload(l.ring);
        pair_run_until(&l.p, &l.p.client.closed);
        assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
        expect_contains(l.p.client.why_text, gone ? "no person ann" : "sign in again");
        locked_deinit(&l);
    }
}

static void the_web_server_of_the_trackers_user_needs_no_key(void **state) {
    const struct passwd *own = getpwuid(geteuid());
    (void)state;
    of_test = (people){.known = "ann"};
    for (int is_own = 0; is_own < 2 && own; is_own++) {
        pair p;
        pair_init(&p);
        p.dial.role = KILN_PEER_WEB;
        p.dial.person = is_own ? own->pw_name : "ann";
        p.listen.find_person = find_person;
        pair_open(&p);
        const kiln_peer *peer = kiln_conn_peer(p.server.conn);
        assert_int_equal(peer->role, is_own ? KILN_PEER_ADMIN : KILN_PEER_CLIENT);
        assert_int_equal(peer->is_owner, is_own);
        assert_string_equal(peer->person, p.dial.person);
        assert_int_equal(of_test.asked, 1); /* not for its own user */
        pair_deinit(&p);
    }
}

static void a_token_of_the_trackers_user_must_be_in_force(void **state) {
    const struct passwd *own = getpwuid(geteuid());
    (void)state;
    if (!own) skip_because("this user has no name");
    of_test = (people){0};
    pair p;
    pair_init(&p);
    p.dial.role = KILN_PEER_WEB;
    p.dial.person = own->pw_name;
    p.dial.signed_in = "client/x/web/1";
    p.listen.find_person = find_person;
    expect_refused(&p, "there is no person");
    assert_int_equal(of_test.asked, 1);
    pair_deinit(&p);
}

static void who_proves_nothing_is_no_web_server(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    of_test = (people){.known = "ann"};
    p.listen.insecure = true;
    p.listen.find_person = find_person;
    p.credentials = (kiln_credentials){.insecure = true};
    p.dial.role = KILN_PEER_WEB;
    p.dial.person = "ann";
    expect_refused(&p, "refused the connection");
    expect_contains(p.refused_why, "a web server without a key");
    assert_int_equal(of_test.asked, 0);
    pair_deinit(&p);
}

static void others_cannot_name_a_person(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    of_test = (people){.known = "ann"};
    p.listen.find_person = find_person;
    p.dial.role = KILN_PEER_TUNER;
    p.dial.person = "ann";
    pair_open(&p);
    assert_string_equal(kiln_conn_peer(p.server.conn)->person, "");
    assert_int_equal(of_test.asked, 0);
    pair_deinit(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_web_server_speaks_for_a_person_with_its_role),
        test_with_arena(without_a_person_it_is_a_web_server_only),
        test_with_arena(a_person_may_do_what_people_do),
        test_with_arena(an_unknown_person_is_refused_with_the_reason),
        test_with_arena(other_keys_do_not_speak_as_web_servers),
        test_with_arena(a_token_opens_no_connection),
        test_with_arena(a_person_whose_token_or_rights_end_is_cut),
        cmocka_unit_test(the_web_server_of_the_trackers_user_needs_no_key),
        cmocka_unit_test(a_token_of_the_trackers_user_must_be_in_force),
        cmocka_unit_test(who_proves_nothing_is_no_web_server),
        cmocka_unit_test(others_cannot_name_a_person),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
