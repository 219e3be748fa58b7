/* Products by instructions of warp groups (wgmma of sm_90a): what `tensorize` takes and refuses,
 * that programs mean what they meant, and that CUDA C run by the block emulator computes that; PTX,
 * and what NVIDIA's assembler says of it where it is installed. */
#include <string.h>

#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/ptxas.h"
#include "compiler-core/sched/trace.h"
#include "tests/support/emulate_block.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/codegen/c_compile.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/sched/support.h"

/* A product in blocks of 64 * groups rows and `columns` columns, 64 steps at a time. */
typedef struct product {
    const char *type;
    int64_t m, n, k;
    int64_t groups, columns;
    bool by_columns; /* x[k, i]: rows lie behind one another */
    bool by_rows;    /* w[k, j]: columns lie behind one another */
} product;

static const product products[] = {
    {"f16", 128, 128, 128, 1, 64, false, false},  {"bf16", 128, 128, 128, 2, 128, false, false},
    {"f16", 128, 256, 64, 2, 128, false, true},   {"f16", 64, 128, 128, 1, 64, false, true},
    {"f16", 128, 256, 128, 2, 256, false, false}, {"f16", 128, 192, 64, 1, 192, true, true},
    {"bf16", 128, 80, 64, 2, 80, true, false},
};

static kiln_program *program_of(const product *x, kiln_arena *arena) {
    return parsed(
        arena,
        kiln_arena_printf(
            arena,
            "program p\ninput x: %s[%lld, %lld]\ninput w: %s[%lld, %lld]\noutput y: f32[%lld, "
            "%lld]\nblock mul(i:%lld, j:%lld | k:%lld): y[i, j] sum= f32(x[%s]) * f32(w[%s]) "
            "init 0.0\n",
            x->type, (long long)(x->by_columns ? x->k : x->m),
            (long long)(x->by_columns ? x->m : x->k), x->type,
            (long long)(x->by_rows ? x->k : x->n), (long long)(x->by_rows ? x->n : x->k),
            (long long)x->m, (long long)x->n, (long long)x->m, (long long)x->n, (long long)x->k,
            x->by_columns ? "k, i" : "i, k", x->by_rows ? "k, j" : "j, k"));
}

/* All threads fetch a temp, 16 bytes each at a time, into rows of 128 bytes with exchanged units.
 */
static const char *fetch_of(const product *x, const char *temp, bool is_transposed,
                            kiln_arena *arena) {
    return kiln_arena_printf(
        arena,
        "compute_at(%s, mul.k.0)\nfuse(%s.d0, %s.d1)\nsplit(%s.d0.f, -1, %lld, 4, 32, 8)\n"
        "reorder(%s.d0.f.1, %s.d0.f.2, %s.d0.f.3, %s.d0.f.0, %s.d0.f.4)\n"
        "bind(%s.d0.f.1, \"thread.z\")\nbind(%s.d0.f.2, \"thread.y\")\nbind(%s.d0.f.3, "
        "\"thread.x\")\nvectorize(%s.d0.f.4)\n%s%s%sswizzle(%s, 0, 8, 8, 1)\n",
        temp, temp, temp, temp, (long long)x->groups, temp, temp, temp, temp, temp, temp, temp,
        temp, temp, is_transposed ? "transform_layout(" : "", is_transposed ? temp : "",
        is_transposed ? ", \"d1/64,d0,d1%64\")\n" : "", temp);
}

static const char *schedule_of(const product *x, kiln_arena *arena) {
    const long long groups = x->groups, m = x->m / (64 * groups), n = x->n / x->columns,
                    tiles = x->columns / 8;
    return kiln_arena_printf(
        arena,
        "cache_read(mul, x, \"shared\")\ncache_read(mul, w, \"shared\")\n"
        "cache_write(mul, \"register\")\n"
        "split(mul.i, %lld, %lld, 4, 2, 8)\nsplit(mul.j, %lld, %lld, 4, 2)\n"
        "split(mul.k, %lld, 4, 16)\n"
        "reorder(mul.i.0, mul.j.0, mul.k.0, mul.i.1, mul.i.2, mul.i.4, mul.j.2, mul.k.1, mul.i.3, "
        "mul.j.1, mul.j.3, mul.k.2)\n"
        "fuse(mul.i.4, mul.j.2)\nfuse(mul.j.1, mul.j.3)\n"
        "bind(mul.i.0, \"block.y\")\nbind(mul.j.0, \"block.x\")\n"
        "bind(mul.i.1, \"thread.z\")\nbind(mul.i.2, \"thread.y\")\nbind(mul.i.4.f, \"thread.x\")\n"
        "decompose_reduction(mul, mul.k.0)\n%s%s"
        "reverse_compute_at(mul.write, mul.j.0)\n"
        "split(mul.write.i, %lld, 4, 2, 8)\nsplit(mul.write.j, %lld, 4, 2)\n"
        "reorder(mul.write.i.0, mul.write.i.1, mul.write.i.3, mul.write.j.1, mul.write.i.2, "
        "mul.write.j.0, mul.write.j.2)\nfuse(mul.write.i.3, mul.write.j.1)\n"
        "bind(mul.write.i.0, \"thread.z\")\nbind(mul.write.i.1, \"thread.y\")\n"
        "bind(mul.write.i.3.f, \"thread.x\")\nunroll(mul.write.i.2)\nunroll(mul.write.j.0)\n"
        "vectorize(mul.write.j.2)\nunroll(mul.init.i.3)\nunroll(mul.init.j.1.f)\nunroll(mul.k.1)\n"
        "tensorize(mul.i.3, \"wgmma.m64k16.%s\")\n",
        m, groups, n, tiles, (long long)(x->k / 64), fetch_of(x, "x.read", x->by_columns, arena),
        fetch_of(x, "w.read", x->by_rows, arena), groups, tiles, x->type);
}

static kiln_program *scheduled(const kiln_program *te, const char *text) {
    kiln_trace trace;
    kiln_program *p = NULL;
    expect_ok(kiln_trace_parse(kiln_str_from(text), te->arena, &trace));
    expect_ok(kiln_trace_replay(&trace, te, NULL, te->arena, &p, NULL));
    return p;
}

static kiln_str text_of(const kiln_program *p, const char *backend, kiln_arena *arena,
                        kiln_lowered *lowered) {
    const kiln_codegen_options options = {
        .emit = KILN_EMIT_OBJECT, .optimise = 2, .backend = backend};
    kiln_target target = target_of(arena, "cuda:sm_90a");
    kiln_str text;
    uint64_t scratch, worker;
    expect_ok(kiln_lower(p, &target, arena, lowered));
    expect_ok(kiln_codegen(lowered, &target, &options, arena, &text, &scratch, &worker));
    return text;
}

static uint32_t count_of(const char *text, const char *needle) {
    uint32_t count = 0;
    for (const char *at = strstr(text, needle); at; at = strstr(at + 1, needle)) count++;
    return count;
}

static void tensors_of(const kiln_program *te, kiln_arena *arena, kiln_tensor arg[3]) {
    for (uint32_t i = 0; i < 3; i++) {
        arg[i] =
            kiln_tensor_create(arena, te->buffer.data[i + 1].dtype, &te->buffer.data[i + 1].shape);
        for (uint32_t e = 0; i < 2 && e < kiln_shape_count(&arg[i].shape); e++)
            kiln_dtype_store_i64(arg[i].dtype, arg[i].data, e,
                                 (int64_t)((e * 7 + e / 13 + i) % 11) - 5);
    }
}

/* What the emulator makes of the text. */
static kiln_status emulate(kiln_str text, const kiln_launch *l, const kiln_tensor arg[3],
                           kiln_arena *arena) {
    char *folder = make_folder(arena);
    emulate_block *e = NULL;
    emulate_block_launch launch = {.entry = "run_0",
                                   .shared_bytes = l->shared_bytes,
                                   .arg = {arg[0].data, arg[1].data, arg[2].data},
                                   .arg_count = 3};
    memcpy(launch.grid, l->grid_size, sizeof launch.grid);
    memcpy(launch.block, l->group_size, sizeof launch.block);
    kiln_status st = emulate_block_create(text, folder, arena, &e);
    if (!st) st = emulate_block_run(e, &launch);
    emulate_block_destroy(e);
    remove_folder(folder);
    return st;
}

/* The expression, the schedule, what lowering makes of it and what the emulator does with its CUDA
 * C are equal bit by bit: data are small integers. */
static void emulated_products_equal_the_interpreter(void **state) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(products); i++) {
        const product *x = &products[i];
        kiln_arena arena;
        (void)state;
        kiln_arena_init(&arena, 0);
        kiln_program *te = program_of(x, &arena), *p = scheduled(te, schedule_of(x, &arena));
        kiln_lowered lowered;
        kiln_tensor want[3], low[3], got[3];
        tensors_of(te, &arena, want);
        tensors_of(te, &arena, low);
        tensors_of(te, &arena, got);
        expect_ok(kiln_te_eval(te, want, 3));
        kiln_str text = text_of(p, "cuda", &arena, &lowered);
        expect_contains(text.data, kiln_arena_printf(&arena, "wgmma_m64n%lldk16_%s<%d, %d>(",
                                                     (long long)x->columns, x->type, x->by_columns,
                                                     x->by_rows));
        expect_ok(kiln_loop_eval(lowered.run, low, 3));
        expect_ok(emulate(text, &lowered.run_launches.launch[0], got, &arena));
        const size_t bytes = kiln_tensor_bytes(&want[2]);
        assert_memory_equal(low[2].data, want[2].data, bytes);
        assert_memory_equal(got[2].data, want[2].data, bytes);
        kiln_arena_deinit(&arena);
    }
}

/* Four instructions for 64 steps, begun together and waited for once; nothing that the assembler
 * would give up their overlap for, and no spill. */
static void ptx_has_the_instructions(void **state) {
    kiln_arena *arena = *state;
    const char *program = kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", arena);
    if (!program)
        print_message("no ptxas on PATH or in " KILN_PTXAS_VARIABLE ": it is not asked\n");
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(products); i++) {
        const product *x = &products[i];
        kiln_lowered lowered;
        kiln_str printed, ptx = text_of(scheduled(program_of(x, arena), schedule_of(x, arena)),
                                        NULL, arena, &lowered);
        const char *text = kiln_str_dup(arena, ptx);
        expect_contains(text, ".version 8.0");
        expect_contains(text, ".align 1024 .b8 shared[]");
        assert_int_equal(
            count_of(text, kiln_arena_printf(arena,
                                             "wgmma.mma_async.sync.aligned.m64n%lldk16.f32.%s.%s {",
                                             (long long)x->columns, x->type, x->type)),
            4);
        assert_int_equal(count_of(text, "wgmma.fence.sync.aligned"), 1);
        assert_int_equal(count_of(text, "wgmma.wait_group.sync.aligned 0"), 1);
        assert_int_equal(count_of(text, "fence.proxy.async.shared::cta"),
                         count_of(text, "bar.sync"));
        if (!program) continue;
        kiln_ptxas_report report;
        expect_ok(kiln_ptxas_run(program, KILN_STR("sm_90a"), ptx, NULL, arena, &printed));
        expect_ok(kiln_ptxas_parse(printed, arena, &report));
        expect_ok(kiln_ptxas_check_spills(&report));
        assert_int_equal(report.note.size, 0);
        assert_true(report.entry[0].registers <= 64 + (uint64_t)x->columns / 2);
    }
}

/* The same of CUDA C, by clang: its assembly is what NVIDIA's assembler takes. */
static void cuda_text_has_the_instructions(void **state) {
    kiln_arena *arena = *state;
    const char *program = kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", arena);
    char *folder = make_folder(arena);
    const product *x = &products[2];
    kiln_lowered lowered;
    kiln_str printed,
        ptx = compile_cuda(text_of(scheduled(program_of(x, arena), schedule_of(x, arena)), "cuda",
                                   arena, &lowered),
                           "sm_90a", folder, arena);
    const char *text = kiln_str_dup(arena, ptx);
    kiln_ptxas_report report;
    assert_int_equal(count_of(text, "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"), 4);
    remove_folder(folder);
    if (!program) return;
    expect_ok(kiln_ptxas_run(program, KILN_STR("sm_90a"), ptx, NULL, arena, &printed));
    expect_ok(kiln_ptxas_parse(printed, arena, &report));
    expect_ok(kiln_ptxas_check_spills(&report));
    assert_int_equal(report.note.size, 0);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* The text with `what` replaced wherever it stands. */
static kiln_str replaced(kiln_str text, const char *what, const char *instead, kiln_arena *arena) {
    kiln_strbuf out = {0};
    const char *from = kiln_str_dup(arena, text);
    assert_non_null(strstr(from, what));
    for (const char *at; (at = strstr(from, what)); from = at + strlen(what))
        kiln_strbuf_printf(&out, "%.*s%s", (int)(at - from), from, instead);
    kiln_strbuf_text(&out, from);
    return kiln_strbuf_end(&out, arena);
}

/* What is wrong in the text is an error, or else a wrong result. */
static void the_emulator_notices_faults(void **state) {
    static const struct {
        const char *what, *instead, *error; /* NULL: results are wrong */
    } fault[] = {
        {"wgmma_wait<0>", "wgmma_wait<1>", NULL},
        {"wgmma_commit();", "", NULL},
        {"wgmma_fence();", "", "no wgmma.fence stands before it"},
        {"fence_async_shared();", "", "no fence.proxy.async"},
        {"0x4000004000010000ull", "0x0000004000010000ull", "another mode than 128-byte swizzle"},
        {"0x4000004000010000ull", "0x4000003f00010000ull", NULL},
        {"0x4000004000010000ull", "0x4000004000010001ull", "behind the end"},
        {"k16_f16<0, 0>", "k16_f16<0, 1>", NULL},
    };
    const product *x = &products[0];
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(fault); i++) {
        kiln_arena arena;
        (void)state;
        kiln_arena_init(&arena, 0);
        kiln_program *te = program_of(x, &arena);
        kiln_lowered lowered;
        kiln_tensor want[3], got[3];
        tensors_of(te, &arena, want);
        tensors_of(te, &arena, got);
        expect_ok(kiln_te_eval(te, want, 3));
        kiln_str text =
            replaced(text_of(scheduled(te, schedule_of(x, &arena)), "cuda", &arena, &lowered),
                     fault[i].what, fault[i].instead, &arena);
        kiln_status st = emulate(text, &lowered.run_launches.launch[0], got, &arena);
        if (fault[i].error) {
            expect_error(st, FAILED_PRECONDITION, fault[i].error);
        } else {
            expect_ok(st);
            assert_memory_not_equal(got[2].data, want[2].data, kiln_tensor_bytes(&want[2]));
        }
        kiln_arena_deinit(&arena);
    }
}

/* ---- what is no such piece ------------------------------------------------------------------- */

/* A schedule with one of its parts replaced. */
static const char *with_part(const product *x, const char *part, const char *instead,
                             kiln_arena *arena) {
    return replaced(kiln_str_from(schedule_of(x, arena)), part, instead, arena).data;
}

/* Operands that do not lie as descriptors say are multiplied by loops, which are as right. */
static void operands_that_lie_otherwise_are_multiplied_by_loops(void **state) {
    kiln_arena *arena = *state;
    const product *x = &products[0];
    static const char *const part[] = {"swizzle(w.read, 0, 8, 8, 1)\n",
                                       "swizzle(x.read, 0, 8, 8, 1)\n"};
    static const char *const instead[] = {"", "swizzle(x.read, 8, 8, 8, 1)\n",
                                          "swizzle(x.read, 0, 8, 4, 1)\n",
                                          "swizzle(x.read, 0, 8, 8, 2)\n"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(instead); i++) {
        kiln_lowered lowered;
        kiln_program *p =
            scheduled(program_of(x, arena), with_part(x, part[i > 0], instead[i], arena));
        kiln_str text = text_of(p, "cuda", arena, &lowered);
        assert_null(strstr(text.data, "wgmma_m64"));
    }
}

static void expect_refused(const product *x, const char *part, const char *instead,
                           const char *needle, kiln_arena *arena) {
    kiln_trace trace;
    kiln_program *te = program_of(x, arena), *p = NULL;
    expect_ok(kiln_trace_parse(kiln_str_from(with_part(x, part, instead, arena)), arena, &trace));
    expect_error(kiln_trace_replay(&trace, te, NULL, arena, &p, NULL), ILLEGAL_SCHEDULE, needle);
}

static void what_is_no_piece_of_a_group_is_refused(void **state) {
    kiln_arena *arena = *state;
    product x = products[0];
    expect_refused(&x, "bind(mul.i.1, \"thread.z\")\nbind(mul.i.2, \"thread.y\")\n", "",
                   "is not in a loop on thread.y", arena);
    expect_refused(&x, "bind(mul.i.4.f, \"thread.x\")\n", "", "is not in a loop on thread.x",
                   arena);
    expect_refused(&x, "split(mul.i, 2, 1, 4, 2, 8)", "split(mul.i, 4, 1, 2, 2, 8)",
                   "has 2 iterations on thread.y; wgmma.m64k16.f16 takes a group of 4", arena);
    x.columns = 32;
    expect_refused(&x, "mul", "mul",
                   "has 8 iterations; wgmma.m64k16.f16 takes 16 to 64, in multiples of 2", arena);
    x.columns = 64;
    expect_refused(&x, "wgmma.m64k16.f16", "wgmma.m64k16.bf16", "does not sum up", arena);
}

static void targets_without_it_refuse_it_by_name(void **state) {
    kiln_arena *arena = *state;
    kiln_program *p = scheduled(program_of(&products[0], arena), schedule_of(&products[0], arena));
    static const char *const without[] = {"null", "cuda:sm_80", "cuda:sm_90"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(without); i++) {
        kiln_target target = target_of(arena, without[i]);
        kiln_lowered lowered;
        expect_error(kiln_lower(p, &target, arena, &lowered), ILLEGAL_SCHEDULE,
                     "uses wgmma.m64k16.f16, which needs sm_90a");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(ptx_has_the_instructions),
        test_with_arena(cuda_text_has_the_instructions),
        test_with_arena(emulated_products_equal_the_interpreter),
        test_with_arena(the_emulator_notices_faults),
        test_with_arena(operands_that_lie_otherwise_are_multiplied_by_loops),
        test_with_arena(what_is_no_piece_of_a_group_is_refused),
        test_with_arena(targets_without_it_refuse_it_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
