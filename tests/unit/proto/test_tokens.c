/* Tokens with which people sign in at a web server. */
#include <string.h>

#include "proto/keys.h"
#include "tests/support/test.h"

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define TODAY 20000u

static kiln_key name_of(const char *text) {
    kiln_key name;
    expect_ok(kiln_key_name_parse(kiln_str_from(text), &name));
    return name;
}

/* A key, or a token whose secret is all of this byte. */
static const kiln_key *add(kiln_keys *keys, const char *text, uint8_t fill, uint32_t last_day) {
    kiln_key name = name_of(text);
    const kiln_key *key = NULL;
    uint8_t secret[KILN_KEY_BYTES];
    memset(secret, fill, sizeof secret);
    memcpy(name.secret, secret, sizeof secret);
    if (name.is_token) kiln_web_token_digest(secret, name.secret);
    name.last_day = last_day;
    expect_ok(kiln_keys_add(keys, &name, &key));
    return key;
}

static const kiln_key *find(const kiln_keys *keys, const char *person, uint8_t fill) {
    char secret[KILN_KEY_BYTES];
    memset(secret, fill, sizeof secret);
    return kiln_keys_token(keys, kiln_str_from(person), (kiln_str){secret, sizeof secret}, TODAY);
}

static void a_token_is_text_and_back(void **state) {
    (void)state;
    char text[KILN_WEB_TOKEN_TEXT], longest[KILN_MESSAGES_TEXT + 1] = "",
                                                                 person[KILN_MESSAGES_TEXT + 1];
    uint8_t secret[KILN_KEY_BYTES], again[KILN_KEY_BYTES];
    for (uint32_t i = 0; i < KILN_KEY_BYTES; i++) secret[i] = (uint8_t)(i * 7 + 1);
    memset(longest, 'x', KILN_MESSAGES_TEXT);
    const char *const name[] = {"ann", "a-b.c_d", longest};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) {
        kiln_web_token_print(name[i], secret, text);
        assert_true(kiln_web_token_parse(kiln_str_from(text), person, again));
        assert_string_equal(person, name[i]);
        assert_memory_equal(again, secret, sizeof secret);
    }
    kiln_web_token_print("ann", (const uint8_t[KILN_KEY_BYTES]){0xab}, text);
    expect_contains(text, "kiln-ann-ab0000");
}

static void what_is_no_token_is_refused(void **state) {
    static const char *const bad[] = {
        "",
        "kiln-",
        "kiln-ann",
        "kiln--" SECRET,
        "kiln-" SECRET,
        "ann-" SECRET,
        "kiln-ann-" SECRET "0",
        "kiln-ann-zz112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
        "kiln-ann_" SECRET,
        "kiln-12345678901234567890123456789012345678901234567890123456789012345-" SECRET,
    };
    char person[KILN_MESSAGES_TEXT + 1];
    uint8_t secret[KILN_KEY_BYTES];
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        assert_false(kiln_web_token_parse(kiln_str_from(bad[i]), person, secret));
    assert_false(kiln_web_token_parse(KILN_STR("kiln-a\0n-" SECRET), person, secret));
}

static void the_list_has_the_digest_and_finds_a_token_by_its_secret(void **state) {
    (void)state;
    kiln_keys keys = {0}, again = {0};
    kiln_strbuf text = {0};
    add(&keys, "client/ann", 1, 0);
    add(&keys, "client/ann/web", 2, 0);
    add(&keys, "admin/ann/web", 3, 0);
    add(&keys, "client/bob/web", 4, TODAY - 1);
    kiln_keys_print(&keys, &text);
    expect_contains(text.data, "kiln-keys 3\n");
    expect_contains(text.data, "client/ann/web/1 ");
    assert_null(strstr(text.data, "0202020202"));
    expect_ok(kiln_keys_parse(kiln_strbuf_view(&text), &again));
    assert_int_equal(again.key.count, 4);
    assert_int_equal(find(&again, "ann", 2)->role, KILN_PEER_CLIENT);
    assert_int_equal(find(&again, "ann", 3)->role, KILN_PEER_ADMIN);
    assert_null(find(&again, "ann", 1)); /* a key is no token */
    assert_null(find(&again, "ann", 4)); /* another's */
    assert_null(find(&again, "bob", 4)); /* it has expired */
    assert_null(find(&again, "", 2));
    assert_null(kiln_keys_token(&again, KILN_STR("ann"), KILN_STR("short"), TODAY));
    assert_null(kiln_keys_token(&again, KILN_STR("ann\0x"),
                                (kiln_str){(const char *)again.key.data, KILN_KEY_BYTES}, TODAY));
    kiln_keys_deinit(&keys);
    kiln_keys_deinit(&again);
    kiln_strbuf_deinit(&text);
}

static void files_without_tokens_stay_as_older_programs_read_them(void **state) {
    (void)state;
    kiln_keys keys = {0};
    kiln_strbuf text = {0};
    add(&keys, "client/ann", 1, 0);
    kiln_keys_print(&keys, &text);
    expect_contains(text.data, "kiln-keys 2\n");
    kiln_strbuf_deinit(&text);
    kiln_keys_deinit(&keys);
    expect_error(kiln_keys_parse(KILN_STR("kiln-keys 2\nclient/a/web/1 " SECRET "\n"), &keys),
                 DATA_LOSS, "without tokens");
}

static void tokens_and_keys_of_a_person_do_not_push_each_other_out(void **state) {
    (void)state;
    kiln_keys keys = {0};
    for (uint8_t i = 1; i <= 2; i++) add(&keys, "client/ann", i, 0);
    for (uint8_t i = 1; i <= 3; i++)
        assert_int_equal(add(&keys, "client/ann/web", i, 0)->generation, i);
    assert_int_equal(kiln_keys_in_force(&keys), 4);
    kiln_key first = name_of("client/ann/1");
    assert_non_null(kiln_keys_find(&keys, &first));
    kiln_keys_deinit(&keys);
}

static void revoking_a_person_takes_the_tokens_and_a_token_no_key(void **state) {
    (void)state;
    kiln_keys keys = {0};
    add(&keys, "client/ann", 1, 0);
    add(&keys, "client/ann/web", 2, 0);
    add(&keys, "client/ann/web", 3, 0);
    add(&keys, "admin/ann/web", 4, 0);
    kiln_key one = name_of("client/ann/web/1"), key = name_of("client/ann/1");
    kiln_key all = name_of("client/ann");
    assert_int_equal(kiln_keys_revoke(&keys, &one), 1);
    assert_null(find(&keys, "ann", 2));
    assert_int_equal(kiln_keys_revoke(&keys, &key), 1);
    assert_non_null(find(&keys, "ann", 3));
    add(&keys, "client/ann", 5, 0);
    assert_int_equal(kiln_keys_revoke(&keys, &all), 2);
    assert_null(find(&keys, "ann", 3));
    assert_non_null(find(&keys, "ann", 4)); /* of another role */
    assert_int_equal(add(&keys, "client/ann/web", 6, 0)->generation, 3);
    kiln_keys_deinit(&keys);
}

static void a_person_is_what_its_keys_in_force_say(void **state) {
    static const struct {
        const char *person;
        kiln_person_keys is;
    } row[] = {
        {"ann", {.has_any = true}},
        {"bob", {.has_any = true, .has_token = true}},
        {"cec", {.has_any = true, .is_admin = true}},
        {"dan", {.has_any = true, .has_token = true, .is_admin = true}},
        {"eve", {0}}, /* expired */
        {"fay", {0}}, /* revoked */
        {"rpi", {0}}, /* a board */
        {"nobody", {0}},
        {"", {0}},
    };
    (void)state;
    kiln_keys keys = {0};
    add(&keys, "client/ann", 1, TODAY);
    add(&keys, "client/bob/web", 2, 0);
    add(&keys, "admin/cec", 3, 0);
    add(&keys, "client/dan", 4, 0);
    add(&keys, "admin/dan/web", 5, 0);
    add(&keys, "admin/eve", 6, TODAY - 1);
    add(&keys, "admin/fay", 7, 0);
    add(&keys, "board/rpi", 8, 0);
    kiln_key fay = name_of("admin/fay");
    kiln_keys_revoke(&keys, &fay);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_person_keys is = kiln_keys_of_person(&keys, kiln_str_from(row[i].person), TODAY);
        assert_int_equal(is.has_any, row[i].is.has_any);
        assert_int_equal(is.has_token, row[i].is.has_token);
        assert_int_equal(is.is_admin, row[i].is.is_admin);
    }
    kiln_keys_deinit(&keys);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_text_and_back),
        cmocka_unit_test(what_is_no_token_is_refused),
        cmocka_unit_test(the_list_has_the_digest_and_finds_a_token_by_its_secret),
        cmocka_unit_test(files_without_tokens_stay_as_older_programs_read_them),
        cmocka_unit_test(tokens_and_keys_of_a_person_do_not_push_each_other_out),
        cmocka_unit_test(revoking_a_person_takes_the_tokens_and_a_token_no_key),
        cmocka_unit_test(a_person_is_what_its_keys_in_force_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
