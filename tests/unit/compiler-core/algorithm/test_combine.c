/* Sums with coefficients, one value among a few, and blocks that become them. */
#include "compiler-core/algorithm/combine.h"

#include "compiler-core/ir/ir_text.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/sched/support.h"

static kiln_program *program(kiln_arena *arena) {
    return parsed(arena, "program p\ninput x: f32[8,4]\nconstant w: f32[4,8]\noutput y: f32[8,8]\n"
                         "block m(m:8, n:8 | k:4): y[m, n] sum= x[m, k]*w[k, n] init 2.0\n");
}

static void nothing_is_multiplied_by_one_or_negated(void **state) {
    kiln_program *p = program(*state);
    const kiln_expr a = kiln_expr_float(p, KILN_F32, 5), b = kiln_expr_float(p, KILN_F32, 7),
                    c = kiln_expr_float(p, KILN_F32, 9), value[] = {a, b, c};
    assert_int_equal(kiln_combine(p, (double[]){-1, 0, 1}, value, 3),
                     kiln_expr_binary(p, KILN_EXPR_SUB, c, a));
    assert_int_equal(kiln_combine(p, (double[]){0, 1, 0}, value, 3), b);
    assert_int_equal(
        kiln_combine(p, (double[]){1, 2, 0}, value, 3),
        kiln_expr_binary(p, KILN_EXPR_ADD, a,
                         kiln_expr_binary(p, KILN_EXPR_MUL, b, kiln_expr_float(p, KILN_F32, 2))));
}

static void the_last_value_needs_no_comparison(void **state) {
    kiln_program *p = program(*state);
    const kiln_expr which = kiln_expr_var(p, p->block.data[1].iter[0].var),
                    a = kiln_expr_float(p, KILN_F32, 5), b = kiln_expr_float(p, KILN_F32, 7),
                    value[] = {a, b},
                    is = kiln_expr_binary(p, KILN_EXPR_EQ, which, kiln_expr_index(p, 0));
    assert_int_equal(kiln_pick(p, which, value, 2), kiln_expr_select(p, is, a, b));
    assert_int_equal(kiln_pick(p, which, value, 1), a);
}

static void a_sum_becomes_a_value_and_what_it_began_with(void **state) {
    kiln_program *p = program(*state);
    const kiln_expr init = p->block.data[1].init, value = kiln_expr_float(p, KILN_F32, 5);
    kiln_block_replace_sum(p, 1, value);
    assert_int_equal(p->block.data[1].combiner, KILN_COMBINE_NONE);
    assert_int_equal(p->block.data[1].iter_count, 2);
    assert_int_equal(p->block.data[1].value, kiln_expr_binary(p, KILN_EXPR_ADD, init, value));
    expect_ok(kiln_program_verify(p));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(nothing_is_multiplied_by_one_or_negated),
        test_with_arena(the_last_value_needs_no_comparison),
        test_with_arena(a_sum_becomes_a_value_and_what_it_began_with),
    };
    return cmocka_run_group_tests_name("compiler-core/algorithm/combine", tests, NULL, NULL);
}
