/* Registers of a thread: what is counted, beside running the loops; and what is expected of the
 * assembler, beside what ptxas 12.9 gave. */
#include "compiler-core/cost/registers_gpu.h"

#include <math.h>

#include "base/macros.h"
#include "compiler-core/ir/device.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/sched/support.h"

#define POINTS 8
#define TAPS 7

/* Windows of TAPS with a stride, each thread POINTS neighbours, in straight code: taps outside. */
static kiln_program *windows(kiln_arena *arena, int stride) {
    kiln_trace trace;
    kiln_program *p = NULL;
    kiln_program *te = parsed(
        arena, kiln_arena_printf(arena,
                                 "program p\ninput x: f32[%d]\ninput w: f32[%d]\noutput y: "
                                 "f32[%d]\nblock c(i:%d | r:%d): y[i] sum= x[i*%d + r] * w[r] "
                                 "init 0.0\n",
                                 (POINTS * 32 - 1) * stride + TAPS, TAPS, POINTS * 32, POINTS * 32,
                                 TAPS, stride));
    expect_ok(kiln_trace_parse(
        kiln_str_from(kiln_arena_printf(
            arena,
            "cache_read(c, x, \"shared\")\ncache_write(c, \"register\")\nsplit(c.i, -1, 32, %d)\n"
            "reorder(c.i.0, c.i.1, c.r, c.i.2)\nbind(c.i.0, \"block.x\")\nbind(c.i.1, "
            "\"thread.x\")\nunroll(c.r)\nunroll(c.i.2)\n"
            "decompose_reduction(c, c.r)\ncompute_at(x.read, c.i.0)\nbind(x.read.d0, "
            "\"thread.x\")\n",
            POINTS)),
        arena, &trace));
    expect_ok(kiln_trace_replay(&trace, te, NULL, arena, &p, NULL));
    return p;
}

/* Of the elements of x at the beginning of some tap: those that taps before it have loaded and
 * later ones read again. */
static uint32_t live_by_running(int stride) {
    uint32_t most = 1;
    for (int tap = 1; tap < TAPS; tap++) {
        uint32_t live = 0;
        for (int at = 0; at < (POINTS - 1) * stride + TAPS; at++) {
            bool before = false, later = false;
            for (int i = 0; i < POINTS; i++)
                for (int r = 0; r < TAPS; r++) {
                    before |= i * stride + r == at && r < tap;
                    later |= i * stride + r == at && r >= tap;
                }
            live += before && later;
        }
        most = KILN_MAX(most, live);
    }
    return most;
}

static void live_words_are_those_of_the_straight_code(void **state) {
    for (int stride = 1; stride <= 3; stride++) {
        const kiln_program *p = windows(*state, stride);
        const kiln_facts *facts = kiln_facts_create(p, 32, *state);
        kiln_gpu_held held = {0};
        for (uint32_t i = 0; i < facts->statement_count; i++)
            kiln_gpu_held_add(facts, &facts->statement[i], &held);
        /* And one word of w, which all points of a tap share. */
        assert_int_equal(held.live, live_by_running(stride) + 1);
        const int distinct = stride * (POINTS - 1) + TAPS;
        assert_int_equal(held.straight, (stride < TAPS ? distinct : POINTS * TAPS) + TAPS);
        assert_true(held.shares && !held.by_threads && held.odd == 0);
    }
}

static kiln_gpu row_of(const char *name) { return *kiln_gpu_find(kiln_str_from(name)); }

/* Kernels of drawn candidates: products, 1x1 and 7x7 convolutions, products of Winograd's tiles. */
static void ptxas_gives_about_what_is_expected(void **state) {
    static const struct {
        double sums, operands, live, straight, threads, gave;
        double staged, places; /* of two stages */
    } row[] = {
        {64, 20, 17, 20, 128, 126, 0, 0},  {64, 16, 9, 16, 64, 119, 0, 0},
        {64, 16, 9, 64, 128, 227, 96, 0},  {16, 10, 9, 10, 128, 56, 0, 0},
        {16, 8, 5, 64, 64, 48, 0, 0},      {32, 12, 9, 48, 256, 77, 0, 0},
        {2, 3, 2, 24, 128, 32, 0, 0},      {16, 10, 3, 40, 32, 64, 9, 0},
        {28, 6, 28, 329, 64, 168, 25, 25}, {2, 2.7, 2, 24, 256, 64, 11, 11},
    };
    const kiln_gpu h200 = row_of("h200");
    (void)state;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_gpu_held held = {.sums = row[i].sums,
                                    .operands = row[i].operands,
                                    .live = row[i].live,
                                    .straight = row[i].straight,
                                    .staged = row[i].staged,
                                    .places = row[i].places,
                                    .shares = true};
        const kiln_gpu_registers r = kiln_gpu_registers_of(&held, &h200, row[i].threads);
        assert_true(r.needed <= r.expected || r.expected == h200.thread_registers);
        if (fabs(r.expected / row[i].gave - 1) > 0.15)
            fail_msg("row %u: %g expected, %g given", i, r.expected, row[i].gave);
    }
}

/* Products of drawn candidates by instructions of warps, and of groups of warps, in f16. */
static void ptxas_gives_products_of_warps_about_what_is_expected(void **state) {
    static const struct {
        double sums, operands, staged, copies, addresses, threads, gave;
        bool groups;
    } row[] = {
        {128, 24, 0, 12, 10, 256, 216, false},    {64, 16, 0, 0, 4, 128, 106, false},
        {64, 12, 32 + 16, 0, 2, 128, 160, false}, /* i8, loaded one by one */
        {128, 16, 64, 0, 4, 128, 250, false},     {32, 12, 0, 9, 2, 128, 62, false},
        {64, 0, 0, 16, 0, 128, 90, true},         {128, 0, 0, 12, 0, 256, 158, true},
        {64, 0, 16 + 64, 0, 0, 256, 176, true},   {32, 0, 0, 36, 0, 256, 64, true},
    };
    const kiln_gpu h200 = row_of("h200");
    (void)state;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_gpu_held held = {.sums = row[i].sums,
                                    .operands = row[i].operands,
                                    .staged = row[i].staged,
                                    .copies = row[i].copies,
                                    .addresses = row[i].addresses,
                                    .by_threads = true,
                                    .by_groups = row[i].groups,
                                    .shares = true};
        const kiln_gpu_registers r = kiln_gpu_registers_of(&held, &h200, row[i].threads);
        if (fabs(r.expected / row[i].gave - 1) > 0.15)
            fail_msg("row %u: %g expected, %g given", i, r.expected, row[i].gave);
    }
}

static void no_two_loads_share_a_register(void **state) {
    const kiln_facts_access halves = {.element_bytes = 2};
    kiln_gpu_held held = {0};
    (void)state;
    kiln_gpu_held_fetch(&held, &halves, 3, 8, 8, 2);
    assert_true(held.staged == 3 * 4);
    kiln_gpu_held_fetch(&held, &halves, 3, 1, 1, 2); /* not half of one each */
    assert_true(held.staged == 3 * 4 + 3);
    assert_true(held.windows == 0 && held.places == 0 && held.fetched == 0);
}

static void fetches_of_windows_keep_their_places_while_stages_carry_them(void **state) {
    kiln_facts_index odd = {.exact = false};
    const kiln_facts_access window = {
        .element_bytes = 4, .conditional = true, .rank = 1, .index = &odd};
    kiln_gpu_held held = {0};
    (void)state;
    kiln_gpu_held_fetch(&held, &window, 5, 1, 1, 1);
    assert_true(held.fetched == 5 && held.windows == 0 && held.places == 0);
    kiln_gpu_held_fetch(&held, &window, 5, 1, 1, 2);
    assert_true(held.staged == 5 && held.windows == 5 && held.places == 5);
    kiln_gpu_held_fetch(&held, &window, 5, 1, 1, 3); /* past registers */
    assert_true(held.staged == 5 && held.copy_places == 5);
}

/* What lowering says to the assembler (kiln_registers_many). */
static void threads_that_hold_many_values_get_all_that_their_group_may_have(void **state) {
    const kiln_gpu h200 = row_of("h200");
    (void)state;
    kiln_gpu_held held = {.sums = 40, .staged = 23, .live = 20, .shares = true};
    const kiln_gpu_registers few = kiln_gpu_registers_of(&held, &h200, 128);
    assert_true(few.expected == few.needed);
    held.staged++;
    const kiln_gpu_registers many = kiln_gpu_registers_of(&held, &h200, 128);
    assert_true(many.needed == few.needed + 1 && many.expected > many.needed);
    held.sums = 120, held.resident = 4; /* as a schedule says */
    assert_true(kiln_gpu_registers_of(&held, &h200, 128).expected <= 128);
}

/* Fragments of a product of warps: of x two rows of pieces by four steps, of w four columns by
 * four steps. Steps lie along rows of both, whose units of 8 are XORed with the row. */
static double addresses_with(kiln_arena *arena, const char *swizzle) {
    static const char te[] = "program p\ninput x: f16[32,64]\ninput w: f16[32,64]\n"
                             "output y: f32[32,32]\nblock c(m:32, n:32 | k:64): y[m, n] sum= "
                             "f32(x[m, k])*f32(w[n, k]) init 0.0\n";
    kiln_trace trace;
    kiln_program *p = NULL;
    kiln_gpu_held held = {0};
    expect_ok(
        kiln_trace_parse(kiln_str_from(kiln_arena_printf(
                             arena,
                             "cache_write(c, \"register\")\nset_scope(y.acc, \"register\")\n"
                             "cache_read(c, x, \"shared\")\ncache_read(c, w, \"shared\")\n%s"
                             "split(c.m, -1, 2, 8)\nsplit(c.n, -1, 4, 2)\nsplit(c.k, -1, 16)\n"
                             "reorder(c.m.2, c.n.1, c.k.0, c.m.0, c.n.0, c.m.1, c.n.2, c.k.1)\n"
                             "unroll(c.k.0)\nunroll(c.m.0)\nunroll(c.n.0)\nfuse(c.m.2, c.n.1)\n"
                             "bind(c.m.2.f, \"thread.x\")\ndecompose_reduction(c, c.k.0)\n"
                             "tensorize(c.m.1, \"mma.m16n8k16.f16\")\n",
                             swizzle)),
                         arena, &trace));
    expect_ok(kiln_trace_replay(&trace, parsed(arena, te), NULL, arena, &p, NULL));
    const kiln_facts *facts = kiln_facts_create(p, 32, arena);
    for (uint32_t i = 0; i < facts->statement_count; i++)
        kiln_gpu_held_add(facts, &facts->statement[i], &held);
    assert_true(held.by_threads && !held.by_groups);
    return held.addresses;
}

static void fragments_behind_an_xor_have_addresses_of_their_own(void **state) {
    assert_true(addresses_with(*state, "") == 0);
    assert_true(addresses_with(*state, "swizzle(x.read, 0, 8, 8, 1)\n") == 3);
    assert_true(addresses_with(*state, "swizzle(x.read, 0, 8, 8, 1)\n"
                                       "swizzle(w.read, 0, 8, 2, 1)\n") == 3 + 1);
}

/* Groups that a unit holds with so many registers. */
static double groups_of(const kiln_gpu *gpu, double registers, double threads) {
    return fmin(gpu->unit_threads / threads,
                floor(gpu->unit_registers / (ceil(registers / 8) * 8 * threads)));
}

static void expected_registers_leave_as_many_groups_as_needed_ones(void **state) {
    const kiln_gpu h200 = row_of("h200"), opencl = row_of("opencl");
    (void)state;
    double before = 0;
    for (double sums = 1; sums <= 256; sums++) {
        const bool many = sums >= KILN_REGISTERS_MANY; /* which take groups away */
        const kiln_gpu_held held = {.sums = sums, .straight = 4096, .shares = true};
        const kiln_gpu_registers r = kiln_gpu_registers_of(&held, &h200, 128);
        if (r.needed <= h200.thread_registers && !many)
            assert_true(groups_of(&h200, r.expected, 128) == groups_of(&h200, r.needed, 128));
        assert_true(r.needed > before); /* more sums never need less */
        before = r.needed;
        assert_true(r.expected <= h200.thread_registers);
        assert_true(kiln_gpu_registers_of(&held, &opencl, 128).expected <= opencl.thread_registers);
    }
    assert_true(before > h200.thread_registers); /* it is not cut */
}

static void fragments_are_what_the_instruction_names(void **state) {
    static const kiln_intrinsic halves = {
        .rows = 16, .lanes = 8, .steps = 16, .owner = KILN_INTRINSIC_WARP};
    static const kiln_intrinsic group = {
        .rows = 64, .lanes = 8, .steps = 16, .owner = KILN_INTRINSIC_GROUP};
    (void)state;
    /* m16n8k16: four registers of two rows of A, two of two columns of B. */
    assert_int_equal(kiln_gpu_fragment_words(&halves, true, 2, 2), 4);
    assert_int_equal(kiln_gpu_fragment_words(&halves, false, 2, 2), 2);
    assert_int_equal(kiln_gpu_fragment_words(&halves, false, 16, 2), 16);
    assert_int_equal(kiln_gpu_fragment_words(&halves, true, 16, 2), 8); /* two pieces at once */
    assert_int_equal(kiln_gpu_fragment_words(&group, true, 2, 2), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(live_words_are_those_of_the_straight_code),
        test_with_arena(ptxas_gives_about_what_is_expected),
        test_with_arena(ptxas_gives_products_of_warps_about_what_is_expected),
        test_with_arena(no_two_loads_share_a_register),
        test_with_arena(fetches_of_windows_keep_their_places_while_stages_carry_them),
        test_with_arena(threads_that_hold_many_values_get_all_that_their_group_may_have),
        test_with_arena(fragments_behind_an_xor_have_addresses_of_their_own),
        test_with_arena(expected_registers_leave_as_many_groups_as_needed_ones),
        test_with_arena(fragments_are_what_the_instruction_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
