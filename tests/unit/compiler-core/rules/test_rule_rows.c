/* The rule "rows": everything for one row at a time, reductions in lanes. */
#include "tests/unit/compiler-core/rules/support.h"

static const char softmax[] = "program softmax\ninput x: f32[6,40]\ntemp m: f32[6]\n"
                              "temp e: f32[6,40]\ntemp s: f32[6]\noutput y: f32[6,40]\n"
                              "block max(i:6 | j:40): m[i] max= x[i, j] init -inf\n"
                              "block exp(i:6, j:40): e[i, j] = exp(x[i, j] - m[i])\n"
                              "block sum(i:6 | j:40): s[i] sum= e[i, j] init 0.0\n"
                              "block out(i:6, j:40): y[i, j] = e[i, j]/s[i]\n";

static uint32_t count_lines(const kiln_sched *s, kiln_prim prim) {
    const kiln_trace *trace = kiln_sched_trace(s);
    uint32_t count = 0;
    for (uint32_t i = 0; i < trace->count; i++) count += trace->instruction[i].prim == prim;
    return count;
}

static void all_blocks_are_computed_row_by_row(void **state) {
    const kiln_program *te = parsed(*state, softmax);
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    assert_int_equal(kiln_sketch_rows(&s, 0).end, KILN_SKETCH_MADE);
    for (kiln_block b = 1; b < s.program->block.count; b++)
        if (!s.program->block.data[b].removed)
            assert_int_equal(kiln_sched_loop_around(&s, b, 0).var,
                             kiln_sched_loop_around(&s, block_of(&s, "out"), 0).var);
    /* two reductions in two steps each, whose vectors are registers */
    assert_int_equal(count_lines(&s, KILN_PRIM_RFACTOR), 2);
    assert_int_equal(count_lines(&s, KILN_PRIM_SET_SCOPE), 2);
    expect_legal(&s);
}

/* What takes long one after the other in one row hides behind other rows; lanes are combined. */
static void several_rows_are_computed_step_by_step(void **state) {
    kiln_sched s = kiln_sched_begin(
        parsed(*state, "program p\ninput x: f32[8,64]\ntemp s: f32[8]\noutput y: f32[8,64]\n"
                       "block sum(i:8 | j:64): s[i] sum= x[i, j] init 0.0\n"
                       "block out(i:8, j:64): y[i, j] = x[i, j]/s[i]\n"),
        &avx2, *state);
    assert_int_equal(kiln_sketch_rows(&s, 0).end, KILN_SKETCH_MADE);
    assert_int_equal(kiln_sched_extent(&s, kiln_sched_loop_around(&s, block_of(&s, "out"), 0)), 2);
    assert_int_equal(kiln_sched_extent(&s, kiln_sched_loop_around(&s, block_of(&s, "sum"), 1)), 4);
    const kiln_stmt sum = kiln_program_block_stmt(s.program, block_of(&s, "sum"));
    const kiln_stmt lanes = s.program->stmt.data[sum].parent;
    assert_int_equal(s.program->stmt.data[lanes].loop_kind, KILN_LOOP_VECTORIZE);
    expect_legal(&s);
}

static void rows_of_several_dimensions_are_fused_and_shared(void **state) {
    const kiln_program *te =
        parsed(*state, "program p\ninput x: f32[3,5,40]\ntemp s: f32[3,5]\noutput y: f32[3,5,40]\n"
                       "block sum(a:3, b:5 | j:40): s[a, b] sum= x[a, b, j] init 0.0\n"
                       "block out(a:3, b:5, j:40): y[a, b, j] = x[a, b, j] - s[a, b]\n");
    kiln_target two = avx2_target(2);
    kiln_sched s = kiln_sched_begin(te, &two, *state);
    assert_int_equal(kiln_sketch_rows(&s, 0).end, KILN_SKETCH_MADE);
    assert_int_equal(kiln_sched_extent(&s, kiln_sched_loop_around(&s, block_of(&s, "sum"), 0)), 15);
    assert_int_equal(count_lines(&s, KILN_PRIM_PARALLEL), 1);
    expect_sound(&s, te);
}

/* A block that writes an output stays at the root, and what it reads with it. */
static void outputs_on_the_way_stay_where_they_are(void **state) {
    const kiln_program *te =
        parsed(*state, "program p\ninput x: f32[6,40]\noutput s: f32[6]\noutput y: f32[6,40]\n"
                       "block sum(i:6 | j:40): s[i] sum= x[i, j] init 0.0\n"
                       "block out(i:6, j:40): y[i, j] = x[i, j] - s[i]\n");
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    s.keeps_refused = true;
    assert_int_equal(kiln_sketch_rows(&s, 0).end, KILN_SKETCH_MADE);
    bool told = false;
    for (uint32_t i = 0; i < s.refused.count; i++)
        told |=
            kiln_str_is(kiln_str_from(s.refused.data[i].instruction), "compute_at(sum, out.i.0)");
    assert_true(told);
    expect_sound(&s, te);
}

static void programs_without_rows_are_for_other_rules(void **state) {
    kiln_sched s = kiln_sched_begin(chain_program(*state, 4, 8), &avx2, *state);
    kiln_sketch_result result = kiln_sketch_rows(&s, 0);
    assert_int_equal(result.end, KILN_SKETCH_NEVER);
    expect_contains(result.reason, "no reduction");
    s = kiln_sched_begin(matmul_program(*state, 4, 8, 4), &avx2, *state);
    result = kiln_sketch_rows(&s, 0);
    assert_int_equal(result.end, KILN_SKETCH_NEVER);
    expect_contains(result.reason, "the last block is a reduction");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(all_blocks_are_computed_row_by_row),
        test_with_arena(several_rows_are_computed_step_by_step),
        test_with_arena(rows_of_several_dimensions_are_fused_and_shared),
        test_with_arena(outputs_on_the_way_stay_where_they_are),
        test_with_arena(programs_without_rows_are_for_other_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
