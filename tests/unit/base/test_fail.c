#include "base/fail.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "tests/support/test.h"

static void nothing_fails_unless_it_is_armed(void **state) {
    (void)state;
    for (int i = 0; i < KILN_FAILPOINT_COUNT; i++) {
        expect_ok(kiln_fail_at((kiln_failpoint)i));
        kiln_fail_pass((kiln_failpoint)i);
    }
    assert_false(kiln_fail_io());
}

static void an_error_comes_once_at_the_nth_pass(void **state) {
    (void)state;
    expect_ok(kiln_fail_arm("BLOB_RENAME:3=error"));
    expect_ok(kiln_fail_at(KILN_FAIL_BLOB_RENAME));
    expect_ok(kiln_fail_at(KILN_FAIL_FILE_REPLACE));
    expect_ok(kiln_fail_at(KILN_FAIL_BLOB_RENAME));
    expect_error(kiln_fail_at(KILN_FAIL_BLOB_RENAME), RESOURCE_EXHAUSTED, "BLOB_RENAME");
    expect_ok(kiln_fail_at(KILN_FAIL_BLOB_RENAME));
    expect_ok(kiln_fail_arm(NULL));
}

static void pass_a_point(void) {
    expect_ok(kiln_fail_arm("BLOB_KEPT:2"));
    kiln_fail_pass(KILN_FAIL_BLOB_KEPT);
    kiln_fail_pass(KILN_FAIL_BLOB_KEPT);
}

static void a_kill_is_a_kill_9(void **state) {
    (void)state;
    int how = run_in_child(pass_a_point);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

static void what_cannot_be_armed_is_refused(void **state) {
    (void)state;
    expect_error(kiln_fail_arm("NOWHERE"), INVALID_ARGUMENT, "no point \"NOWHERE\"");
    expect_error(kiln_fail_arm("BLOB_KEPT=error"), INVALID_ARGUMENT, "BLOB_KEPT cannot end");
    expect_error(kiln_fail_arm("BLOB_KEPT=later"), INVALID_ARGUMENT, "\"later\"");
    expect_error(kiln_fail_arm("BLOB_KEPT:0"), INVALID_ARGUMENT, "NAME[:NTH]");
    expect_error(kiln_fail_arm("io:x"), INVALID_ARGUMENT, "NAME[:NTH]");
}

static void points_have_names_of_their_own(void **state) {
    (void)state;
    for (int i = 0; i < KILN_FAILPOINT_COUNT; i++) {
        const kiln_failpoint_info *info = kiln_failpoint_info_of((kiln_failpoint)i);
        assert_true(info->name[0] && info->doc[0] && info->program[0]);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(info->name, kiln_failpoint_info_of((kiln_failpoint)k)->name);
    }
}

/* Fails the first operation, then the second, ... until replacing a file needs no more. */
static void a_file_is_old_or_new_whatever_operation_fails(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    char *folder = NULL;
    expect_ok(kiln_folder_create_temp("kiln-fail-test", &arena, &folder));
    const char *path = kiln_arena_printf(&arena, "%s/file", folder);
    bool failed = true;
    uint64_t nth = 0;
    while (failed) {
        expect_ok(kiln_file_write(path, KILN_STR("old"), 0600));
        kiln_fail_io_nth(++nth);
        kiln_status st = kiln_file_write(path, KILN_STR("new"), 0600);
        kiln_fail_io_nth(0);
        failed = st != NULL;
        if (st) expect_error(st, RESOURCE_EXHAUSTED, path);
        kiln_str content;
        expect_ok(kiln_file_read(path, 100, &arena, &content));
        expect_str(content, failed ? "old" : "new");
        char **names;
        size_t count;
        expect_ok(kiln_folder_list(folder, &arena, &names, &count));
        assert_int_equal(count, 1); /* nothing beside it is left behind */
    }
    assert_true(nth > 3);
    expect_ok(kiln_folder_remove(folder));
    kiln_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_fails_unless_it_is_armed),
        cmocka_unit_test(an_error_comes_once_at_the_nth_pass),
        cmocka_unit_test(a_kill_is_a_kill_9),
        cmocka_unit_test(what_cannot_be_armed_is_refused),
        cmocka_unit_test(points_have_names_of_their_own),
        cmocka_unit_test(a_file_is_old_or_new_whatever_operation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
