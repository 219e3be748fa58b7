#include "base/sign/release.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

static const uint8_t seed[KILN_SIGN_SEED_BYTES] = {1, 2, 3}, other_seed[KILN_SIGN_SEED_BYTES] = {4};

static kiln_release plain(void) {
    kiln_release release = {.name = "kiln-board",
                            .version = "0.1.0",
                            .arch = "aarch64",
                            .size_bytes = 1234567,
                            .digest = {{9, 8, 7}}};
    return release;
}

/* The statement about `release`, signed by `by`; the caller frees it. */
static kiln_strbuf sign_by(const uint8_t *by, kiln_release release) {
    kiln_signer *signer = NULL;
    kiln_strbuf text = {0};
    expect_ok(kiln_signer_create(by, &signer));
    expect_ok(kiln_release_sign(&release, signer, &text));
    kiln_signer_destroy(signer);
    return text;
}

static kiln_release_keys keys_of(const uint8_t *one) {
    kiln_release_keys keys = {.count = 1};
    expect_ok(kiln_sign_public_of(one, &keys.key[0]));
    return keys;
}

static void a_statement_by_a_release_key_is_taken(void **state) {
    (void)state;
    kiln_strbuf text = sign_by(seed, plain());
    const kiln_release_keys keys = keys_of(seed);
    kiln_release got;
    expect_ok(kiln_release_check(kiln_strbuf_view(&text), &keys, &got));
    assert_string_equal(got.name, "kiln-board");
    assert_string_equal(got.version, "0.1.0");
    assert_string_equal(got.arch, "aarch64");
    assert_int_equal(got.size_bytes, 1234567);
    assert_int_equal(got.digest.byte[2], 7);
    assert_memory_equal(&got.key, &keys.key[0], sizeof got.key);
    assert_true(text.size <= KILN_RELEASE_TEXT_MAX);
    kiln_strbuf_deinit(&text);
}

static void a_statement_by_another_key_is_refused(void **state) {
    (void)state;
    kiln_strbuf text = sign_by(other_seed, plain());
    const kiln_release_keys keys = keys_of(seed), none = {.count = 0};
    kiln_release got;
    expect_error(kiln_release_check(kiln_strbuf_view(&text), &keys, &got), PERMISSION_DENIED,
                 "no release key");
    expect_error(kiln_release_check(kiln_strbuf_view(&text), &none, &got), PERMISSION_DENIED,
                 "no release key");
    kiln_strbuf_deinit(&text);
}

/* Each byte, changed by each bit, gives another text that nobody signed. */
static void each_changed_bit_is_noticed(void **state) {
    (void)state;
    kiln_strbuf text = sign_by(seed, plain());
    const kiln_release_keys keys = keys_of(seed);
    for (size_t i = 0; i < text.size * 8; i++) {
        kiln_release got;
        text.data[i / 8] = (char)(text.data[i / 8] ^ (1 << i % 8));
        kiln_status st = kiln_release_check(kiln_strbuf_view(&text), &keys, &got);
        const kiln_code code = kiln_status_code(st);
        assert_true(code == KILN_INVALID_ARGUMENT || code == KILN_PERMISSION_DENIED);
        kiln_status_free(st);
        text.data[i / 8] = (char)(text.data[i / 8] ^ (1 << i % 8));
    }
    kiln_strbuf_deinit(&text);
}

static void a_statement_that_is_cut_or_longer_is_refused(void **state) {
    (void)state;
    kiln_strbuf text = sign_by(seed, plain());
    kiln_release got;
    for (size_t size = 0; size < text.size; size++)
        expect_error(kiln_release_parse((kiln_str){text.data, size}, &got), INVALID_ARGUMENT,
                     "no statement");
    kiln_strbuf_printf(&text, "\n");
    expect_error(kiln_release_parse(kiln_strbuf_view(&text), &got), INVALID_ARGUMENT, "follows");
    while (text.size <= KILN_RELEASE_TEXT_MAX) kiln_strbuf_printf(&text, "name kiln-board\n");
    expect_error(kiln_release_parse(kiln_strbuf_view(&text), &got), INVALID_ARGUMENT, "1024");
    kiln_strbuf_deinit(&text);
}

/* The statement with `from` replaced by `to` once. */
static kiln_status parse_with(const char *from, const char *to) {
    kiln_strbuf text = sign_by(seed, plain()), changed = {0};
    kiln_release got;
    const char *at = strstr(text.data, from);
    assert_non_null(at);
    kiln_strbuf_printf(&changed, "%.*s%s%s", (int)(at - text.data), text.data, to,
                       at + strlen(from));
    kiln_status st = kiln_release_parse(kiln_strbuf_view(&changed), &got);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&changed);
    return st;
}

static void only_one_spelling_is_read(void **state) {
    (void)state;
    expect_ok(parse_with("0.1.0", "0.1.1"));
    expect_error(parse_with("release 1", "release 2"), INVALID_ARGUMENT, "kiln release 1");
    expect_error(parse_with("size 1234567", "size 0x12d687"), INVALID_ARGUMENT, "otherwise");
    expect_error(parse_with("size 1234567", "size 01234567"), INVALID_ARGUMENT, "otherwise");
    expect_error(parse_with("size 1234567", "size 0"), INVALID_ARGUMENT, "1 byte");
    expect_error(parse_with("size 1234567", "size 268435457"), INVALID_ARGUMENT, "1 byte");
    expect_error(parse_with("size 1234567", "size -1"), INVALID_ARGUMENT, "size");
    expect_error(parse_with("090807", "09080"), INVALID_ARGUMENT, "sha256");
    expect_error(parse_with("aarch64", "sparc"), INVALID_ARGUMENT, "arch");
    expect_error(parse_with("kiln-board", "Kiln"), INVALID_ARGUMENT, "name");
    expect_error(parse_with("kiln-board", "../board"), INVALID_ARGUMENT, "name");
    expect_error(parse_with("kiln-board", ""), INVALID_ARGUMENT, "name");
    expect_error(parse_with("kiln-board", "abcdefghijklmnopqrstuvwxyz012345"), INVALID_ARGUMENT,
                 "name");
    expect_error(parse_with("name kiln-board\n", ""), INVALID_ARGUMENT, "name");
    expect_error(parse_with("0.1.0", "1.2.3.4.5"), INVALID_ARGUMENT, "version");
}

static void what_a_statement_cannot_say_is_not_signed(void **state) {
    (void)state;
    static const struct {
        const char *name, *version, *arch;
        uint64_t size;
    } bad[] = {{"", "1.0", "aarch64", 1},
               {"a b", "1.0", "aarch64", 1},
               {"a", "1.0-rc1", "aarch64", 1},
               {"a", "1.0", "aarch64\n", 1},
               {"a", "1.0", "aarch64", 0}};
    kiln_signer *signer = NULL;
    expect_ok(kiln_signer_create(seed, &signer));
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) {
        kiln_release release = {.size_bytes = bad[i].size};
        kiln_strbuf text = {0};
        snprintf(release.name, sizeof release.name, "%s", bad[i].name);
        snprintf(release.version, sizeof release.version, "%s", bad[i].version);
        snprintf(release.arch, sizeof release.arch, "%s", bad[i].arch);
        expect_error(kiln_release_sign(&release, signer, &text), INVALID_ARGUMENT, "");
        assert_int_equal(text.size, 0);
    }
    kiln_signer_destroy(signer);
}

static void versions_are_compared_by_their_numbers(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        int sign;
    } row[] = {{"0.1.0", "0.1.0", 0}, {"0.9.1", "0.10.0", -1}, {"1", "1.0.0", 0},
               {"1.0.1", "1", 1},     {"2", "10", -1},         {"1.0.0.1", "1.0.0", 1}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const int got =
            kiln_release_compare_versions(kiln_str_from(row[i].a), kiln_str_from(row[i].b));
        assert_int_equal((got > 0) - (got < 0), row[i].sign);
    }
    static const char *const bad[] = {"",          ".",  "1.", ".1", "1..2",      "01",
                                      "1.2.3.4.5", "1a", "-1", "1 ", "1234567890"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        assert_false(kiln_release_is_version(kiln_str_from(bad[i])));
    assert_true(kiln_release_is_version(KILN_STR("10.20.30.999999999")));
}

#define HALF "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"

static void release_keys_are_lines_with_comments(void **state) {
    (void)state;
    kiln_release_keys keys;
    expect_ok(
        kiln_release_keys_parse(KILN_STR("# the lab\n\n" HALF " ann\n  " HALF "\r\n#"), &keys));
    assert_int_equal(keys.count, 2);
    assert_int_equal(keys.key[1].byte[0], 3);
    expect_ok(kiln_release_keys_parse(KILN_STR(""), &keys));
    assert_int_equal(keys.count, 0);
    expect_error(kiln_release_keys_parse(KILN_STR("#\n" HALF "0\n"), &keys), INVALID_ARGUMENT,
                 "line 2");
    expect_error(kiln_release_keys_parse(KILN_STR("ann " HALF "\n"), &keys), INVALID_ARGUMENT,
                 "line 1");
    kiln_strbuf many = {0};
    for (size_t i = 0; i <= KILN_RELEASE_KEYS_MAX; i++) kiln_strbuf_printf(&many, HALF "\n");
    expect_error(kiln_release_keys_parse(kiln_strbuf_view(&many), &keys), RESOURCE_EXHAUSTED, "32");
    kiln_strbuf_deinit(&many);
}

static void without_signatures_nothing_is_right(void **state) {
    (void)state;
    char hex[129] = "";
    kiln_strbuf text = {0};
    kiln_release got;
    kiln_release_keys keys;
    memset(hex, '0', 128);
    expect_ok(kiln_release_keys_parse(KILN_STR(HALF), &keys));
    kiln_strbuf_printf(&text,
                       "kiln release 1\nname a\nversion 1\narch armhf\nsize 1\nsha256 %s\nkey %s\n"
                       "signature %s\n",
                       HALF, HALF, hex);
    expect_ok(kiln_release_parse(kiln_strbuf_view(&text), &got));
    kiln_status st = kiln_release_check(kiln_strbuf_view(&text), &keys, &got);
    const kiln_code code = kiln_status_code(st);
    kiln_status_free(st);
    assert_true(code == KILN_UNIMPLEMENTED || code == KILN_PERMISSION_DENIED);
    kiln_strbuf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest with[] = {
        cmocka_unit_test(a_statement_by_a_release_key_is_taken),
        cmocka_unit_test(a_statement_by_another_key_is_refused),
        cmocka_unit_test(each_changed_bit_is_noticed),
        cmocka_unit_test(a_statement_that_is_cut_or_longer_is_refused),
        cmocka_unit_test(only_one_spelling_is_read),
        cmocka_unit_test(what_a_statement_cannot_say_is_not_signed),
        cmocka_unit_test(versions_are_compared_by_their_numbers),
        cmocka_unit_test(release_keys_are_lines_with_comments),
    };
    const struct CMUnitTest without[] = {
        cmocka_unit_test(versions_are_compared_by_their_numbers),
        cmocka_unit_test(release_keys_are_lines_with_comments),
        cmocka_unit_test(without_signatures_nothing_is_right),
    };
    return kiln_sign_supported() ? cmocka_run_group_tests(with, NULL, NULL)
                                 : cmocka_run_group_tests(without, NULL, NULL);
}
