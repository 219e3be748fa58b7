/* Objects: the same bytes every time, within the object contract for each processor, with register
 * tiles that stay in registers. */
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <string.h>

#include "base/status.h"
#include "compiler-core/build.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/reference.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/space.h"
#include "deploy/runtime/load.h"
#include "tests/support/program_generate.h"
#include "tests/unit/compiler-core/codegen/draw.h"
#include "tests/unit/compiler-core/codegen/products.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/sched/support.h"

#define TRIPLE "cpu:x86_64-unknown-linux-gnu"

static const char *const level[] = {TRIPLE ",mcpu=x86-64",
                                    TRIPLE ",mcpu=x86-64-v2",
                                    TRIPLE ",mcpu=x86-64-v3",
                                    TRIPLE ",mcpu=x86-64-v4",
                                    "rpi3",
                                    "rpi4",
                                    "rpi5",
                                    "pynq",
                                    "riscv64"};

static kiln_program *draw(kiln_arena *arena, uint64_t seed) {
    const kiln_generate_options options = {
        .blocks_max = 4, .points_max = 400, .floats_only = seed % 2 == 0};
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    return draw_schedule(kiln_program_generate(&rand, &options, arena), &rand, 20);
}

static kiln_status emit_in(kiln_codegen_context *context, const kiln_program *scheduled,
                           const kiln_target *target, kiln_emit form, kiln_arena *arena,
                           kiln_str *out) {
    const kiln_codegen_options options = {.emit = form, .optimise = 2, .context = context};
    kiln_lowered lowered;
    uint64_t scratch, worker;
    kiln_status st = kiln_lower(scheduled, target, arena, &lowered);
    return st ? st : kiln_codegen(&lowered, target, &options, arena, out, &scratch, &worker);
}

static kiln_status emit(const kiln_program *scheduled, const kiln_target *target, kiln_emit form,
                        kiln_arena *arena, kiln_str *out) {
    return emit_in(NULL, scheduled, target, form, arena, out);
}

static void objects_keep_the_contract_and_their_bytes(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    static const char *const entries[] = {"kiln_run", NULL};
    uint32_t compiled = 0;
    for (uint64_t seed = 1; seed <= 90; seed++) {
        kiln_target target = target_of(arena, level[seed % KILN_ARRAY_COUNT(level)]);
        kiln_str object, again;
        kiln_program *scheduled = draw(arena, seed);
        kiln_status st = emit(scheduled, &target, KILN_EMIT_OBJECT, arena, &object);
        if (kiln_status_code(st) == KILN_ILLEGAL_SCHEDULE) {
            kiln_status_free(st);
            continue;
        }
        if (!st) st = emit(scheduled, &target, KILN_EMIT_OBJECT, arena, &again);
        if (!st) st = kiln_object_check(object, target.arch, entries);
        if (st) fail_msg("seed %llu: %s", (unsigned long long)seed, kiln_status_text(st));
        assert_true(kiln_str_equal(object, again));
        compiled++;
    }
    assert_true(compiled > 45);
}

/* Two seeds each for one level: a machine that is made, and one that is there. */
static void a_kept_context_changes_no_bytes(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    kiln_codegen_context *context = kiln_codegen_context_create();
    uint32_t compiled = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        kiln_target target = target_of(arena, level[seed / 2 % KILN_ARRAY_COUNT(level)]);
        kiln_str alone, kept;
        kiln_program *scheduled = draw(arena, seed);
        kiln_status st = emit(scheduled, &target, KILN_EMIT_OBJECT, arena, &alone);
        if (kiln_status_code(st) == KILN_ILLEGAL_SCHEDULE) {
            kiln_status_free(st);
            continue;
        }
        if (!st) st = emit_in(context, scheduled, &target, KILN_EMIT_OBJECT, arena, &kept);
        if (st) fail_msg("seed %llu: %s", (unsigned long long)seed, kiln_status_text(st));
        assert_true(kiln_str_equal(alone, kept));
        compiled++;
    }
    assert_true(compiled > 20);
    kiln_codegen_context_destroy(context);
}

static void explained_forms_are_text(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    kiln_target target = target_of(arena, level[2]);
    kiln_str llvm, assembly;
    kiln_program *p = matmul_program(arena, 4, 4, 4);
    kiln_program_make_loops(p);
    assert_null(emit(p, &target, KILN_EMIT_LLVM, arena, &llvm));
    assert_null(emit(p, &target, KILN_EMIT_ASM, arena, &assembly));
    assert_non_null(strstr(kiln_str_dup(arena, llvm), "define i32 @kiln_run"));
    assert_non_null(strstr(kiln_str_dup(arena, assembly), "vfmadd"));
}

/* What another user of LLVM in this process makes of a loop whose addresses LLVM itself can step.
 */
static const char *foreign_assembly(kiln_arena *arena) {
    static const char text[] = "target triple = \"x86_64-unknown-linux-gnu\"\n"
                               "define void @f(ptr %p, i64 %n) {\n"
                               "entry:\n  br label %loop\n"
                               "loop:\n  %i = phi i64 [0, %entry], [%next, %loop]\n"
                               "  %a = mul i64 %i, 12\n  %q = getelementptr i8, ptr %p, i64 %a\n"
                               "  %b = mul i64 %i, 28\n  %r = getelementptr i8, ptr %p, i64 %b\n"
                               "  %v = load float, ptr %q\n  store float %v, ptr %r\n"
                               "  %next = add i64 %i, 1\n  %end = icmp eq i64 %next, %n\n"
                               "  br i1 %end, label %out, label %loop\n"
                               "out:\n  ret void\n}\n";
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = NULL;
    LLVMTargetRef target = NULL;
    LLVMMemoryBufferRef buffer = NULL;
    char *message = NULL;
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMMemoryBufferRef source =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(text, sizeof text - 1, "foreign");
    if (LLVMParseIRInContext(context, source, &module, &message) ||
        LLVMGetTargetFromTriple("x86_64-unknown-linux-gnu", &target, &message))
        fail_msg("%s", message);
    LLVMTargetMachineRef machine =
        LLVMCreateTargetMachine(target, "x86_64-unknown-linux-gnu", "x86-64", "",
                                LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMAssemblyFile, &message, &buffer))
        fail_msg("%s", message);
    const char *assembly =
        kiln_str_dup(arena, (kiln_str){LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer)});
    LLVMDisposeMemoryBuffer(buffer);
    LLVMDisposeTargetMachine(machine);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    return assembly;
}

/* Of the first drawn schedules that are legal, several so that loops are among them. */
static kiln_str objects_of_x86(kiln_arena *arena) {
    kiln_target target = target_of(arena, level[2]);
    kiln_strbuf all = {0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        kiln_str object;
        kiln_status st = emit(draw(arena, seed), &target, KILN_EMIT_OBJECT, arena, &object);
        if (!st) kiln_strbuf_str(&all, object);
        kiln_status_free(st);
    }
    kiln_str copy = {kiln_str_dup(arena, kiln_strbuf_view(&all)), all.size};
    kiln_strbuf_deinit(&all);
    return copy;
}

/* LLVM's switches are the process's: ours are set for the time of a compilation, whatever others
 * set before, and others find the usual ones again. */
static void switches_of_llvm_are_ours_while_we_compile_only(void **state) {
    static const char *const others[] = {"others", "-disable-lsr=false", "-disable-cgp=false"};
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    const char *before = foreign_assembly(arena);
    kiln_str first = objects_of_x86(arena);
    assert_string_equal(foreign_assembly(arena), before);
    LLVMParseCommandLineOptions(3, others, "");
    kiln_str second = objects_of_x86(arena);
    assert_true(kiln_str_equal(first, second));
    static const char *const off[] = {"others", "-disable-lsr"};
    LLVMParseCommandLineOptions(2, off, "");
    assert_string_not_equal(foreign_assembly(arena), before); /* the loop is one that shows it */
    static const char *const on[] = {"others", "-disable-lsr=false"};
    LLVMParseCommandLineOptions(2, on, "");
}

static void backends_of_other_targets_are_refused(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    const kiln_target target = target_of(arena, "x86-64");
    const kiln_codegen_options options = {.backend = "cuda"};
    kiln_lowered lowered;
    kiln_str text;
    uint64_t scratch, worker;
    kiln_program *p = matmul_program(arena, 4, 4, 4);
    kiln_program_make_loops(p);
    expect_ok(kiln_lower(p, &target, arena, &lowered));
    expect_error(kiln_codegen(&lowered, &target, &options, arena, &text, &scratch, &worker),
                 UNIMPLEMENTED, "no backend cuda for cpu:x86_64");
}

/* ---- register tiles -------------------------------------------------------------------------- */

/* A 3x3 convolution with a tile of `pixels` by two vectors of `lanes` output channels. */
static kiln_program *tiled_conv(kiln_arena *arena, uint32_t pixels, uint32_t lanes) {
    const conv_shape shape = {
        .n = 1, .ic = 16, .h = 4, .w = 56, .oc = 32, .kh = 3, .kw = 3, .stride = 1, .padding = 1};
    return schedule(
        conv_program(arena, &shape),
        kiln_arena_printf(
            arena,
            "transform_layout(xp, \"d0,d1/%u,d2,d3,d1%%%u\")\n"
            "transform_layout(y, \"d0,d1/%u,d2,d3,d1%%%u\")\n"
            "cache_read(conv, w, \"global\")\n"
            "transform_layout(w.read, \"d0/%u,d1,d2,d3,d0%%%u\")\n"
            "cache_write(conv, \"register\")\n"
            "split(conv.oc, -1, 2, %u)\n"
            "split(conv.ow, -1, %u)\n"
            "reorder(conv.oc.0, conv.oh, conv.ow.0, conv.ic, conv.kh, conv.kw, conv.ow.1, "
            "conv.oc.1, conv.oc.2)\n"
            "reverse_compute_at(conv.write, conv.ow.0)\n"
            "decompose_reduction(conv, conv.ic)\n"
            "split(conv.write.oc, 2, %u)\n"
            "reorder(conv.write.ow, conv.write.oc.0, conv.write.oc.1)\n"
            "unroll(conv.write.ow)\nunroll(conv.write.oc.0)\nvectorize(conv.write.oc.1)\n"
            "unroll(conv.init.ow.1)\nunroll(conv.init.oc.1)\nvectorize(conv.init.oc.2)\n"
            "unroll(conv.ow.1)\nunroll(conv.oc.1)\nvectorize(conv.oc.2)\n",
            lanes, lanes, lanes, lanes, 2 * lanes, 2 * lanes, lanes, pixels, lanes));
}

typedef struct block_facts {
    uint32_t fused, stack, all; /* multiply-adds; operands on the stack; instructions */
} block_facts;

/* How these are written on a processor. */
typedef struct dialect {
    const char *jump, *fused, *stack, *frame;
} dialect;

static const dialect x86 = {"\tj", "vfmadd", "(%rsp", "(%rbp"};
static const dialect arm = {"\tb", "fmla", "[sp", "[sp"};

/* The basic block with the most multiply-adds. */
static block_facts busiest_block(char *assembly, const dialect *d) {
    block_facts best = {0}, now = {0};
    for (char *line = assembly, *end; line; line = end) {
        if ((end = strchr(line, '\n'))) *end++ = 0;
        bool ends = strstr(line, d->jump) == line; /* a jump; a label begins the next one */
        if (ends && now.fused && now.fused == best.fused) best.all++;
        if (ends || (strchr(line, ':') && line[0] != '\t')) now = (block_facts){0};
        if (line[0] == '\t' && line[1] != '.') now.all++;
        if (strstr(line, d->fused)) now.fused++;
        if (strstr(line, d->stack) || strstr(line, d->frame)) now.stack++;
        if (now.fused >= best.fused) best = now;
    }
    return best;
}

static void expect_tile_in_registers(kiln_arena *arena, const char *target_text, uint32_t pixels,
                                     uint32_t lanes, const dialect *d) {
    kiln_target target = target_of(arena, target_text);
    kiln_str assembly;
    assert_null(emit(tiled_conv(arena, pixels, lanes), &target, KILN_EMIT_ASM, arena, &assembly));
    block_facts facts = busiest_block(kiln_str_dup(arena, assembly), d);
    assert_int_equal(facts.fused, 2 * pixels);
    assert_int_equal(facts.stack, 0);
}

static void tiles_of_6_by_2_stay_in_avx2_registers(void **state) {
    expect_tile_in_registers(((kiln_program *)*state)->arena, level[2], 6, 8, &x86);
}

static void tiles_of_14_by_2_stay_in_avx512_registers(void **state) {
    expect_tile_in_registers(((kiln_program *)*state)->arena, level[3], 14, 16, &x86);
}

static void tiles_of_8_by_2_stay_in_neon_registers(void **state) {
    expect_tile_in_registers(((kiln_program *)*state)->arena, "rpi4", 8, 4, &arm);
}

/* Register tiles follow from the rows of a target (32 registers, 4 lanes, factors out of
 * registers): what the rules choose unsearched is nearly all multiply-adds, and nothing of it lies
 * on the stack. */
static void default_convolutions_of_arm_are_multiply_adds(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    static const conv_shape row[] = {
        {.n = 1, .ic = 64, .h = 56, .w = 56, .oc = 64, .kh = 3, .kw = 3, .stride = 1, .padding = 1},
        {.n = 1,
         .ic = 128,
         .h = 28,
         .w = 28,
         .oc = 128,
         .kh = 3,
         .kw = 3,
         .stride = 1,
         .padding = 1},
        {.n = 1,
         .ic = 256,
         .h = 14,
         .w = 14,
         .oc = 256,
         .kh = 3,
         .kw = 3,
         .stride = 1,
         .padding = 1},
        {.n = 1, .ic = 64, .h = 56, .w = 56, .oc = 64, .kh = 1, .kw = 1, .stride = 1},
    };
    static const char *const board[] = {"rpi3", "rpi4", "rpi5"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row) * KILN_ARRAY_COUNT(board); i++) {
        kiln_target target = target_of(arena, board[i % KILN_ARRAY_COUNT(board)]);
        kiln_space *space = KILN_ARENA_NEW(arena, kiln_space);
        kiln_trace trace;
        kiln_program *scheduled;
        kiln_str assembly;
        kiln_status st = kiln_space_create(conv_program(arena, &row[i / KILN_ARRAY_COUNT(board)]),
                                           &target, arena, space);
        if (!st) st = kiln_space_default(space, arena, &trace, &scheduled);
        if (!st) st = emit(scheduled, &target, KILN_EMIT_ASM, arena, &assembly);
        if (st) fail_msg("%s", kiln_status_text(st));
        block_facts facts = busiest_block(kiln_str_dup(arena, assembly), &arm);
        assert_true(facts.fused >= 48);
        assert_int_equal(facts.stack, 0);
        assert_true(facts.fused * 100 >= facts.all * 72);
    }
}

/* ---- prefetching ---- */

/* Lines that one iteration of the loop over k, or what `then` names, fetches. */
static uint32_t lines_of_steps(kiln_arena *arena, int64_t m, int64_t k, const char *order,
                               const char *then) {
    kiln_target target = target_of(arena, level[2]);
    kiln_str text;
    kiln_program *p = schedule(matmul_program(arena, m, 32, k),
                               kiln_arena_printf(arena,
                                                 "cache_read(matmul, w, \"global\")\n"
                                                 "transform_layout(w.read, \"d1/8,d0,d1%%8\")\n"
                                                 "split(matmul.n, -1, 8)\n"
                                                 "reorder(%s, matmul.k, matmul.n.1)\n"
                                                 "vectorize(matmul.n.1)\n"
                                                 "%s",
                                                 order, then));
    assert_null(emit(p, &target, KILN_EMIT_LLVM, arena, &text));
    uint32_t count = 0;
    const char *call = "call void @llvm.prefetch";
    for (const char *at = kiln_str_dup(arena, text); (at = strstr(at, call)); at++) count++;
    return count;
}

static uint32_t lines_fetched(kiln_arena *arena, int64_t m, const char *order, const char *then) {
    return lines_of_steps(arena, m, 16, order,
                          kiln_arena_printf(arena, "prefetch(w.read, matmul.k, 1)\n%s", then));
}

/* A panel of 8 lines is read again by each row: the next one is split over rows and steps. */
static void the_next_part_is_fetched_in_equal_shares(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    assert_int_equal(lines_fetched(arena, 64, "matmul.n.0, matmul.m", ""), 1);
    /* Nothing is read twice before the next panel, so nothing would be early. */
    assert_int_equal(lines_fetched(arena, 64, "matmul.m, matmul.n.0", ""), 0);
    assert_int_equal(lines_fetched(arena, 1, "matmul.n.0, matmul.m", ""), 0);
}

/* A panel of 256 steps is 128 lines, of which each of 4 blocks reads 32: two rows fetch 16 in each,
 * which is more than usual, but less than what is read. */
static void blocks_that_read_much_fetch_much(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    static const struct {
        int64_t rows, k, blocks;
        uint32_t lines;
    } row[] = {{2, 64, 4, 4}, {2, 128, 4, 8}, {2, 256, 4, 16}, {64, 256, 4, 1}};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        assert_int_equal(lines_of_steps(arena, row[i].rows, row[i].k, "matmul.n.0, matmul.m",
                                        kiln_arena_printf(arena,
                                                          "split(matmul.k, %d, -1)\n"
                                                          "prefetch(w.read, matmul.k.0, 1)\n",
                                                          (int)row[i].blocks)),
                         row[i].lines);
}

/* Panels and rows in one loop that threads share: the remainder of its number is the row. */
static void the_next_part_is_fetched_where_threads_share_panels_and_rows(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    static const char *const shared[] = {
        "fuse(matmul.n.0, matmul.m)\n",
        "fuse(matmul.n.0, matmul.m)\nparallel(matmul.n.0.f)\n",
        "parallel(matmul.n.0)\n",
    };
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(shared); i++)
        assert_int_equal(lines_fetched(arena, 64, "matmul.n.0, matmul.m", shared[i]), 1);
    static const char rows_outside[] = "fuse(matmul.m, matmul.n.0)\nparallel(matmul.m.f)\n";
    assert_int_equal(lines_fetched(arena, 64, "matmul.m, matmul.n.0", rows_outside), 0);
}

/* ---- lanes that lie apart -------------------------------------------------------------------- */

/* Rows of so many columns through vectors of `lanes`, in blocks of columns: what is compiled is
 * right, and no lane moves alone. */
static void expect_runs(kiln_arena *arena, const char *target_text, int64_t columns, int64_t block,
                        int lanes) {
    kiln_target target = target_of(arena, target_text);
    kiln_str text;
    kiln_program *te = chain_program(arena, 5, columns);
    const char *layout = kiln_arena_printf(arena, "d1/%d,d0,d1%%%d", (int)block, (int)block);
    kiln_program *p = schedule(te, kiln_arena_printf(arena,
                                                     "inline(a)\n"
                                                     "transform_layout(x, \"%s\")\n"
                                                     "transform_layout(y, \"%s\")\n"
                                                     "split(c.j, -1, %d)\n"
                                                     "unroll(c.j.0)\n"
                                                     "vectorize(c.j.1)\n",
                                                     layout, layout, lanes));
    assert_null(emit(p, &target, KILN_EMIT_LLVM, arena, &text));
    const char *code = kiln_str_dup(arena, text);
    const char *apart[] = {"masked.gather", "masked.scatter", "insertelement", "load float"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(apart); i++)
        if (strstr(code, apart[i])) fail_msg("%s in\n%s", apart[i], code);
    if (runs_here(&target, arena)) assert_null(expect_compiled_equals(te, p, &target, 2, 1));
}

/* Squares are read row by row, whatever the layout, and transposed by shuffles. */
static void squares_are_transposed_in_registers(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    static const char *const apart[] = {"masked.gather", "insertelement", "load float"};
    for (int lanes = 8; lanes <= 16; lanes *= 2) {
        kiln_target target = target_of(arena, level[lanes / 8 + 1]);
        kiln_program *te = parsed(arena, "program p\ninput x: f32[2,32,48]\n"
                                         "output y: f32[2,48,32]\n"
                                         "block t(b:2, i:48, j:32): y[b, i, j] = x[b, j, i]\n");
        kiln_program *p = schedule(te, kiln_arena_printf(arena,
                                                         "split(t.j, -1, %d)\nsplit(t.i, -1, %d)\n"
                                                         "reorder(t.i.0, t.j.0, t.i.1, t.j.1)\n"
                                                         "unroll(t.i.1)\nvectorize(t.j.1)\n",
                                                         lanes, lanes));
        kiln_str text;
        assert_null(emit(p, &target, KILN_EMIT_LLVM, arena, &text));
        const char *code = kiln_str_dup(arena, text);
        for (uint32_t i = 0; i < KILN_ARRAY_COUNT(apart); i++)
            if (strstr(code, apart[i])) fail_msg("%s in\n%s", apart[i], code);
        assert_non_null(strstr(code, "shufflevector"));
    }
}

/* Halves that are copied, transposed, or padded with zeros are not widened on the way. */
static void halves_are_moved_as_they_lie(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    const kiln_target target = target_of(arena, level[3]);
    static const char *const type[] = {"bf16", "f16"};
    static const char *const value[] = {"x[i, j]", "x[j, i]", "select(j < 20, x[i, j], %s)",
                                        "x[i, j] + x[j, i]"};
    static const char *const zero[] = {"0bf16", "0f16"};
    for (uint32_t at = 0; at < 2 * KILN_ARRAY_COUNT(value); at++) {
        const char *t = type[at % 2], *body = kiln_arena_printf(arena, value[at / 2], zero[at % 2]);
        kiln_program *te =
            parsed(arena, kiln_arena_printf(arena,
                                            "program p\ninput x: %s[32,32]\noutput y: %s[32,32]\n"
                                            "block t(i:32, j:32): y[i, j] = %s\n",
                                            t, t, body));
        kiln_program *p = schedule(te, "split(t.j, -1, 16)\nsplit(t.i, -1, 16)\n"
                                       "reorder(t.i.0, t.j.0, t.i.1, t.j.1)\n"
                                       "unroll(t.i.1)\nvectorize(t.j.1)\n");
        kiln_str text;
        assert_null(emit(p, &target, KILN_EMIT_LLVM, arena, &text));
        const bool computes = strstr(kiln_str_dup(arena, text), "float") != NULL;
        assert_int_equal(computes, at / 2 == 3);
        if (runs_here(&target, arena)) expect_ok(expect_compiled_equals(te, p, &target, 2, 1));
    }
}

/* A cast to halves that are stored is the store's own rounding. */
static void stored_halves_are_rounded_once(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    const kiln_target target =
        target_of(arena, "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4,features=+avx512bf16");
    static const char *const type[] = {"bf16", "f16"};
    static const char *const rounding[] = {"@llvm.x86.avx512bf16.cvtneps2bf16.512(<", "fptrunc"};
    for (uint32_t i = 0; i < 2; i++) {
        kiln_program *te =
            parsed(arena, kiln_arena_printf(arena,
                                            "program p\ninput x: f32[16]\noutput y: %s[16]\n"
                                            "block t(i:16): y[i] = %s(x[i] + 1.0)\n",
                                            type[i], type[i]));
        kiln_program *p = schedule(te, "vectorize(t.i)\n");
        kiln_str text;
        assert_null(emit(p, &target, KILN_EMIT_LLVM, arena, &text));
        const char *code = kiln_str_dup(arena, text);
        const char *end = strstr(code, "\ndeclare"); /* of the instruction, with its type */
        const uint32_t declared = end ? occurrences(end, rounding[i]) : 0;
        assert_int_equal(occurrences(code, rounding[i]), 1 + declared);
        assert_int_equal(occurrences(code, "fpext"), 0);
        if (runs_here(&target, arena)) expect_ok(expect_compiled_equals(te, p, &target, 2, 1));
    }
}

/* Three channels padded to four: which lanes are read is known, so no mask is needed. */
static void lanes_that_are_known_to_be_off_are_not_read(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    const kiln_target target = target_of(arena, level[3]);
    kiln_program *te = parsed(arena, "program p\ninput x: f32[3,20]\noutput y: f32[20,4]\n"
                                     "block t(i:20, j:4): y[i, j] = select(j < 3, x[j, i], 0.0)\n");
    kiln_program *p = schedule(te, "vectorize(t.j)\n");
    kiln_str text;
    assert_null(emit(p, &target, KILN_EMIT_LLVM, arena, &text));
    const char *code = kiln_str_dup(arena, text);
    if (strstr(code, "masked.gather")) fail_msg("%s", code);
    if (runs_here(&target, arena)) assert_null(expect_compiled_equals(te, p, &target, 2, 1));
}

static void vectors_over_narrower_blocks_move_in_runs(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    expect_runs(arena, level[3], 48, 8, 16);
    expect_runs(arena, level[3], 48, 4, 16);
    expect_runs(arena, level[2], 48, 4, 8);
    /* The last vector covers half of its lanes, or goes beyond the one block there is. */
    expect_runs(arena, level[3], 24, 8, 16);
    expect_runs(arena, level[3], 24, 24, 16);
    expect_runs(arena, level[2], 20, 4, 8);
}

/* ---- artefacts ------------------------------------------------------------------------------- */

static void manifests_say_what_was_built(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    kiln_target target = target_of(arena, level[2]);
    const conv_shape shape = {
        .n = 1, .ic = 16, .h = 8, .w = 8, .oc = 16, .kh = 3, .kw = 3, .stride = 1, .padding = 1};
    kiln_trace trace;
    kiln_artefact artefact;
    kiln_status st = kiln_trace_parse(
        KILN_STR(
            "cache_read(conv, w, \"global\")\ntransform_layout(w.read, \"d0/8,d1,d2,d3,d0%8\")\n"),
        arena, &trace);
    if (!st)
        st = kiln_build(conv_program(arena, &shape), KILN_STR("key"), &trace, &target, arena,
                        &artefact);
    if (st) fail_msg("%s", kiln_status_text(st));
    const kiln_manifest *m = &artefact.manifest;
    assert_true(m->has_prepare);
    assert_true(kiln_str_is(m->task_key, "key"));
    assert_int_equal(m->threads_max, 1);
    assert_int_equal(m->scratch_bytes, 16 * 10 * 10 * 4); /* the padded input */
    assert_int_equal(m->arg_count, 4);
    static const kiln_role role[] = {KILN_ROLE_INPUT, KILN_ROLE_CONSTANT, KILN_ROLE_OUTPUT,
                                     KILN_ROLE_PACKED};
    static const bool read_by_run[] = {true, false, true, true};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(m->arg[i].role, role[i]);
        assert_int_equal(m->arg[i].read_by_run, read_by_run[i]);
    }
    assert_float_equal(m->flops, 2.0 * 16 * 16 * 22 * 22, 1); /* not those of the padding */
}

/* An alternative has its own count of operations and its own bound; weights are transformed once.
 */
static void manifests_name_the_algorithm(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    kiln_target target = target_of(arena, level[2]);
    const conv_shape shape = {
        .n = 1, .ic = 16, .h = 8, .w = 8, .oc = 16, .kh = 3, .kw = 3, .stride = 1, .padding = 1};
    kiln_program *te = conv_program(arena, &shape);
    static const char *const text[] = {"", "algorithm(\"winograd_2x2_3x3\")\n"};
    kiln_artefact artefact[2];
    for (uint32_t i = 0; i < 2; i++) {
        kiln_trace trace;
        expect_ok(kiln_trace_parse(kiln_str_from(text[i]), arena, &trace));
        expect_ok(kiln_build(te, KILN_STR("key"), &trace, &target, arena, &artefact[i]));
        assert_float_equal(artefact[i].manifest.flops, 2.0 * 16 * 16 * 22 * 22, 1);
    }
    const kiln_manifest *direct = &artefact[0].manifest, *winograd = &artefact[1].manifest;
    expect_str(direct->algorithm, "direct");
    assert_true(kiln_manifest_is_plain(direct));
    expect_str(winograd->algorithm, "winograd_2x2_3x3");
    assert_true(winograd->has_prepare);
    assert_float_equal(winograd->executed_flops, 2.0 * 16 * 16 * 16 * 16, 1);
    assert_float_equal(winograd->error_factor, 4, 0);
}

/* The reference and its bound, compiled, are what the interpreter says of them. */
static void references_compute_result_and_bound(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    kiln_target target = target_of(arena, level[2]);
    skip_unless_runs_here(level[2]);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const kiln_generate_options options = {
            .blocks_max = 4, .points_max = 400, .floats_only = seed % 2 == 0};
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_program *te = kiln_program_generate(&rand, &options, arena);
        kiln_program *reference = kiln_te_reference(te, arena);
        kiln_artefact artefact;
        kiln_tensor wanted[64], got[64];
        uint32_t count = make_args(reference, seed, wanted);
        make_args(reference, seed, got);
        kiln_status st = kiln_build_reference(te, KILN_STR("key"), &target, arena, &artefact);
        if (!st) st = kiln_te_eval(reference, wanted, count);
        if (!st) st = run_artefact(&artefact, reference, got, 1);
        if (st) fail_msg("seed %llu: %s", (unsigned long long)seed, kiln_status_text(st));
        for (uint32_t i = 0; i < count; i++) {
            kiln_compare c = kiln_tensor_compare(&got[i], &wanted[i], 1e-6, 1e-12);
            if (c.mismatches)
                fail_msg("seed %llu: argument %u differs by %g", (unsigned long long)seed, i,
                         c.max_abs);
        }
    }
}

/* A core of 32 bits counts, divides and compares in one register what fits there; a counter of 64
 * bits is carried from its lower half. */
static void indices_have_one_register_where_all_values_fit(void **state) {
    static const char *const target_text[] = {"pynq", "cortex-m4"};
    for (uint32_t i = 0; i < 2 * KILN_ARRAY_COUNT(target_text); i++) {
        const bool is_huge = i % 2;
        const kiln_target target = target_of(*state, target_text[i / 2]);
        kiln_program *te = parsed(
            *state,
            kiln_arena_printf(*state,
                              "program g\ninput x: f32[7]\noutput y: f32[1]\n"
                              "block g(i:1 | k:%s): y[i] sum= select(k < 5000, x[floormod(k, 7)], "
                              "x[floormod(floordiv(k, 5), 7)])\n",
                              is_huge ? "3000000000" : "30000"));
        kiln_program_make_loops(te);
        const char *text = assembly_of(te, &target, *state);
        if ((occurrences(text, "adc") > 0) != is_huge)
            fail_msg("%s, %s:\n%s", target_text[i / 2], is_huge ? "huge" : "small", text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(objects_keep_the_contract_and_their_bytes),
        PROGRAM_TEST(a_kept_context_changes_no_bytes),
        PROGRAM_TEST(explained_forms_are_text),
        PROGRAM_TEST(switches_of_llvm_are_ours_while_we_compile_only),
        PROGRAM_TEST(backends_of_other_targets_are_refused),
        PROGRAM_TEST(tiles_of_6_by_2_stay_in_avx2_registers),
        PROGRAM_TEST(tiles_of_14_by_2_stay_in_avx512_registers),
        PROGRAM_TEST(tiles_of_8_by_2_stay_in_neon_registers),
        PROGRAM_TEST(default_convolutions_of_arm_are_multiply_adds),
        PROGRAM_TEST(the_next_part_is_fetched_in_equal_shares),
        PROGRAM_TEST(blocks_that_read_much_fetch_much),
        PROGRAM_TEST(the_next_part_is_fetched_where_threads_share_panels_and_rows),
        PROGRAM_TEST(vectors_over_narrower_blocks_move_in_runs),
        PROGRAM_TEST(squares_are_transposed_in_registers),
        PROGRAM_TEST(halves_are_moved_as_they_lie),
        PROGRAM_TEST(stored_halves_are_rounded_once),
        PROGRAM_TEST(lanes_that_are_known_to_be_off_are_not_read),
        PROGRAM_TEST(manifests_say_what_was_built),
        PROGRAM_TEST(manifests_name_the_algorithm),
        PROGRAM_TEST(references_compute_result_and_bound),
        test_with_arena(indices_have_one_register_where_all_values_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
