/* The rule "tile" as a whole: every combination of options is a right schedule or says why not. */
#include "tests/unit/compiler-core/rules/support.h"

#include "base/macros.h"

static const kiln_rule *rule_tile(void) {
    for (uint32_t i = 0; i < kiln_rules_cpu.count; i++)
        if (kiln_rules_cpu.rule[i].make == kiln_sketch_tile) return &kiln_rules_cpu.rule[i];
    fail_msg("no rule makes tiles");
    return NULL;
}

static uint32_t option(const char *name) {
    const kiln_rule *rule = rule_tile();
    for (uint32_t i = 0; i < rule->option_count; i++)
        if (kiln_str_is(kiln_str_from(rule->option[i]), name)) return i;
    fail_msg("there is no option %s", name);
    return 0;
}

static void every_combination_of_options_is_right_or_says_why_not(void **state) {
    static const conv_shape shape[] = {{1, 16, 5, 5, 20, 3, 3, 1, 1, true},
                                       {2, 8, 5, 5, 16, 1, 1, 2, 0, false}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(shape); i++) {
        const kiln_program *te = conv_program(*state, &shape[i]);
        kiln_target target = avx2_target(i ? 1 : 2);
        target.l2_bytes = 1 << 13; /* nothing fits: parts, prefetches */
        uint32_t made = 0;
        for (uint32_t v = 0; v < 1u << rule_tile()->option_count; v++) {
            kiln_sched s = kiln_sched_begin(te, &target, *state);
            kiln_sketch_result result = kiln_sketch_tile(&s, v);
            expect_sound(&s, te);
            assert_true((result.end == KILN_SKETCH_MADE) == (result.reason == NULL));
            if (result.end == KILN_SKETCH_SAME) assert_true(v >> result.option & 1);
            made += result.end == KILN_SKETCH_MADE;
        }
        assert_int_equal(made, i ? 2 : 24); /* without a copy, and with it in two places */
    }
}

/* Of which zeros of a padding are no identity: nothing that reads them may be left out. */
static void products_over_other_operations_are_tiled(void **state) {
    static const char *const program[] = {
        "program p\ninput x: f32[7,13]\ninput w: f32[13,21]\noutput y: f32[7,21]\n"
        "block y(i:7, j:21 | k:13): y[i, j] max= x[i, k] + w[k, j]\n",
        "program p\ninput x: f32[6,10]\nconstant w: f32[17,10]\noutput y: f32[6,17]\n"
        "block y(i:6, j:17 | k:10): y[i, j] sum= (x[i, k] - w[j, k])*(x[i, k] - w[j, k]) init "
        "1.0\n",
        "program p\ninput x: i64[5,8]\ninput w: i64[16,8]\noutput y: i64[5,16]\n"
        "block y(i:5, j:16 | k:8): y[i, j] min= xor(x[i, k], w[j, k])\n",
        "program p\ninput x: f32[1,8,5,5]\nconstant w: f32[16,8,3,3]\noutput y: f32[1,16,5,5]\n"
        "temp t: f32[1,8,7,7]\n"
        "block t(n:1, c:8, h:7, w:7): t[n, c, h, w] = select(and(and(1 <= h, h < 6), and(1 <= w, w "
        "< 6)), x[n, c, h - 1, w - 1], 0.0)\n"
        "block y(n:1, oc:16, h:5, w:5 | c:8, kh:3, kw:3): y[n, oc, h, w] max= t[n, c, h + kh, w + "
        "kw] - w[oc, c, kh, kw]\n"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++) {
        const kiln_program *te = parsed(*state, program[i]);
        const kiln_target target = avx2_target(2);
        for (uint32_t v = 0; v < 1u << rule_tile()->option_count; v = v ? v << 1 : 1) {
            kiln_sched s = kiln_sched_begin(te, &target, *state);
            const kiln_sketch_result result = kiln_sketch_tile(&s, v);
            expect_sound(&s, te);
            if (v == 0) assert_int_equal(result.end, KILN_SKETCH_MADE);
        }
    }
}

static void expect_same(const kiln_program *te, const char *name, const char *reason) {
    kiln_sched s = kiln_sched_begin(te, &avx2, te->arena);
    kiln_sketch_result result = kiln_sketch_tile(&s, 1u << option(name));
    assert_int_equal(result.end, KILN_SKETCH_SAME);
    assert_int_equal(result.option, option(name));
    expect_contains(result.reason, reason);
}

static void options_that_make_no_difference_are_told(void **state) {
    static const conv_shape plain = {1, 16, 6, 6, 16, 1, 1, 1, 0, false};
    const kiln_program *te = conv_program(*state, &plain);
    expect_same(te, "plain", "no tensor intrinsic");
    expect_same(te, "whole", "fits into the second cache");
    expect_same(te, "taps outside", "no other loops than k");
    expect_same(te, "copy elsewhere", "no copy");
    expect_same(te, "padded copy", "no padding");
}

static void expect_never(const kiln_program *te, const char *reason) {
    kiln_sched s = kiln_sched_begin(te, &avx2, te->arena);
    kiln_sketch_result result = kiln_sketch_tile(&s, 0);
    assert_int_equal(result.end, KILN_SKETCH_NEVER);
    expect_contains(result.reason, reason);
}

static void programs_without_one_reduction_are_for_other_rules(void **state) {
    expect_never(chain_program(*state, 4, 8), "no reduction");
    expect_never(parsed(*state, "program p\ninput x: f32[8,8]\noutput y: f32[8]\noutput z: f32[8]\n"
                                "block y(i:8 | k:8): y[i] sum= x[i, k] init 0.0\n"
                                "block z(i:8 | k:8): z[i] sum= x[k, i] init 0.0\n"),
                 "several reductions");
    expect_never(parsed(*state, "program p\ninput x: f32[64]\noutput y: f32[1]\n"
                                "block y(i:1 | k:64): y[i] sum= x[k] init 0.0\n"),
                 "no iterator can be lanes");
}

static void without_registers_there_is_no_sketch(void **state) {
    static const conv_shape shape = {1, 16, 6, 6, 16, 3, 3, 1, 1, false};
    kiln_target target = avx2;
    target.vector_registers = 2;
    kiln_sched s = kiln_sched_begin(conv_program(*state, &shape), &target, *state);
    kiln_sketch_result result = kiln_sketch_tile(&s, 0);
    assert_int_equal(result.end, KILN_SKETCH_NONE);
    expect_contains(result.reason, "no tile fits");
    expect_ok(kiln_sched_end(&s));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_combination_of_options_is_right_or_says_why_not),
        test_with_arena(products_over_other_operations_are_tiled),
        test_with_arena(options_that_make_no_difference_are_told),
        test_with_arena(programs_without_one_reduction_are_for_other_rules),
        test_with_arena(without_registers_there_is_no_sketch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
