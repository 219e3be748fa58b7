/* Pipelines whose threads of their own fetch, by warp groups' instructions: CUDA C run by the block
 * emulator, what that notices, PTX, and what NVIDIA's assembler says of it where it is installed.
 */
#include <string.h>

#include "base/rand.h"
#include "compiler-core/ir/eval.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/codegen/c_compile.h"
#include "tests/unit/compiler-core/codegen/group_products.h"
#include "tests/unit/compiler-core/codegen/products.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/sched/support.h"

/* One, two and three groups that work; as many stages as steps, fewer, and more. */
static const group_product products[] = {
    {"f16", 64, 64, 256, 1, 64, false, false, 2, 1, 0},
    {"f16", 128, 128, 192, 2, 128, false, true, 3, 1, 0},
    {"bf16", 192, 64, 128, 3, 64, true, false, 4, 1, 0},
};
/* What a device is to get: its sums and operands need more registers than an equal share. */
static const group_product large = {"f16", 256, 512, 512, 2, 256, false, false, 4, 1, 0};

static void emulated_products_equal_the_interpreter(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(products); i++)
        group_expect_product(&products[i], "wgmma_m64n");
}

/* ---- PTX ------------------------------------------------------------------------------------- */

static void ptx_has_two_programs(void **state) {
    kiln_arena *arena = *state;
    kiln_ptxas_report report;
    for (uint32_t i = 0; i <= KILN_ARRAY_COUNT(products); i++) {
        const group_product *x = i < KILN_ARRAY_COUNT(products) ? &products[i] : &large;
        kiln_lowered lowered;
        kiln_str ptx =
            group_text(group_scheduled(group_program(x, arena), group_schedule(x, arena)), NULL,
                       arena, &lowered);
        const char *text = kiln_str_dup(arena, ptx);
        const uint32_t slots = lowered.run_launches.launch[0].token_slots;
        assert_int_equal(occurrences(text, "mbarrier.init.shared.b64"), 2 * slots);
        assert_int_equal(occurrences(text, "cp.async.mbarrier.arrive.noinc.shared.b64"), 1);
        assert_int_equal(occurrences(text, "setmaxnreg.dec.sync.aligned.u32 40;"), x == &large);
        assert_int_equal(occurrences(text, "setmaxnreg.inc.sync.aligned.u32 232;"), x == &large);
        assert_int_equal(occurrences(text, "wgmma.mma_async"), 4);
        (void)group_assembled(ptx, arena, &report);
    }
}

/* The same of CUDA C, by clang: its assembly is what NVIDIA's assembler takes. */
static void cuda_text_has_two_programs(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    kiln_lowered lowered;
    kiln_str text =
        group_text(group_scheduled(group_program(&large, arena), group_schedule(&large, arena)),
                   "cuda", arena, &lowered);
    kiln_str ptx = compile_cuda(text, "sm_90a", folder, arena);
    assert_int_equal(occurrences(kiln_str_dup(arena, ptx), "setmaxnreg.inc.sync.aligned.u32 232"),
                     1);
    remove_folder(folder);
    kiln_ptxas_report report;
    (void)group_assembled(ptx, arena, &report);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* What faults call: a slot freed before it is read, and the wait for another phase. */
static const char helpers[] =
    "static void pop_and_push(const char *p, u32 parity) {\n"
    "    token_pop(p, parity); fence_async_shared(); token_push(p + 2 * 8);\n"
    "}\n"
    "static void pop_other(const char *p, u32 parity) { token_pop(p, parity ^ 1u); }\n"
    "static void leave_out(const char *p, u32 parity = 0) {}\n";

/* The kernel with the first, or the last, of these words replaced. */
static kiln_str with_fault(kiln_str text, bool is_last, const char *word, const char *instead,
                           kiln_arena *arena) {
    const char *all = kiln_str_dup(arena, text), *at = strstr(all, "__global__");
    at = strstr(at, word);
    for (const char *next = at; is_last && next; next = strstr(next + 1, word)) at = next;
    assert_non_null(at);
    return kiln_str_from(
        kiln_arena_printf(arena, "%.*s%s%s", (int)(at - all), all, instead, at + strlen(word)));
}

typedef struct fault {
    bool is_last;
    const char *word, *instead, *error; /* NULL: results are wrong */
    const char *without;                /* the last of these calls is left out as well, or NULL */
} fault;

static kiln_str spoil(kiln_str text, const void *what, kiln_arena *arena) {
    const fault *f = what;
    text = with_fault(text, f->is_last, f->word, f->instead, arena);
    if (f->without) text = with_fault(text, true, f->without, "leave_out(", arena);
    return replaced(text, "extern \"C\" __global__",
                    kiln_arena_printf(arena, "%sextern \"C\" __global__", helpers), arena);
}

static void the_emulator_notices_faults(void **state) {
    static const fault row[] = {
        {true, "token_pop(", "pop_and_push(", NULL, "token_push("},
        {true, "token_pop(", "pop_other(", NULL, NULL},
        {false, "token_pop(", "leave_out(", NULL, NULL},
        {true, "token_push(", "leave_out(", "the wait for a token", NULL},
        {false, "token_push_copies(", "leave_out(", "the wait for a token", NULL},
        {false, ", 256);", ", 257);", "the wait for a token", NULL},
        {false, "token_place(", "leave_out(", "no token has its place there", NULL},
        {true, "fence_async_shared();", "", "stands behind the token", NULL},
    };
    (void)state;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        group_expect_fault(&products[0], spoil, &row[i], row[i].error);
}

/* ---- bulk copies ----------------------------------------------------------------------------- */

/* A product by threads alone: each of the producer's fetches a row of both operands. */
#define ROWS                                                                                    \
    "cache_read(mm, x, \"shared\")\ncache_read(mm, w, \"shared\")\n"                            \
    "cache_write(mm, \"register\")\nsplit(mm.m, 2, 4, 8)\nsplit(mm.n, 32, 4)\n"                 \
    "split(mm.k, 4, 32)\n"                                                                      \
    "reorder(mm.m.0, mm.k.0, mm.m.1, mm.n.0, mm.k.1, mm.m.2, mm.n.1)\n"                         \
    "bind(mm.m.0, \"block.x\")\nbind(mm.m.1, \"thread.y\")\nbind(mm.n.0, \"thread.x\")\n"       \
    "decompose_reduction(mm, mm.k.0)\nunroll(mm.m.2)\nunroll(mm.n.1)\nunroll(mm.init.m.2)\n"    \
    "unroll(mm.init.n.1)\ncompute_at(x.read, mm.k.0)\ncompute_at(w.read, mm.k.0)\n"             \
    "reverse_compute_at(mm.write, mm.m.0)\nsplit(mm.write.m, 4, 8)\nsplit(mm.write.n, 32, 4)\n" \
    "reorder(mm.write.m.0, mm.write.n.0, mm.write.m.1, mm.write.n.1)\n"                         \
    "bind(mm.write.m.0, \"thread.y\")\nbind(mm.write.n.0, \"thread.x\")\n"                      \
    "unroll(mm.write.m.1)\nvectorize(mm.write.n.1)\nbind(x.read.d0, \"thread.x\")\n"            \
    "vectorize(x.read.d1)\nbind(w.read.d0, \"thread.x\")\n"                                     \
    "pipeline(mm.k.0, 3)\nproducer(mm.k.0, 1)\n"

static kiln_program *rows_program(kiln_arena *arena) {
    return parsed(arena, "program p\ninput x: f32[64, 128]\ninput w: f32[128, 128]\n"
                         "output y: f32[64, 128]\nblock mm(m:64, n:128 | k:128): "
                         "y[m, n] sum= x[m, k]*w[k, n]\n");
}

static void rows_come_as_bulk_copies(void **state) {
    static const struct {
        const char *word, *instead, *error; /* NULL, NULL: nothing is wrong */
    } row[] = {
        {"token_pop(", "token_pop(", NULL},
        {", 512);", ", 256);", "more bytes land than the token"},
        {", 512);", ", 528);", "the wait for a token"},
        {"fence_async_shared();", "", "no fence.proxy.async stands behind"},
        {", 512, ", ", 500, ", "multiples of 16 bytes"},
    };
    kiln_arena *arena = *state;
    kiln_program *te = rows_program(arena);
    kiln_lowered lowered;
    kiln_str text = group_text(group_scheduled(te, ROWS), "cuda", arena, &lowered);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_tensor want[3], got[3];
        group_tensors(te, arena, want);
        group_tensors(te, arena, got);
        expect_ok(kiln_te_eval(te, want, 3));
        kiln_status st = group_emulate(with_fault(text, false, row[i].word, row[i].instead, arena),
                                       &lowered.run_launches.launch[0], got, arena);
        if (row[i].error) {
            expect_error(st, FAILED_PRECONDITION, row[i].error);
            continue;
        }
        expect_ok(st);
        assert_memory_equal(got[2].data, want[2].data, kiln_tensor_bytes(&want[2]));
    }
    kiln_str ptx = group_text(group_scheduled(te, ROWS), NULL, arena, &lowered);
    assert_int_equal(occurrences(kiln_str_dup(arena, ptx), "cp.async.bulk.shared::cluster"), 2);
    kiln_ptxas_report report;
    (void)group_assembled(ptx, arena, &report);
}

/* ---- drawn schedules ------------------------------------------------------------------------- */

static int one_of(kiln_rand *r, const int *choice, uint32_t count) {
    return choice[kiln_rand_below(r, count)];
}

/* A product with a padding that is not 0, in tiles, steps, fetches and stages that are drawn, whose
 * two rows of blocks are of two groups or of one. */
static kiln_program *draw_padded(kiln_rand *r, kiln_arena *arena, const char **out_trace) {
    static const int warp[] = {8, 16, 32}, few[] = {1, 2, 3}, width[] = {1, 2, 4};
    const int x = one_of(r, warp, 3), y = 32 / x * one_of(r, few, 2), z = one_of(r, few, 3);
    const int tile_m = one_of(r, few, 2), tile_n = one_of(r, few, 2), steps = one_of(r, few, 3) * 4;
    const int blocks = (int)kiln_rand_range(r, 1, 6), m = z * y * tile_m, n = x * tile_n,
              k = steps * blocks;
    const int lanes_a = one_of(r, width, 3), lanes_w = one_of(r, width, 3);
    const bool by_x = kiln_rand_below(r, 2);
    const int stages = (int)kiln_rand_range(r, 2, 8);
    const char *scope = kiln_rand_below(r, 2) ? "register" : "local";
    const char *turns = kiln_rand_below(r, 2) ? "bind(mm.m.0, \"block.y\")\n" : "";
    *out_trace = kiln_arena_printf(
        arena,
        "cache_read(mm, w, \"shared\")\ncache_write(mm, \"%s\")\nset_scope(a, \"shared\")\n"
        "split(mm.m, 2, %d, %d, %d)\nsplit(mm.n, 2, %d, %d)\nsplit(mm.k, %d, %d)\n"
        "reorder(mm.n.0, mm.m.0, mm.k.0, mm.m.1, mm.m.2, mm.n.1, mm.k.1, mm.m.3, mm.n.2)\n"
        "bind(mm.n.0, \"block.x\")\n%sbind(mm.m.1, \"thread.z\")\n"
        "bind(mm.m.2, \"thread.y\")\nbind(mm.n.1, \"thread.x\")\nunroll(mm.m.3)\nunroll(mm.n.2)\n"
        "decompose_reduction(mm, mm.k.0)\n"
        "compute_at(a, mm.k.0)\ncompute_at(w.read, mm.k.0)\n"
        "reverse_compute_at(mm.write, mm.m.0)\n"
        "split(mm.write.m, %d, %d, %d)\nsplit(mm.write.n, %d, %d)\n"
        "reorder(mm.write.m.0, mm.write.m.1, mm.write.n.0, mm.write.m.2, mm.write.n.1)\n"
        "bind(mm.write.m.0, \"thread.z\")\nbind(mm.write.m.1, \"thread.y\")\n"
        "bind(mm.write.n.0, \"thread.x\")\nunroll(mm.write.m.2)\nunroll(mm.write.n.1)\n"
        "fuse(a.m, a.k)\nsplit(a.m.f, -1, %d, %d)\nbind(a.m.f.1, \"%s\")\n"
        "reorder(a.m.f.1, a.m.f.0, a.m.f.2)\nvectorize(a.m.f.2)\n"
        "split(w.read.d1, -1, %d)\nvectorize(w.read.d1.1)\nbind(w.read.d0, \"thread.x\")\n"
        "pipeline(mm.k.0, %d)\nproducer(mm.k.0, 1)\n",
        scope, z, y, tile_m, x, tile_n, blocks, steps, turns, z, y, tile_m, x, tile_n, by_x ? x : y,
        lanes_a, by_x ? "thread.x" : "thread.y", lanes_w, stages);
    return parsed(
        arena,
        kiln_arena_printf(
            arena,
            "program p\ninput x: f32[%d, %d]\ninput w: f32[%d, %d]\noutput y: f32[%d, %d]\n"
            "temp a: f32[%d, %d]\n"
            "block a(m:%d, k:%d): a[m, k] = select(m < %d, x[m, k], 3.0)\n"
            "block mm(m:%d, n:%d | k:%d): y[m, n] sum= a[m, k]*w[k, n]\n",
            2 * m, k, k, 2 * n, 2 * m, 2 * n, 2 * m, k, 2 * m, k, m + m / 2, 2 * m, 2 * n, k));
}

/* Those that are refused say why; others mean what they meant, lowered and as CUDA C. */
static void drawn_producers_equal_the_interpreter(void **state) {
    uint32_t legal = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        kiln_arena arena;
        kiln_rand r;
        kiln_lowered lowered;
        kiln_tensor want[3], low[3], got[3];
        const char *trace;
        (void)state;
        kiln_arena_init(&arena, 0);
        kiln_rand_init(&r, seed);
        kiln_program *te = draw_padded(&r, &arena, &trace), *p = group_scheduled(te, trace);
        kiln_target target = target_of(&arena, "cuda:sm_90a");
        kiln_status st = kiln_lower(p, &target, &arena, &lowered);
        if (st) {
            expect_error(st, ILLEGAL_SCHEDULE, "");
            kiln_arena_deinit(&arena);
            continue;
        }
        legal++;
        group_tensors(te, &arena, want);
        group_tensors(te, &arena, low);
        group_tensors(te, &arena, got);
        expect_ok(kiln_te_eval(te, want, 3));
        expect_ok(kiln_loop_eval(lowered.run, low, 3));
        kiln_str text = group_text(p, "cuda", &arena, &lowered);
        expect_ok(group_emulate(text, &lowered.run_launches.launch[0], got, &arena));
        assert_memory_equal(low[2].data, want[2].data, kiln_tensor_bytes(&want[2]));
        assert_memory_equal(got[2].data, want[2].data, kiln_tensor_bytes(&want[2]));
        kiln_arena_deinit(&arena);
    }
    assert_true(legal >= 6); /* 11, when it was written */
}

/* Groups get registers from each other, and no more than they had together. */
static void registers_are_those_of_the_group(void **state) {
    static const struct {
        const char *more, *error;
    } row[] = {{"232", NULL}, {"240", "more registers than they had"}, {"230", "in steps of 8"}};
    kiln_arena *arena = *state;
    const kiln_launch launch = {.grid_size = {1, 1, 1}, .group_size = {32, 4, 3}};
    const kiln_tensor none[3] = {{0}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const char *text = kiln_arena_printf(
            arena,
            "extern \"C\" __global__ void run_0(char *a, char *b, char *c) {\n"
            "    if (threadIdx.z == 2) registers_less<40>(); else registers_more<%s>();\n}\n",
            row[i].more);
        kiln_status st = group_emulate(kiln_str_from(text), &launch, none, arena);
        if (row[i].error)
            expect_error(st, FAILED_PRECONDITION, row[i].error);
        else
            expect_ok(st);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(ptx_has_two_programs),
        test_with_arena(cuda_text_has_two_programs),
        test_with_arena(the_emulator_notices_faults),
        test_with_arena(rows_come_as_bulk_copies),
        test_with_arena(drawn_producers_equal_the_interpreter),
        test_with_arena(registers_are_those_of_the_group),
        test_with_arena(emulated_products_equal_the_interpreter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
