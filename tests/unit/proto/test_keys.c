#include "proto/keys.h"

#include <string.h>

#include "tests/support/test.h"

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static kiln_key name_of(const char *text) {
    kiln_key name;
    expect_ok(kiln_key_name_parse(kiln_str_from(text), &name));
    return name;
}

static const kiln_key *add(kiln_keys *keys, const char *text, uint8_t fill) {
    kiln_key name = name_of(text);
    const kiln_key *key = NULL;
    memset(name.secret, fill, sizeof name.secret);
    expect_ok(kiln_keys_add(keys, &name, &key));
    assert_memory_equal(key->secret, name.secret, sizeof name.secret);
    return key;
}

static void names_say_role_node_and_generation(void **state) {
    (void)state;
    char text[KILN_KEY_NAME_BYTES];
    kiln_key name = name_of("board/rpi-1.lab_2/17");
    assert_int_equal(name.role, KILN_PEER_BOARD);
    assert_string_equal(name.node, "rpi-1.lab_2");
    assert_int_equal(name.generation, 17);
    kiln_key_name_print(&name, text);
    assert_string_equal(text, "board/rpi-1.lab_2/17");
    name = name_of("admin/ann");
    assert_int_equal(name.generation, 0);
    kiln_key_name_print(&name, text);
    assert_string_equal(text, "admin/ann");
}

static void the_longest_name_fits(void **state) {
    kiln_key name = {.role = KILN_PEER_BUILDER, .generation = KILN_KEY_GENERATION_MAX};
    char text[KILN_KEY_NAME_BYTES];
    (void)state;
    memset(name.node, 'x', KILN_MESSAGES_TEXT);
    kiln_key_name_print(&name, text);
    kiln_key again = name_of(text);
    assert_string_equal(again.node, name.node);
}

static void what_is_no_name_is_refused_with_a_reason(void **state) {
    static const char *const bad[][2] = {
        {"", "ROLE/NODE"},
        {"board", "the node"},
        {"board/", "the node"},
        {"tracker/t", "ROLE/NODE"},
        {"pilot/p", "ROLE/NODE"},
        {"board/a b", "the node"},
        {"board/a[b", "the node"},
        {"board/\xc3\xa9", "the node"},
        {"board/a:b", "the node"},
        {"board/../x", "the gener"},
        {"board/a/0", "generation"},
        {"board/a/", "generation"},
        {"board/a/x", "generation"},
        {"board/a/1/2", "generation"},
        {"board/a/1000000000", "generation"},
        {"board/a/web", "only clients and admins"},
        {"client/a/web/", "generation"},
        {"client/a/web/0", "generation"},
        {"client/a/webs", "generation"},
        {"board/12345678901234567890123456789012345678901234567890123456789012345", "64"},
    };
    (void)state;
    kiln_key name;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        expect_error(kiln_key_name_parse(kiln_str_from(bad[i][0]), &name), INVALID_ARGUMENT,
                     bad[i][1]);
}

static void a_file_round_trips_in_order(void **state) {
    (void)state;
    kiln_keys keys = {0}, again = {0};
    kiln_strbuf text = {0}, text_again = {0};
    add(&keys, "client/zoe", 1);
    add(&keys, "board/b", 2);
    add(&keys, "board/a", 3);
    add(&keys, "board/b", 4);
    kiln_keys_print(&keys, &text);
    expect_ok(kiln_keys_parse(kiln_strbuf_view(&text), &again));
    kiln_keys_print(&again, &text_again);
    assert_string_equal(text.data, text_again.data);
    assert_int_equal(again.key.count, 4);
    assert_string_equal(again.key.data[0].node, "a");
    assert_int_equal(again.key.data[2].generation, 2);
    assert_int_equal(again.key.data[3].role, KILN_PEER_CLIENT);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&text_again);
    kiln_keys_deinit(&keys);
    kiln_keys_deinit(&again);
}

static void comments_and_empty_lines_are_skipped(void **state) {
    (void)state;
    kiln_keys keys = {0};
    expect_ok(kiln_keys_parse(
        KILN_STR("# mine\n\nkiln-keys 1\n  # of the lab\nboard/a/2   " SECRET "  \r\n\n"), &keys));
    assert_int_equal(keys.key.count, 1);
    assert_int_equal(keys.key.data[0].secret[1], 0x11);
    kiln_keys_deinit(&keys);
    expect_ok(kiln_keys_parse(KILN_STR("kiln-keys 1"), &keys)); /* nobody, yet */
    assert_int_equal(keys.key.count, 0);
}

static void a_damaged_file_is_refused_with_its_line_and_never_its_secret(void **state) {
    static const char *const bad[][2] = {
        {"", "empty"},
        {"# only\n", "empty"},
        {"kiln-keys 4\n", "line 1 of the key file: a key file of a later release"},
        {"kiln-keys 1\nboard/a/1 revoked\n", "64 hexadecimal"},
        {"kiln-keys 1\nboard/a/1 " SECRET " expires=2030-01-01\n", "nothing more"},
        {"kiln-keys 2\nboard/a/1 " SECRET " expires=2030-02-30\n", "YYYY-MM-DD"},
        {"kiln-keys 2\nboard/a/1 " SECRET " expires=\n", "YYYY-MM-DD"},
        {"kiln-keys 2\nboard/a/1 " SECRET " public=0011\n", "public="},
        {"kiln-keys 2\nboard/a/1 " SECRET " seed=" SECRET "0\n", "seed="},
        {"kiln-keys 2\nboard/a/1 " SECRET " before=" SECRET "\n", "before="},
        {"kiln-keys 2\nboard/a/1 " SECRET " before=" SECRET "/" SECRET "\n", "before="},
        {"kiln-keys 2\nboard/a/1 " SECRET " before=" SECRET "/" SECRET SECRET "0\n", "before="},
        {"kiln-keys 2\nboard/a/1 " SECRET " before=/" SECRET SECRET SECRET "\n", "before="},
        {"kiln-keys 2\nboard/a/1 " SECRET " colour=red\n", "unknown text after the secret"},
        {"kiln-keys 2\nboard/a/1 " SECRET " revoked\n", "unknown text after the secret"},
        {"kiln-keys 2\nboard/a/1 revoked " SECRET "\n", "64 hexadecimal"},
        {"board/a/1 " SECRET "\n", "begins with"},
        {"kiln-keys 1\nboard/a " SECRET "\n", "line 2 of the key file: the generation"},
        {"kiln-keys 1\nboard/a/1\n", "64 hexadecimal"},
        {"kiln-keys 1\nboard/a/1 " SECRET "00\n", "64 hexadecimal"},
        {"kiln-keys 1\n\nboard/a/1 zz112233\n", "line 3"},
        {"kiln-keys 1\nboard/a/1 " SECRET "\nboard/a/1 " SECRET "\n", "twice"},
        {"kiln-keys 1\nboard/a/1 " SECRET "\nboard/a/2 " SECRET "\nboard/a/3 " SECRET "\n",
         "more than 2 generations"},
    };
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) {
        kiln_keys keys = {0};
        kiln_status st = kiln_keys_parse(kiln_str_from(bad[i][0]), &keys);
        assert_null(strstr(kiln_status_text(st), "112233"));
        expect_error(st, DATA_LOSS, bad[i][1]);
        assert_int_equal(keys.key.count, 0);
    }
}

static void only_two_generations_are_kept(void **state) {
    (void)state;
    kiln_keys keys = {0};
    for (uint8_t i = 1; i <= 5; i++) assert_int_equal(add(&keys, "board/a", i)->generation, i);
    add(&keys, "board/b", 9);
    assert_int_equal(keys.key.count, 3);
    kiln_key fourth = name_of("board/a/4"), third = name_of("board/a/3");
    assert_non_null(kiln_keys_find(&keys, &fourth));
    assert_null(kiln_keys_find(&keys, &third));
    kiln_keys_deinit(&keys);
}

static void generations_run_out_in_an_orderly_way(void **state) {
    (void)state;
    kiln_keys keys = {0};
    const kiln_key *key = NULL;
    kiln_key name = name_of("board/a");
    expect_ok(kiln_keys_parse(KILN_STR("kiln-keys 1\nboard/a/999999999 " SECRET), &keys));
    expect_error(kiln_keys_add(&keys, &name, &key), OUT_OF_RANGE, "another name");
    kiln_keys_deinit(&keys);
}

static void revoking_takes_one_generation_or_the_node(void **state) {
    (void)state;
    kiln_keys keys = {0};
    add(&keys, "board/a", 1);
    add(&keys, "board/a", 2);
    add(&keys, "board/ab", 3);
    add(&keys, "tuner/a", 4);
    kiln_key first = name_of("board/a/1"), all = name_of("board/a"), none = name_of("client/a");
    assert_int_equal(kiln_keys_revoke(&keys, &first), 1);
    assert_int_equal(kiln_keys_revoke(&keys, &first), 0);
    assert_int_equal(kiln_keys_revoke(&keys, &none), 0);
    assert_int_equal(add(&keys, "board/a", 5)->generation, 3); /* numbers do not come back */
    assert_int_equal(kiln_keys_revoke(&keys, &all), 2);
    assert_int_equal(kiln_keys_in_force(&keys), 2);
    assert_int_equal(add(&keys, "board/a", 6)->generation, 4); /* nor when none is left */
    kiln_keys_deinit(&keys);
}

static void a_revoked_number_does_not_come_back_after_reading_the_file_again(void **state) {
    (void)state;
    kiln_keys keys = {0}, again = {0};
    kiln_strbuf text = {0};
    for (uint8_t i = 1; i <= 3; i++) add(&keys, "board/a", i);
    kiln_key third = name_of("board/a/3"), second = name_of("board/a/2"), all = name_of("board/a");
    assert_int_equal(kiln_keys_revoke(&keys, &third), 1);
    assert_false(kiln_keys_was_revoked(&keys, &second));
    assert_true(kiln_keys_was_revoked(&keys, &third));
    kiln_keys_print(&keys, &text);
    expect_contains(text.data, "kiln-keys 2\nboard/a/2 0202");
    expect_contains(text.data, "\nboard/a/3 revoked\n");
    expect_ok(kiln_keys_parse(kiln_strbuf_view(&text), &again));
    assert_null(kiln_keys_find(&again, &third));
    const kiln_key *newest = NULL;
    expect_ok(kiln_keys_newest(&again, NULL, &newest));
    assert_int_equal(newest->generation, 2);
    assert_int_equal(kiln_keys_revoke(&again, &all), 1);
    assert_int_equal(again.key.count, 1); /* one line remembers the highest */
    assert_true(kiln_keys_was_revoked(&again, &second));
    expect_error(kiln_keys_newest(&again, NULL, &newest), NOT_FOUND, "no key of board a");
    assert_int_equal(add(&again, "board/a", 9)->generation, 4);
    kiln_strbuf_deinit(&text);
    kiln_keys_deinit(&keys);
    kiln_keys_deinit(&again);
}

static void what_stands_behind_a_secret_round_trips(void **state) {
    (void)state;
    static const char *const text =
        "kiln-keys 2\n"
        "board/a/1 " SECRET "\n"
        "board/a/2 " SECRET " expires=2031-02-28 public=" SECRET " offered\n"
        "board/a/7 revoked\n"
        "client/ann/3 " SECRET " expires=9999-12-31 public=" SECRET " before=" SECRET
        "/" SECRET SECRET " seed=" SECRET "\n"
        "client/bob/3 " SECRET " declined\n";
    kiln_keys keys = {0};
    kiln_strbuf again = {0};
    expect_ok(kiln_keys_parse(kiln_str_from(text), &keys));
    kiln_keys_print(&keys, &again);
    assert_string_equal(again.data, text);
    const kiln_key *key = keys.key.data;
    assert_true(key[1].has_public && !key[1].has_seed && key[3].has_seed);
    assert_int_equal(key[1].state, KILN_KEY_OFFERED);
    assert_ptr_equal(kiln_keys_offer(&keys, &key[0]), &key[1]);
    assert_null(kiln_keys_offer(&keys, &key[1]));
    assert_null(kiln_keys_offer(&keys, &key[4]));
    assert_int_equal(key[1].public_half.byte[1], 0x11);
    assert_true(key[3].has_before && key[3].succession.proof.byte[33] == 0x11);
    kiln_strbuf_deinit(&again);
    kiln_keys_deinit(&keys);
}

static void a_signer_is_found_while_its_key_is_in_force(void **state) {
    (void)state;
    kiln_keys keys = {0};
    kiln_sign_public half = {{1}}, before = {{2}}, other = {{3}};
    add(&keys, "tuner/a", 1); /* signs nothing */
    add(&keys, "tuner/a", 2);
    add(&keys, "tuner/b", 3);
    kiln_key *key = &keys.key.data[1];
    key->has_public = key->has_before = true;
    key->public_half = half;
    key->succession.before = before;
    key->last_day = 100;
    const kiln_key a = name_of("tuner/a"), b = name_of("tuner/b");
    assert_ptr_equal(kiln_keys_signer(&keys, &a, NULL, 100), key);
    assert_ptr_equal(kiln_keys_signer(&keys, NULL, &half, 100), key);
    assert_ptr_equal(kiln_keys_signer(&keys, &a, &before, 100), key);
    assert_null(kiln_keys_signer(&keys, &a, &other, 100));
    assert_null(kiln_keys_signer(&keys, &b, NULL, 100));
    assert_null(kiln_keys_signer(&keys, &b, &half, 100));
    assert_null(kiln_keys_signer(&keys, &a, &half, 101)); /* it has expired */
    const kiln_key second = name_of("tuner/a/2");
    assert_int_equal(kiln_keys_revoke(&keys, &second), 1);
    assert_null(kiln_keys_signer(&keys, NULL, &half, 100));
    kiln_keys_deinit(&keys);
}

static void an_offer_that_is_taken_ends_the_ones_before(void **state) {
    (void)state;
    kiln_keys keys = {0};
    add(&keys, "board/a", 1);
    add(&keys, "board/a", 2);
    add(&keys, "board/b", 3);
    kiln_key second = name_of("board/a/2"), none = name_of("board/a/9");
    kiln_keys_settle(&keys, &none, KILN_KEY_IN_FORCE);
    assert_int_equal(kiln_keys_in_force(&keys), 3);
    kiln_keys_settle(&keys, &second, KILN_KEY_DECLINED);
    assert_int_equal(kiln_keys_in_force(&keys), 3);
    kiln_keys_settle(&keys, &second, KILN_KEY_IN_FORCE);
    assert_int_equal(kiln_keys_in_force(&keys), 2);
    assert_int_equal(kiln_keys_find(&keys, &second)->state, KILN_KEY_IN_FORCE);
    const kiln_key first = name_of("board/a/1");
    kiln_keys_settle(&keys, &first, KILN_KEY_IN_FORCE); /* of before: it is revoked for good */
    assert_null(kiln_keys_find(&keys, &first));
    assert_int_equal(kiln_keys_in_force(&keys), 2);
    kiln_keys_deinit(&keys);
}

static void names_of_nodes_are_letters_digits_and_three_signs(void **state) {
    (void)state;
    kiln_key name;
    expect_ok(kiln_key_name_parse(KILN_STR("board/azAZ09.-_/1"), &name));
    assert_string_equal(name.node, "azAZ09.-_");
    static const char *const bad[] = {"board/`/1", "board/{/1", "board/@/1", "board/[/1",
                                      "board/:/1", "board/,/1", "board/ /1", "board//1"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        expect_error(kiln_key_name_parse(kiln_str_from(bad[i]), &name), INVALID_ARGUMENT,
                     "the node is");
}

static void days_are_days(void **state) {
    (void)state;
    static const char *const bad[] = {"",           "2030-1-01",  "2030-01-1",  "2030-13-01",
                                      "2030-00-10", "1969-12-31", "1970-01-01", "2030-02-29",
                                      "20300101",   "2030-01-0x", "2030-01-011"};
    uint32_t day = 7;
    char text[KILN_DAY_TEXT];
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        assert_false(kiln_day_parse(kiln_str_from(bad[i]), &day));
    assert_int_equal(day, 7);
    assert_true(kiln_day_parse(KILN_STR("1970-01-02"), &day) && day == 1);
    assert_true(kiln_day_parse(KILN_STR("2032-02-29"), &day));
    kiln_day_print(day, text);
    assert_string_equal(text, "2032-02-29");
    kiln_day_print(UINT32_MAX, text);
    assert_string_equal(text, "9999-12-31");
    assert_int_equal(kiln_day_of(UINT64_C(86400000000000) * 3 - 1), 2);
    kiln_key key = {.last_day = 5};
    assert_false(kiln_key_has_expired(&key, 5)); /* the last day is a whole one */
    assert_true(kiln_key_has_expired(&key, 6));
    key.last_day = 0;
    assert_false(kiln_key_has_expired(&key, UINT32_MAX));
}

static void the_newest_key_is_found(void **state) {
    (void)state;
    kiln_keys keys = {0};
    const kiln_key *key = NULL;
    expect_error(kiln_keys_newest(&keys, NULL, &key), NOT_FOUND, "no key");
    add(&keys, "board/a", 1);
    add(&keys, "board/a", 2);
    expect_ok(kiln_keys_newest(&keys, NULL, &key));
    assert_int_equal(key->generation, 2);
    add(&keys, "board/b", 3);
    expect_error(kiln_keys_newest(&keys, NULL, &key), INVALID_ARGUMENT, "several nodes");
    kiln_key b = name_of("board/b"), c = name_of("board/c");
    expect_ok(kiln_keys_newest(&keys, &b, &key));
    assert_int_equal(key->secret[0], 3);
    expect_error(kiln_keys_newest(&keys, &c, &key), NOT_FOUND, "board c");
    kiln_keys_deinit(&keys);
}

static void a_file_has_a_largest_size(void **state) {
    (void)state;
    kiln_keys keys = {0};
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "kiln-keys 1\n");
    for (unsigned i = 0; i <= KILN_KEYS_MAX; i++)
        kiln_strbuf_printf(&text, "board/n%05u/1 " SECRET "\n", i);
    assert_true(text.size < KILN_KEY_FILE_MAX);
    expect_error(kiln_keys_parse(kiln_strbuf_view(&text), &keys), DATA_LOSS, "more than 32768");
    kiln_strbuf_deinit(&text);
}

static void roles_speak_for_themselves_and_admins_as_clients(void **state) {
    (void)state;
    for (kiln_peer_role key = 0; key < KILN_PEER_COUNT; key++)
        for (kiln_peer_role as = 0; as < KILN_PEER_COUNT; as++)
            assert_int_equal(kiln_key_may_speak_as(key, as),
                             key == as || (key == KILN_PEER_ADMIN && as == KILN_PEER_CLIENT));
}

static void a_node_speaks_in_its_role_and_name(void **state) {
    (void)state;
    kiln_key key = {.role = KILN_PEER_TUNER, .node = "host"};
    kiln_msg_hello hello = {.role = KILN_PEER_TUNER, .node = KILN_STR("host")};
    expect_ok(kiln_key_check_hello(&key, &hello));
    hello.node = KILN_STR("guest");
    expect_error(kiln_key_check_hello(&key, &hello), PERMISSION_DENIED, "guest");
    hello.role = KILN_PEER_ADMIN;
    expect_error(kiln_key_check_hello(&key, &hello), PERMISSION_DENIED, "admin");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_say_role_node_and_generation),
        cmocka_unit_test(a_node_speaks_in_its_role_and_name),
        cmocka_unit_test(the_longest_name_fits),
        cmocka_unit_test(what_is_no_name_is_refused_with_a_reason),
        cmocka_unit_test(a_file_round_trips_in_order),
        cmocka_unit_test(comments_and_empty_lines_are_skipped),
        cmocka_unit_test(a_damaged_file_is_refused_with_its_line_and_never_its_secret),
        cmocka_unit_test(only_two_generations_are_kept),
        cmocka_unit_test(generations_run_out_in_an_orderly_way),
        cmocka_unit_test(revoking_takes_one_generation_or_the_node),
        cmocka_unit_test(a_revoked_number_does_not_come_back_after_reading_the_file_again),
        cmocka_unit_test(what_stands_behind_a_secret_round_trips),
        cmocka_unit_test(an_offer_that_is_taken_ends_the_ones_before),
        cmocka_unit_test(names_of_nodes_are_letters_digits_and_three_signs),
        cmocka_unit_test(days_are_days),
        cmocka_unit_test(a_signer_is_found_while_its_key_is_in_force),
        cmocka_unit_test(the_newest_key_is_found),
        cmocka_unit_test(a_file_has_a_largest_size),
        cmocka_unit_test(roles_speak_for_themselves_and_admins_as_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
