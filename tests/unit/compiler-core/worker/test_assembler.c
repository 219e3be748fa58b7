/* The process beside a worker that runs ptxas: a script stands for ptxas. This program is its own
 * worker, the real one. */
#include "compiler-core/worker/assembler.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "compiler-core/sched/trace.h"
#include "compiler-core/worker/builder.h"
#include "tests/support/group_folder.h"
#include "tests/support/test.h"

#define PATIENCE (300 * UINT64_C(1000000000)) /* only what is broken reaches it */
#define FD 40                                 /* nothing else is there */

#define TAKES                                                                          \
    "printf \"Compiling entry function 'run_0' for '$3'\\n    0 bytes stack frame, 0 " \
    "bytes spill stores, 0 bytes spill loads\\nUsed 12 registers\\n\" >&2\n"
#define SPILLS                                                                          \
    "printf \"Compiling entry function 'run_0' for '$3'\\n    8 bytes stack frame, 96 " \
    "bytes spill stores, 64 bytes spill loads\\nUsed 255 registers\\n\" >&2\n"
#define REFUSES "echo 'line 1; error : no' >&2; exit 1\n"

static const char *own_path;

static void put_script(kiln_arena *arena, const char *lines) {
    char *path = kiln_arena_printf(arena, "%s/ptxas", group_folder);
    assert_int_equal(chmod(group_folder, 0755), 0); /* it is not root's */
    expect_ok(kiln_file_write(path, kiln_str_printf(arena, "#!/bin/sh\n%s", lines), 0755));
    setenv(KILN_PTXAS_VARIABLE, path, 1);
}

static void it_answers_one_request_after_the_other(void **state) {
    kiln_ptxas_report report;
    put_script(*state, "read line; case $line in bad) " REFUSES ";; esac\n" TAKES);
    assert_true(kiln_assembler_start(FD));
    for (uint32_t i = 0; i < 3; i++) {
        expect_ok(kiln_assembler_ask(FD, KILN_STR("sm_80"), KILN_STR("good\n"), *state, &report));
        assert_int_equal(report.entry[0].registers, 12);
        expect_error(kiln_assembler_ask(FD, KILN_STR("sm_80"), KILN_STR("bad\n"), *state, &report),
                     ILLEGAL_SCHEDULE, "line 1; error : no");
    }
    expect_error(
        kiln_assembler_ask(FD, KILN_STR("sm_80 -o /x"), KILN_STR("good\n"), *state, &report),
        INVALID_ARGUMENT, "processor");
    close(FD);
}

/* It is as alive as its connection: an answer that cannot come is noticed. */
static void its_end_is_an_error_and_no_signal(void **state) {
    kiln_ptxas_report report;
    put_script(*state, TAKES);
    assert_true(kiln_assembler_start(FD));
    const char name[KILN_ASSEMBLER_PROCESSOR_MAX + 1] = "sm_80___________";
    expect_error(
        kiln_assembler_ask(FD, (kiln_str){name, sizeof name}, KILN_STR("x"), *state, &report),
        UNAVAILABLE, "gone");
    expect_error(kiln_assembler_ask(FD, KILN_STR("sm_80"), KILN_STR("x"), *state, &report),
                 UNAVAILABLE, "gone");
    close(FD);
}

static void without_the_program_there_is_none(void **state) {
    (void)state;
    setenv(KILN_PTXAS_VARIABLE, "/nowhere/ptxas", 1);
    assert_false(kiln_assembler_start(FD));
    assert_int_equal(fcntl(FD, F_GETFD), -1);
}

/* ---- with a worker --------------------------------------------------------------------------- */

typedef struct fixture {
    kiln_loop *loop;
    kiln_arena *arena;
    uint32_t code;
    char *text;
    kiln_assembled assembled;
    size_t size;
} fixture;

static void on_done(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                    const char *text) {
    fixture *f = context;
    (void)outcome;
    if (!reply) fail_msg("%s", text);
    f->code = reply->code;
    f->text = kiln_str_dup(f->arena, reply->text);
    f->assembled = reply->assembled;
    f->size = reply->bytes.size;
    kiln_loop_stop(f->loop);
}

static fixture build(kiln_arena *arena, const char *target) {
    fixture f = {.arena = arena};
    kiln_strbuf trace = {0};
    kiln_trace_encode(&(kiln_trace){0}, &trace);
    const kiln_builders_options options = {.program = own_path, .worker_count = 1};
    const kiln_work_request request = {.work = KILN_WORK_BUILD,
                                       .target = kiln_str_from(target),
                                       .task_key = KILN_STR("v2:0"),
                                       .trace = kiln_strbuf_view(&trace),
                                       .te =
                                           KILN_STR("program p\ninput x: f32[8]\noutput y: f32[8]\n"
                                                    "block y(i:8): y[i] = x[i]*2.0\n")};
    expect_ok(kiln_loop_create(&f.loop));
    kiln_builders *pool = kiln_builders_create(f.loop, &options);
    kiln_builders_submit(pool, &request, false, PATIENCE, on_done, &f);
    kiln_loop_run(f.loop);
    kiln_builders_destroy(pool);
    kiln_loop_destroy(f.loop);
    kiln_strbuf_deinit(&trace);
    return f;
}

static void a_worker_refuses_what_spills_or_is_no_code(void **state) {
    put_script(*state, SPILLS);
    fixture f = build(*state, "cuda:sm_80");
    assert_int_equal(f.code, KILN_ILLEGAL_SCHEDULE);
    expect_contains(f.text, "run_0 spills: 255 registers, 96 bytes stored and 64 loaded");
    assert_int_equal(f.assembled.registers, 255);
    assert_int_equal(f.assembled.spill_bytes, 96 + 64);
    assert_int_equal(f.assembled.stack_bytes, 8);
    put_script(*state, REFUSES);
    f = build(*state, "cuda:sm_80");
    assert_int_equal(f.assembled.registers, 0);
    assert_int_equal(f.code, KILN_ILLEGAL_SCHEDULE);
    expect_contains(f.text, "ptxas refuses it");
}

/* Other targets do not ask it, and its own troubles are no candidate's. */
static void what_is_no_fault_of_the_candidate_changes_nothing(void **state) {
    setenv(KILN_PTXAS_VARIABLE, "/nowhere/ptxas", 1);
    const fixture without = build(*state, "cuda:sm_80");
    static const char *const lines[] = {TAKES, "echo nonsense >&2\n"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(lines); i++) {
        put_script(*state, lines[i]);
        const fixture f = build(*state, "cuda:sm_80");
        assert_int_equal(f.code, without.code);
        assert_int_equal(f.size, without.size);
        assert_int_equal(f.assembled.registers, i == 0 ? 12 : 0);
        assert_int_equal(f.assembled.spill_bytes, 0);
    }
    assert_int_equal(without.assembled.registers, 0);
    put_script(*state, REFUSES);
    assert_int_equal(build(*state, "x86-64-v3").code, 0);
}

int main(int argc, char **argv) {
    if (kiln_worker_is_asked(argc, argv)) return kiln_worker_main(argc, argv);
    own_path = argv[0];
    const struct CMUnitTest tests[] = {
        test_with_arena(it_answers_one_request_after_the_other),
        test_with_arena(its_end_is_an_error_and_no_signal),
        test_with_arena(without_the_program_there_is_none),
        test_with_arena(a_worker_refuses_what_spills_or_is_no_code),
        test_with_arena(what_is_no_fault_of_the_candidate_changes_nothing),
    };
    return cmocka_run_group_tests(tests, make_group_folder, remove_group_folder);
}
