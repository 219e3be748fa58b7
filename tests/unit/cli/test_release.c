/* Statements beside archives: made, checked, and refused when a byte of either changes. */
#include "cli/release.h"

#include <stdio.h>

#include "base/file.h"
#include "tests/support/test.h"

static const uint8_t seed[KILN_SIGN_SEED_BYTES] = {7, 7};

typedef struct place {
    char *folder, *archive, *statement, *keys;
    kiln_signer *signer;
} place;

/* A folder with an archive, a file with the key that signs, and that key. */
static place begin(kiln_arena *arena) {
    place p = {.folder = make_folder(arena)};
    char half[KILN_SIGN_PUBLIC_TEXT];
    p.archive = kiln_arena_printf(arena, "%s/kiln-board-0.1.2-armhf.tar.zst", p.folder);
    p.statement = kiln_arena_printf(arena, "%s.release", p.archive);
    p.keys = kiln_arena_printf(arena, "%s/release-keys", p.folder);
    expect_ok(kiln_file_write(p.archive, KILN_STR("an archive"), 0644));
    expect_ok(kiln_signer_create(seed, &p.signer));
    kiln_sign_public_print(kiln_signer_public(p.signer), half);
    expect_ok(kiln_file_write(p.keys, kiln_str_printf(arena, "# us\n%s lab\n", half), 0644));
    return p;
}

static void end(place *p) {
    kiln_signer_destroy(p->signer);
    remove_folder(p->folder);
}

static void what_was_signed_is_told(void **state) {
    place p = begin(*state);
    kiln_release got;
    expect_ok(kiln_release_file_sign(p.archive, p.signer, *state));
    expect_ok(kiln_release_file_check(p.archive, p.keys, *state, &got));
    assert_string_equal(got.name, "kiln-board");
    assert_string_equal(got.version, "0.1.2");
    assert_string_equal(got.arch, "armhf");
    assert_int_equal(got.size_bytes, 10);
    end(&p);
}

static void a_changed_archive_is_refused(void **state) {
    place p = begin(*state);
    kiln_release got;
    expect_ok(kiln_release_file_sign(p.archive, p.signer, *state));
    expect_ok(kiln_file_write(p.archive, KILN_STR("An archive"), 0644));
    expect_error(kiln_release_file_check(p.archive, p.keys, *state, &got), DATA_LOSS, "sha256");
    expect_ok(kiln_file_write(p.archive, KILN_STR("an archive "), 0644));
    expect_error(kiln_release_file_check(p.archive, p.keys, *state, &got), DATA_LOSS, "size");
    end(&p);
}

static void keys_that_are_not_named_do_not_count(void **state) {
    place p = begin(*state);
    kiln_release got;
    expect_error(kiln_release_file_check(p.archive, p.keys, *state, &got), NOT_FOUND, ".release");
    expect_ok(kiln_release_file_sign(p.archive, p.signer, *state));
    expect_ok(kiln_file_write(p.keys, KILN_STR("# nobody\n"), 0644));
    expect_error(kiln_release_file_check(p.archive, p.keys, *state, &got), PERMISSION_DENIED,
                 "no release key");
    expect_ok(kiln_file_write(p.keys, KILN_STR("lab\n"), 0644));
    expect_error(kiln_release_file_check(p.archive, p.keys, *state, &got), INVALID_ARGUMENT,
                 "line 1");
    end(&p);
}

static void a_file_of_another_name_is_no_archive(void **state) {
    static const char *const bad[] = {"kiln-board-0.1.2-armhf.tar.gz", "0.1.2-armhf.tar.zst",
                                      "kiln-board-armhf.tar.zst", "kiln-board-0.1.2-vax.tar.zst",
                                      ".tar.zst"};
    place p = begin(*state);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) {
        const char *path = kiln_arena_printf(*state, "%s/%s", p.folder, bad[i]);
        expect_ok(kiln_file_write(path, KILN_STR("x"), 0644));
        expect_error(kiln_release_file_sign(path, p.signer, *state), INVALID_ARGUMENT, bad[i]);
        assert_false(kiln_file_exists(kiln_arena_printf(*state, "%s.release", path)));
    }
    end(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(what_was_signed_is_told),
        test_with_arena(a_changed_archive_is_refused),
        test_with_arena(keys_that_are_not_named_do_not_count),
        test_with_arena(a_file_of_another_name_is_no_archive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
