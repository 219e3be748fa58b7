/* Tokens: as many as are needed, none that says what another one says. */
#include "compiler-core/codegen/vta_order.h"

#include <string.h>

#include "tests/support/targets.h"
#include "tests/support/test.h"
#include "tests/support/vta_conv.h"
#include "tests/unit/compiler-core/codegen/vta_run.h"
#include "vta/check.h"

static kiln_vta_program program_of(const char *machine, const vta_conv *conv,
                                   const vta_conv_cut *cut, kiln_arena *arena) {
    const kiln_target target = target_of(arena, machine);
    kiln_vta_program program;
    expect_ok(
        vta_compile_text(vta_conv_text(&target.vta, conv, cut, arena), machine, arena, &program));
    return program;
}

/* So every token that is left out is noticed. */
static void no_token_can_be_left_out(void **state) {
    static const char *const machine[] = {VTA_SMALL "v1", VTA_SMALL "v1+engine", VTA_SMALL "v2"};
    static const vta_conv conv = {6, 4, 2, 4, 3, 1, 1};
    for (uint32_t m = 0; m < KILN_ARRAY_COUNT(machine); m++)
        for (uint32_t threads = 1; threads <= 2; threads++)
            for (uint32_t kind = 0; kind < 4; kind++) {
                const vta_conv_cut cut = {.rows = 3,
                                          .columns = 4,
                                          .out = 1,
                                          .in = 1,
                                          .threads = threads,
                                          .in_turn = kind & 1,
                                          .out_inside = kind >> 1};
                const kiln_vta_program p = program_of(machine[m], &conv, &cut, *state);
                uint32_t first;
                if (kiln_vta_redundant_tokens(&p, &first, 1))
                    fail_msg("%s, %u threads, kind %u: instruction %u of %u", machine[m], threads,
                             kind, first, p.instruction_count);
                kiln_arena_reset(*state);
            }
}

/* A tile that lies elsewhere than the order knows. */
static void wrong_places_are_noticed(void **state) {
    static const vta_conv conv = {6, 4, 2, 2, 3, 1, 1};
    static const vta_conv_cut cut = {.rows = 3, .columns = 4, .out = 1, .in = 1, .threads = 2};
    const kiln_vta_program p = program_of(VTA_SMALL "v1", &conv, &cut, *state);
    uint32_t planted = 0;
    for (uint32_t i = 0; i < p.instruction_count; i++) {
        kiln_vta_instruction *in = &p.instruction[i];
        kiln_vta_fault fault;
        if (in->opcode != KILN_VTA_LOAD || in->memory != KILN_VTA_INP || in->sram_base == 0)
            continue;
        in->sram_base--;
        assert_false(kiln_vta_check(&p, &fault));
        in->sram_base++;
        planted++;
    }
    assert_true(planted > 0);
}

static const char pipelined[] =
    "program p\ninput x: i8[3,4,1,4]\nconstant w: i8[1,4,4]\noutput y: i8[3,4,1,4]\n"
    "temp xi: i8[4,1,4] scope(inp)\ntemp wi: i8[1,4,4] scope(wgt)\n"
    "temp s: i32[4,1,4] scope(acc)\nloops:\n"
    "  for l in 4:\n    for k in 4:\n      wi[0, l, k] = w[0, l, k]\n"
    "  for i in 3 @pipeline(\"2\"):\n"
    "    for v in 4:\n      for k in 4:\n        xi[v, 0, k] = x[i, v, 0, k]\n"
    "    for v in 4:\n      for l in 4:\n        s[v, 0, l] = 0i32\n"
    "    for v in 4:\n      for l in 4:\n        for k in 4:\n"
    "          s[v, 0, l] = s[v, 0, l] + i32(xi[v, 0, k])*i32(wi[0, l, k])\n"
    "    for v in 4:\n      for l in 4:\n        y[i, v, 0, l] = i8(s[v, 0, l])\n";

static void copies_run_ahead_by_the_stages_of_a_pipeline(void **state) {
    vta_expect_equal(pipelined, VTA_SMALL "v1", 1, 8, *state);
    assert_string_equal(
        vta_tokens_of(pipelined, VTA_SMALL "v1", *state),
        "load copy writes wgt[0..0]: wi\n"
        "load copy writes inp[0..3]: xi\n"
        "load signals compute\n"
        "compute gemm writes acc[0..3]: s\n"
        "compute waits for load\n"
        "compute gemm reads wgt[0..0] reads inp[0..3] reads acc[0..3] writes acc[0..3]: s\n"
        "compute signals store\n"
        "compute signals load\n"
        "store waits for compute\n"
        "store copy reads acc[0..3]: y\n"
        "store signals compute\n"
        "load copy writes inp[4..7]: xi\n"
        "load signals compute\n"
        "compute gemm writes acc[4..7]: s\n"
        "compute waits for load\n"
        "compute gemm reads wgt[0..0] reads inp[4..7] reads acc[4..7] writes acc[4..7]: s\n"
        "compute signals store\n"
        "store waits for compute\n"
        "store copy reads acc[4..7]: y\n"
        "load waits for compute\n"
        "load copy writes inp[0..3]: xi\n"
        "load signals compute\n"
        "compute waits for store\n"
        "compute gemm writes acc[0..3]: s\n"
        "compute waits for load\n"
        "compute gemm reads wgt[0..0] reads inp[0..3] reads acc[0..3] writes acc[0..3]: s\n"
        "compute signals store\n"
        "store waits for compute\n"
        "store copy reads acc[0..3]: y\n");
}

/* An ALU that is an engine waits for GEMM in the same quarter of the accumulators, here 128 tiles.
 */
static void places_have_quarters_beside_an_alu(void **state) {
    vta_expect_equal(pipelined, VTA_SMALL "v1+engine", 1, 8, *state);
    const char *tokens = vta_tokens_of(pipelined, VTA_SMALL "v1+engine", *state);
    expect_contains(tokens, "store copy reads acc[0..3]: y\n");
    expect_contains(tokens, "store copy reads acc[128..131]: y\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(no_token_can_be_left_out),
        test_with_arena(wrong_places_are_noticed),
        test_with_arena(copies_run_ahead_by_the_stages_of_a_pipeline),
        test_with_arena(places_have_quarters_beside_an_alu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
