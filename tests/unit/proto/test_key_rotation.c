#include "proto/net/key_rotation.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "proto/net/conn.h"
#include "proto/net/keyring.h"
#include "tests/support/test.h"
#include "tests/unit/proto/locked.h"

typedef struct world {
    locked l;
    char *own; /* key file of the node */
    kiln_key_state outcome;
    char why[KILN_MESSAGES_NAME + 1];
    uint32_t settled;
} world;

static world *current; /* the ring tells it; tests run one after the other */

static void on_settled(void *context, const kiln_key *name, kiln_key_state outcome,
                       const char *why) {
    (void)context;
    assert_true(strcmp(name->node, "tuna") == 0 || strcmp(name->node, "yak") == 0);
    current->outcome = outcome;
    memcpy(current->why, why, strlen(why) + 1);
    current->settled++;
}

/* A node with the first generation of its key in a file of its own, with a seed. */
static void set_up(world *w, kiln_arena *arena) {
    memset(w, 0, sizeof *w);
    current = w;
    locked_init(&w->l, arena);
    w->own = kiln_arena_printf(arena, "%s/own", w->l.folder);
    kiln_keys own = {0};
    const kiln_key *added = NULL;
    kiln_key key = w->l.keys.key.data[0];
    key.has_seed = true;
    memset(key.seed, 5, sizeof key.seed);
    expect_ok(kiln_sign_public_of(key.seed, &w->l.keys.key.data[0].public_half));
    w->l.keys.key.data[0].has_public = true;
    expect_ok(kiln_keys_write(w->l.path, &w->l.keys));
    kiln_keyring_reload(w->l.ring);
    expect_ok(kiln_keys_add(&own, &key, &added));
    expect_ok(kiln_keys_write(w->own, &own));
    kiln_keys_deinit(&own);
    kiln_keyring_on_settled(w->l.ring, on_settled);
}

static void load(world *w) {
    expect_ok(kiln_credentials_load(&w->l.p.dial.address, w->l.folder, w->own, false,
                                    &w->l.p.credentials));
}

static void offer(world *w) {
    const kiln_key *added = NULL;
    kiln_key next = w->l.keys.key.data[0];
    next.state = KILN_KEY_OFFERED;
    next.last_day = 50000;
    memset(next.secret, 77, sizeof next.secret);
    expect_ok(kiln_keys_add(&w->l.keys, &next, &added));
    expect_ok(kiln_keys_write(w->l.path, &w->l.keys));
    kiln_keyring_reload(w->l.ring);
}

static void expect_taken(world *w) {
    kiln_keys own = {0}, list = {0};
    const kiln_key *key = NULL;
    expect_ok(kiln_keys_read(w->own, &own));
    assert_int_equal(own.key.count, 1);
    key = &own.key.data[0];
    assert_int_equal(key->generation, 2);
    assert_int_equal(key->secret[9], 77);
    assert_int_equal(key->last_day, 50000);
    uint8_t first[KILN_SIGN_SEED_BYTES];
    memset(first, 5, sizeof first);
    assert_true(key->has_seed && memcmp(key->seed, first, sizeof first) != 0); /* drawn anew */
    const kiln_sign_public next = key->public_half;
    kiln_sign_public before;
    expect_ok(kiln_sign_public_of(first, &before));
    assert_true(key->has_before && kiln_succession_is_right(&key->succession, &next));
    assert_memory_equal(&key->succession.before, &before, sizeof before);
    pair_run_until_count(&w->l.p, &w->settled, 0);
    load(w);
    assert_int_equal(w->l.p.credentials.key.generation, 2);
    w->l.p.client.opened = w->l.p.client.closed = w->l.p.server.opened = w->l.p.server.closed =
        false;
    pair_dial(&w->l.p);
    pair_run_until(&w->l.p, &w->l.p.client.opened);
    pair_run_until_count(&w->l.p, &w->settled, 1);
    assert_int_equal(w->outcome, KILN_KEY_IN_FORCE);
    expect_ok(kiln_keys_read(w->l.path, &list));
    assert_int_equal(kiln_keys_in_force(&list), 1);
    key = &list.key.data[list.key.count - 1];
    assert_int_equal(key->state, KILN_KEY_IN_FORCE);
    assert_false(key->has_seed);
    assert_memory_equal(&key->public_half, &next, sizeof next); /* that is what it signs with */
    assert_true(key->has_before);
    assert_memory_equal(&key->succession.before, &before, sizeof before); /* and did */
    assert_true(kiln_keys_was_revoked(&list, &w->l.keys.key.data[0]));
    kiln_keys_deinit(&own);
    kiln_keys_deinit(&list);
}

static void a_node_that_is_connected_takes_its_next_key(void **state) {
    world w;
    set_up(&w, *state);
    pair_listen(&w.l.p);
    load(&w);
    pair_dial(&w.l.p);
    pair_run_until(&w.l.p, &w.l.p.client.opened);
    offer(&w);
    pair_run_until(&w.l.p, &w.l.p.client.closed); /* a tuner stays: it is told to come back */
    assert_int_equal(w.l.p.client.why, KILN_UNAVAILABLE);
    expect_contains(w.l.p.client.why_text, "connect again with the new key");
    pair_run_until(&w.l.p, &w.l.p.server.closed);
    expect_taken(&w);
    locked_deinit(&w.l);
}

static void a_node_that_comes_later_takes_it_then(void **state) {
    world w;
    set_up(&w, *state);
    offer(&w);
    pair_listen(&w.l.p);
    load(&w);
    pair_dial(&w.l.p);
    pair_run_until(&w.l.p, &w.l.p.client.closed);
    pair_run_until(&w.l.p, &w.l.p.server.closed);
    expect_taken(&w);
    locked_deinit(&w.l);
}

/* Until it has come with the new one, the old one is good. */
static void the_older_key_ends_only_when_the_new_one_was_used(void **state) {
    world w;
    set_up(&w, *state);
    offer(&w);
    pair_listen(&w.l.p);
    load(&w);
    for (int i = 0; i < 2; i++) {
        kiln_credentials before = w.l.p.credentials;
        w.l.p.client.closed = w.l.p.server.closed = w.l.p.client.opened = false;
        pair_dial(&w.l.p);
        pair_run_until(&w.l.p, &w.l.p.client.opened);
        pair_run_until(&w.l.p, &w.l.p.client.closed);
        pair_run_until(&w.l.p, &w.l.p.server.closed);
        w.l.p.credentials = before; /* as if its disk had lost the file */
    }
    assert_int_equal(w.settled, 0);
    expect_taken(&w);
    locked_deinit(&w.l);
}

static void expect_declined(world *w, const char *why) {
    pair_listen(&w->l.p);
    pair_dial(&w->l.p);
    pair_run_until(&w->l.p, &w->l.p.client.opened);
    offer(w);
    pair_run_until_count(&w->l.p, &w->settled, 1);
    assert_int_equal(w->outcome, KILN_KEY_DECLINED);
    expect_contains(w->why, why);
    assert_false(w->l.p.client.closed); /* it goes on with the key that it has */
    kiln_keys list = {0};
    expect_ok(kiln_keys_read(w->l.path, &list));
    assert_int_equal(kiln_keys_in_force(&list), 2);
    assert_null(kiln_keys_offer(&list, &list.key.data[0]));
    kiln_keys_deinit(&list);
    locked_deinit(&w->l);
}

static void a_node_that_cannot_write_its_file_says_so(void **state) {
    world w;
    set_up(&w, *state);
    load(&w);
    assert_int_equal(remove(w.own), 0);
    expect_declined(&w, "own");
}

static void the_key_of_another_node_is_not_written_over(void **state) {
    world w;
    set_up(&w, *state);
    load(&w);
    kiln_keys other = {0};
    const kiln_key *added = NULL;
    kiln_key key = w.l.keys.key.data[0];
    memcpy(key.node, "eel", 4);
    expect_ok(kiln_keys_add(&other, &key, &added));
    expect_ok(kiln_keys_write(w.own, &other));
    kiln_keys_deinit(&other);
    expect_declined(&w, "another node");
}

/* As when the keys of a whole fleet are rotated: none may be lost, or `kiln key rotate` waits in
 * vain. */
static void answers_of_two_nodes_at_once_are_both_written(void **state) {
    world w;
    set_up(&w, *state);
    const kiln_key *added = NULL;
    kiln_key yak = w.l.keys.key.data[0];
    memcpy(yak.node, "yak", 4);
    expect_ok(kiln_keys_add(&w.l.keys, &yak, &added));
    offer(&w);
    kiln_key next = w.l.keys.key.data[0];
    next.generation = 2;
    yak.generation = 1;
    kiln_keyring_settle(w.l.ring, &next, KILN_KEY_IN_FORCE, "");
    kiln_keyring_settle(w.l.ring, &next, KILN_KEY_IN_FORCE, ""); /* it has connected twice */
    kiln_keyring_settle(w.l.ring, &yak, KILN_KEY_DECLINED, "no room");
    pair_run_until_count(&w.l.p, &w.settled, 2);
    assert_int_equal(w.outcome, KILN_KEY_DECLINED);
    assert_string_equal(w.why, "no room");
    kiln_keys list = {0};
    expect_ok(kiln_keys_read(w.l.path, &list));
    assert_int_equal(kiln_keys_find(&list, &next)->state, KILN_KEY_IN_FORCE);
    assert_int_equal(kiln_keys_find(&list, &yak)->state, KILN_KEY_DECLINED);
    kiln_keys_deinit(&list);
    kiln_keyring_settle(w.l.ring, &next, KILN_KEY_IN_FORCE, ""); /* the ring ends meanwhile */
    kiln_keyring_settle(w.l.ring, &yak, KILN_KEY_DECLINED, "");
    locked_deinit(&w.l);
}

static void nothing_is_offered_in_plain_text(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_open(&p);
    kiln_key_rotation_offer(p.server.conn);
    kiln_message taken = {.type = KILN_MSG_KEY_TAKEN, .key_taken = {.generation = 1}};
    expect_ok(kiln_conn_send(p.client.conn, &taken));
    expect_ok(kiln_conn_send(p.client.conn, &(kiln_message){.type = KILN_MSG_PING}));
    pair_run_until_count(&p, &p.server.message_count, 1);
    assert_int_equal(p.server.type[0], KILN_MSG_PING); /* what nobody asked for is dropped */
    assert_int_equal(p.server.conn->offered, 0);
    pair_deinit(&p);
}

static kiln_str half_str(const kiln_sign_public *half) {
    return (kiln_str){(const char *)half->byte, sizeof half->byte};
}

/* By its list's public half, by one that this has signed over to, and by no other. */
static void a_node_signs_by_its_seed_or_the_next(void **state) {
    (void)state;
    static const uint8_t seed[KILN_SIGN_SEED_BYTES] = {1}, other_seed[KILN_SIGN_SEED_BYTES] = {2};
    kiln_key key = {.role = KILN_PEER_TUNER, .node = "host", .has_public = true};
    kiln_sign_public other;
    kiln_succession said;
    kiln_msg_hello hello = {.role = KILN_PEER_TUNER, .node = KILN_STR("host")};
    expect_ok(kiln_sign_public_of(seed, &key.public_half));
    expect_ok(kiln_sign_public_of(other_seed, &other));
    expect_ok(kiln_key_rotation_check_signer(&key, &hello)); /* it does not sign */
    hello.signer = half_str(&key.public_half);
    expect_ok(kiln_key_rotation_check_signer(&key, &hello));
    hello.signer.size--;
    expect_error(kiln_key_rotation_check_signer(&key, &hello), PERMISSION_DENIED, "another seed");
    hello.signer = half_str(&other);
    expect_error(kiln_key_rotation_check_signer(&key, &hello), PERMISSION_DENIED, "another seed");
    expect_ok(kiln_succession_sign(seed, &other, &said));
    hello.signer_before = half_str(&said.before);
    hello.signer_proof = (kiln_str){(const char *)said.proof.byte, sizeof said.proof.byte};
    expect_ok(kiln_key_rotation_check_signer(&key, &hello));
    hello.signer_proof.size--;
    expect_error(kiln_key_rotation_check_signer(&key, &hello), PERMISSION_DENIED, "another seed");
    hello.signer_proof.size++;
    said.proof.byte[5] ^= 1;
    expect_error(kiln_key_rotation_check_signer(&key, &hello), PERMISSION_DENIED, "another seed");
    expect_ok(kiln_succession_sign(other_seed, &other, &said)); /* it names itself */
    expect_error(kiln_key_rotation_check_signer(&key, &hello), PERMISSION_DENIED, "another seed");
    key.has_public = false; /* of a list from before keys signed */
    expect_ok(kiln_key_rotation_check_signer(&key, &hello));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_node_that_is_connected_takes_its_next_key),
        test_with_arena(a_node_that_comes_later_takes_it_then),
        test_with_arena(the_older_key_ends_only_when_the_new_one_was_used),
        test_with_arena(a_node_that_cannot_write_its_file_says_so),
        test_with_arena(the_key_of_another_node_is_not_written_over),
        test_with_arena(answers_of_two_nodes_at_once_are_both_written),
        cmocka_unit_test(nothing_is_offered_in_plain_text),
        cmocka_unit_test(a_node_signs_by_its_seed_or_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
