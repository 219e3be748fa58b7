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

typedef struct row {
    const char *id, *name;
} row;

static kiln_status find(kiln_arena *arena, const row *rows, const char *typed, const char **out) {
    kiln_identity_search search = {.typed = kiln_str_from(typed), .arena = arena};
    kiln_str id = {0};
    for (; rows->id; rows++)
        kiln_identity_try(&search, kiln_str_from(rows->id), kiln_str_from(rows->name));
    kiln_status st = kiln_identity_found(&search, "board", &id);
    *out = kiln_str_dup(arena, id);
    return st;
}

static void a_beginning_means_the_only_one_that_begins_so(void **state) {
    static const row rows[] = {{"abcd1234", "rpi4-lab"}, {"abcd5678", "rpi4"},     {"ef01", NULL},
                               {"ef0123", NULL},         {"abcd1234", "rpi4-lab"}, {NULL, NULL}};
    static const row found[] = {{"abcd1", "abcd1234"},    {"abcd1234", "abcd1234"},
                                {"rpi4-", "abcd1234"},    {"rpi4", "abcd5678"},
                                {"rpi4-lab", "abcd1234"}, {"ef01", "ef01"},
                                {"ef012", "ef0123"},      {NULL, NULL}};
    const char *id = NULL;
    for (const row *r = found; r->id; r++) {
        expect_ok(find(*state, rows, r->id, &id));
        assert_string_equal(id, r->name);
    }
    expect_error(find(*state, rows, "abcd", &id), INVALID_ARGUMENT,
                 "'abcd' may mean more than one board: abcd1234 (rpi4-lab), abcd5678 (rpi4)");
    expect_error(find(*state, rows, "abc", &id), NOT_FOUND, "there is no board abc,");
    expect_error(find(*state, rows, "abcd12345", &id), NOT_FOUND, "none that begins so");
    expect_error(find(*state, rows, "", &id), NOT_FOUND, "no board , and none");
}

static void a_name_of_several_is_not_chosen_among(void **state) {
    static const row rows[] = {
        {"abcdef", "pool"}, {"pool-1", "x"}, {"123456", "pool"}, {NULL, NULL}};
    row many[20] = {{NULL, NULL}};
    const char *id = NULL;
    expect_error(find(*state, rows, "pool", &id), INVALID_ARGUMENT,
                 "one board: abcdef (pool), 123456 (pool)");
    for (int i = 0; i < 12; i++) many[i].id = kiln_arena_printf(*state, "same%d", i);
    expect_error(find(*state, many, "same", &id), INVALID_ARGUMENT, "same7, ...");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_identities_differ_and_parse),
        test_with_arena(a_stored_identity_stays_the_same),
        test_with_arena(what_is_no_identity_is_named),
        test_with_arena(a_beginning_means_the_only_one_that_begins_so),
        test_with_arena(a_name_of_several_is_not_chosen_among),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
