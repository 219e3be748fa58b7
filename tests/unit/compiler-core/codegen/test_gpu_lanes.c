/* Sums that lanes of a warp make by exchanging registers: CUDA C run by the block emulator equals
 * the interpreter bit by bit; PTX, and what NVIDIA's assembler says of it where it is installed. */
#include <string.h>

#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/ptxas.h"
#include "compiler-core/sched/trace.h"
#include "tests/support/emulate_block.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/codegen/c_compile.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/sched/support.h"

/* Rows of 150, several in a group, whose parts as many threads make. */
typedef struct sum {
    const char *combiner, *dtype;
    int parts, rows; /* a group's */
} sum;

static const sum sums[] = {
    {"sum", "f32", 64, 1}, {"sum", "f32", 32, 2}, {"max", "f32", 8, 1},
    {"sum", "i32", 64, 4}, {"prod", "f32", 4, 1}, {"min", "u32", 128, 2},
};

static kiln_program *program_of(const sum *s, kiln_arena *arena) {
    return parsed(arena, kiln_arena_printf(arena,
                                           "program p\ninput x: %s[8,150]\noutput y: %s[8,150]\n"
                                           "temp s: %s[8]\nblock s(i:8 | j:150): s[i] %s= x[i, j]\n"
                                           "block y(i:8, j:150): y[i, j] = x[i, j] + s[i]\n",
                                           s->dtype, s->dtype, s->dtype, s->combiner));
}

static kiln_program *replay(const kiln_program *te, const char *text) {
    kiln_trace trace;
    kiln_program *p = NULL;
    expect_ok(kiln_trace_parse(kiln_str_from(text), te->arena, &trace));
    expect_ok(kiln_trace_replay(&trace, te, NULL, te->arena, &p, NULL));
    return p;
}

static kiln_program *scheduled(const sum *s, kiln_program *te) {
    return replay(
        te, kiln_arena_printf(
                te->arena,
                "rfactor(s, \"j\", %d)\nsplit(s.part.i, -1, %d)\n"
                "reverse_compute_at(s, s.part.i.0)\nreverse_compute_at(y, s.part.i.0)\n"
                "bind(s.part.i.0, \"block.x\")\nbind(s.part.i.1, \"thread.y\")\n"
                "reorder(s.part.i.1, s.part.j.1, s.part.j.0)\nbind(s.part.j.1, \"thread.x\")\n"
                "bind(s.i, \"thread.y\")\nset_scope(s.part, \"shared\")\n"
                "set_scope(s, \"shared\")\nbind(y.i, \"thread.y\")\nsplit(y.j, -1, "
                "64)\nreorder(y.j.1, y.j.0)\n"
                "bind(y.j.1, \"thread.x\")\n",
                s->parts, s->rows));
}

static void make_tensors(const kiln_program *te, kiln_tensor arg[2]) {
    for (uint32_t i = 0; i < 2; i++) {
        arg[i] = kiln_tensor_create(te->arena, te->buffer.data[i + 1].dtype,
                                    &te->buffer.data[i + 1].shape);
        for (int64_t k = 0; i == 0 && k < kiln_shape_count(&arg[i].shape); k++)
            kiln_dtype_store_f64(arg[i].dtype, arg[i].data, (size_t)k,
                                 1 + (double)(k * 37 % 101) / 128);
    }
}

static uint32_t count_of(const char *text, const char *needle) {
    uint32_t count = 0;
    for (const char *at = strstr(text, needle); at; at = strstr(at + 1, needle)) count++;
    return count;
}

static uint32_t exchanges_of(const sum *s) {
    uint32_t count = 0;
    for (int parts = KILN_MIN(s->parts, 32); parts > 1; parts /= 2) count++;
    return count;
}

static kiln_status emulate(kiln_str text, const kiln_launch *l, const kiln_tensor arg[2],
                           kiln_arena *arena) {
    char *folder = make_folder(arena);
    emulate_block *e = NULL;
    emulate_block_launch launch = {.entry = "run_0",
                                   .shared_bytes = l->shared_bytes,
                                   .arg = {arg[0].data, arg[1].data},
                                   .arg_count = 2};
    memcpy(launch.grid, l->grid_size, sizeof launch.grid);
    memcpy(launch.block, l->group_size, sizeof launch.block);
    expect_ok(emulate_block_create(text, folder, arena, &e));
    kiln_status st = emulate_block_run(e, &launch);
    emulate_block_destroy(e);
    remove_folder(folder);
    return st;
}

static void emulated_sums_equal_the_interpreter(void **state) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(sums); i++) {
        kiln_lowered lowered;
        kiln_tensor want[2], got[2];
        kiln_program *te = program_of(&sums[i], *state);
        kiln_str text =
            device_text(scheduled(&sums[i], te), "cuda:sm_80", "cuda", *state, &lowered);
        make_tensors(te, want);
        make_tensors(te, got);
        assert_int_equal(count_of(text.data, "__shfl_xor_sync("), exchanges_of(&sums[i]));
        expect_ok(kiln_loop_eval(lowered.run, want, 2));
        expect_ok(emulate(text, &lowered.run_launches.launch[0], got, *state));
        assert_memory_equal(got[1].data, want[1].data, kiln_tensor_bytes(&want[1]));
    }
}

/* A wrong lane gives another sum. */
static void a_wrong_lane_is_noticed(void **state) {
    kiln_lowered lowered;
    kiln_tensor want[2], got[2];
    kiln_program *te = program_of(&sums[0], *state);
    kiln_str text = device_text(scheduled(&sums[0], te), "cuda:sm_80", "cuda", *state, &lowered);
    char *wrong = kiln_str_dup(*state, text),
         *at = strstr(strstr(wrong, "__shfl_xor_sync("), ", 16)");
    make_tensors(te, want);
    make_tensors(te, got);
    memcpy(at, ", 8 )", 5);
    expect_ok(kiln_loop_eval(lowered.run, want, 2));
    expect_ok(emulate(kiln_str_from(wrong), &lowered.run_launches.launch[0], got, *state));
    assert_memory_not_equal(got[1].data, want[1].data, kiln_tensor_bytes(&want[1]));
}

static void ptx_has_the_instructions(void **state) {
    static const char *const processor[] = {"sm_80", "sm_90a"};
    kiln_arena *arena = *state;
    const char *program = kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", arena);
    if (!program)
        print_message("no ptxas on PATH or in " KILN_PTXAS_VARIABLE ": it is not asked\n");
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(sums); i++)
        for (uint32_t t = 0; t < KILN_ARRAY_COUNT(processor); t++) {
            kiln_lowered lowered;
            kiln_program *te = program_of(&sums[i], arena);
            kiln_str printed, ptx = device_text(scheduled(&sums[i], te),
                                                kiln_arena_printf(arena, "cuda:%s", processor[t]),
                                                NULL, arena, &lowered);
            const char *text = kiln_str_dup(arena, ptx);
            assert_int_equal(count_of(text, "shfl.sync.bfly.b32"), exchanges_of(&sums[i]));
            assert_int_equal(count_of(text, "bar.sync"),
                             lowered.run_launches.launch[0].barrier_count);
            if (program)
                expect_ok(kiln_ptxas_run(program, kiln_str_from(processor[t]), ptx, NULL, arena,
                                         &printed));
        }
}

/* The same of CUDA C, by clang: its assembly is what NVIDIA's assembler takes. */
static void cuda_text_has_the_instructions(void **state) {
    kiln_lowered lowered;
    char *folder = make_folder(*state);
    kiln_program *te = program_of(&sums[0], *state);
    kiln_str text = device_text(scheduled(&sums[0], te), "cuda:sm_80", "cuda", *state, &lowered),
             ptx = compile_cuda(text, "sm_80", folder, *state);
    assert_int_equal(count_of(kiln_str_dup(*state, ptx), "shfl.sync.bfly.b32"), 5);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(emulated_sums_equal_the_interpreter),
        test_with_arena(a_wrong_lane_is_noticed),
        test_with_arena(ptx_has_the_instructions),
        test_with_arena(cuda_text_has_the_instructions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
