/* Ends of programs: pieces do what the whole did, and what has no pieces stays. */
#include "compiler-core/codegen/vta_ends.h"

#include <string.h>

#include "tests/support/targets.h"
#include "tests/support/test.h"
#include "tests/support/vta_conv.h"
#include "tests/unit/compiler-core/codegen/vta_run.h"

static const kiln_vta_operation operation[] = {{KILN_VTA_ALU_SHR, true, 2},
                                               {KILN_VTA_ALU_MAX, true, 0}};

/* One part of 8 x 16 results with sums over 4 tiles: loads of data and weights, their GEMM, the
 * ALU and the store. */
static kiln_vta_calls one_part(const char *machine, kiln_arena *arena) {
    const kiln_target target = target_of(arena, machine);
    kiln_vta_calls calls = {.config = target.vta, .sizes = kiln_vta_sizes_of(&target.vta)};
    const kiln_vta_call call[] = {
        {.kind = KILN_VTA_CALL_COPY,
         .engine = KILN_VTA_ENGINE_LOAD,
         .copy = {KILN_VTA_WGT, 1, 3, 0, false, 2, {{8, 4, 0, 0}, {4, 1, 0, 0}}}},
        {.kind = KILN_VTA_CALL_COPY,
         .engine = KILN_VTA_ENGINE_LOAD,
         .copy = {KILN_VTA_INP, 2, 5, 0, false, 2, {{4, 16, 0, 0}, {16, 1, 0, 0}}}},
        {.kind = KILN_VTA_CALL_GEMM,
         .engine = KILN_VTA_ENGINE_COMPUTE,
         .gemm = KILN_VTA_GEMM_ADD,
         .nest = {{7, 5, 3}, 3, {{8, {16, 0, 4}}, {4, {0, 16, 1}}, {16, {1, 1, 0}}}}},
        {.kind = KILN_VTA_CALL_ALU,
         .engine = kiln_vta_config_has(&target.vta, KILN_VTA_ENGINE) ? KILN_VTA_ENGINE_ALU
                                                                     : KILN_VTA_ENGINE_COMPUTE,
         .nest = {{7, 0, 0}, 1, {{128, {1, 0, 0}}}},
         .operation_count = 2,
         .operation = operation},
        {.kind = KILN_VTA_CALL_COPY,
         .engine = KILN_VTA_ENGINE_STORE,
         .copy = {KILN_VTA_OUT, 3, 7, 0, false, 2, {{8, 30, 0, 0}, {16, 1, 0, 0}}}}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(call); i++)
        kiln_vec_push_in(arena, &calls.call, call[i]);
    return calls;
}
enum { WEIGHTS, DATA, SUMS, RESULTS, STORED, PART_CALLS };

/* How often calls of a kind and memory touch each tile. */
typedef struct touched {
    uint32_t calls;
    uint32_t tile[KILN_VTA_MEMORY_COUNT][512];
} touched;

static void touch(void *context, kiln_vta_memory memory, uint32_t tile, bool writes) {
    touched *t = context;
    (void)writes;
    assert_true(tile < KILN_ARRAY_COUNT(t->tile[0]));
    t->tile[memory][tile]++;
}

static bool is_like(const kiln_vta_call *a, const kiln_vta_call *b) {
    return a->kind == b->kind &&
           (a->kind != KILN_VTA_CALL_COPY || a->copy.memory == b->copy.memory);
}

static touched touched_by(const kiln_vta_calls *calls, const kiln_vta_call *like) {
    touched t = {0};
    for (uint32_t i = 0; i < calls->call.count; i++) {
        if (!is_like(&calls->call.data[i], like)) continue;
        t.calls++;
        kiln_vta_call_visit(&calls->call.data[i], touch, &t);
    }
    return t;
}

/* Whether the tiles are those of before; those of GEMM, whose visits repeat some, at least once. */
static void expect_same_tiles(const kiln_vta_calls *before, const kiln_vta_calls *after) {
    for (uint32_t i = 0; i < before->call.count; i++) {
        const kiln_vta_call *call = &before->call.data[i];
        const touched a = touched_by(before, call), b = touched_by(after, call);
        for (uint32_t m = 0; m < KILN_VTA_MEMORY_COUNT; m++)
            for (uint32_t t = 0; t < KILN_ARRAY_COUNT(a.tile[0]); t++)
                if (call->kind == KILN_VTA_CALL_COPY)
                    assert_int_equal(a.tile[m][t], b.tile[m][t]);
                else
                    assert_int_equal(a.tile[m][t] > 0, b.tile[m][t] > 0);
    }
}

static uint32_t pieces_of(const kiln_vta_calls *whole, const kiln_vta_calls *cut, uint32_t call) {
    return touched_by(cut, &whole->call.data[call]).calls;
}

static void results_leave_in_pieces(void **state) {
    static const char *const machine[] = {VTA_SMALL "v1", VTA_SMALL "v1+engine", VTA_SMALL "v2"};
    for (size_t m = 0; m < KILN_ARRAY_COUNT(machine); m++) {
        const kiln_vta_calls whole = one_part(machine[m], *state);
        kiln_vta_calls cut = one_part(machine[m], *state);
        kiln_vta_cut_end(&cut, *state);
        expect_same_tiles(&whole, &cut);
        assert_true(pieces_of(&whole, &cut, STORED) > 1);
        assert_int_equal(pieces_of(&whole, &cut, RESULTS), pieces_of(&whole, &cut, STORED));
        assert_int_equal(pieces_of(&whole, &cut, SUMS), 1);
        assert_int_equal(pieces_of(&whole, &cut, WEIGHTS), 1);
        const kiln_vta_call *end = &cut.call.data[cut.call.count - 1];
        assert_int_equal(end->copy.memory, KILN_VTA_OUT);
        assert_int_equal(end[-1].kind, KILN_VTA_CALL_ALU);
    }
}

static void the_first_gemm_begins_with_some_of_the_weights(void **state) {
    const kiln_vta_calls whole = one_part(VTA_SMALL "v1", *state);
    kiln_vta_calls cut = one_part(VTA_SMALL "v1", *state);
    kiln_vta_cut_begin(&cut, *state);
    expect_same_tiles(&whole, &cut);
    assert_true(pieces_of(&whole, &cut, WEIGHTS) > 1);
    assert_int_equal(pieces_of(&whole, &cut, SUMS), pieces_of(&whole, &cut, WEIGHTS));
    assert_int_equal(pieces_of(&whole, &cut, DATA), 1);
    assert_int_equal(cut.call.data[0].copy.memory, KILN_VTA_INP);
    assert_int_equal(cut.call.data[1].copy.memory, KILN_VTA_WGT);
    assert_int_equal(cut.call.data[2].kind, KILN_VTA_CALL_GEMM);
    for (uint32_t i = 0; i < cut.call.count; i++) /* weights are there when they are read */
        if (cut.call.data[i].kind == KILN_VTA_CALL_GEMM)
            assert_int_equal(cut.call.data[i].nest.base.wgt, cut.call.data[i - 1].copy.sram_base);
}

static void what_has_no_pieces_stays(void **state) {
    kiln_vta_calls calls = one_part(VTA_SMALL "v2", *state);
    calls.call.data[STORED].copy.sram_base++; /* not what the ALU made */
    kiln_vta_cut_end(&calls, *state);
    assert_int_equal(calls.call.count, PART_CALLS);
    calls = one_part(VTA_SMALL "v2", *state);
    calls.call.data[RESULTS].nest.loop[0] = (kiln_vta_loop){64, {2, 0, 0}};
    calls.call.data[RESULTS].nest.loop[calls.call.data[RESULTS].nest.loop_count++] =
        (kiln_vta_loop){3, {1, 0, 0}}; /* its rounds meet */
    kiln_vta_cut_end(&calls, *state);
    assert_int_equal(calls.call.count, PART_CALLS);
    calls = one_part(VTA_SMALL "v2", *state);
    calls.call.data[SUMS].nest.loop[0].step.src = 1;  /* through both operands */
    calls.call.data[SUMS].nest.loop[2].step.wgt = 32; /* as well */
    kiln_vta_cut_begin(&calls, *state);
    assert_int_equal(calls.call.count, PART_CALLS);
    calls = one_part(VTA_SMALL "v2", *state);
    calls.call.data[WEIGHTS].copy.dim[0].before = 1; /* zeros around both, */
    calls.call.data[DATA].copy.dim[0].behind = 1;
    kiln_vta_cut_begin(&calls, *state);
    assert_int_equal(calls.call.count, PART_CALLS);
    calls.call.count = 0; /* or nothing at all */
    kiln_vta_cut_begin(&calls, *state);
    kiln_vta_cut_end(&calls, *state);
    assert_int_equal(calls.call.count, 0);
}

/* Both ends of whole programs, on parts that have pieces. */
static void cut_programs_compute_the_same(void **state) {
    static const char *const machine[] = {VTA_SMALL "v1+chain", VTA_SMALL "v2"};
    static const vta_conv conv = {8, 8, 4, 16, 1, 1, 0};
    for (size_t m = 0; m < KILN_ARRAY_COUNT(machine); m++)
        for (uint32_t threads = 1; threads <= 2; threads++) {
            const vta_conv_cut cut = {
                .rows = 8, .columns = 4, .out = 4, .in = 4, .threads = threads, .in_turn = m == 1};
            const kiln_target target = target_of(*state, machine[m]);
            const char *text = vta_conv_text(&target.vta, &conv, &cut, *state);
            const char *tokens = vta_tokens_of(text, machine[m], *state), *last = tokens;
            uint32_t stores = 0;
            while ((last = strstr(last, "store copy"))) last++, stores++;
            assert_true(stores > 2 * 4); /* one a part */
            vta_expect_equal(text, machine[m], 3, 4, *state);
            kiln_arena_reset(*state);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(results_leave_in_pieces),
        test_with_arena(the_first_gemm_begins_with_some_of_the_weights),
        test_with_arena(what_has_no_pieces_stays),
        test_with_arena(cut_programs_compute_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
