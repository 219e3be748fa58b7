/* Tensor intrinsics become their instructions, and compute what the loops that they replace do. */
#include <string.h>

#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "tests/unit/compiler-core/codegen/products.h"
#include "tests/unit/compiler-core/sched/support.h"

#define SEEDS 60

static const char *assembly_of(const kiln_program *scheduled, const kiln_target *target,
                               kiln_arena *arena) {
    const kiln_codegen_options options = {.emit = KILN_EMIT_ASM, .optimise = 2};
    kiln_lowered lowered;
    kiln_str text = {0};
    uint64_t scratch = 0, worker = 0;
    kiln_status st = kiln_lower(scheduled, target, arena, &lowered);
    if (!st) st = kiln_codegen(&lowered, target, &options, arena, &text, &scratch, &worker);
    if (st) fail_msg("%s", kiln_status_text(st));
    return kiln_str_dup(arena, text);
}

static uint32_t occurrences(const char *text, const char *word) {
    uint32_t count = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) count++;
    return count;
}

/* "vpdpbusd" of "vpdpbusd.512.signed". USDOT with the one or the other factor broadcast is SUDOT.
 */
static const char *mnemonic(kiln_arena *arena, const kiln_intrinsic *in) {
    if (in->arch == KILN_ARCH_AARCH64) return "dot\t";
    return kiln_arena_printf(arena, "\t%.*s\t", (int)strcspn(in->name, "."), in->name);
}

static void every_intrinsic_is_one_instruction(void **state) {
    kiln_arena *arena = *state;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *in = &kiln_intrinsics[i];
        kiln_rand rand;
        kiln_rand_init(&rand, 1);
        kiln_target target = target_with(arena, in);
        kiln_program *te, *scheduled = draw_product(arena, in, &rand, true, &te);
        const char *text = assembly_of(scheduled, &target, arena);
        uint32_t wanted = 2 * 4; /* two rows, four unrolled steps */
        uint32_t found = occurrences(text, mnemonic(arena, in));
        if (found < wanted || found > wanted * (in->bias ? 2 : 1))
            fail_msg("%s: %u instructions instead of %u:\n%s", in->name, found, wanted, text);
    }
}

static void products_equal_the_interpreter_where_they_run(void **state) {
    kiln_arena *arena = *state;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *in = &kiln_intrinsics[i];
        kiln_target target = target_with(arena, in);
        if (!runs_here(&target, arena)) continue;
        rows++;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            kiln_rand rand;
            kiln_rand_init(&rand, seed);
            kiln_program *te, *scheduled = draw_product(arena, in, &rand, seed == 1, &te);
            kiln_status st = expect_compiled_equals(te, scheduled, &target, seed % 3 ? 2 : 0, seed);
            if (st) fail_msg("%s, seed %u: %s", in->name, (unsigned)seed, kiln_status_text(st));
        }
    }
    if (rows == 0) skip();
}

static void a_target_without_the_instruction_is_told_so(void **state) {
    kiln_arena *arena = *state;
    const kiln_intrinsic *in = kiln_intrinsic_find(KILN_STR("sdot"));
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    kiln_program *te, *scheduled = draw_product(arena, in, &rand, true, &te);
    kiln_target target = target_of(arena, "rpi4");
    kiln_lowered lowered;
    kiln_status st = kiln_lower(scheduled, &target, arena, &lowered);
    assert_int_equal(kiln_status_code(st), KILN_ILLEGAL_SCHEDULE);
    assert_non_null(strstr(kiln_status_text(st), "sdot, which needs dotprod; cortex-a72 lacks it"));
    kiln_status_free(st);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_intrinsic_is_one_instruction),
        test_with_arena(products_equal_the_interpreter_where_they_run),
        test_with_arena(a_target_without_the_instruction_is_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
