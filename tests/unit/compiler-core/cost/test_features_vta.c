/* Features of accelerator cores, beside what the rule expects of the tile that it chose. */
#include "compiler-core/cost/features_vta.h"

#include <math.h>

#include "base/macros.h"
#include "compiler-core/cost/core_time.h"
#include "compiler-core/rules/space.h"
#include "compiler-core/rules/vta.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/sched/support.h"

#define LAYER(value)                                                                               \
    "program c\ninput x: i8[1,64,14,14]\nconstant w: i8[32,64,3,3]\nconstant b: i32[32]\n"         \
    "input r: i8[1,32,14,14]\n"                                                                    \
    "temp p: i8[1,64,16,16]\ntemp s: i32[1,32,14,14]\noutput y: i8[1,32,14,14]\n"                  \
    "block pad(n:1, c:64, h:16, v:16): p[n, c, h, v] = select(and(and(1 <= h, h < 15), and(1 <= "  \
    "v, v < 15)), x[n, c, h - 1, v - 1], 0i8)\n"                                                   \
    "block conv(n:1, o:32, h:14, v:14 | c:64, r:3, q:3): s[n, o, h, v] sum= i32(p[n, c, h + r, v " \
    "+ q]) * i32(w[o, c, r, q]) init 0i32\n"                                                       \
    "block out(n:1, o:32, h:14, v:14): y[n, o, h, v] = i8(min(max(shr(" value                      \
    ", 5i32), 0i32), 127i32))\n"

static const char plain[] = LAYER("s[n, o, h, v] + b[o]");
static const char residual[] = LAYER("s[n, o, h, v] + b[o] + i32(r[n, o, h, v])");

static double count_of(const float *vector, kiln_vta_feature_number feature) {
    return round(exp2((double)vector[feature]) - 1);
}

/* Nearly: the rule counts zeros of a padding among what is loaded. */
static void the_rule_and_the_features_count_the_same(void **state) {
    static const char *const machine[] = {"vta:pynq", "vta:pynq,v2", "vta:pynq,v2,bus128,chan2"};
    static const char *const text[] = {plain, residual};
    uint32_t made_count = 0;
    for (size_t m = 0; m < KILN_ARRAY_COUNT(machine); m++)
        for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
            for (uint32_t options = 0; options < 12; options++) {
                float f[KILN_VTA_FEATURES];
                const kiln_target target = target_of(*state, machine[m]);
                kiln_sched s = kiln_sched_begin(parsed(*state, text[i]), &target, *state);
                const kiln_sketch_result made = kiln_rules_vta.rule[0].make(&s, options);
                if (made.end == KILN_SKETCH_NONE) continue; /* other options make it */
                assert_int_equal(made.end, KILN_SKETCH_MADE);
                made_count++;
                expect_ok(kiln_sched_end(&s));
                kiln_features_vta.compute(s.program, &target, *state, f);
                const double cycles =
                    exp2((double)f[KILN_VTA_FEATURE_NS]) * target.vta.clock_mhz / 1e3;
                if (fabs(cycles / made.cycles - 1) > 0.03)
                    fail_msg("%s, options %u: %.0f cycles, the rule expects %.0f", machine[m],
                             options, cycles, made.cycles);
                assert_true(kiln_features_vta.fits(f));
                assert_int_equal((int64_t)count_of(f, KILN_VTA_FEATURE_OUT_BYTES), 32 * 14 * 14);
            }
    assert_in_range(made_count, 6 * 8, 6 * 12);
}

/* One part, and one step: each count by hand. */
static void counts_are_of_tiles(void **state) {
    static const char product[] =
        "program d\ninput x: i8[4,16]\nconstant w: i8[16,16]\ntemp s: i32[4,16]\n"
        "output y: i8[4,16]\n"
        "block mul(i:4, j:16 | k:16): s[i, j] sum= i32(x[i, k]) * i32(w[k, j]) init 0i32\n"
        "block out(i:4, j:16): y[i, j] = i8(min(max(shr(s[i, j] + 4i32, 3i32), -128i32), "
        "127i32))\n";
    float f[KILN_VTA_FEATURES];
    kiln_space space;
    kiln_trace trace;
    kiln_program *p;
    kiln_strbuf words = {0};
    const kiln_target target = target_of(*state, "vta:pynq");
    expect_ok(kiln_space_create(parsed(*state, product), &target, *state, &space));
    expect_ok(kiln_space_default(&space, *state, &trace, &p));
    kiln_features_vta.compute(p, &target, *state, f);
    assert_int_equal((int64_t)count_of(f, KILN_VTA_FEATURE_WORK), 4);
    assert_int_equal((int64_t)count_of(f, KILN_VTA_FEATURE_INP_BYTES), 64);
    assert_int_equal((int64_t)count_of(f, KILN_VTA_FEATURE_WGT_BYTES), 256);
    assert_int_equal((int64_t)count_of(f, KILN_VTA_FEATURE_WGT_CALLS), 1);
    assert_int_equal((int64_t)count_of(f, KILN_VTA_FEATURE_ACC_BYTES), 0);
    assert_int_equal((int64_t)count_of(f, KILN_VTA_FEATURE_ALU_OPERATIONS), 4);
    kiln_features_vta.describe(p, &target, *state, &words);
    const char *text = kiln_strbuf_end(&words, *state).data;
    expect_contains(text, "cycles for 4 products of tiles; bound by ");
    expect_contains(text, "wgt: 1 of 1024 tiles");
    expect_contains(text, "1 copies, 1 rows, 256 bytes\n");
}

/* What a machine has more of takes less time, and no term but its own. */
static void machines_differ_in_their_terms(void **state) {
    const kiln_target slow = target_of(*state, "vta:pynq"),
                      wide = target_of(*state, "vta:pynq,bus128"),
                      first = target_of(*state, "vta:pynq,v1+first"),
                      engine = target_of(*state, "vta:pynq,v1+engine");
    const kiln_core_work work = {.inp = {10, 10, 100, 16000},
                                 .wgt = {10, 10, 10, 25600},
                                 .out = {10, 10, 10, 1600},
                                 .gemm_tiles = 9000,
                                 .gemm_calls = 10,
                                 .reset_tiles = 1000,
                                 .reset_calls = 10,
                                 .alu_tiles = 1000,
                                 .alu_calls = 10,
                                 .alu_operations = 4,
                                 .threads = 1,
                                 .load_places = 2,
                                 .result_places = 2};
    const kiln_core_time t = kiln_core_time_of(&slow.vta, &work),
                         w = kiln_core_time_of(&wide.vta, &work),
                         f = kiln_core_time_of(&first.vta, &work),
                         e = kiln_core_time_of(&engine.vta, &work);
    assert_int_equal(t.bound, KILN_CORE_GEMM);
    assert_true(w.term[KILN_CORE_PORT] < t.term[KILN_CORE_PORT]);
    assert_true(w.term[KILN_CORE_GEMM] == t.term[KILN_CORE_GEMM]);
    assert_true(t.term[KILN_CORE_GEMM] - f.term[KILN_CORE_GEMM] > 1000);
    assert_true(e.cycles + 3000 < t.cycles);
    kiln_core_work alone = work;
    alone.load_places = 1;
    assert_true(kiln_core_time_of(&slow.vta, &alone).cycles > t.cycles + 20 * 64);
}

/* Dimensions from the innermost outwards: what an instruction says are rows at equal distances. */
static void blocks_are_copied_in_rows_and_planes(void **state) {
    static const struct {
        double count[3], all[3], rows, calls;
    } row[] = {
        {{8, 8, 4}, {8, 8, 8}, 1, 1},  /* all in one row */
        {{8, 4, 4}, {8, 8, 8}, 4, 1},  /* parts of whole rows */
        {{4, 8, 4}, {8, 8, 8}, 32, 1}, /* all rows of a plane: the next one follows it */
        {{4, 4, 4}, {8, 8, 8}, 16, 4}, /* a corner */
        {{8, 8, 4}, {INFINITY, INFINITY, 8}, 32, 4}, /* zeros around each plane */
        {{1, 1, 4}, {1, 1, 8}, 1, 1},
        {{1, 8, 4}, {2, 8, 8}, 32, 1},
    };
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_core_block b = KILN_CORE_BLOCK;
        for (int d = 0; d < 3; d++) kiln_core_block_add(&b, row[i].count[d], row[i].all[d]);
        assert_true(b.elements == row[i].count[0] * row[i].count[1] * row[i].count[2]);
        assert_true(b.rows == row[i].rows);
        assert_true(b.calls == row[i].calls);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(the_rule_and_the_features_count_the_same),
        test_with_arena(counts_are_of_tiles),
        test_with_arena(machines_differ_in_their_terms),
        test_with_arena(blocks_are_copied_in_rows_and_planes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
