#include "base/identity.h"

#include "base/file.h"
#include "tests/support/test.h"

static void new_identities_differ_and_parse(void **state) {
    (void)state;
    char one[KILN_HASH128_TEXT], two[KILN_HASH128_TEXT];
    kiln_hash128 parsed;
    expect_ok(kiln_identity_create(one));
    expect_ok(kiln_identity_create(two));
    assert_string_not_equal(one, two);
    assert_true(kiln_hash128_parse(kiln_str_from(one), &parsed));
}

static void a_stored_identity_stays_the_same(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = kiln_arena_printf(arena, "%s/node", folder);
    char first[KILN_HASH128_TEXT], again[KILN_HASH128_TEXT];
    expect_ok(kiln_identity_load(path, first));
    expect_ok(kiln_identity_load(path, again));
    assert_string_equal(first, again);
    remove_folder(folder);
}

static void what_is_no_identity_is_named(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = kiln_arena_printf(arena, "%s/node", folder);
    char text[KILN_HASH128_TEXT];
    expect_ok(kiln_file_write(path, KILN_STR("me\n"), 0600));
    expect_error(kiln_identity_load(path, text), DATA_LOSS, "node does not hold an identity");
    expect_error(kiln_identity_load(kiln_arena_printf(arena, "%s/no/node", folder), text),
                 NOT_FOUND, "no/node");
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_identities_differ_and_parse),
        test_with_arena(a_stored_identity_stays_the_same),
        test_with_arena(what_is_no_identity_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
