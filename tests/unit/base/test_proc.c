#include "base/proc.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "tests/support/test.h"

#define FAR_DEADLINE_NS (60 * KILN_NS_PER_S)

/* Runs a shell script; scripts are how a test child is told what to do. */
static kiln_proc_result run_script(kiln_arena *arena, const char *script,
                                   kiln_proc_options options) {
    const char *argv[] = {"sh", "-c", script, NULL};
    kiln_proc_result result = {0};
    options.argv = argv;
    if (!options.deadline_ns) options.deadline_ns = FAR_DEADLINE_NS;
    if (!options.output_max) options.output_max = 1 << 20;
    expect_ok(kiln_proc_run(&options, arena, &result));
    assert_false(result.timed_out && options.deadline_ns == FAR_DEADLINE_NS);
    return result;
}

static void output_error_and_exit_code_come_back(void **state) {
    kiln_proc_result result =
        run_script(*state, "echo out; echo err >&2; exit 7", (kiln_proc_options){0});
    assert_int_equal(result.exit_code, 7);
    assert_int_equal(result.signal, 0);
    expect_str(result.out, "out\n");
    expect_str(result.err, "err\n");
    assert_int_equal(result.out.data[result.out.size], 0);
}

static void input_environment_and_folder_reach_the_child(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *extra[] = {"KILN_PROC_TEST=new", NULL};
    setenv("KILN_PROC_TEST", "old", 1);
    kiln_proc_result result = run_script(
        arena, "cat; echo $KILN_PROC_TEST; pwd",
        (kiln_proc_options){.input = KILN_STR("fed\n"), .env_extra = extra, .cwd = folder});
    expect_str(result.out, kiln_arena_printf(arena, "fed\nnew\n%s\n", folder));
    remove_folder(folder);
}

static void output_is_kept_up_to_the_limit(void **state) {
    kiln_proc_result result =
        run_script(*state, "head -c 300000 /dev/zero | tr '\\0' x; echo e >&2",
                   (kiln_proc_options){.output_max = 1000});
    assert_int_equal(result.out.size, 1000);
    assert_int_equal(result.exit_code, 0);
    expect_str(result.err, "e\n");
}

static void large_output_and_input_do_not_deadlock(void **state) {
    kiln_arena *arena = *state;
    size_t size = 3 << 20;
    char *large = kiln_arena_alloc(arena, size);
    memset(large, 'y', size);
    kiln_proc_result result = run_script(
        arena, "cat", (kiln_proc_options){.input = {large, size}, .output_max = 4 << 20});
    assert_int_equal(result.out.size, size);
    assert_memory_equal(result.out.data, large, size);
}

static void deadline_kills_the_whole_group(void **state) {
    kiln_proc_result result = run_script(*state, "sleep 1000 & sleep 1000",
                                         (kiln_proc_options){.deadline_ns = 20 * KILN_NS_PER_MS});
    assert_true(result.timed_out);
    assert_int_equal(result.exit_code, -1);
    assert_int_equal(result.signal, SIGKILL);
}

static void descendants_do_not_outlive_the_child(void **state) {
    kiln_proc_result result = run_script(*state, "sleep 1000 & echo $!", (kiln_proc_options){0});
    int64_t pid = 0;
    assert_true(kiln_str_to_i64(kiln_str_trim(result.out), &pid));
    /* Killed already; at most it waits, as a zombie, for init to reap it. */
    char *path = kiln_arena_printf(*state, "/proc/%lld/stat", (long long)pid);
    kiln_str stat_text;
    for (;;) {
        kiln_status st = kiln_file_read(path, 4096, *state, &stat_text);
        bool running = !st && stat_text.size > 0 && !strstr(stat_text.data, ") Z");
        kiln_status_free(st);
        if (!running) break;
    }
}

static void a_signal_is_reported(void **state) {
    kiln_proc_result result = run_script(*state, "kill -TERM $$", (kiln_proc_options){0});
    assert_int_equal(result.exit_code, -1);
    assert_int_equal(result.signal, SIGTERM);
}

static void a_program_that_cannot_start_is_an_error(void **state) {
    const char *missing[] = {"/nowhere/program", NULL}, *folder[] = {"/tmp", NULL},
               *shell[] = {"sh", NULL};
    kiln_proc_result result;
    expect_error(kiln_proc_run(&(kiln_proc_options){.argv = missing}, *state, &result), NOT_FOUND,
                 "/nowhere/program");
    expect_error(kiln_proc_run(&(kiln_proc_options){.argv = folder}, *state, &result),
                 PERMISSION_DENIED, "/tmp");
    expect_error(
        kiln_proc_run(&(kiln_proc_options){.argv = shell, .cwd = "/nowhere"}, *state, &result),
        NOT_FOUND, "sh");
}

static void siblings_are_found_beside_us_and_in_kiln_bin(void **state) {
    kiln_arena *arena = *state;
    char *self = NULL, *found = NULL, *folder = make_folder(arena);
    unsetenv("KILN_BIN");
    expect_ok(kiln_proc_self(arena, &self));
    expect_ok(kiln_proc_sibling(strrchr(self, '/') + 1, arena, &found));
    assert_string_equal(found, self);
    expect_error(kiln_proc_sibling("kiln-none", arena, &found), NOT_FOUND, "kiln-none");
    expect_ok(
        kiln_file_write(kiln_arena_printf(arena, "%s/kiln-none", folder), KILN_STR(""), 0700));
    setenv("KILN_BIN", folder, 1);
    expect_ok(kiln_proc_sibling("kiln-none", arena, &found));
    expect_contains(found, folder);
    const char *part = kiln_arena_printf(arena, "%s/absent", folder); /* as in a build folder */
    expect_error(kiln_proc_sibling("kiln-absent", arena, &found), NOT_FOUND, "kiln-absent");
    expect_ok(kiln_folder_create(part, 0700));
    expect_ok(
        kiln_file_write(kiln_arena_printf(arena, "%s/kiln-absent", part), KILN_STR(""), 0700));
    expect_ok(kiln_proc_sibling("kiln-absent", arena, &found));
    expect_contains(found, part);
    remove_folder(folder);
}

static void a_program_of_this_machine_has_no_emulator(void **state) {
    assert_null(kiln_proc_emulator(*state));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(output_error_and_exit_code_come_back),
        test_with_arena(input_environment_and_folder_reach_the_child),
        test_with_arena(output_is_kept_up_to_the_limit),
        test_with_arena(large_output_and_input_do_not_deadlock),
        test_with_arena(deadline_kills_the_whole_group),
        test_with_arena(descendants_do_not_outlive_the_child),
        test_with_arena(a_signal_is_reported),
        test_with_arena(a_program_that_cannot_start_is_an_error),
        test_with_arena(siblings_are_found_beside_us_and_in_kiln_bin),
        test_with_arena(a_program_of_this_machine_has_no_emulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
