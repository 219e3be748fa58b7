/* Products by instructions of warps: what `tensorize` takes and refuses, that programs mean what
 * they meant, and that CUDA C run by the block emulator computes that; PTX, and what NVIDIA's
 * assembler says of it where it is installed. */
#include <string.h>

#include "base/rand.h"
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

/* A product. */
typedef struct product {
    const char *type, *sum, *intrinsic;
    int64_t m, n, k, steps; /* steps: of the instruction */
    int64_t tiles;          /* of 8 columns, of a warp */
    bool by_rows;           /* w[k, j]: columns lie behind one another */
    bool in_shared;
    bool apart; /* a thread's tiles of 16 rows and 8 columns lie behind those of other threads */
} product;

static kiln_program *program_of(const product *x, kiln_arena *arena) {
    const char *factor = strcmp(x->type, "f32") == 0 ? "tf32" : x->sum; /* that operands become */
    return parsed(
        arena,
        kiln_arena_printf(
            arena,
            "program p\ninput x: %s[%lld, %lld]\ninput w: %s[%lld, %lld]\noutput y: %s[%lld, "
            "%lld]\n"
            "block mul(i:%lld, j:%lld | k:%lld): y[i, j] sum= %s(x[i, k]) * %s(w[%s]) init %s\n",
            x->type, (long long)x->m, (long long)x->k, x->type,
            (long long)(x->by_rows ? x->k : x->n), (long long)(x->by_rows ? x->n : x->k), x->sum,
            (long long)x->m, (long long)x->n, (long long)x->m, (long long)x->n, (long long)x->k,
            factor, factor, x->by_rows ? "k, j" : "j, k",
            strcmp(x->sum, "f32") == 0 ? "0.0" : "0i32"));
}

/* Blocks of 64 rows, two warps each, two steps of the instruction deep; each thread has two times
 * `tiles` pieces of 2 x 2 sums, whose rows and columns are neighbours, or lie apart as in the
 * vendor's description. */
static const char *schedule_of(const product *x, kiln_arena *arena) {
    const long long m = x->m / 64, n = x->n / (8 * x->tiles), k = x->k / (2 * x->steps);
    const char *fetch =
        !x->in_shared ? ""
                      : "compute_at(x.read, mul.k.0)\ncompute_at(w.read, mul.k.0)\n"
                        "fuse(x.read.d0, x.read.d1)\nsplit(x.read.d0.f, 2, 32, -1)\n"
                        "bind(x.read.d0.f.0, \"thread.y\")\nbind(x.read.d0.f.1, \"thread.x\")\n"
                        "fuse(w.read.d0, w.read.d1)\nsplit(w.read.d0.f, 2, 32, -1)\n"
                        "bind(w.read.d0.f.0, \"thread.y\")\nbind(w.read.d0.f.1, \"thread.x\")\n";
    const char *split =
        x->apart
            ? kiln_arena_printf(arena,
                                "split(mul.i, %lld, 2, 2, 2, 8)\nsplit(mul.j, %lld, %lld, 4, 2)\n"
                                "split(mul.k, %lld, 2, %lld)\n"
                                "reorder(mul.i.0, mul.j.0, mul.k.0, mul.i.1, mul.i.4, mul.j.2, "
                                "mul.k.1, mul.i.2, mul.j.1, mul.i.3, mul.j.3, mul.k.2)\n"
                                "fuse(mul.i.4, mul.j.2)\n",
                                m, n, (long long)x->tiles, k, (long long)x->steps)
            : kiln_arena_printf(arena,
                                "split(mul.i, %lld, 2, 8, 2, 2)\nsplit(mul.j, %lld, 4, %lld, 2)\n"
                                "split(mul.k, %lld, 2, %lld)\n"
                                "reorder(mul.i.0, mul.j.0, mul.k.0, mul.i.1, mul.i.2, mul.j.1, "
                                "mul.k.1, mul.i.3, mul.j.2, mul.i.4, mul.j.3, mul.k.2)\n"
                                "fuse(mul.i.2, mul.j.1)\n",
                                m, n, (long long)x->tiles, k, (long long)x->steps);
    const char *write =
        x->apart ? kiln_arena_printf(
                       arena,
                       "split(mul.write.i, 2, 2, 2, 8)\nsplit(mul.write.j, %lld, 4, 2)\n"
                       "reorder(mul.write.i.0, mul.write.i.3, mul.write.j.1, mul.write.i.1, "
                       "mul.write.j.0, mul.write.i.2, mul.write.j.2)\n"
                       "fuse(mul.write.i.3, mul.write.j.1)\nbind(mul.write.i.0, \"thread.y\")\n"
                       "bind(mul.write.i.3.f, \"thread.x\")\nunroll(mul.write.i.1)\n"
                       "unroll(mul.write.j.0)\nunroll(mul.write.i.2)\nvectorize(mul.write.j.2)\n",
                       (long long)x->tiles)
                 : kiln_arena_printf(
                       arena,
                       "split(mul.write.i, 2, 8, 4)\nsplit(mul.write.j, 4, %lld)\n"
                       "reorder(mul.write.i.0, mul.write.i.1, mul.write.j.0, mul.write.i.2, "
                       "mul.write.j.1)\nfuse(mul.write.i.1, mul.write.j.0)\n"
                       "bind(mul.write.i.0, \"thread.y\")\nbind(mul.write.i.1.f, \"thread.x\")\n"
                       "unroll(mul.write.i.2)\nvectorize(mul.write.j.1)\n",
                       (long long)(2 * x->tiles));
    const char *thread = x->apart ? "4" : "2", *row_tile = x->apart ? "2" : "3",
               *column_tile = x->apart ? "1" : "2", *row = x->apart ? "3" : "4";
    return kiln_arena_printf(
        arena,
        "%scache_write(mul, \"register\")\n%s"
        "bind(mul.i.0, \"block.y\")\nbind(mul.j.0, \"block.x\")\n"
        "bind(mul.i.1, \"thread.y\")\nbind(mul.i.%s.f, \"thread.x\")\n"
        "decompose_reduction(mul, mul.k.0)\n%sreverse_compute_at(mul.write, mul.j.0)\n%s"
        "unroll(mul.init.i.%s)\nunroll(mul.init.j.%s)\nunroll(mul.init.i.%s)\n"
        "unroll(mul.init.j.3)\nunroll(mul.k.1)\nunroll(mul.i.%s)\nunroll(mul.j.%s)\n"
        "tensorize(mul.i.%s, \"%s\")\n",
        x->in_shared ? "cache_read(mul, x, \"shared\")\ncache_read(mul, w, \"shared\")\n" : "",
        split, thread, fetch, write, row_tile, column_tile, row, row_tile, column_tile, row,
        x->intrinsic);
}

static kiln_program *scheduled(const kiln_program *te, const char *text) {
    kiln_trace trace;
    kiln_program *p = NULL;
    expect_ok(kiln_trace_parse(kiln_str_from(text), te->arena, &trace));
    expect_ok(kiln_trace_replay(&trace, te, NULL, te->arena, &p, NULL));
    return p;
}

static const product products[] = {
    {"f16", "f32", "mma.m16n8k16.f16", 64, 64, 64, 16, 4, false, true, false},
    {"bf16", "f32", "mma.m16n8k16.bf16", 128, 32, 64, 16, 1, true, true, false},
    {"i8", "i32", "mma.m16n8k32.s8", 64, 32, 128, 32, 4, false, true, false},
    {"i8", "i32", "mma.m16n8k32.s8", 64, 32, 64, 32, 4, true, true, false},
    {"f16", "f32", "mma.m16n8k16.f16", 64, 32, 32, 16, 4, true, false, false},
    {"f16", "f32", "mma.m16n8k16.f16", 64, 64, 32, 16, 4, true, true, true},
    {"i8", "i32", "mma.m16n8k32.s8", 128, 32, 64, 32, 2, false, true, true},
    {"f32", "f32", "mma.m16n8k8.tf32", 64, 32, 32, 8, 4, false, true, false},
    {"f32", "f32", "mma.m16n8k8.tf32", 64, 32, 32, 8, 2, true, true, true},
    {"f32", "f32", "mma.m16n8k8.tf32", 64, 32, 16, 8, 4, true, false, false},
};

/* Small integers. Of f32 numbers that tf32 does not hold, some of them half way between two that it
 * does, but whose rounded products have sums that f32 holds. */
static void fill(kiln_tensor *t, uint32_t salt) {
    for (uint32_t i = 0; i < kiln_shape_count(&t->shape); i++) {
        const int64_t value = (int64_t)((i * 7 + i / 13 + salt) % 11) - 5;
        if (t->dtype == KILN_F32)
            kiln_dtype_store_f64(t->dtype, t->data, i, (double)value * (salt ? 1 - 0x1p-13 : 2049));
        else
            kiln_dtype_store_i64(t->dtype, t->data, i, value);
    }
}

static void tensors_of(const kiln_program *te, kiln_arena *arena, kiln_tensor arg[3]) {
    for (uint32_t i = 0; i < 3; i++) {
        arg[i] =
            kiln_tensor_create(arena, te->buffer.data[i + 1].dtype, &te->buffer.data[i + 1].shape);
        if (i < 2) fill(&arg[i], i);
    }
}

static uint32_t count_of(const char *text, const char *needle) {
    uint32_t count = 0;
    for (const char *at = strstr(text, needle); at; at = strstr(at + 1, needle)) count++;
    return count;
}

/* The expression, the schedule, what lowering makes of it and what the emulator does with its CUDA
 * C, which it returns, are equal bit by bit: sums of such data are exact. `swizzle`: more lines of
 * the trace. */
static kiln_str expect_equal_everywhere(const product *x, const char *swizzle, kiln_arena *arena) {
    const char *schedule = kiln_arena_printf(arena, "%s%s", schedule_of(x, arena), swizzle);
    kiln_program *te = program_of(x, arena), *p = scheduled(te, schedule);
    kiln_lowered lowered;
    kiln_tensor want[3], loops[3], low[3], got[3];
    tensors_of(te, arena, want);
    tensors_of(te, arena, loops);
    tensors_of(te, arena, low);
    tensors_of(te, arena, got);
    expect_ok(kiln_te_eval(te, want, 3));
    expect_ok(kiln_loop_eval(p, loops, 3));
    kiln_str text = device_text(p, "cuda:sm_80", "cuda", arena, &lowered);
    expect_ok(kiln_loop_eval(lowered.run, low, 3));
    expect_contains(text.data, "= mma_m16n8k");
    char *folder = make_folder(arena);
    emulate_block *e = NULL;
    const kiln_launch *l = &lowered.run_launches.launch[0];
    emulate_block_launch launch = {.entry = "run_0",
                                   .shared_bytes = l->shared_bytes,
                                   .arg = {got[0].data, got[1].data, got[2].data},
                                   .arg_count = 3};
    memcpy(launch.grid, l->grid_size, sizeof launch.grid);
    memcpy(launch.block, l->group_size, sizeof launch.block);
    expect_ok(emulate_block_create(text, folder, arena, &e));
    expect_ok(emulate_block_run(e, &launch));
    emulate_block_destroy(e);
    remove_folder(folder);
    const size_t bytes = kiln_tensor_bytes(&want[2]);
    assert_memory_equal(loops[2].data, want[2].data, bytes);
    assert_memory_equal(low[2].data, want[2].data, bytes);
    assert_memory_equal(got[2].data, want[2].data, bytes);
    return text;
}

static void emulated_products_equal_the_interpreter(void **state) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(products); i++)
        expect_equal_everywhere(&products[i], "", *state);
}

/* Tiles of three, four and eight stages, fetched in pieces of 16 and of 4 bytes, and in halves that
 * are stored as nothing copies them. */
static void pipelined_products_equal_the_interpreter(void **state) {
    static const char *const fetch[] = {"split(x.read.d0.f.2, -1, 8)\nvectorize(x.read.d0.f.2.1)\n",
                                        "split(x.read.d0.f.2, -1, 2)\nvectorize(x.read.d0.f.2.1)\n",
                                        ""};
    static const char *const copy[] = {"cp_async<16>(", "cp_async<4>(", "cp_async_commit("};
    const product x = {"f16", "f32", "mma.m16n8k16.f16", 64, 64, 160, 16, 4, false, true, false};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(fetch); i++)
        for (uint32_t stages = 3; stages <= 8; stages += stages == 3 ? 1 : 4) {
            const char *lines =
                kiln_arena_printf(*state, "%spipeline(mul.k.0, %u)\n", fetch[i], stages);
            expect_contains(expect_equal_everywhere(&x, lines, *state).data, copy[i]);
        }
}

/* Sizes, types, tiles, layouts of operands, pitches and exchanged units of shared memory. */
static void drawn_products_equal_the_interpreter(void **state) {
    static const product type[] = {{"f16", "f32", "mma.m16n8k16.f16", .steps = 16},
                                   {"bf16", "f32", "mma.m16n8k16.bf16", .steps = 16},
                                   {"f32", "f32", "mma.m16n8k8.tf32", .steps = 8},
                                   {"i8", "i32", "mma.m16n8k32.s8", .steps = 32}};
    for (uint64_t seed = 1; seed <= 12; seed++) {
        kiln_rand rand;
        kiln_arena arena;
        (void)state;
        kiln_arena_init(&arena, 0);
        kiln_rand_init(&rand, seed);
        product x = type[kiln_rand_below(&rand, KILN_ARRAY_COUNT(type))];
        x.tiles = (int64_t)1 << kiln_rand_below(&rand, 4);
        x.m = 64 * kiln_rand_range(&rand, 1, 2);
        x.n = 8 * x.tiles * kiln_rand_range(&rand, 1, 2);
        x.k = 2 * x.steps * kiln_rand_range(&rand, 1, 2);
        x.by_rows = kiln_rand_below(&rand, 2);
        x.in_shared = kiln_rand_below(&rand, 4) > 0;
        x.apart = kiln_rand_below(&rand, 2);
        const int unit = (int)(x.steps / 2); /* elements of 16 bytes */
        const char *swizzle = "";
        if (x.in_shared && kiln_rand_below(&rand, 2))
            swizzle = kiln_arena_printf(&arena, "swizzle(x.read, %d, %d, 1, 1)\n",
                                        unit * (int)kiln_rand_range(&rand, 1, 2), unit);
        else if (x.in_shared)
            swizzle = kiln_arena_printf(&arena, "swizzle(x.read, 0, %d, %d, %d)\n", unit,
                                        (int)(2 << kiln_rand_below(&rand, 2)),
                                        (int)(1 << kiln_rand_below(&rand, 2)));
        print_message("seed %u: %s %d x %d x %d, %d tiles%s\n%s", (unsigned)seed, x.intrinsic,
                      (int)x.m, (int)x.n, (int)x.k, (int)x.tiles, x.by_rows ? ", by rows" : "",
                      swizzle);
        expect_equal_everywhere(&x, swizzle, &arena);
        kiln_arena_deinit(&arena);
    }
}

/* Copies of 16 bytes as PTX, which NVIDIA's assembler takes. */
static void ptx_of_pipelines_has_copies(void **state) {
    const product x = {"f16", "f32", "mma.m16n8k16.f16", 64, 64, 160, 16, 4, false, true, false};
    const char *program = kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", *state);
    for (uint32_t stages = 3; stages <= 4; stages++) {
        kiln_program *te = program_of(&x, *state);
        const char *lines = kiln_arena_printf(
            *state,
            "%ssplit(x.read.d0.f.2, -1, 8)\nvectorize(x.read.d0.f.2.1)\n"
            "split(w.read.d0.f.2, -1, 8)\nvectorize(w.read.d0.f.2.1)\npipeline(mul.k.0, %u)\n",
            schedule_of(&x, *state), stages);
        kiln_lowered lowered;
        kiln_str printed,
            ptx = device_text(scheduled(te, lines), "cuda:sm_80", NULL, *state, &lowered);
        const char *text = kiln_str_dup(*state, ptx);
        expect_contains(text, "cp.async.cg.shared.global");
        expect_contains(text, kiln_arena_printf(*state, "cp.async.wait_group %u", stages - 2));
        assert_null(strstr(text, "st.shared"));
        assert_int_equal(lowered.run_launches.launch[0].shared_bytes, stages * (64 + 32) * 32 * 2);
        if (program)
            expect_ok(kiln_ptxas_run(program, KILN_STR("sm_80"), ptx, NULL, *state, &printed));
    }
}

/* How an instruction and its operands are written in PTX: A of four matrices, B of two. */
static void ptx_has_the_instructions(void **state) {
    static const struct {
        const char *product, *a, *b; /* counted in the loop */
        uint32_t a_count, b_count;
    } row[] = {
        {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
         "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m8n8.x2.shared.b16", 4,
         8},
        {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
         "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
         "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", 4, 2},
        {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
         "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m8n8.x2.shared.b16", 4,
         8},
        {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
         "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ld.shared.u8", 4, 64},
        {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "ldmatrix", "ld.global.u16", 0, 32},
        {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
         "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
         "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", 4, 8},
        {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
         "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m8n8.x2.shared.b16", 4,
         4},
        {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
         "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m8n8.x2.shared.b16", 4,
         8},
        {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
         "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ld.shared.u32", 4, 8},
        {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "ldmatrix", "ld.global.u32", 0, 32},
    };
    static const char *const processor[] = {"sm_80", "sm_90a"};
    kiln_arena *arena = *state;
    const char *program = kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", arena);
    if (!program)
        print_message("no ptxas on PATH or in " KILN_PTXAS_VARIABLE ": it is not asked\n");
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        for (uint32_t t = 0; t < KILN_ARRAY_COUNT(processor); t++) {
            kiln_program *te = program_of(&products[i], arena);
            kiln_lowered lowered;
            kiln_str printed, ptx = device_text(scheduled(te, schedule_of(&products[i], arena)),
                                                kiln_arena_printf(arena, "cuda:%s", processor[t]),
                                                NULL, arena, &lowered);
            const char *text = kiln_str_dup(arena, ptx);
            assert_int_equal(count_of(text, row[i].product), 4 * products[i].tiles);
            assert_int_equal(count_of(text, row[i].a), row[i].a_count);
            assert_int_equal(count_of(text, row[i].b), row[i].b_count);
            if (!program) continue;
            kiln_ptxas_report report;
            expect_ok(
                kiln_ptxas_run(program, kiln_str_from(processor[t]), ptx, NULL, arena, &printed));
            expect_ok(kiln_ptxas_parse(printed, arena, &report));
            expect_ok(kiln_ptxas_check_spills(&report));
            assert_int_equal(report.note.size, 0);
            assert_true(report.entry[0].registers <= 128);
        }
}

/* The same of CUDA C, by clang: its assembly is what NVIDIA's assembler takes. */
static void cuda_text_has_the_instructions(void **state) {
    kiln_arena *arena = *state;
    const char *program = kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", arena);
    char *folder = make_folder(arena);
    for (uint32_t i = 0; i < 3; i++) {
        kiln_program *te = program_of(&products[i], arena);
        kiln_lowered lowered;
        kiln_str printed,
            ptx = compile_cuda(device_text(scheduled(te, schedule_of(&products[i], arena)),
                                           "cuda:sm_80", "cuda", arena, &lowered),
                               "sm_80", folder, arena);
        const char *text = kiln_str_dup(arena, ptx);
        assert_int_equal(count_of(text, "mma.sync.aligned.m16n8k"), 4 * products[i].tiles);
        assert_int_equal(count_of(text, "ldmatrix.sync.aligned.m8n8.x4"), 4);
        assert_int_equal(count_of(text, "ldmatrix.sync.aligned.m8n8.x2"), 2 * products[i].tiles);
        if (program)
            expect_ok(kiln_ptxas_run(program, KILN_STR("sm_80"), ptx, NULL, arena, &printed));
    }
    remove_folder(folder);
}

/* ---- copies that land later ------------------------------------------------------------------ */

/* Two stages; each thread fetches 16 bytes and reads what the other one fetched. */
static const char staged[] =
    "program staged\ninput x: f32[32]\noutput y: f32[32]\ntemp s: f32[2,8] scope(shared)\n"
    "loops:\n"
    "  alloc s:\n"
    "    bind(thread.x) t in 2:\n"
    "      vectorize l in 4:\n"
    "        copy(0) s[0, t*4 + l] = x[t*4 + l]\n"
    "      commit(0)\n"
    "      for k in 4:\n"
    "        if k < 3:\n"
    "          vectorize m in 4:\n"
    "            copy(%u) s[floormod(k + 1, 2), t*4 + m] = x[k*8 + t*4 + m + 8]\n"
    "          commit(%u)\n"
    "          wait(0, %u)\n"
    "        if 3 <= k:\n"
    "          wait(%u, 0)\n"
    "        barrier\n"
    "        vectorize n in 4:\n"
    "          y[k*8 + t*4 + n] = s[floormod(k, 2), 4 - t*4 + n]\n"
    "        barrier\n";

static kiln_str staged_text(uint32_t token, uint32_t pending, const char *backend,
                            kiln_arena *arena, kiln_lowered *lowered) {
    const kiln_codegen_options options = {
        .emit = KILN_EMIT_OBJECT, .optimise = 2, .backend = backend};
    kiln_target target = target_of(arena, "cuda:sm_80");
    kiln_str text;
    uint64_t scratch, worker;
    *lowered = (kiln_lowered){.has_launches = true};
    expect_ok(kiln_program_parse(
        kiln_str_from(kiln_arena_printf(arena, staged, token, token, pending, token)), arena,
        &lowered->run));
    expect_ok(kiln_launches_describe(lowered->run, &target, KILN_STR("run"), arena,
                                     &lowered->run_launches));
    expect_ok(kiln_codegen(lowered, &target, &options, arena, &text, &scratch, &worker));
    return text;
}

/* What the emulator makes of it: how many elements of y are not as they should be. */
static uint32_t wrong_of_staged(kiln_str text, kiln_arena *arena) {
    float x[32], y[32];
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < 32; i++) x[i] = (float)i;
    char *folder = make_folder(arena);
    emulate_block *e = NULL;
    emulate_block_launch launch = {.entry = "run_0",
                                   .grid = {1, 1, 1},
                                   .block = {2, 1, 1},
                                   .shared_bytes = 64,
                                   .arg = {x, y},
                                   .arg_count = 2};
    expect_ok(emulate_block_create(text, folder, arena, &e));
    expect_ok(emulate_block_run(e, &launch));
    emulate_block_destroy(e);
    remove_folder(folder);
    for (uint32_t i = 0; i < 32; i++) wrong += y[i] != (float)(i ^ 4);
    return wrong;
}

static void copies_land_where_they_are_waited_for(void **state) {
    kiln_arena *arena = *state;
    kiln_lowered lowered;
    kiln_str text = staged_text(0, 1, "cuda", arena, &lowered);
    expect_contains(text.data, "cp_async<16>(");
    expect_contains(text.data, "cp_async_wait<1>();");
    assert_int_equal(wrong_of_staged(text, arena), 0);
    /* A wait too late: the interpreter finds it, and it is NaN in the emulator. */
    text = staged_text(0, 2, "cuda", arena, &lowered);
    assert_true(wrong_of_staged(text, arena) > 0);
    /* Groups of two tokens are one sequence on devices, so a wait is for all of them. */
    text = staged_text(1, 1, "cuda", arena, &lowered);
    assert_int_equal(count_of(text.data, "cp_async_wait<0>();"), 2);
    text = staged_text(0, 1, NULL, arena, &lowered);
    expect_contains(kiln_str_dup(arena, text), "cp.async.cg.shared.global");
    expect_contains(kiln_str_dup(arena, text), "cp.async.commit_group");
    expect_contains(kiln_str_dup(arena, text), "cp.async.wait_group");
}

/* A schedule with one of its lines replaced. */
static const char *with_line(const product *x, const char *line, const char *instead,
                             kiln_arena *arena) {
    const char *text = schedule_of(x, arena), *at = strstr(text, line);
    assert_non_null(at);
    return kiln_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, instead, at + strlen(line));
}

static void expect_refused(const product *x, const char *line, const char *instead,
                           const char *needle, kiln_arena *arena) {
    kiln_trace trace;
    kiln_program *te = program_of(x, arena), *p = NULL;
    expect_ok(kiln_trace_parse(kiln_str_from(with_line(x, line, instead, arena)), arena, &trace));
    expect_error(kiln_trace_replay(&trace, te, NULL, arena, &p, NULL), ILLEGAL_SCHEDULE, needle);
}

static void what_is_no_piece_of_a_warp_is_refused(void **state) {
    kiln_arena *arena = *state;
    product x = products[0];
    expect_refused(&x, "bind(mul.i.2.f, \"thread.x\")\n", "", "is not in a loop on thread.x",
                   arena);
    expect_refused(&x, "mul.i.4, mul.j.3, mul.k.2", "mul.j.3, mul.i.4, mul.k.2",
                   "the three innermost loops around one block", arena);
    expect_refused(&x, "tensorize(mul.i.4,", "tensorize(mul.j.3,", "the three innermost loops",
                   arena);
    expect_refused(&x, "fuse(mul.i.2, mul.j.1)\nbind",
                   "fuse(mul.i.2, mul.j.1)\nunroll(mul.k.2)\nbind", "mul.k.2 is not serial", arena);
    /* Lanes that are counted along columns first. */
    expect_refused(&x, "8, 2, 2)\nsplit(mul.j, 2, 4, 4, 2)", "4, 4, 2)\nsplit(mul.j, 2, 8, 2, 2)",
                   "do not share rows", arena);
    x.intrinsic = "mma.m16n8k16.bf16";
    expect_refused(&x, "mul", "mul", "does not sum up", arena);
    x.intrinsic = "mma.m16n8k32.s8";
    expect_refused(&x, "mul", "mul", "has 16 iterations; mma.m16n8k32.s8 takes 32", arena);
}

static void targets_without_it_refuse_it_by_name(void **state) {
    kiln_arena *arena = *state;
    kiln_program *te = program_of(&products[0], arena),
                 *p = scheduled(te, schedule_of(&products[0], arena));
    static const char *const without[] = {"null", "opencl,shared=65536"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(without); i++) {
        kiln_target target = target_of(arena, without[i]);
        kiln_lowered lowered;
        expect_error(kiln_lower(p, &target, arena, &lowered), ILLEGAL_SCHEDULE,
                     "uses mma.m16n8k16.f16, which needs sm_80");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(ptx_has_the_instructions),
        test_with_arena(cuda_text_has_the_instructions),
        test_with_arena(copies_land_where_they_are_waited_for),
        test_with_arena(what_is_no_piece_of_a_warp_is_refused),
        test_with_arena(targets_without_it_refuse_it_by_name),
        test_with_arena(emulated_products_equal_the_interpreter),
        test_with_arena(drawn_products_equal_the_interpreter),
        test_with_arena(pipelined_products_equal_the_interpreter),
        test_with_arena(ptx_of_pipelines_has_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
