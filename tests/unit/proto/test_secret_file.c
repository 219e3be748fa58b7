#include "proto/net/secret_file.h"

#include <sys/stat.h>

#include "base/file.h"
#include "tests/support/test.h"

#define DIGITS "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void a_secret_is_written_for_this_user_only_and_read_again(void **state) {
    char *folder = make_folder(*state);
    const char *path = kiln_arena_printf(*state, "%s/secret", folder);
    kiln_digest made, other, read;
    struct stat info;
    expect_ok(kiln_secret_create(path, "head\n", &made));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    expect_ok(kiln_secret_load(path, "head\n", "is odd", &read));
    assert_true(kiln_digest_equal(&made, &read));
    expect_ok(kiln_secret_create(path, "head\n", &other));
    assert_false(kiln_digest_equal(&made, &other));
    remove_folder(folder);
}

static void another_content_is_refused_with_the_reason_given(void **state) {
    static const char *const text[] = {"", "head\n", DIGITS "\n", "tail\n" DIGITS "\n",
                                       "head\n" DIGITS "0\n"};
    char *folder = make_folder(*state);
    const char *path = kiln_arena_printf(*state, "%s/secret", folder);
    kiln_digest read;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        expect_ok(kiln_file_write(path, kiln_str_from(text[i]), 0600));
        expect_error(kiln_secret_load(path, "head\n", "is odd", &read), DATA_LOSS,
                     "/secret is odd");
    }
    expect_ok(kiln_file_write(path, KILN_STR("head\n" DIGITS "\n"), 0600));
    expect_ok(kiln_secret_load(path, "head\n", "is odd", &read));
    remove_folder(folder);
}

static void a_file_that_others_can_read_is_no_secret(void **state) {
    char *folder = make_folder(*state);
    const char *path = kiln_arena_printf(*state, "%s/secret", folder);
    kiln_str text = {0};
    for (unsigned mode = 0601; mode <= 0640; mode++) {
        expect_ok(kiln_file_write(path, KILN_STR("x"), 0600));
        assert_int_equal(chmod(path, mode), 0);
        expect_error(kiln_secret_file_read(path, 8, *state, &text), PERMISSION_DENIED, "chmod 600");
    }
    expect_error(kiln_secret_file_read("/nowhere", 8, *state, &text), NOT_FOUND, "/nowhere");
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_secret_is_written_for_this_user_only_and_read_again),
        test_with_arena(another_content_is_refused_with_the_reason_given),
        test_with_arena(a_file_that_others_can_read_is_no_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
