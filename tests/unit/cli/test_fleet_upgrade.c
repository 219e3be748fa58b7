/* Which archives `kiln fleet upgrade --to` means. */
#include "cli/fleet_upgrade.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/test.h"

static void put(kiln_arena *arena, const char *folder, const char *name) {
    expect_ok(
        kiln_file_write(kiln_arena_printf(arena, "%s/%s", folder, name), KILN_STR("x"), 0600));
}

static void a_version_means_the_archives_here_or_in_dist(void **state) {
    kiln_arena *arena = *state;
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    char *folder = make_folder(arena);
    const char *path[3] = {0};
    uint32_t count = 0;
    assert_int_equal(chdir(folder), 0);
    kiln_status st = kiln_fleet_upgrade_archives("0.2.0", arena, path, 3, &count);
    assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
    kiln_status_free(st);
    expect_ok(kiln_folder_create("dist", 0700));
    put(arena, "dist", "kiln-board-0.2.0-armhf.tar.zst");
    expect_ok(kiln_fleet_upgrade_archives("0.2.0", arena, path, 3, &count));
    assert_int_equal(count, 1);
    assert_string_equal(path[0], "dist/kiln-board-0.2.0-armhf.tar.zst");
    put(arena, ".", "kiln-board-0.2.0-aarch64.tar.zst");
    put(arena, ".", "kiln-board-0.2.0-aarch64.tar.zst.release");
    put(arena, ".", "kiln-board-0.2.01-aarch64.tar.zst");
    count = 0;
    expect_ok(kiln_fleet_upgrade_archives("0.2.0", arena, path, 3, &count));
    assert_int_equal(count, 1);
    assert_string_equal(path[0], "./kiln-board-0.2.0-aarch64.tar.zst");
    assert_int_equal(chdir(here), 0);
    remove_folder(folder);
}

static void anything_else_is_a_path(void **state) {
    const char *path[2] = {0};
    uint32_t count = 0;
    expect_ok(kiln_fleet_upgrade_archives("a.tar.zst", *state, path, 2, &count));
    expect_ok(kiln_fleet_upgrade_archives("/b/0.2.0", *state, path, 2, &count));
    assert_int_equal(count, 2);
    assert_string_equal(path[1], "/b/0.2.0");
    kiln_status st = kiln_fleet_upgrade_archives("c", *state, path, 2, &count);
    assert_int_equal(kiln_status_code(st), KILN_RESOURCE_EXHAUSTED);
    kiln_status_free(st);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_version_means_the_archives_here_or_in_dist),
        test_with_arena(anything_else_is_a_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
