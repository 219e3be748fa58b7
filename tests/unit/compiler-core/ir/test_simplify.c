/* The quasi-affine simplifier: what it must find, and that it never changes a value. */
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/interp.h"
#include "tests/unit/compiler-core/ir/support.h"

static void expect_simplified(kiln_program *p, kiln_expr e, const char *text) {
    expect_text(p, kiln_expr_simplify(p, e, NULL), text);
}

static void comparisons_are_decided_by_bounds_or_reduced(void **state) {
    kiln_program *p = *state;
    kiln_expr x = var(p, "x", 10);
    kiln_expr y = var(p, "y", 16);
    kiln_expr z = add(p, times(p, x, 16), y);
    expect_simplified(p, compare(p, KILN_EXPR_LT, z, kiln_expr_index(p, 160)), "true");
    expect_simplified(p, compare(p, KILN_EXPR_LT, kiln_expr_index(p, 159), z), "false");
    expect_simplified(p, compare(p, KILN_EXPR_LT, z, kiln_expr_index(p, 48)), "x < 3");
    expect_simplified(p, compare(p, KILN_EXPR_LT, z, kiln_expr_index(p, 50)), "x*16 + y < 50");
    expect_simplified(p, compare(p, KILN_EXPR_LE, kiln_expr_index(p, 3), x), "3 <= x");
    expect_simplified(p, compare(p, KILN_EXPR_LE, x, y), "x < y + 1");
    expect_simplified(p, compare(p, KILN_EXPR_EQ, times(p, x, 2), kiln_expr_index(p, 7)), "false");
    expect_simplified(p, compare(p, KILN_EXPR_EQ, times(p, x, 2), kiln_expr_index(p, 8)), "x == 4");
    expect_simplified(
        p, kiln_expr_unary(p, KILN_EXPR_NOT, compare(p, KILN_EXPR_LT, x, kiln_expr_index(p, 4))),
        "4 <= x");
}

static void conjunctions_lose_what_is_known_or_said_twice(void **state) {
    kiln_program *p = *state;
    kiln_expr x = var(p, "x", 10);
    kiln_expr below5 = compare(p, KILN_EXPR_LT, x, kiln_expr_index(p, 5));
    kiln_expr below7 = compare(p, KILN_EXPR_LT, x, kiln_expr_index(p, 7));
    kiln_expr always = compare(p, KILN_EXPR_LT, x, kiln_expr_index(p, 10));
    kiln_expr never = compare(p, KILN_EXPR_LT, x, kiln_expr_index(p, 0));
    kiln_expr both = kiln_expr_binary(p, KILN_EXPR_AND, below7,
                                      kiln_expr_binary(p, KILN_EXPR_AND, always, below5));
    expect_simplified(p, both, "x < 5");
    expect_simplified(p, kiln_expr_binary(p, KILN_EXPR_AND, both, never), "false");
    expect_simplified(p, kiln_expr_binary(p, KILN_EXPR_OR, both, always), "true");
}

static void minimum_and_select_are_resolved(void **state) {
    kiln_program *p = *state;
    kiln_expr x = var(p, "x", 10);
    expect_simplified(p, kiln_expr_binary(p, KILN_EXPR_MIN, x, kiln_expr_index(p, 9)), "x");
    expect_simplified(p, kiln_expr_binary(p, KILN_EXPR_MAX, x, kiln_expr_index(p, 9)), "9");
    expect_simplified(p, kiln_expr_binary(p, KILN_EXPR_MIN, x, kiln_expr_index(p, 8)), "min(x, 8)");
    kiln_expr inside = compare(p, KILN_EXPR_LE, kiln_expr_index(p, 0), x);
    expect_simplified(p, kiln_expr_select(p, inside, plus(p, x, 1), x), "x + 1");
}

static void narrower_ranges_decide_more(void **state) {
    kiln_program *p = *state;
    kiln_expr x = var(p, "x", 10);
    kiln_interval range[] = {{0, 0}, {2, 3}};
    expect_text(p, kiln_expr_simplify(p, compare(p, KILN_EXPR_LT, x, kiln_expr_index(p, 4)), range),
                "true");
    range[1] = (kiln_interval){6, 6};
    expect_text(p, kiln_expr_simplify(p, floordiv(p, x, 2), range), "3");
    assert_false(kiln_expr_prove(p, compare(p, KILN_EXPR_LT, x, kiln_expr_index(p, 4))));
    assert_true(kiln_expr_prove(p, compare(p, KILN_EXPR_LT, x, kiln_expr_index(p, 10))));
}

static void arithmetic_that_may_wrap_is_left_alone(void **state) {
    kiln_program *p = *state;
    kiln_expr wide = kiln_expr_var(p, kiln_var_create(p, KILN_STR("wide"), INT64_MIN, INT64_MAX));
    kiln_expr shifted = plus(p, wide, 1);
    expect_simplified(p, compare(p, KILN_EXPR_LT, wide, shifted), "wide < wide + 1");
    expect_simplified(p, floordiv(p, times(p, wide, 6), 3), "floordiv(wide*6, 3)");
}

static void make_variables(kiln_program *p, kiln_rand *r) {
    static const char *const name[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) {
        int64_t low = kiln_rand_below(r, 4) ? 0 : kiln_rand_range(r, -9, 9);
        kiln_var_create(p, kiln_str_from(name[i]), low, low + kiln_rand_range(r, 0, 20));
    }
}

/* Random expressions at random points; the seed is printed by the failing assertion's expression.
 */
static void simplified_expressions_have_the_same_value_everywhere(void **state) {
    kiln_program *p = *state;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        kiln_rand r;
        kiln_rand_init(&r, seed);
        kiln_program *q = kiln_program_create(p->arena, KILN_STR("random"));
        make_variables(q, &r);
        kiln_expr e = seed % 2 ? random_index(q, &r, 5) : random_condition(q, &r, 4);
        kiln_expr simple = kiln_expr_simplify(q, e, NULL);
        kiln_interval bounds = kiln_expr_bounds(q, e, NULL);
        kiln_interval simple_bounds = kiln_expr_bounds(q, simple, NULL);
        for (int i = 0; i < 40; i++) {
            int64_t point[8];
            draw_point(q, &r, point);
            int64_t value = value_at(q, e, point);
            if (value != value_at(q, simple, point))
                fail_msg("seed %llu: the value changes", (unsigned long long)seed);
            bool inside = bounds.low <= value && value <= bounds.high &&
                          simple_bounds.low <= value && value <= simple_bounds.high;
            if (!inside)
                fail_msg("seed %llu: the value leaves its bounds", (unsigned long long)seed);
        }
    }
}

static void simplifying_twice_changes_nothing_more(void **state) {
    kiln_program *p = *state;
    uint32_t unstable = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        kiln_rand r;
        kiln_rand_init(&r, seed);
        kiln_program *q = kiln_program_create(p->arena, KILN_STR("random"));
        make_variables(q, &r);
        kiln_expr once = kiln_expr_simplify(q, random_index(q, &r, 4), NULL);
        unstable += kiln_expr_simplify(q, once, NULL) != once;
    }
    assert_int_equal(unstable, 0);
}

static void offsets_follow_the_layout(void **state) {
    kiln_program *p = *state;
    kiln_shape shape = {.rank = 4, .dim = {1, 64, 56, 56}};
    kiln_buffer b = kiln_buffer_create(p, KILN_STR("x"), KILN_F32, KILN_ROLE_INPUT, &shape);
    kiln_expr oc0 = var(p, "oc.0", 4);
    kiln_expr oc1 = var(p, "oc.1", 16);
    kiln_expr h = var(p, "h", 56);
    kiln_expr w = var(p, "w", 56);
    kiln_expr index[] = {kiln_expr_index(p, 0), add(p, times(p, oc0, 16), oc1), h, w};
    expect_text(p, kiln_buffer_offset(p, b, index), "oc.0*50176 + oc.1*3136 + h*56 + w");
    kiln_status st =
        kiln_layout_parse(KILN_STR("d0,d1/16,d2,d3,d1%16"), 4, &p->buffer.data[b].layout);
    assert_null(st);
    expect_text(p, kiln_buffer_offset(p, b, index), "oc.0*50176 + oc.1 + h*896 + w*16");
}

/* Addresses that code forms are those of the layout, at every index. */
static void offsets_are_those_of_the_layout(void **state) {
    static const char *const layout[] = {"row",
                                         "d1,d0",
                                         "d0/2,d1,d0%2",
                                         "d0,d1+3",
                                         "d0,d1/4^d0%4,d1%4",
                                         "d0,d1/2^d0/2%2,d1%2+1",
                                         "d1+2,d0^d1/4%8+1"};
    kiln_program *p = *state;
    kiln_shape shape = {.rank = 2, .dim = {6, 9}};
    kiln_buffer b = kiln_buffer_create(p, KILN_STR("t"), KILN_F32, KILN_ROLE_TEMP, &shape);
    kiln_expr index[] = {var(p, "i", 6), var(p, "j", 9)};
    for (size_t l = 0; l < KILN_ARRAY_COUNT(layout); l++) {
        expect_ok(kiln_layout_parse(kiln_str_from(layout[l]), 2, &p->buffer.data[b].layout));
        kiln_interp in;
        kiln_expr offset = kiln_buffer_offset(p, b, index);
        kiln_interp_init(&in, p, NULL, NULL);
        for (int64_t i = 0; i < 6; i++)
            for (int64_t j = 0; j < 9; j++) {
                in.var[kiln_expr_get(p, index[0])->payload.id] = i;
                in.var[kiln_expr_get(p, index[1])->payload.id] = j;
                kiln_interp_moved(&in);
                assert_int_equal(
                    kiln_interp_eval(&in, offset).i,
                    kiln_layout_offset(&p->buffer.data[b].layout, &shape, (int64_t[]){i, j}));
            }
        kiln_interp_deinit(&in);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(comparisons_are_decided_by_bounds_or_reduced),
        PROGRAM_TEST(conjunctions_lose_what_is_known_or_said_twice),
        PROGRAM_TEST(minimum_and_select_are_resolved),
        PROGRAM_TEST(narrower_ranges_decide_more),
        PROGRAM_TEST(arithmetic_that_may_wrap_is_left_alone),
        PROGRAM_TEST(simplified_expressions_have_the_same_value_everywhere),
        PROGRAM_TEST(simplifying_twice_changes_nothing_more),
        PROGRAM_TEST(offsets_follow_the_layout),
        PROGRAM_TEST(offsets_are_those_of_the_layout),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/simplify", tests, NULL, NULL);
}
