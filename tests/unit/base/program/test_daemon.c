/* What the mains have in common. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/program/daemon.h"
#include "tests/support/test.h"

typedef struct options {
    uint64_t count;
    bool fails;
} options;

static uint64_t seen;

static kiln_status run(const void *given, kiln_arena *process) {
    const options *o = given;
    seen = *(const uint64_t *)kiln_arena_copy(process, &o->count, sizeof o->count);
    return o->fails ? KILN_ERROR(UNAVAILABLE, "nobody is there") : NULL;
}

/* Runs it with what it prints in files; returns the exit code. */
static int call(kiln_arena *arena, char **argv, const char *folder, kiln_str *out, kiln_str *err) {
    options o = {0};
    const kiln_opt option[] = {{"count", KILN_OPT_COUNT, &o.count, "N", "how many"},
                               {"fail", KILN_OPT_FLAG, &o.fails, NULL, "fail"}};
    const kiln_daemon daemon = {
        {.name = "thing", .level = KILN_LOG_INFO, .protocol_min = 1, .protocol_max = 5},
        {"thing [options]", "Does a thing.", option, 2, 0, 0},
        run,
        &o};
    const char *path[] = {kiln_arena_printf(arena, "%s/out", folder),
                          kiln_arena_printf(arena, "%s/err", folder)};
    FILE *stream[] = {stdout, stderr};
    int argc = 0, kept[2];
    while (argv[argc]) argc++;
    for (int i = 0; i < 2; i++) {
        fflush(stream[i]);
        kept[i] = dup(fileno(stream[i]));
        assert_non_null(freopen(path[i], "w", stream[i]));
    }
    seen = 0;
    int code = kiln_daemon_main(&daemon, argc, argv);
    for (int i = 0; i < 2; i++) {
        fflush(stream[i]);
        dup2(kept[i], fileno(stream[i]));
        close(kept[i]);
    }
    expect_ok(kiln_file_read(path[0], 1 << 16, arena, out));
    expect_ok(kiln_file_read(path[1], 1 << 16, arena, err));
    return code;
}

static void options_errors_and_help_are_the_same_for_all(void **state) {
    kiln_arena *arena = *state;
    kiln_str out, err;
    char *folder = NULL;
    expect_ok(kiln_folder_create_temp("kiln-daemon-test", arena, &folder));
    assert_int_equal(
        call(arena, (char *[]){"x", "--count=3", "--verbose", NULL}, folder, &out, &err), 0);
    assert_int_equal(seen, 3);
    assert_int_equal(err.size, 0);
    int code = call(arena, (char *[]){"x", "--fail", NULL}, folder, &out, &err);
    assert_int_equal(code, kiln_code_exit(KILN_UNAVAILABLE));
    expect_str(err, "thing: nobody is there\n");
    code = call(arena, (char *[]){"x", "--cuont=3", NULL}, folder, &out, &err);
    assert_int_equal(code, kiln_code_exit(KILN_INVALID_ARGUMENT));
    assert_non_null(strstr(err.data, "--count"));
    assert_int_equal(call(arena, (char *[]){"x", "--count=3", "--help", NULL}, folder, &out, &err),
                     0);
    assert_int_equal(seen, 0);
    assert_non_null(strstr(out.data, "--count"));
    assert_non_null(strstr(out.data, "--with-parent"));
    assert_int_equal(call(arena, (char *[]){"x", "-V", NULL}, folder, &out, &err), 0);
    assert_int_equal(seen, 0);
    assert_true(kiln_str_starts(out, "thing " KILN_VERSION " ("));
    assert_true(kiln_str_ends(out, "), protocol 1 to 5\n"));
    expect_ok(kiln_folder_remove(folder));
}

int main(void) {
    setenv("KILN_CONFIG", "none", 1);
    const struct CMUnitTest tests[] = {
        test_with_arena(options_errors_and_help_are_the_same_for_all),
    };
    return cmocka_run_group_tests_name("base/daemon", tests, NULL, NULL);
}
