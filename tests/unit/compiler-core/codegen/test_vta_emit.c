/* Lowered programs become streams that compute what the loop interpreter says, on both simulators.
 */
#include <string.h>

#include "base/rand.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"
#include "tests/support/vta_conv.h"
#include "tests/unit/compiler-core/codegen/vta_run.h"

static const char *const machine_table[] = {
    VTA_SMALL "v1", VTA_SMALL "v1+engine", VTA_SMALL "v1+first+chain",
    VTA_SMALL "v2,chan3,req2,tok4",
    "vta:b2i4o8,i8w8a32,uop12,inp13,wgt14,acc15,bus64,clk100,alu4,pipe4,v2"};

static const struct {
    vta_conv conv;
    vta_conv_cut cut; /* threads aside */
} shape_table[] = {
    {{6, 4, 2, 4, 3, 1, 1}, {.rows = 3, .columns = 2, .out = 2, .in = 1}},
    {{6, 4, 2, 2, 3, 1, 1}, {.rows = 2, .columns = 4, .out = 1, .in = 2, .out_inside = true}},
    {{5, 5, 2, 2, 3, 2, 1}, {.rows = 3, .columns = 3, .out = 2, .in = 2}}, /* one part */
    {{6, 4, 2, 2, 1, 1, 0}, {.rows = 2, .columns = 4, .out = 1, .in = 1}},
    {{5, 5, 1, 2, 1, 2, 0}, {.rows = 3, .columns = 3, .out = 1, .in = 1, .out_inside = true}},
    {{3, 5, 2, 2, 1, 1, 1}, {.rows = 1, .columns = 7, .out = 1, .in = 1}}, /* rows of padding */
    {{1, 1, 8, 4, 1, 1, 0}, {.rows = 1, .columns = 1, .out = 4, .in = 2}}, /* dense */
};

static void convolutions_are_those_of_the_interpreter(void **state) {
    for (size_t m = 0; m < KILN_ARRAY_COUNT(machine_table); m++)
        for (size_t s = 0; s < KILN_ARRAY_COUNT(shape_table); s++)
            for (uint32_t threads = 1; threads <= 4; threads *= 2)
                for (uint32_t turn = 0; turn < 2; turn++) {
                    kiln_arena_reset(*state);
                    vta_conv_cut cut = shape_table[s].cut;
                    cut.threads = threads;
                    cut.in_turn = turn;
                    const kiln_target target = target_of(*state, machine_table[m]);
                    vta_expect_equal(vta_conv_text(&target.vta, &shape_table[s].conv, &cut, *state),
                                     machine_table[m], 1 + s, 2, *state);
                }
}

static uint64_t cycles_with(uint32_t threads, bool in_turn, const char *machine,
                            kiln_arena *arena) {
    static const vta_conv conv = {12, 8, 2, 4, 3, 1, 1};
    const vta_conv_cut cut = {
        .rows = 4, .columns = 8, .out = 2, .in = 1, .threads = threads, .in_turn = in_turn};
    const kiln_target target = target_of(arena, machine);
    return vta_expect_equal(vta_conv_text(&target.vta, &conv, &cut, arena), machine, 1, 1, arena);
}

static void virtual_threads_and_stages_hide_latency(void **state) {
    static const char machine[] = VTA_SMALL "v1,lat64";
    const uint64_t one = cycles_with(1, false, machine, *state);
    assert_true(cycles_with(2, false, machine, *state) * 100 < one * 90);
    assert_true(cycles_with(2, true, machine, *state) * 100 < one * 90);
}

/* Of the usual machine's shape, with its limits. */
static void convolutions_fit_the_usual_machine(void **state) {
    static const vta_conv conv = {6, 4, 1, 2, 3, 1, 1};
    static const vta_conv_cut cut = {.rows = 3, .columns = 4, .out = 1, .in = 1, .threads = 2};
    for (uint32_t version = 1; version <= 2; version++) {
        const char *machine = kiln_arena_printf(*state, "vta:pynq,v%u", version);
        const kiln_target target = target_of(*state, machine);
        vta_expect_equal(vta_conv_text(&target.vta, &conv, &cut, *state), machine, version, 1,
                         *state);
    }
}

/* Cuts that divide, of everything; those that the machine is too small for are drawn again. */
#define PROGRAMS 60
static uint32_t draw_divisor(kiln_rand *r, uint32_t of) {
    uint32_t drawn;
    do drawn = 1 + (uint32_t)kiln_rand_below(r, of);
    while (of % drawn != 0);
    return drawn;
}

static void random_convolutions_are_those_of_the_interpreter(void **state) {
    uint32_t done = 0;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        kiln_arena_reset(*state);
        kiln_rand r;
        kiln_rand_init(&r, seed);
        vta_conv c = {.kernel = 1 + 2 * (uint32_t)kiln_rand_below(&r, 2),
                      .stride = 1 + (uint32_t)kiln_rand_below(&r, 2),
                      .in = 1 + (uint32_t)kiln_rand_below(&r, 3),
                      .out = 1 + (uint32_t)kiln_rand_below(&r, 4)};
        c.padding = (uint32_t)kiln_rand_below(&r, c.kernel / 2 + 1);
        c.height = c.kernel + (uint32_t)kiln_rand_below(&r, 6);
        c.width = c.kernel + (uint32_t)kiln_rand_below(&r, 6);
        const vta_conv_cut cut = {.rows = draw_divisor(&r, vta_conv_out_height(&c)),
                                  .columns = draw_divisor(&r, vta_conv_out_width(&c)),
                                  .out = draw_divisor(&r, c.out),
                                  .in = draw_divisor(&r, c.in),
                                  .threads = 1 + (uint32_t)kiln_rand_below(&r, 3),
                                  .in_turn = kiln_rand_below(&r, 2),
                                  .out_inside = kiln_rand_below(&r, 2)};
        const char *machine = machine_table[kiln_rand_below(&r, KILN_ARRAY_COUNT(machine_table))];
        const kiln_target target = target_of(*state, machine);
        const char *text = vta_conv_text(&target.vta, &c, &cut, *state);
        kiln_vta_program program;
        kiln_status st = vta_compile_text(text, machine, *state, &program);
        if (st) { /* sums too near to each other in few accumulators, or too much of a memory */
            assert_int_equal(kiln_status_code(st), KILN_ILLEGAL_SCHEDULE);
            kiln_status_free(st);
            continue;
        }
        vta_expect_equal(text, machine, seed, 4, *state);
        done++;
    }
    assert_true(done > PROGRAMS / 3);
}

/* Residuals, multipliers and biases that sums begin with, over tiles of one row of four. */
#define HEAD                                                                                \
    "program p\ninput x: i8[2,6,1,4]\nconstant w: i8[2,2,4,4]\nconstant bias: i32[2,1,4]\n" \
    "input res: i8[2,6,1,4]\ninput sums: i32[2,6,1,4]\noutput y: i8[2,6,1,4]\n"             \
    "temp xi: i8[2,6,1,4] scope(inp)\ntemp wi: i8[2,2,4,4] scope(wgt)\n"                    \
    "temp s: i32[2,6,1,4] scope(acc)\ntemp rs: i32[2,6,1,4] scope(acc)\n"                   \
    "temp rb: i8[2,6,1,4] scope(acc)\n"                                                     \
    "temp q: i8[2,6,1,4] scope(out)\nloops:\n"                                              \
    "  for c in 2:\n    for v in 6:\n      for k in 4:\n"                                   \
    "        xi[c, v, 0, k] = x[c, v, 0, k]\n"                                              \
    "  for c in 2:\n    for a in 2:\n      for l in 4:\n        for k in 4:\n"              \
    "          wi[c, a, l, k] = w[c, a, l, k]\n"
/* Three steps of data, of which a layout makes tiles; and weights, as declared, of that value. */
#define PARTS(weights, value)                                                  \
    "program p\ninput x: i8[2,6,1,3] layout(d0,d1,d2,d3/4,d3%4)\n"             \
    "constant w: i8" weights "\noutput y: i8[2,6,1,4]\n"                       \
    "temp xi: i8[2,6,1,4] scope(inp)\ntemp wi: i8[2,2,4,4] scope(wgt)\n"       \
    "temp s: i32[2,6,1,4] scope(acc)\nloops:\n"                                \
    "  for c in 2:\n    for v in 6:\n      for k in 4:\n"                      \
    "        xi[c, v, 0, k] = select(k < 3, x[c, v, 0, k], 0i8)\n"             \
    "  for c in 2:\n    for a in 2:\n      for l in 4:\n        for k in 4:\n" \
    "          wi[c, a, l, k] = " value "\n"
#define THREE_STEPS "[2,2,4,3] layout(d0,d1,d2,d3/4,d3%4)"
#define PART RESULTS "if l < 3:\n          y[c, v, 0, l] = i8(s[c, v, 0, l])\n"

#define RESULTS "  for c in 2:\n    for v in 6:\n      for l in 4:\n        "
#define GEMM                                                                                  \
    "  for c in 2:\n    for a in 2:\n      for v in 6:\n        for l in 4:\n"                \
    "          for k in 4:\n            s[c, v, 0, l] = s[c, v, 0, l] + i32(xi[a, v, 0, k])*" \
    "i32(wi[c, a, l, k])\n"

#define ZEROS RESULTS "s[c, v, 0, l] = 0i32\n"
#define STORE(value) RESULTS "y[c, v, 0, l] = " value "\n"

static void every_kind_of_store_is_done(void **state) {
    static const struct {
        const char *machine, *text;
    } row[] = {
        /* the bias is what sums begin with; the residual is of bytes, added twice */
        {VTA_SMALL "v2", HEAD RESULTS
         "s[c, v, 0, l] = bias[c, 0, l]\n" GEMM RESULTS
         "rs[c, v, 0, l] = i32(res[c, v, 0, l])\n" RESULTS
         "s[c, v, 0, l] = shr(s[c, v, 0, l] + rs[c, v, 0, l], 1i32) + rs[c, v, 0, l]\n" RESULTS
         "q[c, v, 0, l] = i8(max(min(s[c, v, 0, l], 127i32), -128i32))\n" RESULTS
         "y[c, v, 0, l] = q[c, v, 0, l]\n"},
        /* words, a number that sums begin with, a shift to the left, nothing between */
        {VTA_SMALL "v1", HEAD RESULTS
         "s[c, v, 0, l] = 5i32\n" GEMM RESULTS "rs[c, v, 0, l] = sums[c, v, 0, l]\n" RESULTS
         "s[c, v, 0, l] = rs[c, v, 0, l] + s[c, v, 0, l]\n" RESULTS
         "s[c, v, 0, l] = shl(s[c, v, 0, l], 1i32) - 3i32\n" RESULTS
         "q[c, v, 0, l] = i8(s[c, v, 0, l])\n" RESULTS "y[c, v, 0, l] = q[c, v, 0, l]\n"},
        /* a multiplier, and no output of its own; the store saturates */
        {VTA_SMALL "v2",
         HEAD RESULTS "s[c, v, 0, l] = 0i32\n" GEMM RESULTS
                      "y[c, v, 0, l] = i8(min(max(shr(s[c, v, 0, l]*3i32 + 16i32, 5i32), -9i32), "
                      "127i32))\n"},
        /* bytes in accumulators, and an operand with operations of its own */
        {VTA_SMALL "v2", HEAD ZEROS GEMM RESULTS "rb[c, v, 0, l] = res[c, v, 0, l]\n" STORE(
                             "i8(shr(s[c, v, 0, l] + shl(i32(rb[c, v, 0, l]), 2i32), 3i32))")},
        /* operations on two accumulators, one after the other, before they are one value */
        {VTA_SMALL "v2",
         HEAD ZEROS GEMM RESULTS "rs[c, v, 0, l] = sums[c, v, 0, l]\n" RESULTS
                                 "s[c, v, 0, l] = s[c, v, 0, l] + 7i32\n" RESULTS
                                 "rs[c, v, 0, l] = shr(rs[c, v, 0, l], 1i32)\n" STORE(
                                     "i8(s[c, v, 0, l] + rs[c, v, 0, l])")},
        /* what was stored is loaded again */
        {VTA_SMALL "v1",
         HEAD ZEROS GEMM STORE(
             "i8(s[c, v, 0, l])") "  for c in 2:\n    for v in 6:\n      for k in 4:\n"
                                  "        xi[c, v, 0, k] = y[c, v, 0, k]\n" ZEROS GEMM STORE(
                                      "i8(s[c, v, 0, l])")},
        /* without the feature it does not */
        {VTA_SMALL "v2-chain",
         HEAD RESULTS "s[c, v, 0, l] = 0i32\n" GEMM RESULTS
                      "y[c, v, 0, l] = i8(max(min(s[c, v, 0, l], 127i32), -128i32))\n"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        vta_expect_equal(row[i].text, row[i].machine, i, 3, *state);
}

static void what_the_machine_cannot_do_is_named(void **state) {
    static const struct {
        const char *machine, *text, *reason;
    } row[] = {
        {VTA_SMALL "v1",
         HEAD RESULTS "rs[c, v, 0, l] = i32(res[c, v, 0, l])\n" STORE("i8(rs[c, v, 0, l])"),
         "] = i32(res[c, v, 0, l]): the machine has no loads of bytes"},
        {VTA_SMALL "v1", HEAD ZEROS STORE("i8(s[c, v, 0, l]*3i32)"), "does not multiply"},
        {VTA_SMALL "v1", HEAD ZEROS STORE("i8(s[c, v, 0, l] + 40000i32)"),
         "the number 40000 has more than 16 bits"},
        {VTA_SMALL "v1", HEAD ZEROS STORE("i8(s[c, v, 0, l]/3i32)"), "the ALU has no operation"},
        {VTA_SMALL "v1", HEAD ZEROS STORE("i8(shr(s[c, v, 0, l], 40i32))"), "by a number up to 31"},
        {VTA_SMALL "v1", HEAD ZEROS STORE("res[c, v, 0, l]"),
         "outputs are not sums converted to bytes"},
        {VTA_SMALL "v1",
         HEAD ZEROS RESULTS "rs[c, v, 0, l] = s[c, v, 0, l] + 1i32\n" STORE("i8(rs[c, v, 0, l])"),
         "made of another one"},
        {VTA_SMALL "v1",
         HEAD ZEROS RESULTS "q[c, v, 0, 3 - l] = i8(s[c, v, 0, l])\n" STORE("q[c, v, 0, l]"),
         "no loops run over the 4 elements of a tile"},
        {VTA_SMALL "v1",
         HEAD ZEROS RESULTS "q[c, v, 0, l] = i8(s[c, v, 0, l] + 1i32)\n" STORE("q[c, v, 0, l]")
             RESULTS "s[c, v, 0, l] = s[c, v, 0, l] + 2i32\n" STORE("i8(s[c, v, 0, l])"),
         "after outputs overwrote it"},
        {VTA_SMALL "v1",
         HEAD ZEROS "  for c in 2:\n    for v in 6:\n      for l in 3:\n"
                    "        y[c, v, 0, l] = i8(s[c, v, 0, l])\n",
         "no loops run over the 4 elements of a tile"},
        {VTA_SMALL "v1", PARTS(THREE_STEPS, "select(k < 3, w[c, a, l, k], 0i8)") ZEROS GEMM PART,
         "a part of a tile is not copied"},
        {VTA_SMALL "v1",
         PARTS(THREE_STEPS, "select(k < 2, w[c, a, l, k], 0i8)")
             ZEROS GEMM STORE("i8(s[c, v, 0, l])"),
         "a part of a tile is not copied"},
        {VTA_SMALL "v1", PARTS("[2,2,4,4]", "w[c, a, l, k]") ZEROS GEMM STORE("i8(s[c, v, 0, l])"),
         "a product is of data that is not loaded"},
        {"vta:b1i4o4,i8w8a32,uop12,inp8,wgt8,acc8,bus64,clk100,alu4,pipe4,v1",
         HEAD RESULTS
         "rs[c, v, 0, l] = sums[c, v, 0, l]\n" ZEROS STORE("i8(s[c, v, 0, l] + rs[c, v, 0, l])"),
         "takes 12 tiles of acc, where 12 are taken already; the machine has 16"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_vta_program program;
        expect_error(vta_compile_text(row[i].text, row[i].machine, *state, &program),
                     ILLEGAL_SCHEDULE, row[i].reason);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(convolutions_are_those_of_the_interpreter),
        test_with_arena(virtual_threads_and_stages_hide_latency),
        test_with_arena(convolutions_fit_the_usual_machine),
        test_with_arena(random_convolutions_are_those_of_the_interpreter),
        test_with_arena(every_kind_of_store_is_done),
        test_with_arena(what_the_machine_cannot_do_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
