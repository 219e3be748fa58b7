/* What ptxas prints is read, and a program that stands for it is run as it would be. */
#include "compiler-core/ptxas.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/support/group_folder.h"
#include "tests/support/test.h"

#define TWO_ENTRIES                                                                         \
    "ptxas info    : 0 bytes gmem\n"                                                        \
    "ptxas info    : Compiling entry function 'run_0' for 'sm_90a'\n"                       \
    "ptxas info    : Function properties for run_0\n"                                       \
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"                  \
    "ptxas info    : Used 128 registers, used 1 barriers, 1024 bytes smem\n"                \
    "ptxas info    : Compile time = 38.441 ms\n"                                            \
    "ptxas info    : Compiling entry function 'prepare_0' for 'sm_90a'\n"                   \
    "ptxas info    : Function properties for prepare_0\n"                                   \
    "    %u bytes stack frame, %u bytes spill stores, 3584 bytes spill loads\n"             \
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are " \
    "serialized\n"                                                                          \
    "ptxas info    : Used 255 registers, used 0 barriers\n"

static void numbers_of_each_function_are_read(void **state) {
    kiln_ptxas_report report;
    expect_ok(kiln_ptxas_parse(kiln_str_printf(*state, TWO_ENTRIES, 8u, 3632u), *state, &report));
    assert_int_equal(report.entry_count, 2);
    expect_str(report.entry[0].name, "run_0");
    assert_int_equal(report.entry[0].registers, 128);
    assert_int_equal(report.entry[0].shared_bytes, 1024);
    assert_int_equal(report.entry[0].spill_load_bytes, 0);
    expect_str(report.entry[1].name, "prepare_0");
    assert_int_equal(report.entry[1].registers, 255);
    assert_int_equal(report.entry[1].stack_bytes, 8);
    assert_int_equal(report.entry[1].spill_store_bytes, 3632);
    assert_int_equal(report.entry[1].spill_load_bytes, 3584);
    expect_contains(kiln_str_dup(*state, report.note), "serialized");
    expect_error(kiln_ptxas_check_spills(&report), ILLEGAL_SCHEDULE,
                 "prepare_0 spills: 255 registers, 3632 bytes stored and 3584 loaded");
    const kiln_assembled all = kiln_ptxas_assembled(&report);
    assert_int_equal(all.registers, 255);
    assert_int_equal(all.spill_bytes, 3632 + 3584);
    assert_int_equal(all.stack_bytes, 8);
    assert_int_equal(all.shared_bytes, 1024);
    report.entry_count = 1;
    expect_ok(kiln_ptxas_check_spills(&report));
}

static void another_form_is_no_report(void **state) {
    kiln_ptxas_report report;
    static const char *const text[] = {
        "", "ptxas info    : 0 bytes gmem\n",
        "ptxas info    : Compiling entry function 'run_0' for 'sm_90a'\n",
        "ptxas info    : Compiling entry function 'run_0' for 'sm_90a'\n"
        "    0 bytes stack frame, x bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 12 registers\n",
        "ptxas info    : Compiling entry function 'run_0' for 'sm_90a'\nregisters bytes smem\n"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        expect_error(kiln_ptxas_parse(kiln_str_from(text[i]), *state, &report), DATA_LOSS, "ptxas");
}

/* A script in the place of ptxas. */
static char *script(kiln_arena *arena, const char *lines) {
    char *path = kiln_arena_printf(arena, "%s/ptxas", group_folder);
    kiln_str text = kiln_str_printf(arena, "#!/bin/sh\n%s", lines);
    expect_ok(kiln_file_write(path, text, 0700));
    return path;
}

static void the_program_gets_the_text_and_the_processor(void **state) {
    kiln_str text;
    char *program = script(*state, "echo \"$@\" >&2; cat >&2");
    expect_ok(kiln_ptxas_run(program, KILN_STR("sm_80"), KILN_STR(".version 7.0\n"), NULL, *state,
                             &text));
    expect_str(text, "-v -arch sm_80 -o /dev/null /dev/stdin\n.version 7.0\n");
    expect_ok(kiln_ptxas_run(program, KILN_STR("sm_80"), KILN_STR(""), "a.cubin", *state, &text));
    expect_str(text, "-v -arch sm_80 -o a.cubin /dev/stdin\n");
}

static void a_refusal_says_its_first_lines(void **state) {
    kiln_str text;
    char *program = script(*state, "echo 'line 3; error : Unknown symbol' >&2; echo b >&2; "
                                   "echo c >&2; echo d >&2; exit 255");
    expect_error(kiln_ptxas_run(program, KILN_STR("sm_80"), KILN_STR("x"), NULL, *state, &text),
                 ILLEGAL_SCHEDULE, "ptxas refuses it: line 3; error : Unknown symbol; b; c");
    expect_error(kiln_ptxas_run(script(*state, "kill -9 $$"), KILN_STR("sm_80"), KILN_STR("x"),
                                NULL, *state, &text),
                 ILLEGAL_SCHEDULE, "signal 9");
    expect_error(
        kiln_ptxas_run("/nowhere/ptxas", KILN_STR("sm_80"), KILN_STR("x"), NULL, *state, &text),
        NOT_FOUND, "running /nowhere/ptxas");
}

static void it_is_found_by_its_variable_or_on_the_path(void **state) {
    char *program = script(*state, "");
    const char *path = getenv("PATH"), *before = getenv(KILN_PTXAS_VARIABLE);
    char *kept = kiln_str_dup(*state, kiln_str_from(path));
    char *kept_variable = before ? kiln_str_dup(*state, kiln_str_from(before)) : NULL;
    unsetenv(KILN_PTXAS_VARIABLE);
    setenv("PATH", "/nowhere", 1);
    assert_null(kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", *state));
    setenv("PATH", kiln_arena_printf(*state, "/nowhere::%s", group_folder), 1);
    assert_string_equal(kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", *state), program);
    setenv(KILN_PTXAS_VARIABLE, "/elsewhere/ptxas", 1);
    assert_string_equal(kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", *state), "/elsewhere/ptxas");
    setenv("PATH", kept, 1);
    if (kept_variable)
        setenv(KILN_PTXAS_VARIABLE, kept_variable, 1);
    else
        unsetenv(KILN_PTXAS_VARIABLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(numbers_of_each_function_are_read),
        test_with_arena(another_form_is_no_report),
        test_with_arena(the_program_gets_the_text_and_the_processor),
        test_with_arena(a_refusal_says_its_first_lines),
        test_with_arena(it_is_found_by_its_variable_or_on_the_path),
    };
    return cmocka_run_group_tests(tests, make_group_folder, remove_group_folder);
}
