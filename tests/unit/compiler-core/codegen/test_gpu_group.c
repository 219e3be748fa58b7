/* Products by instructions of warp groups (wgmma of sm_90a): what `tensorize` takes and refuses,
 * that programs mean what they meant, and that CUDA C run by the block emulator computes that; PTX,
 * and what NVIDIA's assembler says of it where it is installed. */
#include <string.h>

#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/sched/trace.h"
#include "tests/unit/compiler-core/codegen/c_compile.h"
#include "tests/unit/compiler-core/codegen/group_products.h"
#include "tests/unit/compiler-core/codegen/products.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/sched/support.h"

static const group_product products[] = {
    {"f16", 128, 128, 128, 1, 64, false, false, 0, 0, 0},
    {"bf16", 128, 128, 128, 2, 128, false, false, 0, 0, 0},
    {"f16", 128, 256, 64, 2, 128, false, true, 0, 0, 0},
    {"f16", 64, 128, 128, 1, 64, false, true, 0, 0, 0},
    {"f16", 128, 256, 128, 2, 256, false, false, 0, 0, 0},
    {"f16", 128, 192, 64, 1, 192, true, true, 0, 0, 0},
    {"bf16", 128, 80, 64, 2, 80, true, false, 0, 0, 0},
};

static void emulated_products_equal_the_interpreter(void **state) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(products); i++) {
        const group_product *x = &products[i];
        group_expect_product(x, kiln_arena_printf(*state, "wgmma_m64n%lldk16_%s<%d, %d>(",
                                                  (long long)x->columns, x->type, x->by_columns,
                                                  x->by_rows));
    }
}

/* Four instructions for 64 steps, begun together and waited for once; nothing that the assembler
 * would give up their overlap for, and no spill. */
static void ptx_has_the_instructions(void **state) {
    kiln_arena *arena = *state;
    kiln_ptxas_report report;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(products); i++) {
        const group_product *x = &products[i];
        kiln_lowered lowered;
        kiln_str ptx =
            group_text(group_scheduled(group_program(x, arena), group_schedule(x, arena)), NULL,
                       arena, &lowered);
        const char *text = kiln_str_dup(arena, ptx);
        expect_contains(text, ".version 8.0");
        expect_contains(text, ".align 1024 .b8 shared[]");
        assert_int_equal(
            occurrences(text, kiln_arena_printf(
                                  arena, "wgmma.mma_async.sync.aligned.m64n%lldk16.f32.%s.%s {",
                                  (long long)x->columns, x->type, x->type)),
            4);
        assert_int_equal(occurrences(text, "wgmma.fence.sync.aligned"), 1);
        assert_int_equal(occurrences(text, "wgmma.wait_group.sync.aligned 0"), 1);
        assert_int_equal(occurrences(text, "fence.proxy.async.shared::cta"),
                         occurrences(text, "bar.sync"));
        if (!group_assembled(ptx, arena, &report)) continue;
        assert_true(report.entry[0].registers <= 64 + (uint64_t)x->columns / 2);
    }
}

/* The same of CUDA C, by clang: its assembly is what NVIDIA's assembler takes. */
static void cuda_text_has_the_instructions(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const group_product *x = &products[2];
    kiln_lowered lowered;
    kiln_str ptx =
        compile_cuda(group_text(group_scheduled(group_program(x, arena), group_schedule(x, arena)),
                                "cuda", arena, &lowered),
                     "sm_90a", folder, arena);
    const char *text = kiln_str_dup(arena, ptx);
    kiln_ptxas_report report;
    assert_int_equal(occurrences(text, "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"), 4);
    remove_folder(folder);
    (void)group_assembled(ptx, arena, &report);
}

/* ---- faults ---------------------------------------------------------------------------------- */

typedef struct fault {
    const char *what, *instead, *error; /* NULL: results are wrong */
} fault;

static kiln_str spoil(kiln_str text, const void *what, kiln_arena *arena) {
    const fault *f = what;
    return replaced(text, f->what, f->instead, arena);
}

static void the_emulator_notices_faults(void **state) {
    static const fault row[] = {
        {"wgmma_wait<0>", "wgmma_wait<1>", NULL},
        {"wgmma_commit();", "", NULL},
        {"wgmma_fence();", "", "no wgmma.fence stands before it"},
        {"fence_async_shared();", "", "no fence.proxy.async"},
        {"0x4000004000010000ull", "0x0000004000010000ull", "another mode than 128-byte swizzle"},
        {"0x4000004000010000ull", "0x4000003f00010000ull", NULL},
        {"0x4000004000010000ull", "0x4000004000010001ull", "behind the end"},
        {"k16_f16<0, 0>", "k16_f16<0, 1>", NULL},
    };
    (void)state;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        group_expect_fault(&products[0], spoil, &row[i], row[i].error);
}

/* ---- what is no such piece ------------------------------------------------------------------- */

/* A schedule with one of its parts replaced. */
static const char *with_part(const group_product *x, const char *part, const char *instead,
                             kiln_arena *arena) {
    return replaced(kiln_str_from(group_schedule(x, arena)), part, instead, arena).data;
}

/* Operands that do not lie as descriptors say are multiplied by loops, which are as right. */
static void operands_that_lie_otherwise_are_multiplied_by_loops(void **state) {
    kiln_arena *arena = *state;
    const group_product *x = &products[0];
    static const char *const part[] = {"swizzle(w.read, 0, 8, 8, 1)\n",
                                       "swizzle(x.read, 0, 8, 8, 1)\n"};
    static const char *const instead[] = {"", "swizzle(x.read, 8, 8, 8, 1)\n",
                                          "swizzle(x.read, 0, 8, 4, 1)\n",
                                          "swizzle(x.read, 0, 8, 8, 2)\n"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(instead); i++) {
        kiln_lowered lowered;
        kiln_program *p =
            group_scheduled(group_program(x, arena), with_part(x, part[i > 0], instead[i], arena));
        kiln_str text = group_text(p, "cuda", arena, &lowered);
        assert_null(strstr(text.data, "wgmma_m64"));
    }
}

static void expect_refused(const group_product *x, const char *part, const char *instead,
                           const char *needle, kiln_arena *arena) {
    kiln_trace trace;
    kiln_program *te = group_program(x, arena), *p = NULL;
    expect_ok(kiln_trace_parse(kiln_str_from(with_part(x, part, instead, arena)), arena, &trace));
    expect_error(kiln_trace_replay(&trace, te, NULL, arena, &p, NULL), ILLEGAL_SCHEDULE, needle);
}

static void what_is_no_piece_of_a_group_is_refused(void **state) {
    kiln_arena *arena = *state;
    group_product x = products[0];
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
    kiln_program *p =
        group_scheduled(group_program(&products[0], arena), group_schedule(&products[0], arena));
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
