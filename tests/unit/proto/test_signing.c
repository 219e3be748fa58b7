#include "proto/signing.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tests/support/test.h"

static const char *path_of(kiln_arena *arena, const char *home) {
    return kiln_arena_printf(arena, "%s/signing.key", home);
}

static kiln_sign_public load(const char *home) {
    kiln_signer *signer = NULL;
    expect_ok(kiln_signing_load(home, NULL, &signer));
    kiln_sign_public half = *kiln_signer_public(signer);
    kiln_signer_destroy(signer);
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
    kiln_signer *signer = NULL;
    static const char *const text[] = {"", "kiln-signing 1\n", "kiln-signing 1\n00\n",
                                       "kiln-signing 2\n"
                                       "00000000000000000000000000000000"
                                       "00000000000000000000000000000000\n"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        expect_ok(kiln_file_write(path, kiln_str_from(text[i]), 0600));
        expect_error(kiln_signing_load(home, NULL, &signer), DATA_LOSS, "holds no key");
    }
    expect_ok(kiln_file_write(path, KILN_STR("kiln-signing 1\n"), 0640));
    expect_error(kiln_signing_load(home, NULL, &signer), PERMISSION_DENIED, "chmod 600");
    assert_null(signer);
    remove_folder(home);
}

static void without_signatures_there_is_no_signer(void **state) {
    char *home = make_folder(*state);
    kiln_signer *signer = NULL;
    expect_ok(kiln_signing_load(home, NULL, &signer));
    assert_true((signer != NULL) == kiln_sign_supported());
    kiln_signer_destroy(signer);
    remove_folder(home);
}

int main(void) {
    const struct CMUnitTest with_openssl[] = {
        test_with_arena(the_key_is_made_once_and_is_secret),
        test_with_arena(what_is_no_key_is_refused),
        test_with_arena(without_signatures_there_is_no_signer),
    };
    const struct CMUnitTest without[] = {test_with_arena(without_signatures_there_is_no_signer)};
    return kiln_sign_supported() ? cmocka_run_group_tests(with_openssl, NULL, NULL)
                                 : cmocka_run_group_tests(without, NULL, NULL);
}
