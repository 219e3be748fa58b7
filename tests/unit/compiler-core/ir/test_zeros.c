/* How much of a sum is left without the products with zeros of a padding. */
#include "compiler-core/ir/zeros.h"

#include <math.h>

#include "tests/unit/compiler-core/ir/support.h"

static double share_of(void **state, const char *text) {
    kiln_program *p = parse(*state, text);
    kiln_block last = (kiln_block)(p->block.count - 1);
    const uint32_t exprs = p->expr.count;
    double share = kiln_zeros_share_left(p, last);
    assert_true(p->expr.count >= exprs);
    return share;
}

static void expect_share(void **state, const char *text, double points, double of) {
    const double share = share_of(state, text);
    if (!(fabs(share - points / of) < 1e-12)) fail_msg("%s: %.17g", text, share);
}

#define LINE "program t\ninput x: f32[5]\ninput w: f32[3]\noutput y: f32[5]\n"
#define PADDED_LINE \
    LINE "temp t: f32[7]\nblock pad(i:7): t[i] = select(and(1 <= i, i < 6), x[i - 1], "

/* Of three taps at five places, the first and the last have one tap outside. */
static void taps_on_a_padding_do_not_count(void **state) {
    expect_share(state, PADDED_LINE "0.0)\nblock c(o:5 | k:3): y[o] sum= t[o + k]*w[k]\n", 13, 15);
    expect_share(state,
                 LINE "block c(o:5 | k:3): y[o] sum= "
                      "select(and(1 <= o + k, o + k < 6), x[o + k - 1], 0.0)*w[k]\n",
                 13, 15);
    expect_share(state, /* the factors in the other order, and the product inside */
                 LINE "block c(o:5 | k:3): y[o] sum= "
                      "select(and(1 <= o + k, o + k < 6), w[k]*x[o + k - 1], 0.0)\n",
                 13, 15);
    expect_share(state, /* without a product: means with a padding */
                 PADDED_LINE "0.0)\nblock c(o:5 | k:3): y[o] sum= t[o + k]\n", 13, 15);
}

static void what_is_added_or_unknown_counts(void **state) {
    expect_share(state, PADDED_LINE "1.0)\nblock c(o:5 | k:3): y[o] sum= t[o + k]*w[k]\n", 1, 1);
    expect_share(state, PADDED_LINE "0.0)\nblock c(o:5 | k:3): y[o] max= t[o + k]*w[k]\n", 1, 1);
    expect_share(state, PADDED_LINE "0.0)\nblock c(o:5 | k:3): y[o] sum= t[o + k] + w[k]\n", 1, 1);
    expect_share(state, LINE "block c(o:5 | k:3): y[o] sum= select(x[o] < 0.0, x[o], 0.0)*w[k]\n",
                 1, 1);
    expect_share(state, /* one part depends on data, the other counts */
                 LINE "block c(o:5 | k:3): y[o] sum= "
                      "select(and(x[o] < 0.0, 1 <= o), x[o], 0.0)*w[k]\n",
                 4, 5);
}

/* A 3x3 window over 7x7 of 1 and 2 rows of padding: rows and columns are counted apart. */
static void dimensions_are_counted_apart(void **state) {
    expect_share(state,
                 "program t\ninput x: f32[2,7,7]\nconstant w: f32[4,2,3,3]\noutput y: f32[4,7,7]\n"
                 "temp t: f32[2,9,9]\n"
                 "block pad(c:2, h:9, w:9): t[c, h, w] = select(and(and(1 <= h, h < 8), "
                 "and(1 <= w, w < 8)), x[c, h - 1, w - 1], 0.0)\n"
                 "block c(o:4, h:7, w:7 | i:2, kh:3, kw:3): y[o, h, w] sum= "
                 "t[i, h + kh, w + kw]*w[o, i, kh, kw]\n",
                 19 * 19, 21 * 21);
}

/* Where both the row and the column enter, points are tried together: a triangle. Of a sum over
 * more points than can be tried, all count. */
static void iterators_that_one_condition_joins_are_counted_together(void **state) {
    expect_share(state,
                 "program t\ninput x: f32[4,4]\noutput y: f32[4]\n"
                 "block c(i:4 | j:4): y[i] sum= select(j <= i, x[i, j], 0.0)\n",
                 10, 16);
    expect_share(state,
                 "program t\ninput x: f32[4096]\noutput y: f32[4096]\n"
                 "block c(i:4096 | j:4096): y[i] sum= select(j <= i, x[j], 0.0)\n",
                 1, 1);
}

/* A transposed convolution that tries all taps: only every second one meets an element. */
static void strides_of_zeros_are_counted(void **state) {
    expect_share(state,
                 LINE
                 "block c(o:5 | k:3): y[o] sum= select(and(floormod(o + k, 2) == 0, o + k < 6), "
                 "x[floordiv(o + k, 2)], 0.0)*w[k]\n",
                 7, 15);
}

static void operations_are_counted_with_and_without(void **state) {
    kiln_program *p =
        parse(*state, PADDED_LINE "0.0)\nblock c(o:5 | k:3): y[o] sum= t[o + k]*w[k]\n");
    const uint32_t exprs = p->expr.count;
    assert_true(kiln_program_flops(p) == 2 * 13);
    assert_true(kiln_program_flops_with_zeros(p) == 2 * 15);
    assert_int_equal(p->expr.count, exprs); /* nothing is made in the program itself */
}

static void the_condition_of_a_term_joins_all_factors(void **state) {
    kiln_program *p = *state;
    kiln_expr i = var(p, "i", 8), one = kiln_expr_float(p, KILN_F32, 1.5),
              zero = kiln_expr_zero(p, KILN_F32);
    kiln_expr low = compare(p, KILN_EXPR_LE, kiln_expr_index(p, 2), i),
              high = compare(p, KILN_EXPR_LT, i, kiln_expr_index(p, 6));
    kiln_expr a = kiln_expr_select(p, low, kiln_expr_cast(p, KILN_F32, i), zero),
              b = kiln_expr_select(p, high, one, zero);
    expect_text(p, kiln_zeros_unless(p, kiln_expr_binary(p, KILN_EXPR_MUL, a, b)),
                "and(2 <= i, i < 6)");
    assert_int_equal(kiln_zeros_unless(p, kiln_expr_binary(p, KILN_EXPR_ADD, a, b)), 0);
    assert_int_equal(kiln_zeros_unless(p, one), 0);
    expect_text(p, kiln_zeros_unless(p, kiln_expr_unary(p, KILN_EXPR_TF32, b)), "i < 6");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(taps_on_a_padding_do_not_count),
        PROGRAM_TEST(what_is_added_or_unknown_counts),
        PROGRAM_TEST(dimensions_are_counted_apart),
        PROGRAM_TEST(iterators_that_one_condition_joins_are_counted_together),
        PROGRAM_TEST(strides_of_zeros_are_counted),
        PROGRAM_TEST(operations_are_counted_with_and_without),
        PROGRAM_TEST(the_condition_of_a_term_joins_all_factors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
