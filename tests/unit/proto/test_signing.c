#include "proto/signing.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "proto/net.h"
#include "tests/support/test.h"

static const char *path_of(kiln_arena *arena, const char *home) {
    return kiln_arena_printf(arena, "%s/signing.key", home);
}

static kiln_sign_public load(const char *home) {
    kiln_signing own = {0};
    expect_ok(kiln_signing_load(home, NULL, &own));
    kiln_sign_public half = *kiln_signer_public(own.signer);
    kiln_signer_destroy(own.signer);
    return half;
}

static void the_key_is_made_once_and_is_secret(void **state) {
    char *home = make_folder(*state);
    struct stat info;
    kiln_sign_public first = load(home), again = load(home);
    assert_memory_equal(&first, &again, sizeof first);
    assert_int_equal(stat(path_of(*state, home), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);

    char *other = make_folder(*state);
    kiln_sign_public second = load(other);
    assert_true(memcmp(&first, &second, sizeof first) != 0);
    remove_folder(other);
    remove_folder(home);
}

static void what_is_no_key_is_refused(void **state) {
    char *home = make_folder(*state);
    const char *path = path_of(*state, home);
    kiln_signing own = {0};
    static const char *const text[] = {"", "kiln-signing 1\n", "kiln-signing 1\n00\n",
                                       "kiln-signing 2\n"
                                       "00000000000000000000000000000000"
                                       "00000000000000000000000000000000\n"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        expect_ok(kiln_file_write(path, kiln_str_from(text[i]), 0600));
        expect_error(kiln_signing_load(home, NULL, &own), DATA_LOSS, "holds no key");
    }
    expect_ok(kiln_file_write(path, KILN_STR("kiln-signing 1\n"), 0640));
    expect_error(kiln_signing_load(home, NULL, &own), PERMISSION_DENIED, "chmod 600");
    assert_null(own.signer);
    remove_folder(home);
}

/* The seed of RFC 8032's TEST 1 and its public half. */
static void a_key_file_with_a_seed_signs(void **state) {
    char *home = make_folder(*state), text[KILN_SIGN_PUBLIC_TEXT];
    const char *path = kiln_arena_printf(*state, "%s/key", home);
    kiln_keys keys = {0};
    kiln_key key = {.role = KILN_PEER_TUNER, .node = "box", .generation = 1, .has_seed = true};
    kiln_digest seed;
    assert_true(kiln_digest_parse(
        KILN_STR("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"), &seed));
    memcpy(key.seed, seed.byte, sizeof key.seed);
    kiln_vec_push(&keys.key, key);
    expect_ok(kiln_keys_write(path, &keys));
    kiln_keys_deinit(&keys);
    kiln_sign_public half = load(home);
    kiln_sign_public_print(&half, text);
    assert_string_equal(text, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    assert_false(kiln_file_exists(path_of(*state, home)));
    remove_folder(home);
}

static void without_signatures_there_is_no_signer(void **state) {
    char *home = make_folder(*state);
    kiln_signing own = {0};
    expect_ok(kiln_signing_load(home, NULL, &own));
    assert_true((own.signer != NULL) == kiln_sign_supported());
    kiln_signer_destroy(own.signer);
    remove_folder(home);
}

int main(void) {
    const struct CMUnitTest with_openssl[] = {
        test_with_arena(the_key_is_made_once_and_is_secret),
        test_with_arena(what_is_no_key_is_refused),
        test_with_arena(a_key_file_with_a_seed_signs),
        test_with_arena(without_signatures_there_is_no_signer),
    };
    const struct CMUnitTest without[] = {test_with_arena(without_signatures_there_is_no_signer)};
    return kiln_sign_supported() ? cmocka_run_group_tests(with_openssl, NULL, NULL)
                                 : cmocka_run_group_tests(without, NULL, NULL);
}
