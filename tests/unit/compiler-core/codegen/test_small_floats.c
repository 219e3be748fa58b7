/* Floats of at most 8 bits: both interpreters, machine code of this processor, C text by two
 * compilers, the null device, OpenCL and CUDA C equal base/small_float.h bit by bit. Other
 * processors: test_boards.c. */
#include "tests/unit/compiler-core/codegen/small_floats.h"

#include "compiler-core/ir/eval.h"
#include "tests/support/emulate_scheduled.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/codegen/c_compile.h"
#include "tests/unit/compiler-core/codegen/device_board.h"
#include "tests/unit/compiler-core/sched/support.h"

#define PLAIN "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64"

static kiln_status run_here(void *context, const kiln_artefact *artefact, const kiln_program *te,
                            const kiln_tensor *args, uint32_t workers) {
    assert_null(context);
    return run_artefact(artefact, te, args, workers);
}

/* Runs all types and kinds with `run`, which gets the program as loops. */
typedef void (*runner)(void *context, kiln_program *te, kiln_tensor args[2]);
static void expect_all(kiln_arena *arena, runner run, void *context, const char *where) {
    for (uint32_t at = 0; small_dtypes[at]; at++)
        for (small_kind kind = SMALL_TO; kind < SMALL_KINDS; kind++) {
            kiln_program *te = small_program(arena, small_dtypes[at], kind);
            kiln_tensor args[2], expected;
            small_args(te, small_dtypes[at], kind, args, &expected);
            run(context, te, args);
            expect_small(args, &expected, false, where);
        }
}

static void evaluate(void *context, kiln_program *te, kiln_tensor args[2]) {
    if (*(bool *)context)
        expect_ok(kiln_loop_eval(schedule(te, ""), args, 2));
    else
        expect_ok(kiln_te_eval(te, args, 2));
}

static void both_interpreters_round_as_the_table_says(void **state) {
    bool loops[] = {false, true};
    for (uint32_t i = 0; i < 2; i++)
        expect_all(*state, evaluate, &loops[i], i ? "loops" : "expressions");
}

static void machine_code_rounds_the_same(void **state) {
    static const char *const level[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(level); i++) {
        const kiln_target target = target_of(
            *state, kiln_arena_printf(*state, "cpu:x86_64-unknown-linux-gnu,mcpu=%s", level[i]));
        if (!runs_here(&target, *state)) continue;
        expect_small_compiled(*state, &target, NULL, SMALL_SCALARS, run_here, NULL);
        expect_small_compiled(*state, &target, NULL, SMALL_VECTORS, run_here, NULL);
    }
}

typedef struct compilation {
    const char *compiler;
    char *folder;
} compilation;

static kiln_status run_compiled(void *context, const kiln_artefact *artefact,
                                const kiln_program *te, const kiln_tensor *args, uint32_t workers) {
    const compilation *c = context;
    kiln_artefact object = *artefact;
    object.payload = compile_c(artefact->payload, c->compiler, NULL, c->folder, te->arena);
    object.manifest.payload_kind = KILN_PAYLOAD_ELF;
    return run_artefact(&object, te, args, workers);
}

/* Vectors by one compiler, scalars by the other. */
static void c_text_rounds_the_same(void **state) {
    skip_unless_runs_here(PLAIN);
    compilation c = {.folder = make_folder(*state)};
    const kiln_target target = target_of(*state, PLAIN);
    for (uint32_t i = 0; i < C_COMPILERS; i++) {
        c.compiler = c_compiler[i];
        expect_small_compiled(*state, &target, "c", i ? SMALL_SCALARS : SMALL_VECTORS, run_compiled,
                              &c);
    }
    remove_folder(c.folder);
}

/* ---- devices --------------------------------------------------------------------------------- */

#define THREADS "split(t.i, -1, 64)\nbind(t.i.0, \"block.x\")\nbind(t.i.1, \"thread.x\")\n"

static void run_null(void *context, kiln_program *te, kiln_tensor args[2]) {
    assert_null(context);
    expect_ok(build_and_run_on_null(te, schedule(te, THREADS), args));
}

static void the_null_device_rounds_the_same(void **state) {
    expect_all(*state, run_null, NULL, "null");
}

static void run_emulated(void *context, kiln_program *te, kiln_tensor args[2]) {
    const char *text;
    const kiln_target *target = context;
    expect_ok(emulate_scheduled(schedule(te, THREADS), target, args, 2, te->arena, &text));
}

static void cuda_c_rounds_the_same(void **state) {
    kiln_target target = target_of(*state, "cuda:sm_80");
    expect_all(*state, run_emulated, &target, "cuda");
}

static void run_opencl(void *context, kiln_program *te, kiln_tensor args[2]) {
    assert_null(context);
    expect_ok(build_and_run_on_opencl(te, schedule(te, THREADS), args));
}

static void opencl_rounds_the_same(void **state) {
    kiln_device *device;
    kiln_status st = opencl_board_open(&device);
    if (st) skip_because("%s", kiln_status_text(st));
    expect_all(*state, run_opencl, NULL, "opencl");
    opencl_board_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(both_interpreters_round_as_the_table_says),
        test_with_arena(machine_code_rounds_the_same),
        test_with_arena(c_text_rounds_the_same),
        test_with_arena(the_null_device_rounds_the_same),
        test_with_arena(cuda_c_rounds_the_same),
        test_with_arena(opencl_rounds_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
