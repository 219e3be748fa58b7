/* Sums over loops, and counting with them. */
#include "compiler-core/facts/form.h"

#include <math.h>

#include "compiler-core/ir/ir.h"
#include "tests/support/test.h"

typedef struct fixture {
    kiln_program *p;
    kiln_var i, j;
    kiln_form_scope scope;
} fixture;

static fixture make(kiln_arena *arena, int64_t i, int64_t j) {
    fixture f = {.p = kiln_program_create(arena, KILN_STR("test"))};
    f.i = kiln_var_create(f.p, KILN_STR("i"), 0, i - 1);
    f.j = kiln_var_create(f.p, KILN_STR("j"), 0, j - 1);
    f.scope.p = f.p;
    return f;
}

static kiln_expr binary(const fixture *f, kiln_expr_op op, kiln_expr a, int64_t b) {
    return kiln_expr_binary(f->p, op, a, kiln_expr_index(f->p, b));
}

static kiln_form form_of(const fixture *f, kiln_expr e) {
    kiln_form form;
    kiln_form_of(&f->scope, e, &form);
    return form;
}

/* Value of the form when i and j have these values. */
static int64_t value_at(const fixture *f, const kiln_form *form, int64_t i, int64_t j) {
    int64_t value = form->constant;
    for (uint32_t t = 0; t < form->term_count; t++) {
        int64_t v = form->term[t].var == f->i ? i : j;
        value += form->term[t].coefficient * (v / form->term[t].divisor % form->term[t].extent);
    }
    return value;
}

static void quotients_and_remainders_of_a_fused_loop_are_exact(void **state) {
    fixture f = make(*state, 24, 5);
    kiln_expr fused = kiln_expr_var(f.p, f.i);
    static const int64_t divisor[] = {2, 3, 4, 6, 8, 12};
    for (uint32_t d = 0; d < 6; d++) {
        kiln_form q = form_of(&f, binary(&f, KILN_EXPR_FLOORDIV, fused, divisor[d]));
        kiln_form r = form_of(&f, binary(&f, KILN_EXPR_FLOORMOD, fused, divisor[d]));
        assert_true(q.exact);
        assert_true(r.exact);
        for (int64_t i = 0; i < 24; i++) {
            assert_int_equal(value_at(&f, &q, i, 0), i / divisor[d]);
            assert_int_equal(value_at(&f, &r, i, 0), i % divisor[d]);
        }
    }
}

static void sums_that_divide_evenly_stay_exact(void **state) {
    fixture f = make(*state, 6, 8);
    kiln_expr sum =
        kiln_expr_binary(f.p, KILN_EXPR_ADD, binary(&f, KILN_EXPR_MUL, kiln_expr_var(f.p, f.i), 8),
                         kiln_expr_var(f.p, f.j));
    kiln_form q = form_of(&f, binary(&f, KILN_EXPR_FLOORDIV, sum, 4));
    kiln_form r = form_of(&f, binary(&f, KILN_EXPR_FLOORMOD, sum, 4));
    assert_true(q.exact);
    for (int64_t i = 0; i < 6; i++)
        for (int64_t j = 0; j < 8; j++) {
            assert_int_equal(value_at(&f, &q, i, j), (8 * i + j) / 4);
            assert_int_equal(value_at(&f, &r, i, j), (8 * i + j) % 4);
        }
}

static void what_is_not_linear_keeps_its_range_but_is_not_exact(void **state) {
    fixture f = make(*state, 10, 7);
    kiln_expr sum =
        kiln_expr_binary(f.p, KILN_EXPR_ADD, kiln_expr_var(f.p, f.i), kiln_expr_var(f.p, f.j));
    kiln_form r = form_of(&f, binary(&f, KILN_EXPR_FLOORMOD, sum, 5));
    int64_t low, high;
    kiln_form_range(&r, &low, &high);
    assert_false(r.exact);
    assert_int_equal(low, 0);
    assert_in_range(high, 1, 4);
}

static void shares_within_a_domain_are_counted(void **state) {
    fixture f = make(*state, 19, 3);
    kiln_expr tiled =
        kiln_expr_binary(f.p, KILN_EXPR_ADD, binary(&f, KILN_EXPR_MUL, kiln_expr_var(f.p, f.i), 3),
                         kiln_expr_var(f.p, f.j));
    kiln_form form = form_of(&f, tiled);
    assert_true(fabs(kiln_form_share_within(&form, 56) - 56.0 / 57.0) < 1e-12);
    kiln_expr halo =
        kiln_expr_binary(f.p, KILN_EXPR_ADD, kiln_expr_var(f.p, f.i), kiln_expr_var(f.p, f.j));
    form = form_of(&f, binary(&f, KILN_EXPR_ADD, halo, -1));
    double inside = 0;
    for (int64_t i = 0; i < 19; i++)
        for (int64_t j = 0; j < 3; j++) inside += i + j - 1 >= 0 && i + j - 1 < 19;
    assert_true(fabs(kiln_form_share_within(&form, 19) - inside / 57.0) < 1e-12);
}

static void distinct_values_and_reach_are_counted(void **state) {
    (void)state;
    static const struct {
        int64_t stride[3], extent[3];
    } row[] = {{{1, 4, 0}, {4, 5, 1}},
               {{2, 1, 0}, {5, 3, 1}},
               {{8, 0, 0}, {3, 1, 1}},
               {{1, 2, 10}, {3, 4, 2}},
               {{16, 4, 1}, {2, 3, 2}}};
    for (uint32_t r = 0; r < sizeof row / sizeof row[0]; r++) {
        kiln_spread spread = {.count = 0};
        bool seen[256] = {false};
        for (uint32_t t = 0; t < 3; t++)
            if (row[r].extent[t] > 1)
                kiln_spread_add(&spread, &(kiln_form_term){.extent = row[r].extent[t],
                                                           .coefficient = row[r].stride[t]});
        int64_t distinct = 0, last = 0, values, span;
        for (int64_t a = 0; a < row[r].extent[0]; a++)
            for (int64_t b = 0; b < row[r].extent[1]; b++)
                for (int64_t c = 0; c < row[r].extent[2]; c++) {
                    int64_t v = a * row[r].stride[0] + b * row[r].stride[1] + c * row[r].stride[2];
                    distinct += !seen[v];
                    seen[v] = true;
                    if (v > last) last = v;
                }
        kiln_spread_measure(&spread, &values, &span);
        assert_int_equal(values, distinct);
        assert_int_equal(span, last + 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(quotients_and_remainders_of_a_fused_loop_are_exact),
        test_with_arena(sums_that_divide_evenly_stay_exact),
        test_with_arena(what_is_not_linear_keeps_its_range_but_is_not_exact),
        test_with_arena(shares_within_a_domain_are_counted),
        test_with_arena(distinct_values_and_reach_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
