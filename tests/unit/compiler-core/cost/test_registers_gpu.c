/* Registers of a thread: what is counted, beside running the loops; and what is expected of the
 * assembler, beside what ptxas 12.9 gave. */
#include "compiler-core/cost/registers_gpu.h"

#include <math.h>

#include "base/macros.h"
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

/* Kernels of drawn candidates in f32, and products by instructions of warps and of groups of warps,
 * none of which the trees were fitted to. */
static void ptxas_gives_about_what_is_expected(void **state) {
    static const struct {
        kiln_gpu_held held;
        double threads, gave;
    } row[] = {
        {{.shares = true,
          .stages = 1,
          .sums = 4,
          .operands = 4,
          .fetched = 12,
          .live = 3,
          .straight = 16},
         256,
         32},
        {{.shares = true,
          .stages = 1,
          .sums = 2,
          .operands = 5,
          .fetched = 36,
          .live = 2,
          .straight = 40},
         128,
         32},
        {{.shares = true,
          .stages = 4,
          .sums = 16,
          .operands = 8,
          .copies = 5,
          .live = 5,
          .straight = 32},
         32,
         64},
        {{.shares = true, .sums = 1, .operands = 2, .live = 2, .straight = 18, .odd = 6}, 256, 28},
        {{.shares = true, .sums = 4, .operands = 3, .live = 4, .straight = 27, .odd = 6}, 64, 31},
        {{.shares = true,
          .stages = 3,
          .sums = 8,
          .operands = 4.8,
          .copies = 12,
          .copy_places = 12,
          .live = 7,
          .straight = 43},
         256,
         48},
        {{.operands = 36, .straight = 36, .moved = 36, .odd = 10}, 512, 38},
        {{.shares = true,
          .by_threads = true,
          .stages = 4,
          .sums = 64,
          .operands = 16,
          .copies = 8,
          .straight = 4096},
         128,
         96},
        {{.shares = true,
          .by_threads = true,
          .stages = 2,
          .sums = 32,
          .operands = 10,
          .staged = 12,
          .addresses = 1,
          .straight = 9216},
         256,
         70},
        {{.shares = true,
          .by_threads = true,
          .stages = 1,
          .sums = 64,
          .operands = 16,
          .fetched = 20,
          .addresses = 2,
          .straight = 32768},
         256,
         104},
        {{.shares = true,
          .by_threads = true,
          .by_groups = true,
          .stages = 4,
          .sums = 64,
          .copies = 32,
          .straight = 20480},
         256,
         96},
        {{.shares = true,
          .by_threads = true,
          .by_groups = true,
          .stages = 3,
          .sums = 64,
          .straight = 20480},
         384,
         90},
        {{.shares = true,
          .by_threads = true,
          .by_groups = true,
          .stages = 1,
          .sums = 128,
          .fetched = 64,
          .straight = 36864},
         256,
         172},
        {{.shares = true,
          .by_threads = true,
          .by_groups = true,
          .stages = 2,
          .sums = 64,
          .staged = 80,
          .straight = 34816},
         128,
         160},
    };
    const kiln_gpu h200 = row_of("h200");
    (void)state;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_gpu_registers r = kiln_gpu_registers_of(&row[i].held, &h200, row[i].threads);
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

static void a_schedule_that_asks_for_groups_limits_registers(void **state) {
    const kiln_gpu h200 = row_of("h200");
    (void)state;
    kiln_gpu_held held = {
        .sums = 160, .operands = 16, .live = 17, .straight = 20, .stages = 1, .shares = true};
    const kiln_gpu_registers alone = kiln_gpu_registers_of(&held, &h200, 128);
    assert_true(alone.expected > 128);
    held.resident = 4; /* 65536 registers of a unit, for 4 times 128 threads */
    const kiln_gpu_registers together = kiln_gpu_registers_of(&held, &h200, 128);
    assert_true(together.needed == alone.needed && together.expected == 128);
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

static void trees_look_at_the_groups_that_fit_on_a_unit(void **state) {
    const kiln_gpu h200 = row_of("h200");
    const kiln_gpu_held held = {
        .sums = 16, .live = 9, .operands = 4, .stages = 2, .straight = 7, .shares = true};
    double input[KILN_GPU_REGISTER_INPUT_COUNT];
    (void)state;
    kiln_gpu_register_inputs(&held, &h200, 100, input); /* four warps */
    assert_true(input[KILN_GPU_REGISTER_NEEDED] == 24 + 16 + 9 + 2);
    assert_true(input[KILN_GPU_REGISTER_MOST] == 2048 / 128);
    assert_true(input[KILN_GPU_REGISTER_FIT] == 65536 / (56 * 128)); /* 51 of a step of eight */
    assert_true(input[KILN_GPU_REGISTER_FREE] == 56);                /* 65536 / (9 * 128) */
    assert_true(input[KILN_GPU_REGISTER_ALONE] == h200.thread_registers);
    assert_true(input[KILN_GPU_REGISTER_STAGES] == 2 && input[KILN_GPU_REGISTER_STRAIGHT] == 7);
    kiln_gpu_register_inputs(&held, &h200, 1024, input);
    assert_true(input[KILN_GPU_REGISTER_MOST] == 2 && input[KILN_GPU_REGISTER_ALONE] == 64);
}

static void expected_registers_are_at_most_those_that_a_group_may_have(void **state) {
    const kiln_gpu h200 = row_of("h200"), opencl = row_of("opencl");
    (void)state;
    double before = 0, least = 255, most = 0;
    for (double sums = 1; sums <= 256; sums++) {
        const kiln_gpu_held held = {
            .sums = sums, .straight = 4096, .stages = (int)sums % 5, .shares = true};
        const kiln_gpu_registers r = kiln_gpu_registers_of(&held, &h200, 128);
        assert_true(r.needed > before); /* more sums never need less */
        before = r.needed;
        least = fmin(least, r.expected), most = fmax(most, r.expected);
        assert_true(r.expected <= h200.thread_registers);
        assert_true(kiln_gpu_registers_of(&held, &h200, 1024).expected <= 64);
        assert_true(kiln_gpu_registers_of(&held, &opencl, 128).expected <= opencl.thread_registers);
    }
    assert_true(before > h200.thread_registers); /* it is not cut */
    assert_true(least < 48 && most > 200);
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
        test_with_arena(no_two_loads_share_a_register),
        test_with_arena(fetches_of_windows_keep_their_places_while_stages_carry_them),
        test_with_arena(a_schedule_that_asks_for_groups_limits_registers),
        test_with_arena(fragments_behind_an_xor_have_addresses_of_their_own),
        test_with_arena(trees_look_at_the_groups_that_fit_on_a_unit),
        test_with_arena(expected_registers_are_at_most_those_that_a_group_may_have),
        test_with_arena(fragments_are_what_the_instruction_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
